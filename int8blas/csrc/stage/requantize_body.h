/* Integer requantization: multiply an s32 by multiplier * 2**(exponent - 31). The multiplier is 0, or from 2**30 to
 * 2**31 - 1. The functions take vectors, or one element in plain C. */
#if I8_LANES > 1
/* i8_sign_of sets all bits of the lanes in which x is negative. i8_limit_of returns INT32_MIN for a negative x, and
 * INT32_MAX for any other x. */
I8_INLINE i8_vec i8_sign_of(i8_vec x) { return i8_shift_right(x, i8_set_32(31)); }
I8_INLINE i8_vec i8_limit_of(i8_vec x) { return i8_xor(i8_sign_of(x), i8_set_32(INT32_MAX)); }

/* I8_DOUBLING, with exponent in [-31, 31]:
 *     v = sat_s32(x * 2**max(exponent, 0))
 *     h = floor(v * multiplier / 2**31 + 1/2)       the rounded high half of the doubled product
 *     y = h / 2**max(-exponent, 0)                  rounded to nearest, ties away from zero
 * The doubled product cannot overflow, because the multiplier is not -2**31. */
I8_INLINE i8_vec i8_doubled(i8_vec v, i8_vec multiplier, i8_vec right)
{
    const i8_vec one = i8_set_32(1), h = i8_high_product(v, multiplier), mask = i8_sub(i8_shift_left(one, right), one);
    const i8_vec middle = i8_sub(i8_shift_right(mask, one), i8_sign_of(h));
    return i8_sub(i8_shift_right(h, right), i8_greater(i8_and(h, mask), middle));
}
I8_INLINE i8_vec i8_doubling(i8_vec x, i8_vec multiplier, i8_vec exponent)
{
    const i8_vec left = i8_max_s32(exponent, i8_zero()), shifted = i8_shift_left(x, left);
    const i8_vec fits = i8_equal(i8_shift_right(shifted, left), x);
    return i8_doubled(i8_where(fits, shifted, i8_limit_of(x)), multiplier, i8_sub(left, exponent));
}

/* I8_SINGLE, with exponent in [-31, 32]: y = sat_s32(floor(x * multiplier / 2**(31 - exponent) + 1/2)). The product
 * fits 62 bits and a sign. For exponent 32 the product is doubled, and 1/2 is not added. */
I8_INLINE i8_vec i8_single(i8_vec x, i8_vec multiplier, i8_vec exponent)
{
    const i8_vec right = i8_sub(i8_set_32(31), exponent), zero = i8_zero();
    return i8_scaled_product(x, multiplier, i8_max_s32(i8_sub(zero, right), zero), i8_max_s32(right, zero));
}

/* Return sat(y + zero_point) without overflow, for low <= zero_point <= high. */
I8_INLINE i8_vec i8_shift_between(i8_vec y, i8_vec zero_point, const int32_t low, const int32_t high)
{
    y = i8_max_s32(y, i8_sub(i8_set_32(low), zero_point));
    return i8_add(i8_min_s32(y, i8_sub(i8_set_32(high), zero_point)), zero_point);
}
I8_INLINE i8_vec i8_shift_in_s32(i8_vec y, i8_vec zero_point)
{
    const i8_vec sum = i8_add(y, zero_point);
    return i8_where(i8_sign_of(i8_and(i8_xor(y, sum), i8_xor(zero_point, sum))), i8_limit_of(y), sum);
}

#else
/* Return sat(y + zero_point) without overflow, for low <= zero_point <= high. */
I8_INLINE int32_t i8_shift_between(int32_t y, int32_t zero_point, const int32_t low, const int32_t high)
{
    y = y > low - zero_point ? y : low - zero_point;
    y = y < high - zero_point ? y : high - zero_point;
    return y + zero_point;
}

I8_INLINE int32_t i8_shift_in_s32(int32_t y, int32_t zero_point)
{
    const int32_t sum = (int32_t)((uint32_t)y + (uint32_t)zero_point);
    return ((y ^ sum) & (zero_point ^ sum)) < 0 ? (y < 0 ? INT32_MIN : INT32_MAX) : sum;
}

I8_INLINE int32_t i8_doubling(int32_t x, int32_t multiplier, int32_t exponent)
{
    const int32_t left = exponent > 0 ? exponent : 0, right = left - exponent;
    const int32_t shifted = (int32_t)((uint32_t)x << left);
    const int32_t v = shifted >> left == x ? shifted : x < 0 ? INT32_MIN : INT32_MAX;
    const int64_t product = (int64_t)v * multiplier + ((int64_t)1 << 30);
    const int32_t h = (int32_t)(uint32_t)((uint64_t)product >> 31);
    const int32_t mask = (int32_t)(((uint32_t)1 << right) - 1);
    return (h >> right) + ((h & mask) > (mask >> 1) + (h < 0));
}

/* I8_SINGLE. */
I8_INLINE int32_t i8_single(int32_t x, int32_t multiplier, int32_t exponent)
{
    const int right = exponent > 31 ? 0 : 31 - exponent;
    const int64_t product = (int64_t)x * multiplier * (exponent > 31 ? 2 : 1), half = (int64_t)1 << right >> 1;
    const int64_t y = (product + half) >> right;
    return (int32_t)(y < INT32_MIN ? INT32_MIN : y > INT32_MAX ? INT32_MAX : y);
}
#endif
