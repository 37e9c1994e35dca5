"""Convolution on the GEMM, with its output stage fused, and without the matrix that im2col would make::

    dst[n, oc, o] = post_ops(scale_src * scale_weights[oc] * sum + bias[oc]) / scale_dst + zp_dst
    sum = sum over ic, k of (src[n, ic, o * stride + k * dilation - before] - zp_src)
                            * (weights[oc, ic, k] - zp_weights[oc])

for positions o and k in each of 1 to 3 spatial dimensions; outside of the image src is zp_src. The sum is an exact
integer; everything after it is float32, as in :class:`int8blas.InnerProduct`.
"""

from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core import spatial
from int8blas.convolution.layer cimport ConvolutionLayer, Phase
from int8blas.core.file import register
from int8blas.core.split cimport ceil_div

cnp.import_array()


cdef class Convolution(ConvolutionLayer):
    """A quantized convolution: created once, executed many times.

    Parameters
    ----------
    weights : array_like of int8, uint8 or float32
        Of shape (oc, ic / groups, kh, kw) or (groups, oc / groups, ic / groups, kh, kw), or with one or three spatial
        dimensions. float32 weights are quantized to int8 in [-127, 127] with ``scales["weights"]``, which must be
        given: "per_channel", "per_tensor" (max|w| / 127), or values.
    bias : array_like of float32 or int32, optional
        Of shape (oc,): float32 in real units, int32 in units of the accumulator.
    strides : int or sequence of int, optional
        From one window to the next, for all spatial dimensions or for each.
    padding : int, sequence or str, optional
        Added on both sides of each spatial dimension, or for each an integer or a pair (before, after). Its elements
        are zero points, so they stand for 0. "same" and "same_lower" are as much as makes ``ceil(size / stride)``
        outputs, an odd one behind ("same_upper" of ONNX, "SAME" of TensorFlow) or before; "valid" is none.
    dilation : int or sequence of int, optional
        From one element of a window to the next, in the same way. Dilation 1 is none (oneDNN counts from 0).
    groups : int, optional
        Groups of channels, each with filters of its own.
    layout : str, optional
        Of source and destination: "nhwc" (the default, and the fast one) or "nchw"; with one or three spatial
        dimensions "nwc", "ncw", "ndhwc", "ncdhw"; in any case.
    src_dtype : dtype
        uint8 or int8; with `dynamic` float32, float16 or bfloat16.
    dst_dtype : dtype
        uint8, int8, int32, float32, float16 or bfloat16.
    attributes : Attributes, optional
        Masks of scales and zero points, post-ops. The mask of the weights' scales is ``1 << 0`` for a value for each
        output channel, or ``(1 << 0) | (1 << 1)`` if they are given with a dimension of groups. Masks may be left out
        where values are given here.
    scales, zero_points : mapping of str to numbers, optional
        Values for "src", "weights" and "dst" that are the same for every execution; the others are given to each
        execution. The source has one scale and zero point. Zero points of the weights, one value or one for each output
        channel, are packed with them, so they must be given here.
    dynamic : {'per_image', 'per_tensor'}, optional
        Quantize a float source in each execution, by the range of each image or of all of them. It then has no scale
        and no zero point of its own; :meth:`dynamic` makes such a layer of float weights in one call.
    dynamic_dtype : dtype, optional
        To what: int8, symmetric (scale max|x| / 127), or uint8 with a zero point (scale (max - min) / 255, in a range
        that contains 0).
    numerics : {'exact', 'saturating'}, optional
        With "saturating", sums are those of a CPU without VNNI. For an int8 source the weights are halved, half to
        even, when they are packed, and the sums doubled, as oneDNN does there; weights are int8 then, without zero
        points.

    Attributes
    ----------
    weights_shape : tuple of int
        The shape in which `weights` were given.
    layout : str
        As given, in lower case, or the default.
    groups : int
        As given.
    strides, dilation, padding : tuple
        One element for each spatial dimension; of `padding` a pair. The string "same" or "same_lower" where the padding
        depends on the size of the source, as it does with strides.
    src_dtype, dst_dtype : numpy.dtype
        Of source and destination.
    attributes : Attributes
        As given.
    scales, zero_points : mapping of str to numpy scalar or ndarray
        Those that every execution has: as given, and the scales of weights that were quantized. Arrays are read-only.
    bias : ndarray or None
        As given; read-only.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above; the error names it.

    Notes
    -----
    The formula is that of oneDNN's specification, in float32 after an exact sum, or in integers, as
    :class:`InnerProduct` has it. No matrix of windows is ever whole in memory: workspace is bounded per thread, for any
    size of image.

    Weights less their zero points are packed where int8 has room for all of these, as for uint8 and 128: then they cost
    nothing. Where it has not, each execution adds up the windows of the source, once for all outputs of a group, in
    8 bytes for each pixel and group; filters of single channels are packed as two, or three, whose sum they are.

    A float source is quantized to an array of its size in 8 bits; one that has gaps in memory is copied before. Padding
    is 0.0. Where a number is infinite or NaN, all results of its image, or of all of them, are NaN, which an integer
    destination has as its zero point.

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
            spatial.output_size(size, kernel, stride, dilation, (before, after), "src")  # its error
        return room // stride + 1


register(Convolution)
