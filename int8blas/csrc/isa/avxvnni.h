/* AVX-VNNI (VNNI in the 256-bit VEX form), in Alder Lake and later CPUs without AVX-512, and in Zen 5.
 *
 *   VPDPBUSD ymm    latency 5 (Intel), 4 (Zen); two a cycle.
 *
 * With 12 accumulators, the loop hides 6 cycles of latency at two VPDPBUSD a cycle. The development option
 * I8_AVXVNNI_AS_EVEX selects the EVEX encoding, for CPUs that have AVX512-VNNI and AVX512-VL but not AVX-VNNI.
 */
#ifdef I8_X86_64
#ifdef I8_AVXVNNI_AS_EVEX
#define I8_TARGET "avx2,f16c,fma,avx512f,avx512vl,avx512vnni"
#define I8_ENCODING "%{evex%} "
#else
#define I8_TARGET "avx2,f16c,fma,avxvnni"
#define I8_ENCODING "%{vex%} "
#endif
#include "isa/vectors_avx2.h"

#if defined(__GNUC__)
#define I8_DOT(acc, a, b) __asm__(I8_ENCODING "vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b))
#define I8_DOT_PAIRS(acc, a, b) __asm__(I8_ENCODING "vpdpwssd %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b))
#else
#define I8_DOT(acc, a, b) (acc) = _mm256_dpbusd_avx_epi32(acc, a, b)
#define I8_DOT_PAIRS(acc, a, b) (acc) = _mm256_dpwssd_avx_epi32(acc, a, b)
#endif
#define I8_PAIRED 0
#define I8_MIXED 1
/* Measured on one core of an AMD EPYC (Zen 5), us a product:
 *   kc              512 x 4096 x 512:  512 4679, 1024 4606, 2048 4568, 4096 4449
 *   a_bytes         512 x 4096 x 512:  48 KiB 4588, 96 KiB 4517, 256 KiB 4530, 512 KiB 4608
 *   nc              1024 x 1024 x 1024:  20 4310, 60 4346, 180 4235;  512 x 2048 x 2048:  20 9233, 60 9446, 180 9626
 *   tiny_work       64 x 128 x 128:  2^17 4.89, 2^20 4.44, 2^22 4.44
 *   few_rows_limit  2 x 1024 x 1024: in place 30, packed 35; 4 x 1024 x 1024: 50, 42; 8 x 1024 x 1024: 90, 58 */
#define I8_TUNING                                                                                                      \
    {.kc = 1024, .a_bytes = 256 << 10, .nc = 60, .thread_work = 3e6, .tiny_work = 1 << 20, .few_rows_limit = 4}
#endif
