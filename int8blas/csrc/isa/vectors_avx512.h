/* i8_vec for AVX-512, with 16 lanes and 32 registers. A tile of 8 x 48 takes 28 registers: 24 accumulators, 3 vectors
 * of B and 1 broadcast of A. Two-step dot products take 2 more registers, for a product and a vector of ones.
 * vectors_avx2.h describes the functions that have no comment here. */
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
typedef __m512 i8_f32;
typedef __m256i i8_half;
typedef __m256 i8_half_f32;
typedef __m512d i8_f64;

/* vectors_x86.h uses the following names. */
#define I8_MM(name) _mm512_##name
#define I8_SI(name) _mm512_##name##_si512
I8_INLINE i8_half i8_half_of(i8_vec x, const int half)
{
    return half ? _mm512_extracti64x4_epi64(x, 1) : _mm512_castsi512_si256(x);
}
I8_INLINE i8_half i8_load_half(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
I8_INLINE void i8_store_half(void *p, i8_half x) { _mm256_storeu_si256((__m256i *)p, x); }
I8_INLINE i8_half i8_add_half(i8_half x, int32_t y) { return _mm256_add_epi32(x, _mm256_set1_epi32(y)); }
I8_INLINE int i8_any_differ(i8_f64 x, i8_f64 y) { return _mm512_cmp_pd_mask(x, y, _CMP_NEQ_UQ); }
I8_INLINE i8_f32 i8_join_f32(i8_half_f32 low, i8_half_f32 high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
I8_INLINE i8_vec i8_repeat_unit(i8_unit x) { return _mm512_broadcast_i32x4(x); }
I8_INLINE i8_vec i8_set_64(int64_t x) { return _mm512_set1_epi64(x); }
I8_INLINE i8_vec i8_take_odd(i8_vec even, i8_vec odd) { return _mm512_mask_blend_epi32(0xaaaa, even, odd); }
I8_INLINE i8_vec i8_shift_right_64(i8_vec x, i8_vec n) { return _mm512_srav_epi64(x, n); }
I8_INLINE i8_vec i8_saturate_64(i8_vec x)
{
    return _mm512_max_epi64(_mm512_min_epi64(x, _mm512_set1_epi64(INT32_MAX)), _mm512_set1_epi64(INT32_MIN));
}
#include "isa/vectors_x86.h"

I8_INLINE void i8_store_some(int32_t *p, i8_vec v, int n)
{
    /* A load waits for an earlier masked store if the low 12 bits of their addresses are equal. The wait takes as long
     * as a very small product, so widths of 4 and 8 are stored without a mask. */
    if (n == 4)
        _mm_storeu_si128((__m128i *)(void *)p, _mm512_castsi512_si128(v));
    else if (n == 8)
        _mm256_storeu_si256((__m256i *)(void *)p, _mm512_castsi512_si256(v));
    else if (n >= I8_LANES)
        i8_store(p, v);
    else if (n > 0)
        _mm512_mask_storeu_epi32(p, (__mmask16)((1u << n) - 1), v);
}
I8_INLINE void i8_store_lanes(int32_t *p, i8_vec v, int from, int to)
{
    const uint32_t low = from > 0 ? (1u << from) - 1 : 0, all = to < I8_LANES ? (1u << to) - 1 : 0xffff;
    _mm512_mask_storeu_epi32(p, (__mmask16)(all & ~low), v);
}
/* Load `count` bytes, 1 to 16, and set the other bytes of the unit to 0. Read only `count` bytes. */
I8_INLINE i8_unit i8_load_bytes(const uint8_t *p, const int count)
{
    return _mm_maskz_loadu_epi8((__mmask16)(0xffff >> (16 - count)), p);
}
I8_INLINE void i8_store_units(void *p, const i8_unit units[4])
{
    const __m256i low = _mm256_set_m128i(units[1], units[0]), high = _mm256_set_m128i(units[3], units[2]);
    i8_store(p, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
}

/* Transpose 4 vectors of 4 units of 128 bits: unit q of vector p becomes unit p of vector q. */
I8_INLINE void i8_transpose_units(i8_vec *v)
{
    const __m512i lo01 = _mm512_shuffle_i32x4(v[0], v[1], 0x44), hi01 = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
    const __m512i lo23 = _mm512_shuffle_i32x4(v[2], v[3], 0x44), hi23 = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
    v[0] = _mm512_shuffle_i32x4(lo01, lo23, 0x88);
    v[1] = _mm512_shuffle_i32x4(lo01, lo23, 0xdd);
    v[2] = _mm512_shuffle_i32x4(hi01, hi23, 0x88);
    v[3] = _mm512_shuffle_i32x4(hi01, hi23, 0xdd);
}

I8_INLINE i8_vec i8_load_units(const void *p, ptrdiff_t step)
{
    const char *q = p;
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)q));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(q + step)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(q + 2 * step)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(q + 3 * step)), 3);
}

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

/* i8_repeat repeats `bytes` bytes, 4 to 64, over a vector. i8_repeat_some reads only the first `valid` of these bytes,
 * and sets the other bytes to 0. */
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
    if (bytes == 8)
        return i8_broadcast_64(p);
    if (bytes == 16)
        return i8_repeat_unit(i8_load_unit(p));
    return bytes == 32 ? _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p)) : i8_load(p);
}
I8_INLINE i8_vec i8_repeat_some(const void *p, const int bytes, int valid)
{
    return i8_repeat_first(_mm512_maskz_loadu_epi8(~(__mmask64)0 >> (64 - valid), p), bytes);
}

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
/* Put packed bytes of four vectors in the order of the vectors. */
I8_INLINE i8_vec i8_in_order(i8_vec x)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
}
I8_INLINE int i8_any_equal_16(i8_vec x, i8_vec y) { return _mm512_cmpeq_epi16_mask(x, y) != 0; }
I8_INLINE i8_vec i8_take(i8_vec v, i8_vec index) { return _mm512_permutexvar_epi32(index, v); }
I8_INLINE i8_vec i8_permute(i8_vec v, const int32_t *order) { return i8_take(v, i8_load(order)); }

I8_INLINE i8_vec i8_add_neighbours(i8_vec x, i8_vec y)
{
    const i8_vec order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm512_permutexvar_epi64(order, i8_fold_lanes(x, y));
}

/* A chunk of 16 f32, for the epilogue of the quantized primitives, is one vector. */
typedef i8_f32 i8_floats;
#define i8_floats_load i8_load_f32
#define i8_floats_store i8_store_f32
#define i8_floats_set i8_set_f32
#define i8_floats_add i8_add_f32
#define i8_floats_sub i8_sub_f32
#define i8_floats_mul i8_mul_f32
#define i8_floats_less_product i8_less_product_f32
#define i8_floats_min i8_min_f32
#define i8_floats_max i8_max_f32
#define I8_FLOATS_PIN I8_PIN
/* Load `count` numbers, less than 16, and set the other lanes to 0. */
I8_INLINE i8_floats i8_floats_load_some(const float *p, int count)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
}
I8_INLINE i8_floats i8_floats_from(const int32_t *p) { return i8_to_f32(i8_load(p)); }
/* Return p - a * q modulo 2**32 as f32. */
I8_INLINE i8_floats i8_floats_from_less(const int32_t *p, int32_t a, const int32_t *q)
{
    return i8_to_f32(i8_sub(i8_load(p), i8_mul_s32(i8_set_32(a), i8_load(q))));
}
/* Return p - q modulo 2**32 as f32. */
I8_INLINE i8_floats i8_floats_from_difference(const int32_t *p, const int32_t *q)
{
    return i8_to_f32(i8_sub(i8_load(p), i8_load(q)));
}
/* Return the sum of x: add the second half to the first half until one element is left. */
I8_INLINE float i8_floats_sum(i8_floats x)
{
    return i8_half_sum(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}
/* Return the largest element of x, which has no NaN. */
I8_INLINE float i8_floats_top(i8_floats x)
{
    return i8_half_top(_mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}
/* Return max(x, |y|), compared as integers, so that infinities and NaN are larger than all numbers. x is not
 * negative. */
I8_INLINE i8_floats i8_floats_largest(i8_floats x, i8_floats y)
{
    const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(y), _mm512_set1_epi32(0x7fffffff));
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(x), magnitude));
}
/* Return the largest lane of a result of i8_floats_largest. */
I8_INLINE float i8_floats_top_magnitude(i8_floats x)
{
    const __m512i bits = _mm512_castps_si512(x);
    return i8_half_top_magnitude(_mm256_max_epi32(i8_half_of(bits, 0), i8_half_of(bits, 1)));
}
I8_INLINE void i8_floats_store_rounded(uint8_t *p, i8_floats x, uint8_t flip)
{
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm_xor_si128(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)), _mm_set1_epi8((char)flip)));
}
/* Return x < 0 ? 0 : x. MAXPS returns its second operand if an operand is NaN, and if both are zeros of any sign. */
I8_INLINE i8_floats i8_floats_relu(i8_floats x) { return _mm512_max_ps(_mm512_setzero_ps(), x); }
/* Replace NaN by 0. */
I8_INLINE i8_floats i8_floats_ordered(i8_floats x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x);
}
/* Round half to even and saturate to [low, high], which is within u8 or s8. */
I8_INLINE void i8_floats_store_bytes(uint8_t *p, i8_floats x, float low, float high, int is_signed)
{
    (void)is_signed;
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(i8_round(x, low, high)));
}

/* Round I8_LANES numbers half to even, saturate them to [low, largest of the type] and store them as bytes. The
 * conversion turns numbers from 2**31 on into 0x80000000. Saturating 0x80000000 to u8 gives 255, but saturating it to
 * s8 would give -128. */
I8_INLINE void i8_store_bounded(void *p, i8_f32 x, i8_f32 low, const int is_signed)
{
    x = _mm512_max_ps(x, low);
    if (is_signed)
        _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_min_ps(x, i8_set_f32(127)))));
    else
        _mm_storeu_si128((__m128i *)p, _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(x)));
}
I8_INLINE i8_vec i8_to_s32(i8_f32 x)
{
    const __mmask16 beyond = _mm512_cmp_ps_mask(x, _mm512_set1_ps(2147483648.0f), _CMP_GE_OQ);
    return _mm512_mask_mov_epi32(_mm512_cvtps_epi32(x), beyond, _mm512_set1_epi32(INT32_MAX));
}
I8_INLINE i8_vec i8_equal(i8_vec x, i8_vec y) { return _mm512_movm_epi32(_mm512_cmpeq_epi32_mask(x, y)); }
I8_INLINE i8_vec i8_greater(i8_vec x, i8_vec y) { return _mm512_movm_epi32(_mm512_cmpgt_epi32_mask(x, y)); }
I8_INLINE i8_vec i8_where(i8_vec bits, i8_vec x, i8_vec y) { return _mm512_ternarylogic_epi32(bits, x, y, 0xca); }
I8_INLINE i8_vec i8_replace_nan(i8_f32 x, i8_vec y, i8_vec z)
{
    return _mm512_mask_mov_epi32(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), z);
}
I8_INLINE void i8_store_u8(void *p, i8_vec x) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x)); }
I8_INLINE void i8_store_s8(void *p, i8_vec x) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x)); }
I8_INLINE i8_vec i8_load_u8(const void *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
I8_INLINE i8_vec i8_load_s8(const void *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }

I8_INLINE void i8_store_low_bytes(void *p, i8_vec x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi16_epi8(x));
}

/* Load 16 bytes as f32. */
I8_INLINE i8_floats i8_floats_from_u8(const uint8_t *p) { return i8_to_f32(i8_load_u8(p)); }
I8_INLINE i8_floats i8_floats_from_s8(const int8_t *p) { return i8_to_f32(i8_load_s8(p)); }
/* Load 16 f16 or bf16 as f32. The numbers may be unaligned. */
I8_INLINE i8_floats i8_floats_from_f16(const char *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
I8_INLINE i8_floats i8_floats_from_bf16(const char *p)
{
    const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
/* Store f16 or bf16, rounded half to even. A NaN keeps only its sign. */
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
/* An i8_bits has bit `bit` of every byte. i8_choose selects y for bytes whose bit is set, and x for other bytes. */
typedef __mmask64 i8_bits;
I8_INLINE i8_bits i8_bits_of_bytes(i8_vec x, const int bit) { return _mm512_test_epi8_mask(x, i8_set_8(1 << bit)); }
I8_INLINE i8_vec i8_choose(i8_bits bits, i8_vec x, i8_vec y) { return _mm512_mask_blend_epi8(bits, x, y); }
/* Return 16 integers minus `largest` as f32, for normalize_body.h. No integer exceeds `largest`. A difference of 0 is
 * stored as +0. */
I8_INLINE i8_floats i8_floats_minus(const int32_t *p, int32_t largest)
{
    return _mm512_sub_ps(_mm512_setzero_ps(), _mm512_cvtepu32_ps(i8_sub(_mm512_set1_epi32(largest), i8_load(p))));
}
/* Return the f32 whose exponent bits are the low bits of x. */
I8_INLINE i8_floats i8_floats_power_of_two(i8_floats x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23));
}
/* Return x < limit ? 0 : y. */
I8_INLINE i8_floats i8_floats_unless_below(i8_floats x, i8_floats limit, i8_floats y)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), y);
}
#endif
