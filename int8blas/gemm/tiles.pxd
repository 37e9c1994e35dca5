# The tiles of the loop nest (see tiles.pyx).
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport i8_output_args
from int8blas.gemm.nest cimport LoopState
from int8blas.gemm.problem cimport Problem


cdef void start_tiles(LoopState *x) noexcept nogil
cdef int64_t load_panels(LoopState *x, int64_t number, int64_t tiles) noexcept nogil
cdef int64_t load_rows(LoopState *x, int64_t number, int64_t tiles) noexcept nogil
cdef void choose_output(LoopState *x) noexcept nogil
cdef void set_tile(LoopState *x) noexcept nogil
cdef void store_tile(LoopState *x) noexcept nogil
cdef void store_rows(const Problem *g, i8_output_args *o) noexcept nogil
