# The best rows of a query so far (see best.pyx).
from libc.float cimport FLT_MAX
from libc.stdint cimport INT32_MIN, INT64_MIN, int32_t, int64_t
from libc.string cimport memcpy

cdef enum:
    # To find at most this number of rows, entries are a heap. To find more rows, entries are a list, which is shortened
    # when it is full. A query of a base of 10,000 x 128 takes 6.9 us with a heap of 10 entries, 7.7 us with a list for
    # 10 rows; for 20 rows 9.7 and 9.3 us, for 64 rows 19.8 and 13.3 us (Zen 5).
    MOST_OF_HEAP = 16


# A row of the base, by its running index. A larger key is better. For equal keys the lower index is better.
cdef struct Entry:
    int64_t key, index


# The best rows of a query so far. When the query has enough entries, a row enters only if its key is above `worst`.
# Rows are found in the order of their indices, so the first of several rows with equal keys stays. `threshold` and
# `limit`, for csrc/neighbors/above_body.h, follow from `worst`.
cdef struct Best:
    Entry *entries
    int64_t count, worst
    int32_t threshold
    float limit


cdef inline int64_t entries_room(int64_t most) noexcept nogil:
    """Return the number of entries for which a query needs memory. Half of the memory is for sorting and merging."""
    return 2 * most_listed(most)


cdef inline int64_t most_listed(int64_t most) noexcept nogil:
    """Return the maximum number of entries of a shortened list. Keeping exactly the best rows would take longer."""
    return most + most // 8


cdef inline int64_t key_of_real(double x) noexcept nogil:
    """Map a finite number to an integer, so that integers have the order of the numbers."""
    cdef int64_t bits
    memcpy(&bits, &x, sizeof(bits))
    return bits if bits >= 0 else bits ^ <int64_t>0x7fffffffffffffff


cdef inline double real_of_key(int64_t key) noexcept nogil:
    """Return the number with this key."""
    cdef double x
    if key < 0:
        key ^= <int64_t>0x7fffffffffffffff
    memcpy(&x, &key, sizeof(x))
    return x


cdef inline void set_empty(Best *best, Entry *entries) noexcept nogil:
    best.entries, best.count, best.worst = entries, 0, INT64_MIN
    best.threshold, best.limit = INT32_MIN, -FLT_MAX


cdef bint insert_in_heap(Best *best, int64_t most, Entry entry) noexcept nogil
cdef void shorten(Best *best, int64_t most) noexcept nogil
cdef void merge(Best *best, int64_t most, Best *other) noexcept nogil
cdef void finish_best(Best *best, int64_t most) noexcept nogil


cdef inline bint insert(Best *best, int64_t most, Entry entry) noexcept nogil:
    """Insert an entry whose key is above `worst`, and whose index is above all others. Return whether `worst` has
    changed."""
    cdef bint shortened = False
    if most <= MOST_OF_HEAP:
        return insert_in_heap(best, most, entry)
    if best.count == entries_room(most):
        shorten(best, most)
        shortened = True
    best.entries[best.count] = entry
    best.count += 1
    return shortened
