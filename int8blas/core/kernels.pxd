# The C declarations of csrc/isa/kernels.h, and access to the selected kernel table for other extension modules.
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "core/compiler.h" nogil:
    void i8_finish_streams()
    void I8_PREFETCH_WRITE(const void *p)

cdef extern from "isa/kernels.h" nogil:
    enum: I8_PANEL, I8_GROUP, I8_MAX_MR, I8_MAX_NP, I8_MAX_SCALED_MR, I8_MAX_SEQUENTIAL, I8_MAX_TILE, I8_MAX_COLUMNS
    enum: I8_LONG_K_SEGMENT
    int I8_SHORT_TILE(int np)
    enum: I8_DOT4, I8_DOT4_SAT, I8_DOT2, I8_DOT8, I8_DOT_SMALL, I8_DOT_INTERLEAVED, I8_INTERLEAVED_K
    enum: I8_MAX_PAIR_SUM
    enum: I8_OUTLIER_K
    enum: I8_A_UNSIGNED, I8_B_UNSIGNED, I8_X_UNSIGNED, I8_Y_UNSIGNED, I8_MAX_FEW_ROWS, I8_MAX_SMALL_K
    enum: I8_DOTS_1, I8_DOTS_8, I8_DOTS_16
    enum: I8_TYPE_U8, I8_TYPE_S8, I8_TYPE_S32, I8_TYPE_F32, I8_TYPE_F16, I8_TYPE_BF16, I8_TYPE_S64
    enum: I8_SUM, I8_PRELU, I8_ADD, I8_SUB, I8_MUL, I8_MIN, I8_MAX, I8_GE, I8_NE
    enum: I8_SHIFT, I8_RELU, I8_ELTWISE, I8_CHUNK, I8_MAX_REPEATS

    ctypedef struct i8_column_values:
        const float *values
        ptrdiff_t step

    ctypedef struct i8_post_op:
        int kind, type
        float alpha, beta, scale
        const float *operand
        ptrdiff_t operand_row, operand_col

    enum: I8_FLOAT, I8_DOUBLING, I8_SINGLE
    float I8_ROUNDER

    ctypedef struct i8_requantization:
        int scheme
        const int32_t *multiplier
        const int32_t *exponent
        const int32_t *zero_point
        const int32_t *low
        const int32_t *high

    ctypedef struct i8_stage:
        i8_column_values scale
        i8_column_values bias
        i8_column_values dst_scale
        i8_column_values dst_zero
        int bias_first, relu, finite, rescales, shifts
        float rounder
        int integral
        const int32_t *offset
        const int32_t *col_sums
        int op_count
        const i8_post_op *ops
        i8_requantization requantization

    ctypedef struct i8_scale_groups:
        int64_t size
        const float *scales
        const uint16_t *half_scales
        const int32_t *col_sums
        ptrdiff_t row_step, column_step
        const float *row_scales
        const int64_t *row_zeros
        const int64_t *column_zeros

    enum: I8_BLAS, I8_INT64, I8_DISTANCES, I8_QUANTIZED, I8_SCALE_GROUPS

    ctypedef struct i8_epilogue:
        int kind, type
        double alpha, beta
        int *saturated
        int32_t co
        const int32_t *co_rows
        const int32_t *co_cols
        const i8_stage *stage
        const float *row_scales
        const i8_scale_groups *scale_groups
        int doubled
        int32_t *column_squares

    ctypedef struct i8_tile_output:
        const i8_epilogue *epilogue
        int64_t row, column
        const float *row_scale
        int stream
        char *c
        ptrdiff_t c_row

    ctypedef struct i8_tile_a:
        const uint8_t *data
        ptrdiff_t tile, row, group, segment
        const uint32_t *tail

    ctypedef struct i8_tile_b:
        const int8_t *data
        ptrdiff_t panel, segment
        const int8_t *tail

    ctypedef struct i8_tile_args:
        int64_t tiles, groups, more_segments
        i8_tile_a a
        i8_tile_b b
        const int32_t *acc_in
        ptrdiff_t acc_row
        const int32_t *row_init
        const int32_t *col_init
        int32_t *dst
        ptrdiff_t dst_row
        int cols
        const char *fetch
        ptrdiff_t fetch_row
        const char *ahead
        ptrdiff_t ahead_step
        int along_n, sequential
        int64_t small_groups
        const i8_tile_output *output
        int rows, unit_rows

    ctypedef void (*i8_tile_fn)(const i8_tile_args *) noexcept nogil

    ctypedef int64_t (*i8_peak_fn)(int64_t iterations) noexcept nogil

    ctypedef struct i8_limits:
        i8_peak_fn peak
        uint32_t (*read)(const uint8_t *p, ptrdiff_t gap, ptrdiff_t step, int64_t count) noexcept nogil
        int read_bytes

    enum: I8_MATRIX_ROWS, I8_MATRIX_K, I8_MATRIX_TILE

    ctypedef struct i8_matrix:
        int mr, np
        int64_t kc, a_bytes, b_bytes
        double thread_work
        int64_t least_rows, least_k
        int dots_columns
        i8_tile_fn tile[2][2]
        void (*pack)(uint8_t *dst, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride, ptrdiff_t k_stride,
                     uint8_t flip) noexcept nogil
        void (*enter)(int unit_rows) noexcept nogil
        void (*leave)() noexcept nogil
        i8_peak_fn peak

    ctypedef struct i8_outliers:
        uint16_t k[4]
        int8_t rest[4]

    ctypedef struct i8_outlier_args:
        int64_t rows
        const uint8_t *a
        int64_t a_columns
        const i8_outliers *outliers
        const int64_t *starts
        int add
        int32_t *dst
        ptrdiff_t dst_row

    ctypedef struct i8_dot_args:
        int64_t k, rows
        const uint8_t *x
        const uint8_t *y
        ptrdiff_t x_row, ahead
        uint8_t x_flip
        int uncached, count
        const int32_t *start
        const int32_t *x_squares
        void *dst
        ptrdiff_t dst_row, dst_column

    ctypedef void (*i8_dot_fn)(const i8_dot_args *) noexcept nogil

    ctypedef struct i8_small_k_a:
        const uint8_t *data
        ptrdiff_t row, group
        int tail
        uint8_t flip

    ctypedef struct i8_small_k_args:
        int64_t rows, cols
        int groups, first, stream, distances
        i8_small_k_a a
        const int8_t *b
        const int32_t *row_init
        const int32_t *col_init
        int32_t *dst
        ptrdiff_t dst_row

    ctypedef struct i8_few_rows_args:
        int64_t groups
        const uint8_t *a
        ptrdiff_t a_group
        const uint8_t *b
        ptrdiff_t b_row
        uint32_t b_flip
        int b_tail, first, centered
        ptrdiff_t ahead
        int64_t blocks
        int32_t *acc
        ptrdiff_t acc_row, acc_block

    ctypedef void (*i8_few_rows_fn)(const i8_few_rows_args *) noexcept nogil

    ctypedef struct i8_output_args:
        const i8_epilogue *epilogue
        int rows, cols
        int64_t row, column
        const int32_t *acc32
        const int64_t *acc64
        const float *acc_f32
        ptrdiff_t acc_row
        const int64_t *ao
        const int64_t *col_sum
        const int64_t *bo
        const int64_t *row_term
        const float *row_scale
        char *c
        ptrdiff_t c_row, c_col

    ctypedef struct i8_scale_group_args:
        int rows, panels
        const int32_t *acc
        ptrdiff_t acc_row
        int64_t ao
        const int64_t *ao_rows
        const int32_t *col_sum
        const int64_t *bo
        const int32_t *row_term
        int64_t far_size
        const float *scale
        const float *row_scale
        ptrdiff_t panel_step
        float *y
        ptrdiff_t y_row

    ctypedef void (*i8_scale_groups_fn)(const i8_tile_args *, const i8_scale_group_args *, int64_t) noexcept nogil

    enum: I8_U8, I8_S8, I8_S32

    ctypedef struct i8_elements_args:
        int64_t n
        const void *x
        void *out
        const void *parameters[3]
        int each, stream

    ctypedef void (*i8_elements_fn)(const i8_elements_args *) noexcept nogil

    ctypedef struct i8_sum_rows_args:
        int64_t n, count
        const int8_t *table
        ptrdiff_t row
        const float *scales
        const int64_t *indices
        float *y

    ctypedef struct i8_image:
        const uint8_t *src
        const uint8_t *end
        ptrdiff_t steps[5]
        int64_t size[3]
        int64_t out[3]
        int64_t kernel[3]
        int64_t stride[3]
        int64_t dilation[3]
        int64_t before[3]
        int64_t channels, line
        uint8_t padding

    enum: I8_MAX_DEPTHWISE, I8_DEPTHWISE_VALUES, I8_STRIDED

    ctypedef struct i8_depthwise_args:
        int pixels, channels, lines, taps, stride, dilation, together, line_stride, first, end
        const uint8_t *const *line
        ptrdiff_t column_step
        const uint8_t *padding
        uint8_t flip
        const int8_t *weights
        ptrdiff_t panel_size, weights_step
        const int32_t *start
        uint8_t *interleaved
        uint8_t *prepared
        int is_prepared
        const i8_tile_output *output
        ptrdiff_t c_line
        int32_t *dst

    enum: I8_MAX_GROUPED

    ctypedef struct i8_grouped_args:
        int pixels, channels, size, lines, taps, window, first
        const uint8_t *a
        ptrdiff_t a_pixel, a_line, a_tap
        const int8_t *weights
        const int32_t *start
        const i8_tile_output *output
        int32_t *dst

    void i8_set_part(i8_output_args *part, const i8_output_args *o, int row, int column, int rows, int cols)
    int i8_grouped_output(int size, int p, int o)

    enum: I8_POOL_RUN, I8_POOL_WINDOW, I8_POOL_PART

    ctypedef struct i8_pool_args:
        int64_t n, runs
        const uint8_t *src
        char *out
        ptrdiff_t src_step, out_step
        int64_t counts[3]
        ptrdiff_t strides[3]
        int type, each
        const float *divisors
        ptrdiff_t divisor_step
        int multiplier, bias, parity_shift, shift

    ctypedef void (*i8_pool_fn)(const i8_pool_args *) noexcept nogil

    enum: I8_ADD_BYTES, I8_MULTIPLY_BYTES

    ctypedef struct i8_bytes_args:
        int64_t n
        const uint8_t *x[2]
        uint8_t flip[2]
        float scale[2]
        float zero[2]
        float dst_scale, dst_zero
        int onnx
        uint8_t *out

    ctypedef void (*i8_bytes_fn)(const i8_bytes_args *) noexcept nogil

    int64_t I8_NORMALIZE_ROOM(int64_t n)
    int64_t I8_ACROSS_ROOM(int64_t rows, int64_t n)

    ctypedef struct i8_normalize_args:
        int64_t rows, n
        const char *src
        char *dst
        const float *plus
        ptrdiff_t src_row, dst_row, plus_row
        int src_type, dst_type
        float scale, dst_scale, dst_zero
        int log, root
        const float *gamma
        const float *beta
        float epsilon
        float *workspace

    ctypedef void (*i8_normalize_fn)(const i8_normalize_args *) noexcept nogil

    enum: I8_LSTM, I8_GRU_RESET, I8_GRU_OUTPUT, I8_GRU_LINEAR, I8_LSTM_PEEPHOLE, I8_RNN

    enum: I8_RNN_LINEAR, I8_RNN_RELU, I8_RNN_TANH, I8_RNN_LOGISTIC

    enum: I8_MAX_CELLS

    ctypedef struct i8_cell_args:
        int rows, panels
        const int32_t *x
        const int32_t *h
        ptrdiff_t x_row, h_row
        const float *scale
        const float *bias
        const float *peephole
        const float *kept
        int activation
        float alpha
        float data_scale, data_reciprocal, data_shift
        const uint8_t *before
        uint8_t *after
        ptrdiff_t state_row
        float *memory
        float *output
        ptrdiff_t memory_row

    ctypedef void (*i8_cell_fn)(const i8_cell_args *) noexcept nogil

    ctypedef struct i8_dynamic_cell_args:
        int panels
        const int32_t *x
        const int32_t *h
        const float *x_scale
        const float *h_scale
        const float *bias
        float source_scale, state_scale
        const int32_t *h_sums
        const int32_t *x_zero
        const int32_t *h_zero
        int32_t state_zero, x_excess, h_excess
        float *memory
        float *output

    ctypedef void (*i8_dynamic_cell_fn)(const i8_dynamic_cell_args *) noexcept nogil

    ctypedef struct i8_long_k_args:
        int64_t k
        const uint8_t *x
        const uint8_t *y
        ptrdiff_t x_row, y_row
        int64_t *dst
        ptrdiff_t dst_row, dst_column

    ctypedef void (*i8_long_k_fn)(const i8_long_k_args *) noexcept nogil

    ctypedef struct i8_distance_args:
        int64_t k, count
        const uint8_t *x
        const uint8_t *y
        ptrdiff_t x_row, y_row
        const int64_t *x_sums
        const int32_t *x_squares
        const int32_t *y_squares
        int32_t *dst
        ptrdiff_t dst_row

    ctypedef void (*i8_distance_fn)(const i8_distance_args *) noexcept nogil

    enum: I8_STACK_UNIT, I8_STACK_SIDE, I8_STACK_DEPTH, I8_STACK_RUN_DEPTH

    ctypedef enum i8_stack_form: I8_STACK_RUNS, I8_STACK_UNITS, I8_STACK_LINES, I8_STACK_DOTS

    ctypedef struct i8_stack_operand:
        const uint8_t *data
        ptrdiff_t step
        int span, first, row, column
        int32_t zero
        uint8_t flip

    ctypedef struct i8_stack_args:
        int64_t count
        i8_stack_form form
        int m, n, k
        i8_stack_operand a, b
        int32_t *c
        ptrdiff_t c_step

    enum: I8_MAX_FOUR_BITS

    ctypedef struct i8_four_bits_args:
        int rows, panels
        int64_t groups, steps
        const int8_t *a
        ptrdiff_t a_row, b_step
        const uint8_t *b
        const int32_t *row_init
        int32_t *dst
        const float *scale
        const float *row_scale
        const uint16_t *half_scale
        const int32_t *ao
        const int32_t *col_sum
        const int32_t *row_terms
        const uint8_t *zeros
        float *y
        ptrdiff_t dst_row

    ctypedef struct i8_tiles:
        i8_tile_fn of[8][3]

    ctypedef struct i8_scaled_tiles:
        int mr
        i8_scale_groups_fn of[I8_MAX_SCALED_MR][I8_MAX_NP]

    ctypedef struct i8_interleaved_kernels:
        uint8_t flip
        void (*interleave)(uint8_t *a, int height, int64_t groups) noexcept nogil

    ctypedef struct i8_few_rows_kernels:
        int mr, columns
        i8_few_rows_fn of[2][12]
        void (*copy_rows)(uint8_t *dst, int64_t bytes, int64_t rows, const uint8_t *src,
                          ptrdiff_t row_stride) noexcept nogil
        void (*store_rows)(int32_t *dst, const int32_t *acc, int32_t add) noexcept nogil
        void (*halve_row)(uint8_t *dst, const uint8_t *src, int64_t dwords, int a_unsigned) noexcept nogil
        void (*halve_centered)(uint8_t *dst, const uint8_t *src, int64_t k, int a_unsigned, int32_t zero) noexcept nogil

    ctypedef struct i8_dot_kernels:
        int rows, columns
        i8_dot_fn of[2][6]
        int64_t (*size)(int columns, int64_t k) noexcept nogil
        void (*order)(uint8_t *dst, const uint8_t *src, int columns, int64_t k, int y_unsigned) noexcept nogil

    ctypedef struct i8_long_k_kernels:
        int rows, columns
        i8_long_k_fn of[2][2][3][3]

    ctypedef struct i8_distance_kernels:
        int rows
        i8_distance_fn of[2][2][5]
        void (*column_squares)(int32_t *squares, const int8_t *panel, int64_t groups,
                               const int64_t *sums) noexcept nogil

    ctypedef struct i8_small_k_kernels:
        int rows, limit
        void (*run)(const i8_small_k_args *) noexcept nogil

    ctypedef struct i8_outlier_kernels:
        int64_t (*split_panel)(int8_t *dense, i8_outliers *dst, int64_t room, int64_t *starts, const int8_t *panel,
                               int64_t groups, int64_t block) noexcept nogil
        void (*multiply)(const i8_outlier_args *) noexcept nogil
        void (*columns_of)(uint8_t *dst, int64_t columns, const uint8_t *a, ptrdiff_t a_row, ptrdiff_t a_col,
                           int64_t rows, int64_t k, uint8_t flip) noexcept nogil

    ctypedef struct i8_gemm_kernels:
        int mr, np, row_np, exact
        const i8_tiles *tiles[6]
        int tile_output
        i8_interleaved_kernels interleaved
        i8_few_rows_kernels few_rows
        void (*four_bits)(const i8_four_bits_args *) noexcept nogil
        i8_dot_kernels dots
        i8_long_k_kernels long_k
        i8_distance_kernels distances
        i8_small_k_kernels small_k
        void (*stack)(const i8_stack_args *) noexcept nogil
        i8_outlier_kernels outliers
        const i8_scaled_tiles *scaled_tiles
        i8_limits limits

    ctypedef struct i8_packing_kernels:
        void (*pack_panel)(uint8_t *dst, int width, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                           ptrdiff_t k_stride, uint8_t flip) noexcept nogil
        void (*pack_tiles)(uint8_t *dst, const int *first, int tiles, int64_t k, const uint8_t *src,
                           ptrdiff_t k_stride, int64_t readable, uint8_t flip) noexcept nogil
        void (*pack_panels)(uint8_t *dst, ptrdiff_t panel_stride, int64_t columns, int64_t k, const uint8_t *src,
                            ptrdiff_t column_stride, ptrdiff_t k_stride, uint8_t flip) noexcept nogil
        void (*unpack_panels)(uint8_t *dst, ptrdiff_t dst_row, int64_t columns, int64_t k, const uint8_t *src,
                              ptrdiff_t panel_stride, uint8_t flip) noexcept nogil
        void (*unpack_four_bits)(int8_t *dst, const uint8_t *src, int64_t groups, uint8_t zero, const uint8_t *zeros,
                                 int64_t zero_groups) noexcept nogil
        void (*row_sums)(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                         ptrdiff_t k_stride, uint8_t flip) noexcept nogil
        void (*panel_sums)(int64_t *sums, const int8_t *panel, int64_t groups) noexcept nogil
        void (*scale_sums)(int32_t *dst, const int64_t *sums, int64_t n, int32_t factor) noexcept nogil
        void (*row_squares)(int64_t *sums, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                            ptrdiff_t k_stride, int is_signed) noexcept nogil
        void (*panel_squares)(int64_t *sums, const int8_t *panel, int64_t groups) noexcept nogil
        void (*value_range)(uint8_t *range, int64_t rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                            ptrdiff_t k_stride, uint8_t flip, int enough) noexcept nogil
        void (*rebase)(uint8_t *x, int64_t n, uint8_t by) noexcept nogil
        int (*panel_pair_sum)(const int8_t *panel, int64_t groups, int enough) noexcept nogil
        void (*im2col)(uint8_t *dst, ptrdiff_t dst_row, const i8_image *image, int64_t row, int64_t rows, int64_t k0,
                       int64_t k, uint8_t flip) noexcept nogil
        void (*image_lines)(uint8_t *dst, ptrdiff_t dst_line, ptrdiff_t dst_group, int64_t groups,
                            const i8_image *image, int64_t y, int64_t lines, int64_t x, int64_t columns,
                            uint8_t flip) noexcept nogil
        void (*widen_a)(uint16_t *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, ptrdiff_t src_group,
                        int64_t rows, int64_t k, uint8_t flip) noexcept nogil
        void (*widen_b)(int16_t *dst, const int8_t *src, int64_t groups) noexcept nogil

    ctypedef struct i8_real_tile_args:
        int rows, panels, first
        int64_t k
        const float *a
        const float *b
        const float *scale
        float *c
        ptrdiff_t a_row, b_row, c_row
        const ptrdiff_t *steps

    enum:
        I8_REAL_WIDE
        I8_REAL_ROW_PANELS

    ctypedef struct i8_real_row_args:
        int panels, first
        int64_t k
        const float *a
        const float *scale
        const float *factor
        const int8_t *weights
        ptrdiff_t panel_size
        float *c

    ctypedef struct i8_real_filter_args:
        int64_t count
        int taps
        const float *weights
        const float *x
        const ptrdiff_t *offsets
        float *y

    ctypedef struct i8_stage_kernels:
        void (*output)(const i8_output_args *) noexcept nogil
        void (*add_scale_group)(const i8_scale_group_args *) noexcept nogil
        void (*transpose_store)(char *c, ptrdiff_t c_row, ptrdiff_t c_col, const char *tile, ptrdiff_t tile_row,
                                int rows, int cols, int size) noexcept nogil
        void (*source_range)(float *range, const char *src, int type, ptrdiff_t step, int64_t k) noexcept nogil
        void (*quantize_source)(uint8_t *dst, const char *src, int type, ptrdiff_t step, int64_t k, float reciprocal,
                                float zero) noexcept nogil
        void (*source_largest)(float *largest, const char *src, ptrdiff_t row, int64_t rows, int type, ptrdiff_t step,
                               int64_t k) noexcept nogil
        void (*quantize_within)(uint8_t *dst, ptrdiff_t dst_row, const char *src, ptrdiff_t row, int64_t rows, int type,
                                ptrdiff_t step, int64_t k, const float *scales, uint8_t flip) noexcept nogil
        int real_rows, real_panels
        void (*real_panel)(float *dst, ptrdiff_t dst_k, const int8_t *panel, int64_t groups) noexcept nogil
        void (*real_tile)(const i8_real_tile_args *) noexcept nogil
        void (*real_columns)(const i8_real_tile_args *) noexcept nogil
        void (*real_row)(const i8_real_row_args *) noexcept nogil
        void (*real_filter)(const i8_real_filter_args *) noexcept nogil

    ctypedef struct i8_convolution_kernels:
        int depthwise_channels, depthwise_lines
        void (*depthwise)(const i8_depthwise_args *) noexcept nogil
        void (*depthwise_strided)(const i8_depthwise_args *) noexcept nogil
        int grouped_pixels, grouped_channels
        void (*grouped)(const i8_grouped_args *) noexcept nogil
        void (*widen_grouped)(int8_t *dst, const int8_t *src, int64_t groups) noexcept nogil

    ctypedef struct i8_elementwise_kernels:
        i8_elements_fn quantize[3]
        i8_elements_fn quantize_onnx[3]
        i8_elements_fn dequantize[3]
        i8_elements_fn requantize[4][3]
        i8_pool_fn maximum[2]
        i8_pool_fn average[2]
        void (*load[6])(float *y, const void *x, int64_t n, float scale, float zero) noexcept nogil
        void (*apply)(const i8_post_op *op, float *y, const float *x, const float *z, int64_t z_step,
                      int64_t n) noexcept nogil
        void (*store[6])(void *out, const float *y, int64_t n, float scale, float zero) noexcept nogil
        void (*sum_rows)(const i8_sum_rows_args *) noexcept nogil
        void (*lookup)(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table) noexcept nogil
        void (*spread)(int32_t *out, const int32_t *values, int64_t count, int64_t repeats, int64_t start,
                       int64_t n) noexcept nogil
        void (*clamp)(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *flip, uint8_t low,
                      uint8_t high) noexcept nogil
        i8_bytes_fn bytes[2][2][2]
        i8_bytes_fn direct[12][2]
        i8_normalize_fn softmax
        i8_normalize_fn softmax_across
        i8_normalize_fn layer_norm

    ctypedef struct i8_recurrent_kernels:
        i8_cell_fn cells[4]
        i8_dynamic_cell_fn dynamic_lstm

    enum: I8_INNER, I8_SQEUCLIDEAN, I8_COSINE, I8_HAMMING

    ctypedef struct i8_above_args:
        int64_t count, first
        const int32_t *sums
        const int32_t *squares
        const float *lengths
        int32_t threshold
        float limit
        int single
        uint64_t *found

    ctypedef struct i8_neighbors_kernels:
        int64_t (*above[4])(const i8_above_args *) noexcept nogil

    ctypedef struct i8_hamming_args:
        int64_t rows, columns, groups
        const uint8_t *x
        ptrdiff_t x_row
        const int8_t *panels
        int32_t *dst
        ptrdiff_t dst_row
        int32_t flip

    enum: I8_WIDE_S16, I8_WIDE_S16_FULL, I8_WIDE_S32, I8_WIDE_S64, I8_WIDE_F64
    enum: I8_INT_S8, I8_INT_U8, I8_INT_S16, I8_INT_U16, I8_INT_S32, I8_INT_U32, I8_INT_S64, I8_INT_U64

    ctypedef struct i8_wide_tile_args:
        int64_t groups
        const char *a
        const char *b
        ptrdiff_t panel
        void *c
        ptrdiff_t c_row
        int rows, cols, add

    ctypedef struct i8_int_bits:
        uint64_t magnitude, sign

    ctypedef struct i8_wide_kind:
        int rows, columns
        void (*tile)(const i8_wide_tile_args *) noexcept nogil

    ctypedef struct i8_wide_kernels:
        i8_wide_kind kinds[5]
        void (*pack[5][8])(char *dst, int lines, int width, int64_t k, const char *src, ptrdiff_t line,
                           ptrdiff_t step) noexcept nogil
        void (*bits[8])(i8_int_bits *bits, const char *src, ptrdiff_t step, int64_t n) noexcept nogil
        void (*narrow[8])(uint8_t *dst, i8_int_bits *bits, const char *src, ptrdiff_t step, int64_t n) noexcept nogil
        void (*wrap[8])(char *dst, ptrdiff_t step, const int64_t *sums, int64_t n) noexcept nogil
        int (*saturate[8])(char *dst, ptrdiff_t step, const int64_t *sums, int64_t n) noexcept nogil
        void (*residues)(int64_t *x, const double *near, int64_t n, int64_t p, int64_t low, int64_t add) noexcept nogil

    ctypedef struct i8_tuning:
        int64_t kc, a_bytes, nc
        double thread_work
        int64_t tiny_work, few_rows_limit

    ctypedef struct i8_kernels:
        const char *name
        int (*supported)() noexcept nogil
        i8_tuning tuning
        const i8_gemm_kernels *gemm
        const i8_matrix *matrix
        const i8_wide_kernels *wide
        void (*hamming)(const i8_hamming_args *) noexcept nogil
        const i8_convolution_kernels *convolution
        const i8_packing_kernels *packing
        const i8_stage_kernels *stage
        const i8_elementwise_kernels *elementwise
        const i8_recurrent_kernels *recurrent
        const i8_neighbors_kernels *neighbors


# The kernel table that the calling thread uses.
cdef const i8_kernels *current_kernels() noexcept nogil


cdef inline int tile_panels(const i8_kernels *kernels, int64_t rows) noexcept nogil:
    """Return the panels of a full tile of a product with `rows` rows."""
    return kernels.gemm.np if rows > 1 else kernels.gemm.row_np
