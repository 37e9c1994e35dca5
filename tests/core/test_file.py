"""save and load: every kind of value, layers of the same bits, mapped without a copy, and invalid files."""

import functools
import io
import json
import math
import os
import pickle
import struct
import zlib
from itertools import product

import numpy as np
import pytest
import recurrent
from arrays import assert_same, random_values
from convolutions import random_convolution
from layers import assert_same_bits, random_problem
from processes import run_python

import int8blas
from int8blas import Attributes, Binary, Eltwise, PReLU, ReLU, Sum
from int8blas.calibration import QuantizationParameters
from int8blas.core import file

WHAT_IS_WRONG = "not a file|version|truncated|corrupted"
TENSORS = ("src", "weights", "dst")

both_ways = pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])


@pytest.fixture
def path(tmp_path):
    """The path of a file that does not exist yet."""
    return tmp_path / "network.i8"


def round_trip(value, path, mmap=True):
    """Save a value and load it again."""
    int8blas.save(path, value)
    return int8blas.load(path, mmap)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 200, 256, 1000, 4096 + 64])
def test_checksums_are_those_of_zlib(size, rng):
    data = rng.integers(0, 256, size, np.uint8)
    for value in (0, 1, 0xFFFFFFFF, 0x12345678):
        assert file._crc32(data, value) == zlib.crc32(data, value)


# --- values ----------------------------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("value", [
    None, True, False, 0, -1, 2**100, 0.1, -0.0, 5e-324, "", "name", "\u00e4\u4e2d\U0001f600\x00\ud800", [], (), {},
    [1, [2.5, None]], (1, (2,), [()]), {"a": {"b": [{"c": ()}]}, "": 1}, {"dict": 1, "array": [0, "int8", [1]]},
    [{"tuple": 1}], np.dtype(np.float32), np.dtype(bool), QuantizationParameters(0.1, 3, np.uint8),
    QuantizationParameters([0.1, 0.2], [0, 0], axis=1), Sum(0.5, 3, "u1"), ReLU(0.1), Eltwise("clip", -1, 6),
], ids=repr)  # fmt: skip
def test_plain_values(value, mmap, path):
    again = round_trip(value, path, mmap)
    assert type(again) is type(value)
    assert again == value
    assert repr(again) == repr(value)


@both_ways
@pytest.mark.parametrize("dtype", file.DTYPES)
def test_arrays_and_scalars_of_every_dtype(dtype, mmap, path, rng):
    for shape in ((), (0,), (1,), (3, 0, 2), (2, 3, 5), (64,), (65,)):
        size = math.prod(shape) * np.dtype(dtype).itemsize
        array = rng.integers(0, 2 if dtype == "bool" else 256, size, np.uint8).view(dtype).reshape(shape)
        again = round_trip(array, path, mmap)
        assert type(again) is np.ndarray
        assert (again.dtype, again.shape, again.tobytes()) == (array.dtype, shape, array.tobytes())
        assert again.flags.c_contiguous
        assert again.ctypes.data % 64 == 0 or again.size == 0
        with pytest.raises(ValueError, match="read-only"):
            again[...] = 0
    scalar = round_trip(array[0], path, mmap)
    assert type(scalar) is type(array[0])
    assert scalar.tobytes() == array[0].tobytes()


@both_ways
def test_arrays_in_any_order(mmap, path, rng):
    array = rng.normal(size=(4, 5, 6))
    others = array.T, array[::-1, ::2], array.astype(">f8"), np.broadcast_to(array[0], (3, 5, 6))
    for other, again in zip(others, round_trip(list(others), path, mmap), strict=True):
        assert_same(again, other.astype(np.float64))


def test_what_can_not_be_saved(path):
    class Mine(list):
        pass

    class InnerProduct(int8blas.InnerProduct):  # another class of the same name
        pass

    for value, error, match in (
        (object(), TypeError, "value must be a layer, an array, a plain value.*got object"),
        ({"layers": [1, {2}]}, TypeError, r"value\['layers'\]\[1\] must be.*got set"),
        ({"a": Mine()}, TypeError, r"value\['a'\].*got Mine"),
        ({"a": b""}, TypeError, "got bytes"),
        ({1: 2}, TypeError, "value must have names that are str, got 1"),
        ([np.array([None])], TypeError, r"value\[0\] must be an array of bool.*got object"),
        ([np.array(["a"])], TypeError, "must be an array of bool"),
        (np.zeros(2, [("a", "i4")]), TypeError, "must be an array of bool"),
        (np.ma.array([1]), TypeError, "got MaskedArray"),
        ({"a": (math.nan,)}, ValueError, r"value\['a'\]\[0\] must be finite.*got nan"),
        (-math.inf, ValueError, "must be finite.*got -inf"),
        (int, TypeError, "got type"),
        (np.dtype(">i4"), TypeError, "value must be.*got .*"),
        (InnerProduct(np.eye(2, dtype=np.int8), src_dtype="u1", dst_dtype="f4"), TypeError, "got InnerProduct"),
    ):
        with pytest.raises(error, match=match):
            int8blas.save(path, value)
        assert not list(path.parent.iterdir())


# --- layers ----------------------------------------------------------------------------------------------------------


def conv(rng, size, kernel, ic, oc, **more):
    """Another convolution for the network that has every kind of layer."""
    return random_convolution(rng, size, kernel, ic, oc, scales=TENSORS, vectors=("weights", "dst"), **more)


PROBLEMS = {
    "inner product": lambda rng: random_problem(rng, 9, 33, 20, np.uint8, np.int8, bias="f32", scales=TENSORS,
                                                zero_points=TENSORS, vectors=("weights", "dst")),
    "inner product of u8 weights": lambda rng: random_problem(rng, 9, 33, 20, np.int8, np.uint8, bias="s32",
                                                              numerics="saturating"),
    "convolution": lambda rng: conv(rng, (6, 7), (3, 2), 5, 18, strides=(2, 1), padding=1, dilation=(1, 2)),
    "convolution of nchw": lambda rng: conv(rng, (6, 7), (3, 3), 5, 18, layout="nchw", src_dtype=np.int8),
    "convolution with groups": lambda rng: conv(rng, (6, 7), (3, 3), 12, 36, groups=2, grouped=True, bias="s32"),
    "convolution with small groups": lambda rng: conv(rng, (6, 7), (3, 3), 12, 18, groups=6),
    "convolution in groups of four": lambda rng: conv(rng, (6, 7), (3, 3), 20, 20, groups=5, padding=1,
                                                      src_dtype=np.int8),
    "deconvolution in groups of eight": lambda rng: conv(rng, (4, 5), (3, 3), 32, 32, groups=4, strides=2,
                                                         transposed=True),
    "depthwise": lambda rng: conv(rng, (6, 7), (3, 3), 37, 37, groups=37, padding=1),
    "depthwise, several": lambda rng: conv(rng, (6, 7), (2, 3), 5, 15, groups=5, bias="s32"),
    "1 dimension": lambda rng: conv(rng, (9,), (3,), 4, 6),
    "3 dimensions": lambda rng: conv(rng, (3, 4, 5), (2, 2, 3), 3, 6),
    "saturating": lambda rng: conv(rng, (6, 7), (3, 3), 6, 18, groups=3, src_dtype=np.int8, numerics="saturating"),
    "deconvolution": lambda rng: conv(rng, (4, 5), (3, 2), 6, 12, strides=(2, 3), padding=1, output_padding=1,
                                      transposed=True),
    "deconvolution with groups": lambda rng: conv(rng, (4, 5), (2, 2), 6, 12, strides=2, groups=3, transposed=True),
    "depthwise deconvolution": lambda rng: conv(rng, (4, 5), (3, 3), 6, 6, strides=2, groups=6, src_dtype=np.int8,
                                                transposed=True),
    "post-ops": lambda rng: conv(rng, (4, 5), (3, 3), 6, 12, ops=[Sum(0.5), ReLU(0.1), Binary(np.ones(12), "mul"),
                                                                  PReLU(0.25), Eltwise("clip", -50, 50)]),
}  # fmt: skip


@both_ways
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("at_creation", [True, False])
def test_layers_give_the_same_bits(isa, name, at_creation, mmap, path, rng):
    problem = PROBLEMS[name](rng)
    layer = problem.layer(at_creation)
    again = round_trip(layer, path, mmap)
    assert type(again) is type(layer)
    assert repr(again) == repr(layer)
    assert again.weights_shape == problem.weights.shape
    assert_same_bits(problem.run(again, at_creation), problem.expected())
    int8blas.save(path.with_suffix(".2"), again)
    assert path.with_suffix(".2").read_bytes() == path.read_bytes()


@both_ways
def test_dynamic_layers_output_scales_and_weights_of_more_dimensions(isa, mmap, path, rng):
    weights = rng.normal(0, 1, (33, 20)).astype(np.float32)
    src = rng.integers(0, 256, (9, 20), np.uint8)
    dynamic = {"src_dtype": np.float32, "dst_dtype": np.float16, "dynamic": "per_row", "dynamic_dtype": np.uint8}
    older = Attributes(output_scales=(2, rng.normal(0, 1, 33)))
    plain = {"src_dtype": np.uint8, "dst_dtype": np.float32}
    for layer, x in (
        (int8blas.InnerProduct(weights, scales={"weights": "per_channel"}, **dynamic), src.astype(np.float32)),
        (int8blas.InnerProduct((weights * 40).astype(np.int8), attributes=older, **plain), src),
        (int8blas.InnerProduct((weights * 40).astype(np.int8).reshape(33, 5, 2, 2), **plain), src.reshape(9, 5, 2, 2)),
    ):
        again = round_trip(layer, path, mmap)
        assert again.weights_shape == layer.weights_shape
        assert_same_bits(again(x), layer(x))


@both_ways
@pytest.mark.parametrize("kind", recurrent.KINDS)
def test_recurrent_layers_give_the_same_bits(isa, kind, mmap, path, rng):
    for direction in recurrent.DIRECTIONS:
        problem = recurrent.random_problem(rng, kind, 21, layers=2, direction=direction, data_scale=100.5, data_shift=3)
        problem.check(round_trip(problem.layer(), path, mmap))


def test_a_network_in_one_file(isa, path, rng):
    problems = {name: make(rng) for name, make in PROBLEMS.items()}
    network = {
        "layers": {name: problem.layer() for name, problem in problems.items()},
        "graph": {"a": ("x",), "b": ("a", "x")},
        "table": rng.normal(size=(3, 4)),
        "parameters": [QuantizationParameters(0.5, 3, np.uint8)],
    }
    again = round_trip(network, path)
    for name, problem in problems.items():
        assert_same_bits(problem.run(again["layers"][name]), problem.expected())
    assert again["graph"] == network["graph"]
    assert_same(again["table"], network["table"])
    assert again["parameters"] == network["parameters"]


def test_other_classes_take_part(path, monkeypatch):
    class Layer:
        def __init__(self, weights, *, scale):
            self.weights, self.scale = weights, scale

        def __reduce__(self):
            return functools.partial(Layer, scale=self.scale), (self.weights,)

    with pytest.raises(TypeError, match=r"value must be.*got Layer"):
        int8blas.save(path, Layer(1, scale=2))
    monkeypatch.setattr(file, "CLASSES", dict(file.CLASSES))
    monkeypatch.setattr(file, "RESTORE", dict(file.RESTORE))
    file.register(Layer)
    again = round_trip([Layer(int8blas.pack_b(np.eye(3, dtype=np.int8)), scale=2)], path)[0]
    assert (again.weights.unpack() == np.eye(3)).all()
    assert again.scale == 2
    monkeypatch.undo()
    with pytest.raises(ValueError, match="there is a 'Layer', which this int8blas does not know"):
        int8blas.load(path)


# --- mapping ---------------------------------------------------------------------------------------------------------


def test_packed_weights_and_arrays_are_in_the_map(path, rng, monkeypatch):
    maps = []

    def memmap(*arguments):
        maps.append(np_memmap(*arguments))
        return maps[-1]

    np_memmap = np.memmap
    monkeypatch.setattr(np, "memmap", memmap)
    network = {name: make(rng).layer() for name, make in PROBLEMS.items()}
    network |= {"packed": int8blas.pack_b(np.ones((70, 50), np.int8)), "array": rng.normal(size=100)}
    loaded = round_trip(network, path)
    assert len(maps) == 1
    assert np.shares_memory(loaded["packed"].data, maps[0])
    assert np.shares_memory(loaded["array"], maps[0])
    matrices = []

    class Finder(pickle.Pickler):
        def persistent_id(self, value):
            if isinstance(value, int8blas.PackedB):
                matrices.append(value)

    Finder(io.BytesIO(), 5).dump(loaded)
    assert len(matrices) > len(PROBLEMS)
    assert all(np.shares_memory(packed.data, maps[0]) for packed in matrices)


def test_a_loaded_layer_takes_no_memory_for_its_weights(path):
    process = run_python("-c", LARGE_LAYER, str(path))
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) < 1 << 20


LARGE_LAYER = """
import sys, tracemalloc
import numpy as np
import int8blas

weights = np.ones((512, 512, 3, 3), np.int8)
int8blas.save(sys.argv[1], int8blas.Convolution(weights, src_dtype=np.uint8, dst_dtype=np.uint8))
tracemalloc.start()
layer = int8blas.load(sys.argv[1])
print(tracemalloc.get_traced_memory()[1])
"""


def test_saving_over_a_mapped_file(path, rng):
    problem = PROBLEMS["convolution"](rng)
    mapped = round_trip(problem.layer(), path)
    int8blas.save(path, None)
    assert_same_bits(problem.run(mapped), problem.expected())
    assert int8blas.load(path) is None
    assert list(path.parent.iterdir()) == [path]


def test_an_error_while_writing_leaves_the_old_file(path, monkeypatch):
    int8blas.save(path, "old")

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        int8blas.save(path, "new")
    monkeypatch.undo()
    assert int8blas.load(path) == "old"
    assert list(path.parent.iterdir()) == [path]


def test_packed_matrices_and_networks_have_one_format(path, rng):
    packed = int8blas.pack_b(random_values(rng, np.uint8, (20, 30)))
    packed.save(path)
    assert int8blas.load(path) == packed
    int8blas.save(path, packed)
    assert int8blas.PackedB.load(path) == packed
    int8blas.save(path, [packed])
    with pytest.raises(ValueError, match="not a packed matrix: it holds a list"):
        int8blas.PackedB.load(path)


# --- invalid files ---------------------------------------------------------------------------------------------------


@pytest.fixture
def content(path, rng):
    """The bytes of a valid file, with a layer, an array and plain values."""
    layer = int8blas.Convolution(random_values(rng, np.int8, (3, 4, 2, 2)), src_dtype=np.uint8, dst_dtype=np.uint8,
                                 scales={"src": 0.5, "weights": 0.25, "dst": 2})  # fmt: skip
    cells = recurrent.random_problem(rng, "gru_linear", 3, 4).layer()
    int8blas.save(path, {"layer": layer, "cells": cells, "array": np.arange(5), "graph": {"layer": ("x",)}})
    return path.read_bytes()


@both_ways
def test_a_file_cut_off_or_longer(content, path, mmap):
    for length in [*range(0, len(content), 5), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=WHAT_IS_WRONG):
            int8blas.load(path, mmap)
    for more in (b"\0", bytes(64), content):
        path.write_bytes(content + more)
        with pytest.raises(ValueError, match=WHAT_IS_WRONG):
            int8blas.load(path, mmap)


@both_ways
def test_a_file_with_any_byte_changed(content, path, mmap):
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=WHAT_IS_WRONG):
            int8blas.load(path, mmap)


def test_a_foreign_file_and_one_of_a_later_version(content, path):
    for foreign in (b"", bytes(4096), b"\x93NUMPY" + bytes(200), pickle.dumps([1]), b"\xff" * 10_000, b"int8blaz" * 99):
        path.write_bytes(foreign)
        with pytest.raises(ValueError, match="is not a file of int8blas: it begins with"):
            int8blas.load(path)
    path.write_bytes(content[:8] + struct.pack("<I", file.VERSION + 1) + content[12:])
    with pytest.raises(ValueError, match=f"has version {file.VERSION + 1} of the format, this int8blas reads version"):
        int8blas.load(path)


def test_a_file_that_does_not_exist(path):
    with pytest.raises(FileNotFoundError):
        int8blas.load(path)
    with pytest.raises(OSError, match="directory"):
        int8blas.load(path.parent)
    with pytest.raises(OSError, match="absent"):
        int8blas.save(path / "absent" / "file", 1)


def forged(content, change):
    """The file with another index and a matching checksum: change(tree) gives the new tree."""
    size = struct.unpack_from("<Q", content, 16)[0]
    start = 64 + size + -size % 64
    text = json.dumps(change(json.loads(content[64 : 64 + size]))).encode()
    text_and_zeros = text + bytes(-len(text) % 64)
    header = content[:12] + struct.pack("<IQ", zlib.crc32(text_and_zeros), len(text))
    header += struct.pack("<I", zlib.crc32(header))
    return header.ljust(64, b"\0") + text_and_zeros + content[start:]


def places(node, place=()):
    """The position of every value in a tree."""
    yield place
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in items:
        yield from places(child, (*place, key))


def with_value(tree, place, value):
    """The tree with another value at the position `place`."""
    if not place:
        return value
    child = with_value(tree[place[0]], place[1:], value)
    return tree | {place[0]: child} if isinstance(tree, dict) else [*tree[: place[0]], child, *tree[place[0] + 1 :]]


STRANGE = (
    None, True, 0, -1, 1, 3, 64, 2**31, 2**40, 2**62, 2**63 - 1, 2**64, -(2**63), 1e300, math.inf, "", "float32",
    "PackedB", [], [0], [[], {}], {}, {"dict": {}}, {"tuple": []}, {"tuple": [2**40, 2**40, 3, 3]}, {"buffer": 0},
    {"dtype": "int8"}, {"array": [0, "int8", [-1]]}, {"array": [0, "object", [1]]}, {"array": [99, "int8", [0]]},
    {"none": []}, {"a": 1, "b": 2}, {"scalar": [0, "float32", [2]]},
    {"PackedB": [[0, 2**60, "int8", {"buffer": 0}], {}]}, {"PackedB": [[-4, 16, "int8", {"buffer": 0}], {}]},
    {"Sum": [[], {"self": 1}]},
)  # fmt: skip


def test_a_file_that_was_made_to_deceive_gives_an_error_or_a_value(content, path):
    tree = json.loads(content[64 : 64 + struct.unpack_from("<Q", content, 16)[0]])
    src, sequence = np.ones((1, 3, 3, 4), np.uint8), np.ones((2, 1, 4), np.uint8)
    errors = 0
    for place, value in product(places(tree), STRANGE):
        path.write_bytes(forged(content, lambda old, place=place, value=value: with_value(old, place, value)))
        try:
            network = int8blas.load(path)
        except ValueError:
            errors += 1
            continue
        layer = network.get("layer") if isinstance(network, dict) else None
        if isinstance(layer, int8blas.Convolution) and max(layer.padding[0] + layer.padding[1] + layer.strides) < 100:
            try:
                layer(src)
            except (TypeError, ValueError):
                errors += 1
        cells = network.get("cells") if isinstance(network, dict) else None
        if isinstance(cells, int8blas.LSTM | int8blas.GRU):
            try:
                cells(sequence.astype(cells.src_dtype))
            except (TypeError, ValueError):
                errors += 1
    assert errors > 1000


@pytest.mark.parametrize("sizes", [(2**40, -(2**40)), (-64, 64), (64.0, 0), (True, 63)])
@both_ways
def test_sizes_of_data_that_only_add_up(sizes, mmap, path):
    int8blas.save(path, [np.zeros(64, np.uint8), np.zeros(0, np.uint8)])

    def change(tree):
        tree["data"] = [[size, checksum] for size, (_, checksum) in zip(sizes, tree["data"], strict=True)]
        return tree

    path.write_bytes(forged(path.read_bytes(), change))
    with pytest.raises(ValueError, match="corrupted"):
        int8blas.load(path, mmap=mmap)


@both_ways
def test_only_the_index_is_verified(mmap, path, rng):
    b = random_values(rng, np.int8, (40, 70))
    int8blas.save(path, int8blas.pack_b(b))
    a = random_values(rng, np.uint8, (3, 40))
    np.testing.assert_array_equal(
        int8blas.matmul(a, int8blas.load(path, mmap=mmap, verify="index")), int8blas.matmul(a, b)
    )
    damaged = bytearray(path.read_bytes())
    damaged[-200] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="corrupted: data"):
        int8blas.load(path, mmap=mmap, verify="full")
    assert int8blas.load(path, mmap=mmap, verify="index").shape == (40, 70)
    for place in (20, 70):  # in the header and in the index
        damaged = bytearray(path.read_bytes())
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="corrupted"):
            int8blas.load(path, mmap=mmap, verify="index")
    with pytest.raises(ValueError, match="verify must be 'full' or 'index', got 'lazy'"):
        int8blas.load(path, verify="lazy")


@pytest.mark.parametrize(("name", "value"), [("strides", [10**6, 10**6]), ("weights_shape", [6, 4, 2**40, 2])])
def test_a_file_that_asks_for_endless_work(name, value, path, rng):
    layer = int8blas.Deconvolution(random_values(rng, np.int8, (6, 4, 3, 2)), strides=2, src_dtype=np.uint8,
                                   dst_dtype=np.uint8)  # fmt: skip
    int8blas.save(path, layer)

    def change(tree):
        (weights, _), parameters = tree["value"]["Deconvolution"]
        place, key = (parameters, "strides") if name == "strides" else (weights["PackedWeights"][0], 0)
        place[key] = {"tuple": value}
        return tree

    path.write_bytes(forged(path.read_bytes(), change))
    with pytest.raises(ValueError, match=r"weights .* packed"):
        int8blas.load(path)


def test_arguments_that_are_rows_of_an_array(content, path):
    """An array of billions of empty rows takes no bytes in the file."""
    rows = {"InnerProduct": [{"array": [0, "int8", [2**62, 0]]}, {}]}
    path.write_bytes(forged(content, lambda tree: tree | {"value": rows}))
    with pytest.raises(ValueError, match="arguments of InnerProduct must be a list"):
        int8blas.load(path)


@pytest.mark.parametrize("size", [2**25, 2**40])
def test_many_columns_without_elements(size, path):
    for value in (
        {"array": [0, "int8", [size, 0]]}, {"array": [0, "int8", [3, 0, size]]},
        {"PackedB": [[0, size, "int8", {"buffer": 0}], {}]}, {"PackedB": [[size, 0, "int8", {"buffer": 0}], {}]},
    ):  # fmt: skip
        int8blas.save(path, np.empty(0, np.int8))
        path.write_bytes(forged(path.read_bytes(), lambda old, value=value: old | {"value": value}))
        with pytest.raises(ValueError, match="without elements must have sizes"):
            int8blas.load(path)
    with pytest.raises(ValueError, match=r"value\[0\] without elements must have sizes"):
        int8blas.save(path, [np.empty((size, 0), np.int8)])
    with pytest.raises(ValueError, match="value without elements must have sizes"):
        int8blas.save(path, int8blas.pack_b(np.empty((0, 2**25), np.int8)))


def test_an_index_that_is_nested_too_deeply(content, path):
    deep = "[" * 100_000 + "]" * 100_000
    text = ('{"value":' + deep + ',"data":[]}').encode()
    text += bytes(-len(text) % 64)
    header = content[:12] + struct.pack("<IQ", zlib.crc32(text), len(text))
    path.write_bytes((header + struct.pack("<I", zlib.crc32(header))).ljust(64, b"\0") + text)
    with pytest.raises(ValueError, match="corrupted"):
        int8blas.load(path)


def test_random_bytes_behind_a_good_header(content, path, rng):
    for _ in range(200):
        changed = np.frombuffer(content, np.uint8).copy()
        start = rng.integers(0, len(changed))
        part = changed[start : start + rng.integers(1, 200)]
        part[:] = rng.integers(0, 256, part.size, np.uint8)
        path.write_bytes(changed)
        if changed.tobytes() != content:
            with pytest.raises(ValueError, match=WHAT_IS_WRONG):
                int8blas.load(path)
