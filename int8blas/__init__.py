"""Exact 8-bit integer matrix multiplication for NumPy arrays.

Arrays of other libraries are taken as NumPy views them: buffers, DLPack and ``__array__``, on the CPU, for results too.
float16 and bfloat16 (of ml_dtypes) are taken wherever float32 is, as is float64, which is rounded to it, and bool
wherever uint8 is. docs/howto/arrays.md has the rules.

The modules, and who calls whom::

    blas, _matmul, _explain     gemm_u8s8s32 and its kin, matmul, explain      what users call
    packing, saturation         pack_b, PackedB, would_saturate
    cython_blas                 the GEMMs and packing on pointers, for compiled code; _include for int8blas.h
    inner_product               InnerProduct
    convolution, deconvolution  Convolution, Deconvolution, by _convolution_layer; im2col
    attributes                  Attributes, ReLU, Eltwise, Sum, Binary, PReLU
    _reorder, _weights_scales   reorder, weights_scales
    calibration                 observers of float tensors, QuantizationParameters
    folding                     fold_batch_norm, shifted_bias
    network                     calibrate, fuse_quantization, move_strides
    _file                       save, load; _streams for the paths and file objects that files are in
    elementwise                 eltwise, binary, sum, concat
    quantization                quantize, dequantize, requantize
    quantization_factors        activation_factor, weights_factor, quantize_bias
    pooling                     max_pool, avg_pool, global_max_pool, global_avg_pool
    normalization               softmax, layer_norm
    gather                      gather
    rnn                         LSTM, GRU; _rnn_arguments for their weights
      |
      +-> _arrays       Python objects become arrays and numbers, or an error
      +-> _stage        attributes and values become the output stage of a problem; _requantization for one in integers
      +-> _problem      arrays become a problem for the driver; _filters for a convolution's, with _depthwise, _lines,
      |                 _groups; _window_sums for zero points of weights, _dynamic_images for images of floats
            +-> _gemm       the driver
            |     +-> _plan     how a problem is computed: path, block sizes; _split for threads
            |     +-> _blocks   the general path: tiles of C from packed blocks; _source for a float A
            |     |             _block for one block, whose tiles are computed by _tiles, or with AMX by _matrix;
            |     |             _spans for the parts of a window that are not all padding
            |     +-> _tiny, _rows, _dots, _thin    very small problems, few rows, few columns, small K
            |     +-> _output                       the way of sums to C
      +-> _quantized_layer    what layers with int8 weights have in common; _layer_arguments for their checks
      +-> _signatures   the signatures of classes that are compiled
      +-> _spatial      layouts, strides, padding and the like of images
      +-> _elementwise  a kernel for every element of an array, for quantization
      +-> _chain        chains of functions of every element of some arrays, for elementwise
      +-> _pool         the driver of pooling
      +-> _normalize    the driver of softmax and layer normalization
      +-> _rnn          the driver of recurrent layers, on _gemm and the micro-kernel
            +-> _results    new arrays for results; _memory for them and for the length of a call
            +-> _threads    how many threads a call may use; the gate to OpenMP
            +-> _kernels    the kernel registry; links csrc/, where each instruction set fills one table:
                              gemm_body.h      the micro-kernel
                              rows_body.h, dot_body.h, thin_body.h    the kernels of _rows, _dots, _thin
                              pack_body.h, im2col_body.h              packing, sums, certificates; windows
                              outliers_body.h  a dense B with sums in 16 bits, and outliers
                              depthwise_body.h, depthwise_pairs_body.h, grouped_body.h    the kernels of _depthwise,
                                               the second without VNNI, and of _groups
                              source_body.h    the quantization of a float A
                              epilogue_body.h, stage_body.h, tile_output.h    the output stages,
                              turn_body.h      and their way to a C by columns
                              eltwise_body.h   tanh, exp, erf and the like
                              requantize_stage_body.h, requantize_body.h      the output stage of layers in integers
                              quantize_body.h  the kernels of quantization
                              chain_body.h     the steps of _chain
                              pool_body.h      the kernels of pooling
                              normalize_body.h softmax and layer normalization
                              cell_body.h      the cells of _rnn
                              peak_body.h      the machine's limits, for _peak

    _reorder, with _layouts (layouts, masks) and _packed_weights, is NumPy up to pack_b. calibration, with _observer,
    _histogram and _parameters (a range's scale and zero point; their file), folding and network are NumPy alone. _file
    is below all that can be saved: it knows of them what they register.

    _config, __main__           show_config, python -m int8blas
    _thread_setting             what num_threads and use_isa return
    _verbose                    INT8BLAS_VERBOSE
    _bench, with _peak          python -m int8blas bench: see its __init__
"""

from int8blas import calibration
from int8blas._former import name_former_places
from int8blas._version import __version__
from int8blas.convolution.convolution import Convolution
from int8blas.convolution.deconvolution import Deconvolution
from int8blas.convolution.im2col import im2col
from int8blas.core.config import show_config
from int8blas.core.file import load, save
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
from int8blas.gemm.blas import gemm_s8s8s32, gemm_s8u8s32, gemm_u8s8s32, gemm_u8u8s32
from int8blas.gemm.explain import Explanation, explain
from int8blas.gemm.matmul import matmul
from int8blas.gemm.packing import PackedB, pack_b
from int8blas.gemm.saturation import Saturation, would_saturate
from int8blas.layers.inner_product import InnerProduct
from int8blas.layers.rnn import GRU, LSTM
from int8blas.network.folding import fold_batch_norm, shifted_bias
from int8blas.network.graph import LayerQuantization, calibrate, fuse_quantization, move_strides
from int8blas.stage.attributes import Attributes, Binary, Eltwise, PReLU, ReLU, Sum
from int8blas.stage.weights_scales import weights_scales

__all__ = [
    "GRU",
    "LSTM",
    "Attributes",
    "Binary",
    "Convolution",
    "Deconvolution",
    "Eltwise",
    "Explanation",
    "InnerProduct",
    "LayerQuantization",
    "PReLU",
    "PackedB",
    "ReLU",
    "Saturation",
    "Sum",
    "__version__",
    "activation_factor",
    "available_isas",
    "avg_pool",
    "binary",
    "calibrate",
    "calibration",
    "concat",
    "dequantize",
    "eltwise",
    "explain",
    "fold_batch_norm",
    "fuse_quantization",
    "gather",
    "gemm_s8s8s32",
    "gemm_s8u8s32",
    "gemm_u8s8s32",
    "gemm_u8u8s32",
    "get_include",
    "global_avg_pool",
    "global_max_pool",
    "im2col",
    "layer_norm",
    "load",
    "matmul",
    "max_pool",
    "move_strides",
    "num_threads",
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
    "sum",
    "use_isa",
    "weights_factor",
    "weights_scales",
    "would_saturate",
]

name_former_places()
