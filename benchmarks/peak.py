"""The peaks of compute and of reading, as contestants of the same run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np

import native

KINDS = ("avx512vnni", "avxvnni", "avx512bw", "avx2")  # best first; the names are int8blas's ISAs
RUN_SECONDS = 2e-4  # of one compute contestant's call; far above the cost of starting threads
SMALLEST_PASS = 1 << 20  # bytes; smaller buffers are read several times per call


class Peak:
    """The peaks on `threads` threads; `isa` limits the compute peak to that ISA's instructions."""

    def __init__(self, threads: int, isa: str | None = None) -> None:
        try:
            self._library = native.build("peak.c", "-fopenmp")
        except native.BuildError:
            if threads > 1:
                raise
            self._library = native.build("peak.c", "-Wno-unknown-pragmas")
        self._library.peak_read.restype = ctypes.c_uint64
        self._threads = threads
        self.kind = None
        for kind in KINDS if isa is None else (isa,):
            multiply_adds = self._library.peak_multiply_adds(kind.encode())
            if multiply_adds:
                self.kind = kind
                # Two operations each, at a guessed 500 GOPS a thread.
                self._iterations = int(RUN_SECONDS * 500e9 / (2 * multiply_adds))
                self.compute_operations = 2 * multiply_adds * self._iterations * threads
                break

    def compute(self) -> Callable[[], object] | None:
        """A call of `compute_operations` operations; None where the ISA has no peak loop."""
        if self.kind is None:
            return None
        sizes = (ctypes.c_int64(self._iterations), ctypes.c_int(self._threads))
        return partial(self._library.peak_compute, self.kind.encode(), *sizes)

    def read(self, size: int) -> tuple[int, dict[str, Callable[[], object]]]:
        """Calls that read a buffer of about `size` bytes as one stream and as four, and the bytes each call reads."""
        granule = 256 * self._threads
        size = max(size // granule, 1) * granule
        # Aligned to a cache line, and never a page of zeros that the system shares.
        memory = np.ones(size + 64, np.uint8)
        start = -memory.ctypes.data % 64
        buffer = memory[start : start + size]
        passes = -(-SMALLEST_PASS // size)
        calls: dict[str, Callable[[], object]] = {}
        for streams in (1, 4):
            call = partial(
                self._library.peak_read,
                ctypes.c_void_p(buffer.ctypes.data),
                ctypes.c_size_t(size),
                ctypes.c_int(passes),
                ctypes.c_int(streams),
                ctypes.c_int(self._threads),
            )
            calls[f"read, {streams} stream{'s' * (streams > 1)}"] = partial(_keeping, buffer, call)
        return size * passes, calls


def _keeping(_owner: np.ndarray, call: Callable[[], object]) -> object:
    """`call()`, with a reference to the memory it reads."""
    return call()
