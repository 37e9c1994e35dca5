# The driver of DynamicLSTM (see dynamic_steps.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t

from int8blas.layers.recurrent cimport MAX_DIRECTIONS, Layer


# The values of one direction that recurrent.Direction lacks. Vectors are in the order of a Direction's columns.
cdef struct DynamicDirection:
    const float *source_scale
    const float *state_scale
    const int32_t *state_sums       # sums of the columns of the state's weights
    const int32_t *source_zero      # zero points of weights; NULL if all are 0
    const int32_t *state_zero
    const float *h0                 # first states, contiguous; NULL for 0.0
    # Workspace.
    float *states[2]                # states before even and before odd steps
    uint8_t *reversed_              # for the backward direction: the source of a stretch in reverse order


cdef struct Execution:
    Layer layer                     # without the members for uint8 states
    DynamicDirection direction[MAX_DIRECTIONS]
    const float *src                # the source, contiguous
    const int64_t *lengths          # steps of each sequence; NULL if all sequences have all steps
    float src_scale
    int src_zero
    # Workspace.
    uint8_t *quantized              # the quantized source
    uint8_t *bytes                  # quantized states, one copy for each thread
    # The first step and the number of steps of the current stretch of time.
    int64_t first, steps


cdef int execute(Execution *e) noexcept nogil
