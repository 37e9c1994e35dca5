/* Operands as the kernels take them: packed A and B, what is known of a packed B, rows of an image. */
#ifndef I8_PACKING_H
#define I8_PACKING_H

#include "core/types.h"

#define I8_MAX_PAIR_SUM 256 /* -128 and -128 */

/* The matrix that im2col makes of an image, channels in the inner dimension, without ever being in memory. A row is an
 * output pixel in the order (n, d, h, w), a column a number in its window in the order (d, h, w, channel):
 *
 *     element = src[n, out * stride + tap * dilation - before, channel]       in each spatial dimension d, h, w
 *
 * or `padding` where that is outside of the image. A line of the window has `line` columns: kernel[2] * channels, or
 * more, which may hold anything. Fewer spatial dimensions are given as the last ones. */
typedef struct {
    const uint8_t *src, *end; /* element (0, 0, 0, 0, 0), and behind the last byte of all images in memory */
    ptrdiff_t steps[5];       /* bytes, of n, d, h, w and channel */
    int64_t size[3], out[3], kernel[3], stride[3], dilation[3], before[3];
    int64_t channels, line;
    uint8_t padding; /* as it would be in src */
} i8_image;

/* Packing of a vector width. */
typedef struct {
    /* Pack `rows` vectors of k bytes into a panel of `width` >= rows: dst[ceil(k / 4)][width][4], XORed with flip. */
    void (*pack_panel)(uint8_t *dst, int width, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                       ptrdiff_t k_stride, uint8_t flip);
    /* Pack the rows of A, side by side in memory, into `tiles` panels, one behind the other: panel t has rows first[t]
     * to first[t + 1], at most 8. From each line of A `readable` bytes may be read. */
    void (*pack_tiles)(uint8_t *dst, const int *first, int tiles, int64_t k, const uint8_t *src, ptrdiff_t k_stride,
                       int64_t readable, uint8_t flip);
    /* Pack `columns` columns of B, XORed with flip, into panels that are panel_stride bytes apart. */
    void (*pack_panels)(uint8_t *dst, ptrdiff_t panel_stride, int64_t columns, int64_t k, const uint8_t *src,
                        ptrdiff_t column_stride, ptrdiff_t k_stride, uint8_t flip);
    /* Sums over k of `rows` vectors of bytes, each XORed with flip and read as u8. */
    void (*row_sums)(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                     ptrdiff_t k_stride, uint8_t flip);
    /* Column sums of a packed panel of B'. */
    void (*panel_sums)(int64_t *sums, const int8_t *panel, int64_t groups);
    /* n of these sums times a factor, modulo 2**32: what a zero point adds to sums of products. */
    void (*scale_sums)(int32_t *restrict dst, const int64_t *restrict sums, int64_t n, int32_t factor);
    /* Sums over k of the squares of `rows` vectors of bytes, s8 or u8; and of the columns of a packed panel of B'. */
    void (*row_squares)(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                        ptrdiff_t k_stride, int is_signed);
    void (*panel_squares)(int64_t *sums, const int8_t *panel, int64_t groups);
    /* Widens a range, [smallest, largest], by `rows` vectors of k bytes, each XORed with flip and read as u8: by all of
     * them, or as far as needed to find that the range is wider than `enough`. One of the strides must be 1. */
    void (*value_range)(uint8_t range[2], int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                        ptrdiff_t k_stride, uint8_t flip, int enough);
    /* Subtracts from n bytes, down to 0 at least. */
    void (*lower)(uint8_t *x, int64_t n, uint8_t by);
    /* The largest pair sum of a panel: the positive parts of a pair (k, k + 1), k even, or the negative ones, in
     * magnitude; I8_MAX_PAIR_SUM as soon as it is known to be more than `enough`. */
    int (*panel_pair_sum)(const int8_t *panel, int64_t groups, int enough);
    /* Operands of I8_DOT2, which portable C does not have: NULL there. Rows of A' from rows, or from a micro-panel,
     * whose src_group is not 4 and k a multiple of 4: k bytes, XORed with flip, become s16, with zeros behind them up
     * to a multiple of 4; dst_row is in elements. Groups of a panel of B', each as its pairs (k, k + 1) of all columns,
     * then those of (k + 2, k + 3). */
    void (*widen_a)(uint16_t *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, ptrdiff_t src_group,
                    int64_t rows, int64_t k, uint8_t flip);
    void (*widen_b)(int16_t *restrict dst, const int8_t *restrict src, int64_t groups);

    /* Columns [k0, k0 + k) of rows of an image's matrix, XORed with flip. Of the dst_row bytes from one row to the next
     * those behind may change too; if there are 4 or more, they begin with zeros up to a multiple of 4. */
    void (*im2col)(uint8_t *dst, ptrdiff_t dst_row, const i8_image *image, int64_t row, int64_t rows, int64_t k0,
                   int64_t k, uint8_t flip);
    /* Columns x, x + 1, ... of `lines` lines of image 0 from line y on, with the channels side by side and without gaps
     * between the columns, XORed with flip; padding where they are outside. Lines are dst_line bytes apart. They are
     * those of `groups` groups of image.channels, side by side in the image, whose copies are dst_group bytes apart, 63
     * of them at least behind the last column, which may change too. */
    void (*image_lines)(uint8_t *dst, ptrdiff_t dst_line, ptrdiff_t dst_group, int64_t groups, const i8_image *image,
                        int64_t y, int64_t lines, int64_t x, int64_t columns, uint8_t flip);
} i8_packing_kernels;

#endif
