/* i8_floats is a chunk of 16 f32 as two vectors of 8 f32. The widths with 8 lanes share these functions.
 * vectors_<width>.h includes this file after its functions of i8_vec and i8_f32. vectors_<width>.h also defines, for 8
 * elements, i8_half_minus, i8_half_from_f16, i8_half_from_bf16, i8_half_store_f16, i8_half_store_bf16, i8_half_ordered,
 * i8_half_largest, i8_half_top_of, i8_half_load_some, i8_half_sum, i8_half_top, i8_half_power_of_two and
 * i8_half_unless_below. vectors_ref.h defines all functions of chunks as loops. */
typedef struct {
    i8_f32 low, high;
} i8_floats;

#define I8_FLOATS(low_, high_)                                                                                         \
    (i8_floats) { low_, high_ }
#define I8_FLOATS_PIN(x)                                                                                               \
    do {                                                                                                               \
        I8_PIN((x).low);                                                                                               \
        I8_PIN((x).high);                                                                                              \
    } while (0)
#define I8_UNARY_FLOATS(name, f)                                                                                       \
    I8_INLINE i8_floats name(i8_floats x) { return I8_FLOATS(f(x.low), f(x.high)); }
#define I8_BINARY_FLOATS(name, f)                                                                                      \
    I8_INLINE i8_floats name(i8_floats x, i8_floats y) { return I8_FLOATS(f(x.low, y.low), f(x.high, y.high)); }

I8_INLINE i8_floats i8_floats_load(const float *p) { return I8_FLOATS(i8_load_f32(p), i8_load_f32(p + 8)); }
/* Load `count` numbers, fewer than 16, and set the other lanes to 0. */
I8_INLINE i8_floats i8_floats_load_some(const float *p, int count)
{
    return count < 8 ? I8_FLOATS(i8_half_load_some(p, count), i8_set_f32(0))
                     : I8_FLOATS(i8_load_f32(p), i8_half_load_some(p + 8, count - 8));
}
I8_INLINE i8_floats i8_floats_from(const int32_t *p)
{
    return I8_FLOATS(i8_to_f32(i8_load(p)), i8_to_f32(i8_load(p + 8)));
}
/* Return p - a * q modulo 2**32 as f32. */
I8_INLINE i8_floats i8_floats_from_less(const int32_t *p, int32_t a, const int32_t *q)
{
    const i8_vec factor = i8_set_32(a);
    return I8_FLOATS(i8_to_f32(i8_sub(i8_load(p), i8_mul_s32(factor, i8_load(q)))),
                     i8_to_f32(i8_sub(i8_load(p + 8), i8_mul_s32(factor, i8_load(q + 8)))));
}
/* Return p - q modulo 2**32 as f32. */
I8_INLINE i8_floats i8_floats_from_difference(const int32_t *p, const int32_t *q)
{
    return I8_FLOATS(i8_to_f32(i8_sub(i8_load(p), i8_load(q))), i8_to_f32(i8_sub(i8_load(p + 8), i8_load(q + 8))));
}
/* Return 16 integers minus `largest` as f32, for normalize_body.h. No integer exceeds `largest`. A difference of 0 is
 * stored as +0. */
I8_INLINE i8_floats i8_floats_minus(const int32_t *p, int32_t largest)
{
    return I8_FLOATS(i8_half_minus(p, largest), i8_half_minus(p + 8, largest));
}
/* Load 16 bytes, 16 f16 or 16 bf16, which may be unaligned. */
I8_INLINE i8_floats i8_floats_from_u8(const uint8_t *p)
{
    return I8_FLOATS(i8_to_f32(i8_load_u8(p)), i8_to_f32(i8_load_u8(p + 8)));
}
I8_INLINE i8_floats i8_floats_from_s8(const int8_t *p)
{
    return I8_FLOATS(i8_to_f32(i8_load_s8(p)), i8_to_f32(i8_load_s8(p + 8)));
}
I8_INLINE i8_floats i8_floats_from_f16(const char *p)
{
    return I8_FLOATS(i8_half_from_f16(p), i8_half_from_f16(p + 16));
}
I8_INLINE i8_floats i8_floats_from_bf16(const char *p)
{
    return I8_FLOATS(i8_half_from_bf16(p), i8_half_from_bf16(p + 16));
}
I8_INLINE i8_floats i8_floats_set(float x) { return I8_FLOATS(i8_set_f32(x), i8_set_f32(x)); }
I8_BINARY_FLOATS(i8_floats_add, i8_add_f32)
I8_BINARY_FLOATS(i8_floats_sub, i8_sub_f32)
I8_BINARY_FLOATS(i8_floats_mul, i8_mul_f32)
I8_INLINE i8_floats i8_floats_less_product(i8_floats x, i8_floats y, i8_floats z)
{
    return I8_FLOATS(i8_less_product_f32(x.low, y.low, z.low), i8_less_product_f32(x.high, y.high, z.high));
}
I8_BINARY_FLOATS(i8_floats_min, i8_min_f32)
I8_BINARY_FLOATS(i8_floats_max, i8_max_f32)
/* Return max(x, |y|), compared as integers, so that infinities and NaN are larger than all numbers. x is not
 * negative. */
I8_BINARY_FLOATS(i8_floats_largest, i8_half_largest)
/* Return the largest lane of a result of i8_floats_largest. */
I8_INLINE float i8_floats_top_magnitude(i8_floats x) { return i8_half_top_of(i8_half_largest(x.low, x.high)); }
/* Return x < 0 ? 0 : x. MAXPS returns its second operand if an operand is NaN, and if both are zeros of any sign. */
I8_INLINE i8_f32 i8_half_relu(i8_f32 x) { return i8_max_f32(i8_set_f32(0), x); }
I8_UNARY_FLOATS(i8_floats_relu, i8_half_relu)
/* Replace NaN by 0. */
I8_UNARY_FLOATS(i8_floats_ordered, i8_half_ordered)
/* Return the sum of x: add the second half to the first half until one element is left. */
I8_INLINE float i8_floats_sum(i8_floats x) { return i8_half_sum(i8_add_f32(x.low, x.high)); }
/* Return the largest element of x, which has no NaN. */
I8_INLINE float i8_floats_top(i8_floats x) { return i8_half_top(i8_max_f32(x.low, x.high)); }
I8_INLINE void i8_floats_store(float *p, i8_floats x)
{
    i8_store_f32(p, x.low);
    i8_store_f32(p + 8, x.high);
}
I8_INLINE void i8_floats_store_s32(char *p, i8_floats x)
{
    i8_store(p, i8_to_s32(x.low));
    i8_store(p + 32, i8_to_s32(x.high));
}
/* Store f16 or bf16, rounded half to even. A NaN keeps only its sign. */
I8_INLINE void i8_floats_store_f16(char *p, i8_floats x)
{
    i8_half_store_f16(p, x.low);
    i8_half_store_f16(p + 16, x.high);
}
I8_INLINE void i8_floats_store_bf16(char *p, i8_floats x)
{
    i8_half_store_bf16(p, x.low);
    i8_half_store_bf16(p + 16, x.high);
}
/* Return the f32 with the bits of x shifted left by 23: the low bits become the exponent. */
I8_UNARY_FLOATS(i8_floats_power_of_two, i8_half_power_of_two)
/* Return x < limit ? 0 : y. */
I8_INLINE i8_floats i8_floats_unless_below(i8_floats x, i8_floats limit, i8_floats y)
{
    return I8_FLOATS(i8_half_unless_below(x.low, limit.low, y.low), i8_half_unless_below(x.high, limit.high, y.high));
}
