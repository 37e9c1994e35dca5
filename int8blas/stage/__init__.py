"""The epilogue of layers, from sums to stored results, and the code that all layers share. It imports core and gemm.

attributes          Attributes and the post-ops, which users create
output_stage        the epilogue of one execution in the form of the kernels: scales, zero points, post-ops
columns             values for each column, or one value for all columns, in the form of the kernels
requantization      the epilogue in integers
layer_arguments     checks of the arguments of layers, and their weights; weights_scales computes scales of real weights
four_bits           weights of 4 bits by groups of k; formats reads weights of other formats
by_range            quantization of real numbers to uint8 by the range of a whole array
quantized_layer     the base class of layers with int8 weights
"""
