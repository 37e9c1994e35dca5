"""numerics="saturating": the arithmetic of VPMADDUBSW on every instruction set; would_saturate."""

import numpy as np
import pytest
import reference
from arrays import B_FORMS, assert_same
from shapes import FEW, SMALL_GRID

import int8blas


@pytest.mark.parametrize("form", B_FORMS)
@pytest.mark.parametrize(("gemm", "dtype", "value", "saturating", "exact"), [
    ("gemm_u8s8s32", np.uint8, 255, 32767, 64770),
    ("gemm_s8s8s32", np.int8, 127, 255, 32258),
])  # fmt: skip
def test_the_examples_of_the_document(isa, form, gemm, dtype, value, saturating, exact):
    gemm = getattr(int8blas, gemm)
    a = np.array([[value, value, 0, 0]], dtype)
    b = B_FORMS[form](np.array([[127], [127], [0], [0]], np.int8))
    assert gemm(1.0, a, b, numerics="saturating").item() == saturating
    assert gemm(1.0, a, b).item() == exact
    assert int8blas.matmul(a, b, numerics="saturating").item() == saturating
    assert int8blas.matmul(a, b).item() == exact
    assert int8blas.would_saturate(a, b).where.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("form", B_FORMS)
@pytest.mark.parametrize("kind", ["full", "extreme"])
def test_every_shape_is_the_same_on_every_isa(isa, pair, form, kind, rng):
    for m, n, k in SMALL_GRID:
        a, b = pair.operands(rng, m, n, k, kind)
        expected = reference.gemm(1, a, b, numerics="saturating")
        assert_same(pair.gemm(1, a, B_FORMS[form](b), numerics="saturating"), expected, m=m, n=n, k=k)


@pytest.mark.parametrize("form", B_FORMS)
def test_values_that_cannot_saturate_give_the_exact_result(isa, form, rng):
    for m, n, k in SMALL_GRID:
        a = rng.integers(0, 255, (m, k), np.uint8, endpoint=True)
        b = rng.integers(-64, 64, (k, n), np.int8, endpoint=True)
        assert not int8blas.would_saturate(a, b)
        assert_same(int8blas.gemm_u8s8s32(1, a, B_FORMS[form](b), numerics="saturating"), reference.gemm(1, a, b))


# Ranges from oneDNN's documentation: ranges in which nothing can saturate, and ranges for which the documentation
# warns.
@pytest.mark.parametrize(("name", "a", "b", "saturates"), [
    ("u8, s8", (0, 255), (-128, 127), True),
    ("u7, s8", (0, 127), (-128, 127), False),
    ("u8, s7", (0, 255), (-64, 63), False),
    ("s8, s8", (-128, 127), (-128, 127), True),
    ("s8, s7", (-128, 127), (-64, 63), False),
    ("s7, s8", (-64, 63), (-128, 127), True),
    ("negative s8, s8", (-128, -1), (-128, 127), False),
])  # fmt: skip
def test_the_ranges_of_the_document(isa, name, a, b, saturates, rng):
    gemm, dtype = (int8blas.gemm_u8s8s32, np.uint8) if name[0] == "u" else (int8blas.gemm_s8s8s32, np.int8)
    # All combinations of extreme values, in separate rows and columns, with random values between them.
    ends_a, ends_b = np.array(np.meshgrid(a, a, a, a)).reshape(4, -1), np.array(np.meshgrid(b, b, b, b)).reshape(4, -1)
    x = np.vstack([ends_a.T, rng.integers(*a, (20, 4), endpoint=True)]).astype(dtype)
    y = np.hstack([ends_b, rng.integers(*b, (4, 20), endpoint=True)]).astype(np.int8)
    assert bool(int8blas.would_saturate(x, y)) is saturates
    assert np.array_equal(gemm(1, x, y, numerics="saturating"), gemm(1, x, y)) is not saturates


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_transposition_does_not_change_the_pairs(isa, pair, trans_a, trans_b, rng):
    for m, n, k in FEW:
        a, b = pair.operands(rng, m, n, k, "extreme")
        expected = reference.gemm(1, a, b, numerics="saturating")
        a, b = (np.ascontiguousarray(a.T) if trans_a else a), (np.ascontiguousarray(b.T) if trans_b else b)
        result = pair.gemm(1, a, b, trans_a=trans_a, trans_b=trans_b, numerics="saturating")
        assert_same(result, expected, m=m, n=n, k=k)


def test_pairs_are_the_same_across_blocks_and_threads(isa, pair, rng):
    a, b = pair.operands(rng, 37, 70, 2051, "extreme")
    expected = reference.gemm(1, a, b, numerics="saturating")
    for threads in (1, 2, 3, 4):
        with int8blas.num_threads(threads):
            assert_same(pair.gemm(1, a, b, numerics="saturating"), expected, threads=threads)


def test_sums_beyond_int32(isa, pair):
    k = 2**17 + 3  # 2^16 sums of pairs of 2^15 - 1 stay below 2^31; one more does not
    a = np.full((1, k), np.iinfo(pair.a_dtype).max, pair.a_dtype)
    b = np.full((k, 2), np.iinfo(pair.b_dtype).max, pair.b_dtype)
    b[:, 1] = np.iinfo(pair.b_dtype).min
    assert_same(pair.gemm(1, a, b, numerics="saturating"), reference.gemm(1, a, b, numerics="saturating"))


# --- would_saturate --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "extreme", "small"])
@pytest.mark.parametrize("form", B_FORMS)
def test_would_saturate_finds_every_pair(isa, pair, form, kind, rng):
    for m, n, k in SMALL_GRID:
        a, b = pair.operands(rng, m, n, k, kind)
        expected = reference.saturated_pairs(a, b)
        report = int8blas.would_saturate(a, B_FORMS[form](b), limit=m * n * k)
        assert report.count == len(expected)
        assert bool(report) is (len(expected) > 0)
        assert_same(report.where, expected, m=m, n=n, k=k)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_would_saturate_transposes(isa, pair, trans_a, trans_b, rng):
    a, b = pair.operands(rng, 7, 7, 7)
    expected = reference.saturated_pairs(a, b, trans_a, trans_b)
    assert_same(int8blas.would_saturate(a, b, trans_a=trans_a, trans_b=trans_b).where, expected)


def test_would_saturate_lists_no_more_than_the_limit(isa):
    a, b = np.full((20, 40), 255, np.uint8), np.full((40, 30), 127, np.int8)
    everything = reference.saturated_pairs(a, b)
    assert len(everything) == 20 * 30 * 20
    for limit in (0, 1, 77, 1000, len(everything) + 1):
        report = int8blas.would_saturate(a, b, limit=limit)
        assert report.count == len(everything)
        assert_same(report.where, everything[:limit], limit=limit)
    assert len(int8blas.would_saturate(a, b).where) == 1000


def test_would_saturate_tells_where_the_two_modes_differ(isa, pair, rng):
    a, b = pair.operands(rng, 9, 33, 2)
    differ = pair.gemm(1, a, b) != pair.gemm(1, a, b, numerics="saturating")
    assert 0 < differ.sum() < differ.size
    assert_same(int8blas.would_saturate(a, b).where[:, :2], np.argwhere(differ))
