"""The inner product (fully connected, linear) layer: a GEMM with a fused epilogue::

    dst[n, oc] = post_ops(scale_src * scale_weights[oc] * sum + bias[oc]) / scale_dst + zp_dst
    sum = sum over k of (src[n, k] - zp_src) * (weights[oc, k] - zp_weights[oc])

The sum is an exact integer. Operations after the sum are float32, in the order of the formula, but the product of the
scales and the reciprocal of scale_dst come first. An integer destination is rounded half to even and saturated. Without
scales, post-ops and a float bias, an int32 destination is exact: sat(sum + bias_s32 + zp_dst).

If weights have a scale for each group of k, each group has its own sum. The sums of groups are scaled and added in
float32 (see gemm/scale_groups.pyx).
"""

import functools
from math import prod
from types import MappingProxyType

from libc.stdint cimport int64_t, uint8_t
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport by_tensor, in_float32, output_of
from int8blas.core.file import register
from int8blas.core.parameters import integer
from int8blas.core.words import is_option, shown
from int8blas.stage.four_bits import integer_weights, packed_in_groups, zeros_of_groups
from int8blas.stage.layer_arguments import (
    FLOAT_DTYPES, INT8_DTYPES, INT16_DTYPES, PackedWeights, check_dtype, check_given, group_size, int8_weights)
from int8blas.core.kernels cimport I8_MAX_COLUMNS, I8_PANEL
from int8blas.core.results cimport Layout, check_layout, empty, empty_of, lay_out
from int8blas.core.split cimport ceil_div
from int8blas.core.threads cimport max_threads
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.gemm.dynamic_source cimport set_tensor_parameters
from int8blas.gemm.call cimport is_usable, run_problem, set_a, set_c
from int8blas.gemm.four_bits cimport PackedB4
from int8blas.gemm.matmul cimport limbs_of, sum_of_limbs
from int8blas.gemm.operand cimport SIGN_BIT
from int8blas.gemm.output cimport WideSums, store_sums
from int8blas.gemm.packed cimport Packed
from int8blas.gemm.problem cimport DynamicSource, Problem, start
from int8blas.stage.columns cimport padded
from int8blas.stage.output_stage cimport Bound, Layer, element_type
from int8blas.stage.quantized_layer cimport QuantizedLayer
from int8blas.stage.attributes import TENSORS
from int8blas.gemm.packing cimport PackedB, pack

cnp.import_array()


cdef class InnerProduct(QuantizedLayer):
    """A quantized fully connected layer, which is created once and executed many times.

    Parameters
    ----------
    weights : array_like of int8, uint8 or float32, or PackedB or PackedB4
        The shape is (oc, ic). All dimensions after oc are flattened, for example of (oc, ic, kh, kw). A PackedB is the
        transpose, (ic, oc). float32 weights are quantized to int8 in [-127, 127], and need ``scales["weights"]``:
        "per_channel", "per_tensor" (both max|w| / 127), or values.
    bias : array_like of float32 or int32, optional
        Shape (oc,): float32 in real units, int32 in units of the accumulator.
    src_dtype : dtype, optional
        uint8, int8, uint16 or int16; with `dynamic` float32, float16 or bfloat16. Without `dynamic`, `src_dtype` and
        `dst_dtype` must be given. A layer with the `src_dtype` float32 takes sources of float32, float16 and bfloat16.
        A 16-bit integer source needs two 8-bit products.
    dst_dtype : dtype, optional
        uint8, int8, int32, float32, float16 or bfloat16.
    attributes : Attributes, optional
        Masks of scales and zero points, and post-ops. Values in `scales` and `zero_points` need no mask: one value has
        mask 0, a vector has the mask of output channels, or of rows for "src".
    scales, zero_points : mapping of str to numbers, optional
        Constant values for "src", "weights" and "dst". Values that are not constant are arguments of each execution. A
        tensor without a scale has scale 1. There is one zero point, or one for each row of "src", or one for each
        output channel of "weights" and "dst".
    dynamic : {'per_row', 'per_tensor'}, optional
        Quantize a float source in each execution, by the range of each row or of the whole source. :meth:`dynamic` has
        defaults for such a layer.
    dynamic_dtype : dtype, optional
        The type of the quantized source. int8 is symmetric, with the scale max|x| / 127. uint8 has a zero point, and
        the scale (max - min) / 255 for a range that contains 0.
    numerics : {'exact', 'saturating'}, optional
        As in :func:`gemm_u8s8s32`, which the layer calls.
    group : int, optional
        The number of consecutive weights of an output channel that share a scale (see Notes).
    bits : {8, 4}, optional
        The bits of a weight. With 4, int8 weights have values from -8 to 7, uint8 weights have values from 0 to 15, and
        float32 weights become int4 with the scale max|w| / 7. If the weights are a PackedB4, `bits` is ignored.

    Attributes
    ----------
    weights_shape : tuple of int
        The shape of the given `weights`.
    src_dtype, dst_dtype : numpy.dtype
        The types of source and destination.
    attributes : Attributes
        As given to the constructor.
    scales, zero_points : mapping of str to numpy scalar or ndarray
        The constant values: the values given at creation, and the scales of quantized weights. Arrays are read-only.
    bias : ndarray or None
        The given bias, read-only.
    group : int or None
        The number of weights of an output channel that share a scale. `group` is None if all weights of an output
        channel share one scale.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. The error names the argument.

    Notes
    -----
    All arithmetic after the sum is float32 in the order of the formula, without fused multiply-adds, so every CPU gives
    the same bits. Without scales, post-ops and a float32 bias, an int32 destination is exact: the layer adds integers
    and saturates once. The scale of the destination must exceed 2**-128, and the product of the scales of source and
    weights must be finite. Source dtypes and masks follow oneDNN's specification. With `output_scales`, as on oneDNN's
    page "Primitive Attributes, Quantization", the layer adds the bias to the accumulator before scaling.

    **Groups of k.** Scales of the weights may be a matrix of shape (ic / group, oc): each output channel has one scale
    for each `group` of its ic weights, for example 32, 64 or 128. `group` is a multiple of 4 that divides ic, and at
    most 16384. Scales by groups are given when the layer is created, and their shape determines `group`. The mask of
    scales by groups, if declared, is ``(1 << 0) | (1 << 1)``. ``scales={"weights": "per_channel"}`` and `group`
    quantize each group of float32 weights by its own range. Zero points of the weights may be a matrix of shape (ic /
    group, oc) too. Scales and zero points of the source may have the shape (n, ic / group) and the mask ``(1 << 0) | (1
    << 1)``, and executions may supply them. The sums of groups are exact integers, which are scaled and added in
    float32 from the first group to the last. Each float32 operation is rounded once::

        sum[g] = sum over k of group g of (src[n, k] - zp_src[n, g]) * (weights[oc, k] - zp_weights[g, oc])
        y = f32(sum[0]) * (scale_src[n, 0] * scale_weights[0, oc])
        y = y + f32(sum[g]) * (scale_src[n, g] * scale_weights[g, oc])        for g = 1, 2, ...
        dst[n, oc] = post_ops(y + bias[oc]) / scale_dst + zp_dst

    With groups, the bias must be float32, and the requantization 'float' or 'onnx'.

    **Weights of 4 bits** take half of the memory of int8 weights. With 4 bits, `group` is a multiple of 8. If `group`
    does not divide ic, the last group is shorter, and scales have the shape (ceil(ic / group), oc).
    ``zero_points["weights"]`` may have the shape of the scales.

    A row of a dynamic source with an infinity or NaN has no range, and all its results are NaN before the post-ops.
    With 'per_tensor', one infinity or NaN makes all results NaN. An integer destination has no NaN, and gets its zero
    point instead, which stands for 0.0.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> weights = np.array([[1.0, -0.5], [0.25, 2.0], [-1.0, 1.0]], np.float32)
    >>> layer = int8blas.InnerProduct(weights, np.array([0.5, 0, 0], np.float32), src_dtype=np.uint8,
    ...                               dst_dtype=np.float32, scales={"src": 0.5, "weights": "per_channel"})
    >>> layer(np.array([[2, 4]], np.uint8))
    array([[0.492126 , 4.2519684, 1.       ]], dtype=float32)
    >>> dynamic = int8blas.InnerProduct.dynamic(weights)
    >>> dynamic(np.array([[1, 2]], np.float32)).round(2)
    array([[0.  , 4.25, 0.99]], dtype=float32)
    >>> w = np.random.default_rng(0).normal(0, 1, (3, 256)).astype(np.float32)
    >>> int8blas.InnerProduct(w, src_dtype=np.uint8, dst_dtype=np.float32, group=64,
    ...                       scales={"src": 0.5, "weights": "per_channel"}).scales["weights"].shape
    (4, 3)
    >>> int8blas.InnerProduct.dynamic(w, group=32, bits=4).weights
    PackedB4(shape=(256, 3), dtype=int4)
    """

    def __init__(self, weights, bias=None, *, src_dtype=None, dst_dtype=None, attributes=None, scales=None,
                 zero_points=None, dynamic=None, dynamic_dtype="int8", numerics="exact", group=None, bits=8):
        """Create the layer; the docstring of the class has the parameters."""
        if dynamic is not None and (not isinstance(dynamic, str) or dynamic not in ("per_row", "per_tensor")):
            raise ValueError(f"dynamic must be 'per_row', 'per_tensor' or None, got {dynamic!r}")
        check_given(src_dtype, dst_dtype, dynamic)
        self.set_types(src_dtype, INT8_DTYPES + INT16_DTYPES if dynamic is None else FLOAT_DTYPES, dst_dtype,
                       attributes, numerics)
        self._dynamic_dtype = check_dtype(dynamic_dtype, "dynamic_dtype", INT8_DTYPES)
        scales, zero_points = by_tensor(scales, "scales", TENSORS), by_tensor(zero_points, "zero_points", TENSORS)
        if not is_option(bits, (8, 4)):
            raise ValueError(f"bits must be 8 or 4, got {shown(bits)}")
        group = None if group is None else integer(group, "group")
        if bits == 4 or isinstance(weights, PackedB4) or is_packed_in_four_bits(weights):
            size = self.set_four_bits(weights, scales, zero_points, group)
            sums = self._four_bits.group_sums(size, self._group_zeros) if size else self._four_bits._sums
        else:
            self.set_weights(weights, scales, group)
            self._k, self._n = self._packed._k, self._packed._n
            size = group_size(scales.get("weights"), group, self._n, self._k)
            sums = self._packed.group_sums(size) if size else self._packed._sums
        if size and self._wide:
            raise ValueError(f"scales['weights'] must not be by groups of k with src_dtype {self.src_dtype}")
        self.group = size or None
        self._dynamic = dynamic
        dtypes = {"src": self.src_dtype if dynamic is None else self._dynamic_dtype,
                  "weights": np.dtype(np.int8) if self._packed is None else self._packed.dtype, "dst": self.dst_dtype}
        self._layer = Layer(self.attributes, self._n, bias, sums, dtypes, scales, zero_points,
                            "static" if dynamic is None else "dynamic", size, bits=self.bits)
        self._layer.depth = self._k
        if dynamic is not None:
            self._source.symmetric = self._dynamic_dtype == np.int8
            self._source.per_row = dynamic == "per_row"
            self._source.scale, self._source.zero = 1, 0
        self._constant = self._layer.bind_constants()

    @classmethod
    @cython.binding(True)  # inspect finds no signature in a built-in class method
    def dynamic(cls, weights, bias=None, *, dynamic="per_row", dynamic_dtype="int8", src_dtype="float32",
                dst_dtype="float32", attributes=None, scales=None, zero_points=None, numerics="exact", group=None,
                bits=8):
        """Create a layer from float32 to float32: the constructor with the defaults of a dynamic layer.

        ``InnerProduct.dynamic(w, b)(x)`` is about ``x @ w.T + b``

        Parameters
        ----------
        weights : array_like of float32, int8 or uint8, or PackedB
            As for the class. float64, float16 and bfloat16 are converted to float32. Real weights are quantized with a
            scale for each output channel, unless `scales` has ``"per_tensor"`` or values for "weights".
        bias : array_like of float32 or int32, optional
            As for the class.
        dynamic : {'per_row', 'per_tensor'}, optional
            Whether each row of a source has its own range, or the whole source has one range.
        dynamic_dtype, src_dtype, dst_dtype, attributes, scales, zero_points, numerics
            As for the class.
        group : int, optional
            The number of weights of an output channel that share a scale, as for the class.
        bits : {8, 4}, optional
            The bits of a weight, as for the class.

        Returns
        -------
        InnerProduct

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above. The error names the argument.

        Examples
        --------
        >>> import numpy as np, int8blas
        >>> w, b = np.array([[1.0, -0.5], [0.25, 2.0], [-1.0, 1.0]]), np.array([0.5, 0, 0])
        >>> layer = int8blas.InnerProduct.dynamic(w, b)
        >>> layer
        InnerProduct(3, 2)[float32 -> float32, dynamic='per_row']
        >>> layer(np.array([[1, 2]], np.float32)).round(2)
        array([[0.5 , 4.25, 0.99]], dtype=float32)
        >>> int8blas.InnerProduct.dynamic(np.ones((3, 128), np.float32), group=32)
        InnerProduct(3, 128)[float32 -> float32, dynamic='per_row', group=32]
        """
        if dynamic is None:
            raise ValueError("dynamic must be 'per_row' or 'per_tensor', got None")
        scales = by_tensor(scales, "scales", TENSORS)
        if not isinstance(weights, (PackedB, PackedB4)):
            weights = in_float32(weights, "weights")
            if weights.dtype == np.float32:
                scales.setdefault("weights", "per_channel")
        return cls(weights, bias, src_dtype=src_dtype, dst_dtype=dst_dtype, attributes=attributes, scales=scales,
                   zero_points=zero_points, dynamic=dynamic, dynamic_dtype=dynamic_dtype, numerics=numerics,
                   group=group, bits=bits)

    cdef int set_weights(self, weights, dict scales, group) except -1:
        cdef cnp.ndarray array
        if isinstance(weights, PackedB):
            self._packed = weights
            self.weights_shape = (self._packed._n, self._packed._k)
            return 0
        if isinstance(weights, PackedWeights):
            (self._packed,) = weights.of(1)
            self.weights_shape = weights.shape
            if self._packed.shape != (prod(weights.shape[1:]), *weights.shape[:1]):
                raise ValueError(f"weights must have been packed in their shape {weights.shape}, got {self._packed}")
            return 0
        array = in_float32(weights, "weights")
        if array.ndim < 2:
            raise ValueError(f"weights must have at least 2 dimensions, got shape {(<object>array).shape}")
        array = int8_weights(array, scales, INT8_DTYPES[::-1], group)
        self.weights_shape = (<object>array).shape
        # For an array without elements, NumPy's reshape cannot infer a dimension of -1.
        self._packed = pack(array.reshape(self.weights_shape[0], prod(self.weights_shape[1:])), True)
        return 0

    cdef int64_t set_four_bits(self, weights, dict scales, dict zero_points, group) except -1:
        """Check weights of 4 bits, quantize and pack them, and remove their zero points by groups from `zero_points`.
        Return the number of k in a group, or 0."""
        cdef int64_t size, groups
        if isinstance(weights, PackedWeights):
            self.weights_shape = weights.shape
            (weights,) = weights.of(1)
        elif isinstance(weights, PackedB4):
            self.weights_shape = weights.shape[::-1]
        elif isinstance(weights, PackedB):
            raise TypeError("weights must be an array or a PackedB4 with bits=4, got a PackedB")
        else:
            weights = in_float32(weights, "weights")
            if weights.ndim < 2:
                raise ValueError(f"weights must have at least 2 dimensions, got shape {weights.shape}")
            self.weights_shape = weights.shape
            weights = weights.reshape(len(weights), prod(weights.shape[1:]))
        self._k, self._n = prod(self.weights_shape[1:]), self.weights_shape[0]
        size = group_size(scales.get("weights"), group, self._n, self._k, 4)
        if not isinstance(weights, PackedB4):
            weights = integer_weights(weights, scales, size)
            if not size:
                size = group_size(scales.get("weights"), None, self._n, self._k, 4)
        groups = ceil_div(self._k, size) if size else 0
        if size and self._k % size and "weights" not in zero_points and "weights" in self.attributes.zero_points:
            # The last group is padded with weights that equal their zero points.
            raise ValueError("zero_points['weights'] must be given when the layer is created, or group must divide the "
                             f"input channels, got group={size} for {self._k} input channels")
        if size and "weights" in zero_points:
            self._given_zeros = zeros_of_groups(zero_points.pop("weights"), groups, self._n, weights.dtype)
        packed = packed_in_groups(weights, size, self._given_zeros)
        if packed.shape != (groups * size if size else self._k, self._n):
            raise ValueError(f"weights must have been packed in their shape {self.weights_shape}, got {packed}")
        self._four_bits = packed
        if self._given_zeros is not None:
            panels = ceil_div(self._n, I8_PANEL)
            by_column = np.zeros((groups, panels * I8_PANEL), np.uint8)
            by_column[:, :self._n] = self._given_zeros + self._four_bits._matrix.zero
            self._group_zeros = np.ascontiguousarray(by_column.reshape(groups, panels, I8_PANEL).transpose(1, 0, 2))
        return size

    cdef cnp.ndarray in_whole_groups(self, cnp.ndarray x):
        """Return the source, padded with zeros to whole groups of k. The weights are padded with their zero points."""
        cdef int64_t rows = cnp.PyArray_DIM(x, 0)
        cdef cnp.ndarray wide = np.zeros((rows, self._four_bits._k), x.dtype)
        wide[:, :self._k] = x
        return wide

    @property
    def bits(self):
        """The bits of a weight, 8 or 4."""
        return 4 if self._packed is None else 8

    @property
    def zero_points(self):
        """The zero points that are constant for all executions."""
        constant = self.created().constants["zero_points"]
        return constant if self._given_zeros is None else MappingProxyType({**constant, "weights": self._given_zeros})

    @property
    def weights(self):
        """The packed weights, a PackedB or PackedB4 of shape (ic, oc). With 4 bits ic is padded to whole groups."""
        return self._four_bits if self._packed is None else self._packed

    def __repr__(self):
        dynamic = f", dynamic={self._dynamic!r}" if self._dynamic else ""
        group = f", group={self.group}" if self.group else ""
        bits = ", bits=4" if self._packed is None else ""
        return f"InnerProduct{self.weights_shape}[{self.src_dtype} -> {self.dst_dtype}{dynamic}{group}{bits}]"

    def __reduce__(self):
        # Store the layer's own copies of the values, because the caller may have changed the given arrays.
        layer = functools.partial(
            type(self), src_dtype=self.src_dtype, dst_dtype=self.dst_dtype, attributes=self.attributes,
            scales=dict(self.scales), zero_points=dict(self.zero_points),
            dynamic=self._dynamic, dynamic_dtype=self._dynamic_dtype, numerics=self._numerics)
        if self._packed is None:
            layer.keywords.update(group=self.group, bits=4)
        return layer, (PackedWeights(self.weights_shape, (self.weights,)), self._layer._bias)

    def __call__(self, src, *, scales=None, zero_points=None, operands=None, out=None):
        """Execute the layer.

        Parameters
        ----------
        src : array_like of `src_dtype`
            (n, ic) or (..., ic), with any strides. As in oneDNN, `src` may also have the last dimensions of the
            weights, for example (n, c, h, w) for weights (oc, c, h, w). These dimensions are flattened.
        scales, zero_points : mapping of str to numbers, optional
            The values, for tensors that got only a mask when the layer was created.
        operands : sequence of array_like, optional
            Operands of the Binary and PReLU post-ops that were created without an operand, in order.
        out : ndarray of `dst_dtype`, optional
            The array for the result, with any strides. A Sum post-op adds the result to the content of `out`.

        Returns
        -------
        ndarray of `dst_dtype`
            ``out`` if it is given. The shape is (n, oc), or (..., oc).

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above. Nothing is written then.
        """
        cdef cnp.ndarray x, matrix, target, result
        cdef Bound bound = self._constant
        cdef cnp.npy_intp shape[2]
        cdef Layout layout
        cdef bint flat
        self.created()
        if (cnp.PyArray_CheckExact(src) and cnp.PyArray_TYPE(<cnp.ndarray>src) == self._src_type
                and cnp.PyArray_ISNOTSWAPPED(<cnp.ndarray>src)):
            x = src
        else:
            x = self.source(src)
        flat = cnp.PyArray_NDIM(x) == 2 and cnp.PyArray_DIM(x, 1) == self._k
        matrix, leading = (x, None) if flat else self.flattened(x)
        lay_out(&layout, matrix)
        shape[0], shape[1] = cnp.PyArray_DIM(matrix, 0), self._n
        if scales is not None or zero_points is not None or operands is not None or bound is None:
            bound = self._layer.bind(scales, zero_points, operands, shape[0],
                                     (shape[0], shape[1]) if leading is None else (*leading, shape[1]))
        if out is None:
            if self._layer.has_sum:
                raise ValueError("out must be given, as a Sum post-op adds to it")
            result = target = empty(2, shape, self._dst_type)
            if leading is not None:
                result = target.reshape(*leading, self._n)
        else:
            result = output_of(out, "out", self._dst_type)
            if (
                leading is None and cnp.PyArray_NDIM(result) == 2 and cnp.PyArray_DIM(result, 0) == shape[0]
                and cnp.PyArray_DIM(result, 1) == shape[1] and is_usable(result, x, None)
            ):
                target = result
            else:
                target = self.target_for(result, leading, shape[0], x)
        check_layout(&layout, matrix, "src")

        if self._wide:
            self.multiply_wide(matrix, target, bound)
        else:
            self.multiply_bytes(matrix, target, bound)
        if out is not None and cnp.PyArray_DATA(target) != cnp.PyArray_DATA(result):
            result[...] = target.reshape((<object>result).shape)
        return result if out is None else out

    cdef int multiply_bytes(self, cnp.ndarray matrix, cnp.ndarray target, Bound bound) except -1:
        """Execute the layer for a source of 8 bits or of real numbers."""
        cdef Problem g
        cdef DynamicSource source
        start(&g, self._saturating)
        if self._packed is None and self._four_bits._k != self._k:
            matrix = self.in_whole_groups(matrix)
        set_a(&g, matrix, False)
        set_c(&g, target)
        self.set_layer(&g, &source, bound, cnp.PyArray_TYPE(matrix))
        run_problem(&g, "inner_product")
        return 0

    cdef int multiply_wide(self, cnp.ndarray x, cnp.ndarray target, Bound bound) except -1:
        """Execute the layer for a source of 16 bits: a product of 8 bits for each limb, then the epilogue of the exact
        sums."""
        cdef Problem g
        cdef WideSums s = WideSums(NULL, NULL, NULL, NULL, NULL)
        cdef Packed packed = self.weights
        cdef cnp.ndarray sums, zeros, columns, row_terms, weights_zeros
        start(&g, False)
        set_a(&g, x, False)
        set_c(&g, target)
        bound.fill(&g)
        g.n = self._n
        # The epilogue may read a whole chunk after a row.
        sums = np.zeros(g.m * g.n + I8_MAX_COLUMNS, np.int64)
        sums[:g.m * g.n] = sum_of_limbs(x, packed, limbs_of(x, packed)).reshape(-1)
        zeros = np.zeros(g.m, np.int64) + (bound.ao if bound._ao_rows is None else bound._ao_rows)
        columns = padded(packed.column_sums, cnp.NPY_INT64)
        s.sums, s.ao = <const int64_t *>cnp.PyArray_DATA(sums), <const int64_t *>cnp.PyArray_DATA(zeros)
        s.col_sums = <const int64_t *>cnp.PyArray_DATA(columns)
        weights_zeros = np.zeros(g.n, np.int64) + (bound.bo if bound._bo_cols is None else bound._bo_cols)
        weights_zeros -= self._layer.weights_shift
        if weights_zeros.any():
            weights_zeros = padded(weights_zeros, cnp.NPY_INT64)
            row_terms = x.sum(1, np.int64) - g.k * zeros
            s.bo = <const int64_t *>cnp.PyArray_DATA(weights_zeros)
            s.row_terms = <const int64_t *>cnp.PyArray_DATA(row_terms)
        with nogil:
            end_turn()
            store_sums(&g, &s)
            take_turn()
        return 0

    cdef int set_layer(self, Problem *g, DynamicSource *source, Bound bound, int src_type) except -1:
        """Set all members of a problem except A and C, which the caller has set. The problem refers to `source`."""
        if self._packed is None:
            self._four_bits.fill(g)
            if self._group_zeros is not None:
                g.four_bits.zeros = <const uint8_t *>cnp.PyArray_DATA(self._group_zeros)
                g.four_bits.size = self.group
        else:
            self._packed.fill(g)
            if self.group is None:
                self._packed.fill_split(g, g.m)
        bound.fill(g)
        if self._dynamic is not None:
            g.a.sign_flip = SIGN_BIT if self._source.symmetric else 0
            source[0] = self._source
            source.type = element_type(src_type)
            g.source.dynamic = source
            if not source.per_row:
                with nogil:
                    end_turn()
                    set_tensor_parameters(g, source, max_threads())
                    take_turn()
                if not source.symmetric:
                    g.a.zero_point = source.zero
                    g.known.col_init = NULL
        return 0

    cdef int set_rows(self, Problem *g, DynamicSource *source, const float *src, int64_t rows, float *dst) except -1:
        """Set up the product of contiguous float32 rows to contiguous float32. Each row has its own range."""
        if (self._dynamic != "per_row" or self._constant is None or self._src_type != cnp.NPY_FLOAT32
                or self._dst_type != cnp.NPY_FLOAT32 or self.created().has_sum or self._packed is None):
            raise ValueError(f"a dynamic layer must be one from float32 to float32 with weights of 8 bits, a range for "
                             f"each row and all its values, got {self}")
        start(g, self._saturating)
        g.m, g.k = rows, self._k
        g.a.data, g.a.row, g.a.column = <const uint8_t *>src, 4 * g.k, 4
        g.c.data, g.c.row, g.c.column = <char *>dst, 4 * self._n, 4
        return self.set_layer(g, source, self._constant, cnp.NPY_FLOAT32)

    def _at(self, size_t src, int64_t rows):
        """Return the result (rows, oc) of a layer from float32 to float32 for a contiguous matrix (rows, ic) at an
        address, for callers whose arrays are not NumPy's. No argument is checked."""
        cdef Problem g
        cdef DynamicSource source
        cdef cnp.npy_intp[2] shape = [rows, self._n]
        cdef cnp.ndarray result = empty(2, shape, cnp.NPY_FLOAT32)
        self.set_rows(&g, &source, <const float *>src, rows, <float *>cnp.PyArray_DATA(result))
        run_problem(&g, "inner_product")
        return result

    cdef tuple flattened(self, cnp.ndarray x):
        """Return the source as a matrix with `ic` columns, and its leading dimensions, or None for a matrix."""
        cdef tuple shape = (<object>x).shape
        wanted = self.weights_shape[1:]
        if len(wanted) > 1 and shape[1:] == wanted:
            return x.reshape(shape[0], self._k), None
        if x.ndim and shape[x.ndim - 1] == self._k:
            return x.reshape(-1, self._k) if x.size else np.empty(
                (int(np.prod(shape[:-1])), self._k), x.dtype), shape[:-1]
        if len(wanted) == 1 and x.ndim > 2 and int(np.prod(shape[1:])) == self._k:
            return x.reshape(shape[0], self._k), None
        raise ValueError(f"src must have shape (n, {', '.join(map(str, wanted))}) or (..., {self._k}), "
                         f"got {shape}")

    cdef cnp.ndarray target_for(self, cnp.ndarray result, object leading, int64_t rows, cnp.ndarray src):
        """Return the matrix that the kernels write to: `result`, or a copy if the kernels cannot write to `result`."""
        wanted = (rows, self._n) if leading is None else (*leading, self._n)
        if (<object>result).shape != wanted:
            raise ValueError(f"out must have shape {wanted}, got {(<object>result).shape}")
        if is_usable(result, src, None):
            matrix = result.reshape(rows, self._n)
            if cnp.PyArray_DATA(matrix) == cnp.PyArray_DATA(result):
                return matrix
        copy = np.array(result, order="C") if self._layer.has_sum else empty_of(wanted, self._dst_type)
        return copy.reshape(rows, self._n)


cdef bint is_packed_in_four_bits(weights):
    """Return whether the weights of a saved layer have 4 bits."""
    return isinstance(weights, PackedWeights) and any([isinstance(packed, PackedB4) for packed in weights.packed])


register(InnerProduct)
