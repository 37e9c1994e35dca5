/* Compute tiles with scale groups (i8_scale_groups_fn in gemm.h) in registers. A panel takes `v` = 16 / lanes
 * registers. A tile has rows * panels * v registers for s32 sums of the current group, rows * panels * v for f32 sums
 * of the earlier groups, panels * v for B, and 1 for a broadcast of A. Tiles of 4 x 3 panels take 12 + 12 + 3 + 1 = 28
 * of 32 registers. Tiles of 3 x 1 panels with v = 2 take 6 + 6 + 2 + 1 = 15 of 16 registers.
 *
 * Without VNNI, tiles have one row and are multiplied as in tile_body.h. Without VNNI, the f32 sums are in memory
 * during the multiplication. tiles.c includes this file once, after tile_body.h, which defines the names that this file
 * uses. */
#if I8_PAIRED
#define I8_SCALED_MR 1
#elif I8_LANES == 16
#define I8_SCALED_MR 4
#else
#define I8_SCALED_MR 3
#endif
#ifndef I8_KEEPS_B
#define I8_KEEPS_B 0
#endif

/* Set acc to the sums of one scale group. */
I8_INLINE void i8_scaled_products(i8_vec acc[I8_MR][I8_ROW_NP * I8_VECS], const i8_tile_args *t, const uint8_t *a,
                                  const int8_t *b, const int mr, const int np)
{
    const int width = np * I8_VECS;
    I8_FOR(i, mr) I8_FOR(j, width) acc[i][j] = i8_zero();
#if I8_PAIRED
    I8_PASTE(I8_OF_SET(dot4), add_products)(acc, t, 0, a, b, NULL, mr, np);
#else
    i8_vec sums[I8_ROW_NP * I8_VECS];
    I8_FOR(j, width) sums[j] = i8_zero();
    for (int64_t g = 0; g < t->groups; ++g, a += t->a.group, b += 4 * I8_PANEL) {
        i8_vec bv[I8_ROW_NP * I8_VECS];
        I8_FOR(p, np) I8_FOR(v, I8_VECS) bv[p * I8_VECS + v] = i8_load(b + p * t->b.panel + v * 4 * I8_LANES);
        if (I8_KEEPS_B && mr > 1)
            I8_FOR(j, width) I8_PIN(bv[j]);
        I8_FOR(j, width) sums[j] = i8_add_fours(sums[j], bv[j]);
        I8_FOR(i, mr) {
            const i8_vec av = i8_shared(i8_broadcast(a + i * t->a.row));
            I8_FOR(j, width) I8_SHARED_DOT(acc[i][j], av, bv[j]);
        }
    }
    I8_FOR(i, mr) I8_FOR(j, width) acc[i][j] = i8_finish_dots(acc[i][j], sums[j]);
#endif
}

I8_INLINE void i8_scaled_tile(const i8_tile_args *t, const i8_scale_group_args *s, const int64_t tile, int64_t count,
                              const int mr, const int np)
{
    i8_vec acc[I8_MR][I8_ROW_NP * I8_VECS];
    i8_f32 y[I8_SCALED_MR][I8_ROW_NP * I8_VECS];
    float row_scale[I8_SCALED_MR]; /* 1.0 if there are no row scales */
    int32_t ao[I8_SCALED_MR];
    const int64_t row = tile * mr;
    const uint8_t *a = t->a.data + tile * t->a.tile;
    const int8_t *b = t->b.data;
    const float *scale = s->scale;
    const int32_t *col_sum = s->col_sum;
    I8_FOR(i, mr) {
        row_scale[i] = s->row_scale ? s->row_scale[row + i] : 1.0f;
        ao[i] = (int32_t)(s->ao_rows ? s->ao_rows[row + i] : s->ao);
        I8_FOR(j, np * I8_VECS) y[i][j] = i8_set_f32(-0.0f); /* adding -0.0 changes no number */
    }
    for (; count > 0; --count) {
        i8_scaled_products(acc, t, a, b, mr, np);
        if (col_sum) {
            I8_FOR(p, np) I8_FOR(v, I8_VECS) {
                const i8_vec sums = i8_load(col_sum + p * s->panel_step + v * I8_LANES);
                i8_vec less = i8_mul_s32(i8_set_32(ao[0]), sums);
                I8_FOR(i, mr) {
                    if (i > 0 && s->ao_rows)
                        less = i8_mul_s32(i8_set_32(ao[i]), sums);
                    acc[i][p * I8_VECS + v] = i8_sub(acc[i][p * I8_VECS + v], less);
                }
            }
            col_sum += I8_PANEL;
        }
        I8_FOR(p, np) I8_FOR(v, I8_VECS) {
            const i8_f32 factor = i8_load_f32(scale + p * s->panel_step + v * I8_LANES);
            const int j = p * I8_VECS + v;
            I8_FOR(i, mr) {
                const i8_f32 x = i8_mul_f32(i8_to_f32(acc[i][j]), i8_mul_f32(i8_set_f32(row_scale[i]), factor));
                y[i][j] = i8_add_f32(y[i][j], x);
            }
        }
        scale += I8_PANEL;
        a += t->groups * t->a.group;
        b += t->groups * 4 * I8_PANEL;
    }
    I8_FOR(i, mr) I8_FOR(j, np * I8_VECS) i8_store_f32(s->y + (row + i) * s->y_row + j * I8_LANES, y[i][j]);
}

#define I8_DEFINE(mr, np)                                                                                              \
    static void i8_scale_groups_##mr##x##np(const i8_tile_args *t, const i8_scale_group_args *s, int64_t count)        \
    {                                                                                                                  \
        for (int64_t tile = 0; tile < t->tiles; ++tile)                                                                \
            i8_scaled_tile(t, s, tile, count, mr, np);                                                                 \
    }
#define I8_SCALED(mr, np) i8_scale_groups_##mr##x##np
#define I8_SCALED_ROW(mr) {I8_SCALED(mr, 1), I8_SCALED(mr, 2), I8_SCALED(mr, 3)}
I8_DEFINE(1, 1)
I8_DEFINE(1, 2)
I8_DEFINE(1, 3)
#if I8_SCALED_MR == 1
#define I8_SCALED_TILES {I8_SCALED_ROW(1)}
#else
I8_DEFINE(2, 1)
I8_DEFINE(3, 1)
#if I8_SCALED_MR == 3
#define I8_SCALED_TILES {I8_SCALED_ROW(1), {I8_SCALED(2, 1)}, {I8_SCALED(3, 1)}}
#else
I8_DEFINE(2, 2)
I8_DEFINE(2, 3)
I8_DEFINE(3, 2)
I8_DEFINE(3, 3)
I8_DEFINE(4, 1)
I8_DEFINE(4, 2)
I8_DEFINE(4, 3)
#define I8_SCALED_TILES {I8_SCALED_ROW(1), I8_SCALED_ROW(2), I8_SCALED_ROW(3), I8_SCALED_ROW(4)}
#endif
#endif
#undef I8_DEFINE
