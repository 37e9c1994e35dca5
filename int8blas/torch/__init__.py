"""int8 in PyTorch models: :func:`quantize_` replaces the modules of a model that have large weights.

    reports         report, compare: errors, sizes and times of a model after quantize_
    quantize        quantize_, dequantize_, Int8Dynamic, Int8WeightOnly: they choose and replace modules of a model
      -> modules      Int8Linear, Int8MultiheadAttention, and the base class of all int8 modules
      -> convolutions Int8Conv
      -> recurrent    Int8Recurrent, Int8RecurrentCell, and their operator
      -> tables       Int8Embedding, Int8EmbeddingBag
        -> weights      the attribute `weight` of int8 modules
        -> ops          operators such as int8blas::linear, for torch.compile, torch.export and torch.jit

    static          prepare, convert, calibrate: static networks, which are int8 between their layers
      -> translation  operators of torch as nodes of int8blas.onnx, whose networks compute the results
      -> shapes       shapes of a network's results, for compilers

    others          quantized modules of other libraries, and int_mm

Only this package imports torch, and no other package of int8blas imports this package.
"""

from typing import Any

from int8blas.torch.convolutions import Int8Conv
from int8blas.torch.modules import Int8Linear, Int8MultiheadAttention
from int8blas.torch.others import int_mm
from int8blas.torch.quantize import Int8Dynamic, Int8WeightOnly, dequantize_, quantize_, torchao_config
from int8blas.torch.recurrent import Int8Recurrent, Int8RecurrentCell
from int8blas.torch.reports import Comparison, Report, Row, compare, report
from int8blas.torch.static import Int8Network, Int8Static, Prepared, calibrate, convert, prepare
from int8blas.torch.tables import Int8Embedding, Int8EmbeddingBag

__all__ = [
    "Comparison",
    "Int8Conv",
    "Int8Dynamic",
    "Int8Embedding",
    "Int8EmbeddingBag",
    "Int8Linear",
    "Int8MultiheadAttention",
    "Int8Network",
    "Int8Recurrent",
    "Int8RecurrentCell",
    "Int8Static",
    "Int8WeightOnly",
    "Prepared",
    "Report",
    "Row",
    "calibrate",
    "compare",
    "convert",
    "dequantize_",
    "int_mm",
    "prepare",
    "quantize_",
    "report",
]


def __getattr__(name: str) -> Any:
    """Create Int8DynamicConfig, which needs torchao, at its first use."""
    if name != "Int8DynamicConfig":
        raise AttributeError(f"module 'int8blas.torch' has no attribute {name!r}")
    globals()[name] = torchao_config()
    return globals()[name]
