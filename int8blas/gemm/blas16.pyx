"""Products of 16-bit integers, with the calling convention of ``blas``::

    C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co))

The product is exact for every K and all values: sums are in int64. uint16 values above 32767 are shifted by -32768,
with their zero point, so that they fit the multiply-add of int16.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport check_transpose, elements, integers, real
from int8blas.core.kernels cimport I8_MAX_COLUMNS, i8_output_args
from int8blas.core.results cimport empty
from int8blas.gemm.blas cimport c_operand, result_for, set_offset
from int8blas.gemm.call cimport set_c, warn_saturated
from int8blas.gemm.integers cimport multiply_to_sums
from int8blas.gemm.output cimport set_target
from int8blas.gemm.problem cimport Problem, start
from int8blas.gemm.wide cimport WideProduct

cdef extern from "numpy/arrayobject.h":
    enum: NPY_INT16, NPY_UINT16

cnp.import_array()

cdef object ZERO = 0
cdef int SHIFT_16 = 32768


cdef cnp.ndarray operand_16(object x, str name, int typenum, object transpose, str flag):
    """Return op(X) as a 2-D array of this type."""
    cdef cnp.ndarray array = elements(x, name, (typenum,))
    if cnp.PyArray_NDIM(array) != 2:
        raise ValueError(f"{name} must have 2 dimensions, got shape {(<object>array).shape}")
    return array.T if check_transpose(transpose, flag) else array


cdef cnp.ndarray zeros_of(object value, str name, int typenum, int64_t length, str count):
    """Return a zero point for each row or column, or None if all are 0."""
    cdef cnp.ndarray array
    if value is ZERO:
        return None
    info = np.iinfo(cnp.PyArray_DescrFromType(typenum))
    array = integers(value, name, info.min, info.max, length, count)
    return np.ascontiguousarray(np.broadcast_to(array, (length,))) if array.any() else None


cdef inline const int64_t *values_of(cnp.ndarray array, int64_t first) noexcept:
    return NULL if array is None else <const int64_t *>cnp.PyArray_DATA(array) + first


cdef void store_c(Problem *g, cnp.ndarray sums, cnp.ndarray ao, cnp.ndarray col_sums, cnp.ndarray bo,
                  cnp.ndarray row_terms) noexcept:
    """Store C from the sums, tile by tile."""
    cdef i8_output_args o
    cdef int64_t row = 0, column
    memset(&o, 0, sizeof(o))
    set_target(g, &o)
    o.acc_row = g.n
    while row < g.m:
        o.rows, column = <int>min(<int64_t>I8_MAX_COLUMNS, g.m - row), 0
        o.ao, o.row_term = values_of(ao, row), values_of(row_terms, row)
        while column < g.n:
            o.cols = <int>min(<int64_t>I8_MAX_COLUMNS, g.n - column)
            o.acc64 = <const int64_t *>cnp.PyArray_DATA(sums) + row * g.n + column
            o.col_sum, o.bo = values_of(col_sums, column), values_of(bo, column)
            o.c = g.c.data + row * g.c.row + column * g.c.column
            o.row, o.column = row, column
            g.kernels.stage.output(&o)
            column += o.cols
        row += o.rows


cdef object call_16(str name, object alpha, object a, object b, object beta, object c, object trans_a, object trans_b,
                    object overwrite_c, object offsetc, object ao, object bo, object co, int a_type, int b_type):
    """Check, multiply and store, for all GEMMs of 16 bits."""
    cdef Problem g
    cdef cnp.ndarray x, y, sums, target, given = None, _co_array, col_sums = None, row_terms = None, a_zeros, b_zeros
    cdef cnp.npy_intp shape[2]
    cdef WideProduct w
    cdef int saturated = 0, bits
    start(&g, False)
    g.epilogue.alpha, g.epilogue.beta = real(alpha, "alpha"), real(beta, "beta")
    x, y = operand_16(a, "a", a_type, trans_a, "trans_a"), operand_16(b, "b", b_type, trans_b, "trans_b")
    g.m, g.k, g.n = cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1), cnp.PyArray_DIM(y, 1)
    if cnp.PyArray_DIM(y, 0) != g.k:
        raise ValueError(f"b must have {g.k} rows in op(b), as op(a) has {g.k} columns, got {cnp.PyArray_DIM(y, 0)}")
    a_zeros = zeros_of(ao, "ao", a_type, g.m, "a row of op(a) each")
    b_zeros = zeros_of(bo, "bo", b_type, g.n, "a column of op(b) each")
    _co_array = set_offset(&g, co, offsetc)
    shape[0], shape[1] = g.m, g.n
    if c is not None:
        given = c_operand(&g, c, overwrite_c)
    if a_type == NPY_UINT16 and cnp.PyArray_SIZE(x) and x.max() >= SHIFT_16:
        x = np.bitwise_xor(x, np.uint16(SHIFT_16)).view(np.int16)
        a_zeros = np.full(g.m, -SHIFT_16, np.int64) if a_zeros is None else a_zeros - SHIFT_16
    sums = multiply_to_sums(&w, x, y, &bits, name)  # exact: the elements have at most 16 bits
    if a_zeros is not None:
        col_sums = np.ascontiguousarray(y.sum(0, np.int64))
    if b_zeros is not None:
        row_terms = np.ascontiguousarray(x.sum(1, np.int64))
        if a_zeros is not None:
            row_terms -= g.k * a_zeros
    if given is not None:
        target = result_for(&g, given, overwrite_c, x, y)
    else:
        target = empty(2, shape, cnp.NPY_INT32)
        if g.epilogue.beta != 0:
            target.fill(0)
    set_c(&g, target)
    g.epilogue.saturated = &saturated
    store_c(&g, sums, a_zeros, col_sums, b_zeros, row_terms)
    if given is not None and overwrite_c and target is not given:
        given[...] = target
    if saturated:
        warn_saturated(name)
    return c if c is not None and overwrite_c else target


def gemm_s16s16s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                   bo=0, co=0):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for int16 A and int16 B.

    Parameters
    ----------
    alpha : float
        The factor of the product, finite.
    a, b : array_like of int16
        A of shape (M, K), or (K, M) with `trans_a`, and B of shape (K, N), or (N, K) with `trans_b`; any strides.
    beta : float, optional
        The factor of C, finite. If it is 0, C is not read.
    c : ndarray of int32, optional
        C of shape (M, N), any strides; zeros by default.
    trans_a, trans_b : bool or int, optional
        op(X) is X, or X transposed if the flag is true (1, or 2 as in BLAS).
    overwrite_c : bool, optional
        Compute in `c`, whatever its memory order, and return it. Otherwise `c` is left alone.
    offsetc : {'F', 'C', 'R'}, optional
        The form of `co`: one value ('F'), M values, one for each row of C ('C'), or N values, one for each column of C
        ('R').
    ao, bo : int, or array_like of int, optional
        Zero points, subtracted from A and B, in the range of their dtypes: one value, or one for each row of op(A) and
        for each column of op(B).
    co : int, or array_like of int, optional
        The offsets that are added, in the range of int32.

    Returns
    -------
    ndarray of int32
        As :func:`gemm_u8s8s32` returns it.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above, before anything is written.

    Warns
    -----
    RuntimeWarning
        If an element was beyond int32, and saturated. :func:`matmul` has the exact product.

    Notes
    -----
    The result is exact for every K and all values. If the values of both operands together have up to 27 bits without
    signs, one accumulator holds the sums of a tile's element; larger values need two, and about twice the time.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a = np.array([[30000, 30000, -30000]], np.int16)
    >>> int8blas.gemm_s16s16s32(0.5, a, a, trans_b=True)
    array([[1350000000]], dtype=int32)
    >>> int8blas.gemm_s16s16s32(1, a[:, :2], a[:, :2].T, ao=29999, bo=[30002], co=5)
    array([[1]], dtype=int32)
    """
    return call_16("gemm_s16s16s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                   NPY_INT16, NPY_INT16)


def gemm_s16s8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                  bo=0, co=0):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for int16 A and int8 B.

    Parameters, result, warning and errors are as for :func:`gemm_s16s16s32`, but `b` is int8.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> int8blas.gemm_s16s8s32(1, np.array([[-32768, 32767]], np.int16), np.array([[-128], [127]], np.int8))
    array([[8355713]], dtype=int32)
    """
    return call_16("gemm_s16s8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                   NPY_INT16, cnp.NPY_INT8)


def gemm_u16s8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                  bo=0, co=0):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for uint16 A and int8 B.

    Parameters, result, warning and errors are as for :func:`gemm_s16s16s32`, but `a` is uint16 and `b` int8.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> int8blas.gemm_u16s8s32(1, np.array([[65535, 1000]], np.uint16), np.array([[-128], [127]], np.int8), ao=1000)
    array([[-8260480]], dtype=int32)
    """
    return call_16("gemm_u16s8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                   NPY_UINT16, cnp.NPY_INT8)
