"""PackedB4: B of 4 bits, its layout, and its products, on every instruction set."""

import copy
import io
import pickle
from itertools import product

import numpy as np
import pytest
import reference
from arrays import LAYOUTS, assert_same, guarded, needs_mprotect, place, random_c, random_values
from errors import refused

import int8blas

RANGES = {np.int8: (-8, 7), np.uint8: (0, 15)}
TYPES = pytest.mark.parametrize("dtype", RANGES, ids=["int4", "uint4"])
A_TYPES = pytest.mark.parametrize("a_dtype", [np.uint8, np.int8], ids=["u8", "s8"])
SHAPES = tuple(product((0, 1, 3, 4, 5, 8, 9, 16, 66), (0, 1, 15, 16, 17, 50, 64, 65, 100)))
# (M, N, K): few rows and more, panels and steps that are whole and not, several blocks of K, a packed block that does
# not hold all panels.
PRODUCTS = (
    *product((1, 2, 3, 4, 5, 7, 9, 17), (1, 16, 49, 64, 130), (1, 4, 7, 8, 9, 31, 32, 33, 100, 264)),
    (1, 70, 5000), (3, 200, 1028), (4, 66, 4099), (5, 90, 4100), (33, 100, 1029), (130, 150, 300), (9, 1030, 2052),
    (70, 2000, 700), (3, 40, 70000), (9, 20, 70004),
)  # fmt: skip


def values(rng, dtype, shape, kind="full"):
    low, high = RANGES[dtype]
    if kind == "extreme":
        return rng.choice(np.array([low, high], dtype), shape)
    return rng.integers(low, high, shape, dtype, endpoint=True)


def layout(b):
    """The packed bytes of a matrix, by the definition."""
    k, n = b.shape
    shift = 8 if b.dtype == np.int8 else 0
    full = np.full((-(-k // 8) * 8, -(-n // 16) * 16), shift, np.uint8)
    full[:k, :n] = b.astype(int) + shift
    parts = full.reshape(-1, 2, 4, full.shape[1] // 16, 16).transpose(3, 0, 1, 4, 2)
    return parts[:, :, 0] | parts[:, :, 1] << 4


@TYPES
def test_layout_sums_and_unpacking(isa, dtype, rng):
    for k, n in SHAPES:
        b = values(rng, dtype, (k, n))
        for given, transposed in ((b, False), (np.asfortranarray(b), False), (b.T, True)):
            packed = int8blas.pack_b(given, trans_b=transposed, bits=4)
            assert isinstance(packed, int8blas.PackedB4)
            assert (packed.shape, packed.ndim, packed.dtype, packed.bits) == ((k, n), 2, dtype, 4)
            if k and n:
                assert_same(packed.data, layout(b), k=k, n=n)
            assert packed.nbytes == -(-n // 16) * -(-k // 8) * 64
            assert_same(packed.column_sums, b.sum(0, dtype=np.int64), k=k, n=n)
            assert_same(packed.unpack(), b, k=k, n=n)
            assert packed.unpack().flags.c_contiguous


@TYPES
@A_TYPES
@pytest.mark.parametrize("kind", ["full", "extreme"])
def test_products(isa, dtype, a_dtype, kind, rng):
    for m, n, k in PRODUCTS:
        a, b = random_values(rng, a_dtype, (m, k), kind), values(rng, dtype, (k, n), kind)
        packed = int8blas.pack_b(b, bits=4)
        expected = a.astype(np.int64) @ b.astype(np.int64)
        assert_same(int8blas.matmul(a, packed), expected.astype(np.int32), m=m, n=n, k=k)
        assert_same(int8blas.matmul(a, packed, dtype=np.int64), expected, m=m, n=n, k=k)


def gemm_of(a_dtype):
    return int8blas.gemm_u8s4s32 if a_dtype == np.uint8 else int8blas.gemm_s8s4s32


@TYPES
@A_TYPES
@pytest.mark.parametrize("shape", [(1, 3, 300_000), (5, 70, 290_004), (20, 17, 560_001)], ids=str)
def test_products_in_parts_of_k(isa, dtype, a_dtype, shape):
    m, n, k = shape
    a = np.full((m, k), np.iinfo(a_dtype).max, a_dtype)
    b = np.full((k, n), RANGES[dtype][1], dtype)
    b[:, ::2] = RANGES[dtype][0]
    packed = int8blas.pack_b(b, bits=4)
    for ao in (0, 3):
        wanted = (int(a[0, 0]) - ao) * b.sum(0, dtype=np.int64)
        assert_same(gemm_of(a_dtype)(1, a, packed, ao=ao), np.broadcast_to(wanted, (m, n)).astype(np.int32))


@TYPES
@A_TYPES
def test_zero_points_offsets_alpha_and_beta(isa, dtype, a_dtype, rng):
    low, high = RANGES[dtype]
    info = np.iinfo(a_dtype)
    for m, n, k in ((1, 50, 40), (4, 16, 100), (3, 70, 9), (6, 33, 65), (40, 100, 300), (1, 1, 1)):
        a, b, c = random_values(rng, a_dtype, (m, k)), values(rng, dtype, (k, n)), random_c(rng, (m, n))
        packed = int8blas.pack_b(b, bits=4)
        for ao, bo in product(
            (0, info.min, info.max, random_values(rng, a_dtype, m).astype(int)),
            (0, low, high, values(rng, dtype, n).astype(int)),
        ):
            for alpha, beta, offsetc, count in ((1, 0, "F", ()), (1, 1, "R", n), (0.3, -0.7, "C", m)):
                co = rng.integers(-1000, 1000, count)
                arguments = {"beta": beta, "c": c, "ao": ao, "bo": bo, "co": co, "offsetc": offsetc}
                wide = {**arguments, "offsetc": offsetc}
                given = b.astype(np.int8)
                name = "gemm_u8s8s32" if a_dtype == np.uint8 else "gemm_s8s8s32"
                expected = getattr(int8blas, name)(alpha, a, given, **wide)
                with_numbers = reference.gemm(alpha, a, given, beta, c, ao=ao, bo=bo, co=co, offsetc=offsetc)
                assert_same(expected, with_numbers, m=m, n=n, k=k)
                result = gemm_of(a_dtype)(alpha, a, packed, **arguments)
                assert_same(result, expected, m=m, n=n, k=k, ao=ao, bo=bo)


@TYPES
def test_saturating_numerics_make_no_difference(isa, dtype, rng):
    for m, n, k in ((1, 50, 40), (9, 70, 100)):
        a, b = random_values(rng, np.uint8, (m, k), "extreme"), values(rng, dtype, (k, n), "extreme")
        packed = int8blas.pack_b(b, bits=4)
        expected = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
        assert_same(int8blas.matmul(a, packed, numerics="saturating"), expected, m=m)
        assert_same(int8blas.gemm_u8s4s32(1, a, packed, numerics="saturating"), expected, m=m)


@TYPES
@A_TYPES
def test_layouts_of_a_and_c(isa, dtype, a_dtype, rng):
    for (m, n, k), a_layout in product(((1, 50, 33), (4, 20, 64), (9, 40, 70)), LAYOUTS):
        b = values(rng, dtype, (k, n))
        packed = int8blas.pack_b(b, bits=4)
        a = place(random_values(rng, a_dtype, (m, k)), a_layout)
        expected = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
        for c_layout in ("C", "F", "every other, both reversed"):
            c = place(np.zeros((m, n), np.int32), c_layout)
            assert int8blas.matmul(a, packed, out=c) is c
            assert_same(c, expected, m=m, a_layout=a_layout, c_layout=c_layout)
        assert_same(gemm_of(a_dtype)(1, a.T, packed, trans_a=True), expected, m=m, a_layout=a_layout)


@TYPES
def test_vectors_and_stacks(isa, dtype, rng):
    b = values(rng, dtype, (40, 30))
    packed = int8blas.pack_b(b, bits=4)
    for shape in ((40,), (3, 40), (2, 3, 40), (5, 1, 7, 40), (0, 40), (2, 0, 40)):
        a = random_values(rng, np.uint8, shape)
        expected = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
        assert_same(int8blas.matmul(a, packed), expected, shape=shape)
        assert_same(a @ packed, expected, shape=shape)


@TYPES
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_threads(isa, dtype, threads, rng):
    for m, n, k in ((1, 3000, 1000), (4, 1030, 3000), (40, 1030, 2000), (300, 300, 1000), (3, 40, 70000)):
        a, b = random_values(rng, np.int8, (m, k)), values(rng, dtype, (k, n))
        expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32)
        with int8blas.num_threads(threads):
            assert_same(int8blas.matmul(a, int8blas.pack_b(b, bits=4)), expected, m=m, n=n, k=k)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
@TYPES
def test_guard_pages(isa, side, dtype, rng):
    for m, n, k in ((1, 16, 8), (1, 50, 33), (4, 65, 70), (9, 30, 100)):
        a = place(random_values(rng, np.uint8, (m, k)), "C", guarded(side))
        b = values(rng, dtype, (k, n))
        given = int8blas.pack_b(b, bits=4)
        bytes_ = place(given.data.reshape(1, -1), "C", guarded(side))
        bytes_.flags.writeable = False
        restore, arguments = given.__reduce__()
        packed = restore(*arguments[:-1], bytes_)
        c = place(np.zeros((m, n), np.int32), "C", guarded(side))
        int8blas.matmul(a, packed, out=c)
        assert_same(c, (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32), m=m)


@TYPES
def test_files_pickles_and_copies(tmp_path, dtype, rng):
    for k, n in ((66, 50), (0, 3), (8, 0), (1, 1)):
        packed = int8blas.pack_b(values(rng, dtype, (k, n)), bits=4)
        packed.save(tmp_path / "b.i8")
        buffer = io.BytesIO()
        packed.save(buffer)
        buffer.seek(0)
        for same in (
            int8blas.PackedB4.load(tmp_path / "b.i8"), int8blas.load(tmp_path / "b.i8"), int8blas.PackedB4.load(buffer),
            *(pickle.loads(pickle.dumps(packed, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
        ):  # fmt: skip
            assert same == packed
            assert hash(same) == hash(packed)
            assert_same(same.column_sums, packed.column_sums)
            assert same.dtype == packed.dtype
        assert copy.copy(packed) is packed
        assert copy.deepcopy(packed) is packed
    int8blas.pack_b(np.eye(3, dtype=np.int8)).save(tmp_path / "other.i8")
    with pytest.raises(ValueError, match=r"is not a packed matrix of 4 bits: it holds a PackedB$"):
        int8blas.PackedB4.load(tmp_path / "other.i8")


def test_other_matrices_are_not_equal():
    b = np.arange(8, dtype=np.int8).reshape(4, 2)
    packed = int8blas.pack_b(b, bits=4)
    assert packed != int8blas.pack_b(b)
    assert packed != int8blas.pack_b(b.view(np.uint8), bits=4)
    assert packed != int8blas.pack_b(b[:3], bits=4)
    assert packed == int8blas.pack_b(b.T.copy(), trans_b=True, bits=4)
    assert repr(packed) == "PackedB4(shape=(4, 2), dtype=int4)"
    assert not packed.data.flags.writeable


def test_wrong_matrices():
    with refused(ValueError, "b must have values from -8 to 7 for bits=4 and int8, got 0 to 8"):
        int8blas.pack_b(np.int8([[0, 8]]), bits=4)
    with refused(ValueError, "b must have values from 0 to 15 for bits=4 and uint8, got 3 to 16"):
        int8blas.pack_b(np.uint8([[3, 16]]), bits=4)
    with refused(ValueError, "bits must be 8 or 4, got 5"):
        int8blas.pack_b(np.uint8([[3, 16]]), bits=5)
    with refused(TypeError, "PackedB4 is made by"):
        int8blas.PackedB4()


def test_wrong_operands():
    packed, a = int8blas.pack_b(np.zeros((4, 2), np.int8), bits=4), np.zeros((1, 4), np.uint8)
    with refused(ValueError, "b must have 5 rows, as a has 5 columns, got 4"):
        int8blas.matmul(np.zeros((1, 5), np.uint8), packed)
    with refused(TypeError, "a must be uint8, got int8: gemm_s8s4s32 takes these operands"):
        int8blas.gemm_u8s4s32(1, a.view(np.int8), packed)
    with refused(TypeError, "b must be a PackedB4, which pack_b(b, bits=4) makes, got ndarray"):
        int8blas.gemm_u8s4s32(1, a, packed.unpack())
    with refused(TypeError, "b must be a PackedB4, which pack_b(b, bits=4) makes, got PackedB"):
        int8blas.gemm_u8s4s32(1, a, int8blas.pack_b(packed.unpack()))
    with refused(TypeError, "b must be an array, got PackedB4 (a PackedB4 is not an array"):
        int8blas.gemm_u8s8s32(1, a, packed)
    with refused(ValueError, "trans_b must be False for a PackedB4"):
        int8blas.gemm_u8s4s32(1, a, packed, trans_b=True)
    for bo in (-9, 8, [0, 8]):
        with refused(ValueError, "bo must be"):
            int8blas.gemm_u8s4s32(1, a, packed, bo=bo)


@pytest.mark.parametrize("change", ["dtype", "shape", "bytes"])
def test_restoring_what_is_wrong(change):
    restore, (k, n, dtype, data) = int8blas.pack_b(np.zeros((9, 20), np.int8), bits=4).__reduce__()
    with pytest.raises(ValueError, match=r"dtype of a packed|must have"):
        restore(
            *{
                "dtype": (k, n, "int8", data),
                "shape": (-1, n, dtype, data),
                "bytes": (k, n, dtype, data[:1]),
            }[change]
        )


def test_explain_tells_of_the_path(isa):
    packed = int8blas.pack_b(np.zeros((300, 200), np.int8), bits=4)
    for m, few in ((1, True), (4, True), (8, True), (100, False)):
        for a_dtype in (np.uint8, np.int8):
            plan = int8blas.explain(np.zeros((m, 300), a_dtype), packed)
            assert plan.path == ("four_bits" if few and isa != "ref" else "blocks")
            assert plan.b_is_packed
            assert "B is packed already" in str(plan) or plan.path == "four_bits"


@TYPES
def test_many_groups_of_int4_are_added_in_16_bits(isa, dtype):
    """Without VNNI, eight groups of int4 fit 16 bits, as 8 * 255 * 16 = 32640; four groups of uint4."""
    packed = int8blas.pack_b(np.zeros((300, 200), dtype), bits=4)
    plan = str(int8blas.explain(np.full((100, 300), 255, np.uint8), packed))
    assert ("six groups of k or more" in plan) == (isa in ("avx2", "avx512bw") and dtype == np.int8)
