/* AVX-VNNI, the 256-bit VEX form: Alder Lake and later without AVX-512; also Zen 5.
 *
 *   VPDPBUSD ymm    latency 5 (Intel), 4 (Zen); two a cycle
 *
 * 12 accumulators cover 6 cycles of latency at two a cycle. With I8_AVXVNNI_AS_EVEX, a development option, the same
 * code is assembled with the EVEX encoding and runs on CPUs that have AVX512-VNNI and AVX512-VL but not AVX-VNNI.
 */
#include "kernel_table.h"

#ifdef I8_X86_64
#ifdef I8_AVXVNNI_AS_EVEX
I8_TARGET_BEGIN("avx2,avx512f,avx512vl,avx512vnni")
#define I8_ENCODING "%{evex%} "
#define I8_NEEDS I8_CPU_AVX512VNNI
#else
I8_TARGET_BEGIN("avx2,avxvnni")
#define I8_ENCODING "%{vex%} "
#define I8_NEEDS I8_CPU_AVXVNNI
#endif
#include "vectors_avx2.h"
#include "tile_output.h"

#if defined(__GNUC__)
#define I8_DPBUSD(acc, a, b) __asm__(I8_ENCODING "vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b))
#else
#define I8_DPBUSD(acc, a, b) (acc) = _mm256_dpbusd_avx_epi32(acc, a, b)
#endif

#define I8_PREFIX i8_avxvnni_dot4
#define I8_STEP(acc, a, b) I8_DPBUSD(acc, a, b)
#include "gemm_body.h"

#define I8_PREFIX i8_avxvnni_dot4_sat
#define I8_STEP(acc, a, b) (acc) = i8_dot4_sat(acc, a, b)
#include "gemm_body.h"

#define I8_PREFIX i8_avxvnni_rows_a_unsigned
#define I8_STEP(acc, a, b) I8_DPBUSD(acc, a, b)
#include "rows_body.h"

#define I8_PREFIX i8_avxvnni_rows_b_unsigned
#define I8_STEP(acc, a, b) I8_DPBUSD(acc, b, a)
#include "rows_body.h"

#define I8_PREFIX i8_avxvnni_dots_x_unsigned
#define I8_STEP(acc, x, y) I8_DPBUSD(acc, x, y)
#include "dot_body.h"

#define I8_PREFIX i8_avxvnni_dots_y_unsigned
#define I8_STEP(acc, x, y) I8_DPBUSD(acc, y, x)
#include "dot_body.h"

#include "epilogue_body.h"
#include "pack_body.h"
#include "quantize_body.h"
#include "pool_body.h"
#include "chain_body.h"
#include "normalize_body.h"
#include "cell_body.h"

#define I8_STEP(acc, a, b) I8_DPBUSD(acc, a, b)
#include "thin_body.h"

#define I8_STEP(acc, a, b) I8_DPBUSD(acc, a, b)
#include "depthwise_body.h"

#define I8_STEP(acc, a, b) I8_DPBUSD(acc, a, b)
#include "grouped_body.h"

#define I8_STEP(acc, a, b) I8_DPBUSD(acc, a, b)
#include "peak_body.h"

static int supported(void) { return (i8_cpu_features() & I8_NEEDS) != 0; }

const i8_kernels i8_kernels_avxvnni = {
    .name = "avxvnni",
    .supported = supported,
    .mr = I8_MR,
    .np = I8_NP,
    .row_np = I8_ROW_NP,
    .exact = I8_DOT4,
    .a_bytes = 256 << 10,
    .kc = 1024,
    .nc = 60,
    .thread_work = 3e6,
    .tiny_work = 1 << 20,
    .tile = {[I8_DOT4] = I8_TILES_6X1(i8_avxvnni_dot4), [I8_DOT4_SAT] = I8_TILES_6X1(i8_avxvnni_dot4_sat)},
    .tile_output = 1,
    .rows_mr = I8_ROWS_MR,
    .rows_columns = 4 * I8_LANES,
    .rows = {I8_ROWS_4(i8_avxvnni_rows_a_unsigned), I8_ROWS_4(i8_avxvnni_rows_b_unsigned)},
    .rows_limit = 48,
    .copy_rows = i8_copy_rows,
    .finish_rows = i8_finish_rows,
    .dots_rows = I8_DOT_ROWS,
    .dots_columns = I8_LANES,
    .dots = {I8_DOT_TABLE_8(i8_avxvnni_dots_x_unsigned), I8_DOT_TABLE_8(i8_avxvnni_dots_y_unsigned)},
    .dots_size = i8_dots_size,
    .order_dots = i8_order_dots,
    .thin_k = 4 * I8_THIN_GROUPS,
    .thin_rows = I8_THIN_ROWS,
    .thin = i8_thin,
    .depthwise_channels = I8_DEPTHWISE_CHANNELS,
    .depthwise_lines = I8_DEPTHWISE_LINES,
    .depthwise = i8_depthwise,
    .grouped_pixels = I8_GROUPED_PIXELS,
    .grouped_channels = I8_GROUPED_CHANNELS,
    .grouped = i8_grouped,
    I8_COMMON_SLOTS,
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
