/* The convolutions for an instruction set with vectors. */
#include "isa/set.h"

#ifdef I8_LANES
#include "stage/tile_output.h"

#include "isa/shared_dots.h"

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
