"""Layers that are products: inner product, LSTM, GRU and DynamicLSTM. The room imports core, gemm and stage.

inner_product   the public layer
rnn             LSTM and GRU; rnn_arguments checks their arguments; recurrent drives their steps
dynamic_lstm    DynamicLSTM; dynamic_arguments checks its arguments; dynamic_steps drives its steps
real_product    products of float32 matrices, also with weights stored as int8
real_steps      steps of LSTM and GRU of float32
real_filter     filters of the channels of float32 images
real_attention  softmax between two float32 products
"""
