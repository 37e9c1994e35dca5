"""A problem for the driver from Python arguments, and its execution: what ``blas`` and ``matmul`` have in common."""

import os
import sys
import time

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset
cimport numpy as cnp

from int8blas._arrays cimport check_transpose, integers, operand, overlap
from int8blas._gemm cimport gemm
from int8blas._kernels cimport current_kernels
from int8blas._plan cimport Gemm, Plan, is_tiny, make_plan
from int8blas._threads cimport max_threads
from int8blas._tiny cimport gemm_tiny
from int8blas.packing cimport PackedB

cnp.import_array()

cdef bint verbose = os.environ.get("INT8BLAS_VERBOSE", "0") not in ("", "0")
# Multiply-adds that take less time than releasing and taking the GIL.
cdef int64_t KEEP_GIL_WORK = 1 << 15
# Compared by identity first: what callers pass nearly always is this very object.
cdef object ZERO = 0


cdef void start(Gemm *g, bint saturating) noexcept:
    """An empty problem for the calling thread."""
    memset(g, 0, sizeof(Gemm))
    g.alpha = 1
    g.saturating = saturating
    g.kernels = current_kernels()
    g.threads = max_threads()


cdef void set_a(Gemm *g, cnp.ndarray a, bint transpose) noexcept:
    """A of the problem, from the last two dimensions of `a`; M and K with it."""
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(a) + cnp.PyArray_NDIM(a) - 2
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(a) + cnp.PyArray_NDIM(a) - 2
    g.m, g.k = shape[transpose], shape[1 - transpose]
    g.a_row, g.a_col = strides[transpose], strides[1 - transpose]
    g.a = <const uint8_t *>cnp.PyArray_DATA(a)
    if cnp.PyArray_TYPE(a) == cnp.NPY_INT8:
        g.a_flip = 0x80


cdef void set_b(Gemm *g, cnp.ndarray b, bint transpose) noexcept:
    """Plain B of the problem, from the last two dimensions of `b`; N with it."""
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(b) + cnp.PyArray_NDIM(b) - 2
    g.n = cnp.PyArray_DIMS(b)[cnp.PyArray_NDIM(b) - 1 - transpose]
    g.b_row, g.b_col = strides[transpose], strides[1 - transpose]
    g.b = <const uint8_t *>cnp.PyArray_DATA(b)
    if cnp.PyArray_TYPE(b) == cnp.NPY_UINT8:
        g.b_flip = 0x80


cdef void set_c(Gemm *g, cnp.ndarray c) noexcept:
    """C of the problem, from the last two dimensions of `c`."""
    g.c = <char *>cnp.PyArray_DATA(c)
    g.c_row, g.c_col = c.strides[c.ndim - 2], c.strides[c.ndim - 1]


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
    if type(b) is PackedB:
        packed = <PackedB>b
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
        b_rows = cnp.PyArray_DIMS(b_array)[transpose]
        b = b_array
    if b_rows != g.k:
        raise ValueError(f"b must have {g.k} rows in op(b), as op(a) has {g.k} columns, got {b_rows}")
    return a_array, b


cdef cnp.ndarray set_zero_point(object value, str name, bint unsigned, Py_ssize_t length, str count, int64_t shift,
                                int64_t *scalar, const int64_t **vector):
    """One of the zero points, shifted as its operand is. Returns the array that holds a vector."""
    cdef cnp.ndarray array
    cdef int64_t low = 0 if unsigned else -128, high = 255 if unsigned else 127
    scalar[0] = shift
    if value is ZERO:
        return None
    array = integers(value, name, low, high, length, count)
    if array.ndim == 0:
        scalar[0] = (<int64_t *>cnp.PyArray_DATA(array))[0] + shift
        return None
    array = array + shift
    vector[0] = <const int64_t *>cnp.PyArray_DATA(array)
    return array


cdef bint is_usable(cnp.ndarray c, cnp.ndarray a, object b):
    """Whether the kernels may write to `c` itself: it is aligned and shares no memory with the operands."""
    if not cnp.PyArray_ISALIGNED(c) or overlap(c, a):
        return False
    return type(b) is PackedB or not overlap(c, <cnp.ndarray>b)


cdef int run(const Gemm *g, str name) except -1:
    """Compute, without the GIL unless that takes longer than the problem."""
    cdef int status
    if verbose:
        return run_verbose(g, name)
    if is_tiny(g) and g.m * g.n * g.k <= KEEP_GIL_WORK:
        if g.m and g.n:
            gemm_tiny(g)
        return 0
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
