/* The tables of element-wise functions, pooling and normalization of a vector width. */
#include "stage/requantize_body.h"

#include "elementwise/quantize_body.h"

#include "elementwise/pool_body.h"
#include "stage/chunks_body.h"
#include "stage/post_ops_body.h"

#include "elementwise/fused_body.h"
#include "elementwise/normalize_body.h"

#define I8_INT_TABLE(f) {f##_u8, f##_s8, f##_s32}
#define I8_TYPE_TABLE(f) {f##_u8, f##_s8, f##_s32, f##_f32, f##_f16, f##_bf16}
#if I8_LANES > 1
#define I8_BYTES_TABLE(f) {{f##_u8, f##_s8}, {f##_relu_u8, f##_relu_s8}}
#define I8_BYTES_SLOT .bytes = {I8_BYTES_TABLE(i8_add_bytes), I8_BYTES_TABLE(i8_multiply_bytes)},
#else
#define I8_BYTES_SLOT
#endif

#define I8_ELEMENTWISE(table_lookup)                                                                                   \
    {                                                                                                                  \
        .quantize = I8_INT_TABLE(i8_quantize), .quantize_onnx = I8_INT_TABLE(i8_quantize_onnx),                        \
        .dequantize = I8_INT_TABLE(i8_dequantize),                                                                     \
        .requantize = {I8_INT_TABLE(i8_requantize_float), I8_INT_TABLE(i8_requantize_doubling),                        \
                       I8_INT_TABLE(i8_requantize_single), I8_INT_TABLE(i8_requantize_onnx)},                          \
        .maximum = {i8_maximum_u8, i8_maximum_s8}, .average = {i8_average_u8, i8_average_s8},                          \
        .load = I8_TYPE_TABLE(i8_load_run), .store = I8_TYPE_TABLE(i8_store_run), .apply = i8_apply,                   \
        .lookup = table_lookup, I8_BYTES_SLOT .softmax = i8_softmax, .layer_norm = i8_layer_norm,                      \
    }

const i8_elementwise_kernels I8_WIDTH_TABLE(elementwise) = I8_ELEMENTWISE(i8_lookup);
