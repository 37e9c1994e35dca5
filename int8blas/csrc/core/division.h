/* Division of non-negative numbers into parts. */
#ifndef I8_DIVISION_H
#define I8_DIVISION_H

#include <stdint.h>

#include "core/compiler.h"

/* a / b, rounded up. */
I8_INLINE int64_t i8_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Round x up to a multiple of `step`. */
I8_INLINE int64_t i8_round_up(int64_t x, int64_t step) { return i8_ceil_div(x, step) * step; }

/* Round x down to a multiple of `step`. The result is at least `step`. */
I8_INLINE int64_t i8_round_down(int64_t x, int64_t step)
{
    const int64_t multiple = x / step * step;
    return multiple > step ? multiple : step;
}

/* Return the size of nearly equal blocks: a multiple of `step`, and at most `most`. `most` is a multiple of `step`. */
I8_INLINE int64_t i8_even_size(int64_t total, int64_t most, int64_t step)
{
    const int64_t blocks = i8_ceil_div(total, most);
    const int64_t size = i8_round_up(i8_ceil_div(total, blocks > 1 ? blocks : 1), step);
    return size > step ? size : step;
}

/* Return the first unit of part `part` if `total` units are split evenly into `parts` parts. */
I8_INLINE int64_t i8_share(int64_t total, int64_t part, int64_t parts) { return total * part / parts; }

/* Return the first unit of a part like i8_share, but with the larger parts first. */
I8_INLINE int64_t i8_leading_share(int64_t total, int64_t part, int64_t parts)
{
    const int64_t larger = total % parts;
    return total / parts * part + (part < larger ? part : larger);
}

/* Return how many parts of i8_leading_share, from `part` on, have equal sizes. Set *first to the first unit of `part`,
 * and *size to the number of its units. */
I8_INLINE int64_t i8_equal_parts(int64_t total, int64_t part, int64_t parts, int64_t *first, int *size)
{
    const int64_t larger = total % parts;
    *first = i8_leading_share(total, part, parts);
    *size = (int)(total / parts + (part < larger));
    return (part < larger ? larger : parts) - part;
}

#endif
