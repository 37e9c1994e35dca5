"""Element-wise operators, and operators on rows and windows. The package imports core, gemm and stage.

quantization    quantize, dequantize and requantize
quantization_factors    the factors of weights and activations
functions       eltwise, binary, sum and concat
fused           the driver of these functions: several operators in one pass over memory
epilogue        scales, zero points and post-ops after any of these operators
elements        the driver of the functions in quantization: a kernel that runs over arrays in the order of memory
pooling         the public functions of pooling, and pool, their driver
normalization   softmax and layer_norm, and normalize, their driver
gather          gather, which dequantizes rows of a table
reorder         reorder, which converts types and layouts
packed_weights  weights as PackedB, for reorder
"""

from int8blas.elementwise.functions import binary, concat, eltwise, sum

__all__ = ["binary", "concat", "eltwise", "sum"]
