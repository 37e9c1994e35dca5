# The driver of recurrent layers (see recurrent.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from int8blas.core.kernels cimport i8_kernels
from int8blas.core.threads cimport i8_barrier
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.problem cimport Problem

cdef enum Kind:
    LSTM_CELL, GRU_CELL, GRU_LINEAR_CELL, RNN_CELL

cdef enum:
    MAX_DIRECTIONS = 2
    MAX_GATES = 4


# Packed weights with `k` rows, and their no-saturation proofs.
cdef struct Factor:
    int64_t k
    const int8_t *weights
    ptrdiff_t panel_size
    const uint8_t *certified
    const int32_t *start        # -data_shift * column sums of the weights; NULL for zeros


# One direction of a layer. Weights, scales, biases and sums have their columns in the order [units // 16][gates][16]. A
# GRU_CELL has all columns of its first two gates before the columns of its third gate.
cdef struct Direction:
    Problem product             # the product of source and weights; each step sets the number of rows and C
    Factor state
    const float *scale          # 1 / (data_scale * weights_scale)
    const float *bias           # [units // 16][biases][16]; a GRU_LINEAR_CELL has 4 biases
    const float *peephole       # peepholes [units // 16][3][16] of i, f, o; or NULL
    # The projection of an LSTM to its states; unused without a projection.
    Factor projection
    const float *projection_scale
    const float *projection_bias    # zeros
    bint backwards
    # The first states h0 and c0, and the last states, are contiguous. h0 or c0 is NULL if the first state is 0.0.
    const uint8_t *h0
    const float *c0
    char *last_h                # u8 or f32, like the destination
    float *last_c
    # The destination, u8 or f32, with contiguous rows.
    char *dst
    ptrdiff_t dst_step, dst_row
    # Workspace. Rows are whole panels.
    int32_t *sums               # the source's sums of a stretch of time
    uint8_t *states[2]          # states before even and before odd steps
    uint8_t *hidden             # r * h of a GRU_CELL, or h before its projection
    float *memory               # c of an LSTM, or u of a GRU
    float *output               # h before it is quantized


cdef struct Layer:
    const i8_kernels *kernels
    Kind kind
    int gates
    int64_t steps, rows, units, panels          # panels: ceil(units / 16)
    int64_t outputs, output_panels              # columns of h: units, or the columns of the projection
    bint projects
    int activation              # activation of an RNN_CELL
    float alpha
    const float *kept           # [steps][rows] 1 - attention of a GRU, rows sorted by length; NULL for ones
    int directions
    Direction direction[MAX_DIRECTIONS]
    float data_scale, data_reciprocal
    int data_shift
    bint real, real_state       # whether the destination, and the last state of h, are f32 (otherwise u8)
    # The source, (steps, rows, inputs): u8, or float values to quantize.
    int64_t inputs
    const char *src
    ptrdiff_t src_step, src_row, src_col
    int src_type
    # The lengths of sequences, sorted with the longest first. NULL if all sequences have all steps.
    const int64_t *lengths
    const int64_t *order        # position of each row in the batch
    const int64_t *begin        # [steps + 1] rows of all earlier steps, without ended sequences
    int threads                 # upper limit of threads
    i8_barrier *barrier
    # Steps in elements from row to row of the workspace: of states and output, of hidden and memory, of sums.
    ptrdiff_t state_row, unit_row, sums_row
    int64_t stretch             # time steps whose source sums are computed together
    bint in_turn                # whether the tiles of a step read their panels one after another
    uint8_t *source             # copy of the source of a stretch; unused if the source is read in place


cdef void multiply(const Layer *layer, const Factor *factor, const uint8_t *a, ptrdiff_t a_row, int height,
                   int64_t panel, int panels, int32_t *sums) noexcept nogil
cdef int layer_threads(const Layer *layer, int threads) noexcept nogil
cdef int set_sizes(Layer *layer, int threads) noexcept nogil
cdef void set_factor(Factor *factor, PackedB packed) noexcept
cdef void set_weights(Direction *d, PackedB of_source, PackedB of_state) noexcept
cdef int run_layer(Layer *layer) noexcept nogil
cdef void add_directions(const Layer *layer, char *dst, ptrdiff_t dst_step, ptrdiff_t dst_row,
                         bint real) noexcept nogil
