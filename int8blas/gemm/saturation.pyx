"""``would_saturate``: find the sums of two products that saturate to 16 bits on CPUs without VNNI."""

from dataclasses import dataclass

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT16_MAX, INT16_MIN, INT64_MAX, int8_t, int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport check_transpose, int8_operand
from int8blas.core.results cimport Layout, check_layout, lay_out
from int8blas.core.traced import traced
from int8blas.core.words import shown
from int8blas.gemm.packing cimport PackedB, pack

import operator

cnp.import_array()


@dataclass(frozen=True)
class Saturation:
    """The result of :func:`would_saturate`. This object is true if any sum saturates.

    Attributes
    ----------
    count : int
        The number of sums of two products that saturate.
    where : ndarray of int64
        The first positions, a row (m, n, k) for the pair k, k + 1 of C[m, n].
    """

    count: int
    where: np.ndarray

    def __bool__(self):
        return self.count > 0


# A row of A', by its strides.
cdef struct RowsOfA:
    const uint8_t *data
    ptrdiff_t row, column
    uint8_t flip
    int64_t k


cdef int64_t scan(const RowsOfA *a, int64_t m, int64_t n, const int8_t *column, int64_t found, int64_t *where,
                  int64_t limit) noexcept nogil:
    """Count the saturating pairs of C[m, n], and append their positions to the `found` positions in `where`."""
    cdef const uint8_t *row = a.data + m * a.row
    cdef int64_t k, total
    cdef const int8_t *pair
    for k in range(0, a.k, 2):
        pair = column + (k // 4) * 64 + k % 4
        total = <int64_t>(row[k * a.column] ^ a.flip) * pair[0]
        if k + 1 < a.k:
            total += <int64_t>(row[(k + 1) * a.column] ^ a.flip) * pair[1]
        if total > INT16_MAX or total < INT16_MIN:
            if found < limit:
                where[3 * found] = m
                where[3 * found + 1] = n
                where[3 * found + 2] = k
            found += 1
    return found


@traced("a", "b")
def would_saturate(a, b, *, trans_a=False, trans_b=False, limit=1000):
    """Find the sums of two products in op(A) @ op(B) that saturate with ``numerics="saturating"``.

    If any sum saturates, a library that does not avoid saturation returns wrong results on a CPU without VNNI.

    Parameters
    ----------
    a : array_like of uint8 or int8
        A of shape (M, K), or (K, M) with `trans_a`. An int8 A is shifted by 128 first.
    b : array_like of uint8 or int8, or PackedB
        B of shape (K, N), or (N, K) with `trans_b`. A uint8 B is shifted by -128 first.
    trans_a, trans_b : bool or int, optional
        Whether A and B are transposed.
    limit : int, optional
        The maximum number of positions to return.

    Returns
    -------
    Saturation
        With the attributes `count` and `where`, in the order of (m, n, k); true if `count` is not 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a = np.array([[255, 255, 0, 0]], np.uint8)
    >>> b = np.array([[127], [127], [0], [0]], np.int8)
    >>> found = int8blas.would_saturate(a, b)
    >>> found.count, found.where.tolist()
    (1, [[0, 0, 0]])
    >>> bool(int8blas.would_saturate(a // 2, b))
    False
    """
    cdef cnp.ndarray x = int8_operand(a, "a"), y, positions
    cdef PackedB packed
    cdef bint transpose_a = check_transpose(trans_a, "trans_a"), transpose_b = check_transpose(trans_b, "trans_b")
    cdef RowsOfA rows
    cdef Layout layout
    cdef int64_t m, n, panel, most, found = 0
    cdef ptrdiff_t panel_size
    cdef const int8_t *data
    cdef const uint8_t *certified
    cdef int64_t *where
    try:
        most = min(operator.index(limit), INT64_MAX)
    except TypeError:
        raise TypeError(f"limit must be an integer, got {type(limit).__name__}") from None
    except OverflowError:
        most = -1
    if most < 0:
        raise ValueError(f"limit must not be negative, got {shown(limit)}")
    if x.ndim != 2:
        raise ValueError(f"a must have 2 dimensions, got shape {(<object>x).shape}")
    lay_out(&layout, x)
    if isinstance(b, PackedB):
        packed = b
        if transpose_b:
            raise ValueError("trans_b must be False for a PackedB, which is packed as op(B); give trans_b to pack_b")
    else:
        y = int8_operand(b, "b")
        check_layout(&layout, x, "a")
        if y.ndim != 2:
            raise ValueError(f"b must have 2 dimensions, got shape {(<object>y).shape}")
        if y.shape[transpose_b] != x.shape[not transpose_a]:
            raise ValueError(f"b must have {x.shape[not transpose_a]} rows in op(b), the number of columns of op(a), "
                             f"got {y.shape[transpose_b]}")
        if 0 in (<object>x).shape or 0 in (<object>y).shape:
            return Saturation(0, np.empty((0, 3), np.int64))  # N or M may be huge
        packed = pack(y, transpose_b)
    rows.k = x.shape[not transpose_a]
    if packed._k != rows.k:
        raise ValueError(f"b must have {rows.k} rows in op(b), the number of columns of op(a), got {packed._k}")
    rows.data = <const uint8_t *>cnp.PyArray_DATA(x)
    rows.row, rows.column = x.strides[transpose_a], x.strides[not transpose_a]
    rows.flip = 0x80 if cnp.PyArray_TYPE(x) == cnp.NPY_INT8 else 0
    if x.size == 0 or packed._n == 0:
        return Saturation(0, np.empty((0, 3), np.int64))
    most = min(most, (<object>x).shape[transpose_a] * int(packed._n) * ((rows.k + 1) // 2))
    positions = np.empty((most, 3), np.int64)
    where = <int64_t *>cnp.PyArray_DATA(positions)
    data = <const int8_t *>cnp.PyArray_DATA(packed._data)
    certified = <const uint8_t *>cnp.PyArray_DATA(packed._certified)
    panel_size = (rows.k + 3) // 4 * 64
    with nogil:
        for m in range(x.shape[transpose_a]):
            for n in range(packed._n):
                panel = n // 16
                if not certified[panel]:
                    found = scan(&rows, m, n, data + panel * panel_size + n % 16 * 4, found, where, most)
    return Saturation(found, positions[:found].copy())
