/* The instruction sets that the compiler's target has, best first, and their vector widths. isa/<set>.h and
 * isa/vectors_<width>.h describe the sets and widths. setup.py reads the names from this file. setup.py compiles each
 * file that includes isa/set.h for each set, and each file that includes isa/width.h for each width. */
#ifndef I8_LIST_H
#define I8_LIST_H

#include "core/compiler.h"

#ifdef I8_AMX
#define I8_MATRIX_SETS(SET) SET(amx)
#else
#define I8_MATRIX_SETS(SET)
#endif

#if defined(I8_X86_64)
#define I8_SETS(SET) I8_MATRIX_SETS(SET) SET(avx512vnni) SET(avxvnni) SET(avx512bw) SET(avx2) SET(ref)
#define I8_WIDTHS(WIDTH) WIDTH(avx512) WIDTH(avx2) WIDTH(ref)
#elif defined(I8_AARCH64)
#define I8_SETS(SET) SET(i8mm) SET(dotprod) SET(neon) SET(ref)
#define I8_WIDTHS(WIDTH) WIDTH(neon) WIDTH(ref)
#else
#define I8_SETS(SET) SET(ref)
#define I8_WIDTHS(WIDTH) WIDTH(ref)
#endif

#endif
