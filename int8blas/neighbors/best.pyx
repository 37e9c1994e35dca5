"""The best rows of a query so far: a heap of a few rows, or a list of many rows.

A heap has the worst row on top, and the next better row replaces the worst row. The more rows a heap has, the longer a
replacement takes. A list takes all rows below a bound, in the order in which they are found. When the list is full,
rows above a new bound are removed, so each row that enters the list is moved about twice, for any length of the list.
At the end the heap or the list is sorted, by rank and then by index.
"""

from libc.stdint cimport UINT64_MAX, int64_t, uint64_t
from libc.string cimport memcpy, memset

from int8blas.core.split cimport ceil_div

cdef enum:
    # The number of bits of a digit of a rank in a radix selection. A digit has few bits, because clearing and adding up
    # the counts of all digits takes time.
    SELECT_BITS = 8
    # The maximum number of bits of a digit of a rank in a radix sort. The counts of all digits of 11 bits take 16 KiB
    # of the L1 cache, and a rank of 32 bits has three digits.
    SORT_BITS = 11


cdef inline uint64_t rank_of(const Item *item) noexcept nogil:
    """Return the integer that orders an item: the rank if the item is an Entry, or the short item itself."""
    if Item is Entry:
        return item.rank
    else:
        return item[0]


cdef inline uint64_t floor_of(uint64_t rank, const Item *_item) noexcept nogil:
    """Return the bound after an item of this rank. A later row has a higher index, so it needs a smaller rank."""
    if Item is Entry:
        return rank
    else:
        return rank >> 32 << 32


cdef inline bint is_worse(const Item *x, const Item *y) noexcept nogil:
    if Item is Entry:
        return x.rank > y.rank or (x.rank == y.rank and x.index > y.index)
    else:
        return x[0] > y[0]


cdef inline void sift_down(Item *heap, int64_t count, Item item) noexcept nogil:
    """Replace the top item of a heap by another item."""
    cdef int64_t at = 0, child = 1
    while child < count:
        if child + 1 < count and is_worse(&heap[child + 1], &heap[child]):
            child += 1
        if not is_worse(&heap[child], &item):
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = item


cdef inline bint insert_in_heap(Best *best, int64_t most, Item *heap, Item item) noexcept nogil:
    """Insert an item in a heap as `insert` does."""
    cdef int64_t at
    if best.count == most:
        sift_down(heap, most, item)
    else:
        at = best.count
        best.count += 1
        while at > 0 and is_worse(&item, &heap[(at - 1) // 2]):
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = item
        if best.count < most:
            return False
    best.bound = floor_of(rank_of(&heap[0]), heap)
    return True


cdef bint insert(Best *best, int64_t most, Item *items, Item item) noexcept nogil:
    """Insert an item that is below `bound`, with an index above all earlier indices. Return whether `bound` has
    changed."""
    cdef bint shortened = False
    if most <= MOST_OF_HEAP:
        return insert_in_heap(best, most, items, item)
    if best.count == items_room(most):
        shorten(best, most, items)
        shortened = True
    items[best.count] = item
    best.count += 1
    return shortened


cdef bint append(Best *best, int64_t most, uint64_t *items, const uint64_t *found, int64_t count) noexcept nogil:
    """Append the short items that are below `bound` to a list. Their indices must rise, and be above all indices in the
    list. Return whether `bound` has changed."""
    cdef bint shortened = False
    cdef int64_t done = 0, kept, some, i
    cdef uint64_t bound
    while True:
        some = min(count - done, items_room(most) - best.count)
        kept, bound = best.count, best.bound
        for i in range(done, done + some):
            items[kept] = found[i]
            kept += found[i] < bound
        best.count = kept
        done += some
        if done == count:
            return shortened
        if best.count == items_room(most):
            shorten(best, most, items)
            shortened = True


cdef bint insert_best(Best *best, uint64_t *items, const uint64_t *found, int64_t count) noexcept nogil:
    """Replace the only item by the best of some short items, if the best item is below `bound`. Return whether `bound`
    has changed. A heap would take a branch for each item."""
    cdef uint64_t least = UINT64_MAX
    cdef int64_t i
    for i in range(count):
        least = found[i] if found[i] < least else least
    if least >= best.bound:
        return False
    items[0], best.count, best.bound = least, 1, floor_of(least, items)
    return True


cdef inline int bits_of(uint64_t x) noexcept nogil:
    """Return the number of bits of x."""
    cdef int bits = 0
    while x:
        x >>= 1
        bits += 1
    return bits


cdef inline void find_range(const Item *items, int64_t count, uint64_t *low, uint64_t *high) noexcept nogil:
    """Find the smallest and the largest rank."""
    cdef int64_t i
    cdef uint64_t rank, least = UINT64_MAX, largest = 0
    for i in range(count):
        rank = rank_of(&items[i])
        least = rank if rank < least else least
        largest = rank if rank > largest else largest
    low[0], high[0] = least, largest


cdef inline int64_t keep_up_to(Item *items, int64_t count, uint64_t high, int64_t left) noexcept nogil:
    """Keep the items below `high`, and the first `left` items of rank `high`. Later items of rank `high` are not among
    the best items. Return the number of kept items. Branches in the loops would often be mispredicted."""
    cdef int64_t kept = 0, i
    cdef bint is_tied
    cdef Item item
    if Item is Entry:
        for i in range(count):
            item = items[i]
            is_tied = item.rank == high
            items[kept] = item
            kept += (item.rank < high) | (is_tied & (left > 0))
            left -= is_tied
    else:  # no two short items are equal
        for i in range(count):
            item = items[i]
            items[kept] = item
            kept += item <= high
    return kept


cdef void shorten(Best *best, int64_t most, Item *items) noexcept nogil:
    """Remove items that are not among the `most` best, until at most `most_listed` remain. Keep their order.

    The counts of the leading digits of ranks tell which digit the worst of the `most` best items has. Items with a
    worse digit are removed. If too many items have the digit of the worst item, their next digits are counted."""
    cdef int64_t counts[1 << SELECT_BITS]
    cdef uint64_t low, high, span, rank
    cdef int64_t i, digit, left = most
    cdef int shift
    if best.count <= most_listed(most):
        return
    find_range(items, best.count, &low, &high)
    while low < high:
        span = high - low
        shift = max(0, bits_of(span) - SELECT_BITS)
        memset(counts, 0, sizeof(counts))
        for i in range(best.count):
            rank = rank_of(&items[i]) - low
            if rank <= span:
                counts[rank >> shift] += 1
        digit = 0
        while counts[digit] < left:
            left -= counts[digit]
            digit += 1
        low += <uint64_t>digit << shift
        if high - low >= <uint64_t>1 << shift:
            high = low + ((<uint64_t>1 << shift) - 1)
        if most - left + counts[digit] <= most_listed(most):
            left = counts[digit]
            break
    best.count = keep_up_to(items, best.count, high, left if low == high else best.count)
    best.bound = floor_of(high, items)


cdef inline void sort_list(Best *best, Item *items, Item *scratch) noexcept nogil:
    """Sort the items, best first, digit by digit from the last. Items with equal ranks keep their order, which is the
    order of their indices."""
    cdef int64_t starts[1 << SORT_BITS]
    cdef uint64_t low, high, mask, digit
    cdef int64_t i
    cdef int64_t some, at
    cdef Item *source = items
    cdef Item *target = scratch
    cdef int bits, width, shift = 0 if Item is Entry else 32
    if best.count == 0:
        return
    find_range(items, best.count, &low, &high)
    low = floor_of(low, items)
    width = max(0, bits_of(high - low) - shift)
    # Choose short digits for few items, because clearing and adding up many counts would take longer than moving items.
    bits = min(<int>SORT_BITS, bits_of(best.count) + 1)
    bits = <int>ceil_div(width, max(ceil_div(width, bits), 1))
    width += shift
    mask = (<uint64_t>1 << bits) - 1
    while shift < width:
        memset(starts, 0, sizeof(starts[0]) << bits)
        for i in range(best.count):
            starts[(rank_of(&source[i]) - low) >> shift & mask] += 1
        at = 0
        for i in range(1 << bits):
            some = starts[i]
            starts[i] = at
            at += some
        for i in range(best.count):
            digit = (rank_of(&source[i]) - low) >> shift & mask
            target[starts[digit]] = source[i]
            starts[digit] += 1
        source, target = target, source
        shift += bits
    if source != items:
        memcpy(items, source, best.count * sizeof(Item))


cdef void finish_best(Best *best, int64_t most, Item *items) noexcept nogil:
    """Sort the items, best first, and keep at most `most` items."""
    cdef int64_t last
    cdef Item item
    if most > MOST_OF_HEAP:
        shorten(best, most, items)
        sort_list(best, items, items + most_listed(most))
        best.count = min(best.count, most)
        return
    for last in range(best.count - 1, 0, -1):
        item = items[last]
        items[last] = items[0]
        sift_down(items, last, item)


cdef void merge(Best *best, int64_t most, Best *other, Item *items) noexcept nogil:
    """Merge the sorted items of `other` into `items` of `best`."""
    cdef Item *others = <Item *>other.items
    cdef Item *merged = items + most_listed(most)
    cdef int64_t total = min(most, best.count + other.count), i = 0, j = 0, k
    for k in range(total):
        if j == other.count or (i < best.count and not is_worse(&items[i], &others[j])):
            merged[k] = items[i]
            i += 1
        else:
            merged[k] = others[j]
            j += 1
    memcpy(items, merged, total * sizeof(Item))
    best.count = total
