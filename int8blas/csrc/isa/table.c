/* The table of an instruction set: its families of kernels and its tuning, which isa/<set>.h names. */
#include "isa/set.h"

#ifdef I8_LANES
I8_TARGET_END /* every CPU must be able to run `supported` */
#endif

#ifdef I8_TUNING
#include "isa/cpu.h"

#ifndef I8_KERNELS
#define I8_KERNELS I8_SET
#endif
#ifndef I8_MATRIX
#define I8_MATRIX NULL
#endif

#define I8_CPU_OF(set) I8_CPU(set) /* after I8_SET is replaced */
static int supported(void) { return (i8_cpu_features() & I8_CPU_OF(I8_SET)) != 0; }

const i8_kernels I8_TABLE(kernels) = {
    .name = I8_STRING(I8_SET),
    .supported = supported,
    .tuning = I8_TUNING,
    .gemm = &I8_PASTE(i8_gemm, I8_KERNELS),
    .matrix = I8_MATRIX,
    .wide = &I8_PASTE(i8_wide, I8_KERNELS),
    .hamming = I8_PASTE(i8_hamming, I8_KERNELS),
    .convolution = &I8_PASTE(i8_convolution, I8_KERNELS),
    .packing = &I8_WIDTH_TABLE(packing),
    .stage = &I8_WIDTH_TABLE(stage),
    .elementwise = &I8_WIDTH_TABLE(elementwise),
    .recurrent = &I8_WIDTH_TABLE(recurrent),
    .neighbors = &I8_WIDTH_TABLE(neighbors),
};
#endif
