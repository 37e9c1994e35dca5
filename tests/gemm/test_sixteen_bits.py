"""B of 16 bits: pack_b of int16, PackedB16, and products of wide arrays by packed matrices, on every instruction
set."""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest
from arrays import assert_same, guarded, place
from errors import refused

import int8blas

SHAPES = [(1, 1, 1), (2, 8, 2), (3, 17, 5), (13, 24, 7), (33, 65, 300), (70, 130, 33), (9, 50, 1100), (7, 3000, 3)]


def values(rng, shape, bits=15):
    return rng.integers(-(2**bits), 2**bits, shape).astype(np.int16)


@pytest.mark.parametrize("shape", [(1, 1), (2, 16), (5, 17), (64, 48), (333, 130), (0, 3), (4, 0)])
def test_the_layout(isa, shape, rng):
    k, n = shape
    b = values(rng, shape)
    expected = np.zeros((-(-n // 16) * 16, -(-k // 2) * 2), np.int16)
    expected[:n, :k] = b.T
    expected = expected.reshape(-(-n // 16), 16, -(-k // 2), 2).transpose(0, 2, 1, 3)
    for given, transposed in ((b, False), (b.copy("F"), False), (b.T.copy(), True), (np.repeat(b, 2, 1)[:, ::2], 0)):
        packed = int8blas.pack_b(given, trans_b=transposed)
        assert_same(packed.data, np.ascontiguousarray(expected))
        assert packed.shape == shape
        assert packed.dtype == np.int16
        assert packed.nbytes == packed.data.nbytes == expected.nbytes
        assert_same(packed.column_sums, b.sum(0, np.int64))
        assert_same(packed.unpack(), b)
        assert not packed.data.flags.writeable


@pytest.mark.parametrize("bits", [6, 11, 13, 14, 15])
@pytest.mark.parametrize("shape", SHAPES)
def test_products(isa, shape, bits, rng):
    """Values of all bits, so that each kernel for pairs reads the panels, with several blocks and incomplete tiles."""
    m, n, k = shape
    a, b = values(rng, (m, k), bits), values(rng, (k, n), bits)
    a[0, 0], b[0, 0] = -(2**bits), -(2**bits)
    packed, expected = int8blas.pack_b(b), a.astype(np.int64) @ b
    assert_same(int8blas.matmul(a, packed), expected)
    assert_same(a.astype(np.int64) @ packed, expected)
    assert_same(np.asfortranarray(a) @ packed, expected)
    assert_same(int8blas.matmul(a, packed, dtype=np.int16, overflow="wrap"), expected.astype(np.int16))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for options in ({}, {"alpha": 0.01, "ao": 5, "bo": -9, "co": 7}, {"bo": np.arange(n), "beta": 1.0}):
            rest = {"alpha": 1.0, "c": np.full((m, n), 9, np.int32)} | options
            assert_same(int8blas.gemm_s16s16s32(a=a, b=packed, **rest), int8blas.gemm_s16s16s32(a=a, b=b, **rest))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.int8, np.bool_])
def test_a_wide_array_is_divided_into_limbs(isa, dtype, rng):
    """By packed matrices of 16, 8 and 4 bits, with all the values of each dtype that int64 sums allow."""
    for packed in (
        int8blas.pack_b(values(rng, (50, 37))), int8blas.pack_b(rng.integers(-128, 128, (50, 37), np.int8)),
        int8blas.pack_b(rng.integers(0, 256, (50, 37), np.uint8)),
        int8blas.pack_b(rng.integers(-8, 8, (50, 37), np.int8), bits=4),
    ):  # fmt: skip
        b = packed.unpack().astype(np.int64)
        least = 15 if packed.dtype == np.int16 else 8
        for bits in (7, 8, 9, 15, 16, 17, 31, 62 - least - 6):
            if dtype is np.bool_:
                a = rng.integers(0, 2, (9, 50)).astype(bool)
            else:
                info = np.iinfo(dtype)
                low, high = max(info.min, -(2**bits)), min(info.max, 2**bits - 1)
                a = rng.integers(low, high, (9, 50), np.int64, endpoint=True).astype(dtype)
                a[0, 0], a[0, 1] = low, high
            expected = a.astype(np.int64) @ b
            assert (int8blas.matmul(a, packed) == expected).all()
            assert (int8blas.matmul(a[3], packed, dtype=np.int64) == expected[3]).all()
            out = np.zeros((9, 2 * 37), np.int64)
            assert int8blas.matmul(a, packed, out=out[:, ::2]).base is out
            assert_same(np.ascontiguousarray(out[:, ::2]), expected)


def test_values_that_are_too_wide():
    a, packed = np.full((2, 50), 2**41), int8blas.pack_b(np.ones((50, 3), np.int16))
    text = (
        "a must have values of at most 41 bits without the sign, as b is a PackedB16 with 50 rows, got 42 bits: give "
    )
    with refused(ValueError, f"{text}b.unpack()"):
        int8blas.matmul(a, packed)
    assert (int8blas.matmul(a, packed.unpack()) == 50 * 2**41).all()
    with pytest.raises(ValueError, match=r"as b is a PackedB with 3 rows, got 63 bits: give b.unpack"):
        int8blas.matmul([[2**62, 1, 1]], int8blas.pack_b(np.ones((3, 1), np.int8)))


def test_stacks_and_overflow(isa, rng):
    b = values(rng, (90, 80))
    packed = int8blas.pack_b(b)
    for a in (values(rng, (2, 3, 70, 90)), values(rng, (3, 140, 90))[:, ::2], values(rng, 90), values(rng, (2, 0, 90))):
        expected = a.astype(np.int64) @ b
        assert_same(int8blas.matmul(a, packed), expected)
        if expected.size:
            with pytest.raises(OverflowError, match="beyond int16"):
                int8blas.matmul(a, packed, dtype=np.int16, overflow="raise")
            with pytest.warns(RuntimeWarning, match="beyond int8 were saturated"):
                assert (int8blas.matmul(a, packed, dtype=np.int8) == np.clip(expected, -128, 127)).all()


@pytest.mark.parametrize("name", ["gemm_s16s8s32", "gemm_u16s8s32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_16_bits_by_packed_8_bits(isa, name, shape, rng):
    m, n, k = shape
    dtype = np.int16 if name == "gemm_s16s8s32" else np.uint16
    info, function = np.iinfo(dtype), getattr(int8blas, name)
    b = rng.integers(-128, 128, (k, n), np.int8)
    for low, high in ((info.min, info.max), (0, 200), (max(info.min, -100), 100)):
        a = rng.integers(low, high, (m, k), dtype, endpoint=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for options in ({}, {"ao": 1000, "bo": 3, "alpha": 0.125}, {"ao": np.arange(m), "co": -5}):
                rest = {"alpha": 1.0} | options
                assert_same(function(a=a, b=int8blas.pack_b(b), **rest), function(a=a, b=b, **rest))


def test_threads_give_the_same_sums(rng):
    a, b = values(rng, (150, 200)), values(rng, (200, 330))
    expected, packed = a.astype(np.int64) @ b, int8blas.pack_b(b)
    for isa in int8blas.available_isas():
        for threads in (1, 2, 3, 5):
            with int8blas.use_isa(isa), int8blas.num_threads(threads):
                assert_same(int8blas.matmul(a, packed), expected)
                assert_same(int8blas.pack_b(b).data, packed.data)


@pytest.mark.parametrize("side", ["start", "end"])
def test_guard_pages(isa, side, rng):
    for bits in (9, 15):
        for m, n, k in ((1, 16, 8), (1, 50, 33), (4, 65, 71), (9, 30, 301), (13, 8, 2)):
            a = place(values(rng, (m, k), bits), "C", guarded(side))
            b = place(values(rng, (k, n), bits), "C", guarded(side))
            given = int8blas.pack_b(b)
            memory = place(given.data.view(np.int8).reshape(1, -1), "C", guarded(side))
            memory.flags.writeable = False
            restore, arguments = given.__reduce__()
            packed = restore(*arguments[:-1], memory)
            c = place(np.zeros((m, n), np.int64), "C", guarded(side))
            int8blas.matmul(a, packed, out=c)
            assert_same(c, a.astype(np.int64) @ b.astype(np.int64), m=m)


def test_files_pickles_and_copies(tmp_path, rng):
    for k, n in ((66, 50), (0, 3), (8, 0), (1, 1)):
        packed = int8blas.pack_b(values(rng, (k, n)))
        packed.save(tmp_path / "b.i8")
        buffer = io.BytesIO()
        packed.save(buffer)
        buffer.seek(0)
        buffers = []
        apart = pickle.dumps(packed, 5, buffer_callback=buffers.append)
        for same in (
            int8blas.PackedB16.load(tmp_path / "b.i8"), int8blas.load(tmp_path / "b.i8"),
            int8blas.PackedB16.load(tmp_path / "b.i8", mmap=False), int8blas.PackedB16.load(buffer),
            pickle.loads(apart, buffers=buffers),
            *(pickle.loads(pickle.dumps(packed, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
        ):  # fmt: skip
            assert same == packed
            assert hash(same) == hash(packed)
            assert_same(same.column_sums, packed.column_sums)
            assert_same(same.unpack(), packed.unpack())
        assert copy.copy(packed) is packed
        assert copy.deepcopy(packed) is packed
    with pytest.raises(ValueError, match=r"is not a packed matrix: it holds a PackedB16$"):
        int8blas.PackedB.load(tmp_path / "b.i8")
    int8blas.pack_b(np.eye(3, dtype=np.int8)).save(tmp_path / "b.i8")
    with pytest.raises(ValueError, match=r"is not a packed matrix of 16 bits: it holds a PackedB$"):
        int8blas.PackedB16.load(tmp_path / "b.i8")


def test_other_matrices_are_not_equal():
    b = np.arange(8, dtype=np.int16).reshape(4, 2)
    packed = int8blas.pack_b(b)
    assert packed != int8blas.pack_b(b.astype(np.int8))
    assert packed != int8blas.pack_b(b[:3])
    assert packed != int8blas.pack_b(b + np.int16(1))
    assert packed == int8blas.pack_b(b.T.copy(), trans_b=True)
    assert repr(packed) == "PackedB16(shape=(4, 2), dtype=int16)"


def test_wrong_arguments(rng):
    a, b = values(rng, (3, 4)), values(rng, (4, 2))
    packed, bytes_ = int8blas.pack_b(b), int8blas.pack_b(np.ones((4, 2), np.int8))
    for function, error, text in (
        (lambda: int8blas.pack_b(b.astype(np.int32)), TypeError, "b must be uint8, int8 or int16, got int32"),
        (lambda: int8blas.pack_b(b[0]), ValueError, "b must have 2 dimensions, got shape (2,)"),
        (lambda: int8blas.pack_b(b, bits=4), ValueError, "bits must be 8, its default, for int16, got 4"),
        (lambda: int8blas.pack_b(b, trans_b=3), ValueError, "trans_b must be a bool or 0, 1, 2, got 3"),
        (lambda: int8blas.PackedB16(), TypeError, "PackedB16 is made by pack_b(b) or PackedB16.load(path)"),
        (lambda: np.asarray(packed), TypeError, "a PackedB16 is not an array: give .unpack() of it"),
        (lambda: a[:, :3] @ packed, ValueError, "b must have 3 rows, as a has 3 columns, got 4"),
        (lambda: np.int16(3) @ packed, ValueError, "a must have at least 1 dimension, got a scalar"),
        (lambda: int8blas.matmul(a, packed, ao=1), ValueError, "ao must be 0 when an operand is wider than 8 bits"),
        (lambda: int8blas.matmul(a, packed, mod=7), TypeError, "b must be an array when mod is given, got a PackedB16"),
        (lambda: int8blas.matmul(a, packed, out=np.ones((2, 3), int)), ValueError, "out must have shape (3, 2)"),
        (lambda: int8blas.gemm_s16s16s32(1, a, packed, trans_b=1), ValueError, "trans_b must be False for a PackedB16"),
        (lambda: int8blas.gemm_s16s16s32(1, a.T, packed), ValueError, "b must have 3 rows in op(b)"),
        (lambda: int8blas.gemm_s16s16s32(1, a, bytes_), TypeError, "b must be int16, or packed by pack_b from such an "
                                                                   "array, got a PackedB(shape=(4, 2), dtype=int8)"),
        (lambda: int8blas.gemm_s16s8s32(1, a, packed), TypeError, "b must be int8, or packed by pack_b from such an "
                                                                  "array, got a PackedB16(shape=(4, 2), dtype=int16)"),
        (lambda: int8blas.gemm_u8s8s32(1, a.astype(np.uint8), packed), TypeError, "b must be an array, got PackedB16"),
    ):  # fmt: skip
        with refused(error, text):
            function()


@pytest.mark.parametrize("change", ["dtype", "shape", "bytes"])
def test_restoring_what_is_wrong(change):
    restore, (k, n, dtype, data) = int8blas.pack_b(np.zeros((9, 20), np.int16)).__reduce__()
    with pytest.raises(ValueError, match=r"dtype of a packed matrix of 16 bits must be int16|must have"):
        restore(
            *{
                "dtype": (k, n, "int8", data),
                "shape": (-1, n, dtype, data),
                "bytes": (k, n, dtype, data[:, :-1].copy()),
            }[change]
        )


# --- syrk_s16s64 -----------------------------------------------------------------------------------------------------


def exact_syrk(alpha, a, beta, c, lower, ao):
    x = a.astype(object) - np.reshape(np.asarray(ao, object), (-1, 1))
    full = alpha * (x @ x.T) + (beta * c.astype(object) if beta else 0)
    full = np.clip(full, -(2**63), 2**63 - 1)
    return np.where(np.tri(len(a), dtype=bool) if lower else np.tri(len(a), dtype=bool).T, full, c).astype(np.int64)


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (17, 33), (50, 7), (3, 0), (0, 4), (200, 90), (400, 3)])
@pytest.mark.parametrize("lower", [False, True])
def test_syrk(isa, shape, lower, rng):
    n = shape[0]
    a = values(rng, shape)
    if a.size:
        a[:] = np.where(rng.random(shape) < 0.2, -32768, a)
    c = rng.integers(-(2**62), 2**62, (n, n))
    for alpha, beta, ao in (
        (1, 0, 0),
        (-3, 1, 5),
        (2**20, -2, -32768),
        (1, 0, rng.integers(-99, 99, n)),
        (2**29, 3, 7),
    ):
        expected = exact_syrk(alpha, a, beta, c, lower, ao)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = int8blas.syrk_s16s64(alpha, a, beta, c, lower=lower, ao=ao)
            assert_same(result, expected)
            transposed = int8blas.syrk_s16s64(alpha, a.T.copy(), beta, c.copy("F"), True, lower, ao=ao)
            assert (transposed == expected).all()
            target = np.repeat(c, 2, 1)
            assert (
                int8blas.syrk_s16s64(alpha, a, beta, target[:, ::2], lower=lower, overwrite_c=True, ao=ao).base
                is target
            )
            assert_same(np.ascontiguousarray(target[:, ::2]), expected)
            assert_same(np.ascontiguousarray(target[:, 1::2]), c)
    assert_same(int8blas.syrk_s16s64(1, a, lower=lower), exact_syrk(1, a, 0, np.zeros((n, n), np.int64), lower, 0))


def test_a_syrk_that_saturates():
    a = np.full((2, 3), 32767, np.int16)
    with pytest.warns(RuntimeWarning, match="^syrk_s16s64: elements of the result beyond int64 were saturated"):
        assert int8blas.syrk_s16s64(2**33, a).tolist() == [[2**63 - 1] * 2, [0, 2**63 - 1]]
    # Elements of the other triangle do not count.
    c = np.array([[1, 2], [2**62, 3]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert int8blas.syrk_s16s64(1, a, 8, c).tolist() == [[3 * 32767**2 + 8, 3 * 32767**2 + 16],
                                                            [2**62, 3 * 32767**2 + 24]]  # fmt: skip


def test_wrong_arguments_of_syrk():
    a = np.ones((2, 3), np.int16)
    for changes, error, text in (
        ({"a": a.astype(np.int32)}, TypeError, "a must be int16, got int32"),
        ({"a": a[0]}, ValueError, "a must have 2 dimensions, got shape (3,)"),
        ({"alpha": 0.5}, TypeError, "alpha must be an integer, got float"),
        ({"beta": None}, TypeError, "beta must be an integer, got NoneType"),
        ({"c": np.ones((3, 3), np.int64)}, ValueError, "c must have shape (2, 2), got (3, 3)"),
        ({"c": np.ones((2, 2), np.int32)}, TypeError, "c must be int64, got int32"),
        ({"ao": [1, 2, 3]}, ValueError, "ao must be one integer or 2 (a row of op(a) each)"),
        ({"ao": 40_000}, ValueError, "ao must be between -32768 and 32767, got 40000"),
        ({"trans": 7}, ValueError, "trans must be a bool or 0, 1, 2, got 7"),
    ):
        for overwrite in (False, True):
            with refused(error, text):
                int8blas.syrk_s16s64(**{"alpha": 1, "a": a, "overwrite_c": overwrite} | changes)
