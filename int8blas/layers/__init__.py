"""Layers that compute products. The package imports core, gemm and stage.

inner_product   InnerProduct
rnn             RNN, LSTM and GRU; rnn_arguments checks their arguments, and recurrent runs their steps
dynamic_lstm    DynamicLSTM; dynamic_arguments checks its arguments, and dynamic_steps runs its steps
real_product    RealProduct (float32 matrices times int8 weights), and products of two float32 matrices
real_steps      steps of LSTM, GRU and RNN in float32
real_convolution  convolutions of float32 images
real_attention  attention: softmax between two float32 products
cached_attention  causal attention with a cache of keys and values
"""
