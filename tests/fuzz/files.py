"""Hostile files: files for `load` and `PackedB.load`, and pickles, with some parts changed.

Checksums are corrected afterwards, so that later checks are reached. A file must either load, and its value is then
used, or raise an error of the documented types, with no more than `LIMIT` bytes of memory.
"""

import copy
import io
import json
import resource
import struct
import zlib
from contextlib import contextmanager, suppress
from functools import cache

import numpy as np

import int8blas
from int8blas import Attributes, Binary, ReLU
from int8blas.core import file

LIMIT = 4 << 30
REFUSED = (ValueError, TypeError, OSError)
NUMBERS = (
    0,
    1,
    -1,
    2,
    16,
    17,
    255,
    256,
    2**31 - 1,
    2**31,
    2**32,
    2**62,
    2**63,
    2**64,
    -(2**63),
    0.5,
    -1.5,
    1e308,
    1e-320,
)
VALUES = (*NUMBERS, None, True, False, "", "u8", "int8", "float64", "x" * 99, [], {}, {"dict": {}}, {"tuple": []})


@cache
def originals():
    """Files with every kind of value, as (tree, data)."""
    eye = np.eye(5, 7, dtype=np.int8)
    weights = np.ones((2, 3, 2, 2), np.int8)
    scales = {"src": 0.5, "weights": 0.25}
    recurrent = np.ones((2, 3, 4, 5), np.int8), np.ones((2, 5, 4, 5), np.int8)
    values = [
        {"packed": int8blas.pack_b(eye), "array": np.arange(6.0).reshape(2, 3), "both": (np.float32(2), "a", None)},
        int8blas.InnerProduct(eye, src_dtype=np.uint8, dst_dtype=np.int8, scales=scales,
                              attributes=Attributes(post_ops=[ReLU(), Binary(np.ones(5, np.float32))])),
        int8blas.InnerProduct.dynamic(eye.astype(np.float32), np.ones(5, np.float32)),
        int8blas.Convolution(weights, src_dtype=np.uint8, dst_dtype=np.float32, scales=scales, padding=1),
        int8blas.Deconvolution(weights, src_dtype=np.int8, dst_dtype=np.float32, scales=scales, strides=2),
        int8blas.LSTM(*recurrent, weights_scale=100.0, direction="bidirectional_concat"),
    ]  # fmt: skip
    return [parsed(value) for value in values]


def parsed(value):
    """The tree and the data of a file from `save`."""
    stream = io.BytesIO()
    int8blas.save(stream, value)
    content = stream.getvalue()
    size = file.HEADER.unpack_from(content)[3]
    tree = json.loads(content[64 : 64 + size])
    data, start = [], 64 + size + -size % 64
    for length, _ in tree["data"]:
        data.append(content[start : start + length])
        start += length + -length % 64
    return json.dumps(tree["value"]), data


def places(node):
    """All (container, key) of a tree."""
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key
        yield from places(node[key])


def changed(draws, tree, data):
    """One part of a tree, or of the data, changed in place."""
    if data and draws.below(4) == 3:
        i = draws.below(len(data))
        cut = draws.below(len(data[i]) + 1)
        data[i] = draws.among(
            (data[i][:cut], data[i] + data[i][:cut], data[i][:cut] + b"\xff\x80" + data[i][cut + 2 :], b"")
        )
        return
    found = list(places(tree))
    container, key = draws.among(found)
    kind = draws.below(6)
    if kind == 5 and isinstance(container, list):
        del container[key]
    elif kind == 4 and isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
    elif kind == 3:
        other, place = draws.among(found)
        container[key] = copy.deepcopy(other[place])
    elif kind == 2 and type(container[key]) is int:
        container[key] += draws.among((1, -1, 16, -16))
    else:
        container[key] = copy.deepcopy(draws.among(VALUES))


def problem(draws):
    value, data = draws.among(originals())
    tree, data = {"value": json.loads(value)}, list(data)
    for _ in range(draws.integer(1, 3)):
        changed(draws, tree, data)
    return {"content": written(tree["value"], data)}


def written(value, data):
    """The file, with its checksums."""
    parts = [part.ljust(len(part) + -len(part) % 64, b"\0") for part in data]
    tree = {"value": value, "data": [[len(one), zlib.crc32(part)] for one, part in zip(data, parts, strict=True)]}
    index = json.dumps(tree).encode()
    padded = index.ljust(len(index) + -len(index) % 64, b"\0")
    header = file.HEADER.pack(file.MAGIC, file.VERSION, zlib.crc32(padded), len(index))
    header += struct.pack("<I", zlib.crc32(header))
    return b"".join((header.ljust(64, b"\0"), padded, *parts))


def used(value):
    """Use a loaded value in every possible way. A valid layer may have results too large for memory, for instance with
    a padding of billions.
    """
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            used(item)
    elif isinstance(value, int8blas.PackedB) and value.shape[0] * value.shape[1] < 1 << 20:
        int8blas.matmul(np.ones((9, value.shape[0]), np.uint8), value)
        value.unpack()
    elif callable(value):
        for shape in ((3, 7), (1, 4, 4, 3), (1, 6, 6, 2), (2, 2, 3)):
            for dtype in (np.uint8, np.int8, np.float32):
                with suppress(MemoryError, *REFUSED):
                    value(np.ones(shape, dtype))


@contextmanager
def limited_memory():
    """A context in which the process has no more than `LIMIT`."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def run(problem):
    with limited_memory():
        for load in (int8blas.load, int8blas.PackedB.load):
            with suppress(*REFUSED):
                used(load(io.BytesIO(problem["content"])))
    return ()


def oracle(problem):
    return ()
