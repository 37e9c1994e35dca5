/* Compute Hamming distances (i8_hamming_args in neighbors.h) of I8_HAMMING_ROWS rows and a panel at a time.
 *
 * The kernel XORs a vector of y with a repeated dword of x, and counts the bits of the result in one of two ways:
 *
 *   counts of bytes    i8_count_bits adds at most 8 to each byte, so a byte holds the count of I8_COUNTED groups
 *   I8_COUNT_DWORDS    VPOPCNTD counts the bits of dwords
 *
 * With AVX2 the kernel uses 15 registers: 8 for the counts of 4 rows, 2 for y, a dword of x, the table, the mask, and 2
 * others.
 */
#ifdef I8_COUNT_DWORDS
#define I8_COUNT(acc, x) I8_COUNT_DWORDS(acc, x)
#define I8_SUM_COUNTS(x) (x)
#define I8_COUNTED INT64_MAX
#else
#define I8_COUNT(acc, x) i8_count_bits(acc, x)
#define I8_SUM_COUNTS(x) i8_sum_bytes(x)
#define I8_COUNTED (255 / 8)
#endif

I8_INLINE void I8_HAMMING(tile)(const i8_hamming_args *t, const uint8_t *x, const int8_t *panel, int32_t *dst,
                                const int columns, const int rows)
{
    i8_vec sums[I8_HAMMING_ROWS * I8_VECS];
    I8_FOR(i, rows * I8_VECS)
        sums[i] = i8_zero();
    for (int64_t g = 0, end; g < t->groups; g = end) {
        end = t->groups - g < I8_COUNTED ? t->groups : g + I8_COUNTED;
        i8_vec counts[I8_HAMMING_ROWS * I8_VECS];
        I8_FOR(i, rows * I8_VECS)
            counts[i] = i8_zero();
        for (int64_t h = g; h < end; ++h)
            I8_FOR(r, rows) {
                const i8_vec dword = i8_broadcast(x + r * t->x_row + h * I8_GROUP);
                I8_FOR(v, I8_VECS) {
                    const i8_vec y = i8_load(panel + h * I8_PANEL * I8_GROUP + v * (int)sizeof(i8_vec));
                    i8_vec *count = &counts[r * I8_VECS + v];
                    *count = I8_COUNT(*count, i8_xor(y, dword));
                }
            }
        I8_FOR(i, rows * I8_VECS)
            sums[i] = i8_add(sums[i], I8_SUM_COUNTS(counts[i]));
    }
    I8_FOR(r, rows)
        I8_FOR(v, I8_VECS) {
            int32_t *p = dst + r * t->dst_row + v * I8_LANES;
            const i8_vec values = i8_xor(sums[r * I8_VECS + v], i8_set_32(t->flip));
            if (columns == I8_PANEL)
                i8_store(p, values);
            else
                i8_store_some(p, values, columns - v * I8_LANES);
        }
}

/* The kernel compares all rows with some panels that stay in the L1 cache, so that it stores distances of a row side by
 * side. */
static void I8_HAMMING(distances)(const i8_hamming_args *t)
{
    const int64_t size = t->groups * I8_PANEL * I8_GROUP;
    const int64_t width = size < I8_HAMMING_BYTES ? I8_HAMMING_BYTES / (size + 1) * I8_PANEL + I8_PANEL : I8_PANEL;
    for (int64_t first = 0; first < t->columns; first += width) {
        const int64_t end = t->columns - first < width ? t->columns : first + width;
        for (int64_t i = 0, rows; i < t->rows; i += rows) {
            rows = t->rows - i >= I8_HAMMING_ROWS ? I8_HAMMING_ROWS : 1;
            const uint8_t *x = t->x + i * t->x_row;
            for (int64_t j = first; j < end; j += I8_PANEL) {
                const int8_t *panel = t->panels + j / I8_PANEL * size;
                const int columns = end - j < I8_PANEL ? (int)(end - j) : I8_PANEL;
                int32_t *dst = t->dst + i * t->dst_row + j;
                if (rows == I8_HAMMING_ROWS)
                    I8_HAMMING(tile)(t, x, panel, dst, columns, I8_HAMMING_ROWS);
                else
                    I8_HAMMING(tile)(t, x, panel, dst, columns, 1);
            }
        }
    }
}
#undef I8_COUNT
#undef I8_SUM_COUNTS
#undef I8_COUNTED
#undef I8_HAMMING
