/* units.h for x86-64: SSE2. Files for a vector width are compiled for AVX2 or later, and use instructions of SSE4.1 as
 * well as SSE2. */
#ifdef I8_LANES
#include <immintrin.h>
#else
#include <emmintrin.h>
#endif

typedef __m128i i8_unit;

I8_INLINE i8_unit i8_load_unit(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
I8_INLINE i8_unit i8_load_half_unit(const void *p) { return _mm_loadl_epi64((const __m128i *)p); }
I8_INLINE void i8_store_unit(void *p, i8_unit x) { _mm_storeu_si128((__m128i *)p, x); }
I8_INLINE void i8_store_half_unit(void *p, i8_unit x) { _mm_storel_epi64((__m128i *)p, x); }
I8_INLINE i8_unit i8_zero_unit(void) { return _mm_setzero_si128(); }
I8_INLINE i8_unit i8_set_unit(int byte) { return _mm_set1_epi8((char)byte); }
I8_INLINE i8_unit i8_unit_of_qwords(uint64_t low, uint64_t high)
{
    return _mm_set_epi64x((int64_t)high, (int64_t)low);
}
I8_INLINE i8_unit i8_unit_of_dwords(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return _mm_setr_epi32((int)x, (int)y, (int)z, (int)w);
}
I8_INLINE i8_unit i8_xor_unit(i8_unit x, i8_unit y) { return _mm_xor_si128(x, y); }
I8_INLINE i8_unit i8_and_unit(i8_unit x, i8_unit y) { return _mm_and_si128(x, y); }
/* Interleave elements of the low halves of x and y, or of the high halves. */
I8_INLINE i8_unit i8_zip_low_8(i8_unit x, i8_unit y) { return _mm_unpacklo_epi8(x, y); }
I8_INLINE i8_unit i8_zip_high_8(i8_unit x, i8_unit y) { return _mm_unpackhi_epi8(x, y); }
I8_INLINE i8_unit i8_zip_low_16(i8_unit x, i8_unit y) { return _mm_unpacklo_epi16(x, y); }
I8_INLINE i8_unit i8_zip_high_16(i8_unit x, i8_unit y) { return _mm_unpackhi_epi16(x, y); }
I8_INLINE i8_unit i8_zip_low_32(i8_unit x, i8_unit y) { return _mm_unpacklo_epi32(x, y); }
I8_INLINE i8_unit i8_zip_high_32(i8_unit x, i8_unit y) { return _mm_unpackhi_epi32(x, y); }
I8_INLINE i8_unit i8_zip_low_64(i8_unit x, i8_unit y) { return _mm_unpacklo_epi64(x, y); }
I8_INLINE i8_unit i8_zip_high_64(i8_unit x, i8_unit y) { return _mm_unpackhi_epi64(x, y); }
/* Return 0xff in the first `count` bytes, 0 in the other bytes. */
I8_INLINE i8_unit i8_first_bytes(const int count)
{
    const __m128i number = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm_cmpgt_epi8(_mm_set1_epi8((char)count), number);
}
/* Add the u8 of each half of x to the s64 of this half. */
I8_INLINE i8_unit i8_add_bytes(i8_unit sums, i8_unit x)
{
    return _mm_add_epi64(sums, _mm_sad_epu8(x, _mm_setzero_si128()));
}
I8_INLINE i8_unit i8_add_qwords(i8_unit x, i8_unit y) { return _mm_add_epi64(x, y); }
I8_INLINE i8_unit i8_smaller_bytes(i8_unit x, i8_unit y) { return _mm_min_epu8(x, y); }
I8_INLINE i8_unit i8_larger_bytes(i8_unit x, i8_unit y) { return _mm_max_epu8(x, y); }

#ifdef I8_LANES
#define i8_dword_of(x, n) ((uint32_t)((n) == 0 ? _mm_cvtsi128_si32(x) : _mm_extract_epi32(x, n)))
/* Return the smallest, or the largest, of 16 bytes. */
I8_INLINE int i8_smallest_byte(i8_unit x)
{
    /* VPHMINPOSUW finds the smallest of 8 words. */
    const __m128i pairs = _mm_min_epu8(x, _mm_srli_epi16(x, 8));
    return _mm_extract_epi16(_mm_minpos_epu16(_mm_and_si128(pairs, _mm_set1_epi16(0xff))), 0);
}
I8_INLINE int i8_largest_byte(i8_unit x) { return 255 - i8_smallest_byte(_mm_xor_si128(x, _mm_set1_epi8(-1))); }
/* Find pair sums of s8. i8_most_of_pairs returns the maximum of `most` and the sums of the positive values of two
 * bytes. i8_least_of_pairs returns the minimum of `least` and the sums of the negative values. i8_largest_of_pairs
 * returns the largest magnitude in both results. */
I8_INLINE i8_unit i8_most_of_pairs(i8_unit most, i8_unit x)
{
    const __m128i positive = _mm_max_epi8(x, _mm_setzero_si128());
    return _mm_max_epi16(most, _mm_maddubs_epi16(_mm_set1_epi8(1), positive));
}
I8_INLINE i8_unit i8_least_of_pairs(i8_unit least, i8_unit x)
{
    const __m128i negative = _mm_min_epi8(x, _mm_setzero_si128());
    return _mm_min_epi16(least, _mm_maddubs_epi16(_mm_set1_epi8(1), negative));
}
I8_INLINE int i8_largest_of_pairs(i8_unit most, i8_unit least)
{
    most = _mm_max_epi16(most, _mm_sub_epi16(_mm_setzero_si128(), least));
    return 0xffff - _mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(most, _mm_set1_epi16(-1))), 0);
}
#endif
