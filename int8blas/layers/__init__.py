"""Layers that are products: InnerProduct, RealProduct, RNN, LSTM, GRU, DynamicLSTM. The room imports core, gemm, stage.

inner_product   the public layer
rnn             RNN, LSTM and GRU; rnn_arguments checks their arguments; recurrent drives their steps
dynamic_lstm    DynamicLSTM; dynamic_arguments checks its arguments; dynamic_steps drives its steps
real_product    RealProduct, of float32 matrices with int8 weights, and products of two float32 matrices
real_steps      steps of LSTM and GRU of float32
real_convolution  convolutions of float32 images
real_attention  softmax between two float32 products
cached_attention  causal attention with a cache of keys and values
"""
