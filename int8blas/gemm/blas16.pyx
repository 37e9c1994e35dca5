"""Products of 16-bit integers, with the calling convention of ``blas``::

    C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co))

The product is exact for every K and all values: sums are in int64. A uint16 A with values above 32767 is shifted by
-32768, with its zero points, so that all values fit the multiply-add of int16.
"""

from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport check_transpose, elements, flag, integers, output_of, real
from int8blas.core.parameters import integer
from int8blas.core.words import warn
from int8blas.core.results cimport Layout, check_layout, empty, lay_out
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.gemm.blas cimport c_operand, result_for, set_offset
from int8blas.gemm.call cimport set_c, warn_saturated
from int8blas.gemm.four_bits cimport PackedB4
from int8blas.gemm.integers cimport multiply_to_sums
from int8blas.gemm.matmul cimport limbs_of, sum_of_limbs
from int8blas.gemm.output cimport WideSums, store_sums
from int8blas.gemm.packed cimport Packed
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.problem cimport Problem, start
from int8blas.gemm.sixteen_bits cimport pack_sixteen_bits
from int8blas.gemm.wide cimport WideProduct

cnp.import_array()

cdef object ZERO = 0
cdef int SHIFT_16 = 32768

cdef enum:
    SYRK_ROWS = 192             # rows of a block of the triangle: a multiple of 16 and of a tile's rows
    MAX_SYRK_K = 1 << 28        # differences from zero points have 17 bits, so sums of products stay below 2**62


cdef cnp.ndarray operand_16(object x, str name, int typenum, object transpose, str name_of_flag):
    """Return op(X) as a 2-D array of type `typenum`."""
    cdef bint transposed = check_transpose(transpose, name_of_flag)
    cdef cnp.ndarray array = elements(x, name, (typenum,))
    if cnp.PyArray_NDIM(array) != 2:
        raise ValueError(f"{name} must have 2 dimensions, got shape {(<object>array).shape}")
    return array.T if transposed else array


cdef cnp.ndarray zeros_of(object value, str name, int typenum, int64_t length, str count):
    """Return a zero point for each row or column, or None if all zero points are 0."""
    cdef cnp.ndarray array
    if value is ZERO:
        return None
    info = np.iinfo(cnp.PyArray_DescrFromType(typenum))
    array = integers(value, name, info.min, info.max, length, count)
    return np.ascontiguousarray(np.broadcast_to(array, (length,))) if array.any() else None


cdef inline const int64_t *values_of(cnp.ndarray array) noexcept:
    return NULL if array is None else <const int64_t *>cnp.PyArray_DATA(array)


cdef object right_operand(object b, int typenum, object transpose):
    """Return op(B), an array of type `typenum` or a packed matrix of this type."""
    cdef bint is_packed = isinstance(b, Packed)
    if not is_packed:
        return operand_16(b, "b", typenum, transpose, "trans_b")
    if (<Packed>b)._typenum != typenum or type(b) is PackedB4:
        raise TypeError(f"b must be {'int16' if typenum == cnp.NPY_INT16 else 'int8'}, or packed by pack_b from such "
                        f"an array, got a {b!r}")
    if check_transpose(transpose, "trans_b"):
        raise ValueError(f"trans_b must be False for a {type(b).__name__}, which is packed as op(B); give trans_b to "
                         "pack_b")
    return b


cdef cnp.ndarray column_sums(object b):
    return b.column_sums if isinstance(b, Packed) else np.ascontiguousarray(b.sum(0, np.int64))


cdef cnp.ndarray sums_of(cnp.ndarray x, object y, str name):
    """Return the exact product in int64."""
    cdef WideProduct w
    cdef int bits
    if type(y) is PackedB:
        return sum_of_limbs(x, y, limbs_of(x, y))
    return multiply_to_sums(&w, x, y, &bits, name)  # exact: the elements have at most 16 bits


cdef object call_16(str name, object alpha, object a, object b, object beta, object c, object trans_a, object trans_b,
                    object overwrite_c, object offsetc, object ao, object bo, object co, int a_type, int b_type):
    """Check the arguments, multiply, and store C: the common part of all GEMMs of 16 bits."""
    cdef Problem g
    cdef cnp.ndarray x, sums, target, given = None, _co_array, col_sums = None, row_terms = None, a_zeros, b_zeros
    cdef cnp.npy_intp shape[2]
    cdef Layout layouts[2]
    cdef WideSums s
    cdef int saturated = 0
    cdef bint overwrites = flag(overwrite_c, "overwrite_c")
    start(&g, False)
    g.epilogue.alpha, g.epilogue.beta = real(alpha, "alpha"), real(beta, "beta")
    x = operand_16(a, "a", a_type, trans_a, "trans_a")
    lay_out(&layouts[0], x)
    y = right_operand(b, b_type, trans_b)
    check_layout(&layouts[0], x, "a")
    if not isinstance(y, Packed):
        lay_out(&layouts[1], y)
    g.m, g.k = cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1)
    b_rows, g.n = y.shape
    if b_rows != g.k:
        raise ValueError(f"b must have {g.k} rows in op(b), as op(a) has {g.k} columns, got {b_rows}")
    a_zeros = zeros_of(ao, "ao", a_type, g.m, "a row of op(a) each")
    b_zeros = zeros_of(bo, "bo", b_type, g.n, "a column of op(b) each")
    _co_array = set_offset(&g, co, offsetc)
    shape[0], shape[1] = g.m, g.n
    if c is not None:
        given = c_operand(&g, c, overwrites)
    check_layout(&layouts[0], x, "a")
    if not isinstance(y, Packed):
        check_layout(&layouts[1], y, "b")
    if a_type == cnp.NPY_UINT16 and cnp.PyArray_SIZE(x) and x.max() >= SHIFT_16:
        x = np.bitwise_xor(x, np.uint16(SHIFT_16)).view(np.int16)
        a_zeros = np.full(g.m, -SHIFT_16, np.int64) if a_zeros is None else a_zeros - SHIFT_16
    sums = sums_of(x, y, name)
    if a_zeros is not None:
        col_sums = column_sums(y)
    if b_zeros is not None:
        row_terms = np.ascontiguousarray(x.sum(1, np.int64))
        if a_zeros is not None:
            row_terms -= g.k * a_zeros
    if given is not None:
        target = result_for(&g, given, overwrites, x, y)
    else:
        target = empty(2, shape, cnp.NPY_INT32)
        if g.epilogue.beta != 0:
            target.fill(0)
    set_c(&g, target)
    g.epilogue.saturated = &saturated
    s.sums, s.ao, s.col_sums = values_of(sums), values_of(a_zeros), values_of(col_sums)
    s.bo, s.row_terms = values_of(b_zeros), values_of(row_terms)
    with nogil:
        end_turn()
        store_sums(&g, &s)
        take_turn()
    if given is not None and overwrites and target is not given:
        given[...] = target
    if saturated:
        warn_saturated(name)
    return c if c is not None and overwrites else target


def gemm_s16s16s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                   bo=0, co=0):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for int16 A and int16 B.

    Parameters
    ----------
    alpha : float
        The factor of the product, finite.
    a : array_like of int16
        A of shape (M, K), or (K, M) with `trans_a`; any strides.
    b : array_like of int16, or PackedB16
        B of shape (K, N), or (N, K) with `trans_b`; any strides. A :class:`PackedB16` saves the time of packing B.
    beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co
        As for :func:`gemm_u8s8s32`.

    Returns
    -------
    ndarray of int32
        The result, as from :func:`gemm_u8s8s32`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Warns
    -----
    RuntimeWarning
        If an element was beyond int32, and saturated. :func:`matmul` has the exact product.

    Notes
    -----
    The result is exact for every K and all values. If the values of both operands have up to 27 bits together, without
    signs, each element of a tile needs one accumulator. More bits need two accumulators, and about twice the time.

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
                   cnp.NPY_INT16, cnp.NPY_INT16)


def gemm_s16s8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                  bo=0, co=0):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for int16 A and int8 B.

    Parameters, result, warning and errors are as for :func:`gemm_s16s16s32`, but `b` is int8, or a :class:`PackedB` of
    int8. With a PackedB, the product is computed as two products of 8 bits.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> int8blas.gemm_s16s8s32(1, np.array([[-32768, 32767]], np.int16), np.array([[-128], [127]], np.int8))
    array([[8355713]], dtype=int32)
    """
    return call_16("gemm_s16s8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                   cnp.NPY_INT16, cnp.NPY_INT8)


def gemm_u16s8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                  bo=0, co=0):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for uint16 A and int8 B.

    Parameters, result, warning and errors are as for :func:`gemm_s16s16s32`, but `a` is uint16, and `b` is
    as for :func:`gemm_s16s8s32`.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> int8blas.gemm_u16s8s32(1, np.array([[65535, 1000]], np.uint16), np.array([[-128], [127]], np.int8), ao=1000)
    array([[-8260480]], dtype=int32)
    """
    return call_16("gemm_u16s8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                   cnp.NPY_UINT16, cnp.NPY_INT8)


def syrk_s16s64(alpha, a, beta=0, c=None, trans=False, lower=False, overwrite_c=False, *, ao=0):
    """C := sat_s64(alpha * (op(A) - ao) @ (op(A) - ao).T + beta * C) in one triangle, for int16 A.

    This function does little more than half the work of :func:`matmul`. The result is exact.

    Parameters
    ----------
    alpha : int
        The factor of the product.
    a : array_like of int16
        A of shape (N, K), or (K, N) with `trans`; any strides.
    beta : int, optional
        The factor of C. If it is 0, C is not read.
    c : ndarray of int64, optional
        C of shape (N, N), any strides; zeros by default.
    trans, lower, overwrite_c
        As for :func:`syrk_u8s32`.
    ao : int, or array_like of int, optional
        Zero point, subtracted from A, in the range of int16: one value, or one for each row of op(A).

    Returns
    -------
    ndarray of int64
        Of shape (N, N), as :func:`syrk_u8s32` returns it.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Warns
    -----
    RuntimeWarning
        If an element was beyond int64, and saturated.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.array([[30000, -30000], [20000, 1]], np.int16)
    >>> int8blas.syrk_s16s64(2, x)
    array([[3600000000, 1199940000],
           [         0,  800000002]])
    >>> int8blas.syrk_s16s64(1, x, lower=True, trans=True)
    array([[1300000000,          0],
           [-899980000,  900000001]])
    """
    cdef WideProduct w
    cdef int bits
    cdef int64_t n, k, first, end
    cdef Layout layout
    cdef bint is_lower = flag(lower, "lower"), overwrites = flag(overwrite_c, "overwrite_c")
    cdef cnp.ndarray x, zeros, target, given = None
    alpha, beta = integer(alpha, "alpha"), integer(beta, "beta")
    x = operand_16(a, "a", cnp.NPY_INT16, trans, "trans")
    lay_out(&layout, x)
    n, k = cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1)
    if k > MAX_SYRK_K:
        raise ValueError(f"a must have at most {MAX_SYRK_K} columns in op(a), got {k}")
    zeros = zeros_of(ao, "ao", cnp.NPY_INT16, n, "a row of op(a) each")
    if c is not None:
        given = output_of(c, "c", cnp.NPY_INT64) if overwrites else elements(c, "c", (cnp.NPY_INT64,))
        if (<object>given).shape != (n, n):
            raise ValueError(f"c must have shape {(n, n)}, got {(<object>given).shape}")
    check_layout(&layout, x, "a")
    target = np.zeros((n, n), np.int64) if given is None else np.array(given)
    row_sums = None if zeros is None else x.sum(1, np.int64)
    packed = pack_sixteen_bits(x, True)
    saturated = False
    for first in range(0, n, SYRK_ROWS):
        end = min(n, first + SYRK_ROWS)
        # Compute the block's rows of the lower triangle. The upper triangle is the transpose of the lower triangle.
        sums = multiply_to_sums(&w, x[first:end], packed.left(end), &bits, "syrk_s16s64")
        if zeros is not None:
            sums -= zeros[first:end, None] * (row_sums - k * zeros)[:end] + row_sums[first:end, None] * zeros[:end]
        part = target[first:end, :end] if is_lower else target[:end, first:end].T
        scaled, beyond = in_int64(alpha, sums, beta, part)
        keep = np.tri(end - first, end, first, dtype=bool)
        saturated |= bool((beyond & keep).any())
        np.copyto(part, scaled, where=keep)
    if given is not None and overwrites:
        given[...] = target
    if saturated:
        warn("syrk_s16s64: elements of the result beyond int64 were saturated")
    return c if given is not None and overwrites else target


cdef tuple in_int64(object alpha, cnp.ndarray x, object beta, object y):
    """Return alpha * x + beta * y, saturated to int64, and a mask of the saturated elements."""
    info = np.iinfo(np.int64)
    # Compute in Python integers if int64 might overflow.
    most = abs(alpha) * largest(x) + (abs(beta) * largest(y) if beta else 0)
    if most > info.max:
        x = x.astype(object)
        y = y.astype(object)
    sums = alpha * x + beta * y if beta else alpha * x
    if most <= info.max:
        return sums, np.zeros((), bool)
    return np.clip(sums, info.min, info.max).astype(np.int64), ((sums < info.min) | (sums > info.max)).astype(bool)


cdef object largest(object x):
    return max(abs(int(x.min())), abs(int(x.max()))) if x.size else 0
