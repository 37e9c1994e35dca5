"""Find the largest or smallest elements of rows. A heap has the best elements so far, the worst of them on top."""

from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.results cimport MAX_DIMS, empty
from int8blas.elementwise.elements cimport copy_bytes

cnp.import_array()

cdef enum:
    BLOCK = 16                  # elements that one vector loop compares with the top of the heap

ctypedef fused number:
    float
    double
    int64_t


cdef inline bint is_better(number a, number b, bint largest) noexcept nogil:
    """Return whether a comes before b. NaN is the largest number."""
    if largest:
        return (a > b) | ((a != a) & (b == b))
    return (a < b) | ((a == a) & (b != b))


cdef inline bint precedes(const number *row, int64_t i, int64_t j, bint largest) noexcept nogil:
    """Return whether element i comes before element j. Equal elements keep their order."""
    return is_better(row[i], row[j], largest) or (i < j and not is_better(row[j], row[i], largest))


cdef void sift_down(const number *row, int64_t *heap, int64_t at, int64_t count, bint largest) noexcept nogil:
    """Move the index at a place of the heap down until it precedes no index below it."""
    cdef int64_t item = heap[at], child = 2 * at + 1
    while child < count:
        if child + 1 < count and precedes(row, heap[child], heap[child + 1], largest):
            child += 1
        if not precedes(row, item, heap[child], largest):
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = item


cdef void find_best(const number *row, int64_t size, int64_t *heap, int64_t count, bint largest) noexcept nogil:
    """Store the indices of the best elements of a row, the best one first."""
    cdef int64_t i, j, end
    cdef number worst
    cdef int found
    for i in range(count):
        heap[i] = i
    for i in range(count // 2 - 1, -1, -1):
        sift_down(row, heap, i, count, largest)
    i = count
    while i < size:
        end, found, worst = min(i + BLOCK, size), 0, row[heap[0]]
        if end - i == BLOCK:
            for j in range(BLOCK):
                found |= is_better(row[i + j], worst, largest)
        for i in range(i if found or end - i < BLOCK else end, end):
            if is_better(row[i], row[heap[0]], largest):
                heap[0] = i
                sift_down(row, heap, 0, count, largest)
        i = end
    for i in range(count - 1, 0, -1):
        heap[0], heap[i] = heap[i], heap[0]
        sift_down(row, heap, 0, i, largest)


def top_k(cnp.ndarray x, cnp.ndarray keys, int64_t count, bint largest):
    """Return the elements with the best keys of each row, and their indices in the row.

    Parameters
    ----------
    x : ndarray
        The elements, with at least one dimension, in C order.
    keys : ndarray of float32, float64 or int64
        A key for each element, in C order.
    count : int
        The number of elements of a row to return, from 0 to the size of the row.
    largest : bool
        Whether the largest keys are the best.
    """
    cdef cnp.npy_intp shape[MAX_DIMS]
    cdef int d, last = cnp.PyArray_NDIM(x) - 1, type = cnp.PyArray_TYPE(keys)
    cdef int64_t size = cnp.PyArray_DIM(x, last), item = cnp.PyArray_ITEMSIZE(x), rows = 1, i
    cdef const char *key = cnp.PyArray_BYTES(keys)
    cdef const char *source = cnp.PyArray_BYTES(x)
    cdef cnp.ndarray values, indices
    cdef char *to
    cdef int64_t *best
    for d in range(last):
        shape[d] = cnp.PyArray_DIM(x, d)
        rows *= shape[d]
    shape[last] = count
    values, indices = empty(last + 1, shape, cnp.PyArray_TYPE(x)), empty(last + 1, shape, cnp.NPY_INT64)
    to, best = cnp.PyArray_BYTES(values), <int64_t *>cnp.PyArray_DATA(indices)
    with nogil:
        for _ in range(rows if count else 0):
            if type == cnp.NPY_FLOAT32:
                find_best(<const float *>key, size, best, count, largest)
            elif type == cnp.NPY_FLOAT64:
                find_best(<const double *>key, size, best, count, largest)
            else:
                find_best(<const int64_t *>key, size, best, count, largest)
            for i in range(count):
                copy_bytes(to + i * item, source + best[i] * item, item)
            key, source = key + size * cnp.PyArray_ITEMSIZE(keys), source + size * item
            to, best = to + count * item, best + count
    return values, indices
