"""Sources and targets of files: a path, or a file object, which may be a stream of bytes.

A file object for writing needs a method `write`. A file object for reading needs `readinto` or `read`. The methods are
as in :class:`io.RawIOBase`. The file object need not know its position or size. One call may write or read fewer bytes
than requested.
"""

import contextlib
import io
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from int8blas.core.words import either, shown

Bytes = npt.NDArray[np.uint8]


class Writable(Protocol):
    def write(self, data: Any, /) -> Any: ...


class Readable(Protocol):
    def read(self, size: int, /) -> Any: ...


Path: TypeAlias = str | os.PathLike[str]
Target: TypeAlias = Path | Writable
Origin: TypeAlias = Path | Readable

ALIGNMENT = 64
READING = ("read", "readinto")
# The number of bytes that are first allocated for a stream of unknown size. The memory doubles when it is full.
FIRST_BYTES = 1 << 20


def is_stream(path: Any, *methods: str) -> bool:
    """Return whether `path` is a file object with one of the given methods, and not a path."""
    if isinstance(path, io.TextIOBase):
        raise TypeError(f"path must be a path or a file of bytes, got {type(path).__name__}, a file of text: open it "
                        "with 'b' in its mode")  # fmt: skip
    if isinstance(path, io.IOBase):
        return True
    if isinstance(path, (str, bytes, os.PathLike)):
        return False
    if any(hasattr(path, method) for method in methods):
        return True
    raise TypeError(f"path must be a path or a file object with {either(methods)}, got {type(path).__name__}")


def name_of(path: Any) -> str:
    """Return the name that error messages give to a path or a file object."""
    name = path if isinstance(path, (str, bytes, os.PathLike)) else getattr(path, "name", None)
    return shown(os.fspath(name)) if isinstance(name, (str, bytes, os.PathLike)) else f"the {type(path).__name__}"


# Writing


@contextlib.contextmanager
def written(path: Any) -> Iterator[Callable[[Any], None]]:
    """Yield a function that writes bytes to a file object at its position, or to a new file. When all bytes are
    written, the new file replaces the path. After an error the new file is deleted."""
    if is_stream(path, "write"):
        yield lambda data: _write_all(path, data)
        return
    with _replaced(path) as file:
        yield lambda data: _write_all(file, data)


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    path = os.fsdecode(path)
    unfinished = f"{path}.{secrets.token_hex(8)}"  # a random name, because interrupted processes leave files
    try:
        with open(unfinished, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # the data must be on the disk before the new name
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def _write_all(file: Any, data: Any) -> None:
    """Write all bytes. If `write` has written only a part, call `write` again for the rest."""
    rest = memoryview(data)
    while len(rest):
        count = file.write(rest)
        if count is None:
            if isinstance(file, io.RawIOBase):
                raise BlockingIOError(f"{name_of(file)} must block until it takes bytes")
            return  # without a count assume that all bytes are written
        if not 0 < count <= len(rest):
            raise OSError(f"{name_of(file)} must take some of {len(rest)} bytes, took {count}")
        rest = rest[count:]


# Reading


class Source:
    """A source of bytes: a file from its beginning, or a stream from its position."""

    def __init__(self, file: Any, name: str, size: int | None) -> None:
        self.file, self.name = file, name
        self.size = size  # None for a stream until its end is reached
        self.position = 0

    def read(self, size: int) -> Bytes:
        """Read `size` bytes, or all bytes, into memory that begins at a multiple of 64 bytes."""
        memory = aligned_bytes(size if self.size is not None else min(size, FIRST_BYTES)).view(np.uint8)
        count = 0
        while count < size:
            if count == memory.size:
                more = aligned_bytes(min(size, 2 * count)).view(np.uint8)
                more[:count] = memory
                memory = more
            got = _read_some(self.file, memory[count:].data)
            if got == 0:
                break
            count += got
        self.position += count
        return memory[:count]


@contextlib.contextmanager
def opened(path: Any) -> Iterator[Source]:
    """Open a path or file object for reading."""
    if is_stream(path, *READING):
        yield Source(path, name_of(path), None)
        return
    with open(path, "rb") as file:
        yield Source(file, name_of(path), os.fstat(file.fileno()).st_size)


def read_to_end(path: Any) -> bytes:
    """Read all bytes of a path, or the remaining bytes of a file object."""
    parts = []
    with opened(path) as source:
        while (part := source.read(FIRST_BYTES)).size:
            parts.append(part.tobytes())
    return b"".join(parts)


def _read_some(file: Any, memory: memoryview) -> int:
    """Fill a part of the memory. Return the number of read bytes, or 0 at the end of the file. The memory is not
    empty."""
    if hasattr(file, "readinto"):
        count = file.readinto(memory)
    else:
        part = file.read(len(memory))
        if isinstance(part, str):
            raise TypeError(f"path must be a path or a file of bytes, got {type(file).__name__}, a file of text")
        count = None if part is None else len(part)
        if count is not None and count <= len(memory):
            memory[:count] = part
    if count is None:
        raise BlockingIOError(f"{name_of(file)} must block until it has bytes")
    if not 0 <= count <= len(memory):
        raise OSError(f"{name_of(file)} must give at most {len(memory)} bytes, gave {count}")
    return int(count)


# Memory


def aligned_bytes(size: int) -> npt.NDArray[np.int8]:
    """Return uninitialised int8 memory that begins at a multiple of 64 bytes."""
    memory = np.empty(size + ALIGNMENT, np.int8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]
