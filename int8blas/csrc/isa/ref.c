/* Portable C for every other CPU, and the reference. */
#include <string.h>

#include "isa/names.h"

static uint32_t i8_read(const uint8_t *p, ptrdiff_t gap, ptrdiff_t step, int64_t count)
{
    uint64_t sum[4] = {0}, word;
    for (; count > 0; --count, p += step)
        for (int j = 0; j < 4; ++j) {
            memcpy(&word, p + j * gap, sizeof word);
            sum[j] += word;
        }
    return (uint32_t)(sum[0] + sum[1] + sum[2] + sum[3]);
}

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
    .limits = {.read = i8_read, .read_bytes = sizeof(uint64_t)},
};
