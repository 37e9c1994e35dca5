# Products without VNNI whose sums fit s16 (see small_values.pyx).
from libc.stdint cimport int64_t

from int8blas.gemm.nest cimport LoopState
from int8blas.gemm.problem cimport Problem

cdef enum:
    # The largest pair sum of a panel with a no-saturation proof: 255 * 128 = 32640 fits s16 for any A'.
    CERTIFIED_SUM = 128
    LARGEST_S8 = 127


cdef void find_range(LoopState *loop) noexcept nogil
cdef void rebase_start(const LoopState *loop) noexcept nogil
cdef int64_t groups_in_s16(const LoopState *loop, int64_t panel, int width) noexcept nogil
cdef int choose_dot(const LoopState *loop, int64_t panel, int width, bint *is_split) noexcept nogil
cdef int small_triangle_dot(const Problem *g, int64_t *groups) noexcept nogil
cdef bint rebase_triangle(Problem *other, const Problem *g) noexcept nogil
cdef bint unshift(Problem *other, const Problem *g) noexcept nogil
