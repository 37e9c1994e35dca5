"""``sqeuclidean``: squared distances of rows, a product whose output stage adds the squares of both operands."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

import warnings

from int8blas.core.arrays cimport int8_operand, product_output
from int8blas.core.results cimport empty
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.plan cimport Gemm
from int8blas.gemm.problem cimport is_usable, run, set_a, set_b, set_c, start
from int8blas.neighbors.squares cimport as_int32, row_squares

cnp.import_array()

# Up to this K sums of squares fit int32, as does twice a product in int64: the output stage makes distances of them.
cdef int64_t STAGED_K = INT32_MAX // (255 * 255)


cdef int64_t distance_bound(cnp.ndarray x, object y) except -1:
    """The largest square that one k can add to a distance."""
    return 255 * 255 if x.dtype == y.dtype else 383 * 383


cdef int add_squares(cnp.ndarray products, cnp.ndarray x_squares, cnp.ndarray y_squares) except -1:
    """Distances of products, in place, where K is so long that this takes no time beside them."""
    np.multiply(products, -2, out=products)
    np.add(products, x_squares[:, np.newaxis], out=products)
    np.add(products, y_squares, out=products)
    return 0


cdef cnp.ndarray store_saturated(cnp.ndarray distances, cnp.ndarray given):
    """int64 distances as int32, with a warning where they do not fit."""
    result = np.empty((<object>distances).shape, np.int32) if given is None else given
    np.minimum(distances, INT32_MAX, out=result, casting="unsafe")
    if distances.max(initial=0) > INT32_MAX:
        warnings.warn("sqeuclidean: elements of the result beyond int32 were saturated; dtype=np.int64 has them all",
                      RuntimeWarning, stacklevel=1)
    return result


def sqeuclidean(x, y, *, out=None, dtype=None):
    """Squared Euclidean distances of rows: ``out[i, j] = sum((x[i] - y[j])**2)``, exactly.

    Parameters
    ----------
    x : array_like of uint8 or int8
        Vectors of shape (M, K), or a single one of shape (K,); any strides.
    y : array_like of uint8 or int8, or PackedB
        Vectors of shape (N, K), or a single one; any strides. The type need not be x's. Faster is
        ``pack_b(y, trans_b=True)``, a :class:`PackedB` of shape (K, N), which keeps the sums of squares too.
    out : ndarray of int32 or int64, optional
        Where to store the result; it must have the result's shape, and may have any strides.
    dtype : dtype, optional
        Of the result: int32 or int64. By default that of `out`, else int32 where K is so small that all distances fit,
        up to 33,025 if both types are the same and 14,639 if not, and int64 beyond.

    Returns
    -------
    ndarray of int32 or int64
        Of shape (M, N), without the dimension of a single vector; a scalar of two single ones. ``out`` if it is given.
        It is exact in int64; in int32, where that is asked for, distances beyond it saturate.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above, before anything is written.

    Warns
    -----
    RuntimeWarning
        If an element was beyond int32, and saturated.

    See Also
    --------
    nearest : the smallest of these distances of each row of x, which need no memory for all of them.

    Notes
    -----
    Computed as ``sum(x**2) + sum(y**2) - 2 * (x @ y.T)`` in integers, in one pass over the result. Of bool arrays it is
    the number of positions in which they differ, the Hamming distance.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x, y = np.array([[255, 0], [3, 4]], np.uint8), np.array([[0, 0], [3, 5], [-128, 4]], np.int8)
    >>> int8blas.sqeuclidean(x, y)
    array([[ 65025,  63529, 146705],
           [    25,      1,  17161]], dtype=int32)
    >>> int8blas.sqeuclidean(x[1], int8blas.pack_b(y, trans_b=True))
    array([   25,     1, 17161], dtype=int32)
    """
    cdef Gemm g
    cdef cnp.ndarray a = int8_operand(x, "x"), b = None, given, target, _x_values, _y_values, x_squares, y_squares
    cdef PackedB packed = None
    cdef int typenum = cnp.NPY_INT32
    cdef bint a_is_vector = cnp.PyArray_NDIM(a) == 1, b_is_vector = False, fits, staged, in_place
    cdef int64_t y_k
    cdef cnp.npy_intp shape[2]
    start(&g, False)
    given = None if out is None and dtype is None else product_output(out, dtype, &typenum)
    if cnp.PyArray_NDIM(a) not in (1, 2):
        raise ValueError(f"x must have 1 or 2 dimensions, got shape {(<object>a).shape}")
    a = a.reshape(1, -1) if a_is_vector else a
    set_a(&g, a, False)
    if type(y) is PackedB:
        packed = <PackedB>y
        packed.fill(&g)
        y_k = packed._k
    else:
        b = int8_operand(y, "y")
        b_is_vector = cnp.PyArray_NDIM(b) == 1
        if cnp.PyArray_NDIM(b) not in (1, 2):
            raise ValueError(f"y must have 1 or 2 dimensions, got shape {(<object>b).shape}")
        b = b.reshape(1, -1) if b_is_vector else b
        set_b(&g, b, True)
        y_k = cnp.PyArray_DIM(b, 1)
    if y_k != g.k:
        raise ValueError(f"y must have vectors of {g.k} elements, as x has, got {y_k}")
    fits = g.k <= INT32_MAX // distance_bound(a, y if packed is not None else b)
    if out is None and dtype is None and not fits:
        typenum = cnp.NPY_INT64
    final_shape = ((g.m,) if not a_is_vector else ()) + ((g.n,) if not b_is_vector else ())
    if given is not None and (<object>given).shape != final_shape:
        raise ValueError(f"out must have shape {final_shape}, got {(<object>given).shape}")

    shape[0], shape[1] = g.m, g.n
    staged = g.k <= STAGED_K
    g.to_s64 = typenum == cnp.NPY_INT64 or not fits
    in_place = given is not None and (typenum == cnp.NPY_INT64 or fits)
    if in_place and is_usable(given, a, b if packed is None else packed):
        target = given.reshape(shape[0], shape[1])
    else:
        target = empty(2, shape, cnp.NPY_INT64 if g.to_s64 else cnp.NPY_INT32)
    x_squares = row_squares(a)
    if packed is not None:
        y_squares = packed.squares_array()
        packed.fill_split(&g, g.m)
    else:
        y_squares = row_squares(b)
    if staged:
        _x_values = as_int32(<const int64_t *>cnp.PyArray_DATA(x_squares), g.m)
        _y_values = as_int32(<const int64_t *>cnp.PyArray_DATA(y_squares), g.n)
        g.alpha = -2
        g.co_rows = <const int32_t *>cnp.PyArray_DATA(_x_values)
        g.co_cols = <const int32_t *>cnp.PyArray_DATA(_y_values)
    set_c(&g, target)
    run(&g, "sqeuclidean")
    if not staged:
        add_squares(target, x_squares, y_squares[:g.n])
    if g.to_s64 and typenum == cnp.NPY_INT32:
        target = store_saturated(target, None if given is None else given.reshape(shape[0], shape[1]))
    elif given is not None and cnp.PyArray_DATA(target) != cnp.PyArray_DATA(given):
        given[...] = target.reshape(final_shape)
    if out is not None:
        return out
    return target.reshape(final_shape)[()] if a_is_vector or b_is_vector else target
