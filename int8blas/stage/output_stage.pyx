"""The epilogue of a quantized primitive: make the ``i8_stage`` that the kernels read from attributes and values.

A ``Layer`` has the values that are known when a primitive is created: attributes, bias, types and constants. A
``Layer`` combines its values with the values of one execution to a ``Bound``, which has C structures and the arrays to
which the structures point. If executions supply no values, one ``Bound`` serves all executions.
"""

from types import MappingProxyType

from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint16_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport by_tensor, in_float32, items_of
from int8blas.core.kernels cimport (
    I8_ADD, I8_ELTWISE, I8_MUL, I8_PRELU, I8_QUANTIZED, I8_ROUNDER, I8_SCALE_GROUPS, I8_SHIFT, I8_SUM, I8_TYPE_BF16,
    I8_TYPE_F16, I8_TYPE_F32, I8_TYPE_S32, I8_TYPE_S8, I8_TYPE_U8, i8_post_op)
from int8blas.core import layouts
from int8blas.core.parameters import divisor_values, scale_values, zero_point_values
from int8blas.gemm.operand cimport SHIFT
from int8blas.gemm.problem cimport Problem
from int8blas.stage.columns cimport largest, multiples, one_integer, one_scale, padded, products, set_columns
from int8blas.stage.requantization cimport check_requantization, set_requantization
from int8blas.core.words import dtype_error
from int8blas.stage.attributes import BINARY, ELTWISE, INTEGER_SCHEMES, TENSORS, Binary, Eltwise, PReLU, Sum, as_operand

cnp.import_array()

# The kernels number post-ops in the order of ELTWISE and BINARY.
cdef dict ELTWISE_KINDS = {name: I8_ELTWISE + i for i, name in enumerate(ELTWISE)}
cdef dict BINARY_KINDS = {name: I8_ADD + i for i, name in enumerate(BINARY)}
# For each tensor, the masks whose values the kernels take, and the dimension of these values. Values of the destination
# or of sums with a mask that is not listed are "spread": they become operands of post-ops.
cdef dict MASKS = {"src": {0: None, 1: "rows", 3: "row groups"}, "weights": {0: None, 1: "columns", 3: "groups"},
                   "dst": {0: None, 2: "columns"}}
cdef dict MASK_NAMES = {"src": "0 or 1 << 0 (a value for each row)", "weights": "0 or 1 << 0 (a value for each output "
                        "channel)", "dst": "of dimensions of the destination"}


cdef str SCALES = "scales", ZERO_POINTS = "zero_points"
cdef object FLOAT32 = np.float32, INT32 = np.dtype(np.int32)
cdef object ONE = np.float32(1), NO_CHANGE = np.float32(-0.0)


cdef int element_type(int typenum) noexcept:
    """Return the number of a NumPy type in the kernels, or -1."""
    if typenum == cnp.NPY_UINT8:
        return I8_TYPE_U8
    if typenum == cnp.NPY_INT8:
        return I8_TYPE_S8
    if typenum == cnp.NPY_INT32:
        return I8_TYPE_S32
    if typenum == cnp.NPY_FLOAT32:
        return I8_TYPE_F32
    if typenum == cnp.NPY_FLOAT16:
        return I8_TYPE_F16
    return I8_TYPE_BF16 if cnp.PyTypeNum_ISUSERDEF(typenum) else -1  # bfloat16 is the only allowed user-defined type


cdef int binary_kind(str algorithm) except -1:
    """Return the number by which the kernels know the algorithm of a binary post-op."""
    return BINARY_KINDS[algorithm]


cdef int set_post_op(i8_post_op *p, object op, int dst_type) except -1:
    """Set a post-op in the form of the kernels, without its operand."""
    p.scale, p.alpha, p.beta, p.operand, p.type = 1, 0, 0, NULL, 0
    p.operand_row = p.operand_col = 0
    if isinstance(op, Eltwise):
        p.kind = ELTWISE_KINDS[op.algorithm]
        p.alpha, p.beta, p.scale = op.alpha, op.beta, op.scale
    elif isinstance(op, Sum):
        p.kind = I8_SUM
        p.scale, p.alpha = op.scale, op.zero_point
        p.type = element_type(dst_type if op.dtype is None else op.dtype.num)
    else:
        p.kind = I8_PRELU if isinstance(op, PReLU) else BINARY_KINDS[op.algorithm]
    return 0


cdef class Layer:
    """The part of an epilogue that is known when a primitive is created."""

    def __init__(self, attributes, columns, bias, column_sums, dtypes, scales, zero_points, kind, group=0, dims=2,
                 bits=8):
        self.attributes = attributes
        self.dims, self.bits = dims, bits
        self.columns = columns
        self.dtypes = dtypes  # of "src", "weights" and "dst"
        self.dst_type = np.dtype(dtypes["dst"]).num
        self.src_shift = SHIFT if dtypes["src"] == np.int8 else 0
        self.weights_shift = -SHIFT if dtypes["weights"] == np.uint8 else 0
        self.kind = kind
        # With scale groups, the scales of weights are a matrix, and the column sums are int32 [panels, groups, 16].
        self.group = group
        self._column_sums = column_sums if group else padded(column_sums, cnp.NPY_INT64)
        self.set_bias(bias)
        self.masks, self.constants = {}, {}
        for parameter, declared, values in (("scales", attributes.scales, scales),
                                            ("zero_points", attributes.zero_points, zero_points)):
            values = {tensor: self.checked(parameter, tensor, value)
                      for tensor, value in by_tensor(values, parameter, TENSORS).items()}
            self.masks[parameter] = self.checked_masks(parameter, declared, values)
            self.constants[parameter] = MappingProxyType({
                tensor: self.fitted(parameter, tensor, value) for tensor, value in values.items()})
        self.spreads = self.attributes.output_scales is not None and self.attributes.output_scales[0] not in (0, 2)
        for parameter, masks in self.masks.items():
            for tensor, mask in masks.items():
                if self.length(parameter, tensor, mask) == "spread":
                    self.spreads = True
        self.check_post_ops()
        self.check_groups()
        check_requantization(attributes, kind, self.dtypes["dst"], self._bias, self.masks["scales"])
        self.requantizes = attributes.requantization in INTEGER_SCHEMES
        self.rounds_first = attributes.requantization == "onnx"
        if self.requantizes and self.spreads:
            raise ValueError("scales['dst'] and zero_points['dst'] must have the mask 0 or 1 << 1 with requantization="
                             f"{attributes.requantization!r}")
        if self.rounds_first and self.dst_type == cnp.NPY_INT32 and "dst" in self.masks["zero_points"]:
            raise ValueError("zero_points['dst'] must not be given for int32 with requantization='onnx'")
        # Frequent executions supply only a scale and a zero point of the source (see bind_source).
        self.source_alone = (
            kind != "dynamic" and not self.requantizes and not group and attributes.output_scales is None
            and self.masks["scales"].get("src", 0) == 0 and self.masks["zero_points"].get("src", 0) == 0
            and self.lacks_source_alone()
        )
        self.integral = (
            not self.requantizes and self.dst_type == cnp.NPY_INT32 and kind != "dynamic" and not self.masks["scales"]
            and attributes.output_scales is None and not attributes.post_ops
            and (self._bias is None or self.integer_bias)
        )
        if self.integral and self.spreads:
            raise ValueError("zero_points['dst'] must have the mask 0 or 1 << 1 for int32 sums without scales, "
                             f"got {self.masks['zero_points']['dst']}")

    cdef object set_bias(self, bias):
        cdef object array
        self.integer_bias = False
        self._bias = None
        if bias is None:
            return
        array = in_float32(bias, "bias").copy()
        if array.dtype not in (np.dtype(np.float32), np.dtype(np.int32)):
            raise dtype_error(array, "bias", ("float32", "int32"))
        if array.shape != (self.columns,):
            raise ValueError(f"bias must have shape {(self.columns,)}, a value for each output channel, got "
                             f"{array.shape}")
        if array.dtype == np.float32 and not np.isfinite(array).all():
            raise ValueError("bias must be finite in float32, got NaN or an infinity")
        self.integer_bias = array.dtype == np.int32
        self._bias = array
        self._bias.flags.writeable = False

    cdef object check_groups(self):
        if not self.group:
            return
        if self.integer_bias:
            raise TypeError("bias must be float32 with scales by groups of k, because the sums have no common unit, "
                            "got int32")
        if self.attributes.requantization in INTEGER_SCHEMES:
            raise ValueError("requantization must be 'float' or 'onnx' with scales by groups of k, got "
                             f"{self.attributes.requantization!r}")

    cdef object checked(self, parameter, tensor, value):
        """Return the values of one tensor: a number, a vector, or a matrix of groups and columns."""
        name = f"{parameter}[{tensor!r}]"
        if parameter == "scales":
            array = divisor_values(value, name) if tensor == "dst" else scale_values(value, name)
            if self.attributes.requantization in INTEGER_SCHEMES and (array < 0).any():
                raise ValueError(f"{name} must be positive with requantization={self.attributes.requantization!r}, got "
                                 f"{array[array < 0].flat[0]}")
        elif self.dtypes[tensor].kind not in "iu":
            raise ValueError(f"{name} must be for an integer type, got {self.dtypes[tensor]}")
        else:
            dtype = self.zero_point_type(tensor)
            array = zero_point_values(value, name, dtype).astype(np.int64)
        if array.ndim == 2 and tensor == "src" and self.group:
            groups = (<object>self._column_sums).shape[1]
            if array.shape[1] != groups:
                raise ValueError(f"{name} must have shape (n, ic / group), (n, {groups}), got {array.shape}")
            return array
        if array.ndim == 2 and tensor == "weights" and (self.group or parameter == "scales"):
            if self.group:
                shape = ((<object>self._column_sums).shape[1], self.columns)
                if array.shape != shape:
                    raise ValueError(f"{name} must have shape (ic / group, oc), {shape}, got {array.shape}")
                return array
            raise ValueError(f"{name} must be one value or a vector, got shape {array.shape}: scales by groups of k "
                             "are given to InnerProduct when it is created")
        mask = getattr(self.attributes, parameter).get(tensor, 0)
        if array.ndim > 1 and self.length(parameter, tensor, mask) != "spread":
            raise ValueError(f"{name} must be one value or a vector, got shape {array.shape}")
        return array

    cdef object length(self, str parameter, str tensor, int mask):
        """Return the kind of values that a mask selects, which is None for one value, "rows", "columns", "groups", "row
        groups" or "spread". Return False for a mask that the tensor cannot have."""
        if tensor == "src" and mask and self.kind == "convolution":
            return "spread" if mask == 1 and parameter == "scales" else False
        if mask not in MASKS[tensor] and tensor == "dst" and 0 <= mask < 1 << self.dims:
            return "spread"
        return MASKS[tensor].get(mask, False)

    cdef object one_value(self, str parameter, str tensor, object value):
        """Return the checked value of a tensor if the value is one number, the common case, or else None."""
        if self.masks[parameter].get(tensor) != 0:
            return None
        if parameter == "scales":
            return None if self.requantizes else one_scale(value, tensor == "dst")
        return one_integer(value, self.zero_point_type(tensor))

    cdef object zero_point_type(self, str tensor):
        """Return the type whose range limits a zero point. Zero points of operands may be any int32. A zero point of
        the destination may be any int32, because the real values of the destination need not contain 0. A zero point
        that is added after rounding must have the type of the destination."""
        if tensor == "dst":
            return self.dtypes[tensor] if self.attributes.requantization == "onnx" else INT32
        return INT32

    cdef dict checked_masks(self, parameter, declared, values):
        """Return the declared masks. A tensor without a declared mask gets the mask that fits the tensor's values."""
        cdef dict masks = dict(declared)
        for tensor, array in values.items():
            vector = 2 if tensor == "dst" else 3 if array.ndim == 2 else 1
            masks.setdefault(tensor, 0 if array.size == 1 and array.ndim < 2 else vector)
        for tensor, mask in masks.items():
            name = f"{parameter}[{tensor!r}]"
            length = self.length(parameter, tensor, mask)
            by_group = length == "groups"
            if tensor == "src" and mask and self.kind == "convolution" and (length is False or tensor not in declared):
                raise ValueError(f"{name} must have the mask 0 for a convolution, got {mask}")
            if length is False or (by_group and self.kind == "convolution"):
                raise ValueError(f"{name} must have the mask {MASK_NAMES[tensor]}, got {mask}")
            if (by_group or length == "row groups") and not self.group:
                if parameter == "zero_points" or tensor == "src":
                    raise ValueError(f"{name} must have the mask 0 or 1 << 0 without scales by groups of k, got {mask}")
                raise ValueError(f"{name} must be given when the layer is created, of shape (ic / group, oc), as its "
                                 "mask is (1 << 0) | (1 << 1)")
            if self.group and parameter == "scales" and tensor == "weights" and not by_group:
                raise ValueError(f"{name} must have the mask (1 << 0) | (1 << 1) for values of shape (ic / group, oc), "
                                 f"got {mask}")
            if tensor == "src" and self.kind == "dynamic":
                raise ValueError(f"{name} must not be given for a source that is quantized dynamically")
            if parameter == "zero_points":
                if tensor == "weights" and self.kind == "convolution" and tensor not in values:
                    raise ValueError(f"{name} must be given when a convolution is created, as its weights are packed "
                                     "with them")
                if self.dtypes[tensor].kind not in "iu":
                    raise ValueError(f"{name} must be for an integer type, got {self.dtypes[tensor]}")
        if masks and self.attributes.output_scales is not None:
            raise ValueError(f"{parameter} must not be given together with output_scales, which replaces it")
        return masks

    cdef object fitted(self, parameter, tensor, array):
        """Check that values have the shape that the mask requires, and return them. `bind_all` checks the
        length of vectors of rows."""
        name = f"{parameter}[{tensor!r}]"
        if tensor not in self.masks[parameter]:
            raise ValueError(f"{name} must have a mask: it was not declared when the primitive was created")
        length = self.length(parameter, tensor, self.masks[parameter][tensor])
        if length is None:
            if array.size != 1:
                raise ValueError(f"{name} must be one value, as its mask is 0, got shape {array.shape}")
            return array.reshape(())[()]
        if (length == "groups" or length == "row groups") and array.ndim != 2:
            shape = "(ic / group, oc)" if length == "groups" else "(n, ic / group)"
            raise ValueError(f"{name} must have shape {shape}, as its mask is (1 << 0) | (1 << 1), got shape "
                             f"{array.shape}")
        if length == "groups" or length == "row groups" or length == "spread":
            array.flags.writeable = False
            return array
        if array.ndim != 1:
            raise ValueError(f"{name} must be a vector, as its mask is not 0, got one value")
        if length == "columns" and array.shape != (self.columns,):
            raise ValueError(f"{name} must have {self.columns} values, one for each output channel, got "
                             f"{array.shape[0]}")
        array.flags.writeable = False
        return array

    cdef object check_post_ops(self):
        ops = self.attributes.post_ops
        if len(ops) > MAX_POST_OPS:
            raise ValueError(f"post_ops must be at most {MAX_POST_OPS}, got {len(ops)}")
        self.has_sum = any([isinstance(op, Sum) for op in ops])
        self.operands = tuple([op.operand for op in ops if isinstance(op, (Binary, PReLU))])
        dst = cnp.PyArray_DescrFromType(self.dst_type)
        for op in ops:
            if isinstance(op, Sum) and op.dtype is not None and dst.itemsize != 1:
                raise ValueError(f"dtype of Sum must not be given for a destination of {dst}")
        if self.attributes.output_scales is not None:
            mask, values = self.attributes.output_scales
            if mask >> self.dims:
                raise ValueError(f"output_scales must have a mask of {self.dims} dimensions, got {mask}")
            if mask == 2 and values.shape != (self.columns,):
                raise ValueError(f"output_scales must have {self.columns} values, one for each output channel, got "
                                 f"{len(values)}")

    cdef Bound bind_constants(self, bint channels_last=True):
        """Return the values of all executions, or None if executions must supply values."""
        if self.spreads:
            return None
        for parameter in ("scales", "zero_points"):
            for tensor, mask in self.masks[parameter].items():
                if tensor not in self.constants[parameter] or (tensor == "src" and mask):
                    return None
        for operand in self.operands:
            if operand is None or operand.ndim > (1 if channels_last else 0):
                return None
        return self.bind(None, None, None, 0, (self.columns,))

    cdef bint lacks_source_alone(self):
        """Return whether executions supply only values of the source."""
        if self.spreads:
            return False
        for parameter in ("scales", "zero_points"):
            if any([tensor != "src" and tensor not in self.constants[parameter] for tensor in self.masks[parameter]]):
                return False
        return all([operand is not None and operand.ndim <= 1 for operand in self.operands])

    cdef Bound bind(self, object scales, object zero_points, object operands, int64_t rows, tuple dst_shape,
                    bint channels_last=True, tuple part=None):
        """Bind the values of one execution with `rows` rows. The destination has `dst_shape`, with channels as its last
        or second dimension. `part` has slices, with channels last, that select a part of the destination and of the
        operands."""
        cdef Bound bound = self.bind_source(scales, zero_points) if self.source_alone and operands is None else None
        if bound is None:
            bound = self.bind_all(scales, zero_points, operands, rows, dst_shape, channels_last, part)
        return bound

    cdef bint source_brings(self, str parameter):
        """Return whether executions supply a scale, or a zero point, of the source."""
        return "src" in self.masks[parameter] and "src" not in self.constants[parameter]

    cdef object number_of_source(self, str parameter, bint brings, object values):
        """Return the source's scale or zero point if the execution supplies no other value. Return 0 if the execution
        supplies no value, and None if the values need the full check."""
        if not brings:
            return 0 if values is None or (type(values) is dict and not values) else None
        if type(values) is not dict or len(<dict>values) != 1 or "src" not in <dict>values:
            return None
        if parameter is SCALES:
            return one_scale((<dict>values)["src"], False)
        return one_integer((<dict>values)["src"], self.src_dtype)

    cdef Bound common_part(self):
        """Return the values that all executions share if they supply only a scale or a zero point of the source."""
        self.brings_scale, self.brings_zero = self.source_brings(SCALES), self.source_brings(ZERO_POINTS)
        self.src_dtype = self.zero_point_type("src")
        self.weights_scale = self.constants[SCALES].get("weights", ONE)
        self.by_column, self.largest_scale = isinstance(self.weights_scale, np.ndarray), largest(self.weights_scale)
        self.common = self.bind_all({"src": ONE} if self.brings_scale else None,
                                    {"src": 0} if self.brings_zero else None, None, 0, (self.columns,))
        return self.common

    cdef Bound bind_source(self, object scales, object zero_points):
        """Bind an execution that supplies only a scale or a zero point of the source, in a copy of the shared values.
        Return None if the values need the full check."""
        cdef Bound bound, common = self.common
        cdef object scale, zero
        cdef float number
        if common is None:
            common = self.common_part()
        scale = self.number_of_source(SCALES, self.brings_scale, scales)
        zero = self.number_of_source(ZERO_POINTS, self.brings_zero, zero_points)
        if scale is None or zero is None:
            return None
        bound = Bound.__new__(Bound)
        bound.stage, bound.type, bound.src_shift = common.stage, common.type, common.src_shift
        bound.ao, bound.bo = common.ao, common.bo
        bound._bo_cols, bound._co_cols, bound._col_init = common._bo_cols, common._co_cols, common._col_init
        bound._arrays, bound.far = [common], common.far
        if self.brings_scale:
            number = scale
            if not isfinite(number * self.largest_scale):
                return None
            if self.by_column:
                set_columns(&bound.stage.scale, products(self.weights_scale, number), bound._arrays)
            else:
                number *= <float>self.weights_scale
                set_columns(&bound.stage.scale, number, bound._arrays)
        if self.brings_zero:
            bound.ao = self.src_shift + <int64_t>zero
            bound.set_far(self.depth)
            bound._col_init = multiples(self._column_sums, -bound.ao) if bound.ao else None
        return bound

    cdef Bound bind_all(self, object scales, object zero_points, object operands, int64_t rows, tuple dst_shape,
                        bint channels_last=True, tuple part=None):
        """Bind any values of an execution."""
        cdef Bound bound = Bound.__new__(Bound)
        cdef dict given = {"scales": dict(self.constants["scales"]), "zero_points": dict(self.constants["zero_points"])}
        bound._arrays = []
        for parameter, values in (("scales", scales), ("zero_points", zero_points)):
            for tensor, value in by_tensor(values, parameter, TENSORS).items():
                if tensor in self.constants[parameter]:
                    raise ValueError(f"{parameter}[{tensor!r}] must not be given again: the primitive was created with "
                                     "it")
                number = self.one_value(parameter, tensor, value)
                if number is None:
                    number = self.fitted(parameter, tensor, self.checked(parameter, tensor, value))
                given[parameter][tensor] = number
            for tensor, mask in self.masks[parameter].items():
                if tensor not in given[parameter]:
                    raise ValueError(f"{parameter}[{tensor!r}] must be given: only its mask was given when the "
                                     "primitive was created")
                length = self.length(parameter, tensor, mask)
                if length in ("rows", "row groups") and given[parameter][tensor].shape[0] != rows:
                    what = "values" if length == "rows" else "vectors"
                    raise ValueError(f"{parameter}[{tensor!r}] must have {rows} {what}, one for each row, got "
                                     f"{given[parameter][tensor].shape[0]}")
        before, after = [], []
        if self.spreads:
            logical = self.logical_shape(dst_shape, channels_last)
            before = self.spread_before(given["scales"], logical)
            after = self.spread_after(given["scales"], given["zero_points"], logical)
        self.bind_scales(bound, given["scales"])
        self.bind_zero_points(bound, given["zero_points"])
        if before and self._bias is not None and not self.integer_bias and self.attributes.output_scales is None:
            before.append((I8_ADD, self.spread_values("bias", self._bias, 2, logical)))
            set_columns(&bound.stage.bias, NO_CHANGE, bound._arrays)
        if self.requantizes:
            set_requantization(&bound.stage.requantization, self.attributes, given["scales"],
                               given["zero_points"].get("dst", 0), self.dtypes["dst"], self.columns, bound._arrays)
        else:
            self.bind_post_ops(bound, given["scales"], operands, dst_shape, channels_last, part, before, after)
        bound.type = element_type(self.dst_type)
        return bound

    cdef tuple logical_shape(self, tuple dst_shape, bint channels_last):
        """Return the sizes of the destination's dimensions, in the order that masks count."""
        if self.kind != "convolution":
            return int(np.prod(dst_shape[:-1], dtype=np.int64)), dst_shape[-1]
        return (dst_shape[0], dst_shape[-1], *dst_shape[1:-1]) if channels_last else dst_shape

    cdef object spread_values(self, str name, object values, int mask, tuple logical):
        """Return values of a mask in float32. The result has the dimensions of the destination, in the order that masks
        count."""
        axes = layouts.mask_axes(mask, len(logical))
        return layouts.aligned(layouts.spread(np.asarray(values), logical, axes, name), logical, axes).astype(FLOAT32)

    cdef list spread_before(self, dict scales, tuple logical):
        """Remove the spread scales of sums from `scales`, and return them as post-ops (kinds and operands). The
        post-ops of spread scales come before all other post-ops."""
        if self.attributes.output_scales is not None and self.attributes.output_scales[0] not in (0, 2):
            mask, values = self.attributes.output_scales
            return [(I8_MUL, self.spread_values("output_scales", values, mask, logical))]
        if self.length("scales", "src", self.masks["scales"].get("src", 0)) != "spread":
            return []
        src = self.spread_values("scales['src']", scales.pop("src"), self.masks["scales"]["src"], logical)
        weights = scales.pop("weights", ONE)
        if not isfinite(largest(src) * largest(weights)):
            raise ValueError("scales['src'] * scales['weights'] must be finite in float32, got "
                             f"{np.max(src)} * {np.max(weights)}")
        weights = self.spread_values("scales['weights']", weights, 2 if isinstance(weights, np.ndarray) else 0, logical)
        with np.errstate(under="ignore"):
            return [(I8_MUL, src * weights)]

    cdef list spread_after(self, dict scales, dict zero_points, tuple logical):
        """Remove the spread scales and zero points of the destination, and return them as post-ops. The post-ops of the
        destination come after all other post-ops: first the scale, then the zero point."""
        cdef list ops = []
        cdef dict masks = {parameter: self.masks[parameter].get("dst", 0) for parameter in ("scales", "zero_points")}
        cdef bint shifts = self.length("zero_points", "dst", masks["zero_points"]) == "spread"
        if "dst" in scales and (shifts or self.length("scales", "dst", masks["scales"]) == "spread"):
            scale = self.spread_values("scales['dst']", scales.pop("dst"), masks["scales"], logical)
            ops.append((I8_MUL, ONE / scale))
        if shifts:
            zero = self.spread_values("zero_points['dst']", zero_points.pop("dst"), masks["zero_points"], logical)
            if self.rounds_first:
                ops.append((I8_SHIFT, np.full((1,) * len(logical), I8_ROUNDER, np.float32)))
                zero = zero - FLOAT32(I8_ROUNDER)
            ops.append((I8_SHIFT, zero))
        return ops

    cdef object bind_scales(self, Bound bound, dict scales):
        src, weights = scales.get("src", ONE), scales.get("weights", ONE)
        bound.stage.bias_first = 0
        if self.attributes.output_scales is not None:
            mask, values = self.attributes.output_scales
            weights = ONE if mask not in (0, 2) else values if mask else values[0]
            bound.stage.bias_first = 1
        if not isfinite(largest(src) * largest(weights)):
            raise ValueError("scales['src'] * scales['weights'] must be finite in float32, got "
                             f"{np.max(src)} * {np.max(weights)}")
        scale = weights
        if isinstance(src, np.ndarray) and src.ndim == 2:
            bound.scale_groups.row_scales = <const float *>cnp.PyArray_DATA(self.by_row_groups(bound, src))
        elif isinstance(src, np.ndarray):
            bound._row_scales = np.ascontiguousarray(src)
        elif isinstance(weights, np.ndarray):
            scale = products(weights, src)
        else:
            scale = FLOAT32(<float>src * <float>weights)
        if self.group:
            self.bind_groups(bound, scale)
            scale = ONE
        set_columns(&bound.stage.scale, scale, bound._arrays)
        reciprocal = ONE / scales["dst"] if "dst" in scales else ONE
        set_columns(&bound.stage.dst_scale, reciprocal, bound._arrays)
        bound.stage.rescales = "dst" in self.masks["scales"] or "dst" in self.masks["zero_points"]
        # With scale groups, a sum may add infinities of both signs. Without groups all scales are finite.
        bound.stage.finite = not self.group
        # Adding -0.0 changes no number.
        set_columns(&bound.stage.bias, NO_CHANGE if self._bias is None or self.integer_bias else self._bias,
                    bound._arrays)
        if self.integer_bias:
            bound._co_cols = padded(self._bias, cnp.NPY_INT32)

    cdef object bind_groups(self, Bound bound, object scales):
        """Set the scales (groups, columns) in panels. If the source has one scale, multiply the scales by this
        scale."""
        cdef cnp.ndarray array
        panels, groups, width = (<object>self._column_sums).shape
        by_column = np.zeros((groups, panels * width), np.float32)
        by_column[:, :self.columns] = scales
        array = np.ascontiguousarray(by_column.reshape(groups, panels, width).transpose(1, 0, 2))
        bound._arrays.append(array)
        bound.scale_groups.size = self.group
        bound.scale_groups.scales = <const float *>cnp.PyArray_DATA(array)
        bound.scale_groups.half_scales = NULL
        if self.bits == 4:
            with np.errstate(over="ignore", under="ignore"):
                halves = array.astype(np.float16)
            if np.array_equal(halves, array):
                bound._arrays.append(halves)
                bound.scale_groups.half_scales = <const uint16_t *>cnp.PyArray_DATA(halves)
        bound.scale_groups.col_sums = <const int32_t *>cnp.PyArray_DATA(self._column_sums)

    cdef cnp.ndarray by_row_groups(self, Bound bound, object values):
        """Return values (rows, groups) of the source in the order of the kernels."""
        cdef cnp.ndarray array = np.ascontiguousarray(values.T)
        bound._arrays.append(array)
        bound.scale_groups.row_step = cnp.PyArray_DIM(array, 1)
        return array

    cdef object bind_column_zeros(self, Bound bound, object zeros):
        """Set the zero points (groups, columns) of weights."""
        cdef cnp.ndarray array
        panels, groups, width = (<object>self._column_sums).shape
        array = np.zeros((groups, panels * width), np.int64)
        array[:, :self.columns] = zeros
        bound._arrays.append(array)
        bound.scale_groups.column_zeros = <const int64_t *>cnp.PyArray_DATA(array)
        bound.scale_groups.column_step = panels * width
        bound._bo_cols = np.ascontiguousarray(array[0])

    cdef object bind_zero_points(self, Bound bound, dict zero_points):
        src, weights = zero_points.get("src", 0), zero_points.get("weights", 0)
        bound.ao, bound.bo, bound.src_shift = self.src_shift, self.weights_shift, self.src_shift
        if self.kind == "convolution":
            # The packed weights, or the sums of windows, already contain the zero points of the weights.
            weights, bound.bo = 0, 0
            if self.window_zeros is not None:
                bound._bo_cols = padded(self.window_zeros, cnp.NPY_INT64)
        by_row, zeros, columns = isinstance(src, np.ndarray), None, None
        if by_row and src.ndim == 2:
            zeros = self.by_row_groups(bound, src + self.src_shift)
            bound.scale_groups.row_zeros = <const int64_t *>cnp.PyArray_DATA(zeros)
            bound._ao_rows = zeros[0]
        elif by_row:
            bound._ao_rows = np.ascontiguousarray(src + self.src_shift)
        else:
            bound.ao += int(src)
        if isinstance(weights, np.ndarray) and weights.ndim == 2:
            columns = weights + self.weights_shift
            self.bind_column_zeros(bound, columns)
        elif isinstance(weights, np.ndarray):
            bound._bo_cols = np.ascontiguousarray(weights + self.weights_shift)
        else:
            bound.bo += int(weights)
        bound.set_far(self.depth, zeros, columns)
        if not by_row and bound.ao and not self.group:
            # Compute the terms modulo 2**32, like the sums to which they are added.
            bound._col_init = multiples(self._column_sums, -bound.ao)
        bound.stage.col_sums = NULL
        if (by_row or self.kind == "dynamic") and not self.group:
            bound._arrays.append(multiples(self._column_sums, 1))
            bound.stage.col_sums = <const int32_t *>cnp.PyArray_DATA(bound._arrays[len(bound._arrays) - 1])
        bound.stage.integral, bound.stage.offset = self.integral, NULL
        dst = zero_points["dst"].astype(FLOAT32) if "dst" in zero_points else NO_CHANGE
        if self.integral:
            if dst is not NO_CHANGE:
                self.bind_integers(bound, zero_points["dst"])
            bound.stage.rescales, dst = 0, NO_CHANGE
        bound.stage.shifts = dst is not NO_CHANGE and bool(dst.any())
        bound.stage.rounder = -0.0
        if self.rounds_first and bound.stage.shifts:
            bound.stage.rounder = I8_ROUNDER
            dst = dst - FLOAT32(I8_ROUNDER)
        set_columns(&bound.stage.dst_zero, dst, bound._arrays)

    cdef object bind_integers(self, Bound bound, object zero_points):
        """Set the destination's zero points as integers. Add the zero points to the bias, or store them separately if
        the sum does not fit int32."""
        offsets = np.zeros(self.columns, np.int64) + zero_points
        both = offsets if self._bias is None else offsets + self._bias
        if not np.any(offsets):
            return
        if (both == both.astype(np.int32)).all():
            bound._co_cols = padded(both, cnp.NPY_INT32)
            return
        bound._arrays.append(padded(offsets, cnp.NPY_INT32))
        bound.stage.offset = <const int32_t *>cnp.PyArray_DATA(bound._arrays[len(bound._arrays) - 1])

    cdef object bind_post_ops(self, Bound bound, dict scales, object operands, tuple dst_shape, bint channels_last,
                              tuple part, list before, list after):
        cdef i8_post_op *p
        cdef int count = 0
        given = [] if operands is None else items_of(operands, "operands")
        wanted = sum([operand is None for operand in self.operands])
        if len(given) != wanted:
            raise ValueError(f"operands must be {wanted}, one for each post-op that was created without, got "
                             f"{len(given)}")
        bound.stage.relu = 0
        for kind, operand in before:
            count += self.bind_spread(bound, &bound.ops[count], kind, operand, dst_shape, channels_last, part)
        for i, op in enumerate(self.attributes.post_ops):
            # If all scales are positive, a relu is a lower bound of the results, which a kernel can apply.
            if (not i and not before and not after and isinstance(op, Eltwise) and op.algorithm == "relu"
                    and op.alpha == 0 and op.scale == 1 and np.all(scales.get("dst", ONE) > 0)):
                bound.stage.relu = 1
                continue
            p = &bound.ops[count]
            count += 1
            set_post_op(p, op, self.dst_type)
            if isinstance(op, (Binary, PReLU)):
                operand = op.operand if op.operand is not None else as_operand(given.pop(0), "operands")
                self.bind_operand(bound, p, np.asarray(operand), dst_shape, channels_last, part)
        for kind, operand in after:
            count += self.bind_spread(bound, &bound.ops[count], kind, operand, dst_shape, channels_last, part)
        bound.stage.op_count = count
        bound.stage.ops = bound.ops

    cdef int bind_spread(self, Bound bound, i8_post_op *p, int kind, object operand, tuple dst_shape,
                         bint channels_last, tuple part) except -1:
        """Set a post-op whose operand has its dimensions in the order that masks count. Return 1."""
        p.kind, p.scale, p.alpha, p.beta, p.operand, p.type = kind, 1, 0, 0, NULL, 0
        if self.kind != "convolution":
            dst_shape = self.logical_shape(dst_shape, channels_last)
        elif channels_last:
            operand = np.moveaxis(operand, 1, -1) if np.ndim(operand) else operand
        self.bind_operand(bound, p, np.asarray(operand), dst_shape, channels_last, part)
        return 1

    cdef object bind_operand(self, Bound bound, i8_post_op *p, object operand, tuple dst_shape, bint channels_last,
                             tuple part):
        try:
            array = np.broadcast_to(operand, dst_shape)
        except ValueError:
            raise ValueError(f"operands must broadcast to the destination's shape {dst_shape}, got "
                             f"{operand.shape}") from None
        if not channels_last and array.ndim > 2:
            array = np.moveaxis(array, 1, -1)
        if part is not None:
            array = array[part]
        if array.ndim == 1:
            array = array[np.newaxis]
        elif array.ndim > 2 and not any(array.strides[:-1]) and array.size:
            array = array[(0,) * (array.ndim - 1)][np.newaxis]
        elif array.ndim > 2:
            array = array.reshape(int(np.prod(array.shape[:-1], dtype=np.int64)), self.columns)
        bound._arrays.append(array)
        p.operand = <const float *>cnp.PyArray_DATA(array)
        p.operand_row = array.strides[0] // 4 if array.shape[0] > 1 else 0
        p.operand_col = array.strides[1] // 4


cdef class Bound:
    """Values in the form that the kernels read. The values do not change, so several threads may use one Bound at the
    same time."""

    cdef bint reads_pixels(self) noexcept:
        """Return whether a post-op has an operand with a value for each row."""
        cdef int i
        for i in range(self.stage.op_count):
            if self.ops[i].operand is not NULL and self.ops[i].operand_row != 0:
                return True
        return False

    cdef int set_far(self, int64_t depth, object rows=None, object columns=None) except -1:
        """Set whether a zero point is outside the range of its type, because products may then exceed 32 bits. Refuse
        zero points with which sums of `depth` products may exceed 64 bits. If a row or a column has several zero
        points, `rows` and `columns` have all zero points."""
        cdef object a, b, largest_a, largest_b
        rows = self._ao_rows if rows is None else rows
        columns = self._bo_cols if columns is None else columns
        if rows is None and columns is None and 0 <= self.ao <= 255 and -128 <= self.bo <= 127:
            self.far = False
            return 0
        a, b = (self.ao, self.ao), (self.bo, self.bo)
        if rows is not None and rows.size:
            a = int(rows.min()), int(rows.max())
        if columns is not None and columns.size:
            b = int(columns.min()), int(columns.max())
        self.far = a[0] < 0 or a[1] > 255 or b[0] < -128 or b[1] > 127
        largest_a, largest_b = max(255 - a[0], a[1]), max(127 - b[0], b[1] + 128)
        if self.far and largest_a * largest_b * max(depth, 1) >= 1 << 62:
            raise ValueError("zero_points['src'] and zero_points['weights'] must give sums of less than 2**62, got "
                             f"{depth} products of up to {largest_a} and {largest_b}")
        return 0

    cdef int set_nan(self) except -1:
        """Make every result NaN, for a source whose scale is NaN."""
        set_columns(&self.stage.scale, FLOAT32(np.nan), self._arrays)
        self.stage.finite = False
        return 0

    cdef int64_t padding(self) noexcept:
        """Return the zero point of a source that has one zero point."""
        return self.ao - self.src_shift

    cdef void fill(self, Problem *g) noexcept:
        """Set the epilogue, zero points and offsets of a problem."""
        g.epilogue.kind, g.epilogue.type = I8_QUANTIZED, self.type
        g.epilogue.stage, g.epilogue.row_scales, g.epilogue.doubled = &self.stage, NULL, False
        g.a.zero_point, g.b.zero_point = self.ao, self.bo
        g.known.far_zeros = self.far
        if self.scale_groups.size:
            g.epilogue.kind, g.epilogue.scale_groups = I8_SCALE_GROUPS, &self.scale_groups
        if self._ao_rows is not None:
            g.a.zero_points = <const int64_t *>cnp.PyArray_DATA(self._ao_rows)
        if self._bo_cols is not None:
            g.b.zero_points = <const int64_t *>cnp.PyArray_DATA(self._bo_cols)
        if self._row_scales is not None:
            g.epilogue.row_scales = <const float *>cnp.PyArray_DATA(self._row_scales)
        if self._co_cols is not None:
            g.epilogue.co_cols = <const int32_t *>cnp.PyArray_DATA(self._co_cols)
        if self._col_init is not None:
            g.known.col_init = <const int32_t *>cnp.PyArray_DATA(self._col_init)
