/* The epilogue of the quantized primitives: compute the destination from a tile of s32 sums in one pass, while the sums
 * are in the L1 cache. stage.h has formula and arguments (i8_stage). Loops have 16 iterations, one for each column of a
 * chunk, and the compiler turns them into whole vectors. Operations are f32, in the order of the formulas. Each
 * operation is rounded once.
 *
 * A whole chunk of sums, and of values for columns, is readable. Values beyond the last column do not change stored
 * results. */
#include "stage/chunks_body.h"
#include "stage/post_ops_body.h"

/* Return the offset that is added to X in row i of a tile, without the offsets of columns. */
I8_INLINE int32_t i8_row_offset(const i8_output_args *o, int i)
{
    const i8_epilogue *e = o->epilogue;
    return e->co_rows ? e->co_rows[o->row + i] : e->co;
}

/* Return the offsets of the tile's columns from column j on, or NULL. */
I8_INLINE const int32_t *i8_column_offsets(const i8_output_args *o, int j)
{
    return o->epilogue->co_cols ? o->epilogue->co_cols + o->column + j : NULL;
}

/* Compute x = X + co of one row, from column j on, for 32-bit sums. Arithmetic modulo 2**32 is exact, because the
 * result fits s32. */
I8_INLINE void i8_sums_32(const i8_output_args *o, int i, int j, uint32_t *x)
{
    const int32_t *acc = o->acc32 + i * o->acc_row + j, *co_cols = i8_column_offsets(o, j);
    const uint32_t co = (uint32_t)i8_row_offset(o, i);
    I8_EACH x[v] = (uint32_t)acc[v] + co;
    if (o->ao)
        I8_EACH x[v] -= (uint32_t)o->ao[i] * (uint32_t)o->col_sum[j + v];
    if (o->bo)
        I8_EACH x[v] -= (uint32_t)o->bo[j + v] * (uint32_t)o->row_term[i];
    if (co_cols)
        I8_EACH x[v] += (uint32_t)co_cols[v];
}

/* Return X in s64. */
I8_INLINE int64_t i8_wide_sum(const i8_output_args *o, int i, int j)
{
    const ptrdiff_t at = i * o->acc_row + j;
    int64_t x = o->acc32 ? o->acc32[at] : o->acc64[at];
    x -= o->ao ? o->ao[i] * o->col_sum[j] : 0;
    x -= o->bo ? o->bo[j] * o->row_term[i] : 0;
    return o->acc32 ? (int32_t)(uint32_t)x : x;
}

/* Return X + co in s64. */
I8_INLINE int64_t i8_sum_64(const i8_output_args *o, int i, int j)
{
    const int32_t *co_cols = i8_column_offsets(o, j);
    return i8_wide_sum(o, i, j) + i8_row_offset(o, i) + (co_cols ? *co_cols : 0);
}

/* Compute X + co of one row, from column j on, as f32. */
I8_NOINLINE void i8_compensated_sums(const i8_output_args *o, int i, int j, float *y)
{
    if (o->acc32) {
        uint32_t x[I8_CHUNK];
        i8_sums_32(o, i, j, x);
        I8_EACH y[v] = (float)(int32_t)x[v];
    } else if (o->acc64) {
        for (int v = 0; v < I8_CHUNK; ++v)
            y[v] = (float)i8_sum_64(o, i, j + v);
    } else {
        memcpy(y, o->acc_f32 + i * o->acc_row + j, I8_CHUNK * sizeof(float));
    }
}

/* Load `count` elements of type `type` as f32, at most one chunk, and set the rest of the chunk to 0. The elements are
 * `step` bytes apart, and may be unaligned. */
I8_NOINLINE void i8_load_chunk(float *y, int type, const char *c, ptrdiff_t step, int count)
{
    memset(y, 0, I8_CHUNK * sizeof(*y));
    for (int v = 0; v < count; ++v, c += step) {
        uint16_t half;
        int32_t integer;
        switch (type) {
        case I8_TYPE_U8: y[v] = (float)*(const uint8_t *)c; break;
        case I8_TYPE_S8: y[v] = (float)*(const int8_t *)c; break;
        case I8_TYPE_S32: memcpy(&integer, c, 4), y[v] = (float)integer; break;
        case I8_TYPE_F16: memcpy(&half, c, 2), y[v] = i8_from_half(half); break;
        case I8_TYPE_BF16: memcpy(&half, c, 2), y[v] = i8_from_bfloat(half); break;
        default: memcpy(&y[v], c, 4);
        }
    }
}

/* The values of the epilogue for a chunk of columns. */
typedef struct {
    i8_floats scale, bias, dst_scale, rounder, dst_zero;
    int rounds;                 /* whether the rounder is not -0.0 */
    const int32_t *col_sums;    /* not NULL if only row_factors[i] * col_sums[j] is subtracted from sums */
    const int64_t *row_factors; /* a factor for each row */
    const int32_t *subtracted;  /* not NULL if only subtracted[j] is subtracted from sums */
    int compensated;            /* whether i8_compensated_sums computes the sums, with all other terms */
} i8_stage_chunk;

/* Add the rounder and the zero point to y. A predictable branch is faster than adding -0.0. */
I8_INLINE i8_floats i8_stage_shifted(i8_floats y, const i8_stage_chunk *t)
{
    return i8_floats_add(t->rounds ? i8_floats_add(y, t->rounder) : y, t->dst_zero);
}

/* Compute all rows of a chunk of columns, for an epilogue without post-ops and without terms that are subtracted from
 * the sums: scale, add the bias, clip at 0, scale again, add the zero point. The sums of the first row are at acc. */
I8_INLINE void i8_stage_rows(const i8_output_args *o, char *c, const int32_t *acc, const i8_stage_chunk *t,
                             const int relu, const int by_row, const int type, const int count)
{
    const i8_floats scale = t->scale, bias = t->bias, dst_scale = t->dst_scale;
    const float *row_scale = by_row ? o->row_scale : NULL;
    const ptrdiff_t c_row = o->c_row, acc_row = o->acc_row;
    const int rows = o->rows, rescales = o->epilogue->stage->rescales || count < I8_CHUNK;
    for (int i = 0; i < rows; ++i, c += c_row, acc += acc_row) {
        i8_floats x = i8_floats_from(acc);
        x = i8_floats_mul(x, by_row ? i8_floats_mul(i8_floats_set(row_scale[i]), scale) : scale);
        x = i8_floats_add(x, bias);
        if (relu)
            x = i8_floats_relu(x);
        if (type <= I8_TYPE_S8 || rescales)
            x = i8_stage_shifted(i8_floats_mul(x, dst_scale), t);
        i8_store_chunk(x, type, c, count);
    }
}

/* Load some rows of an operand's chunk as f32, and zeros beyond `count`. Elements are `step` bytes apart. */
#define I8_LOAD_ROWS(type)                                                                                             \
    for (int i = 0; i < rows; ++i)                                                                                     \
    i8_floats_store(z + i * I8_CHUNK, i8_chunk_of(from + i * row, type))
static void i8_load_rows(float *z, int type, const char *from, ptrdiff_t row, ptrdiff_t step, int rows, int count)
{
    if (step == 0 && type == I8_TYPE_F32)
        for (int i = 0; i < rows; ++i)
            i8_floats_store(z + i * I8_CHUNK, i8_floats_set(*(const float *)(const void *)(from + i * row)));
    else if (count < I8_CHUNK || step != i8_size(type))
        for (int i = 0; i < rows; ++i)
            i8_load_chunk(z + i * I8_CHUNK, type, from + i * row, step, count);
    else if (type == I8_TYPE_U8)
        I8_LOAD_ROWS(I8_TYPE_U8);
    else if (type == I8_TYPE_S8)
        I8_LOAD_ROWS(I8_TYPE_S8);
    else if (type == I8_TYPE_F32)
        I8_LOAD_ROWS(I8_TYPE_F32);
    else
        I8_LOAD_ROWS(type);
}
#undef I8_LOAD_ROWS

/* Apply the post-ops to a chunk of columns of some rows. The chunk begins at C[row, column], whose address is c. */
enum { I8_STAGE_ROWS = 32 };
static void i8_post_ops(const i8_stage *s, float *y, int rows, int64_t row, int64_t column, int count, const char *c,
                        ptrdiff_t c_row)
{
    float z[I8_STAGE_ROWS * I8_CHUNK];
    for (int k = 0; k < s->op_count; ++k) {
        const i8_post_op *op = &s->ops[k];
        const ptrdiff_t size = sizeof(float);
        if (op->kind == I8_SUM)
            i8_load_rows(z, op->type, c, c_row, i8_size(op->type), rows, count);
        else if (op->operand)
            i8_load_rows(z, I8_TYPE_F32, (const char *)(op->operand + row * op->operand_row + column * op->operand_col),
                         op->operand_row * size, op->operand_col * size, rows, count);
        i8_apply(op, y, y, z, I8_CHUNK, rows * I8_CHUNK);
    }
}

/* Return row i of a chunk, from column j on, before the post-ops. */
I8_INLINE i8_floats i8_stage_values(const i8_output_args *o, const i8_stage_chunk *t, int i, int j, const int by_row)
{
    float y[I8_CHUNK];
    i8_floats x;
    if (t->compensated) {
        i8_compensated_sums(o, i, j, y);
        x = i8_floats_load(y);
    } else if (t->col_sums) {
        x = i8_floats_from_less(o->acc32 + i * o->acc_row + j, (int32_t)t->row_factors[i], t->col_sums);
    } else if (t->subtracted) {
        x = i8_floats_from_difference(o->acc32 + i * o->acc_row + j, t->subtracted);
    } else {
        x = i8_floats_from(o->acc32 + i * o->acc_row + j);
    }
    const i8_stage *s = o->epilogue->stage;
    if (s->bias_first)
        x = i8_floats_add(x, t->bias);
    x = i8_floats_mul(x, by_row ? i8_floats_mul(i8_floats_set(o->row_scale[i]), t->scale) : t->scale);
    if (!s->bias_first)
        x = i8_floats_add(x, t->bias);
    return s->relu ? i8_floats_relu(x) : x;
}

/* Store results after the post-ops. f32 is stored unchanged unless the epilogue rescales it. */
I8_INLINE void i8_stage_store(i8_floats x, const i8_stage_chunk *t, int ordered, int type, int rescales, char *c,
                              int count)
{
    if (type == I8_TYPE_F32 && !rescales) {
        i8_store_chunk(x, type, c, count);
        return;
    }
    x = i8_floats_mul(x, t->dst_scale);
    if (!ordered)
        x = i8_floats_ordered(x);
    i8_store_chunk(i8_stage_shifted(x, t), type, c, count);
}

/* Compute all rows of a chunk of columns. The constants has_ops, by_row and type select a variant: whether there are
 * post-ops, whether there are row scales, and the type of the destination. Without post-ops and row scales, and with
 * finite scales (s->finite), y is never NaN. */
I8_INLINE void i8_stage_columns(const i8_output_args *o, int j, const int has_ops, const int by_row, const int type)
{
    const i8_stage *s = o->epilogue->stage;
    const int32_t *co_cols = i8_column_offsets(o, j);
    const int has_row_offsets = o->epilogue->co || o->epilogue->co_rows;
    const int64_t column = o->column + j;
    const int count = o->cols - j < I8_CHUNK ? o->cols - j : I8_CHUNK, rows = o->rows;
    /* by_term says whether bo * row_term is the only term. */
    const int by_term = o->bo && o->acc32 && !o->ao && !has_row_offsets && !co_cols;
    /* has_other_terms says whether the sum needs bo * row_term, row offsets, or an s64 sum. */
    const int has_other_terms = !by_term && (!o->acc32 || o->bo || has_row_offsets);
    const int ordered = type > I8_TYPE_S32 || (!has_ops && !by_row && s->finite);
    const ptrdiff_t c_row = o->c_row;
    char *c = o->c + j * i8_size(type);
    int32_t subtracted[I8_CHUNK];
    i8_stage_chunk t;
    t.col_sums = o->ao && s->col_sums && !has_other_terms && !co_cols ? s->col_sums + column : NULL;
    t.row_factors = o->ao;
    if (by_term) {
        I8_EACH subtracted[v] = (int32_t)(uint32_t)o->bo[j + v];
        t.col_sums = subtracted, t.row_factors = o->row_term;
    }
    t.subtracted = co_cols && !has_other_terms && !o->ao ? subtracted : NULL;
    t.compensated = has_other_terms || (o->ao && !t.col_sums);
    if (t.subtracted)
        I8_EACH subtracted[v] = (int32_t)(0 - (uint32_t)co_cols[v]);
    t.scale = i8_floats_load(s->scale.values + s->scale.step * column);
    t.bias = i8_floats_load(s->bias.values + s->bias.step * column);
    t.dst_scale = i8_floats_load(s->dst_scale.values + s->dst_scale.step * column);
    t.rounder = i8_floats_set(s->rounder);
    t.rounds = s->rounder > 0;
    t.dst_zero = i8_floats_load(s->dst_zero.values + s->dst_zero.step * column);

    /* The common case has no terms, and its loop has a dozen instructions. */
    if (!has_ops && ordered && !t.compensated && !t.col_sums && !t.subtracted && !s->bias_first) {
        if (count < I8_CHUNK)
            i8_stage_rows(o, c, o->acc32 + j, &t, s->relu, by_row, type, count);
        else if (s->relu)
            i8_stage_rows(o, c, o->acc32 + j, &t, 1, by_row, type, I8_CHUNK);
        else
            i8_stage_rows(o, c, o->acc32 + j, &t, 0, by_row, type, I8_CHUNK);
        return;
    }
    if (!has_ops) {
        for (int i = 0; i < rows; ++i)
            i8_stage_store(i8_stage_values(o, &t, i, j, by_row), &t, ordered, type, s->rescales, c + i * c_row, count);
        return;
    }
    for (int top = 0; top < rows; top += I8_STAGE_ROWS) {
        const int height = rows - top < I8_STAGE_ROWS ? rows - top : I8_STAGE_ROWS;
        float y[I8_STAGE_ROWS * I8_CHUNK];
        for (int i = 0; i < height; ++i)
            i8_floats_store(y + i * I8_CHUNK, i8_stage_values(o, &t, top + i, j, by_row));
        i8_post_ops(s, y, height, o->row + top, column, count, c + top * c_row, c_row);
        for (int i = 0; i < height; ++i)
            i8_stage_store(i8_floats_load(y + i * I8_CHUNK), &t, ordered, type, s->rescales,
                           c + (top + i) * c_row, count);
    }
}

#define I8_STAGE(name, has_ops, by_row, type)                                                                          \
    I8_NOINLINE void name(const i8_output_args *o)                                                                     \
    {                                                                                                                  \
        const int cols = o->cols;                                                                                      \
        for (int j = 0; j < cols; j += I8_CHUNK)                                                                       \
            i8_stage_columns(o, j, has_ops, by_row, type);                                                             \
    }
I8_STAGE(i8_stage_u8, 0, 0, I8_TYPE_U8)
I8_STAGE(i8_stage_s8, 0, 0, I8_TYPE_S8)
I8_STAGE(i8_stage_f32, 0, 0, I8_TYPE_F32)
I8_STAGE(i8_stage_f32_by_row, 0, 1, I8_TYPE_F32)
I8_STAGE(i8_stage_plain, 0, 0, o->epilogue->type)
I8_STAGE(i8_stage_plain_by_row, 0, 1, o->epilogue->type)
I8_STAGE(i8_stage_any_f32, 1, 0, I8_TYPE_F32)
I8_STAGE(i8_stage_any, 1, 0, o->epilogue->type)
I8_STAGE(i8_stage_any_by_row, 1, 1, o->epilogue->type)

static void i8_run_stage(const i8_output_args *o)
{
    const int type = o->epilogue->type, by_row = o->row_scale != NULL;
    if (o->epilogue->stage->op_count)
        by_row ? i8_stage_any_by_row(o) : type == I8_TYPE_F32 ? i8_stage_any_f32(o) : i8_stage_any(o);
    else if (type == I8_TYPE_F32)
        by_row ? i8_stage_f32_by_row(o) : i8_stage_f32(o);
    else if (by_row)
        i8_stage_plain_by_row(o);
    else if (type == I8_TYPE_U8)
        i8_stage_u8(o);
    else if (type == I8_TYPE_S8)
        i8_stage_s8(o);
    else
        i8_stage_plain(o);
}
