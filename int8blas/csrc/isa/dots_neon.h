/* Dot products of bytes in s32 lanes, for the instruction sets of AArch64 that have them. Instructions are assembly, as
 * compilers copy sums from register to register around intrinsics where a loop fills them all.
 *
 * A dword of A that all lanes are multiplied by stays in a register of its own, of which instructions take element 0:
 * loading it costs no more than a load, where repeating it would take a place on the multiplier's ports as well. */
typedef float i8_dword; /* of any bits: a float is what compilers load into such a register */

I8_INLINE i8_dword i8_load_dword(const void *p)
{
    i8_dword x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* The same with the sign bit of every byte flipped, without the multiplier's ports too. */
I8_INLINE i8_dword i8_load_flipped_dword(const void *p)
{
    uint32_t bytes;
    i8_dword x;
    memcpy(&bytes, p, sizeof bytes);
    bytes ^= 0x80808080u;
    memcpy(&x, &bytes, sizeof x);
    return x;
}

/* acc + the dots of x and y; and of y and the dword x in every lane, in the order that loops of tiles have them in:
 * compilers would load more operands before than there are registers for. */
#define I8_DOT_FUNCTION(name, instruction)                                                                             \
    I8_INLINE i8_vec name(i8_vec acc, i8_vec x, i8_vec y)                                                              \
    {                                                                                                                  \
        __asm__(instruction " %0.4s, %1.16b, %2.16b" : "+w"(acc.low) : "w"(x.low), "w"(y.low));                        \
        __asm__(instruction " %0.4s, %1.16b, %2.16b" : "+w"(acc.high) : "w"(x.high), "w"(y.high));                     \
        return acc;                                                                                                    \
    }
#define I8_BY_DWORD_FUNCTION(name, instruction)                                                                        \
    I8_INLINE i8_vec name(i8_vec acc, i8_dword x, i8_vec y)                                                            \
    {                                                                                                                  \
        __asm__ volatile(instruction " %0.4s, %1.16b, %2.4b[0]" : "+w"(acc.low) : "w"(y.low), "w"(x));                 \
        __asm__ volatile(instruction " %0.4s, %1.16b, %2.4b[0]" : "+w"(acc.high) : "w"(y.high), "w"(x));               \
        return acc;                                                                                                    \
    }
I8_DOT_FUNCTION(i8_dot_signed, "sdot")
I8_DOT_FUNCTION(i8_dot_unsigned, "udot")
