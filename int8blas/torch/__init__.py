"""int8 in PyTorch models: :func:`quantize_` replaces linear layers, convolutions, attention and
embeddings.

    quantize        quantize_, dequantize_, Int8Dynamic: which modules of a model are replaced
      -> modules      Int8Linear, Int8Conv, Int8Embedding, Int8MultiheadAttention
        -> ops          the operators int8blas::linear and the like, for torch.compile, torch.export and torch.jit

Only this room imports torch, and no other room imports this one.
"""

from int8blas.torch.modules import Int8Conv, Int8Embedding, Int8Linear, Int8MultiheadAttention
from int8blas.torch.quantize import Int8Dynamic, dequantize_, quantize_

__all__ = [
    "Int8Conv",
    "Int8Dynamic",
    "Int8Embedding",
    "Int8Linear",
    "Int8MultiheadAttention",
    "dequantize_",
    "quantize_",
]
