/* Macros that compose names from parts, and the declarations of all tables. Every file with kernels includes this
 * header first. */
#ifndef I8_NAMES_H
#define I8_NAMES_H

#include "isa/kernels.h"
#include "isa/list.h"

#define I8_PASTE_(a, b) a##_##b
#define I8_PASTE(a, b) I8_PASTE_(a, b)
#define I8_STRING_(x) #x
#define I8_STRING(x) I8_STRING_(x)
#define I8_NAME(x) I8_PASTE(I8_PREFIX, x)
/* Compose a name of an instruction set, such as i8_avx2_dot4. */
#define I8_OF_SET(name) I8_PASTE(I8_PASTE(i8, I8_SET), name)
/* Compose the name of a family's table, such as i8_gemm_avx2, for an instruction set or for a vector width. */
#define I8_TABLE(family) I8_PASTE(I8_PASTE(i8, family), I8_SET)
#define I8_WIDTH_TABLE(family) I8_PASTE(I8_PASTE(i8, family), I8_WIDTH_NAME)
#define I8_VECS (I8_PANEL / I8_LANES)

/* Declare the tables of each set, and of each width. */
#define I8_DECLARE_SET(set)                                                                                            \
    extern const i8_kernels i8_kernels_##set;                                                                          \
    extern const i8_gemm_kernels i8_gemm_##set;                                                                        \
    extern const i8_wide_kernels i8_wide_##set;                                                                        \
    extern const i8_convolution_kernels i8_convolution_##set;                                                          \
    void i8_hamming_##set(const i8_hamming_args *t);
#define I8_DECLARE_WIDTH(width)                                                                                        \
    extern const i8_tiles i8_saturating_##width;                                                                       \
    extern const i8_packing_kernels i8_packing_##width;                                                                \
    extern const i8_stage_kernels i8_stage_##width;                                                                    \
    extern const i8_elementwise_kernels i8_elementwise_##width;                                                        \
    extern const i8_recurrent_kernels i8_recurrent_##width;                                                            \
    extern const i8_neighbors_kernels i8_neighbors_##width;
I8_SETS(I8_DECLARE_SET)
I8_WIDTHS(I8_DECLARE_WIDTH)
extern const i8_matrix i8_amx;

#endif
