/* Element-wise operators, pooling and normalization for a vector width. */
#include "isa/cpu.h"
#include "isa/width.h"

#ifdef I8_LANES
#include "stage/requantize_body.h"

#include "elementwise/quantize_body.h"

#include "elementwise/pool_body.h"
#include "stage/chunks_body.h"
#include "stage/post_ops_body.h"

#include "elementwise/fused_body.h"
#include "elementwise/normalize_body.h"

#define I8_INT_TABLE(f) {f##_u8, f##_s8, f##_s32}
#define I8_TYPE_TABLE(f) {f##_u8, f##_s8, f##_s32, f##_f32, f##_f16, f##_bf16}
#define I8_DIRECT_ROW(op, f) [I8_##op - I8_ADD] = {i8_direct_##f##_u8, i8_direct_##f##_s8}
#define I8_BYTES_TABLE(f) {{f##_u8, f##_s8}, {f##_relu_u8, f##_relu_s8}}

#if I8_LANES == 16
I8_TARGET_END
/* VBMI looks up bytes in a table of 128 bytes. Ice Lake, Zen 4 and later CPUs have VBMI. */
I8_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")
static void i8_lookup_vbmi(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table)
{
    const __m512i part0 = _mm512_loadu_si512(table), part1 = _mm512_loadu_si512(table + 64);
    const __m512i part2 = _mm512_loadu_si512(table + 128), part3 = _mm512_loadu_si512(table + 192);
    for (int64_t i = 0; i < n; i += 64) {
        const __mmask64 rest = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
        const __m512i bytes = _mm512_maskz_loadu_epi8(rest, x + i);
        const __m512i low = _mm512_permutex2var_epi8(part0, bytes, part1);
        const __m512i high = _mm512_permutex2var_epi8(part2, bytes, part3);
        _mm512_mask_storeu_epi8(out + i, rest, _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(bytes), high));
    }
}
I8_TARGET_END
I8_TARGET_BEGIN(I8_TARGET)
static void i8_lookup_best(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table)
{
    if (i8_cpu_features() & I8_CPU(avx512vbmi))
        i8_lookup_vbmi(out, x, n, table);
    else
        i8_lookup(out, x, n, table);
}
#define I8_LOOKUP i8_lookup_best
#else
#define I8_LOOKUP i8_lookup
#endif

const i8_elementwise_kernels I8_WIDTH_TABLE(elementwise) = {
    .quantize = I8_INT_TABLE(i8_quantize),
    .quantize_onnx = I8_INT_TABLE(i8_quantize_onnx),
    .dequantize = I8_INT_TABLE(i8_dequantize),
    .requantize = {I8_INT_TABLE(i8_requantize_float), I8_INT_TABLE(i8_requantize_doubling),
                   I8_INT_TABLE(i8_requantize_single), I8_INT_TABLE(i8_requantize_onnx)},
    .spread = i8_spread,
    .maximum = {i8_maximum_u8, i8_maximum_s8},
    .average = {i8_average_u8, i8_average_s8},
    .load = I8_TYPE_TABLE(i8_load_run),
    .store = I8_TYPE_TABLE(i8_store_run),
    .apply = i8_apply,
    .sum_rows = i8_sum_rows,
    .lookup = I8_LOOKUP,
    .clamp = i8_clamp,
#if I8_LANES > 1
    .bytes = {I8_BYTES_TABLE(i8_add_bytes), I8_BYTES_TABLE(i8_multiply_bytes)},
#endif
    .direct = {I8_DIRECT_ROW(ADD, add), I8_DIRECT_ROW(SUB, sub), I8_DIRECT_ROW(MIN, min), I8_DIRECT_ROW(MAX, max),
               I8_DIRECT_ROW(GE, ge), I8_DIRECT_ROW(GT, gt), I8_DIRECT_ROW(LE, le), I8_DIRECT_ROW(LT, lt),
               I8_DIRECT_ROW(EQ, eq), I8_DIRECT_ROW(NE, ne)},
    .softmax = i8_softmax,
    .softmax_across = i8_softmax_across,
    .layer_norm = i8_layer_norm,
};
I8_TARGET_END
#endif
