/* The products for an instruction set with vectors, except its tiles (tiles.c). */
#include "isa/set.h"

#ifdef I8_LANES
#include "gemm/in_place_body.h"

#ifndef I8_BY_PAIRS
#define I8_BY_PAIRS 0
#endif
#ifndef I8_DIFFERENCES
#define I8_DIFFERENCES I8_PAIRED
#endif

#ifndef I8_PEAK_STEP
#if I8_PAIRED
#define I8_PEAK_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#else
#define I8_PEAK_STEP(acc, a, b) I8_DOT(acc, a, b)
#endif
#endif

extern const i8_tiles I8_OF_SET(dot4_tiles);
extern const i8_scaled_tiles I8_OF_SET(scaled_tiles);
#if I8_PAIRED
extern const i8_tiles I8_OF_SET(dot2_tiles), I8_OF_SET(dot8_tiles), I8_OF_SET(dot_small_tiles);
#endif
#ifdef I8_INTERLEAVED_FLIP
extern const i8_tiles I8_OF_SET(interleaved_tiles);
#ifdef I8_INTERLEAVED_BODY
void I8_OF_SET(interleave_a)(uint8_t *a, int height, int64_t groups);
#endif
#endif

#define I8_PREFIX i8_few_rows_a_unsigned
#if I8_PAIRED || I8_MIXED
#define I8_STEP(acc, a, b) I8_DOT(acc, a, b)
#else
#define I8_STEP(acc, a, b) (acc) = i8_dot_unsigned(acc, a, b)
#define I8_SHIFT -128
#endif
#if I8_PAIRED
#define I8_STEP_16(acc, a, b) (acc) = i8_dot_16(acc, a, b)
#endif
#if I8_BY_PAIRS
#define I8_STEP_PAIR(acc, a, b) i8_pair_unsigned(acc, a, b)
#endif
#include "gemm/few_rows_body.h"

#define I8_PREFIX i8_few_rows_b_unsigned
#if I8_PAIRED || I8_MIXED
#define I8_STEP(acc, a, b) I8_DOT(acc, b, a)
#else
#define I8_STEP(acc, a, b) (acc) = i8_dot_signed(acc, a, b)
#define I8_SHIFT 128
#endif
#if I8_PAIRED
#define I8_STEP_16(acc, a, b) (acc) = i8_dot_16(acc, b, a)
#endif
#if I8_BY_PAIRS
#define I8_STEP_PAIR(acc, a, b) i8_pair_signed(acc, a, b)
#endif
#include "gemm/few_rows_body.h"

#define I8_PREFIX i8_dots_x_unsigned
#if I8_PAIRED || I8_MIXED
#define I8_STEP(acc, x, y) I8_DOT(acc, x, y)
#else
#define I8_STEP(acc, x, y) (acc) = i8_dot_signed(acc, x, y)
#define I8_SHIFT 128
#endif
#if I8_PAIRED
#define I8_STEP_16(acc, x, y) (acc) = i8_dot_16(acc, x, y)
#endif
#include "gemm/dot_body.h"

#define I8_PREFIX i8_dots_y_unsigned
#if I8_PAIRED || I8_MIXED
#define I8_STEP(acc, x, y) I8_DOT(acc, y, x)
#else
#define I8_STEP(acc, x, y) (acc) = i8_dot_unsigned(acc, x, y)
#define I8_SHIFT -128
#endif
#if I8_PAIRED
#define I8_STEP_16(acc, x, y) (acc) = i8_dot_16(acc, y, x)
#endif
#include "gemm/dot_body.h"

#include "gemm/long_k_body.h"

#include "gemm/distances_body.h"

#include "isa/shared_dots.h"

#include "gemm/small_k_body.h"

#include "gemm/stack_body.h"

#include "gemm/four_bits_body.h"

#include "gemm/limits_body.h"

#if I8_PAIRED
#include "gemm/outliers_body.h"
#endif

#if I8_LANES == 16
#define I8_ROWS(t) {t##_1, t##_2, t##_3, t##_4, t##_5, t##_6, t##_7, t##_8, t##_9, t##_10, t##_11, t##_12}
#define I8_DOTS(t) {t##_1, t##_2, t##_3, t##_4, t##_8, t##_16}
#else
#define I8_ROWS(t) {t##_1, t##_2, t##_3, t##_4}
#define I8_DOTS(t) {t##_1, t##_2, t##_3, t##_4, t##_8}
#endif

const i8_gemm_kernels I8_TABLE(gemm) = {
    .mr = I8_MR,
    .np = I8_NP,
    .row_np = I8_ROW_NP,
    .exact = I8_PAIRED ? I8_DOT2 : I8_DOT4,
    .tiles[I8_DOT4] = &I8_OF_SET(dot4_tiles),
    .tiles[I8_DOT4_SAT] = &I8_WIDTH_TABLE(saturating),
    .tile_output = 1,
#ifdef I8_INTERLEAVED_FLIP
    .tiles[I8_DOT_INTERLEAVED] = &I8_OF_SET(interleaved_tiles),
    .interleaved.flip = I8_INTERLEAVED_FLIP,
#ifdef I8_INTERLEAVED_BODY
    .interleaved.interleave = I8_OF_SET(interleave_a),
#endif
#endif
    .few_rows.mr = I8_FEW_ROWS_MR,
    .few_rows.columns = 4 * I8_LANES,
    .few_rows.of = {I8_ROWS(i8_few_rows_a_unsigned), I8_ROWS(i8_few_rows_b_unsigned)},
    .few_rows.copy_rows = i8_copy_rows,
    .few_rows.store_rows = i8_store_few_rows,
    .four_bits = i8_four_bits,
    .dots.rows = I8_DOT_ROWS,
    .dots.columns = I8_LANES,
    .dots.of = {I8_DOTS(i8_dots_x_unsigned), I8_DOTS(i8_dots_y_unsigned)},
    .dots.size = i8_dots_size,
    .dots.order = i8_order_dots,
    .long_k.rows = 4,
    .long_k.columns = I8_LONG_K_COLUMNS,
    .long_k.of = {{I8_LONG_K(uu), I8_LONG_K(us)}, {I8_LONG_K(su), I8_LONG_K(ss)}},
    .distances.rows = I8_DISTANCE_ROWS,
    .distances.of = I8_DISTANCES,
    .distances.column_squares = i8_column_squares,
    .small_k.rows = I8_SMALL_K_ROWS,
    .small_k.limit = 4 * I8_SMALL_K_GROUPS,
    .small_k.run = i8_small_k,
    .stack = i8_stack,
#if I8_PAIRED
    .tiles[I8_DOT2] = &I8_OF_SET(dot2_tiles),
    .tiles[I8_DOT8] = &I8_OF_SET(dot8_tiles),
    .tiles[I8_DOT_SMALL] = &I8_OF_SET(dot_small_tiles),
    .few_rows.halve_row = i8_halve_row,
    .few_rows.halve_centered = i8_halve_centered,
    .outliers.split_panel = i8_split_panel,
    .outliers.multiply = i8_multiply_outliers,
    .outliers.columns_of = i8_columns_of,
#endif
    .scaled_tiles = &I8_OF_SET(scaled_tiles),
    .limits = I8_LIMITS,
};
I8_TARGET_END
#endif
