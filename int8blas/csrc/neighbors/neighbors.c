/* The kernels of the search for neighbors, for a vector width. */
#include "isa/width.h"

#ifdef I8_LANES
#include "neighbors/above_body.h"

const i8_neighbors_kernels I8_WIDTH_TABLE(neighbors) = {
    .above = {i8_above_inner, i8_above_sqeuclidean, i8_above_cosine, i8_above_inner},
};
I8_TARGET_END
#endif
