"""The search multiplies queries by blocks of base rows, and examines only scores above a threshold.

Each thread has a range of the base and goes through it block by block::

    search_part     the blocks of one thread
      search_block    multiply all queries by a block of base rows, into a buffer in the L2 cache
        scan_sums       find each query's sums above its threshold (csrc/neighbors/above_body.h); most blocks have none
          insert          update the query's best rows (best.pyx), which determine the next threshold

If a mask excludes most rows of a block, the search copies the remaining rows, and multiplies only the copies. For
Hamming distances, a separate kernel (hamming.pyx) takes the place of the product.

The best rows of a query are the best of all rows that the threads have found. Rows are ordered by score and then by
index, without ties, so results do not depend on threads, blocks or shards.

The key of a row is an integer, and larger keys are better::

    inner product       the product
    squared distance    |q|^2 minus the distance
    Hamming distance d  ~d, which is also the sum that the kernel stores
    cosine              the bits of s / sqrt(|q|^2 * |x|^2) in f64, mapped to an integer of the same order

Keys of 32 bits and their indices are short items (best.pxd). Cosines are
compared with a threshold in f32 that is slightly too low, so that no row is lost by rounding.
"""

from libc.float cimport FLT_MAX
from libc.math cimport sqrt
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport UINT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from int8blas.core.kernels cimport (
    I8_COSINE, I8_GROUP, I8_HAMMING, I8_PANEL, I8_SQEUCLIDEAN, i8_above_args, i8_hamming_args)
from int8blas.core.memory cimport ALIGNMENT, LINE, acquire, allocate, carve, free, release
from int8blas.core.split cimport ceil_div, share
from int8blas.core.threads cimport THREAD_BYTES, parallel_for, threads_for_bytes
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.operand cimport SIGN_BIT, address
from int8blas.gemm.packing cimport squares_of_panel
from int8blas.gemm.problem cimport Panels, Problem, slice_panels
from int8blas.neighbors.best cimport (
    MOST_OF_HEAP, Best, Entry, Item, append, finish_best, index_of, insert, insert_best, key_of, key_of_real, merge,
    rank_of_key, real_of_key, set_empty)

cdef enum:
    # SUMS_BYTES is the size of a block's sums, a quarter of a usual L2 cache. 64 queries of 20,000 x 128 take 737 us
    # with 64 KiB, 739 us with 256 KiB and 719 us with 1 MiB. A block has from LEAST_ROWS to MOST_ROWS rows. 256 queries
    # of 20,000 x 128 take 2.93 ms with LEAST_ROWS = 64, 2.91 ms with 128 and 3.01 ms with 256. One query of 50,000 x
    # 128 (squared distances) takes 93 us with MOST_ROWS = 1024, 82 us with 8192 and 83 us with 65,536 (AVX512-VNNI, Zen
    # 5).
    SUMS_BYTES = 1 << 18
    LEAST_ROWS = 128
    MOST_ROWS = 8192
    # The kernel compares SCANNED sums at a time with one threshold. While a query has found too few rows, every row is
    # among its best rows, so the kernel compares FIRST_SCANNED sums at a time. For 16 queries of 20,000 x 64, SCANNED =
    # 256 and 1024 take 138 us, and 8192 takes 158 us. For 200 rows of 5000 x 64, FIRST_SCANNED = 32 takes 143 us, 128
    # takes 129 us and 1024 takes 145 us (Zen 5).
    SCANNED = 1024
    FIRST_SCANNED = 128
    # Bytes of a block's copied rows, half of a usual L2 cache.
    COPIED_BYTES = 1 << 19
    # Copying a row takes as long as multiplying it by COPYING queries. If a mask leaves a tenth of 500,000 x 384, a
    # search for 4 queries takes 84 ms with copies and 75 ms without copies. A search for 16 queries takes 77 ms with
    # copies and 127 ms without copies (AVX512-VNNI).
    COPYING = 40
    # The maximum number of items that one thread sorts. If there are more items, several threads sort them. One thread
    # takes 0.5 ms to find and sort 2**16 items: 256 rows for each of 256 queries, among 600 rows (Zen 5).
    FINISHED_ITEMS = 1 << 16

# The multiply-adds of each thread in a step, which take 25 to 100 ms. The search can be stopped after each step.
# Threads wait for each other at the end of a step, so short steps would be slow if other programs use the cores.
cdef double STEP_WORK = <double>(<int64_t>1 << 32)
# The relative error of a comparison of cosines in f32: three roundings of 2**-24 (1.8e-7), and a margin.
cdef double SLACK = 2e-6


# One thread's memory.
cdef struct Room:
    char *sums                  # [queries][rows of a block], s32 or s64
    int64_t *squares            # sums of squares of the rows of a block
    int32_t *short_squares
    float *lengths
    uint64_t *found
    # Copied rows as panels, with their sums and no-saturation proofs, and the running indices of the rows (`numbers`).
    uint8_t *panels
    int64_t *col_sums
    uint8_t *certified
    int64_t *numbers


# Rows of a shard from row `first` on, or copies of rows of a shard.
cdef struct Block:
    int64_t first, rows
    int64_t index               # running index of the first row
    bint copied
    const int64_t *squares


cdef inline int64_t shard_panels(const Search *s, int64_t i) noexcept nogil:
    """Return the number of panels of a shard."""
    return (s.shards[i + 1].first_panel if i + 1 < s.shard_count else s.panels) - s.shards[i].first_panel


cdef inline ptrdiff_t sum_bytes(const Search *s) noexcept nogil:
    """Return the bytes of a sum of products."""
    return 8 if s.wide else 4


cdef inline int64_t block_rows(const Search *s) noexcept nogil:
    """Return the rows of a block, a multiple of whole panels."""
    cdef int64_t rows = SUMS_BYTES // (sum_bytes(s) * s.queries)
    return max(<int64_t>LEAST_ROWS, min(<int64_t>MOST_ROWS, rows // LEAST_ROWS * LEAST_ROWS))


cdef inline int64_t panel_bytes(const Search *s) noexcept nogil:
    """Return the bytes of a packed panel."""
    return ceil_div(s.k, I8_GROUP) * I8_GROUP * I8_PANEL


cdef inline int64_t copied_rows(const Search *s) noexcept nogil:
    """Return the maximum number of rows that are copied for a block, in whole panels: one panel if no mask excludes
    rows."""
    if s.excluded is NULL:
        return I8_PANEL
    return min(block_rows(s), max(<int64_t>1, COPIED_BYTES // max(<int64_t>1, panel_bytes(s))) * I8_PANEL)


cdef inline ptrdiff_t sums_row(const Search *s) noexcept nogil:
    """Return the bytes from one query's sums to the next query's sums. The bytes include an extra cache line, because
    with a power of two all queries would use the same cache sets."""
    return block_rows(s) * sum_bytes(s) + LINE


cdef int64_t step_panels(const Search *s) noexcept nogil:
    """Return the number of panels of a step: at least one block for each thread."""
    cdef double rows = STEP_WORK * s.parts / (<double>s.queries * (s.k + 1))
    return <int64_t>max(<double>(s.parts * block_rows(s)), min(rows, <double>s.panels * I8_PANEL)) // I8_PANEL


cdef int parts_for(const Search *s, int threads) noexcept nogil:
    """Return the number of threads for which the search has enough work, at most `threads`."""
    cdef double rows = <double>s.panels * I8_PANEL
    return threads_for_bytes(rows * s.queries * (s.k + 1), s.kernels.tuning.thread_work, rows * s.k, THREAD_BYTES,
                             min(<double>threads, rows / LEAST_ROWS))


cdef void begin(Search *s, char *items) noexcept nogil:
    """Start a search that has no best rows yet. `items` has room for each query of each part."""
    cdef int64_t i
    s.panel = 0
    for i in range(s.parts * s.queries):
        set_empty(&s.best[i], items + i * query_bytes(s))


cdef inline bint is_excluded(const Search *s, int64_t index) noexcept nogil:
    """Return whether a mask, or the range of excluded rows, excludes a row."""
    if s.excluded is not NULL:
        return s.excluded[index]
    return s.exclude_first <= index < s.exclude_end


cdef bint is_wholly_excluded(const Search *s, int64_t first, int64_t end) noexcept nogil:
    """Return whether all rows of a range are excluded."""
    cdef int64_t i
    if s.excluded is NULL:
        return s.exclude_first <= first and end <= s.exclude_end
    for i in range(first, end):
        if not s.excluded[i]:
            return False
    return True


cdef inline int64_t key_of_sum(const Search *s, int64_t sum_, int64_t query, int64_t squares) noexcept nogil:
    """Return the key of a row's score, from the row's sum of products and sum of squares: a larger key is better."""
    cdef double length
    if not needs_squares(s):
        return sum_
    if s.metric == I8_SQEUCLIDEAN:
        return 2 * sum_ - squares
    length = sqrt(<double>s.query_squares[query] * <double>squares)
    return key_of_real(<double>sum_ / length if length > 0 else 0.0)


cdef void set_threshold(const Search *s, Best *best, int64_t query) noexcept nogil:
    """Set the threshold that a sum must exceed for a rank below `bound`."""
    cdef double worst
    cdef Entry entry
    if s.short_items:
        best.threshold = <int32_t>key_of(&best.bound)
        return
    entry.rank = best.bound
    if s.metric != I8_COSINE:
        # Searches with s64 sums ignore `threshold`.
        best.threshold = <int32_t>key_of(&entry)
        return
    worst = real_of_key(key_of(&entry))
    worst *= 1 - SLACK if worst >= 0 else 1 + SLACK
    # For a query of zeros all cosines are 0, and the first rows are the best rows.
    best.limit = <float>(worst * sqrt(<double>s.query_squares[query])) if s.query_squares[query] > 0 else FLT_MAX


cdef inline void offer(const Search *s, Best *best, int64_t query, int64_t sum_, int64_t squares,
                       int64_t index) noexcept nogil:
    """Insert a row into a query's best rows if it is good enough."""
    cdef Entry entry
    if is_excluded(s, index):
        return
    entry.rank, entry.index = rank_of_key(key_of_sum(s, sum_, query, squares)), index
    if entry.rank < best.bound and insert(best, s.most, <Entry *>best.items, entry):
        set_threshold(s, best, query)


cdef inline int64_t index_of_row(const Room *w, const Block *b, int64_t row) noexcept nogil:
    """Return the running index of a row of a block."""
    return w.numbers[row] if b.copied else b.index + row


cdef int64_t keep_included(const Search *s, const Room *w, const Block *b, int64_t count) noexcept nogil:
    """Remove the excluded rows from the found short items, and set the indices of copied rows. Return the number of
    items."""
    cdef int64_t i, kept = 0
    cdef uint64_t item
    for i in range(count):
        item = w.found[i]
        if b.copied:
            item = item >> 32 << 32 | <uint64_t>w.numbers[<uint32_t>item]
        w.found[kept] = item
        kept += not is_excluded(s, <uint32_t>item)
    return kept


cdef bint insert_found(const Search *s, const Room *w, Best *best, int64_t count) noexcept nogil:
    """Insert the found short items into a query's best rows. Return whether the bound has changed."""
    cdef uint64_t *items = <uint64_t *>best.items
    cdef bint changed = False
    cdef int64_t i
    if s.most > MOST_OF_HEAP:
        return append(best, s.most, items, w.found, count)
    if s.most == 1:
        return insert_best(best, items, w.found, count)
    for i in range(count):
        if w.found[i] < best.bound:
            changed |= insert(best, s.most, items, w.found[i])
    return changed


cdef void scan_sums(const Search *s, const Room *w, const Block *b, Best *best, int64_t query,
                    const int32_t *sums) noexcept nogil:
    """Insert the rows of a block whose sums exceed a query's threshold into the query's best rows."""
    cdef int64_t first = 0, count, i, j
    cdef i8_above_args t
    cdef bint excludes = s.excluded is not NULL or s.exclude_first < s.exclude_end
    t.found, t.single = w.found, s.most == 1 and not excludes
    while first < b.rows:
        t.count = min(<int64_t>(SCANNED if best.bound < UINT64_MAX or t.single else FIRST_SCANNED), b.rows - first)
        t.sums, t.squares, t.lengths = sums + first, w.short_squares + first, w.lengths + first
        t.threshold, t.limit = best.threshold, best.limit
        t.first = b.index + first if s.short_items and not b.copied else first
        count = s.kernels.neighbors.above[s.metric](&t)
        first += t.count
        if s.short_items:
            if excludes:
                count = keep_included(s, w, b, count)
            if insert_found(s, w, best, count):
                set_threshold(s, best, query)
            continue
        for i in range(count):
            j = <uint32_t>w.found[i]
            offer(s, best, query, sums[j], b.squares[j] if b.squares is not NULL else 0, index_of_row(w, b, j))


cdef void scan_wide_sums(const Search *s, const Room *w, const Block *b, Best *best, int64_t query,
                         const int64_t *sums) noexcept nogil:
    """Insert the rows of a block into a query's best rows, if their s64 sums are good enough. K is so long that the
    comparisons take hardly any time compared with the product."""
    cdef int64_t j
    for j in range(b.rows):
        offer(s, best, query, sums[j], b.squares[j] if b.squares is not NULL else 0, index_of_row(w, b, j))


cdef void set_squares(const Search *s, const Shard *shard, const Room *w, Block *b) noexcept nogil:
    """Set the sums of squares of a block's rows, in the form that comparisons use."""
    cdef const Problem *g = &shard.g
    cdef int64_t i
    b.squares = NULL
    if not needs_squares(s):
        return
    if b.copied:
        b.squares = w.squares
    elif shard.squares is not NULL:
        b.squares = shard.squares + b.first
    elif shard.matrix is not NULL:
        for i in range(ceil_div(b.rows, I8_PANEL)):
            squares_of_panel(s.kernels, shard.matrix, b.first // I8_PANEL + i, w.squares + i * I8_PANEL)
        b.squares = w.squares
    else:
        s.kernels.packing.row_squares(w.squares, b.rows, g.k, address(&g.b, 0, b.first), g.b.column, g.b.row,
                                      g.b.sign_flip == 0)
        b.squares = w.squares
    if s.wide:
        return
    if s.metric == I8_SQEUCLIDEAN:
        for i in range(b.rows):
            w.short_squares[i] = <int32_t>b.squares[i]
    else:
        for i in range(b.rows):
            w.lengths[i] = <float>sqrt(<double>b.squares[i])


cdef void set_block(const Search *s, const Shard *shard, const Room *w, const Block *b, Problem *own) noexcept nogil:
    """Set up the product of the queries with a block's rows. A block begins with a panel."""
    cdef int64_t panel = b.first // I8_PANEL
    own[0] = shard.g
    own.m, own.n, own.threads = s.queries, b.rows, 1
    own.a.data, own.a.row, own.a.column = s.rows, s.k, 1
    own.c.data, own.c.row, own.c.column = w.sums, sums_row(s), sum_bytes(s)
    if own.panels.data is NULL:
        own.b.data = address(&own.b, 0, b.first)
        return
    if b.copied:
        own.known.uncached = False
        own.panels.data, own.panels.col_sums, own.panels.certified = <int8_t *>w.panels, w.col_sums, w.certified
        own.panels.pair_sums = NULL
        own.panels.split.panels = NULL
        own.panels.as_s8 = NULL
    if own.a.sign_flip:
        # The queries are u8 already: the search has shifted them once for all blocks.
        own.a.data, own.a.sign_flip = s.unsigned_rows, 0
    if not b.copied:
        slice_panels(&own.panels, panel, own.k)


cdef void copy_rows(const Search *s, const Shard *shard, const Room *w, Block *b, int64_t first) noexcept nogil:
    """Copy the rows of a panel that are not excluded, with their sums, after the copied rows of `b`."""
    cdef const Panels *source = &shard.g.panels
    cdef int64_t groups = ceil_div(s.k, I8_GROUP), row, g
    cdef const uint32_t *x
    cdef uint32_t *y
    for row in range(first, min(first + I8_PANEL, shard.g.n)):
        if s.excluded[shard.first + row]:
            continue
        x = <const uint32_t *>(source.data + row // I8_PANEL * source.step) + row % I8_PANEL
        y = <uint32_t *>(w.panels + b.rows // I8_PANEL * source.step) + b.rows % I8_PANEL
        for g in range(groups):
            y[g * I8_PANEL] = x[g * I8_PANEL]
        w.numbers[b.rows], w.col_sums[b.rows] = shard.first + row, source.col_sums[row]
        if shard.squares is not NULL:
            w.squares[b.rows] = shard.squares[row]
        w.certified[b.rows // I8_PANEL] &= source.certified[row // I8_PANEL]
        b.rows += 1


cdef int64_t count_left(const Search *s, int64_t first, int64_t end) noexcept nogil:
    """Return the number of rows that a mask does not exclude."""
    cdef int64_t left = 0, i
    for i in range(first, end):
        left += not s.excluded[i]
    return left


cdef int64_t take_block(const Search *s, const Shard *shard, const Room *w, Block *b, int64_t panels) noexcept nogil:
    """Set the rows of the next block, which begins at row b.first of a shard. `panels` is the number of panels from
    this row to the end of the shard. Return the number of panels of the block. If a mask leaves few rows, copy these
    rows, and let the block have more panels."""
    cdef int64_t some = min(block_rows(s) // I8_PANEL, panels), left
    b.index = shard.first + b.first
    b.rows = min(some * I8_PANEL, shard.g.n - b.first)
    b.copied = False
    if s.excluded is NULL or shard.matrix is NULL:
        return some
    left = count_left(s, b.index, b.index + b.rows)
    if left == 0 or COPYING * left >= (b.rows - left) * s.queries:
        return some
    b.copied, b.rows, some = True, 0, 0
    memset(w.certified, 1, copied_rows(s) // I8_PANEL)
    while some < panels and b.rows + I8_PANEL <= copied_rows(s):
        copy_rows(s, shard, w, b, b.first + some * I8_PANEL)
        some += 1
    return some


cdef void set_hamming_sums(const Search *s, const Shard *shard, const Room *w, const Block *b) noexcept nogil:
    """Store ~d for the Hamming distances d of all queries and a block's rows. Pack plain rows first."""
    cdef const Problem *g = &shard.g
    cdef i8_hamming_args t
    cdef int64_t i
    t.rows, t.columns, t.groups, t.flip = s.queries, b.rows, ceil_div(s.k, I8_GROUP), -1
    t.x, t.x_row, t.dst, t.dst_row = s.rows, t.groups * I8_GROUP, <int32_t *>w.sums, sums_row(s) // 4
    if shard.matrix is not NULL:
        t.panels = <const int8_t *>w.panels if b.copied else g.panels.data + b.first // I8_PANEL * g.panels.step
        s.kernels.hamming(&t)
        return
    t.panels = <int8_t *>w.panels
    for i in range(ceil_div(b.rows, I8_PANEL)):
        t.columns = min(<int64_t>I8_PANEL, b.rows - i * I8_PANEL)
        s.kernels.packing.pack_panel(w.panels, I8_PANEL, <int>t.columns, s.k, address(&g.b, 0, b.first + i * I8_PANEL),
                                     g.b.column, g.b.row, SIGN_BIT)
        s.kernels.hamming(&t)
        t.dst += t.columns


cdef int search_block(const Search *s, const Shard *shard, const Room *w, Block *b, Best *best) noexcept nogil:
    """Search the rows of a block. Return 0, or -1 if there is no memory."""
    cdef Problem own
    cdef int64_t query
    cdef const char *sums
    if not b.copied and is_wholly_excluded(s, b.index, b.index + b.rows):
        return 0
    if s.metric == I8_HAMMING:
        set_hamming_sums(s, shard, w, b)
    else:
        set_block(s, shard, w, b, &own)
        if gemm(&own):
            return -1
    set_squares(s, shard, w, b)
    for query in range(s.queries):
        sums = w.sums + query * sums_row(s)
        if s.wide:
            scan_wide_sums(s, w, b, &best[query], query, <const int64_t *>sums)
        else:
            scan_sums(s, w, b, &best[query], query, <const int32_t *>sums)
    return 0


cdef size_t lay_out(const Search *s, Room *w, char *memory) noexcept nogil:
    """Set the pointers of `w` into `memory`, and return the size in bytes."""
    cdef char *start = memory
    cdef int64_t rows = block_rows(s)
    w.sums = <char *>carve(&memory, s.queries * sums_row(s))
    w.squares = <int64_t *>carve(&memory, 8 * rows)
    w.short_squares = <int32_t *>carve(&memory, 4 * rows)
    w.lengths = <float *>carve(&memory, 4 * rows)
    w.found = <uint64_t *>carve(&memory, 8 * SCANNED)
    w.panels = <uint8_t *>carve(&memory, copied_rows(s) // I8_PANEL * panel_bytes(s))
    w.col_sums = <int64_t *>carve(&memory, 8 * copied_rows(s))
    w.certified = <uint8_t *>carve(&memory, copied_rows(s) // I8_PANEL)
    w.numbers = <int64_t *>carve(&memory, 8 * copied_rows(s))
    return memory - start


# A step: the panels before `end` that have not been searched.
cdef struct StepJob:
    const Search *s
    int64_t end


cdef int search_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Search one thread's part of a step. Return 0, or -1 if there is no memory."""
    cdef const Search *s = (<const StepJob *>job).s
    cdef int64_t panels = (<const StepJob *>job).end - s.panel
    cdef int64_t panel = s.panel + share(panels, part, parts), end = s.panel + share(panels, part + 1, parts)
    cdef int64_t i = 0, local
    cdef const Shard *shard
    cdef Room w
    cdef Block b
    cdef int status = 0
    cdef char *memory = <char *>acquire(lay_out(s, &w, <char *>ALIGNMENT))
    if memory is NULL:
        return -1
    lay_out(s, &w, memory)
    while panel < end and status == 0:
        while panel >= s.shards[i].first_panel + shard_panels(s, i):
            i += 1
        shard = &s.shards[i]
        local = panel - shard.first_panel
        b.first = local * I8_PANEL
        panel += take_block(s, shard, &w, &b, min(end - panel, shard_panels(s, i) - local))
        status = search_block(s, shard, &w, &b, s.best + part * s.queries)
    release(memory)
    return status


cdef int search_step(Search *s, int64_t panels) noexcept nogil:
    """Search the next `panels` panels with all threads. Return 0, or -1 if there is no memory."""
    cdef StepJob job
    cdef int status
    job.s, job.end = s, min(s.panel + panels, s.panels)
    status = parallel_for(search_part, &job, s.parts, s.parts)
    s.panel = job.end
    return status


cdef inline void finish_items(const Search *s, int64_t query, Item *items) noexcept nogil:
    """Sort the best rows of a query that each thread has found, and merge these rows into `items` of the first
    thread."""
    cdef Best *best = s.best + query
    cdef Best *other
    cdef int64_t part
    finish_best(best, s.most, items)
    for part in range(1, s.parts):
        other = best + part * s.queries
        finish_best(other, s.most, <Item *>other.items)
        merge(best, s.most, other, items)


cdef int finish_query(const void *job, int64_t query, int64_t _queries) noexcept nogil:
    """Sort and merge the best rows of a query. Return 0."""
    cdef const Search *s = <const Search *>job
    if s.short_items:
        finish_items(s, query, <uint64_t *>s.best[query].items)
    else:
        finish_items(s, query, <Entry *>s.best[query].items)
    return 0


cdef void finish(Search *s) noexcept nogil:
    """Merge and sort the best rows of each query, into the items of the first part."""
    cdef bint pays = <double>s.parts * s.queries * s.most > FINISHED_ITEMS
    parallel_for(finish_query, s, s.queries, s.parts if pays else 1)


# The memory of search_packed, for a batch of at most MOST_QUERIES queries.
cdef struct Queries:
    uint8_t *rows               # shifted to u8, contiguous
    int64_t *squares
    Best *best
    char *items


cdef size_t lay_out_queries(const Search *s, Queries *q, char *memory) noexcept nogil:
    """Place the arrays of `q` in `memory`, and return their size in bytes."""
    cdef char *start = memory
    q.rows = <uint8_t *>carve(&memory, s.queries * s.k)
    q.squares = <int64_t *>carve(&memory, 8 * s.queries)
    q.best = <Best *>carve(&memory, s.parts * s.queries * sizeof(Best))
    q.items = <char *>carve(&memory, s.parts * s.queries * query_bytes(s))
    return memory - start


cdef inline void store_items(const Search *s, int64_t query, const Item *items, int64_t *indices,
                             Score *scores) noexcept nogil:
    """Store the indices and scores of a query's best rows. The score is the key, or `start` minus the key."""
    cdef int64_t i, start = s.query_squares[query] if s.metric == I8_SQEUCLIDEAN else -1
    for i in range(s.most):
        indices[i] = index_of(&items[i])
    if s.metric == I8_COSINE:
        for i in range(s.most):
            scores[i] = <Score>real_of_key(key_of(&items[i]))
    elif s.metric == I8_INNER:
        for i in range(s.most):
            scores[i] = <Score>key_of(&items[i])
    else:
        for i in range(s.most):
            scores[i] = <Score>(start - key_of(&items[i]))


cdef void store_found(const Search *s, int64_t wanted, int64_t *indices, Score *scores) noexcept nogil:
    """Store the results in rows of `wanted` elements, with -1 and 0 after the last found row."""
    cdef int64_t query, i
    for query in range(s.queries):
        if s.short_items:
            store_items(s, query, <const uint64_t *>s.best[query].items, indices, scores)
        else:
            store_items(s, query, <const Entry *>s.best[query].items, indices, scores)
        for i in range(s.most, wanted):
            indices[i], scores[i] = -1, 0
        indices += wanted
        scores += wanted


cdef int search_packed(Search *s, const uint8_t *queries, ptrdiff_t row, bint is_signed, int64_t count, int64_t wanted,
                       int64_t *indices, double *scores) noexcept nogil:
    """Search packed shards without Python, for `count` queries `row` bytes apart. Return 0, or -1 if there is no
    memory."""
    cdef Queries q
    cdef char *memory
    cdef int64_t i, j
    cdef int status = 0
    s.queries = batch_size(s, count)
    memory = <char *>allocate(lay_out_queries(s, &q, <char *>ALIGNMENT))
    if memory is NULL:
        return -1
    lay_out_queries(s, &q, memory)
    s.rows, s.unsigned_rows, s.query_squares, s.best = q.rows, q.rows, q.squares, q.best
    while count > 0 and status == 0:
        s.queries = batch_size(s, count)
        s.kernels.packing.row_squares(q.squares, s.queries, s.k, queries, row, 1, is_signed)
        for i in range(s.queries):
            for j in range(s.k):
                q.rows[i * s.k + j] = queries[i * row + j] ^ (SIGN_BIT if is_signed else 0)
        begin(s, q.items)
        status = search_step(s, s.panels)
        finish(s)
        store_found(s, wanted, indices, scores)
        queries += s.queries * row
        indices += s.queries * wanted
        scores += s.queries * wanted
        count -= s.queries
    free(memory)
    return status
