/* The epilogue, which computes C from the sums of a tile. If the epilogue would be the identity, micro-kernels store C
 * themselves. stage.h has the formula and the arguments (i8_output_args). The compiler vectorizes these simple loops
 * for the instruction set of the including file. */
#include "stage/stage_body.h"
#include "stage/scale_group_body.h"
#include "stage/requantize_stage_body.h"
#include "stage/source_body.h"
#include "stage/transpose_store_body.h"
#include <math.h>

/* The functions below make `beyond` negative if a value saturates. */
I8_INLINE int32_t i8_saturate(int64_t x, int64_t *beyond)
{
    const int64_t y = x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x;
    *beyond |= y == x ? 0 : -1;
    return (int32_t)y;
}

/* Return sat(rne(x)). The limits are exact in f64. */
I8_INLINE int32_t i8_round_saturated(double x, int64_t *beyond)
{
    const double below = x < (double)INT32_MAX ? x : (double)INT32_MAX;
    /* The largest s32 plus 1/2 rounds up to an even number, which does not fit s32. The smallest s32 minus 1/2 rounds
     * to a number that fits. */
    *beyond |= x >= INT32_MAX + 0.5 ? -1 : 0;
    *beyond |= x < INT32_MIN - 0.5 ? -1 : 0;
    return (int32_t)rint(below > (double)INT32_MIN ? below : (double)INT32_MIN);
}

/* Add, saturate, and update `beyond` without a branch, because compilers do not vectorize loops with branches. */
I8_INLINE int32_t i8_add_saturated(int32_t x, int32_t y, int32_t *beyond)
{
    const int32_t sum = (int32_t)((uint32_t)x + (uint32_t)y), limit = (x >> 31) ^ INT32_MAX;
    const int32_t overflows = ((x ^ sum) & (y ^ sum)) >> 31;
    *beyond |= overflows;
    return (sum & ~overflows) | (limit & overflows);
}

/* Return whether all terms are integers. */
I8_INLINE int i8_is_integral(const i8_epilogue *e)
{
    return e->alpha == 1 && (e->beta == 0 || e->beta == 1);
}

I8_INLINE void i8_note_saturated(const i8_epilogue *e, int64_t beyond)
{
    if (beyond < 0 && e->saturated)
        I8_SET_FLAG(e->saturated);
}

/* The column sums, zero points and offsets of some columns of the tile. Absent values are 0. */
typedef struct {
    uint32_t col_sum[I8_MAX_COLUMNS], bo[I8_MAX_COLUMNS];
    int32_t co[I8_MAX_COLUMNS];
} i8_output_columns;

I8_NOINLINE void i8_columns_from(i8_output_columns *t, const i8_output_args *o, int j, int n)
{
    const int64_t *col_sum = o->ao ? o->col_sum + j : NULL, *bo = o->bo ? o->bo + j : NULL;
    const int32_t *co = i8_column_offsets(o, j);
    for (int v = 0; v < n; ++v)
        t->col_sum[v] = col_sum ? (uint32_t)col_sum[v] : 0;
    for (int v = 0; v < n; ++v)
        t->bo[v] = bo ? (uint32_t)bo[v] : 0;
    for (int v = 0; v < n; ++v)
        t->co[v] = co ? co[v] : 0;
}

#ifdef I8_VECTORS_OF_F64
/* Compute I8_LANES / 2 elements in f64, like i8_output_row. The constant `reads` says whether C is read. */
I8_INLINE void i8_output_vector(double alpha, const int32_t *x, double beta, const int32_t *co, int32_t offset,
                                int32_t *c, int64_t *beyond, const int reads)
{
    i8_f64 sum = i8_f64_mul(i8_f64_set(alpha), i8_f64_from(i8_load_half(x)));
    if (reads)
        sum = i8_f64_add(sum, i8_f64_mul(i8_f64_set(beta), i8_f64_from(i8_load_half(c))));
    sum = i8_f64_add(sum, i8_f64_from(i8_add_half(i8_load_half(co), offset)));
    const i8_f64 limited = i8_f64_max(i8_f64_min(sum, i8_f64_set(INT32_MAX)), i8_f64_set(INT32_MIN));
    i8_f64_store_rounded(c, limited);
    if (i8_any_differ(sum, limited)) { /* check rounded sums: a sum just beyond a limit may round to the limit */
        double sums[I8_LANES / 2];
        i8_f64_store(sums, sum);
        for (int v = 0; v < I8_LANES / 2; ++v)
            (void)i8_round_saturated(sums[v], beyond);
    }
}
#endif

/* Compute n columns of row i, in 32 bits. X modulo 2**32 is exact, because X fits s32. The rest of the formula adds one
 * more integer, or is computed in f64. The constants `zeros`, `reads` and `integral` say whether there are zero points,
 * whether C is read, and whether the formula is in integers. */
I8_INLINE void i8_output_row(const i8_output_args *o, int i, const i8_output_columns *t, const int32_t *restrict acc,
                             int32_t *restrict c, int n, const int zeros, const int reads, const int integral)
{
    const int32_t offset = i8_row_offset(o, i); /* 0 if columns have offsets */
    const uint32_t ao = zeros && o->ao ? (uint32_t)o->ao[i] : 0;
    const uint32_t row_term = zeros && o->bo ? (uint32_t)o->row_term[i] : 0;
    const double alpha = o->epilogue->alpha, beta = o->epilogue->beta;
    int32_t beyond = 0;
    int64_t beyond_rounded = 0;
    int first = 0;
#ifdef I8_VECTORS_OF_F64
    first = integral ? 0 : n - n % (I8_LANES / 2);
    for (int v = 0; v < first; v += I8_LANES / 2) {
        int32_t x[I8_LANES / 2];
        for (int u = 0; zeros && u < I8_LANES / 2; ++u)
            x[u] = (int32_t)((uint32_t)acc[v + u] - (ao * t->col_sum[v + u] + t->bo[v + u] * row_term));
        i8_output_vector(alpha, zeros ? x : acc + v, beta, t->co + v, offset, c + v, &beyond_rounded, reads);
    }
#endif
    for (int v = first; v < n; ++v) {
        const uint32_t less = zeros ? ao * t->col_sum[v] + t->bo[v] * row_term : 0;
        const int32_t x = (int32_t)((uint32_t)acc[v] - less), co = t->co[v] + offset;
        /* Adding 0.0 for an absent term changes no result. */
        if (integral)
            c[v] = i8_add_saturated(x, reads ? c[v] : co, &beyond);
        else
            c[v] = i8_round_saturated(alpha * (double)x + (reads ? beta * (double)c[v] : 0.0) + (double)co,
                                      &beyond_rounded);
    }
    i8_note_saturated(o->epilogue, integral ? beyond : beyond_rounded);
}

/* Compute the tile, at most I8_MAX_COLUMNS columns at a time. */
I8_INLINE void i8_output_rows_of(const i8_output_args *o, const int zeros, const int reads, const int integral)
{
    i8_output_columns t;
    for (int j = 0; j < o->cols; j += I8_MAX_COLUMNS) {
        const int n = o->cols - j < I8_MAX_COLUMNS ? o->cols - j : I8_MAX_COLUMNS;
        i8_columns_from(&t, o, j, n);
        for (int i = 0; i < o->rows; ++i)
            i8_output_row(o, i, &t, o->acc32 + i * o->acc_row + j, (int32_t *)(void *)(o->c + i * o->c_row) + j, n,
                          zeros, reads, integral);
    }
}

/* Compute squared distances for n columns of row i: both offsets minus twice X. Arithmetic modulo 2**32 is exact,
 * because the result fits s32. */
I8_INLINE void i8_output_distances_of_row(const i8_output_args *o, int i, const int32_t *co, const int32_t *acc,
                                          int32_t *c, int n)
{
    const int32_t offset = o->epilogue->co_rows[o->row + i];
    int v = 0;
#ifdef I8_UNITS
    const i8_vec offsets = i8_set_32(offset);
    for (; v + I8_LANES <= n; v += I8_LANES) {
        const i8_vec x = i8_load(acc + v);
        i8_store(c + v, i8_sub(i8_add(i8_load(co + v), offsets), i8_add(x, x)));
    }
#endif
    for (; v < n; ++v)
        c[v] = (int32_t)((uint32_t)offset + (uint32_t)co[v] - 2 * (uint32_t)acc[v]);
}

static void i8_output_distances(const i8_output_args *o)
{
    i8_output_columns t;
    int32_t x[I8_MAX_COLUMNS];
    if (!o->ao && !o->bo) {
        for (int i = 0; i < o->rows; ++i)
            i8_output_distances_of_row(o, i, i8_column_offsets(o, 0), o->acc32 + i * o->acc_row,
                                       (int32_t *)(void *)(o->c + i * o->c_row), o->cols);
        return;
    }
    for (int j = 0; j < o->cols; j += I8_MAX_COLUMNS) {
        const int n = o->cols - j < I8_MAX_COLUMNS ? o->cols - j : I8_MAX_COLUMNS;
        i8_columns_from(&t, o, j, n);
        for (int i = 0; i < o->rows; ++i) {
            const uint32_t ao = o->ao ? (uint32_t)o->ao[i] : 0, row_term = o->bo ? (uint32_t)o->row_term[i] : 0;
            const int32_t *acc = o->acc32 + i * o->acc_row + j;
            for (int v = 0; v < n; ++v)
                x[v] = (int32_t)((uint32_t)acc[v] - (ao * t.col_sum[v] + t.bo[v] * row_term));
            i8_output_distances_of_row(o, i, t.co, x, (int32_t *)(void *)(o->c + i * o->c_row) + j, n);
        }
    }
}

#define I8_OUTPUT(name, zeros, reads, integral) \
    I8_NOINLINE void name(const i8_output_args *o) { i8_output_rows_of(o, zeros, reads, integral); }
I8_OUTPUT(i8_output_sums, 0, 0, 1)
I8_OUTPUT(i8_output_sums_to_c, 0, 1, 1)
I8_OUTPUT(i8_output_compensated, 1, 0, 1)
I8_OUTPUT(i8_output_compensated_to_c, 1, 1, 1)
I8_OUTPUT(i8_output_scaled, 0, 0, 0)
I8_OUTPUT(i8_output_scaled_to_c, 0, 1, 0)
I8_OUTPUT(i8_output_scaled_compensated, 1, 0, 0)
I8_OUTPUT(i8_output_scaled_compensated_to_c, 1, 1, 0)
#undef I8_OUTPUT

/* Compute the tile if X is s64, or if three terms are added as integers. One of the three terms is `offset`: a value
 * for each column of C, or NULL. */
static void i8_output_wide(const i8_output_args *o, const int32_t *offset)
{
    const i8_epilogue *e = o->epilogue;
    const int integral = i8_is_integral(e);
    const int32_t *co_cols = i8_column_offsets(o, 0);
    int64_t beyond = 0;
    for (int i = 0; i < o->rows; ++i) {
        int32_t *c = (int32_t *)(void *)(o->c + i * o->c_row);
        for (int j = 0; j < o->cols; ++j) {
            const int64_t x = i8_wide_sum(o, i, j);
            int64_t co = i8_row_offset(o, i) + (int64_t)(co_cols ? co_cols[j] : 0);
            co += offset ? offset[o->column + j] : 0;
            if (integral) {
                c[j] = i8_saturate(x + co + (int64_t)(e->beta != 0 ? c[j] : 0), &beyond);
            } else {
                const double y = e->alpha * (double)x + (e->beta != 0 ? e->beta * (double)c[j] : 0);
                c[j] = i8_round_saturated(y + (double)co, &beyond);
            }
        }
    }
    i8_note_saturated(e, beyond);
}

/* Store the tile to a C of s64 with contiguous rows. The constant `zeros` says whether there are zero points. */
I8_INLINE void i8_output_s64_of(const i8_output_args *o, const int zeros)
{
    i8_output_columns t;
    for (int j = 0; j < o->cols; j += I8_MAX_COLUMNS) {
        const int n = o->cols - j < I8_MAX_COLUMNS ? o->cols - j : I8_MAX_COLUMNS;
        if (zeros)
            i8_columns_from(&t, o, j, n);
        for (int i = 0; i < o->rows; ++i) {
            const int32_t *acc = o->acc32 + i * o->acc_row + j;
            const uint32_t ao = zeros && o->ao ? (uint32_t)o->ao[i] : 0;
            const uint32_t row_term = zeros && o->bo ? (uint32_t)o->row_term[i] : 0;
            int64_t *c = (int64_t *)(void *)(o->c + i * o->c_row) + j;
            for (int v = 0; v < n; ++v)
                c[v] = (int32_t)((uint32_t)acc[v] - (zeros ? ao * t.col_sum[v] + t.bo[v] * row_term : 0));
        }
    }
}

static void i8_output_s64(const i8_output_args *o)
{
    if (o->epilogue->kind == I8_DISTANCES) {
        const int32_t *co_cols = i8_column_offsets(o, 0);
        for (int i = 0; i < o->rows; ++i)
            for (int j = 0; j < o->cols; ++j)
                ((int64_t *)(void *)(o->c + i * o->c_row))[j] =
                    (int64_t)i8_row_offset(o, i) + co_cols[j] - 2 * i8_wide_sum(o, i, j);
    } else if (!o->acc32) {
        for (int i = 0; i < o->rows; ++i)
            for (int j = 0; j < o->cols; ++j)
                ((int64_t *)(void *)(o->c + i * o->c_row))[j] = i8_wide_sum(o, i, j);
    } else if (o->ao || o->bo) {
        i8_output_s64_of(o, 1);
    } else {
        i8_output_s64_of(o, 0);
    }
}

/* Apply the epilogue of a primitive in integers. Saturation gives no warning. */
static void i8_output_integers(const i8_output_args *o)
{
    const int32_t *offset = o->epilogue->stage->offset;
    i8_output_args plain = *o;
    i8_epilogue sum = *o->epilogue;
    plain.epilogue = &sum;
    sum.alpha = 1;
    sum.beta = 0;
    sum.saturated = NULL;
    if (!o->acc32 || offset)
        i8_output_wide(&plain, offset);
    else if (o->ao || o->bo)
        i8_output_compensated(&plain);
    else
        i8_output_sums(&plain);
}

static void i8_output_quantized(const i8_output_args *o)
{
    const i8_stage *s = o->epilogue->stage;
    if (s->requantization.scheme == I8_DOUBLING)
        i8_requantize_doubling(o);
    else if (s->requantization.scheme == I8_SINGLE)
        i8_requantize_single(o);
    else if (s->integral)
        i8_output_integers(o);
    else
        i8_run_stage(o);
}

static void i8_output_blas(const i8_output_args *o)
{
    static void (*const output[2][2][2])(const i8_output_args *) = {
        {{i8_output_scaled, i8_output_scaled_to_c}, {i8_output_scaled_compensated, i8_output_scaled_compensated_to_c}},
        {{i8_output_sums, i8_output_sums_to_c}, {i8_output_compensated, i8_output_compensated_to_c}},
    };
    const i8_epilogue *e = o->epilogue;
    const int reads = e->beta != 0, zeros = o->ao || o->bo, integral = i8_is_integral(e);
    if (!o->acc32 || (integral && reads && (e->co || e->co_rows || e->co_cols)))
        i8_output_wide(o, NULL);
    else
        output[integral][zeros][reads](o);
}

/* Store the tile to a C with contiguous rows. */
static void i8_output_rows(const i8_output_args *o)
{
    if (o->epilogue->kind >= I8_QUANTIZED)
        i8_output_quantized(o);
    else if (o->epilogue->type == I8_TYPE_S64)
        i8_output_s64(o);
    else if (o->epilogue->kind == I8_DISTANCES && o->acc32)
        i8_output_distances(o);
    else
        i8_output_blas(o);
}

/* Return whether the epilogue stores X in C unchanged. */
static int i8_is_identity(const i8_output_args *o)
{
    const i8_epilogue *e = o->epilogue;
    return e->kind == I8_BLAS && o->acc32 && e->alpha == 1 && e->beta == 0 && !e->co && !e->co_rows && !e->co_cols &&
           !o->ao && !o->bo;
}

/* Return whether the epilogue reads C. */
static int i8_reads_c(const i8_epilogue *e)
{
    if (e->kind < I8_QUANTIZED)
        return e->beta != 0;
    for (int k = 0; k < e->stage->op_count; ++k)
        if (e->stage->ops[k].kind == I8_SUM)
            return 1;
    return 0;
}

/* The number of rows of a part. A tile is computed part by part, and each part is then transposed. A part of 16 columns
 * takes up to 8 KiB of the L1 cache. */
enum { I8_TRANSPOSED_ROWS = 64 };
static void i8_output_transposed(const i8_output_args *o, int size)
{
    int64_t tile[I8_TRANSPOSED_ROWS * I8_CHUNK];
    char *rows = (char *)tile;
    const ptrdiff_t row = I8_CHUNK * size;
    const int reads = i8_reads_c(o->epilogue);
    for (int j = 0; j < o->cols; j += I8_CHUNK)
        for (int i = 0; i < o->rows; i += I8_TRANSPOSED_ROWS) {
            const int height = o->rows - i < I8_TRANSPOSED_ROWS ? o->rows - i : I8_TRANSPOSED_ROWS;
            const int width = o->cols - j < I8_CHUNK ? o->cols - j : I8_CHUNK;
            i8_output_args part;
            i8_set_part(&part, o, i, j, height, width);
            char *c = part.c;
            if (reads)
                i8_copy_elements(rows, row, size, c, o->c_row, o->c_col, height, width, size);
            part.c = rows, part.c_row = row, part.c_col = size;
            i8_output_rows(&part);
            i8_transpose_store(c, o->c_row, o->c_col, rows, row, height, width, size);
        }
}

/* Tiles with fewer than I8_FLAT_COLUMNS columns are flattened. Longer rows fill their chunks well. */
enum { I8_FLAT_COLUMNS = 32, I8_FLAT_ROW = (I8_FLAT_COLUMNS - 1) * I8_CHUNK, I8_FLAT_SUMS = 4 * I8_FLAT_ROW };

/* Return the smallest number of rows of `cols` columns whose elements fill whole chunks. */
I8_INLINE int i8_flat_rows(int cols)
{
    return I8_CHUNK / (cols % 8 == 0 ? 8 : cols % 4 == 0 ? 4 : cols % 2 == 0 ? 2 : 1);
}

/* Return whether a tile of a primitive is computed faster as one row of chunks. One row of chunks is faster if C has no
 * gaps, all terms depend only on the column, and the tile has enough rows. On Zen 4, a row that is computed separately
 * takes 5 ns. One row of chunks takes about 120 ns, plus 30 ns for each chunk of repeated column terms. */
I8_INLINE int i8_is_flat(const i8_output_args *o, int size)
{
    const i8_epilogue *e = o->epilogue;
    if (e->kind != I8_QUANTIZED || o->cols >= I8_FLAT_COLUMNS || o->cols % I8_CHUNK == 0 ||
        o->rows < 24 + 6 * (i8_flat_rows(o->cols) * o->cols / I8_CHUNK) ||
        o->c_row != o->cols * size || !o->acc32 || (o->acc_row != o->cols && o->cols > I8_CHUNK) || o->ao || o->bo ||
        o->row_scale || e->co_rows)
        return 0;
    for (int k = 0; k < e->stage->op_count; ++k)
        if (e->stage->ops[k].operand)
            return 0;
    return 1;
}

/* Fill `to` with `count` values that repeat the values of the columns of one row. `to` has room for one more chunk. */
I8_INLINE const void *i8_repeat_values(uint32_t *to, const void *values, int64_t column, int cols, int count)
{
    if (!values)
        return NULL;
    memcpy(to, (const uint32_t *)values + column, (size_t)cols * sizeof *to);
    for (int n = cols; n < count; n += n)
        memcpy(to + n, to, (size_t)(2 * n < count ? n : count - n) * sizeof *to);
    memset(to + count, 0, I8_CHUNK * sizeof *to);
    return to;
}

/* Compute a tile of a few columns as rows of whole chunks. Each row of chunks consists of several rows of the tile, so
 * the values of the columns are repeated. The last row of chunks may have fewer rows of the tile. */
I8_NOINLINE void i8_output_flat(const i8_output_args *o, int size)
{
    const int cols = o->cols, together = i8_flat_rows(cols), row = together * cols;
    const int most = o->acc_row == cols ? o->rows : I8_FLAT_SUMS / row * together;
    uint32_t values[11][I8_FLAT_ROW + I8_CHUNK];
    int32_t sums[I8_FLAT_SUMS + I8_CHUNK];
    i8_output_args flat = *o;
    i8_epilogue e = *o->epilogue;
    i8_stage s = *e.stage;
    i8_column_values *const floats[] = {&s.scale, &s.bias, &s.dst_scale, &s.dst_zero};
    i8_requantization *q = &s.requantization;
    const int32_t **const integers[] = {&e.co_cols, &s.offset, &q->multiplier, &q->exponent, &q->zero_point, &q->low,
                                        &q->high};
    for (int i = 0; i < 4; ++i)
        if (floats[i]->step)
            floats[i]->values = i8_repeat_values(values[i], floats[i]->values, o->column, cols, row);
    for (int i = 0; i < (q->scheme == I8_FLOAT ? 2 : 7); ++i)
        *integers[i] = i8_repeat_values(values[4 + i], *integers[i], o->column, cols, row);
    flat.epilogue = &e, e.stage = &s, flat.column = 0;
    flat.c_row = (ptrdiff_t)row * size, flat.acc_row = row;
    for (int i = 0; i < o->rows; i += most) {
        const int rows = o->rows - i < most ? o->rows - i : most, whole = rows / together;
        flat.acc32 = o->acc32 + i * o->acc_row, flat.c = o->c + i * o->c_row;
        if (o->acc_row != cols) {
            for (int r = 0; cols <= 4 && r < rows; ++r)
                memcpy(sums + r * cols, flat.acc32 + r * o->acc_row, 4 * sizeof *sums);
            for (int r = 0; cols > 4 && r < rows; ++r)
                memcpy(sums + r * cols, flat.acc32 + r * o->acc_row, I8_CHUNK * sizeof *sums);
            flat.acc32 = sums;
        }
        flat.rows = whole, flat.cols = row;
        if (whole)
            i8_output_quantized(&flat);
        flat.acc32 += whole * row, flat.c += whole * flat.c_row;
        flat.rows = 1, flat.cols = rows % together * cols;
        if (flat.cols)
            i8_output_quantized(&flat);
    }
}

static void i8_output(const i8_output_args *o)
{
    const int size = (int)i8_size(o->epilogue->type);
    if (i8_is_identity(o))
        i8_transpose_store(o->c, o->c_row, o->c_col, (const char *)o->acc32, o->acc_row * size, o->rows, o->cols, size);
    else if (o->c_col == size && i8_is_flat(o, size))
        i8_output_flat(o, size);
    else if (o->c_col == size)
        i8_output_rows(o);
    else
        i8_output_transposed(o, size);
}
