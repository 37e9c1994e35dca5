# cython: language_level=3, boundscheck=False, wraparound=False
"""A product by groups: each group of rows of A is multiplied by its own matrix, as in a mixture of experts."""

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from int8blas.cython_blas cimport gemm_u8s8s32


def grouped_product(const uint8_t[:, ::1] a, const int64_t[::1] starts, const int8_t[:, :, ::1] b, int32_t[:, ::1] c):
    """c[s:e] = a[s:e] @ b[g] with s = starts[g], e = starts[g + 1], for each group g of rows, which may be empty."""
    cdef int64_t groups = b.shape[0], k = b.shape[1], n = b.shape[2], g
    cdef int failed = 0
    if starts.shape[0] != groups + 1 or a.shape[1] != k or c.shape[0] != a.shape[0] or c.shape[1] != n or k * n == 0:
        raise ValueError("shapes must be (rows, k), (groups + 1,), (groups, k, n) and (rows, n)")
    for g in range(groups):
        if not 0 <= starts[g] <= starts[g + 1] <= a.shape[0]:
            raise ValueError("starts must not decrease, from 0 or more to the number of rows or less")
    for g in prange(groups, nogil=True, schedule="dynamic"):
        if starts[g] < starts[g + 1]:
            failed += gemm_u8s8s32(b"N", b"N", b"F", starts[g + 1] - starts[g], n, k, 1, &a[starts[g], 0], k, 0,
                                   &b[g, 0, 0], n, 0, 0, &c[starts[g], 0], n, NULL) != 0
    if failed:
        raise MemoryError(f"{failed} of {groups} products failed")
