/* Loops over elements of every integer type: packing, ranges, narrowing, and stores of sums. The compiler vectorizes
 * these loops for the target of the including file. */
#include <string.h>

#include "core/compiler.h"
#include "gemm/wide.h"

/* Call EACH(name, type, S or U) for every type in memory, in the order of I8_INT_S8 and the types after it. */
#define I8_INT_LIST(EACH)                                                                                              \
    EACH(s8, int8_t, S) EACH(u8, uint8_t, U) EACH(s16, int16_t, S) EACH(u16, uint16_t, U)                              \
    EACH(s32, int32_t, S) EACH(u32, uint32_t, U) EACH(s64, int64_t, S) EACH(u64, uint64_t, U)
#define I8_INT_ROW(f) {f(s8), f(u8), f(s16), f(u16), f(s32), f(u32), f(s64), f(u64)}

/* Pack elements as type `to`, with `group` consecutive k side by side. The inner loop runs along contiguous elements of
 * the source. */
#define I8_WIDE_PACK(kind, to, group, name, from)                                                                      \
    static void i8_wide_pack_##kind##_##name(char *dst_, int lines, int width, int64_t k, const char *src,             \
                                             ptrdiff_t line, ptrdiff_t step)                                           \
    {                                                                                                                  \
        to *dst = (to *)(void *)dst_;                                                                                  \
        from x;                                                                                                        \
        const int64_t groups = (k + (group) - 1) / (group);                                                            \
        if (lines < width || k % (group))                                                                              \
            memset(dst, 0, sizeof(to) * (size_t)(groups * (group) * width));                                           \
        if (line == (ptrdiff_t)sizeof x) {                                                                             \
            for (int64_t p = 0; p < k; ++p, src += step) {                                                             \
                to *d = dst + p / (group) * (group) * width + p % (group);                                             \
                for (int i = 0; i < lines; ++i) {                                                                      \
                    memcpy(&x, src + i * (ptrdiff_t)sizeof x, sizeof x);                                               \
                    d[i * (group)] = (to)x;                                                                            \
                }                                                                                                      \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int i = 0; i < lines; ++i, src += line)                                                                   \
            for (int64_t p = 0; p < k; ++p) {                                                                          \
                memcpy(&x, src + p * step, sizeof x);                                                                  \
                dst[(p / (group) * width + i) * (group) + p % (group)] = (to)x;                                        \
            }                                                                                                          \
    }
#define I8_WIDE_PACK_S16(name, from, sign) I8_WIDE_PACK(s16, int16_t, 2, name, from)
#define I8_WIDE_PACK_S64(name, from, sign) I8_WIDE_PACK(s64, int64_t, 1, name, from)
#define I8_WIDE_PACK_F64(name, from, sign) I8_WIDE_PACK(f64, double, 1, name, from)
I8_INT_LIST(I8_WIDE_PACK_S16)
I8_INT_LIST(I8_WIDE_PACK_S64)
I8_INT_LIST(I8_WIDE_PACK_F64)

/* Run a loop over elements. If the elements are contiguous, the step is a constant, so that the compiler vectorizes the
 * loop. */
#define I8_WIDE_EACH(type, step, body)                                                                                 \
    if ((step) == (ptrdiff_t)sizeof(type)) {                                                                           \
        const ptrdiff_t at = sizeof(type);                                                                             \
        for (int64_t i = 0; i < n; ++i) {                                                                              \
            body                                                                                                       \
        }                                                                                                              \
    } else {                                                                                                           \
        const ptrdiff_t at = (step);                                                                                   \
        for (int64_t i = 0; i < n; ++i) {                                                                              \
            body                                                                                                       \
        }                                                                                                              \
    }

/* Find the bits of elements in the type of the elements, so that a vector has as many lanes as possible. */
#define I8_INT_BITS_OF_S(type, x) (type)((x) ^ ((x) < 0 ? (type)-1 : (type)0))
#define I8_INT_BITS_OF_U(type, x) (x)
#define I8_INT_SIGN_S(x) (uint64_t)(int64_t)(x)
#define I8_INT_SIGN_U(x) ((x) & 0)
#define I8_INT_BITS(name, type, is)                                                                                    \
    static void i8_int_bits_##name(i8_int_bits *bits, const char *src, ptrdiff_t step, int64_t n)                      \
    {                                                                                                                  \
        type magnitude = 0, sign = 0;                                                                                  \
        I8_WIDE_EACH(type, step, {                                                                                     \
            type x;                                                                                                    \
            memcpy(&x, src + i * at, sizeof x);                                                                        \
            magnitude |= I8_INT_BITS_OF_##is(type, x);                                                                 \
            sign |= x;                                                                                                 \
        })                                                                                                             \
        bits->magnitude |= (uint64_t)magnitude;                                                                        \
        bits->sign |= I8_INT_SIGN_##is(sign);                                                                          \
    }                                                                                                                  \
    static void i8_int_narrow_##name(uint8_t *dst, i8_int_bits *bits, const char *src, ptrdiff_t step, int64_t n)      \
    {                                                                                                                  \
        type magnitude = 0, sign = 0;                                                                                  \
        I8_WIDE_EACH(type, step, {                                                                                     \
            type x;                                                                                                    \
            memcpy(&x, src + i * at, sizeof x);                                                                        \
            magnitude |= I8_INT_BITS_OF_##is(type, x);                                                                 \
            sign |= x;                                                                                                 \
            dst[i] = (uint8_t)x;                                                                                       \
        })                                                                                                             \
        bits->magnitude |= (uint64_t)magnitude;                                                                        \
        bits->sign |= I8_INT_SIGN_##is(sign);                                                                          \
    }                                                                                                                  \
    static void i8_int_wrap_##name(char *dst, ptrdiff_t step, const int64_t *sums, int64_t n)                          \
    {                                                                                                                  \
        I8_WIDE_EACH(type, step, {                                                                                     \
            const type x = (type)sums[i];                                                                              \
            memcpy(dst + i * at, &x, sizeof x);                                                                        \
        })                                                                                                             \
    }
I8_INT_LIST(I8_INT_BITS)

#define I8_INT_SATURATE(name, type, low, high)                                                                         \
    static int i8_int_saturate_##name(char *dst, ptrdiff_t step, const int64_t *sums, int64_t n)                       \
    {                                                                                                                  \
        int64_t beyond = 0;                                                                                            \
        I8_WIDE_EACH(type, step, {                                                                                     \
            const int64_t y = sums[i] < (low) ? (low) : sums[i] > (high) ? (high) : sums[i];                           \
            const type x = (type)y;                                                                                    \
            beyond |= y ^ sums[i];                                                                                     \
            memcpy(dst + i * at, &x, sizeof x);                                                                        \
        })                                                                                                             \
        return beyond != 0;                                                                                            \
    }
I8_INT_SATURATE(s8, int8_t, INT8_MIN, INT8_MAX)
I8_INT_SATURATE(u8, uint8_t, 0, UINT8_MAX)
I8_INT_SATURATE(s16, int16_t, INT16_MIN, INT16_MAX)
I8_INT_SATURATE(u16, uint16_t, 0, UINT16_MAX)
I8_INT_SATURATE(s32, int32_t, INT32_MIN, INT32_MAX)
I8_INT_SATURATE(u32, uint32_t, 0, (int64_t)UINT32_MAX)
I8_INT_SATURATE(s64, int64_t, INT64_MIN, INT64_MAX)
I8_INT_SATURATE(u64, uint64_t, 0, INT64_MAX)

/* Return x minus p times the integer part of near * reciprocal in f64. `near` approximates x, `reciprocal` 1 / p. */
I8_INLINE int64_t i8_without_multiple(int64_t x, double near, int64_t p, double reciprocal)
{
    return (int64_t)((uint64_t)x - (uint64_t)(int64_t)(near * reciprocal) * (uint64_t)p);
}

/* The error of the first quotient is less than 2**12, plus 2**60 / p with `near`. The second division divides the
 * remainder. The error of the second quotient is at most 1, so the final remainder is in [-p, p]. */
static void i8_residues(int64_t *x, const double *near, int64_t n, int64_t p, int64_t low, int64_t add)
{
    const double reciprocal = 1.0 / (double)p;
    for (int64_t i = 0; i < n; ++i) {
        int64_t r = i8_without_multiple(x[i], near ? near[i] : (double)x[i], p, reciprocal) + add;
        r = i8_without_multiple(r, (double)r, p, reciprocal);
        r += r < low ? p : 0;
        x[i] = r - (r >= low + p ? p : 0);
    }
}

#define I8_WIDE_PACK_S16_OF(name) i8_wide_pack_s16_##name
#define I8_WIDE_PACK_S64_OF(name) i8_wide_pack_s64_##name
#define I8_WIDE_PACK_F64_OF(name) i8_wide_pack_f64_##name
#define I8_INT_BITS_FN(name) i8_int_bits_##name
#define I8_INT_NARROW_FN(name) i8_int_narrow_##name
#define I8_INT_WRAP_FN(name) i8_int_wrap_##name
#define I8_INT_SATURATE_FN(name) i8_int_saturate_##name
#define I8_WIDE_LOOPS                                                                                                  \
    .pack = {I8_INT_ROW(I8_WIDE_PACK_S16_OF), I8_INT_ROW(I8_WIDE_PACK_S16_OF), I8_INT_ROW(I8_WIDE_PACK_S64_OF),        \
             I8_INT_ROW(I8_WIDE_PACK_S64_OF), I8_INT_ROW(I8_WIDE_PACK_F64_OF)},                                        \
    .bits = I8_INT_ROW(I8_INT_BITS_FN), .narrow = I8_INT_ROW(I8_INT_NARROW_FN), .wrap = I8_INT_ROW(I8_INT_WRAP_FN),    \
    .saturate = I8_INT_ROW(I8_INT_SATURATE_FN), .residues = i8_residues
