/* The micro-kernel. tiles.c and saturating.c include this file once for each multiply-add, after defining
 *
 *   I8_PREFIX            the kernel for tiles of m rows and n panels becomes the function <prefix>_<m>x<n>
 *   I8_STEP(acc, a, b)   acc += dot(a, b) in every s32 lane
 *   I8_STEP_2(acc, a, b, c, d)   optional: acc += dot(a, b) + dot(c, d), for two groups at a time
 *   I8_STEP_SMALL(acc, a, b)     optional: acc += two sums of two products in s16. With I8_STEP_SMALL, the
 *                        kernel widens acc after t->small_groups steps, and defines only nearly full tiles
 *   I8_A, I8_LOAD_A(p)   optional: the form of a dword of A for I8_STEP; default i8_vec, i8_broadcast(p)
 *   I8_SHIFTS_A          optional, 1 if I8_STEP takes A' - 128: the tiles add 128 * B', or I8_PREPARE does
 *   I8_INTERLEAVED       optional, 1 for the tiles of I8_DOT_INTERLEAVED, which have one panel
 *   I8_PREPARE(t, mr, np)  optional: prepares the tiles of a call for an earlier definition of <prefix>_add_products
 *   I8_WIDENS            optional, 1 if I8_STEP widens: small tiles have a shorter sequence
 *   I8_ADDED             optional, 1 if only the last instruction of I8_STEP, an addition, waits for the previous step
 *   I8_STEP_APART(acc, a, b)     optional: like I8_STEP, for a unit of B, which has two lanes for each of 4
 *                        columns. All tiles then use I8_STEP_APART
 *   I8_KEEPS_B           optional, 1 if the compiler would load B again for each row
 *   I8_MR, I8_NP         the full tile: 8 x 3 or 6 x 1
 *   I8_ROW_NP            panels of a tile of one row, 3 or 1: several streams of B
 *   I8_LANES             s32 lanes of an i8_vec: 16 or 8 (a panel is 16 / lanes vectors)
 *   i8_vec               with i8_load, i8_store, i8_store_some, i8_broadcast, i8_zero, i8_add
 *
 * Read the file from its end: <prefix>_<m>x<n> calls tile_<m>x<n> for each tile. body() sets the sums to their start
 * values, calls add_products(), and stores the sums. add_products() has the main loop: for each segment of K, in which
 * A and B are contiguous, add_next() adds one group of k after the other. A `position` has the addresses of the next
 * group in A and B. Tiles for which other instructions are faster have separate loops: add_halves(), add_apart(),
 * add_small().
 *
 * The file undefines I8_PREFIX and the steps at its end. After inlining, every loop over rows and vectors has a
 * constant bound and is unrolled, so that accumulators are registers. A tile needs rows * panels * (16 / lanes)
 * accumulators, panels * (16 / lanes) vectors of B, and one broadcast of A, which serves all panels of a row.
 */
#ifndef I8_A
#define I8_A i8_vec
#define I8_LOAD_A(p) i8_broadcast(p)
#endif
#ifndef I8_SHIFTS_A
#define I8_SHIFTS_A 0
#endif
#ifndef I8_WIDENS
#define I8_WIDENS 0
#endif
#ifndef I8_ADDED
#define I8_ADDED 0
#endif
#ifndef I8_KEEPS_B
#define I8_KEEPS_B 0
#endif

#ifndef I8_PREPARE
/* The addresses of the next group of a tile: its dword in the first row of A, its panels of B, and the bytes of B to
 * prefetch, or NULL. */
typedef struct {
    const uint8_t *a;
    const int8_t *b;
    const char *ahead;
} I8_NAME(position);

/* Add one group: row i of A begins at a + i * a_row, and panel p of B at b + p * b_panel. */
I8_INLINE void I8_NAME(add_group)(i8_vec acc[I8_MR][I8_ROW_NP * I8_VECS], const uint8_t *a, const ptrdiff_t a_row,
                                  const int8_t *b, const ptrdiff_t b_panel, const int mr, const int np)
{
    const int width = np * I8_VECS;
    i8_vec bv[I8_ROW_NP * I8_VECS];
    I8_FOR(p, np) I8_FOR(v, I8_VECS) bv[p * I8_VECS + v] = i8_load(b + p * b_panel + v * 4 * I8_LANES);
    if (I8_KEEPS_B && mr > 1)
        I8_FOR(j, width) I8_PIN(bv[j]);
    I8_FOR(i, mr) {
        const I8_A av = I8_LOAD_A(a + i * a_row);
        I8_FOR(j, width) I8_STEP(acc[i][j], av, bv[j]);
    }
}

/* Prefetch B for `groups` groups. With one panel, prefetch into the L1 cache. With several panels, prefetch into the L2
 * cache, because the L1 cache cannot hold the next panels in addition to the current panels. */
I8_INLINE void I8_NAME(fetch)(I8_NAME(position) *at, const i8_tile_args *t, const int groups, const int np)
{
    if (at->ahead && np > 1) {
        I8_FOR(p, np) I8_PREFETCH_L2(at->ahead + p * t->b.panel);
        at->ahead += 4 * I8_PANEL;
    } else if (at->ahead) {
        I8_FOR(group, groups) I8_PREFETCH(at->ahead + group * t->ahead_step);
        at->ahead += groups * t->ahead_step;
    }
}

/* Add the products of one row whose bytes are split into halves. Sums of I8_HALVES_STEPS groups fit s16, and are
 * widened once. B is not widened. */
I8_INLINE void I8_NAME(add_halves)(i8_vec *acc, const i8_tile_args *t, const uint8_t *a, const int8_t *b,
                                   const int groups, const int np)
{
    i8_vec low[I8_ROW_NP * I8_VECS], high[I8_ROW_NP * I8_VECS];
    I8_FOR(j, np * I8_VECS) low[j] = high[j] = i8_zero();
    I8_FOR(group, groups) {
        const i8_vec av = i8_broadcast(a + group * t->a.group), al = i8_low_halves(av), ah = i8_high_halves(av);
        I8_FOR(p, np) I8_FOR(v, I8_VECS) {
            const int j = p * I8_VECS + v;
            const i8_vec bv = i8_load(b + group * 4 * I8_PANEL + p * t->b.panel + v * 4 * I8_LANES);
            low[j] = i8_dot_16(low[j], al, bv);
            high[j] = i8_dot_16(high[j], ah, bv);
            I8_PIN(low[j]);
            I8_PIN(high[j]);
        }
    }
    I8_FOR(j, np * I8_VECS) acc[j] = i8_add_halves(acc[j], low[j], high[j]);
}

/* Widen bytes of B when they are loaded. One instruction widens half a vector. Widening a whole vector in the order of
 * its pairs would take three instructions. Some instruction sets multiply bytes instead, and widen the products. The
 * two pairs of a group of k have separate lanes, which are added at the end. */
#ifdef I8_STEP_APART
#define I8_APART 1
#define I8_APART_A I8_A
#define I8_APART_B i8_unit
#define I8_LOAD_APART_A(p) I8_LOAD_A(p)
#define I8_LOAD_APART_B(p) i8_load_unit(p)
#else
#define I8_APART 0
#define I8_APART_A i8_vec
#define I8_APART_B i8_vec
#define I8_LOAD_APART_A(p) i8_words_repeated(p)
#define I8_LOAD_APART_B(p) i8_words_s8(p)
#define I8_STEP_APART(acc, a, b) (acc) = i8_dot2(acc, a, b)
#endif
I8_INLINE void I8_NAME(add_apart_group)(i8_vec sums[I8_MR][2 * I8_ROW_NP * I8_VECS], const i8_tile_args *t,
                                        const uint8_t *a, const int8_t *b, const int mr, const int np)
{
    I8_APART_A av[I8_MR];
    I8_FOR(i, mr) av[i] = I8_LOAD_APART_A(a + i * t->a.row);
    I8_FOR(p, np) I8_FOR(v, 2 * I8_VECS) {
        const int j = 2 * I8_VECS * p + v;
        const I8_APART_B bv = I8_LOAD_APART_B(b + p * t->b.panel + v * 2 * I8_LANES);
        I8_FOR(i, mr) {
            I8_STEP_APART(sums[i][j], av[i], bv);
            I8_PIN(sums[i][j]);
        }
    }
}

/* In a tile of one panel, the kernel alternates between groups of the first half and of the second half of K, because
 * memory delivers two streams faster than one stream. */
I8_INLINE void I8_NAME(add_apart)(i8_vec acc[I8_MR][I8_ROW_NP * I8_VECS], const i8_tile_args *t, const uint8_t *a,
                                  const int8_t *b, const int mr, const int np)
{
    i8_vec sums[I8_MR][2 * I8_ROW_NP * I8_VECS];
    const int width = np * I8_VECS, streams = np > 1 || mr * width > 4 ? 1 : 2;
    const int64_t part = t->groups / streams;
    I8_FOR(i, mr) I8_FOR(j, 2 * width) sums[i][j] = i8_zero();
    for (int64_t group = 0; group < part; ++group) {
        I8_FOR(s, streams)
            I8_NAME(add_apart_group)(sums, t, a + s * part * t->a.group, b + s * part * 4 * I8_PANEL, mr, np);
        a += t->a.group;
        b += 4 * I8_PANEL;
    }
    if (t->groups % streams)
        I8_NAME(add_apart_group)(sums, t, a + part * t->a.group, b + part * 4 * I8_PANEL, mr, np);
    I8_FOR(i, mr) I8_FOR(j, width)
        acc[i][j] = i8_add(acc[i][j], i8_add_neighbours(sums[i][2 * j], sums[i][2 * j + 1]));
}

#ifdef I8_STEP_SMALL
/* Add products in s16 registers. The s32 sums of the tile stay in memory, because no registers are left for them. The
 * kernel adds the s16 sums of some groups to the s32 sums before it multiplies the next groups. */
I8_INLINE void I8_NAME(add_small)(i8_vec sums[I8_MR][I8_ROW_NP * I8_VECS], const i8_tile_args *t, const uint8_t *a,
                                  const int8_t *b, const char *ahead, const int mr, const int np)
{
    const int width = np * I8_VECS;
    const uint16_t ones = 1;
    I8_NAME(position) at = {a, b, ahead};
    for (int64_t groups = t->groups; groups > 0; groups -= t->small_groups) {
        i8_vec acc[I8_MR][I8_ROW_NP * I8_VECS];
        I8_FOR(i, mr) I8_FOR(j, width) acc[i][j] = i8_zero();
        for (int64_t some = groups < t->small_groups ? groups : t->small_groups; some > 0; --some) {
            I8_NAME(fetch)(&at, t, 1, np);
            i8_vec bv[I8_ROW_NP * I8_VECS];
            I8_FOR(p, np) I8_FOR(v, I8_VECS) bv[p * I8_VECS + v] = i8_load(at.b + p * t->b.panel + v * 4 * I8_LANES);
            I8_FOR(i, mr) {
                const i8_vec av = i8_broadcast(at.a + i * t->a.row);
                I8_FOR(j, width) {
                    I8_STEP_SMALL(acc[i][j], av, bv[j]);
                    I8_PIN(acc[i][j]);
                }
            }
            at.a += t->a.group;
            at.b += 4 * I8_PANEL;
        }
        I8_IN_MEMORY(sums);
        I8_FOR(i, mr) I8_FOR(j, width) sums[i][j] = i8_dot2(sums[i][j], acc[i][j], i8_broadcast_16(&ones));
    }
}
#endif

#ifdef I8_INTERLEAVED
#define I8_INTERLEAVED_GROUPS 4
#endif

#ifdef I8_STEP_SMALL
I8_INLINE void I8_NAME(add_products)(i8_vec sums[I8_MR][I8_ROW_NP * I8_VECS], const i8_tile_args *t, const int64_t row,
                                     const uint8_t *segment, const int8_t *b, const char *ahead, const int mr,
                                     const int np)
{
    I8_NAME(add_small)(sums, t, segment, b, ahead, mr, np);
    b += t->groups * 4 * I8_PANEL;
    if (t->a.tail)
        I8_NAME(add_group)(sums, (const uint8_t *)(t->a.tail + row), 4, b, t->b.panel, mr, np);
}
#else
#ifdef I8_STEP_2
/* Add two groups. */
I8_INLINE void I8_NAME(add_2_groups)(i8_vec acc[I8_MR][I8_ROW_NP * I8_VECS], I8_NAME(position) *at,
                                     const i8_tile_args *t, const int mr, const int np)
{
    const int width = np * I8_VECS;
    i8_vec bv[2][I8_ROW_NP * I8_VECS];
    I8_NAME(fetch)(at, t, 2, np);
    I8_FOR(d, 2)
        I8_FOR(p, np) I8_FOR(v, I8_VECS)
            bv[d][p * I8_VECS + v] = i8_load(at->b + d * 4 * I8_PANEL + p * t->b.panel + v * 4 * I8_LANES);
    I8_FOR(i, mr) {
        const i8_vec av = i8_broadcast(at->a + i * t->a.row), aw = i8_broadcast(at->a + t->a.group + i * t->a.row);
        I8_FOR(j, width) I8_STEP_2(acc[i][j], av, bv[0][j], aw, bv[1][j]);
    }
    at->a += 2 * t->a.group;
    at->b += 2 * 4 * I8_PANEL;
}
#endif

/* Add the next group. */
I8_INLINE void I8_NAME(add_next)(i8_vec acc[I8_MR][I8_ROW_NP * I8_VECS], I8_NAME(position) *at, const i8_tile_args *t,
                                 const int mr, const int np)
{
    I8_NAME(fetch)(at, t, 1, np);
    I8_NAME(add_group)(acc, at->a, t->a.row, at->b, t->b.panel, mr, np);
    at->a += t->a.group;
    at->b += 4 * I8_PANEL;
}

/* Return the number of groups that a tile of `sums` vectors adds at a time. Each group has its own accumulators. A
 * multiply-add waits for the previous multiply-add into its accumulator, and a small tile has too few accumulators to
 * hide this latency. With 16 registers and 12 accumulators, no registers are left for products that wait for their
 * addition. */
I8_INLINE int I8_NAME(depth)(const int sums)
{
#ifdef I8_STEP_2
    return sums > 0;
#else
    return sums > (I8_ADDED && I8_LANES == 8 ? 3 : 6) ? 1 : sums > 3 ? 2 : 4;
#endif
}

/* The maximum number of accumulators of add_apart. Tiles that need more accumulators are computed in two parts. */
#define I8_APART_SUMS 6
I8_INLINE void I8_NAME(add_tile_apart)(i8_vec acc[I8_MR][I8_ROW_NP * I8_VECS], const i8_tile_args *t, const uint8_t *a,
                                       const int8_t *b, const int mr, const int np)
{
    const int upper = mr * np * I8_VECS > I8_APART_SUMS ? (mr + 1) / 2 : mr;
    I8_NAME(add_apart)(acc, t, a, b, upper, np);
    if (upper < mr)
        I8_NAME(add_apart)(acc + upper, t, a + upper * t->a.row, b, mr - upper, np);
}

/* Add the products of the rows from `row` on with `np` panels of B to a tile's sums. */
I8_INLINE void I8_NAME(add_products)(i8_vec sums[I8_MR][I8_ROW_NP * I8_VECS], const i8_tile_args *t, const int64_t row,
                                     const uint8_t *segment, const int8_t *b, const char *ahead, const int mr,
                                     const int np)
{
    i8_vec acc[4][I8_MR][I8_ROW_NP * I8_VECS];
    const int width = np * I8_VECS;
    const int halves = I8_WIDENS && mr == 1, apart = I8_APART || (I8_WIDENS && mr > 1 && mr * width <= 4);
    const int depth = halves || apart ? 1 : I8_NAME(depth)(mr * width);
    I8_NAME(position) at = {segment, b, ahead};

    I8_FOR(i, mr) I8_FOR(j, width) acc[0][i][j] = sums[i][j];
    if (depth > 1)
        I8_FOR(d, depth - 1) I8_FOR(i, mr) I8_FOR(j, width) acc[d + 1][i][j] = i8_zero();
    for (int64_t more = t->more_segments;; --more, segment += t->a.segment, at.b += t->b.segment) {
        int64_t groups = t->groups;
        at.a = segment;
        if (halves)
            for (; groups >= I8_HALVES_STEPS; groups -= I8_HALVES_STEPS) {
                I8_NAME(add_halves)(acc[0][0], t, at.a, at.b, I8_HALVES_STEPS, np);
                at.a += I8_HALVES_STEPS * t->a.group;
                at.b += I8_HALVES_STEPS * 4 * I8_PANEL;
            }
        if (apart) {
            I8_NAME(add_tile_apart)(acc[0], t, at.a, at.b, mr, np);
            at.b += groups * 4 * I8_PANEL;
            groups = 0;
        }
#ifdef I8_STEP_2
        for (; groups >= 2; groups -= 2)
            I8_NAME(add_2_groups)(acc[0], &at, t, mr, np);
#endif
#ifdef I8_INTERLEAVED
        /* In a loop over single groups, half of the instructions would be loop overhead, which slows a CPU that starts
         * 3 instructions a cycle. */
        for (; depth == 1 && groups >= I8_INTERLEAVED_GROUPS; groups -= I8_INTERLEAVED_GROUPS) {
            I8_NAME(fetch)(&at, t, I8_INTERLEAVED_GROUPS, np);
            I8_FOR(d, I8_INTERLEAVED_GROUPS) {
                I8_NAME(add_group)(acc[0], at.a, 4, at.b, t->b.panel, mr, np);
                at.a += 4 * mr;
                at.b += 4 * I8_PANEL;
            }
        }
#endif
        if (depth > 1)
            for (; groups >= depth; groups -= depth)
                I8_FOR(d, depth) I8_NAME(add_next)(acc[d], &at, t, mr, np);
        for (; groups > 0; --groups)
            I8_NAME(add_next)(acc[0], &at, t, mr, np);
        if (more == 0)
            break;
    }
    if (depth > 1)
        I8_FOR(d, depth - 1) I8_FOR(i, mr) I8_FOR(j, width) acc[0][i][j] = i8_add(acc[0][i][j], acc[d + 1][i][j]);
    if (t->a.tail)
        I8_NAME(add_group)(acc[0], (const uint8_t *)(t->a.tail + row), 4, at.b, t->b.panel, mr, np);
    I8_FOR(i, mr) I8_FOR(j, width) sums[i][j] = acc[0][i][j];
}
#endif

#ifndef I8_INTERLEAVED
/* Add all products of one panel, then all products of the next panel. */
I8_INLINE void I8_NAME(add_sequential)(i8_vec sums[I8_MR][I8_ROW_NP * I8_VECS], const i8_tile_args *t, int64_t row,
                                       const uint8_t *a, const int8_t *b, const int mr, const int np)
{
    I8_FOR(p, np) {
        i8_vec part[I8_MR][I8_ROW_NP * I8_VECS];
        I8_FOR(i, mr) I8_FOR(v, I8_VECS) part[i][v] = sums[i][p * I8_VECS + v];
        I8_NAME(add_products)(part, t, row, a, b + p * t->b.panel, NULL, mr, 1);
        I8_FOR(i, mr) I8_FOR(v, I8_VECS) sums[i][p * I8_VECS + v] = part[i][v];
    }
}
#endif
#endif

#if I8_SHIFTS_A
/* Compute 128 * the column sums of `np` panels, over all k of the tile. */
I8_INLINE void I8_NAME(shifts)(i8_vec *sums, const i8_tile_args *t, const int8_t *b, const int np)
{
    I8_FOR(j, np * I8_VECS) sums[j] = i8_zero();
    for (int64_t more = t->more_segments; more >= 0; --more) {
        const int64_t groups = t->groups + (more == 0 && t->a.tail);
        for (int64_t g = 0; g < groups; ++g, b += 4 * I8_PANEL)
            I8_FOR(p, np) I8_FOR(v, I8_VECS) {
                const i8_vec bv = i8_load(b + p * t->b.panel + v * 4 * I8_LANES);
                sums[p * I8_VECS + v] = i8_add_shift(sums[p * I8_VECS + v], bv);
            }
        b += t->b.segment;
    }
}
I8_INLINE void I8_NAME(shifted_columns)(int32_t *col_init, const i8_tile_args *t, const int np)
{
    i8_vec sums[I8_ROW_NP * I8_VECS];
    I8_NAME(shifts)(sums, t, t->b.data, np);
    I8_FOR(j, np * I8_VECS)
        i8_store(col_init + j * I8_LANES, t->col_init ? i8_add(sums[j], i8_load(t->col_init + j * I8_LANES)) : sums[j]);
}
#endif

/* Store `columns` columns of a panel, whose vectors in row i of the tile begin at v + i * I8_ROW_NP * I8_VECS. */
I8_INLINE void I8_NAME(store_columns)(int32_t *dst, const ptrdiff_t dst_row, const i8_vec *v, const int mr,
                                      const int columns)
{
    I8_FOR(i, mr) I8_FOR(j, I8_VECS)
        i8_store_some(dst + i * dst_row + j * I8_LANES, v[i * I8_ROW_NP * I8_VECS + j], columns - j * I8_LANES);
}

/* Compute tile number `tile`. */
I8_INLINE void I8_NAME(body)(const i8_tile_args *t, const int64_t tile, const int mr, const int np)
{
    i8_vec acc[I8_MR][I8_ROW_NP * I8_VECS];
    const int width = np * I8_VECS, looks_ahead = mr > I8_SHORT_TILE(I8_NP) && np == I8_NP;
    const int along_n = mr <= I8_SHORT_TILE(I8_NP) && t->along_n;
    const int64_t row = along_n ? 0 : tile * mr, column = along_n ? tile * np * I8_PANEL : 0;
    const uint8_t *a = along_n ? t->a.data : t->a.data + tile * t->a.tile;
    const int8_t *b = along_n ? t->b.data + tile * np * t->b.panel : t->b.data;

    I8_FOR(j, width) {
        const i8_vec start = t->col_init ? i8_load(t->col_init + column + j * I8_LANES) : i8_zero();
        I8_FOR(i, mr) acc[i][j] = start;
    }
#if I8_SHIFTS_A && !defined(I8_PREPARE)
    /* body() adds the shift of short tiles. For all taller tiles, col_init contains the shift. */
    if (mr <= I8_SHORT_TILE(I8_NP)) {
        i8_vec shifts[I8_ROW_NP * I8_VECS];
        I8_NAME(shifts)(shifts, t, b, np);
        I8_FOR(i, mr) I8_FOR(j, width) acc[i][j] = i8_add(acc[i][j], shifts[j]);
    }
#endif
    if (t->acc_in)
        I8_FOR(i, mr) I8_FOR(j, width)
            acc[i][j] = i8_add(acc[i][j], i8_load(t->acc_in + (row + i) * t->acc_row + column + j * I8_LANES));
    if (t->row_init)
        I8_FOR(i, mr) {
            const i8_vec start = i8_broadcast(t->row_init + row + i);
            I8_FOR(j, width) acc[i][j] = i8_add(acc[i][j], start);
        }
    if (t->fetch)
        I8_FOR(i, mr) I8_FOR(j, width)
            I8_PREFETCH_WRITE(t->fetch + (row + i) * t->fetch_row + (column + j * I8_LANES) * 4);
#ifndef I8_INTERLEAVED
    if (np > 1 && mr <= I8_MAX_SEQUENTIAL && t->sequential)
        I8_NAME(add_sequential)(acc, t, row, a, b, mr, np);
    else
#endif
        I8_NAME(add_products)(acc, t, row, a, b, looks_ahead && tile == 0 ? t->ahead : NULL, mr, np);

    if (t->output) {
        i8_output_tile(t->output, row, column, acc[0], I8_ROW_NP * I8_VECS, mr, width);
        return;
    }
    /* Only the last panel may have columns beyond C. Whole tiles are stored row by row: 48 x 48 x 48 takes 609 ns, and
     * 624 ns panel by panel (AVX512-VNNI, Zen 4). The usual widths of incomplete panels are constants, and need no
     * mask. */
    const ptrdiff_t dst_row = t->dst_row;
    int32_t *dst = t->dst + row * dst_row + column;
    const int last = t->cols - (np - 1) * I8_PANEL;
    if (last == I8_PANEL) {
        I8_FOR(i, mr) I8_FOR(j, width) i8_store(dst + i * dst_row + j * I8_LANES, acc[i][j]);
        return;
    }
    I8_FOR(i, mr) I8_FOR(j, width - I8_VECS) i8_store(dst + i * dst_row + j * I8_LANES, acc[i][j]);
    dst += (np - 1) * I8_PANEL;
    if (last == 8)
        I8_NAME(store_columns)(dst, dst_row, &acc[0][width - I8_VECS], mr, 8);
    else if (last == 4)
        I8_NAME(store_columns)(dst, dst_row, &acc[0][width - I8_VECS], mr, 4);
    else
        I8_NAME(store_columns)(dst, dst_row, &acc[0][width - I8_VECS], mr, last);
}

#ifdef I8_PREPARE
#elif I8_SHIFTS_A
/* Add the shift to col_init once for all tiles along M. */
#define I8_PREPARE(t, mr, np)                                                                                          \
    int32_t col_init[(np)*I8_PANEL];                                                                                   \
    i8_tile_args with_shifts;                                                                                          \
    if ((mr) > I8_SHORT_TILE(I8_NP)) {                                                                                 \
        I8_NAME(shifted_columns)(col_init, t, np);                                                                     \
        with_shifts = *t;                                                                                              \
        with_shifts.col_init = col_init;                                                                               \
        t = &with_shifts;                                                                                              \
    }
#else
#define I8_PREPARE(t, mr, np)
#endif

/* Each size of tile has its own function. In a common function, compilers would move preparations for all sizes before
 * the loop. */
#define I8_DEFINE(mr, np)                                                                                              \
    I8_NOINLINE void I8_NAME(tile_##mr##x##np)(const i8_tile_args *t, int64_t tile)                                    \
    {                                                                                                                  \
        I8_NAME(body)(t, tile, mr, np);                                                                                \
    }                                                                                                                  \
    static void I8_NAME(mr##x##np)(const i8_tile_args *t)                                                              \
    {                                                                                                                  \
        I8_PREPARE(t, mr, np);                                                                                         \
        for (int64_t tile = 0; tile < t->tiles; ++tile)                                                                \
            I8_NAME(tile_##mr##x##np)(t, tile);                                                                        \
    }

#define I8_DEFINE_6(np)                                                                                                \
    I8_DEFINE(1, np) I8_DEFINE(2, np) I8_DEFINE(3, np) I8_DEFINE(4, np) I8_DEFINE(5, np) I8_DEFINE(6, np)
#define I8_DEFINE_8(np) I8_DEFINE_6(np) I8_DEFINE(7, np) I8_DEFINE(8, np)
#ifdef I8_STEP_SMALL
#if I8_NP == 1
I8_DEFINE(5, 1)
I8_DEFINE(6, 1)
#else
I8_DEFINE(7, 2)
I8_DEFINE(8, 2)
I8_DEFINE(7, 3)
I8_DEFINE(8, 3)
#endif
#elif I8_NP > 1
I8_DEFINE_8(1)
I8_DEFINE_8(2)
I8_DEFINE_8(3)
#else
I8_DEFINE_6(1)
#if I8_ROW_NP == 3 && !defined(I8_INTERLEAVED)
I8_DEFINE(1, 2)
I8_DEFINE(1, 3)
#endif
#endif

#undef I8_DEFINE_8
#undef I8_DEFINE_6
#undef I8_DEFINE
#undef I8_PREPARE
#undef I8_ADDED
#undef I8_WIDENS
#undef I8_LOAD_APART_B
#undef I8_LOAD_APART_A
#undef I8_APART_B
#undef I8_APART_SUMS
#undef I8_APART_A
#undef I8_APART
#undef I8_STEP_APART
#undef I8_SHIFTS_A
#undef I8_INTERLEAVED_GROUPS
#undef I8_INTERLEAVED
#undef I8_LOAD_A
#undef I8_A
#undef I8_STEP_2
#undef I8_STEP_SMALL
#undef I8_STEP
#undef I8_PREFIX
