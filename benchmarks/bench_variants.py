"""Measure the cost of memory orders, signs, zero points and other forms: time each product alternately in every form.

    python benchmarks/bench_variants.py
    python benchmarks/bench_variants.py --shape 128x768x3072 --threads 2

The first table has products: the time of uint8 times int8 with all matrices in C order, and this time divided by the
times of other forms. The second has convolutions: the time with channels last, and this time divided by the time with
channels first. The third has layers of float32: the time with a scale of the weights for each output channel, and this
time divided by the times with scales by groups of k.
"""

from __future__ import annotations

import argparse

from contest import product_sizes

import int8blas
import numpy as np
from int8blas._bench import environment
from int8blas._bench.timing import Plan, measure

from calls import Call, Empty, Name, Spread, api, bind

Calls = dict[str, Call]

SHAPES = (
    (4, 4, 4), (16, 16, 16), (64, 64, 64), (128, 128, 128), (256, 256, 256), (1024, 1024, 1024),
    (1, 1024, 1024), (4, 1024, 1024), (16, 1024, 1024), (1024, 1, 1024), (1024, 16, 1024),
    (128, 768, 3072), (1000, 64, 27), (2048, 2048, 3),
)  # fmt: skip
# The orders of A, B and C: C order, Fortran order, or every other element of rows that are twice as long.
ORDERS = {
    "A.T": "FCC", "B.T": "CFC", "C.T": "CCF", "all.T": "FFF",
    "A[:, ::2]": "SCC", "B[:, ::2]": "CSC", "C[:, ::2]": "CCS",
}  # fmt: skip
SIGNS = ("s8s8", "s8u8", "u8u8")
# Size, channels of source and destination, kernel, stride, groups.
CONVOLUTIONS = (
    (224, 3, 64, 7, 2, 1), (56, 64, 64, 3, 1, 1), (56, 64, 256, 1, 1, 1), (14, 256, 1024, 1, 1, 1),
    (7, 512, 512, 3, 1, 1), (112, 32, 32, 3, 1, 32), (28, 192, 192, 3, 1, 192), (28, 256, 256, 3, 1, 32),
)  # fmt: skip
# Shapes of linear layers, and sizes of groups of k.
LAYERS = ((1, 1024, 1024), (1, 4096, 4096), (16, 4096, 4096), (128, 1024, 1024), (128, 3072, 768))
GROUPS = (32, 64, 128)


def place(array: np.ndarray, order: str) -> np.ndarray | Spread:
    """Return the array in another memory order."""
    return Spread(array) if order == "S" else np.array(array, order=order)


def product_calls(shape: tuple[int, ...]) -> Calls:
    """Return calls for every form of a product."""
    m, n, k = shape
    rng = np.random.default_rng(0)
    values = {
        "u": (rng.integers(0, 256, (m, k), np.uint8), rng.integers(0, 256, (k, n), np.uint8)),
        "s": (rng.integers(-127, 128, (m, k), np.int8), rng.integers(-127, 128, (k, n), np.int8)),
    }

    def call(signs: str = "u8s8", orders: str = "CCC", alpha: float = 1, beta: float = 0, **keywords: object) -> Call:
        a, b = place(values[signs[0]][0], orders[0]), place(values[signs[2]][1], orders[1])
        c = place(np.zeros((m, n), np.int32), orders[2])
        return Name(f"gemm_{signs}s32")(alpha, a, b, beta, c, 0, 0, True, **keywords)

    return {
        "u8s8": call(),
        **{name: call(orders=orders) for name, orders in ORDERS.items()},
        **{signs: call(signs) for signs in SIGNS},
        "ao, bo": call(ao=3, bo=-5),
        "ao[m], bo[n]": call(ao=rng.integers(0, 256, m), bo=rng.integers(-128, 128, n)),
        "co[n]": call(offsetc="R", co=rng.integers(-1000, 1000, n)),
        "beta = 1": call(beta=1),
        "alpha = 0.5": call(alpha=0.5),
    }


def convolution_calls(size: int, ic: int, oc: int, kernel: int, stride: int, groups: int) -> Calls:
    """Return calls of a quantized layer in both layouts, to uint8 and to float32."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (oc, ic // groups, kernel, kernel), np.int8)
    pixels = rng.integers(0, 256, (1, size, size, ic), np.uint8)
    out = (size + 2 * (kernel // 2) - kernel) // stride + 1
    calls: Calls = {}
    for dst, scales in (("u8", {"dst": 0.05}), ("f32", {})):
        for layout, src in (("nhwc", pixels), ("nchw", np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))):
            layer = api.Convolution(
                weights, np.zeros(oc, np.float32), groups=groups, strides=stride, padding=kernel // 2, layout=layout,
                src_dtype=np.uint8, dst_dtype=np.uint8 if scales else np.float32,
                scales={"src": 0.01, "weights": np.full(oc, 0.001, np.float32), **scales},
            )  # fmt: skip
            dtype = np.uint8 if scales else np.float32
            pixel = (out, out, oc) if layout == "nhwc" else (oc, out, out)
            calls[f"{layout} {dst}"] = layer(src, out=Empty((1, *pixel), dtype))
    return calls


def layer_calls(m: int, n: int, k: int) -> Calls:
    """Return calls of a dynamic layer without groups of k, and with groups of each size."""
    rng = np.random.default_rng(0)
    weights, src = (rng.standard_normal(shape, np.float32) for shape in ((n, k), (m, k)))
    calls: Calls = {}
    for group in (None, *GROUPS):
        layer = api.InnerProduct(
            weights, src_dtype=np.float32, dst_dtype=np.float32, dynamic="per_row", scales={"weights": "per_channel"},
            group=group,
        )  # fmt: skip
        calls["all k" if group is None else f"group {group}"] = layer(src, out=Empty((m, n), np.float32))
    return calls


def measured(calls: Calls, plan: Plan) -> dict[str, float]:
    """Return the seconds of each call."""
    timings = measure({name: bind(call) for name, call in calls.items()}, plan)
    return {name: timing.best for name, timing in timings.items()}


def print_layers(plan: Plan) -> None:
    """Print the table of linear layers."""
    for i, shape in enumerate(LAYERS):
        times = measured(layer_calls(*shape), plan)
        first = times.pop("all k")
        if i == 0:
            print(f"\n| M x N x K | us | {' | '.join(times)} |\n|{'---|' * (2 + len(times))}")
        ratios = " | ".join(f"{first / time:.2f}" for time in times.values())
        print(f"| {' x '.join(map(str, shape))} | {first * 1e6:.4g} | {ratios} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", type=product_sizes, metavar="MxNxK", help="only this one (repeat)")
    parser.add_argument("--threads", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--isa", choices=int8blas.available_isas(), default=int8blas.available_isas()[0])
    parser.add_argument("--budget", type=float, default=2.0, help="seconds per shape (default: %(default)s)")
    options = parser.parse_args()
    plan = Plan(rounds=30, budget=options.budget, min_sample=2e-4, settle=0.0)
    for key, value in environment.describe().items():
        print(f"{key}: {value}")
    print(f"isa: {options.isa}, threads: {options.threads}\n")
    with int8blas.num_threads(options.threads), int8blas.use_isa(options.isa):
        for i, shape in enumerate(options.shape or SHAPES):
            times = measured(product_calls(shape), plan)
            first = times.pop("u8s8")
            if i == 0:
                print(f"| M x N x K | us | {' | '.join(times)} |\n|{'---|' * (2 + len(times))}")
            ratios = " | ".join(f"{first / time:.2f}" for time in times.values())
            print(f"| {' x '.join(map(str, shape))} | {first * 1e6:.4g} | {ratios} |", flush=True)
        if options.shape:
            return
        print("\n| size | channels | kernel | groups | nhwc to u8, us | nchw | nhwc to f32, us | nchw |")
        print(f"|{'---|' * 8}")
        for size, ic, oc, kernel, stride, groups in CONVOLUTIONS:
            times = measured(convolution_calls(size, ic, oc, kernel, stride, groups), plan)
            pairs = " | ".join(
                f"{times[f'nhwc {dst}'] * 1e6:.4g} | {times[f'nhwc {dst}'] / times[f'nchw {dst}']:.2f}"
                for dst in ("u8", "f32")
            )
            step = f", stride {stride}" if stride > 1 else ""
            print(f"| {size} | {ic} to {oc} | {kernel}x{kernel}{step} | {groups} | {pairs} |", flush=True)
        print_layers(plan)


if __name__ == "__main__":
    main()
