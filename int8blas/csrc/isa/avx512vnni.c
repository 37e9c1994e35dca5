#include "isa/cpu.h"
#include "isa/names.h"

#ifdef I8_X86_64
static int supported(void) { return (i8_cpu_features() & I8_CPU_AVX512VNNI) != 0; }

#define I8_VNNI_SLOTS                                                                                                  \
    .a_bytes = 512 << 10, .kc = 4096, .nc = 60, .thread_work = 1e6, .gemm = &i8_gemm_avx512vnni,                       \
    .convolution = &i8_convolution_avx512vnni, .packing = &i8_packing_avx512, .stage = &i8_stage_avx512,               \
    .elementwise = &i8_elementwise_avx512vbmi, .recurrent = &i8_recurrent_avx512, .neighbors = &i8_neighbors_avx512

const i8_kernels i8_kernels_avx512vnni = {
    .name = "avx512vnni",
    .supported = supported,
    .tiny_work = 1 << 21,
    .few_rows_limit = 48,
    I8_VNNI_SLOTS,
};

#ifdef I8_AMX
static int amx_supported(void) { return (i8_cpu_features() & I8_CPU_AMX) != 0; }

/* The same kernels, and the matrix unit: Sapphire Rapids and later. */
const i8_kernels i8_kernels_amx = {
    .name = "amx",
    .supported = amx_supported,
    .tiny_work = 3 << 16,
    .few_rows_limit = 12,
    .matrix = &i8_amx,
    I8_VNNI_SLOTS,
};
#endif
#endif
