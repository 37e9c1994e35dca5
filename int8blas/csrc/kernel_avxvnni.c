/* AVX-VNNI, the 256-bit VEX form: Alder Lake and later without AVX-512; also Zen 5.
 *
 *   VPDPBUSD ymm    latency 5 (Intel), 4 (Zen); two a cycle
 *
 * 12 accumulators cover 6 cycles of latency at two a cycle. With I8_AVXVNNI_AS_EVEX, a development option, the same
 * code is assembled with the EVEX encoding and runs on CPUs that have AVX512-VNNI and AVX512-VL but not AVX-VNNI.
 */
#include "kernel_table.h"

#ifdef I8_X86_64
#ifdef I8_AVXVNNI_AS_EVEX
I8_TARGET_BEGIN("avx2,f16c,avx512f,avx512vl,avx512vnni")
#define I8_ENCODING "%{evex%} "
#define I8_NEEDS I8_CPU_AVX512VNNI
#else
I8_TARGET_BEGIN("avx2,f16c,avxvnni")
#define I8_ENCODING "%{vex%} "
#define I8_NEEDS I8_CPU_AVXVNNI
#endif
#include "vectors_avx2.h"

#if defined(__GNUC__)
#define I8_DOT(acc, a, b) __asm__(I8_ENCODING "vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b))
#else
#define I8_DOT(acc, a, b) (acc) = _mm256_dpbusd_avx_epi32(acc, a, b)
#endif
#define I8_ISA avxvnni
#define I8_PAIRED 0
#include "isa_body.h"

static int supported(void) { return (i8_cpu_features() & I8_NEEDS) != 0; }

const i8_kernels i8_kernels_avxvnni = {
    .name = "avxvnni",
    .supported = supported,
    .a_bytes = 256 << 10,
    .kc = 1024,
    .nc = 60,
    .thread_work = 3e6,
    .tiny_work = 1 << 20,
    .rows_limit = 48,
    .thin_k = 4 * I8_THIN_GROUPS,
    I8_ISA_SLOTS(i8_lookup),
};
I8_TARGET_END
#endif
