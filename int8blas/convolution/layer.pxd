# The common base of convolution and deconvolution (see layer.pyx).
from libc.stdint cimport int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp

from int8blas.convolution.filters cimport Filters, Images
from int8blas.core.kernels cimport i8_image
from int8blas.gemm.problem cimport Problem
from int8blas.stage.output_stage cimport Bound
from int8blas.stage.quantized_layer cimport QuantizedLayer


cdef class Phase:
    cdef Filters filters
    cdef object taps
    cdef int64_t first[3]
    cdef int64_t steps[3]
    cdef int64_t fold               # neighbouring outputs of a line that are the channels of one output
    cdef bint reads_source

    cdef void set_part(self, Images *part, const Images *whole) noexcept
    cdef Images source_of(self, const Images *source, const Images *part) noexcept
    cdef int pack_weights(self, weights) except -1


cdef class Values:
    cdef dict scales, zero_points
    cdef object operands
    cdef tuple shape                # shape of the destination
    cdef bint finite                # whether all values of the source are finite

    cdef int set_source(self, float scale, int64_t zero) except -1
    cdef int keep(self) except -1


cdef class ConvolutionLayer(QuantizedLayer):
    cdef readonly tuple strides
    cdef readonly object padding        # pairs, or a name if the padding depends on the size of the source
    cdef readonly tuple dilation
    cdef readonly int64_t groups
    cdef readonly str layout
    cdef str _name              # the layer's name for INT8BLAS_VERBOSE
    cdef int _spatial
    cdef uint8_t _flip
    cdef bint _channels_last, _grouped
    cdef int64_t _channels
    cdef tuple _kernel
    cdef list _phases
    cdef tuple _shape               # (g, oc, ic, ...) of the weights
    cdef object _weights_dtype
    cdef object _dynamic, _dynamic_dtype
    cdef object _zeros              # zero points of the packed weights, see Filters
    cdef object _far_zeros          # zero points beyond int8, which the packed weights lack (see far_zeros.pyx)
    cdef object _far_sums
    cdef dict _padded               # {padding before: filters}, if the padding depends on the source

    cdef object padding_from(self, padding)
    cdef Filters filters_of(self, Phase phase, cnp.ndarray x)
    cdef tuple packed_of(self, weights)
    cdef list phases_in(self, const Images *whole, Bound bound)
    cdef bint fills(self, Bound bound) except -1
    cdef int fill_rest(self, const Images *source, const Images *whole, Bound bound) except -1
    cdef list make_phases(self, tuple shape, bias)
    cdef object prepare_weights(self, weights, tuple shape, dict scales, dict zero_points)
    cdef int set_zeros(self, zeros) except -1
    cdef int set_weights(self, weights) except -1
    cdef int64_t output_size(self, int64_t size, int d) except -1
    cdef Filters make_filters(self, tuple shape, tuple strides, tuple dilation, tuple before, bias, bint partial)
    cdef int set_shape(self, cnp.ndarray x, cnp.npy_intp *shape) except -1
    cdef tuple describe(self, cnp.ndarray x, Problem *g, i8_image *image, size_t *workspace)
    cdef tuple slices(self, Phase phase, int64_t first, int64_t count)
    cdef Bound bind(self, Values values, tuple part)
    cdef int execute(self, cnp.ndarray x, cnp.ndarray target, Bound bound, Values values, int64_t first,
                     int64_t count, bint keeps) except -1
    cdef int execute_far(self, cnp.ndarray x, cnp.ndarray target, Bound bound, Values values, int64_t first,
                         int64_t count) except -1
    cdef int check_far(self, Bound bound) except -1
    cdef object make_far_sums(self)
    cdef int execute_dynamically(self, cnp.ndarray x, cnp.ndarray target, Values values, bint keeps) except -1
    cdef dict parameters(self)
