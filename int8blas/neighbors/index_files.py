"""The files of a saved :class:`Index`: a folder of arrays, and `index.json`, which describes them.

==================  ===============================================================================================
rows-<name>.npy     a shard: `data` of a PackedB, int8 (panels, groups, 16, 4)
ids-<name>.npy      the ids of all rows, int64, shard after shard; -1 is a removed row
scales-<name>.npy   the scales of all rows, float32, if rows have scales
index.json          settings, the number of rows of each shard, and the CRC-32 of each file without its .npy header
==================  ===============================================================================================

Each call that saves the index gives its new files new names, and files of arrays never change. `index.json` is replaced
when all other files are on the disk. After the replacement, files that `index.json` does not name are deleted. At each
moment the folder therefore has a complete index, old or new.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.file import freeze
from int8blas.core.streams import written
from int8blas.gemm.packing import PackedB, pack_b, restore_packed
from int8blas.neighbors.shards import REMOVED, Shard

VERSION = 1
INDEX = "index.json"
FILES = re.compile(r"(rows|ids|scales)-[0-9a-f]{16}\.npy")
UNFINISHED = re.compile(r"index\.json\.[0-9a-f]{16}")  # an interrupted process leaves such a file
SETTINGS = ("dim", "metric", "dtype", "scale", "next_id")

Array = npt.NDArray[Any]


class StoredRows:
    """The packed rows of a shard in a file. The file is compared with its checksum before its first use."""

    def __init__(self, path: str, array: Array, checksum: int, k: int, n: int, dtype: str) -> None:
        self.path, self.array, self.checksum = path, array, checksum
        self.k, self.n, self.dtype = k, n, dtype
        self._packed: PackedB | None = None

    def packed(self) -> PackedB:
        if self._packed is None:
            if checksum_of(self.array) != self.checksum:
                raise ValueError(f"{self.path} is corrupted: it does not match its checksum")
            packed = restore_packed(self.k, self.n, self.dtype, self.array.reshape(-1))
            self._packed, self.array = packed, packed.data
        return self._packed


def checksum_of(array: Array) -> int:
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)


def _write_array(folder: str, kind: str, array: Array) -> dict[str, Any]:
    """Write an array to a new file. Return its name and checksum."""
    name = f"{kind}-{secrets.token_hex(8)}.npy"
    with open(os.path.join(folder, name), "xb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return {"file": name, "checksum": checksum_of(array)}


def save(folder: str, settings: dict[str, Any], shards: Sequence[Shard]) -> None:
    os.makedirs(folder, exist_ok=True)
    tree: dict[str, Any] = {"format": "int8blas.Index", "version": VERSION, **settings, "shards": []}
    for shard in shards:
        source = shard.source
        if isinstance(source, StoredRows) and _is_in(folder, source.path):
            entry: dict[str, Any] = {"file": os.path.basename(source.path), "checksum": source.checksum}
        else:
            packed = shard.rows if isinstance(shard.rows, PackedB) else pack_b(shard.rows, trans_b=True)
            entry = _write_array(folder, "rows", packed.data)
            if isinstance(source, PackedB):
                stored = StoredRows(os.path.join(folder, entry["file"]), packed.data, entry["checksum"],
                                    *packed.shape, packed.dtype.name)  # fmt: skip
                stored._packed, shard.source = packed, stored
        tree["shards"].append({"rows": len(shard), **entry})
    little = np.concatenate([shard.ids for shard in shards]) if shards else np.empty(0, np.int64)
    tree["ids"] = _write_array(folder, "ids", little.astype("<i8", copy=False))
    scales = [shard.scales for shard in shards if shard.scales is not None]
    tree["scales"] = _write_array(folder, "scales", np.concatenate(scales).astype("<f4")) if scales else None
    text = json.dumps(tree, indent=1)
    with written(os.path.join(folder, INDEX)) as write:
        write(json.dumps({"index": tree, "checksum": zlib.crc32(text.encode())}, indent=1).encode())
    named = {entry["file"] for entry in (*tree["shards"], tree["ids"], tree["scales"]) if entry}
    for name in os.listdir(folder):
        if (FILES.fullmatch(name) or UNFINISHED.fullmatch(name)) and name not in named:
            with contextlib.suppress(OSError):  # Windows keeps mapped files; the next call deletes them
                os.unlink(os.path.join(folder, name))


def _is_in(folder: str, path: str) -> bool:
    return os.path.realpath(os.path.dirname(path)) == os.path.realpath(folder) and os.path.exists(path)


def load(folder: str, mmap: bool, verify: bool) -> tuple[dict[str, Any], list[Shard]]:
    """Return the settings and the shards."""
    while True:
        tree = _read_index(folder)
        try:
            return {name: tree[name] for name in SETTINGS}, _shards(folder, tree, mmap, verify)
        except FileNotFoundError as error:
            # Another process may have saved the index since `index.json` was read.
            if _read_index(folder) == tree:
                raise ValueError(f"{folder} is corrupted: {error.filename} is missing") from None
        except (TypeError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(f"{folder} is corrupted, or of a later int8blas: {error}") from None


def _read_index(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, INDEX)
    with open(path, "rb") as file:
        text = file.read()
    try:
        outer = json.loads(text)
        tree, checksum = outer["index"], outer["checksum"]
        is_right = tree["format"] == "int8blas.Index" and type(tree["version"]) is int
    except (ValueError, TypeError, LookupError, RecursionError):
        is_right = False
    if not is_right:
        raise ValueError(f"{path} is not one of int8blas.Index, or is truncated")
    if tree["version"] != VERSION:
        raise ValueError(f"{path} has version {tree['version']} of the format, this int8blas reads version {VERSION}")
    if zlib.crc32(json.dumps(tree, indent=1).encode()) != checksum:
        raise ValueError(f"{path} is corrupted: it does not match its checksum")
    return tree  # type: ignore[no-any-return]


def _read_array(folder: str, entry: dict[str, Any], dtype: str, shape: tuple[int, ...], mmap: bool) -> Array:
    if not FILES.fullmatch(entry["file"]):
        raise ValueError(f"{folder} is corrupted: it names the file {entry['file']!r}")
    path = os.path.join(folder, entry["file"])
    with open(path, "rb") as file:
        try:
            np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0(file)
        except Exception as error:  # a damaged header may be any Python expression
            raise ValueError(f"{path} is corrupted or truncated: {error}") from None
        if header != (shape, False, np.dtype(dtype)):
            raise ValueError(f"{path} is corrupted: it must have {dtype} of shape {shape} in C order")
        start, size = file.tell(), math.prod(shape)
        if os.fstat(file.fileno()).st_size < start + size * np.dtype(dtype).itemsize:
            raise ValueError(f"{path} is truncated")
        if mmap and size:
            return np.memmap(file, dtype, "r", start, shape).view(np.ndarray)
        return np.fromfile(file, dtype, size).reshape(shape)


def _shards(folder: str, tree: dict[str, Any], mmap: bool, verify: bool) -> list[Shard]:
    counts = [entry["rows"] for entry in tree["shards"]]
    if not all(type(count) is int and count > 0 for count in (*counts, tree["dim"])):
        raise ValueError(f"{folder} is corrupted: it has shards of {counts} rows of {tree['dim']} elements")
    small: list[Array | None] = []
    for name, dtype in (("ids", "<i8"), ("scales", "<f4")):
        if name == "scales" and (tree["metric"] != "cosine" or tree["dtype"] != "int8" or not counts):
            small.append(None)
            continue
        array = _read_array(folder, tree[name], dtype, (sum(counts),), mmap)
        if checksum_of(array) != tree[name]["checksum"]:
            raise ValueError(f"{os.path.join(folder, tree[name]['file'])} is corrupted: "
                             "it does not match its checksum")  # fmt: skip
        small.append(array.astype(array.dtype.newbyteorder("="), copy=False))
    ids, scales = small
    if ids is None or ids.min(initial=0) < REMOVED or ids.max(initial=0) == np.iinfo(np.int64).max:
        raise ValueError(f"{folder} is corrupted: ids are not from 0 to 2**63 - 2")
    shards, start = [], 0
    for entry, count in zip(tree["shards"], counts, strict=True):
        shape = (-(-count // 16), -(-tree["dim"] // 4), 16, 4)
        array = _read_array(folder, entry, "int8", shape, mmap)
        if not mmap:
            freeze(array)
        stored = StoredRows(os.path.join(folder, entry["file"]), array, entry["checksum"], tree["dim"], count,
                            tree["dtype"])  # fmt: skip
        some = slice(start, start + count)
        shards.append(Shard(stored, ids[some], None if scales is None else scales[some]))
        if verify:
            stored.packed()
        start += count
    return shards
