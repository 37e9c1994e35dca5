/* Products of wide elements that are too small, or too narrow, for packing. The functions read the operands in place.
 * The driver includes this header, so the code uses only instructions that all CPUs have. One multiplication in each
 * cycle is as fast as reading the operands from memory. */
#ifndef I8_DIRECT_H
#define I8_DIRECT_H

#include <string.h>

#include "core/compiler.h"
#include "gemm/wide.h"

/* An operand in memory. Steps are in bytes. */
typedef struct {
    const char *data;
    ptrdiff_t row, column;
} i8_direct_operand;

#define I8_DIRECT(name, type)                                                                                          \
    I8_INLINE uint64_t i8_direct_dot_##name(const char *a, ptrdiff_t a_step, const char *b, ptrdiff_t b_step,          \
                                            const int64_t k)                                                           \
    {                                                                                                                  \
        uint64_t sum = 0;                                                                                              \
        for (int64_t p = 0; p < k; ++p) {                                                                              \
            type x, y;                                                                                                 \
            memcpy(&x, a + p * a_step, sizeof x);                                                                      \
            memcpy(&y, b + p * b_step, sizeof y);                                                                      \
            sum += (uint64_t)(int64_t)x * (uint64_t)(int64_t)y;                                                        \
        }                                                                                                              \
        return sum;                                                                                                    \
    }                                                                                                                  \
    I8_INLINE void i8_direct_sized_##name(const i8_direct_operand *a, const i8_direct_operand *b, int64_t *c,          \
                                          ptrdiff_t c_row, const int64_t m, const int64_t n, const int64_t k)          \
    {                                                                                                                  \
        const ptrdiff_t size = sizeof(type);                                                                           \
        const int is_dense = a->column == size && b->row == size;                                                      \
        for (int64_t i = 0; i < m; ++i)                                                                                \
            for (int64_t j = 0; j < n; ++j) {                                                                          \
                const char *x = a->data + i * a->row, *y = b->data + j * b->column;                                    \
                c[i * c_row + j] = (int64_t)(is_dense ? i8_direct_dot_##name(x, size, y, size, k)                      \
                                                      : i8_direct_dot_##name(x, a->column, y, b->row, k));             \
            }                                                                                                          \
    }                                                                                                                  \
    static inline void i8_direct_##name(const i8_direct_operand *a, const i8_direct_operand *b, int64_t *c,            \
                                        ptrdiff_t c_row, int64_t m, int64_t n, int64_t k)                              \
    {                                                                                                                  \
        if (m == 2 && n == 2 && k == 2)                                                                                \
            i8_direct_sized_##name(a, b, c, c_row, 2, 2, 2);                                                           \
        else if (m == 3 && n == 3 && k == 3)                                                                           \
            i8_direct_sized_##name(a, b, c, c_row, 3, 3, 3);                                                           \
        else if (m == 4 && n == 4 && k == 4)                                                                           \
            i8_direct_sized_##name(a, b, c, c_row, 4, 4, 4);                                                           \
        else                                                                                                           \
            i8_direct_sized_##name(a, b, c, c_row, m, n, k);                                                           \
    }
I8_DIRECT(s16, int16_t)
I8_DIRECT(u16, uint16_t)
I8_DIRECT(s32, int32_t)
I8_DIRECT(u32, uint32_t)
I8_DIRECT(s64, int64_t)

/* Compute C[i, j] = sum over k of A[i, k] * B[k, j], modulo 2**64, for operands of one type wider than 8 bits. Rows of
 * C are contiguous, and c_row elements apart. */
static inline void i8_multiply_direct(int type, const i8_direct_operand *a, const i8_direct_operand *b, int64_t *c,
                                      ptrdiff_t c_row, int64_t m, int64_t n, int64_t k)
{
    switch (type) {
    case I8_INT_S16: i8_direct_s16(a, b, c, c_row, m, n, k); break;
    case I8_INT_U16: i8_direct_u16(a, b, c, c_row, m, n, k); break;
    case I8_INT_S32: i8_direct_s32(a, b, c, c_row, m, n, k); break;
    case I8_INT_U32: i8_direct_u32(a, b, c, c_row, m, n, k); break;
    default: i8_direct_s64(a, b, c, c_row, m, n, k);
    }
}

#endif
