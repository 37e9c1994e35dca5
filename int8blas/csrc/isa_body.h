/* All kernels of an instruction set with vectors, and their places in its table. A kernel_<isa>.c includes this once,
 * after vectors_<width>.h and after defining
 *
 *   I8_ISA             its name
 *   I8_PAIRED          1 if bytes are widened and multiplied as pairs of s16, without VNNI; else 0
 *   I8_DOT(acc, a, b)  acc += the exact dot of 4 u8 and 4 s8 in every s32 lane
 */
#define I8_OF_ISA(name) I8_PASTE(I8_PASTE(i8, I8_ISA), name)

/* Without VNNI, bytes that are split into two halves are multiplied exactly by VPMADDUBSW: so many of its sums, of two
 * products of 4 and 8 bits each, fit s16. */
#define I8_HALVES_STEPS 8

#include "tile_output.h"

#define I8_PREFIX I8_OF_ISA(dot4)
#define I8_STEP(acc, a, b) I8_DOT(acc, a, b)
#define I8_WIDENS I8_PAIRED
#include "gemm_body.h"

#define I8_PREFIX I8_OF_ISA(dot4_sat)
#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#include "gemm_body.h"

#if I8_PAIRED
#define I8_PREFIX I8_OF_ISA(dot2)
#define I8_STEP(acc, a, b) (acc) = i8_dot2(acc, a, b)
#include "gemm_body.h"

#define I8_PREFIX I8_OF_ISA(dot8)
#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#define I8_STEP_2(acc, a, b, c, d) (acc) = i8_dot8(acc, a, b, c, d)
#include "gemm_body.h"
#endif

#define I8_PREFIX I8_OF_ISA(rows_a_unsigned)
#define I8_STEP(acc, a, b) I8_DOT(acc, a, b)
#if I8_PAIRED
#define I8_STEP_16(acc, a, b) (acc) = i8_dot_16(acc, a, b)
#endif
#include "rows_body.h"

#define I8_PREFIX I8_OF_ISA(rows_b_unsigned)
#define I8_STEP(acc, a, b) I8_DOT(acc, b, a)
#if I8_PAIRED
#define I8_STEP_16(acc, a, b) (acc) = i8_dot_16(acc, b, a)
#endif
#include "rows_body.h"

#define I8_PREFIX I8_OF_ISA(dots_x_unsigned)
#define I8_STEP(acc, x, y) I8_DOT(acc, x, y)
#if I8_PAIRED
#define I8_STEP_16(acc, x, y) (acc) = i8_dot_16(acc, x, y)
#endif
#include "dot_body.h"

#define I8_PREFIX I8_OF_ISA(dots_y_unsigned)
#define I8_STEP(acc, x, y) I8_DOT(acc, y, x)
#if I8_PAIRED
#define I8_STEP_16(acc, x, y) (acc) = i8_dot_16(acc, y, x)
#endif
#include "dot_body.h"

#include "requantize_body.h"
#include "epilogue_body.h"
#include "pack_body.h"
#include "quantize_body.h"
#include "pool_body.h"
#include "chain_body.h"
#include "normalize_body.h"
#include "cell_body.h"
#include "scale_groups_body.h"

#define I8_STEP(acc, a, b) I8_DOT(acc, a, b)
#include "thin_body.h"

#if I8_PAIRED
#include "outliers_body.h"
#include "depthwise_pairs_body.h"
#define I8_STEP(acc, a, b) (acc) = i8_dot2(acc, a, b)
#include "grouped_body.h"
#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#include "peak_body.h"
#define I8_PAIRED_TILES [I8_DOT2] = I8_TILES(I8_OF_ISA(dot2)), [I8_DOT8] = I8_TILES(I8_OF_ISA(dot8)),
#define I8_PAIRED_SLOTS .widen_grouped = i8_widen_grouped, \
    .halve_row = i8_halve_row, .halve_centered = i8_halve_centered, I8_OUTLIER_SLOTS,
#else
#define I8_STEP(acc, a, b) I8_DOT(acc, a, b)
#include "depthwise_body.h"
#define I8_STEP(acc, a, b) I8_DOT(acc, a, b)
#include "grouped_body.h"
#define I8_STEP(acc, a, b) I8_DOT(acc, a, b)
#include "peak_body.h"
#define I8_PAIRED_TILES
#define I8_PAIRED_SLOTS
#endif

/* Through one more macro, so that the names are put together first. */
#if I8_LANES == 16
#define I8_TILES(t) I8_TILES_8X3(t)
#define I8_ROWS(t) I8_ROWS_12(t)
#define I8_DOTS(t) I8_DOT_TABLE_16(t)
#else
#define I8_TILES(t) I8_TILES_6X1(t)
#define I8_ROWS(t) I8_ROWS_4(t)
#define I8_DOTS(t) I8_DOT_TABLE_8(t)
#endif

/* Everything but the name, `supported`, and sizes and limits that are measured. */
#define I8_ISA_SLOTS(table_lookup)                                                                                     \
    .mr = I8_MR, .np = I8_NP, .row_np = I8_ROW_NP, .exact = I8_PAIRED ? I8_DOT2 : I8_DOT4,                             \
    .tile = {I8_PAIRED_TILES [I8_DOT4] = I8_TILES(I8_OF_ISA(dot4)),                                                    \
             [I8_DOT4_SAT] = I8_TILES(I8_OF_ISA(dot4_sat))},                                                           \
    .tile_output = 1, .rows_mr = I8_ROWS_MR, .rows_columns = 4 * I8_LANES,                                             \
    .rows = {I8_ROWS(I8_OF_ISA(rows_a_unsigned)), I8_ROWS(I8_OF_ISA(rows_b_unsigned))}, .copy_rows = i8_copy_rows,     \
    .finish_rows = i8_finish_rows, .dots_rows = I8_DOT_ROWS, .dots_columns = I8_LANES,                                 \
    .dots = {I8_DOTS(I8_OF_ISA(dots_x_unsigned)), I8_DOTS(I8_OF_ISA(dots_y_unsigned))}, .dots_size = i8_dots_size,     \
    .order_dots = i8_order_dots, .thin_rows = I8_THIN_ROWS, .thin = i8_thin,                                           \
    .depthwise_channels = I8_DEPTHWISE_CHANNELS, .depthwise_lines = I8_DEPTHWISE_LINES, .depthwise = i8_depthwise,     \
    .depthwise_strided = I8_DEPTHWISE_STRIDED,                                                                         \
    .grouped_pixels = I8_GROUPED_PIXELS, .grouped_channels = I8_GROUPED_CHANNELS, .grouped = i8_grouped,               \
    I8_PAIRED_SLOTS I8_SCALED_SLOTS I8_COMMON_SLOTS, I8_ELEMENT_SLOTS, I8_POOL_SLOTS, I8_CHAIN_SLOTS(table_lookup),    \
    I8_BYTES_SLOTS, I8_NORMALIZE_SLOTS, I8_CELL_SLOTS, I8_PEAK_SLOTS
