"""A language model with weights of 4 bits: train, export to ONNX, quantize with onnxruntime's tool, generate.

    python examples/decoder.py            # needs torch, onnx, onnx-ir and onnxruntime: int8blas[decoder]
    python examples/decoder.py --quick    # fewer training steps, fewer characters

The model is a small Llama: it predicts the next character of Python's own help texts, with rotary positions, heads that
share keys and values, and gated layers. Its ONNX file has the operators of decoders that onnxruntime runs:
SimplifiedLayerNormalization, GroupQueryAttention with a cache, and, once quantized, MatMulNBits with groups of 32 and
int8 sources (accuracy_level 4). int8blas and onnxruntime run the same file.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from torch import nn
from torch.nn import functional

import int8blas

CHARACTERS, WIDTH, INNER, LAYERS = 128, 256, 768, 4
HEADS, SHARED, SIZE = 4, 2, 64  # heads of queries, heads of keys and values, elements of a head
STEPS, BATCH, LONGEST = 64, 16, 1024
GROUP = 32
EPSILON = 1e-6
LARGEST_LOSS = 0.1  # bits for each character
Arrays = dict[str, npt.NDArray[Any]]
Run = Callable[[Arrays], list[npt.NDArray[Any]]]


def angles() -> npt.NDArray[np.float32]:
    """Return the angle of each position and pair of elements of a head."""
    pairs = np.arange(SIZE // 2) / (SIZE // 2)
    return (np.arange(LONGEST)[:, None] / 10_000.0**pairs).astype(np.float32)


class Block(nn.Module):
    """Attention and a gated layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_gate = (nn.RMSNorm(WIDTH, EPSILON) for _ in range(2))
        self.q = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, SHARED * SIZE, bias=False) for _ in range(2))
        self.o = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        y = self.before_attention(x)
        q, k, v = (layer(y).unflatten(-1, (-1, SIZE)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        q, k = (torch.cat([a * cos - b * sin, b * cos + a * sin], -1) for a, b in (q.chunk(2, -1), k.chunk(2, -1)))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.before_gate(x)
        added: torch.Tensor = self.down(functional.silu(self.gate(y)) * self.up(y))
        return x + added


class Model(nn.Module):
    """Logits of the next character at each position of (sequences, characters)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(CHARACTERS, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.before_last = nn.RMSNorm(WIDTH, EPSILON)
        self.last = nn.Linear(WIDTH, CHARACTERS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        turns = torch.from_numpy(angles()[: ids.shape[1]])
        x = self.table(ids)
        for block in self.blocks:
            x = block(x, turns.cos(), turns.sin())
        logits: torch.Tensor = self.last(self.before_last(x))
        return logits


def train(model: Model, text: torch.Tensor, steps: int) -> None:
    """Train in float32."""
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for _ in range(steps):
        starts = torch.randint(0, len(text) - STEPS - 1, (BATCH,))
        batch = torch.stack([text[start : start + STEPS + 1] for start in starts])
        loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


class Graph:
    """The nodes and constants of an ONNX file."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: npt.NDArray[Any], name: str) -> str:
        """Add a constant, and return its name."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, operator: str, *inputs: str, outputs: tuple[str, ...] = (), **attributes: Any) -> str:
        """Add a node, and return the name of its first output."""
        outputs = outputs or (f"{operator}_{len(self.nodes)}",)
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=outputs[0], **attributes))
        return outputs[0]

    def linear(self, x: str, layer: nn.Linear) -> str:
        """Add the product with the weights of a layer."""
        weights = self.constant(layer.weight.detach().numpy().T, f"weights_{len(self.constants)}")
        return self.node("MatMul", x, weights)

    def norm(self, x: str, layer: nn.RMSNorm) -> str:
        """Add a normalization."""
        scale = self.constant(layer.weight.detach().numpy(), f"scale_{len(self.constants)}")
        return self.node("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=EPSILON)


def export(model: Model) -> onnx.ModelProto:
    """Return a model as ONNX. Its inputs have the keys and values of earlier positions, and its outputs have the keys
    and values of all positions."""
    graph = Graph()
    cos, sin = (graph.constant(function(angles()), name) for function, name in ((np.cos, "cos"), (np.sin, "sin")))
    x = graph.node("Gather", graph.constant(model.table.weight.detach().numpy(), "table"), "ids")
    cache = ["sequences", SHARED, "past", SIZE], ["sequences", SHARED, "total", SIZE]
    ports = [(TensorProto.INT64, "ids", ["sequences", "length"]), (TensorProto.INT32, "last", ["sequences"]),
             (TensorProto.INT32, "count", [])]  # fmt: skip
    results = [(TensorProto.FLOAT, "logits", ["sequences", "length", CHARACTERS])]
    for i, block in enumerate(model.blocks):
        y = graph.norm(x, block.before_attention)
        q, k, v = (graph.linear(y, layer) for layer in (block.q, block.k, block.v))
        past, present = ([f"{kind}_{name}_{i}" for name in ("keys", "values")] for kind in ("past", "present"))
        ports += [(TensorProto.FLOAT, name, cache[0]) for name in past]
        results += [(TensorProto.FLOAT, name, cache[1]) for name in present]
        y = graph.node(
            "GroupQueryAttention", q, k, v, *past, "last", "count", cos, sin, domain="com.microsoft",
            outputs=(f"attention_{i}", *present), num_heads=HEADS, kv_num_heads=SHARED, do_rotary=1,
        )  # fmt: skip
        x = graph.node("Add", x, graph.linear(y, block.o))
        y = graph.norm(x, block.before_gate)
        gate = graph.linear(y, block.gate)
        y = graph.node("Mul", graph.node("Mul", gate, graph.node("Sigmoid", gate)), graph.linear(y, block.up))
        x = graph.node("Add", x, graph.linear(y, block.down))
    logits = graph.linear(graph.norm(x, model.before_last), model.last)
    graph.node("Identity", logits, outputs=("logits",))
    inputs, outputs = ([helper.make_tensor_value_info(name, kind, shape) for kind, name, shape in these]
                       for these in (ports, results))  # fmt: skip
    made = helper.make_graph(graph.nodes, "decoder", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def quantized(model: onnx.ModelProto) -> bytes:
    """Return a model whose products have weights of 4 bits."""
    logging.disable(logging.INFO)  # a line for each node
    quantizer = MatMulNBitsQuantizer(model, block_size=GROUP, is_symmetric=True, accuracy_level=4)
    quantizer.process()
    data: bytes = quantizer.model.model.SerializeToString()
    return data


class Decoder:
    """A model that runs, and its cache of keys and values, which has room for some positions from the start."""

    def __init__(self, run: Run, room: int = 0) -> None:
        self.run, self.length = run, 0
        self.cache = [np.zeros((1, SHARED, room, SIZE), np.float32) for _ in range(2 * LAYERS)]
        self.names = [f"past_{name}_{i}" for i in range(LAYERS) for name in ("keys", "values")]

    def read(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the logits (characters, 128) of the characters that follow the given ones."""
        self.length += len(ids)
        feeds = {"ids": ids[None], "last": np.array([self.length - 1], np.int32),
                 "count": np.array(self.length, np.int32)}  # fmt: skip
        logits, *self.cache = self.run(feeds | dict(zip(self.names, self.cache, strict=True)))
        return logits[0]


def generate(
    run: Run, prompt: npt.NDArray[np.int64], count: int, seed: int, room: int
) -> tuple[str, float, float]:  # fmt: skip
    """Return `count` characters that follow a prompt, and the characters a second of the prompt and of the rest."""
    decoder, rng, made = Decoder(run, room), np.random.default_rng(seed), []
    start = time.perf_counter()
    logits = decoder.read(prompt)[-1]
    middle = time.perf_counter()
    for _ in range(count):
        chances = np.exp((logits - logits.max()) / 0.7, dtype=np.float64)
        made.append(rng.choice(CHARACTERS, p=chances / chances.sum()))
        logits = decoder.read(np.array(made[-1:]))[0]
    end = time.perf_counter()
    return "".join(map(chr, made)), len(prompt) / (middle - start), count / (end - middle)


def bits(run: Run, text: npt.NDArray[np.int64], room: int) -> float:
    """Return the bits that a model needs for each character of a text."""
    logits = Decoder(run, room).read(text[:-1]).astype(np.float64)
    chances = logits - logits.max(-1, keepdims=True)
    chances -= np.log(np.exp(chances).sum(-1, keepdims=True))
    return float(-np.take_along_axis(chances, text[1:, None], 1).mean() / np.log(2))


def in_place(model: int8blas.onnx.Model) -> Run:
    """Return int8blas's run of a model, which adds new keys and values to the arrays of earlier ones."""

    def run(feeds: Arrays) -> list[npt.NDArray[Any]]:
        caches = {name.replace("past", "present"): array for name, array in feeds.items() if name.startswith("past")}
        logits = np.empty((*feeds["ids"].shape, CHARACTERS), np.float32)
        model.run_into({"logits": logits} | caches, feeds)
        return [logits, *caches.values()]

    return run


def session(data: bytes, threads: int) -> Run:
    """Return onnxruntime's run of a file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    made = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(made.run(None, feeds))


def main() -> int:
    """Return 1 if weights of 4 bits lose more than the limit, or int8blas differs from onnxruntime by more."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer training steps, fewer characters")
    parser.add_argument("--threads", type=int, default=1, help="of both libraries; 1 unless given")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    text = np.frombuffer("\n".join(topics.values()).encode("ascii", "replace"), np.uint8).astype(np.int64)
    model = Model()
    started = time.perf_counter()
    train(model, torch.from_numpy(text[: -2 * LONGEST]), 10 if arguments.quick else 250)
    print(f"trained for {time.perf_counter() - started:.0f} s")
    exported = export(model)
    data = exported.SerializeToString()
    four = quantized(exported)
    print(f"{len(data)} bytes in float32, {len(four)} with products of 4 bits")
    runs: dict[str, Run] = {"float32, onnxruntime": session(data, arguments.threads)}
    runs["4 bits, onnxruntime"] = session(four, arguments.threads)
    runs["4 bits, int8blas"] = in_place(int8blas.onnx.load(four))
    unseen, count = text[-LONGEST:], 50 if arguments.quick else 300
    losses = {}
    with int8blas.num_threads(arguments.threads):
        for name, run in runs.items():
            room = LONGEST if name == "4 bits, int8blas" else 0  # onnxruntime returns a new cache
            losses[name] = bits(run, unseen, room)
            results = [generate(run, unseen[:256], count, 1, room) for _ in range(3)]
            made, prefill, decode = max(results, key=lambda x: x[2])
            print(f"\n{name}: {losses[name]:.3f} bits for each unseen character; prefill {prefill:.0f}, "
                  f"decode {decode:.0f} characters a second\n{made}")  # fmt: skip
    first, *others = losses.values()
    return int(max(others) - first > LARGEST_LOSS)


if __name__ == "__main__":
    sys.exit(main())
