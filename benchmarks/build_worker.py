"""The process that compare_builds.py starts with each build: it makes calls, and times them on request.

Requests come on the standard input, replies go to the standard output, both pickled. A request is the name of a method
of `Worker` with its arguments; a reply is ("done", result) or ("failed", reason). The process uses only public names of
int8blas, so that builds of any two versions can be compared.
"""

from __future__ import annotations

import gc
import hashlib
import math
import mmap
import os
import pickle
import random
import sys
import time
import warnings
from collections.abc import Callable
from itertools import repeat
from typing import Any

import int8blas
import numpy as np

from calls import Call, bind

# A new result of less than SMALL_BYTES gets the memory of the previous result, unless that is kept. The worker keeps at
# most MOST_HELD results.
SMALL_BYTES, MOST_HELD = 1 << 16, 64


def digest(result: Any) -> str:
    """Return the digest of one or several arrays, with their types and shapes."""
    found = hashlib.sha256()
    for value in result if isinstance(result, (list, tuple)) else [result]:
        array = np.asarray(value)
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


class SharedMemory:
    """Memory that all workers share, in which each worker creates the same arrays at the same places.

    A product of arrays in the L2 cache takes up to 1.6 times as long if they do not begin on a cache line, or if many
    of their pages share cache sets. Both depend on the history of a process, and on chance.
    """

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, 0)
        self._used = 0

    def clear(self) -> None:
        """Start again: the next array may overlap earlier ones."""
        self._used = 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array that begins 16 bytes after the start of a cache line, like large arrays of numpy.empty."""
        size = math.prod(shape)
        start = -(-self._used // 64) * 64 + 16
        self._used = start + size * np.dtype(dtype).itemsize
        return np.frombuffer(self._memory, dtype, size, start).reshape(shape)


class Worker:
    """Measure one call at a time."""

    memory: SharedMemory | None
    call: Call
    run: Callable[[], Any]
    clock: Callable[[], float]
    held: list[Any]

    def start(self, threads: int, isa: str | None, descriptor: int | None) -> str:
        """Set threads, ISA, and the file whose memory workers share. Return the description of the build."""
        self.memory = None if descriptor is None else SharedMemory(descriptor)
        int8blas.num_threads(threads)
        # CPU time excludes the work of other processes. With several threads, waiting must count.
        self.clock = time.process_time if threads == 1 else time.perf_counter
        if isa is not None:
            int8blas.use_isa(isa)
        return f"{int8blas.__version__} ({int8blas.use_isa()}) of {os.path.dirname(int8blas.__file__)}"

    def has(self, name: str) -> bool:
        """Return whether this version has a public name."""
        return hasattr(int8blas, name)

    def prepare(self, call: Call) -> str:
        """Bind a call, make it once, and return the digest of its result."""
        self.run, self.held = lambda: None, []  # free the last call's operands first
        if self.memory:
            self.memory.clear()
        self.call = call
        self.run = self.bound()
        found = digest(self.run())
        self.move()
        return found

    def bound(self) -> Callable[[], Any]:
        """Return the call with new operands."""
        return bind(self.call, self.memory.empty if self.memory else np.empty)

    def move(self) -> None:
        """Move operands, layer and result to other places in memory: create new ones before the old ones are freed."""
        self.run = self.bound()
        self.held = [self.run()]
        if getattr(self.held[0], "nbytes", SMALL_BYTES) < SMALL_BYTES:
            self.held += [self.run() for _ in range(random.randrange(MOST_HELD))]

    def sample(self, warm: int, inner: int) -> float:
        """Return the seconds per call of `inner` calls, after some calls that load operands to the caches and wake
        threads."""
        for _ in repeat(None, warm):
            self.run()
        start = self.clock()
        for _ in repeat(None, inner):
            self.run()
        return (self.clock() - start) / inner


def main() -> None:
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not mix with the replies
    warnings.simplefilter("ignore")  # C saturates after many accumulations
    worker = Worker()
    gc.disable()
    while True:
        try:
            name, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            reply = "done", getattr(worker, name)(*arguments)
        except Exception as error:  # such as an argument that this version does not have
            reply = "failed", f"{type(error).__name__}: {error}"
        del arguments
        pickle.dump(reply, replies)
        replies.flush()
