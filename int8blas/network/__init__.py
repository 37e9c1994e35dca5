"""Whole networks: ranges of tensors, and folding of operations into weights. The room imports every room to its left.

calibration     observers of ranges; observer, their base class; histogram, the counts that some of them keep
folding         batch normalization folded into weights; biases shifted by zero points
graph           LayerQuantization, calibrate, fuse_quantization, move_strides
"""

from int8blas.network.graph import LayerQuantization, calibrate, fuse_quantization, move_strides

__all__ = ["LayerQuantization", "calibrate", "fuse_quantization", "move_strides"]
