/* Operators on elements, windows and rows: quantization, fused element-wise operators, pooling, normalization. */
#ifndef I8_ELEMENTWISE_H
#define I8_ELEMENTWISE_H

#include "stage/stage.h"

/* Integer types of the element-wise kernels (formulas in quantize_body.h). */
enum { I8_U8, I8_S8, I8_S32, I8_INT_TYPES };

/* The arguments of an element-wise kernel on `n` contiguous elements. The parameters are the scale (f32; an s32
 * multiplier for I8_DOUBLING and I8_SINGLE), the zero point (s32) and the exponent (s32). Each parameter is one value,
 * or n values if `each` is 1. Quantization to bytes then takes reciprocals (reciprocal.h), not exponents. The
 * third parameter must be readable, even if a kernel ignores it. For `quantize` and I8_FLOAT the zero point may be any
 * s32. `dequantize` needs zero points whose differences from bytes fit s32. `quantize_onnx` and schemes except I8_FLOAT
 * need zero points in the range of the integer type. Pointers need no alignment. `out` may be x if the types have the
 * same size. `stream` writes 4-byte elements past the caches. */
typedef struct {
    int64_t n;
    const void *x;
    void *out;
    const void *parameters[3];
    int each, stream;
} i8_elements_args;

typedef void (*i8_elements_fn)(const i8_elements_args *);
/* The maximum number of elements that share a value of `spread`. 2,048 rows of 128 numbers with a scale for each row
 * take 30 us with repeated scales, and 35 us with a kernel call for each row (Zen 5). */
#define I8_MAX_REPEATS 128

/* A pooling kernel computes the maximum or the average over a window for each byte of `runs` runs of n contiguous
 * bytes, as pool_body.h describes. The window of byte j of run r begins at src + r * src_step + j. The results of run r
 * are contiguous from out + r * out_step on. Averages have the type of the source or f32. The type s32 stands for sums
 * instead of averages. If `each` is 1, the divisor of an average is at divisors + r * divisor_step + j. If `each` is 0,
 * one divisor is repeated I8_CHUNK times. n is at least I8_POOL_RUN. A window has at least 1 element; for averages it
 * has at most I8_POOL_WINDOW elements, because 255 * 2**23 < 2**31. src and out do not overlap, and need no alignment.
 *
 * If `multiplier` is not 0, a window has fewer than I8_POOL_PART elements, and the results are bytes. A kernel with a
 * multiplier may compute averages in u16, with equal results:
 *
 *     average = ((sum + bias + (sum >> parity_shift & 1)) * multiplier >> 16) >> shift         less 128 for s8.
 *
 * The expression in the outer brackets is modulo 2**16. `sum` is the sum of unsigned elements (s8 + 128). */
#define I8_POOL_RUN 64
#define I8_POOL_WINDOW (1 << 23)
#define I8_POOL_PART 255 /* most elements whose sum fits 16 bits: 255 * 255 < 2**16, 255 * 128 < 2**15 */
typedef struct {
    int64_t n, runs;
    const uint8_t *src;
    char *out;
    ptrdiff_t src_step, out_step;
    int64_t counts[3];    /* elements of the window along d, h and w */
    ptrdiff_t strides[3]; /* bytes from one element of the window to the next along d, h and w */
    int type, each;
    const float *divisors;
    ptrdiff_t divisor_step; /* in elements */
    int multiplier, bias, parity_shift, shift;
} i8_pool_args;

typedef void (*i8_pool_fn)(const i8_pool_args *);

/* Add or multiply bytes. With d[k] = scale[k] * ((x[k] ^ flip[k]) - zero[k]) in f32:
 *
 *     out = sat(rne((d[0] + d[1]) * dst_scale + dst_zero))            d[0] * d[1] for I8_MULTIPLY_BYTES
 *     out = sat(rne((d[0] + d[1]) / dst_scale) + dst_zero)            if `onnx`; dst_zero is then a byte
 *
 * With a ReLU, negative sums and products become 0. zero[k] is an integer from 0 to 255. The caller ensures that all
 * values are finite and much smaller than 2**31. `out` is x[0] or x[1] itself, or overlaps neither. */
enum { I8_ADD_BYTES, I8_MULTIPLY_BYTES };
typedef struct {
    int64_t n;
    const uint8_t *x[2];
    uint8_t flip[2]; /* 0 or 0x80 */
    float scale[2], zero[2], dst_scale, dst_zero;
    int onnx;
    uint8_t *out;
} i8_bytes_args;

typedef void (*i8_bytes_fn)(const i8_bytes_args *);

/* Sum `count` rows of an s8 table, each with its scale, in the order of `indices`, beginning with 0:
 *
 *     y[j] = sum of scales[r] * f32(table[r * row + j]) over r = indices[0], indices[1], ...      for j < n
 *
 * Each product and each sum is rounded to f32. */
typedef struct {
    int64_t n, count;
    const int8_t *table;
    ptrdiff_t row;
    const float *scales;
    const int64_t *indices;
    float *y;
} i8_sum_rows_args;

/* The arguments of softmax and layer normalization of rows of n elements, at least 1 (normalize_body.h). src_type is
 * any type, and dst_type is any type except s32. The elements of a row are contiguous and aligned to their size. If a
 * row has fewer than I8_CHUNK elements, I8_CHUNK elements are readable in src, plus, gamma and beta, and writable in
 * dst. dst may be src itself if the types have the same size. The workspace has I8_NORMALIZE_ROOM(n) floats: the rows
 * that are computed together and one more row, because softmax begins a row before it has finished the previous row. */
#define I8_PARTS 64
#define I8_MOST_ROWS 8
#define I8_ROWS_ABREAST(n) ((n) <= 128 ? I8_MOST_ROWS : (n) <= 1024 ? 4 : 1)
#define I8_ROW_ROOM(n) (((n) + I8_CHUNK - 1) / I8_CHUNK * I8_CHUNK + I8_CHUNK)
#define I8_NORMALIZE_ROOM(n) ((I8_ROWS_ABREAST(n) + 1) * I8_ROW_ROOM(n))
typedef struct {
    int64_t rows, n;
    const char *src;
    char *dst;
    const float *plus;                    /* the summand of an f32 src, or NULL */
    ptrdiff_t src_row, dst_row, plus_row; /* in bytes */
    int src_type, dst_type;
    float scale; /* scale of src */
    float dst_scale; /* reciprocal of dst's scale */
    float dst_zero; /* dst's zero point, -0.0 for none */
    int log;  /* whether softmax stores logarithms */
    int root; /* whether layer normalization takes 0 as the mean (RMSNorm) */
    const float *gamma, *beta;
    float epsilon;
    float *workspace;
} i8_normalize_args;

/* `softmax_across` takes rows that are side by side: element j of row r is r elements after src + j * src_row, and dst
 * has the same order. There are at least I8_CHUNK rows. src_type is not s32, and there is no summand. The workspace has
 * I8_ACROSS_ROOM(rows, n) floats, or twice this number with `log`. */
#define I8_ACROSS_ROOM(rows, n) (((n) + 2) * I8_ROW_ROOM(rows))

typedef void (*i8_normalize_fn)(const i8_normalize_args *);

/* Element-wise kernels, pooling and normalization of a vector width. */
typedef struct {
    /* Element-wise kernels. The index, I8_U8 and so on, is the integer type of x for dequantize, and of `out` for all
     * other kernels. */
    i8_elements_fn quantize[I8_INT_TYPES], quantize_onnx[I8_INT_TYPES], dequantize[I8_INT_TYPES];
    i8_elements_fn requantize[I8_SCHEMES][I8_INT_TYPES];

    /* Set out[i] = values[(start + i) / repeats] for i < n. n is less than 2**15. The function may write I8_CHUNK - 1
     * elements after out[n - 1]. `repeats` is from 2 to I8_MAX_REPEATS. The last readable value is
     * values[count - 1]. */
    void (*spread)(int32_t *out, const int32_t *values, int64_t count, int64_t repeats, int64_t start, int64_t n);

    i8_pool_fn maximum[2], average[2]; /* [I8_U8 or I8_S8] */

    /* Steps of fused element-wise operators (formulas in fused_body.h), on n contiguous elements, which need no
     * alignment. The index is I8_TYPE_U8 and so on. y, x and z have room for whole chunks. `zero` is 0 for floats. */
    void (*load[I8_TYPES])(float *y, const void *x, int64_t n, float scale, float zero);
    /* Set y[i] = op(x[i]), or y[i] = op(x[i], z[i]) if the post-op has an operand. x may be y. If z_step is 0, all
     * chunks have the operands z[0] to z[I8_CHUNK - 1]. If z_step is I8_CHUNK, x[i] has the operand z[i]. */
    void (*apply)(const i8_post_op *op, float *y, const float *x, const float *z, int64_t z_step, int64_t n);
    void (*store[I8_TYPES])(void *out, const float *y, int64_t n, float scale, float zero);
    void (*sum_rows)(const i8_sum_rows_args *);
    /* Set out[i] = table[x[i]]. out may be x. */
    void (*lookup)(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table);
    /* Set out[i] = min(max(x[i] ^ flip[0], low), high) ^ flip[1]. out may be x. */
    void (*clamp)(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t flip[2], uint8_t low, uint8_t high);
    /* The indices are I8_ADD_BYTES or I8_MULTIPLY_BYTES, 1 with a ReLU, and the type of out. Pointers may be NULL. */
    i8_bytes_fn bytes[2][2][2];
    /* Set out = sat(x[0] op x[1]), where a comparison is 0 or 1. The indices are the post-op minus I8_ADD, and the type
     * of x. Only n, x and out are used. The pointers for I8_MUL and I8_DIV are NULL. */
    i8_bytes_fn direct[I8_NE - I8_ADD + 1][2];

    i8_normalize_fn softmax, softmax_across, layer_norm;
} i8_elementwise_kernels;

#endif
