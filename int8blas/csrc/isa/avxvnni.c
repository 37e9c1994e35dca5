#include "isa/cpu.h"
#include "isa/names.h"

#ifdef I8_X86_64
#ifdef I8_AVXVNNI_AS_EVEX
enum { NEEDED = I8_CPU_AVX512VNNI };
#else
enum { NEEDED = I8_CPU_AVXVNNI };
#endif

static int supported(void) { return (i8_cpu_features() & NEEDED) != 0; }

const i8_kernels i8_kernels_avxvnni = {
    .name = "avxvnni",
    .supported = supported,
    .a_bytes = 256 << 10,
    .kc = 1024,
    .nc = 60,
    .thread_work = 3e6,
    .tiny_work = 1 << 20,
    .few_rows_limit = 48,
    .gemm = &i8_gemm_avxvnni,
    .convolution = &i8_convolution_avxvnni,
    .packing = &i8_packing_avx2,
    .stage = &i8_stage_avx2,
    .elementwise = &i8_elementwise_avx2,
    .recurrent = &i8_recurrent_avx2,
    .neighbors = &i8_neighbors_avx2,
};
#endif
