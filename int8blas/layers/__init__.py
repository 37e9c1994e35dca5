"""Layers that are products: inner product, LSTM and GRU, and an LSTM of real numbers. It imports core, gemm and stage.

inner_product   the public layer
rnn             LSTM and GRU; rnn_arguments, their checks; recurrent, the driver of their steps
dynamic_lstm    DynamicLSTM; dynamic_arguments, its checks; dynamic_steps, the driver of its steps
real_product    products of real numbers, also with weights that are stored in 8 bits
real_attention  two of them with a softmax between
"""
