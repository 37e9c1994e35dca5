/* The epilogue of i8_tile_output for the sums of a tile. tile_output.h includes this file after defining
 *
 *   I8_PREFIX        the file defines <prefix>_output_sums, and <prefix>_output_stage for primitives
 *   I8_TIMES(i, n)   a loop: unrolled completely for sums in registers, not unrolled for sums in memory
 *
 * The end of this file undefines both macros. Each of `mr` rows has `width` vectors of sums. Rows are acc_row vectors
 * apart. The first sum belongs to C[row, column], whose address is `c`. */

/* Store s32 or f32. row_scale points to the scale of the first row, or is NULL. Storing row by row is 1.3x faster than
 * storing the last columns of all rows first (f32, a 1 x 1 convolution of 56 x 56 x 64 to 256 channels, Emerald
 * Rapids). Lanes after the last column may spill into the first columns of the next row, which are stored later. */
I8_INLINE void I8_NAME(output_words)(const i8_tile_output *o, char *c, const float *row_scale, const int64_t column,
                                     const i8_vec *acc, const int acc_row, const int mr, const int width,
                                     const int type)
{
    /* Copies of the values stay in registers, because stores to C cannot change a copy. */
    const i8_stage *s = o->epilogue->stage;
    const i8_column_values scales = s->scale, biases = s->bias;
    const ptrdiff_t c_row = o->c_row, first = o->column + column;
    const i8_f32 low = i8_set_f32(s->relu ? 0.0f : -INFINITY);
    I8_TIMES(i, mr) {
        char *to = c + i * c_row + column * (ptrdiff_t)sizeof(int32_t);
        I8_TIMES(j, width) {
            const ptrdiff_t of = first + j * I8_LANES;
            const i8_f32 scale = i8_load_f32(scales.values + scales.step * of);
            const i8_f32 bias = i8_load_f32(biases.values + biases.step * of);
            i8_f32 y = i8_to_f32(acc[i * acc_row + j]);
            y = i8_mul_f32(y, row_scale ? i8_mul_f32(i8_set_f32(row_scale[i]), scale) : scale);
            y = i8_max_f32(low, i8_add_f32(y, bias));
            if (type == I8_TYPE_F32)
                i8_store_f32(to + j * I8_LANES * sizeof(float), y);
            else
                i8_store(to + j * I8_LANES * sizeof(int32_t), i8_to_s32(y));
        }
    }
}

/* Store bytes. If `shifts` is 0, the function uses dst_zero = 0. If y is not negative, y * dst_scale + zero point is at
 * least the zero point, so the relu is a lower bound. */
I8_INLINE void I8_NAME(output_bytes)(const i8_tile_output *o, char *c, const int64_t column, const i8_vec *acc,
                                     const int acc_row, const int mr, const int width, const int type,
                                     const int shifts)
{
    const i8_stage *s = o->epilogue->stage;
    const i8_column_values scales = s->scale, biases = s->bias, dst_scales = s->dst_scale, zeros = s->dst_zero;
    const ptrdiff_t c_row = o->c_row, first = o->column + column;
    const int relu = s->relu;
    const i8_f32 rounder = i8_set_f32(s->rounder);
    const i8_f32 smallest = i8_set_f32(type == I8_TYPE_U8 ? 0.0f : -128.0f);
    /* The values of a column stay in registers. The last columns are first, because their lanes may spill. */
    I8_TIMES(v, width) {
        const int j = width - 1 - v;
        const ptrdiff_t at = column + j * I8_LANES, of = first + j * I8_LANES;
        const i8_f32 scale = i8_load_f32(scales.values + scales.step * of);
        const i8_f32 bias = i8_load_f32(biases.values + biases.step * of);
        const i8_f32 dst_scale = i8_load_f32(dst_scales.values + dst_scales.step * of);
        const i8_f32 zero = shifts ? i8_load_f32(zeros.values + zeros.step * of) : i8_set_f32(0);
        const i8_f32 low = relu ? i8_max_f32(smallest, shifts ? i8_add_f32(zero, rounder) : zero) : smallest;
        I8_TIMES(i, mr) {
            i8_f32 y = i8_mul_f32(i8_to_f32(acc[i * acc_row + j]), scale);
            y = i8_mul_f32(i8_add_f32(y, bias), dst_scale);
            if (shifts)
                y = i8_add_f32(i8_add_f32(y, rounder), zero);
            i8_store_bounded(c + i * c_row + at, y, low, type == I8_TYPE_S8);
        }
    }
}

I8_INLINE void I8_NAME(widen_tile)(const i8_tile_output *o, const int64_t row, const int64_t column, const i8_vec *acc,
                                   const int acc_row, const int mr, const int width, const int stream)
{
    I8_TIMES(i, mr) {
        char *c = o->c + (row + i) * o->c_row + column * (ptrdiff_t)sizeof(int64_t);
        I8_TIMES(j, width) {
            i8_store_s64(c, acc[i * acc_row + j], stream);
            c += I8_LANES * sizeof(int64_t);
        }
    }
}

I8_INLINE void I8_NAME(store_distances)(const i8_tile_output *o, const int64_t row, const int64_t column,
                                        const i8_vec *acc, const int acc_row, const int mr, const int width)
{
    const int32_t *row_squares = o->epilogue->co_rows + o->row, *col_squares = o->epilogue->co_cols + o->column;
    I8_TIMES(i, mr) {
        char *c = o->c + (row + i) * o->c_row + column * (ptrdiff_t)sizeof(int32_t);
        const i8_vec squares = i8_set_32(row_squares[row + i]);
        I8_TIMES(j, width) {
            const i8_vec x = acc[i * acc_row + j], y = i8_load(col_squares + column + j * I8_LANES);
            i8_store(c + j * I8_LANES * sizeof(int32_t), i8_sub(i8_add(squares, y), i8_add(x, x)));
        }
    }
}

/* Apply a primitive's epilogue to the sums. */
I8_INLINE void I8_NAME(output_stage)(const i8_tile_output *o, char *c, const int64_t row, const int64_t column,
                                     i8_vec *acc, const int acc_row, const int mr, const int width)
{
    const i8_epilogue *e = o->epilogue;
    if (e->co_cols)
        I8_TIMES(j, width) {
            const i8_vec offset = i8_load(e->co_cols + o->column + column + j * I8_LANES);
            I8_TIMES(i, mr) acc[i * acc_row + j] = i8_add(acc[i * acc_row + j], offset);
        }
    if (e->stage->integral) {
        c += column * (ptrdiff_t)sizeof(int32_t);
        I8_TIMES(i, mr) {
            I8_TIMES(j, width) i8_store(c + j * I8_LANES * sizeof(int32_t), acc[i * acc_row + j]);
            c += o->c_row;
        }
        return;
    }
    if (e->type == I8_TYPE_U8 && !e->stage->shifts)
        I8_NAME(output_bytes)(o, c, column, acc, acc_row, mr, width, I8_TYPE_U8, 0);
    else if (e->type == I8_TYPE_U8)
        I8_NAME(output_bytes)(o, c, column, acc, acc_row, mr, width, I8_TYPE_U8, 1);
    else if (e->type == I8_TYPE_S8)
        I8_NAME(output_bytes)(o, c, column, acc, acc_row, mr, width, I8_TYPE_S8, 1);
    else if (e->type == I8_TYPE_S32)
        I8_NAME(output_words)(o, c, NULL, column, acc, acc_row, mr, width, I8_TYPE_S32);
    else if (o->row_scale)
        I8_NAME(output_words)(o, c, o->row_scale + row, column, acc, acc_row, mr, width, I8_TYPE_F32);
    else
        I8_NAME(output_words)(o, c, NULL, column, acc, acc_row, mr, width, I8_TYPE_F32);
}

I8_INLINE void I8_NAME(output_sums)(const i8_tile_output *o, const int64_t row, const int64_t column, i8_vec *acc,
                                    const int acc_row, const int mr, const int width)
{
    if (o->epilogue->kind == I8_INT64) {
        if (o->stream)
            I8_NAME(widen_tile)(o, row, column, acc, acc_row, mr, width, 1);
        else
            I8_NAME(widen_tile)(o, row, column, acc, acc_row, mr, width, 0);
        return;
    }
    if (o->epilogue->kind == I8_DISTANCES) {
        I8_NAME(store_distances)(o, row, column, acc, acc_row, mr, width);
        return;
    }
    I8_NAME(output_stage)(o, o->c + row * o->c_row, row, column, acc, acc_row, mr, width);
}

#undef I8_TIMES
#undef I8_PREFIX
