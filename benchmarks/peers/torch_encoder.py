"""A BERT of torch.nn modules, and its form from torch's quantize_dynamic on each engine."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
from int8blas._bench.peers.base import import_peer

from peers.base import Encoder

# x86 uses fbgemm here, and qnnpack is for other CPUs.
ENGINES = ("x86", "onednn")


def _bert(torch: ModuleType, tensors: Mapping[str, np.ndarray], layers: int, heads: int) -> Any:
    """The network as a module that takes tokens and their mask, and gives embeddings."""
    nn, functional = torch.nn, torch.nn.functional

    def tensor(name: str) -> Any:
        return torch.from_numpy(tensors[name])

    def linear(*names: str) -> Any:
        weights, bias = (torch.cat([tensor(f"{name}.{kind}") for name in names]) for kind in ("weight", "bias"))
        module = nn.Linear(weights.shape[1], weights.shape[0])
        module.load_state_dict({"weight": weights, "bias": bias})
        return module

    def norm(name: str) -> Any:
        parameters = {kind: tensor(f"{name}.LayerNorm.{kind}") for kind in ("weight", "bias")}
        module = nn.LayerNorm(len(parameters["bias"]), eps=1e-12)
        module.load_state_dict(parameters)
        return module

    class Layer(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.qkv = linear(*(f"{name}.attention.self.{part}" for part in ("query", "key", "value")))
            self.attention_output = linear(f"{name}.attention.output.dense")
            self.attention_norm = norm(f"{name}.attention.output")
            self.intermediate = linear(f"{name}.intermediate.dense")
            self.output = linear(f"{name}.output.dense")
            self.norm = norm(f"{name}.output")

        def forward(self, x: Any, mask: Any) -> Any:
            n, t, width = x.shape
            q, k, v = self.qkv(x).view(n, t, 3, heads, -1).permute(2, 0, 3, 1, 4)
            context = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = self.attention_norm(x + self.attention_output(context.transpose(1, 2).reshape(n, t, width)))
            return self.norm(x + self.output(functional.gelu(self.intermediate(x))))

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = tensor("embeddings.word_embeddings.weight")
            self.positions = tensor("embeddings.position_embeddings.weight")
            self.positions = self.positions + tensor("embeddings.token_type_embeddings.weight")[0]
            self.norm = norm("embeddings")
            self.layers = nn.ModuleList(Layer(f"encoder.layer.{index}") for index in range(layers))

        def forward(self, tokens: Any, mask: Any) -> Any:
            visible = None if mask.all() else mask[:, None, None, :].bool()
            x = self.norm(functional.embedding(tokens, self.words) + self.positions[: tokens.shape[1]])
            for layer in self.layers:
                x = layer(x, visible)
            return functional.normalize((x * mask[:, :, None]).sum(1), dim=1)

    return Bert().eval()


def peers(tensors: Mapping[str, np.ndarray], layers: int, heads: int, threads: int) -> list[Encoder]:
    torch, version = import_peer("torch", "torch")
    torch.set_num_threads(threads)
    bert = _bert(torch, tensors, layers, heads)

    def encoder(name: str, module: Any, engine: str | None = None) -> Encoder:
        def run(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
            if engine is not None:
                torch.backends.quantized.engine = engine
            with torch.inference_mode():
                return module(torch.from_numpy(tokens), torch.from_numpy(mask)).numpy()

        return Encoder(name, "torch", version, run)

    found = [encoder("torch f32", bert)]
    for engine in ENGINES:
        if engine in torch.backends.quantized.supported_engines:
            torch.backends.quantized.engine = engine
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # deprecated, but the package that replaces it is not part of torch
                module = torch.ao.quantization.quantize_dynamic(copy.deepcopy(bert), {torch.nn.Linear}, torch.qint8)
            found.append(encoder(f"torch int8 {engine}", module, engine))
    return found
