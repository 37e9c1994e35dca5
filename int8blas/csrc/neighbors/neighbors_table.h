/* The table of the search of a vector width. */
#include "neighbors/above_body.h"

const i8_neighbors_kernels I8_WIDTH_TABLE(neighbors) = {
    .above = {i8_above_inner, i8_above_sqeuclidean, i8_above_cosine},
};
