# The GEMMs of int8blas for compiled code, in the manner of scipy.linalg.cython_blas: no Python objects, no exceptions,
# no GIL. For op(X) = X or its transpose,
#
#     C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co))
#
# with the bits of int8blas.gemm_u8s8s32 and its kin. Arguments are in the order of oneDNN's dnnl_gemm_u8s8s32:
#
#     transa, transb      'N': op(X) is X; 'T' or 'C': X transposed. Either case, as for offsetc.
#     offsetc             co is 'F' one value; 'C' a column of M values; 'R' a row of N values
#     m, n, k             op(A) is M x K, op(B) K x N, C M x N. Any may be 0; if K is, the product is.
#     alpha, beta         finite; if beta is 0, C is not read
#     a, b, c, co         matrices in rows; co may be NULL for no offset
#     lda, ldb, ldc       elements from one row in memory to the next, at least 1 and the columns of the matrix there
#     ao, bo              zero points, subtracted; in the range of the operand's type
#
# C lies wholly before or after A, B and co in memory. C and co are aligned to 4 bytes; A and B need not be. A matrix
# without elements may be NULL.
#
# Matrices in columns, as in Fortran, are the transposes of matrices in rows. For them swap A and B with all that
# belongs to them, M and N, and 'C' and 'R'; gemm_u8s8s32 then multiplies an s8 A by a u8 B.
#
# Result: 0; -i if argument i (from 1) is wrong, the first one that is, before anything is written; 1 if there is no
# memory for the workspace, and then C has no useful values. Functions may be called from any threads at the same time,
# also from such as Python does not know. Inside a parallel region of the caller's a call uses one thread, else as many
# as a call from Python would.
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

# A matrix times its transpose, in one triangle of C with its diagonal; the other is neither read nor written:
#
#     C := sat_s32(rne(alpha * (op(A) - ao) @ (op(A) - ao).T + beta * C))
#
# with the bits of int8blas.syrk_u8s32 and syrk_s8s32. Arguments are in the order of BLAS: uplo is 'U' for the upper
# triangle, 'L' for the lower one, either case; op(A) is N x K, C N x N. For a C in columns, as in Fortran, take the
# other letter; for an A in columns take the other trans.
cdef int syrk_u8s32(char uplo, char trans, int64_t n, int64_t k, double alpha, const uint8_t *a, int64_t lda, int ao,
                    double beta, int32_t *c, int64_t ldc) noexcept nogil
cdef int syrk_s8s32(char uplo, char trans, int64_t n, int64_t k, double alpha, const int8_t *a, int64_t lda, int ao,
                    double beta, int32_t *c, int64_t ldc) noexcept nogil

# The product of two vectors, exact in int64 for any n, with the bits of int8blas.matmul:
#
#     result[0] := sum over i of x[i] * y[i]
#
# Arguments are in the order of BLAS: n elements, incx and incy apart, which may be 0; if an increment is negative, the
# vector is walked backwards from its end in memory, x[(n - 1) * -incx]. `result` is aligned to 8 bytes and lies apart
# from both.
cdef int dot_u8s8s64(int64_t n, const uint8_t *x, int64_t incx, const int8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil
cdef int dot_s8s8s64(int64_t n, const int8_t *x, int64_t incx, const int8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil
cdef int dot_s8u8s64(int64_t n, const int8_t *x, int64_t incx, const uint8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil
cdef int dot_u8u8s64(int64_t n, const uint8_t *x, int64_t incx, const uint8_t *y, int64_t incy,
                     int64_t *result) noexcept nogil

# A packed B is multiplied faster, and by any number of threads at the same time. Bytes that a packed K x N matrix
# takes; -1 if k is negative, -2 if n is, or if there are too many.
cdef int64_t packed_b_size(int64_t k, int64_t n) noexcept nogil
# Pack op(B) into so many bytes of the caller's, aligned or not, apart from B. They hold addresses: a copy of them is
# not a packed matrix, nor are they at another address of another process. Result: 0 or -i, as above.
cdef int pack_b_s8(char transb, int64_t k, int64_t n, const int8_t *b, int64_t ldb, void *packed) noexcept nogil
cdef int pack_b_u8(char transb, int64_t k, int64_t n, const uint8_t *b, int64_t ldb, void *packed) noexcept nogil

# The same GEMMs with a packed B: memory that pack_b_s8 or pack_b_u8 filled, or the `address` of a PackedB, which must
# exist as long. Argument b is wrong if it is no such matrix, K x N, of the function's type.
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

# The rows of a packed base that are nearest to each of m queries, as int8blas.nearest finds them; `base` holds n
# vectors of k elements, s8 or u8, packed as a K x N matrix (from their rows by transb = 'T').
#
#     metric              'I': the largest inner products; 'E': the smallest squared Euclidean distances; 'C': the
#                         largest cosines. Either case.
#     queries, ldq        m rows of k elements, ldq apart
#     count               how many rows are wanted, 1 to 1024
#     indices, scores     m rows of `count`, best first; -1 and 0.0 where the base has fewer. They are aligned to 8
#                         bytes and lie apart from the other operands. Inner products and distances are whole numbers.
#
# Result: 0, -i or 1, as above.
cdef int nearest_s8(char metric, int64_t m, int64_t n, int64_t k, const int8_t *queries, int64_t ldq, const void *base,
                    int64_t count, int64_t *indices, double *scores) noexcept nogil
cdef int nearest_u8(char metric, int64_t m, int64_t n, int64_t k, const uint8_t *queries, int64_t ldq,
                    const void *base, int64_t count, int64_t *indices, double *scores) noexcept nogil
