"""Quantized networks from ONNX files. The package onnx reads files; nothing else here
needs it.

A file becomes a network, a plan, and then runs without the file::

    reader          protobufs become a Network: arrays, names, attributes; external data
      -> graph        the Network as plain data, and its nodes in order
        -> fusion       patterns of nodes that are one operator of bytes
          -> patterns     what makes a tensor, and who takes it      chains     functions of floats, one behind another
            -> operands     scales and biases that layers take
        -> plan         constants folded, functions bound, a flat list of calls, slots for tensors
          -> lookups      functions of one byte as tables     sizes    what follows from shapes
          -> model        load; Model: feeds are checked, and the calls called

    saturation      where other kernels would saturate
    explain         what a plan does                 stored         networks in files of int8blas and pickles
    command         python -m int8blas onnx          evaluator      operators for onnx's own evaluator

    operators       the table of operators, which table describes
      packed          weights that nodes share       exact          onnxruntime's functions of bytes, rounded once
      limits          how large tensors may be       types          ONNX's numbers of types
      integer         8-bit integers, by int8blas      dynamic    floats that become 8-bit integers by their range
      elementwise     functions of elements            shape          what moves elements
      reduction       sums, means, maxima              linear         products of floats
      windows         convolution and pooling          normalization  softmax, means and variances
      generators      constants, ranges                control        If, Loop, Scan
      sequences       lists of tensors               microsoft      onnxruntime's operators of bytes
      resize          images of other sizes          recurrent      LSTM, GRU, RNN
      views           what moves no element          attention      products around a softmax
      reference       what onnx's reference implementation computes
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["Model", "Port", "load", "new_ops"]

if TYPE_CHECKING:
    from int8blas.onnx.evaluator import new_ops
    from int8blas.onnx.model import Model, Port, load
else:
    # Here, not in int8blas: Python looks names of a module up two and a half times as slowly where that has a
    # __getattr__.
    def __getattr__(name):
        """A public name, whose module is imported when the name is first used."""
        if name not in __all__:
            raise AttributeError(f"module 'int8blas.onnx' has no attribute {name!r}")
        module = import_module("int8blas.onnx.evaluator" if name == "new_ops" else "int8blas.onnx.model")
        return globals().setdefault(name, getattr(module, name))

    def __dir__():
        return sorted({*globals(), *__all__})
