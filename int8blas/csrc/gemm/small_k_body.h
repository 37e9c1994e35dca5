/* The kernel of small K multiplies any number of rows of A by panels of B, with K up to 4 * I8_SMALL_K_GROUPS
 * (i8_small_k_args in gemm.h). Writing C takes most of the time, so the kernel writes C along its rows. One, two or
 * four rows of A stay in registers while the kernel reads the panels of B from the L1 cache. gemm.c includes this file
 * once, after isa/shared_dots.h and the i8_vec of tile_body.h with i8_store_lanes and i8_stream.
 *
 * Registers hold rows * groups dwords of A, at most 16, and at least one vector of B. Compilers may leave the other
 * vectors of B in memory. `rows`, `groups` and `distances` are constants. */
_Static_assert(4 * I8_SMALL_K_GROUPS <= I8_MAX_SMALL_K, "room for the packed rows of the path small_k");

/* Load some rows of A into registers, and the start values of their sums. */
I8_INLINE void i8_small_k_load(i8_vec a[4][I8_SMALL_K_GROUPS], i8_vec *start, const i8_small_k_args *t, int64_t row,
                               const int rows, const int groups, const int shares)
{
    const uint8_t *first_a = t->a.data + row * t->a.row;
    const uint32_t flip4 = 0x01010101u * t->a.flip;
    const i8_vec flip = i8_broadcast(&flip4);
    I8_FOR(i, rows) {
        const uint8_t *row_a = first_a + i * t->a.row;
        I8_FOR(g, groups - 1) a[i][g] = i8_broadcast(row_a + g * t->a.group);
        if (t->a.tail) {
            /* Read the dword that ends at the end of the row. */
            const uint32_t last = i8_read32(row_a + (groups - 2) * 4 + t->a.tail) >> (32 - 8 * t->a.tail);
            a[i][groups - 1] = i8_broadcast(&last);
        } else {
            a[i][groups - 1] = i8_broadcast(row_a + (groups - 1) * t->a.group);
        }
        if (t->a.flip)
            I8_FOR(g, groups) a[i][g] = i8_xor(a[i][g], flip);
        if (shares)
            I8_FOR(g, groups) a[i][g] = i8_shared(a[i][g]);
        start[i] = t->row_init ? i8_broadcast(t->row_init + row + i) : i8_zero();
    }
}

/* Compute `rows` rows of C. */
I8_INLINE void i8_small_k_rows(const i8_small_k_args *t, int64_t row, const int rows, const int groups,
                               const int distances)
{
    i8_vec a[4][I8_SMALL_K_GROUPS], start[4];
    const int8_t *b = t->b;
    const int32_t *col_init = t->col_init;
    int32_t *dst = t->dst + row * t->dst_row - t->first;
    /* Pairs of s16 need no shift, because all bytes fit s16. */
    const int shares = I8_SHARED_FLIP && !I8_BY_PAIRS && rows > 1;
    const ptrdiff_t dst_row = t->dst_row;
    i8_small_k_load(a, start, t, row, rows, groups, shares);
#define I8_SMALL_K_FIRST(p, x) i8_store_lanes(p, x, t->first - v * I8_LANES, end - v * I8_LANES)
#define I8_SMALL_K_LAST(p, x) i8_store_lanes(p, x, 0, (int)columns - v * I8_LANES)
#define I8_SMALL_K_PANEL(store)                                                                                        \
    do {                                                                                                               \
        I8_FOR(v, I8_VECS) {                                                                                           \
            const i8_vec init = i8_load(col_init + v * I8_LANES);                                                      \
            i8_vec acc[4], sums = i8_zero();                                                                           \
            I8_FOR(i, rows) acc[i] = distances ? i8_zero() : i8_add(init, start[i]);                                   \
            I8_FOR(g, groups) {                                                                                        \
                const i8_vec bv = i8_load(b + 4 * (g * I8_PANEL + v * I8_LANES));                                      \
                if (shares) {                                                                                          \
                    sums = i8_add_fours(sums, bv);                                                                     \
                    I8_FOR(i, rows) I8_SHARED_DOT(acc[i], a[i][g], bv);                                                \
                } else {                                                                                               \
                    I8_FOR(i, rows) I8_DOT(acc[i], a[i][g], bv);                                                       \
                }                                                                                                      \
            }                                                                                                          \
            if (shares)                                                                                                \
                I8_FOR(i, rows) acc[i] = i8_finish_dots(acc[i], sums);                                                 \
            I8_FOR(i, rows) {                                                                                          \
                int32_t *p = dst + i * dst_row + v * I8_LANES;                                                         \
                if (distances)                                                                                         \
                    acc[i] = i8_sub(i8_add(init, start[i]), i8_add(acc[i], acc[i]));                                   \
                store(p, acc[i]);                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        b += groups * 4 * I8_PANEL;                                                                                    \
        col_init += I8_PANEL;                                                                                          \
        dst += I8_PANEL;                                                                                               \
        columns -= I8_PANEL;                                                                                           \
    } while (0)
    int64_t columns = t->first + t->cols;
    if (t->first > 0) {
        const int end = columns < I8_PANEL ? (int)columns : I8_PANEL;
        I8_SMALL_K_PANEL(I8_SMALL_K_FIRST);
    }
    if (t->stream)
        while (columns >= I8_PANEL)
            I8_SMALL_K_PANEL(i8_stream);
    while (columns >= I8_PANEL)
        I8_SMALL_K_PANEL(i8_store);
    if (columns > 0)
        I8_SMALL_K_PANEL(I8_SMALL_K_LAST);
#undef I8_SMALL_K_PANEL
#undef I8_SMALL_K_LAST
#undef I8_SMALL_K_FIRST
}

I8_INLINE void i8_small_k_groups(const i8_small_k_args *t, const int groups, const int distances)
{
    /* With one or two groups, the memory bandwidth for C limits the speed, and writing row by row is fastest. */
    const int rows = groups <= 2 ? 1 : groups <= 4 ? I8_SMALL_K_ROWS : 2;
    int64_t i = 0;
    for (; i + rows <= t->rows; i += rows)
        i8_small_k_rows(t, i, rows, groups, distances);
    for (; rows > 1 && i < t->rows; ++i)
        i8_small_k_rows(t, i, 1, groups, distances);
}

#define I8_DEFINE(groups)                                                                                              \
    static void i8_small_k_##groups(const i8_small_k_args *t) { i8_small_k_groups(t, groups, 0); }                     \
    static void i8_small_k_distances_##groups(const i8_small_k_args *t) { i8_small_k_groups(t, groups, 1); }
I8_DEFINE(1) I8_DEFINE(2)
#if I8_SMALL_K_GROUPS > 2
I8_DEFINE(3) I8_DEFINE(4)
#endif
#if I8_SMALL_K_GROUPS > 4
I8_DEFINE(5) I8_DEFINE(6) I8_DEFINE(7) I8_DEFINE(8)
#define I8_ALL_GROUPS(f) {f##_1, f##_2, f##_3, f##_4, f##_5, f##_6, f##_7, f##_8}
#elif I8_SMALL_K_GROUPS > 2
#define I8_ALL_GROUPS(f) {f##_1, f##_2, f##_3, f##_4}
#else
#define I8_ALL_GROUPS(f) {f##_1, f##_2}
#endif
#undef I8_DEFINE

static void i8_small_k(const i8_small_k_args *t)
{
    static void (*const kernel[2][I8_SMALL_K_GROUPS])(const i8_small_k_args *) = {
        I8_ALL_GROUPS(i8_small_k), I8_ALL_GROUPS(i8_small_k_distances),
    };
    kernel[t->distances][t->groups - 1](t);
    if (t->stream)
        i8_finish_streams();
}
#undef I8_ALL_GROUPS
