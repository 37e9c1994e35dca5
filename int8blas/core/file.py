"""One file for packed weights, arrays, layers and the plain values that hold them.

The file, in little-endian numbers::

    header    magic, version, checksum and size of the index, checksum of the header: padded with zeros to 64 bytes
    index     JSON: {"value": node, "data": [[size, checksum], ...]}
    data      the bytes of each array

The index and each array's bytes are followed by zeros up to a multiple of 64 bytes. Checksums are CRC-32 and include
the zeros, so that a checksum covers every byte of a file. A node is null, true, false, a number, a string, a list of
nodes, or an object with one member, whose name says its kind:

==============================  =======================================================================================
{"dict": {name: node, ...}}     a dict
{"tuple": [node, ...]}          a tuple
{"dtype": name}                 a NumPy dtype
{"array": [i, dtype, shape]}    the array of this dtype and shape, in C order, that is number i in `data`
{"scalar": [i, dtype, []]}      a NumPy scalar
{"buffer": i}                   bytes
{name: [[node, ...], {...}]}    the arguments that restore an object of this class, positional and by name
==============================  =======================================================================================

A class can be saved if it has `__reduce__`, which pickle uses too, and calls :func:`register`. Loading executes no code
from the file: it calls only constructors of registered classes, which check their arguments. A file has the packed
weights of a layer, so a change of the packed form needs a new version of the format. A change of the file's structure
needs a new version.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import pickle
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import bfloat16_dtype, is_bfloat16
from int8blas.core.kernels import fold_checksum
from int8blas.core.streams import ALIGNMENT, READING, Bytes, Origin, Source, Target, is_stream, opened, written
from int8blas.core.words import boolean, is_option, shown

MAGIC = b"int8blas"
VERSION = 1
MOST_EMPTY = 1 << 24  # maximum product of the sizes of an empty array that are not 0 (see _check_empty)
# The magic, the version, and the checksum and size of the index. A checksum of the header follows.
HEADER = struct.Struct("<8sIIQ")
NAMES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
         "float16", "float32", "float64", "complex64", "complex128")  # fmt: skip
DTYPES = {name: np.dtype(name).newbyteorder("<") for name in NAMES}

# CLASSES has the name of each class in a file. For each name, RESTORE has a function that restores a value from the
# arguments of `__reduce__`.
CLASSES: dict[type, str] = {}
RESTORE: dict[str, Callable[..., Any]] = {}


def register(cls: type, restore: Callable[..., Any] | None = None) -> None:
    """Let values of a class be saved.

    ``__reduce__`` must return (restore, arguments) or (functools.partial(restore, **keywords), arguments), where
    arguments are values that can be saved or :class:`pickle.PickleBuffer`. The default of `restore` is the class
    itself. `restore` must raise TypeError, ValueError or OverflowError for wrong arguments.
    """
    CLASSES[cls] = cls.__name__
    RESTORE[cls.__name__] = restore or cls


def register_later(name: str, module: str) -> None:
    """Let values of a class be loaded before its module is imported. The module must register the class when it is
    imported."""

    def restore(*arguments: Any, **keywords: Any) -> Any:
        importlib.import_module(module)
        return RESTORE[name](*arguments, **keywords)

    RESTORE[name] = restore


def save(path: Target, value: Any) -> None:
    """Write layers, packed weights, arrays and plain values to one file that :func:`load` maps.

    Parameters
    ----------
    path : path-like or file object
        A path is created or replaced. If the call is interrupted, the old file and mappings of it do not change. A file
        object needs a method `write` for bytes. The object may be an open file, `io.BytesIO`, a member of an archive,
        or a compressed or remote file. Writing begins at the object's position, and the object stays open. After an
        error the object contains a part of the data.
    value : InnerProduct, Convolution, Deconvolution, LSTM, GRU, PackedB, Attributes, a post-op, \
QuantizationParameters, ndarray, NumPy scalar, dtype, None, bool, int, float, str, list, tuple or dict
        Lists, tuples and dicts (with str keys) may contain these values, to any depth. Arrays are of bool, integers,
        real or complex numbers.

    Raises
    ------
    TypeError, ValueError
        If a value has another type, or is infinite or NaN. The error says where the value is. Nothing is written.
    OSError
        If the file cannot be written.

    Notes
    -----
    A path and a file object get equal bytes. The position of a file object is never read. An object that occurs twice
    is written twice. The file does not depend on the CPU.

    Examples
    --------
    >>> import os, tempfile, numpy as np, int8blas
    >>> layer = int8blas.InnerProduct(np.eye(3, dtype=np.int8), src_dtype=np.uint8, dst_dtype=np.int32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "network.i8")
    ...     int8blas.save(path, {"layers": {"first": layer}, "classes": ["cat", "dog", "owl"]})
    ...     network = int8blas.load(path)
    >>> network["layers"]["first"](np.array([[1, 2, 3]], np.uint8)), network["classes"][2]
    (array([[1, 2, 3]], dtype=int32), 'owl')
    """
    data: list[Bytes] = []
    try:
        tree = {"value": _node(value, "value", data), "data": [[array.size, _checksum(array)] for array in data]}
        index = np.frombuffer(json.dumps(tree, separators=(",", ":")).encode(), np.uint8)
    except RecursionError:
        raise ValueError("value must not contain itself, and its lists must not be nested too deeply") from None
    header = HEADER.pack(MAGIC, VERSION, _checksum(index), index.size)
    header += struct.pack("<I", zlib.crc32(header))
    with written(path) as write:
        for part in (np.frombuffer(header, np.uint8), index, *data):
            write(part.data)
            write(bytes(-part.size % ALIGNMENT))


def load(path: Origin, mmap: bool | None = None, *, verify: str = "full") -> Any:
    """Load a file of :func:`save`.

    Parameters
    ----------
    path : path-like or file object
        A path, or a file object with a method `readinto` or `read` for bytes. Reading begins at the position of the
        file object and ends with the last saved byte. The file object stays open.
    mmap : bool, optional
        Map the file into memory instead of reading it. All processes that map the file share this memory. By default a
        path is mapped, and a file object is read, because it cannot be mapped. A mapped file must not change while it
        is in use, except that `save` may replace the file, because `save` leaves the mapped file unchanged. If another
        process rewrites the mapped bytes, results are wrong, but no other memory is read or written. If another process
        truncates the mapped file, the operating system ends this process (SIGBUS).
    verify : {'full', 'index'}, optional
        The bytes that are compared with their checksums: all, or only the header and the index. With "index" a mapped
        file is not read before its weights are used, and damaged data gives wrong results, as if another process had
        rewritten the mapped bytes. Use "index" for a file that was compared before.

    Returns
    -------
    object
        A value that equals the saved value. Loaded layers give the same bits as saved layers. Arrays are read-only and
        in C order. Packed weights and arrays begin at multiples of 64 bytes, and are not copied from a mapped file.

    Raises
    ------
    TypeError, OSError
        If `path` is neither a path nor a file object, or the file cannot be read.
    ValueError
        If `save` did not write the file, if the file has another version, is truncated or corrupted, if `mmap` is true
        for a file object, or if `verify` is neither "full" nor "index".

    Notes
    -----
    By default `load` compares header, index and all data with their checksums before it uses them. `load` therefore
    reads the whole file once, even a mapped file. Checksums find accidental damage. A malicious file leads to an error
    or to a value of the types that `save` takes, and no code in the file is executed. There are no other promises about
    malicious files. Memory is allocated only for bytes that have arrived, not for a size that a stream announces.

    Examples
    --------
    >>> import os, tempfile, numpy as np, int8blas
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "weights.i8")
    ...     int8blas.save(path, {"packed": int8blas.pack_b(np.eye(3, dtype=np.int8)), "name": "identity"})
    ...     int8blas.load(path)
    {'packed': PackedB(shape=(3, 3), dtype=int8), 'name': 'identity'}
    """
    mmap = None if mmap is None else boolean(mmap, "mmap")
    if not is_option(verify, ("full", "index")):
        raise ValueError(f"verify must be 'full' or 'index', got {shown(verify)}")
    if mmap and is_stream(path, *READING):
        raise ValueError("mmap must not be True for a file object, which is read and cannot be mapped")
    with opened(path) as source:
        name = source.name
        index_size, checksum = _read_header(source.read(ALIGNMENT).tobytes(), name)
        start = ALIGNMENT + _padded(index_size)
        _check_size(source, start, source.size)
        index = _read(source, start - ALIGNMENT, start)
        if zlib.crc32(index.data) != checksum:
            raise ValueError(f"{name} is corrupted: its index does not match its checksum")
        try:
            tree = json.loads(index[:index_size].tobytes())
            sizes, node = [_checked_size(*entry) for entry in tree["data"]], tree["value"]
        except (TypeError, ValueError, LookupError, RecursionError) as error:
            raise ValueError(f"{name} is corrupted: its index is invalid: {error}") from None
        end = start + sum(_padded(size) for size, _ in sizes)
        _check_size(source, end, start)
        mapped = None
        if source.size is not None and (mmap or mmap is None):
            mapped = np.memmap(source.file, np.uint8, "r").view(np.ndarray)
        data: list[Bytes] = []
        for nbytes, checksum in sizes:
            if mapped is not None:
                array = mapped[start : start + _padded(nbytes)]
            else:
                array = _read(source, _padded(nbytes), end)
                freeze(array)
            if verify == "full" and _crc32(array) != checksum:
                raise ValueError(f"{name} is corrupted: data {len(data)} does not match its checksum")
            data.append(array[:nbytes])
            start += array.size
    try:
        return _value(node, data)
    except (AttributeError, TypeError, ValueError, LookupError, OverflowError, RecursionError) as error:
        raise ValueError(f"{name} is corrupted, or of a later int8blas: {error}") from None


def freeze(array: npt.NDArray[Any]) -> None:
    """Make an array permanently read-only. If the base array of a view is writeable, NumPy could make the view
    writeable again."""
    root: Any = array
    while isinstance(root, np.ndarray):
        root.flags.writeable = False
        root = root.base


def is_constant(buffer: Any) -> bool:
    """Return whether the memory is read-only in this view and in all its base arrays."""
    while True:
        try:
            view = memoryview(buffer)
        except TypeError:  # the owner does not say whether its memory is read-only
            return False
        owner = buffer.base if isinstance(buffer, np.ndarray) else view.obj
        if not view.readonly or owner is None or owner is buffer:
            return view.readonly
        buffer = owner


def packed_bytes_of(buffer: Any, wanted: int, what: str) -> npt.NDArray[np.uint8]:
    """Return the packed bytes in a buffer as a permanently read-only array that shares the memory of the buffer.

    Raises
    ------
    ValueError
        If the buffer is not C-contiguous, or does not have `wanted` bytes.
    """
    # NumPy cannot make an array on a read-only memoryview writeable.
    view = memoryview(buffer).toreadonly()
    if not view.c_contiguous:
        raise ValueError("the bytes of a packed matrix must be C-contiguous")
    data = np.frombuffer(view, np.uint8)
    if data.size != wanted:
        raise ValueError(f"{what} must have {wanted} bytes, got {data.size}")
    return data


def _padded(size: int) -> int:
    return size + -size % ALIGNMENT


def _crc32(data: Bytes | bytes, value: int = 0) -> int:
    """Return ``zlib.crc32(data, value)``, 3x faster than zlib for large arrays."""
    if isinstance(data, np.ndarray):
        rest, folded = fold_checksum(data.ctypes.data, data.size, value ^ 0xFFFFFFFF)
        value = zlib.crc32(rest, 0xFFFFFFFF) if folded else value
        return zlib.crc32(data[folded:].data, value)
    return zlib.crc32(data, value)


def _checksum(data: Bytes) -> int:
    """Return the size of data including the zeros after it."""
    return _crc32(bytes(-data.size % ALIGNMENT), _crc32(data))


def _read_header(header: bytes, name: str) -> tuple[int, int]:
    """Return size and checksum of the index."""
    if header[: len(MAGIC)] != MAGIC[: len(header)] or not header:
        raise ValueError(f"{name} is not a file of int8blas: it begins with {header[: len(MAGIC)]!r}")
    if len(header) < ALIGNMENT:
        raise ValueError(f"{name} is truncated: its header has {len(header)} of {ALIGNMENT} bytes")
    _, version, checksum, size = HEADER.unpack_from(header)
    if version != VERSION:
        raise ValueError(f"{name} has version {version} of the format, this int8blas reads version {VERSION}")
    own = struct.pack("<I", zlib.crc32(header[: HEADER.size]))
    if header[HEADER.size :] != own.ljust(ALIGNMENT - HEADER.size, b"\0"):
        raise ValueError(f"{name} is corrupted: its header does not match its checksum")
    return size, checksum


def _check_size(source: Source, least: int, most: int | None) -> None:
    """Check that the size of a file, if it is known, is from `least` to the larger of `least` and `most`."""
    if source.size is None or most is None:
        return
    if not least <= source.size <= max(least, most):
        problem = "truncated" if source.size < least else "corrupted"
        raise ValueError(f"{source.name} is {problem}: it has {source.size} bytes, its index asks for {least}")


def _read(source: Source, size: int, end: int) -> Bytes:
    """Return the last `size` bytes of the file."""
    part = source.read(size)
    if part.size < size:
        raise ValueError(
            f"{source.name} is truncated: it ended after {source.position} bytes, its index asks for {end}"
        )
    return part


def _checked_size(size: Any, checksum: Any) -> tuple[int, int]:
    if type(size) is not int or type(checksum) is not int or size < 0:
        raise ValueError(f"data must have a size and a checksum, got {size!r} and {checksum!r}")
    return size, checksum


def _add(array: Bytes, data: list[Bytes]) -> int:
    data.append(array)
    return len(data) - 1


def _check_empty(shape: Sequence[int], name: str) -> None:
    """Check the sizes of an empty array. The array takes no bytes of a file, but an object that is restored from it may
    allocate memory for each size."""
    if 0 in shape and math.prod(size for size in shape if size) > MOST_EMPTY:
        raise ValueError(f"{name} without elements must have sizes of at most {MOST_EMPTY} together, got {shape}")


def _array_node(array: npt.NDArray[Any], name: str, data: list[Bytes]) -> list[Any]:
    dtype = array.dtype.name
    if is_bfloat16(array.dtype):
        array = array.view(np.uint16)
    elif dtype not in DTYPES:
        raise TypeError(f"{name} must be an array of bool, integers, real or complex numbers, got {array.dtype}")
    _check_empty(array.shape, name)
    little = np.asarray(array, DTYPES[array.dtype.name], order="C")
    return [_add(little.reshape(-1).view(np.uint8), data), dtype, list(array.shape)]


def _node(value: Any, name: str, data: list[Bytes]) -> Any:
    """Return a value as a JSON node, and append the bytes of its arrays to `data`. Errors name the value `name`."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{name} must be finite, or a NumPy scalar, got {value}")
        return value
    if kind in (list, tuple):
        nodes = [_node(item, f"{name}[{i}]", data) for i, item in enumerate(value)]
        return nodes if kind is list else {"tuple": nodes}
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise TypeError(f"{name} must have names that are str, got {key!r}")
        return {"dict": {key: _node(item, f"{name}[{key!r}]", data) for key, item in value.items()}}
    if kind in (np.ndarray, np.memmap):
        return {"array": _array_node(value, name, data)}
    if isinstance(value, np.generic):
        return {"scalar": _array_node(np.asarray(value), name, data)}
    if isinstance(value, np.dtype) and value.isnative and (value.name in DTYPES or is_bfloat16(value)):
        return {"dtype": value.name}
    if kind is pickle.PickleBuffer:
        return {"buffer": _add(np.frombuffer(value.raw(), np.uint8), data)}
    if kind in CLASSES:
        if CLASSES[kind].startswith("PackedB"):
            _check_empty(value.shape, name)
        restore, arguments = value.__reduce_ex__(5)
        keywords = restore.keywords if isinstance(restore, functools.partial) else {}
        where = f"{name} ({CLASSES[kind]})"
        named = {key: _node(item, f"{where} {key}", data) for key, item in keywords.items()}
        return {CLASSES[kind]: [[_node(item, where, data) for item in arguments], named]}
    raise TypeError(f"{name} must be a layer, an array, a plain value, or a list, tuple or dict of these, got "
                    f"{kind.__name__}")  # fmt: skip


def _array(node: Any, data: list[Bytes]) -> npt.NDArray[Any]:
    i, dtype, shape = node
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"an array must have a shape, got {shape!r}")
    _check_empty(shape, "an array")
    stored = "uint16" if dtype == "bfloat16" else dtype
    array: npt.NDArray[Any] = data[i].view(DTYPES[stored]).reshape(shape).astype(stored, copy=False)
    return array.view(bfloat16_dtype()) if dtype == "bfloat16" else array


def _value(node: Any, data: list[Bytes]) -> Any:
    """Return the value of a node: the inverse of :func:`_node`."""
    if isinstance(node, list):
        return [_value(item, data) for item in node]
    if not isinstance(node, dict):
        return node
    ((tag, content),) = node.items()
    match tag:
        case "dict":
            return {key: _value(item, data) for key, item in content.items()}
        case "tuple":
            return tuple([_value(item, data) for item in content])
        case "dtype":
            return bfloat16_dtype() if content == "bfloat16" else np.dtype(DTYPES[content].name)
        case "array":
            return _array(content, data)
        case "scalar":
            return _array(content, data)[()]
        case "buffer":
            return data[content]
    if tag not in RESTORE:
        raise ValueError(f"there is a {tag!r}, which this int8blas does not know")
    arguments, keywords = content
    if not isinstance(arguments, list) or not isinstance(keywords, dict):  # an array could have billions of rows
        raise ValueError(f"the arguments of {tag} must be a list and an object")
    if tag.startswith("PackedB"):
        _check_empty([size for size in arguments[:2] if type(size) is int], "a packed matrix")
    return RESTORE[tag](*_value(arguments, data), **_value({"dict": keywords}, data))
