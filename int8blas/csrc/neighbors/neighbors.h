/* The search for nearest rows: which sums of a row are above a threshold. */
#ifndef I8_NEIGHBORS_H
#define I8_NEIGHBORS_H

#include "core/types.h"

/* Positions j of `count` sums, in rising order, for which
 *
 *     I8_INNER          sums[j] > threshold
 *     I8_SQEUCLIDEAN    2 * sums[j] - squares[j] > threshold       modulo 2**32, and known to fit s32
 *     I8_COSINE         (float)sums[j] >= limit * lengths[j]       in f32, each operation rounded once
 *
 * go to `found`, which has room for `count` of them; how many there are is returned. What a metric has no use for is
 * not looked at. */
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

/* What a search needs of a vector width. */
typedef struct {
    i8_above_fn above[I8_METRICS];
} i8_neighbors_kernels;

#endif
