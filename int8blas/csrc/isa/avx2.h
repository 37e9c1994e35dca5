/* AVX2 with F16C and FMA, which every CPU with AVX2 has. Haswell, Zen and later CPUs have AVX2.
 *
 *   VPMADDUBSW, VPMADDWD ymm   latency 5 (Intel), 3 (Zen); two a cycle.
 *   VPADDD ymm                 latency 1; three a cycle (Intel, ports shared with the multiplier), four (Zen).
 *
 * A row takes 3 instructions for 32 products if sums may saturate or have a no-saturation proof, and 4 instructions if
 * bytes are widened first. 2 of these instructions use the multiplier.
 */
#ifdef I8_X86_64
#include "isa/vectors_avx2.h"

#define I8_DOT(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#define I8_PAIRED 1
/* Measured on one core of an AMD EPYC (Zen 4), exact, us a product:
 *   kc              512 x 4096 x 512:  512 12072, 1024 12283, 2048 12795, 4096 13112
 *   a_bytes         512 x 4096 x 512:  48 KiB 12557, 96 KiB 12299, 256 KiB 12066; 96 KiB leaves room for B in the L2
 *                   cache of 256 KiB that many CPUs with AVX2 have
 *   nc              1024 x 1024 x 1024:  20 12356, 60 12277, 180 12300
 *   tiny_work       128 x 128 x 128:  2^20 26.1, 2^21 28.6
 *   few_rows_limit  4 x 1024 x 1024: in place 84, packed 98; 12 x 1024 x 1024: in place 251, packed 198 */
#define I8_TUNING                                                                                                      \
    {.kc = 1024, .a_bytes = 96 << 10, .nc = 60, .thread_work = 1e6, .tiny_work = 1 << 20, .few_rows_limit = 4}
#endif
