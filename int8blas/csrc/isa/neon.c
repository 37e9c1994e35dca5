#include "isa/cpu.h"
#include "isa/names.h"

#ifdef I8_AARCH64
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
    .gemm = &i8_gemm_neon,
    .convolution = &i8_convolution_neon,
    .packing = &i8_packing_neon,
    .stage = &i8_stage_neon,
    .elementwise = &i8_elementwise_neon,
    .recurrent = &i8_recurrent_neon,
    .neighbors = &i8_neighbors_neon,
};
#endif
