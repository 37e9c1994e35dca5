"""int8 modules that replace torch's embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn import functional

from int8blas.torch.modules import WeightedModule, as_leaf, quantized_rows
from int8blas.torch.ops import FLOAT32, embedding, find_bags, find_rows, runs_now


class Int8Embedding(WeightedModule):
    """A table of int8 with a scale for each row, which takes a quarter of the memory of float32.

    :func:`quantize_` creates this module from ``nn.Embedding``. The result has the dtype of the original table.

    Parameters
    ----------
    module : nn.Embedding
        A module without `max_norm`.

    Attributes
    ----------
    num_embeddings, embedding_dim, padding_idx
        As in the module.
    quantized : Tensor of int8
        (num_embeddings, embedding_dim).
    scale : Tensor of float32
        One scale for each row.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> layer = int8blas.torch.quantize_(torch.nn.Embedding(1000, 64))
    >>> layer, layer(torch.tensor([[3, 1, 999]])).shape
    (Int8Embedding(1000, 64), torch.Size([1, 3, 64]))
    """

    quantized: Tensor
    scale: Tensor

    def __init__(self, module: nn.Embedding | nn.EmbeddingBag) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = module.num_embeddings, module.embedding_dim
        self.padding_idx, self.dtype = module.padding_idx, module.weight.dtype
        integers, scale = quantized_rows(module.weight)
        self.register_buffer("quantized", torch.from_numpy(integers))
        self.register_buffer("scale", torch.from_numpy(scale))

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows of the table at `input`, integers of any shape from 0 to num_embeddings - 1."""
        if not torch.compiler.is_compiling() and runs_now(input):
            try:
                buffers: dict[str, Any] = self._buffers  # attributes of modules take 1 us
                rows = find_rows(input, buffers["quantized"], buffers["scale"])
                return rows if self.dtype is FLOAT32 else rows.to(self.dtype)
            except (TypeError, ValueError, IndexError) as error:
                error.add_note(f"in {self.told()}")
                raise
        result: Tensor = embedding(input, self.quantized, self.scale, self.label)
        return result.to(self.dtype)

    def _shape(self) -> tuple[int, ...]:
        return self.num_embeddings, self.embedding_dim

    def _dequantize(self) -> Tensor:
        return (self.quantized * self.scale[:, None]).to(self.dtype)

    def dequantized(self) -> nn.Embedding:
        """Return an ``nn.Embedding`` with this table, in its original dtype.

        Returns
        -------
        nn.Embedding
        """
        return nn.Embedding.from_pretrained(self._dequantize(), freeze=False, padding_idx=self.padding_idx)

    def extra_repr(self) -> str:
        """Return the text of ``repr`` between the parentheses."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"

    def _restore(self) -> None:
        """Do nothing, because the table has no layer besides the buffers."""


class Int8EmbeddingBag(Int8Embedding):
    """Sums, means or maxima of rows of an int8 table with a scale for each row.

    :func:`quantize_` creates this module from ``nn.EmbeddingBag``. The result has the dtype of the original table.

    Parameters
    ----------
    module : nn.EmbeddingBag
        A module without `max_norm`.

    Attributes
    ----------
    num_embeddings, embedding_dim, padding_idx, mode, include_last_offset
        As in the module.
    quantized : Tensor of int8
        (num_embeddings, embedding_dim).
    scale : Tensor of float32
        One scale for each row.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> layer = int8blas.torch.quantize_(torch.nn.EmbeddingBag(1000, 64, mode="sum"))
    >>> layer, layer(torch.tensor([3, 1, 999]), torch.tensor([0, 2])).shape
    (Int8EmbeddingBag(1000, 64, mode='sum'), torch.Size([2, 64]))
    """

    def __init__(self, module: nn.EmbeddingBag) -> None:
        super().__init__(module)
        self.mode, self.include_last_offset = module.mode, module.include_last_offset

    def forward(  # type: ignore[override, unused-ignore]
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Return a row for each bag of indices, as ``nn.EmbeddingBag`` does.

        Parameters
        ----------
        input : Tensor of int
            (bags, indices), or the indices of all bags one after another.
        offsets : Tensor of int, optional
            The position of each bag's first index, if `input` has one dimension.
        per_sample_weights : Tensor, optional
            Factors of the rows, with the shape of `input`; for the mode "sum" only.

        Returns
        -------
        Tensor
        """
        if isinstance(input, Proxy):
            return as_leaf(self, input, offsets, per_sample_weights)
        if (
            per_sample_weights is None and self.padding_idx is None and self.mode != "max" and self.dtype is FLOAT32
            and not torch.compiler.is_compiling() and runs_now(input) and (offsets is None or runs_now(offsets))
        ):  # fmt: skip
            try:
                buffers: dict[str, Any] = self._buffers  # attributes of modules take 1 us
                bags = find_bags(
                    input, offsets, buffers["quantized"], buffers["scale"], self.mode == "mean",
                    self.include_last_offset,
                )  # fmt: skip
            except (TypeError, ValueError, IndexError) as error:
                error.add_note(f"in {self.told()}")
                raise
            if bags is not None:
                return bags
        rows = super().forward(input.reshape(-1))
        places = torch.arange(input.numel()).view(input.shape)
        padding = None
        if self.padding_idx is not None:
            padding = input.numel()
            places = places.masked_fill(input == self.padding_idx, padding)
            rows = torch.cat([rows, rows.new_zeros(1, self.embedding_dim)])
        if offsets is not None:
            offsets = offsets.long()
        return functional.embedding_bag(
            places, rows, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=padding,
        )  # fmt: skip

    def dequantized(self) -> nn.EmbeddingBag:  # type: ignore[override, unused-ignore]
        """Return an ``nn.EmbeddingBag`` with this table, in its original dtype.

        Returns
        -------
        nn.EmbeddingBag
        """
        return nn.EmbeddingBag.from_pretrained(
            self._dequantize(), freeze=False, mode=self.mode, padding_idx=self.padding_idx,
            include_last_offset=self.include_last_offset,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the text of ``repr`` between the parentheses."""
        return f"{super().extra_repr()}, mode={self.mode!r}"
