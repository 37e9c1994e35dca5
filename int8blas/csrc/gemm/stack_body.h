/* The kernel of stacks of tiny matrices (i8_stack_args in gemm.h): a lane is an element of C, of up to 16.
 *
 * A unit of 128 bits holds a whole matrix of A, and another holds one of B. One shuffle of each puts the bytes of two k
 * into the words of each lane, with the row of A and the column of B of the lane's element, and a multiply-add of words
 * takes any signs and zero points. 3 x 3 by 3 x 3 takes 2 loads, 2 flips, 4 shuffles, 4 subtractions, 2 multiply-adds
 * and a store with AVX-512: 3.5 ns (Zen 4), where a product by tiles takes 60. */
#define I8_STACK_VECTORS (I8_STACK_UNIT / I8_LANES)
#define I8_STACK_PAIRS (I8_STACK_UNIT / 2)

/* The words of a lane's pair, in its unit of 128 bits: VPMADDWD adds neighbours; NEON adds words of both halves. */
#ifdef I8_AARCH64
#define I8_STACK_WORD(lane, i) ((lane) + 4 * (i))
#else
#define I8_STACK_WORD(lane, i) (2 * (lane) + (i))
#endif

/* For each byte of a vector, the byte of a matrix that goes there, or 0x80 for zero; and the zero point of A for each
 * k, or 0 for padding, so that its product is 0. */
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

/* Return matrix `index` as a unit, repeated. A whole unit is read if it ends inside the stack; the memory between two
 * matrices is readable if it is smaller than a unit. */
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
    /* The number of matrices whose whole vectors can be stored inside the stack. */
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

/* A matrix that serves the whole stack is copied once, if it is less than a unit. */
I8_INLINE void i8_keep_matrix(i8_stack_operand *x, uint8_t unit[I8_STACK_UNIT])
{
    if (x->step == 0 && x->span < I8_STACK_UNIT) {
        for (int i = 0; i < I8_STACK_UNIT; ++i)
            unit[i] = i < x->span ? x->data[i] : 0;
        x->data = unit;
        x->span = I8_STACK_UNIT;
    }
}

static void i8_stack(const i8_stack_args *args)
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
