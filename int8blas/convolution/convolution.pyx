"""Convolution on the GEMM, with a fused epilogue, and without storing the matrix of im2col::

    dst[n, oc, o] = post_ops(scale_src * scale_weights[oc] * sum + bias[oc]) / scale_dst + zp_dst
    sum = sum over ic, k of (src[n, ic, o * stride + k * dilation - before] - zp_src)
                            * (weights[oc, ic, k] - zp_weights[oc]).

The positions o and k have 1 to 3 spatial dimensions. Outside the image, src is zp_src. The sum is an exact integer. All
later operations are float32, as in :class:`int8blas.InnerProduct`.
"""

from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core import spatial
from int8blas.convolution.layer cimport ConvolutionLayer, Phase
from int8blas.core.file import register
from int8blas.core.split cimport ceil_div

cnp.import_array()


cdef class Convolution(ConvolutionLayer):
    """A quantized convolution, which is created once and executed many times.

    Parameters
    ----------
    weights : array_like of int8, uint8 or float32
        The shape is (oc, ic / groups, kh, kw) or (groups, oc / groups, ic / groups, kh, kw), with one, two or three
        spatial dimensions. float32 weights are quantized to int8 in [-127, 127]. Such weights need
        ``scales["weights"]``: "per_channel", "per_tensor" (both max|w| / 127), or values.
    bias : array_like of float32 or int32, optional
        Shape (oc,): float32 in real units, int32 in units of the accumulator.
    strides : int or sequence of int, optional
        The step from one window to the next, for all spatial dimensions or for each.
    padding : int, sequence or str, optional
        Padding on both sides of all spatial dimensions, or for each dimension an integer or a pair (before, after).
        Padding has the value of the zero point, which stands for 0. "same" and "same_lower" pad to ``ceil(size /
        stride)`` outputs. If the number of padding elements is odd, "same" puts one more after the data ("same_upper"
        of ONNX, "SAME" of TensorFlow), and "same_lower" before it. "valid" means no padding.
    dilation : int or sequence of int, optional
        The step from one element of a window to the next; 1 means no dilation (oneDNN counts from 0).
    groups : int, optional
        The number of groups of channels. Each group has its own filters.
    layout : str, optional
        The layout of source and destination: "nhwc" (the default, and faster) or "nchw". With one or three spatial
        dimensions the layouts are "nwc", "ncw", "ndhwc" and "ncdhw". Names in upper case are accepted.
    src_dtype : dtype
        uint8, int8, uint16 or int16, or with `dynamic` float32, float16 or bfloat16. A layer with the `src_dtype`
        float32 also takes float16 and bfloat16. A 16-bit integer source needs two 8-bit convolutions.
    dst_dtype : dtype
        uint8, int8, int32, float32, float16 or bfloat16.
    attributes : Attributes, optional
        Masks of scales and zero points, and post-ops. The mask of the weights' scales is ``1 << 0`` for a value for
        each output channel, or ``(1 << 0) | (1 << 1)`` for values with a dimension of groups. Values in `scales` and
        `zero_points` need no mask.
    scales, zero_points : mapping of str to numbers, optional
        Constant values for "src", "weights" and "dst". Each execution gets the values that are not constant. The source
        has one scale and one zero point. The weights have one zero point, or one for each output channel. The
        constructor needs the zero points of the weights to pack the weights.
    dynamic : {'per_image', 'per_tensor'}, optional
        Quantize a float source in each execution, by the range of each image or of all images. The source then has no
        given scale or zero point. :meth:`dynamic` creates such a layer from float weights in one call.
    dynamic_dtype : dtype, optional
        The type of the quantized source. int8 is symmetric, with the scale max|x| / 127. uint8 has a zero point, and
        the scale (max - min) / 255 for a range that contains 0.
    numerics : {'exact', 'saturating'}, optional
        "saturating" computes the sums of a CPU without VNNI. For an int8 source the layer halves the weights when it
        packs them, rounding half to even, and doubles the sums, like oneDNN. With "saturating", weights must be int8,
        without zero points.

    Attributes
    ----------
    weights_shape : tuple of int
        The shape of the given `weights`.
    layout : str
        The given layout in lower case, or the default.
    groups : int
        As given to the constructor.
    strides, dilation, padding : tuple
        One element for each spatial dimension; `padding` has pairs. With strides, "same" and "same_lower" stay strings,
        because the padding depends on the size of the source.
    src_dtype, dst_dtype : numpy.dtype
        The types of source and destination.
    attributes : Attributes
        As given to the constructor.
    scales, zero_points : mapping of str to numpy scalar or ndarray
        The constant values: the values given at creation, and the scales of quantized weights. Arrays are read-only.
    bias : ndarray or None
        The given bias, read-only.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. The error names the argument.

    Notes
    -----
    The formula comes from oneDNN's specification, and is computed as in :class:`InnerProduct`. The whole matrix of
    windows is never in memory: each thread has a workspace of bounded size, for images of any size.

    If weights minus zero points fit int8, as with uint8 weights and zero point 128, the layer packs these differences,
    and zero points cost no time. If a difference does not fit int8, each execution sums the windows of the source once
    for all outputs of a group, and stores 8 bytes for each pixel and group. If a filter has a single channel, the layer
    packs the filter as the sum of two or three int8 filters, and no windows are summed.

    A float source is quantized to an int8 or uint8 array of the same shape. A source with gaps in memory is copied
    first. Padding is 0.0. If an image has an infinity or NaN, all its results are NaN. With 'per_tensor', an infinity
    or NaN in one image makes the results of all images NaN. An integer destination gets its zero point instead of NaN.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> blur = np.ones((1, 1, 3, 3), np.int8)
    >>> layer = int8blas.Convolution(blur, padding=1, src_dtype=np.uint8, dst_dtype=np.uint8, scales={"dst": 9})
    >>> image = np.zeros((1, 4, 4, 1), np.uint8)
    >>> image[0, 1, 1] = 90
    >>> layer(image)[0, :, :, 0]
    array([[10, 10, 10,  0],
           [10, 10, 10,  0],
           [10, 10, 10,  0],
           [ 0,  0,  0,  0]], dtype=uint8)
    >>> layer = int8blas.Convolution.dynamic(np.full((1, 1, 3, 3), 0.5, np.float32), padding="same")
    >>> layer(image.astype(np.float32))[0, :, :, 0].round(2)
    array([[45., 45., 45.,  0.],
           [45., 45., 45.,  0.],
           [45., 45., 45.,  0.],
           [ 0.,  0.,  0.,  0.]], dtype=float32)
    """

    cdef object padding_from(self, padding):
        if max(self.strides) > 1:
            return padding
        return spatial.padding_of(padding, (1,) * self._spatial, self._kernel, self.strides, self.dilation)

    cdef list make_phases(self, tuple shape, bias):
        pairs = ((0, 0),) * self._spatial if isinstance(self.padding, str) else self.padding
        before = tuple([before for before, _ in pairs])
        return [Phase(self.make_filters(shape, self.strides, self.dilation, before, bias, False))]

    cdef int64_t output_size(self, int64_t size, int d) except -1:
        cdef int64_t before, after, room
        cdef int64_t kernel = self._kernel[d], stride = self.strides[d], dilation = self.dilation[d]
        if isinstance(self.padding, str):
            return ceil_div(size, stride)
        before, after = self.padding[d]
        room = size + before + after - dilation * (kernel - 1) - 1
        if room < 0:
            spatial.output_size(size, kernel, stride, dilation, (before, after), "src")  # this raises the error
        return room // stride + 1


register(Convolution)
