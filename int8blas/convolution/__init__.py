"""Convolutions, deconvolutions and im2col. The room imports core, gemm and stage.

convolution     the public class Convolution
deconvolution   the public class Deconvolution
layer           the base class of both
im2col          the public function im2col: the matrix of the windows of an image
filters         weights, and the general strategy: a product with this matrix, which is gathered block by block
lines           the strategy that copies lines of the image and multiplies windows in place
groups          the strategy for groups of 4 and 8 channels
views           images in another form, which suits the first two strategies better
depthwise       the strategy for groups of one channel
window_sums     sums of windows, for zero points of weights
far_zeros       zero points that no value of their types has
dynamic_images  quantization of float images
explain         the plan of a convolution
"""

from int8blas.convolution.convolution import Convolution
from int8blas.convolution.deconvolution import Deconvolution
from int8blas.convolution.explain import explain_layer

__all__ = ["Convolution", "Deconvolution", "explain_layer"]
