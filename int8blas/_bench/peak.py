"""The peaks of compute and of reading, as contestants of the same run.

The peak of compute is measured with multiply-adds of the selected instruction set in registers. The peak of reading is
measured with the sum of a buffer's vectors. Both peaks are measured with loops of the kernel table
(``csrc/gemm/limits_body.h``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from int8blas._bench import loops
from int8blas._bench.timing import Timing

RUN_SECONDS = 2e-4  # seconds of a call of a compute contestant; starting threads takes far less time
GUESSED_GOPS = 2000  # first estimate of the GOPS of a thread; a matrix unit has about 6000
SMALLEST_PASS = 1 << 20  # bytes; smaller buffers are read several times per call


class Peak:
    """The peaks of the selected instruction set on `threads` threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        operations = 2 * loops.multiply_add(1, 1)
        self._iterations = int(RUN_SECONDS * GUESSED_GOPS * 1e9 / operations) if operations else 0
        self.compute_operations = operations * self._iterations * threads

    def beside(
        self, size: int, run: Callable[[Mapping[str, Callable[[], object]]], Mapping[str, Timing]]
    ) -> tuple[float | None, float]:
        """Return the compute peak in GOPS, if there is one, and the read bandwidth of about `size` bytes in GB/s.

        `run` measures the given calls together with other calls.
        """
        read_bytes, reads = self.read(size)
        timings = run(reads | self.compute())
        compute = timings.get("compute")
        peak_gops = self.compute_operations / compute.best / 1e9 if compute is not None else None
        return peak_gops, max(read_bytes / timings[name].best for name in reads) / 1e9

    def compute(self) -> dict[str, Callable[[], object]]:
        """Return a dict with the contestant "compute", a call of `compute_operations` operations. Return an empty dict
        if the ISA has no peak loop."""
        if not self.compute_operations:
            return {}
        return {"compute": partial(loops.multiply_add, self._iterations, self._threads)}

    def read(self, size: int) -> tuple[int, dict[str, Callable[[], object]]]:
        """Return calls that read a buffer of about `size` bytes as one stream and as four streams. Also return the
        number of bytes that each call reads."""
        granule = 256 * self._threads
        size = max(size // granule, 1) * granule
        # The buffer begins at a cache line. Ones fill the buffer, because all pages of zeros could be one page.
        memory = np.ones(size + 64, np.uint8)
        start = -memory.ctypes.data % 64
        buffer = memory[start : start + size]
        passes = -(-SMALLEST_PASS // size)
        calls: dict[str, Callable[[], object]] = {
            f"read, {streams} stream{'s' * (streams > 1)}": partial(loops.read, buffer, passes, streams, self._threads)
            for streams in (1, 4)
        }
        return size * passes, calls
