/* AVX-512 without VNNI: Skylake servers and Cannon Lake.
 *
 *   VPMADDUBSW, VPMADDWD zmm   latency 5, ports 0 and 5;  VPADDD zmm   latency 1, ports 0 and 5
 *
 * With all three on two ports the saturating or certified dot does 64 products of a row in 1.5 cycles (3 instructions),
 * the widened one in 2 (4 instructions).
 */
#include "kernel_table.h"

#ifdef I8_X86_64
I8_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl")
#include "vectors_avx512.h"

#define I8_DOT(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#define I8_ISA avx512bw
#define I8_PAIRED 1
#include "isa_body.h"

static int supported(void) { return (i8_cpu_features() & I8_CPU_AVX512BW) != 0; }

const i8_kernels i8_kernels_avx512bw = {
    .name = "avx512bw",
    .supported = supported,
    .a_bytes = 96 << 10,
    .kc = 512,
    .nc = 60,
    .thread_work = 1e6,
    .tiny_work = 1 << 20,
    .rows_limit = 12,
    .thin_k = 8,
    I8_ISA_SLOTS(i8_lookup),
};
I8_TARGET_END
#endif
