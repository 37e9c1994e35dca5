"""The best rows of a query so far: a heap of a few rows, or a list of many rows.

A heap has the worst row on top, and the next better row replaces it. Replacing takes longer if the search finds more
rows. A list takes all rows above a threshold, in the order in which they are found. When it is full, the rows below a
new threshold are removed. So each row that enters the list is moved about twice, for any length of the list. At the end
the heap or the list is sorted, by key and then by index.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t
from libc.string cimport memcpy, memset

from int8blas.core.split cimport ceil_div

cdef enum:
    # The bits of a digit of keys for selecting. The number is small, because clearing and adding up the counts of all
    # digits takes time.
    SELECT_BITS = 8
    # The maximum number of bits of a digit for sorting.
    SORT_BITS = 11


cdef inline bint is_worse(const Entry *x, const Entry *y) noexcept nogil:
    return x.key < y.key or (x.key == y.key and x.index > y.index)


cdef inline void sift_down(Entry *heap, int64_t count, Entry entry) noexcept nogil:
    """Replace the top entry."""
    cdef int64_t at = 0, child = 1
    while child < count:
        if child + 1 < count and is_worse(&heap[child + 1], &heap[child]):
            child += 1
        if not is_worse(&heap[child], &entry):
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = entry


cdef bint insert_in_heap(Best *best, int64_t most, Entry entry) noexcept nogil:
    """Insert an entry as `insert` does."""
    cdef int64_t at
    if best.count == most:
        sift_down(best.entries, most, entry)
    else:
        at = best.count
        best.count += 1
        while at > 0 and is_worse(&entry, &best.entries[(at - 1) // 2]):
            best.entries[at] = best.entries[(at - 1) // 2]
            at = (at - 1) // 2
        best.entries[at] = entry
        if best.count < most:
            return False
    best.worst = best.entries[0].key
    return True


cdef inline int bits_of(uint64_t x) noexcept nogil:
    """Return the number of bits of x."""
    cdef int bits = 0
    while x:
        x >>= 1
        bits += 1
    return bits


cdef inline void find_range(const Best *best, int64_t *low, int64_t *high) noexcept nogil:
    """Find the smallest and the largest key."""
    cdef int64_t i, key
    low[0], high[0] = INT64_MAX, INT64_MIN
    for i in range(best.count):
        key = best.entries[i].key
        low[0] = key if key < low[0] else low[0]
        high[0] = key if key > high[0] else high[0]


cdef void shorten(Best *best, int64_t most) noexcept nogil:
    """Remove entries that are not among the `most` best, until there are at most `most_listed`. Keep their order.

    The number of keys with each leading digit tells which digit the worst of the `most` best entries has. Entries with
    a worse digit are removed. If too many entries have this digit, their next digits are counted."""
    cdef int64_t counts[1 << SELECT_BITS]
    cdef int64_t low, high, i, kept, digit, left = most
    cdef uint64_t from_high, span
    cdef int shift
    cdef bint is_tied
    cdef Entry entry
    if best.count <= most_listed(most):
        return
    find_range(best, &low, &high)
    while low < high:
        span = <uint64_t>high - <uint64_t>low
        shift = bits_of(span) - SELECT_BITS
        shift = shift if shift > 0 else 0
        memset(counts, 0, sizeof(counts))
        for i in range(best.count):
            from_high = <uint64_t>high - <uint64_t>best.entries[i].key
            if from_high <= span:
                counts[from_high >> shift] += 1
        digit = 0
        while counts[digit] < left:
            left -= counts[digit]
            digit += 1
        high = <int64_t>(<uint64_t>high - (<uint64_t>digit << shift))
        if span - (<uint64_t>digit << shift) >= (<uint64_t>1 << shift):
            low = <int64_t>(<uint64_t>high - ((<uint64_t>1 << shift) - 1))
        if most - left + counts[digit] <= most_listed(most):
            left = counts[digit]
            break
    # Keep all entries with keys above `worst`. If one key is left, keep the first `left` entries with this key, too.
    # Any branch in this loop would often be mispredicted.
    best.worst = low if low == high else low - 1
    left = left if low == high else 0
    kept = 0
    for i in range(best.count):
        entry = best.entries[i]
        is_tied = entry.key == best.worst
        best.entries[kept] = entry
        kept += (entry.key > best.worst) | (is_tied & (left > 0))
        left -= is_tied
    best.count = kept


cdef void sort_list(Best *best, Entry *scratch) noexcept nogil:
    """Sort the entries, best first, digit by digit from the last. Entries with equal keys keep their order."""
    cdef int64_t starts[1 << SORT_BITS]
    cdef int64_t low, high, i, some, at
    cdef Entry *source = best.entries
    cdef Entry *target = scratch
    cdef int bits, width, shift = 0
    cdef uint64_t mask, digit
    find_range(best, &low, &high)
    width = bits_of(<uint64_t>high - <uint64_t>low) if best.count else 0
    bits = <int>ceil_div(width, max(ceil_div(width, SORT_BITS), 1))
    mask = (<uint64_t>1 << bits) - 1
    while shift < width:
        memset(starts, 0, sizeof(starts[0]) << bits)
        for i in range(best.count):
            starts[(<uint64_t>high - <uint64_t>source[i].key) >> shift & mask] += 1
        at = 0
        for i in range(1 << bits):
            some = starts[i]
            starts[i] = at
            at += some
        for i in range(best.count):
            digit = (<uint64_t>high - <uint64_t>source[i].key) >> shift & mask
            target[starts[digit]] = source[i]
            starts[digit] += 1
        source, target = target, source
        shift += bits
    if source != best.entries:
        memcpy(best.entries, source, best.count * sizeof(Entry))


cdef void finish_best(Best *best, int64_t most) noexcept nogil:
    """Sort the entries, best first, and keep at most `most` entries."""
    cdef int64_t last
    cdef Entry entry
    if most > MOST_OF_HEAP:
        shorten(best, most)
        sort_list(best, best.entries + most_listed(most))
        best.count = min(best.count, most)
        return
    for last in range(best.count - 1, 0, -1):
        entry = best.entries[last]
        best.entries[last] = best.entries[0]
        sift_down(best.entries, last, entry)


cdef void merge(Best *best, int64_t most, Best *other) noexcept nogil:
    """Merge the finished entries of two objects into the first object."""
    cdef Entry *merged = best.entries + most_listed(most)
    cdef int64_t total = min(most, best.count + other.count), i = 0, j = 0, k
    for k in range(total):
        if j == other.count or (i < best.count and not is_worse(&best.entries[i], &other.entries[j])):
            merged[k] = best.entries[i]
            i += 1
        else:
            merged[k] = other.entries[j]
            j += 1
    memcpy(best.entries, merged, total * sizeof(Entry))
    best.count = total
