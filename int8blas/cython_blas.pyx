"""The GEMMs and the search for nearest rows, for compiled code. Cython code uses ``cimport``. Numba, ctypes and other
languages use the addresses of the functions.

``cython_blas.pxd`` documents the functions, their arguments and error codes. Cython code imports a function by

    from int8blas.cython_blas cimport gemm_u8s8s32

``__pyx_capi__`` has a capsule for each function. The name of a capsule is the C signature, and its pointer is the
address of the function. The functions have no Python objects in their signatures, raise no exceptions and need no GIL.

Examples
--------
>>> import ctypes, numpy as np
>>> from int8blas import cython_blas
>>> capsule = cython_blas.__pyx_capi__["packed_b_size"]
>>> name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
>>> name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
>>> pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
>>> name_of(capsule)
b'int64_t (int64_t, int64_t)'
>>> prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
>>> packed_b_size = prototype(pointer_of(capsule, name_of(capsule)))
>>> packed_b_size(1000, 1000) > 1000 * 1000
True
>>> packed_b_size(-1, 1000)
-1
"""

from libc.math cimport isfinite
from libc.stdint cimport INT32_MAX, int8_t, int32_t, int64_t, uint8_t, uintptr_t

from int8blas.core.kernels cimport I8_COSINE, I8_GROUP, I8_INNER, I8_PANEL, I8_SQEUCLIDEAN, current_kernels
from int8blas.core.split cimport ceil_div, round_up
from int8blas.core.threads cimport max_threads
from int8blas.core.verbose cimport report_nogil, seconds, verbose
from int8blas.gemm.call cimport run_nogil
from int8blas.gemm.operand cimport SHIFT, set_as_s8, set_as_u8
from int8blas.gemm.operand cimport transposed as transpose_of
from int8blas.gemm.packing cimport PackedMatrix, Source, make_panels, set_packed
from int8blas.gemm.paths.long_k cimport Dot, dot
from int8blas.gemm.problem cimport LOWER, UPPER, Problem, is_uncached_size, set_product_type, start
from int8blas.neighbors.search cimport (
    Search, Shard, batch_size, parts_for, search_packed, takes_short_items, term_bound)

cdef extern from *:
    ptrdiff_t PTRDIFF_MAX

cdef enum:
    NO_MEMORY = 1
    HEADER_ALIGNMENT = 8        # alignment of a PackedMatrix
    DATA_ALIGNMENT = 64


cdef inline char *aligned(const void *memory, uintptr_t alignment) noexcept nogil:
    """Return the first address at or after `memory` with this alignment, a power of 2."""
    return <char *>((<uintptr_t>memory + alignment - 1) & ~(alignment - 1))


cdef inline int transposes(char flag) noexcept nogil:
    """Return 0 or 1 for a transpose flag, or -1 for any other letter."""
    if flag == c"N" or flag == c"n":
        return 0
    return 1 if flag == c"T" or flag == c"t" or flag == c"C" or flag == c"c" else -1


cdef inline int64_t span(int64_t rows, int64_t columns, int64_t ld, int64_t itemsize) noexcept nogil:
    """Return the bytes of a row-major matrix, or -1 if its leading dimension is impossible."""
    cdef int64_t most = PTRDIFF_MAX // itemsize
    if ld < max(<int64_t>1, columns) or ld > most:
        return -1
    if rows == 0 or columns == 0:
        return 0
    return -1 if rows - 1 > (most - columns) // ld else ((rows - 1) * ld + columns) * itemsize


cdef inline bint apart(const void *x, int64_t x_bytes, const void *y, int64_t y_bytes) noexcept nogil:
    """Return whether two pieces of memory do not overlap."""
    return (
        x_bytes == 0 or y_bytes == 0
        or <uintptr_t>x + <uintptr_t>x_bytes <= <uintptr_t>y or <uintptr_t>y + <uintptr_t>y_bytes <= <uintptr_t>x
    )


cdef inline bint is_int32(const void *values) noexcept nogil:
    """Return whether int32 values may be at the address."""
    return values is not NULL and <uintptr_t>values % sizeof(int32_t) == 0


cdef int call(const char *name, char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
              const void *a, int64_t lda, int ao, bint a_signed, const void *b, int64_t ldb, int bo, bint b_unsigned,
              bint b_packed, double beta, int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil:
    """Check the arguments of a GEMM with a plain B, set up the GEMM, and compute it. Return its result."""
    cdef Problem g
    cdef int a_transposed = transposes(transa), b_transposed = transposes(transb)
    cdef char offset = offsetc & ~0x20  # in upper case
    cdef int64_t a_bytes, b_bytes, c_bytes, co_count
    cdef const PackedMatrix *packed
    if a_transposed < 0:
        return -1
    if b_transposed < 0:
        return -2
    if offset != c"F" and offset != c"C" and offset != c"R":
        return -3
    if m < 0:
        return -4
    if n < 0:
        return -5
    if k < 0:
        return -6
    if not isfinite(alpha):
        return -7
    a_bytes = span(k, m, lda, 1) if a_transposed else span(m, k, lda, 1)
    if a is NULL and m > 0 and k > 0:
        return -8
    if a_bytes < 0:
        return -9
    if not (-128 <= ao <= 127 if a_signed else 0 <= ao <= 255):
        return -10
    start(&g, False)
    if b_packed:
        packed = <const PackedMatrix *>aligned(b, HEADER_ALIGNMENT)
        if b is NULL or packed.here != packed or packed.k != k or packed.n != n or packed.unsigned != b_unsigned:
            return -11
        set_packed(&g, packed)
        g.panels.split = packed.panels.split
        b, b_bytes = packed.panels.data, ceil_div(n, I8_PANEL) * packed.panels.step
    else:
        b_bytes = span(n, k, ldb, 1) if b_transposed else span(k, n, ldb, 1)
        if b is NULL and k > 0 and n > 0:
            return -11
        if b_bytes < 0:
            return -12
        g.b.data = <const uint8_t *>b
        g.b.row = 1 if b_transposed else ldb
        g.b.column = ldb if b_transposed else 1
    if not (0 <= bo <= 255 if b_unsigned else -128 <= bo <= 127):
        return -13
    if not isfinite(beta):
        return -14
    c_bytes = span(m, n, ldc, sizeof(int32_t))
    if m > 0 and n > 0 and (not is_int32(c) or not apart(c, c_bytes, a, a_bytes) or not apart(c, c_bytes, b, b_bytes)):
        return -15
    if c_bytes < 0:
        return -16
    if co is not NULL:
        co_count = 1 if offset == c"F" else m if offset == c"C" else n
        if not is_int32(co) or not apart(c, c_bytes, co, co_count * sizeof(int32_t)):
            return -17
        if offset == c"F":
            g.epilogue.co = co[0]
        elif offset == c"C":
            g.epilogue.co_rows = co
        else:
            g.epilogue.co_cols = co
    g.m, g.n, g.k = m, n, k
    g.a.data = <const uint8_t *>a
    g.a.row = 1 if a_transposed else lda
    g.a.column = lda if a_transposed else 1
    set_as_u8(&g.a, a_signed)
    set_as_s8(&g.b, b_unsigned)
    g.a.zero_point += ao
    g.b.zero_point += bo
    g.epilogue.alpha, g.epilogue.beta = alpha, beta
    g.c.data = <char *>c
    g.c.row, g.c.column = ldc * <int64_t>sizeof(int32_t), sizeof(int32_t)
    if k == 0:
        # Operands may be NULL, and C allows no offset from NULL.
        g.a.row = g.a.column = g.b.row = g.b.column = 0
    return NO_MEMORY if run_nogil(&g, name) else 0


cdef inline int call_packed(const char *name, char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                            const void *a, int64_t lda, int ao, bint a_signed, const void *b, int bo, bint b_unsigned,
                            double beta, int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil:
    """Call a GEMM with a packed B. A GEMM with a packed B has no arguments transb (argument 2) and ldb (argument 12),
    so error codes count later arguments without these two."""
    cdef int status = call(name, transa, c"N", offsetc, m, n, k, alpha, a, lda, ao, a_signed, b, 1, bo, b_unsigned,
                           True, beta, c, ldc, co)
    return status + (status < -2) + (status < -12)


cdef int gemm_u8s8s32(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                      const uint8_t *a, int64_t lda, int ao, const int8_t *b, int64_t ldb, int bo, double beta,
                      int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil:
    return call(b"cython_blas.gemm_u8s8s32", transa, transb, offsetc, m, n, k, alpha, a, lda, ao, False, b, ldb, bo,
                False, False, beta, c, ldc, co)


cdef int gemm_s8s8s32(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                      const int8_t *a, int64_t lda, int ao, const int8_t *b, int64_t ldb, int bo, double beta,
                      int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil:
    return call(b"cython_blas.gemm_s8s8s32", transa, transb, offsetc, m, n, k, alpha, a, lda, ao, True, b, ldb, bo,
                False, False, beta, c, ldc, co)


cdef int gemm_s8u8s32(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                      const int8_t *a, int64_t lda, int ao, const uint8_t *b, int64_t ldb, int bo, double beta,
                      int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil:
    return call(b"cython_blas.gemm_s8u8s32", transa, transb, offsetc, m, n, k, alpha, a, lda, ao, True, b, ldb, bo,
                True, False, beta, c, ldc, co)


cdef int gemm_u8u8s32(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                      const uint8_t *a, int64_t lda, int ao, const uint8_t *b, int64_t ldb, int bo, double beta,
                      int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil:
    return call(b"cython_blas.gemm_u8u8s32", transa, transb, offsetc, m, n, k, alpha, a, lda, ao, False, b, ldb, bo,
                True, False, beta, c, ldc, co)


cdef int call_syrk(const char *name, char uplo, char trans, int64_t n, int64_t k, double alpha, const void *a,
                   int64_t lda, int ao, bint a_signed, double beta, int32_t *c, int64_t ldc) noexcept nogil:
    """Check the arguments of a product of a matrix with its transpose, set up the product, and compute it."""
    cdef Problem g
    cdef int transposes_a = transposes(trans)
    cdef char half = uplo & ~0x20  # in upper case
    cdef int64_t a_bytes, c_bytes
    if half != c"U" and half != c"L":
        return -1
    if transposes_a < 0:
        return -2
    if n < 0:
        return -3
    if k < 0:
        return -4
    if not isfinite(alpha):
        return -5
    a_bytes = span(k, n, lda, 1) if transposes_a else span(n, k, lda, 1)
    if a is NULL and n > 0 and k > 0:
        return -6
    if a_bytes < 0:
        return -7
    if not (-128 <= ao <= 127 if a_signed else 0 <= ao <= 255):
        return -8
    if not isfinite(beta):
        return -9
    c_bytes = span(n, n, ldc, sizeof(int32_t))
    if n > 0 and (not is_int32(c) or not apart(c, c_bytes, a, a_bytes)):
        return -10
    if c_bytes < 0:
        return -11
    start(&g, False)
    g.m, g.n, g.k = n, n, k
    g.c.half = UPPER if half == c"U" else LOWER
    g.a.data = <const uint8_t *>a
    if k > 0:
        g.a.row = 1 if transposes_a else lda
        g.a.column = lda if transposes_a else 1
    set_as_u8(&g.a, a_signed)
    g.a.zero_point += ao
    g.b = transpose_of(&g.a, -SHIFT)
    g.epilogue.alpha, g.epilogue.beta = alpha, beta
    g.c.data = <char *>c
    g.c.row, g.c.column = ldc * <int64_t>sizeof(int32_t), sizeof(int32_t)
    return NO_MEMORY if run_nogil(&g, name) else 0


cdef int syrk_u8s32(char uplo, char trans, int64_t n, int64_t k, double alpha, const uint8_t *a, int64_t lda, int ao,
                    double beta, int32_t *c, int64_t ldc) noexcept nogil:
    return call_syrk(b"cython_blas.syrk_u8s32", uplo, trans, n, k, alpha, a, lda, ao, False, beta, c, ldc)


cdef int syrk_s8s32(char uplo, char trans, int64_t n, int64_t k, double alpha, const int8_t *a, int64_t lda, int ao,
                    double beta, int32_t *c, int64_t ldc) noexcept nogil:
    return call_syrk(b"cython_blas.syrk_s8s32", uplo, trans, n, k, alpha, a, lda, ao, True, beta, c, ldc)


cdef int gemm_u8s8s32_packed(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                             const uint8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                             int64_t ldc, const int32_t *co) noexcept nogil:
    return call_packed(b"cython_blas.gemm_u8s8s32_packed", transa, offsetc, m, n, k, alpha, a, lda, ao, False, b, bo,
                       False, beta, c, ldc, co)


cdef int gemm_s8s8s32_packed(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                             const int8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                             int64_t ldc, const int32_t *co) noexcept nogil:
    return call_packed(b"cython_blas.gemm_s8s8s32_packed", transa, offsetc, m, n, k, alpha, a, lda, ao, True, b, bo,
                       False, beta, c, ldc, co)


cdef int gemm_s8u8s32_packed(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                             const int8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                             int64_t ldc, const int32_t *co) noexcept nogil:
    return call_packed(b"cython_blas.gemm_s8u8s32_packed", transa, offsetc, m, n, k, alpha, a, lda, ao, True, b, bo,
                       True, beta, c, ldc, co)


cdef int gemm_u8u8s32_packed(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                             const uint8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                             int64_t ldc, const int32_t *co) noexcept nogil:
    return call_packed(b"cython_blas.gemm_u8u8s32_packed", transa, offsetc, m, n, k, alpha, a, lda, ao, False, b, bo,
                       True, beta, c, ldc, co)


cdef inline int64_t vector_span(int64_t n, int64_t inc) noexcept nogil:
    """Return the bytes between the first and the last element of a vector in memory, or -1 if there are too many."""
    if n == 0:
        return 0
    if inc < -(<int64_t>PTRDIFF_MAX):
        return -1
    inc = -inc if inc < 0 else inc
    return -1 if inc != 0 and n - 1 > (PTRDIFF_MAX - 1) // inc else (n - 1) * inc + 1


cdef int call_dot(const char *name, int64_t n, const void *x, int64_t incx, bint x_signed, const void *y, int64_t incy,
                  bint y_signed, int64_t *result) noexcept nogil:
    """Check the arguments of a dot product, set up the product, and compute it."""
    cdef Problem g
    cdef Dot d
    cdef int64_t x_bytes = vector_span(n, incx), y_bytes = vector_span(n, incy)
    if n < 0:
        return -1
    if x is NULL and n > 0:
        return -2
    if x_bytes < 0:
        return -3
    if y is NULL and n > 0:
        return -4
    if y_bytes < 0:
        return -5
    if (
        result is NULL or <uintptr_t>result % sizeof(int64_t) or not apart(result, sizeof(int64_t), x, x_bytes)
        or not apart(result, sizeof(int64_t), y, y_bytes)
    ):
        return -6
    if n == 0:
        result[0] = 0
        return 0
    if incx == 1 and incy == 1 and not verbose:
        d.kernels, d.k = current_kernels(), n
        d.x, d.y, d.x_signed, d.y_signed = <const uint8_t *>x, <const uint8_t *>y, x_signed, y_signed
        return NO_MEMORY if dot(&d, max_threads(), result) else 0
    start(&g, False)
    g.m, g.n, g.k = 1, 1, n
    # A vector with a negative increment begins at its end in memory.
    g.a.data = <const uint8_t *>x - (0 if incx >= 0 else (n - 1) * incx)
    g.b.data = <const uint8_t *>y - (0 if incy >= 0 else (n - 1) * incy)
    g.a.column, g.b.row = incx, incy
    set_as_u8(&g.a, x_signed)
    set_as_s8(&g.b, not y_signed)
    g.c.data = <char *>result
    set_product_type(&g.epilogue, True)
    g.c.row = g.c.column = sizeof(int64_t)
    return NO_MEMORY if run_nogil(&g, name) else 0


cdef int dot_u8s8s64(int64_t n, const uint8_t *x, int64_t incx, const int8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil:
    return call_dot(b"cython_blas.dot_u8s8s64", n, x, incx, False, y, incy, True, result)


cdef int dot_s8s8s64(int64_t n, const int8_t *x, int64_t incx, const int8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil:
    return call_dot(b"cython_blas.dot_s8s8s64", n, x, incx, True, y, incy, True, result)


cdef int dot_s8u8s64(int64_t n, const int8_t *x, int64_t incx, const uint8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil:
    return call_dot(b"cython_blas.dot_s8u8s64", n, x, incx, True, y, incy, False, result)


cdef int dot_u8u8s64(int64_t n, const uint8_t *x, int64_t incx, const uint8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil:
    return call_dot(b"cython_blas.dot_u8u8s64", n, x, incx, False, y, incy, False, result)


cdef int64_t packed_b_size(int64_t k, int64_t n) noexcept nogil:
    if k < 0:
        return -1
    if n < 0:
        return -2
    cdef double panels = n // I8_PANEL + 1.0, groups = k // I8_GROUP + 1.0
    cdef double panel_bytes = groups * I8_GROUP * I8_PANEL + I8_PANEL * sizeof(int64_t) + 1
    # Sizes of more than half of the range of int64 are errors, so that the following sum cannot overflow.
    if panels * panel_bytes >= PTRDIFF_MAX / 2:
        return -2
    # The alignments may skip bytes before the header and before the data.
    return (
        HEADER_ALIGNMENT + sizeof(PackedMatrix) + DATA_ALIGNMENT
        + ceil_div(n, I8_PANEL) * (round_up(k, I8_GROUP) * I8_PANEL + I8_PANEL * sizeof(int64_t) + 1)
    )


cdef int pack(char transb, int64_t k, int64_t n, const void *b, int64_t ldb, bint unsigned,
              void *packed) noexcept nogil:
    """Check the arguments, and store header, data, sums and no-saturation proofs in the memory."""
    cdef int b_transposed = transposes(transb)
    cdef int64_t size, b_bytes, panels
    cdef Source source
    cdef PackedMatrix *matrix
    cdef int8_t *data
    cdef int64_t *sums
    cdef uint8_t *certified
    if b_transposed < 0:
        return -1
    size = packed_b_size(k, n)
    if size < 0:
        return <int>size - 1
    if b is NULL and k > 0 and n > 0:
        return -4
    b_bytes = span(n, k, ldb, 1) if b_transposed else span(k, n, ldb, 1)
    if b_bytes < 0:
        return -5
    if packed is NULL or not apart(packed, size, b, b_bytes):
        return -6
    panels = ceil_div(n, I8_PANEL)
    matrix = <PackedMatrix *>aligned(packed, HEADER_ALIGNMENT)
    matrix.k, matrix.n, matrix.unsigned = k, n, unsigned
    matrix.panels.step = round_up(k, I8_GROUP) * I8_PANEL
    data = <int8_t *>aligned(matrix + 1, DATA_ALIGNMENT)
    sums = <int64_t *>(data + panels * matrix.panels.step)
    certified = <uint8_t *>(sums + panels * I8_PANEL)
    matrix.panels.data, matrix.panels.col_sums, matrix.panels.certified = data, sums, certified
    matrix.panels.pair_sums, matrix.panels.split.panels, matrix.panels.as_s8 = NULL, NULL, NULL
    source.packed, source.b, source.flip = NULL, <const uint8_t *>b, 0x80 if unsigned else 0
    source.k_stride, source.n_stride = 1 if b_transposed else ldb, ldb if b_transposed else 1
    make_panels(data, k, n, &source, sums, certified)
    matrix.here = matrix
    return 0


cdef int pack_b_s8(char transb, int64_t k, int64_t n, const int8_t *b, int64_t ldb, void *packed) noexcept nogil:
    return pack(transb, k, n, b, ldb, False, packed)


cdef int pack_b_u8(char transb, int64_t k, int64_t n, const uint8_t *b, int64_t ldb, void *packed) noexcept nogil:
    return pack(transb, k, n, b, ldb, True, packed)


cdef inline bint is_result(const void *found, int64_t found_bytes, const void *queries, int64_t q_bytes,
                           const void *base, int64_t b_bytes) noexcept nogil:
    """Return whether `found` can be an array of 8-byte results: not NULL, aligned, and apart from both operands."""
    return (
        found is not NULL and <uintptr_t>found % 8 == 0 and apart(found, found_bytes, queries, q_bytes)
        and apart(found, found_bytes, base, b_bytes)
    )


cdef int nearest(const char *name, char metric, int64_t m, int64_t n, int64_t k, const void *queries, int64_t ldq,
                 bint is_signed, const void *base, int64_t count, int64_t *indices, double *scores) noexcept nogil:
    """Check the arguments, set up a search, and run it."""
    cdef Search s
    cdef Shard shard
    cdef const PackedMatrix *packed
    cdef int64_t q_bytes, found_bytes, b_bytes
    cdef double elapsed = seconds()
    cdef int status
    metric &= ~0x20  # in upper case
    s.metric = I8_INNER if metric == c"I" else I8_SQEUCLIDEAN if metric == c"E" else I8_COSINE
    if metric != c"I" and metric != c"E" and metric != c"C":
        return -1
    if m < 0:
        return -2
    if n < 0:
        return -3
    if k < 0:
        return -4
    if queries is NULL and m > 0 and k > 0:
        return -5
    q_bytes = span(m, k, ldq, 1)
    if q_bytes < 0:
        return -6
    packed = <const PackedMatrix *>aligned(base, HEADER_ALIGNMENT)
    if base is NULL or packed.here != packed or packed.k != k or packed.n != n:
        return -7
    if count < 1:
        return -8
    b_bytes = ceil_div(n, I8_PANEL) * packed.panels.step
    found_bytes = span(m, count, count, 8)
    if m == 0:
        return 0
    if found_bytes < 0 or not is_result(indices, found_bytes, queries, q_bytes, packed.panels.data, b_bytes):
        return -9
    if not is_result(scores, found_bytes, queries, q_bytes, packed.panels.data, b_bytes):
        return -10
    if not apart(scores, found_bytes, indices, found_bytes):
        return -10
    start(&shard.g, False)
    shard.g.m, shard.g.k = m, k
    set_as_u8(&shard.g.a, is_signed)
    set_packed(&shard.g, packed)
    shard.g.panels.split = packed.panels.split
    shard.g.known.uncached = is_uncached_size(shard.g.machine, <double>n * k)
    shard.matrix, shard.squares, shard.first, shard.first_panel = packed, NULL, 0, 0
    s.kernels = shard.g.kernels
    s.wide = k > INT32_MAX // term_bound(s.metric, is_signed != packed.unsigned, is_signed)
    s.short_items = takes_short_items(&s, n)
    set_product_type(&shard.g.epilogue, s.wide)
    s.most = min(count, n)
    s.exclude_first, s.exclude_end, s.excluded = 0, 0, NULL
    s.shards, s.shard_count, s.panels = &shard, 1, ceil_div(n, I8_PANEL)
    s.queries, s.k = batch_size(&s, m), k
    s.parts = parts_for(&s, max_threads())
    status = search_packed(&s, <const uint8_t *>queries, ldq, is_signed, m, count, indices, scores)
    if status:
        return NO_MEMORY
    if verbose:
        report_nogil(name, m, n, k, b"packed", s.kernels, s.parts, seconds() - elapsed)
    return 0


cdef int nearest_s8(char metric, int64_t m, int64_t n, int64_t k, const int8_t *queries, int64_t ldq, const void *base,
                    int64_t count, int64_t *indices, double *scores) noexcept nogil:
    return nearest(b"cython_blas.nearest_s8", metric, m, n, k, queries, ldq, True, base, count, indices, scores)


cdef int nearest_u8(char metric, int64_t m, int64_t n, int64_t k, const uint8_t *queries, int64_t ldq,
                    const void *base, int64_t count, int64_t *indices, double *scores) noexcept nogil:
    return nearest(b"cython_blas.nearest_u8", metric, m, n, k, queries, ldq, False, base, count, indices, scores)
