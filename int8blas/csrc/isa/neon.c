#include "isa/cpu.h"
#include "isa/names.h"

#ifdef I8_AARCH64
#include "isa/neon.h"

/* Two products in 16 bits, which serve one SADALP. */
#define I8_HALF_STEP(acc, a, b) vpadalq_s16(acc, vmlal_high_s8(i8_low_products(I8_S8(a), I8_S8(b)), I8_S8(a), I8_S8(b)))
#define I8_STEP(acc, a, b) (acc) = I8_VEC(I8_HALF_STEP(acc.low, a.low, b.low), I8_HALF_STEP(acc.high, a.high, b.high))
#include "isa/peak_body.h"
I8_TARGET_END

static int supported(void) { return (i8_cpu_features() & I8_CPU_NEON) != 0; }

const i8_kernels i8_kernels_neon = {
    .name = "neon",
    .supported = supported,
    .a_bytes = 256 << 10,
    .kc = 1024,
    .nc = 60,
    .thread_work = 1e6,
    .tiny_work = 1 << 20,
    .few_rows_limit = 12,
    .small_k_limit = 4 * I8_SMALL_K_GROUPS,
    .gemm = &i8_gemm_neon,
    .convolution = &i8_convolution_neon,
    .packing = &i8_packing_neon,
    .stage = &i8_stage_neon,
    .elementwise = &i8_elementwise_neon,
    .recurrent = &i8_recurrent_neon,
    .neighbors = &i8_neighbors_neon,
    .limits = I8_LIMITS,
};
#endif
