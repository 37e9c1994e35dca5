/* The cells of recurrent layers: sums of the gates become the new state, in f32 and in 8 bits, while they are in the L1
 * cache. Formulas and arguments: i8_cell_args in i8_types.h. A row is 16 units wide, in loops of that length, which the
 * compiler turns into whole vectors. */
#include "eltwise_body.h"

/* f32(x) * scale + bias of one gate, where x is a sum, or the two that make it. */
#define I8_GATE(gate, sum) ((float)(int32_t)(sum) * scale[I8_CHUNK * (gate) + v] + bias[I8_CHUNK * (gate) + v])
#define I8_X(gate) ((uint32_t)x[I8_CHUNK * (gate) + v])
#define I8_H(gate) ((uint32_t)h[I8_CHUNK * (gate) + v])

/* sat(rne(y * data_scale + data_shift)), the shift for NaN. */
I8_INLINE void i8_store_state(const i8_cell_args *t, uint8_t *state, const float *y)
{
    const i8_floats scaled = i8_floats_mul(i8_floats_load(y), i8_floats_set(t->data_scale));
    i8_floats_store_bytes(state, i8_floats_add(i8_floats_ordered(scaled), i8_floats_set(t->data_shift)), 0, 255, 0);
}

/* (state - data_shift) * data_reciprocal */
I8_INLINE void i8_load_state(const i8_cell_args *t, float *y, const uint8_t *state)
{
    const float shift = t->data_shift, reciprocal = t->data_reciprocal;
    I8_EACH y[v] = ((float)state[v] - shift) * reciprocal;
}

/* The rows of a cell: `formula` computes y from x and h, and from the old state in f32 and the memory if it has them. */
#define I8_CELL(name, has_before, has_memory, formula)                                                                             \
    static void name(const i8_cell_args *t)                                                                            \
    {                                                                                                                  \
        const float *const scale = t->scale, *const bias = t->bias;                                                    \
        for (int i = 0; i < t->rows; ++i) {                                                                            \
            const int32_t *const x = t->x + i * t->x_row, *const h = t->h + i * t->h_row;                              \
            float y[I8_CHUNK], before[I8_CHUNK], memory[I8_CHUNK];                                                     \
            if (has_before)                                                                                            \
                i8_load_state(t, before, t->before + i * t->state_row);                                                \
            if (has_memory)                                                                                            \
                memcpy(memory, t->memory + i * t->memory_row, sizeof memory);                                          \
            I8_EACH                                                                                                    \
            {                                                                                                          \
                formula;                                                                                               \
            }                                                                                                          \
            if (has_memory)                                                                                            \
                memcpy(t->memory + i * t->memory_row, memory, sizeof memory);                                          \
            i8_store_state(t, t->after + i * t->state_row, y);                                                         \
            if (t->output)                                                                                             \
                memcpy(t->output + i * t->memory_row, y, sizeof y);                                                    \
        }                                                                                                              \
    }

I8_CELL(i8_cell_lstm, 0, 1,
        const float kept = i8_logistic(I8_GATE(1, I8_X(1) + I8_H(1))) * memory[v];
        const float added = i8_logistic(I8_GATE(0, I8_X(0) + I8_H(0))) * i8_tanh(I8_GATE(2, I8_X(2) + I8_H(2)));
        memory[v] = kept + added;
        y[v] = i8_logistic(I8_GATE(3, I8_X(3) + I8_H(3))) * i8_tanh(memory[v]))

I8_CELL(i8_cell_gru_reset, 1, 1,
        memory[v] = i8_logistic(I8_GATE(0, I8_X(0) + I8_H(0)));
        y[v] = i8_logistic(I8_GATE(1, I8_X(1) + I8_H(1))) * before[v])

I8_CELL(i8_cell_gru_output, 1, 1,
        const float o = i8_tanh(I8_GATE(0, I8_X(0) + I8_H(0)));
        y[v] = memory[v] * before[v] + (1.0f - memory[v]) * o)

I8_CELL(i8_cell_gru_linear, 1, 0,
        const float u = i8_logistic(I8_GATE(0, I8_X(0) + I8_H(0)));
        const float r = i8_logistic(I8_GATE(1, I8_X(1) + I8_H(1)));
        const float recurrent = (float)h[2 * I8_CHUNK + v] * scale[2 * I8_CHUNK + v] + bias[3 * I8_CHUNK + v];
        const float o = i8_tanh(I8_GATE(2, I8_X(2)) + r * recurrent);
        y[v] = u * before[v] + (1.0f - u) * o)

#undef I8_CELL
#undef I8_H
#undef I8_X
#undef I8_GATE
