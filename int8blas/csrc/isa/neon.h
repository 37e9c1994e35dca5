/* Armv8.0, in Cortex-A53, A57, A72 and A73, Graviton 1, Raspberry Pi 3 and 4.
 *
 *   SMULL, SMULL2, SMLAL2 .8h   8 products of s8, or of u8, in 16 bits; latency 4; one a cycle (A72, port F0)
 *   SADALP .4s                  adds sums of two s16 to s32; latency 4, 1 from sum to sum; one a cycle (A72, port F1)
 *   MUL .8h                     the low 16 bits of 8 products; one every cycle or two.
 *
 * The sum of two products of s8 fits s16 unless all four factors are -128. The tiles therefore multiply s8 by s8, and
 * read A' - 128. A group of four k has two lanes of sums for each column, which the tiles add at the end.
 */
#ifdef I8_AARCH64
#include "isa/vectors_neon.h"

/* Add the sums of four products of bytes to every lane, for two s8 or two u8 operands. */
#define I8_HALF_DOT_SIGNED(acc, x, y)                                                                                  \
    vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(i8_low_products(x, y)), vpaddlq_s16(i8_high_products(x, y))))
#define I8_HALF_DOT_UNSIGNED(acc, x, y)                                                                                \
    (int32x4_t)vaddq_u32(I8_U32(acc), vpaddq_u32(vpaddlq_u16(vmull_u8(vget_low_u8(x), vget_low_u8(y))),                \
                                                 vpaddlq_u16(vmull_high_u8(x, y))))
I8_INLINE int16x8_t i8_low_products(int8x16_t x, int8x16_t y) { return vmull_s8(vget_low_s8(x), vget_low_s8(y)); }
I8_INLINE int16x8_t i8_high_products(int8x16_t x, int8x16_t y) { return vmull_high_s8(x, y); }
I8_INLINE i8_vec i8_dot_signed(i8_vec acc, i8_vec x, i8_vec y)
{
    return I8_VEC(I8_HALF_DOT_SIGNED(acc.low, I8_S8(x.low), I8_S8(y.low)),
                  I8_HALF_DOT_SIGNED(acc.high, I8_S8(x.high), I8_S8(y.high)));
}
I8_INLINE i8_vec i8_dot_unsigned(i8_vec acc, i8_vec x, i8_vec y)
{
    return I8_VEC(I8_HALF_DOT_UNSIGNED(acc.low, I8_U8(x.low), I8_U8(y.low)),
                  I8_HALF_DOT_UNSIGNED(acc.high, I8_U8(x.high), I8_U8(y.high)));
}
/* I8_HALF_FOURS adds the sum of four s8 to each lane of acc, and i8_add_shift adds 128 times the sum. */
#define I8_HALF_FOURS(acc, b) vpadalq_s16(acc, vpaddlq_s8(I8_S8(b)))
I8_INLINE i8_vec i8_add_fours(i8_vec acc, i8_vec b)
{
    return I8_VEC(I8_HALF_FOURS(acc.low, b.low), I8_HALF_FOURS(acc.high, b.high));
}
#define I8_HALF_SHIFT(acc, b) vaddq_s32(acc, vshlq_n_s32(vpaddlq_s16(vpaddlq_s8(I8_S8(b))), 7))
I8_INLINE i8_vec i8_add_shift(i8_vec acc, i8_vec b)
{
    return I8_VEC(I8_HALF_SHIFT(acc.low, b.low), I8_HALF_SHIFT(acc.high, b.high));
}

/* An i8_dword has a dword of A in all lanes. i8_load_flipped_dword subtracts 128 from each byte. */
typedef i8_unit i8_dword;
I8_INLINE i8_dword i8_load_dword(const void *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return I8_U8(vdupq_n_u32(x));
}
I8_INLINE i8_dword i8_load_flipped_dword(const void *p) { return i8_xor_unit(i8_load_dword(p), i8_set_unit(0x80)); }

/* In the loops of tiles, assembly keeps the order of these instructions: the sums fill most registers, and compilers
 * would start more products than there are free registers. i8_smull multiplies the low halves of s8 vectors, and
 * i8_smull2 multiplies the high halves. i8_smlal2 adds products of high halves to other products. i8_sadalp adds
 * neighbours, and adds their sums to other sums. */
I8_INLINE int16x8_t i8_smull(i8_unit x, i8_unit y)
{
    int16x8_t z;
    __asm__ volatile("smull %0.8h, %1.8b, %2.8b" : "=w"(z) : "w"(x), "w"(y));
    return z;
}
I8_INLINE int16x8_t i8_smull2(i8_unit x, i8_unit y)
{
    int16x8_t z;
    __asm__ volatile("smull2 %0.8h, %1.16b, %2.16b" : "=w"(z) : "w"(x), "w"(y));
    return z;
}
I8_INLINE int16x8_t i8_smlal2(int16x8_t z, i8_unit x, i8_unit y)
{
    __asm__ volatile("smlal2 %0.8h, %1.16b, %2.16b" : "+w"(z) : "w"(x), "w"(y));
    return z;
}
I8_INLINE int32x4_t i8_sadalp(int32x4_t acc, int16x8_t z)
{
    __asm__ volatile("sadalp %0.4s, %1.8h" : "+w"(acc) : "w"(z));
    return acc;
}

/* Multiply 4 columns of a group by a dword of A' - 128. Add the products to acc, which has two lanes for a column. */
I8_INLINE i8_vec i8_dot_apart(i8_vec acc, i8_dword a, i8_unit b)
{
    const int16x8_t low = i8_smull(a, b), high = i8_smull2(a, b);
    acc.low = i8_sadalp(acc.low, low);
    acc.high = i8_sadalp(acc.high, high);
    return acc;
}

/* For few_rows_body.h: multiply a repeated pair of bytes of a by the pairs of 4 columns in each half of a unit of b. */
#define I8_PAIR_FUNCTION(name, sign)                                                                                   \
    I8_INLINE void name(i8_vec *acc, i8_vec a, i8_vec b)                                                               \
    {                                                                                                                  \
        int16x8_t products[4];                                                                                         \
        __asm__ volatile(sign "mull %0.8h, %1.8b, %2.8b" : "=w"(products[0]) : "w"(a.low), "w"(b.low));                \
        __asm__ volatile(sign "mull2 %0.8h, %1.16b, %2.16b" : "=w"(products[1]) : "w"(a.low), "w"(b.low));             \
        __asm__ volatile(sign "mull %0.8h, %1.8b, %2.8b" : "=w"(products[2]) : "w"(a.high), "w"(b.high));              \
        __asm__ volatile(sign "mull2 %0.8h, %1.16b, %2.16b" : "=w"(products[3]) : "w"(a.high), "w"(b.high));           \
        __asm__ volatile(sign "adalp %0.4s, %1.8h" : "+w"(acc[0].low) : "w"(products[0]));                             \
        __asm__ volatile(sign "adalp %0.4s, %1.8h" : "+w"(acc[1].low) : "w"(products[1]));                             \
        __asm__ volatile(sign "adalp %0.4s, %1.8h" : "+w"(acc[0].high) : "w"(products[2]));                            \
        __asm__ volatile(sign "adalp %0.4s, %1.8h" : "+w"(acc[1].high) : "w"(products[3]));                            \
    }
I8_PAIR_FUNCTION(i8_pair_signed, "s")
I8_PAIR_FUNCTION(i8_pair_unsigned, "u")

#define I8_DOT(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#define I8_DOT_BY_DWORD(acc, a, b) (acc) = i8_dot_signed(acc, i8_twice((int32x4_t)(a)), b) /* a minus 128 */
#define I8_DOT_APART(acc, a, b) (acc) = i8_dot_apart(acc, a, b)
#define I8_PAIRED 0
#define I8_MIXED 0
#define I8_ALIKE 1
#define I8_DIFFERENCES 1
#define I8_BY_PAIRS 1
#define I8_INTERLEAVED_BODY "gemm/products_body.h"
#define I8_INTERLEAVED_FLIP 0x80
/* Add two products in 16 bits before one SADALP. */
#define I8_HALF_STEP(acc, a, b) vpadalq_s16(acc, vmlal_high_s8(i8_low_products(I8_S8(a), I8_S8(b)), I8_S8(a), I8_S8(b)))
#define I8_PEAK_STEP(acc, a, b)                                                                                        \
    (acc) = I8_VEC(I8_HALF_STEP(acc.low, a.low, b.low), I8_HALF_STEP(acc.high, a.high, b.high))
#define I8_TUNING                                                                                                      \
    {.kc = 1024, .a_bytes = 256 << 10, .nc = 60, .thread_work = 1e6, .tiny_work = 1 << 20, .few_rows_limit = 12}
#endif
