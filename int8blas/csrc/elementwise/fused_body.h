/* The steps of fused element-wise operators: convert a run of elements to f32, apply post-ops, and store the run.
 * Between two steps a buffer of f32 stays in the L1 cache. Each type and each function thus needs only one loop, and
 * combinations need no loops of their own. The driver is fused.pyx, and elementwise.h describes the arguments of the
 * steps.
 *
 *   load      y = scale * (f32(x) - zero)
 *   apply     a post-op, as in stage_body.h
 *   store     out = sat(rne(y * scale + zero)) for integers, or zero if y * scale is NaN
 *             out = y * scale, rounded to the type, for floats
 *
 * Special kernels compute the same bits faster. `lookup` finds the results of a function of one byte in a table.
 * `bytes` keeps sums or products of bytes in registers. `clamp` and `direct` compute with bytes alone. */

/* Floats */

I8_INLINE void i8_load_run(float *y, const char *x, int64_t n, float scale, float zero, const int type)
{
    const ptrdiff_t size = i8_size(type);
    const i8_floats factor = i8_floats_set(scale), shift = i8_floats_set(-zero);
    char rest[4 * I8_CHUNK] = {0};
    for (; n > 0; n -= I8_CHUNK, x += I8_CHUNK * size, y += I8_CHUNK) {
        if (n < I8_CHUNK)
            x = memcpy(rest, x, (size_t)(n * size));
        i8_floats_store(y, i8_floats_mul(factor, i8_floats_add(i8_chunk_of(x, type), shift)));
    }
}

I8_INLINE void i8_store_run(char *out, const float *y, int64_t n, float scale, float zero, const int type)
{
    const ptrdiff_t size = i8_size(type);
    const i8_floats factor = i8_floats_set(scale), shift = i8_floats_set(zero);
    for (; n > 0; n -= I8_CHUNK, out += I8_CHUNK * size, y += I8_CHUNK) {
        i8_floats x = i8_floats_mul(i8_floats_load(y), factor);
        if (type <= I8_TYPE_S32)
            x = i8_floats_add(i8_floats_ordered(x), shift);
        i8_store_chunk(x, type, out, n < I8_CHUNK ? (int)n : I8_CHUNK);
    }
}

#define I8_TYPE_RUNS(t, type)                                                                                          \
    static void i8_load_##t(float *y, const void *x, int64_t n, float scale, float zero)                               \
    {                                                                                                                  \
        i8_load_run(y, x, n, scale, zero, type);                                                                       \
    }                                                                                                                  \
    static void i8_store_##t(void *out, const float *y, int64_t n, float scale, float zero)                            \
    {                                                                                                                  \
        i8_store_run(out, y, n, scale, zero, type);                                                                    \
    }
I8_TYPE_RUNS(run_u8, I8_TYPE_U8)
I8_TYPE_RUNS(run_s8, I8_TYPE_S8)
I8_TYPE_RUNS(run_s32, I8_TYPE_S32)
I8_TYPE_RUNS(run_f32, I8_TYPE_F32)
I8_TYPE_RUNS(run_f16, I8_TYPE_F16)
I8_TYPE_RUNS(run_bf16, I8_TYPE_BF16)
#undef I8_TYPE_RUNS

/* Sum the columns from j on, in chunks. The last chunk has `last` columns. */
I8_INLINE void i8_sum_chunks(const i8_sum_rows_args *t, int64_t j, const int chunks, const int last)
{
    i8_floats sum[4];
    char rest[I8_CHUNK] = {0};
    I8_FOR(c, chunks) sum[c] = i8_floats_set(0);
    for (int64_t i = 0; i < t->count; ++i) {
        const char *x = (const char *)t->table + t->indices[i] * t->row + j;
        const i8_floats scale = i8_floats_set(t->scales[t->indices[i]]);
        if (last < I8_CHUNK)
            x = memcpy(rest, x, (size_t)last);
        I8_FOR(c, chunks)
            sum[c] = i8_floats_add(sum[c], i8_floats_mul(scale, i8_chunk_of(x + c * I8_CHUNK, I8_TYPE_S8)));
    }
    I8_FOR(c, chunks) i8_store_chunk(sum[c], I8_TYPE_F32, (char *)(t->y + j + c * I8_CHUNK), last);
}

static void i8_sum_rows(const i8_sum_rows_args *t)
{
    enum { MOST = I8_LANES > 1 ? 4 : 1 };
    int64_t j = 0;
    for (; j + MOST * I8_CHUNK <= t->n; j += MOST * I8_CHUNK)
        i8_sum_chunks(t, j, MOST, I8_CHUNK);
    for (; j < t->n; j += I8_CHUNK)
        i8_sum_chunks(t, j, 1, t->n - j < I8_CHUNK ? (int)(t->n - j) : I8_CHUNK);
}

/* Bytes */

/* With vectors the table is 16 vectors of 16 bytes. The low bits of x index each vector. The high bits then select one
 * of the 16 results in four rounds. */
static void i8_lookup(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table)
{
    int64_t i = 0;
#if I8_LANES > 1
    i8_vec part[16];
    I8_FOR(k, 16) part[k] = i8_repeat(table + 16 * k, 16);
    for (; i + 4 * I8_LANES <= n; i += 4 * I8_LANES) {
        const i8_vec bytes = i8_load(x + i), low = i8_and(bytes, i8_set_8(15));
        const i8_bits bit4 = i8_bits_of_bytes(bytes, 4), bit5 = i8_bits_of_bytes(bytes, 5);
        const i8_bits bit6 = i8_bits_of_bytes(bytes, 6), bit7 = i8_bits_of_bytes(bytes, 7);
        i8_vec y[8];
        I8_FOR(k, 8) y[k] = i8_choose(bit4, i8_shuffle(part[2 * k], low), i8_shuffle(part[2 * k + 1], low));
        I8_FOR(k, 4) y[k] = i8_choose(bit5, y[2 * k], y[2 * k + 1]);
        I8_FOR(k, 2) y[k] = i8_choose(bit6, y[2 * k], y[2 * k + 1]);
        i8_store(out + i, i8_choose(bit7, y[0], y[1]));
    }
#endif
    for (; i < n; ++i)
        out[i] = table[x[i]];
}

/* Clamp bytes. A clamp takes the time of a copy. A lookup in a table of 256 results takes 1.5x (VBMI) to 6x as long as
 * a clamp. */
static void i8_clamp(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t flip[2], uint8_t low, uint8_t high)
{
    int64_t i = 0;
#if I8_LANES > 1
    const i8_vec in = i8_set_8(flip[0]), back = i8_set_8(flip[1]), least = i8_set_8(low), most = i8_set_8(high);
    for (; i + 8 * I8_LANES <= n; i += 8 * I8_LANES)
        I8_FOR(k, 2) {
            const i8_vec y = i8_xor(i8_load(x + i + 4 * I8_LANES * k), in);
            i8_store(out + i + 4 * I8_LANES * k, i8_xor(i8_min_u8(i8_max_u8(y, least), most), back));
        }
#endif
    for (; i < n; ++i) {
        const uint8_t y = x[i] ^ flip[0];
        out[i] = (uint8_t)((y < low ? low : y > high ? high : y) ^ flip[1]);
    }
}

#if I8_LANES > 1
typedef struct {
    i8_vec flip[2];
    i8_f32 zero[2], scale[2], dst_scale, dst_zero;
} i8_bytes_constants;

/* The low byte of the f32 2**23 + x is the byte x. Bytes thus need no conversion: one exact subtraction gives x - zero.
 * Interleaving works within 128-bit lanes, and packing restores the order. */
I8_INLINE void i8_bytes_step(uint8_t *out, const uint8_t *const *x, ptrdiff_t i, const i8_bytes_constants *c,
                             const int product, const int relu, const int onnx, const int is_signed)
{
    i8_vec v[2][4];
    I8_FOR(k, 2) {
        v[k][0] = i8_xor(i8_load(x[k] + i), c->flip[k]);
        v[k][1] = v[k][2] = i8_zero();
        v[k][3] = i8_set_8(0x4b);
        i8_interleave(v[k]);
    }
    I8_FOR(j, 4) {
        i8_f32 y = i8_mul_f32(c->scale[0], i8_sub_f32(i8_as_f32(v[0][j]), c->zero[0]));
        const i8_f32 z = i8_mul_f32(c->scale[1], i8_sub_f32(i8_as_f32(v[1][j]), c->zero[1]));
        y = product ? i8_mul_f32(y, z) : i8_add_f32(y, z);
        if (relu)
            y = i8_max_f32(y, i8_set_f32(0.0f));
        y = onnx ? i8_add_f32(i8_div_f32(y, c->dst_scale), i8_set_f32(I8_ROUNDER)) : i8_mul_f32(y, c->dst_scale);
        v[0][j] = i8_round_within_s32(i8_add_f32(y, c->dst_zero));
    }
    i8_store(out, is_signed ? i8_pack_s8(v[0]) : i8_pack_u8(v[0]));
}

I8_INLINE void i8_bytes_run(const i8_bytes_args *t, const int product, const int relu, const int onnx,
                            const int is_signed)
{
    enum { BYTES = 4 * I8_LANES };
    const int64_t whole = t->n / BYTES * BYTES;
    i8_bytes_constants c = {.dst_scale = i8_set_f32(t->dst_scale),
                            .dst_zero = i8_set_f32(onnx ? t->dst_zero - I8_ROUNDER : t->dst_zero)};
    I8_FOR(k, 2) {
        c.flip[k] = i8_set_8(t->flip[k]);
        c.scale[k] = i8_set_f32(t->scale[k]);
        c.zero[k] = i8_set_f32(0x1p23f + t->zero[k]);
    }
    for (int64_t i = 0; i < whole; i += BYTES)
        i8_bytes_step(t->out + i, t->x, i, &c, product, relu, onnx, is_signed);
    if (whole < t->n) {
        const size_t rest = (size_t)(t->n - whole);
        uint8_t bytes[2][BYTES] = {{0}}, out[BYTES];
        const uint8_t *const x[2] = {bytes[0], bytes[1]};
        memcpy(bytes[0], t->x[0] + whole, rest);
        memcpy(bytes[1], t->x[1] + whole, rest);
        i8_bytes_step(out, x, 0, &c, product, relu, onnx, is_signed);
        memcpy(t->out + whole, out, rest);
    }
}

/* Each variant has its own function, because a branch inside the loop would take a tenth of the loop's time. */
I8_INLINE void i8_bytes_any(const i8_bytes_args *t, const int product, const int relu, const int is_signed)
{
    if (t->onnx)
        i8_bytes_run(t, product, relu, 1, is_signed);
    else
        i8_bytes_run(t, product, relu, 0, is_signed);
}

#define I8_BYTES(name, product, relu)                                                                                  \
    static void i8_##name##_u8(const i8_bytes_args *t) { i8_bytes_any(t, product, relu, 0); }                          \
    static void i8_##name##_s8(const i8_bytes_args *t) { i8_bytes_any(t, product, relu, 1); }
I8_BYTES(add_bytes, 0, 0)
I8_BYTES(add_bytes_relu, 0, 1)
I8_BYTES(multiply_bytes, 1, 0)
I8_BYTES(multiply_bytes_relu, 1, 1)
#undef I8_BYTES
#endif

/* Binary operations on bytes of one type, without scales and zero points. */
#if I8_LANES > 1
/* The first and the last vector may overlap other vectors, and are stored last, because `out` may be a source. With
 * aligned stores and four vectors an iteration, the loop is 1.25x to 2x faster (2**17 elements, Zen 5). */
I8_INLINE void i8_direct_run(const i8_bytes_args *t, i8_vec (*function)(i8_vec, i8_vec))
{
    enum { BYTES = 4 * I8_LANES };
    const uint8_t *const x = t->x[0], *const y = t->x[1];
    uint8_t *const out = t->out;
    const int64_t n = t->n;
    if (n < BYTES) {
        uint8_t few[3][BYTES] = {{0}};
        memcpy(few[0], x, (size_t)n);
        memcpy(few[1], y, (size_t)n);
        i8_store(few[2], function(i8_load(few[0]), i8_load(few[1])));
        memcpy(out, few[2], (size_t)n);
        return;
    }
    const i8_vec first = function(i8_load(x), i8_load(y));
    const i8_vec last = function(i8_load(x + n - BYTES), i8_load(y + n - BYTES));
    int64_t i = BYTES - (int64_t)((uintptr_t)out % BYTES);
    for (; i + 4 * BYTES <= n; i += 4 * BYTES) {
        i8_vec v[4];
        I8_FOR(k, 4) v[k] = function(i8_load(x + i + BYTES * k), i8_load(y + i + BYTES * k));
        I8_FOR(k, 4) i8_store(out + i + BYTES * k, v[k]);
    }
    for (; i + BYTES <= n; i += BYTES)
        i8_store(out + i, function(i8_load(x + i), i8_load(y + i)));
    i8_store(out, first);
    i8_store(out + n - BYTES, last);
}
/* Map bytes of a type to u8 in the same order. */
#define I8_ORDERED_u8(x) x
#define I8_ORDERED_s8(x) i8_xor(x, i8_set_8(0x80))
/* Return 1 for bytes that are not 0, else 0. */
#define I8_IS_SET(x) i8_min_u8(x, i8_set_8(1))
#define I8_IS_CLEAR(x) i8_xor(I8_IS_SET(x), i8_set_8(1))
/* Return a positive byte if x > y, else 0. */
#define I8_EXCESS(t, x, y) i8_sub_sat_u8(I8_ORDERED_##t(x), I8_ORDERED_##t(y))
#define I8_DIRECT(name, type, vector, number)                                                                          \
    I8_INLINE i8_vec name##_step(i8_vec x, i8_vec y) { return vector; }                                                \
    static void name(const i8_bytes_args *t) { i8_direct_run(t, name##_step); }
#else
#define I8_DIRECT(name, type, vector, number)                                                                          \
    static void name(const i8_bytes_args *t)                                                                           \
    {                                                                                                                  \
        const type *const first = (const type *)t->x[0], *const second = (const type *)t->x[1];                        \
        type *const out = (type *)t->out;                                                                              \
        const int64_t n = t->n;                                                                                        \
        for (int64_t i = 0; i < n; ++i) {                                                                              \
            const int x = first[i], y = second[i];                                                                     \
            out[i] = (type)(number);                                                                                   \
        }                                                                                                              \
    }
#endif
#define I8_LIMITED(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))
#define I8_DIRECT_OF(t, type, low, high)                                                                               \
    I8_DIRECT(i8_direct_add_##t, type, i8_add_sat_##t(x, y), I8_LIMITED(x + y, low, high))                             \
    I8_DIRECT(i8_direct_sub_##t, type, i8_sub_sat_##t(x, y), I8_LIMITED(x - y, low, high))                             \
    I8_DIRECT(i8_direct_min_##t, type, i8_min_##t(x, y), x < y ? x : y)                                                \
    I8_DIRECT(i8_direct_max_##t, type, i8_max_##t(x, y), x > y ? x : y)                                                \
    I8_DIRECT(i8_direct_ge_##t, type, I8_IS_CLEAR(I8_EXCESS(t, y, x)), x >= y)                                         \
    I8_DIRECT(i8_direct_gt_##t, type, I8_IS_SET(I8_EXCESS(t, x, y)), x > y)                                            \
    I8_DIRECT(i8_direct_le_##t, type, I8_IS_CLEAR(I8_EXCESS(t, x, y)), x <= y)                                         \
    I8_DIRECT(i8_direct_lt_##t, type, I8_IS_SET(I8_EXCESS(t, y, x)), x < y)                                            \
    I8_DIRECT(i8_direct_eq_##t, type, I8_IS_CLEAR(i8_xor(x, y)), x == y)                                               \
    I8_DIRECT(i8_direct_ne_##t, type, I8_IS_SET(i8_xor(x, y)), x != y)
I8_DIRECT_OF(u8, uint8_t, 0, 255)
I8_DIRECT_OF(s8, int8_t, -128, 127)
#undef I8_DIRECT_OF
#undef I8_LIMITED
#undef I8_DIRECT
#undef I8_EXCESS
#undef I8_IS_CLEAR
#undef I8_IS_SET
#undef I8_ORDERED_s8
#undef I8_ORDERED_u8
