# Products in which several rows of A, and B, fit a register (see register.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t

from int8blas.core.kernels cimport i8_stack_args
from int8blas.gemm.problem cimport Problem


cdef bint set_stack_operands(i8_stack_args *t, const Problem *g, ptrdiff_t a_step, ptrdiff_t b_step,
                             int64_t count) noexcept nogil
cdef void multiply_registers(const i8_stack_args *operands, const Problem *g, int64_t count) noexcept nogil
cdef int64_t rows_of_slice(const Problem *g) noexcept nogil
cdef void multiply_slices(const Problem *g, int64_t rows, ptrdiff_t a_step, ptrdiff_t b_step, ptrdiff_t c_step,
                          int64_t count) noexcept nogil
