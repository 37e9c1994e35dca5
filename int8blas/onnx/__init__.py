"""Run quantized networks from ONNX files. Only reading a file needs the package onnx.

The package converts a file to a network, and the network to a plan. It runs the plan without the file::

    reader          converts protobufs to a Network: arrays, names, attributes, external data
      -> graph        the Network as plain data, and its nodes in order
        -> fusion       replaces patterns of nodes by one quantized operator
          -> constants    nodes of constants             products   products and the operators after them
          -> patterns     producers and consumers of tensors    chains     element-wise operators in one pass
            -> operands     scales and biases that layers take
        -> plan         folded constants, bound functions, a flat list of calls, slots for tensors
          -> lookups      int8 operators as tables              sizes      tensors that depend on shapes alone
          -> model        load; Model: check the feeds, run the calls

    schemas         the attributes of ONNX's operators
    islands         float parts that sessions of onnxruntime compute
    widening        float16 networks in float32    quantizing     float32 networks in int8
    saturation      sums that other kernels would saturate
    explain         the calls of a plan                stored         networks in files of int8blas and pickles
    command         python -m int8blas onnx            evaluator      operators for onnx's own evaluator

    operators       the table of operators (the module table describes a row)
      packed          shared weights, packed once      exact          onnxruntime's int8 operators, rounded once
      limits          the largest tensors              types          ONNX's numbers of types
      integer         ONNX's int8 operators            dynamic        layers with dynamic quantization
      elementwise     element-wise operators           shape          operators that move elements
      reduction       sums, means, maxima              linear         float products
      windows         convolution and pooling          normalization  softmax, means and variances
      generators      constants, ranges                control        If, Loop, Scan
      sequences       lists of tensors                 microsoft      onnxruntime's int8 operators
      resize          images of other sizes            recurrent      LSTM, GRU, RNN
      vision          samples of images, boxes         learning       trees, linear models of ai.onnx.ml
      views           operators that copy no element   attention      products around a softmax
      fused           operators of onnxruntime's optimizer   sessions     nodes that onnxruntime computes
      blocked         weights with scales by blocks    decoders       attention with a cache
      four_bits       weights of 4 bits behind DequantizeLinear
      reference       operators that call onnx's reference implementation
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["Model", "Port", "load", "new_ops"]

if TYPE_CHECKING:
    from int8blas.onnx.evaluator import new_ops
    from int8blas.onnx.model import Model, Port, load
else:
    # A __getattr__ in the module int8blas would make Python look up each name of int8blas 2.5x slower.
    def __getattr__(name):
        """Return a public name. Import its module when the name is first used."""
        if name not in __all__:
            raise AttributeError(f"module 'int8blas.onnx' has no attribute {name!r}")
        module = import_module("int8blas.onnx.evaluator" if name == "new_ops" else "int8blas.onnx.model")
        return globals().setdefault(name, getattr(module, name))

    def __dir__():
        return sorted({*globals(), *__all__})
