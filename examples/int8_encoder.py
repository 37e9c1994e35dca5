"""A BERT encoder in int8, from token numbers to embeddings, with only NumPy and int8blas.

    x = layer_norm(words[token] + positions[position])                      int8 to float32
    in each layer
        q, k, v = x @ W.T + b                                               uint8 by int8 to int8
        weights = softmax(q @ k.T / sqrt(channels of a head))               int8 by int8 to int32, to uint8
        context = weights @ v                                               uint8 by int8 to int32, to uint8
        x = layer_norm(x + context @ W.T + b)                               uint8 by int8 to float32
        hidden = gelu(x @ W.T + b)                                          uint8 by int8 to uint8
        x = layer_norm(x + hidden @ W.T + b)                                uint8 by int8 to float32
    embedding = the sum of x over the tokens, divided by its length

Every product is of 8-bit integers, with constant scales. Only x, the sum of all layers' results, stays float32: a few
channels of x are large, and a common scale would leave few steps for the other channels. It is quantized after its
normalization, for the products that read it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import int8blas
from int8blas.calibration import MinMaxObserver, QuantizationParameters

EPSILON = 1e-12  # of the normalizations in BERT
WEIGHTS_SCALE = 1 / 255  # for the results of softmax in uint8
GELU = int8blas.Eltwise("gelu_erf")
LEAST = -4.0  # below, gelu(x) is 0 to three decimal places, so the scale does not cover it

Tensors = Mapping[str, np.ndarray]
Sentences = Sequence[Sequence[int]]


def split(sentences: Sentences) -> tuple[list[slice], np.ndarray]:
    """For a matrix with one row per token of all sentences: the rows of each sentence, and the position of each
    token."""
    ends = np.cumsum([len(sentence) for sentence in sentences])
    rows = [slice(end - len(sentence), end) for sentence, end in zip(sentences, ends, strict=True)]
    return rows, np.concatenate([np.arange(len(sentence)) for sentence in sentences])


@dataclass
class Int8Layer:
    """Attention and a feed-forward network, each of which adds to x and normalizes it."""

    heads: int
    quantization: dict[str, QuantizationParameters]  # of activations
    qkv: int8blas.InnerProduct
    attention_output: int8blas.InnerProduct
    attention_norm: tuple[np.ndarray, np.ndarray]  # gamma and beta
    intermediate: int8blas.InnerProduct
    output: int8blas.InnerProduct
    output_norm: tuple[np.ndarray, np.ndarray]

    def __call__(self, x: np.ndarray, rows: list[slice]) -> np.ndarray:
        """Return x for the next layer, in the memory of this layer's x."""
        x += self.attention_output(self.attention(self.qkv(self.quantize("x", x)), rows))
        self.normalize(x, *self.attention_norm)
        x += self.output(self.gelu(self.intermediate(self.quantize("y", x))))
        self.normalize(x, *self.output_norm)
        return x

    def attention(self, qkv: np.ndarray, rows: list[slice]) -> np.ndarray:
        """softmax(q @ k.T / sqrt(channels)) @ v for each head of each sentence."""
        q, k, v = qkv.reshape(len(qkv), 3, self.heads, -1).transpose(1, 2, 0, 3)  # (heads, tokens, channels)
        q_scale, k_scale, v_scale = (self.quantization[name].scale for name in ("query", "key", "value"))
        scales = {"src": q_scale * k_scale / math.sqrt(q.shape[-1]), "dst": WEIGHTS_SCALE}
        sums = np.empty((len(qkv), self.heads, q.shape[-1]), np.int32)
        context = sums.swapaxes(0, 1)
        for sentence in rows:
            scores = int8blas.matmul(q[:, sentence], k[:, sentence].swapaxes(1, 2))
            weights = int8blas.softmax(scores, scales=scales, dst_dtype=np.uint8)
            int8blas.matmul(weights, v[:, sentence], out=context[:, sentence])
        dst = self.quantization["context"]
        factor = WEIGHTS_SCALE * v_scale / dst.scale
        return int8blas.requantize(sums.reshape(len(qkv), -1), factor, dst.zero_point, dst.dtype)

    def gelu(self, x: np.ndarray) -> np.ndarray:
        """Apply gelu in place. Because x is 8-bit, this is a look-up in a table of 256 values."""
        both = {"src": self.quantization["intermediate"], "dst": self.quantization["hidden"]}
        scales = {tensor: quantization.scale for tensor, quantization in both.items()}
        zero_points = {tensor: quantization.zero_point for tensor, quantization in both.items()}
        return int8blas.eltwise(x, GELU, scales=scales, zero_points=zero_points, out=x)

    def quantize(self, activation: str, x: np.ndarray) -> np.ndarray:
        to = self.quantization[activation]
        return int8blas.quantize(x, to.scale, to.zero_point, to.dtype)

    def normalize(self, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> None:
        int8blas.layer_norm(x, gamma, beta, epsilon=EPSILON, out=x)


@dataclass
class Int8Encoder:
    """Embeddings of sentences."""

    words: np.ndarray  # int8
    word_scales: np.ndarray
    positions: np.ndarray  # float32
    norm: tuple[np.ndarray, np.ndarray]
    layers: list[Int8Layer]

    def __call__(self, sentences: Sentences) -> np.ndarray:
        """Embeddings (sentences, channels) of sentences, which are given as token numbers.

        All sentences are one matrix with a row for each token: only attention and the sum at the end distinguish
        sentences, and there is no padding.
        """
        rows, positions = split(sentences)
        x = self.embed(np.concatenate(sentences), positions)
        for layer in self.layers:
            x = layer(x, rows)
        embeddings = np.add.reduceat(x, [sentence.start for sentence in rows])
        return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)

    def embed(self, tokens: np.ndarray, positions: np.ndarray) -> np.ndarray:
        x = int8blas.gather(self.words, tokens, self.word_scales, axis=0)
        x += self.positions[positions]
        return int8blas.layer_norm(x, *self.norm, epsilon=EPSILON, out=x)

    def save(self, path: Path) -> None:
        """Save the whole network to one file."""
        int8blas.save(path, members(self) | {"layers": [members(layer) for layer in self.layers]})

    @classmethod
    def load(cls, path: Path) -> Int8Encoder:
        """Load a network from a file, which is mapped, so that no weight is copied."""
        parts = int8blas.load(path)
        return cls(**parts | {"layers": [Int8Layer(**layer) for layer in parts["layers"]]})


def members(instance: Any) -> dict[str, Any]:
    return {field.name: getattr(instance, field.name) for field in fields(instance)}


# --- from a float encoder --------------------------------------------------------------------------------------------


def observer(activation: str) -> MinMaxObserver:
    """Return an observer: symmetric int8 for queries, keys and values, which are operands of a product, else uint8."""
    symmetric = activation.endswith(("query", "key", "value"))
    return MinMaxObserver(dtype=np.int8 if symmetric else np.uint8, symmetric=symmetric)


def quantize_encoder(
    tensors: Tensors, heads: int, network: Callable[..., Any], batches: Iterable[Sentences]
) -> Int8Encoder:
    """Convert a BERT with these float32 tensors to int8.

    `network` is the float network. A call network(sentences, report) for each of the batches reports the activations of
    layer 0 as "0.x", "0.query", "0.key", "0.value", "0.context", "0.y", "0.intermediate" (from LEAST on) and
    "0.hidden", in the terms of `Int8Layer`: int8blas.calibrate finds their scales.
    """
    found = int8blas.calibrate(network, batches, observer)
    layers = 1 + max(int(name.split(".")[0]) for name in found)
    words = tensors["embeddings.word_embeddings.weight"]
    scales = np.maximum(np.abs(words).max(axis=1), np.finfo(np.float32).tiny) / 127
    return Int8Encoder(
        words=int8blas.quantize(words, scales, axis=0),
        word_scales=scales,
        positions=tensors["embeddings.position_embeddings.weight"]
        + tensors["embeddings.token_type_embeddings.weight"][0],
        norm=norm(tensors, "embeddings"),
        layers=[
            quantize_layer(
                tensors,
                f"encoder.layer.{layer}",
                heads,
                {name.split(".")[1]: value for name, value in found.items() if name.startswith(f"{layer}.")},
            )
            for layer in range(layers)
        ],
    )


def quantize_layer(
    tensors: Tensors, prefix: str, heads: int, quantization: dict[str, QuantizationParameters]
) -> Int8Layer:
    def linear(src: str, *dst: str, names: Sequence[str]) -> int8blas.InnerProduct:
        """Return a layer x @ W.T + b; layers that read the same x are merged, and each keeps the scale of its
        activation."""
        weights, bias = ([tensors[f"{prefix}.{name}.{kind}"] for name in names] for kind in ("weight", "bias"))
        scales: dict[str, Any] = {"src": quantization[src].scale, "weights": "per_channel"}
        zero_points: dict[str, Any] = {"src": quantization[src].zero_point}
        if dst:
            outputs = [len(b) for b in bias]
            scales["dst"] = np.repeat([quantization[name].scale for name in dst], outputs)
            zero_points["dst"] = np.repeat([quantization[name].zero_point for name in dst], outputs)
        return int8blas.InnerProduct(
            np.concatenate(weights),
            np.concatenate(bias),
            src_dtype=quantization[src].dtype,
            dst_dtype=quantization[dst[0]].dtype if dst else np.float32,
            scales=scales,
            zero_points=zero_points,
        )

    attention = [f"attention.self.{name}" for name in ("query", "key", "value")]
    return Int8Layer(
        heads=heads,
        quantization=quantization,
        qkv=linear("x", "query", "key", "value", names=attention),
        attention_output=linear("context", names=["attention.output.dense"]),
        attention_norm=norm(tensors, f"{prefix}.attention.output"),
        intermediate=linear("y", "intermediate", names=["intermediate.dense"]),
        output=linear("hidden", names=["output.dense"]),
        output_norm=norm(tensors, f"{prefix}.output"),
    )


def norm(tensors: Tensors, name: str) -> tuple[np.ndarray, np.ndarray]:
    """gamma and beta of a normalization."""
    return tensors[f"{name}.LayerNorm.weight"], tensors[f"{name}.LayerNorm.bias"]
