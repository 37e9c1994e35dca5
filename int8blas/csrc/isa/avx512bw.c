#include "isa/cpu.h"
#include "isa/names.h"

#ifdef I8_X86_64
static int supported(void) { return (i8_cpu_features() & I8_CPU_AVX512BW) != 0; }

const i8_kernels i8_kernels_avx512bw = {
    .name = "avx512bw",
    .supported = supported,
    .a_bytes = 96 << 10,
    .kc = 512,
    .nc = 60,
    .thread_work = 1e6,
    .tiny_work = 1 << 20,
    .few_rows_limit = 12,
    .gemm = &i8_gemm_avx512bw,
    .convolution = &i8_convolution_avx512bw,
    .packing = &i8_packing_avx512,
    .stage = &i8_stage_avx512,
    .elementwise = &i8_elementwise_avx512,
    .recurrent = &i8_recurrent_avx512,
    .neighbors = &i8_neighbors_avx512,
};
#endif
