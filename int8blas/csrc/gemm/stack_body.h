/* The kernel of stacks of small matrices (i8_stack_args in gemm.h). In the first part of this file, C has up to 16
 * elements, each in its own lane.
 *
 * A unit of 128 bits holds a whole matrix of A, and another unit holds a matrix of B. One shuffle of each unit copies
 * the bytes of two k into the words of each lane, from the row of A and the column of B that belong to the lane's
 * element. A multiply-add of words then takes any signs and zero points. With AVX-512, 3 x 3 by 3 x 3 takes 2 loads, 2
 * XORs, 4 shuffles, 4 subtractions, 2 multiply-adds and a store. The kernel takes 3.5 ns, and tiles take 60 ns (Zen
 * 4). */
#define I8_STACK_VECTORS (I8_STACK_UNIT / I8_LANES)
#define I8_STACK_PAIRS (I8_STACK_UNIT / 2)

/* Return the place of word i of a lane in its unit of 128 bits. VPMADDWD adds products of neighbours. NEON adds
 * products of the lower and the upper half. */
#ifdef I8_AARCH64
#define I8_STACK_WORD(lane, i) ((lane) + 4 * (i))
#else
#define I8_STACK_WORD(lane, i) (2 * (lane) + (i))
#endif

/* For each byte of a vector, a and b have the index of a byte of the matrix, or 0x80 for a zero. a_zero has the zero
 * point of A for each k, and 0 for padding, so that products of padding are 0. */
typedef struct {
    uint8_t a[I8_STACK_PAIRS][I8_STACK_VECTORS][4 * I8_LANES], b[I8_STACK_PAIRS][I8_STACK_VECTORS][4 * I8_LANES];
    int16_t a_zero[I8_STACK_PAIRS][2 * I8_LANES], b_zero[2 * I8_LANES];
} i8_stack_tables;

static void i8_fill_stack_tables(i8_stack_tables *s, const i8_stack_args *t)
{
    memset(s, 0x80, sizeof(*s));
    memset(s->a_zero, 0, sizeof(s->a_zero));
    for (int i = 0; i < 2 * I8_LANES; ++i)
        s->b_zero[i] = (int16_t)t->b.zero;
    for (int k = 0; k < t->k; ++k) {
        for (int e = 0; e < t->m * t->n; ++e) {
            const int row = e / t->n, column = e % t->n, lane = e % I8_LANES;
            const int byte = lane / 4 * 16 + 2 * I8_STACK_WORD(lane % 4, k % 2);
            s->a[k / 2][e / I8_LANES][byte] = (uint8_t)(t->a.first + row * t->a.row + k * t->a.column);
            s->b[k / 2][e / I8_LANES][byte] = (uint8_t)(t->b.first + k * t->b.row + column * t->b.column);
        }
        for (int lane = 0; lane < I8_LANES; ++lane)
            s->a_zero[k / 2][lane / 4 * 8 + I8_STACK_WORD(lane % 4, k % 2)] = (int16_t)t->a.zero;
    }
}

/* Return a vector that repeats the unit of matrix `index`. If the unit ends inside the stack and matrices begin at most
 * a unit apart, all of its bytes are readable, so read the whole unit. */
I8_INLINE i8_vec i8_stack_matrix(const i8_stack_operand *x, int64_t index, int64_t count, i8_vec flip)
{
    const uint8_t *p = x->data + index * x->step;
    uint8_t unit[I8_STACK_UNIT] = {0};
    const int near = x->step >= 0 && x->step <= I8_STACK_UNIT;
    if (x->span < I8_STACK_UNIT && !(near && (count - 1 - index) * x->step + x->span >= I8_STACK_UNIT)) {
        for (int i = 0; i < x->span; ++i)
            unit[i] = p[i];
        p = unit;
    }
    return i8_xor(i8_repeat(p, I8_STACK_UNIT), flip);
}

I8_INLINE void i8_multiply_stack(const i8_stack_args *t, const i8_stack_tables *s, const int vectors, const int some)
{
    const int pairs = some ? some : (t->k + 1) / 2, size = t->m * t->n;
    const i8_vec a_flip = i8_set_8(t->a.flip), b_flip = i8_set_8(t->b.flip), b_zero = i8_load(s->b_zero);
    /* For matrices before `whole`, stores of whole vectors end inside the stack. */
    const int64_t whole =
        t->c_step == size ? t->count - (vectors * I8_LANES + size - 1) / size : -1;
    int32_t *c = t->c;
    for (int64_t i = 0; i < t->count; ++i, c += t->c_step) {
        const i8_vec a = i8_stack_matrix(&t->a, i, t->count, a_flip);
        const i8_vec b = i8_stack_matrix(&t->b, i, t->count, b_flip);
        I8_FOR(v, vectors) {
            i8_vec sum = i8_zero();
            for (int q = 0; q < pairs; ++q)
                sum = i8_dot2_any(sum, i8_sub_16(i8_shuffle(a, i8_load(s->a[q][v])), i8_load(s->a_zero[q])),
                                  i8_sub_16(i8_shuffle(b, i8_load(s->b[q][v])), b_zero));
            if (i <= whole)
                i8_store(c + v * I8_LANES, sum);
            else
                i8_store_some(c + v * I8_LANES, sum, size - v * I8_LANES);
        }
    }
}

/* If one matrix serves the whole stack and is smaller than a unit, copy it once to a unit. */
I8_INLINE void i8_keep_matrix(i8_stack_operand *x, uint8_t unit[I8_STACK_UNIT])
{
    if (x->step == 0 && x->span < I8_STACK_UNIT) {
        for (int i = 0; i < I8_STACK_UNIT; ++i)
            unit[i] = i < x->span ? x->data[i] : 0;
        x->data = unit;
        x->span = I8_STACK_UNIT;
    }
}

/* Matrices that do not fit a unit have up to I8_STACK_SIDE rows, columns and k. The kernel widens both matrices to
 * words, and subtracts zero points. A dword of B has the words of two k in one column. For a row of C, the kernel
 * broadcasts each pair of words of the row of A, and multiplies it by the dwords of B. 8 x 8 by 8 x 8 takes 25 ns with
 * AVX-512 on an Intel CPU with AMX, and tiles take 64 ns. */
enum { I8_STACK_SPARE = 4 * I8_LANES }; /* bytes read after a matrix, and words written after a result */

/* The lines of an operand, which are its rows or its columns, are `step` bytes apart. Elements of a line are `inner`
 * bytes apart. If `inner` is not 1, the kernel copies lines. */
typedef struct {
    const uint8_t *end; /* the end of readable memory, or NULL if only the elements are readable */
    ptrdiff_t step, inner;
    int lines, length, span;
    int along_k; /* whether lines extend along k */
    i8_vec flip, zero;
} i8_stack_lines;

static void i8_set_stack_lines(i8_stack_lines *s, const i8_stack_operand *x, int k, int others, int64_t count,
                               ptrdiff_t k_step, ptrdiff_t other_step, int along_k)
{
    s->along_k = along_k;
    s->lines = along_k ? others : k;
    s->length = along_k ? k : others;
    s->step = along_k ? other_step : k_step;
    s->inner = s->length == 1 ? 1 : along_k ? k_step : other_step;
    s->span = x->span;
    s->flip = i8_set_16(x->flip);
    s->zero = i8_set_16(x->zero);
    /* The kernel may read the gap between two lines or two matrices if the gap is less than I8_STACK_UNIT bytes. */
    const int near = s->inner == 1 && s->step >= 0 && x->step >= 0 && s->step - s->length < I8_STACK_UNIT
                     && x->step - x->span < I8_STACK_UNIT;
    s->end = near ? x->data + (count - 1) * x->step + x->span : NULL;
}

/* Copy lines without gaps. */
I8_NOINLINE void i8_copy_lines(uint8_t *copy, const uint8_t *p, int lines, int length, ptrdiff_t step, ptrdiff_t inner)
{
    for (int i = 0; i < lines; ++i, copy += length, p += step) {
        if (inner == 1)
            memcpy(copy, p, (size_t)length);
        else
            for (int j = 0; j < length; ++j)
                copy[j] = p[j * inner];
    }
}

/* Return the lines of a matrix with I8_STACK_SPARE readable bytes after them: in place, or as a copy without gaps.
 * Set *step to the bytes from one line to the next. */
I8_INLINE const uint8_t *i8_stack_matrix_of(uint8_t *copy, ptrdiff_t *step, const i8_stack_lines *s, const uint8_t *p,
                                            const int dense)
{
    *step = s->step;
    if (s->end && s->end - p >= s->span + I8_STACK_SPARE && !(dense && s->step != s->length))
        return p;
    *step = s->length;
    i8_copy_lines(copy, p, s->lines, s->length, s->step, s->inner);
    return copy;
}

I8_INLINE i8_vec i8_line_words(const i8_stack_lines *s, const uint8_t *p)
{
    return i8_sub_16(i8_xor(i8_words_u8(p), s->flip), s->zero);
}

/* Widen lines of A, which extend along k, one after the other. */
I8_INLINE void i8_widen_lines(int16_t *dst, const i8_stack_lines *s, const uint8_t *p)
{
    for (int i = 0; i < s->lines * s->length; i += 2 * I8_LANES)
        i8_store(dst + i, i8_line_words(s, p + i));
}

/* Two bytes of a unit become the two words of each lane. `of` has the indices of the two bytes. */
typedef struct {
    uint8_t of[2][I8_STACK_VECTORS][4 * I8_LANES];
} i8_stack_orders;

static void i8_fill_stack_orders(i8_stack_orders *s)
{
    memset(s, 0x80, sizeof(*s));
    for (int i = 0; i < I8_STACK_UNIT; ++i)
        I8_FOR(w, 2) s->of[w][i / I8_LANES][4 * (i % I8_LANES) + 2 * w] = (uint8_t)i;
}

/* Widen pairs of lines: dword j of a pair has element j of both lines. If the number of lines is odd, the second line
 * of the last pair is zeros. */
I8_INLINE void i8_widen_pairs_of_lines(int16_t *dst, const i8_stack_lines *s, const i8_stack_orders *o,
                                       const uint8_t *p, ptrdiff_t step, const int units)
{
    for (int k = 0; k < s->lines; k += 2, dst += 2 * I8_STACK_SIDE, p += 2 * step) {
        const i8_vec words = i8_set_32(k + 1 < s->lines ? -1 : 0xffff);
        I8_FOR(u, units) {
            const i8_vec x = i8_repeat(p + I8_STACK_UNIT * u, I8_STACK_UNIT);
            const i8_vec y = i8_repeat(p + (k + 1 < s->lines ? step : 0) + I8_STACK_UNIT * u, I8_STACK_UNIT);
            I8_FOR(v, I8_STACK_VECTORS) {
                const i8_vec pair = i8_xor(i8_shuffle(x, i8_load(o->of[0][v])),
                                           i8_shuffle(y, i8_load(o->of[1][v])));
                i8_store(dst + 2 * (I8_STACK_UNIT * u + I8_LANES * v),
                         i8_and(i8_sub_16(i8_xor(pair, s->flip), s->zero), words));
            }
        }
    }
}

/* Widen the columns of B along k. If k is odd, the last word is 0. */
I8_INLINE void i8_widen_columns(int16_t *dst, const i8_stack_lines *s, const uint8_t *p)
{
    int16_t words[I8_STACK_SIDE * I8_STACK_SIDE + I8_STACK_SPARE];
    i8_widen_lines(words, s, p);
    for (int k = 0; k < s->length; k += 2)
        for (int j = 0; j < s->lines; ++j) {
            dst[k * I8_STACK_SIDE + 2 * j] = words[j * s->length + k];
            dst[k * I8_STACK_SIDE + 2 * j + 1] = k + 1 < s->length ? words[j * s->length + k + 1] : 0;
        }
}

/* Compute `rows` rows of C, with `panels` units of columns. Store whole vectors that end before `end`, row by row. */
I8_INLINE void i8_stack_tile(int32_t *c, const int32_t *end, int n, const int16_t *a, ptrdiff_t a_row,
                             ptrdiff_t a_pair, const int16_t *b, int pairs, const int rows, const int panels)
{
    i8_vec sums[4][2 * I8_STACK_VECTORS];
    I8_FOR(i, rows) I8_FOR(v, panels * I8_STACK_VECTORS) sums[i][v] = i8_zero();
    for (int q = 0; q < pairs; ++q, a += a_pair, b += 2 * I8_STACK_SIDE)
        I8_FOR(i, rows) {
            const i8_vec x = i8_broadcast(a + i * a_row);
            I8_FOR(v, panels * I8_STACK_VECTORS)
                sums[i][v] = i8_dot2(sums[i][v], x, i8_load(b + 2 * I8_LANES * v));
        }
    if (end - c >= (rows - 1) * n + panels * I8_STACK_UNIT)
        I8_FOR(i, rows) I8_FOR(v, panels * I8_STACK_VECTORS) i8_store(c + i * n + v * I8_LANES, sums[i][v]);
    else
        I8_FOR(i, rows) I8_FOR(v, panels * I8_STACK_VECTORS)
            i8_store_some(c + i * n + v * I8_LANES, sums[i][v], n - v * I8_LANES);
}

I8_INLINE int i8_is_shorter(ptrdiff_t x, ptrdiff_t y) { return (x < 0 ? -x : x) < (y < 0 ? -y : y); }

I8_INLINE void i8_multiply_lines(const i8_stack_args *t, const int panels)
{
    enum { SIDE = I8_STACK_SIDE, HEIGHT = I8_LANES == 16 ? 4 : 2 };
    int16_t a[SIDE * SIDE + I8_STACK_SPARE], b[SIDE * SIDE];
    uint8_t copies[2][SIDE * SIDE + I8_STACK_SPARE];
    i8_stack_lines left, right;
    i8_stack_orders orders;
    i8_fill_stack_orders(&orders);
    i8_set_stack_lines(&left, &t->a, t->k, t->m, t->count, t->a.column, t->a.row,
                       t->k == 1 || t->m == 1 || i8_is_shorter(t->a.column, t->a.row));
    /* The lines of a B with a single column are its rows. Lines along the column would be stored word by word, and a
     * CPU does not forward such stores to the load of a vector. */
    i8_set_stack_lines(&right, &t->b, t->k, t->n, t->count, t->b.row, t->b.column,
                       t->n > 1 && t->k > 1 && i8_is_shorter(t->b.row, t->b.column));
    const ptrdiff_t a_row = left.along_k ? t->k : 2, a_pair = left.along_k ? 2 : 2 * SIDE;
    const int size = t->m * t->n, pairs = (t->k + 1) / 2;
    for (int64_t index = 0; index < t->count; ++index) {
        const uint8_t *x = t->a.data + t->a.first + index * t->a.step;
        const uint8_t *y = t->b.data + t->b.first + index * t->b.step;
        int32_t *c = t->c + index * t->c_step;
        const int32_t *end = t->c_step == size ? t->c + t->count * size : c + size;
        ptrdiff_t step;
        int i = 0;
        if (t->a.step || !index) {
            x = i8_stack_matrix_of(copies[0], &step, &left, x, left.along_k);
            if (left.along_k)
                i8_widen_lines(a, &left, x);
            else
                i8_widen_pairs_of_lines(a, &left, &orders, x, step, 2);
        }
        if (t->b.step || !index) {
            y = i8_stack_matrix_of(copies[1], &step, &right, y, right.along_k);
            if (right.along_k)
                i8_widen_columns(b, &right, y);
            else
                i8_widen_pairs_of_lines(b, &right, &orders, y, step, panels);
        }
        for (; i + HEIGHT <= t->m; i += HEIGHT)
            i8_stack_tile(c + i * t->n, end, t->n, a + i * a_row, a_row, a_pair, b, pairs, HEIGHT, panels);
        if (HEIGHT > 2 && i + 2 <= t->m) {
            i8_stack_tile(c + i * t->n, end, t->n, a + i * a_row, a_row, a_pair, b, pairs, 2, panels);
            i += 2;
        }
        if (i < t->m)
            i8_stack_tile(c + i * t->n, end, t->n, a + i * a_row, a_row, a_pair, b, pairs, 1, panels);
    }
}

/* Add the lanes of each of I8_LANES vectors. Return the sums, a lane for each vector. */
I8_INLINE i8_vec i8_fold_sums(i8_vec *sums)
{
    I8_FOR(j, I8_LANES / 2) sums[j] = i8_fold_lanes(sums[2 * j], sums[2 * j + 1]);
    I8_FOR(j, I8_LANES / 4) sums[j] = i8_fold_lanes(sums[2 * j], sums[2 * j + 1]);
    I8_FOR(j, I8_LANES / 8) sums[j] = i8_fold_units(sums[2 * j], sums[2 * j + 1]);
    return I8_LANES > 8 ? i8_fold_units(sums[0], sums[1]) : sums[0];
}

/* Compute a C of one column: each element is the dot product of a row of A and the column of B. The words of the column
 * are in registers. Each of I8_LANES sums has a register, whose lanes are added at the end. */
I8_INLINE void i8_multiply_dots(const i8_stack_args *t, const int some)
{
    enum { CHUNK = 2 * I8_LANES, MOST = I8_STACK_DEPTH / CHUNK };
    const int chunks = some ? some : (t->k + CHUNK - 1) / CHUNK;
    i8_stack_lines left, right;
    i8_vec column[MOST], valid[MOST], start = i8_zero(); /* `start` has the products of A's zero point */
    int16_t words[I8_STACK_DEPTH];
    uint8_t copies[2][I8_STACK_DEPTH * I8_STACK_DEPTH + I8_STACK_SPARE];
    const uint8_t *x = NULL;
    ptrdiff_t a_step = 0, b_step;
    i8_set_stack_lines(&left, &t->a, t->k, t->m, t->count, t->a.column, t->a.row, 1);
    i8_set_stack_lines(&right, &t->b, t->k, 1, t->count, t->b.row, t->b.column, 1);
    for (int k = 0; k < I8_STACK_DEPTH; ++k)
        words[k] = k < t->k ? -1 : 0;
    I8_FOR(v, MOST) column[v] = valid[v] = i8_load(words + CHUNK * v);
    for (int64_t index = 0; index < t->count; ++index) {
        int32_t *c = t->c + index * t->c_step;
        const int32_t *end = t->c_step == t->m ? t->c + t->count * t->m : c + t->m;
        if (t->a.step || !index)
            x = i8_stack_matrix_of(copies[0], &a_step, &left, t->a.data + t->a.first + index * t->a.step, 0);
        if (t->b.step || !index) {
            const uint8_t *y = t->b.data + t->b.first + index * t->b.step;
            y = i8_stack_matrix_of(copies[1], &b_step, &right, y, 0);
            for (int v = 0; v < chunks; ++v)
                column[v] = i8_and(i8_line_words(&right, y + CHUNK * v), valid[v]);
            start = i8_zero();
            for (int v = 0; v < chunks; ++v)
                start = i8_dot2_any(start, i8_sub_16(i8_zero(), left.zero), column[v]);
        }
        for (int i = 0; i < t->m; i += I8_LANES) {
            i8_vec sums[I8_LANES];
            const uint8_t *rows = x + i * a_step;
            I8_FOR(r, I8_LANES) {
                const uint8_t *row = rows + (r < t->m - i ? r : 0) * a_step; /* missing rows alias row i */
                sums[r] = start;
                for (int v = 0; v < chunks; ++v)
                    sums[r] = i8_dot2_any(sums[r], i8_xor(i8_words_u8(row + CHUNK * v), left.flip), column[v]);
            }
            const i8_vec column_of_c = i8_fold_sums(sums);
            if (end - (c + i) >= I8_LANES)
                i8_store(c + i, column_of_c);
            else
                i8_store_some(c + i, column_of_c, t->m - i);
        }
    }
}

/* Compute single dot products, a lane for each. Words of B after the end of k become 0. */
I8_INLINE void i8_multiply_single_dots(const i8_stack_args *t, const int some)
{
    enum { CHUNK = 2 * I8_LANES };
    const int last = some ? some - 1 : (t->k - 1) / CHUNK;
    i8_stack_lines left, right;
    int16_t words[CHUNK];
    int32_t c[I8_LANES];
    uint8_t copies[2][I8_STACK_DEPTH + I8_STACK_SPARE];
    ptrdiff_t step;
    i8_set_stack_lines(&left, &t->a, t->k, 1, t->count, t->a.column, t->a.row, 1);
    i8_set_stack_lines(&right, &t->b, t->k, 1, t->count, t->b.row, t->b.column, 1);
    for (int i = 0; i < CHUNK; ++i)
        words[i] = CHUNK * last + i < t->k ? -1 : 0;
    const i8_vec valid = i8_load(words);
    for (int64_t index = 0; index < t->count; index += I8_LANES) {
        const int rows = t->count - index < I8_LANES ? (int)(t->count - index) : I8_LANES;
        i8_vec sums[I8_LANES];
        I8_FOR(r, I8_LANES) {
            const int64_t i = index + (r < rows ? r : 0); /* the first product replaces missing products */
            const uint8_t *x = t->a.data + t->a.first + i * t->a.step, *y = t->b.data + t->b.first + i * t->b.step;
            x = i8_stack_matrix_of(copies[0], &step, &left, x, 0);
            y = i8_stack_matrix_of(copies[1], &step, &right, y, 0);
            sums[r] = i8_zero();
            for (int v = 0; v < last; ++v, x += CHUNK, y += CHUNK)
                sums[r] = i8_dot2_any(sums[r], i8_line_words(&left, x), i8_line_words(&right, y));
            sums[r] = i8_dot2_any(sums[r], i8_line_words(&left, x), i8_and(i8_line_words(&right, y), valid));
        }
        if (t->c_step == 1) {
            i8_store_some(t->c + index, i8_fold_sums(sums), rows);
            continue;
        }
        i8_store(c, i8_fold_sums(sums));
        for (int r = 0; r < rows; ++r)
            t->c[(index + r) * t->c_step] = c[r];
    }
}

I8_NOINLINE void i8_stack_of_lines(const i8_stack_args *args)
{
    i8_stack_args own = *args;
    const i8_stack_args *t = &own;
    /* If C has one row or one column, C and its transpose are equal in memory. */
    if (args->form == I8_STACK_DOTS ? args->n > 1 : args->n == 1) {
        own.m = args->n;
        own.n = args->m;
        own.a = args->b;
        own.b = args->a;
        own.a.row = args->b.column;
        own.a.column = args->b.row;
        own.b.row = args->a.column;
        own.b.column = args->a.row;
    }
    if (t->form == I8_STACK_DOTS && t->m * t->n == 1 && t->k <= 2 * I8_LANES)
        i8_multiply_single_dots(t, 1);
    else if (t->form == I8_STACK_DOTS && t->m * t->n == 1)
        i8_multiply_single_dots(t, 0);
    else if (t->form == I8_STACK_DOTS && t->k <= 2 * I8_LANES)
        i8_multiply_dots(t, 1);
    else if (t->form == I8_STACK_DOTS)
        i8_multiply_dots(t, 0);
    else if (t->n <= I8_STACK_UNIT)
        i8_multiply_lines(t, 1);
    else
        i8_multiply_lines(t, 2);
}

I8_INLINE i8_vec i8_run_elements(const i8_stack_operand *x, const uint8_t *p, const int step)
{
    const i8_vec bytes = step ? i8_load_u8(p) : i8_set_32(*p);
    return i8_sub(i8_xor(bytes, i8_set_32(x->flip)), i8_set_32(x->zero));
}

/* Multiply stacks whose C has one element, and whose matrices of A are neighbours. Matrices of B are neighbours (`step`
 * is 1), or there is one matrix (`step` is 0). A lane has one product. The last vector may repeat some products. */
I8_INLINE void i8_multiply_runs(const i8_stack_args *t, const int step)
{
    for (int64_t i = 0; i < t->count; i += I8_LANES) {
        const int64_t first = i + I8_LANES <= t->count ? i : t->count - I8_LANES;
        const uint8_t *x = t->a.data + t->a.first + first, *y = t->b.data + t->b.first + first * step;
        i8_vec sum = i8_zero();
        for (int k = 0; k < t->k; ++k, x += t->a.column, y += t->b.row)
            sum = i8_add(sum, i8_mul_s32(i8_run_elements(&t->a, x, 1), i8_run_elements(&t->b, y, step)));
        i8_store(t->c + first, sum);
    }
}

/* Multiply stacks whose C has one element, with any steps, one k after the other. */
I8_INLINE void i8_multiply_any_steps(const i8_stack_args *t)
{
    const uint8_t a_flip = t->a.flip, b_flip = t->b.flip;
    const int a_zero = t->a.zero, b_zero = t->b.zero;
    for (int k = 0; k < t->k; ++k) {
        const uint8_t *x = t->a.data + t->a.first + (ptrdiff_t)k * t->a.column;
        const uint8_t *y = t->b.data + t->b.first + (ptrdiff_t)k * t->b.row;
        int32_t *c = t->c;
        for (int64_t i = 0; i < t->count; ++i, x += t->a.step, y += t->b.step, c += t->c_step)
            *c = (k ? *c : 0) + ((*x ^ a_flip) - a_zero) * ((*y ^ b_flip) - b_zero);
    }
}

I8_NOINLINE void i8_stack_of_runs(const i8_stack_args *args)
{
    i8_stack_args own = *args;
    const i8_stack_args *t = &own;
    if (args->a.step == 0) {
        own.a = args->b;
        own.b = args->a;
        own.a.column = args->b.row;
        own.b.row = args->a.column;
    }
    if (t->c_step != 1 || t->count < I8_LANES || t->a.step != 1 || t->b.step < 0 || t->b.step > 1)
        i8_multiply_any_steps(t);
    else if (t->b.step)
        i8_multiply_runs(t, 1);
    else
        i8_multiply_runs(t, 0);
}

I8_NOINLINE void i8_stack_of_units(const i8_stack_args *args)
{
    i8_stack_args own = *args;
    const i8_stack_args *t = &own;
    i8_stack_tables s;
    uint8_t units[2][I8_STACK_UNIT];
    const int one = t->m * t->n <= I8_LANES;
    i8_keep_matrix(&own.a, units[0]);
    i8_keep_matrix(&own.b, units[1]);
    i8_fill_stack_tables(&s, t);
    if (one && t->k <= 2)
        i8_multiply_stack(t, &s, 1, 1);
    else if (one && t->k <= 4)
        i8_multiply_stack(t, &s, 1, 2);
    else if (one)
        i8_multiply_stack(t, &s, 1, 0);
    else if (t->k <= 4)
        i8_multiply_stack(t, &s, I8_STACK_VECTORS, 2);
    else
        i8_multiply_stack(t, &s, I8_STACK_VECTORS, 0);
}

static void i8_stack(const i8_stack_args *args)
{
    if (args->form == I8_STACK_RUNS)
        i8_stack_of_runs(args);
    else if (args->form == I8_STACK_UNITS)
        i8_stack_of_units(args);
    else
        i8_stack_of_lines(args);
}
