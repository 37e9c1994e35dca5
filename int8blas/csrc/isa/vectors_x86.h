/* Vector functions that AVX2 and AVX-512 share. The names of their intrinsics differ only in the width.
 * vectors_<width>.h includes this file after it has defined
 *
 *   I8_MM(name), I8_SI(name)      _mm256_add_epi32 from add_epi32; _mm256_xor_si256 from xor
 *   i8_vec, i8_f32                a vector of integers, and of f32
 *   i8_half, i8_half_f32          half of a vector of integers, and of f32
 *   i8_half_of(x, half)           the low (0) or the high (1) half of x
 *   i8_load_half(p)               half a vector; i8_store_half stores it, i8_add_half adds an s32 to its dwords
 *   i8_f64, i8_any_differ(x, y)   a vector of f64; whether x and y differ in a lane, or a lane is NaN
 *   i8_join_f32(low, high)        a vector of two halves
 *   i8_repeat_unit(x)             a unit of 128 bits, repeated
 *   i8_set_64(x)                  an s64, repeated
 *   i8_take_odd(even, odd)        lanes 0, 2, ... of `even` and lanes 1, 3, ... of `odd`
 *   i8_shift_right_64(x, n)       s64 shifted to the right by n, with their sign
 *   i8_saturate_64(x)             s64 saturated to s32
 */
I8_INLINE i8_vec i8_load(const void *p) { return I8_SI(loadu)((const i8_vec *)p); }
I8_INLINE void i8_store(void *p, i8_vec v) { I8_SI(storeu)((i8_vec *)p, v); }
I8_INLINE void i8_stream(void *p, i8_vec v) { I8_SI(stream)((i8_vec *)p, v); }
I8_INLINE i8_vec i8_zero(void) { return I8_SI(setzero)(); }
I8_INLINE i8_vec i8_set_8(int x) { return I8_MM(set1_epi8)((char)x); }
I8_INLINE i8_vec i8_set_16(int x) { return I8_MM(set1_epi16)((short)x); }
I8_INLINE i8_vec i8_set_32(int32_t x) { return I8_MM(set1_epi32)(x); }
I8_INLINE i8_vec i8_broadcast_16(const void *p)
{
    int16_t x;
    memcpy(&x, p, sizeof x);
    return I8_MM(set1_epi16)(x);
}
I8_INLINE i8_vec i8_broadcast(const void *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return i8_set_32(x);
}
I8_INLINE i8_vec i8_broadcast_64(const void *p)
{
    int64_t x;
    memcpy(&x, p, sizeof x);
    return i8_set_64(x);
}
I8_INLINE i8_vec i8_xor(i8_vec x, i8_vec y) { return I8_SI(xor)(x, y); }
I8_INLINE i8_vec i8_and(i8_vec x, i8_vec y) { return I8_SI(and)(x, y); }

/* Functions of f64, for output_body.h. Half a vector of s32 becomes a vector of f64. */
#define I8_VECTORS_OF_F64 1
I8_INLINE i8_f64 i8_f64_set(double x) { return I8_MM(set1_pd)(x); }
I8_INLINE i8_f64 i8_f64_from(i8_half x) { return I8_MM(cvtepi32_pd)(x); }
I8_INLINE i8_f64 i8_f64_add(i8_f64 x, i8_f64 y) { return I8_MM(add_pd)(x, y); }
I8_INLINE i8_f64 i8_f64_mul(i8_f64 x, i8_f64 y) { return I8_MM(mul_pd)(x, y); }
/* Return the smaller, or the larger, of x and y in each lane, or y if x is NaN. */
I8_INLINE i8_f64 i8_f64_min(i8_f64 x, i8_f64 y) { return I8_MM(min_pd)(x, y); }
I8_INLINE i8_f64 i8_f64_max(i8_f64 x, i8_f64 y) { return I8_MM(max_pd)(x, y); }
I8_INLINE void i8_f64_store(double *p, i8_f64 x) { I8_MM(storeu_pd)(p, x); }
/* Round half to even, and store s32. */
I8_INLINE void i8_f64_store_rounded(int32_t *p, i8_f64 x) { i8_store_half(p, I8_MM(cvtpd_epi32)(x)); }

/* Store the dwords as s64, past the caches if `stream`. */
I8_INLINE void i8_store_s64(char *p, i8_vec v, const int stream)
{
    const i8_vec low = I8_MM(cvtepi32_epi64)(i8_half_of(v, 0)), high = I8_MM(cvtepi32_epi64)(i8_half_of(v, 1));
    if (stream) {
        i8_stream(p, low);
        i8_stream(p + sizeof low, high);
    } else {
        i8_store(p, low);
        i8_store(p + sizeof low, high);
    }
}

/* See interleave.h. */
I8_INLINE i8_vec i8_low_8(i8_vec x, i8_vec y) { return I8_MM(unpacklo_epi8)(x, y); }
I8_INLINE i8_vec i8_high_8(i8_vec x, i8_vec y) { return I8_MM(unpackhi_epi8)(x, y); }
I8_INLINE i8_vec i8_low_16(i8_vec x, i8_vec y) { return I8_MM(unpacklo_epi16)(x, y); }
I8_INLINE i8_vec i8_high_16(i8_vec x, i8_vec y) { return I8_MM(unpackhi_epi16)(x, y); }
I8_INLINE i8_vec i8_low_32(i8_vec x, i8_vec y) { return I8_MM(unpacklo_epi32)(x, y); }
I8_INLINE i8_vec i8_high_32(i8_vec x, i8_vec y) { return I8_MM(unpackhi_epi32)(x, y); }
I8_INLINE i8_vec i8_low_64(i8_vec x, i8_vec y) { return I8_MM(unpacklo_epi64)(x, y); }
I8_INLINE i8_vec i8_high_64(i8_vec x, i8_vec y) { return I8_MM(unpackhi_epi64)(x, y); }
#include "isa/interleave.h"

/* Multiply-adds */

I8_INLINE i8_vec i8_add(i8_vec x, i8_vec y) { return I8_MM(add_epi32)(x, y); }
/* The s16 sums of two products saturate, as in VPMADDUBSW. */
I8_INLINE i8_vec i8_dot4_sat(i8_vec acc, i8_vec a, i8_vec b)
{
    return i8_add(acc, I8_MM(madd_epi16)(I8_MM(maddubs_epi16)(a, b), i8_set_16(1)));
}
/* Return acc + a . b + c . d. The s16 sums of both dot products are added before they are widened. */
I8_INLINE i8_vec i8_dot8(i8_vec acc, i8_vec a, i8_vec b, i8_vec c, i8_vec d)
{
    const i8_vec sums = I8_MM(add_epi16)(I8_MM(maddubs_epi16)(a, b), I8_MM(maddubs_epi16)(c, d));
    return i8_add(acc, I8_MM(madd_epi16)(sums, i8_set_16(1)));
}
/* Add dot products in s16. The caller limits the number of dot products, so that the sums fit s16. */
I8_INLINE i8_vec i8_dot_16(i8_vec acc, i8_vec a, i8_vec b) { return I8_MM(add_epi16)(acc, I8_MM(maddubs_epi16)(a, b)); }
I8_INLINE i8_vec i8_dot2(i8_vec acc, i8_vec a, i8_vec b) { return i8_add(acc, I8_MM(madd_epi16)(a, b)); }
/* i8_dot2_any is like i8_dot2, but a lane may add any two of the products. Only the total over all lanes is defined. */
#define i8_dot2_any i8_dot2

/* Return acc + low + 16 * high for the first or the last 4 s16 of each 128-bit lane. */
I8_INLINE i8_vec i8_add_columns(i8_vec acc, i8_vec low, i8_vec high, const int half)
{
    return i8_dot2(acc, i8_interleave_quad(low, high, half), i8_set_32(16 << 16 | 1));
}
/* Widen bytes 0 and 1 (half 0) or 2 and 3 (half 1) of each dword to s16, for I8_DOT2. */
I8_INLINE i8_vec i8_widen_pairs(i8_vec x, const int half)
{
    const __m128i first = _mm_setr_epi8(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13);
    const __m128i order = half ? _mm_add_epi8(first, _mm_set1_epi8(2)) : first;
    return I8_MM(srai_epi16)(I8_MM(shuffle_epi8)(x, i8_repeat_unit(order)), 8);
}
/* i8_words_repeated repeats the 4 bytes at p as u16. i8_words_s8 and i8_words_u8 widen half a vector of bytes to s16 or
 * u16. */
I8_INLINE i8_vec i8_words_repeated(const void *p) { return i8_low_8(i8_broadcast(p), i8_zero()); }
I8_INLINE i8_vec i8_words_s8(const void *p) { return I8_MM(cvtepi8_epi16)(i8_load_half(p)); }
I8_INLINE i8_vec i8_words_u8(const void *p) { return I8_MM(cvtepu8_epi16)(i8_load_half(p)); }

/* Widen the even bytes, or the odd bytes, to 16 bits. */
I8_INLINE i8_vec i8_even_u8(i8_vec x) { return i8_and(x, i8_set_16(0xff)); }
I8_INLINE i8_vec i8_odd_u8(i8_vec x) { return I8_MM(srli_epi16)(x, 8); }
I8_INLINE i8_vec i8_even_s8(i8_vec x) { return I8_MM(srai_epi16)(I8_MM(slli_epi16)(x, 8), 8); }
I8_INLINE i8_vec i8_odd_s8(i8_vec x) { return I8_MM(srai_epi16)(x, 8); }

/* Return the low, or the high, 4 bits of every byte. */
I8_INLINE i8_vec i8_low_halves(i8_vec x) { return i8_and(x, i8_set_8(15)); }
I8_INLINE i8_vec i8_high_halves(i8_vec x) { return i8_low_halves(I8_MM(srli_epi16)(x, 4)); }
/* i8_count_bits adds to each byte of acc the number of ones in the same byte of x. i8_sum_bytes returns the sum of the
 * four bytes of each dword. */
I8_INLINE i8_vec i8_count_bits(i8_vec acc, i8_vec x)
{
    const i8_vec bits = i8_repeat_unit(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const i8_vec low = I8_MM(shuffle_epi8)(bits, i8_low_halves(x));
    return I8_MM(add_epi8)(acc, I8_MM(add_epi8)(low, I8_MM(shuffle_epi8)(bits, i8_high_halves(x))));
}
I8_INLINE i8_vec i8_sum_bytes(i8_vec x)
{
    return I8_MM(madd_epi16)(I8_MM(maddubs_epi16)(x, i8_set_8(1)), i8_set_16(1));
}
/* Return acc + low + 16 * high, with low and high summed over pairs of s16. */
I8_INLINE i8_vec i8_add_halves(i8_vec acc, i8_vec low, i8_vec high)
{
    return i8_dot2(i8_dot2(acc, low, i8_set_16(1)), high, i8_set_16(16));
}

/* Return acc plus the exact sums of four u8 * s8 products, without VNNI. */
I8_INLINE i8_vec i8_dot4_widening(i8_vec acc, i8_vec a, i8_vec b)
{
    const i8_vec even = I8_MM(madd_epi16)(i8_even_u8(a), i8_even_s8(b));
    const i8_vec odd = I8_MM(madd_epi16)(i8_odd_u8(a), i8_odd_s8(b));
    return i8_add(acc, i8_add(even, odd));
}

/* F32 and lanes */

I8_INLINE i8_vec i8_sub(i8_vec x, i8_vec y) { return I8_MM(sub_epi32)(x, y); }
I8_INLINE i8_vec i8_mul_s32(i8_vec x, i8_vec y) { return I8_MM(mullo_epi32)(x, y); } /* modulo 2**32 */
I8_INLINE i8_f32 i8_load_f32(const void *p) { return I8_MM(loadu_ps)(p); }
I8_INLINE void i8_store_f32(void *p, i8_f32 x) { I8_MM(storeu_ps)(p, x); }
I8_INLINE i8_f32 i8_add_f32(i8_f32 x, i8_f32 y) { return I8_MM(add_ps)(x, y); }
I8_INLINE i8_f32 i8_sub_f32(i8_f32 x, i8_f32 y) { return I8_MM(sub_ps)(x, y); }
I8_INLINE i8_f32 i8_mul_f32(i8_f32 x, i8_f32 y) { return I8_MM(mul_ps)(x, y); }
I8_INLINE i8_f32 i8_fma_f32(i8_f32 x, i8_f32 y, i8_f32 z) { return I8_MM(fmadd_ps)(x, y, z); }
I8_INLINE i8_f32 i8_fnma_f32(i8_f32 x, i8_f32 y, i8_f32 z) { return I8_MM(fnmadd_ps)(x, y, z); }
/* Return x - y * z, for exact products y * z. */
I8_INLINE i8_f32 i8_less_product_f32(i8_f32 x, i8_f32 y, i8_f32 z) { return i8_fnma_f32(y, z, x); }
I8_INLINE i8_f32 i8_div_f32(i8_f32 x, i8_f32 y) { return I8_MM(div_ps)(x, y); }
I8_INLINE i8_f32 i8_set_f32(float x) { return I8_MM(set1_ps)(x); }
/* Return y if x or y is NaN, or if both are zeros, like MAXPS. */
I8_INLINE i8_f32 i8_max_f32(i8_f32 x, i8_f32 y) { return I8_MM(max_ps)(x, y); }
I8_INLINE i8_f32 i8_min_f32(i8_f32 x, i8_f32 y) { return I8_MM(min_ps)(x, y); }
I8_INLINE i8_f32 i8_to_f32(i8_vec x) { return I8_MM(cvtepi32_ps)(x); }
/* Round x, which is in the range of s32, half to even. The result is INT32_MIN for numbers out of the range of s32 and
 * for NaN. */
#define I8_MARKS_OVERFLOW 1
I8_INLINE i8_vec i8_round_within_s32(i8_f32 x) { return I8_MM(cvtps_epi32)(x); }
I8_INLINE i8_vec i8_round(i8_f32 x, float low, float high)
{
    return i8_round_within_s32(i8_min_f32(i8_max_f32(x, i8_set_f32(low)), i8_set_f32(high)));
}
/* Return f32(x - y). x - y is exact in f64, and is rounded once. */
I8_INLINE i8_half_f32 i8_half_difference(i8_half x, i8_half y)
{
    return I8_MM(cvtpd_ps)(I8_MM(sub_pd)(I8_MM(cvtepi32_pd)(x), I8_MM(cvtepi32_pd)(y)));
}
I8_INLINE i8_f32 i8_difference_f32(i8_vec x, i8_vec y)
{
    return i8_join_f32(i8_half_difference(i8_half_of(x, 0), i8_half_of(y, 0)),
                       i8_half_difference(i8_half_of(x, 1), i8_half_of(y, 1)));
}

/* Functions of s32 lanes. Shifts are by at most 31 bits. The right shift keeps the sign. */
I8_INLINE i8_vec i8_min_s32(i8_vec x, i8_vec y) { return I8_MM(min_epi32)(x, y); }
I8_INLINE i8_vec i8_max_s32(i8_vec x, i8_vec y) { return I8_MM(max_epi32)(x, y); }
I8_INLINE i8_vec i8_shift_left(i8_vec x, i8_vec n) { return I8_MM(sllv_epi32)(x, n); }
I8_INLINE i8_vec i8_shift_right(i8_vec x, i8_vec n) { return I8_MM(srav_epi32)(x, n); }
I8_INLINE i8_vec i8_odd_lanes(i8_vec x) { return I8_MM(srli_epi64)(x, 32); }
/* Return the low 32 bits of floor(x * y / 2**31 + 1/2). */
I8_INLINE i8_vec i8_high_product(i8_vec x, i8_vec y)
{
    const i8_vec half = i8_set_64(1 << 30);
    const i8_vec even = I8_MM(add_epi64)(I8_MM(mul_epi32)(x, y), half);
    const i8_vec odd = I8_MM(add_epi64)(I8_MM(mul_epi32)(i8_odd_lanes(x), i8_odd_lanes(y)), half);
    return i8_take_odd(I8_MM(srli_epi64)(even, 31), I8_MM(slli_epi64)(odd, 1));
}
/* Compute sat_s32(floor(x * y * 2**left / 2**right + 1/2)), for factors whose product fits 64 bits. i8_even_scaled
 * computes lanes 0, 2, ... i8_scaled_product computes all lanes. */
I8_INLINE i8_vec i8_even_scaled(i8_vec x, i8_vec y, i8_vec left, i8_vec right)
{
    const i8_vec all = i8_set_64(UINT32_MAX);
    left = i8_and(left, all);
    right = i8_and(right, all);
    const i8_vec half = I8_MM(srli_epi64)(I8_MM(sllv_epi64)(i8_set_64(1), right), 1);
    const i8_vec product = I8_MM(sllv_epi64)(I8_MM(mul_epi32)(x, y), left);
    return i8_saturate_64(i8_shift_right_64(I8_MM(add_epi64)(product, half), right));
}
I8_INLINE i8_vec i8_scaled_product(i8_vec x, i8_vec y, i8_vec left, i8_vec right)
{
    const i8_vec odd = i8_even_scaled(i8_odd_lanes(x), i8_odd_lanes(y), i8_odd_lanes(left), i8_odd_lanes(right));
    return i8_take_odd(i8_even_scaled(x, y, left, right), I8_MM(slli_epi64)(odd, 32));
}

/* Bytes and 16 bits */

I8_INLINE i8_vec i8_max_u8(i8_vec x, i8_vec y) { return I8_MM(max_epu8)(x, y); }
I8_INLINE i8_vec i8_min_u8(i8_vec x, i8_vec y) { return I8_MM(min_epu8)(x, y); }
I8_INLINE i8_vec i8_max_s8(i8_vec x, i8_vec y) { return I8_MM(max_epi8)(x, y); }
I8_INLINE i8_vec i8_min_s8(i8_vec x, i8_vec y) { return I8_MM(min_epi8)(x, y); }
I8_INLINE i8_vec i8_add_sat_u8(i8_vec x, i8_vec y) { return I8_MM(adds_epu8)(x, y); }
I8_INLINE i8_vec i8_add_sat_s8(i8_vec x, i8_vec y) { return I8_MM(adds_epi8)(x, y); }
I8_INLINE i8_vec i8_sub_sat_u8(i8_vec x, i8_vec y) { return I8_MM(subs_epu8)(x, y); }
I8_INLINE i8_vec i8_sub_sat_s8(i8_vec x, i8_vec y) { return I8_MM(subs_epi8)(x, y); }
I8_INLINE i8_vec i8_add_16(i8_vec x, i8_vec y) { return I8_MM(add_epi16)(x, y); }
I8_INLINE i8_vec i8_sub_16(i8_vec x, i8_vec y) { return I8_MM(sub_epi16)(x, y); }
I8_INLINE i8_vec i8_mul_high_16(i8_vec x, i8_vec y) { return I8_MM(mulhi_epu16)(x, y); }
/* For n >= 16 the result is 0. */
I8_INLINE i8_vec i8_shift_right_16(i8_vec x, int n) { return I8_MM(srl_epi16)(x, _mm_cvtsi32_si128(n)); }
/* Widen half a vector of 16-bit elements to s32. */
I8_INLINE i8_vec i8_widen_u16(i8_vec x, const int half) { return I8_MM(cvtepu16_epi32)(i8_half_of(x, half)); }
I8_INLINE i8_vec i8_widen_s16(i8_vec x, const int half) { return I8_MM(cvtepi16_epi32)(i8_half_of(x, half)); }
I8_INLINE i8_vec i8_min_s16(i8_vec x, i8_vec y) { return I8_MM(min_epi16)(x, y); }
I8_INLINE i8_vec i8_add_sat_16(i8_vec x, i8_vec y) { return I8_MM(adds_epi16)(x, y); }
/* Saturate s32 to s16, and s16 to bytes. Only 4 neighbouring elements stay in order (see i8_in_order). */
I8_INLINE i8_vec i8_pack_words(i8_vec x, i8_vec y) { return I8_MM(packs_epi32)(x, y); }
I8_INLINE i8_vec i8_pack_words_u8(i8_vec x, i8_vec y) { return I8_MM(packus_epi16)(x, y); }
I8_INLINE i8_vec i8_pack_words_s8(i8_vec x, i8_vec y) { return I8_MM(packs_epi16)(x, y); }
/* Saturate 4 vectors of s32 to bytes. Packing undoes the order of i8_interleave. */
I8_INLINE i8_vec i8_pack_u8(const i8_vec *v)
{
    return i8_pack_words_u8(i8_pack_words(v[0], v[1]), i8_pack_words(v[2], v[3]));
}
I8_INLINE i8_vec i8_pack_s8(const i8_vec *v)
{
    return i8_pack_words_s8(i8_pack_words(v[0], v[1]), i8_pack_words(v[2], v[3]));
}
/* In each unit of 128 bits, byte i of the result is byte index[i] of `table`; index[i] is below 16. */
I8_INLINE i8_vec i8_shuffle(i8_vec table, i8_vec index) { return I8_MM(shuffle_epi8)(table, index); }

/* i8_half_sum adds the second half of 8 f32 to the first half until one element is left. i8_half_top returns the
 * largest of 8 f32 without NaN. */
I8_INLINE float i8_half_sum(__m256 y)
{
    const __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    const __m128 w = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(w, _mm_movehdup_ps(w)));
}
I8_INLINE float i8_half_top(__m256 y)
{
    const __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    const __m128 w = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(w, _mm_movehdup_ps(w)));
}
/* Return the largest of 8 f32 from their bits as s32. No f32 is negative. */
I8_INLINE float i8_half_top_magnitude(__m256i y)
{
    const __m128i z = _mm_max_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    const __m128i w = _mm_max_epi32(z, _mm_unpackhi_epi64(z, z));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(w, _mm_shuffle_epi32(w, 1))));
}
