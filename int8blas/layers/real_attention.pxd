# Attention in float32, also to a cache (see real_attention.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_normalize_args, i8_post_op
from int8blas.layers.real_product cimport RealJob


cdef struct AttentionJob:
    RealJob scores, values
    i8_normalize_args softmax
    int64_t rows, width                     # size of the scores in memory
    int64_t q_width                         # row step of the scaled q, in elements
    float q_scale, scale
    float cap                               # 0 if scores have no cap
    i8_post_op tanh                         # unused if scores have no cap
    # In causal attention, row i of a product is at position p = first + i % length. Row i sees the columns up to p, or
    # from p + 1 - window to p if the window is not negative. If the length is 0, rows see every column.
    int64_t first, length, window
    # The sinks: scores of one more column in softmax, one score for each row of a product or one for each product. NULL
    # if there are no sinks.
    const float *sinks
    bint sink_by_row
    const char *mask                        # or NULL
    ptrdiff_t mask_row                      # in bytes; 0 for a mask with one row
    ptrdiff_t mask_steps[cnp.NPY_MAXDIMS]   # bytes from one product's mask to the next, for each dimension


cdef int set_cap(AttentionJob *job, float cap) except -1
cdef int run(AttentionJob *job) except -1
