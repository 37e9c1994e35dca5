/* AVX2, and F16C and FMA, which every CPU with AVX2 has: Haswell and later, Zen and later.
 *
 *   VPMADDUBSW, VPMADDWD ymm   latency 5 (Intel), 3 (Zen); two a cycle
 *   VPADDD ymm                 latency 1; three a cycle (Intel, ports shared with the multiplier), four (Zen)
 *
 * 32 products of a row take 3 instructions (2 on the multiplier) saturating or certified, 4 (2) widened.
 */
#ifdef I8_X86_64
#include "isa/vectors_avx2.h"

#define I8_DOT(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#define I8_PAIRED 1
#define I8_TUNING                                                                                                      \
    {.kc = 1024, .a_bytes = 96 << 10, .nc = 60, .thread_work = 1e6, .tiny_work = 1 << 20, .few_rows_limit = 4}
#endif
