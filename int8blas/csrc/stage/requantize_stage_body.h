/* The epilogue of a quantized primitive in integers: compute the destination from a tile of s32 sums by the functions
 * of requantize_body.h, in chunks of 16 columns. stage.h has the formula (i8_requantization). */

/* Compute sat_s32(X + co) of one row, from column j on. */
I8_INLINE void i8_integer_sums(const i8_output_args *o, int i, int j, int32_t *x)
{
    if (o->acc32) {
        uint32_t y[I8_CHUNK];
        i8_sums_32(o, i, j, y);
        memcpy(x, y, sizeof y);
        return;
    }
    for (int v = 0; v < I8_CHUNK; ++v) {
        const int64_t y = i8_sum_64(o, i, j + v);
        x[v] = y > INT32_MAX ? INT32_MAX : y < INT32_MIN ? INT32_MIN : (int32_t)y;
    }
}

#if I8_LANES > 1
/* Load and store a chunk at p. */
#define I8_WORDS(p) i8_load((p) + I8_LANES * v)
I8_INLINE void i8_requantize_chunk(const i8_requantization *q, ptrdiff_t column, const int32_t *x, int type, char *c,
                                   const int scheme)
{
    I8_FOR(v, I8_VECS) {
        const i8_vec multiplier = I8_WORDS(q->multiplier + column), exponent = I8_WORDS(q->exponent + column);
        i8_vec y = I8_WORDS(x);
        y = scheme == I8_DOUBLING ? i8_doubling(y, multiplier, exponent) : i8_single(y, multiplier, exponent);
        y = i8_shift_in_s32(y, I8_WORDS(q->zero_point + column));
        y = i8_min_s32(i8_max_s32(y, I8_WORDS(q->low + column)), I8_WORDS(q->high + column));
        if (type == I8_TYPE_U8)
            i8_store_u8(c + I8_LANES * v, y);
        else if (type == I8_TYPE_S8)
            i8_store_s8(c + I8_LANES * v, y);
        else
            i8_store(c + 4 * I8_LANES * v, y);
    }
}
#undef I8_WORDS
#else
I8_INLINE void i8_requantize_chunk(const i8_requantization *q, ptrdiff_t column, const int32_t *x, int type, char *c,
                                   const int scheme)
{
    int32_t y[I8_CHUNK];
    for (int v = 0; v < I8_CHUNK; ++v) {
        const int32_t multiplier = q->multiplier[column + v], exponent = q->exponent[column + v];
        const int32_t low = q->low[column + v], high = q->high[column + v];
        y[v] = scheme == I8_DOUBLING ? i8_doubling(x[v], multiplier, exponent) : i8_single(x[v], multiplier, exponent);
        y[v] = i8_shift_in_s32(y[v], q->zero_point[column + v]);
        y[v] = y[v] > low ? y[v] : low;
        y[v] = y[v] < high ? y[v] : high;
    }
    if (type == I8_TYPE_S32)
        memcpy(c, y, sizeof y);
    else
        for (int v = 0; v < I8_CHUNK; ++v)
            ((uint8_t *)c)[v] = (uint8_t)y[v];
}
#endif

I8_INLINE void i8_requantize_columns(const i8_output_args *o, int j, const int scheme)
{
    const i8_epilogue *e = o->epilogue;
    const int count = o->cols - j < I8_CHUNK ? o->cols - j : I8_CHUNK;
    const ptrdiff_t size = i8_size(e->type);
    const int as_they_are = o->acc32 && !o->ao && !o->bo && !e->co && !e->co_rows && !e->co_cols;
    char buffer[4 * I8_CHUNK], *c = o->c + j * size;
    int32_t sums[I8_CHUNK];
    for (int i = 0; i < o->rows; ++i, c += o->c_row) {
        const int32_t *x = as_they_are ? o->acc32 + i * o->acc_row + j : sums;
        if (!as_they_are)
            i8_integer_sums(o, i, j, sums);
        i8_requantize_chunk(&e->stage->requantization, o->column + j, x, e->type, count == I8_CHUNK ? c : buffer,
                            scheme);
        if (count < I8_CHUNK)
            memcpy(c, buffer, (size_t)(count * size));
    }
}

static void i8_requantize_doubling(const i8_output_args *o)
{
    for (int j = 0; j < o->cols; j += I8_CHUNK)
        i8_requantize_columns(o, j, I8_DOUBLING);
}

static void i8_requantize_single(const i8_output_args *o)
{
    for (int j = 0; j < o->cols; j += I8_CHUNK)
        i8_requantize_columns(o, j, I8_SINGLE);
}
