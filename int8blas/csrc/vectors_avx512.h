/* i8_vec for the AVX-512 files: 16 lanes, 32 registers. 8 x 48 takes 24 accumulators, 3 vectors of B, 1 broadcast of A,
 * and 1 product and 1 vector of ones for the two-step dots: 30. */
#include <immintrin.h>

#define I8_SSE2 1
#define I8_LANES 16
#define I8_MR 8
#define I8_NP 3

typedef __m512i i8_vec;

I8_INLINE i8_vec i8_load(const void *p) { return _mm512_loadu_si512(p); }
I8_INLINE void i8_store(void *p, i8_vec v) { _mm512_storeu_si512(p, v); }
I8_INLINE i8_vec i8_zero(void) { return _mm512_setzero_si512(); }
I8_INLINE i8_vec i8_add(i8_vec x, i8_vec y) { return _mm512_add_epi32(x, y); }
I8_INLINE void i8_store_some(int32_t *p, i8_vec v, int n)
{
    if (n > 0)
        _mm512_mask_storeu_epi32(p, n < I8_LANES ? (__mmask16)((1u << n) - 1) : (__mmask16)0xffff, v);
}
I8_INLINE i8_vec i8_broadcast(const void *p)
{
    int32_t x;
    __builtin_memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}
I8_INLINE i8_vec i8_dot4_sat(i8_vec acc, i8_vec a, i8_vec b)
{
    const __m512i pairs = _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), _mm512_set1_epi16(1));
    return _mm512_add_epi32(acc, pairs);
}
I8_INLINE i8_vec i8_dot2(i8_vec acc, i8_vec a, i8_vec b) { return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b)); }

/* 16 columns of 4 rows of bytes, each row at its own address, as one group of a panel: dword c is column c of the rows
 * 0 to 3. Three masked loads, then a transpose of 4 x 4 dwords across the lanes and one of 4 x 4 bytes within them. */
I8_INLINE void i8_load_rows(i8_vec *v, const void *r0, const void *r1, const void *r2, const void *r3)
{
    const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i x = _mm512_zextsi128_si512(_mm_loadu_si128((const __m128i *)r0));
    x = _mm512_mask_broadcast_i32x4(x, 0x00f0, _mm_loadu_si128((const __m128i *)r1));
    x = _mm512_mask_broadcast_i32x4(x, 0x0f00, _mm_loadu_si128((const __m128i *)r2));
    x = _mm512_mask_broadcast_i32x4(x, 0xf000, _mm_loadu_si128((const __m128i *)r3));
    v[0] = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, x), bytes);
}
I8_INLINE i8_vec i8_xor(i8_vec x, i8_vec y) { return _mm512_xor_si512(x, y); }
