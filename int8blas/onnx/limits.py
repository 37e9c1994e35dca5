"""Limit tensors whose size is a number in a file or a feed, because a number can ask for terabytes."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator
from contextvars import ContextVar

import numpy as np
import numpy.typing as npt


class TooLargeError(ValueError):
    """The error of a tensor that would exceed the limit."""


def memory() -> int:
    """Return the bytes of the machine's memory, or 2**40 if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


MEMORY = memory()
LIMIT: ContextVar[int] = ContextVar("LIMIT", default=MEMORY)


@contextlib.contextmanager
def limited(count: int) -> Iterator[None]:
    """Allow tensors of up to `count` bytes inside the context."""
    token = LIMIT.set(count)
    try:
        yield
    finally:
        LIMIT.reset(token)


def allowed(shape: Iterable[int], dtype: npt.DTypeLike) -> tuple[int, ...]:
    """Return a shape as a tuple of int, if a tensor of this shape is allowed."""
    sizes = tuple(map(int, shape))
    if sizes and min(sizes) < 0:
        raise ValueError(f"shape must have sizes of at least 0, got {sizes}")
    count = math.prod(sizes) * np.dtype(dtype).itemsize
    if count > LIMIT.get():
        raise TooLargeError(f"a tensor must have at most {LIMIT.get()} bytes, got shape {sizes}, which is {count}")
    return sizes
