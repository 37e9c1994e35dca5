/* Interleaving of vectors within units of 128 bits, for all widths. vectors_<width>.h includes this file after defining
 * i8_low_8(x, y) to i8_low_64(x, y), which interleave the low halves of the units of x and y, and i8_high_8 to
 * i8_high_64, which interleave the high halves. */

/* Interleave the bytes of 4 vectors: each dword gets one byte of each vector (few_rows_body.h). */
I8_INLINE void i8_interleave(i8_vec *v)
{
    I8_ZIP_4(i8_vec, v, i8_low_8, i8_high_8, i8_low_16, i8_high_16);
}

/* Widen the bytes of 2 vectors to 16 bits and interleave them. The 4 resulting vectors have the order of i8_interleave.
 */
I8_INLINE void i8_interleave_words(i8_vec *v)
{
    const i8_vec low = i8_low_8(v[0], v[1]), high = i8_high_8(v[0], v[1]);
    v[0] = i8_low_8(low, i8_zero());
    v[1] = i8_high_8(low, i8_zero());
    v[2] = i8_low_8(high, i8_zero());
    v[3] = i8_high_8(high, i8_zero());
}

/* Transpose the matrix of 4 x 4 lanes in each unit of 128 bits of 4 vectors. */
I8_INLINE void i8_transpose_lanes(i8_vec *v)
{
    I8_ZIP_4(i8_vec, v, i8_low_32, i8_high_32, i8_low_64, i8_high_64);
}

/* Interleave the bytes of x and y, for the first or the last 8 columns of each unit. */
I8_INLINE i8_vec i8_interleave_pair(i8_vec x, i8_vec y, const int half)
{
    return half ? i8_high_8(x, y) : i8_low_8(x, y);
}
/* Interleave pairs of bytes of x and y, for the first or the last 4 pairs of each unit. */
I8_INLINE i8_vec i8_interleave_quad(i8_vec x, i8_vec y, const int half)
{
    return half ? i8_high_16(x, y) : i8_low_16(x, y);
}

/* Compute the first two vectors of i8_interleave, or the last two. */
I8_INLINE void i8_interleave_half(i8_vec *v, const int half)
{
    const i8_vec v01 = i8_interleave_pair(v[0], v[1], half), v23 = i8_interleave_pair(v[2], v[3], half);
    v[0] = i8_low_16(v01, v23);
    v[1] = i8_high_16(v01, v23);
}
