"""GEMM on 8-bit integers with SciPy's calling convention, and ``matmul`` with NumPy's.

The four GEMMs differ in the types of A and B. All compute, for op(X) = X or its transpose,

    C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co))

where the product is exact, ``rne`` rounds half to even and ``sat_s32`` saturates to int32. With alpha = 1 and beta 0 or
1 everything is integer arithmetic; otherwise it is double precision, in the order of the formula. The result does not
depend on the CPU, the number of threads, packing or memory order.
"""

import sys
import time

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memset
cimport numpy as cnp
import numpy as np

from int8blas._arrays cimport check_numerics, check_transpose, int8_operand, integers, operand, output, overlap, real
from int8blas._gemm cimport Gemm, Plan, gemm, make_plan
from int8blas._kernels cimport I8_PANEL, current_kernels
from int8blas._threads cimport max_threads
from int8blas.packing cimport PackedB

import os

from int8blas._explanation import Explanation

cnp.import_array()

cdef bint verbose = os.environ.get("INT8BLAS_VERBOSE", "0") not in ("", "0")


cdef void set_a(Gemm *g, cnp.ndarray a, bint transpose) noexcept:
    """A of the problem, from the last two dimensions of `a`; M and K with it."""
    cdef int rows = a.ndim - (1 if transpose else 2), columns = a.ndim - (2 if transpose else 1)
    g.m, g.k = a.shape[rows], a.shape[columns]
    g.a_row, g.a_col = a.strides[rows], a.strides[columns]
    g.a = <const uint8_t *>cnp.PyArray_DATA(a)
    if cnp.PyArray_TYPE(a) == cnp.NPY_INT8:
        g.a_flip = 0x80


cdef void set_b(Gemm *g, cnp.ndarray b, bint transpose) noexcept:
    """Plain B of the problem, from the last two dimensions of `b`; N with it."""
    cdef int rows = b.ndim - (1 if transpose else 2), columns = b.ndim - (2 if transpose else 1)
    g.n = b.shape[columns]
    g.b_row, g.b_col = b.strides[rows], b.strides[columns]
    g.b = <const uint8_t *>cnp.PyArray_DATA(b)
    if cnp.PyArray_TYPE(b) == cnp.NPY_UINT8:
        g.b_flip = 0x80


cdef cnp.ndarray set_zero_point(object value, str name, bint unsigned, Py_ssize_t length, str count, int64_t shift,
                                int64_t *scalar, const int64_t **vector):
    """One of the zero points, shifted as its operand is. Returns the array that holds a vector."""
    cdef cnp.ndarray array
    cdef int64_t low = 0 if unsigned else -128, high = 255 if unsigned else 127
    scalar[0] = shift
    if type(value) is int and value == 0:
        return None
    array = integers(value, name, low, high, length, count)
    if array.ndim == 0:
        scalar[0] = (<int64_t *>cnp.PyArray_DATA(array))[0] + shift
        return None
    array = array + shift
    vector[0] = <const int64_t *>cnp.PyArray_DATA(array)
    return array


cdef cnp.ndarray set_offset(Gemm *g, object co, object offsetc):
    """co, by `offsetc`. Returns the array that holds a vector."""
    cdef cnp.ndarray array
    cdef str kind = offsetc.upper() if isinstance(offsetc, str) else ""
    if kind not in ("F", "R", "C") or not kind:
        raise ValueError(f"offsetc must be 'F', 'R' or 'C', got {offsetc!r}")
    if type(co) is int and co == 0:
        return None
    if kind == "F":
        array = integers(co, "co", INT32_MIN, INT32_MAX, -1, "")
    elif kind == "C":
        array = integers(co, "co", INT32_MIN, INT32_MAX, g.m, "a row of C each, as offsetc is 'C'")
    else:
        array = integers(co, "co", INT32_MIN, INT32_MAX, g.n, "a column of C each, as offsetc is 'R'")
    if array.ndim == 0:
        g.co = <int32_t>(<int64_t *>cnp.PyArray_DATA(array))[0]
        return None
    array = array.astype(np.int32)
    if kind == "C":
        g.co_rows = <const int32_t *>cnp.PyArray_DATA(array)
    else:
        g.co_cols = <const int32_t *>cnp.PyArray_DATA(array)
    return array


cdef void set_c(Gemm *g, cnp.ndarray c) noexcept:
    """C of the problem, from the last two dimensions of `c`."""
    g.c = <char *>cnp.PyArray_DATA(c)
    g.c_row, g.c_col = c.strides[c.ndim - 2], c.strides[c.ndim - 1]


cdef int run(const Gemm *g, str name) except -1:
    """Compute, without the GIL."""
    cdef int status
    if verbose:
        return run_verbose(g, name)
    with nogil:
        status = gemm(g)
    if status:
        raise MemoryError(f"{name}: no memory for the workspace")
    return 0


cdef int run_verbose(const Gemm *g, str name) except -1:
    """Compute and write a line about it to the standard error stream."""
    cdef int status
    cdef Plan p
    start = time.perf_counter()
    with nogil:
        status = gemm(g)
    elapsed = time.perf_counter() - start
    if status:
        raise MemoryError(f"{name}: no memory for the workspace")
    threads = 1
    if g.m and g.n:
        make_plan(g, &p)
        threads = p.m_parts * p.n_parts
    packed = "packed" if g.packed is not NULL else "plain"
    print(f"int8blas,{name},m={g.m},n={g.n},k={g.k},{packed},{g.kernels.name.decode()},threads={threads},"
          f"{1e3 * elapsed:.4f} ms", file=sys.stderr, flush=True)
    return 0


cdef void start(Gemm *g, bint saturating) noexcept:
    """An empty problem for the calling thread."""
    memset(g, 0, sizeof(Gemm))
    g.alpha = 1
    g.saturating = saturating
    g.kernels = current_kernels()
    g.threads = max_threads()


cdef bint is_usable(cnp.ndarray c, cnp.ndarray a, object b):
    """Whether the kernels may write to `c` itself: it is aligned and shares no memory with the operands."""
    if not cnp.PyArray_ISALIGNED(c) or overlap(c, a):
        return False
    return isinstance(b, PackedB) or not overlap(c, b)


cdef object set_operands(Gemm *g, object a, object b, int a_type, int b_type, object trans_a, object trans_b):
    """Check A and B, set them, and return them as arrays (or PackedB)."""
    cdef cnp.ndarray a_array = operand(a, "a", a_type), b_array
    cdef PackedB packed
    cdef int64_t b_rows
    cdef bint transpose
    if a_array.ndim != 2:
        raise ValueError(f"a must have 2 dimensions, got shape {(<object>a_array).shape}")
    set_a(g, a_array, check_transpose(trans_a, "trans_a"))
    transpose = check_transpose(trans_b, "trans_b")
    if isinstance(b, PackedB):
        packed = b
        if packed._typenum != b_type:
            raise TypeError(f"b must be {'uint8' if b_type == cnp.NPY_UINT8 else 'int8'}, got a PackedB of "
                            f"{packed.dtype}")
        if transpose:
            raise ValueError("trans_b must be False for a PackedB, which is packed as op(B); give trans_b to pack_b")
        packed.fill(g)
        g.n = packed._n
        b_rows = packed._k
    else:
        b_array = operand(b, "b", b_type)
        if b_array.ndim != 2:
            raise ValueError(f"b must have 2 dimensions, got shape {(<object>b_array).shape}")
        set_b(g, b_array, transpose)
        b_rows = b_array.shape[1 if transpose else 0]
        b = b_array
    if b_rows != g.k:
        raise ValueError(f"b must have {g.k} rows in op(b), as op(a) has {g.k} columns, got {b_rows}")
    return a_array, b


cdef object call(str name, object alpha, object a, object b, object beta, object c, object trans_a, object trans_b,
                 object overwrite_c, object offsetc, object ao, object bo, object co, object numerics, int a_type,
                 int b_type):
    """All four GEMMs: check, set up, compute."""
    cdef Gemm g
    cdef cnp.ndarray result, target, ao_array, bo_array, co_array
    cdef cnp.npy_intp shape[2]
    start(&g, check_numerics(numerics))
    g.alpha, g.beta = real(alpha, "alpha"), real(beta, "beta")
    a, b = set_operands(&g, a, b, a_type, b_type, trans_a, trans_b)
    ao_array = set_zero_point(ao, "ao", a_type == cnp.NPY_UINT8, g.m, "a row of op(a) each",
                              0 if a_type == cnp.NPY_UINT8 else 128, &g.ao, &g.ao_rows)
    bo_array = set_zero_point(bo, "bo", b_type == cnp.NPY_UINT8, g.n, "a column of op(b) each",
                              -128 if b_type == cnp.NPY_UINT8 else 0, &g.bo, &g.bo_cols)
    co_array = set_offset(&g, co, offsetc)
    if c is None:
        shape[0], shape[1] = g.m, g.n
        result = cnp.PyArray_EMPTY(2, shape, cnp.NPY_INT32, 0)
        if g.beta != 0:
            result.fill(0)
        target = result
    else:
        result = target = set_result(&g, c, overwrite_c, a, b)
    set_c(&g, target)
    run(&g, name)
    if c is not None and overwrite_c and target is not c:
        c[...] = target
        return c
    return result


cdef cnp.ndarray set_result(Gemm *g, object c, object overwrite_c, cnp.ndarray a, object b):
    """The array that the result is computed in: `c` itself, or a copy of it."""
    cdef cnp.ndarray array
    if overwrite_c:
        array = output(c, "c")
    else:
        array = operand(c, "c", cnp.NPY_INT32)
    if array.ndim != 2 or array.shape[0] != g.m or array.shape[1] != g.n:
        raise ValueError(f"c must have shape {(g.m, g.n)}, got {(<object>array).shape}")
    if overwrite_c and is_usable(array, a, b):
        return array
    if g.beta == 0:
        return np.empty_like(array, dtype=np.int32, order="K", subok=False)
    return np.array(array, dtype=np.int32, order="K", copy=True, subok=False)


def gemm_u8s8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for uint8 A and int8 B.

    Parameters
    ----------
    alpha : float
        Finite.
    a : array_like of uint8
        A of shape (M, K), or (K, M) with `trans_a`; any strides, never copied.
    b : array_like of int8, or PackedB
        B of shape (K, N), or (N, K) with `trans_b`; any strides. A :class:`PackedB` is faster.
    beta : float, optional
        Finite. If it is 0, C is not read.
    c : ndarray of int32, optional
        C of shape (M, N), any strides; zeros if it is not given.
    trans_a, trans_b : bool or int, optional
        op(X) is X, or X transposed if the flag is true (1, or 2 as in BLAS).
    overwrite_c : bool, optional
        Compute in `c`, whatever its memory order, and return it. Otherwise `c` is left alone.
    offsetc : {'F', 'C', 'R'}, optional
        `co` is one value, M values of which one is added to each row of C (a column of values), or N of which one is
        added to each column (a row of values). Either case.
    ao, bo : int, or array_like of int, optional
        Zero points, subtracted from A and B, in the range of their dtypes: one value, or one for each row of op(A) and
        for each column of op(B).
    co : int, or array_like of int, optional
        Offsets in the range of int32.
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
        If an argument is not as above, before anything is written.

    Notes
    -----
    The product is exact for every K: where int32 sums could overflow, they are carried in int64. alpha = 1 with beta 0
    or 1 is integer arithmetic throughout; otherwise the formula is evaluated in double precision in the order written,
    without fused multiply-adds. As in oneDNN, zero points are subtracted (MKL adds them). The saturation is described
    in oneDNN's "Nuances of int8 Computations".

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
    array([[31122]], dtype=int32)
    """
    return call("gemm_u8s8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co, numerics,
                cnp.NPY_UINT8, cnp.NPY_INT8)


def gemm_s8s8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for int8 A and int8 B.

    Parameters, result and errors are those of :func:`gemm_u8s8s32`, with int8 `a`.

    Notes
    -----
    Computed as ``(A + 128) @ B - 128 * column sums of B``. With ``numerics="saturating"`` the shift comes first, as on
    CPUs without VNNI.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a = np.array([[127, 127, 0, 0]], np.int8)
    >>> int8blas.gemm_s8s8s32(1, a, a, trans_b=True)
    array([[32258]], dtype=int32)
    >>> int8blas.gemm_s8s8s32(1, a, a, trans_b=True, numerics="saturating")
    array([[255]], dtype=int32)
    """
    return call("gemm_s8s8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co, numerics,
                cnp.NPY_INT8, cnp.NPY_INT8)


def gemm_s8u8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for int8 A and uint8 B.

    Parameters, result and errors are those of :func:`gemm_u8s8s32`, with int8 `a` and uint8 `b`.

    Notes
    -----
    Computed on A + 128 and B - 128, with the column sums of B and the row sums of A as compensation.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a, b = np.full((1, 3), -128, np.int8), np.full((3, 2), 255, np.uint8)
    >>> int8blas.gemm_s8u8s32(1, a, b)
    array([[-97920, -97920]], dtype=int32)
    """
    return call("gemm_s8u8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co, numerics,
                cnp.NPY_INT8, cnp.NPY_UINT8)


def gemm_u8u8s32(alpha, a, b, beta=0.0, c=None, trans_a=False, trans_b=False, overwrite_c=False, *, offsetc="F", ao=0,
                 bo=0, co=0, numerics="exact"):
    """C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co)) for uint8 A and uint8 B.

    Parameters, result and errors are those of :func:`gemm_u8s8s32`, with uint8 `b`.

    Notes
    -----
    Computed on A and B - 128, with the row sums of A as compensation.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a, b = np.full((1, 3), 255, np.uint8), np.full((3, 2), 255, np.uint8)
    >>> int8blas.gemm_u8u8s32(1, a, b)
    array([[195075, 195075]], dtype=int32)
    """
    return call("gemm_u8u8s32", alpha, a, b, beta, c, trans_a, trans_b, overwrite_c, offsetc, ao, bo, co, numerics,
                cnp.NPY_UINT8, cnp.NPY_UINT8)


cdef object vector_to_matrix(cnp.ndarray array, str name, int axis):
    """numpy.matmul's rule for 1-D operands: a becomes a row, b a column."""
    if array.ndim == 0:
        raise ValueError(f"{name} must have at least 1 dimension, got a scalar")
    return array if array.ndim > 1 else np.expand_dims(array, axis)


def matmul(a, b, *, out=None, ao=0, bo=0, numerics="exact"):
    """The exact product of 8-bit arrays, with the shapes of :func:`numpy.matmul`.

    Parameters
    ----------
    a, b : array_like of uint8 or int8
        Matrices, stacks of matrices, or vectors, in any of the four combinations of types and with any strides. Leading
        dimensions are broadcast. `b` may be a :class:`PackedB`.
    out : ndarray of int32, optional
        Where to store the result; it must have the result's shape, and may have any strides.
    ao, bo : int, or array_like of int, optional
        Zero points, subtracted from `a` and `b`: one value, or one for each row of `a`'s and for each column of `b`'s
        matrices.
    numerics : {'exact', 'saturating'}, optional
        As in :func:`gemm_u8s8s32`.

    Returns
    -------
    ndarray of int32
        ``out`` if it is given; an int32 scalar if both operands are vectors. Results beyond int32 saturate.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above, before anything is written.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a = np.full((5, 2, 3), 100, np.uint8)
    >>> int8blas.matmul(a, np.full(3, -100, np.int8)).shape
    (5, 2)
    >>> int8blas.matmul(a[0], np.full((3, 1), -100, np.int8), ao=99)
    array([[-300],
           [-300]], dtype=int32)
    """
    cdef Gemm g
    cdef cnp.ndarray x = int8_operand(a, "a"), y, target, ao_array, bo_array
    cdef PackedB packed = None
    cdef tuple batch
    start(&g, check_numerics(numerics))
    x = vector_to_matrix(x, "a", 0)
    a_is_vector, b_is_vector = np.ndim(a) == 1, False
    set_a(&g, x, False)
    if isinstance(b, PackedB):
        packed = b
        packed.fill(&g)
        g.n = packed._n
        b_rows, b_unsigned, b_batch, y = packed._k, packed._typenum == cnp.NPY_UINT8, (), None
    else:
        y = int8_operand(b, "b")
        b_is_vector = y.ndim == 1
        y = vector_to_matrix(y, "b", 1)
        set_b(&g, y, False)
        b_rows, b_unsigned, b_batch = y.shape[y.ndim - 2], g.b_flip != 0, (<object>y).shape[:-2]
    if b_rows != g.k:
        raise ValueError(f"b must have {g.k} rows, as a has {g.k} columns, got {b_rows}")
    try:
        batch = np.broadcast_shapes((<object>x).shape[:-2], b_batch)
    except ValueError:
        raise ValueError(f"b must have leading dimensions that broadcast with a's {(<object>x).shape[:-2]}, got "
                         f"{b_batch}") from None
    ao_array = set_zero_point(ao, "ao", g.a_flip == 0, g.m, "a row of a each", 128 if g.a_flip else 0, &g.ao,
                              &g.ao_rows)
    bo_array = set_zero_point(bo, "bo", b_unsigned, g.n, "a column of b each", -128 if b_unsigned else 0, &g.bo,
                              &g.bo_cols)
    # The result with both matrix dimensions, and the axes that vectors lose.
    shape = (*batch, g.m, g.n)
    vector_axes = (*((len(batch),) if a_is_vector else ()), *((len(batch) + 1,) if b_is_vector else ()))
    final_shape = tuple(size for axis, size in enumerate(shape) if axis not in vector_axes)
    if out is None:
        target = np.empty(shape, np.int32)
    else:
        out_array = output(out, "out")
        if (<object>out_array).shape != final_shape:
            raise ValueError(f"out must have shape {final_shape}, got {(<object>out_array).shape}")
        if is_usable(out_array, x, b if packed is not None else y):
            target = np.expand_dims(out_array, vector_axes)
        else:
            target = np.empty(shape, np.int32)
    multiply_batch(&g, x, y, target, batch)
    if out is None:
        return target.reshape(final_shape) if vector_axes else target
    if not np.may_share_memory(target, out):
        out[...] = target.reshape(final_shape)
    return out


cdef int multiply_batch(Gemm *g, cnp.ndarray x, cnp.ndarray y, cnp.ndarray target, tuple batch) except -1:
    """One GEMM for each matrix of the broadcast stacks; a stack times one matrix is one GEMM where memory allows."""
    if batch and (y is None or y.ndim == 2) and g.ao_rows is NULL:
        rows, result = merge_stack(x), merge_stack(target)
        if rows is not None and result is not None:
            set_a(g, rows, False)
            set_c(g, result)
            return run(g, "matmul")
    stacked_x = np.broadcast_to(x, (*batch, *(<object>x).shape[-2:]))
    stacked_y = None if y is None else np.broadcast_to(y, (*batch, *(<object>y).shape[-2:]))
    for index in np.ndindex(batch):
        set_a(g, stacked_x[index], False)
        if y is not None:
            set_b(g, stacked_y[index], False)
        set_c(g, target[index])
        run(g, "matmul")
    return 0


cdef object merge_stack(cnp.ndarray array):
    """A stack of matrices as one matrix with all their rows, without a copy; None if its strides do not allow it."""
    try:
        return array.reshape((-1, (<object>array).shape[-1]), copy=False) if array.size else None
    except ValueError:
        return None


def explain(a, b, *, trans_a=False, trans_b=False, numerics="exact"):
    """How ``(op(A), op(B))`` would be multiplied here and now: kernel, blocking, threads, and why.

    Parameters
    ----------
    a : array_like of uint8 or int8
        A, as in :func:`gemm_u8s8s32`.
    b : array_like of uint8 or int8, or PackedB
        B.
    trans_a, trans_b : bool or int, optional
        Whether they are transposed.
    numerics : {'exact', 'saturating'}, optional
        As in :func:`gemm_u8s8s32`.

    Returns
    -------
    Explanation
        Its attributes are the decisions, its ``str`` a readable account of them.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> with int8blas.use_isa("ref"), int8blas.num_threads(1):
    ...     plan = int8blas.explain(np.zeros((64, 32), np.uint8), np.zeros((32, 48), np.int8))
    >>> plan.isa, plan.tile, plan.threads
    ('ref', (4, 16), 1)
    """
    cdef Gemm g
    cdef Plan p
    cdef cnp.ndarray array = int8_operand(a, "a")
    cdef int b_type = (<PackedB>b)._typenum if isinstance(b, PackedB) else cnp.PyArray_TYPE(int8_operand(b, "b"))
    start(&g, check_numerics(numerics))
    a, b = set_operands(&g, a, b, cnp.PyArray_TYPE(array), b_type, trans_a, trans_b)
    if g.a_flip:
        g.ao = 128
    if b_type == cnp.NPY_UINT8:
        g.bo = -128
    g.c_col = sizeof(int32_t)
    if g.m and g.n:
        make_plan(&g, &p)
    else:
        memset(&p, 0, sizeof(p))
        p.m_parts = p.n_parts = 1
    certified = None
    if isinstance(b, PackedB) and p.may_widen:
        certified = (int(np.count_nonzero(b.certified)), b.certified.size)
    return Explanation(
        shape=(g.m, g.n, g.k),
        isa=g.kernels.name.decode(),
        numerics=numerics,
        tile=(g.kernels.mr, g.kernels.np * I8_PANEL),
        block=(p.mc, p.nc * I8_PANEL, p.kc),
        threads=p.m_parts * p.n_parts,
        thread_grid=(p.m_parts, p.n_parts),
        max_threads=g.threads,
        b_is_packed=g.packed is not NULL,
        a_in_place=bool(p.direct_a),
        a_shifted=g.a_flip != 0,
        b_shifted=b_type == cnp.NPY_UINT8,
        wide_sums=bool(p.wide),
        may_widen=bool(p.may_widen),
        certified_panels=certified,
    )
