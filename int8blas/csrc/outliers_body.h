/* B' as the sum of two matrices, for exact products without VNNI: a dense one, whose products are added up in s16 before
 * they go to s32 (I8_DOT8), and a sparse one with the few values that are too large for that, its outliers.
 *
 * The dense part obeys a certificate over two groups of four k: the positive parts of k, k + 1, k + 4 and k + 5 (k a
 * multiple of 8, or 2 more) sum to at most 128, the negative ones to at least -128, so that neither a product of pairs
 * nor the sum of two leaves s16 with any A' (255 * 128 = 32640). A set of four that is over is cut down, the largest of
 * its values first; what is cut off is the outlier.
 *
 * Outliers lie column by column, four k of one column in an i8_outliers. They multiply A' by columns: the bytes of four
 * columns of it, interleaved, are the groups of 4 of a micro-panel, for 4 * I8_LANES rows at a time: 20 instructions for
 * 128 products with AVX2, 8 of them shuffles and 8 on the multiplier. The dense part takes 10 for as many. */

/* Cuts four values of one sign, magnitudes of them times `sign`, down to a sum of 128 at most. */
I8_INLINE int64_t i8_cut(int x[4], int sign, const int64_t k[4], i8_outliers *dst, int64_t count)
{
    int over = -128;
    for (int i = 0; i < 4; ++i)
        over += sign * x[i] > 0 ? sign * x[i] : 0;
    while (over > 0) {
        int largest = 0;
        for (int i = 1; i < 4; ++i)
            if (sign * x[i] > sign * x[largest])
                largest = i;
        int rest = sign * x[largest] < over ? sign * x[largest] : over;
        if (rest > I8_MAX_REST)
            rest = I8_MAX_REST;
        x[largest] -= sign * rest;
        over -= rest;
        if (dst) {
            i8_outliers *o = dst + count / 4;
            if (count % 4 == 0)
                memset(o, 0, sizeof *o);
            o->k[count % 4] = (uint16_t)k[largest];
            o->rest[count % 4] = (int8_t)(sign * rest);
        }
        ++count;
    }
    return count;
}

static int64_t i8_split_panel(i8_outliers *dst, int64_t *starts, const int8_t *panel, int64_t groups)
{
    int64_t total = 0;
    for (int64_t first = 0; first < groups; first += I8_OUTLIER_K / 4, panel += I8_OUTLIER_K * I8_PANEL) {
        const int64_t some = groups - first < I8_OUTLIER_K / 4 ? groups - first : I8_OUTLIER_K / 4;
        for (int column = 0; column < I8_PANEL; ++column) {
            int64_t count = 0;
            *starts++ = total;
            for (int64_t g = 0; g < some; g += 2)
                for (int pair = 0; pair < 4; pair += 2) {
                    const int8_t *b = panel + 4 * I8_PANEL * g + 4 * column + pair, *next = b + 4 * I8_PANEL;
                    const int64_t k[4] = {4 * g + pair, 4 * g + pair + 1, 4 * g + pair + 4, 4 * g + pair + 5};
                    int x[4] = {b[0], b[1], 0, 0};
                    if (g + 1 < some) {
                        x[2] = next[0];
                        x[3] = next[1];
                    }
                    count = i8_cut(x, 1, k, dst ? dst + total : NULL, count);
                    count = i8_cut(x, -1, k, dst ? dst + total : NULL, count);
                }
            total += (count + 3) / 4;
        }
    }
    return total;
}

static void i8_dense_panel(int8_t *restrict dst, const int8_t *restrict panel, int64_t groups,
                           const i8_outliers *outliers, const int64_t *starts)
{
    memcpy(dst, panel, (size_t)(4 * I8_PANEL * groups));
    for (int column = 0; column < I8_PANEL; ++column)
        for (const i8_outliers *o = outliers + starts[column]; o < outliers + starts[column + 1]; ++o)
            I8_FOR(i, 4) {
                int8_t *b = dst + o->k[i] / 4 * (4 * I8_PANEL) + 4 * column + o->k[i] % 4;
                *b = (int8_t)(*b - o->rest[i]);
            }
}

static void i8_columns_of(uint8_t *dst, ptrdiff_t dst_k, const uint8_t *panel, int rows, int64_t groups)
{
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (; groups > 0; --groups, panel += 4 * rows, dst += 4 * dst_k) {
        if (rows < 4) {
            for (int i = 0; i < 4 * rows; ++i)
                dst[i % 4 * dst_k + i / 4] = panel[i];
            continue;
        }
        /* The last four rows may overlap those before. */
        for (int i = 0; i < rows; i += 4) {
            const int row = i + 4 <= rows ? i : rows - 4;
            const __m128i v = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(panel + 4 * row)), order);
            uint8_t *d = dst + row;
            i8_write32(d, (uint32_t)_mm_cvtsi128_si32(v));
            i8_write32(d + dst_k, (uint32_t)_mm_extract_epi32(v, 1));
            i8_write32(d + 2 * dst_k, (uint32_t)_mm_extract_epi32(v, 2));
            i8_write32(d + 3 * dst_k, (uint32_t)_mm_extract_epi32(v, 3));
        }
    }
}

static void i8_multiply_outliers(const i8_outlier_args *t)
{
    for (int64_t row = 0; row < t->rows; row += 4 * I8_LANES)
        for (int column = 0; column < I8_PANEL; column += 4) {
            i8_vec sums[4][4]; /* [rows 4 q to 4 q + 3 of each unit of 128 bits][column] */
            I8_FOR(c, 4) {
                i8_vec acc[4] = {i8_zero(), i8_zero(), i8_zero(), i8_zero()};
                const i8_outliers *o = t->outliers + t->starts[column + c];
                const i8_outliers *end = t->outliers + t->starts[column + c + 1];
                for (; o < end; ++o) {
                    const i8_vec rest = i8_broadcast(o->rest);
                    i8_vec a[4];
                    I8_FOR(i, 4) a[i] = i8_load(t->a + o->k[i] * t->a_k + row);
                    i8_interleave(a);
                    I8_FOR(q, 4) acc[q] = i8_dot4_sat(acc[q], a[q], rest);
                }
                I8_FOR(q, 4) sums[q][c] = acc[q];
            }
            I8_FOR(q, 4) {
                i8_transpose_lanes(sums[q]);
                I8_FOR(i, 4) {
                    int32_t unit[I8_LANES];
                    i8_store(unit, sums[q][i]);
                    for (int u = 0; u < I8_LANES / 4; ++u) {
                        const int64_t r = row + 16 * u + 4 * q + i;
                        if (r >= t->rows)
                            break;
                        __m128i *d = (__m128i *)(void *)(t->dst + r * t->dst_row + column);
                        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(unit + 4 * u));
                        _mm_storeu_si128(d, t->add ? _mm_add_epi32(_mm_loadu_si128(d), x) : x);
                    }
                }
            }
        }
}
