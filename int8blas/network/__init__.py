"""Whole networks: ranges of tensors, and what is folded before layers are made. It imports every other room.

calibration     observers of ranges; observer and histogram, what they have in common
folding         batch normalization folded into weights, biases shifted by zero points
graph           LayerQuantization, calibrate, fuse_quantization, move_strides
"""

from int8blas.network.graph import LayerQuantization, calibrate, fuse_quantization, move_strides

__all__ = ["LayerQuantization", "calibrate", "fuse_quantization", "move_strides"]
