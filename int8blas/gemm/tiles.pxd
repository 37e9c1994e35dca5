# The tiles of the loop nest (see tiles.pyx).
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport i8_output_args
from int8blas.gemm.nest cimport LoopState
from int8blas.gemm.problem cimport Problem


cdef void start_tiles(LoopState *loop) noexcept nogil
cdef void multiply_outliers(LoopState *loop) noexcept nogil
cdef void widen_panels(LoopState *loop) noexcept nogil
cdef int64_t go_to_panels(LoopState *loop, int64_t number, int64_t tiles) noexcept nogil
cdef int64_t go_to_rows(LoopState *loop, int64_t number, int64_t tiles) noexcept nogil
cdef void choose_output(LoopState *loop) noexcept nogil
cdef void point_to_c(LoopState *loop) noexcept nogil
cdef void store_tile(LoopState *loop) noexcept nogil
cdef void store_rows(const Problem *g, i8_output_args *o) noexcept nogil
