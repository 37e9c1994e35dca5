# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Calls of every function of int8blas.cython_blas from the threads of a prange, for test_cython_blas.py."""

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from int8blas.cython_blas cimport (
    gemm_s8s8s32,
    gemm_s8s8s32_packed,
    gemm_s8u8s32,
    gemm_s8u8s32_packed,
    gemm_u8s8s32,
    gemm_u8s8s32_packed,
    gemm_u8u8s32,
    gemm_u8u8s32_packed,
    pack_b_s8,
    pack_b_u8,
    packed_b_size,
    syrk_s8s32,
    syrk_u8s32,
)

ctypedef fused A:
    int8_t
    uint8_t

ctypedef fused B:
    int8_t
    uint8_t


cdef int multiply(int64_t m, int64_t n, int64_t k, const A *a, const B *b, int32_t *c) noexcept nogil:
    if A is uint8_t and B is int8_t:
        return gemm_u8s8s32(b"N", b"N", b"F", m, n, k, 1, a, k, 0, b, n, 0, 0, c, n, NULL)
    elif A is int8_t and B is int8_t:
        return gemm_s8s8s32(b"N", b"N", b"F", m, n, k, 1, a, k, 0, b, n, 0, 0, c, n, NULL)
    elif A is int8_t:
        return gemm_s8u8s32(b"N", b"N", b"F", m, n, k, 1, a, k, 0, b, n, 0, 0, c, n, NULL)
    else:
        return gemm_u8u8s32(b"N", b"N", b"F", m, n, k, 1, a, k, 0, b, n, 0, 0, c, n, NULL)


cdef int pack_and_multiply(int64_t m, int64_t n, int64_t k, const A *a, const B *b, int32_t *c) noexcept nogil:
    cdef void *packed = malloc(packed_b_size(k, n))
    cdef int status
    if packed is NULL:
        return 1
    if B is int8_t:
        status = pack_b_s8(b"N", k, n, b, n, packed)
    else:
        status = pack_b_u8(b"N", k, n, b, n, packed)
    if status == 0:
        if A is uint8_t and B is int8_t:
            status = gemm_u8s8s32_packed(b"N", b"F", m, n, k, 1, a, k, 0, packed, 0, 0, c, n, NULL)
        elif A is int8_t and B is int8_t:
            status = gemm_s8s8s32_packed(b"N", b"F", m, n, k, 1, a, k, 0, packed, 0, 0, c, n, NULL)
        elif A is int8_t:
            status = gemm_s8u8s32_packed(b"N", b"F", m, n, k, 1, a, k, 0, packed, 0, 0, c, n, NULL)
        else:
            status = gemm_u8u8s32_packed(b"N", b"F", m, n, k, 1, a, k, 0, packed, 0, 0, c, n, NULL)
    free(packed)
    return status


def multiply_each_by_itself(const A[:, :, ::1] a, int32_t[:, :, ::1] c, int threads):
    """The lower triangle of c[i] = a[i] @ a[i].T for each i; return the sum of the status codes."""
    cdef int64_t n = a.shape[1], k = a.shape[2], i
    cdef int status = 0
    for i in prange(a.shape[0], nogil=True, num_threads=threads, schedule="dynamic"):
        if A is uint8_t:
            status += syrk_u8s32(b"L", b"N", n, k, 1, &a[i, 0, 0], k, 0, 0, &c[i, 0, 0], n)
        else:
            status += syrk_s8s32(b"L", b"N", n, k, 1, &a[i, 0, 0], k, 0, 0, &c[i, 0, 0], n)
    return status


def multiply_each(const A[:, :, ::1] a, const B[:, :, ::1] b, int32_t[:, :, ::1] c, bint packed, int threads):
    """Compute c[i] = a[i] @ b[i] for each i, in `threads` threads. No matrix may be empty. Return the sum of the status
    codes."""
    cdef int64_t m = a.shape[1], n = b.shape[2], k = a.shape[2], i
    cdef int status = 0
    for i in prange(a.shape[0], nogil=True, num_threads=threads, schedule="dynamic"):
        if packed:
            status += pack_and_multiply(m, n, k, &a[i, 0, 0], &b[i, 0, 0], &c[i, 0, 0])
        else:
            status += multiply(m, n, k, &a[i, 0, 0], &b[i, 0, 0], &c[i, 0, 0])
    return status
