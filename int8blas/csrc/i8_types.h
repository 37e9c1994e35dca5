/* Types shared by every stage of the GEMM, and the contract of a micro-kernel.
 *
 * The one product that the kernels know is u8 x s8 -> s32. The driver maps all four sign pairs onto it: an s8 A is
 * shifted to u8 (a + 128, and its zero point with it), a u8 B to s8 (b - 128, likewise). Both shifts are an XOR with
 * 0x80, done while packing. Below, A' and B' are the matrices after the shift, ao and bo their zero points.
 *
 * Packed B: panels of 16 columns; in a panel, groups of 4 consecutive k; in a group, 16 x 4 bytes. A packed block of A
 * has the same form with as many rows as the tile has in place of the 16 columns. Missing rows, columns and k are 0.
 *
 * A micro-kernel computes tiles of `rows` x `panels * 16`, both constants of the function, one below the other:
 *
 *     dst[i, j] = acc_in[i, j] + row_init[i] + col_init[j] + sum over g of dot(A'[i, g], B'[g, j])
 *
 * where any of the first three may be NULL (zero), and g counts dwords: groups of 4 bytes, or pairs of s16 for I8_DOT2.
 *
 * Contract of a micro-kernel
 *   - A: dword g of row i is read at a + i * a_row + g * a_group, unaligned, for `groups` dwords; then as many in each
 *     of more_segments segments, a_segment bytes after the one before; then, if a_tail is not NULL, a_tail[i] besides.
 *     Nothing else is read: A may be the user's matrix itself.
 *   - B: panel p starts at b + p * b_panel; 64 bytes are read for each dword of A, and b_segment bytes are left out
 *     between two segments. 64-byte alignment is fastest.
 *   - acc_in: row i starts at acc_in + i * acc_row and is read whole; it may be dst. row_init: [rows];
 *     col_init: [panels * 16].
 *   - dst: row i starts at dst + i * dst_row (in elements); its first `cols` columns are written, nothing else. With an
 *     output it is not touched, and C gets what the output stage makes of the sums; `cols` is panels * 16 then.
 *   - `tiles`, 1 or more: A of the next tile is a_tile bytes behind that of the one before; row_init, a_tail and rows
 *     of acc_in, dst, fetch and the output are those that follow. What is fetched `ahead` is for the first tile. Where
 *     tiles lie `beside` each other, of up to I8_FEW_ROWS(np) rows, B, col_init and columns are those that follow.
 *   - Sums wrap modulo 2**32. The driver makes sure that what is stored for the user has not wrapped.
 *
 * The tiles of a matrix unit (i8_matrix) have the same contract but for this:
 *   - A: a dword is a step of 64 bytes of k: those of step s of row i are read at a + i * a_row + s * a_group, and
 *     `groups`, a multiple of 16, is 16 times the number of steps. As many rows are read as the unit's registers have,
 *     not only the `rows` rows that there are. It is fast if a and all strides are multiples of 64.
 *   - It is one tile: `tiles` is not looked at, and neither is fetch. ahead: ahead_step bytes, a multiple of 64, are
 *     fetched into the L2 cache for each step of each panel, the panels b_panel bytes apart.
 *   - b_tail: if not NULL, one more step's B, 1024 bytes for each panel, where there is one segment. A has zeros where
 *     B has nothing.
 */
#ifndef I8_TYPES_H
#define I8_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define I8_PANEL 16
#define I8_GROUP 4
#define I8_MAX_MR 8
#define I8_MAX_NP 3
#define I8_MAX_SCALED_MR 4 /* of tiles that have sums in f32 too */
#define I8_MAX_IN_TURN 2 /* rows of a tile that can read its panels of B in turn */
/* Up to so many rows, tiles of up to `np` panels wait for memory however early it is asked: they do not look at what is
 * to be fetched ahead, and they can lie beside each other. */
#define I8_FEW_ROWS(np) ((np) > 1 ? 4 : 2)
#define I8_MATRIX_ROWS 16 /* of a register of a matrix unit, and its bytes of k */
#define I8_MATRIX_K 64
#define I8_MATRIX_TILE (I8_MATRIX_K * I8_PANEL) /* bytes of B for one of its registers */
#define I8_MAX_TILE (2 * I8_MATRIX_ROWS * 2 * I8_PANEL) /* elements of a tile, of a matrix unit too */
#define I8_MAX_COLUMNS 64 /* of any kernel's result: tiles have up to 48, blocks of a row kernel up to 64 */

/* A value for each column at values + column (step 1), or 16 equal ones (step 0). There are a whole chunk of values
 * behind the last column's, as output stages read I8_CHUNK at a time. */
#define I8_CHUNK 16
typedef struct {
    const float *values;
    ptrdiff_t step;
} i8_column_values;

/* Element types of the quantized primitives: integers first. And that of sums which leave s32, in products alone. */
enum { I8_TYPE_U8, I8_TYPE_S8, I8_TYPE_S32, I8_TYPE_F32, I8_TYPE_F16, I8_TYPE_BF16, I8_TYPES, I8_TYPE_S64 = I8_TYPES };

/* The output stage of a quantized primitive in its plainest form, which a micro-kernel applies to the sums in its
 * registers (i8_stage below, without post-ops, with finite scales), to a C with contiguous rows: u8 or s8, without
 * row_scale; s32, without row_scale, dst_scale and dst_zero; or f32, without dst_scale and dst_zero. The values of
 * the columns begin with the tile's first and are readable up to 4 vectors; those of `offset`, which may be NULL,
 * are added to the sums before. If `integral`, C is of s32 and that is all. Or C is of s64, for the sums as they
 * are: then there is no more than c, c_row and `stream`, which says to write past the caches, whole lines of 64
 * bytes, aligned ones. */
typedef struct {
    const int32_t *offset;
    i8_column_values scale, bias, dst_scale, dst_zero;
    const float *row_scale;
    int relu, shifts, type; /* shifts: some dst_zero is not 0 */
    int integral;
    int stream;
    char *c;
    ptrdiff_t c_row; /* in bytes */
} i8_tile_output;

typedef struct {
    int64_t tiles, groups;
    const uint8_t *a;
    ptrdiff_t a_tile, a_row, a_group;
    int64_t more_segments;
    ptrdiff_t a_segment;
    const uint32_t *a_tail;
    const int8_t *b;
    ptrdiff_t b_panel, b_segment;
    const int32_t *acc_in;
    ptrdiff_t acc_row;
    const int32_t *row_init, *col_init;
    int32_t *dst;
    ptrdiff_t dst_row;
    int cols;
    const char *fetch; /* where the tile's result will go, fetched ahead with fetch_row bytes between rows; or NULL */
    ptrdiff_t fetch_row;
    /* B for a later tile, or NULL: ahead_step bytes are fetched for each group; of several panels the 64 bytes of a
     * group of each, b_panel bytes apart. Tiles of few rows (I8_FEW_ROWS) do not look at it, nor do those of fewer
     * panels than the kernel's np. */
    const char *ahead;
    ptrdiff_t ahead_step;
    int beside;  /* whether `tiles` lie beside each other, not below */
    int in_turn; /* B is read one panel after the other, not all side by side; up to I8_MAX_IN_TURN rows look at it */
    const i8_tile_output *output; /* takes the place of dst for whole tiles, if not NULL */
    /* For a matrix unit only: rows of A, and those of a register, as it was entered with. */
    int rows, unit_rows;
    const int8_t *b_tail;
} i8_tile_args;

typedef void (*i8_tile_fn)(const i8_tile_args *);

typedef int64_t (*i8_peak_fn)(int64_t iterations);

/* A matrix unit multiplies registers that are matrices themselves, of I8_MATRIX_ROWS rows of I8_MATRIX_K bytes. It
 * is for products that are worth its set-up; for all others there are the kernels of its table. */
typedef struct {
    int mr, np;         /* as in i8_kernels */
    int64_t kc;         /* a multiple of I8_MATRIX_K; the A of a tile is in L1 then */
    int64_t a_bytes;    /* of a block of A, as far as its sums are kept from one block of K to the next */
    int64_t b_bytes;    /* of a block of B, which lives in L2 */
    double thread_work;
    int64_t least_rows; /* of A for which the unit pays, */
    int64_t least_k;    /* and K, more than 0 */
    int dots_columns;   /* up to which dot kernels are faster */
    i8_tile_fn tile[2][2]; /* [registers of rows - 1][panels - 1] */
    /* Pack `rows` rows of A, XORed with flip, for a tile: dst[step][rows of whole registers][64], zeros behind k. */
    void (*pack)(uint8_t *dst, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride, ptrdiff_t k_stride,
                 uint8_t flip);
    /* A thread calls these before its first tile and after its last one. A problem of fewer rows than registers have
     * is faster with registers of so many; for all others `unit_rows` is I8_MATRIX_ROWS. */
    void (*enter)(int unit_rows);
    void (*leave)(void);
    i8_peak_fn peak; /* as in i8_kernels */
} i8_matrix;

/* A dot kernel multiplies `rows` vectors x, contiguous in k and read in place, by `columns` vectors y, packed:
 *
 *     dst[i * columns + j] = start[j] + sum over k of x(i, k) * y(j, k)
 *
 * Vector i is at x + i * x_row, k bytes, XORed with x_flip. One operand is u8 and the other s8: see
 * i8_kernels.dots. y is packed by pack_panel and order_dots. `start` may be NULL (zeros). */
typedef struct {
    int64_t k, rows;
    const uint8_t *x, *y;
    ptrdiff_t x_row;
    uint8_t x_flip;
    const int32_t *start;
    int32_t *dst;
} i8_dot_args;

typedef void (*i8_dot_fn)(const i8_dot_args *);

/* Columns of the dot kernels: 1, 2, 3, 4, 8, 16. */
enum { I8_DOTS_1, I8_DOTS_2, I8_DOTS_3, I8_DOTS_4, I8_DOTS_8, I8_DOTS_16, I8_DOT_WIDTHS };

/* A thin kernel multiplies `rows` rows of A by panels of B, for at most thin_k of K:
 *
 *     dst[i, j] = row_init[i] + col_init[first + j] + sum over g of dot(A'[i, g], B'[g, first + j])
 *
 * for j < cols. Dword g of row i is read at a + i * a_row + g * a_group, unaligned, and XORed with a_flip in every
 * byte. a_tail, if not 0, is the number of bytes in the last of two or more groups, where a_group is 4; nothing behind
 * them is read. The panels of B lie one behind the other. row_init may be NULL (zero); col_init has a value for every
 * column of the panels. `stream` writes C past the caches, and wants dst + i * dst_row - first to be aligned to 64
 * bytes. */
typedef struct {
    int64_t rows, cols;
    int groups, first, stream; /* first < I8_PANEL */
    int a_tail;
    uint8_t a_flip;
    const uint8_t *a;
    ptrdiff_t a_row, a_group;
    const int8_t *b;
    const int32_t *row_init, *col_init;
    int32_t *dst;
    ptrdiff_t dst_row; /* in elements */
} i8_thin_args;

/* A row kernel adds `rows` rows of A times a block of columns of a C-ordered B, in place, to sums of its own:
 *
 *     acc[i, position of column j] += sum over k of A(i, k) * B(k, j)
 *
 * for 4 * groups + b_tail rows of B, at b + k * b_row, XORed with b_flip, and `blocks` blocks of columns side by side;
 * `first` starts from 0. A is packed in groups of a_group bytes, with zeros behind the last k, and a single row is
 * halved then, where there is i8_kernels.halve_row, or `centered`. The sums of row i of block w are at acc + i *
 * acc_row + w * acc_block. The order of the columns is that of i8_kernels.finish_rows, which writes dst[j] = sum + add
 * for one row of a block. */
typedef struct {
    int64_t groups;
    const uint8_t *a;
    ptrdiff_t a_group;
    const uint8_t *b;
    ptrdiff_t b_row;
    uint32_t b_flip; /* the byte, four times */
    int b_tail;      /* 0 to 3 */
    int first;
    int centered;
    ptrdiff_t ahead; /* bytes ahead in its row that B is fetched into the L2 cache; 0 where it is there */
    int64_t blocks;
    int32_t *acc;
    ptrdiff_t acc_row, acc_block;
} i8_rows_args;

typedef void (*i8_rows_fn)(const i8_rows_args *);

#define I8_MAX_ROWS 12

/* Which operand of a kernel that reads both in place is the u8 one. */
enum { I8_A_UNSIGNED = 0, I8_B_UNSIGNED = 1, I8_X_UNSIGNED = 0, I8_Y_UNSIGNED = 1 };

/* Values of one column of B' that are taken out of it (outliers_body.h), and their k in a block of I8_OUTLIER_K at
 * most. `rest` is 0 where there are fewer than four, and at most I8_MAX_REST in magnitude, so that any two have a
 * certificate; a larger one comes in parts. */
#define I8_OUTLIER_K 1024
#define I8_MAX_REST 64
typedef struct {
    uint16_t k[4];
    int8_t rest[4];
} i8_outliers;

/* The outliers of a panel, in one block of K, times A' by columns as columns_of makes them, `a_columns` in all:
 *
 *     dst[i, j] = (dst[i, j] if add) + sum over outliers of column j of A'[i, k] * rest
 *
 * The outliers of column j are those from starts[j] to starts[j + 1]. */
typedef struct {
    int64_t rows;
    const uint8_t *a;
    int64_t a_columns;
    const i8_outliers *outliers;
    const int64_t *starts;
    int add;
    int32_t *dst;
    ptrdiff_t dst_row; /* in elements */
} i8_outlier_args;

/* The multiply-adds.
 *   I8_DOT4      the exact sum of four u8 * s8 products (VPDPBUSD; without it, widened in registers, for few rows)
 *   I8_DOT4_SAT  two sums of two u8 * s8 products, each saturated to s16, added in s32 (VPMADDUBSW, VPMADDWD, VPADDD);
 *                exact where B' has a certificate
 *   I8_DOT2      the exact sum of two s16 * s16 products of widened operands (VPMADDWD, VPADDD)
 *   I8_DOT8      two groups at a time, two sums of four products in s16, added in s32 (VPMADDUBSW, VPADDW, VPMADDWD,
 *                VPADDD); exact for the dense part of a B' that is split (outliers_body.h) */
enum { I8_DOT4 = 0, I8_DOT4_SAT = 1, I8_DOT2 = 2, I8_DOT8 = 3, I8_DOT_KINDS = 4 };

/* Post-ops: those with an operand first, then the element-wise ones, y = scale * f(y). */
enum {
    I8_SUM, I8_PRELU, I8_ADD, I8_SUB, I8_MUL, I8_DIV, I8_MIN, I8_MAX, I8_GE, I8_GT, I8_LE, I8_LT, I8_EQ, I8_NE,
    I8_RELU, I8_TANH, I8_LOGISTIC, I8_ELU, I8_GELU_ERF, I8_GELU_TANH, I8_SWISH, I8_HARDSWISH, I8_CLIP, I8_ABS,
    I8_SQUARE, I8_SQRT, I8_LINEAR, I8_ROUND
};

/* One post-op. The operand of PReLU and the binary ones is f32, element (i, j) of the destination's at
 * operand + i * operand_row + j * operand_col; the sum's is the destination's old value, of type `type`, whose zero
 * point is alpha. */
typedef struct {
    int kind, type;
    float alpha, beta, scale;
    const float *operand;
    ptrdiff_t operand_row, operand_col;
} i8_post_op;

/* Schemes of requantization (formulas in quantize_body.h and requantize_body.h). */
enum { I8_FLOAT, I8_DOUBLING, I8_SINGLE, I8_SCHEMES };

/* The output stage of the quantized primitives in integers, if the scheme is not I8_FLOAT. X is that of i8_output_args,
 * with co added to it and saturated to s32:
 *
 *     y = sat_s32(X * multiplier[j] * 2**(exponent[j] - 31) + zero_point[j])      rounded by the scheme
 *     C[i, j] = min(max(y, low[j]), high[j])                                      u8, s8 or s32: both are of its type
 *
 * All have a value for each column, and a whole chunk of them behind the last one. */
typedef struct {
    int scheme;
    const int32_t *multiplier, *exponent, *zero_point, *low, *high;
} i8_requantization;

/* The output stage of the quantized primitives. X is that of i8_output_args, with co added to it in integers:
 *
 *     y = f32(X)
 *     y = y * scale[j] + bias[j]               (y + bias[j]) * scale[j] if bias_first
 *     y = max(y, 0)                            if relu
 *     y = post-ops(y)
 *     y = y * dst_scale[j] + dst_zero[j]       dst_scale is a reciprocal
 *     C[i, j] = sat(rne(y)) for integers, the zero point where y was NaN; f16(y), bf16(y) or y otherwise
 *
 * in f32, in this order. Where the tile has a row_scale, scale[j] is row_scale[i] * scale[j]. What there is none of is
 * 1 for a scale and -0.0 for what is added: both leave every y as it is.
 *
 * If `integral`, nothing in the formula is real, and it is another one: C[i, j] = sat_s32(X + offset[j]), in integers.
 * The zero points of C are part of co then, or the `offset` where s32 has no room for their sums; else that is NULL.
 *
 * With a `requantization` other than I8_FLOAT it is that one's formula, and nothing else is looked at but `type`. */
typedef struct {
    i8_column_values scale, bias, dst_scale, dst_zero;
    int bias_first, relu;
    int finite;   /* scale and dst_scale are */
    int rescales; /* dst_scale is not 1, or dst_zero not -0.0 */
    int shifts;   /* some dst_zero is not 0 */
    int integral;
    const int32_t *offset; /* a value for each column */
    const int32_t *col_sums; /* of all of B', modulo 2**32, for every column; or NULL */
    int op_count;
    const i8_post_op *ops;
    int type; /* of C */
    i8_requantization requantization;
} i8_stage;

/* The output stage of one tile:
 *
 *     X = acc - ao[i] * col_sum[j] - bo[j] * row_term[i]
 *     C[i, j] = sat_s32(rne(alpha * X + beta * C[i, j] + co_row[i] + co_col[j]))
 *
 * in integers if `integral` (alpha is 1, beta 0 or 1), else in f64 in the order written. At most one of co_row and
 * co_col is given. X is exact in s64 where acc64 is given; where acc32 is given it is taken modulo 2**32, and must fit.
 * ao and col_sum come together, so do bo and row_term; NULL stands for zeros. C is read only if beta is not 0, and
 * shares no memory with what is read besides. Where a value is saturated, `saturated` becomes 1, if it is not NULL.
 *
 * If `to_s64`, C is of s64 and C[i, j] = X; alpha is 1, beta 0, and no co is given.
 *
 * With a stage in f32, acc_f32 may be given in place of acc32 and acc64, and is f32(X); there are no other terms. */
typedef struct {
    int rows, cols;
    const int32_t *acc32;
    const int64_t *acc64;
    const float *acc_f32;
    ptrdiff_t acc_row;
    const int64_t *ao, *col_sum;
    const int64_t *bo, *row_term;
    const int32_t *co_row, *co_col;
    double alpha, beta;
    int integral, to_s64;
    int *saturated;
    char *c;
    ptrdiff_t c_row, c_col; /* in bytes */
    /* If not NULL, the output stage is this one: alpha and beta are ignored, and co_row and co_col may both be given.
     * The tile begins at C[row, column]; acc32, acc64 and the vectors of columns are readable up to a whole chunk. */
    const i8_stage *stage;
    int64_t row, column;
    const float *row_scale; /* [rows], or NULL */
} i8_output_args;

/* The part of a tile from row `row` and column `column` on. */
static inline i8_output_args i8_part_of(const i8_output_args *o, int row, int column, int rows, int cols)
{
    const ptrdiff_t at = row * o->acc_row + column;
    i8_output_args part = *o;
    part.rows = rows, part.cols = cols;
    part.acc32 = o->acc32 ? o->acc32 + at : NULL;
    part.acc64 = o->acc64 ? o->acc64 + at : NULL;
    part.acc_f32 = o->acc_f32 ? o->acc_f32 + at : NULL;
    part.ao = o->ao ? o->ao + row : NULL;
    part.col_sum = o->col_sum ? o->col_sum + column : NULL;
    part.bo = o->bo ? o->bo + column : NULL;
    part.row_term = o->row_term ? o->row_term + row : NULL;
    part.co_row = o->co_row ? o->co_row + row : NULL;
    part.co_col = o->co_col ? o->co_col + column : NULL;
    part.c = o->c + row * o->c_row + column * o->c_col;
    part.row = o->row + row, part.column = o->column + column;
    part.row_scale = o->row_scale ? o->row_scale + row : NULL;
    return part;
}

/* Scale groups: parts of K in which each column of B has a scale of its own. The sums of one are added to those of the
 * groups before it:
 *
 *     y[i, j] = y[i, j] + f32(acc[i, j] - ao[i] * col_sum[j] - bo[j] * row_term[i]) * (row_scale[i] * scale[j])
 *
 * where the integers are taken modulo 2**32 and their sum must fit s32, and what follows is f32 in the order written.
 * ao[i] is ao_rows[i], or `ao` if that is NULL; col_sum may be NULL if these are 0. bo and row_term come together or
 * are NULL (zeros); without row_scale the factor is scale[j]. There are whole panels of columns: scale and col_sum have
 * the 16 values of each panel_step elements after those of the one before. */
typedef struct {
    int rows, panels;
    const int32_t *acc;
    ptrdiff_t acc_row;
    int64_t ao;
    const int64_t *ao_rows;
    const int32_t *col_sum;
    const int64_t *bo;
    const int32_t *row_term;
    const float *scale, *row_scale;
    ptrdiff_t panel_step;
    float *y;
    ptrdiff_t y_row;
} i8_scale_group_args;

/* All scale groups of a tile, whose y is written: those of A and B lie one behind the other, t->groups dwords each, and
 * so do the 16 values of a panel in scale and col_sum. Of t the tiles, A and B are looked at; acc, rows, panels, bo and
 * row_term are not. */
typedef void (*i8_scale_groups_fn)(const i8_tile_args *t, const i8_scale_group_args *s, int64_t count);

/* Integer types of the element-wise functions (formulas in quantize_body.h). */
enum { I8_U8, I8_S8, I8_S32, I8_INT_TYPES };

/* An element-wise function of `n` contiguous elements. The parameters are the scale (f32; s32 multipliers for
 * I8_DOUBLING and I8_SINGLE), the zero point (s32) and the exponent (s32; not used otherwise, but read): one value
 * each, or n of them if `each`. Nothing need be aligned; `out` may be x itself if the types have the same size.
 * `stream` writes 4-byte elements past the caches. */
typedef struct {
    int64_t n;
    const void *x;
    void *out;
    const void *parameters[3];
    int each, stream;
} i8_elements_args;

typedef void (*i8_elements_fn)(const i8_elements_args *);

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

/* A stretch of outputs of one line of a depthwise convolution, for up to I8_MAX_DEPTHWISE channels, as many as a kernel
 * takes (i8_kernels.depthwise_channels):
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
 * i8_kernels.depthwise_strided is for windows of I8_STRIDED lines and taps, stride 2 and dilation 1, and takes any
 * number of output lines and of outputs; it has weights of one line alone, and no `interleaved`. */
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
 * result, 4 or 8, for up to I8_MAX_GROUPED channels, as many as a kernel takes (i8_kernels.grouped_channels):
 *
 *     sum[p, c] = start[c] + sum over line, tap, i of a[p * a_pixel + line * a_line + tap * a_tap + g(c) + i] *
 *                 weights[line, tap, c, i]                         for i < size; g(c) is the first channel of c's group
 *
 * A has whole vectors everywhere, of which the bytes behind the channels may be anything. The weights are a panel of
 * packed B, whose columns are fours of channels of the source, and 0 behind the last: k counts (pass, line, tap,
 * output, channel of the four). Of size / 4 passes, each has four outputs of all groups, so chosen that the sums are in
 * order after the kernel's transpositions: i8_grouped_output. In each pass there are `window` taps of all lines, of
 * which the sum begins with number `first`. The weights are widened by i8_kernels.widen_grouped where there is one.
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

/* A pooling kernel takes the maximum or the average over a window for each byte of `runs` runs of n contiguous ones, as
 * pool_body.h says. Byte j of run r has its window at src + r * src_step + j, and out is written at out + r * out_step,
 * contiguous too: elements of `type`, which for an average is u8 or s8 like the source, f32, or s32 for the sums. What
 * an average is divided by is at divisors + r * divisor_step + j if `each`, else it is the same for all, I8_CHUNK
 * times. n is at least I8_POOL_RUN; a window has at least 1 element, and for averages at most I8_POOL_WINDOW: 255 *
 * 2**23 < 2**31. src and out do not overlap, and need no alignment.
 *
 * If multiplier is not 0, a window has less than I8_POOL_PART elements, the result is bytes, and a kernel may compute
 * in u16
 *
 *     average = ((sum + bias + (sum >> parity_shift & 1)) * multiplier >> 16) >> shift         less 128 for s8
 *
 * which is the same: the sum in brackets, modulo 2**16, is that of unsigned elements (s8 + 128) and what rounds. */
#define I8_POOL_RUN 64
#define I8_POOL_WINDOW (1 << 23)
#define I8_POOL_PART 255 /* elements whose sum fits 16 bits: 255 * 255 < 2**16, 255 * 128 < 2**15 */
typedef struct {
    int64_t n, runs;
    const uint8_t *src;
    char *out;
    ptrdiff_t src_step, out_step;
    int64_t counts[3];    /* elements of the window along d, h and w */
    ptrdiff_t strides[3]; /* from one to the next */
    int type, each;
    const float *divisors;
    ptrdiff_t divisor_step; /* in elements */
    int multiplier, bias, parity_shift, shift;
} i8_pool_args;

typedef void (*i8_pool_fn)(const i8_pool_args *);

/* The sum or the product of bytes: with d[k] = scale[k] * ((x[k] ^ flip[k]) - zero[k]) in f32,
 *
 *     out = sat(rne((d[0] + d[1]) * dst_scale + dst_zero))            d[0] * d[1] for I8_MULTIPLY_BYTES
 *
 * and the sum or product less than 0 becomes 0 where there is a ReLU. zero[k] is an integer from 0 to 255, and
 * everything must be known to stay well within s32 and to be finite. The n bytes of out are those of x[0] or x[1], or
 * apart. */
enum { I8_ADD_BYTES, I8_MULTIPLY_BYTES };
typedef struct {
    int64_t n;
    const uint8_t *x[2];
    uint8_t flip[2]; /* 0 or 0x80 */
    float scale[2], zero[2], dst_scale, dst_zero;
    uint8_t *out;
} i8_bytes_args;

typedef void (*i8_bytes_fn)(const i8_bytes_args *);

/* Softmax or layer normalization of rows of n elements, at least 1, as normalize_body.h says. Types: src_type any;
 * dst_type any but s32. The elements of a row are contiguous and aligned to their size; rows of less than I8_CHUNK are
 * readable in src, gamma and beta, and writable in dst, up to that. dst may be src itself, if the types have the same
 * size. The workspace has I8_ROW_ROOM(n) floats; twice as many for a softmax with `log`. */
#define I8_PARTS 64
#define I8_ROW_ROOM(n) (((n) + I8_PARTS - 1) / I8_PARTS * I8_PARTS + I8_CHUNK)
typedef struct {
    int64_t rows, n;
    const char *src;
    char *dst;
    ptrdiff_t src_row, dst_row; /* in bytes */
    int src_type, dst_type;
    float scale; /* of src */
    float dst_scale, dst_zero; /* the reciprocal of the scale of dst; -0.0 without a zero point */
    int log;
    const float *gamma, *beta;
    float epsilon;
    float *workspace;
} i8_normalize_args;

typedef void (*i8_normalize_fn)(const i8_normalize_args *);

/* A cell of a recurrent layer makes the new state of `rows` rows of `panels` * 16 units from the sums of its gates, x
 * from the source and h from the state before, which lie gate after gate for each 16 units, as scale and bias do:
 *
 *     gate = f32(x + h) * scale + bias
 *     I8_LSTM:         c = logistic(f) * c + logistic(i) * tanh(c~);  y = logistic(o) * tanh(c)     gates i, f, c~, o
 *     I8_GRU_RESET:    u = logistic(u);  y = logistic(r) * before                                   gates u, r
 *     I8_GRU_OUTPUT:   y = u * before + (1 - u) * tanh(o)                                           gate o
 *     I8_GRU_LINEAR:   both, with o = tanh((f32(x) * scale + bias) + r * (f32(h) * scale + recurrent bias))
 *     after = sat(rne(y * data_scale + data_shift)), data_shift for NaN
 *     before = (state - data_shift) * data_reciprocal
 *
 * in f32, in this order. `memory` is c, or u where a GRU has it from one call to the next; NULL for I8_GRU_LINEAR. The
 * recurrent bias is that of a fourth gate. y is stored in `output` too if that is not NULL. Row steps are in elements;
 * there are values for 16 units also where a layer ends before. rows * panels is at most I8_MAX_CELLS. */
enum { I8_LSTM, I8_GRU_RESET, I8_GRU_OUTPUT, I8_GRU_LINEAR, I8_CELLS };
#define I8_MAX_CELLS (I8_MAX_MR * I8_MAX_NP)
typedef struct {
    int rows, panels;
    const int32_t *x, *h;
    ptrdiff_t x_row, h_row;
    const float *scale, *bias; /* [panels][gates][16] */
    float data_scale, data_reciprocal, data_shift;
    const uint8_t *before;
    uint8_t *after;
    ptrdiff_t state_row; /* of before and after */
    float *memory, *output;
    ptrdiff_t memory_row; /* of both */
} i8_cell_args;

typedef void (*i8_cell_fn)(const i8_cell_args *);

/* What one instruction set offers. `ref` fills every slot that a driver may call without asking; those of a way of
 * multiplying that it has not are NULL: rows, dots, thin, a tile's further dots, outliers. Blocking lives here and
 * nowhere else. */
typedef struct {
    const char *name;
    int (*supported)(void); /* by this CPU and operating system */

    int mr, np;      /* the full tile: rows, panels */
    int row_np;      /* panels of a tile of one row */
    int exact;       /* the I8_DOT4 or I8_DOT2 that is faster for many rows */
    int64_t kc;      /* k of a block, a multiple of 4 */
    int64_t a_bytes; /* of a block of A, which lives in L2 together with np panels of B, np * 16 * kc bytes */
    int64_t nc;      /* panels that a thread finishes first if K is split: their sums are rows * nc * 64 bytes */
    double thread_work; /* multiply-adds that pay for waking one more thread */
    int64_t tiny_work;  /* multiply-adds up to which a problem is not worth planning */

    i8_tile_fn tile[I8_DOT_KINDS][I8_MAX_MR][I8_MAX_NP]; /* [dot][rows - 1][panels - 1] */
    int tile_output;                            /* whether they take i8_tile_args.output */
    const i8_matrix *matrix;                    /* or NULL */
    int rows_mr, rows_columns;                  /* the largest row kernel, and the columns of a block */
    int64_t rows_limit;                         /* rows of A up to which B is read in place */
    i8_rows_fn rows[2][I8_MAX_ROWS];            /* [I8_A_UNSIGNED or I8_B_UNSIGNED][rows - 1] */
    /* Copy `rows` rows of `bytes` bytes, whole vectors, to lie one behind the other. */
    void (*copy_rows)(uint8_t *dst, int64_t bytes, int64_t rows, const uint8_t *src, ptrdiff_t row_stride);
    void (*finish_rows)(int32_t *dst, const int32_t *acc, int32_t add);
    /* NULL, or what makes two dwords, of halves, of each dword of the only row of a packed A for `rows`. src may end
     * where dst does. */
    void (*halve_row)(uint8_t *dst, const uint8_t *src, int64_t dwords, int a_unsigned);
    /* The same of x - zero, which must be from -255 to 255, for the k elements x of the row: B has to be u8. */
    void (*halve_centered)(uint8_t *dst, const uint8_t *src, int64_t k, int a_unsigned, int32_t zero);
    int dots_rows, dots_columns;                /* of the largest dot kernel */
    i8_dot_fn dots[2][I8_DOT_WIDTHS];           /* [I8_X_UNSIGNED or I8_Y_UNSIGNED][I8_DOTS_1 and so on] */
    /* Bytes of `columns` packed vectors of k bytes for `dots`, and their form: dst has them as pack_panel leaves them
     * (padded with zeros to that size) in src; they are u8 or s8. */
    int64_t (*dots_size)(int columns, int64_t k);
    void (*order_dots)(uint8_t *dst, const uint8_t *restrict src, int columns, int64_t k, int y_unsigned);
    int thin_k, thin_rows;                      /* K and rows of the largest thin kernel; 0 without one */
    void (*thin)(const i8_thin_args *);
    void (*output)(const i8_output_args *);
    void (*add_scale_group)(const i8_scale_group_args *);
    int scale_groups_mr; /* rows of the largest tile of these: [rows - 1][panels - 1]; 0 without them */
    i8_scale_groups_fn scale_groups[I8_MAX_SCALED_MR][I8_MAX_NP];
    /* C[i, j] = tile[i, j], elements of `size` bytes, contiguous in a row of the tile; steps in bytes. */
    void (*turn)(char *c, ptrdiff_t c_row, ptrdiff_t c_col, const char *tile, ptrdiff_t tile_row, int rows, int cols,
                 int size);
    int depthwise_channels, depthwise_lines;    /* channels of a call; lines of a group, 2 or 4 */
    void (*depthwise)(const i8_depthwise_args *);
    void (*depthwise_strided)(const i8_depthwise_args *); /* or NULL */
    int grouped_pixels, grouped_channels;       /* that a kernel computes at a time */
    void (*grouped)(const i8_grouped_args *);
    /* Weights of grouped_channels channels, `groups` groups of k of a panel, as pairs of s16: of each group the even
     * channels, then the odd ones. NULL where the kernel takes them as they are. */
    void (*widen_grouped)(int8_t *restrict dst, const int8_t *restrict src, int64_t groups);

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
    /* 1 if no pair sum of the panel with any A' can leave s16: in each pair (k, k + 1), k even, the positive parts sum
     * to at most 128 and the negative ones to at least -128 (255 * 128 = 32640). */
    int (*panel_certified)(const int8_t *panel, int64_t groups);
    /* Of a row of k numbers, f32, f16 or bf16 (`type`), `step` bytes apart: the smallest and the largest of them and
     * 0, NaN both if not all of it is finite; and its bytes sat(rne(src * reciprocal + zero)) ^ flip, in u8, or in
     * s8 if is_signed, with the zero point for NaN. */
    void (*source_range)(float *range, const char *src, int type, ptrdiff_t step, int64_t k);
    void (*quantize_source)(uint8_t *dst, const char *src, int type, ptrdiff_t step, int64_t k, float reciprocal,
                            float zero, int is_signed, uint8_t flip);
    /* The same for symmetric quantization: the largest magnitude of a row, beyond FLT_MAX or NaN if not all of it is
     * finite; and rne(src * reciprocal) ^ flip where that is known to be in [-127, 127]. */
    float (*source_largest)(const char *src, int type, ptrdiff_t step, int64_t k);
    void (*quantize_within)(uint8_t *dst, const char *src, int type, ptrdiff_t step, int64_t k, float reciprocal,
                            uint8_t flip);
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
    /* Operands of I8_DOT2. Rows of A' from rows, or from a micro-panel, whose src_group is not 4 and k a multiple of 4:
     * k bytes, XORed with flip, become s16, with zeros behind them up to a multiple of 4; dst_row is in elements.
     * Groups of a panel of B', each as its pairs (k, k + 1) of all columns, then those of (k + 2, k + 3). */
    void (*widen_a)(uint16_t *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, ptrdiff_t src_group,
                    int64_t rows, int64_t k, uint8_t flip);
    void (*widen_b)(int16_t *restrict dst, const int8_t *restrict src, int64_t groups);
    /* Without VNNI (outliers_body.h): the number of i8_outliers of a panel of B', and their starts, for each block of
     * so many groups of K, an even number, for each column; the outliers, as far as there is room for so many, and the
     * rest of the panel are stored too, unless room is 0 and dense is NULL. Their products in one block; and A', XORed
     * with flip, by columns for them, `columns` of them, a multiple of 16. */
    int64_t (*split_panel)(int8_t *restrict dense, i8_outliers *dst, int64_t room, int64_t *starts,
                           const int8_t *restrict panel, int64_t groups, int64_t block);
    void (*multiply_outliers)(const i8_outlier_args *);
    void (*columns_of)(uint8_t *dst, int64_t columns, const uint8_t *a, ptrdiff_t a_row, ptrdiff_t a_col, int64_t rows,
                       int64_t k, uint8_t flip);

    /* Element by element; [I8_U8 and so on] is the integer type: of x for dequantize, else of `out`. */
    i8_elements_fn quantize[I8_INT_TYPES], dequantize[I8_INT_TYPES], requantize[I8_SCHEMES][I8_INT_TYPES];

    i8_pool_fn maximum[2], average[2]; /* [I8_U8 or I8_S8] */

    /* Steps of a chain of element-wise functions, on n contiguous elements that need no alignment (formulas in
     * chain_body.h); [I8_TYPE_U8 and so on]. y and z have room for whole chunks. `zero` is 0 for floats. */
    void (*load[I8_TYPES])(float *y, const void *x, int64_t n, float scale, float zero);
    void (*apply)(const i8_post_op *op, float *y, const float *z, int64_t n); /* z: the operand, if it has one */
    void (*store[I8_TYPES])(void *out, const float *y, int64_t n, float scale, float zero);
    /* out[i] = table[x[i]]; out may be x. */
    void (*lookup)(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table);
    /* [I8_ADD_BYTES and so on][whether there is a ReLU][I8_U8 or I8_S8, of out]; may be NULL. */
    i8_bytes_fn bytes[2][2][2];
    i8_normalize_fn softmax, layer_norm;
    i8_cell_fn cells[I8_CELLS];

    /* The limits of the machine (peak_body.h). The fastest loop of multiply-adds on registers; how many it did is
     * returned. NULL where the ISA has no instruction for them. */
    i8_peak_fn peak;
    /* The sum of the vectors, of read_bytes bytes, at p, p + gap, p + 2 gap and p + 3 gap, then of those `step` bytes
     * further, and so on, `count` times: as one stream, or as four. */
    uint32_t (*read)(const uint8_t *p, ptrdiff_t gap, ptrdiff_t step, int64_t count);
    int read_bytes;
} i8_kernels;

/* kernels.c: every table that was built, best first, ending in NULL. */
extern const i8_kernels *const i8_all_kernels[];

/* The table of the calling thread: what i8_select chose last in it, else the process's default. */
const i8_kernels *i8_current(void);
void i8_select(const i8_kernels *kernels); /* NULL: back to the default */
void i8_set_default(const i8_kernels *kernels);
const i8_kernels *i8_selected(void); /* NULL if this thread follows the default */

/* cpu.c */
enum {
    I8_CPU_AVX2 = 1, I8_CPU_AVXVNNI = 2, I8_CPU_AVX512BW = 4, I8_CPU_AVX512VNNI = 8, I8_CPU_AVX512VBMI = 16,
    I8_CPU_AMX = 32
};
int i8_cpu_features(void);
const char *i8_cpu_name(void);

#endif
