/* AVX-512 with VNNI, in Cascade Lake and later, and in Zen 4 and later.
 *
 *   VPDPBUSD zmm    latency 5 (Intel), 4 (Zen); ports 0 and 5 (Intel servers), one a cycle (Zen 4), two (Zen 5).
 *
 * With 24 accumulators, the loop hides 24 / 2 = 12 cycles of latency at two VPDPBUSD a cycle. A group takes 24
 * VPDPBUSD, 3 loads of B and 8 broadcasts of A: 11 loads in 12 cycles (24 on Zen 4). GCC 12 spills registers around
 * _mm512_dpbusd_epi32 in a loop with 24 accumulators, so compilers with GCC's syntax get VPDPBUSD as assembly. */
#ifdef I8_X86_64
#define I8_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"
#include "isa/vectors_avx512.h"

#if defined(__GNUC__)
#define I8_DOT(acc, a, b) __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b))
#define I8_DOT_PAIRS(acc, a, b) __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b))
#define I8_KEEPS_B 1 /* GCC would load B again before every assembly instruction that needs it in a register */
#else
#define I8_DOT(acc, a, b) (acc) = _mm512_dpbusd_epi32(acc, a, b)
#define I8_DOT_PAIRS(acc, a, b) (acc) = _mm512_dpwssd_epi32(acc, a, b)
#endif
#define I8_PAIRED 0
#define I8_MIXED 1
/* Measured on one core of an AMD EPYC (Zen 4), us a product:
 *   kc              512 x 4096 x 512:  512 4874, 1024 4791, 2048 4816, 4096 4689
 *   a_bytes         512 x 4096 x 512:  48 KiB 4789, 96 KiB 4693, 256 KiB 4649, 512 KiB 4840
 *   nc              1024 x 1024 x 1024:  20 4872, 60 4711, 180 4805
 *   tiny_work       64 x 256 x 128:  2^17 10.5, 2^22 10.2
 *   few_rows_limit  48 x 1024 x 1024: in place 240, packed 256; 96 x 1024 x 1024: in place 514, packed 463
 * On Zen 5:
 *   a_bytes         512 x 4096 x 512:  96 KiB 2252, 256 KiB 2253, 512 KiB 2208
 *   few_rows_limit  12 x 1024 x 1024: in place 36, packed 45; 24 x 1024 x 1024: 72, 71; 32 x 1024 x 1024: 103, 88 */
#define I8_TUNING                                                                                                      \
    {.kc = 4096, .a_bytes = 512 << 10, .nc = 60, .thread_work = 1e6, .tiny_work = 1 << 21, .few_rows_limit = 24}
#endif
