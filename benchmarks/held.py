"""What a benchmark is held to: a number of threads, also of NumPy's and SciPy's BLAS, and an instruction set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import int8blas
from int8blas._bench import environment


@contextlib.contextmanager
def held_to(threads: int, isa: str | None) -> Iterator[None]:
    """Hold this process to so many threads and to an ISA, if there is one, and print what it runs on."""
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
