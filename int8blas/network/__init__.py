"""Whole networks: ranges of tensors, and folding of operations into weights.

calibration     observers of ranges; observer has their base class, and histogram the counts that some of them store
folding         batch normalization folded into weights, and biases shifted by zero points
graph           LayerQuantization, calibrate, fuse_quantization and move_strides
"""

from int8blas.network.graph import LayerQuantization, calibrate, fuse_quantization, move_strides

__all__ = ["LayerQuantization", "calibrate", "fuse_quantization", "move_strides"]
