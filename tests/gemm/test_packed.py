"""PackedB: layout, sums, no-saturation proofs, unpacking, immutability, pickles and files."""

import contextlib
import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
import reference
from arrays import BROADCASTS, LAYOUTS, WITHOUT_VNNI, assert_same, place, random_values
from processes import run_python
from shapes import BLOCKED, FEW, K_EDGES, N_EDGES

import int8blas
from int8blas.core import streams

DTYPES = (np.int8, np.uint8)
WHAT_IS_WRONG = "not a|version|truncated|bytes|checksum"
SHAPES = tuple(product((0, 1, 2, 3, 4, 5, 66), (0, 1, 15, 16, 17, 48, 50)))


@pytest.fixture(params=DTYPES, ids=["int8", "uint8"])
def dtype(request):
    """The two types of B."""
    return request.param


@pytest.fixture
def b(dtype, rng):
    """A B with a certified panel, one that is not certified, and padding at both edges."""
    b = random_values(rng, dtype, (9, 37), "small")
    b[3, 20] = np.iinfo(dtype).max
    b[2, 20] = np.iinfo(dtype).max
    return b


@pytest.fixture
def packed(b):
    """That B, packed."""
    return int8blas.pack_b(b)


def assert_is_packing_of(packed, b):
    """Check every attribute of `packed` against the oracle for b."""
    assert isinstance(packed, int8blas.PackedB)
    assert packed.shape == b.shape
    assert packed.dtype == b.dtype
    assert_same(packed.data, reference.packed_data(b), shape=b.shape)
    assert_same(packed.column_sums, reference.column_sums(b), shape=b.shape)
    assert_same(packed.certified, reference.certified(b), shape=b.shape)
    assert_same(packed.unpack(), b, shape=b.shape)
    assert packed.unpack().flags.c_contiguous


# --- packing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "extreme", "small"])
def test_every_attribute(isa, dtype, kind, rng):
    for shape in SHAPES:
        b = random_values(rng, dtype, shape, kind)
        assert_is_packing_of(int8blas.pack_b(b), b)
        assert_is_packing_of(int8blas.pack_b(b.T, trans_b=True), b)
        assert_is_packing_of(int8blas.pack_b(np.ascontiguousarray(b.T), trans_b=True), b)


@pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCASTS])
def test_every_layout(isa, dtype, layout, rng):
    for _, n, k in FEW:
        b = place(random_values(rng, dtype, (k, n)), layout)
        assert_is_packing_of(int8blas.pack_b(b), b.copy())
        assert_is_packing_of(int8blas.pack_b(b.T, trans_b=True), b.copy())


@pytest.mark.parametrize(("k", "n"), [(4, 32), (63, 64), (66, 200), (130, 1041)])
def test_unpacking_of_whole_vectors(isa, dtype, k, n, rng):
    """Several panels are unpacked together, and rows in parts of 64 k."""
    b = random_values(rng, dtype, (k, n))
    assert_same(int8blas.pack_b(b).unpack(), b)
    with int8blas.num_threads(2):
        assert_same(int8blas.pack_b(np.tile(b, (9, 5))).unpack(), np.tile(b, (9, 5)))


def test_sums_proofs_and_unpacking_on_every_shape(isa, dtype, rng):
    for k, n in [*product(K_EDGES, N_EDGES), *(shape[:0:-1] for shape in BLOCKED)]:
        b = random_values(rng, dtype, (k, n), rng.choice(["full", "extreme", "small"]))
        packed = int8blas.pack_b(b)
        assert_same(packed.unpack(), b, n=n, k=k)
        assert_same(packed.column_sums, reference.column_sums(b), n=n, k=k)
        assert_same(packed.certified, reference.certified(b), n=n, k=k)


@pytest.mark.parametrize("first_two", [
    (64, 64), (64, 65), (127, 1), (127, 2), (1, 127), (-64, -64), (-65, -64), (-128, 0), (-128, -1), (-128, 127),
])  # fmt: skip
def test_the_no_saturation_proof_at_its_boundary(isa, dtype, first_two):
    shift = 128 if dtype == np.uint8 else 0
    for k, n, row, column in product((2, 3, 4, 7, 64), (1, 16, 40), (0, 1, 2, -2, -1), (0, -1)):
        if -k <= row <= k - 2:
            b = np.zeros((k, n), int)
            b[row, column], b[(row + 1) % k, column] = first_two
            b = (b + shift).astype(dtype)
            assert_same(int8blas.pack_b(b).certified, reference.certified(b), k=k, n=n, row=row, column=column)


def test_nbytes_counts_at_least_the_data(packed):
    assert packed.nbytes >= packed.data.nbytes


def test_repr_tells_shape_and_type(packed, b):
    assert "PackedB" in repr(packed)
    assert str(b.shape) in repr(packed)
    assert str(b.dtype) in repr(packed)


def test_equality(packed, b):
    assert packed == int8blas.pack_b(b)
    assert packed == int8blas.pack_b(np.asfortranarray(b).T, trans_b=True)
    changed = b.copy()
    changed[-1, -1] ^= 1
    assert packed != int8blas.pack_b(changed)
    assert packed != int8blas.pack_b(b[:-1])
    assert packed != int8blas.pack_b(np.pad(b, ((0, 1), (0, 0))))
    assert packed != b.tolist()
    zeros = np.zeros((4, 4), np.int8)
    assert int8blas.pack_b(zeros) != int8blas.pack_b((zeros.astype(int) + 128).astype(np.uint8))


def test_equal_matrices_are_one_key(packed, b):
    changed = b.copy()
    changed[-1, -1] ^= 1
    found = {packed: "first", int8blas.pack_b(b): "again", int8blas.pack_b(changed): "other"}
    assert list(found.values()) == ["again", "other"]
    assert found[int8blas.pack_b(b)] == "again"


def test_a_matrix_has_two_dimensions(packed, b):
    assert packed.ndim == len(packed.shape) == b.ndim == 2


# --- immutability ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shape", "dtype", "data", "column_sums", "certified", "nbytes", "new"])
def test_attributes_cannot_be_set_or_deleted(packed, name):
    with pytest.raises(AttributeError):
        setattr(packed, name, getattr(packed, name, None))
    with pytest.raises(AttributeError):
        delattr(packed, name)


@pytest.mark.parametrize("name", ["data", "column_sums", "certified"])
@pytest.mark.parametrize("way", ["packed", "copied", "pickled", "out of band", "mapped", "read"])
def test_arrays_cannot_be_written(packed, b, way, name, tmp_path):
    again = round_trip(packed, way, tmp_path)
    with pytest.raises(ValueError, match="read-only"):
        getattr(again, name)[...] = 0
    with contextlib.suppress(ValueError):
        array = getattr(again, name)
        array.flags.writeable = True
        array[...] = 0
    assert_is_packing_of(again, b)


def test_later_changes_of_the_original_have_no_effect(packed, b):
    original = b.copy()
    b[...] = 0
    assert_is_packing_of(packed, original)
    packed.unpack()[...] = 0
    assert_is_packing_of(packed, original)


def test_views_keep_the_memory_alive(b):
    expected = reference.packed_data(b)
    data, sums = (getattr(int8blas.pack_b(b), name) for name in ("data", "column_sums"))
    assert_same(data, expected)
    assert_same(sums, reference.column_sums(b))


def test_the_data_is_a_view_not_a_copy(packed):
    assert np.shares_memory(packed.data, packed.data)


# --- copies, pickles and files ---------------------------------------------------------------------------------------


def round_trip(packed, way, directory):
    """The PackedB after it was stored or sent in one of several ways."""
    if way == "packed":
        return packed
    if way == "copied":
        return copy.deepcopy(copy.copy(packed))
    if way == "pickled":
        return pickle.loads(pickle.dumps(packed))
    if way == "out of band":
        buffers = []
        stream = pickle.dumps(packed, protocol=5, buffer_callback=buffers.append)
        return pickle.loads(stream, buffers=[bytearray(buffer.raw()) for buffer in buffers])
    packed.save(directory / "b.packed")
    return int8blas.PackedB.load(directory / "b.packed", mmap=way == "mapped")


@pytest.mark.parametrize("way", ["copied", "pickled", "out of band", "mapped", "read"])
def test_round_trips_of_every_shape(dtype, way, rng, tmp_path):
    for shape in SHAPES:
        b = random_values(rng, dtype, shape)
        again = round_trip(int8blas.pack_b(b), way, tmp_path)
        assert_is_packing_of(again, b)
        assert again == int8blas.pack_b(b)


@pytest.mark.parametrize("way", ["pickled", "out of band", "mapped", "read"])
def test_a_packed_matrix_multiplies_the_same_after_a_round_trip(isa, pair, way, rng, tmp_path):
    for m, n, k in FEW:
        a, b = pair.operands(rng, m, n, k)
        again = round_trip(int8blas.pack_b(b), way, tmp_path)
        for numerics in ("exact", "saturating"):
            expected = reference.gemm(1, a, b, ao=3, bo=5, numerics=numerics)
            assert_same(pair.gemm(1, a, again, ao=3, bo=5, numerics=numerics), expected, m=m, n=n, k=k)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_protocols(packed, b, protocol):
    assert_is_packing_of(pickle.loads(pickle.dumps(packed, protocol)), b)


def out_of_band(packed):
    """The stream of a pickle, and its only buffer."""
    buffers = []
    stream = pickle.dumps(packed, protocol=5, buffer_callback=buffers.append)
    (buffer,) = buffers
    return stream, buffer.raw()


def test_out_of_band_pickles_do_not_copy_the_data(rng):
    packed = int8blas.pack_b(random_values(rng, np.int8, (512, 512)))
    stream, buffer = out_of_band(packed)
    assert len(stream) < 500
    assert np.shares_memory(np.frombuffer(buffer, np.uint8), packed.data)
    again = pickle.loads(stream, buffers=[buffer])
    assert again == packed
    assert np.shares_memory(again.data, packed.data)


@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_has_the_data_once(packed, protocol):
    assert len(pickle.dumps(packed, protocol)) < packed.nbytes + 500


def test_a_pickle_does_not_depend_on_the_isa(rng):
    b = rng.integers(-20, 21, (600, 80), np.int8)
    b[::37] = 127  # outliers
    a = rng.integers(0, 256, (64, 600), np.uint8)
    pickles = set()
    for name in int8blas.available_isas():
        with int8blas.use_isa(name):
            packed = int8blas.pack_b(b)
            pickles.add(pickle.dumps(packed))
            int8blas.matmul(a, packed)
            assert (int8blas.explain(a, packed).split_panels is not None) == (name in WITHOUT_VNNI)
            pickles.add(pickle.dumps(packed))
    assert len(pickles) == 1


def test_no_memory_for_a_matrix_of_any_size():
    b = np.broadcast_to(np.zeros((1, 1), np.int8), (2**60, 1))
    for function in (int8blas.pack_b, lambda b: int8blas.would_saturate(np.broadcast_to(np.uint8(1), (1, 2**60)), b)):
        with pytest.raises((MemoryError, ValueError)):
            function(b)


def test_nothing_is_a_subclass():
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Mine", (int8blas.PackedB,), {})


def test_matrix_multiplication_from_the_left(packed, b, rng):
    a = rng.integers(0, 256, (5, b.shape[0]), np.uint8)
    assert_same(a @ packed, int8blas.matmul(a, b))
    assert_same(a[0] @ packed, int8blas.matmul(a[0], b))


def test_it_is_no_array(packed):
    for function in (np.asarray, lambda x: x @ np.ones((3, 3), np.int8), np.negative):
        with pytest.raises(TypeError):
            function(packed)
    with pytest.raises(TypeError, match=r"^a must be an array, got PackedB \(a PackedB is not an array: give"):
        int8blas.matmul(packed, packed)


@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize("offset", [0, 1, 16, 48])
def test_a_buffer_is_used_in_place_only_if_it_is_aligned_and_its_owner_read_only(packed, b, offset, writeable):
    stream, sent = out_of_band(packed)
    memory = np.zeros(sent.nbytes + 128, np.uint8)
    buffer = memory[-memory.ctypes.data % 64 + offset :][: sent.nbytes]
    buffer[:] = np.asarray(sent).reshape(-1).view(np.uint8)
    memory.flags.writeable = writeable
    buffer.flags.writeable = False
    for given in (buffer, memoryview(buffer), pickle.PickleBuffer(buffer)):
        again = pickle.loads(stream, buffers=[given])
        assert np.shares_memory(again.data, memory) == (not writeable and offset == 0)
        assert again.data.ctypes.data % 64 == 0
        assert_is_packing_of(again, b)
        with pytest.raises(ValueError, match="WRITEABLE"):
            again.data.flags.writeable = True
    assert memory.flags.writeable == writeable


def test_later_changes_of_a_buffer_have_no_effect(packed, b):
    stream, sent = out_of_band(packed)
    for buffer in (bytearray(sent), np.array(sent), streams.aligned_bytes(sent.nbytes)):
        memory = np.frombuffer(buffer, np.int8)
        memory[:] = packed.data.reshape(-1)
        again = pickle.loads(stream, buffers=[buffer])
        memory[:] = 99
        assert_is_packing_of(again, b)


def test_a_copy_is_the_matrix_itself(packed):
    assert copy.copy(packed) is packed
    assert copy.deepcopy(packed) is packed
    layer = int8blas.InnerProduct(int8blas.pack_b(np.ones((4, 4), np.int8)), src_dtype=np.uint8, dst_dtype=np.int32)
    again = copy.deepcopy(layer)
    assert again is not layer
    assert again.weights is layer.weights


def test_pickled_arguments_that_are_not_right(packed):
    restore, good = packed.__reduce_ex__(5)
    assert restore(*good) == packed
    k, n, dtype, data = good
    bad = (
        *product((-4, -1, k + 4, 2**40, 2**63, 2**70, 0.5, None, "9"), (n,), (dtype,), (data,)),
        *product((k,), (-16, 0, n + 16, 2**40, 2**63, 2**70, 1e300, None), (dtype,), (data,)),
        *product((0, 2**63, -(2**70)), (2**63, 2**70), (dtype,), (b"", data)),
        *product((k,), (n,), ("int16", "", None, 1, []), (data,)),
        *product((k,), (n,), (dtype,), (None, 1, "text", [0], b"", data[..., :2], data[1:], bytes(data)[1:])),
    )
    for arguments in bad:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            restore(*arguments)


def test_a_matrix_from_nowhere_is_empty():
    empty = int8blas.PackedB.__new__(int8blas.PackedB)
    assert_is_packing_of(empty, np.empty((0, 0), np.int8))
    assert_is_packing_of(pickle.loads(pickle.dumps(empty)), np.empty((0, 0), np.int8))
    assert int8blas.matmul(np.empty((3, 0), np.uint8), empty).shape == (3, 0)


def test_a_path_is_a_string_or_path_like(packed, b, tmp_path):
    packed.save(str(tmp_path / "as string"))
    assert_is_packing_of(int8blas.PackedB.load(tmp_path / "as string"), b)
    packed.save(tmp_path / "as path")
    assert_is_packing_of(int8blas.PackedB.load(str(tmp_path / "as path")), b)


def test_a_file_does_not_depend_on_the_isa_that_packed_it(b, tmp_path):
    files = set()
    for name in int8blas.available_isas():
        with int8blas.use_isa(name):
            int8blas.pack_b(b).save(tmp_path / name)
        files.add((tmp_path / name).read_bytes())
    assert len(files) == 1


def test_a_mapped_matrix_outlives_its_file_name(packed, b, tmp_path):
    packed.save(tmp_path / "b")
    again = int8blas.PackedB.load(tmp_path / "b")
    (tmp_path / "b").unlink()
    assert_is_packing_of(again, b)


SAVE_OVER_MAPPED = """
import sys

import int8blas
import numpy as np

path = sys.argv[1]
packed = int8blas.pack_b(np.ones((1024, 1024), np.int8))
packed.save(path)
mapped = int8blas.PackedB.load(path)
int8blas.pack_b(np.zeros((2, 2), np.int8)).save(path)
print(mapped == packed)
"""


def test_saving_over_a_mapped_file_leaves_the_mapped_matrix_alone(tmp_path):
    process = run_python("-c", SAVE_OVER_MAPPED, str(tmp_path / "b"))
    assert (process.returncode, process.stdout) == (0, "True\n")


# --- invalid files ---------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["mapped", "read"])
def load(request, tmp_path):
    """A function that loads these bytes as a file."""

    def load_bytes(content):
        path = tmp_path / "bad"
        path.write_bytes(content)
        return int8blas.PackedB.load(path, mmap=request.param)

    return load_bytes


@pytest.fixture
def content(packed, tmp_path):
    """The bytes of a valid file."""
    packed.save(tmp_path / "good")
    return (tmp_path / "good").read_bytes()


def test_a_file_cut_off_anywhere(load, content):
    for length in range(len(content)):
        with pytest.raises(ValueError, match=WHAT_IS_WRONG):
            load(content[:length])


def test_a_file_with_more_at_its_end(load, content):
    with pytest.raises(ValueError, match=WHAT_IS_WRONG):
        load(content + b"\0")


def test_a_file_with_any_byte_changed(load, content):
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        with pytest.raises(ValueError, match=WHAT_IS_WRONG):
            load(bytes(changed))


def test_a_file_of_another_version(load, content):
    assert content[8] == 1
    with pytest.raises(ValueError, match="version 2 of the format"):
        load(content[:8] + bytes([2]) + content[9:])


def test_a_file_of_another_kind(load, b):
    for foreign in (b"", b"\0" * 4096, b"\x93NUMPY" + bytes(200), b"hello\n", pickle.dumps(b), b"\xff" * 100_000):
        with pytest.raises(ValueError, match=WHAT_IS_WRONG):
            load(foreign)


def test_a_file_that_does_not_exist(tmp_path):
    for mmap in (True, False):
        with pytest.raises(FileNotFoundError):
            int8blas.PackedB.load(tmp_path / "absent", mmap=mmap)
        with pytest.raises(OSError, match="directory"):
            int8blas.PackedB.load(tmp_path, mmap=mmap)


# --- sharing ---------------------------------------------------------------------------------------------------------


def test_many_threads_share_one(isa, pair, rng):
    _, b = pair.operands(rng, 0, 70, 130)
    packed = int8blas.pack_b(b)
    problems = [pair.operands(rng, m, 70, 130)[0] for m in range(40)]

    def multiply(a):
        with int8blas.use_isa(isa):
            return pair.gemm(1, a, packed)

    with ThreadPoolExecutor(8) as pool:
        for a, result in zip(problems, pool.map(multiply, problems), strict=True):
            assert_same(result, reference.gemm(1, a, b), m=len(a))
    assert_is_packing_of(packed, b)
