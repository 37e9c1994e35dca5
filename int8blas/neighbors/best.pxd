# The best rows of a query so far: a heap with the worst row on top.
from libc.float cimport FLT_MAX
from libc.math cimport sqrt
from libc.stdint cimport INT32_MIN, int32_t, int64_t
from libc.string cimport memcpy


# A row of the base, by its running index. A larger key is better; of equal keys the lower index is better.
cdef struct Entry:
    int64_t key, index


# A heap of `count` entries, and the thresholds for csrc/neighbors/above_body.h. Once the heap is full, a row must have
# a key above the worst to enter: rows come in the order of their indices, so of equal keys the first stays.
cdef struct Best:
    Entry *entries
    int64_t count
    int32_t threshold
    float limit


cdef inline int64_t key_of_real(double x) noexcept nogil:
    """Map a finite number to an integer, so that integers have the order of the numbers."""
    cdef int64_t bits
    memcpy(&bits, &x, sizeof(bits))
    return bits if bits >= 0 else bits ^ <int64_t>0x7fffffffffffffff


cdef inline double real_of_key(int64_t key) noexcept nogil:
    """Return the number that has this key."""
    cdef double x
    if key < 0:
        key ^= <int64_t>0x7fffffffffffffff
    memcpy(&x, &key, sizeof(x))
    return x


cdef inline void set_empty(Best *best, Entry *entries) noexcept nogil:
    best.entries, best.count = entries, 0
    best.threshold, best.limit = INT32_MIN, -FLT_MAX


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


cdef inline bint insert(Best *best, int64_t most, Entry entry) noexcept nogil:
    """Insert an entry if it is among the `most` best; return whether it is."""
    cdef int64_t at
    if best.count == most:
        if not is_worse(&best.entries[0], &entry):
            return False
        sift_down(best.entries, most, entry)
        return True
    at = best.count
    best.count += 1
    while at > 0 and is_worse(&entry, &best.entries[(at - 1) // 2]):
        best.entries[at] = best.entries[(at - 1) // 2]
        at = (at - 1) // 2
    best.entries[at] = entry
    return True


cdef inline void sort_heap(Best *best) noexcept nogil:
    """Sort the entries, best first; they are then no heap."""
    cdef int64_t last
    cdef Entry entry
    for last in range(best.count - 1, 0, -1):
        entry = best.entries[last]
        best.entries[last] = best.entries[0]
        sift_down(best.entries, last, entry)
