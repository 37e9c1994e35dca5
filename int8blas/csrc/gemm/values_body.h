/* Find the ranges of the values of operands, for products whose sums fit s16 (I8_DOT_SMALL and I8_DOT8 in gemm.h). On
 * CPUs without units (units.h) only tests call the functions of this file. */

/* The number of vectors between two checks of the range. The check takes no measurable time, and large values are found
 * soon. */
enum { I8_VALUES_STEPS = 64 };

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
    if (k_stride != 1) { /* columns are contiguous */
        const int64_t count = rows;
        const ptrdiff_t stride = row_stride;
        rows = k;
        k = count;
        row_stride = k_stride;
        k_stride = stride;
    }
    for (int64_t row = 0; row < rows; ++row, src += row_stride) {
        int64_t i = 0;
#ifdef I8_UNITS
        if (k_stride == 1 && k >= 16) {
            const i8_unit f = i8_set_unit(flip);
            i8_unit smallest = i8_set_unit(low), largest = i8_set_unit(high);
            while (i < k) {
                const int64_t end = k - i < 16 * I8_VALUES_STEPS ? k : i + 16 * I8_VALUES_STEPS;
                for (; i < end; i += 16) {
                    /* The last vector overlaps the previous vector. */
                    const uint8_t *s = src + (k - i < 16 ? k - 16 : i);
                    const i8_unit x = i8_xor_unit(i8_load_unit(s), f);
                    smallest = i8_smaller_bytes(smallest, x);
                    largest = i8_larger_bytes(largest, x);
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

/* See i8_packing_kernels.rebase. */
static void i8_rebase(uint8_t *x, int64_t n, uint8_t by)
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
#ifdef I8_UNITS
        i8_unit most = i8_zero_unit(), least = most;
        for (int64_t i = 0; i < 4 * some; ++i) {
            const i8_unit x = i8_load_unit(panel + 16 * i);
            most = i8_most_of_pairs(most, x);
            least = i8_least_of_pairs(least, x);
        }
        const int found = i8_largest_of_pairs(most, least);
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
