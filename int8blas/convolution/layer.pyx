"""The base class of convolution and deconvolution: arguments, epilogue and execution."""

import functools
import math

from libc.stdint cimport int64_t
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.convolution.depthwise cimport DepthwiseFilters, is_depthwise
from int8blas.convolution.dynamic_images cimport ImageParameters, dense, quantize_images
from int8blas.convolution.far_zeros cimport store_images
from int8blas.convolution.far_zeros import FarSums
from int8blas.convolution.filters cimport Filters, Images, set_images, sums_fit
from int8blas.convolution.groups cimport GroupFilters, has_small_groups
from int8blas.core.arrays cimport as_array, by_tensor, in_float32, items_of, output_of
from int8blas.core.kernels cimport i8_image
from int8blas.core.memory cimport close_arena, open_arena
from int8blas.core.parameters import INT32_TERMS
from int8blas.stage.layer_arguments import (
    FLOAT_DTYPES, INT8_DTYPES, INT16_DTYPES, PackedWeights, centered_weights, check_dtype, check_dynamic,
    check_no_source, dynamic_attributes, grouped_attributes, grouped_shape, grouped_values, int8_weights)
from int8blas.convolution.lines cimport LineFilters, has_lines, overlap
from int8blas.convolution.views cimport View, add_views, repeated_bound
from int8blas.core.results cimport Layout, check_layout, empty, empty_like, lay_out
from int8blas.gemm.call cimport is_usable
from int8blas.gemm.operand cimport SIGN_BIT
from int8blas.gemm.problem cimport Problem
from int8blas.stage.quantized_layer cimport QuantizedLayer
from int8blas.core.spatial import LAYOUTS, layout_name, padding_of, parse_padding, per_dimension, spatial_dimensions
from int8blas.core.split cimport ceil_div
from int8blas.stage.output_stage cimport Bound, Layer
from int8blas.stage.attributes import TENSORS, Attributes

cnp.import_array()


cdef class Phase:
    """Filters for every `steps`-th output in each of d, h and w, from `first` on.

    `taps` lists the kernel elements of the filters in each spatial dimension. None stands for all elements. Filters for
    outputs without taps do not read the source, and `reads_source` is False. Filters that do not read the source have
    one channel and one tap, which adds 0. Filters may compute `fold` neighbouring outputs of a line as the channels of
    one output.
    """

    def __init__(self, filters, taps=None, first=(0, 0, 0), steps=(1, 1, 1), reads_source=True, fold=1):
        cdef int d
        self.filters, self.taps, self.reads_source, self.fold = filters, taps, reads_source, fold
        for d in range(3):
            self.first[d], self.steps[d] = first[d], steps[d]

    cdef void set_part(self, Images *part, const Images *whole) noexcept:
        """Set `part` to the outputs of this phase in a destination."""
        cdef int d
        part[0] = whole[0]
        for d in range(3):
            if self.steps[d] > 1:
                part.data += self.first[d] * whole.steps[d + 1]
                part.size[d + 1] = max(<int64_t>0, ceil_div(whole.size[d + 1] - self.first[d], self.steps[d]))
                part.steps[d + 1] *= self.steps[d]
        part.size[4] *= self.fold

    cdef Images source_of(self, const Images *source, const Images *part) noexcept:
        """Return the images that the filters read for a part: the source, or its first element at every position."""
        cdef Images one
        cdef int d
        if self.reads_source:
            return source[0]
        one = part[0]
        one.data, one.end, one.size[4] = source.data, source.end, 1
        for d in range(5):
            one.steps[d] = 0
        return one

    cdef int pack_weights(self, weights) except -1:
        """Pack the filters' part of the layer's weights (g, oc, ic, ...)."""
        if self.taps is None:
            self.filters.pack_weights(weights)
        else:
            self.filters.pack_weights(weights[(slice(None),) * 3 + np.ix_(*self.taps)])
        return 0


cdef class Values:
    """The arguments of an execution, and the scale and the zero point of a dynamic source."""

    def __cinit__(self):
        self.finite = True

    cdef int set_source(self, float scale, int64_t zero) except -1:
        self.scales["src"], self.zero_points["src"] = np.float32(scale), zero
        return 0

    cdef int keep(self) except -1:
        """Copy all values. An execution that binds the arguments again after it has written a part of the destination
        calls `keep` first, because an argument may share memory with the destination."""
        self.scales = {tensor: as_array(x, "scales").copy() for tensor, x in self.scales.items()}
        self.zero_points = {tensor: as_array(x, "zero_points").copy() for tensor, x in self.zero_points.items()}
        if self.operands is not None:
            self.operands = [as_array(x, "operands").copy() for x in self.operands]
        return 0


cdef class ConvolutionLayer(QuantizedLayer):
    """A layer of filters. Subclasses define `padding_from`, `make_phases` and `output_size`."""

    def __init__(self, weights, bias=None, *, strides=1, padding=0, dilation=1, groups=1, layout=None, src_dtype,
                 dst_dtype, attributes=None, scales=None, zero_points=None, dynamic=None, dynamic_dtype="int8",
                 numerics="exact"):
        """Create the layer; the docstring of the class has the parameters."""
        self._dynamic = check_dynamic(dynamic, ("per_image", "per_tensor"))
        self.set_types(src_dtype, INT8_DTYPES + INT16_DTYPES if dynamic is None else FLOAT_DTYPES, dst_dtype,
                       attributes, numerics)
        self._dynamic_dtype = check_dtype(dynamic_dtype, "dynamic_dtype", INT8_DTYPES)
        quantized_dtype = self.src_dtype if dynamic is None else self._dynamic_dtype
        self._name = type(self).__name__.lower()
        self._flip = SIGN_BIT if quantized_dtype == np.int8 else 0
        (self.groups,) = per_dimension(groups, 1, "groups", 1)
        if not isinstance(weights, PackedWeights):
            weights = in_float32(weights, "weights")
        self.weights_shape = weights.shape
        bias = None if bias is None else in_float32(bias, "bias")
        shape, self._spatial = grouped_shape(self.weights_shape, self.groups, spatial_dimensions(layout), layout)
        self._grouped = len(self.weights_shape) == self._spatial + 3
        self._kernel = shape[3:]
        self.layout = LAYOUTS[self._spatial][0] if layout is None else layout_name(layout)
        self._channels_last = self.layout == LAYOUTS[self._spatial][0]
        self.strides = per_dimension(strides, self._spatial, "strides", 1)
        self.dilation = per_dimension(dilation, self._spatial, "dilation", 1)
        self.padding = self.padding_from(parse_padding(padding, self._spatial))
        self._shape, self._padded = shape, {}
        self._channels = self.groups * shape[2]
        outputs = self.groups * shape[1]
        scales = grouped_values(by_tensor(scales, "scales", TENSORS), self._grouped, self.groups)
        zero_points = grouped_values(by_tensor(zero_points, "zero_points", TENSORS), self._grouped, self.groups,
                                     "zero_points")
        weights = self.prepare_weights(weights, shape, scales, zero_points)
        self._phases = self.make_phases(shape, bias)
        self.set_weights(weights)
        attributes = grouped_attributes(self.attributes, self._grouped)
        if dynamic is not None:
            attributes = dynamic_attributes(attributes, scales, zero_points)
        dtypes = {"src": quantized_dtype, "weights": self._weights_dtype, "dst": self.dst_dtype}
        self._layer = Layer(attributes, outputs, bias, (<Phase>self._phases[0]).filters.column_sums(), dtypes, scales,
                            zero_points, "convolution", dims=self._spatial + 2)
        self._layer.window_zeros = self._zeros if self._far_zeros is None else self._far_zeros
        self._layer.depth = shape[2] * math.prod(self._kernel)
        self._constant = self._layer.bind_constants(self._channels_last)
        if self._constant is not None:
            self.check_far(self._constant)
        if self._wide and self._layer.depth > INT32_TERMS:
            raise ValueError(f"weights must have windows of at most {INT32_TERMS} elements with src_dtype "
                             f"{self.src_dtype}, got windows of {self._layer.depth}")

    cdef object padding_from(self, padding):
        """Return the padding. Replace a name such as "same" by (before, after) if the padding does not depend on the
        size of the source."""
        raise NotImplementedError

    cdef Filters filters_of(self, Phase phase, cnp.ndarray x):
        """Return the filters of a phase, for the padding of this source."""
        cdef int d, first = 1 if self._channels_last else 2
        cdef Filters filters
        if not isinstance(self.padding, str):
            return phase.filters
        sizes = [cnp.PyArray_DIM(x, first + d) for d in range(self._spatial)]
        pairs = padding_of(self.padding, sizes, self._kernel, self.strides, self.dilation)
        before = tuple([before for before, _ in pairs])
        filters = self._padded.get(before)
        if filters is None:
            # The packed matrix depends only on the weights.
            filters = self.make_filters(self._shape, self.strides, self.dilation, before, self._layer._bias, False)
            filters.restore(phase.filters.packed)
            self._padded[before] = filters
        return filters

    cdef tuple packed_of(self, weights):
        """Return one packed matrix for each phase. If a file has a different number of matrices, raise an error before
        any phase is created."""
        return weights.of(1)

    cdef list phases_in(self, const Images *whole, Bound bound):
        """Return phases that together with `fill_rest` write each element of a destination."""
        return self._phases

    cdef bint fills(self, Bound bound) except -1:
        """Return whether `fill_rest` has outputs to compute."""
        return False

    cdef int fill_rest(self, const Images *source, const Images *whole, Bound bound) except -1:
        """Compute the outputs that no phase computes, before the phases are computed. If there is no memory, raise an
        error before anything is written."""
        raise NotImplementedError

    cdef list make_phases(self, tuple shape, bias):
        """Return the phases of weights (g, oc, ic, ...). The weights of the phases are packed later."""
        raise NotImplementedError

    cdef object prepare_weights(self, weights, tuple shape, dict scales, dict zero_points):
        """Return int8 weights (g, oc, ic, ...), or the tuple of packed matrices. Set the zero points that packing does
        not subtract."""
        cdef int64_t outputs = self.groups * shape[1]
        if isinstance(weights, PackedWeights):
            packed = self.packed_of(weights)
            self._weights_dtype = weights.dtype
            if weights.zeros is not None and weights.zeros.shape != (outputs,):
                raise ValueError(f"weights must have been packed with {outputs} zero points, got {weights.zeros.shape}")
            self.set_zeros(weights.zeros)
            return packed
        if "weights" in zero_points and self._saturating:
            raise ValueError("zero_points['weights'] must not be given with numerics 'saturating'")
        if "weights" in zero_points and weights.dtype == np.float32:
            raise ValueError("zero_points['weights'] must not be given for float32 weights, which are quantized "
                             "to int8 without any")
        allowed = INT8_DTYPES[1:] if self._saturating else INT8_DTYPES[::-1]
        weights = int8_weights(weights.reshape(outputs, *shape[2:]), scales, allowed)
        self._weights_dtype = weights.dtype
        weights, zeros = centered_weights(weights, zero_points.get("weights", 0))
        self.set_zeros(zeros)
        return weights.reshape(shape)

    cdef int set_zeros(self, zeros) except -1:
        """Set the zero points of packed weights, or None."""
        is_far = zeros is not None and zeros.dtype != np.int8
        self._zeros, self._far_zeros = (None, zeros) if is_far else (zeros, None)
        return 0

    cdef int set_weights(self, weights) except -1:
        cdef Phase phase
        if isinstance(weights, tuple):
            for phase, packed in zip(self._phases, weights):
                phase.filters.restore(packed)
        else:
            for phase in self._phases:
                phase.pack_weights(weights)
        return 0

    cdef int64_t output_size(self, int64_t size, int d) except -1:
        """Return the size of the destination in spatial dimension d, for a source of size `size`."""
        raise NotImplementedError

    cdef Filters make_filters(self, tuple shape, tuple strides, tuple dilation, tuple before, bias, bint partial):
        """Choose the strategy for weights (g, oc, ic, ...), and return its filters."""
        cdef bint halved = self._saturating and self._flip != 0
        cdef bint fits = sums_fit(math.prod(shape[2:]), bias, self._zeros is not None)
        cdef Filters filters
        absent = (1,) * (3 - self._spatial)
        shape = shape[:3] + absent + shape[3:]
        strides, dilation, before = absent + strides, absent + dilation, (0,) * len(absent) + before
        if not self._saturating and fits and is_depthwise(shape, strides, dilation):
            filters = DepthwiseFilters(shape, strides, dilation, before, partial, self._zeros)
        elif not self._saturating and fits and has_small_groups(shape, strides, dilation):
            filters = GroupFilters(shape, strides, dilation, before, partial)
        elif not self._saturating and shape[3] == 1 and overlap(shape, strides) and has_lines(shape, dilation):
            filters = LineFilters(shape, strides, dilation, before, partial)
        else:
            filters = Filters(shape, strides, dilation, before, self._saturating, halved, partial)
        filters.fits = fits
        filters.set_zeros(self._zeros)
        return filters

    @classmethod
    @cython.binding(True)  # inspect finds no signature in a built-in class method
    def dynamic(cls, weights, bias=None, **options):
        """Create a layer from float images to float images that quantizes weights and images.

        float32 weights are quantized by the range of each output channel. Each execution quantizes each image by its
        range. The `options` are the other arguments of the class. The defaults are ``dynamic="per_image"``, float32 for
        ``src_dtype`` and ``dst_dtype``, and ``scales={"weights": "per_channel"}`` for float weights.

        Parameters
        ----------
        weights : array_like of float32, or of int8 or uint8 with their scales
            As for the class.
        bias : array_like of float32 or int32, optional
            As for the class.

        Returns
        -------
        layer
            An object of this class.

        Raises
        ------
        TypeError, ValueError
            As for the class.
        """
        options = {"dynamic": "per_image", "src_dtype": np.float32, "dst_dtype": np.float32, **options}
        if not isinstance(weights, PackedWeights):
            weights = in_float32(weights, "weights")
            if weights.dtype == np.float32:
                options["scales"] = {"weights": "per_channel", **by_tensor(options.get("scales"), "scales", TENSORS)}
        return cls(weights, bias, **options)

    def __repr__(self):
        dynamic = f", dynamic={self._dynamic!r}" if self._dynamic else ""
        return f"{type(self).__name__}{self.weights_shape}[{self.src_dtype} -> {self.dst_dtype}{dynamic}]"

    def __call__(self, src, *, scales=None, zero_points=None, operands=None, out=None):
        """Execute the layer.

        Parameters
        ----------
        src : array_like of `src_dtype`
            The images, in the layout of the layer, with any strides.
        scales, zero_points : mapping of str to numbers, optional
            The values, for tensors that got only a mask when the layer was created.
        operands : sequence of array_like, optional
            Operands of the Binary and PReLU post-ops that were created without an operand, in order. Operands broadcast
            to the shape of the destination. An operand with a value for each pixel is copied if the layout has channels
            first, and by deconvolutions with strides.
        out : ndarray of `dst_dtype`, optional
            The array for the result, with any strides. A Sum post-op adds to the content of `out`.

        Returns
        -------
        ndarray of `dst_dtype`
            ``out`` if it is given, or a new array in the layout of the layer.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above. Nothing is written then.
        """
        cdef cnp.ndarray x, target, result
        cdef Values values = None
        cdef Bound bound = self._constant
        cdef cnp.npy_intp shape[5]
        cdef Layout layout
        cdef int d
        cdef bint keeps
        self.created()
        cdef bint binds = scales is not None or zero_points is not None or operands is not None or bound is None
        if (cnp.PyArray_CheckExact(src) and cnp.PyArray_TYPE(<cnp.ndarray>src) == self._src_type
                and cnp.PyArray_ISNOTSWAPPED(<cnp.ndarray>src)):
            x = src
        else:
            x = self.source(src)
        lay_out(&layout, x)
        self.set_shape(x, shape)
        if binds:
            values = Values.__new__(Values)
            values.shape = tuple([shape[d] for d in range(self._spatial + 2)])
            values.operands = None if operands is None else items_of(operands, "operands")
            values.scales = grouped_values(by_tensor(scales, "scales", TENSORS), self._grouped, self.groups)
            values.zero_points = by_tensor(zero_points, "zero_points", TENSORS)
            if self._dynamic is not None:
                for given, name in ((values.scales, "scales"), (values.zero_points, "zero_points")):
                    check_no_source(given, name)
                values.set_source(1, 0)
            bound = self.bind(values, None)
        if out is None:
            if self._layer.has_sum:
                raise ValueError("out must be given, as a Sum post-op adds to it")
            result = target = empty(self._spatial + 2, shape, self._dst_type)
        else:
            result = target = output_of(out, "out", self._dst_type)
            if cnp.PyArray_NDIM(result) != self._spatial + 2 or not cnp.PyArray_CompareLists(
                cnp.PyArray_DIMS(result), shape, self._spatial + 2
            ):
                raise ValueError(f"out must have shape {tuple([shape[d] for d in range(self._spatial + 2)])}, got "
                                 f"{(<object>result).shape}")
            if not is_usable(result, x, (<Phase>self._phases[0]).filters.packed):
                target = empty(self._spatial + 2, shape, self._dst_type)
                if self._layer.has_sum:
                    target[...] = result
        check_layout(&layout, x, "src")
        keeps = out is not None and target is result
        open_arena()
        try:
            if self._dynamic is None:
                self.execute(x, target, bound, values, 0, shape[0], keeps)
            else:
                self.execute_dynamically(x, target, values, keeps)
        finally:
            close_arena()
        if target is not result:
            result[...] = target
        return result if out is None else out

    cdef Bound bind(self, Values values, tuple part):
        """Bind the values of an execution for the whole destination, or for the part `part` of destination and
        operands."""
        cdef Bound bound = self._layer.bind(values.scales, values.zero_points, values.operands, 0, values.shape,
                                            self._channels_last, part)
        if not values.finite:
            bound.set_nan()
        return bound

    cdef int execute(self, cnp.ndarray x, cnp.ndarray target, Bound bound, Values values, int64_t first,
                     int64_t count, bint keeps) except -1:
        """Execute `count` quantized images from `first` on, with the values in `bound`.

        If `bound` is used only in this execution, `values` are the values from which `bound` was created. With `keeps`,
        the target belongs to the caller, and is written completely, or not at all if there is no memory.
        """
        cdef Images source, whole, part, src
        cdef Phase phase
        cdef View view
        cdef list phases, views = []
        cdef Bound repeated = bound
        cdef int64_t fold = 1
        cdef bint rebinds, fills
        if bound.far or self._wide:
            return self.execute_far(x, target, bound, values, first, count)
        set_images(&source, x, self._channels_last)
        set_images(&whole, target, self._channels_last)
        phases, fills = self.phases_in(&whole, bound), self.fills(bound)
        rebinds = (len(phases) > 1 or count < source.size[0]) and bound.reads_pixels()
        source.data += first * source.steps[0]
        whole.data += first * whole.steps[0]
        source.size[0] = whole.size[0] = count
        for phase in phases:
            phase.set_part(&part, &whole)
            if rebinds:
                repeated = self.bind(values, self.slices(phase, first, count))
            elif phase.fold != fold:
                fold = phase.fold
                repeated = repeated_bound(bound, whole.size[4], fold) if fold > 1 else bound
            src = phase.source_of(&source, &part)
            add_views(views, self.filters_of(phase, x), repeated, &src, &part, self._flip)
        if keeps and first == 0 and len(views) + fills > 1:
            # If there is no memory for a view, raise the error before any view writes. Later images reuse the memory of
            # the first image.
            for view in views:
                view.filters.run(view.bound, &view.src, &view.dst, self._flip, True, self._name)
        if fills:
            self.fill_rest(&source, &whole, bound)
        for view in views:
            view.filters.run(view.bound, &view.src, &view.dst, self._flip, False, self._name)
        return 0

    cdef int execute_far(self, cnp.ndarray x, cnp.ndarray target, Bound bound, Values values, int64_t first,
                         int64_t count) except -1:
        """Execute some images of 16 bits, or with zero points beyond their types."""
        cdef cnp.ndarray part, sums
        self.check_far(bound)
        if self._far_sums is None:
            self._far_sums = self.make_far_sums()
        if count < x.shape[0] and bound.reads_pixels():
            bound = self.bind(values, (slice(first, first + count),))
        sums = self._far_sums(x[first:first + count], bound.padding())
        whole = np.moveaxis(target[first:first + count], -1 if self._channels_last else 1, -1)
        part = np.array(whole, order="C")
        store_images(bound, sums, part)
        whole[...] = part
        return 0

    cdef int check_far(self, Bound bound) except -1:
        """Raise an error if zero points are beyond their types and the layer cannot compute with them."""
        if bound.far and self._saturating:
            raise ValueError("zero_points must be in the ranges of their types with numerics 'saturating'")
        if bound.far and self._layer.depth > INT32_TERMS:
            raise ValueError(f"zero_points must be in the ranges of their types for windows of more than {INT32_TERMS} "
                             f"elements, got windows of {self._layer.depth}")
        return 0

    cdef object make_far_sums(self):
        """Return the layers that compute the sums for any zero points."""
        options = self.parameters() | {
            "dst_dtype": np.int32, "attributes": Attributes(zero_points={"src": 0}), "scales": None,
            "zero_points": None, "dynamic": None}
        del options["src_dtype"]
        packed = tuple([(<Phase>phase).filters.packed for phase in self._phases])
        weights = PackedWeights(self.weights_shape, packed, INT8_DTYPES[1], self._zeros)
        src_dtype = self.src_dtype if self._dynamic is None else self._dynamic_dtype
        # A 16-bit source has an upper limb, with the sign, and an unsigned lower limb.
        limbs = [src_dtype] if not self._wide else [INT8_DTYPES[src_dtype.kind == "i"], INT8_DTYPES[0]]
        plain = [type(self)(weights, **options, src_dtype=limb) for limb in limbs]
        if self._far_zeros is None:
            return FarSums(plain, None, None)
        ones = np.ones((self.groups, *self._shape[2:]), np.int8)
        return FarSums(plain, [type(self)(ones, **options, src_dtype=limb) for limb in limbs], self._far_zeros)

    cdef int execute_dynamically(self, cnp.ndarray x, cnp.ndarray target, Values values, bint keeps) except -1:
        """Execute all images. Quantize each image by its range, or all images by their common range."""
        cdef cnp.ndarray quantized
        cdef ImageParameters found
        cdef Layout layout
        cdef int64_t first, images = cnp.PyArray_DIM(x, 0)
        cdef int64_t count = 1 if self._dynamic == "per_image" else max(<int64_t>1, images)
        x = dense(x)
        lay_out(&layout, x)
        quantized = empty_like(x, self._dynamic_dtype.num)
        if keeps:
            values.keep()
        for first in range(0, images, count):
            check_layout(&layout, x, "src")  # binding the operands of an image may run Python code
            found = quantize_images(x, quantized, first, count)
            values.set_source(found.scale, found.zero)
            values.finite = found.finite
            self.execute(quantized, target, self.bind(values, None), values, first, count, keeps)
        return 0

    cdef int set_shape(self, cnp.ndarray x, cnp.npy_intp *shape) except -1:
        """Check the shape of a source, and set the shape of the destination."""
        cdef int d, first = 1 if self._channels_last else 2
        cdef int channel = self._spatial + 1 if self._channels_last else 1
        if cnp.PyArray_NDIM(x) != self._spatial + 2:
            raise ValueError(f"src must have {self._spatial + 2} dimensions, {self.layout}, got shape "
                             f"{(<object>x).shape}")
        if cnp.PyArray_DIM(x, channel) != self._channels:
            raise ValueError(f"src must have {self._channels} channels, got shape {(<object>x).shape} in layout "
                             f"{self.layout}")
        shape[0], shape[channel] = cnp.PyArray_DIM(x, 0), self._layer.columns
        for d in range(self._spatial):
            shape[first + d] = self.output_size(cnp.PyArray_DIM(x, first + d), d)
        return 0

    cdef tuple describe(self, cnp.ndarray x, Problem *g, i8_image *image, size_t *workspace):
        """Describe the first phase, for a source and a new destination. Return the path, and the owners of the memory
        to which the problem points. The caller must keep the owners while it reads the problem."""
        cdef cnp.npy_intp shape[5]
        cdef Images source, whole, part
        cdef Phase phase = self._phases[0]
        cdef Filters filters
        cdef View view
        cdef list views = []
        cdef Values values
        cdef cnp.ndarray quantized, dst
        cdef ImageParameters found
        cdef Bound bound = self._constant
        x = self.source(x)
        self.set_shape(x, shape)
        if self._dynamic is not None and self._layer.lacks_source_alone():
            # The plan depends on the images only by the zero point of an unsigned source, which their range determines.
            values = Values.__new__(Values)
            values.shape, values.scales, values.zero_points = (self._layer.columns,), {}, {}
            x = dense(x)
            quantized = empty_like(x, self._dynamic_dtype.num)
            found = quantize_images(x, quantized, 0, x.shape[0])
            values.set_source(found.scale, found.zero)
            bound, x = self.bind(values, None), quantized
        if self._wide:
            raise ValueError(f"b must be a layer with a source of 8 bits, got {self}: it is computed by two such "
                             "layers")
        if bound is None:
            raise ValueError("b must be a layer that was created with all of its scales, zero points and operands")
        set_images(&source, x, self._channels_last)
        dst = empty(self._spatial + 2, shape, self._dst_type)
        set_images(&whole, dst, self._channels_last)
        phase.set_part(&part, &whole)
        filters = self.filters_of(phase, x)
        add_views(views, filters, bound, &source, &part, self._flip)
        view = views[0]
        path = view.filters.describe(view.bound, &view.src, &view.dst, self._flip, g, image, workspace)
        return path, (view, x, dst)

    cdef tuple slices(self, Phase phase, int64_t first, int64_t count):
        """Return the slices of the destination (channels last) that a phase computes for some images."""
        cdef int d
        spatial = [slice(phase.first[d], None, phase.steps[d]) for d in range(3 - self._spatial, 3)]
        return (slice(first, first + count), *spatial, slice(None))

    cdef dict parameters(self):
        """Return the arguments of the constructor, except weights and bias."""
        return dict(
            strides=self.strides, padding=self.padding, dilation=self.dilation, groups=self.groups, layout=self.layout,
            src_dtype=self.src_dtype, dst_dtype=self.dst_dtype, attributes=self.attributes,
            scales=dict(self.scales), zero_points=dict(self.zero_points),
            dynamic=self._dynamic, dynamic_dtype=self._dynamic_dtype, numerics=self._numerics)

    def __reduce__(self):
        packed = tuple([(<Phase>phase).filters.packed for phase in self._phases])
        layer = functools.partial(type(self), **self.parameters())
        zeros = self._zeros if self._far_zeros is None else self._far_zeros
        return layer, (PackedWeights(self.weights_shape, packed, self._weights_dtype, zeros), self._layer._bias)
