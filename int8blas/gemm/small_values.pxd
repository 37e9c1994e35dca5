# Products without VNNI whose sums fit s16 (see small_values.pyx).
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport I8_DOT8, i8_tile_fn
from int8blas.gemm.nest cimport LoopState
from int8blas.gemm.problem cimport Problem

cdef enum:
    # The largest pair sum of a panel with a no-saturation proof: 255 * 128 = 32640 fits s16 for any A'.
    CERTIFIED_SUM = 128
    LARGEST_S8 = 127


cdef void find_range(LoopState *x) noexcept nogil
cdef void rebase_start(const LoopState *x) noexcept nogil
cdef int64_t groups_in_s16(const LoopState *x, int64_t panel, int width) noexcept nogil
cdef int choose_dot(const LoopState *x, int64_t panel, int width, bint *is_split) noexcept nogil
cdef int small_triangle_dot(const Problem *g, int64_t *groups) noexcept nogil
cdef bint rebase_triangle(Problem *other, const Problem *g) noexcept nogil
cdef bint unshift(Problem *other, const Problem *g) noexcept nogil


cdef inline i8_tile_fn tile_of(const Problem *g, int dot, int height, int width) noexcept nogil:
    """Return a micro-kernel. I8_DOT_SMALL has micro-kernels only for tiles that are nearly full. For other tiles return
    the micro-kernel of I8_DOT8, which adds two groups."""
    cdef i8_tile_fn tile = g.kernels.gemm.tiles[dot].of[height - 1][width - 1]
    return g.kernels.gemm.tiles[I8_DOT8].of[height - 1][width - 1] if tile is NULL else tile
