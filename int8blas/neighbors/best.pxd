# The best rows of a query so far (see best.pyx).
from libc.float cimport FLT_MAX
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, UINT64_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    # The maximum number of rows to find for which items are a heap. For more than MOST_OF_HEAP rows, items are a list,
    # which is shortened when it is full. A query of a base of 10,000 x 128 takes 6.9 us with a heap and 7.7 us with a
    # list for 10 rows, 9.7 and 9.3 us for 20 rows, and 19.8 and 13.3 us for 64 rows (Zen 5).
    MOST_OF_HEAP = 16


# A row of the base, by its running index. A smaller rank is better. Of two rows with equal ranks, the row with the
# lower index is better.
cdef struct Entry:
    uint64_t rank
    int64_t index


# An item is an Entry, or a short item: a u32 rank in the upper half and a u32 index in the lower half. The smaller
# short item is better. A short item has 8 bytes, so sorting moves less memory.
ctypedef fused Item:
    uint64_t
    Entry


# The best rows of a query so far. `bound` is UINT64_MAX at first. The search adds a row to the best rows only if the
# rank of the row's Entry, or the row's short item, is below `bound`. The search finds rows in the order of their
# indices, so the first of several rows with equal ranks stays.
# `threshold` and `limit`, for csrc/neighbors/above_body.h, follow from `bound`.
cdef struct Best:
    void *items
    int64_t count
    uint64_t bound
    int32_t threshold
    float limit


cdef inline int64_t items_room(int64_t most) noexcept nogil:
    """Return the number of items for which a query needs memory. Half of the memory is for sorting and merging."""
    return 2 * most_listed(most)


cdef inline int64_t most_listed(int64_t most) noexcept nogil:
    """Return how many items a shortened list may have. Shortening the list to exactly `most` items would take longer
    than stopping earlier."""
    return most + most // 8


cdef inline int64_t key_of_real(double x) noexcept nogil:
    """Map a finite number to an integer, so that integers have the order of the numbers."""
    cdef int64_t bits
    memcpy(&bits, &x, sizeof(bits))
    return bits if bits >= 0 else bits ^ <int64_t>0x7fffffffffffffff


cdef inline double real_of_key(int64_t key) noexcept nogil:
    """Return the number that `key_of_real` maps to this key."""
    cdef double x
    if key < 0:
        key ^= <int64_t>0x7fffffffffffffff
    memcpy(&x, &key, sizeof(x))
    return x


cdef inline uint64_t rank_of_key(int64_t key) noexcept nogil:
    """Return the rank of an Entry with this key. Larger keys have smaller ranks."""
    return <uint64_t>INT64_MAX - <uint64_t>key


cdef inline int64_t key_of(const Item *item) noexcept nogil:
    if Item is Entry:
        return <int64_t>(<uint64_t>INT64_MAX - item.rank)
    else:
        return <int32_t>(<uint32_t>INT32_MAX - <uint32_t>(item[0] >> 32))


cdef inline int64_t index_of(const Item *item) noexcept nogil:
    if Item is Entry:
        return item.index
    else:
        return <uint32_t>item[0]


cdef inline void set_empty(Best *best, void *items) noexcept nogil:
    best.items, best.count, best.bound = items, 0, UINT64_MAX
    best.threshold, best.limit = INT32_MIN, -FLT_MAX


cdef bint insert(Best *best, int64_t most, Item *items, Item item) noexcept nogil
cdef bint append(Best *best, int64_t most, uint64_t *items, const uint64_t *found, int64_t count) noexcept nogil
cdef bint insert_best(Best *best, uint64_t *items, const uint64_t *found, int64_t count) noexcept nogil
cdef void merge(Best *best, int64_t most, Best *other, Item *items) noexcept nogil
cdef void finish_best(Best *best, int64_t most, Item *items) noexcept nogil
