/* i8_vec for the 256-bit files: 8 lanes, 16 registers, a panel is 2 vectors. 6 x 16 takes 12 accumulators, 2 vectors of
 * B, 1 broadcast of A and 1 product: 16, with the vector of ones of the two-step dots in memory. */
#ifdef I8_X86_64
#ifndef I8_TARGET
#define I8_TARGET "avx2,f16c,fma"
#endif
I8_TARGET_BEGIN(I8_TARGET)
#include <immintrin.h>
#include <string.h>

#define I8_WIDTH_NAME avx2
#define I8_LANES 8
#define I8_MR 6
#define I8_NP 1
#define I8_ROW_NP 3
#define I8_FEW_ROWS_MR 4
#define I8_DOT_ROWS 4
#define I8_DOT_SUMS 8
#define I8_SMALL_K_ROWS 2
#define I8_SMALL_K_GROUPS 4

#include "isa/units.h"

typedef __m256i i8_vec;

I8_INLINE i8_vec i8_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
I8_INLINE void i8_store(void *p, i8_vec v) { _mm256_storeu_si256((__m256i *)p, v); }
I8_INLINE i8_vec i8_zero(void) { return _mm256_setzero_si256(); }
I8_INLINE i8_vec i8_add(i8_vec x, i8_vec y) { return _mm256_add_epi32(x, y); }
I8_INLINE void i8_store_some(int32_t *p, i8_vec v, int n)
{
    /* VPMASKMOVD stores are slow on some CPUs; this is an edge. */
    int32_t lanes[I8_LANES];
    i8_store(lanes, v);
    if (n > 0)
        memcpy(p, lanes, sizeof(int32_t) * (size_t)(n < I8_LANES ? n : I8_LANES));
}
/* The lanes [from, to), of which the ends may lie outside the vector. */
I8_INLINE void i8_store_lanes(int32_t *p, i8_vec v, int from, int to)
{
    int32_t lanes[I8_LANES];
    i8_store(lanes, v);
    from = from > 0 ? from : 0;
    to = to < I8_LANES ? to : I8_LANES;
    if (from < to)
        memcpy(p + from, lanes + from, sizeof(int32_t) * (size_t)(to - from));
}
I8_INLINE i8_unit i8_load_bytes(const uint8_t *p, const int count) { return i8_load_first_bytes(p, count); }
/* 64 bytes, in stores of whole vectors: a load of a vector that waits for several stores waits until they are done. */
I8_INLINE void i8_store_units(void *p, const i8_unit units[4])
{
    I8_FOR(v, 2)
        i8_store((char *)p + 32 * v, _mm256_set_m128i(units[2 * v + 1], units[2 * v]));
}
I8_INLINE void i8_stream(void *p, i8_vec v) { _mm256_stream_si256((__m256i *)p, v); }

/* The dwords as s64, past the caches if `stream`. */
I8_INLINE void i8_store_s64(char *p, i8_vec v, const int stream)
{
    const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(v));
    const __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1));
    if (stream) {
        i8_stream(p, low);
        i8_stream(p + 32, high);
    } else {
        i8_store(p, low);
        i8_store(p + 32, high);
    }
}
I8_INLINE i8_vec i8_broadcast(const void *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}
I8_INLINE i8_vec i8_dot4_sat(i8_vec acc, i8_vec a, i8_vec b)
{
    const __m256i pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1));
    return _mm256_add_epi32(acc, pairs);
}
/* Both dots in s16 before they are added up. */
I8_INLINE i8_vec i8_dot8(i8_vec acc, i8_vec a, i8_vec b, i8_vec c, i8_vec d)
{
    const __m256i sums = _mm256_add_epi16(_mm256_maddubs_epi16(a, b), _mm256_maddubs_epi16(c, d));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
}
/* In s16, for as many as fit. */
I8_INLINE i8_vec i8_dot_16(i8_vec acc, i8_vec a, i8_vec b) { return _mm256_add_epi16(acc, _mm256_maddubs_epi16(a, b)); }
I8_INLINE i8_vec i8_dot2(i8_vec acc, i8_vec a, i8_vec b) { return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)); }
/* The same products, any two of which are added in a lane. */
#define i8_dot2_any i8_dot2

I8_INLINE i8_vec i8_xor(i8_vec x, i8_vec y) { return _mm256_xor_si256(x, y); }

/* See interleave.h. */
I8_INLINE i8_vec i8_low_8(i8_vec x, i8_vec y) { return _mm256_unpacklo_epi8(x, y); }
I8_INLINE i8_vec i8_high_8(i8_vec x, i8_vec y) { return _mm256_unpackhi_epi8(x, y); }
I8_INLINE i8_vec i8_low_16(i8_vec x, i8_vec y) { return _mm256_unpacklo_epi16(x, y); }
I8_INLINE i8_vec i8_high_16(i8_vec x, i8_vec y) { return _mm256_unpackhi_epi16(x, y); }
I8_INLINE i8_vec i8_low_32(i8_vec x, i8_vec y) { return _mm256_unpacklo_epi32(x, y); }
I8_INLINE i8_vec i8_high_32(i8_vec x, i8_vec y) { return _mm256_unpackhi_epi32(x, y); }
I8_INLINE i8_vec i8_low_64(i8_vec x, i8_vec y) { return _mm256_unpacklo_epi64(x, y); }
I8_INLINE i8_vec i8_high_64(i8_vec x, i8_vec y) { return _mm256_unpackhi_epi64(x, y); }
#include "isa/interleave.h"

/* acc + low + 16 * high for the first or the last 4 s16 of each 128-bit lane. */
I8_INLINE i8_vec i8_add_columns(i8_vec acc, i8_vec low, i8_vec high, const int half)
{
    const i8_vec both = i8_interleave_quad(low, high, half);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(both, _mm256_set1_epi32(16 << 16 | 1)));
}
I8_INLINE i8_vec i8_broadcast_16(const void *p)
{
    int16_t x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_epi16(x);
}

/* 4 vectors of 2 units of 128 bits as 2 panels of 4 units, transposed: unit l of vector q becomes unit q of panel l. */
I8_INLINE void i8_transpose_units(i8_vec *v)
{
    const __m256i lo01 = _mm256_permute2x128_si256(v[0], v[1], 0x20);
    const __m256i hi01 = _mm256_permute2x128_si256(v[0], v[1], 0x31);
    const __m256i lo23 = _mm256_permute2x128_si256(v[2], v[3], 0x20);
    const __m256i hi23 = _mm256_permute2x128_si256(v[2], v[3], 0x31);
    v[0] = lo01;
    v[1] = lo23;
    v[2] = hi01;
    v[3] = hi23;
}

/* Units of 128 bits that are `step` bytes apart. */
I8_INLINE i8_vec i8_load_units(const void *p, ptrdiff_t step)
{
    const __m128i low = _mm_loadu_si128((const __m128i *)p);
    const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)((const char *)p + step));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* The first `units` units of 128 bits of s32, `step` elements apart, stored or added to what is there. */
I8_INLINE void i8_add_units(int32_t *p, ptrdiff_t step, i8_vec x, const int units, int add)
{
    const __m128i unit[2] = {_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)};
    I8_FOR(u, 2) {
        __m128i *d = (__m128i *)(void *)(p + u * step);
        if (u < units)
            _mm_storeu_si128(d, add ? _mm_add_epi32(_mm_loadu_si128(d), unit[u]) : unit[u]);
    }
}

/* `bytes` bytes, 4 to 32, over and over; the same of which only the first `valid` are read, and the others are 0. */
I8_INLINE i8_vec i8_repeat(const void *p, const int bytes)
{
    if (bytes == 4)
        return i8_broadcast(p);
    if (bytes == 8) {
        int64_t x;
        memcpy(&x, p, sizeof x);
        return _mm256_set1_epi64x(x);
    }
    return bytes == 16 ? _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)) : i8_load(p);
}
I8_INLINE i8_vec i8_repeat_some(const void *p, const int bytes, int valid)
{
    uint8_t some[4 * I8_LANES] = {0};
    for (int i = 0; i < valid; ++i)
        some[i] = ((const uint8_t *)p)[i];
    return i8_repeat(some, bytes);
}

/* Sums of neighbouring lanes: in each 128 bits two of x, then two of y. Sums of neighbouring units of 128 bits: two of
 * x, then two of y. */
I8_INLINE i8_vec i8_fold_lanes(i8_vec x, i8_vec y) { return _mm256_hadd_epi32(x, y); }
I8_INLINE i8_vec i8_fold_units(i8_vec x, i8_vec y)
{
    return i8_add(_mm256_permute2x128_si256(x, y, 0x20), _mm256_permute2x128_si256(x, y, 0x31));
}
I8_INLINE i8_vec i8_permute(i8_vec v, const int32_t *order) { return _mm256_permutevar8x32_epi32(v, i8_load(order)); }

/* For I8_DOT2: bytes 0 and 1 of each dword as s16, or 2 and 3. */
I8_INLINE i8_vec i8_widen_pairs(i8_vec x, const int half)
{
    const __m128i first = _mm_setr_epi8(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13);
    const __m128i order = half ? _mm_add_epi8(first, _mm_set1_epi8(2)) : first;
    return _mm256_srai_epi16(_mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(order)), 8);
}
/* The 4 bytes at p as u16, over and over, and as many bytes as are half a vector as s16. */
I8_INLINE i8_vec i8_words_repeated(const void *p)
{
    return _mm256_unpacklo_epi8(i8_broadcast(p), i8_zero());
}
I8_INLINE i8_vec i8_words_s8(const void *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)); }
/* Sums of neighbouring lanes of x, then those of y. */
I8_INLINE i8_vec i8_add_neighbours(i8_vec x, i8_vec y)
{
    return _mm256_permute4x64_epi64(_mm256_hadd_epi32(x, y), 0xd8);
}

/* Every other byte as 16 bits. */
I8_INLINE i8_vec i8_even_u8(i8_vec x) { return _mm256_and_si256(x, _mm256_set1_epi16(0xff)); }
I8_INLINE i8_vec i8_odd_u8(i8_vec x) { return _mm256_srli_epi16(x, 8); }
I8_INLINE i8_vec i8_even_s8(i8_vec x) { return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8); }
I8_INLINE i8_vec i8_odd_s8(i8_vec x) { return _mm256_srai_epi16(x, 8); }

/* The two halves of every byte, u4 each. */
I8_INLINE i8_vec i8_low_halves(i8_vec x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
I8_INLINE i8_vec i8_high_halves(i8_vec x) { return i8_low_halves(_mm256_srli_epi16(x, 4)); }
/* acc + low + 16 * high, pairs of s16 added up. */
I8_INLINE i8_vec i8_add_halves(i8_vec acc, i8_vec low, i8_vec high)
{
    return i8_dot2(i8_dot2(acc, low, _mm256_set1_epi16(1)), high, _mm256_set1_epi16(16));
}

/* acc + the exact sums of four u8 * s8 products, without VNNI. */
I8_INLINE i8_vec i8_dot4_widening(i8_vec acc, i8_vec a, i8_vec b)
{
    const __m256i even = _mm256_madd_epi16(i8_even_u8(a), i8_even_s8(b));
    const __m256i odd = _mm256_madd_epi16(i8_odd_u8(a), i8_odd_s8(b));
    return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
}

/* A chunk of 16 f32, for the output stage of the quantized primitives. */
typedef struct {
    __m256 low, high;
} i8_floats;

I8_INLINE i8_floats i8_floats_load(const float *p)
{
    const i8_floats x = {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
    return x;
}
I8_INLINE i8_floats i8_floats_from(const int32_t *p)
{
    const i8_floats x = {_mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)),
                         _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p + 8)))};
    return x;
}
/* p - a * q, modulo 2**32. */
I8_INLINE __m256 i8_half_from_less(const int32_t *p, int32_t a, const int32_t *q)
{
    const __m256i x = _mm256_mullo_epi32(_mm256_set1_epi32(a), _mm256_loadu_si256((const __m256i *)(const void *)q));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p), x));
}
I8_INLINE i8_floats i8_floats_from_less(const int32_t *p, int32_t a, const int32_t *q)
{
    const i8_floats x = {i8_half_from_less(p, a, q), i8_half_from_less(p + 8, a, q + 8)};
    return x;
}
/* p - q, modulo 2**32. */
I8_INLINE __m256 i8_half_from_difference(const int32_t *p, const int32_t *q)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(x, _mm256_loadu_si256((const __m256i *)(const void *)q)));
}
I8_INLINE i8_floats i8_floats_from_difference(const int32_t *p, const int32_t *q)
{
    const i8_floats x = {i8_half_from_difference(p, q), i8_half_from_difference(p + 8, q + 8)};
    return x;
}
I8_INLINE void i8_floats_store(float *p, i8_floats x)
{
    _mm256_storeu_ps(p, x.low);
    _mm256_storeu_ps(p + 8, x.high);
}
I8_INLINE i8_floats i8_floats_set(float x)
{
    const i8_floats y = {_mm256_set1_ps(x), _mm256_set1_ps(x)};
    return y;
}
I8_INLINE i8_floats i8_floats_add(i8_floats x, i8_floats y)
{
    const i8_floats z = {_mm256_add_ps(x.low, y.low), _mm256_add_ps(x.high, y.high)};
    return z;
}
I8_INLINE i8_floats i8_floats_mul(i8_floats x, i8_floats y)
{
    const i8_floats z = {_mm256_mul_ps(x.low, y.low), _mm256_mul_ps(x.high, y.high)};
    return z;
}
I8_INLINE i8_floats i8_floats_min(i8_floats x, i8_floats y)
{
    const i8_floats z = {_mm256_min_ps(x.low, y.low), _mm256_min_ps(x.high, y.high)};
    return z;
}
I8_INLINE i8_floats i8_floats_max(i8_floats x, i8_floats y)
{
    const i8_floats z = {_mm256_max_ps(x.low, y.low), _mm256_max_ps(x.high, y.high)};
    return z;
}
/* Halves are added, the second to the first, until one element is left. */
I8_INLINE float i8_floats_sum(i8_floats x)
{
    const __m256 y = _mm256_add_ps(x.low, x.high);
    const __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    const __m128 w = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(w, _mm_movehdup_ps(w)));
}
/* The largest number, where none is NaN. */
I8_INLINE float i8_floats_top(i8_floats x)
{
    const __m256 y = _mm256_max_ps(x.low, x.high);
    const __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    const __m128 w = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(w, _mm_movehdup_ps(w)));
}
/* max(x, |y|) of the bits, so that infinities and NaN are larger than all numbers; x is not negative. */
I8_INLINE __m256 i8_half_largest(__m256 x, __m256 y)
{
    const __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(y), _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(x), magnitude));
}
I8_INLINE i8_floats i8_floats_largest(i8_floats x, i8_floats y)
{
    const i8_floats z = {i8_half_largest(x.low, y.low), i8_half_largest(x.high, y.high)};
    return z;
}
/* x < 0 ? 0 : x, as MAXPS gives its second operand for a NaN, and for zeros of either sign. */
I8_INLINE i8_floats i8_floats_relu(i8_floats x)
{
    const i8_floats y = {_mm256_max_ps(_mm256_setzero_ps(), x.low), _mm256_max_ps(_mm256_setzero_ps(), x.high)};
    return y;
}
/* 0 for NaN. */
I8_INLINE i8_floats i8_floats_ordered(i8_floats x)
{
    const i8_floats y = {_mm256_and_ps(x.low, _mm256_cmp_ps(x.low, x.low, _CMP_ORD_Q)),
                         _mm256_and_ps(x.high, _mm256_cmp_ps(x.high, x.high, _CMP_ORD_Q))};
    return y;
}
/* Saturated to [low, high] within u8 or s8, half to even. Packing keeps to 128-bit lanes: 0 to 3 and 8 to 11 are
 * followed by 4 to 7 and 12 to 15. */
I8_INLINE void i8_floats_store_bytes(uint8_t *p, i8_floats x, float low, float high, int is_signed)
{
    const __m256 lower = _mm256_set1_ps(low), upper = _mm256_set1_ps(high);
    const __m256i a = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(x.low, lower), upper));
    const __m256i b = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(x.high, lower), upper));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    const __m128i first = _mm256_castsi256_si128(words), second = _mm256_extracti128_si256(words, 1);
    _mm_storeu_si128((__m128i *)(void *)p,
                     is_signed ? _mm_packs_epi16(first, second) : _mm_packus_epi16(first, second));
}
/* Half to even, where that is known to be in the range of s8; XORed with flip. */
I8_INLINE void i8_floats_store_rounded(uint8_t *p, i8_floats x, uint8_t flip)
{
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128((__m128i *)(void *)p, _mm_xor_si128(bytes, _mm_set1_epi8((char)flip)));
}

/* For quantize_body.h: f32, rounded to s32 half to even, and bytes widened to s32. */
typedef __m256 i8_f32;

I8_INLINE i8_vec i8_sub(i8_vec x, i8_vec y) { return _mm256_sub_epi32(x, y); }
I8_INLINE i8_vec i8_mul_s32(i8_vec x, i8_vec y) { return _mm256_mullo_epi32(x, y); } /* modulo 2**32 */
I8_INLINE i8_f32 i8_load_f32(const void *p) { return _mm256_castsi256_ps(i8_load(p)); }
I8_INLINE void i8_store_f32(void *p, i8_f32 x) { i8_store(p, _mm256_castps_si256(x)); }
I8_INLINE i8_f32 i8_add_f32(i8_f32 x, i8_f32 y) { return _mm256_add_ps(x, y); }
I8_INLINE i8_f32 i8_mul_f32(i8_f32 x, i8_f32 y) { return _mm256_mul_ps(x, y); }
I8_INLINE i8_f32 i8_fma_f32(i8_f32 x, i8_f32 y, i8_f32 z) { return _mm256_fmadd_ps(x, y, z); }
I8_INLINE i8_f32 i8_div_f32(i8_f32 x, i8_f32 y) { return _mm256_div_ps(x, y); }
I8_INLINE i8_f32 i8_set_f32(float x) { return _mm256_set1_ps(x); }
/* y where either is NaN or both are zeros, as MAXPS has it. */
I8_INLINE i8_f32 i8_max_f32(i8_f32 x, i8_f32 y) { return _mm256_max_ps(x, y); }
I8_INLINE i8_f32 i8_min_f32(i8_f32 x, i8_f32 y) { return _mm256_min_ps(x, y); }
I8_INLINE i8_f32 i8_to_f32(i8_vec x) { return _mm256_cvtepi32_ps(x); }
/* Half to even and saturated; x is not NaN. Beyond the range the conversion gives -2**31. */
I8_INLINE i8_vec i8_to_s32(i8_f32 x)
{
    const __m256i beyond = _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_set1_ps(2147483648.0f), _CMP_GE_OQ));
    return _mm256_blendv_epi8(_mm256_cvtps_epi32(x), _mm256_set1_epi32(INT32_MAX), beyond);
}
/* x - y, which f64 holds, rounded once. */
I8_INLINE __m128 i8_half_difference(__m128i x, __m128i y)
{
    return _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_cvtepi32_pd(x), _mm256_cvtepi32_pd(y)));
}
I8_INLINE i8_f32 i8_difference_f32(i8_vec x, i8_vec y)
{
    const __m128 low = i8_half_difference(_mm256_castsi256_si128(x), _mm256_castsi256_si128(y));
    const __m128 high = i8_half_difference(_mm256_extracti128_si256(x, 1), _mm256_extracti128_si256(y, 1));
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}
I8_INLINE i8_vec i8_round(i8_f32 x, float low, float high)
{
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(low)), _mm256_set1_ps(high)));
}
/* Lanes of s32. A comparison sets all bits of a lane, by which i8_where takes x, else y. Shifts are by up to 31 bits,
 * to the right of the sign too. */
I8_INLINE i8_vec i8_set_32(int32_t x) { return _mm256_set1_epi32(x); }
I8_INLINE i8_vec i8_min_s32(i8_vec x, i8_vec y) { return _mm256_min_epi32(x, y); }
I8_INLINE i8_vec i8_max_s32(i8_vec x, i8_vec y) { return _mm256_max_epi32(x, y); }
I8_INLINE i8_vec i8_equal(i8_vec x, i8_vec y) { return _mm256_cmpeq_epi32(x, y); }
I8_INLINE i8_vec i8_greater(i8_vec x, i8_vec y) { return _mm256_cmpgt_epi32(x, y); }
I8_INLINE i8_vec i8_where(i8_vec bits, i8_vec x, i8_vec y) { return _mm256_blendv_epi8(y, x, bits); }
I8_INLINE i8_vec i8_shift_left(i8_vec x, i8_vec n) { return _mm256_sllv_epi32(x, n); }
I8_INLINE i8_vec i8_shift_right(i8_vec x, i8_vec n) { return _mm256_srav_epi32(x, n); }
/* The low 32 bits of floor(x * y / 2**31 + 1/2). */
I8_INLINE i8_vec i8_high_product(i8_vec x, i8_vec y)
{
    const __m256i half = _mm256_set1_epi64x(1 << 30);
    const __m256i x_odd = _mm256_srli_epi64(x, 32), y_odd = _mm256_srli_epi64(y, 32);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(x, y), half);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(x_odd, y_odd), half);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xaa);
}
/* sat_s32(floor(x * y * 2**left / 2**right + 1/2)), where 64 bits are enough; of every other lane, and of all. */
I8_INLINE __m256i i8_even_scaled(__m256i x, __m256i y, __m256i left, __m256i right)
{
    const __m256i bias = _mm256_set1_epi64x(INT64_MIN), low = _mm256_set1_epi64x(INT32_MIN);
    const __m256i high = _mm256_set1_epi64x(INT32_MAX), all = _mm256_set1_epi64x(UINT32_MAX);
    left = _mm256_and_si256(left, all);
    right = _mm256_and_si256(right, all);
    const __m256i half = _mm256_srli_epi64(_mm256_sllv_epi64(_mm256_set1_epi64x(1), right), 1);
    const __m256i product = _mm256_sllv_epi64(_mm256_mul_epi32(x, y), left);
    /* The arithmetic shift, which AVX2 does not have for 64 bits, is a logical one of biased values. */
    const __m256i biased = _mm256_srlv_epi64(_mm256_add_epi64(product, _mm256_add_epi64(half, bias)), right);
    __m256i z = _mm256_sub_epi64(biased, _mm256_srlv_epi64(bias, right));
    z = _mm256_blendv_epi8(z, high, _mm256_cmpgt_epi64(z, high));
    return _mm256_blendv_epi8(z, low, _mm256_cmpgt_epi64(low, z));
}
I8_INLINE i8_vec i8_scaled_product(i8_vec x, i8_vec y, i8_vec left, i8_vec right)
{
    const __m256i even = i8_even_scaled(x, y, left, right);
    const __m256i odd = i8_even_scaled(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32), _mm256_srli_epi64(left, 32),
                                       _mm256_srli_epi64(right, 32));
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
/* z where x is NaN, else y. */
I8_INLINE i8_vec i8_replace_nan(i8_f32 x, i8_vec y, i8_vec z)
{
    return _mm256_blendv_epi8(y, z, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
/* The low bytes of I8_LANES values, which are in the range of the type. */
I8_INLINE void i8_store_u8(void *p, i8_vec x)
{
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}
I8_INLINE void i8_store_s8(void *p, i8_vec x)
{
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(words, words));
}
/* Bytes of I8_LANES numbers, half to even, not below `low`, which is in the type, nor above it. */
I8_INLINE void i8_store_bounded(void *p, i8_f32 x, i8_f32 low, const int is_signed)
{
    x = _mm256_min_ps(_mm256_max_ps(x, low), i8_set_f32(is_signed ? 127.0f : 255.0f));
    if (is_signed)
        i8_store_s8(p, _mm256_cvtps_epi32(x));
    else
        i8_store_u8(p, _mm256_cvtps_epi32(x));
}
I8_INLINE i8_vec i8_load_u8(const void *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
I8_INLINE i8_vec i8_load_s8(const void *p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)); }

/* For pool_body.h: bytes; I8_WORDS bytes widened to 16 bits; half a vector of 16-bit elements widened to s32. */
I8_INLINE i8_vec i8_max_u8(i8_vec x, i8_vec y) { return _mm256_max_epu8(x, y); }
I8_INLINE i8_vec i8_max_s8(i8_vec x, i8_vec y) { return _mm256_max_epi8(x, y); }
I8_INLINE i8_vec i8_add_16(i8_vec x, i8_vec y) { return _mm256_add_epi16(x, y); }
I8_INLINE i8_vec i8_sub_16(i8_vec x, i8_vec y) { return _mm256_sub_epi16(x, y); }
I8_INLINE i8_vec i8_words_u8(const void *p) { return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p)); }
I8_INLINE __m128i i8_half_of(i8_vec x, const int half)
{
    return half ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x);
}
I8_INLINE i8_vec i8_widen_u16(i8_vec x, const int half) { return _mm256_cvtepu16_epi32(i8_half_of(x, half)); }
I8_INLINE i8_vec i8_widen_s16(i8_vec x, const int half) { return _mm256_cvtepi16_epi32(i8_half_of(x, half)); }
I8_INLINE i8_vec i8_and(i8_vec x, i8_vec y) { return _mm256_and_si256(x, y); }
I8_INLINE i8_vec i8_set_16(int x) { return _mm256_set1_epi16((short)x); }
I8_INLINE i8_vec i8_mul_high_16(i8_vec x, i8_vec y) { return _mm256_mulhi_epu16(x, y); }
/* 0 from n = 16 on. */
I8_INLINE i8_vec i8_shift_right_16(i8_vec x, int n) { return _mm256_srl_epi16(x, _mm_cvtsi32_si128(n)); }
/* The low bytes of 16-bit elements of at most 255. */
I8_INLINE void i8_store_low_bytes(void *p, i8_vec x)
{
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}

/* For normalize_body.h: 16 integers minus `largest`, which none exceeds, as f32; 0, not -0. The difference has 32
 * bits, whose halves are exact as f32, so that their sum is rounded once. */
I8_INLINE i8_f32 i8_half_minus(const int32_t *p, int32_t largest)
{
    const i8_vec x = i8_sub(_mm256_set1_epi32(largest), i8_load(p));
    const i8_f32 high = i8_to_f32(_mm256_srli_epi32(x, 16));
    const i8_f32 low = i8_to_f32(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)));
    return _mm256_sub_ps(_mm256_setzero_ps(), i8_add_f32(i8_mul_f32(high, i8_set_f32(65536)), low));
}
I8_INLINE i8_floats i8_floats_minus(const int32_t *p, int32_t largest)
{
    const i8_floats x = {i8_half_minus(p, largest), i8_half_minus(p + 8, largest)};
    return x;
}
/* For fused_body.h: 16 bytes as f32. */
I8_INLINE i8_floats i8_floats_from_u8(const uint8_t *p)
{
    const i8_floats x = {i8_to_f32(i8_load_u8(p)), i8_to_f32(i8_load_u8(p + 8))};
    return x;
}
I8_INLINE i8_floats i8_floats_from_s8(const int8_t *p)
{
    const i8_floats x = {i8_to_f32(i8_load_s8(p)), i8_to_f32(i8_load_s8(p + 8))};
    return x;
}
/* 16 f16 or bf16 as f32, unaligned; of bf16 these are the upper halves. */
I8_INLINE i8_floats i8_floats_from_f16(const char *p)
{
    const i8_floats x = {_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
                         _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 16)))};
    return x;
}
I8_INLINE i8_floats i8_floats_from_bf16(const char *p)
{
    const __m256i y = _mm256_loadu_si256((const void *)p), zero = _mm256_setzero_si256();
    const __m256i low = _mm256_unpacklo_epi16(zero, y), high = _mm256_unpackhi_epi16(zero, y);
    const i8_floats x = {_mm256_castsi256_ps(_mm256_permute2x128_si256(low, high, 0x20)),
                         _mm256_castsi256_ps(_mm256_permute2x128_si256(low, high, 0x31))};
    return x;
}
/* And back, half to even. A NaN keeps its sign alone. */
I8_INLINE __m256 i8_half_with_plain_nan(__m256 x)
{
    const __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    const __m256 nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
    return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
I8_INLINE __m256i i8_half_to_bf16(__m256 x)
{
    const __m256i bits = _mm256_castps_si256(i8_half_with_plain_nan(x));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}
I8_INLINE void i8_floats_store_f16(char *p, i8_floats x)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(i8_half_with_plain_nan(x.low), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((void *)(p + 16), _mm256_cvtps_ph(i8_half_with_plain_nan(x.high), _MM_FROUND_TO_NEAREST_INT));
}
I8_INLINE void i8_floats_store_bf16(char *p, i8_floats x)
{
    const __m256i halves = _mm256_packus_epi32(i8_half_to_bf16(x.low), i8_half_to_bf16(x.high));
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(halves, 0xd8));
}
I8_INLINE void i8_floats_store_s32(char *p, i8_floats x)
{
    i8_store(p, i8_to_s32(x.low));
    i8_store(p + 32, i8_to_s32(x.high));
}
I8_INLINE i8_f32 i8_as_f32(i8_vec x) { return _mm256_castsi256_ps(x); }
I8_INLINE i8_f32 i8_sub_f32(i8_f32 x, i8_f32 y) { return _mm256_sub_ps(x, y); }
/* Half to even, where that is known to be in the range of s32. */
I8_INLINE i8_vec i8_round_within_s32(i8_f32 x) { return _mm256_cvtps_epi32(x); }
/* 4 vectors of s32, saturated, as bytes in the order that i8_interleave had them in. */
I8_INLINE i8_vec i8_pack_u8(const i8_vec *v)
{
    return _mm256_packus_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
}
I8_INLINE i8_vec i8_pack_s8(const i8_vec *v)
{
    return _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
}
I8_INLINE i8_vec i8_set_8(int x) { return _mm256_set1_epi8((char)x); }
/* Of each 128 bits of `table`, the byte that the byte of `index`, below 16, says. */
I8_INLINE i8_vec i8_shuffle(i8_vec table, i8_vec index) { return _mm256_shuffle_epi8(table, index); }
/* One bit of every byte, moved to its top, and y where it is set, else x. */
typedef __m256i i8_bits;
I8_INLINE i8_bits i8_bits_of_bytes(i8_vec x, const int bit) { return _mm256_slli_epi16(x, 7 - bit); }
I8_INLINE i8_vec i8_choose(i8_bits bits, i8_vec x, i8_vec y) { return _mm256_blendv_epi8(x, y, bits); }
#endif
