/* The reciprocal of a scale, by which quantization multiplies instead of dividing (quantize_body.h has the proof).
 * If each element has its own scale, i8_elements_args.parameters[2] of quantization to bytes has the reciprocals. If
 * that pointer is the pointer to the scales, the kernel divides. */
#ifndef I8_RECIPROCAL_H
#define I8_RECIPROCAL_H

#include <math.h>

#include "core/compiler.h"

/* Return f32(1 / scale), or NaN if the kernel must divide by this scale. */
#define I8_FAR_SCALE 0x1p60f
I8_INLINE float i8_reciprocal(float scale)
{
    const float size = scale < 0 ? -scale : scale;
    return size <= I8_FAR_SCALE && size >= 1 / I8_FAR_SCALE ? 1 / scale : NAN;
}

#endif
