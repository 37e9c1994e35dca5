"""The process that compare_builds.py starts with each build: it makes calls, and times them when it is told to.

Requests come on the standard input and go back on the standard output, pickled: the name of a method of `Worker` with
its arguments, and ("done", what it gave) or ("failed", why). Of int8blas only public names are used, so that builds of
any two versions can be compared.
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

# A new result of fewer bytes has the memory of the one before it, as long as that is not held; as many are, at most.
SMALL_BYTES, MOST_HELD = 1 << 16, 64


def digest(result: Any) -> str:
    """Of an array, or of several, with types and shapes."""
    found = hashlib.sha256()
    for value in result if isinstance(result, (list, tuple)) else [result]:
        array = np.asarray(value)
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


class SharedMemory:
    """Memory that all workers share, in which each of them makes the same arrays at the same places in turn.

    A product of arrays in the L2 cache takes up to 1.6 times as long where they do not begin on a cache line, or where
    many of their pages have the same sets of the cache. That is decided by what a process had before, and by chance.
    """

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, 0)
        self._used = 0

    def clear(self) -> None:
        """The next array may lie where others are."""
        self._used = 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """As numpy.empty, whose large arrays begin 16 bytes after a cache line too."""
        size = math.prod(shape)
        start = -(-self._used // 64) * 64 + 16
        self._used = start + size * np.dtype(dtype).itemsize
        return np.frombuffer(self._memory, dtype, size, start).reshape(shape)


class Worker:
    """One call at a time."""

    memory: SharedMemory | None
    call: Call
    run: Callable[[], Any]
    clock: Callable[[], float]
    held: list[Any]

    def start(self, threads: int, isa: str | None, descriptor: int | None) -> str:
        """Set threads, ISA, and the file whose memory workers share; what build this is."""
        self.memory = None if descriptor is None else SharedMemory(descriptor)
        int8blas.num_threads(threads)
        # What others do on the CPU meanwhile does not count. With more threads, one that waits does.
        self.clock = time.process_time if threads == 1 else time.perf_counter
        if isa is not None:
            int8blas.use_isa(isa)
        return f"{int8blas.__version__} ({int8blas.use_isa()}) of {os.path.dirname(int8blas.__file__)}"

    def has(self, name: str) -> bool:
        """Whether this version has a public name."""
        return hasattr(int8blas, name)

    def prepare(self, call: Call) -> str:
        """Bind a call and make it once; the digest of its result."""
        self.run, self.held = lambda: None, []  # the last call's operands go first
        if self.memory:
            self.memory.clear()
        self.call = call
        self.run = self.bound()
        found = digest(self.run())
        self.move()
        return found

    def bound(self) -> Callable[[], Any]:
        """The call with operands of its own."""
        return bind(self.call, self.memory.empty if self.memory else np.empty)

    def move(self) -> None:
        """Operands, layer and result lie elsewhere in memory from now on, as these are made before the old ones go."""
        self.run = self.bound()
        self.held = [self.run()]
        if getattr(self.held[0], "nbytes", SMALL_BYTES) < SMALL_BYTES:
            self.held += [self.run() for _ in range(random.randrange(MOST_HELD))]

    def sample(self, warm: int, inner: int) -> float:
        """Seconds per call of `inner` calls, after some that bring operands into the caches and wake threads."""
        for _ in repeat(None, warm):
            self.run()
        start = self.clock()
        for _ in repeat(None, inner):
            self.run()
        return (self.clock() - start) / inner


def main() -> None:
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed must not be among the replies
    warnings.simplefilter("ignore")  # C that a product is added to again and again saturates
    worker = Worker()
    gc.disable()
    while True:
        try:
            name, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            reply = "done", getattr(worker, name)(*arguments)
        except Exception as error:  # such as an argument that this version does not take
            reply = "failed", f"{type(error).__name__}: {error}"
        del arguments
        pickle.dump(reply, replies)
        replies.flush()
