#include "isa/cpu.h"
#include "isa/names.h"

#ifdef I8_X86_64
static int supported(void) { return (i8_cpu_features() & I8_CPU_AVX2) != 0; }

const i8_kernels i8_kernels_avx2 = {
    .name = "avx2",
    .supported = supported,
    .a_bytes = 96 << 10,
    .kc = 1024,
    .nc = 60,
    .thread_work = 1e6,
    .tiny_work = 1 << 20,
    .few_rows_limit = 4,
    .gemm = &i8_gemm_avx2,
    .convolution = &i8_convolution_avx2,
    .packing = &i8_packing_avx2,
    .stage = &i8_stage_avx2,
    .elementwise = &i8_elementwise_avx2,
    .recurrent = &i8_recurrent_avx2,
    .neighbors = &i8_neighbors_avx2,
};
#endif
