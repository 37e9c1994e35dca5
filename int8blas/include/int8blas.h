/* The GEMMs of int8blas for C and C++: those of int8blas.cython_blas, on pointers, without Python objects or the GIL.
 *
 *     #include <Python.h>
 *     #include <int8blas.h>        in the folder that int8blas.get_include() names; nothing has to be linked
 *
 *     if (import_int8blas() < 0)   once, with the GIL, as in a module's init function; an exception is set then
 *         return NULL;
 *     if (int8blas.gemm_u8s8s32('N', 'N', 'F', m, n, k, 1, a, k, 0, b, n, 0, 0, c, n, NULL) != INT8BLAS_OK) ...
 *
 * `int8blas` is a table of functions, static in each C file that includes this one. So each such file calls
 * import_int8blas() itself, or gets a copy of the table.
 *
 * For op(X) = X or its transpose,
 *
 *     C := sat_s32(rne(alpha * (op(A) - ao) @ (op(B) - bo) + beta * C + co))
 *
 * with the bits of int8blas.gemm_u8s8s32 and its kin. Arguments are in the order of oneDNN's dnnl_gemm_u8s8s32:
 *
 *     transa, transb      'N': op(X) is X; 'T' or 'C': X transposed. Either case, as for offsetc.
 *     offsetc             co is 'F' one value; 'C' a column of M values; 'R' a row of N values
 *     m, n, k             op(A) is M x K, op(B) K x N, C M x N. Any may be 0; if K is, the product is.
 *     alpha, beta         finite; if beta is 0, C is not read
 *     a, b, c, co         matrices in rows; co may be NULL for no offset
 *     lda, ldb, ldc       elements from one row in memory to the next, at least 1 and the columns of the matrix there
 *     ao, bo              zero points, subtracted; in the range of the operand's type
 *
 * C lies wholly before or after A, B and co in memory. C and co are aligned to 4 bytes; A and B need not be. A matrix
 * without elements may be NULL. For matrices in columns, as in Fortran, swap A and B with all that belongs to them, M
 * and N, and 'C' and 'R'; gemm_u8s8s32 then multiplies an s8 A by a u8 B.
 *
 * Result: INT8BLAS_OK; -i if argument i (from 1) is wrong, the first one that is, before anything is written;
 * INT8BLAS_NO_MEMORY if there is no memory for the workspace, and then C has no useful values. Functions may be called
 * from any threads at the same time. Inside an OpenMP region of the caller's a call uses one thread, else as many as a
 * call from Python would.
 */
#ifndef INT8BLAS_H
#define INT8BLAS_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Results; a negative one is the number of the argument that is wrong. */
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

    /* A matrix times its transpose, in one triangle of C with its diagonal; the other is neither read nor written:
     *
     *     C := sat_s32(rne(alpha * (op(A) - ao) @ (op(A) - ao).T + beta * C))
     *
     * with the bits of int8blas.syrk_u8s32 and syrk_s8s32. Arguments are in the order of BLAS: uplo is 'U' for the
     * upper triangle, 'L' for the lower one, either case; op(A) is N x K, C N x N. For a C in columns, as in Fortran,
     * take the other letter; for an A in columns take the other trans. */
    int (*syrk_u8s32)(char uplo, char trans, int64_t n, int64_t k, double alpha, const uint8_t *a, int64_t lda, int ao,
                      double beta, int32_t *c, int64_t ldc);
    int (*syrk_s8s32)(char uplo, char trans, int64_t n, int64_t k, double alpha, const int8_t *a, int64_t lda, int ao,
                      double beta, int32_t *c, int64_t ldc);

    /* The product of two vectors, exact in int64 for any n, with the bits of int8blas.matmul:
     *
     *     result[0] := sum over i of x[i] * y[i]
     *
     * Arguments are in the order of BLAS: n elements, incx and incy apart, which may be 0; if an increment is negative,
     * the vector is walked backwards from its end in memory, x[(n - 1) * -incx]. `result` is aligned to 8 bytes and
     * lies apart from both. */
    int (*dot_u8s8s64)(int64_t n, const uint8_t *x, int64_t incx, const int8_t *y, int64_t incy,
                       int64_t *result);
    int (*dot_s8s8s64)(int64_t n, const int8_t *x, int64_t incx, const int8_t *y, int64_t incy,
                       int64_t *result);
    int (*dot_s8u8s64)(int64_t n, const int8_t *x, int64_t incx, const uint8_t *y, int64_t incy,
                       int64_t *result);
    int (*dot_u8u8s64)(int64_t n, const uint8_t *x, int64_t incx, const uint8_t *y, int64_t incy,
                       int64_t *result);

    /* A packed B is multiplied faster, and by any number of threads at the same time. Bytes that a packed K x N matrix
     * takes; -1 if k is negative, -2 if n is, or if there are too many. */
    int64_t (*packed_b_size)(int64_t k, int64_t n);
    /* Pack op(B) into so many bytes of the caller's, aligned or not, apart from B. They hold addresses: a copy of them
     * is not a packed matrix, nor are they at another address of another process. Result: 0 or -i, as above. */
    int (*pack_b_s8)(char transb, int64_t k, int64_t n, const int8_t *b, int64_t ldb, void *packed);
    int (*pack_b_u8)(char transb, int64_t k, int64_t n, const uint8_t *b, int64_t ldb, void *packed);

    /* The same GEMMs with a packed B: memory that pack_b_s8 or pack_b_u8 filled, or the `address` of a PackedB, which
     * must exist as long. Argument b is wrong if it is no such matrix, K x N, of the function's type. */
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

    /* The rows of a packed base that are nearest to each of m queries, as int8blas.nearest finds them; `base` holds n
     * vectors of k elements, s8 or u8, packed as a K x N matrix (from their rows by transb = 'T').
     *
     *     metric              'I': the largest inner products; 'E': the smallest squared Euclidean distances; 'C': the
     *                         largest cosines. Either case.
     *     queries, ldq        m rows of k elements, ldq apart
     *     count               how many rows are wanted, 1 to 1024
     *     indices, scores     m rows of `count`, best first; -1 and 0.0 where the base has fewer. They are aligned to 8
     *                         bytes and lie apart from the other operands. Inner products and distances are whole
     *                         numbers.
     */
    int (*nearest_s8)(char metric, int64_t m, int64_t n, int64_t k, const int8_t *queries, int64_t ldq,
                      const void *base, int64_t count, int64_t *indices, double *scores);
    int (*nearest_u8)(char metric, int64_t m, int64_t n, int64_t k, const uint8_t *queries, int64_t ldq,
                      const void *base, int64_t count, int64_t *indices, double *scores);
};

static struct int8blas_functions int8blas; /* of NULL until import_int8blas() has found them */

/* C signatures as Cython writes them, which are the capsules' names: a function that has another one is not taken. */
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

/* Find one function; 0, or -1 with an exception. `function` is where its address goes. */
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
    memcpy(function, &address, sizeof address); /* C has no cast from an object's address to a function's */
    return 0;
}

/* Import int8blas.cython_blas and fill the table; 0, or -1 with an exception, and then the table is as it was. Needs
 * the GIL. Python does not unload compiled modules, so the addresses stay good. */
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
