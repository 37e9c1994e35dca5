/* A module in C: for each query the number of the vector with the largest inner product, and that product.
 *
 * The products are computed for 64 queries at a time, so memory use does not grow with the number of queries. */
#define PY_SSIZE_T_CLEAN
#include <int8blas.h>

enum { ROWS = 64, CHUNK = 256 };

/* Return the index of the first largest score. */
static int64_t largest(const int32_t *scores, int64_t count)
{
    int64_t found = 0; /* the start of the chunk with the largest score */
    int32_t best = scores[0];
    for (int64_t start = 0; start < count; start += CHUNK) {
        int64_t end = count - start < CHUNK ? count : start + CHUNK;
        int32_t most = scores[start];
        for (int64_t j = start + 1; j < end; j++) /* compilers vectorize a loop without branches */
            most = scores[j] > most ? scores[j] : most;
        if (most > best) {
            best = most;
            found = start;
        }
    }
    while (scores[found] != best)
        found++;
    return found;
}

/* Search for all queries; return 0, or the status of an int8blas function that failed. Needs no GIL. */
static int search(const int8_t *queries, int64_t count, const int8_t *vectors, int64_t n, int64_t k, void *packed,
                  int32_t *scores, int64_t *numbers, int32_t *best)
{
    /* Vectors are rows, so the B of queries @ vectors.T is transposed. */
    int status = int8blas.pack_b_s8('T', k, n, vectors, k, packed);
    for (int64_t i = 0; i < count && status == INT8BLAS_OK; i += ROWS) {
        int64_t rows = count - i < ROWS ? count - i : ROWS;
        status = int8blas.gemm_s8s8s32_packed('N', 'F', rows, n, k, 1, queries + i * k, k, 0, packed, 0, 0, scores, n,
                                              NULL);
        for (int64_t row = 0; row < rows && status == INT8BLAS_OK; row++) {
            numbers[i + row] = largest(scores + row * n, n);
            best[i + row] = scores[row * n + numbers[i + row]];
        }
    }
    return status;
}

enum { QUERIES, VECTORS, NUMBERS, BEST, COUNT };

/* Return whether the four arrays have the types and shapes that the docstring asks for. */
static int are_right(const Py_buffer *x)
{
    return x[QUERIES].ndim == 2 && x[VECTORS].ndim == 2 && x[NUMBERS].ndim == 1 && x[BEST].ndim == 1 &&
           !strcmp(x[QUERIES].format, "b") && !strcmp(x[VECTORS].format, "b") &&
           x[NUMBERS].itemsize == sizeof(int64_t) && x[BEST].itemsize == sizeof(int32_t) &&
           x[VECTORS].shape[0] > 0 && x[VECTORS].shape[1] == x[QUERIES].shape[1] &&
           x[NUMBERS].shape[0] == x[QUERIES].shape[0] && x[BEST].shape[0] == x[QUERIES].shape[0];
}

/* Search in arrays that have been checked; return 0, or -1 with an exception set. */
static int search_arrays(const Py_buffer *x)
{
    int64_t n = x[VECTORS].shape[0], k = x[VECTORS].shape[1];
    int status = INT8BLAS_NO_MEMORY;
    void *packed = PyMem_RawMalloc((size_t)int8blas.packed_b_size(k, n));
    int32_t *scores = (int32_t *)PyMem_RawMalloc((size_t)n * ROWS * sizeof *scores);
    Py_BEGIN_ALLOW_THREADS
    if (packed != NULL && scores != NULL)
        status = search((const int8_t *)x[QUERIES].buf, x[QUERIES].shape[0], (const int8_t *)x[VECTORS].buf, n, k,
                        packed, scores, (int64_t *)x[NUMBERS].buf, (int32_t *)x[BEST].buf);
    Py_END_ALLOW_THREADS
    PyMem_RawFree(scores);
    PyMem_RawFree(packed);
    if (status == INT8BLAS_NO_MEMORY)
        PyErr_NoMemory();
    else if (status != INT8BLAS_OK)
        PyErr_Format(PyExc_SystemError, "argument %d is wrong", -status);
    return status == INT8BLAS_OK ? 0 : -1;
}

static PyObject *nearest(PyObject *module, PyObject *args)
{
    PyObject *objects[COUNT];
    Py_buffer arrays[COUNT];
    int opened = 0, failed = 1;
    (void)module;
    if (!PyArg_UnpackTuple(args, "nearest", COUNT, COUNT, &objects[0], &objects[1], &objects[2], &objects[3]))
        return NULL;
    for (; opened < COUNT; opened++) {
        int flags = PyBUF_ND | PyBUF_FORMAT | (opened >= NUMBERS ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(objects[opened], &arrays[opened], flags) < 0)
            break;
    }
    if (opened == COUNT && are_right(arrays))
        failed = search_arrays(arrays) < 0;
    else if (opened == COUNT)
        PyErr_SetString(PyExc_ValueError, "arrays must be int8 (q, k), int8 (n, k), int64 (q,) and int32 (q,)");
    while (opened > 0)
        PyBuffer_Release(&arrays[--opened]);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"nearest", nearest, METH_VARARGS,
     "nearest(queries, vectors, numbers, best)\n--\n\n"
     "numbers[i] = argmax of queries[i] @ vectors.T, and best[i] that product, for arrays in C order:\n"
     "int8 (q, k) and (n, k), int64 (q,) and int32 (q,)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nearest", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_nearest(void)
{
    return import_int8blas() < 0 ? NULL : PyModule_Create(&definition);
}
