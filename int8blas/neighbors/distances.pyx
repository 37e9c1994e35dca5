"""``sqeuclidean``: squared distances of rows. The function computes a product whose epilogue adds the squares of both
operands."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

import warnings

from int8blas.core.arrays cimport int8_operand, product_output
from int8blas.core.kernels cimport I8_DISTANCES, I8_PANEL
from int8blas.core.memory cimport ALIGNMENT, aligned
from int8blas.core.results cimport Layout, check_layout, empty, lay_out
from int8blas.core.split cimport round_up
from int8blas.core.threads cimport forget_regions, region_used
from int8blas.core.verbose cimport report, seconds, verbose
from int8blas.gemm.call cimport check_memory, is_usable, run_problem, set_a, set_b, set_c
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.plan cimport threads_of
from int8blas.gemm.problem cimport Problem, set_product_type, start
from int8blas.gemm.squares cimport SHORT_SQUARES_K
from int8blas.neighbors.in_place cimport distances_in_place, takes_in_place
from int8blas.neighbors.squares cimport pays_for_threads, row_squares, short_row_squares

cnp.import_array()

cdef enum:
    # The number of sums of squares on the stack. Allocating an array would make a small call take a tenth longer.
    FEW_SQUARES = 256


cdef inline int64_t distance_bound(bint same_type) noexcept:
    """Return the largest square that one k can add to a distance."""
    return 255 * 255 if same_type else 383 * 383


cdef cnp.ndarray as_matrix(cnp.ndarray array, str name):
    """Return vectors as rows: a matrix unchanged, a single vector as one row."""
    if cnp.PyArray_NDIM(array) == 2:
        return array
    if cnp.PyArray_NDIM(array) != 1:
        raise ValueError(f"{name} must have 1 or 2 dimensions, got shape {(<object>array).shape}")
    return array.reshape(1, -1)


cdef int check_shape(cnp.ndarray out, const Problem *g, bint x_is_vector, bint y_is_vector) except -1:
    """Raise an error unless `out` has the shape of the result."""
    cdef int last = 1 - x_is_vector
    if (
        cnp.PyArray_NDIM(out) == 2 - x_is_vector - y_is_vector and (x_is_vector or cnp.PyArray_DIM(out, 0) == g.m)
        and (y_is_vector or cnp.PyArray_DIM(out, last) == g.n)
    ):
        return 0
    wanted = ((g.m,) if not x_is_vector else ()) + ((g.n,) if not y_is_vector else ())
    raise ValueError(f"out must have shape {wanted}, got {(<object>out).shape}")


cdef int run_in_place(Problem *g) except -1:
    """Compute distances with rows y read in place."""
    cdef double begun = seconds() if verbose else 0
    forget_regions()
    check_memory(distances_in_place(g), "sqeuclidean")
    if verbose:
        report("sqeuclidean", f"m={g.m},n={g.n},k={g.k}", "plain", g.kernels, region_used(), seconds() - begun)
    return 0


cdef int product_threads(const Problem *g, cnp.ndarray x) noexcept:
    """Return the number of threads for the sums of squares of x: the product's number of threads, or 1.

    A parallel region with fewer threads would end all other threads (core/team.h). Starting threads again for the
    product takes six times as long as the product itself (1024 x 1024 x 384, 16 threads).
    """
    return threads_of(g) if pays_for_threads(x) else 1


cdef int run_staged(Problem *g, cnp.ndarray a, PackedB packed) except -1:
    """Compute distances with an epilogue that adds the squares. Twice each product must fit int64."""
    cdef char some[FEW_SQUARES * 4 + ALIGNMENT]
    cdef int32_t *x_squares = <int32_t *>aligned(some)
    cdef bint in_place = takes_in_place(g)
    cdef cnp.npy_intp count = g.m if in_place or packed is not None else g.m + g.n
    cdef cnp.ndarray memory
    if count > FEW_SQUARES:
        memory = cnp.PyArray_EMPTY(1, &count, cnp.NPY_INT32, 0)
        x_squares = <int32_t *>cnp.PyArray_DATA(memory)
    if packed is not None:
        g.epilogue.co_cols = <const int32_t *>(packed.squares() + round_up(g.n, I8_PANEL))
    elif not in_place:
        g.epilogue.co_cols = g.epilogue.column_squares = x_squares
        x_squares += g.n
    g.epilogue.kind, g.epilogue.alpha = I8_DISTANCES, -2
    g.epilogue.co_rows = x_squares
    if in_place:
        short_row_squares(a, x_squares, 1)
        return run_in_place(g)
    short_row_squares(a, x_squares, product_threads(g, a))
    run_problem(g, "sqeuclidean")
    return 0


cdef int add_squares(cnp.ndarray products, cnp.ndarray x_squares, cnp.ndarray y_squares) except -1:
    """Replace products by distances. K is so long that this pass takes hardly any time compared with the products."""
    np.multiply(products, -2, out=products)
    np.add(products, x_squares[:, np.newaxis], out=products)
    np.add(products, y_squares, out=products)
    return 0


cdef cnp.ndarray store_saturated(cnp.ndarray distances, cnp.ndarray given):
    """Store int64 distances as int32, and warn if a distance does not fit."""
    result = np.empty((<object>distances).shape, np.int32) if given is None else given
    np.minimum(distances, INT32_MAX, out=result, casting="unsafe")
    if distances.max(initial=0) > INT32_MAX:
        warnings.warn("sqeuclidean: elements of the result beyond int32 were saturated; dtype=np.int64 has them all",
                      RuntimeWarning, stacklevel=1)
    return result


def sqeuclidean(x, y, *, out=None, dtype=None):
    """Compute squared Euclidean distances of rows: ``out[i, j] = sum((x[i] - y[j])**2)``, exactly.

    Parameters
    ----------
    x : array_like of uint8 or int8
        Vectors of shape (M, K), or one vector of shape (K,), with any strides.
    y : array_like of uint8 or int8, or PackedB
        Vectors of shape (N, K), or one vector, with any strides. The dtype of y may differ from the dtype of x.
        A :class:`PackedB` of shape (K, N), ``pack_b(y, trans_b=True)``, saves packing y, and keeps the sums of squares.
    out : ndarray of int32 or int64, optional
        The array for the result. The array must have the shape of the result, and may have any strides.
    dtype : dtype, optional
        The dtype of the result, int32 or int64. The default is the dtype of `out`. Without `out` the default is int32
        if all distances fit (K up to 33,025 for equal dtypes, up to 14,639 for different dtypes), and int64 otherwise.

    Returns
    -------
    ndarray of int32 or int64
        ``out`` if it is given. The shape is (M, N); a one-dimensional x or y has no dimension in the result. Two single
        vectors give a scalar. Distances in int64 are exact. If int32 is requested, distances beyond int32 saturate.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Warns
    -----
    RuntimeWarning
        If an element exceeded int32 and was saturated.

    See Also
    --------
    nearest : the smallest distances of each row of x, without memory for all distances.

    Notes
    -----
    The result is computed as ``sum(x**2) + sum(y**2) - 2 * (x @ y.T)`` in integers, in one pass over the result. For
    bool arrays the result is the Hamming distance, the number of positions in which two vectors differ.

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
    cdef Problem g
    cdef cnp.ndarray a = int8_operand(x, "x"), b = None, given, matrix = None, target
    cdef PackedB packed = None
    cdef Layout layout
    cdef int typenum = cnp.NPY_INT32
    cdef bint a_is_vector, b_is_vector = False, fits, same_type, in_place, is_s64
    cdef int64_t y_k
    cdef cnp.npy_intp shape[2]
    start(&g, False)
    given = None if out is None and dtype is None else product_output(out, dtype, &typenum)
    a = int8_operand(a, "x")  # converting `out` or `dtype` may have run Python code that sets the dtype of an array
    a_is_vector = cnp.PyArray_NDIM(a) == 1
    a = as_matrix(a, "x")
    lay_out(&layout, a)
    set_a(&g, a, False)
    if type(y) is PackedB:
        packed = <PackedB>y
        packed.fill(&g)
        y_k, same_type = packed._k, packed._typenum == cnp.NPY_INT8
    else:
        b = int8_operand(y, "y")
        check_layout(&layout, a, "x")
        b_is_vector = cnp.PyArray_NDIM(b) == 1
        b = as_matrix(b, "y")
        set_b(&g, b, True)
        y_k, same_type = cnp.PyArray_DIM(b, 1), cnp.PyArray_TYPE(b) == cnp.NPY_INT8
    if y_k != g.k:
        raise ValueError(f"y must have vectors of {g.k} elements, as x has, got {y_k}")
    same_type = same_type == (cnp.PyArray_TYPE(a) == cnp.NPY_INT8)
    fits = g.k <= INT32_MAX // distance_bound(same_type)
    if out is None and dtype is None and not fits:
        typenum = cnp.NPY_INT64
    if given is not None:
        check_shape(given, &g, a_is_vector, b_is_vector)
        matrix = given if cnp.PyArray_NDIM(given) == 2 else given.reshape(g.m, g.n)

    shape[0], shape[1] = g.m, g.n
    is_s64 = typenum == cnp.NPY_INT64 or not fits
    set_product_type(&g.epilogue, is_s64)
    in_place = given is not None and (typenum == cnp.NPY_INT64 or fits)
    if in_place and is_usable(given, a, b if packed is None else packed):
        target = matrix
    else:
        target = empty(2, shape, cnp.NPY_INT64 if is_s64 else cnp.NPY_INT32)
    if packed is not None:
        packed.fill_split(&g, g.m)
    set_c(&g, target)
    if g.k <= SHORT_SQUARES_K:
        run_staged(&g, a, packed)
    else:
        run_problem(&g, "sqeuclidean")
        add_squares(target, row_squares(a, product_threads(&g, a)),
                    packed.squares_array()[:g.n] if packed is not None else row_squares(b, product_threads(&g, b)))
    if is_s64 and typenum == cnp.NPY_INT32:
        target = store_saturated(target, matrix)
    elif given is not None and cnp.PyArray_DATA(target) != cnp.PyArray_DATA(given):
        matrix[...] = target
    if out is not None:
        return out
    if a_is_vector or b_is_vector:
        return (target[0] if a_is_vector else target[:, 0]) if not (a_is_vector and b_is_vector) else target[0, 0]
    return target
