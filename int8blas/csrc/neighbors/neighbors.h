/* The search for nearest rows: find sums above a threshold. */
#ifndef I8_NEIGHBORS_H
#define I8_NEIGHBORS_H

#include "core/types.h"

/* Store in `found` the positions j of `count` sums, in rising order, for which
 *
 *     I8_INNER          sums[j] > threshold
 *     I8_SQEUCLIDEAN    2 * sums[j] - squares[j] > threshold       modulo 2**32; the value fits s32
 *     I8_COSINE         (float)sums[j] >= limit * lengths[j]       in f32, each operation rounded once
 *
 * and return their number. `found` has room for `count` positions. Members that a metric does not use are ignored. */
enum { I8_INNER, I8_SQEUCLIDEAN, I8_COSINE, I8_METRICS };
typedef struct {
    int64_t count;
    const int32_t *sums, *squares;
    const float *lengths;
    int32_t threshold;
    float limit;
    int32_t *found;
} i8_above_args;

typedef int64_t (*i8_above_fn)(const i8_above_args *);

/* The kernels of a search for a vector width. */
typedef struct {
    i8_above_fn above[I8_METRICS];
} i8_neighbors_kernels;

#endif
