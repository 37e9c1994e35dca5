/* Armv8.2 with the dot product, in Cortex-A55, A75 to A78 and X1, Neoverse N1, Graviton 2, Ampere Altra, Apple A11 to
 * A14 and M1.
 *
 *   SDOT, UDOT .4s   16 products of s8, or of u8. Neoverse N1 has latency 4, or 1 from accumulator to accumulator, and
 *                    starts two in each cycle. Apple's CPUs have latency 3, and start four in each cycle.
 *
 * Products of u8 and s8 use a = (a - 128) + 128. SDOT multiplies a - 128 by b. For many a, kernels add 128 b once.
 * For a single a, I8_DOT adds 64 b twice, because 128 does not fit s8.
 */
#ifdef I8_AARCH64
#ifdef __clang__
#define I8_TARGET "neon,dotprod"
#else
#define I8_TARGET "arch=armv8.2-a+dotprod"
#endif
#include "isa/vectors_neon.h"

#include "isa/dots_neon.h"
I8_BY_DWORD_FUNCTION(i8_dot_by_dword, "sdot")

/* i8_add_fours adds the sum of four s8 to each lane of acc, and i8_add_shift adds 128 times the sum. */
I8_INLINE i8_vec i8_add_fours(i8_vec acc, i8_vec b) { return i8_dot_signed(acc, i8_set_8(1), b); }
I8_INLINE i8_vec i8_add_shift(i8_vec acc, i8_vec b)
{
    return i8_dot_signed(i8_dot_signed(acc, i8_set_8(64), b), i8_set_8(64), b);
}

#define I8_DOT(acc, a, b) (acc) = i8_dot_signed(i8_add_shift(acc, b), i8_xor(a, i8_set_8(0x80)), b)
#define I8_DOT_BY_DWORD(acc, a, b) (acc) = i8_dot_by_dword(acc, a, b) /* a minus 128 */
#define I8_PAIRED 0
#define I8_MIXED 0
#define I8_ALIKE 1
#define I8_INTERLEAVED_FLIP 0x80
#define I8_PEAK_STEP(acc, a, b) (acc) = i8_dot_signed(acc, a, b)
#define I8_TUNING                                                                                                      \
    {.kc = 1024, .a_bytes = 256 << 10, .nc = 60, .thread_work = 1e6, .tiny_work = 1 << 20, .few_rows_limit = 48}
#endif
