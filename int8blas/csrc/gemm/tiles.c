/* The tiles of an instruction set with vectors. isa/<set>.h defines
 *
 *   I8_PAIRED          1 if bytes are widened and multiplied as pairs of s16, without VNNI; else 0
 *   I8_DOT(acc, a, b)  acc += the exact dot of 4 u8 and 4 s8 in every s32 lane
 *   I8_DOT_PAIRS(acc, a, b)  optional: acc += the dot of 2 s16 and 2 s16, wrapping (gemm/wide.c); default i8_dot2
 *   I8_MIXED           without I8_PAIRED: 1 if an instruction multiplies u8 by s8, 0 if only operands of one sign
 *   I8_DOT_BY_DWORD    optional: like I8_DOT, for a dword of A: 4 u8, or 4 u8 minus 128 without I8_MIXED
 *   I8_DOT_APART       optional, with I8_DOT_BY_DWORD: like I8_DOT, for a unit of B, 4 columns of two lanes each
 *   I8_INTERLEAVED_FLIP  optional, for tiles of I8_DOT_INTERLEAVED: the byte that A' is XORed with
 *   I8_INTERLEAVED_BODY  optional: the file with add_products and interleave_a of these tiles; default I8_DOT_BY_DWORD
 *   I8_DIFFERENCES     optional: 1 if differences are squared as s16; default I8_PAIRED
 *   I8_ALIKE           optional: 1 if there are i8_dot_signed and i8_dot_unsigned
 *   I8_PEAK_STEP(acc, a, b)  optional: the fastest multiply-add, if it is neither I8_DOT nor i8_dot4_sat
 *   I8_BY_PAIRS        optional: 1 if few rows of A multiply pairs of rows of B, by i8_pair_signed and _unsigned
 *   I8_TUNING          the initializer of an i8_tuning (isa/tuning.h)
 */
#include "isa/set.h"

#ifdef I8_LANES
#include "gemm/tile_sizes.h"
/* Return whether tiles of mr rows call a function for distances. Products of a short K use tiles of half the height,
 * which inline the code for distances. */
#define I8_DISTANCES_APART(mr) ((mr) > I8_MR / 2 && (mr) < I8_MR - 1)
#define I8_OUTPUT_APART(mr) (I8_PAIRED || ((mr) != 1 && (mr) != I8_MR / 2 && (mr) < I8_MR - 1))
#include "stage/tile_output.h"

#define I8_PREFIX I8_OF_SET(dot4)
#ifdef I8_DOT_BY_DWORD
#define I8_A i8_dword
#define I8_LOAD_A(p) (I8_MIXED ? i8_load_dword(p) : i8_load_flipped_dword(p))
#define I8_STEP(acc, a, b) I8_DOT_BY_DWORD(acc, a, b)
#define I8_SHIFTS_A !I8_MIXED
#else
#define I8_STEP(acc, a, b) I8_DOT(acc, a, b)
#endif
#ifdef I8_DOT_APART
#define I8_STEP_APART(acc, a, b) I8_DOT_APART(acc, a, b)
#endif
#define I8_WIDENS I8_PAIRED
#define I8_ADDED I8_PAIRED
#include "gemm/tile_body.h"
const i8_tiles I8_OF_SET(dot4_tiles) = I8_TILES(I8_OF_SET(dot4));

#if I8_PAIRED
#define I8_PREFIX I8_OF_SET(dot2)
#define I8_STEP(acc, a, b) (acc) = i8_dot2(acc, a, b)
#define I8_ADDED 1
#include "gemm/tile_body.h"
const i8_tiles I8_OF_SET(dot2_tiles) = I8_TILES(I8_OF_SET(dot2));

#define I8_PREFIX I8_OF_SET(dot8)
#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#define I8_STEP_2(acc, a, b, c, d) (acc) = i8_dot8(acc, a, b, c, d)
#include "gemm/tile_body.h"
const i8_tiles I8_OF_SET(dot8_tiles) = I8_TILES(I8_OF_SET(dot8));

#define I8_PREFIX I8_OF_SET(dot_small)
#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#define I8_STEP_SMALL(acc, a, b) (acc) = i8_dot_16(acc, a, b)
#include "gemm/tile_body.h"
const i8_tiles I8_OF_SET(dot_small_tiles) = I8_FULL_TILES(I8_OF_SET(dot_small), I8_OF_SET(dot8));
#endif

#ifdef I8_INTERLEAVED_FLIP
#define I8_PREFIX I8_OF_SET(interleaved)
#ifdef I8_INTERLEAVED_BODY
#include I8_INTERLEAVED_BODY
#else
#define I8_A i8_dword
#define I8_LOAD_A(p) i8_load_dword(p)
#define I8_STEP(acc, a, b) I8_DOT_BY_DWORD(acc, a, b)
#define I8_SHIFTS_A 1
#endif
#define I8_INTERLEAVED 1
#include "gemm/tile_body.h"
const i8_tiles I8_OF_SET(interleaved_tiles) = I8_INTERLEAVED_TILES(I8_OF_SET(interleaved));
#endif

#include "isa/shared_dots.h"

#include "gemm/scale_groups_body.h"
const i8_scaled_tiles I8_OF_SET(scaled_tiles) = {.mr = I8_SCALED_MR, .of = I8_SCALED_TILES};
I8_TARGET_END
#endif
