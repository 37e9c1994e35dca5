/* Portable C for every other CPU, and the reference. */
#include "isa/names.h"

static int supported(void) { return 1; }

const i8_kernels i8_kernels_ref = {
    .name = "ref",
    .supported = supported,
    .a_bytes = 64 << 10,
    .kc = 512,
    .nc = 32,
    .thread_work = 2e5,
    .tiny_work = 1 << 16,
    .gemm = &i8_gemm_ref,
    .convolution = &i8_convolution_ref,
    .packing = &i8_packing_ref,
    .stage = &i8_stage_ref,
    .elementwise = &i8_elementwise_ref,
    .recurrent = &i8_recurrent_ref,
    .neighbors = &i8_neighbors_ref,
};
