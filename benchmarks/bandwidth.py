"""The common part of benchmarks of functions that memory limits: options, a copy to compare with, output."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from int8blas._bench.peers import onednn_gemm
from int8blas._bench.timing import Plan, measure

from held import held_to

Calls = dict[str, Callable[[], object]]


def run(description: str, cases: Iterable[tuple[object, Callable[[int], tuple[Calls, int]]]], budget: float) -> None:
    """Measure each case and a plain copy of the same number of bytes.

    A case is a title and a function of the number of threads, which returns the calls and the bytes that each call
    reads and writes.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of all but the copy (default: %(default)s)")
    parser.add_argument("--isa", help="hold int8blas and oneDNN to this ISA")
    parser.add_argument("--budget", type=float, default=budget, help="seconds per case (default: %(default)s)")
    options = parser.parse_args()
    plan = Plan(rounds=30, budget=options.budget, min_sample=2e-4, settle=5e-3 if options.threads > 1 else 0.0)
    if options.isa is not None:
        onednn_gemm.limit_isa(options.isa)
    with held_to(options.threads, options.isa):
        for title, contestants in cases:
            print(f"\n{title}")
            calls, size = contestants(options.threads)
            source = np.ones(size // 2, np.uint8)
            timings = measure({"copy": partial(np.copyto, np.empty_like(source), source)} | calls, plan)
            copied = timings["copy"].best
            for name, timing in timings.items():
                rate = size / timing.best / 1e9
                print(f"  {name:28}{timing.best * 1e6:10.1f} us {rate:7.1f} GB/s  ratio {copied / timing.best:5.2f}")
