/* The dot kernels multiply many vectors x, which are contiguous in k and read in place, by a few packed vectors y
 * (i8_dot_args in gemm.h). gemm.c includes this file once for each sign, after defining I8_PREFIX, I8_STEP(acc, x, y),
 * I8_DOT_SUMS and the i8_vec of tile_body.h with i8_repeat, i8_repeat_some, i8_fold_lanes, i8_fold_units and
 * i8_permute.
 *
 * Each of up to 4 vectors y has a register, and each sum has a register, whose lanes are added at the end. 8 or 16
 * vectors y share a register, in which each vector has `lanes` = I8_LANES / columns groups of four k. The load of x
 * repeats the corresponding groups of x over the register. Repeating 4 or 8 bytes costs no time. Repeating more bytes
 * makes the loop 1.25x slower, so a shifted x has a separate loop.
 *
 * The kernel uses I8_DOT_SUMS registers for accumulators, up to 4 for y and one for x. The result has rows * columns
 * values, row by row.
 *
 * If I8_STEP multiplies operands of the same sign, x is shifted to the sign of y. The correction of a dot product is
 * I8_SHIFT times the sum of y.
 *
 * If I8_STEP would take several instructions, y is split into halves (i8_order_dots) for I8_STEP_16(acc, x, y). The
 * products of I8_HALVES_STEPS loads of x are added in s16, and widened once. */
#define I8_ADD_BYTES(acc_, load)                                                                                       \
    do {                                                                                                               \
        i8_vec yv[4];                                                                                                  \
        I8_FOR(j, vectors) yv[j] = i8_load(y + 4 * I8_LANES * j);                                                      \
        I8_FOR(i, rows) {                                                                                              \
            const i8_vec xv = load;                                                                                    \
            I8_FOR(j, vectors) I8_STEP(acc_[i * vectors + j], xv, yv[j]);                                              \
        }                                                                                                              \
        x += bytes;                                                                                                    \
        y += 4 * I8_LANES * vectors;                                                                                   \
    } while (0)
#define I8_FOLD(fold, n)                                                                                               \
    I8_FOR(i, ((n) + 1) / 2) acc[i] = fold(acc[2 * i], acc[2 * i + 1 < (n) ? 2 * i + 1 : 2 * i])

/* Return whether whole loads of the last bytes of x end before `end`. y has zeros for the bytes after x. */
#define I8_HAS_WHOLE_TAIL (end - x >= (x_row > 0 ? (rows - 1) * x_row : 0) + bytes)

#ifdef I8_SHIFT
#define I8_FLIP_X(t) ((uint8_t)((t)->x_flip ^ 0x80))
#else
#define I8_FLIP_X(t) (t)->x_flip
#endif

#ifdef I8_STEP_16
#define I8_ADD_HALVES(load)                                                                                            \
    do {                                                                                                               \
        i8_vec xv[I8_DOT_ROWS];                                                                                        \
        I8_FOR(i, rows) xv[i] = load;                                                                                  \
        I8_FOR(j, vectors) {                                                                                           \
            const i8_vec yl = i8_load(y + 8 * I8_LANES * j), yh = i8_load(y + 8 * I8_LANES * j + 4 * I8_LANES);        \
            I8_FOR(i, rows) {                                                                                          \
                I8_STEP_16(low[i * vectors + j], xv[i], yl);                                                           \
                I8_STEP_16(high[i * vectors + j], xv[i], yh);                                                          \
                I8_PIN(low[i * vectors + j]);                                                                          \
                I8_PIN(high[i * vectors + j]);                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        x += bytes;                                                                                                    \
        y += 8 * I8_LANES * vectors;                                                                                   \
    } while (0)

/* Add the products of all k, lane by lane. */
I8_INLINE void I8_NAME(add)(i8_vec *acc, const i8_dot_args *t, const uint8_t *x, const int rows, const int columns,
                            const int in_line, const uint8_t *end)
{
    const int vectors = columns > 4 ? 1 : columns, lanes = columns > 4 ? I8_LANES / columns : I8_LANES;
    const int bytes = 4 * lanes, sums = rows * vectors;
    const uint8_t *y = t->y, *ahead = x + rows * t->x_row;
    const ptrdiff_t x_row = t->x_row;
    const uint32_t flip4 = 0x01010101u * I8_FLIP_X(t);
    const i8_vec flip = i8_broadcast(&flip4);
    I8_FOR(i, sums) acc[i] = i8_zero();
    for (int64_t k = t->k; k > 0;) {
        i8_vec low[I8_DOT_SUMS], high[I8_DOT_SUMS];
        I8_FOR(i, sums) low[i] = high[i] = i8_zero();
        if (in_line && k >= I8_HALVES_STEPS * bytes) {
            I8_FOR(step, I8_HALVES_STEPS) {
                if (columns <= 4)
                    I8_FOR(i, rows * bytes / 64) I8_PREFETCH(ahead + (step * rows * bytes + 64 * i));
                I8_ADD_HALVES(i8_xor(i8_repeat(x + i * x_row, bytes), flip));
            }
            ahead += I8_HALVES_STEPS * rows * bytes;
            k -= I8_HALVES_STEPS * bytes;
        } else {
            int steps = I8_HALVES_STEPS;
            for (; steps > 0 && k >= bytes; --steps, k -= bytes)
                I8_ADD_HALVES(i8_xor(i8_repeat(x + i * x_row, bytes), flip));
            if (steps > 0 && k > 0) {
                if (I8_HAS_WHOLE_TAIL)
                    I8_ADD_HALVES(i8_xor(i8_repeat(x + i * x_row, bytes), flip));
                else
                    I8_ADD_HALVES(i8_xor(i8_repeat_some(x + i * x_row, bytes, (int)k), flip));
                k = 0;
            }
        }
        I8_FOR(i, sums) acc[i] = i8_add_halves(acc[i], low[i], high[i]);
    }
}
#undef I8_ADD_HALVES
#else
/* Add the products of all k, lane by lane, from halves of bytes. */
I8_INLINE void I8_NAME(add)(i8_vec *total, const i8_dot_args *t, const uint8_t *x, const int rows, const int columns,
                            const int in_line, const uint8_t *end)
{
    (void)in_line;
    const int vectors = columns > 4 ? 1 : columns, lanes = columns > 4 ? I8_LANES / columns : I8_LANES;
    const int bytes = 4 * lanes, sums = rows * vectors;
    /* The number of steps of an iteration. Each step has its own accumulators, because one step may have too few
     * accumulators to hide the latency of a multiply-add. */
    const int depth = sums > 4 ? 1 : sums > 2 ? 2 : 4;
    i8_vec acc[4][I8_DOT_SUMS];
    const uint8_t *y = t->y;
    const ptrdiff_t x_row = t->x_row;
    const uint32_t flip4 = 0x01010101u * I8_FLIP_X(t);
    const i8_vec flip = i8_broadcast(&flip4);
    int64_t k = t->k;

    I8_FOR(d, depth) I8_FOR(i, sums) acc[d][i] = i8_zero();
    /* Memory limits the speed, so the loop prefetches the next rows if rows follow one another without gaps. For a long
     * distance the loop prefetches to the L2 cache, because the L1 cache holds bytes that are used sooner. */
    const int far_ahead = t->ahead || rows * x_row > I8_DOT_AHEAD;
    const uint8_t *ahead = x + (t->ahead ? t->ahead : rows * x_row);
    if (columns > 4) {
        const ptrdiff_t ahead_step = x_row - t->k < 64 || rows * x_row <= I8_DOT_AHEAD ? rows * bytes : 0;
#define I8_ADD_REPEATED(load)                                                                                          \
    for (; k >= depth * bytes; k -= depth * bytes)                                                                     \
        I8_FOR(d, depth) {                                                                                             \
            if (far_ahead)                                                                                             \
                I8_PREFETCH_L2(ahead);                                                                                 \
            else                                                                                                       \
                I8_PREFETCH(ahead);                                                                                    \
            ahead += ahead_step;                                                                                       \
            I8_ADD_BYTES(acc[d], load);                                                                                \
        }
        if (I8_FLIP_X(t) == 0)
            I8_ADD_REPEATED(i8_repeat(x + i * x_row, bytes))
        I8_ADD_REPEATED(i8_xor(i8_repeat(x + i * x_row, bytes), flip))
#undef I8_ADD_REPEATED
        for (; depth > 1 && k >= bytes; k -= bytes)
            I8_ADD_BYTES(acc[0], i8_xor(i8_repeat(x + i * x_row, bytes), flip));
    } else {
        for (; k >= depth * bytes; k -= depth * bytes)
            I8_FOR(d, depth) {
                I8_FOR(i, rows * bytes / 64) I8_PREFETCH(ahead + 64 * i);
                ahead += rows * bytes;
                I8_ADD_BYTES(acc[d], i8_xor(i8_load(x + i * x_row), flip));
            }
        for (; depth > 1 && k >= bytes; k -= bytes)
            I8_ADD_BYTES(acc[0], i8_xor(i8_load(x + i * x_row), flip));
    }
    if (k > 0 && I8_HAS_WHOLE_TAIL)
        I8_ADD_BYTES(acc[0], i8_xor(i8_repeat(x + i * x_row, bytes), flip));
    else if (k > 0)
        I8_ADD_BYTES(acc[0], i8_xor(i8_repeat_some(x + i * x_row, bytes, (int)k), flip));

    I8_FOR(d, depth - 1) I8_FOR(i, sums) acc[0][i] = i8_add(acc[0][i], acc[d + 1][i]);
    I8_FOR(i, sums) total[i] = acc[0][i];
}
#endif

#ifdef I8_SHIFT
/* Compute the corrections for the shift of x, one for each vector y. */
I8_INLINE void I8_NAME(column_shifts)(uint32_t *shifts, const i8_dot_args *t, const int columns)
{
    const int vectors = columns > 4 ? 1 : columns, lanes = columns > 4 ? I8_LANES / columns : I8_LANES;
    i8_vec acc[4];
    const uint8_t *y = t->y;
    I8_FOR(j, vectors) acc[j] = i8_zero();
    for (int64_t k = t->k; k > 0; k -= 4 * lanes, y += 4 * I8_LANES * vectors)
        I8_FOR(j, vectors) I8_STEP(acc[j], i8_set_8(1), i8_load(y + 4 * I8_LANES * j));
    I8_FOR(j, columns) shifts[j] = 0;
    I8_FOR(j, vectors) {
        int32_t sums[I8_LANES];
        i8_store(sums, acc[j]);
        I8_FOR(l, I8_LANES) shifts[columns > 4 ? l / lanes : j] += (uint32_t)sums[l] * (uint32_t)(I8_SHIFT);
    }
}
#endif

I8_INLINE void I8_NAME(tile)(const i8_dot_args *t, const uint8_t *x, const int32_t *x_squares, void *dst,
                             const i8_vec start, const int32_t *order, int in_rows, const int rows, const int columns,
                             const int in_line, const int uncached, const uint8_t *end)
{
    const int vectors = columns > 4 ? 1 : columns, lanes = columns > 4 ? I8_LANES / columns : I8_LANES;
    const int sums = rows * vectors;
    i8_vec acc[I8_DOT_SUMS];
    int32_t found[(I8_DOT_ROWS + 1) * I8_LANES];
    int32_t *values = dst;
    if (uncached) {
        /* Read one row after the other, because memory delivers one stream 1.5x as fast as several streams. */
        i8_vec sum[I8_DOT_SUMS];
        for (int i = 0; i < rows; ++i)
            I8_NAME(add)(sum + i * columns, t, x + i * t->x_row, 1, columns, 0, end);
        I8_FOR(i, sums) acc[i] = sum[i];
    } else
        I8_NAME(add)(acc, t, x, rows, columns, in_line, end);
    if (lanes > 1)
        I8_FOLD(i8_fold_lanes, sums);
    if (lanes > 2)
        I8_FOLD(i8_fold_lanes, (sums + 1) / 2);
    if (lanes > 4)
        I8_FOLD(i8_fold_units, (sums + 3) / 4);
    if (lanes > 8)
        I8_FOLD(i8_fold_units, (sums + 7) / 8);
    I8_FOR(i, (sums + lanes - 1) / lanes) {
        i8_vec sum = i8_add(lanes == 2 ? i8_permute(acc[i], order) : acc[i], start);
        if (lanes == 1 && x_squares)
            sum = i8_sub(i8_add(start, i8_broadcast(x_squares + i)), i8_add(acc[i], acc[i]));
        if (!in_rows)
            i8_store(found + i * I8_LANES, sum);
        else if (rows * columns >= (i + 1) * I8_LANES)
            i8_store(values + i * I8_LANES, sum);
        else
            i8_store_some(values + i * I8_LANES, sum, rows * columns - i * I8_LANES);
    }
    if (!in_rows)
        i8_scatter_dots(t, dst, found, rows, columns);
}

I8_INLINE void I8_NAME(body)(const i8_dot_args *t, const int full, const int columns)
{
    /* order[j] is the lane of sum j after two folds, and starts[j] is the start value of sum j. */
    int32_t order[I8_LANES], starts[I8_LANES];
    I8_FOR(j, I8_LANES) {
        const int row = j / columns, column = j % columns;
        order[j] = 4 * (column / 2) + 2 * row + column % 2;
        starts[j] = t->start ? t->start[column] : 0;
    }
#ifdef I8_SHIFT
    uint32_t shifts[I8_LANES];
    I8_NAME(column_shifts)(shifts, t, columns);
    I8_FOR(j, I8_LANES) starts[j] = (int32_t)((uint32_t)starts[j] + shifts[j % columns]);
#endif
    const i8_vec start = i8_load(starts);
    const uint8_t *x = t->x;
    const int32_t *x_squares = columns == I8_LANES ? t->x_squares : NULL;
    char *dst = t->dst;
    int64_t rows = t->rows;
    /* The end of readable memory. A gap between vectors is readable if it is shorter than a page. */
    const uint8_t *end = x + t->k + (t->x_row > 0 && t->x_row - t->k < 4096 ? (rows - 1) * t->x_row : 0);
    /* whether C has the results in the order of the tile, without gaps */
    const int in_rows = t->count == columns && t->dst_row == 4 * columns && (columns == 1 || t->dst_column == 4);
#define I8_TILE(height, uncached)                                                                                      \
    do {                                                                                                               \
        I8_NAME(tile)(t, x, x_squares, dst, start, order, in_rows, height, columns, (height) == full, uncached, end);  \
        x += (height)*t->x_row;                                                                                        \
        x_squares += x_squares ? (height) : 0;                                                                         \
        dst += (height)*t->dst_row;                                                                                    \
        rows -= height;                                                                                                \
    } while (0)
    while (columns <= 2 && t->uncached && rows >= full)
        I8_TILE(full, 1);
    while (rows >= full)
        I8_TILE(full, 0);
    if (full > 4 && rows >= 4)
        I8_TILE(4, 0);
    if (full > 2 && rows >= 2)
        I8_TILE(2, 0);
    if (rows >= 1)
        I8_TILE(1, 0);
#undef I8_TILE
}

#define I8_DEFINE(rows, columns)                                                                                       \
    static void I8_NAME(columns)(const i8_dot_args *t) { I8_NAME(body)(t, rows, columns); }

/* Vectors y that are split into halves need twice the registers. */
#if I8_LANES == 16 && defined(I8_STEP_16)
I8_DEFINE(8, 1) I8_DEFINE(4, 2) I8_DEFINE(2, 3) I8_DEFINE(2, 4) I8_DEFINE(8, 8) I8_DEFINE(8, 16)
#elif defined(I8_STEP_16)
I8_DEFINE(4, 1) I8_DEFINE(2, 2) I8_DEFINE(2, 3) I8_DEFINE(1, 4) I8_DEFINE(4, 8)
#elif I8_LANES == 16
I8_DEFINE(8, 1) I8_DEFINE(8, 2) I8_DEFINE(4, 3) I8_DEFINE(4, 4) I8_DEFINE(8, 8) I8_DEFINE(8, 16)
#else
I8_DEFINE(4, 1) I8_DEFINE(4, 2) I8_DEFINE(2, 3) I8_DEFINE(2, 4) I8_DEFINE(4, 8)
#endif

#undef I8_DEFINE
#undef I8_FOLD
#undef I8_ADD_BYTES
#undef I8_FLIP_X
#undef I8_HAS_WHOLE_TAIL
#undef I8_SHIFT
#undef I8_STEP_16
#undef I8_STEP
#undef I8_PREFIX
