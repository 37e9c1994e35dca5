/* The cells of recurrent layers. A cell computes the new state, in f32 and in 8 bits, from the sums of its gates while
 * the sums are in the L1 cache. recurrent.h has formulas and arguments (i8_cell_args). The compiler turns loops over 16
 * units into whole vectors.
 *
 * A tanh or a logistic is a chain of some 30 dependent operations. If one function is the argument of another function,
 * the two chains of a cell would fill the reorder buffer of a CPU before the next cell starts. The kernel computes the
 * argument of the outer function for all cells first, and then the outer function for all cells. If a chunk takes
 * several registers, an LSTM computes each gate of all cells as one run (eltwise_runs.h). If a chunk is one register, a
 * run would be slower. */
#include "stage/eltwise_body.h"

#define I8_CELLS_IN_RUNS (I8_LANES == 8)
#if I8_CELLS_IN_RUNS
#include "stage/eltwise_runs.h"
#endif

typedef struct {
    const int32_t *x, *h;
    const float *scale, *bias;
    ptrdiff_t state, memory;
} i8_cell_place;

/* Return the addresses of 16 units of a row. */
I8_INLINE i8_cell_place i8_place(const i8_cell_args *t, int row, int panel, const int gates, const int biases)
{
    const ptrdiff_t column = panel * I8_CHUNK;
    const i8_cell_place place = {
        t->x + row * t->x_row + gates * column, t->h + row * t->h_row + gates * column, t->scale + gates * column,
        t->bias + biases * column,              row * t->state_row + column,            row * t->memory_row + column,
    };
    return place;
}

/* Return f32(sum) * scale + bias of unit v and a gate. `sum` is I8_X, I8_H, or the total of both. */
#define I8_GATE(sum, gate, b) ((float)(int32_t)(sum)*at.scale[I8_CHUNK * (gate) + v] + at.bias[I8_CHUNK * (b) + v])
#define I8_X(gate) ((uint32_t)at.x[I8_CHUNK * (gate) + v])
#define I8_H(gate) ((uint32_t)at.h[I8_CHUNK * (gate) + v])
#define I8_BOTH(gate) I8_GATE(I8_X(gate) + I8_H(gate), gate, gate)

/* Set y = (state - data_shift) * data_reciprocal. */
I8_INLINE void i8_load_state(const i8_cell_args *t, float *y, const uint8_t *state)
{
    const i8_floats distance = i8_floats_add(i8_floats_from_u8(state), i8_floats_set(-t->data_shift));
    i8_floats_store(y, i8_floats_mul(distance, i8_floats_set(t->data_reciprocal)));
}

/* Store the new state sat(rne(y * data_scale + data_shift)), or data_shift if y is NaN. If there is an `output`, also
 * store y. */
I8_INLINE void i8_store_state(const i8_cell_args *t, const i8_cell_place *at, const float *y)
{
    const i8_floats scaled = i8_floats_mul(i8_floats_load(y), i8_floats_set(t->data_scale));
    const i8_floats shifted = i8_floats_add(i8_floats_ordered(scaled), i8_floats_set(t->data_shift));
    i8_floats_store_bytes(t->after + at->state, shifted, 0, 255, 0);
    if (t->output)
        memcpy(t->output + at->memory, y, I8_CHUNK * sizeof(*y));
}

/* Loop over the cells of a call. n is the number of a cell, and `at` has the addresses of the cell. */
#define I8_EACH_CELL(gates, biases)                                                                                    \
    for (int i = 0, n = 0; i < t->rows; ++i)                                                                           \
        for (int p = 0; p < t->panels; ++p, ++n) {                                                                     \
            const i8_cell_place at = i8_place(t, i, p, gates, biases);
#define I8_END }

#if I8_CELLS_IN_RUNS

/* The functions below compute each chunk in a local array, because GCC 12 does not vectorize loops over arrays that may
 * overlap. i8_floats_load and i8_floats_store copy whole vectors, but GCC's memcpy does not. */

/* Compute the new memory and y of n units from their gates. All arrays are in the order of the cells. */
I8_INLINE void i8_finish_lstm(float gates[4][I8_MAX_CELLS * I8_CHUNK], float *c, float *y, int n)
{
    i8_logistic_run(gates[0], gates[0], n, 1.0f);
    i8_logistic_run(gates[1], gates[1], n, 1.0f);
    i8_tanh_run(gates[2], gates[2], n, 1.0f);
    i8_logistic_run(gates[3], gates[3], n, 1.0f);
    for (int i = 0; i < n; i += I8_CHUNK) {
        float before[I8_CHUNK], after[I8_CHUNK];
        i8_floats_store(before, i8_floats_load(c + i));
        I8_EACH
        {
            const float kept = gates[1][i + v] * before[v], added = gates[0][i + v] * gates[2][i + v];
            after[v] = kept + added;
        }
        i8_floats_store(c + i, i8_floats_load(after));
    }
    i8_tanh_run(y, c, n, 1.0f);
    for (int i = 0; i < n; i += I8_CHUNK) {
        float x[I8_CHUNK];
        i8_floats_store(x, i8_floats_load(y + i));
        I8_EACH x[v] = gates[3][i + v] * x[v];
        i8_floats_store(y + i, i8_floats_load(x));
    }
}

static void i8_cell_lstm(const i8_cell_args *t)
{
    float gates[4][I8_MAX_CELLS * I8_CHUNK], c[I8_MAX_CELLS * I8_CHUNK], y[I8_MAX_CELLS * I8_CHUNK];
    I8_EACH_CELL(4, 4)
        memcpy(c + n * I8_CHUNK, t->memory + at.memory, I8_CHUNK * sizeof *c);
        for (int g = 0; g < 4; ++g) {
            float gate[I8_CHUNK];
            I8_EACH gate[v] = I8_BOTH(g);
            i8_floats_store(gates[g] + n * I8_CHUNK, i8_floats_load(gate));
        }
    I8_END
    i8_finish_lstm(gates, c, y, t->rows * t->panels * I8_CHUNK);
    I8_EACH_CELL(4, 4)
        memcpy(t->memory + at.memory, c + n * I8_CHUNK, I8_CHUNK * sizeof *c);
        i8_store_state(t, &at, y + n * I8_CHUNK);
    I8_END
}

#endif

/* An LSTM without runs. Every vector width uses this function for peepholes, which are rare. */
I8_INLINE void i8_lstm_cells(const i8_cell_args *t, const int has_peephole)
{
    float open[I8_MAX_CELLS][I8_CHUNK], c[I8_CHUNK], y[I8_CHUNK];
    I8_EACH_CELL(4, 4)
        const float *peephole = has_peephole ? t->peephole + 3 * p * I8_CHUNK : NULL;
        memcpy(c, t->memory + at.memory, sizeof c);
        I8_EACH
        {
            float input = I8_BOTH(0), forget = I8_BOTH(1);
            if (has_peephole) {
                input = input + peephole[v] * c[v];
                forget = forget + peephole[I8_CHUNK + v] * c[v];
            }
            const float kept = i8_logistic(forget) * c[v], added = i8_logistic(input) * i8_tanh(I8_BOTH(2));
            c[v] = kept + added;
            open[n][v] = I8_BOTH(3);
            if (has_peephole)
                open[n][v] = open[n][v] + peephole[2 * I8_CHUNK + v] * c[v];
        }
        memcpy(t->memory + at.memory, c, sizeof c);
    I8_END
    I8_EACH_CELL(4, 4)
        memcpy(c, t->memory + at.memory, sizeof c);
        I8_EACH y[v] = i8_logistic(open[n][v]) * i8_tanh(c[v]);
        i8_store_state(t, &at, y);
    I8_END
}

static void i8_cell_lstm_peephole(const i8_cell_args *t) { i8_lstm_cells(t, 1); }

#if !I8_CELLS_IN_RUNS
static void i8_cell_lstm(const i8_cell_args *t) { i8_lstm_cells(t, 0); }
#endif

/* Compute activation(gate) of cells with one gate. The switch is outside the loops, so that the compiler vectorizes the
 * loops. */
I8_INLINE void i8_rnn_cells(const i8_cell_args *t, const int activation, const int has_x)
{
    float y[I8_CHUNK];
    I8_EACH_CELL(1, 1)
        I8_EACH
        {
            const float gate = I8_GATE((has_x ? I8_X(0) : 0) + I8_H(0), 0, 0);
            y[v] = activation == I8_RNN_RELU       ? (gate > 0 ? gate : t->alpha * gate)
                   : activation == I8_RNN_TANH     ? i8_tanh(gate)
                   : activation == I8_RNN_LOGISTIC ? i8_logistic(gate)
                                                   : gate;
        }
        i8_store_state(t, &at, y);
    I8_END
}

static void i8_cell_rnn(const i8_cell_args *t)
{
    switch (t->activation) {
    case I8_RNN_RELU: i8_rnn_cells(t, I8_RNN_RELU, 1); break;
    case I8_RNN_TANH: i8_rnn_cells(t, I8_RNN_TANH, 1); break;
    case I8_RNN_LOGISTIC: i8_rnn_cells(t, I8_RNN_LOGISTIC, 1); break;
    default: i8_rnn_cells(t, I8_RNN_LINEAR, 0);
    }
}

static void i8_cell_gru_reset(const i8_cell_args *t)
{
    float u[I8_CHUNK], before[I8_CHUNK], y[I8_CHUNK];
    I8_EACH_CELL(2, 2)
        const float kept = t->kept ? t->kept[i] : 1.0f;
        i8_load_state(t, before, t->before + at.state);
        I8_EACH
        {
            u[v] = i8_logistic(I8_BOTH(0)) * kept;
            y[v] = i8_logistic(I8_BOTH(1)) * before[v];
        }
        memcpy(t->memory + at.memory, u, sizeof u);
        i8_store_state(t, &at, y);
    I8_END
}

static void i8_cell_gru_output(const i8_cell_args *t)
{
    float u[I8_CHUNK], before[I8_CHUNK], y[I8_CHUNK];
    I8_EACH_CELL(1, 1)
        i8_load_state(t, before, t->before + at.state);
        memcpy(u, t->memory + at.memory, sizeof u);
        I8_EACH y[v] = u[v] * before[v] + (1.0f - u[v]) * i8_tanh(I8_BOTH(0));
        i8_store_state(t, &at, y);
    I8_END
}

static void i8_cell_gru_linear(const i8_cell_args *t)
{
    float u[I8_MAX_CELLS][I8_CHUNK], o[I8_MAX_CELLS][I8_CHUNK], before[I8_CHUNK], y[I8_CHUNK];
    I8_EACH_CELL(3, 4)
        const float kept = t->kept ? t->kept[i] : 1.0f;
        I8_EACH
        {
            u[n][v] = i8_logistic(I8_BOTH(0)) * kept;
            o[n][v] = I8_GATE(I8_X(2), 2, 2) + i8_logistic(I8_BOTH(1)) * I8_GATE(I8_H(2), 2, 3);
        }
    I8_END
    I8_EACH_CELL(3, 4)
        i8_load_state(t, before, t->before + at.state);
        I8_EACH y[v] = u[n][v] * before[v] + (1.0f - u[n][v]) * i8_tanh(o[n][v]);
        i8_store_state(t, &at, y);
    I8_END
}

/* Compute the gates of 16 units of a panel, and store each gate `step` numbers after the previous gate. */
I8_INLINE void i8_dynamic_gates(const i8_dynamic_cell_args *t, float *gates, const ptrdiff_t step, int panel)
{
    ptrdiff_t column = (ptrdiff_t)panel * 4 * I8_CHUNK;
    for (int g = 0; g < 4; ++g, column += I8_CHUNK) {
        uint32_t h[I8_CHUNK], x[I8_CHUNK];
        float y[I8_CHUNK];
        I8_EACH h[v] = (uint32_t)t->h[column + v] - (uint32_t)t->state_zero * (uint32_t)t->h_sums[column + v];
        I8_EACH x[v] = (uint32_t)t->x[column + v];
        if (t->h_zero)
            I8_EACH h[v] -= (uint32_t)t->h_excess * (uint32_t)t->h_zero[column + v];
        if (t->x_zero)
            I8_EACH x[v] -= (uint32_t)t->x_excess * (uint32_t)t->x_zero[column + v];
        I8_EACH
        {
            const float state = (float)(int32_t)h[v] * (t->state_scale * t->h_scale[column + v]);
            const float source = (float)(int32_t)x[v] * (t->source_scale * t->x_scale[column + v]);
            y[v] = (state + source) + t->bias[column + v];
        }
        i8_floats_store(gates + g * step, i8_floats_load(y));
    }
}

#if I8_CELLS_IN_RUNS

static void i8_cell_dynamic_lstm(const i8_dynamic_cell_args *t)
{
    float gates[4][I8_MAX_CELLS * I8_CHUNK];
    for (int p = 0; p < t->panels; ++p)
        i8_dynamic_gates(t, gates[0] + p * I8_CHUNK, I8_MAX_CELLS * I8_CHUNK, p);
    i8_finish_lstm(gates, t->memory, t->output, t->panels * I8_CHUNK);
}

#else

static void i8_cell_dynamic_lstm(const i8_dynamic_cell_args *t)
{
    float open[I8_MAX_CELLS][I8_CHUNK], gates[4][I8_CHUNK], c[I8_CHUNK], y[I8_CHUNK];
    for (int p = 0; p < t->panels; ++p) {
        i8_dynamic_gates(t, gates[0], I8_CHUNK, p);
        memcpy(c, t->memory + p * I8_CHUNK, sizeof c);
        I8_EACH
        {
            const float kept = i8_logistic(gates[1][v]) * c[v];
            c[v] = kept + i8_logistic(gates[0][v]) * i8_tanh(gates[2][v]);
            open[p][v] = gates[3][v];
        }
        memcpy(t->memory + p * I8_CHUNK, c, sizeof c);
    }
    for (int p = 0; p < t->panels; ++p) {
        memcpy(c, t->memory + p * I8_CHUNK, sizeof c);
        I8_EACH y[v] = i8_logistic(open[p][v]) * i8_tanh(c[v]);
        memcpy(t->output + p * I8_CHUNK, y, sizeof y);
    }
}

#endif
#undef I8_CELLS_IN_RUNS
#undef I8_END
#undef I8_EACH_CELL
#undef I8_BOTH
#undef I8_H
#undef I8_X
#undef I8_GATE
