# The epilogue of a quantized primitive, with its values (see output_stage.pyx).
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_post_op, i8_scale_groups, i8_stage
from int8blas.gemm.problem cimport Problem

cdef enum:
    MAX_POST_OPS = 32
    STAGE_OPS = MAX_POST_OPS + 5    # including the post-ops of `bind_spread`


cdef class Bound


cdef class Layer:
    cdef object attributes
    cdef int dims                   # number of dimensions of the destination, as masks count them
    cdef int bits                   # bits of a weight
    cdef int64_t depth              # number of products in a sum, if the zero points may be any int32
    cdef bint spreads               # whether a mask needs `spread_values`
    cdef int64_t columns
    cdef int dst_type
    cdef int64_t src_shift, weights_shift
    cdef bint integer_bias
    cdef bint integral              # whether the formula has only integers, so that the result is exact
    cdef bint requantizes           # whether Attributes.requantization is an integer scheme
    cdef bint rounds_first          # whether rounding precedes the addition of the destination's zero point: "onnx"
    cdef bint source_alone          # whether executions supply only the source's scale and zero point
    cdef Bound common               # the values that executions share if `source_alone`; None before the first use
    cdef bint brings_scale, brings_zero     # whether executions supply the source's scale and its zero point
    cdef object weights_scale, src_dtype
    cdef bint by_column             # whether weights_scale is a vector
    cdef float largest_scale        # the largest scale of the weights
    cdef object _bias
    cdef cnp.ndarray _column_sums   # int64 sums of the columns, or of the columns of each group
    cdef dict dtypes                # the dtypes of "src", "weights" and "dst"
    cdef dict masks, constants
    cdef tuple operands
    cdef bint has_sum
    cdef object window_zeros        # zero points of a convolution's packed weights, or None
    cdef int64_t group              # k of a scale group, or 0
    cdef str kind                   # "static", "dynamic" (the layer quantizes the source) or "convolution"

    cdef object set_bias(self, bias)
    cdef object check_groups(self)
    cdef object checked(self, parameter, tensor, value)
    cdef object one_value(self, str parameter, str tensor, object value)
    cdef object zero_point_type(self, str tensor)
    cdef dict checked_masks(self, parameter, declared, values)
    cdef object length(self, str parameter, str tensor, int mask)
    cdef object fitted(self, parameter, tensor, array)
    cdef tuple logical_shape(self, tuple dst_shape, bint channels_last)
    cdef object spread_values(self, str name, object values, int mask, tuple logical)
    cdef object check_post_ops(self)
    cdef list spread_before(self, dict scales, tuple logical)
    cdef list spread_after(self, dict scales, dict zero_points, tuple logical)
    cdef object bind_scales(self, Bound bound, dict scales)
    cdef object bind_groups(self, Bound bound, object scales)
    cdef object bind_column_zeros(self, Bound bound, object zeros)
    cdef cnp.ndarray by_row_groups(self, Bound bound, object values)
    cdef object bind_zero_points(self, Bound bound, dict zero_points)
    cdef object bind_integers(self, Bound bound, object zero_points)
    cdef object bind_post_ops(self, Bound bound, dict scales, object operands, tuple dst_shape, bint channels_last,
                              tuple part, list before, list after)
    cdef int bind_spread(self, Bound bound, i8_post_op *p, int kind, object operand, tuple dst_shape,
                         bint channels_last, tuple part) except -1
    cdef object bind_operand(self, Bound bound, i8_post_op *p, object operand, tuple dst_shape, bint channels_last,
                             tuple part)
    cdef Bound bind(self, object scales, object zero_points, object operands, int64_t rows, tuple dst_shape,
                    bint channels_last=?, tuple part=?)
    cdef Bound bind_all(self, object scales, object zero_points, object operands, int64_t rows, tuple dst_shape,
                        bint channels_last=?, tuple part=?)
    cdef bint source_brings(self, str parameter)
    cdef object number_of_source(self, str parameter, bint brings, object values)
    cdef Bound common_part(self)
    cdef Bound bind_source(self, object scales, object zero_points)
    cdef Bound bind_constants(self, bint channels_last=?)
    cdef bint lacks_source_alone(self)


cdef class Bound:
    cdef i8_stage stage
    cdef int type                   # type of the destination: I8_TYPE_U8 and so on
    cdef i8_post_op ops[STAGE_OPS]
    cdef i8_scale_groups scale_groups   # its size is 0 without scale groups
    cdef int64_t ao, bo
    cdef bint far                   # whether a zero point is outside the range of its type
    cdef cnp.ndarray _ao_rows, _bo_cols, _row_scales, _co_cols, _col_init
    cdef list _arrays
    cdef int64_t src_shift

    cdef void fill(self, Problem *g) noexcept
    cdef int64_t padding(self) noexcept
    cdef int set_nan(self) except -1
    cdef int set_far(self, int64_t depth, object rows=?, object columns=?) except -1
    cdef bint reads_pixels(self) noexcept


cdef int element_type(int typenum) noexcept
cdef int binary_kind(str algorithm) except -1
cdef int set_post_op(i8_post_op *p, object op, int dst_type) except -1
