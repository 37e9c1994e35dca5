"""Compare dot products of int8 vectors with the read bandwidth, NumPy's float32 and NumKong's int8.

    python benchmarks/bench_dot.py
    python benchmarks/bench_dot.py --threads 2 --isa avx2

All contestants take turns in one run, and the best time counts. Vectors begin on a cache line: otherwise most loads of
64 bytes touch two lines, and reading from the L1 cache takes 1.5x as long. `read` is the time of a loop that reads the
same bytes, two for each k. `of it` is the share of the read bandwidth that int8blas reaches, without the time of a
call. A product of one element measures the time of a call. NumKong, on one thread, is held to the instructions of
`--isa`; it is skipped if it is not installed.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from functools import partial

import int8blas
import numpy as np
from int8blas._bench import loops
from int8blas._bench.timing import Plan, measure

from held import held_to

LENGTHS = (384, 1024, 4096, 16_384, 65_536, 66_000, 262_144, 1_000_000, 4_000_000, 64_000_000)
READ_BYTES = 1 << 20  # minimum number of bytes that a sample of the loop reads
Calls = dict[str, Callable[[], object]]
# The instruction sets that NumKong may use in addition to the baseline, by --isa.
NUMKONG = {"avx2": ("haswell",), "avx512bw": ("haswell", "skylake"), "avxvnni": ("haswell", "alder", "sierra")}


def numkong_dot(isa: str | None) -> Callable[[np.ndarray, np.ndarray], object] | None:
    """Return NumKong's function, or None if it is not installed."""
    try:
        import numkong
    except ImportError:
        return None
    if isa in NUMKONG:
        for name, enabled in dict(numkong.get_capabilities()).items():
            if enabled and name not in (*NUMKONG[isa], "serial"):
                with contextlib.suppress(ValueError):
                    numkong.disable_capability(name)
    return numkong.dot


def on_a_line(values: np.ndarray) -> np.ndarray:
    """Return a copy that begins on a cache line."""
    memory = np.empty(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy: np.ndarray = memory[start : start + values.nbytes].view(values.dtype)
    copy[:] = values
    return copy


def contestants(
    k: int, threads: int, peer: Callable[..., object] | None
) -> tuple[dict[str, Callable[[], object]], int]:
    """Return calls on vectors of k elements, and how often the loop reads all of them in one call."""
    rng = np.random.default_rng(0)
    x, y = (on_a_line(rng.integers(-127, 128, k, np.int8)) for _ in range(2))
    u, v, w = x.view(np.uint8), on_a_line(x.astype(np.float32)), on_a_line(y.astype(np.float32))
    passes = max(1, READ_BYTES // (2 * k))
    buffer = on_a_line(np.ones(2 * k // 256 * 256, np.uint8))
    calls: Calls = {
        "read": partial(loops.read, buffer, passes, 1, threads),
        "read 4": partial(loops.read, buffer, passes, 4, threads),
        "s8s8": partial(int8blas.matmul, x, y),
        "u8s8": partial(int8blas.matmul, u, y),
        "call": partial(int8blas.matmul, x[:1], y[:1]),
        "NumPy": partial(np.dot, v, w),
    }
    if peer is not None:
        calls["NumKong"] = partial(peer, x, y)
    return calls, passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of all but NumKong (default: %(default)s)")
    parser.add_argument("--isa", help="hold int8blas and NumKong to this ISA")
    parser.add_argument("--budget", type=float, default=1.5, help="seconds for each length (default: %(default)s)")
    options = parser.parse_args()
    plan = Plan(rounds=20, budget=options.budget, min_sample=2e-4, settle=0.0)
    peer = numkong_dot(options.isa)
    with held_to(options.threads, options.isa):
        print()
        print("| K | read, us | s8 s8 | of it | u8 s8 | NumPy float32 | NumKong s8 s8 |\n|---|---|---|---|---|---|---|")
        for k in LENGTHS:
            calls, passes = contestants(k, options.threads, peer)
            best = {name: timing.best * 1e6 for name, timing in measure(calls, plan).items()}
            read = min(best["read"], best["read 4"]) / passes
            peers = " | ".join(f"{best[name]:.3g}" if name in best else "-" for name in ("NumPy", "NumKong"))
            part = read / max(best["s8s8"] - best["call"], read)
            ours = f"{best['s8s8']:.3g} | {part:.0%} | {best['u8s8']:.3g}"
            print(f"| {k:,} | {read:.3g} | {ours} | {peers} |", flush=True)


if __name__ == "__main__":
    main()
