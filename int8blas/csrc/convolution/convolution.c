/* The convolutions for an instruction set with vectors. */
#include "isa/set.h"

#ifdef I8_LANES
#include "stage/tile_output.h"

#include "isa/shared_dots.h"

/* A permutation of the dwords of a vector: dword q of unit u gets dword q * I8_LANES / 4 + u. i8_interleave works
 * within units of 128 bits. The permutation lets i8_interleave store the channels in order. */
#if I8_LANES == 16
static const int32_t i8_depthwise_order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
#else
static const int32_t i8_depthwise_order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
#endif

/* Correct the start values of sums for image bytes that were shifted by 128. The weights are `count` vectors, `step`
 * bytes apart. */
I8_INLINE void i8_depthwise_finish(i8_vec *start, const void *weights, int count, ptrdiff_t step)
{
    i8_vec sums = i8_zero();
    if (!I8_SHARED_FLIP)
        return;
    for (int i = 0; i < count; ++i)
        sums = i8_add_fours(sums, i8_load((const char *)weights + i * step));
    *start = i8_finish_dots(*start, sums);
}

#if I8_PAIRED
#include "convolution/depthwise_pairs_body.h"
#define I8_STEP(acc, a, b) (acc) = i8_dot2(acc, a, b)
#else
#include "convolution/depthwise_body.h"
#define I8_STEP(acc, a, b) I8_SHARED_DOT(acc, a, b)
#endif
#include "convolution/grouped_body.h"

const i8_convolution_kernels I8_TABLE(convolution) = {
    .depthwise_channels = I8_DEPTHWISE_CHANNELS,
    .depthwise_lines = I8_DEPTHWISE_LINES,
    .depthwise = i8_depthwise,
    .depthwise_strided = I8_DEPTHWISE_STRIDED,
    .grouped_pixels = I8_GROUPED_PIXELS,
    .grouped_channels = I8_GROUPED_CHANNELS,
    .grouped = i8_grouped,
#if I8_PAIRED
    .widen_grouped = i8_widen_grouped,
#endif
};
I8_TARGET_END
#endif
