/* The output stage, the only place where a tile becomes the user's C (micro-kernels store C themselves where the stage
 * would be the identity). Formula and arguments: i8_output_args in i8_types.h. Plain C in simple loops, which the
 * compiler vectorizes for the instruction set of the file that includes this one. */
#include "stage_body.h"
#include "source_body.h"
#include "turn_body.h"
#include <math.h>

static inline int32_t i8_saturate(int64_t x)
{
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

I8_INLINE int32_t i8_add_saturated(int32_t x, int32_t y)
{
    const int32_t sum = (int32_t)((uint32_t)x + (uint32_t)y);
    return ((x ^ sum) & (y ^ sum)) >= 0 ? sum : x < 0 ? INT32_MIN : INT32_MAX;
}

/* x[v] = acc - ao * col_sum - bo * row_term in column j + v: modulo 2**32, which is exact, as the result is known to
 * fit, or in s64. */
I8_INLINE void i8_compensate32(const i8_output_args *o, int i, int j, int32_t *x, const int n)
{
    const int32_t *acc = o->acc32 + i * o->acc_row + j;
    for (int v = 0; v < n; ++v)
        x[v] = acc[v];
    if (o->ao)
        for (int v = 0; v < n; ++v)
            x[v] = (int32_t)((uint32_t)x[v] - (uint32_t)o->ao[i] * (uint32_t)o->col_sum[j + v]);
    if (o->bo)
        for (int v = 0; v < n; ++v)
            x[v] = (int32_t)((uint32_t)x[v] - (uint32_t)o->bo[j + v] * (uint32_t)o->row_term[i]);
}

I8_INLINE void i8_compensate64(const i8_output_args *o, int i, int j, int64_t *x, const int n)
{
    for (int v = 0; v < n; ++v)
        x[v] = o->acc64[i * o->acc_row + j + v];
    if (o->ao)
        for (int v = 0; v < n; ++v)
            x[v] -= o->ao[i] * o->col_sum[j + v];
    if (o->bo)
        for (int v = 0; v < n; ++v)
            x[v] -= o->bo[j + v] * o->row_term[i];
}

/* n columns of a row of C. */
I8_INLINE void i8_output_chunk(const i8_output_args *o, int i, int j, int32_t *c, const int n)
{
    const int32_t row_offset = o->co_row ? o->co_row[i] : 0, *co = o->co_col ? o->co_col + j : NULL;
    const int one_sum = o->beta == 0 || (!o->co_row && !co); /* beyond X, in integers */
    int32_t x32[I8_CHUNK];
    int64_t x64[I8_CHUNK];

    if (o->acc32)
        i8_compensate32(o, i, j, x32, n);
    if (o->acc32 && o->integral && one_sum) {
        for (int v = 0; v < n; ++v)
            c[v] = i8_add_saturated(x32[v], o->beta != 0 ? c[v] : co ? co[v] : row_offset);
        return;
    }
    if (!o->acc32)
        i8_compensate64(o, i, j, x64, n);
    if (o->integral) {
        for (int v = 0; v < n; ++v)
            c[v] = i8_saturate((o->acc32 ? x32[v] : x64[v]) + (co ? co[v] : row_offset) +
                               (int64_t)(o->beta != 0 ? c[v] : 0));
        return;
    }
    /* The limits are exact in f64; adding 0.0 for an absent term changes no result. */
    for (int v = 0; v < n; ++v) {
        double y = o->alpha * (o->acc32 ? (double)x32[v] : (double)x64[v]);
        if (o->beta != 0)
            y += o->beta * (double)c[v];
        y = rint(y + (double)(co ? co[v] : row_offset));
        y = y < (double)INT32_MAX ? y : (double)INT32_MAX;
        c[v] = (int32_t)(y > (double)INT32_MIN ? y : (double)INT32_MIN);
    }
}

/* The tile, to a C with contiguous rows. */
static void i8_output_rows(const i8_output_args *o)
{
    if (o->stage) {
        i8_run_stage(o);
        return;
    }
    for (int i = 0; i < o->rows; ++i) {
        int32_t *c = (int32_t *)(void *)(o->c + i * o->c_row);
        int j = 0;
        for (; j + I8_CHUNK <= o->cols; j += I8_CHUNK)
            i8_output_chunk(o, i, j, c + j, I8_CHUNK);
        if (j < o->cols)
            i8_output_chunk(o, i, j, c + j, o->cols - j);
    }
}

/* Whether C is X. */
static int i8_is_identity(const i8_output_args *o)
{
    return !o->stage && o->acc32 && o->integral && o->beta == 0 && !o->ao && !o->bo && !o->co_row && !o->co_col;
}

/* Whether the output stage reads C. */
static int i8_reads_c(const i8_output_args *o)
{
    for (int k = 0; o->stage && k < o->stage->op_count; ++k)
        if (o->stage->ops[k].kind == I8_SUM)
            return 1;
    return !o->stage && o->beta != 0;
}

/* The tile in parts that are computed as rows, then turned. */
enum { I8_TURNED_ROWS = 64 };
static void i8_output_turned(const i8_output_args *o, int size)
{
    int32_t tile[I8_TURNED_ROWS * I8_CHUNK];
    char *rows = (char *)tile;
    const ptrdiff_t row = I8_CHUNK * size;
    const int reads = i8_reads_c(o);
    for (int j = 0; j < o->cols; j += I8_CHUNK)
        for (int i = 0; i < o->rows; i += I8_TURNED_ROWS) {
            const int height = o->rows - i < I8_TURNED_ROWS ? o->rows - i : I8_TURNED_ROWS;
            const int width = o->cols - j < I8_CHUNK ? o->cols - j : I8_CHUNK;
            i8_output_args part = i8_part_of(o, i, j, height, width);
            char *c = part.c;
            if (reads)
                i8_copy_elements(rows, row, size, c, o->c_row, o->c_col, height, width, size);
            part.c = rows, part.c_row = row, part.c_col = size;
            i8_output_rows(&part);
            i8_turn(c, o->c_row, o->c_col, rows, row, height, width, size);
        }
}

static void i8_output(const i8_output_args *o)
{
    const int size = o->stage ? i8_size(o->stage->type) : (int)sizeof(int32_t);
    if (i8_is_identity(o))
        i8_turn(o->c, o->c_row, o->c_col, (const char *)o->acc32, o->acc_row * size, o->rows, o->cols, size);
    else if (o->c_col == size)
        i8_output_rows(o);
    else
        i8_output_turned(o, size);
}
