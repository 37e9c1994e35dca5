/* The output stage, the only place where a tile becomes the user's C (micro-kernels store C themselves where the stage
 * would be the identity). Formula and arguments: i8_output_args in i8_types.h. Plain C in simple loops, which the
 * compiler vectorizes for the instruction set of the file that includes this one. */
#include "stage_body.h"
#include "source_body.h"
#include <math.h>

static inline int32_t i8_saturate(int64_t x)
{
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

/* x[j] = acc - ao * col_sum - bo * row_term, modulo 2**32 (which is exact, as the result is known to fit). */
I8_INLINE void i8_compensate32(const i8_output_args *o, int i, int32_t *x)
{
    const int32_t *acc = o->acc32 + i * o->acc_row;
    for (int j = 0; j < o->cols; ++j)
        x[j] = acc[j];
    if (o->ao) {
        const uint32_t ao = (uint32_t)o->ao[i];
        for (int j = 0; j < o->cols; ++j)
            x[j] = (int32_t)((uint32_t)x[j] - ao * (uint32_t)o->col_sum[j]);
    }
    if (o->bo) {
        const uint32_t row_term = (uint32_t)o->row_term[i];
        for (int j = 0; j < o->cols; ++j)
            x[j] = (int32_t)((uint32_t)x[j] - (uint32_t)o->bo[j] * row_term);
    }
}

/* The same in s64. */
I8_INLINE void i8_compensate64(const i8_output_args *o, int i, int64_t *x)
{
    const int64_t *acc = o->acc64 + i * o->acc_row;
    for (int j = 0; j < o->cols; ++j)
        x[j] = acc[j];
    if (o->ao)
        for (int j = 0; j < o->cols; ++j)
            x[j] -= o->ao[i] * o->col_sum[j];
    if (o->bo)
        for (int j = 0; j < o->cols; ++j)
            x[j] -= o->bo[j] * o->row_term[i];
}

/* out = sat(x + beta * c + co), beta 0 or 1. */
#define I8_FINISH_INTEGRAL(x)                                                                                          \
    do {                                                                                                               \
        for (int j = 0; j < o->cols; ++j) {                                                                            \
            int64_t y = (int64_t)(x)[j] + row_offset + (o->co_col ? o->co_col[j] : 0);                                 \
            if (o->beta != 0)                                                                                          \
                y += c[j];                                                                                             \
            c[j] = i8_saturate(y);                                                                                     \
        }                                                                                                              \
    } while (0)

/* out = sat(rne(alpha * x + beta * c + co)). The limits are exact in f64; adding 0.0 for an absent term changes no
 * result. */
#define I8_FINISH_REAL(x)                                                                                              \
    do {                                                                                                               \
        for (int j = 0; j < o->cols; ++j) {                                                                            \
            double y = o->alpha * (double)(x)[j];                                                                      \
            if (o->beta != 0)                                                                                          \
                y += o->beta * (double)c[j];                                                                           \
            y = rint(y + (o->co_col ? (double)o->co_col[j] : (double)row_offset));                                     \
            y = y < (double)INT32_MAX ? y : (double)INT32_MAX;                                                         \
            y = y > (double)INT32_MIN ? y : (double)INT32_MIN;                                                         \
            c[j] = (int32_t)y;                                                                                         \
        }                                                                                                              \
    } while (0)

static void i8_output(const i8_output_args *o)
{
    int32_t x32[I8_MAX_COLUMNS], strided[I8_MAX_COLUMNS];
    int64_t x64[I8_MAX_COLUMNS];

    if (o->stage) {
        i8_run_stage(o);
        return;
    }
    for (int i = 0; i < o->rows; ++i) {
        char *row = o->c + i * o->c_row;
        const int unit = o->c_col == (ptrdiff_t)sizeof(int32_t);
        int32_t *c = unit ? (int32_t *)(void *)row : strided;
        const int64_t row_offset = o->co_row ? o->co_row[i] : 0;

        if (!unit && o->beta != 0)
            for (int j = 0; j < o->cols; ++j)
                c[j] = *(const int32_t *)(void *)(row + j * o->c_col);
        if (o->acc32) {
            i8_compensate32(o, i, x32);
            if (o->integral)
                I8_FINISH_INTEGRAL(x32);
            else
                I8_FINISH_REAL(x32);
        } else {
            i8_compensate64(o, i, x64);
            if (o->integral)
                I8_FINISH_INTEGRAL(x64);
            else
                I8_FINISH_REAL(x64);
        }
        if (!unit)
            for (int j = 0; j < o->cols; ++j)
                *(int32_t *)(void *)(row + j * o->c_col) = c[j];
    }
}
