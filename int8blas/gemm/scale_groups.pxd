# Products with scale groups (see scale_groups.pyx).
from int8blas.gemm.nest cimport LoopState


cdef void multiply_scale_groups(LoopState *loop) noexcept nogil
