"""Exact 8-bit integer matrix multiplication for NumPy arrays.

Functions accept arrays of other libraries (buffers, DLPack, ``__array__``) on the CPU as operands and as results,
through NumPy's views of them. If a function accepts float32, it also accepts float16, bfloat16 (of ml_dtypes), and
float64, which it rounds to float32. A function that accepts uint8 also accepts bool. docs/howto/arrays.md has the
rules.

The parts of the package are called rooms. Each room imports only the rooms to its left::

    core <- gemm <- stage <-+- convolution <-+- network <- onnx <- torch
                            +- layers      <-+
                            +- elementwise <-+
                                 +- neighbors <- sklearn

    core          arrays, checked and turned into pointers; kernels, machine, memory, threads, files
    gemm          gemm_u8s8s32 and its variants, syrk_u8s32, matmul, pack_b, PackedB, PackedB4, PackedB16, explain
    stage         Attributes and post-ops, weights_scales; the epilogue of layers
    convolution   Convolution, Deconvolution, im2col
    layers        InnerProduct, RealProduct, RNN, LSTM, GRU, DynamicLSTM
    elementwise   quantize and its variants, eltwise, binary, sum, concat, pooling, softmax, layer_norm, gather, reorder
    network       calibration, calibrate, fuse_quantization, move_strides, fold_batch_norm, shifted_bias
    neighbors     nearest, sqeuclidean, hamming, Index
    onnx          networks from ONNX files: onnx.load, onnx.Model; modules are imported when they are used
    sklearn       scikit-learn's estimators on bytes; int8blas itself does not import this room, which needs sklearn
    torch         int8 in PyTorch models: int8blas.torch.quantize_; int8blas itself does not import this room

These modules belong to no room: ``calibration``, ``formats`` and ``cython_blas``, whose paths are public; ``__main__``,
``_bench`` and ``_golden``, the commands of ``python -m int8blas``; ``_former``, the former paths of modules, for old
pickles; and ``_version``.

This diagram shows the modules that a product calls. A layer also sets the epilogue::

    gemm.blas              a public function: arrays, or an error
      -> gemm.call           a Problem: pointers, strides, shifts to the one product uint8 x int8; run
        -> gemm.driver         the form and the plan of gemm.plan, then the path of the plan
          -> gemm.paths, gemm.blocks
            -> core.kernels      the table of the selected instruction set: csrc/gemm, csrc/stage
              -> C                 sums, or the results of the epilogue

Each room's ``__init__`` describes its modules. docs/architecture.md follows a product, a convolution and a set of
weights through the rooms, and has a glossary.
"""

from int8blas import calibration, onnx
from int8blas._former import name_former_places
from int8blas._version import __version__
from int8blas.convolution.convolution import Convolution
from int8blas.convolution.deconvolution import Deconvolution
from int8blas.convolution.im2col import im2col
from int8blas.core.config import show_config
from int8blas.core.file import load, register_later, save
from int8blas.core.include import get_include
from int8blas.core.kernels import available_isas, use_isa
from int8blas.core.threads import num_threads
from int8blas.elementwise.functions import binary, concat, eltwise, sum
from int8blas.elementwise.gather import gather
from int8blas.elementwise.normalization import layer_norm, softmax
from int8blas.elementwise.pooling import avg_pool, global_avg_pool, global_max_pool, max_pool
from int8blas.elementwise.quantization import dequantize, quantize, quantized_multiplier, requantize
from int8blas.elementwise.quantization_factors import activation_factor, quantize_bias, weights_factor
from int8blas.elementwise.reorder import reorder
from int8blas.gemm.blas import gemm_s8s4s32, gemm_s8s8s32, gemm_s8u8s32, gemm_u8s4s32, gemm_u8s8s32, gemm_u8u8s32
from int8blas.gemm.blas16 import gemm_s16s8s32, gemm_s16s16s32, gemm_u16s8s32, syrk_s16s64
from int8blas.gemm.contractions import dot, einsum, inner, tensordot, vecdot
from int8blas.gemm.explain import explain
from int8blas.gemm.explanation import Explanation, WideExplanation
from int8blas.gemm.four_bits import PackedB4
from int8blas.gemm.matmul import matmul
from int8blas.gemm.packing import PackedB, pack_b
from int8blas.gemm.saturation import Saturation, would_saturate
from int8blas.gemm.sixteen_bits import PackedB16
from int8blas.gemm.syrk import syrk_s8s32, syrk_u8s32
from int8blas.layers.dynamic_lstm import DynamicLSTM
from int8blas.layers.inner_product import InnerProduct
from int8blas.layers.real_product import RealProduct
from int8blas.layers.rnn import GRU, LSTM, RNN
from int8blas.neighbors.distances import sqeuclidean
from int8blas.neighbors.hamming import hamming
from int8blas.neighbors.index import Index
from int8blas.neighbors.nearest import nearest
from int8blas.network.folding import fold_batch_norm, shifted_bias
from int8blas.network.graph import LayerQuantization, calibrate, fuse_quantization, move_strides
from int8blas.stage.attributes import Attributes, Binary, Eltwise, PReLU, ReLU, Sum
from int8blas.stage.weights_scales import weights_scales

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Attributes",
    "Binary",
    "Convolution",
    "Deconvolution",
    "DynamicLSTM",
    "Eltwise",
    "Explanation",
    "Index",
    "InnerProduct",
    "LayerQuantization",
    "PReLU",
    "PackedB",
    "PackedB4",
    "PackedB16",
    "ReLU",
    "RealProduct",
    "Saturation",
    "Sum",
    "WideExplanation",
    "__version__",
    "activation_factor",
    "available_isas",
    "avg_pool",
    "binary",
    "calibrate",
    "calibration",
    "concat",
    "dequantize",
    "dot",
    "einsum",
    "eltwise",
    "explain",
    "fold_batch_norm",
    "fuse_quantization",
    "gather",
    "gemm_s8s4s32",
    "gemm_s8s8s32",
    "gemm_s8u8s32",
    "gemm_s16s8s32",
    "gemm_s16s16s32",
    "gemm_u8s4s32",
    "gemm_u8s8s32",
    "gemm_u8u8s32",
    "gemm_u16s8s32",
    "get_include",
    "global_avg_pool",
    "global_max_pool",
    "hamming",
    "im2col",
    "inner",
    "layer_norm",
    "load",
    "matmul",
    "max_pool",
    "move_strides",
    "nearest",
    "num_threads",
    "onnx",
    "pack_b",
    "quantize",
    "quantize_bias",
    "quantized_multiplier",
    "reorder",
    "requantize",
    "save",
    "shifted_bias",
    "show_config",
    "softmax",
    "sqeuclidean",
    "sum",
    "syrk_s8s32",
    "syrk_s16s64",
    "syrk_u8s32",
    "tensordot",
    "use_isa",
    "vecdot",
    "weights_factor",
    "weights_scales",
    "would_saturate",
]

name_former_places()
register_later("Model", "int8blas.onnx.model")
