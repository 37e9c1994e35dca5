/* Products of wide elements in portable C, the reference. */
#include "gemm/wide_body.h"

#include "isa/names.h"

enum { I8_WIDE_ROWS = 4, I8_WIDE_COLUMNS = 8 };

/* Sums are u64, because overflow of signed integers is undefined. A group of B has `width` columns. */
#define I8_WIDE_REF(kind, sum, product, size, pair, width)                                                             \
    static void i8_wide_ref_##kind(const i8_wide_tile_args *t)                                                         \
    {                                                                                                                  \
        sum acc[I8_WIDE_ROWS][I8_WIDE_COLUMNS] = {{0}};                                                                \
        const size *a = (const size *)(const void *)t->a, *b = (const size *)(const void *)t->b;                       \
        for (int64_t g = 0; g < t->groups; ++g, a += (pair) * I8_WIDE_ROWS, b += (pair) * (width))                     \
            for (int i = 0; i < I8_WIDE_ROWS; ++i)                                                                     \
                for (int j = 0; j < I8_WIDE_COLUMNS; ++j)                                                              \
                    acc[i][j] += (sum)(product);                                                                       \
        for (int i = 0; i < t->rows; ++i) {                                                                            \
            sum *c = (sum *)t->c + i * t->c_row;                                                                       \
            for (int j = 0; j < t->cols; ++j)                                                                          \
                c[j] = (t->add ? c[j] : 0) + acc[i][j];                                                                \
        }                                                                                                              \
    }
I8_WIDE_REF(s16, uint64_t, (int64_t)a[2 * i] * b[2 * j] + (int64_t)a[2 * i + 1] * b[2 * j + 1], int16_t, 2, I8_PANEL)
I8_WIDE_REF(s64, uint64_t, (uint64_t)a[i] * (uint64_t)b[j], int64_t, 1, I8_WIDE_COLUMNS)
I8_WIDE_REF(f64, double, a[i] * b[j], double, 1, I8_WIDE_COLUMNS)

const i8_wide_kernels i8_wide_ref = {
    .kinds = {{I8_WIDE_ROWS, I8_WIDE_COLUMNS, i8_wide_ref_s16},
              {I8_WIDE_ROWS, I8_WIDE_COLUMNS, i8_wide_ref_s16},
              {I8_WIDE_ROWS, I8_WIDE_COLUMNS, i8_wide_ref_s64},
              {I8_WIDE_ROWS, I8_WIDE_COLUMNS, i8_wide_ref_s64},
              {I8_WIDE_ROWS, I8_WIDE_COLUMNS, i8_wide_ref_f64}},
    I8_WIDE_LOOPS,
};
