/* AVX-512 without VNNI, in CPUs such as Skylake servers and Cannon Lake.
 *
 *   VPMADDUBSW, VPMADDWD zmm   latency 5, ports 0 and 5.
 *   VPADDD zmm                 latency 1, ports 0 and 5.
 *
 * VPMADDUBSW, VPMADDWD and VPADDD share ports. 64 products of a row take 1.5 cycles (3 instructions) if sums may
 * saturate or have a no-saturation proof, and 2 cycles (4 instructions) if bytes are widened first.
 */
#ifdef I8_X86_64
#define I8_SMALL_K_GROUPS 2 /* for 3 groups of k or more, tiles are faster */
#include "isa/vectors_avx512.h"

#define I8_DOT(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#define I8_PAIRED 1
/* Measured on one core of an AMD EPYC (Zen 4), exact, us a product:
 *   tiny_work       128 x 128 x 128:  2^20 25.0, 2^21 26.5
 *   few_rows_limit  12 x 1024 x 1024: in place 181, packed 185; 24 x 1024 x 1024: in place 363, packed 338
 * On Zen 5:
 *   kc              512 x 4096 x 512:  256 5596, 512 5539, 1024 5635, 2048 5909
 *   a_bytes         512 x 4096 x 512:  48 KiB 5663, 96 KiB 5558, 256 KiB 5513, 512 KiB 5345
 *   nc              1024 x 1024 x 1024:  20 5305, 60 5393, 180 5303
 *   few_rows_limit  12 x 1024 x 1024: in place 86, packed 97; 16 x 1024 x 1024: in place 117, packed 114 */
#define I8_TUNING                                                                                                      \
    {.kc = 512, .a_bytes = 96 << 10, .nc = 60, .thread_work = 1e6, .tiny_work = 1 << 20, .few_rows_limit = 12}
#endif
