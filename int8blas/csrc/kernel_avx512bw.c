/* AVX-512 without VNNI: Skylake servers and Cannon Lake.
 *
 *   VPMADDUBSW, VPMADDWD zmm   latency 5, ports 0 and 5;  VPADDD zmm   latency 1, ports 0 and 5
 *
 * With all three on two ports the saturating or certified dot does 32 products of a row in 1.5 cycles times two
 * (64 products in 3 instructions), the widened one in 2 (64 products in 4).
 */
#include "kernel_table.h"

#ifdef I8_X86_64
I8_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl")
#include "vectors_avx512.h"
#include "tile_output.h"

#define I8_PREFIX i8_avx512bw_dot4_sat
#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#include "gemm_body.h"

#define I8_PREFIX i8_avx512bw_dot2
#define I8_STEP(acc, a, b) (acc) = i8_dot2(acc, a, b)
#include "gemm_body.h"

#define I8_PREFIX i8_avx512bw_dot8
#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#define I8_STEP_2(acc, a, b, c, d) (acc) = i8_dot8(acc, a, b, c, d)
#include "gemm_body.h"

#define I8_PREFIX i8_avx512bw_dot4
#define I8_STEP(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#define I8_WIDENS 1
#include "gemm_body.h"

#define I8_PREFIX i8_avx512bw_rows_a_unsigned
#define I8_STEP(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#include "rows_body.h"

#define I8_PREFIX i8_avx512bw_rows_b_unsigned
#define I8_STEP(acc, a, b) (acc) = i8_dot4_widening(acc, b, a)
#include "rows_body.h"

#define I8_PREFIX i8_avx512bw_dots_x_unsigned
#define I8_STEP(acc, x, y) (acc) = i8_dot4_widening(acc, x, y)
#include "dot_body.h"

#define I8_PREFIX i8_avx512bw_dots_y_unsigned
#define I8_STEP(acc, x, y) (acc) = i8_dot4_widening(acc, y, x)
#include "dot_body.h"

#include "epilogue_body.h"
#include "pack_body.h"
#include "outliers_body.h"
#include "quantize_body.h"
#include "pool_body.h"
#include "chain_body.h"
#include "normalize_body.h"
#include "cell_body.h"

#define I8_STEP(acc, a, b) (acc) = i8_dot4_widening(acc, a, b)
#include "thin_body.h"

#include "depthwise_pairs_body.h"

#define I8_PAIRS
#define I8_STEP(acc, a, b) (acc) = i8_dot2(acc, a, b)
#include "grouped_body.h"

#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#include "peak_body.h"

static int supported(void) { return (i8_cpu_features() & I8_CPU_AVX512BW) != 0; }

const i8_kernels i8_kernels_avx512bw = {
    .name = "avx512bw",
    .supported = supported,
    .mr = I8_MR,
    .np = I8_NP,
    .row_np = I8_ROW_NP,
    .exact = I8_DOT2,
    .a_bytes = 96 << 10,
    .kc = 512,
    .nc = 60,
    .thread_work = 2e6,
    .tiny_work = 1 << 20,
    .tile = {[I8_DOT4_SAT] = I8_TILES_8X3(i8_avx512bw_dot4_sat), [I8_DOT2] = I8_TILES_8X3(i8_avx512bw_dot2),
             [I8_DOT4] = I8_TILES_8X3(i8_avx512bw_dot4), [I8_DOT8] = I8_TILES_8X3(i8_avx512bw_dot8)},
    .tile_output = 1,
    .rows_mr = I8_ROWS_MR,
    .rows_columns = 4 * I8_LANES,
    .rows = {I8_ROWS_12(i8_avx512bw_rows_a_unsigned), I8_ROWS_12(i8_avx512bw_rows_b_unsigned)},
    .rows_limit = 12,
    .copy_rows = i8_copy_rows,
    .finish_rows = i8_finish_rows,
    .dots_rows = I8_DOT_ROWS,
    .dots_columns = I8_LANES,
    .dots = {I8_DOT_TABLE_16(i8_avx512bw_dots_x_unsigned), I8_DOT_TABLE_16(i8_avx512bw_dots_y_unsigned)},
    .dots_size = i8_dots_size,
    .order_dots = i8_order_dots,
    .thin_k = 8,
    .thin_rows = I8_THIN_ROWS,
    .thin = i8_thin,
    .depthwise_channels = I8_DEPTHWISE_CHANNELS,
    .depthwise_lines = I8_DEPTHWISE_LINES,
    .depthwise = i8_depthwise,
    .grouped_pixels = I8_GROUPED_PIXELS,
    .grouped_channels = I8_GROUPED_CHANNELS,
    .grouped = i8_grouped,
    .widen_grouped = i8_widen_grouped,
    I8_COMMON_SLOTS,
    I8_OUTLIER_SLOTS,
    I8_ELEMENT_SLOTS,
    I8_POOL_SLOTS,
    I8_CHAIN_SLOTS(i8_lookup),
    I8_BYTES_SLOTS,
    I8_NORMALIZE_SLOTS,
    I8_CELL_SLOTS,
    I8_PEAK_SLOTS,
};
I8_TARGET_END
#endif
