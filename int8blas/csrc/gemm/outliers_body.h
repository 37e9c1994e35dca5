/* Split B' into the sum of two matrices, for exact products without VNNI. The products of the dense part are added in
 * s16 before they are added in s32 (I8_DOT8). The sparse part has the outliers, a few values that are too large for
 * s16.
 *
 * In the dense part no sum over two groups of four k saturates. VPMADDUBSW adds the products of k and k + 1, and VPADDW
 * adds the products of k + 4 and k + 5. In the dense part, the positive values at the four k of a sum add up to at most
 * 128, and the negative values to at least -128, so no sum exceeds s16 for any A' (255 * 128 = 32640). If the values of
 * B' at four k add up to more than 128 or less than -128, packing reduces the largest value until the sum meets the
 * limit. The outliers are the amounts by which packing reduces values.
 *
 * Outliers are stored column by column. An i8_outliers has four k of one column. The kernel reads A' by columns. The
 * kernel interleaves the bytes of four columns, so that each dword has four k of one row, for two vectors of rows at a
 * time. With AVX2, 128 products of outliers take 20 instructions: 8 are shuffles and 8 use the multiplier. 128 products
 * of the dense part take 10 instructions. */

/* Among four values, reduce the values with the sign `sign` (1 or -1) until their magnitudes sum to at most 128. The
 * outliers of the column begin at dst[first], and `count` of them exist already. dst has room for `room` outliers. The
 * function stores no more than `room`, because a mapped file may have changed after its outliers were counted. */
I8_INLINE int64_t i8_cut(int x[4], int sign, const int64_t k[4], i8_outliers *dst, int64_t room, int64_t first,
                         int64_t count)
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
        if (first + count / 4 < room) {
            i8_outliers *o = dst + first + count / 4;
            if (count % 4 == 0)
                memset(o, 0, sizeof *o);
            o->k[count % 4] = (uint16_t)k[largest];
            o->rest[count % 4] = (int8_t)(sign * rest);
        }
        ++count;
    }
    return count;
}

static int64_t i8_split_panel(int8_t *restrict dense, i8_outliers *dst, int64_t room, int64_t *starts,
                              const int8_t *restrict panel, int64_t groups, int64_t block)
{
    int64_t total = 0;
    for (int64_t first = 0; first < groups; first += block) {
        const int64_t some = groups - first < block ? groups - first : block;
        for (int column = 0; column < I8_PANEL; ++column) {
            int64_t count = 0;
            *starts++ = total;
            for (int64_t g = 0; g < some; g += 2)
                for (int pair = 0; pair < 4; pair += 2) {
                    const int8_t *b = panel + 4 * I8_PANEL * (first + g) + 4 * column + pair, *next = b + 4 * I8_PANEL;
                    const int64_t k[4] = {4 * g + pair, 4 * g + pair + 1, 4 * g + pair + 4, 4 * g + pair + 5};
                    int x[4] = {b[0], b[1], 0, 0};
                    if (g + 1 < some) {
                        x[2] = next[0];
                        x[3] = next[1];
                    }
                    count = i8_cut(x, 1, k, dst, room, total, count);
                    count = i8_cut(x, -1, k, dst, room, total, count);
                    if (!dense)
                        continue;
                    int8_t *d = dense + (b - panel);
                    d[0] = (int8_t)x[0];
                    d[1] = (int8_t)x[1];
                    if (g + 1 < some) {
                        d[4 * I8_PANEL] = (int8_t)x[2];
                        d[4 * I8_PANEL + 1] = (int8_t)x[3];
                    }
                }
            total += (count + 3) / 4;
        }
    }
    return total;
}

/* The bytes of one column in the copy of A' by columns: two vectors of rows. There are no gaps between columns. */
#define I8_COLUMN_BYTES (8 * I8_LANES)

/* Transpose 16 columns of a vector of rows, a_row bytes apart: each unit of 128 bits holds 16 rows. */
I8_INLINE void i8_transpose_rows(uint8_t *dst, const uint8_t *a, ptrdiff_t a_row, i8_vec flip)
{
    static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const i8_vec by_column = i8_load_units(order, 0);
    i8_vec x[4][4]; /* after the first loop: [q: rows 4 q to 4 q + 3 of each unit][group of 4 k], one k in each lane */
    I8_FOR(q, 4) {
        I8_FOR(i, 4) x[q][i] = i8_xor(i8_load_units(a + (4 * q + i) * a_row, 16 * a_row), flip);
        i8_transpose_lanes(x[q]);
        I8_FOR(group, 4) x[q][group] = i8_shuffle(x[q][group], by_column);
    }
    I8_FOR(group, 4) {
        i8_vec columns[4];
        I8_FOR(q, 4) columns[q] = x[q][group];
        i8_transpose_lanes(columns);
        I8_FOR(i, 4) i8_store(dst + (4 * group + i) * I8_COLUMN_BYTES, columns[i]);
    }
}

/* Transpose at most 16 columns of at most a vector of rows, with any strides. */
static void i8_transpose_some(uint8_t *dst, const uint8_t *a, ptrdiff_t a_row, ptrdiff_t a_col, int64_t rows,
                         int64_t columns, i8_vec flip)
{
    uint8_t block[4 * I8_LANES][16] = {{0}};
    for (int64_t i = 0; i < rows; ++i, a += a_row)
        if (a_col == 1 && columns == 16)
            memcpy(block[i], a, 16);
        else
            for (int64_t j = 0; j < columns; ++j)
                block[i][j] = a[j * a_col];
    i8_transpose_rows(dst, block[0], 16, flip);
}

static void i8_columns_of(uint8_t *dst, int64_t columns, const uint8_t *a, ptrdiff_t a_row, ptrdiff_t a_col,
                          int64_t rows, int64_t k, uint8_t flip)
{
    const i8_vec flips = i8_set_8(flip);
    for (int64_t row = 0; row < rows; row += 4 * I8_LANES, a += 4 * I8_LANES * a_row) {
        const int64_t height = rows - row < 4 * I8_LANES ? rows - row : 4 * I8_LANES;
        uint8_t *d = dst + row / I8_COLUMN_BYTES * I8_COLUMN_BYTES * columns + row % I8_COLUMN_BYTES;
        const uint8_t *from = a;
        for (int64_t left = k; left > 0; left -= 16, from += 16 * a_col, d += 16 * I8_COLUMN_BYTES) {
            const int64_t width = left < 16 ? left : 16;
            if (a_row == 1 && height == 4 * I8_LANES)
                for (int64_t j = 0; j < width; ++j)
                    i8_store(d + j * I8_COLUMN_BYTES, i8_xor(i8_load(from + j * a_col), flips));
            else if (a_col == 1 && height == 4 * I8_LANES && width == 16)
                i8_transpose_rows(d, from, a_row, flips);
            else
                i8_transpose_some(d, from, a_row, a_col, height, width, flips);
        }
    }
}

/* Multiply one column of outliers by `vectors` vectors of rows. acc[v][q] has the sums of rows 4 q to 4 q + 3 of each
 * unit of 128 bits. */
I8_INLINE void i8_outlier_column(i8_vec acc[2][4], const uint8_t *a, const i8_outliers *o, const i8_outliers *end,
                                 const int vectors)
{
    I8_FOR(v, vectors) I8_FOR(q, 4) acc[v][q] = i8_zero();
    for (; o < end; ++o) {
        const i8_vec rest = i8_broadcast(o->rest);
        I8_FOR(v, vectors) {
            i8_vec x[4];
            I8_FOR(i, 4) x[i] = i8_load(a + (ptrdiff_t)o->k[i] * I8_COLUMN_BYTES + v * 4 * I8_LANES);
            i8_interleave(x);
            I8_FOR(q, 4) acc[v][q] = i8_dot4_sat(acc[v][q], x[q], rest);
        }
    }
}

/* Multiply rows `row` to `row` + `rows` of A, in `vectors` vectors, by the outliers of a panel. */
I8_INLINE void i8_outlier_rows(const i8_outlier_args *t, const uint8_t *a, int64_t row, int rows, const int vectors)
{
    for (int column = 0; column < I8_PANEL; column += 4) {
        i8_vec acc[4][2][4];
        I8_FOR(c, 4) {
            const int64_t *starts = t->starts + column + c;
            i8_outlier_column(acc[c], a, t->outliers + starts[0], t->outliers + starts[1], vectors);
        }
        I8_FOR(v, vectors) I8_FOR(q, 4) {
            i8_vec sums[4]; /* transposed below, from columns to rows */
            I8_FOR(c, 4) sums[c] = acc[c][v][q];
            i8_transpose_lanes(sums);
            I8_FOR(i, 4) {
                const int first = v * 4 * I8_LANES + 4 * q + i, units = (rows - first + 15) / 16;
                i8_add_units(t->dst + (row + first) * t->dst_row + column, 16 * t->dst_row, sums[i], units, t->add);
            }
        }
    }
}

static void i8_multiply_outliers(const i8_outlier_args *t)
{
    const uint8_t *a = t->a;
    for (int64_t row = 0; row < t->rows; row += I8_COLUMN_BYTES, a += t->a_columns * I8_COLUMN_BYTES) {
        const int rows = t->rows - row < I8_COLUMN_BYTES ? (int)(t->rows - row) : I8_COLUMN_BYTES;
        if (rows > I8_COLUMN_BYTES / 2)
            i8_outlier_rows(t, a, row, rows, 2);
        else
            i8_outlier_rows(t, a, row, rows, 1);
    }
}
