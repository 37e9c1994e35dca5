/* i8_vec for the instruction sets of 256 bits, with 8 lanes and 16 registers. A panel is 2 vectors. A tile of 6 x 16
 * takes 16 registers: 12 accumulators, 2 vectors of B, 1 broadcast of A and 1 product. The vector of ones for two-step
 * dot products stays in memory. */
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
typedef __m256 i8_f32;
typedef __m128i i8_half;
typedef __m128 i8_half_f32;
typedef __m256d i8_f64;

/* vectors_x86.h uses the following names. */
#define I8_MM(name) _mm256_##name
#define I8_SI(name) _mm256_##name##_si256
I8_INLINE i8_half i8_half_of(i8_vec x, const int half)
{
    return half ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x);
}
I8_INLINE i8_half i8_load_half(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
I8_INLINE void i8_store_half(void *p, i8_half x) { _mm_storeu_si128((__m128i *)p, x); }
I8_INLINE i8_half i8_add_half(i8_half x, int32_t y) { return _mm_add_epi32(x, _mm_set1_epi32(y)); }
I8_INLINE int i8_any_differ(i8_f64 x, i8_f64 y) { return _mm256_movemask_pd(_mm256_cmp_pd(x, y, _CMP_NEQ_UQ)); }
I8_INLINE i8_f32 i8_join_f32(i8_half_f32 low, i8_half_f32 high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}
I8_INLINE i8_vec i8_repeat_unit(i8_unit x) { return _mm256_broadcastsi128_si256(x); }
I8_INLINE i8_vec i8_set_64(int64_t x) { return _mm256_set1_epi64x(x); }
I8_INLINE i8_vec i8_take_odd(i8_vec even, i8_vec odd) { return _mm256_blend_epi32(even, odd, 0xaa); }
/* AVX2 has no arithmetic shift for 64 bits, so shift biased values logically. */
I8_INLINE i8_vec i8_shift_right_64(i8_vec x, i8_vec n)
{
    const __m256i bias = _mm256_set1_epi64x(INT64_MIN);
    return _mm256_sub_epi64(_mm256_srlv_epi64(_mm256_add_epi64(x, bias), n), _mm256_srlv_epi64(bias, n));
}
I8_INLINE i8_vec i8_saturate_64(i8_vec x)
{
    const __m256i low = _mm256_set1_epi64x(INT32_MIN), high = _mm256_set1_epi64x(INT32_MAX);
    x = _mm256_blendv_epi8(x, high, _mm256_cmpgt_epi64(x, high));
    return _mm256_blendv_epi8(x, low, _mm256_cmpgt_epi64(low, x));
}
#include "isa/vectors_x86.h"

I8_INLINE void i8_store_some(int32_t *p, i8_vec v, int n)
{
    /* VPMASKMOVD stores are slow on some CPUs, so copy rare widths through memory. */
    int32_t lanes[I8_LANES];
    if (n >= I8_LANES)
        i8_store(p, v);
    else if (n == 4)
        _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(v));
    else if (n > 0) {
        i8_store(lanes, v);
        memcpy(p, lanes, sizeof(int32_t) * (size_t)n);
    }
}
/* Store the lanes [from, to); `from` and `to` may lie outside the vector. */
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
/* Store 64 bytes as whole vectors: a CPU does not forward several smaller stores to a later load of a vector. */
I8_INLINE void i8_store_units(void *p, const i8_unit units[4])
{
    I8_FOR(v, 2)
        i8_store((char *)p + 32 * v, _mm256_set_m128i(units[2 * v + 1], units[2 * v]));
}

/* Transpose 4 vectors of 2 units of 128 bits to 2 panels of 4 units: unit l of vector q becomes unit q of panel l. */
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

/* Load units of 128 bits that are `step` bytes apart. */
I8_INLINE i8_vec i8_load_units(const void *p, ptrdiff_t step)
{
    const __m128i low = _mm_loadu_si128((const __m128i *)p);
    const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)((const char *)p + step));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* Store the first `units` units of 128 bits of s32, `step` elements apart. If `add` is 1, add the units to stored
 * elements. */
I8_INLINE void i8_add_units(int32_t *p, ptrdiff_t step, i8_vec x, const int units, int add)
{
    const __m128i unit[2] = {_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)};
    I8_FOR(u, 2) {
        __m128i *d = (__m128i *)(void *)(p + u * step);
        if (u < units)
            _mm_storeu_si128(d, add ? _mm_add_epi32(_mm_loadu_si128(d), unit[u]) : unit[u]);
    }
}

/* i8_repeat repeats `bytes` bytes, 4 to 32, over a vector. i8_repeat_some reads only the first `valid` of these bytes,
 * and sets the other bytes to 0. */
I8_INLINE i8_vec i8_repeat(const void *p, const int bytes)
{
    if (bytes == 4)
        return i8_broadcast(p);
    if (bytes == 8)
        return i8_broadcast_64(p);
    return bytes == 16 ? i8_repeat_unit(i8_load_unit(p)) : i8_load(p);
}
I8_INLINE i8_vec i8_repeat_some(const void *p, const int bytes, int valid)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), whole = _mm256_set1_epi32(valid / 4);
    const uint8_t *end = (const uint8_t *)p + valid;
    uint32_t rest = 0; /* the bytes after the last whole dword */
    /* VPMASKMOVD does not read masked dwords. */
    __m256i v = _mm256_maskload_epi32((const int *)p, _mm256_cmpgt_epi32(whole, lanes));
    if (valid >= 4 && valid % 4) {
        memcpy(&rest, end - 4, 4);
        rest >>= 8 * (4 - valid % 4);
    } else {
        for (int i = valid % 4; i > 0; --i)
            rest = rest << 8 | end[i - 1 - valid % 4];
    }
    v = _mm256_blendv_epi8(v, _mm256_set1_epi32((int)rest), _mm256_cmpeq_epi32(whole, lanes));
    if (bytes == 4)
        return _mm256_broadcastd_epi32(_mm256_castsi256_si128(v));
    if (bytes == 8)
        return _mm256_broadcastq_epi64(_mm256_castsi256_si128(v));
    return bytes == 16 ? _mm256_broadcastsi128_si256(_mm256_castsi256_si128(v)) : v;
}

/* i8_fold_lanes adds neighbouring lanes: each 128 bits get two sums of x, then two sums of y. i8_fold_units adds
 * neighbouring units of 128 bits, and returns the sums of x, then the sums of y. */
I8_INLINE i8_vec i8_fold_lanes(i8_vec x, i8_vec y) { return _mm256_hadd_epi32(x, y); }
I8_INLINE i8_vec i8_fold_units(i8_vec x, i8_vec y)
{
    return i8_add(_mm256_permute2x128_si256(x, y, 0x20), _mm256_permute2x128_si256(x, y, 0x31));
}
I8_INLINE i8_vec i8_in_order(i8_vec x)
{
    return _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
I8_INLINE int i8_any_equal_16(i8_vec x, i8_vec y) { return _mm256_movemask_epi8(_mm256_cmpeq_epi16(x, y)) != 0; }
/* i8_take sets lane i of the result to lane index[i] of v, and i8_permute to lane order[i] of v. */
I8_INLINE i8_vec i8_take(i8_vec v, i8_vec index) { return _mm256_permutevar8x32_epi32(v, index); }
I8_INLINE i8_vec i8_permute(i8_vec v, const int32_t *order) { return i8_take(v, i8_load(order)); }

/* Add neighbouring lanes: return the sums of x, then the sums of y. */
I8_INLINE i8_vec i8_add_neighbours(i8_vec x, i8_vec y)
{
    return _mm256_permute4x64_epi64(_mm256_hadd_epi32(x, y), 0xd8);
}

/* Round half to even and saturate. x is not NaN. The conversion alone would turn numbers out of range into -2**31. */
I8_INLINE i8_vec i8_to_s32(i8_f32 x)
{
    const __m256i beyond = _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_set1_ps(2147483648.0f), _CMP_GE_OQ));
    return _mm256_blendv_epi8(_mm256_cvtps_epi32(x), _mm256_set1_epi32(INT32_MAX), beyond);
}
/* A comparison sets all bits of a lane or none. i8_where selects x in lanes whose bits are set, and y in other
 * lanes. */
I8_INLINE i8_vec i8_equal(i8_vec x, i8_vec y) { return _mm256_cmpeq_epi32(x, y); }
I8_INLINE i8_vec i8_greater(i8_vec x, i8_vec y) { return _mm256_cmpgt_epi32(x, y); }
I8_INLINE i8_vec i8_where(i8_vec bits, i8_vec x, i8_vec y) { return _mm256_blendv_epi8(y, x, bits); }
/* Return z in lanes where x is NaN, and y in other lanes. */
I8_INLINE i8_vec i8_replace_nan(i8_f32 x, i8_vec y, i8_vec z)
{
    return _mm256_blendv_epi8(y, z, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
/* Store the low bytes of I8_LANES values, which are in the range of the type. */
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
/* Round I8_LANES numbers half to even, saturate them to [low, largest of the type] and store them as bytes. */
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

/* Store the low bytes of 16-bit elements of at most 255. */
I8_INLINE void i8_store_low_bytes(void *p, i8_vec x)
{
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
I8_INLINE i8_f32 i8_as_f32(i8_vec x) { return _mm256_castsi256_ps(x); }
/* i8_bits_of_bytes moves bit `bit` of every byte to the top of the byte. i8_choose selects y for bytes whose bit is
 * set, and x for other bytes. */
typedef __m256i i8_bits;
I8_INLINE i8_bits i8_bits_of_bytes(i8_vec x, const int bit) { return _mm256_slli_epi16(x, 7 - bit); }
I8_INLINE i8_vec i8_choose(i8_bits bits, i8_vec x, i8_vec y) { return _mm256_blendv_epi8(x, y, bits); }

/* chunk_of_two.h uses the following functions. */
/* The difference has 32 bits. f32 represents both its halves exactly, so only the sum of the halves is rounded. */
I8_INLINE i8_f32 i8_half_minus(const int32_t *p, int32_t largest)
{
    const i8_vec x = i8_sub(_mm256_set1_epi32(largest), i8_load(p));
    const i8_f32 high = i8_to_f32(_mm256_srli_epi32(x, 16));
    const i8_f32 low = i8_to_f32(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)));
    return _mm256_sub_ps(_mm256_setzero_ps(), i8_add_f32(i8_mul_f32(high, i8_set_f32(65536)), low));
}
I8_INLINE i8_f32 i8_half_from_f16(const char *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p)); }
/* bf16 are the upper halves of f32. */
I8_INLINE i8_f32 i8_half_from_bf16(const char *p)
{
    return i8_as_f32(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
}
I8_INLINE i8_f32 i8_half_with_plain_nan(i8_f32 x)
{
    const i8_f32 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    const i8_f32 nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
    return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
I8_INLINE __m256i i8_half_to_bf16(i8_f32 x)
{
    const __m256i bits = _mm256_castps_si256(i8_half_with_plain_nan(x));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}
I8_INLINE void i8_half_store_f16(char *p, i8_f32 x)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(i8_half_with_plain_nan(x), _MM_FROUND_TO_NEAREST_INT));
}
I8_INLINE void i8_half_store_bf16(char *p, i8_f32 x)
{
    const __m256i y = i8_half_to_bf16(x);
    _mm_storeu_si128((void *)p, _mm_packus_epi32(i8_half_of(y, 0), i8_half_of(y, 1)));
}
I8_INLINE i8_f32 i8_half_largest(i8_f32 x, i8_f32 y)
{
    const __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(y), _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(x), magnitude));
}
I8_INLINE float i8_half_top_of(i8_f32 x) { return i8_half_top_magnitude(_mm256_castps_si256(x)); }
I8_INLINE i8_f32 i8_half_load_some(const float *p, int count)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes));
}
I8_INLINE i8_f32 i8_half_ordered(i8_f32 x) { return _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q)); }
I8_INLINE i8_f32 i8_half_power_of_two(i8_f32 x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23));
}
I8_INLINE i8_f32 i8_half_unless_below(i8_f32 x, i8_f32 limit, i8_f32 y)
{
    return _mm256_and_ps(y, _mm256_cmp_ps(x, limit, _CMP_NLT_UQ));
}
#include "isa/chunk_of_two.h"

/* Round half to even and saturate to [low, high], which is within u8 or s8. Packing stays within 128-bit lanes, so its
 * order is 0 to 3, 8 to 11, 4 to 7, 12 to 15 before the permutation. */
I8_INLINE void i8_floats_store_bytes(uint8_t *p, i8_floats x, float low, float high, int is_signed)
{
    const __m256i a = i8_round(x.low, low, high), b = i8_round(x.high, low, high);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    const __m128i first = _mm256_castsi256_si128(words), second = _mm256_extracti128_si256(words, 1);
    _mm_storeu_si128((__m128i *)(void *)p,
                     is_signed ? _mm_packs_epi16(first, second) : _mm_packus_epi16(first, second));
}
/* Round half to even, XOR with flip, and store. The rounded numbers are in the range of s8. */
I8_INLINE void i8_floats_store_rounded(uint8_t *p, i8_floats x, uint8_t flip)
{
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128((__m128i *)(void *)p, _mm_xor_si128(bytes, _mm_set1_epi8((char)flip)));
}
#endif
