/* Sizes and types that all kernels share. */
#ifndef I8_TYPES_H
#define I8_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#define I8_PANEL 16 /* columns of B that are packed together */
#define I8_GROUP 4  /* consecutive k that are multiplied together */

/* Values for the columns. If step is 1, column j has the value at values + j. If step is 0, all columns have one value,
 * which is stored 16 times. Epilogues read I8_CHUNK values at a time, so a whole chunk after the last value is
 * readable. */
#define I8_CHUNK 16
typedef struct {
    const float *values;
    ptrdiff_t step;
} i8_column_values;

/* Element types of the quantized primitives, integers first. Only products have s64 results. */
enum { I8_TYPE_U8, I8_TYPE_S8, I8_TYPE_S32, I8_TYPE_F32, I8_TYPE_F16, I8_TYPE_BF16, I8_TYPES, I8_TYPE_S64 = I8_TYPES };

/* Return the bytes of an element. */
I8_INLINE ptrdiff_t i8_size(int type)
{
    const int halves = type == I8_TYPE_F16 || type == I8_TYPE_BF16;
    return type == I8_TYPE_U8 || type == I8_TYPE_S8 ? 1 : halves ? 2 : type == I8_TYPE_S64 ? 8 : 4;
}

/* Schemes of requantization (formulas in stage/requantize_body.h and elementwise/quantize_body.h). */
enum { I8_FLOAT, I8_DOUBLING, I8_SINGLE, I8_ONNX, I8_SCHEMES };

#endif
