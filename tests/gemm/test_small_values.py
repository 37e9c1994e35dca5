"""Products of small values without VNNI: sums that fit 16 bits are added in 16 bits, exactly, up to the largest
values."""

import pickle

import numpy as np
import pytest
import reference
from arrays import B_FORMS, SIGN_PAIRS, WITHOUT_VNNI, assert_first_products, assert_same

import int8blas

HERE = WITHOUT_VNNI
# Complete and incomplete tiles, one and several blocks of rows and of K, K in whole groups and not.
SHAPES = ((7, 48, 64), (24, 49, 301), (65, 100, 1030), (100, 130, 512), (200, 64, 1100))
# Ranges of values: the lowest, the highest, and an outlier in the middle of the matrix, or None.
RANGES = {
    "bools": (0, 1, None),
    "up to 2": (0, 2, None),
    "-2 to 2": (-2, 2, None),
    "up to 127": (0, 127, None),
    "-64 to 63": (-64, 63, None),
    "near the lowest": (-128, -120, None),
    "near 105": (100, 110, None),
    "up to 2 but for one": (0, 2, 255),
    "all": (-128, 255, None),
}
# Largest A', largest sum of a pair of B', and the multiply-add that is chosen: 32767 counts as fitting 16 bits, 32768
# does not.
EDGES = (
    (217, 151, "pairs"), (128, 256, "widened"), (127, 256, "pairs"), (255, 128, "pairs"), (255, 129, "widened"),
    (254, 129, "pairs"), (128, 128, "pairs"), (127, 129, "two groups"), (128, 129, "pairs"), (255, 22, "two groups"),
    (255, 21, "many groups"), (63, 256, "two groups"), (21, 256, "many groups"), (7, 31, "many groups"),
    (31, 7, "many groups"), (151, 7, "many groups"), (1, 256, "many groups"), (255, 1, "many groups"),
)  # fmt: skip


def values(rng, dtype, shape, name):
    """Values of a range, limited to the type."""
    low, high, large = RANGES[name]
    info = np.iinfo(dtype)
    if high < info.min:
        low, high = 0, high - low  # "near the lowest" for uint8
    low, high = max(low, info.min), min(high, info.max)
    x = rng.integers(low, max(high, low + 1), shape, dtype, endpoint=True)
    if large is not None:
        x[shape[0] // 2, shape[1] // 2] = min(large, info.max)
    return x


def ranges_of(dtype):
    """The names of the ranges that are distinct for a type."""
    return [name for name in RANGES if name != "-2 to 2" or dtype == np.int8]  # of uint8 "up to 2"


@pytest.mark.parametrize(
    ("pair", "a_range", "b_range"),
    [(pair, a, b) for pair in SIGN_PAIRS for a in ranges_of(pair.a_dtype) for b in ranges_of(pair.b_dtype)],
    ids=lambda value: getattr(value, "name", value),
)
def test_products_are_exact(isa, pair, a_range, b_range, rng):
    for m, n, k in SHAPES:
        a, b = values(rng, pair.a_dtype, (m, k), a_range), values(rng, pair.b_dtype, (k, n), b_range)
        expected = reference.gemm(1, a, b)
        for form in B_FORMS.values():
            for threads in (1, 3):
                with int8blas.num_threads(threads):
                    assert_same(int8blas.matmul(a, form(b)), expected, m=m, n=n, k=k, threads=threads)
        assert_same(int8blas.matmul(np.asfortranarray(a), b), expected, m=m, n=n, k=k)


@pytest.mark.parametrize(("a_range", "b_range"), [("up to 2", "up to 2"), ("-2 to 2", "all"), ("all", "bools")])
@pytest.mark.parametrize("form", B_FORMS)
def test_zero_points_and_the_rest_of_the_formula(isa, pair, a_range, b_range, form, rng):
    m, n, k = 100, 130, 1030
    a, b = values(rng, pair.a_dtype, (m, k), a_range), values(rng, pair.b_dtype, (k, n), b_range)
    a_low, b_low = np.iinfo(pair.a_dtype).min, np.iinfo(pair.b_dtype).min
    c = rng.integers(-1000, 1000, (m, n), np.int32)
    one = rng.integers
    for keywords in (
        {"ao": a_low, "bo": b_low + 255, "co": 7},
        {"ao": a_low + 255, "bo": b_low, "beta": 1.0},
        {"ao": 3, "beta": 0.5, "alpha": 0.25},
        {"bo": 1, "co": one(-9, 9, m), "offsetc": "C"},
        {"ao": one(a_low, a_low + 256, m), "co": one(-9, 9, n), "offsetc": "R"},
        {"bo": one(b_low, b_low + 256, n), "ao": 1},
    ):
        alpha = keywords.pop("alpha", 1)
        if "co" in keywords:
            keywords["co"] = np.int32(keywords["co"])
        given = {"c": c} if "beta" in keywords else {}
        expected = reference.gemm(alpha, a, b, **keywords, **given)
        given = {"c": c.copy()} if "beta" in keywords else {}
        assert_same(pair.gemm(alpha, a, B_FORMS[form](b), **keywords, **given), expected, keywords=keywords)


@pytest.mark.parametrize(("largest", "pair_sum", "_way"), EDGES)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_that_fit_16_bits(isa, largest, pair_sum, _way, sign):
    # Twice the number of groups whose sum fits 16 bits, so that all products of some sum have the largest value.
    groups = 2 * min(512, 32767 // min(largest * pair_sum, 32767))
    low, high = pair_sum // 2, pair_sum - pair_sum // 2
    if sign > 0 and high > 127:
        pytest.skip("two values of int8 are at most 254 together")
    for k in (4 * groups, 4 * groups + 1, 4 * groups + 6):
        a = np.full((36, k), largest, np.uint8)
        b = np.full((k, 64), sign * low, np.int8)
        b[::2] = sign * high
        a[5], b[:, 3] = 0, 0
        expected = reference.gemm(1, a, b)
        for form in B_FORMS.values():
            assert_same(int8blas.matmul(a, form(b)), expected, k=k)
        assert_same(int8blas.matmul(a[:, ::-1], b), reference.gemm(1, a[:, ::-1], b), k=k)
        if largest < 128:
            assert_same(int8blas.matmul(a.view(np.int8), b), expected, k=k)
            assert_same(int8blas.matmul(-a.view(np.int8), b), -expected, k=k)


@pytest.mark.parametrize("isa_without_vnni", HERE)
@pytest.mark.parametrize(("largest", "pair_sum", "way"), EDGES)
def test_explain_says_which_multiply_add_the_values_allow(isa_without_vnni, largest, pair_sum, way):
    a, b = np.zeros((200, 600), np.uint8), np.zeros((600, 160), np.int8)
    a[::7, 5] = largest
    b[::2], b[1::2] = -(pair_sum // 2), -(pair_sum - pair_sum // 2)
    with int8blas.use_isa(isa_without_vnni):
        plan = int8blas.explain(a, int8blas.pack_b(b))
        blocks = -(-200 // plan.block[0])
        assert plan.multiply_adds == {way: 10 * blocks}
        assert f"{10 * blocks} " in str(plan)
        assert int8blas.explain(a, int8blas.pack_b(b), numerics="saturating").multiply_adds is None
    with int8blas.use_isa("ref"):
        assert int8blas.explain(a, b).multiply_adds is None


@pytest.mark.parametrize("isa_without_vnni", HERE)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("packs", [False, True])
def test_a_large_value_costs_its_block_of_rows(isa_without_vnni, dtype, packs, rng):
    a = rng.integers(0, 3, (1000, 1024), dtype)
    b = rng.integers(-128, 128, (1024, 320), np.int8)
    b[:2] = -128
    form = int8blas.pack_b if packs else np.asarray
    a[700, 1000] = np.iinfo(dtype).max if dtype == np.uint8 else -128
    with int8blas.use_isa(isa_without_vnni):
        plan = int8blas.explain(a, form(b))
        blocks = -(-1000 // plan.block[0])
        assert blocks > 3
        assert plan.multiply_adds == {"widened": 20, "many groups": 20 * (blocks - 1)}
        assert_same(int8blas.matmul(a, form(b)), reference.gemm(1, a, b))


@pytest.mark.parametrize("isa_without_vnni", HERE)
@pytest.mark.parametrize("packs", [False, True])
def test_a_uint8_b_with_nothing_above_127_is_not_shifted(isa_without_vnni, packs, rng):
    a = rng.integers(0, 256, (200, 513), np.uint8)
    b = rng.integers(0, 3, (513, 150), np.uint8)
    form = int8blas.pack_b if packs else np.asarray
    with int8blas.use_isa(isa_without_vnni):
        plan = int8blas.explain(a, form(b))
        assert not plan.b_shifted
        assert list(plan.multiply_adds) == ["many groups"]
        b[-1, -1] = 128
        plan = int8blas.explain(a, form(b))
        assert plan.b_shifted
        assert list(plan.multiply_adds) == ["widened"]


def test_a_packed_matrix_is_the_same_after_its_products(isa, rng):
    for k, n in ((513, 150), (64, 48), (1027, 33)):
        a, b = rng.integers(0, 256, (40, k), np.uint8), rng.integers(0, 128, (k, n), np.uint8)
        packed = int8blas.pack_b(b)
        for same in (packed, pickle.loads(pickle.dumps(packed))):
            assert_same(int8blas.matmul(a, same), reference.gemm(1, a, b), k=k, n=n)
            assert_same(int8blas.gemm_u8u8s32(1, a, same, bo=255), reference.gemm(1, a, b, bo=255), k=k, n=n)
            with pytest.raises(ValueError, match="bo must be"):
                int8blas.gemm_u8u8s32(1, a, same, bo=-1)
            assert_same(same.unpack(), b)
            assert_same(same.column_sums, b.sum(axis=0, dtype=np.int64))
            assert same.data.min() == -128
            assert same == packed


def test_threads_may_use_a_matrix_for_the_first_time_together(isa, rng):
    assert_first_products(isa, rng.integers(0, 256, (64, 700), np.uint8), rng.integers(0, 2, (700, 400), np.uint8))


@pytest.mark.parametrize("layout", ["rows reversed", "every other column", "one row", "columns reversed"])
def test_a_with_other_strides(isa, pair, layout, rng):
    wide = values(rng, pair.a_dtype, (130, 600), "up to 2")
    wide[77, 140] = np.iinfo(pair.a_dtype).max
    a = {
        "rows reversed": wide[::-1],
        "every other column": wide[:, ::2],
        "one row": np.broadcast_to(wide[:1], wide.shape),
        "columns reversed": wide[:, ::-1],
    }[layout]
    b = values(rng, pair.b_dtype, (a.shape[1], 96), "all")
    for form in B_FORMS.values():
        assert_same(int8blas.matmul(a, form(b)), reference.gemm(1, a, b))


@pytest.mark.parametrize("form", B_FORMS)
def test_bools_sums_in_int64_and_a_long_k(isa, form, rng):
    a, b = rng.random((80, 300)) < 0.3, rng.random((300, 100)) < 0.3
    packed = B_FORMS[form](b.view(np.uint8))
    assert_same(int8blas.matmul(a, packed), a.astype(np.int32) @ b.astype(np.int32))
    assert_same(int8blas.matmul(a, packed, dtype=np.int64), a.astype(np.int64) @ b.astype(np.int64))
    a, b = rng.integers(-1, 2, (20, 70_000), np.int8), rng.integers(0, 2, (70_000, 64), np.uint8)
    assert_same(int8blas.matmul(a, B_FORMS[form](b)), reference.gemm(1, a, b))


# Values of a matrix that is multiplied by its transpose, and the sums they allow in 16 bits: two products of values up
# to 127, two groups of values up to 90, six groups of values up to 52.
SPREADS = (
    (0, 2, "many groups"), (0, 1, "many groups"), (-2, 2, "many groups"), (200, 252, "many groups"),
    (0, 53, "two groups"), (-45, 45, "two groups"), (0, 91, "pairs"), (-64, 63, "pairs"), (128, 255, "pairs"),
    (0, 128, "widened"), (-65, 63, "widened"), (7, 7, "many groups"), (0, 0, "many groups"),
    (-128, -128, "many groups"),
)  # fmt: skip


def spread(rng, low, high, shape):
    """Values from `low` to `high`, both included, in the type that holds them."""
    x = rng.integers(low, high + 1, shape)
    x.flat[[5, -5]] = low, high
    x[3] = high
    return x.astype(np.int8 if low < 0 else np.uint8)


@pytest.mark.parametrize(("low", "high", "_way"), SPREADS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_triangle_of_small_values_is_exact(isa, low, high, _way, order, rng):
    for n, k in ((64, 97), (97, 515), (70, 4200), (33, 1030)):
        a = np.asarray(spread(rng, low, high, (n, k)), order=order)
        wide = a.astype(np.float64)  # the sums are exact in float64 too
        syrk = int8blas.syrk_u8s32 if a.dtype == np.uint8 else int8blas.syrk_s8s32
        zeros = rng.integers(np.iinfo(a.dtype).min, np.iinfo(a.dtype).max, n, endpoint=True).astype(np.int32)
        for threads in (1, 3):
            with int8blas.num_threads(threads):
                for ao in (0, int(zeros[0]), zeros):
                    centred = wide - np.reshape(ao, (-1, 1))
                    expected = (centred @ centred.T).astype(np.int64)
                    assert_same(int8blas.matmul(a, a.T, ao=ao, bo=ao), expected.astype(np.int32), n=n, k=k)
                    assert_same(int8blas.matmul(a, a.T, ao=ao, bo=ao, dtype=np.int64), expected, n=n, k=k)
                    assert_same(syrk(1, a, ao=ao), np.triu(expected).astype(np.int32), n=n, k=k)


@pytest.mark.parametrize("isa_without_vnni", HERE)
@pytest.mark.parametrize(("low", "high", "way"), SPREADS)
def test_a_triangle_of_small_values_is_not_widened(isa_without_vnni, low, high, way, rng):
    a = spread(rng, low, high, (100, 515))
    with int8blas.use_isa(isa_without_vnni), int8blas.num_threads(1):
        plan = int8blas.explain(a, a.T)
    assert plan.path == "triangle"
    assert plan.may_widen == (way == "widened")
    assert plan.multiply_adds == (None if way == "widened" else {way: 7 * 8 // 2})
    assert ("but small values" in str(plan)) == (way != "widened")


def test_a_long_k_of_a_triangle_of_small_values(isa, rng):
    a = spread(rng, -2, 2, (70, 140_000))
    a[5] = 2
    wide = a.astype(np.float64)
    with int8blas.num_threads(1):
        for ao in (0, -128):
            expected = ((wide - ao) @ (wide - ao).T).astype(np.int64)
            assert_same(int8blas.matmul(a, a.T, ao=ao, bo=ao, dtype=np.int64), expected)


@pytest.mark.parametrize("lower", [False, True])
def test_the_rest_of_the_formula_of_a_triangle_of_small_values(isa, lower, rng):
    for low, high in ((-2, 2), (200, 252)):
        a, c = spread(rng, low, high, (50, 130)), rng.integers(-999, 999, (50, 50), np.int32)
        syrk = int8blas.syrk_u8s32 if a.dtype == np.uint8 else int8blas.syrk_s8s32
        for ao in (0, 3, rng.integers(0, 99, 50, np.int32)):
            expected = reference.syrk(-0.5, a, 1, c, lower=lower, ao=ao)
            assert_same(syrk(-0.5, a, 1, c, lower=lower, ao=ao), expected)
