/* Dot products of u8 and s8, of many vectors a with one vector b. On instruction sets that only multiply u8 by u8 or s8
 * by s8,
 *
 *     a . b = (a - 128) . b + 128 * (sums of b)
 *
 * I8_SHARED_DOT(acc, a, b) adds only the first term, for an a that i8_shared has converted. i8_add_fours(sums, b) adds
 * the sum of four s8 in every lane. i8_finish_dots adds the second term from these sums. On instruction sets that
 * multiply u8 by s8, I8_SHARED_DOT is I8_DOT, and i8_finish_dots needs no sums. */
#if I8_PAIRED || I8_MIXED
#define I8_SHARED_FLIP 0
#define I8_SHARED_DOT(acc, a, b) I8_DOT(acc, a, b)
I8_INLINE i8_vec i8_add_fours(i8_vec sums, i8_vec b) { return (void)b, sums; }
#else
#define I8_SHARED_FLIP 0x80
#define I8_SHARED_DOT(acc, a, b) (acc) = i8_dot_signed(acc, a, b)
#endif

I8_INLINE i8_vec i8_shared(i8_vec a) { return I8_SHARED_FLIP ? i8_xor(a, i8_set_8(I8_SHARED_FLIP)) : a; }
I8_INLINE i8_vec i8_finish_dots(i8_vec acc, i8_vec sums)
{
    return I8_SHARED_FLIP ? i8_add(acc, i8_shift_left(sums, i8_set_32(7))) : acc;
}
