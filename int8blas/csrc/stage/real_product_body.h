/* Products of real numbers with 8-bit weights. The weights are converted to f32 in a buffer that stays in the cache.
 * stage.h has arguments and formula (i8_real_tile_args). With AVX-512 a tile of 8 x 48 takes 24 accumulators, 3 vectors
 * of B and 1 broadcast of A. With AVX2 a tile of 6 x 16 takes 12 accumulators, 2 vectors of B and 1 broadcast of A. */
#if I8_LANES > 1
/* Vectors */
#define I8_REAL_ROWS (I8_LANES == 16 ? 8 : 6)
#define I8_REAL_PANELS (I8_LANES == 16 ? 3 : 1)
#define I8_PANEL_VECS (I8_CHUNK / I8_LANES)

static void i8_real_panel(float *dst, ptrdiff_t dst_k, const int8_t *panel, int64_t groups)
{
    const i8_vec right = i8_set_32(24);
    for (int64_t g = 0; g < groups; ++g) {
        I8_PREFETCH_L2(panel + 4 * I8_CHUNK * (groups + g)); /* prefetch the next panel, or the next block of k */
        I8_FOR(v, I8_PANEL_VECS) {
            const i8_vec four = i8_load(panel + 4 * (I8_CHUNK * g + I8_LANES * v));
            I8_FOR(i, 4) {
                const i8_vec byte = i8_shift_right(i8_shift_left(four, i8_set_32(24 - 8 * i)), right);
                i8_store_f32(dst + (4 * g + i) * dst_k + I8_LANES * v, i8_to_f32(byte));
            }
        }
    }
}

I8_INLINE void i8_real_tile_of(const i8_real_tile_args *t, const int rows, const int panels)
{
    i8_f32 sums[8][3];
    const int vecs = panels * I8_PANEL_VECS;
    const float *b = t->b;
    const ptrdiff_t *step = t->steps ? t->steps : &t->b_row, next = t->steps != NULL;
    I8_FOR(i, rows)
        I8_FOR(v, vecs) sums[i][v] = t->first ? i8_set_f32(0.0f) : i8_load_f32(t->c + i * t->c_row + I8_LANES * v);
    for (int64_t k = 0; k < t->k; ++k, b += *step, step += next) {
        i8_f32 x[3];
        I8_FOR(v, vecs) x[v] = i8_load_f32(b + I8_LANES * v);
        I8_FOR(i, rows) {
            const i8_f32 a = i8_set_f32(t->a[i * t->a_row + k]);
            I8_FOR(v, vecs) sums[i][v] = i8_fma_f32(a, x[v], sums[i][v]);
        }
    }
    I8_FOR(i, rows)
        I8_FOR(v, vecs) {
            const i8_f32 y = t->scale ? i8_mul_f32(sums[i][v], i8_load_f32(t->scale + I8_LANES * v)) : sums[i][v];
            i8_store_f32(t->c + i * t->c_row + I8_LANES * v, y);
        }
}

#define I8_REAL_TILE(rows, panels)                                                                                     \
    static void i8_real_tile_##rows##x##panels(const i8_real_tile_args *t) { i8_real_tile_of(t, rows, panels); }
#define I8_REAL_TILES(panels)                                                                                          \
    I8_REAL_TILE(1, panels)                                                                                            \
    I8_REAL_TILE(2, panels)                                                                                            \
    I8_REAL_TILE(3, panels)                                                                                            \
    I8_REAL_TILE(4, panels)                                                                                            \
    I8_REAL_TILE(5, panels)                                                                                            \
    I8_REAL_TILE(6, panels)
#define I8_NAMES(panels)                                                                                               \
    i8_real_tile_1x##panels, i8_real_tile_2x##panels, i8_real_tile_3x##panels, i8_real_tile_4x##panels,                \
        i8_real_tile_5x##panels, i8_real_tile_6x##panels
I8_REAL_TILES(1)
#if I8_LANES == 16
I8_REAL_TILE(7, 1)
I8_REAL_TILE(8, 1)
I8_REAL_TILES(2)
I8_REAL_TILE(7, 2)
I8_REAL_TILE(8, 2)
I8_REAL_TILES(3)
I8_REAL_TILE(7, 3)
I8_REAL_TILE(8, 3)
static void (*const i8_real_tiles[3][8])(const i8_real_tile_args *) = {
    {I8_NAMES(1), i8_real_tile_7x1, i8_real_tile_8x1},
    {I8_NAMES(2), i8_real_tile_7x2, i8_real_tile_8x2},
    {I8_NAMES(3), i8_real_tile_7x3, i8_real_tile_8x3},
};
#else
static void (*const i8_real_tiles[1][6])(const i8_real_tile_args *) = {{I8_NAMES(1)}};
#endif
#undef I8_NAMES
#undef I8_REAL_TILES
#undef I8_REAL_TILE

/* Compute a wide tile of one row, which has more chains of multiply-adds, and more contiguous columns for each k. */
static void i8_real_wide(const i8_real_tile_args *t)
{
    enum { VECS = I8_REAL_WIDE * I8_REAL_PANELS * I8_PANEL_VECS };
    i8_f32 sums[VECS];
    const float *b = t->b;
    I8_FOR(v, VECS) sums[v] = t->first ? i8_set_f32(0.0f) : i8_load_f32(t->c + I8_LANES * v);
    for (int64_t k = 0; k < t->k; ++k, b += t->b_row) {
        const i8_f32 a = i8_set_f32(t->a[k]);
        I8_FOR(v, VECS) sums[v] = i8_fma_f32(a, i8_load_f32(b + I8_LANES * v), sums[v]);
    }
    I8_FOR(v, VECS) i8_store_f32(t->c + I8_LANES * v, sums[v]);
}

static void i8_real_tile(const i8_real_tile_args *t)
{
    if (t->panels > I8_REAL_PANELS)
        i8_real_wide(t);
    else
        i8_real_tiles[t->panels - 1][t->rows - 1](t);
}

/* Load 4 k of I8_LANES columns into one vector for each k. The elements of a column are contiguous. */
I8_INLINE void i8_real_turn(i8_f32 *x, const float *b, ptrdiff_t column)
{
    i8_vec v[4];
    I8_HIDE(b); /* without I8_HIDE, GCC would keep a pointer to each column, and spill most pointers */
    I8_FOR(i, 4) v[i] = i8_load_units(b + i * column, 4 * column * (ptrdiff_t)sizeof(float));
    const i8_vec low = i8_low_32(v[0], v[1]), high = i8_high_32(v[0], v[1]);
    const i8_vec next_low = i8_low_32(v[2], v[3]), next_high = i8_high_32(v[2], v[3]);
    x[0] = i8_as_f32(i8_low_64(low, next_low));
    x[1] = i8_as_f32(i8_high_64(low, next_low));
    x[2] = i8_as_f32(i8_low_64(high, next_high));
    x[3] = i8_as_f32(i8_high_64(high, next_high));
}

#define I8_REAL_COLUMN_ROWS 4
I8_INLINE void i8_real_columns_of(const i8_real_tile_args *t, const int rows, const int vecs)
{
    i8_f32 sums[I8_REAL_COLUMN_ROWS][4];
    I8_FOR(i, rows) I8_FOR(v, vecs) sums[i][v] = i8_set_f32(0.0f);
    for (int64_t k = 0; k < t->k; k += 4)
        I8_FOR(v, vecs) {
            i8_f32 x[4];
            i8_real_turn(x, t->b + k + v * I8_LANES * t->b_row, t->b_row);
            I8_FOR(j, 4)
                I8_FOR(i, rows) sums[i][v] = i8_fma_f32(i8_set_f32(t->a[i * t->a_row + k + j]), x[j], sums[i][v]);
        }
    I8_FOR(i, rows) I8_FOR(v, vecs) i8_store_f32(t->c + i * t->c_row + I8_LANES * v, sums[i][v]);
}

/* A tile of one or two rows has too few chains of multiply-adds, so the kernel takes two vectors of columns at a
 * time. */
#define I8_REAL_COLUMNS(rows, vecs)                                                                                    \
    I8_NOINLINE void i8_real_columns_##rows##x##vecs(const i8_real_tile_args *t) { i8_real_columns_of(t, rows, vecs); }
I8_REAL_COLUMNS(1, 1)
I8_REAL_COLUMNS(1, 2)
I8_REAL_COLUMNS(2, 1)
I8_REAL_COLUMNS(2, 2)
I8_REAL_COLUMNS(3, 1)
I8_REAL_COLUMNS(4, 1)
#undef I8_REAL_COLUMNS

static void i8_real_columns(const i8_real_tile_args *t)
{
    static void (*const tiles[I8_REAL_COLUMN_ROWS][2])(const i8_real_tile_args *) = {
        {i8_real_columns_1x1, i8_real_columns_1x2},
        {i8_real_columns_2x1, i8_real_columns_2x2},
        {i8_real_columns_3x1, i8_real_columns_3x1},
        {i8_real_columns_4x1, i8_real_columns_4x1},
    };
    i8_real_tile_args part = *t;
    const int vecs = t->panels * I8_PANEL_VECS;
    for (int v = 0, width; v < vecs; v += width) {
        const float *a = t->a;
        float *c = t->c + v * I8_LANES;
        part.b = t->b + v * I8_LANES * t->b_row;
        width = t->rows <= 2 && vecs - v > 1 ? 2 : 1;
        for (int left = t->rows; left > 0; left -= part.rows) {
            part.rows = left < I8_REAL_COLUMN_ROWS ? left : I8_REAL_COLUMN_ROWS;
            part.a = a, part.c = c;
            tiles[part.rows - 1][width - 1](&part);
            a += part.rows * t->a_row, c += part.rows * t->c_row;
        }
    }
}

/* Add the products of `count` numbers of A, at most 4, with a group of each panel. */
I8_INLINE void i8_real_row_group(const i8_real_row_args *t, int64_t k, const int count, const int panels, i8_f32 *sums)
{
    const i8_vec right = i8_set_32(24);
    I8_FOR(p, panels)
        I8_FOR(v, I8_PANEL_VECS) {
            const i8_vec four = i8_load(t->weights + p * t->panel_size + I8_CHUNK * k + 4 * I8_LANES * v);
            const int at = p * I8_PANEL_VECS + v;
            for (int i = 0; i < count; ++i) {
                i8_f32 x = i8_to_f32(i8_shift_right(i8_shift_left(four, i8_set_32(24 - 8 * i)), right));
                if (t->factor) x = i8_mul_f32(x, i8_load_f32(t->factor + I8_LANES * at));
                sums[at] = i8_fma_f32(i8_set_f32(t->a[k + i]), x, sums[at]);
            }
        }
}

I8_INLINE void i8_real_row_of(const i8_real_row_args *t, const int panels)
{
    i8_f32 sums[I8_REAL_ROW_PANELS * I8_PANEL_VECS];
    const int vecs = panels * I8_PANEL_VECS;
    int64_t k = 0;
    I8_FOR(v, vecs) sums[v] = t->first ? i8_set_f32(0.0f) : i8_load_f32(t->c + I8_LANES * v);
    for (; k + 4 <= t->k; k += 4) i8_real_row_group(t, k, 4, panels, sums);
    if (k < t->k) i8_real_row_group(t, k, (int)(t->k - k), panels, sums);
    I8_FOR(v, vecs) {
        const i8_f32 y = t->scale ? i8_mul_f32(sums[v], i8_load_f32(t->scale + I8_LANES * v)) : sums[v];
        i8_store_f32(t->c + I8_LANES * v, y);
    }
}

static void i8_real_row(const i8_real_row_args *t)
{
    switch (t->panels) {
    case 1: i8_real_row_of(t, 1); break;
    case 2: i8_real_row_of(t, 2); break;
    case 3: i8_real_row_of(t, 3); break;
    default: i8_real_row_of(t, 4); break;
    }
}

#else
/* Plain C */
#define I8_REAL_ROWS 4
#define I8_REAL_PANELS 1

static void i8_real_panel(float *dst, ptrdiff_t dst_k, const int8_t *panel, int64_t groups)
{
    for (int64_t g = 0; g < groups; ++g)
        for (int i = 0; i < 4; ++i)
            I8_EACH dst[(4 * g + i) * dst_k + v] = (float)panel[4 * (I8_CHUNK * g + v) + i];
}

static void i8_real_tile(const i8_real_tile_args *t)
{
    for (int i = 0; i < t->rows; ++i)
        for (int v = 0; v < t->panels * I8_CHUNK; ++v) {
            float *c = t->c + i * t->c_row + v;
            float sum = t->first ? 0.0f : *c;
            const float *b = t->b + v;
            for (int64_t k = 0; k < t->k; b += t->steps ? t->steps[k] : t->b_row, ++k)
                sum = fmaf(t->a[i * t->a_row + k], *b, sum);
            *c = t->scale ? sum * t->scale[v] : sum;
        }
}

static void i8_real_columns(const i8_real_tile_args *t)
{
    for (int i = 0; i < t->rows; ++i)
        I8_EACH
        {
            float sum = 0.0f;
            for (int64_t k = 0; k < t->k; ++k)
                sum = fmaf(t->a[i * t->a_row + k], t->b[k + v * t->b_row], sum);
            t->c[i * t->c_row + v] = sum;
        }
}

static void i8_real_row(const i8_real_row_args *t)
{
    for (int p = 0; p < t->panels; ++p)
        I8_EACH
        {
            const int at = p * I8_CHUNK + v;
            float sum = t->first ? 0.0f : t->c[at];
            for (int64_t k = 0; k < t->k; ++k) {
                const float weight = t->weights[p * t->panel_size + I8_CHUNK * (k & ~3) + 4 * v + (k & 3)];
                sum = fmaf(t->a[k], t->factor ? weight * t->factor[at] : weight, sum);
            }
            t->c[at] = t->scale ? sum * t->scale[at] : sum;
        }
}
#endif
