/* Packing for a vector width. */
#include "isa/width.h"

#ifdef I8_LANES
#include "stage/transpose_store_body.h"

#include "gemm/im2col_body.h"
#include "gemm/pack_body.h"
#include "gemm/squares_body.h"
#include "gemm/values_body.h"

const i8_packing_kernels I8_WIDTH_TABLE(packing) = {
    .pack_panel = i8_pack_panel,
    .pack_tiles = i8_pack_tiles,
    .pack_panels = i8_pack_panels,
    .unpack_panels = i8_unpack_panels,
    .unpack_four_bits = i8_unpack_four_bits,
    .row_sums = i8_row_sums,
    .panel_sums = i8_panel_sums,
    .scale_sums = i8_scale_sums,
    .row_squares = i8_row_squares,
    .panel_squares = i8_panel_squares,
    .value_range = i8_value_range,
    .rebase = i8_rebase,
    .panel_pair_sum = i8_panel_pair_sum,
#ifdef I8_UNITS
    .widen_a = i8_widen_a,
    .widen_b = i8_widen_b,
#endif
    .im2col = i8_im2col,
    .image_lines = i8_image_lines,
};
I8_TARGET_END
#endif
