"""Arguments of benchmarks of shapes, and their limits: threads, also of NumPy's and SciPy's BLAS, and an ISA."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

import int8blas
from int8blas._bench import environment


def options_of(description: str | None, shape: str, budget: float) -> argparse.Namespace:
    """Parse the arguments of a benchmark of shapes: threads, isa, shapes and budget."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of all (default: %(default)s)")
    parser.add_argument("--isa", help="hold int8blas to this ISA")
    parser.add_argument("--shape", action="append", help=f"{shape} instead of all, may be repeated")
    parser.add_argument("--budget", type=float, default=budget, help="seconds per line (default: %(default)s)")
    options = parser.parse_args()
    options.shapes = [tuple(map(int, text.split("x"))) for text in options.shape or []]
    return options


@contextlib.contextmanager
def held_to(threads: int, isa: str | None) -> Iterator[None]:
    """Limit this process to a number of threads and, if given, to an ISA, and print the environment."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(int8blas.num_threads(threads))
        if isa is not None:
            stack.enter_context(int8blas.use_isa(isa))
        from threadpoolctl import threadpool_limits

        stack.enter_context(threadpool_limits(threads))
        for key, value in environment.describe().items():
            print(f"{key}: {value}")
        print(f"isa: {isa or int8blas.available_isas()[0]}, threads: {threads}")
        yield
