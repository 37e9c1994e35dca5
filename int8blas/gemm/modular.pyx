"""Compute products modulo p. Both operands are reduced to [-p / 2, p / 2), in the narrowest type that holds these
residues, and multiplied exactly. The sums are reduced to [0, p)."""

from libc.stdint cimport INT64_MIN, int64_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport I8_INT_U64, I8_WIDE_S64, current_kernels, i8_wide_kernels
from int8blas.core.results cimport empty_of
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.gemm.bits cimport integer_type
from int8blas.gemm.integers cimport Shape, multiply_to_sums, real_sums, set_sizes
from int8blas.gemm.wide cimport WideProduct

cnp.import_array()

cdef enum:
    CHUNK = 1024                # elements that are reduced together, in the L1 cache
    # The largest K whose float64 sums are accurate enough. For residues of 30 bits the error of a sum is below 2**57,
    # and kernels.residues allows 2**60.
    MAX_K = 1 << 24


cdef void store_residues(const i8_wide_kernels *kernels, int from_type, const char *src, int to_type, char *dst,
                         int64_t n, int64_t p, int64_t low) noexcept nogil:
    """Store the residues of n contiguous elements modulo p, in [low, low + p)."""
    cdef int64_t chunk[CHUNK]
    cdef int64_t i, count, add = 0
    cdef int from_size = 1 << (from_type >> 1), to_size = 1 << (to_type >> 1)
    if from_type == I8_INT_U64:
        add = <int64_t>((<unsigned long long>1 << 63) % <unsigned long long>p)
    while n > 0:
        count = min(n, <int64_t>CHUNK)
        kernels.pack[I8_WIDE_S64][from_type](<char *>chunk, 1, 1, count, src, 0, from_size)
        if from_type == I8_INT_U64:
            # Flipping the top bit of x and reading the result as s64 gives x - 2**63.
            for i in range(count):
                chunk[i] ^= INT64_MIN
        kernels.residues(chunk, NULL, count, p, low, add)
        kernels.wrap[to_type](dst, to_size, chunk, count)
        src += count * from_size
        dst += count * to_size
        n -= count


cdef int reduce_to(cnp.ndarray target, cnp.ndarray x, int64_t p, int64_t low) except -1:
    """Store the residues of an array in a C-contiguous array of the same shape."""
    cdef cnp.ndarray source = np.ascontiguousarray(x)
    cdef const i8_wide_kernels *kernels = current_kernels().wide
    cdef int from_type = integer_type(source), to_type = integer_type(target)
    cdef int64_t n = cnp.PyArray_SIZE(source)
    cdef const char *src = cnp.PyArray_BYTES(source)
    cdef char *dst = cnp.PyArray_BYTES(target)
    with nogil:
        end_turn()
        store_residues(kernels, from_type, src, to_type, dst, n, p, low)
        take_turn()
    return 0


cdef cnp.ndarray residues_of(cnp.ndarray x, int64_t p):
    """Return the residues of an operand in [-p / 2, p / 2), as int8, int16 or int32, in the memory order of the
    operand if it is contiguous."""
    cdef int typenum = cnp.NPY_INT8 if p <= 1 << 8 else cnp.NPY_INT16 if p <= 1 << 16 else cnp.NPY_INT32
    cdef cnp.ndarray residues
    if cnp.PyArray_NDIM(x) > 1 and cnp.PyArray_IS_F_CONTIGUOUS(x) and not cnp.PyArray_IS_C_CONTIGUOUS(x):
        return residues_of(x.T, p).T
    residues = empty_of((<object>x).shape, typenum)
    reduce_to(residues, x, p, -(p // 2))
    return residues


cdef cnp.ndarray sums_of(cnp.ndarray x, cnp.ndarray y, int64_t p):
    """Return int64 values that are congruent, modulo p, to the product of two arrays of residues."""
    cdef WideProduct w
    cdef int bits
    cdef cnp.ndarray sums = multiply_to_sums(&w, x, y, &bits, "matmul"), reals
    cdef const double *near
    cdef int64_t n
    if bits > 62:
        reals = real_sums(&w)
        near, n = <const double *>cnp.PyArray_DATA(reals), cnp.PyArray_SIZE(sums)
        with nogil:
            end_turn()
            w.kernels.residues(<int64_t *>w.c, near, n, p, 0, 0)
            take_turn()
    return sums


cdef cnp.ndarray sums_of_residues(cnp.ndarray x, cnp.ndarray y, int64_t p):
    """Return int64 values that are congruent, modulo p, to the product of two arrays of residues, for any K."""
    cdef WideProduct w
    cdef Shape shape
    cdef cnp.ndarray total
    cdef int64_t first
    set_sizes(&w, x, y, &shape)
    if w.k <= MAX_K:
        return sums_of(x, y, p)
    total = np.zeros((), np.int64)
    for first in range(0, w.k, MAX_K):
        part = slice(first, min(w.k, first + MAX_K))
        sums = sums_of(x[..., part], y[part] if y.ndim == 1 else y[..., part, :], p)
        total = np.asarray(total + sums % p)
    return total
