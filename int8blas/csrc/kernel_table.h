/* Shared by the kernel files: names of tiles, and their place in a table. Every file that defines a table includes it
 * first. */
#ifndef I8_KERNEL_TABLE_H
#define I8_KERNEL_TABLE_H

#include "i8_compiler.h"
#include "i8_types.h"

#define I8_PASTE_(a, b) a##_##b
#define I8_PASTE(a, b) I8_PASTE_(a, b)
#define I8_NAME(x) I8_PASTE(I8_PREFIX, x)
#define I8_VECS (I8_PANEL / I8_LANES)

#define I8_ROW_OF_3(t, mr) {t##_##mr##x1, t##_##mr##x2, t##_##mr##x3}
#define I8_TILES_8X3(t)                                                                                                \
    {                                                                                                                  \
        I8_ROW_OF_3(t, 1), I8_ROW_OF_3(t, 2), I8_ROW_OF_3(t, 3), I8_ROW_OF_3(t, 4), I8_ROW_OF_3(t, 5),                 \
            I8_ROW_OF_3(t, 6), I8_ROW_OF_3(t, 7), I8_ROW_OF_3(t, 8)                                                    \
    }
#define I8_TILES_6X1(t) {I8_ROW_OF_3(t, 1), {t##_2x1}, {t##_3x1}, {t##_4x1}, {t##_5x1}, {t##_6x1}}
#define I8_TILES_4X1(t) {{t##_1x1}, {t##_2x1}, {t##_3x1}, {t##_4x1}}

#define I8_DOT_TABLE_16(t) {t##_1, t##_2, t##_3, t##_4, t##_8, t##_16}
#define I8_DOT_TABLE_8(t) {t##_1, t##_2, t##_3, t##_4, t##_8}

#define I8_ROWS_4(t) {t##_1, t##_2, t##_3, t##_4}
#define I8_ROWS_12(t) {t##_1, t##_2, t##_3, t##_4, t##_5, t##_6, t##_7, t##_8, t##_9, t##_10, t##_11, t##_12}

/* The slots of pack_body.h, source_body.h, im2col_body.h and epilogue_body.h. */
#define I8_COMMON_SLOTS                                                                                                \
    .output = i8_output, .add_scale_group = i8_add_scale_group, .turn = i8_turn, .pack_panel = i8_pack_panel,          \
    .pack_panels = i8_pack_panels, .pack_tiles = i8_pack_tiles, .row_sums = i8_row_sums, .panel_sums = i8_panel_sums,  \
    .panel_certified = i8_panel_certified, .widen_a = i8_widen_a, .widen_b = i8_widen_b,                               \
    .source_range = i8_source_range, .quantize_source = i8_quantize_source, .source_largest = i8_source_largest,       \
    .quantize_within = i8_quantize_within, .im2col = i8_im2col, .image_lines = i8_image_lines

/* The slots of outliers_body.h. */
#define I8_OUTLIER_SLOTS                                                                                               \
    .split_panel = i8_split_panel, .multiply_outliers = i8_multiply_outliers, .columns_of = i8_columns_of

/* The slots of quantize_body.h. */
#define I8_INT_TABLE(f) {f##_u8, f##_s8, f##_s32}
#define I8_ELEMENT_SLOTS                                                                                               \
    .quantize = I8_INT_TABLE(i8_quantize), .dequantize = I8_INT_TABLE(i8_dequantize),                                  \
    .requantize = {I8_INT_TABLE(i8_requantize_float), I8_INT_TABLE(i8_requantize_doubling),                            \
                   I8_INT_TABLE(i8_requantize_single)}

/* The slots of pool_body.h. */
#define I8_POOL_SLOTS                                                                                                  \
    .maximum = {i8_maximum_u8, i8_maximum_s8}, .average = {i8_average_u8, i8_average_s8}

/* The slots of chain_body.h; those of bytes need vectors. */
#define I8_TYPE_TABLE(f) {f##_u8, f##_s8, f##_s32, f##_f32, f##_f16, f##_bf16}
#define I8_CHAIN_SLOTS(table_lookup)                                                                                   \
    .load = I8_TYPE_TABLE(i8_load_run), .store = I8_TYPE_TABLE(i8_store_run), .apply = i8_apply, .lookup = table_lookup
#define I8_BYTES_TABLE(f) {{f##_u8, f##_s8}, {f##_relu_u8, f##_relu_s8}}
#define I8_BYTES_SLOTS .bytes = {I8_BYTES_TABLE(i8_add_bytes), I8_BYTES_TABLE(i8_multiply_bytes)}

/* The slots of normalize_body.h. */
#define I8_NORMALIZE_SLOTS .softmax = i8_softmax, .layer_norm = i8_layer_norm

/* The slot of cell_body.h. */
#define I8_CELL_SLOTS .cells = {i8_cell_lstm, i8_cell_gru_reset, i8_cell_gru_output, i8_cell_gru_linear}

#endif
