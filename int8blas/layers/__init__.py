"""Layers that are products: inner product, LSTM and GRU. It imports core, gemm and stage.

inner_product   the public layer
rnn             LSTM and GRU; rnn_arguments, their checks; recurrent, the driver of their steps
"""
