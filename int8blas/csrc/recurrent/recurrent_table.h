/* The table of the cells of recurrent layers of a vector width. */
#include "recurrent/cell_body.h"

const i8_recurrent_kernels I8_WIDTH_TABLE(recurrent) = {
    .cells = {i8_cell_lstm, i8_cell_gru_reset, i8_cell_gru_output, i8_cell_gru_linear},
    .dynamic_lstm = i8_cell_dynamic_lstm,
};
