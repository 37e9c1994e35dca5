/* How large the values of operands are, for products whose sums fit s16 (I8_DOT_SMALL and so on in gemm.h). Without
 * SSE2 nothing asks for it, but the functions are there, for the reference of their tests. */

/* Vectors after which the values so far are looked at: whether they are within bounds is known soon where they are not,
 * and costs nothing where they are. */
enum { I8_VALUES_STEPS = 64 };

#ifdef I8_SSE2
/* The smallest and the largest of 16 bytes. */
I8_INLINE int i8_smallest_byte(__m128i x)
{
    /* VPHMINPOSUW finds the smallest of 8 words. */
    const __m128i pairs = _mm_min_epu8(x, _mm_srli_epi16(x, 8));
    return _mm_extract_epi16(_mm_minpos_epu16(_mm_and_si128(pairs, _mm_set1_epi16(0xff))), 0);
}
I8_INLINE int i8_largest_byte(__m128i x) { return 255 - i8_smallest_byte(_mm_xor_si128(x, _mm_set1_epi8(-1))); }
#endif

static int i8_widens_range(int *low, int *high, int x)
{
    *low = x < *low ? x : *low;
    *high = x > *high ? x : *high;
    return *high - *low;
}

/* See i8_packing_kernels.value_range. */
static void i8_value_range(uint8_t range[2], int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                           ptrdiff_t k_stride, uint8_t flip, int enough)
{
    int low = range[0], high = range[1];
    if (k_stride != 1) { /* then the rows may lie side by side */
        const int64_t count = rows;
        const ptrdiff_t stride = row_stride;
        rows = k;
        k = count;
        row_stride = k_stride;
        k_stride = stride;
    }
    for (int64_t row = 0; row < rows; ++row, src += row_stride) {
        int64_t i = 0;
#ifdef I8_SSE2
        if (k_stride == 1 && k >= 16) {
            const __m128i f = _mm_set1_epi8((char)flip);
            __m128i smallest = _mm_set1_epi8((char)low), largest = _mm_set1_epi8((char)high);
            while (i < k) {
                const int64_t end = k - i < 16 * I8_VALUES_STEPS ? k : i + 16 * I8_VALUES_STEPS;
                for (; i < end; i += 16) {
                    /* The last vector overlaps the one before. */
                    const uint8_t *s = src + (k - i < 16 ? k - 16 : i);
                    const __m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)s), f);
                    smallest = _mm_min_epu8(smallest, x);
                    largest = _mm_max_epu8(largest, x);
                }
                low = i8_smallest_byte(smallest);
                high = i8_largest_byte(largest);
                if (high - low > enough)
                    break;
            }
        }
#endif
        for (; i < k; ++i)
            if (i8_widens_range(&low, &high, (uint8_t)(src[i * k_stride] ^ flip)) > enough)
                break;
        if (high - low > enough)
            break;
    }
    range[0] = (uint8_t)low;
    range[1] = (uint8_t)high;
}

/* See i8_packing_kernels.lower. */
static void i8_lower(uint8_t *x, int64_t n, uint8_t by)
{
    for (int64_t i = 0; i < n; ++i)
        x[i] = x[i] > by ? (uint8_t)(x[i] - by) : 0;
}

/* See i8_packing_kernels.panel_pair_sum. */
static int i8_panel_pair_sum(const int8_t *panel, int64_t groups, int enough)
{
    int largest = 0;
    while (groups > 0) {
        const int64_t some = groups < I8_VALUES_STEPS / 4 ? groups : I8_VALUES_STEPS / 4;
#ifdef I8_SSE2
        const __m128i zero = _mm_setzero_si128(), ones = _mm_set1_epi8(1);
        __m128i most = zero, least = zero;
        for (int64_t i = 0; i < 4 * some; ++i) {
            const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(panel + 16 * i));
            most = _mm_max_epi16(most, _mm_maddubs_epi16(ones, _mm_max_epi8(x, zero)));
            least = _mm_min_epi16(least, _mm_maddubs_epi16(ones, _mm_min_epi8(x, zero)));
        }
        most = _mm_max_epi16(most, _mm_sub_epi16(zero, least));
        const int found = 0xffff - _mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(most, _mm_set1_epi16(-1))), 0);
        largest = found > largest ? found : largest;
#else
        for (int64_t i = 0; i < 4 * I8_PANEL * some; i += 2) {
            const int x = panel[i], y = panel[i + 1];
            const int most = (x > 0 ? x : 0) + (y > 0 ? y : 0), least = (x < 0 ? x : 0) + (y < 0 ? y : 0);
            largest = most > largest ? most : largest;
            largest = -least > largest ? -least : largest;
        }
#endif
        if (largest > enough)
            return I8_MAX_PAIR_SUM;
        panel += 4 * I8_PANEL * some;
        groups -= some;
    }
    return largest;
}
