"""Compare everyday calls outside the tuned shapes with other libraries: stacks, vectors, few channels, bytes, rows.

    python benchmarks/everyday.py
    python benchmarks/everyday.py --rows 4,7 --isa avx2

A case has a goal: the least acceptable time of the fastest peer divided by int8blas's time. All contestants of a case
take turns on one thread, and minima count. Peers are NumPy, torch, onnxruntime and NumKong where installed. The peer
"copy" reads and writes the same number of bytes as the call. A call of 4 x 4 that takes at most 1 us reaches
its goal too. The program prints a line for each case and marks the cases that miss their goals.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import int8blas as ib
import numpy as np
from int8blas._bench.peers.base import UnavailableError, import_peer
from int8blas._bench.timing import Plan, measure

from bandwidth import Calls
from held import held_to

PLAN = Plan(rounds=25, budget=0.8, min_sample=2e-4, settle=0.0)
ENOUGH = 1e-6  # seconds that a call of 4 x 4 may take, whatever its peers take
Case = tuple[int, float, str, Callable[[], Calls]]  # number of the group, goal, name, and the contestants

rng = np.random.default_rng(0)


def peer(name: str) -> Any:
    """Return the module of a library, or None."""
    try:
        return import_peer(name, name)[0]
    except UnavailableError:
        return None


torch, numkong = peer("torch"), peer("numkong")
tensor = torch.from_numpy if torch else np.asarray


def int8(*shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape, np.int8)


def float32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def copy(size: int) -> Callable[[], object]:
    """Return a copy that reads and writes `size` bytes in all."""
    source = np.ones(size // 2, np.uint8)
    return partial(np.copyto, np.empty_like(source), source)


def with_torch(ours: Callable[..., object], name: str, *arguments: object, **others: Callable[[], object]) -> Calls:
    """Return int8blas's call, torch's function of this name with the arguments as tensors, and other contestants."""
    calls = {"int8blas": ours, **others}
    if torch:
        function = torch
        for part in name.split("."):
            function = getattr(function, part)
        calls["torch"] = partial(function, *(tensor(x) if isinstance(x, np.ndarray) else x for x in arguments))
    return calls


def onnxruntime_call(operator: str, x: np.ndarray, **attributes: object) -> Calls:
    """Return onnxruntime's session of one operator, if it is installed."""
    try:
        from int8blas._bench.peers.onnxruntime_matmul import MICROSOFT, Runtime

        domain = MICROSOFT if operator == "Gelu" else ""
        run, keep = Runtime().bind(operator, ["x"], {"x": x}, {}, np.empty_like(x), 1, domain, **attributes)
    except (ImportError, UnavailableError):
        return {}
    return {"onnxruntime": lambda keep=keep: run()}


def product(a: tuple[int, ...], b: tuple[int, ...]) -> Calls:
    """Return products of int8, of NumPy in int32 and float32, and of torch in float32."""
    x, y = int8(*a), int8(*b)
    wide, real = [v.astype(np.int32) for v in (x, y)], [v.astype(np.float32) for v in (x, y)]
    return with_torch(
        partial(ib.matmul, x, y), "matmul", *real, NumPy=partial(np.matmul, *wide), NumPy_f32=partial(np.matmul, *real)
    )


def strided() -> Calls:
    a, v = int8(1024, 2048)[:, ::2], int8(1024)
    return {"int8blas": lambda: ib.matmul(a, v), "copying first": lambda: ib.matmul(a.copy(), v)}


def bytes_call(name: str, size: int) -> Calls:
    x, y, out = int8(size), 20 * float32(size), np.empty(size, np.int8)
    if name == "relu":
        relu = ib.ReLU()
        return with_torch(lambda: ib.eltwise(x, relu, out=out), "relu", x, copy=copy(2 * size))
    return with_torch(
        lambda: ib.quantize(y, 0.37, 3, out=out), "quantize_per_tensor", y, 0.37, 3, torch and torch.qint8,
        copy=copy(5 * size),
    )  # fmt: skip


def quantize_axis(axis: int, *shape: int) -> Calls:
    y, out = 20 * float32(*shape), np.empty(shape, np.int8)
    scales = rng.uniform(0.1, 1, shape[axis]).astype(np.float32)
    return {"int8blas": lambda: ib.quantize(y, scales, axis=axis, out=out), "copy": copy(5 * y.size)}


def convolution(shape: tuple[int, ...], ic: int, oc: int, kernel: tuple[int, ...], groups: int = 1) -> Calls:
    weights, x = int8(oc, ic // groups, *kernel), int8(1, *shape, ic).view(np.uint8)
    padding = tuple(size // 2 for size in kernel)
    layer = ib.Convolution(
        weights, padding=padding, groups=groups, src_dtype=np.uint8, dst_dtype=np.uint8,
        scales={"src": 0.1, "weights": 0.01, "dst": 0.1},
    )  # fmt: skip
    out, calls = layer(x), {}
    if torch:
        last = torch.channels_last if len(shape) == 2 else torch.channels_last_3d
        image = tensor(np.moveaxis(x, -1, 1).astype(np.float32)).contiguous(memory_format=last)
        filters = tensor(weights.astype(np.float32)).contiguous(memory_format=last)
        function = torch.conv2d if len(shape) == 2 else torch.conv3d
        calls = {"torch": partial(function, image, filters, None, 1, padding, 1, groups)}
    return {"int8blas": lambda: layer(x, out=out)} | calls


def one_wide() -> Calls:
    wide, high = (convolution(s, 128, 128, k) for s, k in (((2000, 1), (3, 1)), ((1, 2000), (1, 3))))
    return {"int8blas": wide["int8blas"], "one pixel high": high["int8blas"]}


def nearest(queries: int, rows: int, size: int, k: int) -> Calls:
    x, base = int8(queries, size), int8(rows, size)
    a, b = x.astype(np.float32), np.ascontiguousarray(base.T.astype(np.float32))
    select = (lambda: np.argpartition(a @ b, -k)[:, -k:]) if k < rows else (lambda: np.argsort(a @ b))
    calls = {"int8blas": lambda: ib.nearest(x, base, k), "NumPy": select}
    if torch:
        real = tensor(a), tensor(b)
        calls["torch"] = lambda: torch.topk(torch.mm(*real), k)
    return calls


def rows_call(function: Callable[..., object], operator: str, name: str, *shape: int, **axis: int) -> Calls:
    """Return a function of float32 rows in int8blas, torch and onnxruntime."""
    x = float32(*shape)
    out = np.empty_like(x)
    return with_torch(partial(function, x, out=out), name, x, *axis.values(), **onnxruntime_call(operator, x, **axis))


def packed(name: str) -> Calls:
    """Return calls that read or make a packed matrix of 16 MB."""
    b = int8(4096, 4096)
    if name == "pack":
        calls = {"int8blas": lambda: ib.pack_b(b, trans_b=True)}
        return calls | ({"NumKong": lambda: numkong.dots_pack(b)} if numkong else {})
    pack, out = ib.pack_b(b), np.empty_like(b)
    if name == "unpack":
        return {"int8blas": lambda: pack.unpack(), "copy": lambda: b.copy()}
    path = Path(tempfile.mkdtemp()) / "b"
    pack.save(path)
    np.save(path.with_suffix(".npy"), out)
    return {"int8blas": lambda: ib.load(path, verify="index"), "NumPy": lambda: np.load(path.with_suffix(".npy"))}


def scaled() -> Calls:
    a, b = int8(1000, 27), int8(27, 64)
    c = np.empty((1000, 64), np.int32)
    real = [x.astype(np.float32) for x in (a, b)]
    return with_torch(lambda: ib.gemm_s8s8s32(0.5, a, b, c=c, overwrite_c=True), "mm", *real)


def transposed(n: int, k: int) -> Calls:
    """Return x @ x.T."""
    x = int8(n, k)
    real = x.astype(np.float32)
    return with_torch(lambda: ib.matmul(x, x.T), "mm", real, real.T, NumPy_f32=lambda: real @ real.T)


def linear_layer() -> Callable[[], object] | None:
    """Return torch's function that packs the weights of a quantized layer of 4 x 4."""
    if not torch:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantized tensors are deprecated, but the operator takes nothing else
        weights = torch._make_per_tensor_quantized_tensor(tensor(int8(4, 4)), 0.1, 0)
    return partial(torch.ops.quantized.linear_prepack, weights, None)


def small_calls() -> dict[str, Calls]:
    """Return the calls of 4 x 4."""
    x, y, image = int8(4, 4), float32(4, 4), int8(1, 4, 4, 1)
    one, norm, pool = np.ones(4, np.float32), {"src": 0.1, "dst": 1 / 128}, float32(1, 1, 4, 4)
    layer = {"src_dtype": np.uint8, "dst_dtype": np.uint8, "scales": {"src": 0.1, "weights": 0.1, "dst": 0.1}}
    calls = {
        "matrix by vector": product((4, 4), (4,)),
        "concat": with_torch(lambda: ib.concat([x, x], -1), "cat", [tensor(x)] * 2, NumPy=lambda: np.hstack([x, x])),
        "sum": with_torch(lambda: ib.sum([x, x]), "add", x, x, NumPy=lambda: x + x),
        "binary": with_torch(lambda: ib.binary("add", x, x), "add", x, x, NumPy=lambda: x + x),
        "tanh, new": with_torch(lambda: ib.eltwise(x, ib.Eltwise("tanh"), scales=norm), "tanh", y),
        "relu, new": with_torch(lambda: ib.eltwise(x, ib.ReLU()), "relu", x),
        "avg_pool": with_torch(lambda: ib.avg_pool(image, 2, strides=2), "nn.functional.avg_pool2d", pool, 2, 2),
        "layer_norm": with_torch(lambda: ib.layer_norm(y, one, one), "layer_norm", y, [4]),
        "softmax": with_torch(lambda: ib.softmax(x, scales=norm), "softmax", y, -1),
        "nearest": nearest(4, 4, 4, 2),
        "vecdot": {"int8blas": lambda: ib.vecdot(x, x), "NumPy": lambda: np.vecdot(x, x)},
        "einsum": {"int8blas": lambda: ib.einsum("ij,ij->ij", x, x), "NumPy": lambda: np.einsum("ij,ij->ij", x, x)},
        "pack_b": {"int8blas": lambda: ib.pack_b(x), "NumKong": numkong and (lambda: numkong.dots_pack(x))},
        "weights_scales": {
            "int8blas": lambda: ib.weights_scales(y), "NumPy": lambda: np.abs(y).max(1) / np.float32(127)
        },
        "quantize_bias": {
            "int8blas": lambda: ib.quantize_bias(one, 2.0, 3.0), "NumPy": lambda: np.rint(6.0 * one).astype(np.int32)
        },
        "InnerProduct": {"int8blas": lambda: ib.InnerProduct(x, **layer), "torch": linear_layer()},
    }  # fmt: skip
    return {name: {who: call for who, call in pair.items() if call} for name, pair in calls.items()}


def cases() -> Iterator[Case]:
    for a, b in (
        ((10_000, 3, 3), (10_000, 3, 1)), ((10_000, 3, 3), (10_000, 3, 3)), ((10_000, 2, 2), (10_000, 2, 2)),
        ((10_000, 1, 64), (10_000, 64, 1)), ((1000, 8, 8), (8,)),
    ):  # fmt: skip
        yield 1, 1.5, f"stack {a} @ {b}", partial(product, a, b)
    for a, b in (((65_536, 32), (32,)), ((128, 128), (128,)), ((1, 212), (212, 16)), ((1, 265), (265, 16))):
        yield 2, 1.5, f"vector {a} @ {b}", partial(product, a, b)
    yield 3, 1.0, "A[:, ::2] @ v, 1024 x 2048", strided
    for name, size in itertools.product(("relu", "quantize"), (1 << 16, 1 << 20)):
        yield 4, 0.9, f"{name} of {size} int8", partial(bytes_call, name, size)
    for axis, shape in itertools.product((0, 1), ((1_000_000, 8), (16_384, 64))):
        yield 4, 0.9, f"quantize {shape}, axis {axis}", partial(quantize_axis, axis, *shape)
    for shape, ic, oc, kernel, groups in (
        ((256, 256), 32, 1, (1, 1), 1), ((128, 128), 64, 3, (3, 3), 1), ((640, 640), 8, 8, (3, 3), 1),
        ((256, 256), 1, 1, (5, 5), 1), ((16, 64, 64), 1, 16, (3, 3, 3), 1), ((112, 112), 16, 16, (3, 3), 16),
        ((112, 112), 17, 17, (3, 3), 17), ((112, 112), 40, 40, (3, 3), 40), ((112, 112), 32, 64, (3, 3), 32),
        ((28, 28), 256, 256, (3, 3), 128),
    ):  # fmt: skip
        name = f"convolution {shape} {kernel}, {ic} to {oc} in {groups} groups"
        yield 5, 1.1, name, partial(convolution, shape, ic, oc, kernel, groups)
    for queries, rows, k in ((1000, 10_000, 100), (1000, 10_000, 1000), (1000, 1000, 1000)):
        yield 6, 1.5, f"nearest {k} of {rows} for {queries}", partial(nearest, queries, rows, 128, k)
    for shape in ((1000, 1000), (1, 32_000), (4, 50_257), (1536, 128), (64, 384)):
        yield 7, 1.0, f"softmax {shape}", partial(rows_call, ib.softmax, "Softmax", "softmax", *shape, axis=1)
    for size in (1 << 16, 1 << 20):
        gelu = partial(ib.eltwise, ops=ib.Eltwise("gelu_erf"))
        yield 7, 1.0, f"gelu_erf {size}", partial(rows_call, gelu, "Gelu", "nn.functional.gelu", size)
    for name, goal in (("load", 1.0), ("unpack", 0.5), ("pack", 1.0)):
        yield 8, goal, f"{name} of 16 MB", partial(packed, name)
    for a, b in (
        ((1_000_000, 4), (4, 4)), ((100_000, 3), (3, 3)), ((1000, 128), (128, 1)), ((1000, 128), (128, 9)),
        ((1000, 128), (128, 17)), ((1000, 32), (32, 8)), ((1000, 1), (1, 1000)), ((3000, 1), (1, 3000)),
    ):  # fmt: skip
        yield 9, 1.3, f"tall {a} @ {b}", partial(product, a, b)
    yield 9, 1.3, "alpha 0.5, 1000 x 64 x 27", scaled
    for n, k in ((8, 64), (16, 1000)):
        yield 9, 1.3, f"x @ x.T, {n} x {k}", partial(transposed, n, k)
    for name, calls in small_calls().items():
        yield 10, 1.0, f"4 x 4: {name}", lambda calls=calls: calls
    yield 11, 1 / 1.1, "image one pixel wide", one_wide


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="only these groups, such as 4,7")
    parser.add_argument("--isa", help="hold int8blas to this ISA")
    parser.add_argument("--runs", type=int, default=2, help="times that the table is measured (default: %(default)s)")
    options = parser.parse_args()
    chosen = {int(row) for row in options.rows.split(",") if row}
    if torch:
        torch.set_num_threads(1)
    with held_to(1, options.isa):
        for run in range(options.runs):
            print(f"\nrun {run + 1}\nrow  goal ratio  case: us")
            for row, goal, name, make in cases():
                if chosen and row not in chosen:
                    continue
                times = {who: timing.best for who, timing in measure(make(), PLAN).items()}
                ours = times.pop("int8blas")
                ratio = min(times.values(), default=ours) / ours
                missed = ratio < goal and not (row == 10 and ours <= ENOUGH)
                others = ", ".join(f"{who} {1e6 * seconds:.4g}" for who, seconds in times.items())
                print(
                    f"{row:3} {goal:5.2f} {ratio:5.2f}{'*' if missed else ' '} {name}: {1e6 * ours:.4g}; {others}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
