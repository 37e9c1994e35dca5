/* The cells of recurrent layers for a vector width. */
#include "isa/width.h"

#ifdef I8_LANES
#include "recurrent/cell_body.h"

const i8_recurrent_kernels I8_WIDTH_TABLE(recurrent) = {
    .cells = {i8_cell_lstm, i8_cell_gru_reset, i8_cell_gru_output, i8_cell_gru_linear,
              i8_cell_lstm_peephole, i8_cell_rnn},
    .dynamic_lstm = i8_cell_dynamic_lstm,
};
I8_TARGET_END
#endif
