"""Convolution on the GEMM, with its output stage fused, and without the matrix that im2col would make.

    dst[n, oc, o] = post_ops(scale_src * scale_weights[oc] * sum + bias[oc]) / scale_dst + zp_dst
    sum = sum over ic, k of (src[n, ic, o * stride + k * dilation - before] - zp_src) * weights[oc, ic, k]

for positions o and k in each of 1 to 3 spatial dimensions; outside of the image src is zp_src. The sum is an exact
integer; everything after it is float32, as in :class:`InnerProduct`.
"""

from libc.stdint cimport int64_t
cimport numpy as cnp
import numpy as np

from int8blas._arrays cimport as_array, check_numerics, output_of
from int8blas._depthwise cimport DepthwiseFilters, is_depthwise
from int8blas._filters cimport Filters
from int8blas._layer_arguments import DST_DTYPES, INT8_DTYPES, check_attributes, check_dtype, int8_weights
from int8blas._layer_arguments import grouped_attributes, grouped_values
from int8blas._problem cimport is_usable
from int8blas._spatial import channels_last_axes, output_size, parse_layout, parse_padding, per_dimension
from int8blas._stage cimport Bound, Layer

cnp.import_array()


def _grouped_weights(weights, groups, layout):
    """Weights as (g, oc / g, ic / g, ...), and whether they were given so."""
    ndim = weights.ndim
    if ndim == 5 and groups > 1 and layout is None:
        raise ValueError("layout must be given for weights of 5 dimensions and groups, as they may be those of 2 spatial "
                         "dimensions with groups, or of 3")
    spatial = ndim - 2 if layout is None else parse_layout(layout, len(layout), "src")[0]
    if layout is None and groups > 1 and ndim == 6:
        spatial = 3
    if not 1 <= spatial <= 3 or ndim not in (spatial + 2, spatial + 3) or (ndim == spatial + 3 and groups == 1
                                                                           and weights.shape[0] != 1):
        raise ValueError(f"weights must have shape (oc, ic / groups, ...) or (groups, oc / groups, ic / groups, ...) "
                         f"with 1 to 3 spatial dimensions, got {weights.shape}")
    if ndim == spatial + 3:
        if weights.shape[0] != groups:
            raise ValueError(f"weights must have {groups} groups in their first dimension, got shape {weights.shape}")
        return weights, True
    if weights.shape[0] % groups:
        raise ValueError(f"weights must have a number of output channels that {groups} groups divide, got "
                         f"{weights.shape[0]}")
    return weights.reshape(groups, weights.shape[0] // groups, *weights.shape[1:]), False


cdef class Convolution:
    """A quantized convolution: created once, executed many times.

    Parameters
    ----------
    weights : array_like of int8 or float32
        Of shape (oc, ic / groups, kh, kw) or (groups, oc / groups, ic / groups, kh, kw), or with one or three spatial
        dimensions. float32 weights are quantized to int8 in [-127, 127] with ``scales["weights"]``, which must be
        given: "per_channel", "per_tensor" (max|w| / 127), or values.
    bias : array_like of float32 or int32, optional
        Of shape (oc,): float32 in real units, int32 in units of the accumulator.
    strides, dilation : int or sequence of int, optional
        From one window to the next, and from one element of a window to the next, for all spatial dimensions or for
        each. Dilation 1 is none (oneDNN counts from 0).
    padding : int or sequence, optional
        Added on both sides of each spatial dimension, or for each an integer or a pair (before, after). Its elements
        are zero points, so they stand for 0.
    groups : int, optional
        Groups of channels, each with filters of its own.
    layout : str, optional
        Of source and destination: "nhwc" (the default, and the fast one) or "nchw"; with one or three spatial
        dimensions "nwc", "ncw", "ndhwc", "ncdhw".
    src_dtype : dtype
        uint8 or int8.
    dst_dtype : dtype
        uint8, int8, int32, float32 or float16.
    attributes : Attributes, optional
        Masks of scales and zero points, post-ops. The mask of the weights' scales is ``1 << 0`` for a value for each
        output channel, or ``(1 << 0) | (1 << 1)`` if they are given with a dimension of groups. Masks may be left out
        where values are given here.
    scales, zero_points : mapping of str to numbers, optional
        Values for "src", "weights" and "dst" that are the same for every execution; the others are given to each
        execution. The source has one scale and zero point; weights have no zero points.
    numerics : {'exact', 'saturating'}, optional
        With "saturating", sums are those of a CPU without VNNI. For an int8 source the weights are halved, half to
        even, when they are packed, and the sums doubled, as oneDNN does there.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above; the error names it.

    Notes
    -----
    The formula is that of oneDNN's specification. No matrix of windows is ever whole in memory: workspace is bounded
    per thread, for any size of image.

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
    """

    cdef readonly tuple weights_shape
    cdef readonly object src_dtype
    cdef readonly object dst_dtype
    cdef readonly object attributes
    cdef readonly tuple strides
    cdef readonly tuple padding
    cdef readonly tuple dilation
    cdef readonly int64_t groups
    cdef readonly str layout
    cdef object _numerics, _weights_groups
    cdef int _src_type, _dst_type, _spatial
    cdef bint _channels_last, _grouped
    cdef tuple _kernel
    cdef Filters _filters
    cdef Layer _layer
    cdef Bound _constant

    def __init__(self, weights, bias=None, *, strides=1, padding=0, dilation=1, groups=1, layout=None, src_dtype,
                 dst_dtype, attributes=None, scales=None, zero_points=None, numerics="exact"):
        cdef bint saturating = check_numerics(numerics), halved
        self._numerics = numerics
        self.src_dtype = check_dtype(src_dtype, "src_dtype", INT8_DTYPES)
        self.dst_dtype = check_dtype(dst_dtype, "dst_dtype", DST_DTYPES)
        self._src_type, self._dst_type = self.src_dtype.num, self.dst_dtype.num
        self.attributes = check_attributes(attributes)
        (self.groups,) = per_dimension(groups, 1, "groups", 1)
        array = as_array(weights, "weights")
        scales = dict(scales or {})
        array, self._grouped = _grouped_weights(array, self.groups, layout)
        self.weights_shape = array.shape if self._grouped else (self.groups * array.shape[1], *array.shape[2:])
        outputs = self.groups * array.shape[1]
        self._kernel = array.shape[3:]
        if 0 in self._kernel:
            raise ValueError(f"weights must have a kernel that is not empty, got shape {weights.shape}")
        self._spatial, self._channels_last = parse_layout(layout, len(self._kernel) + 2, "src")
        self.layout = layout if layout is not None else {1: "nwc", 2: "nhwc", 3: "ndhwc"}[self._spatial]
        self.strides = per_dimension(strides, self._spatial, "strides", 1)
        self.dilation = per_dimension(dilation, self._spatial, "dilation", 1)
        self.padding = parse_padding(padding, self._spatial)
        scales = grouped_values(scales, self._grouped, self.groups)
        array = int8_weights(array.reshape(outputs, *array.shape[2:]), scales, (np.dtype(np.int8),))
        array = array.reshape(self.groups, outputs // self.groups, *array.shape[1:])
        halved = saturating and self._src_type == cnp.NPY_INT8
        self._weights_groups = array
        absent = (1,) * (3 - self._spatial)
        whole = (np.rint(array / 2).astype(np.int8) if halved else array).reshape(*array.shape[:3], *absent, *self._kernel)
        steps, gaps = absent + self.strides, absent + self.dilation
        before = (0,) * len(absent) + tuple(before for before, _ in self.padding)
        if not saturating and is_depthwise(whole, bias, steps, gaps):
            self._filters = DepthwiseFilters(whole, steps, gaps, before)
        else:
            self._filters = Filters(whole, steps, gaps, before, saturating, halved)
        self._layer = Layer(grouped_attributes(self.attributes, self._grouped), outputs, bias,
                            self._filters.column_sums(), self.src_dtype, np.dtype(np.int8), self.dst_dtype, scales,
                            zero_points, "convolution")
        self._constant = self._layer.bind_constants(self._channels_last)

    def __repr__(self):
        return f"Convolution{self.weights_shape}[{self.src_dtype} -> {self.dst_dtype}]"

    def __call__(self, src, *, scales=None, zero_points=None, operands=None, out=None):
        """Execute the layer.

        Parameters
        ----------
        src : array_like of `src_dtype`
            The images, in the layout of the layer, with any strides.
        scales, zero_points : mapping of str to numbers, optional
            Values that were declared by mask and not given when the layer was created.
        operands : sequence of array_like, optional
            Operands of Binary and PReLU post-ops that were created without one, in their order; they broadcast to the
            destination's shape. One that has a value for each of its elements is copied in the layouts with channels
            first.
        out : ndarray of `dst_dtype`, optional
            Where to store the result, with any strides. A Sum post-op adds to what is in it.

        Returns
        -------
        ndarray of `dst_dtype`
            ``out`` if it is given; in the layout of the layer. In each spatial dimension its size is
            (size + before + after - dilation * (kernel - 1) - 1) // stride + 1.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as above, before anything is written.
        """
        cdef cnp.ndarray x = src if cnp.PyArray_Check(src) else as_array(src, "src")
        cdef cnp.ndarray target, result
        cdef Bound bound = self._constant
        cdef int d, first
        cdef int64_t channels = self.groups * self._filters.window.channels
        if cnp.PyArray_TYPE(x) != self._src_type or not cnp.PyArray_ISNOTSWAPPED(x):
            raise TypeError(f"src must be {self.src_dtype}, got {x.dtype}")
        if cnp.PyArray_NDIM(x) != self._spatial + 2:
            raise ValueError(f"src must have {self._spatial + 2} dimensions, {self.layout}, got shape "
                             f"{(<object>x).shape}")
        if cnp.PyArray_DIM(x, self._spatial + 1 if self._channels_last else 1) != channels:
            raise ValueError(f"src must have {channels} channels, got shape {(<object>x).shape} in layout {self.layout}")
        first = 1 if self._channels_last else 2
        sizes = tuple([
            output_size(cnp.PyArray_DIM(x, first + d), self._kernel[d], self.strides[d], self.dilation[d],
                        self.padding[d], "src")
            for d in range(self._spatial)
        ])
        outputs = self._layer.columns
        shape = (len(x), *sizes, outputs) if self._channels_last else (len(x), outputs, *sizes)
        if scales is not None or zero_points is not None or operands is not None or bound is None:
            bound = self._layer.bind(grouped_values(scales, self._grouped, self.groups), zero_points, operands,
                                     len(x) * int(np.prod(sizes, dtype=np.int64)), shape, self._channels_last)
        if out is None:
            if self._layer.has_sum:
                raise ValueError("out must be given, as a Sum post-op adds to it")
            result = target = np.empty(shape, self.dst_dtype)
        else:
            result = target = output_of(out, "out", self._dst_type)
            if (<object>result).shape != shape:
                raise ValueError(f"out must have shape {shape}, got {(<object>result).shape}")
            if not is_usable(result, x, self._filters.packed):
                target = np.empty(shape, self.dst_dtype)
                if self._layer.has_sum:
                    target[...] = result
        self._filters.run(bound, self.pixels(x), self.pixels(target), bound.padding(), "convolution")
        if target is not result:
            result[...] = target
        return result if out is None else out

    cdef cnp.ndarray pixels(self, cnp.ndarray array):
        """A view as (n, d, h, w, c)."""
        axes = channels_last_axes(self._spatial, self._channels_last)
        view = array.transpose(axes)
        return view[(slice(None),) + (None,) * (3 - self._spatial)]

    def __reduce__(self):
        return _restore, ((
            self._weights_groups if self._grouped
            else self._weights_groups.reshape(self.weights_shape), self._layer._bias), dict(
            strides=self.strides, padding=self.padding, dilation=self.dilation, groups=self.groups, layout=self.layout,
            src_dtype=self.src_dtype, dst_dtype=self.dst_dtype, attributes=self.attributes,
            scales=self._layer.constants["scales"], zero_points=self._layer.constants["zero_points"],
            numerics=self._numerics))


def _restore(arguments, parameters):
    """The inverse of Convolution.__reduce__."""
    return Convolution(*arguments, **parameters)
