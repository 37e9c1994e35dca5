/* Dot products of bytes in s32 lanes, for the instruction sets of AArch64 that have them. The instructions are
 * assembly, because compilers copy sums between registers around intrinsics in a loop that needs all registers.
 *
 * A dword of A stays in element 0 of a register, and instructions multiply all lanes by this element, so a dword of A
 * needs only a load. Repeating the dword in all lanes would also occupy a multiplier port. */
typedef float i8_dword; /* compilers load a float, but not an integer, into a vector register */

I8_INLINE i8_dword i8_load_dword(const void *p)
{
    i8_dword x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Load a dword and flip the sign bit of every byte. The flip needs no multiplier port. */
I8_INLINE i8_dword i8_load_flipped_dword(const void *p)
{
    uint32_t bytes;
    i8_dword x;
    memcpy(&bytes, p, sizeof bytes);
    bytes ^= 0x80808080u;
    memcpy(&x, &bytes, sizeof x);
    return x;
}

/* I8_DOT_FUNCTION defines a function that adds the dot products of x and y to acc. The function of I8_BY_DWORD_FUNCTION
 * adds the dot products of the dword x and each lane of y. The assembly of I8_BY_DWORD_FUNCTION is volatile, because
 * compilers would otherwise load more operands in advance than there are registers. */
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
