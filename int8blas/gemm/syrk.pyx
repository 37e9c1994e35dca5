"""Products of a matrix and its transpose, with SciPy's calling convention.

``syrk_u8s32`` and ``syrk_s8s32`` compute one triangle of C, where op(A) is A or its transpose::

    C := sat_s32(rne(alpha * (op(A) - ao) @ (op(A) - ao).T + beta * C))

The elements equal the elements of ``gemm_u8u8s32`` or ``gemm_s8s8s32``, bit for bit. ``blas`` describes the formula.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport check_numerics, flag, real
from int8blas.core.results cimport empty, empty_like
from int8blas.gemm.blas cimport c_operand, operand_array
from int8blas.gemm.call cimport is_usable, run_problem, set_a_operand, set_ao, set_c, warn_saturated
from int8blas.gemm.operand cimport SHIFT, transposed
from int8blas.gemm.problem cimport LOWER, UPPER, Problem, start

cnp.import_array()


cdef cnp.ndarray set_transpose(Problem *g):
    """Set B to the transpose of A, whose zero points must be set. Return the array that owns a vector of B's zero
    points."""
    cdef cnp.ndarray array = None
    cdef int64_t *values
    cdef int64_t i
    g.n = g.m
    g.b = transposed(&g.a, -SHIFT)
    if g.a.zero_points is not NULL:
        array = np.empty(g.n, np.int64)
        values = <int64_t *>cnp.PyArray_DATA(array)
        for i in range(g.n):
            values[i] = g.a.zero_points[i] - SHIFT
        g.b.zero_points = values
    return array


cdef cnp.ndarray new_c(Problem *g):
    """Make C. Set elements to zero, except the elements that the product writes without reading them."""
    cdef cnp.npy_intp shape[2]
    cdef cnp.ndarray target
    cdef int32_t *row
    cdef int64_t i
    shape[0] = shape[1] = g.n
    target = empty(2, shape, cnp.NPY_INT32)
    row = <int32_t *>cnp.PyArray_DATA(target)
    for i in range(g.n):
        if g.epilogue.beta != 0:
            memset(row, 0, g.n * sizeof(int32_t))
        elif g.c.half == UPPER:
            memset(row, 0, i * sizeof(int32_t))
        else:
            memset(row + i + 1, 0, (g.n - i - 1) * sizeof(int32_t))
        row += g.n
    return target


cdef object call(str name, object alpha, object a, object beta, object c, object trans, object lower,
                 object overwrite_c, object ao, object numerics, int a_type):
    """Check the arguments of `syrk_u8s32` or `syrk_s8s32`, set up the problem, and compute the problem."""
    cdef Problem g
    cdef cnp.ndarray x, target, given, _ao_array, _bo_array
    cdef int saturated
    cdef bint overwrites = flag(overwrite_c, "overwrite_c")
    start(&g, check_numerics(numerics))
    g.epilogue.alpha, g.epilogue.beta = real(alpha, "alpha"), real(beta, "beta")
    x = operand_array(a, "a", a_type)
    if cnp.PyArray_TYPE(x) != a_type:
        wanted, got, other = ("uint8", "int8", "s8") if a_type == cnp.NPY_UINT8 else ("int8", "uint8", "u8")
        raise TypeError(f"a must be {wanted}, got {got}: syrk_{other}s32 takes it, and so does matmul(a, a.T)")
    set_a_operand(&g, x, a_type, trans, "trans")
    g.c.half = LOWER if flag(lower, "lower") else UPPER
    _ao_array = set_ao(&g, ao, "a row of op(a) each")
    _bo_array = set_transpose(&g)
    if c is None:
        target = new_c(&g)
    else:
        given = c_operand(&g, c, overwrites)
        target = given
        if not overwrites or not is_usable(given, x, x):
            target = empty_like(given, cnp.NPY_INT32)
            target[...] = given
    set_c(&g, target)
    saturated = run_problem(&g, name)
    if c is not None and overwrites and target is not given:
        np.copyto(given, target, where=np.tri(g.n, dtype=bool) if g.c.half == LOWER else np.tri(g.n, dtype=bool).T)
    if saturated:
        warn_saturated(name)
    return c if c is not None and overwrites else target


def syrk_u8s32(alpha, a, beta=0.0, c=None, trans=False, lower=False, overwrite_c=False, *, ao=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(A) - ao).T + beta * C)) in one triangle, for uint8 A.

    This function does half the work of :func:`gemm_u8u8s32`. Products of a matrix and its transpose are Gram matrices,
    covariances, and similarities between the rows of a matrix.

    Parameters
    ----------
    alpha : float
        The factor of the product, finite.
    a : array_like of uint8
        A of shape (N, K), or (K, N) with `trans`; any strides.
    beta : float, optional
        The factor of C, finite. If it is 0, C is not read.
    c : ndarray of int32, optional
        C of shape (N, N), any strides; zeros by default.
    trans : bool or int, optional
        op(A) is A, or A transposed if the flag is true (1, or 2 as in BLAS): C is ``A @ A.T``, or ``A.T @ A``.
    lower : bool or int, optional
        Compute the lower triangle, not the upper triangle. Both triangles include the diagonal. The rest of C keeps the
        values of `c`, or is zero without `c`.
    overwrite_c : bool, optional
        Compute in `c`, whatever its memory order, and return it. By default the function does not change `c`.
    ao : int, or array_like of int, optional
        Zero point, subtracted from A, in the range of its dtype: one value, or one for each row of op(A).
    numerics : {'exact', 'saturating'}, optional
        As in :func:`gemm_u8s8s32`.

    Returns
    -------
    ndarray of int32
        Of shape (N, N): `c` itself with `overwrite_c`; a copy in c's memory order if only `c` is given; else a new
        C-ordered array.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Warns
    -----
    RuntimeWarning
        If an element was beyond int32, and saturated. ``matmul(a, a.T, dtype=np.int64)`` has the exact product.

    See Also
    --------
    matmul : ``matmul(a, a.T)`` and ``matmul(a.T, a)`` also compute one triangle, and mirror the triangle.

    Notes
    -----
    The elements have the bits of ``gemm_u8u8s32(1, a, a, trans_b=True)``, or of ``gemm_u8u8s32(1, a, a, trans_a=True)``
    with `trans`.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.array([[1, 2], [3, 4], [5, 6]], np.uint8)
    >>> int8blas.syrk_u8s32(1, x, trans=True)
    array([[35, 44],
           [ 0, 56]], dtype=int32)
    >>> int8blas.syrk_u8s32(1, x, ao=3, lower=True)
    array([[ 5,  0,  0],
           [-1,  1,  0],
           [-7,  3, 13]], dtype=int32)
    """
    return call("syrk_u8s32", alpha, a, beta, c, trans, lower, overwrite_c, ao, numerics, cnp.NPY_UINT8)


def syrk_s8s32(alpha, a, beta=0.0, c=None, trans=False, lower=False, overwrite_c=False, *, ao=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(A) - ao).T + beta * C)) in one triangle, for int8 A.

    Parameters, result and errors are as for :func:`syrk_u8s32`, but `a` is int8.

    Notes
    -----
    The elements have the bits of ``gemm_s8s8s32(1, a, a, trans_b=True)``.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> int8blas.syrk_s8s32(2, np.array([[-1, 2], [3, -4]], np.int8))
    array([[ 10, -22],
           [  0,  50]], dtype=int32)
    """
    return call("syrk_s8s32", alpha, a, beta, c, trans, lower, overwrite_c, ao, numerics, cnp.NPY_INT8)
