# A search for the nearest rows (see search.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport UINT32_MAX, int32_t, int64_t, uint8_t, uint64_t

from int8blas.core.kernels cimport I8_COSINE, I8_HAMMING, I8_INNER, I8_SQEUCLIDEAN, i8_kernels
from int8blas.gemm.packing cimport PackedMatrix
from int8blas.gemm.problem cimport Problem
from int8blas.neighbors.best cimport Best, Entry, items_room

cdef enum:
    # The maximum number of queries that are searched together. 1024 queries of 20,000 x 64 take 10.2 ms in batches of
    # 64, 9.5 ms in batches of 256 and 9.6 ms in one batch (AVX512-VNNI, Zen 5).
    MOST_QUERIES = 256
    # The maximum number of bytes of a thread's items: the size of a usual L2 cache. To find many rows, a search takes
    # fewer queries at a time. 256 queries for 1000 rows of 20,000 x 64 take 10.6 ms with 64 KiB, 9.9 ms with 1 MiB and
    # 10.0 ms with 16 MiB.
    ITEMS_BYTES = 1 << 20


# The types of scores.
ctypedef fused Score:
    int32_t
    int64_t
    double


# One matrix of the base, packed or plain. `g` is the product of all queries with the matrix; A and C are set later.
cdef struct Shard:
    Problem g
    int64_t first               # running index of its first row
    int64_t first_panel         # number of its first panel of 16 rows, over all shards
    const PackedMatrix *matrix  # the packed matrix, or NULL for an array
    const int64_t *squares      # sums of squares of the rows, or NULL if each block computes the sums


# A search: its queries, the base, and the best rows so far. All panels before `panel` have been searched.
cdef struct Search:
    const i8_kernels *kernels
    int metric                  # I8_INNER, I8_SQEUCLIDEAN, I8_COSINE or I8_HAMMING
    bint wide                   # whether sums are s64
    bint short_items            # whether best rows are short items; keys and indices then have 32 bits
    int64_t most                # rows to find for each query
    # Excluded rows, by running index: a range, a mask, or no rows.
    int64_t exclude_first, exclude_end
    const uint8_t *excluded
    int64_t shard_count, panels
    Shard *shards
    # Contiguous queries: `rows` are unchanged, and `unsigned_rows` are u8, for packed shards. For Hamming distances
    # `rows` have the form that i8_hamming_args describes.
    int64_t queries, k
    const uint8_t *rows
    const uint8_t *unsigned_rows
    const int64_t *query_squares
    int64_t panel
    int parts                   # threads; each thread keeps its own best rows
    Best *best                  # [parts][queries]


cdef int64_t step_panels(const Search *s) noexcept nogil
cdef void begin(Search *s, char *items) noexcept nogil
cdef int search_step(Search *s, int64_t panels) noexcept nogil
cdef void finish(Search *s) noexcept nogil
cdef int parts_for(const Search *s, int threads) noexcept nogil
cdef void store_found(const Search *s, int64_t wanted, int64_t *indices, Score *scores) noexcept nogil
cdef int search_packed(Search *s, const uint8_t *queries, ptrdiff_t row, bint is_signed, int64_t count, int64_t wanted,
                       int64_t *indices, double *scores) noexcept nogil


cdef inline int64_t term_bound(int metric, bint same_sign, bint is_signed) noexcept nogil:
    """Return the largest magnitude that one k can add to a score, for operands of equal or of different signedness."""
    if metric == I8_HAMMING:
        return 8
    if metric == I8_SQEUCLIDEAN:
        return 255 * 255 if same_sign else 383 * 383
    return 255 * 128 if not same_sign else 128 * 128 if is_signed else 255 * 255


cdef inline bint needs_squares(const Search *s) noexcept nogil:
    return s.metric == I8_SQEUCLIDEAN or s.metric == I8_COSINE


cdef inline bint takes_short_items(const Search *s, int64_t rows) noexcept nogil:
    """Return whether the keys, and the indices of `rows` rows, fit 32 bits."""
    return not s.wide and s.metric != I8_COSINE and rows <= UINT32_MAX


cdef inline int64_t query_bytes(const Search *s) noexcept nogil:
    """Return the bytes of a query's items."""
    return items_room(s.most) * <int64_t>(sizeof(uint64_t) if s.short_items else sizeof(Entry))


cdef inline int64_t batch_size(const Search *s, int64_t count) noexcept nogil:
    """Return the number of queries, at most `count`, that are searched together."""
    return min(count, max(<int64_t>1, min(<int64_t>MOST_QUERIES, ITEMS_BYTES // max(<int64_t>1, query_bytes(s)))))
