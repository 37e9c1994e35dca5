/* Tiles whose sums of two products saturate to s16, for a vector width. All instruction sets of a width use VPMADDUBSW.
 */
#include "isa/width.h"

#if defined(I8_LANES) && I8_LANES > 1
#include "gemm/tile_sizes.h"
#define I8_OUTPUT_APART(mr) 1
#include "stage/tile_output.h"

#define I8_PREFIX i8_dot4_sat
#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#define I8_ADDED 1
#include "gemm/tile_body.h"

const i8_tiles I8_WIDTH_TABLE(saturating) = I8_TILES(i8_dot4_sat);
I8_TARGET_END
#endif
