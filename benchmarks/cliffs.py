"""Walk sizes one by one, and print where the time of an element jumps from one size to the next.

    python benchmarks/cliffs.py
    python benchmarks/cliffs.py --classes columns,depthwise --isa avx2 --all

Each class of calls has one size, which grows by 1. Panels and vectors have 16 elements, and a part of one takes as long
as a whole one. From n to n + 1 elements the time of an element may therefore grow by (n + 16) / n, the allowance. The
jump is the time of an element at n + 1 divided by the time at n; the excess is the jump divided by the allowance. The
program prints jumps above 1.3, marks jumps whose excess is above 1.3, and returns 1 if any jump is marked. Sizes take
turns, round after round, on one thread, and the shortest time of each size counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat

import int8blas
import numpy as np

Call = Callable[[], object]

PADDING = 16  # elements of a panel, or of a vector of int32
JUMP = 1.3
SAMPLE = 1e-3  # seconds

rng = np.random.default_rng(0)


def int8(*shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape, np.int8)


def product(m: int, n: int, k: int, packed: bool = False) -> Call:
    a, b = int8(m, k), int8(k, n)
    return partial(int8blas.matmul, a, int8blas.pack_b(b) if packed else b, out=np.empty((m, n), np.int32))


def stack(n: int) -> Call:
    return partial(int8blas.matmul, int8(500, n, n), int8(500, n, n), out=np.empty((500, n, n), np.int32))


def convolution(size: int, ic: int, oc: int, kernel: int, groups: int = 1) -> Call:
    layer = int8blas.Convolution(
        int8(oc, ic // groups, kernel, kernel), padding=kernel // 2, groups=groups, src_dtype=np.uint8,
        dst_dtype=np.uint8, scales={"src": 0.1, "weights": 0.01, "dst": 0.1},
    )  # fmt: skip
    src = rng.integers(0, 256, (1, size, size, ic), np.uint8)
    return partial(layer, src, out=layer(src))


def nearest(k: int) -> Call:
    return partial(int8blas.nearest, int8(20, 64), int8(2000, 64), k)


def over(values: np.ndarray, function: Callable[..., object], *arguments: object) -> Call:
    return partial(function, values, *arguments)


FLOATS = rng.standard_normal((64, 200)).astype(np.float32)

# For each class, the function that makes its call of a size, and the sizes.
CLASSES: dict[str, tuple[Callable[[int], Call], Iterable[int]]] = {
    "columns": (lambda n: product(1000, n, 128), range(1, 70)),
    "columns, packed": (lambda n: product(1000, n, 128, packed=True), range(1, 70)),
    "columns, K 32": (lambda n: product(1000, n, 32), range(1, 70)),
    "rows": (lambda m: product(m, 512, 512), range(1, 70)),
    "rows, packed": (lambda m: product(m, 512, 512, packed=True), range(1, 70)),
    "rows, 16 columns": (lambda m: product(m, 16, 300), range(1, 40)),
    "K": (lambda k: product(1000, 64, k), range(1, 70)),
    "K, 4 columns": (lambda k: product(10_000, 4, k), range(1, 70)),
    "K, one row, 16 columns": (lambda k: product(1, 16, k), range(190, 280)),
    "K, one column": (lambda k: product(1000, 1, k), range(1, 280)),
    "cubes": (lambda n: product(n, n, n), range(4, 80)),
    "stacks of cubes": (stack, range(1, 40)),
    "depthwise": (lambda c: convolution(56, c, c, 3, c), (*range(2, 70), 127, 128, 129, 130)),
    "output channels": (lambda c: convolution(28, 64, c, 3), (*range(1, 70), 255, 256, 257)),
    "output channels, 1x1": (lambda c: convolution(28, 64, c, 1), (*range(1, 70), 255, 256, 257)),
    "output channels of 3, 1x1": (lambda c: convolution(112, 3, c, 1), range(1, 40)),
    "input channels of 1, 1x1": (lambda c: convolution(112, c, 1, 1), range(1, 40)),
    "input channels": (lambda c: convolution(28, c, 32, 3), range(1, 40)),
    "kernel of depthwise": (lambda k: convolution(28, 16, 16, 2 * k + 1, 16), range(1, 12)),
    "nearest": (nearest, range(1, 100)),
    "softmax": (lambda n: over(np.ascontiguousarray(FLOATS[:, :n]), int8blas.softmax), range(8, 200)),
    "quantize": (lambda n: over(FLOATS.ravel()[:n], int8blas.quantize, 0.1), range(8, 200)),
}  # fmt: skip


def seconds_of(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in repeat(None, count):
        call()
    return (time.perf_counter() - start) / count


def walk(make: Callable[[int], Call], sizes: Iterable[int], rounds: int) -> dict[int, float]:
    """Return the seconds of each size."""
    calls = {size: make(size) for size in sizes}
    best, counts = {}, {}
    for size, call in calls.items():
        call()
        counts[size] = max(1, int(SAMPLE / max(seconds_of(call, 3), 1e-7)))
        best[size] = seconds_of(call, counts[size])
    for _ in range(rounds):
        for size, call in calls.items():
            best[size] = min(best[size], seconds_of(call, counts[size]))
    return best


def steps(name: str, best: dict[int, float], every: bool) -> int:
    """Print the jumps of a class. Return the number of cases whose excess is too large."""
    bad = 0
    for size, seconds in best.items():
        if size + 1 not in best:
            continue
        jump = best[size + 1] / (size + 1) / (seconds / size)
        allowance = (size + PADDING) / size
        excess = jump / allowance
        bad += excess > JUMP
        if every or jump > JUMP:
            times = f"{1e6 * seconds:9.2f} {1e6 * best[size + 1]:9.2f}"
            print(f"{name:24s} {size:4d} {times} {jump:6.2f} {allowance:9.2f} {excess:6.2f}{' !' * (excess > JUMP)}")
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", default="", help=f"beginnings of classes, of {', '.join(CLASSES)}")
    parser.add_argument("--isa", default=int8blas.available_isas()[0], help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=20, help="samples of each size (default: %(default)s)")
    parser.add_argument("--all", action="store_true", help="print every step")
    options = parser.parse_args()
    words = tuple(word for word in options.classes.split(",") if word)
    print(f"{'class':24s} {'n':>4s} {'us at n':>9s} {'at n + 1':>9s} {'jump':>6s} allowance excess")
    bad = 0
    with int8blas.num_threads(1), int8blas.use_isa(options.isa):
        for name, (make, sizes) in CLASSES.items():
            if not words or name.startswith(words):
                bad += steps(name, walk(make, sizes, options.rounds), options.all)
    print(f"{bad} steps are above {JUMP} of their allowance")
    raise SystemExit(bad > 0)


if __name__ == "__main__":
    main()
