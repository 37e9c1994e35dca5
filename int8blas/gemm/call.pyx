"""Set up a Problem from Python arguments and run it: the code that ``blas`` and ``matmul`` share."""

import sys

from libc.stdint cimport int64_t, uintptr_t
from libc.stdio cimport fputs, snprintf, stderr
cimport int8blas.core.cnumpy as cnp

from int8blas.core.arrays cimport bounds, check_transpose, check_type, integers, is_within
from int8blas.core.threads cimport KEEPS_GIL_WORK, max_threads
from int8blas.core.turns cimport end_turn, keeps_gil, take_turn
from int8blas.core.words import warn
from int8blas.core.verbose cimport LINE_BYTES, seconds, verbose, write_line
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.four_bits cimport PackedB4
from int8blas.gemm.operand cimport SHIFT
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.problem cimport LOWER, WHOLE

cnp.import_array()

# Functions compare arguments with the default ZERO by identity, which is fast.
cdef object ZERO = 0


cdef int set_a_operand(Problem *g, cnp.ndarray a, int a_type, object trans, str trans_name) except -1:
    """Check A, and set it. The conversion of the flag may run Python code, so it precedes the checks."""
    cdef bint transpose = check_transpose(trans, trans_name)
    check_type(a, "a", a_type)
    if cnp.PyArray_NDIM(a) != 2:
        raise ValueError(f"a must have 2 dimensions, got shape {(<object>a).shape}")
    set_a(g, a, transpose)
    return 0


cdef int set_b_operand(Problem *g, object b, int b_type, bint transpose) except -1:
    """Check B, an array or PackedB, and set it. A must be set."""
    cdef PackedB packed
    cdef int64_t b_rows
    if type(b) is PackedB:
        packed = <PackedB>b
        if transpose:
            raise ValueError("trans_b must be False for a PackedB, which is packed as op(B); give trans_b to pack_b")
        packed.fill(g)
        packed.fill_split(g, g.m)
        b_rows = packed._k
    elif type(b) is PackedB4:
        if transpose:
            raise ValueError("trans_b must be False for a PackedB4, which is packed as op(B); give trans_b to pack_b")
        (<PackedB4>b).fill(g)
        b_rows = (<PackedB4>b)._k
    else:
        check_type(<cnp.ndarray>b, "b", b_type)
        if cnp.PyArray_NDIM(<cnp.ndarray>b) != 2:
            raise ValueError(f"b must have 2 dimensions, got shape {b.shape}")
        set_b(g, <cnp.ndarray>b, transpose)
        b_rows = cnp.PyArray_DIMS(<cnp.ndarray>b)[transpose]
    if b_rows != g.k:
        raise ValueError(f"b must have {g.k} rows in op(b), as op(a) has {g.k} columns, got {b_rows}")
    return 0


cdef cnp.ndarray set_ao(Problem *g, object value, str count):
    """Set the zero point of A, or of each row of A. A must be set. Return the array that owns a vector of zero
    points."""
    cdef int64_t low = -g.a.zero_point
    return add_zero_point(value, "ao", low, low + 255, g.m, count, &g.a.zero_point, &g.a.zero_points)


cdef cnp.ndarray set_bo(Problem *g, object value, str count):
    """Set the zero point of B, or of each column of B. B must be set. Return the array that owns a vector of zero
    points."""
    cdef int64_t low = -SHIFT - g.b.zero_point, high = low + 255
    if g.four_bits.data is not NULL:
        low, high = -<int64_t>g.four_bits.zero, 15 - <int64_t>g.four_bits.zero
    return add_zero_point(value, "bo", low, high, g.n, count, &g.b.zero_point, &g.b.zero_points)


cdef cnp.ndarray add_zero_point(object value, str name, int64_t low, int64_t high, Py_ssize_t length, str count,
                                int64_t *scalar, const int64_t **vector):
    """Check that zero points are in [low, high]. Add one zero point to the shift in `scalar`, or set `vector` to an
    array of shifted zero points."""
    cdef cnp.ndarray array
    cdef int64_t shift = scalar[0], given
    cdef int64_t *values
    cdef Py_ssize_t i
    if value is ZERO:
        return None
    if is_within(value, low, high, &given):
        scalar[0] += given
        return None
    array = integers(value, name, low, high, length, count)
    values = <int64_t *>cnp.PyArray_DATA(array)
    if cnp.PyArray_NDIM(array) == 0:
        scalar[0] += values[0]
        return None
    for i in range(cnp.PyArray_DIM(array, 0)):
        values[i] += shift
    vector[0] = values
    return array


cdef bint is_usable(cnp.ndarray c, cnp.ndarray a, object b) noexcept:
    """Return whether the kernels may write to `c` itself: `c` is aligned and shares no memory with the operands. `b` is
    None if B is packed."""
    cdef uintptr_t low, high, from_, to
    if not cnp.PyArray_ISALIGNED(c):
        return False
    bounds(c, &low, &high)
    bounds(a, &from_, &to)
    if low < to and from_ < high:
        return False
    if not isinstance(b, cnp.ndarray):
        return True
    bounds(<cnp.ndarray>b, &from_, &to)
    return low >= to or from_ >= high


cdef int run_problem(Problem *g, str name) except -1:
    """Compute a problem. Release the GIL, unless releasing it takes longer than the product. Return whether an element
    saturated."""
    cdef int status, saturated = 0
    g.epilogue.saturated = &saturated
    if verbose:
        run_verbose(g, name)
        return saturated
    if keeps_gil(<double>g.m * g.n * (g.k + 1), KEEPS_GIL_WORK):
        status = gemm(g)
    else:
        g.threads = max_threads()
        with nogil:
            end_turn()
            status = gemm(g)
            take_turn()
    check_memory(status, name)
    return saturated


cdef int no_memory(str name) except -1:
    """Raise MemoryError for `check_memory`."""
    raise MemoryError(f"{name}: no memory for the workspace")


cdef int warn_saturated(str name) except -1:
    """Warn that elements saturated. Call this function after the result is complete, because a filter may turn the
    warning into an error."""
    warn(f"{name}: elements of the result beyond int32 were saturated; int8blas.matmul with dtype=np.int64 has them "
         "all")
    return 0


cdef int run_verbose(Problem *g, str name) except -1:
    """Compute a problem, and write a line about it to the standard error stream."""
    cdef int status
    cdef char line[LINE_BYTES]
    cdef bytes encoded = name.encode()
    cdef const char *text = encoded
    g.threads = max_threads()
    with nogil:
        status = run_timed(g, text, line)
    check_memory(status, name)
    print(line.decode(), end="", file=sys.stderr, flush=True)
    return 0


cdef int run_nogil(Problem *g, const char *name) noexcept nogil:
    """Compute a problem like `run_problem`, for a thread that may have no Python state. Return 0, or -1 if there is no
    memory."""
    cdef int status
    cdef char line[LINE_BYTES]
    g.threads = max_threads()
    if not verbose:
        return gemm(g)
    status = run_timed(g, name, line)
    if status == 0:
        fputs(line, stderr)
    return status


cdef int run_timed(const Problem *g, const char *name, char *line) noexcept nogil:
    """Compute a problem, and describe it in a line of LINE_BYTES bytes. Return 0, or -1 if there is no memory."""
    cdef char sizes[LINE_BYTES]
    cdef int status, threads
    cdef double elapsed = seconds()
    snprintf(sizes, LINE_BYTES, b"m=%lld,n=%lld,k=%lld", <long long>g.m, <long long>g.n, <long long>g.k)
    status = gemm(g, &threads)
    elapsed = seconds() - elapsed
    cdef const char *kind = b"plain" if g.panels.data is NULL and g.four_bits.data is NULL else b"packed"
    if g.c.half != WHOLE:
        kind = b"lower" if g.c.half == LOWER else b"upper"
    write_line(line, name, sizes, kind, g.kernels, threads, elapsed)
    return status
