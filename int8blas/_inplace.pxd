# What the paths that read operands in place have in common (see _inplace.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t

from int8blas._kernels cimport i8_output_args
from int8blas._plan cimport Gemm, Plan


# Which operand the kernels read as u8, and the zero points that go with that reading: u8 A and s8 B, or s8 A and u8 B.
cdef struct Signs:
    int unsigned_operand
    uint8_t a_flip, b_flip
    int64_t ao, bo


cdef void plain_signs(const Gemm *g, Signs *s) noexcept nogil
cdef void unshifted_a(const Gemm *g, Signs *s) noexcept nogil
cdef void row_offsets(const Gemm *g, const Signs *s, int64_t row, int rows, int64_t *sums,
                      int32_t *offsets) noexcept nogil
cdef void output(const Gemm *g, i8_output_args *o, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                 int64_t row, int64_t column) noexcept nogil
cdef void store(const Gemm *g, const Plan *p, const int32_t *tile, int rows, int cols, ptrdiff_t tile_row,
                int64_t row, int64_t column) noexcept nogil
