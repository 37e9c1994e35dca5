/* The epilogue of i8_tile_output for the sums of a tile. If I8_OUTPUT_APART is 1 for the height of a tile, the tile
 * stores its sums and calls one function for all sizes. If I8_OUTPUT_APART is 0, the tile inlines the epilogue. The
 * inlined code for all kinds of results makes a tile three times as long, but makes most products faster if a
 * multiply-add is one instruction. Distances take three instructions for each vector, so every tile inlines distances,
 * unless I8_DISTANCES_APART is also 1. */
#include <math.h>

#ifndef I8_OUTPUT_APART
#define I8_OUTPUT_APART(mr) 0
#endif
#ifndef I8_DISTANCES_APART
#define I8_DISTANCES_APART(mr) I8_OUTPUT_APART(mr)
#endif

#define I8_PREFIX i8_in_line
#define I8_TIMES(i, n) I8_FOR(i, n)
#include "stage/tile_output_body.h"

#define I8_PREFIX i8_apart
#define I8_TIMES(i, n) for (int i = 0; i < (n); ++i)
#include "stage/tile_output_body.h"

I8_NOINLINE void i8_output_sums(const i8_tile_output *o, const int64_t row, const int64_t column, i8_vec *acc,
                                const int acc_row, const int mr, const int width)
{
    i8_apart_output_sums(o, row, column, acc, acc_row, mr, width);
}

I8_INLINE void i8_output_tile(const i8_tile_output *o, const int64_t row, const int64_t column, i8_vec *acc,
                              const int acc_row, const int mr, const int width)
{
    if (!I8_DISTANCES_APART(mr) && I8_OUTPUT_APART(mr) && o->epilogue->kind == I8_DISTANCES)
        i8_in_line_store_distances(o, row, column, acc, acc_row, mr, width);
    else if (I8_OUTPUT_APART(mr)) {
        i8_vec sums[I8_MR * I8_ROW_NP * I8_VECS];
        I8_FOR(i, mr) I8_FOR(j, width) sums[i * width + j] = acc[i * acc_row + j];
        i8_output_sums(o, row, column, sums, width, mr, width);
    } else
        i8_in_line_output_sums(o, row, column, acc, acc_row, mr, width);
}
