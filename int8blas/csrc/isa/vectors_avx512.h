/* i8_vec for the AVX-512 files: 16 lanes, 32 registers. 8 x 48 takes 24 accumulators, 3 vectors of B, 1 broadcast of A,
 * and 1 product and 1 vector of ones for the two-step dots: 30. */
#ifdef I8_X86_64
#ifndef I8_TARGET
#define I8_TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#endif
I8_TARGET_BEGIN(I8_TARGET)
#include <immintrin.h>
#include <string.h>

#define I8_WIDTH_NAME avx512
#define I8_LANES 16
#define I8_MR 8
#define I8_NP 3
#define I8_ROW_NP I8_NP
#define I8_FEW_ROWS_MR 12
#define I8_DOT_ROWS 8
#define I8_DOT_SUMS 16
#define I8_SMALL_K_ROWS 4
#ifndef I8_SMALL_K_GROUPS
#define I8_SMALL_K_GROUPS 8
#endif

#include "isa/units.h"

typedef __m512i i8_vec;

I8_INLINE i8_vec i8_load(const void *p) { return _mm512_loadu_si512(p); }
I8_INLINE void i8_store(void *p, i8_vec v) { _mm512_storeu_si512(p, v); }
I8_INLINE i8_vec i8_zero(void) { return _mm512_setzero_si512(); }
I8_INLINE i8_vec i8_add(i8_vec x, i8_vec y) { return _mm512_add_epi32(x, y); }
I8_INLINE void i8_store_some(int32_t *p, i8_vec v, int n)
{
    /* A load whose address agrees in its last 12 bits with that of a masked store waits for it: the smallest C, which
     * take no longer than that, are stored without a mask. */
    if (n == 4)
        _mm_storeu_si128((__m128i *)(void *)p, _mm512_castsi512_si128(v));
    else if (n == 8)
        _mm256_storeu_si256((__m256i *)(void *)p, _mm512_castsi512_si256(v));
    else if (n > 0)
        _mm512_mask_storeu_epi32(p, n < I8_LANES ? (__mmask16)((1u << n) - 1) : (__mmask16)0xffff, v);
}
/* The lanes [from, to), of which the ends may lie outside the vector. */
I8_INLINE void i8_store_lanes(int32_t *p, i8_vec v, int from, int to)
{
    const uint32_t low = from > 0 ? (1u << from) - 1 : 0, all = to < I8_LANES ? (1u << to) - 1 : 0xffff;
    _mm512_mask_storeu_epi32(p, (__mmask16)(all & ~low), v);
}
/* `count` bytes, 1 to 16, and zeros behind them, by loads of these bytes alone. */
I8_INLINE i8_unit i8_load_bytes(const uint8_t *p, const int count)
{
    return _mm_maskz_loadu_epi8((__mmask16)(0xffff >> (16 - count)), p);
}
/* 64 bytes, in stores of whole vectors: a load of a vector that waits for several stores waits until they are done. */
I8_INLINE void i8_store_units(void *p, const i8_unit units[4])
{
    const __m256i low = _mm256_set_m128i(units[1], units[0]), high = _mm256_set_m128i(units[3], units[2]);
    i8_store(p, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
}
I8_INLINE void i8_stream(void *p, i8_vec v) { _mm512_stream_si512(p, v); }

/* The dwords as s64, past the caches if `stream`. */
I8_INLINE void i8_store_s64(char *p, i8_vec v, const int stream)
{
    const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(v));
    const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(v, 1));
    if (stream) {
        i8_stream(p, low);
        i8_stream(p + 64, high);
    } else {
        i8_store(p, low);
        i8_store(p + 64, high);
    }
}
I8_INLINE i8_vec i8_broadcast(const void *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}
I8_INLINE i8_vec i8_dot4_sat(i8_vec acc, i8_vec a, i8_vec b)
{
    const __m512i pairs = _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), _mm512_set1_epi16(1));
    return _mm512_add_epi32(acc, pairs);
}
/* Both dots in s16 before they are added up. */
I8_INLINE i8_vec i8_dot8(i8_vec acc, i8_vec a, i8_vec b, i8_vec c, i8_vec d)
{
    const __m512i sums = _mm512_add_epi16(_mm512_maddubs_epi16(a, b), _mm512_maddubs_epi16(c, d));
    return _mm512_add_epi32(acc, _mm512_madd_epi16(sums, _mm512_set1_epi16(1)));
}
/* In s16, for as many as fit. */
I8_INLINE i8_vec i8_dot_16(i8_vec acc, i8_vec a, i8_vec b) { return _mm512_add_epi16(acc, _mm512_maddubs_epi16(a, b)); }
I8_INLINE i8_vec i8_dot2(i8_vec acc, i8_vec a, i8_vec b) { return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b)); }
/* The same products, any two of which are added in a lane. */
#define i8_dot2_any i8_dot2

I8_INLINE i8_vec i8_xor(i8_vec x, i8_vec y) { return _mm512_xor_si512(x, y); }

/* See interleave.h. */
I8_INLINE i8_vec i8_low_8(i8_vec x, i8_vec y) { return _mm512_unpacklo_epi8(x, y); }
I8_INLINE i8_vec i8_high_8(i8_vec x, i8_vec y) { return _mm512_unpackhi_epi8(x, y); }
I8_INLINE i8_vec i8_low_16(i8_vec x, i8_vec y) { return _mm512_unpacklo_epi16(x, y); }
I8_INLINE i8_vec i8_high_16(i8_vec x, i8_vec y) { return _mm512_unpackhi_epi16(x, y); }
I8_INLINE i8_vec i8_low_32(i8_vec x, i8_vec y) { return _mm512_unpacklo_epi32(x, y); }
I8_INLINE i8_vec i8_high_32(i8_vec x, i8_vec y) { return _mm512_unpackhi_epi32(x, y); }
I8_INLINE i8_vec i8_low_64(i8_vec x, i8_vec y) { return _mm512_unpacklo_epi64(x, y); }
I8_INLINE i8_vec i8_high_64(i8_vec x, i8_vec y) { return _mm512_unpackhi_epi64(x, y); }
#include "isa/interleave.h"

/* acc + low + 16 * high for the first or the last 4 s16 of each 128-bit lane. */
I8_INLINE i8_vec i8_add_columns(i8_vec acc, i8_vec low, i8_vec high, const int half)
{
    const i8_vec both = i8_interleave_quad(low, high, half);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(both, _mm512_set1_epi32(16 << 16 | 1)));
}
I8_INLINE i8_vec i8_broadcast_16(const void *p)
{
    int16_t x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi16(x);
}

/* 4 vectors of 4 units of 128 bits, transposed: unit q of vector p becomes unit p of vector q. */
I8_INLINE void i8_transpose_units(i8_vec *v)
{
    const __m512i lo01 = _mm512_shuffle_i32x4(v[0], v[1], 0x44), hi01 = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
    const __m512i lo23 = _mm512_shuffle_i32x4(v[2], v[3], 0x44), hi23 = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
    v[0] = _mm512_shuffle_i32x4(lo01, lo23, 0x88);
    v[1] = _mm512_shuffle_i32x4(lo01, lo23, 0xdd);
    v[2] = _mm512_shuffle_i32x4(hi01, hi23, 0x88);
    v[3] = _mm512_shuffle_i32x4(hi01, hi23, 0xdd);
}

/* Units of 128 bits that are `step` bytes apart. */
I8_INLINE i8_vec i8_load_units(const void *p, ptrdiff_t step)
{
    const char *q = p;
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)q));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(q + step)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(q + 2 * step)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(q + 3 * step)), 3);
}

/* The first `units` units of 128 bits of s32, `step` elements apart, stored or added to what is there. */
I8_INLINE void i8_add_units(int32_t *p, ptrdiff_t step, i8_vec x, const int units, int add)
{
    const __m128i unit[4] = {_mm512_castsi512_si128(x), _mm512_extracti32x4_epi32(x, 1),
                             _mm512_extracti32x4_epi32(x, 2), _mm512_extracti32x4_epi32(x, 3)};
    I8_FOR(u, 4) {
        __m128i *d = (__m128i *)(void *)(p + u * step);
        if (u < units)
            _mm_storeu_si128(d, add ? _mm_add_epi32(_mm_loadu_si128(d), unit[u]) : unit[u]);
    }
}

/* `bytes` bytes, 4 to 64, over and over; the same of which only the first `valid` are read, and the others are 0. */
I8_INLINE i8_vec i8_repeat_first(i8_vec v, const int bytes)
{
    if (bytes == 4)
        return _mm512_broadcastd_epi32(_mm512_castsi512_si128(v));
    if (bytes == 8)
        return _mm512_broadcastq_epi64(_mm512_castsi512_si128(v));
    if (bytes == 16)
        return _mm512_broadcast_i32x4(_mm512_castsi512_si128(v));
    return bytes == 32 ? _mm512_broadcast_i64x4(_mm512_castsi512_si256(v)) : v;
}
I8_INLINE i8_vec i8_repeat(const void *p, const int bytes)
{
    if (bytes == 4)
        return i8_broadcast(p);
    if (bytes == 8) {
        int64_t x;
        memcpy(&x, p, sizeof x);
        return _mm512_set1_epi64(x);
    }
    if (bytes == 16)
        return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
    return bytes == 32 ? _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p)) : i8_load(p);
}
I8_INLINE i8_vec i8_repeat_some(const void *p, const int bytes, int valid)
{
    return i8_repeat_first(_mm512_maskz_loadu_epi8(~(__mmask64)0 >> (64 - valid), p), bytes);
}

/* Sums of neighbouring lanes: in each 128 bits two of x, then two of y. Sums of neighbouring units of 128 bits: two of
 * x, then two of y. */
I8_INLINE i8_vec i8_fold_lanes(i8_vec x, i8_vec y)
{
    const __m512 fx = _mm512_castsi512_ps(x), fy = _mm512_castsi512_ps(y);
    return i8_add(_mm512_castps_si512(_mm512_shuffle_ps(fx, fy, 0x88)),
                  _mm512_castps_si512(_mm512_shuffle_ps(fx, fy, 0xdd)));
}
I8_INLINE i8_vec i8_fold_units(i8_vec x, i8_vec y)
{
    return i8_add(_mm512_shuffle_i32x4(x, y, 0x88), _mm512_shuffle_i32x4(x, y, 0xdd));
}
I8_INLINE i8_vec i8_permute(i8_vec v, const int32_t *order) { return _mm512_permutexvar_epi32(i8_load(order), v); }

/* For I8_DOT2: bytes 0 and 1 of each dword as s16, or 2 and 3. */
I8_INLINE i8_vec i8_widen_pairs(i8_vec x, const int half)
{
    const __m128i first = _mm_setr_epi8(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13);
    const __m128i order = half ? _mm_add_epi8(first, _mm_set1_epi8(2)) : first;
    return _mm512_srai_epi16(_mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order)), 8);
}
/* The 4 bytes at p as u16, over and over, and as many bytes as are half a vector as s16. */
I8_INLINE i8_vec i8_words_repeated(const void *p)
{
    return _mm512_unpacklo_epi8(i8_broadcast(p), i8_zero());
}
I8_INLINE i8_vec i8_words_s8(const void *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p)); }
/* Sums of neighbouring lanes of x, then those of y. */
I8_INLINE i8_vec i8_add_neighbours(i8_vec x, i8_vec y)
{
    const i8_vec order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm512_permutexvar_epi64(order, i8_fold_lanes(x, y));
}

/* Every other byte as 16 bits. */
I8_INLINE i8_vec i8_even_u8(i8_vec x) { return _mm512_and_si512(x, _mm512_set1_epi16(0xff)); }
I8_INLINE i8_vec i8_odd_u8(i8_vec x) { return _mm512_srli_epi16(x, 8); }
I8_INLINE i8_vec i8_even_s8(i8_vec x) { return _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8); }
I8_INLINE i8_vec i8_odd_s8(i8_vec x) { return _mm512_srai_epi16(x, 8); }

/* The two halves of every byte, u4 each. */
I8_INLINE i8_vec i8_low_halves(i8_vec x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
I8_INLINE i8_vec i8_high_halves(i8_vec x) { return i8_low_halves(_mm512_srli_epi16(x, 4)); }
/* acc + low + 16 * high, pairs of s16 added up. */
I8_INLINE i8_vec i8_add_halves(i8_vec acc, i8_vec low, i8_vec high)
{
    return i8_dot2(i8_dot2(acc, low, _mm512_set1_epi16(1)), high, _mm512_set1_epi16(16));
}

/* acc + the exact sums of four u8 * s8 products, without VNNI. */
I8_INLINE i8_vec i8_dot4_widening(i8_vec acc, i8_vec a, i8_vec b)
{
    const __m512i even = _mm512_madd_epi16(i8_even_u8(a), i8_even_s8(b));
    const __m512i odd = _mm512_madd_epi16(i8_odd_u8(a), i8_odd_s8(b));
    return _mm512_add_epi32(acc, _mm512_add_epi32(even, odd));
}

/* A chunk of 16 f32, for the output stage of the quantized primitives. */
typedef __m512 i8_floats;

I8_INLINE i8_floats i8_floats_load(const float *p) { return _mm512_loadu_ps(p); }
I8_INLINE i8_floats i8_floats_from(const int32_t *p) { return _mm512_cvtepi32_ps(_mm512_loadu_si512((const void *)p)); }
/* p - a * q, modulo 2**32. */
I8_INLINE i8_floats i8_floats_from_less(const int32_t *p, int32_t a, const int32_t *q)
{
    const __m512i x = _mm512_mullo_epi32(_mm512_set1_epi32(a), _mm512_loadu_si512((const void *)q));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_loadu_si512((const void *)p), x));
}
/* p - q, modulo 2**32. */
I8_INLINE i8_floats i8_floats_from_difference(const int32_t *p, const int32_t *q)
{
    const __m512i x = _mm512_loadu_si512((const void *)p);
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(x, _mm512_loadu_si512((const void *)q)));
}
I8_INLINE void i8_floats_store(float *p, i8_floats x) { _mm512_storeu_ps(p, x); }
I8_INLINE i8_floats i8_floats_set(float x) { return _mm512_set1_ps(x); }
I8_INLINE i8_floats i8_floats_add(i8_floats x, i8_floats y) { return _mm512_add_ps(x, y); }
I8_INLINE i8_floats i8_floats_mul(i8_floats x, i8_floats y) { return _mm512_mul_ps(x, y); }
I8_INLINE i8_floats i8_floats_min(i8_floats x, i8_floats y) { return _mm512_min_ps(x, y); }
I8_INLINE i8_floats i8_floats_max(i8_floats x, i8_floats y) { return _mm512_max_ps(x, y); }
/* Halves are added, the second to the first, until one element is left. */
I8_INLINE float i8_floats_sum(i8_floats x)
{
    const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    const __m128 w = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(w, _mm_movehdup_ps(w)));
}
/* The largest number, where none is NaN. */
I8_INLINE float i8_floats_top(i8_floats x)
{
    const __m256 y = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    const __m128 w = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(w, _mm_movehdup_ps(w)));
}
/* max(x, |y|) of the bits, so that infinities and NaN are larger than all numbers; x is not negative. */
I8_INLINE i8_floats i8_floats_largest(i8_floats x, i8_floats y)
{
    const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(y), _mm512_set1_epi32(0x7fffffff));
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(x), magnitude));
}
/* Half to even, where that is known to be in the range of s8; XORed with flip. */
I8_INLINE void i8_floats_store_rounded(uint8_t *p, i8_floats x, uint8_t flip)
{
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm_xor_si128(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)), _mm_set1_epi8((char)flip)));
}
/* x < 0 ? 0 : x, as MAXPS gives its second operand for a NaN, and for zeros of either sign. */
I8_INLINE i8_floats i8_floats_relu(i8_floats x) { return _mm512_max_ps(_mm512_setzero_ps(), x); }
/* 0 for NaN. */
I8_INLINE i8_floats i8_floats_ordered(i8_floats x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x);
}
/* Saturated to [low, high] within u8 or s8, half to even. */
I8_INLINE void i8_floats_store_bytes(uint8_t *p, i8_floats x, float low, float high, int is_signed)
{
    (void)is_signed;
    x = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(low)), _mm512_set1_ps(high));
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}

/* For quantize_body.h: f32, rounded to s32 half to even, and bytes widened to s32. */
typedef __m512 i8_f32;

I8_INLINE i8_vec i8_sub(i8_vec x, i8_vec y) { return _mm512_sub_epi32(x, y); }
I8_INLINE i8_vec i8_mul_s32(i8_vec x, i8_vec y) { return _mm512_mullo_epi32(x, y); } /* modulo 2**32 */
I8_INLINE i8_f32 i8_load_f32(const void *p) { return _mm512_loadu_ps(p); }
I8_INLINE void i8_store_f32(void *p, i8_f32 x) { _mm512_storeu_ps(p, x); }
I8_INLINE i8_f32 i8_add_f32(i8_f32 x, i8_f32 y) { return _mm512_add_ps(x, y); }
I8_INLINE i8_f32 i8_mul_f32(i8_f32 x, i8_f32 y) { return _mm512_mul_ps(x, y); }
I8_INLINE i8_f32 i8_fma_f32(i8_f32 x, i8_f32 y, i8_f32 z) { return _mm512_fmadd_ps(x, y, z); }
I8_INLINE i8_f32 i8_div_f32(i8_f32 x, i8_f32 y) { return _mm512_div_ps(x, y); }
I8_INLINE i8_f32 i8_set_f32(float x) { return _mm512_set1_ps(x); }
/* y where either is NaN or both are zeros, as MAXPS has it. */
I8_INLINE i8_f32 i8_max_f32(i8_f32 x, i8_f32 y) { return _mm512_max_ps(x, y); }
I8_INLINE i8_f32 i8_min_f32(i8_f32 x, i8_f32 y) { return _mm512_min_ps(x, y); }
/* Bytes of I8_LANES numbers, half to even, not below `low`, which is in the type, nor above it. 2**31 and more become
 * 0x80000000, which is beyond u8 and has to be kept from s8. */
I8_INLINE void i8_store_bounded(void *p, i8_f32 x, i8_f32 low, const int is_signed)
{
    x = _mm512_max_ps(x, low);
    if (is_signed)
        _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_min_ps(x, i8_set_f32(127)))));
    else
        _mm_storeu_si128((__m128i *)p, _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(x)));
}
I8_INLINE i8_f32 i8_to_f32(i8_vec x) { return _mm512_cvtepi32_ps(x); }
/* Half to even and saturated; x is not NaN. Beyond the range the conversion gives -2**31. */
I8_INLINE i8_vec i8_to_s32(i8_f32 x)
{
    const __mmask16 beyond = _mm512_cmp_ps_mask(x, _mm512_set1_ps(2147483648.0f), _CMP_GE_OQ);
    return _mm512_mask_mov_epi32(_mm512_cvtps_epi32(x), beyond, _mm512_set1_epi32(INT32_MAX));
}
/* x - y, which f64 holds, rounded once. */
I8_INLINE __m256 i8_half_difference(__m256i x, __m256i y)
{
    return _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_cvtepi32_pd(x), _mm512_cvtepi32_pd(y)));
}
I8_INLINE i8_f32 i8_difference_f32(i8_vec x, i8_vec y)
{
    const __m256 low = i8_half_difference(_mm512_castsi512_si256(x), _mm512_castsi512_si256(y));
    const __m256 high = i8_half_difference(_mm512_extracti64x4_epi64(x, 1), _mm512_extracti64x4_epi64(y, 1));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
I8_INLINE i8_vec i8_round(i8_f32 x, float low, float high)
{
    return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(low)), _mm512_set1_ps(high)));
}
/* Lanes of s32. A comparison sets all bits of a lane, by which i8_where takes x, else y. Shifts are by up to 31 bits,
 * to the right of the sign too. */
I8_INLINE i8_vec i8_set_32(int32_t x) { return _mm512_set1_epi32(x); }
I8_INLINE i8_vec i8_min_s32(i8_vec x, i8_vec y) { return _mm512_min_epi32(x, y); }
I8_INLINE i8_vec i8_max_s32(i8_vec x, i8_vec y) { return _mm512_max_epi32(x, y); }
I8_INLINE i8_vec i8_equal(i8_vec x, i8_vec y) { return _mm512_movm_epi32(_mm512_cmpeq_epi32_mask(x, y)); }
I8_INLINE i8_vec i8_greater(i8_vec x, i8_vec y) { return _mm512_movm_epi32(_mm512_cmpgt_epi32_mask(x, y)); }
I8_INLINE i8_vec i8_where(i8_vec bits, i8_vec x, i8_vec y) { return _mm512_ternarylogic_epi32(bits, x, y, 0xca); }
I8_INLINE i8_vec i8_shift_left(i8_vec x, i8_vec n) { return _mm512_sllv_epi32(x, n); }
I8_INLINE i8_vec i8_shift_right(i8_vec x, i8_vec n) { return _mm512_srav_epi32(x, n); }
/* The low 32 bits of floor(x * y / 2**31 + 1/2). */
I8_INLINE i8_vec i8_high_product(i8_vec x, i8_vec y)
{
    const __m512i half = _mm512_set1_epi64(1 << 30);
    const __m512i x_odd = _mm512_srli_epi64(x, 32), y_odd = _mm512_srli_epi64(y, 32);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, y), half);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(x_odd, y_odd), half);
    return _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
}
/* sat_s32(floor(x * y * 2**left / 2**right + 1/2)), where 64 bits are enough; of every other lane, and of all. */
I8_INLINE __m512i i8_even_scaled(__m512i x, __m512i y, __m512i left, __m512i right)
{
    const __m512i all = _mm512_set1_epi64(UINT32_MAX);
    left = _mm512_and_si512(left, all);
    right = _mm512_and_si512(right, all);
    const __m512i half = _mm512_srli_epi64(_mm512_sllv_epi64(_mm512_set1_epi64(1), right), 1);
    const __m512i product = _mm512_sllv_epi64(_mm512_mul_epi32(x, y), left);
    const __m512i z = _mm512_srav_epi64(_mm512_add_epi64(product, half), right);
    return _mm512_max_epi64(_mm512_min_epi64(z, _mm512_set1_epi64(INT32_MAX)), _mm512_set1_epi64(INT32_MIN));
}
I8_INLINE i8_vec i8_scaled_product(i8_vec x, i8_vec y, i8_vec left, i8_vec right)
{
    const __m512i even = i8_even_scaled(x, y, left, right);
    const __m512i odd = i8_even_scaled(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32), _mm512_srli_epi64(left, 32),
                                       _mm512_srli_epi64(right, 32));
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}
/* z where x is NaN, else y. */
I8_INLINE i8_vec i8_replace_nan(i8_f32 x, i8_vec y, i8_vec z)
{
    return _mm512_mask_mov_epi32(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), z);
}
/* The low bytes of I8_LANES values, which are in the range of the type. */
I8_INLINE void i8_store_u8(void *p, i8_vec x) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x)); }
I8_INLINE void i8_store_s8(void *p, i8_vec x) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x)); }
I8_INLINE i8_vec i8_load_u8(const void *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
I8_INLINE i8_vec i8_load_s8(const void *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }

/* For pool_body.h: bytes; I8_WORDS bytes widened to 16 bits; half a vector of 16-bit elements widened to s32. */
I8_INLINE i8_vec i8_max_u8(i8_vec x, i8_vec y) { return _mm512_max_epu8(x, y); }
I8_INLINE i8_vec i8_max_s8(i8_vec x, i8_vec y) { return _mm512_max_epi8(x, y); }
I8_INLINE i8_vec i8_add_16(i8_vec x, i8_vec y) { return _mm512_add_epi16(x, y); }
I8_INLINE i8_vec i8_sub_16(i8_vec x, i8_vec y) { return _mm512_sub_epi16(x, y); }
I8_INLINE i8_vec i8_words_u8(const void *p) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p)); }
I8_INLINE __m256i i8_half_of(i8_vec x, const int half)
{
    return half ? _mm512_extracti64x4_epi64(x, 1) : _mm512_castsi512_si256(x);
}
I8_INLINE i8_vec i8_widen_u16(i8_vec x, const int half) { return _mm512_cvtepu16_epi32(i8_half_of(x, half)); }
I8_INLINE i8_vec i8_widen_s16(i8_vec x, const int half) { return _mm512_cvtepi16_epi32(i8_half_of(x, half)); }
I8_INLINE i8_vec i8_and(i8_vec x, i8_vec y) { return _mm512_and_si512(x, y); }
I8_INLINE i8_vec i8_set_16(int x) { return _mm512_set1_epi16((short)x); }
I8_INLINE i8_vec i8_mul_high_16(i8_vec x, i8_vec y) { return _mm512_mulhi_epu16(x, y); }
/* 0 from n = 16 on. */
I8_INLINE i8_vec i8_shift_right_16(i8_vec x, int n) { return _mm512_srl_epi16(x, _mm_cvtsi32_si128(n)); }
/* The low bytes of 16-bit elements of at most 255. */
I8_INLINE void i8_store_low_bytes(void *p, i8_vec x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi16_epi8(x));
}

/* For fused_body.h and normalize_body.h: 16 bytes as f32. */
I8_INLINE i8_floats i8_floats_from_u8(const uint8_t *p) { return i8_to_f32(i8_load_u8(p)); }
I8_INLINE i8_floats i8_floats_from_s8(const int8_t *p) { return i8_to_f32(i8_load_s8(p)); }
/* 16 f16 or bf16 as f32, unaligned. */
I8_INLINE i8_floats i8_floats_from_f16(const char *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
I8_INLINE i8_floats i8_floats_from_bf16(const char *p)
{
    const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
/* And back, half to even. A NaN keeps its sign alone. */
I8_INLINE __m512 i8_with_plain_nan(__m512 x)
{
    const __m512i sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN));
    const __m512i nan = _mm512_or_si512(sign, _mm512_set1_epi32(0x7fc00000));
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_castsi512_ps(nan));
}
I8_INLINE void i8_floats_store_f16(char *p, i8_floats x)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(i8_with_plain_nan(x), _MM_FROUND_TO_NEAREST_INT));
}
I8_INLINE void i8_floats_store_bf16(char *p, i8_floats x)
{
    const __m512i bits = _mm512_castps_si512(i8_with_plain_nan(x));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
I8_INLINE void i8_floats_store_s32(char *p, i8_floats x) { _mm512_storeu_si512(p, i8_to_s32(x)); }
I8_INLINE i8_f32 i8_as_f32(i8_vec x) { return _mm512_castsi512_ps(x); }
I8_INLINE i8_f32 i8_sub_f32(i8_f32 x, i8_f32 y) { return _mm512_sub_ps(x, y); }
/* Half to even, where that is known to be in the range of s32. */
I8_INLINE i8_vec i8_round_within_s32(i8_f32 x) { return _mm512_cvtps_epi32(x); }
/* 4 vectors of s32, saturated, as bytes in the order that i8_interleave had them in. */
I8_INLINE i8_vec i8_pack_u8(const i8_vec *v)
{
    return _mm512_packus_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
}
I8_INLINE i8_vec i8_pack_s8(const i8_vec *v)
{
    return _mm512_packs_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
}
I8_INLINE i8_vec i8_set_8(int x) { return _mm512_set1_epi8((char)x); }
/* Of each 128 bits of `table`, the byte that the byte of `index`, below 16, says. */
I8_INLINE i8_vec i8_shuffle(i8_vec table, i8_vec index) { return _mm512_shuffle_epi8(table, index); }
/* One bit of every byte, and y where it is set, else x. */
typedef __mmask64 i8_bits;
I8_INLINE i8_bits i8_bits_of_bytes(i8_vec x, const int bit) { return _mm512_test_epi8_mask(x, i8_set_8(1 << bit)); }
I8_INLINE i8_vec i8_choose(i8_bits bits, i8_vec x, i8_vec y) { return _mm512_mask_blend_epi8(bits, x, y); }
/* For normalize_body.h: 16 integers minus `largest`, which none exceeds, as f32; 0, not -0. */
I8_INLINE i8_floats i8_floats_minus(const int32_t *p, int32_t largest)
{
    return _mm512_sub_ps(_mm512_setzero_ps(), _mm512_cvtepu32_ps(i8_sub(_mm512_set1_epi32(largest), i8_load(p))));
}
#endif
