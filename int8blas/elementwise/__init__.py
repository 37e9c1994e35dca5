"""Element-wise operators, and operators on rows and windows. The package imports core, gemm and stage.

quantization    quantize, dequantize and requantize
quantization_factors    the factors of weights and activations
functions       eltwise, binary, sum and concat
fused           the driver of these functions: several operators in one pass over memory
epilogue        scales, zero points and post-ops after any of these operators
elements        a kernel for every element of an array, in the order of memory; erf
pooling         the public functions; pool, their driver, and windows of float images
normalization   softmax and layer_norm; normalize, their driver
gather          rows of a table; reorder and packed_weights, layouts of weights
top             the largest or smallest elements of rows
"""

from int8blas.elementwise.functions import binary, concat, eltwise, sum

__all__ = ["binary", "concat", "eltwise", "sum"]
