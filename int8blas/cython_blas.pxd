# The GEMMs of int8blas for compiled code, in the manner of scipy.linalg.cython_blas, without Python objects, exceptions
# or the GIL. For op(X) = X or its transpose, each GEMM computes
#
#     C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co))
#
# with the same bits as int8blas.gemm_u8s8s32 and its variants. Arguments have the order of oneDNN's dnnl_gemm_u8s8s32:
#
#     transa, transb      'N': op(X) is X; 'T' or 'C': op(X) is X transposed. Lower case is accepted, also in offsetc.
#     offsetc             co is one value ('F'), a column of M values ('C') or a row of N values ('R')
#     m, n, k             op(A) is M x K, op(B) is K x N, C is M x N. Any may be 0; K = 0 makes the product 0.
#     alpha, beta         finite; if beta is 0, C is not read
#     a, b, c, co         row-major matrices; co may be NULL for no offset
#     lda, ldb, ldc       elements from one row in memory to the next, at least 1 and at least the columns in memory
#     ao, bo              zero points, subtracted; in the range of the operand's dtype
#
# C must not overlap A, B or co in memory. C and co must be aligned to 4 bytes, and A and B may begin anywhere. A
# matrix without elements may be NULL.
#
# Column-major matrices, as in Fortran, are transposed row-major matrices. For column-major matrices, swap A with B and
# all of their arguments, M with N, and 'C' with 'R'; gemm_u8s8s32 then multiplies an s8 A by a u8 B.
#
# The result is 0 for success. The result is -i if argument i, counted from 1, is the first wrong argument; nothing is
# written then. The result is 1 if there is no memory for the workspace; C is undefined then. Any threads may call the
# functions at the same time, even threads that Python has not created. A call in a parallel region of the caller uses
# one thread. All other calls use the same number of threads as calls from Python.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

cdef int gemm_u8s8s32(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                      const uint8_t *a, int64_t lda, int ao, const int8_t *b, int64_t ldb, int bo, double beta,
                      int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil
cdef int gemm_s8s8s32(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                      const int8_t *a, int64_t lda, int ao, const int8_t *b, int64_t ldb, int bo, double beta,
                      int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil
cdef int gemm_s8u8s32(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                      const int8_t *a, int64_t lda, int ao, const uint8_t *b, int64_t ldb, int bo, double beta,
                      int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil
cdef int gemm_u8u8s32(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                      const uint8_t *a, int64_t lda, int ao, const uint8_t *b, int64_t ldb, int bo, double beta,
                      int32_t *c, int64_t ldc, const int32_t *co) noexcept nogil

# Multiply a matrix by its transpose. syrk_u8s32 and syrk_s8s32 read and write only one triangle of C with the diagonal,
# and compute
#
#     C := sat_s32(rne(alpha * (op(A) - ao) @ (op(A) - ao).T + beta * C))
#
# with the same bits as int8blas.syrk_u8s32 and syrk_s8s32. Arguments have the order of BLAS: uplo is 'U' or 'L' for the
# upper or lower triangle (lower case is accepted); op(A) is N x K, C N x N. For a column-major C, swap 'U' and 'L' in
# uplo. For a column-major A, swap 'N' and 'T' in trans.
cdef int syrk_u8s32(char uplo, char trans, int64_t n, int64_t k, double alpha, const uint8_t *a, int64_t lda, int ao,
                    double beta, int32_t *c, int64_t ldc) noexcept nogil
cdef int syrk_s8s32(char uplo, char trans, int64_t n, int64_t k, double alpha, const int8_t *a, int64_t lda, int ao,
                    double beta, int32_t *c, int64_t ldc) noexcept nogil

# Compute the dot product of two vectors, exact in int64 for any n, with the same bits as int8blas.matmul:
#
#     result[0] := sum over i of x[i] * y[i].
#
# Arguments have the order of BLAS. The vectors have n elements, incx and incy elements apart; an increment may be 0. A
# vector with a negative increment begins at its end in memory: element i is x[(n - 1 - i) * -incx]. `result` must be
# aligned to 8 bytes and must not overlap the vectors.
cdef int dot_u8s8s64(int64_t n, const uint8_t *x, int64_t incx, const int8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil
cdef int dot_s8s8s64(int64_t n, const int8_t *x, int64_t incx, const int8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil
cdef int dot_s8u8s64(int64_t n, const int8_t *x, int64_t incx, const uint8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil
cdef int dot_u8u8s64(int64_t n, const uint8_t *x, int64_t incx, const uint8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil

# Return the bytes of a packed K x N matrix, -1 if k is negative, or -2 if n is negative or the matrix is too large.
# A packed B saves the time of packing B, and any number of threads can use it at the same time.
cdef int64_t packed_b_size(int64_t k, int64_t n) noexcept nogil
# Pack op(B) into memory of the caller. The memory has the size that packed_b_size returns and any alignment, and does
# not overlap B. The packed matrix contains addresses, so it cannot be copied or moved. The result is 0 or -i, as for
# the GEMMs.
cdef int pack_b_s8(char transb, int64_t k, int64_t n, const int8_t *b, int64_t ldb, void *packed) noexcept nogil
cdef int pack_b_u8(char transb, int64_t k, int64_t n, const uint8_t *b, int64_t ldb, void *packed) noexcept nogil

# These GEMMs take a packed B: memory that pack_b_s8 or pack_b_u8 has filled, or the `address` of a PackedB that
# outlives the call. b must be a packed K x N matrix of the function's dtype. A function reports any other b as a wrong
# argument.
cdef int gemm_u8s8s32_packed(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                             const uint8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                             int64_t ldc, const int32_t *co) noexcept nogil
cdef int gemm_s8s8s32_packed(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                             const int8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                             int64_t ldc, const int32_t *co) noexcept nogil
cdef int gemm_s8u8s32_packed(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                             const int8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                             int64_t ldc, const int32_t *co) noexcept nogil
cdef int gemm_u8u8s32_packed(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                             const uint8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                             int64_t ldc, const int32_t *co) noexcept nogil

# Find the rows of a packed base that are nearest to each of m queries, with the results of int8blas.nearest. `base`
# holds n vectors of k elements, s8 or u8, packed as a K x N matrix (from their rows with transb = 'T').
#
#     metric              largest inner products ('I'), smallest squared Euclidean distances ('E') or largest cosines
#                         ('C'); lower case is accepted
#     queries, ldq        m rows of k elements, ldq apart
#     count               rows to find, at least 1
# indices, scores m rows of `count`, best first; -1 and 0.0 if the base has fewer rows. `indices` and `scores` must be
# aligned to 8 bytes and must not overlap other operands. Inner products and distances are whole numbers.
#
# The result is 0, -i or 1, as for the GEMMs.
cdef int nearest_s8(char metric, int64_t m, int64_t n, int64_t k, const int8_t *queries, int64_t ldq, const void *base,
                    int64_t count, int64_t *indices, double *scores) noexcept nogil
cdef int nearest_u8(char metric, int64_t m, int64_t n, int64_t k, const uint8_t *queries, int64_t ldq,
                    const void *base, int64_t count, int64_t *indices, double *scores) noexcept nogil
