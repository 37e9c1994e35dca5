/* The kernels of the search for nearest rows. One kernel finds sums above a threshold, another computes distances of
 * packed bits. */
#ifndef I8_NEIGHBORS_H
#define I8_NEIGHBORS_H

#include "core/types.h"

/* Find the positions j of `count` sums, in rising order, for which
 *
 *     I8_INNER          sums[j] > threshold
 *     I8_HAMMING        sums[j] > threshold
 *     I8_SQEUCLIDEAN    2 * sums[j] - squares[j] > threshold       modulo 2**32; the value fits s32
 *     I8_COSINE         (float)sums[j] >= limit * lengths[j]       in f32, each operation rounded once
 *
 * and return their number. The key of j is the left side of the metric's comparison. For each position j that meets the
 * comparison, the kernel stores an item (INT32_MAX - key) << 32 | (first + j) in `found`. For I8_COSINE the upper half
 * of an item is 0. A smaller item is better. `found` has room for `count` items. If `single` is 1, the kernel may leave
 * out a j with a key that is not above all earlier keys. I8_COSINE ignores `single`. The kernel ignores members that a
 * metric does not use. */
enum { I8_INNER, I8_SQEUCLIDEAN, I8_COSINE, I8_HAMMING, I8_METRICS };
typedef struct {
    int64_t count, first;
    const int32_t *sums, *squares;
    const float *lengths;
    int32_t threshold;
    float limit;
    int single;
    uint64_t *found;
} i8_above_args;

typedef int64_t (*i8_above_fn)(const i8_above_args *);

/* Hamming distances of rows x and columns of packed panels (I8_PANEL columns, groups of I8_GROUP bytes):
 *
 *     dst[i * dst_row + j] = flip ^ (the number of bits in which row i and column j differ)
 *
 * for `rows` rows and `columns` columns. A row x has I8_GROUP * groups bytes. The sign flip and the padding of the row
 * are equal to the sign flip and the padding of the panels. Distances fit s32. The kernel reads whole panels and stores
 * no more than `columns` columns. `flip` is 0, or -1 to store ~distance, which is larger for a smaller distance. */
typedef struct {
    int64_t rows, columns, groups;
    const uint8_t *x;
    ptrdiff_t x_row;
    const int8_t *panels;
    int32_t *dst;
    ptrdiff_t dst_row; /* in elements */
    int32_t flip;
} i8_hamming_args;

typedef void (*i8_hamming_fn)(const i8_hamming_args *);

/* The kernels of a search for a vector width. */
typedef struct {
    i8_above_fn above[I8_METRICS];
} i8_neighbors_kernels;

#endif
