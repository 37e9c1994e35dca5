/* i8_vec for the 256-bit files: 8 lanes, 16 registers, a panel is 2 vectors. 6 x 16 takes 12 accumulators, 2 vectors of
 * B, 1 broadcast of A and 1 product: 16, with the vector of ones of the two-step dots in memory. */
#include <immintrin.h>
#include <string.h>

#define I8_SSE2 1
#define I8_LANES 8
#define I8_MR 6
#define I8_NP 1

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
I8_INLINE i8_vec i8_dot2(i8_vec acc, i8_vec a, i8_vec b) { return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)); }
