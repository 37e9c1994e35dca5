"""The epilogue of layers, from sums to stored results, and the code that all layers share. It imports core and gemm.

attributes          Attributes and the post-ops, as users give them
output_stage        values of the epilogue in the kernels' form: scales, zero points, post-ops, bound for one execution
columns             values for each column, or one for all, as the kernels read them
requantization      the epilogue in integers
layer_arguments     the checks of layers' arguments, and their weights; weights_scales, scales of real weights
four_bits           weights of 4 bits by groups of k; formats, weights of other formats
by_range            arrays of real numbers that become uint8 by the range of all of them
quantized_layer     what layers with int8 weights share: execution on the driver of gemm
"""
