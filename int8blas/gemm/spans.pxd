# The parts of a window that are not all padding (see spans.pyx).
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport i8_image, i8_kernels, i8_tile_args
from int8blas.gemm.nest cimport LoopState, Place

cdef enum:
    # The minimum number of channels for which tiles skip a single tap. To skip a tap, a tile stores its sums and loads
    # them again. 3 x 3 windows of 14 x 14 pixels take with and without skipped taps: 58.8 us and 54.2 us for 64
    # channels, 214 us and 211 us for 256 channels. 7 x 7 pixels of 512 channels take 206 us and 210 us (AVX512-VNNI,
    # Zen 5).
    TAP_CHANNELS = 256
    MAX_SPANS = 32              # the maximum number of spans of a tile; they are on the stack


# A span: columns [k0, k0 + k) of a block of an image's matrix, for some rows of a tile. The columns of `more` further
# lines of the window also belong to the span. k0 is a multiple of 4.
cdef struct Span:
    int64_t k0, k, more
    int row, rows


cdef int spans_of(const i8_image *m, const Place *at, int height, int64_t k0, int64_t k, Span *spans) noexcept nogil
cdef int tap_spans(const i8_image *m, int64_t w, int height, int64_t lines, Span *spans) noexcept nogil
cdef void multiply_in_window(LoopState *loop) noexcept nogil
cdef void multiply_spans(const i8_kernels *kernels, const i8_tile_args *tile, const Span *spans, int count, int dot,
                         int height, int width, int64_t line) noexcept nogil


cdef inline Place place_of(const i8_image *m, int64_t row) noexcept nogil:
    cdef Place at
    at.w, at.h = row % m.out[2], row // m.out[2] % m.out[1]
    at.d = row // m.out[2] // m.out[1] % m.out[0]
    return at
