/* The epilogues of products and of quantized primitives, and the source of real numbers that is quantized while it is
 * packed. */
#ifndef I8_STAGE_H
#define I8_STAGE_H

#include "core/types.h"
#include "stage/eltwise_list.h"

/* Adding 1.5 * 2**23 rounds numbers of magnitude 2**22 or less to integers, half to even. Magnitudes above 2**22 still
 * saturate to bytes. */
#define I8_ROUNDER 12582912.0f

/* The kinds of post-ops: first the kinds with an operand, then the element-wise kinds from I8_ELTWISE on. I8_SHIFT adds
 * a zero point, and turns NaN into the zero point. Only the epilogue itself appends I8_SHIFT. */
#define I8_ELTWISE_NAME(name, formula, code) I8_##name,
enum {
    I8_SUM, I8_PRELU, I8_ADD, I8_SUB, I8_MUL, I8_DIV, I8_MIN, I8_MAX, I8_GE, I8_GT, I8_LE, I8_LT, I8_EQ, I8_NE,
    I8_SHIFT, I8_ELTWISES(I8_ELTWISE_NAME) I8_ELTWISE = I8_RELU
};

/* One post-op. PReLU and binary post-ops have f32 operands: the operand of element (i, j) of the destination is at
 * operand + i * operand_row + j * operand_col. The operand of a sum is the old value of the destination, of type `type`
 * and with the zero point `alpha`. */
typedef struct {
    int kind, type;
    float alpha, beta, scale;
    const float *operand;
    ptrdiff_t operand_row, operand_col;
} i8_post_op;

/* The epilogue of the quantized primitives in integers, if the scheme is not I8_FLOAT. X is the X of i8_output_args
 * plus the co of i8_epilogue, saturated to s32:
 *
 *     y = sat_s32(X * multiplier[j] * 2**(exponent[j] - 31) + zero_point[j])      rounded as the scheme says
 *     C[i, j] = min(max(y, low[j]), high[j])                                      in the type of C: u8, s8 or s32
 *
 * All vectors have a value for each column, and a whole chunk after the last value is readable. */
typedef struct {
    int scheme;
    const int32_t *multiplier, *exponent, *zero_point, *low, *high;
} i8_requantization;

/* The epilogue of the quantized primitives. X is the X of i8_output_args plus the co of i8_epilogue, added in integers:
 *
 *     y = f32(X)
 *     y = y * scale[j] + bias[j]               (y + bias[j]) * scale[j] if bias_first
 *     y = max(y, 0)                            if relu
 *     y = post-ops(y)
 *     y = (y * dst_scale[j] + rounder) + dst_zero[j]       dst_scale is a reciprocal
 *     C[i, j] = sat(rne(y)) for integers, or the zero point if y was NaN; f16(y), bf16(y) or y for floats
 *
 * The operations are in f32, in this order. `rounder` is I8_ROUNDER if C has bytes whose zero point is added after
 * rounding; dst_zero is then the zero point minus I8_ROUNDER. For all other C, `rounder` is -0.0, which changes no
 * value. If the tile has a row_scale, row_scale[i] * scale[j] replaces scale[j]. An absent scale is 1, and an absent
 * addend is -0.0. Neither value changes y.
 *
 * If `integral` is 1, the formula is C[i, j] = sat_s32(X + offset[j]), in integers. `offset` is NULL if co contains the
 * zero points of C. If co plus a zero point may not fit s32, `offset` has the zero points.
 *
 * If the scheme of `requantization` is not I8_FLOAT, the formula of i8_requantization applies.
 *
 * A layer fills this struct once. */
typedef struct {
    i8_column_values scale, bias, dst_scale, dst_zero;
    int bias_first, relu;
    int finite;   /* whether all scale and dst_scale are finite */
    int rescales; /* whether dst_scale is not 1, or dst_zero is not -0.0 */
    int shifts;   /* whether some zero point of C is not 0 */
    float rounder;
    int integral;
    const int32_t *offset; /* a value for each column */
    const int32_t *col_sums; /* sums of the columns of B', modulo 2**32, or NULL */
    int op_count;
    const i8_post_op *ops;
    i8_requantization requantization;
} i8_stage;

/* The scales of a packed B by groups of `size` k, [panels][groups][16]. col_sums has the sums of the columns of B' in
 * each group, modulo 2**32, or is NULL, which is allowed if A' has no zero point. row_scales and row_zeros are NULL, or
 * have values for the rows of A' in each group, [groups][row_step]. column_zeros is NULL, or has zero points for the
 * columns of B' in each group, [groups][column_step]. With zero points of groups, the operands of the problem have the
 * zero points of the first group. half_scales has the scales as f16 if B has 4 bits and every scale is an f16; else it
 * is NULL. */
typedef struct {
    int64_t size;
    const float *scales;
    const uint16_t *half_scales;
    const int32_t *col_sums;
    ptrdiff_t row_step, column_step;
    const float *row_scales;
    const int64_t *row_zeros, *column_zeros;
} i8_scale_groups;

/* The kinds of epilogues: formulas that compute an element of C from its sum X. */
enum {
    I8_BLAS,        /* s32: sat(rne(alpha * X + beta * C + co)) */
    I8_INT64,       /* s64: X */
    I8_DISTANCES,   /* s32 or s64: co_rows + co_cols - 2 * X, which fits the type */
    I8_QUANTIZED,   /* the formula of `stage` */
    I8_SCALE_GROUPS /* the formula of `stage`, where X is the scaled sum of groups in f32 */
};

/* The epilogue of a product:
 *
 *     C[i, j] = sat_s32(rne(alpha * X[i, j] + beta * C[i, j] + co + co_rows[i] + co_cols[j]))        for I8_BLAS.
 *
 * The formula is computed in integers if alpha is 1 and beta is 0 or 1, otherwise in f64 in the order of the terms. C
 * is read only if beta is not 0, and overlaps no other operand. If a value saturates, *saturated becomes 1, unless
 * `saturated` is NULL. At most one of co, co_rows and co_cols is given. I8_DISTANCES has alpha = -2, and sums of
 * squares in both co_rows and co_cols. */
typedef struct {
    int kind; /* kind of the epilogue */
    int type; /* type of C */
    double alpha, beta;
    int *saturated;
    /* Integers that are added to X: one for all of C, one for each row (or NULL), one for each column (or NULL). */
    int32_t co;
    const int32_t *co_rows, *co_cols;
    /* The next four members are defined only for quantized primitives. */
    const i8_stage *stage;
    const float *row_scales;              /* a scale for each row of C, or NULL */
    const i8_scale_groups *scale_groups;  /* for I8_SCALE_GROUPS */
    int doubled;                          /* X is twice the sum */
    /* For I8_DISTANCES with unknown squares of a plain B, column_squares is the memory of co_cols, in which the call
     * stores the sums of squares of the columns of B. With column_squares, K is at most SHORT_SQUARES_K
     * (gemm/squares.pxd). If the call stores no squares, column_squares is NULL. */
    int32_t *column_squares;
} i8_epilogue;

/* The epilogue that a micro-kernel applies to the sums in its registers, and the address of the tile in C. The vectors
 * of the epilogue have the values of the tile from `row` and `column` on, and 4 whole vectors of values are readable.
 * `stream` writes whole aligned lines of 64 bytes past the caches. */
typedef struct {
    const i8_epilogue *epilogue;
    int64_t row, column;
    const float *row_scale; /* scales of the tile's rows, or NULL */
    int stream;
    char *c;
    ptrdiff_t c_row; /* in bytes */
} i8_tile_output;

/* The sums of one tile, and its address in C:
 *
 *     X[i, j] = acc[i, j] - ao[i] * col_sum[j] - bo[j] * row_term[i].
 *
 * With acc64, X is exact in s64. With acc32, X is computed modulo 2**32, and must fit s32. ao and col_sum are both
 * given or both NULL, and bo and row_term are both given or both NULL. NULL stands for zeros. With a `stage` in f32,
 * acc_f32 may replace acc32 and acc64. acc_f32 has f32(X), and no other terms are added. The driver sets most members
 * once for many tiles. */
typedef struct {
    const i8_epilogue *epilogue;
    int rows, cols;
    /* The tile begins at C[row, column]. With a `stage`, whole chunks of acc32, acc64 and the vectors of columns are
     * readable. */
    int64_t row, column;
    const int32_t *acc32;
    const int64_t *acc64;
    const float *acc_f32;
    ptrdiff_t acc_row;
    const int64_t *ao, *col_sum;
    const int64_t *bo, *row_term;
    const float *row_scale; /* [rows], or NULL */
    char *c;
    ptrdiff_t c_row, c_col; /* in bytes */
} i8_output_args;

/* Set *part to the part of a tile from row `row` and column `column` on. The function does not return the struct,
 * because the vector loads that copy a returned struct would wait for the stores of its single members. */
static inline void i8_set_part(i8_output_args *part, const i8_output_args *o, int row, int column, int rows, int cols)
{
    const ptrdiff_t at = row * o->acc_row + column;
    *part = *o;
    part->rows = rows, part->cols = cols;
    part->row = o->row + row, part->column = o->column + column;
    part->acc32 = o->acc32 ? o->acc32 + at : NULL;
    part->acc64 = o->acc64 ? o->acc64 + at : NULL;
    part->acc_f32 = o->acc_f32 ? o->acc_f32 + at : NULL;
    part->ao = o->ao ? o->ao + row : NULL;
    part->col_sum = o->col_sum ? o->col_sum + column : NULL;
    part->bo = o->bo ? o->bo + column : NULL;
    part->row_term = o->row_term ? o->row_term + row : NULL;
    part->row_scale = o->row_scale ? o->row_scale + row : NULL;
    part->c = o->c + row * o->c_row + column * o->c_col;
}

/* Scale groups are parts of K. Each column of B has one scale in each scale group. The sums of one group are added to
 * the sums of the groups before it:
 *
 *     y[i, j] = y[i, j] + f32(acc[i, j] - ao[i] * col_sum[j] - bo[j] * row_term[i]) * (row_scale[i] * scale[j]).
 *
 * The integers are computed modulo 2**32, and their sum must fit s32. After the sum of integers, all operations are in
 * f32, in the order of the formula. If a zero point is out of the range of its type, `far_size` is the number of k in a
 * group. If all zero points are in range, `far_size` is 0. If far_size is not 0, row_term has the sums of A' without
 * zero points, the formula has row_term[i] - far_size * ao[i] in place of row_term[i], and the integers are s64. ao[i]
 * is ao_rows[i], or `ao` if ao_rows is NULL. If all ao[i] are 0, col_sum may be NULL. bo and row_term are both given or
 * both NULL (zeros). Without row_scale the factor is scale[j]. Tiles have whole panels: scale and col_sum have 16
 * values for each panel, panel_step elements apart. */
typedef struct {
    int rows, panels;
    const int32_t *acc;
    ptrdiff_t acc_row;
    int64_t ao;
    const int64_t *ao_rows;
    const int32_t *col_sum;
    const int64_t *bo;
    const int32_t *row_term;
    int64_t far_size;
    const float *scale, *row_scale;
    ptrdiff_t panel_step;
    float *y;
    ptrdiff_t y_row;
} i8_scale_group_args;

/* A tile of the product of a real A and weights:
 *
 *     sum = fma(a[i, k], b[k, j], sum)            for k = 0, 1, ... in turn; sum begins with 0 if `first`, else c[i, j]
 *     c[i, j] = sum * scale[j]                    or c[i, j] = sum if scale is NULL
 *
 * The tile has `rows` rows of A, which are contiguous in k, and `panels` * 16 columns. i8_stage_kernels has the maximum
 * number of rows, real_rows, and of panels, real_panels. A tile of one row without a scale may have I8_REAL_WIDE *
 * real_panels panels. Row steps are in elements. If `steps` is not NULL, as it may be up to real_panels panels, row
 * k + 1 of B is steps[k] elements after row k, instead of b_row elements. The kernel reads steps[0] to steps[k - 1]. */
enum { I8_REAL_WIDE = 4 };
typedef struct {
    int rows, panels, first;
    int64_t k;
    const float *a, *b, *scale;
    float *c;
    ptrdiff_t a_row, b_row, c_row;
    const ptrdiff_t *steps;
} i8_real_tile_args;

/* The product of one row of A and packed int8 weights, which are converted to f32 in registers. There are at most
 * I8_REAL_ROW_PANELS panels, `panel_size` bytes apart. If `factor` is not NULL, weights of column j are multiplied by
 * factor[j] before the product. The kernel reads no number after a[k - 1]. */
enum { I8_REAL_ROW_PANELS = 4 }; /* 4 chains of multiply-adds hide the latency of a multiply-add */
typedef struct {
    int panels, first;
    int64_t k;
    const float *a, *scale, *factor;
    const int8_t *weights;
    ptrdiff_t panel_size;
    float *c;
} i8_real_row_args;

/* The sums of a filter over one channel. Tap t is at distance offsets[t] from the output's position in the image:
 *
 *     y[j] = 0 + weights[0] * x[j + offsets[0]] + weights[1] * x[j + offsets[1]] + ...      each step rounded to f32.
 *
 * The kernel computes y[j] for all j < count. For tap t, no element after x[count - 1 + offsets[t]] is read. */
typedef struct {
    int64_t count;
    int taps;
    const float *weights, *x;
    const ptrdiff_t *offsets;
    float *y;
} i8_real_filter_args;

/* The functions of one vector width that compute epilogues and read float sources. */
typedef struct {
    void (*output)(const i8_output_args *);
    void (*add_scale_group)(const i8_scale_group_args *);
    /* Set C[i, j] = tile[i, j], for elements of `size` bytes, which are contiguous in a row of the tile. Steps are in
     * bytes. */
    void (*transpose_store)(char *c, ptrdiff_t c_row, ptrdiff_t c_col, const char *tile, ptrdiff_t tile_row, int rows,
                            int cols, int size);

    /* These functions take a row of k numbers, f32, f16 or bf16 (`type`), `step` bytes apart. source_range finds the
     * minimum and the maximum of 0 and the numbers, or sets both to NaN if a number is not finite. quantize_source
     * computes sat(rne(src * reciprocal + zero)) in u8, or the zero point for NaN. */
    void (*source_range)(float *range, const char *src, int type, ptrdiff_t step, int64_t k);
    void (*quantize_source)(uint8_t *dst, const char *src, int type, ptrdiff_t step, int64_t k, float reciprocal,
                            float zero);
    /* These functions take `rows` rows, `row` bytes apart, for symmetric quantization. source_largest finds the largest
     * magnitude of each row, or infinity or NaN if a number is not finite. quantize_within computes rne(src / scale) ^
     * flip, with the reciprocal of the scale. The rounded values must be in [-127, 127]. A row whose scale is NaN
     * becomes 0. */
    void (*source_largest)(float *largest, const char *src, ptrdiff_t row, int64_t rows, int type, ptrdiff_t step,
                           int64_t k);
    void (*quantize_within)(uint8_t *dst, ptrdiff_t dst_row, const char *src, ptrdiff_t row, int64_t rows, int type,
                            ptrdiff_t step, int64_t k, const float *scales, uint8_t flip);

    /* The largest tile of real numbers has real_rows rows and real_panels panels. real_panel converts `groups` groups
     * of 4 k of a panel of packed weights to f32. The row of each k is dst_k elements after the previous row. */
    int real_rows, real_panels;
    void (*real_panel)(float *dst, ptrdiff_t dst_k, const int8_t *panel, int64_t groups);
    void (*real_tile)(const i8_real_tile_args *);
    /* Compute a tile of any size over all k. k is a multiple of 4. Columns of B are contiguous, and b_row elements
     * apart. The function ignores `first` and `scale`. */
    void (*real_columns)(const i8_real_tile_args *);
    void (*real_row)(const i8_real_row_args *);
    void (*real_filter)(const i8_real_filter_args *);
} i8_stage_kernels;

#endif
