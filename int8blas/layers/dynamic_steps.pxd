# LSTMs whose states are quantized at each step, executed (see dynamic_steps.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t

from int8blas.layers.recurrent cimport MAX_DIRECTIONS, Layer


# Of one direction what a recurrent.Direction has no place for. Columns as there.
cdef struct Way:
    const float *source_scale
    const float *state_scale
    const int32_t *state_sums       # of the columns of the state's weights
    const int32_t *source_zero      # zero points of weights; NULL if all are 0
    const int32_t *state_zero
    const float *h0                 # contiguous, or NULL (0.0)
    # The workspace.
    float *states[2]                # of even and of odd steps
    uint8_t *turned                 # of a direction that goes backwards: the source of a stretch in the order of steps


cdef struct Execution:
    Layer layer                     # what it says of states in 8 bits is not used
    Way way[MAX_DIRECTIONS]
    const float *src                # contiguous
    const int64_t *lengths          # of the sequences; NULL if all have as many steps
    float src_scale
    int src_zero
    # The workspace.
    uint8_t *quantized              # the source
    uint8_t *bytes                  # states, of each thread
    # Some steps that follow one another.
    int64_t first, steps


cdef int execute(Execution *e) noexcept nogil
