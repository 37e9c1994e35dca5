/* The GEMMs of int8blas for C and C++: the functions of int8blas.cython_blas, without Python objects or the GIL.
 *
 *     #include <Python.h>
 *     #include <int8blas.h>        in the folder that int8blas.get_include() names; there is no library to link
 *
 *     if (import_int8blas() < 0)   once, with the GIL, as in a module's init function; on failure it sets an exception
 *         return NULL;
 *     if (int8blas.gemm_u8s8s32('N', 'N', 'F', m, n, k, 1, a, k, 0, b, n, 0, 0, c, n, NULL) != INT8BLAS_OK) ...
 *
 * `int8blas` is a table of functions, static in each C file that includes this header. Each C file calls
 * import_int8blas(), or copies the table of another file.
 *
 * For op(X) = X or its transpose,
 *
 *     C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co))
 *
 * with the same bits as int8blas.gemm_u8s8s32 and the other GEMMs. Arguments have the order of oneDNN's
 * dnnl_gemm_u8s8s32:
 *
 *     transa, transb      'N': op(X) is X; 'T' or 'C': op(X) is X transposed. Lower case is accepted, also in offsetc.
 *     offsetc             co is one value ('F'), a column of M values ('C') or a row of N values ('R').
 *     m, n, k             op(A) is M x K, op(B) is K x N, C is M x N. Any may be 0; K = 0 makes the product 0.
 *     alpha, beta         finite; if beta is 0, C is not read.
 *     a, b, c, co         row-major matrices; co may be NULL for no offset
 *     lda, ldb, ldc       elements from one row in memory to the next, at least 1 and at least the columns in memory
 *     ao, bo              zero points, subtracted; in the range of the operand's dtype
 *
 * C must not overlap A, B or co in memory. C and co must be aligned to 4 bytes, and A and B may begin anywhere. A
 * matrix without elements may be NULL. For column-major matrices, as in Fortran, swap A with B and all of their
 * arguments, M with N, and 'C' with 'R'; gemm_u8s8s32 then multiplies an s8 A by a u8 B.
 *
 * The result is INT8BLAS_OK for success. The result is -i if argument i, counted from 1, is the first wrong argument. A
 * call with a wrong argument writes nothing. The result is INT8BLAS_NO_MEMORY if there is no memory for the workspace.
 * C is then undefined. Any threads may call the functions at the same time. A call in an OpenMP region of the caller
 * uses one thread. For other calls, int8blas chooses the number of threads as for calls from Python.
 */
#ifndef INT8BLAS_H
#define INT8BLAS_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Results. A negative result is the number of the first wrong argument. */
#define INT8BLAS_OK 0
#define INT8BLAS_NO_MEMORY 1

struct int8blas_functions {
    int (*gemm_u8s8s32)(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                        const uint8_t *a, int64_t lda, int ao, const int8_t *b, int64_t ldb, int bo, double beta,
                        int32_t *c, int64_t ldc, const int32_t *co);
    int (*gemm_s8s8s32)(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                        const int8_t *a, int64_t lda, int ao, const int8_t *b, int64_t ldb, int bo, double beta,
                        int32_t *c, int64_t ldc, const int32_t *co);
    int (*gemm_s8u8s32)(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                        const int8_t *a, int64_t lda, int ao, const uint8_t *b, int64_t ldb, int bo, double beta,
                        int32_t *c, int64_t ldc, const int32_t *co);
    int (*gemm_u8u8s32)(char transa, char transb, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                        const uint8_t *a, int64_t lda, int ao, const uint8_t *b, int64_t ldb, int bo, double beta,
                        int32_t *c, int64_t ldc, const int32_t *co);

    /* Multiply a matrix by its transpose. The functions read and write only one triangle of C with the diagonal:
     *
     *     C := sat_s32(rne(alpha * (op(A) - ao) @ (op(A) - ao).T + beta * C))
     *
     * with the same bits as int8blas.syrk_u8s32 and syrk_s8s32. Arguments have the order of BLAS: uplo is 'U' or 'L'
     * for the upper or lower triangle (lower case is accepted); op(A) is N x K, C N x N. For a column-major C, swap 'U'
     * and 'L' in uplo. For a column-major A, swap 'N' and 'T' in trans. */
    int (*syrk_u8s32)(char uplo, char trans, int64_t n, int64_t k, double alpha, const uint8_t *a, int64_t lda, int ao,
                      double beta, int32_t *c, int64_t ldc);
    int (*syrk_s8s32)(char uplo, char trans, int64_t n, int64_t k, double alpha, const int8_t *a, int64_t lda, int ao,
                      double beta, int32_t *c, int64_t ldc);

    /* Compute the dot product of two vectors, exact in int64 for any n, with the same bits as int8blas.matmul:
     *
     *     result[0] := sum over i of x[i] * y[i].
     *
     * Arguments have the order of BLAS. The vectors have n elements, incx and incy elements apart; an increment may be
     * 0. A vector with a negative increment begins at its end in memory: element i is x[(n - 1 - i) * -incx]. `result`
     * must be aligned to 8 bytes and must not overlap the vectors. */
    int (*dot_u8s8s64)(int64_t n, const uint8_t *x, int64_t incx, const int8_t *y, int64_t incy, int64_t *result);
    int (*dot_s8s8s64)(int64_t n, const int8_t *x, int64_t incx, const int8_t *y, int64_t incy, int64_t *result);
    int (*dot_s8u8s64)(int64_t n, const int8_t *x, int64_t incx, const uint8_t *y, int64_t incy, int64_t *result);
    int (*dot_u8u8s64)(int64_t n, const uint8_t *x, int64_t incx, const uint8_t *y, int64_t incy, int64_t *result);

    /* Return the size in bytes of a packed K x N matrix, -1 if k is negative, or -2 if n is negative or the matrix is
     * too large. A packed B makes products faster, and any number of threads can use it at the same time. */
    int64_t (*packed_b_size)(int64_t k, int64_t n);
    /* Pack op(B) into memory of the caller. The memory has the size that packed_b_size returns and any alignment, and
     * does not overlap B. The packed matrix contains addresses, so it cannot be copied or moved. Results: 0 or -i, as
     * above. */
    int (*pack_b_s8)(char transb, int64_t k, int64_t n, const int8_t *b, int64_t ldb, void *packed);
    int (*pack_b_u8)(char transb, int64_t k, int64_t n, const uint8_t *b, int64_t ldb, void *packed);

    /* These GEMMs take a packed B: memory that pack_b_s8 or pack_b_u8 has filled, or the `address` of a PackedB that
     * outlives the call. b must be a packed K x N matrix of the function's dtype. If b is not a packed matrix of this
     * size and dtype, the function reports b as a wrong argument. */
    int (*gemm_u8s8s32_packed)(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                               const uint8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                               int64_t ldc, const int32_t *co);
    int (*gemm_s8s8s32_packed)(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                               const int8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                               int64_t ldc, const int32_t *co);
    int (*gemm_s8u8s32_packed)(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                               const int8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                               int64_t ldc, const int32_t *co);
    int (*gemm_u8u8s32_packed)(char transa, char offsetc, int64_t m, int64_t n, int64_t k, double alpha,
                               const uint8_t *a, int64_t lda, int ao, const void *b, int bo, double beta, int32_t *c,
                               int64_t ldc, const int32_t *co);

    /* Find the rows of a packed base that are nearest to each of m queries, with the results of int8blas.nearest.
     * `base` holds n vectors of k elements, s8 or u8, packed as a K x N matrix (from their rows with transb = 'T').
     *
     *     metric              largest inner products ('I'), smallest squared Euclidean distances ('E') or largest
     *                         cosines ('C'); lower case is accepted
     *     queries, ldq        m rows of k elements, ldq apart
     *     count               rows to find, at least 1
     *     indices, scores     m rows of `count`, best first; -1 and 0.0 if the base has fewer rows. `indices` and
     *                         `scores` must be aligned to 8 bytes and must not overlap other operands. Inner products
     *                         and distances are whole numbers.
     */
    int (*nearest_s8)(char metric, int64_t m, int64_t n, int64_t k, const int8_t *queries, int64_t ldq,
                      const void *base, int64_t count, int64_t *indices, double *scores);
    int (*nearest_u8)(char metric, int64_t m, int64_t n, int64_t k, const uint8_t *queries, int64_t ldq,
                      const void *base, int64_t count, int64_t *indices, double *scores);
};

static struct int8blas_functions int8blas; /* NULL pointers until import_int8blas() fills it */

/* C signatures in Cython's form. The signatures are the names of the capsules, so a function with another signature is
 * an error. */
#define INT8BLAS_GEMM(A, B)                                                                                           \
    "int (char, char, char, int64_t, int64_t, int64_t, double, " A " const *, int64_t, int, " B                       \
    " const *, int64_t, int, double, int32_t *, int64_t, int32_t const *)"
#define INT8BLAS_GEMM_PACKED(A)                                                                                       \
    "int (char, char, int64_t, int64_t, int64_t, double, " A                                                          \
    " const *, int64_t, int, void const *, int, double, int32_t *, int64_t, int32_t const *)"
#define INT8BLAS_SYRK(A)                                                                                              \
    "int (char, char, int64_t, int64_t, double, " A " const *, int64_t, int, double, int32_t *, int64_t)"
#define INT8BLAS_DOT(A, B) "int (int64_t, " A " const *, int64_t, " B " const *, int64_t, int64_t *)"
#define INT8BLAS_NEAREST(A)                                                                                           \
    "int (char, int64_t, int64_t, int64_t, " A " const *, int64_t, void const *, int64_t, int64_t *, double *)"
#define INT8BLAS_PACK(B) "int (char, int64_t, int64_t, " B " const *, int64_t, void *)"

/* Find one function and store its address in `function`; return 0, or -1 with an exception. */
static inline int int8blas_find(PyObject *capsules, const char *name, const char *signature, void *function)
{
    PyObject *capsule = PyMapping_GetItemString(capsules, name);
    void *address = NULL;
    if (capsule != NULL && !PyCapsule_IsValid(capsule, signature))
        PyErr_Format(PyExc_ImportError, "int8blas.cython_blas.%s must be \"%s\", got %R", name, signature, capsule);
    else if (capsule != NULL)
        address = PyCapsule_GetPointer(capsule, signature);
    Py_XDECREF(capsule);
    if (address == NULL)
        return -1;
    memcpy(function, &address, sizeof address); /* C has no cast from an object pointer to a function pointer */
    return 0;
}

/* Import int8blas.cython_blas and fill the table; return 0, or -1 with an exception and an unchanged table. The caller
 * holds the GIL. Python does not unload compiled modules, so the addresses stay valid. */
static inline int import_int8blas(void)
{
    struct int8blas_functions found;
    PyObject *module = PyImport_ImportModule("int8blas.cython_blas");
    PyObject *capsules = module != NULL ? PyObject_GetAttrString(module, "__pyx_capi__") : NULL;
    int failed = capsules == NULL;
#define INT8BLAS_FIND(name, signature)                                                                                \
    failed = failed || int8blas_find(capsules, #name, signature, &found.name) < 0
    INT8BLAS_FIND(gemm_u8s8s32, INT8BLAS_GEMM("uint8_t", "int8_t"));
    INT8BLAS_FIND(gemm_s8s8s32, INT8BLAS_GEMM("int8_t", "int8_t"));
    INT8BLAS_FIND(gemm_s8u8s32, INT8BLAS_GEMM("int8_t", "uint8_t"));
    INT8BLAS_FIND(gemm_u8u8s32, INT8BLAS_GEMM("uint8_t", "uint8_t"));
    INT8BLAS_FIND(syrk_u8s32, INT8BLAS_SYRK("uint8_t"));
    INT8BLAS_FIND(syrk_s8s32, INT8BLAS_SYRK("int8_t"));
    INT8BLAS_FIND(dot_u8s8s64, INT8BLAS_DOT("uint8_t", "int8_t"));
    INT8BLAS_FIND(dot_s8s8s64, INT8BLAS_DOT("int8_t", "int8_t"));
    INT8BLAS_FIND(dot_s8u8s64, INT8BLAS_DOT("int8_t", "uint8_t"));
    INT8BLAS_FIND(dot_u8u8s64, INT8BLAS_DOT("uint8_t", "uint8_t"));
    INT8BLAS_FIND(packed_b_size, "int64_t (int64_t, int64_t)");
    INT8BLAS_FIND(pack_b_s8, INT8BLAS_PACK("int8_t"));
    INT8BLAS_FIND(pack_b_u8, INT8BLAS_PACK("uint8_t"));
    INT8BLAS_FIND(gemm_u8s8s32_packed, INT8BLAS_GEMM_PACKED("uint8_t"));
    INT8BLAS_FIND(gemm_s8s8s32_packed, INT8BLAS_GEMM_PACKED("int8_t"));
    INT8BLAS_FIND(gemm_s8u8s32_packed, INT8BLAS_GEMM_PACKED("int8_t"));
    INT8BLAS_FIND(gemm_u8u8s32_packed, INT8BLAS_GEMM_PACKED("uint8_t"));
    INT8BLAS_FIND(nearest_s8, INT8BLAS_NEAREST("int8_t"));
    INT8BLAS_FIND(nearest_u8, INT8BLAS_NEAREST("uint8_t"));
#undef INT8BLAS_FIND
    Py_XDECREF(capsules);
    Py_XDECREF(module);
    if (failed)
        return -1;
    int8blas = found;
    return 0;
}

#undef INT8BLAS_DOT
#undef INT8BLAS_GEMM
#undef INT8BLAS_GEMM_PACKED
#undef INT8BLAS_NEAREST
#undef INT8BLAS_PACK
#undef INT8BLAS_SYRK

#endif
