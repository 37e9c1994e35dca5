/* AVX2, and F16C, which every CPU with AVX2 has: Haswell and later, Zen and later.
 *
 *   VPMADDUBSW, VPMADDWD ymm   latency 5 (Intel), 3 (Zen); two a cycle
 *   VPADDD ymm                 latency 1; three a cycle (Intel, ports shared with the multiplier), four (Zen)
 *
 * 32 products of a row take 3 instructions (2 on the multiplier) saturating or certified, 4 (2) widened.
 */
#include "kernel_table.h"

#ifdef I8_X86_64
I8_TARGET_BEGIN("avx2,f16c")
#include "vectors_avx2.h"

#define I8_DOT(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#define I8_ISA avx2
#define I8_PAIRED 1
#include "isa_body.h"

static int supported(void) { return (i8_cpu_features() & I8_CPU_AVX2) != 0; }

const i8_kernels i8_kernels_avx2 = {
    .name = "avx2",
    .supported = supported,
    .a_bytes = 96 << 10,
    .kc = 1024,
    .nc = 60,
    .thread_work = 1e6,
    .tiny_work = 1 << 20,
    .rows_limit = 4,
    .thin_k = 4 * I8_THIN_GROUPS,
    I8_ISA_SLOTS(i8_lookup),
};
I8_TARGET_END
#endif
