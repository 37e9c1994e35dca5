"""GEMM on 8-bit integers with SciPy's calling convention.

The four GEMMs differ in the types of A and B. Each GEMM computes, for op(X) = X or its transpose::

    C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co))

The product is exact, ``rne`` rounds half to even, and ``sat_s32`` saturates to int32. If alpha is 1 and beta is 0 or 1,
the GEMMs compute in integers. If alpha is not 1, or beta is neither 0 nor 1, the GEMMs compute in double precision, in
the order of the formula. The result does not depend on the CPU, the number of threads, packing or memory order.
"""

from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.arrays cimport (
    as_array, check_numerics, check_transpose, check_type, elements, flag, integers, is_output, is_within, output, real)
from int8blas.core.results cimport empty, empty_like
from int8blas.gemm.call cimport (
    is_usable, run_problem, set_a_operand, set_ao, set_b_operand, set_bo, set_c, warn_saturated)
from int8blas.gemm.four_bits cimport PackedB4
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.problem cimport Problem, start

from int8blas.core.words import shown

cnp.import_array()

# The defaults of arguments. Functions compare arguments with the defaults by identity, which is fast.
cdef object ZERO = 0
cdef str FIXED = "F"
cdef str EXACT = "exact"
cdef enum:
    FOUR_BITS = -4              # the type of B if it is a PackedB4
# The spelling of operands' types in the names of GEMMs.
cdef dict SIGNS = {cnp.NPY_UINT8: "u8", cnp.NPY_INT8: "s8", FOUR_BITS: "s4"}


cdef cnp.ndarray set_offset(Problem *g, object co, object offsetc):
    """Set co in the form that `offsetc` names. Return the array that owns a vector of offsets."""
    cdef cnp.ndarray array, words
    cdef int32_t *offsets
    cdef int64_t value
    cdef cnp.npy_intp i
    cdef str kind = FIXED
    if offsetc is FIXED and is_within(co, INT32_MIN, INT32_MAX, &value):
        g.epilogue.co = <int32_t>value
        return None
    if offsetc is not FIXED:
        kind = offsetc.upper() if isinstance(offsetc, str) else ""
    if kind not in ("F", "R", "C"):
        raise ValueError(f"offsetc must be 'F', 'R' or 'C', got {shown(offsetc)}")
    if kind == "F":
        array = integers(co, "co", INT32_MIN, INT32_MAX, -1, "")
    elif kind == "C":
        array = integers(co, "co", INT32_MIN, INT32_MAX, g.m, "a row of C each, as offsetc is 'C'")
    else:
        array = integers(co, "co", INT32_MIN, INT32_MAX, g.n, "a column of C each, as offsetc is 'R'")
    if array.ndim == 0:
        g.epilogue.co = <int32_t>(<int64_t *>cnp.PyArray_DATA(array))[0]
        return None
    words = cnp.PyArray_EMPTY(1, cnp.PyArray_DIMS(array), cnp.NPY_INT32, 0)
    offsets = <int32_t *>cnp.PyArray_DATA(words)
    for i in range(cnp.PyArray_DIM(array, 0)):
        offsets[i] = <int32_t>(<int64_t *>cnp.PyArray_DATA(array))[i]
    if kind == "C":
        g.epilogue.co_rows = offsets
    else:
        g.epilogue.co_cols = offsets
    return words


cdef int wrong_pair(str name, object a, object b, int a_type, int b_type) except -1:
    """Raise TypeError. The error names the GEMM that takes these operands, if there is one."""
    if b_type == FOUR_BITS and type(b) is not PackedB4:
        raise TypeError(f"b must be a PackedB4, which pack_b(b, bits=4) makes, got {type(b).__name__}")
    cdef str a_sign = sign_of(cnp.PyArray_TYPE(<cnp.ndarray>a), a_type), b_sign = sign_of(type_of_b(b), b_type)
    cdef str other = f"gemm_{a_sign}{b_sign}s32"
    if other != name:
        wanted, got = ("a must be uint8", "int8") if a_type == cnp.NPY_UINT8 else ("a must be int8", "uint8")
        if name[5:7] == a_sign:
            wanted, got = ("b must be uint8", "int8") if b_type == cnp.NPY_UINT8 else ("b must be int8", "uint8")
            got = f"a PackedB of {got}" if type(b) is PackedB else got
        raise TypeError(f"{wanted}, got {got}: {other} takes these operands, and so does matmul")
    return 0


cdef inline int type_of_b(object b) noexcept:
    if type(b) is PackedB:
        return (<PackedB>b)._typenum
    return FOUR_BITS if type(b) is PackedB4 else cnp.PyArray_TYPE(<cnp.ndarray>b)


cdef str sign_of(int given, int wanted):
    """Return an operand's type as the names of GEMMs spell it, or the wanted type if no GEMM takes the operand."""
    return SIGNS[given if given in SIGNS else wanted]


cdef cnp.ndarray operand_array(object x, str name, int typenum):
    """Convert an operand that is not an ndarray to an ndarray."""
    cdef cnp.ndarray array = as_array(x, name)
    return array if cnp.PyArray_TYPE(array) in SIGNS else elements(x, name, (typenum,))


cdef object multiply_arrays(
        str name, object alpha, object a, object b, object beta, object c, object trans_a, object trans_b,
        object overwrite_c, object offsetc, object ao, object bo, object co, object numerics, int a_type, int b_type):
    """Check the arguments of a GEMM, set up the problem, and compute it."""
    cdef Problem g
    cdef cnp.ndarray target, given = None, _ao_array, _bo_array, _co_array
    cdef bint transpose, overwrites = (
        overwrite_c is True or overwrite_c is not False and flag(overwrite_c, "overwrite_c"))
    cdef int saturated
    cdef cnp.npy_intp shape[2]
    start(&g, numerics is not EXACT and check_numerics(numerics))
    g.epilogue.alpha, g.epilogue.beta = real(alpha, "alpha"), real(beta, "beta")
    # The checks of arrays are inline. A function that returned the array would change its reference count, which takes
    # longer than the checks.
    if not cnp.PyArray_CheckExact(a):
        a = operand_array(a, "a", a_type)
    if not cnp.PyArray_CheckExact(b) and type(b) is not PackedB:
        if b_type != FOUR_BITS:
            b = operand_array(b, "b", b_type)
        elif type(b) is not PackedB4:
            wrong_pair(name, a, b, a_type, b_type)
    if cnp.PyArray_TYPE(<cnp.ndarray>a) != a_type or type_of_b(b) != b_type:
        wrong_pair(name, a, b, a_type, b_type)
    set_a_operand(&g, <cnp.ndarray>a, a_type, trans_a, "trans_a")
    transpose = check_transpose(trans_b, "trans_b")
    set_b_operand(&g, b, b_type, transpose)
    if ao is not ZERO:
        _ao_array = set_ao(&g, ao, "a row of op(a) each")
    if bo is not ZERO:
        _bo_array = set_bo(&g, bo, "a column of op(b) each")
    if co is not ZERO or offsetc is not FIXED:
        _co_array = set_offset(&g, co, offsetc)
    if c is None:
        shape[0], shape[1] = g.m, g.n
        target = empty(2, shape, cnp.NPY_INT32)
        if g.epilogue.beta != 0:
            target.fill(0)
    elif overwrites and is_output(c, cnp.NPY_INT32) and is_c(&g, <cnp.ndarray>c) and is_usable(<cnp.ndarray>c, a, b):
        target = <cnp.ndarray>c
    else:
        given = c_operand(&g, c, overwrites)
        target = result_for(&g, given, overwrites, <cnp.ndarray>a, b)
    set_c(&g, target)
    saturated = run_problem(&g, name)
    if given is not None and overwrites and target is not given:
        given[...] = target
    if saturated:
        warn_saturated(name)
    return c if c is not None and overwrites else target


cdef inline bint is_c(const Problem *g, cnp.ndarray array) noexcept:
    """Return whether an array has the shape of C."""
    return cnp.PyArray_NDIM(array) == 2 and cnp.PyArray_DIM(array, 0) == g.m and cnp.PyArray_DIM(array, 1) == g.n


cdef cnp.ndarray c_operand(Problem *g, object c, bint overwrites):
    """Return C as an array, writable if the call overwrites it."""
    cdef cnp.ndarray array
    if overwrites:
        array = output(c, "c")
    else:
        array = as_array(c, "c")
        check_type(array, "c", cnp.NPY_INT32)
    if not is_c(g, array):
        raise ValueError(f"c must have shape {(g.m, g.n)}, got {(<object>array).shape}")
    return array


cdef cnp.ndarray result_for(Problem *g, cnp.ndarray array, bint overwrites, cnp.ndarray a, object b):
    """Return the array to compute the result in: C itself, or a copy of it."""
    if overwrites and is_usable(array, a, b):
        return array
    cdef cnp.ndarray target = empty_like(array, cnp.NPY_INT32)
    if g.epilogue.beta != 0:
        target[...] = array
    return target


def gemm_u8s8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for uint8 A and int8 B.

    Parameters
    ----------
    alpha : float
        The factor of the product, finite.
    a : array_like of uint8
        A of shape (M, K), or (K, M) with `trans_a`; any strides.
    b : array_like of int8, or PackedB
        B of shape (K, N), or (N, K) with `trans_b`; any strides. A :class:`PackedB` saves the time of packing B.
    beta : float, optional
        The factor of C, finite. If it is 0, C is not read.
    c : ndarray of int32, optional
        C of shape (M, N), any strides; zeros by default.
    trans_a, trans_b : bool or int, optional
        op(X) is X, or X transposed if the flag is true (1, or 2 as in BLAS).
    overwrite_c : bool, optional
        Compute in `c`, whatever its memory order, and return it. If `overwrite_c` is false, the call does not write to
        `c`.
    offsetc : {'F', 'C', 'R'}, optional
        The form of `co`, in upper or lower case: one value ('F'); a column of M values, one for each row of C ('C'); or
        a row of N values, one for each column of C ('R').
    ao, bo : int, or array_like of int, optional
        Zero points, subtracted from A and B, in the range of their dtypes: one value, or one for each row of op(A) and
        for each column of op(B).
    co : int, or array_like of int, optional
        The offsets that are added, in the range of int32.
    numerics : {'exact', 'saturating'}, optional
        'saturating' gives the results of CPUs without VNNI: the products of k = 0, 1 and of k = 2, 3 in each group of
        four are added with saturation to int16, then in int32.

    Returns
    -------
    ndarray of int32
        Of shape (M, N): `c` itself with `overwrite_c`; a copy in c's memory order if only `c` is given; else a new
        C-ordered array.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Warns
    -----
    RuntimeWarning
        If an element was beyond int32, and saturated. :func:`matmul` with ``dtype=np.int64`` has the exact product.

    Notes
    -----
    The product is exact for every K: sums that could overflow int32 are kept in int64. If alpha is 1 and beta is 0 or
    1, the formula is evaluated in integers. If alpha is not 1, or beta is neither 0 nor 1, the formula is evaluated in
    double precision, in the order of the formula, without fused multiply-adds. The GEMM subtracts zero points, as
    oneDNN does, whereas MKL adds zero points. The page "Nuances of int8 Computations" of oneDNN describes the
    saturation.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a = np.array([[255, 255, 0, 0]], np.uint8)
    >>> b = np.array([[127], [127], [0], [0]], np.int8)
    >>> int8blas.gemm_u8s8s32(1, a, b)
    array([[64770]], dtype=int32)
    >>> int8blas.gemm_u8s8s32(1, a, b, numerics="saturating")
    array([[32767]], dtype=int32)
    >>> int8blas.gemm_u8s8s32(0.5, a, b, ao=5, co=[7], offsetc="R")
    array([[31757]], dtype=int32)
    """
    return multiply_arrays("gemm_u8s8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                           numerics, cnp.NPY_UINT8, cnp.NPY_INT8)


def gemm_s8s8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for int8 A and int8 B.

    Parameters, result and errors are as for :func:`gemm_u8s8s32`, but `a` is int8.

    Notes
    -----
    The kernels compute ``(A + 128) @ B - 128 * column sums of B``. With ``numerics="saturating"``, the products of A +
    128 saturate, as on CPUs without VNNI.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a = np.array([[127, 127, 0, 0]], np.int8)
    >>> int8blas.gemm_s8s8s32(1, a, a, trans_b=True)
    array([[32258]], dtype=int32)
    >>> int8blas.gemm_s8s8s32(1, a, a, trans_b=True, numerics="saturating")
    array([[255]], dtype=int32)
    """
    return multiply_arrays("gemm_s8s8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                           numerics, cnp.NPY_INT8, cnp.NPY_INT8)


def gemm_s8u8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for int8 A and uint8 B.

    Parameters, result and errors are as for :func:`gemm_u8s8s32`, but `a` is int8 and `b` uint8.

    Notes
    -----
    The kernels multiply A + 128 by B - 128, and correct the result with the column sums of B and the row sums of A.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a, b = np.full((1, 3), -128, np.int8), np.full((3, 2), 255, np.uint8)
    >>> int8blas.gemm_s8u8s32(1, a, b)
    array([[-97920, -97920]], dtype=int32)
    """
    return multiply_arrays("gemm_s8u8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                           numerics, cnp.NPY_INT8, cnp.NPY_UINT8)


def gemm_u8u8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for uint8 A and uint8 B.

    Parameters, result and errors are as for :func:`gemm_u8s8s32`, but `b` is uint8.

    Notes
    -----
    The kernels multiply A by B - 128, and correct the result with the row sums of A.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a, b = np.full((1, 3), 255, np.uint8), np.full((3, 2), 255, np.uint8)
    >>> int8blas.gemm_u8u8s32(1, a, b)
    array([[195075, 195075]], dtype=int32)
    """
    return multiply_arrays("gemm_u8u8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                           numerics, cnp.NPY_UINT8, cnp.NPY_UINT8)


def gemm_u8s4s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (B - bo) + beta * C + co)) for uint8 A and a B of 4 bits.

    Parameters, result and errors are as for :func:`gemm_u8s8s32`, but `b` is a :class:`PackedB4` of int4 or
    uint4; `trans_b` must be False, and `bo` must be in the range of B's 4-bit type. No sum of two products can
    saturate, so `numerics` makes no difference.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> b = int8blas.pack_b(np.full((100, 2), -8, np.int8), bits=4)
    >>> int8blas.gemm_u8s4s32(1, np.full((1, 100), 255, np.uint8), b)
    array([[-204000, -204000]], dtype=int32)
    """
    return multiply_arrays("gemm_u8s4s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                           numerics, cnp.NPY_UINT8, FOUR_BITS)


def gemm_s8s4s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (B - bo) + beta * C + co)) for int8 A and a B of 4 bits.

    Parameters, result and errors are as for :func:`gemm_u8s4s32`, but `a` is int8.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> b = int8blas.pack_b(np.full((100, 2), 15, np.uint8), bits=4)
    >>> int8blas.gemm_s8s4s32(1, np.full((1, 100), -128, np.int8), b, bo=[0, 15])
    array([[-192000,       0]], dtype=int32)
    """
    return multiply_arrays("gemm_s8s4s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co,
                           numerics, cnp.NPY_INT8, FOUR_BITS)
