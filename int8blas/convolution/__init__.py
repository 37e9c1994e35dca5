"""Convolutions and deconvolutions, and windows of images. It imports core, gemm and stage.

convolution, deconvolution    the public layers; layer, what they have in common; im2col, the matrix of an image
filters         weights as the strategies take them, and the general strategy: a product with the matrix of the image,
                which the driver gathers block by block
lines           the strategy that copies lines of the image and multiplies windows where they lie
groups          the strategy of groups of 4 and 8 channels; depthwise, that of one channel each
window_sums     sums of windows, for zero points of weights; dynamic_images, images of real numbers
explain         the plan of a convolution
"""

from int8blas.convolution.convolution import Convolution
from int8blas.convolution.deconvolution import Deconvolution
from int8blas.convolution.explain import explain_layer

__all__ = ["Convolution", "Deconvolution", "explain_layer"]
