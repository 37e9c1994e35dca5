"""Files of int8blas in file objects: the same bytes as in a file, any stream, and invalid streams."""

import gzip
import io
import json
import os
import struct
import threading
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from arrays import assert_same
from layers import assert_same_bits, random_problem

import int8blas
from int8blas.calibration import QuantizationParameters, load_parameters, save_parameters
from int8blas.core import file, streams

PACKED = int8blas.pack_b(np.arange(-60, 60, dtype=np.int8).reshape(12, 10))
VALUE = {"packed": PACKED, "array": np.arange(1000.0), "empty": np.zeros((0, 3)), "name": ("\u00e4", None, 1.5)}
WHAT_IS_WRONG = "not a file|version|truncated|corrupted"


def check_value(again):
    assert again["packed"] == PACKED
    assert_same(again["array"], VALUE["array"])
    assert again["empty"].shape == (0, 3)
    assert again["name"] == VALUE["name"]


class Raw(io.RawIOBase):
    """A stream that reads and writes a few bytes at a time and has no position."""

    def __init__(self, content=b"", most=7):
        self.content, self.at, self.most = bytearray(content), 0, most

    def readable(self):
        return True

    def writable(self):
        return True

    def write(self, data):
        self.content += bytes(data[: self.most])
        return min(len(data), self.most)

    def readinto(self, memory):
        part = self.content[self.at : self.at + min(len(memory), self.most)]
        memory[: len(part)] = part
        self.at += len(part)
        return len(part)


class Minimal:
    """An object with two methods: `read`, and a `write` that returns no count."""

    def __init__(self, content=b""):
        self.content, self.at = bytearray(content), 0

    def write(self, data):
        self.content += data

    def read(self, size):
        part = bytes(self.content[self.at : self.at + size])
        self.at += len(part)
        return part


def zip_member(content):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("network.i8", content)
    return zipfile.ZipFile(memory).open("network.i8")


class Pipe(io.BufferedReader):
    """The reading end of a pipe, which closes itself."""

    def __del__(self):
        self.close()


def pipe(content):
    reading, writing = os.pipe()

    def send():
        with open(writing, "wb") as file:
            file.write(content)

    threading.Thread(target=send).start()
    return Pipe(open(reading, "rb", buffering=0))


ORIGINS = {
    "BytesIO": io.BytesIO,
    "raw": Raw,
    "buffered": lambda content: io.BufferedReader(Raw(content)),
    "minimal": Minimal,
    "zip": zip_member,
    "gzip": lambda content: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(content))),
    "pipe": pipe,
}
every_origin = pytest.mark.parametrize("origin", ORIGINS.values(), ids=ORIGINS)


@pytest.fixture
def content(tmp_path):
    """The bytes of a file."""
    int8blas.save(tmp_path / "file", VALUE)
    return (tmp_path / "file").read_bytes()


# --- round trips -----------------------------------------------------------------------------------------------------


def test_a_file_object_gets_the_bytes_of_a_file(content, tmp_path):
    memory, raw, minimal = io.BytesIO(), Raw(), Minimal()
    for stream in (memory, raw, minimal):
        assert int8blas.save(stream, VALUE) is None
    assert memory.getvalue() == bytes(raw.content) == bytes(minimal.content) == content
    assert not memory.closed
    for buffering in (-1, 0):
        with open(tmp_path / "open", "wb", buffering=buffering) as file:
            int8blas.save(file, VALUE)
        assert (tmp_path / "open").read_bytes() == content
    with gzip.open(tmp_path / "compressed", "wb") as file:
        int8blas.save(file, VALUE)
    assert gzip.decompress((tmp_path / "compressed").read_bytes()) == content
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive, archive.open("network.i8", "w") as file:
        int8blas.save(file, VALUE)
    with zipfile.ZipFile(tmp_path / "zip") as archive:
        assert archive.read("network.i8") == content


@every_origin
@pytest.mark.parametrize("mmap", [None, False])
def test_values_come_from_any_stream(content, origin, mmap):
    with_mmap = {} if mmap is None else {"mmap": mmap}
    stream = origin(content)
    check_value(int8blas.load(stream, **with_mmap))
    if hasattr(stream, "close"):
        assert not stream.closed
        stream.close()


@every_origin
def test_large_arrays_come_in_pieces(origin, rng):
    array = rng.integers(0, 256, (5, 600_001), np.uint8)
    memory = io.BytesIO()
    int8blas.save(memory, array)
    origin = origin if origin is not Raw else lambda content: Raw(content, 100_003)
    again = int8blas.load(origin(memory.getvalue()))
    assert_same(again, array)
    assert again.ctypes.data % 64 == 0
    assert not again.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        again.flags.writeable = True


@every_origin
def test_streams_are_read_from_where_they_are_and_no_further(content, origin):
    stream = origin(b"before" + content + content + b"behind")
    assert stream.read(6) == b"before"
    for _ in range(2):
        check_value(int8blas.load(stream))
    assert stream.read(6) == b"behind"


def test_streams_are_written_from_where_they_are(content):
    stream = io.BytesIO(b"x" * 50_000)
    stream.seek(3)
    int8blas.save(stream, VALUE)
    stream.write(b"end")
    assert stream.getvalue()[: len(content) + 7] == b"xxx" + content + b"endx"


@pytest.mark.parametrize("mmap", [None, True, False])
def test_a_path_is_mapped_unless_it_is_to_be_read(content, tmp_path, mmap, monkeypatch):
    maps = []
    memmap = np.memmap
    monkeypatch.setattr(np, "memmap", lambda *arguments: maps.append(memmap(*arguments)) or maps[-1])
    again = int8blas.load(tmp_path / "file", mmap)
    check_value(again)
    assert len(maps) == (mmap is not False)
    assert not maps or np.shares_memory(again["packed"].data, maps[0])


def test_layers_from_streams_give_the_same_bits(isa, rng):
    problem = random_problem(rng, 9, 33, 20, np.uint8, np.int8, bias="f32", scales=("src", "weights"))
    stream = io.BytesIO()
    int8blas.save(stream, problem.layer(True))
    stream.seek(0)
    assert_same_bits(problem.run(int8blas.load(stream), True), problem.expected())


@every_origin
def test_packed_matrices_in_streams(origin):
    memory = io.BytesIO()
    PACKED.save(memory)
    assert int8blas.PackedB.load(origin(memory.getvalue())) == PACKED
    other = io.BytesIO()
    int8blas.save(other, [PACKED])
    other.seek(0)
    with pytest.raises(ValueError, match=r"^the BytesIO is not a packed matrix: it holds a list"):
        int8blas.PackedB.load(other)


@every_origin
def test_parameters_in_streams(origin, tmp_path):
    parameters = {f"tensor {i}": QuantizationParameters(0.1 * i, i, np.uint8) for i in range(1, 200)}
    save_parameters(tmp_path / "file", parameters)
    content = (tmp_path / "file").read_bytes()
    for stream in (Raw(), Minimal()):
        save_parameters(stream, parameters)
        assert bytes(stream.content) == content
    again = load_parameters(origin(content))
    assert again == parameters
    assert list(again) == list(parameters)
    with pytest.raises(ValueError, match="is damaged or not a file of int8blas quantization parameters"):
        load_parameters(origin(content[:-10]))


def test_a_path_that_has_methods_of_a_file_is_a_path(content, tmp_path):
    class Local(os.PathLike):
        def __fspath__(self):
            return str(tmp_path / "file")

        def read(self, *_):
            raise AssertionError

        write = read

    check_value(int8blas.load(Local(), True))
    int8blas.save(Local(), None)
    assert int8blas.load(tmp_path / "file") is None


# --- refused streams -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [int8blas.load, int8blas.PackedB.load])
def test_a_file_object_is_not_mapped(content, load):
    for stream in (io.BytesIO(content), Minimal(content)):
        with pytest.raises(ValueError, match=r"^mmap must not be True for a file object"):
            load(stream, mmap=True)
        assert stream.read(5) == content[:5]


@pytest.mark.parametrize(("path", "got"), [(3, "int"), (None, "NoneType"), ([], "list"), (b"x".join, "builtin.*")])
def test_what_is_neither_a_path_nor_a_file_object(path, got):
    for call, methods in (
        (lambda: int8blas.save(path, 1), "write"),
        (lambda: int8blas.load(path), "read or readinto"),
        (lambda: PACKED.save(path), "write"),
        (lambda: int8blas.PackedB.load(path), "read or readinto"),
        (lambda: save_parameters(path, {}), "write"),
        (lambda: load_parameters(path), "read or readinto"),
    ):
        with pytest.raises(TypeError, match=f"^path must be a path or a file object with {methods}, got {got}"):
            call()


def test_files_of_text_are_refused(content, tmp_path):
    class Text(Minimal):
        def read(self, size):
            return super().read(size).decode("latin-1")

    with open(tmp_path / "text", "w+", encoding="utf-8") as file:
        for stream in (file, io.StringIO()):
            for call in (
                lambda stream=stream: int8blas.save(stream, 1),
                lambda stream=stream: int8blas.load(stream),
                lambda stream=stream: save_parameters(stream, {}),
                lambda stream=stream: load_parameters(stream),
            ):
                with pytest.raises(TypeError, match=r"^path must be .* a file of bytes, got .*, a file of text: open"):
                    call()
    with pytest.raises(TypeError, match=r"^path must be .* a file of bytes, got Text, a file of text"):
        int8blas.load(Text(content))


def test_nothing_is_written_of_a_value_that_can_not_be_saved():
    stream = io.BytesIO()
    with pytest.raises(TypeError, match="must be a layer"):
        int8blas.save(stream, {"good": np.ones(3), "bad": object()})
    assert stream.getvalue() == b""


def test_streams_that_take_no_bytes(content):
    class Stream(Raw):
        def write(self, data):
            return self.most

        def readinto(self, memory):
            return self.most

    for count in (0, -1, 10**6):
        with pytest.raises(OSError, match=r"^the Stream must take some of .* bytes, took"):
            int8blas.save(Stream(most=count), VALUE)
    for count in (-1, 10**6):
        with pytest.raises(OSError, match=r"^the Stream must give at most .* bytes, gave"):
            int8blas.load(Stream(most=count))
    with pytest.raises(BlockingIOError, match="the Stream must block"):
        int8blas.save(Stream(most=None), VALUE)
    with pytest.raises(BlockingIOError, match="the Stream must block"):
        int8blas.load(Stream(most=None))

    class Generous(Minimal):
        def read(self, size):
            return bytes(size + 1)

    with pytest.raises(OSError, match="the Generous must give at most"):
        int8blas.load(Generous())


def test_errors_of_a_stream_are_passed_on(content):
    class Failing(Raw):
        def write(self, data):
            if len(self.content) > 100:
                raise OSError("no space")
            return super().write(data)

        def readinto(self, memory):
            if self.at > 100:
                raise OSError("connection reset")
            return super().readinto(memory)

    with pytest.raises(OSError, match="no space"):
        int8blas.save(Failing(), VALUE)
    with pytest.raises(OSError, match="connection reset"):
        int8blas.load(Failing(content))


# --- invalid files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [io.BytesIO, lambda content: Raw(content, 1000)], ids=["BytesIO", "raw"])
def test_a_stream_cut_off(content, kind):
    for length in [*range(0, len(content), 50), len(content) - 1]:
        with pytest.raises(ValueError, match=WHAT_IS_WRONG):
            int8blas.load(kind(content[:length]))


def test_a_stream_with_a_byte_changed(content):
    for position in range(0, len(content), 7):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        with pytest.raises(ValueError, match=WHAT_IS_WRONG):
            int8blas.load(io.BytesIO(changed))


def with_index(text, index_size=None):
    """A header with valid checksums and an index, without data."""
    padded = text + bytes(-len(text) % 64)
    header = file.HEADER.pack(file.MAGIC, file.VERSION, zlib.crc32(padded), index_size or len(text))
    return (header + struct.pack("<I", zlib.crc32(header))).ljust(64, b"\0") + padded


@pytest.mark.parametrize("size", [2**24, 2**40, 2**62, 2**63, 2**64 - 1, 2**64 + 1, 10**30])
def test_memory_is_taken_for_bytes_that_are_there(size, tmp_path):
    node = {"array": [0, "uint8", [size]]}
    claims = [with_index(json.dumps({"value": node, "data": [[size, 0]]}).encode() + b" " * 100)]
    if size < 2**64:
        claims.append(with_index(b" " * 100, size))
    for claim in claims:
        (tmp_path / "file").write_bytes(claim + bytes(1000))
        for origin in (io.BytesIO(claim + bytes(1000)), Raw(claim + bytes(1000)), tmp_path / "file"):
            tracemalloc.start()
            with pytest.raises(ValueError, match=r"is truncated: it (ended after|has) .* its index asks for"):
                int8blas.load(origin)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 4 * streams.FIRST_BYTES


def test_memory_for_a_stream_is_at_most_twice_what_it_has(rng):
    array = rng.integers(0, 256, 1 << 25, np.uint8)
    memory = io.BytesIO()
    int8blas.save(memory, array)
    memory.seek(0)
    tracemalloc.start()
    again = int8blas.load(memory)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * array.nbytes
    assert_same(again, array)
