/* Names that are made of parts, and the targets of the vector widths. Every file with kernels includes it first. */
#ifndef I8_NAMES_H
#define I8_NAMES_H

#include "core/compiler.h"
#include "isa/kernels.h"

#define I8_PASTE_(a, b) a##_##b
#define I8_PASTE(a, b) I8_PASTE_(a, b)
#define I8_NAME(x) I8_PASTE(I8_PREFIX, x)
/* A name of an instruction set, such as i8_avx2_dot4. */
#define I8_OF_ISA(name) I8_PASTE(I8_PASTE(i8, I8_ISA), name)
/* The table of a family, such as i8_gemm_avx2. */
#define I8_TABLE(family) I8_PASTE(I8_PASTE(i8, family), I8_ISA)
#define I8_WIDTH_TABLE(family) I8_PASTE(I8_PASTE(i8, family), I8_WIDTH_NAME)
#define I8_VECS (I8_PANEL / I8_LANES)

/* The tables of the families, each in the file of that name: of the instruction sets, and of the vector widths. */
extern const i8_gemm_kernels i8_gemm_ref, i8_gemm_avx2, i8_gemm_avxvnni, i8_gemm_avx512bw, i8_gemm_avx512vnni,
    i8_gemm_neon, i8_gemm_dotprod, i8_gemm_i8mm;
extern const i8_convolution_kernels i8_convolution_ref, i8_convolution_avx2, i8_convolution_avxvnni,
    i8_convolution_avx512bw, i8_convolution_avx512vnni, i8_convolution_neon, i8_convolution_dotprod,
    i8_convolution_i8mm;
extern const i8_matrix i8_amx;
extern const i8_tiles i8_saturating_avx2, i8_saturating_avx512, i8_saturating_neon;
extern const i8_packing_kernels i8_packing_ref, i8_packing_avx2, i8_packing_avx512, i8_packing_neon;
extern const i8_stage_kernels i8_stage_ref, i8_stage_avx2, i8_stage_avx512, i8_stage_neon;
extern const i8_elementwise_kernels i8_elementwise_ref, i8_elementwise_avx2, i8_elementwise_avx512,
    i8_elementwise_avx512vbmi, i8_elementwise_neon;
extern const i8_neighbors_kernels i8_neighbors_ref, i8_neighbors_avx2, i8_neighbors_avx512, i8_neighbors_neon;
extern const i8_recurrent_kernels i8_recurrent_ref, i8_recurrent_avx2, i8_recurrent_avx512, i8_recurrent_neon;

#define I8_AVX2 "avx2,f16c,fma"
#define I8_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"
#ifdef __clang__
#define I8_NEON "neon"
#define I8_DOTPROD "neon,dotprod"
#define I8_I8MM "neon,dotprod,i8mm"
#else
#define I8_NEON "+simd"
#define I8_DOTPROD "arch=armv8.2-a+dotprod"
#define I8_I8MM "arch=armv8.2-a+dotprod+i8mm"
#endif

#endif
