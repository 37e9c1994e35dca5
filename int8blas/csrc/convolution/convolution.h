/* Convolutions whose kernels multiply an image as it lies, without a matrix between. */
#ifndef I8_CONVOLUTION_H
#define I8_CONVOLUTION_H

#include "stage/stage.h"

/* A stretch of outputs of one line of a depthwise convolution, for up to I8_MAX_DEPTHWISE channels, as many as a kernel
 * takes (i8_convolution_kernels.depthwise_channels):
 *
 *     sum[p, c] = start[c] + sum over tap, i of (line[i][p * stride + tap * dilation, c] ^ flip) * weights[tap, i, c]
 *
 * line[i] is a line of the image that line i of the window is on, or NULL in the padding; columns are column_step bytes
 * apart, channels side by side, and columns outside [first, end) are padding. In each line nothing is read behind the
 * channels of its last column. The weights are packed B, k counting (tap, i) with i padded to a multiple of 4. `start`
 * may be NULL. There are `together` such sums, for output lines one below the other, whose windows are line_stride
 * lines apart. `lines` counts the lines of all. Where depthwise_lines is 4, the weights of each output line are the
 * next weights_step bytes of them, with zeros for the lines above its window; where it is 2, there are any number of
 * output lines, and those of the second are that of all odd ones, if line_stride is odd.
 *
 * Sums go through `output`, whose lines are c_line bytes apart, or where that is NULL to dst, with I8_MAX_DEPTHWISE for
 * each output, line after line. `output` is for all channels of the kernel or half of them. Up to I8_MAX_DEPTHWISE
 * channels may be written to dst, and are read from start and weights.
 *
 * i8_convolution_kernels.depthwise_strided is for windows of I8_STRIDED lines and taps, stride 2 and dilation 1, and
 * takes any number of output lines and of outputs; it has weights of one line alone, and no `interleaved`. */
#define I8_MAX_DEPTHWISE 64
#define I8_DEPTHWISE_VALUES 1536
#define I8_STRIDED 3
typedef struct {
    int pixels, channels;
    int lines, taps, stride, dilation, together, line_stride;
    int first, end;
    const uint8_t *const *line;
    ptrdiff_t column_step;
    const uint8_t *padding; /* I8_MAX_DEPTHWISE bytes, before flip */
    uint8_t flip; /* 0 or 0x80 */
    const int8_t *weights;
    ptrdiff_t panel_size, weights_step;
    const int32_t *start;
    /* Workspace, aligned. Interleaved: 4 * I8_MAX_DEPTHWISE bytes for each column and depthwise_lines lines. Prepared:
     * I8_DEPTHWISE_VALUES bytes and, where depthwise_lines is 4, the size of 4 panels, where it is 2, 4 *
     * I8_MAX_DEPTHWISE bytes for each tap and 2 lines of a window, 1 more than half of them, twice. */
    uint8_t *interleaved, *prepared;
    int again; /* whether `prepared` is what a call for the same channels, weights and output stage left */
    const i8_tile_output *output;
    ptrdiff_t c_line;
    int32_t *dst;
} i8_depthwise_args;

/* A stretch of outputs of one line of a convolution in groups of `size` channels of the source and as many of the
 * result, 4 or 8, for up to I8_MAX_GROUPED channels, as many as a kernel takes (grouped_channels):
 *
 *     sum[p, c] = start[c] + sum over line, tap, i of a[p * a_pixel + line * a_line + tap * a_tap + g(c) + i] *
 *                 weights[line, tap, c, i]                         for i < size; g(c) is the first channel of c's group
 *
 * A has whole vectors everywhere, of which the bytes behind the channels may be anything. The weights are a panel of
 * packed B, whose columns are fours of channels of the source, and 0 behind the last: k counts (pass, line, tap,
 * output, channel of the four). Of size / 4 passes, each has four outputs of all groups, so chosen that the sums are in
 * order after the kernel's transpositions: i8_grouped_output. In each pass there are `window` taps of all lines, of
 * which the sum begins with number `first`. The weights are widened by i8_convolution_kernels.widen_grouped where
 * there is one.
 *
 * `start` may be NULL. The sums go through `output`, or where that is NULL to dst, with I8_MAX_GROUPED for each output.
 * Channels up to whole vectors of the kernel may be written there, and are read from start; `output` is for all or half
 * of the kernel's channels. */
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

/* Output `o` of the four of a pass, as one of its group. */
static inline int i8_grouped_output(int size, int pass, int o)
{
    return size == 4 ? o : 2 * pass + o % 2 + o / 2 * 4;
}

/* Convolutions of an instruction set that multiply an image as it lies. */
typedef struct {
    int depthwise_channels, depthwise_lines; /* channels of a call; lines of a group, 2 or 4 */
    void (*depthwise)(const i8_depthwise_args *);
    void (*depthwise_strided)(const i8_depthwise_args *); /* or NULL */
    int grouped_pixels, grouped_channels;                 /* that a kernel computes at a time */
    void (*grouped)(const i8_grouped_args *);
    /* Weights of grouped_channels channels, `groups` groups of k of a panel, as pairs of s16: of each group the even
     * channels, then the odd ones. NULL where the kernel takes them as they are. */
    void (*widen_grouped)(int8_t *restrict dst, const int8_t *restrict src, int64_t groups);
} i8_convolution_kernels;

#endif
