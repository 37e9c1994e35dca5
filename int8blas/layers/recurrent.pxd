# Recurrent layers, executed (see recurrent.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from int8blas.core.kernels cimport i8_kernels
from int8blas.core.threads cimport i8_barrier
from int8blas.gemm.problem cimport Problem

cdef enum Kind:
    LSTM_CELL, GRU_CELL, GRU_LINEAR_CELL

cdef enum:
    MAX_DIRECTIONS = 2
    MAX_GATES = 4
    # Weights beyond the L2 cache are read one panel after the other, which the hardware fetches ahead better than
    # several side by side.
    L2_BYTES = 1 << 20
    # Bytes of sums of a stretch of time for each thread, which are to stay in the L2 cache.
    STRETCH_BYTES = 1 << 20


# One direction of a layer. Columns of weights, scales, biases and sums are [units // 16][gates][16], for a GRU_CELL
# those of the first two gates before those of the third.
cdef struct Direction:
    Problem product                # of the source and its weights: for any rows, to any C
    const int8_t *weights       # of the state: packed, with certificates
    ptrdiff_t panel_size
    const uint8_t *certified
    const int32_t *start        # -data_shift * sums of their columns; NULL for zeros
    const float *scale          # 1 / (data_scale * weights_scale)
    const float *bias           # of a GRU_LINEAR_CELL [units // 16][4][16]
    bint backwards
    # First and last states, contiguous; h0 and c0 may be NULL (0.0).
    const uint8_t *h0
    const float *c0
    char *last_h                # of the destination's type
    float *last_c
    # The destination, of type u8 or f32, whose rows are contiguous.
    char *dst
    ptrdiff_t dst_step, dst_row
    # The workspace. Rows of states are whole panels.
    int32_t *sums               # of the source, for a stretch of time steps
    uint8_t *states[2]          # of even and of odd steps
    uint8_t *reset              # r * h
    float *memory               # c, or u
    float *output               # h before it is quantized


cdef struct Layer:
    const i8_kernels *kernels
    Kind kind
    int gates
    int64_t steps, rows, units, panels          # panels: units // 16, rounded up
    int directions
    Direction direction[MAX_DIRECTIONS]
    float data_scale, data_reciprocal
    int data_shift
    bint real, real_state       # the destination is f32, or else u8; the last state of it
    # The source, (steps, rows, inputs), u8 or real numbers to be quantized.
    int64_t inputs
    const char *src
    ptrdiff_t src_step, src_row, src_col
    int src_type
    # Sequences of different length, of which the longest is the first row; NULL if all have as many steps.
    const int64_t *lengths
    const int64_t *order        # where each row is in the batch
    const int64_t *begin        # [steps + 1] rows of all time steps before, those that have ended left out
    int threads                 # at most
    i8_barrier *barrier
    # Of a row of the workspace, in elements: of states, memory and output; of sums.
    ptrdiff_t state_row, sums_row
    int64_t stretch             # time steps whose sums are computed together
    bint in_turn                # tiles of a step read their panels one after the other
    uint8_t *source             # of a stretch, if it is not read in place


cdef void multiply(const Layer *layer, const Direction *d, const uint8_t *a, int height, int64_t panel, int panels,
                   int32_t *sums) noexcept nogil
cdef int layer_threads(const Layer *layer, int threads) noexcept nogil
cdef int run_layer(Layer *layer) noexcept nogil
cdef void add_directions(const Layer *layer, char *dst, ptrdiff_t dst_step, ptrdiff_t dst_row,
                         bint real) noexcept nogil
