/* Armv8.0: Cortex-A53, A57, A72 and A73, Graviton 1, Raspberry Pi 3 and 4.
 *
 *   SMLAL, SMLAL2 .4s   4 products of s16 each; latency 4, or 1 for the sum; one a cycle (A72: F1)
 *   MUL, MLA .8h        8 products of which the low 16 bits are kept; one every cycle or two
 *   SADALP .4s          sums of two s16 added to s32; latency 4, or 1 for the sum; one a cycle
 *
 * A product of u8 and s8 fits s16, a sum of two does not: exact dots of bytes widen both operands to s16, and take 4
 * multiplier instructions for 16 products, where widened operands (I8_DOT2) take 4 and nothing else.
 */
I8_TARGET_BEGIN(I8_NEON)
#include "isa/vectors_neon.h"

#define I8_DOT(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#define I8_ISA neon
#define I8_PAIRED 1
