/* A call of the depthwise kernels for few channels: i8_depthwise_args whose `padding` is NULL. A line of the image is
 * one row of bytes, without gaps and with its padding. A line of sums has no gaps. Vectors have neighbouring pixels as
 * well as channels, so vectors are full for any number of channels.
 *
 * The columns of a line are in `stride` runs, `end` bytes apart: run r has columns r, r + stride, ... Bytes are u8. The
 * sums of output line h begin at dst + h * i8_depthwise_flat_row(t). `output` is NULL. Kernels read whole vectors of a
 * line and write whole vectors of sums. Kernels ignore `flip`, `first`, `column_step` and `c_line`.
 *
 * `interleaved` has 4 * I8_MAX_DEPTHWISE bytes for each I8_MAX_DEPTHWISE bytes of a line and each group of
 * depthwise_lines lines. `prepared` has i8_depthwise_flat_prepared() bytes. */
#ifndef I8_DEPTHWISE_FLAT_ARGS_H
#define I8_DEPTHWISE_FLAT_ARGS_H

#include "convolution/convolution.h"

/* The number of taps of the widest window that depthwise.pyx takes. */
enum { I8_MAX_TAPS = 257 };

/* Return the offset of a column in a line, in bytes. */
static inline ptrdiff_t i8_depthwise_flat_place(const i8_depthwise_args *t, int column)
{
    return column % t->stride * (ptrdiff_t)t->end + column / t->stride * (ptrdiff_t)t->channels;
}

/* Return the distance from one output line to the next, in sums. */
static inline ptrdiff_t i8_depthwise_flat_row(const i8_depthwise_args *t)
{
    return (t->pixels * t->channels + I8_MAX_DEPTHWISE - 1) / I8_MAX_DEPTHWISE * I8_MAX_DEPTHWISE;
}

/* Return the size of `prepared` in bytes: the start values, and the weights of each tap and group of two lines. The
 * start values and each set of weights fill `period` vectors (see depthwise_flat.h) and 4 more vectors. `lines` is a
 * multiple of 4. */
static inline int64_t i8_depthwise_flat_prepared(int64_t channels, int64_t together, int64_t taps, int64_t lines)
{
    const int64_t shared = channels & -channels, repeats = shared < 16 ? 16 / shared : 1;
    return (1 + together * taps * lines / 2) * (repeats * channels + I8_MAX_DEPTHWISE) * (int64_t)sizeof(int32_t);
}

#endif
