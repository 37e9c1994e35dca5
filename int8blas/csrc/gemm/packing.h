/* Packing: A and B in the form that the kernels read, sums and value ranges of operands, and rows of an image. */
#ifndef I8_PACKING_H
#define I8_PACKING_H

#include "core/types.h"

#define I8_MAX_PAIR_SUM 256 /* two values of -128 */

/* The matrix that im2col makes of an image whose innermost dimension is the channels. The whole matrix is never in
 * memory. A row is an output pixel in the order (n, d, h, w). A column is an element of the window in the order (d, h,
 * w, channel):
 *
 *     element = src[n, out * stride + tap * dilation - before, channel]       in each spatial dimension d, h, w,
 *
 * or `padding` outside of the image. A line of the window has `line` columns. The first kernel[2] * channels columns
 * are elements, and the remaining columns may have any values. Images with one spatial dimension use w, images with two
 * use h and w. */
typedef struct {
    const uint8_t *src, *end; /* element (0, 0, 0, 0, 0), and the byte after the last image */
    ptrdiff_t steps[5];       /* steps of n, d, h, w and channel, in bytes */
    int64_t size[3], out[3], kernel[3], stride[3], dilation[3], before[3];
    int64_t channels, line;
    uint8_t padding; /* the value of the padding, as a byte of src */
} i8_image;

/* The packing kernels of a vector width, a member for each kernel. */
typedef struct {
    /* Pack `rows` vectors of k bytes into a panel of `width` >= rows: dst[ceil(k / 4)][width][4], XORed with flip. */
    void (*pack_panel)(uint8_t *dst, int width, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                       ptrdiff_t k_stride, uint8_t flip);
    /* Pack rows of A that lie side by side in memory into `tiles` contiguous panels. Panel t has rows first[t] to
     * first[t + 1], at most 8. The function may read `readable` bytes of each line of A. */
    void (*pack_tiles)(uint8_t *dst, const int *first, int tiles, int64_t k, const uint8_t *src, ptrdiff_t k_stride,
                       int64_t readable, uint8_t flip);
    /* Pack `columns` columns of B, XORed with flip, into panels that are panel_stride bytes apart. */
    void (*pack_panels)(uint8_t *dst, ptrdiff_t panel_stride, int64_t columns, int64_t k, const uint8_t *src,
                        ptrdiff_t column_stride, ptrdiff_t k_stride, uint8_t flip);
    /* Unpack `columns` columns of B from panels that are panel_stride bytes apart: the inverse of pack_panels, for a B
     * with contiguous rows. */
    void (*unpack_panels)(uint8_t *dst, ptrdiff_t dst_row, int64_t columns, int64_t k, const uint8_t *src,
                          ptrdiff_t panel_stride, uint8_t flip);
    /* Unpack `groups` groups of a panel of 4 bits (gemm.h) into a panel of B', minus a zero point. If `zeros` is NULL,
     * the zero point is `zero`. If `zeros` is not NULL, each `zero_groups` groups have 16 zero points. */
    void (*unpack_four_bits)(int8_t *restrict dst, const uint8_t *restrict src, int64_t groups, uint8_t zero,
                             const uint8_t *zeros, int64_t zero_groups);
    /* Sum `rows` vectors of k bytes, each byte XORed with flip and read as u8. */
    void (*row_sums)(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                     ptrdiff_t k_stride, uint8_t flip);
    /* Sum the columns of a packed panel of B'. */
    void (*panel_sums)(int64_t *sums, const int8_t *panel, int64_t groups);
    /* Multiply n sums by a factor, modulo 2**32, to compute the terms that subtract a zero point. */
    void (*scale_sums)(int32_t *restrict dst, const int64_t *restrict sums, int64_t n, int32_t factor);
    /* Sum the squares of each of `rows` vectors of k bytes, s8 or u8, or of each column of a packed panel of B'. */
    void (*row_squares)(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                        ptrdiff_t k_stride, int is_signed);
    void (*panel_squares)(int64_t *sums, const int8_t *panel, int64_t groups);
    /* Widen a range, [smallest, largest], to contain `rows` vectors of k bytes, each byte XORed with flip and read as
     * u8. The function may stop when the range is wider than `enough`. One of the strides must be 1. */
    void (*value_range)(uint8_t range[2], int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                        ptrdiff_t k_stride, uint8_t flip, int enough);
    /* Subtract `by` from n bytes. A byte smaller than `by` becomes 0. */
    void (*rebase)(uint8_t *x, int64_t n, uint8_t by);
    /* Return the largest pair sum of a panel. For even k, the pair (k, k + 1) has two pair sums: the sum of its
     * positive values, and the sum of the magnitudes of its negative values. Return I8_MAX_PAIR_SUM if a pair sum
     * exceeds `enough`. */
    int (*panel_pair_sum)(const int8_t *panel, int64_t groups, int enough);
    /* Widen operands for I8_DOT2 to s16. Both functions are NULL in portable C, which has no I8_DOT2. widen_a reads
     * rows of k bytes, or a micro-panel (src_group is not 4, k is a multiple of 4). widen_a XORs the bytes with flip,
     * and pads rows with zeros to a multiple of 4. dst_row is in elements. widen_b writes each group of a panel as the
     * pairs (k, k + 1) of all columns, then the pairs (k + 2, k + 3) of all columns. */
    void (*widen_a)(uint16_t *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, ptrdiff_t src_group,
                    int64_t rows, int64_t k, uint8_t flip);
    void (*widen_b)(int16_t *restrict dst, const int8_t *restrict src, int64_t groups);

    /* Copy columns [k0, k0 + k) of rows of an image's matrix, XORed with flip. Rows of dst are dst_row bytes apart. The
     * function may change bytes between the end of a row and the next row. If there are 4 or more bytes between two
     * rows, the function pads the row with zeros to a multiple of 4. */
    void (*im2col)(uint8_t *dst, ptrdiff_t dst_row, const i8_image *image, int64_t row, int64_t rows, int64_t k0,
                   int64_t k, uint8_t flip);
    /* Copy a rectangle of image 0: `lines` lines from line y on, and `columns` columns from column x on. XOR each byte
     * with flip, and write padding outside of the image. In the copy, channels and columns are contiguous, and lines
     * are dst_line bytes apart. A pixel of the image has `groups` groups of image.channels channels, one group after
     * another. Each group has its own copy, dst_group bytes after the previous copy. The function may change up to 63
     * bytes after the last column of each copy. */
    void (*image_lines)(uint8_t *dst, ptrdiff_t dst_line, ptrdiff_t dst_group, int64_t groups, const i8_image *image,
                        int64_t y, int64_t lines, int64_t x, int64_t columns, uint8_t flip);
} i8_packing_kernels;

#endif
