/* Cells of recurrent layers. */
#ifndef I8_RECURRENT_H
#define I8_RECURRENT_H

#include "gemm/gemm.h"

/* A cell of a recurrent layer computes the new state of `rows` rows of `panels` * 16 units. The cell reads the sums of
 * its gates: x from the source, and h from the previous state. Sums, scale and bias are stored gate after gate for each
 * 16 units:
 *
 *     gate = f32(x + h) * scale + bias
 *     I8_LSTM:         c = logistic(f) * c + logistic(i) * tanh(c~);  y = logistic(o) * tanh(c)     gates i, f, c~, o
 *     I8_GRU_RESET:    u = logistic(u);  y = logistic(r) * before                                   gates u, r
 *     I8_GRU_OUTPUT:   y = u * before + (1 - u) * tanh(o)                                           gate o
 *     I8_GRU_LINEAR:   a whole GRU, with o = tanh((f32(x) * scale + bias) + r * (f32(h) * scale + recurrent bias))
 *     I8_LSTM_PEEPHOLE: an I8_LSTM that adds peephole * (the previous c) to i and f, and peephole * (the new c) to o
 *     I8_RNN:          y = activation(gate)                                                         one gate
 *     after = sat(rne(y * data_scale + data_shift)), or data_shift if y is NaN
 *     before = (state - data_shift) * data_reciprocal
 *
 * The operations are in f32, in this order. `memory` is c, or the u that a GRU keeps between its two calls. Other cells
 * ignore `memory`. The recurrent bias is stored as the bias of a fourth gate. If `kept` is not NULL, it has 1 -
 * attention for each row, which multiplies the u of a GRU. I8_RNN_LINEAR is a projection: the cell does not read x, and
 * takes 0 instead. If `output` is not NULL, the cell also stores y in `output`. Row steps are in elements. All values
 * of a set of 16 units are readable, even if the layer ends within the set. rows * panels is at most I8_MAX_CELLS. */
enum { I8_LSTM, I8_GRU_RESET, I8_GRU_OUTPUT, I8_GRU_LINEAR, I8_LSTM_PEEPHOLE, I8_RNN, I8_CELLS };
enum { I8_RNN_LINEAR, I8_RNN_RELU, I8_RNN_TANH, I8_RNN_LOGISTIC }; /* activations; the relu has slope alpha below 0 */
#define I8_MAX_CELLS (I8_MAX_MR * I8_MAX_NP)
typedef struct {
    int rows, panels;
    const int32_t *x, *h;
    ptrdiff_t x_row, h_row;
    const float *scale, *bias; /* [panels][gates][16] */
    const float *peephole;     /* [panels][3][16]: i, f, o */
    const float *kept;
    int activation;
    float alpha;
    float data_scale, data_reciprocal, data_shift;
    const uint8_t *before;
    uint8_t *after;
    ptrdiff_t state_row; /* row step of `before` and `after` */
    float *memory, *output;
    ptrdiff_t memory_row; /* row step of `memory` and `output` */
} i8_cell_args;

typedef void (*i8_cell_fn)(const i8_cell_args *);

/* A cell of an LSTM whose f32 states are quantized in each step. The cell computes one row of `panels` * 16 units with
 * the gates i, f, c~ and o:
 *
 *     sum = h - state_zero * h_sums - h_excess * h_zero         exact; from the state
 *     source = x - x_excess * x_zero                            exact; from the source minus its zero point
 *     gate = (f32(sum) * (state_scale * h_scale) + f32(source) * (source_scale * x_scale)) + bias
 *     c = logistic(f) * c + logistic(i) * tanh(c~);  y = logistic(o) * tanh(c)
 *
 * The operations are in f32, in this order. h_sums are the column sums of the state's weights. x_zero and h_zero are
 * the zero points of the weights, or NULL if all are 0. x_excess is the sum of the source minus its zero point;
 * h_excess is the sum of the state minus its zero point. Vectors are stored gate after gate for each 16 units. y is
 * stored in `output`. panels is at most I8_MAX_CELLS. */
typedef struct {
    int panels;
    const int32_t *x, *h;
    const float *x_scale, *h_scale, *bias;
    float source_scale, state_scale;
    const int32_t *h_sums, *x_zero, *h_zero;
    int32_t state_zero, x_excess, h_excess;
    float *memory, *output;
} i8_dynamic_cell_args;

typedef void (*i8_dynamic_cell_fn)(const i8_dynamic_cell_args *);

/* The kernels of recurrent layers for a vector width. */
typedef struct {
    i8_cell_fn cells[I8_CELLS];
    i8_dynamic_cell_fn dynamic_lstm;
} i8_recurrent_kernels;

#endif
