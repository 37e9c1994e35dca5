"""Values at the ends of their ranges, and sums beyond int32."""

from itertools import product

import numpy as np
import pytest
import reference
from arrays import B_FORMS, assert_same
from reference import INT32_MAX, INT32_MIN
from shapes import FEW

import int8blas

# The smallest K for which a sum of products 255 * 128 overflows s32, and u32.
WRAPS_S32, WRAPS_U32 = 2**31 // (255 * 128) + 1, 2**32 // (255 * 128) + 1
LONG = (WRAPS_S32 - 1, WRAPS_S32, WRAPS_S32 + 1, 2**17 + 2, WRAPS_U32 + 5)


def patterns(dtype, count):
    """Vectors of `count` extreme values: constant, alternating with periods of 1 to 4 equal elements, and with opposite
    halves."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    yield "low", np.full(count, low, dtype)
    yield "high", np.full(count, high, dtype)
    for period in (1, 2, 3, 4):
        yield f"alternating by {period}", np.where(np.arange(count) // period % 2, low, high).astype(dtype)
    yield "high, then low", np.where(np.arange(count) < count // 2, high, low).astype(dtype)


@pytest.mark.parametrize("form", B_FORMS)
def test_extreme_patterns(isa, pair, form):
    for m, n, k in FEW:
        for (a_name, a), (b_name, b) in product(patterns(pair.a_dtype, k), patterns(pair.b_dtype, k)):
            a, b = np.tile(a, (m, 1)), np.tile(b[:, np.newaxis], (1, n))
            expected = reference.gemm(1, a, b)
            assert_same(pair.gemm(1, a, B_FORMS[form](b)), expected, a=a_name, b=b_name, m=m, n=n, k=k)


@pytest.mark.parametrize("form", B_FORMS)
def test_extreme_patterns_of_few_rows_or_columns(isa, pair, form):
    """Some kernels first add products in s16, up to the number of products that cannot overflow."""
    for m, n, k in ((1, 70, 531), (2, 65, 260), (300, 1, 600), (70, 3, 531), (90, 8, 1030), (3, 40, 600)):
        for (a_name, a), (b_name, b) in product(patterns(pair.a_dtype, k), patterns(pair.b_dtype, k)):
            a, b = np.tile(a, (m, 1)), np.tile(b[:, np.newaxis], (1, n))
            expected = np.broadcast_to(reference.gemm(1, a[:1], b[:, :1]), (m, n))
            assert_same(pair.gemm(1, a, B_FORMS[form](b)), expected, a=a_name, b=b_name, m=m, n=n, k=k)


@pytest.mark.parametrize("pair_values", [
    (64, 64), (64, 65), (65, 64), (127, 1), (127, 2), (1, 127), (2, 127), (-64, -64), (-64, -65), (-128, 0), (-128, -1),
    (0, -128), (-1, -128), (-128, 127), (127, -128), (127, 127), (-128, -128),
])  # fmt: skip
@pytest.mark.parametrize("form", B_FORMS)
def test_around_the_boundary_of_the_no_saturation_proof(isa, form, pair_values):
    for n, k, column, row in product((1, 17, 48), (2, 3, 4, 34), (0, -1), (0, 2, -2)):
        if row + 1 >= k or -row > k:
            continue
        b = np.zeros((k, n), np.int8)
        b[row, column], b[row + 1, column] = pair_values
        a = np.stack([np.full(k, 255), np.arange(k) % 2 * 255, np.arange(1, k + 1) % 2 * 255]).astype(np.uint8)
        for numerics in ("exact", "saturating"):
            expected = reference.gemm(1, a, b, numerics=numerics)
            result = int8blas.gemm_u8s8s32(1, a, B_FORMS[form](b), numerics=numerics)
            assert_same(result, expected, numerics=numerics, n=n, k=k, row=row, column=column)


def test_only_one_panel_of_several_has_no_proof(isa, rng):
    for wild in range(0, 80, 7):
        b = rng.integers(-64, 64, (70, 80), np.int8)
        b[:, wild] = rng.choice(np.array([-128, 127], np.int8), 70)
        a = rng.integers(200, 256, (19, 70), np.uint8)
        for form in B_FORMS.values():
            for numerics in ("exact", "saturating"):
                expected = reference.gemm(1, a, b, numerics=numerics)
                assert_same(int8blas.gemm_u8s8s32(1, a, form(b), numerics=numerics), expected, wild=wild)


@pytest.mark.parametrize("distance", [1, 4, 8, 16])
@pytest.mark.parametrize("rows", [12, 14, 29])
def test_the_largest_products_that_meet_in_16_bits(isa, rows, distance):
    """The sum of two products of s8 values only overflows s16 if both are -128 * -128. Such pairs are placed in one
    panel, column and block of K; the sizes give tiles with enough rows and panels."""
    n, k = 80, 83
    a = np.zeros((rows, k), np.uint8)  # acts as -128 in kernels that subtract 128 from A
    for column, at in ((0, 0), (33, 5), (79, 66)):
        b = np.full((k, n), 127, np.int8)
        b[[at, at + distance], column] = -128
        for form in B_FORMS.values():
            assert_same(int8blas.gemm_u8s8s32(1, a, form(b)), np.zeros((rows, n), np.int32), at=at, column=column)
            least = np.full((rows, k), -128, np.int8)
            assert_same(int8blas.gemm_s8s8s32(1, least, form(b)), reference.gemm(1, least, b), at=at, column=column)


# --- sums beyond int32 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", LONG)
@pytest.mark.parametrize("form", B_FORMS)
def test_sums_beyond_int32(isa, pair, form, k):
    a = np.array([row for _, row in patterns(pair.a_dtype, k)])
    b = np.array([column for _, column in patterns(pair.b_dtype, k)]).T
    assert_same(pair.gemm(1, a, B_FORMS[form](b)), reference.gemm(1, a, b), k=k)


def test_sums_beyond_int32_that_c_offsets_and_zero_points_bring_back(isa, pair):
    k = LONG[-1]
    a = np.array([row for _, row in patterns(pair.a_dtype, k)])[:4]
    b = np.array([column for _, column in patterns(pair.b_dtype, k)]).T[:, :4]
    c = np.array([[INT32_MIN], [INT32_MAX], [INT32_MIN], [INT32_MAX]]) * np.ones((4, 4))
    for beta, co, (ao, bo) in product((0, 1), (INT32_MIN, INT32_MAX), ((0, 0), (a[1, 0], 0), (0, b[0, 1]), (3, 4))):
        arguments = {"beta": beta, "c": c.astype(np.int32), "co": co, "ao": ao, "bo": bo}
        assert_same(pair.gemm(1, a, b, **arguments), reference.gemm(1, a, b, **arguments), **arguments)


def test_a_sum_beyond_int32_is_scaled_before_it_saturates(isa, pair):
    k = LONG[-1]
    a = np.full((2, k), np.iinfo(pair.a_dtype).max, pair.a_dtype)
    b = np.full((k, 3), np.iinfo(pair.b_dtype).max, pair.b_dtype)
    assert_same(pair.gemm(0.001, a, b), reference.gemm(0.001, a, b))


def test_accumulation_does_not_wrap_on_many_threads(isa):
    k = LONG[-1]
    a, b = np.full((20, k), 255, np.uint8), np.full((k, 50), -128, np.int8)
    b[:, ::2] = 127
    with int8blas.num_threads(4):
        assert_same(int8blas.gemm_u8s8s32(1, a, b), np.tile(np.array([INT32_MAX, INT32_MIN], np.int32), (20, 25)))
