/* Convolution kernels that multiply an image in place, without a matrix of windows. */
#ifndef I8_CONVOLUTION_H
#define I8_CONVOLUTION_H

#include "stage/stage.h"

/* Compute consecutive outputs of a depthwise convolution. A call has depthwise_channels channels
 * (i8_convolution_kernels), at most I8_MAX_DEPTHWISE:
 *
 *     sum[p, c] = start[c] + sum over tap, i of (line[i][p * stride + tap * dilation, c] ^ flip) * weights[tap, i, c]
 *
 * line[i] is the image line at line i of the window, or NULL if this line is padding. Columns are column_step bytes
 * apart, with contiguous channels. Columns outside [first, end) are padding. Kernels read no byte after the last column
 * of a line. The weights are a packed B, whose k counts (tap, i), with i padded to a multiple of 4. `start` may be
 * NULL.
 *
 * A call computes `together` successive output lines, whose windows are line_stride image lines apart. `lines` is the
 * number of image lines that the windows of the call cover. If depthwise_lines is 4, each output line has its own copy
 * of the weights, weights_step bytes after the previous copy, with zeros for the lines above its window. If
 * depthwise_lines is 2, any number of output lines is allowed. If depthwise_lines is 2 and line_stride is odd, all odd
 * output lines use the weights of the second output line.
 *
 * The kernel applies the epilogue `output`, whose lines are c_line bytes apart. If `output` is NULL, the kernel stores
 * the sums in dst, I8_MAX_DEPTHWISE for each output, line after line. With `output`, `channels` is the kernel's
 * maximum, or at most half of this maximum. If C has bytes, `output` allows any number of channels. Kernels may write
 * I8_MAX_DEPTHWISE channels to dst, and read I8_MAX_DEPTHWISE channels from start and weights.
 *
 * i8_convolution_kernels.depthwise_strided takes windows of I8_STRIDED lines and taps, with stride 2 and dilation 1,
 * and any number of output lines and outputs. depthwise_strided reads only the weights of the first output line, and
 * ignores `interleaved`. With `output`, `channels` is the kernel's maximum. If C has bytes, `output` allows any number
 * of channels. */
#define I8_MAX_DEPTHWISE 64      /* maximum number of channels of a call */
#define I8_DEPTHWISE_VALUES 1536 /* bytes of the prepared start values and factors (depthwise_output.h) */
#define I8_STRIDED 3
typedef struct {
    int pixels, channels;
    int lines, taps, stride, dilation, together, line_stride;
    int first, end;
    const uint8_t *const *line;
    ptrdiff_t column_step;
    const uint8_t *padding; /* I8_MAX_DEPTHWISE bytes, which the kernel XORs with `flip` */
    uint8_t flip; /* 0 or 0x80, to convert s8 to u8 */
    const int8_t *weights;
    ptrdiff_t panel_size, weights_step;
    const int32_t *start;
    /* Aligned workspace. `interleaved` has 4 * I8_MAX_DEPTHWISE bytes for each column of each group of depthwise_lines
     * lines. `prepared` has I8_DEPTHWISE_VALUES bytes of values for the epilogue, then the weights. If depthwise_lines
     * is 4, the weights are 4 panels. If depthwise_lines is 2, the weights are two sets. A set has 4 * I8_MAX_DEPTHWISE
     * bytes for each tap of each of lines / 2 + 1 pairs of lines. */
    uint8_t *interleaved, *prepared;
    int is_prepared; /* whether an earlier call has set `prepared` for these channels, weights and epilogue */
    const i8_tile_output *output;
    ptrdiff_t c_line;
    int32_t *dst;
} i8_depthwise_args;

/* Compute consecutive outputs of one line of a convolution whose channels are in groups. A group has `size` channels, 4
 * or 8, in the source and in the result. A call has grouped_channels channels, at most I8_MAX_GROUPED:
 *
 *     sum[p, c] = start[c] + sum over line, tap, i of a[p * a_pixel + line * a_line + tap * a_tap + g(c) + i] *
 *                 weights[line, tap, c, i]                         for i < size; g(c) is the first channel of c's group
 *
 * Kernels read whole vectors of A. Bytes after the channels may have any values. The weights are a panel of packed B. A
 * column of the panel has the weights of 4 source channels. Columns after the last channel are 0. k counts (pass, line,
 * tap, output, channel of the 4). Each of size / 4 passes computes four outputs of all groups. i8_grouped_output
 * chooses the outputs of a pass such that the kernel's transpositions bring the sums into order. Each pass has the
 * weights of `window` taps of all lines. The sum begins with tap `first`. If i8_convolution_kernels.widen_grouped is
 * not NULL, the caller widens the weights with widen_grouped.
 *
 * `start` may be NULL. The kernel applies the epilogue `output`. If `output` is NULL, the kernel stores the sums in
 * dst, I8_MAX_GROUPED for each output. Kernels may write whole vectors of channels to dst, and read whole vectors from
 * start. With `output`, `channels` is the kernel's maximum or half of this maximum. */
#define I8_MAX_GROUPED 64
typedef struct {
    int pixels, channels, size;
    int lines, taps, window, first;
    const uint8_t *a;
    ptrdiff_t a_pixel, a_line, a_tap;
    const int8_t *weights;
    const int32_t *start;
    const i8_tile_output *output;
    int32_t *dst;
} i8_grouped_args;

/* Return the channel that pass `pass` computes as its output `o` of 4. The channel is counted within its group. */
static inline int i8_grouped_output(int size, int pass, int o)
{
    return size == 4 ? o : 2 * pass + o % 2 + o / 2 * 4;
}

/* The kernels of an instruction set that convolve an image in place. */
typedef struct {
    int depthwise_channels; /* maximum channels of a call */
    int depthwise_lines;    /* lines interleaved together, 2 or 4 */
    void (*depthwise)(const i8_depthwise_args *);
    void (*depthwise_strided)(const i8_depthwise_args *); /* or NULL */
    int grouped_pixels;   /* maximum outputs of a call */
    int grouped_channels; /* maximum channels of a call */
    void (*grouped)(const i8_grouped_args *);
    /* Widen the weights of one call to pairs of s16: grouped_channels columns of a panel, and `groups` groups of k. In
     * dst, each group has its even channels before its odd channels. NULL means that the kernel takes s8 weights. */
    void (*widen_grouped)(int8_t *restrict dst, const int8_t *restrict src, int64_t groups);
} i8_convolution_kernels;

#endif
