/* The epilogues, and the sources of real numbers, for one vector width. */
#include "isa/width.h"

#ifdef I8_LANES
#include "stage/requantize_body.h"

#include "stage/output_body.h"
#include "stage/real_filter_body.h"
#include "stage/real_product_body.h"

const i8_stage_kernels I8_WIDTH_TABLE(stage) = {
    .output = i8_output,
    .add_scale_group = i8_add_scale_group,
    .transpose_store = i8_transpose_store,
    .source_range = i8_source_range,
    .quantize_source = i8_quantize_source,
    .source_largest = i8_source_largest,
    .quantize_within = i8_quantize_within,
    .real_rows = I8_REAL_ROWS,
    .real_panels = I8_REAL_PANELS,
    .real_panel = i8_real_panel,
    .real_tile = i8_real_tile,
    .real_columns = i8_real_columns,
    .real_row = i8_real_row,
    .real_filter = i8_real_filter,
};
I8_TARGET_END
#endif
