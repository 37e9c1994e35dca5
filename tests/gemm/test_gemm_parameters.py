"""alpha, beta, c, offsets, zero points and flags, in the convention of scipy.linalg.blas."""

import inspect
import re
import warnings
from itertools import product

import numpy as np
import pytest
import reference
import scipy.linalg.blas
from arrays import B_FORMS, assert_same, random_c
from reference import INT32_MAX, INT32_MIN
from shapes import FEW, SMALL_GRID

import int8blas

ALPHAS_AND_BETAS = [
    (1, 0), (1.0, 1.0), (0, 0), (0, 1), (0.0, -3.25), (-1, 0), (2, 1), (0.5, 0.5), (1, -1),
    (0.1, 0.3), (1 / 3, -1e-3), (1e-300, 1), (-7.75, 0), (1e300, 0), (3.0e5, 1),
]  # fmt: skip


def random_offsets(rng, offsetc, m, n):
    """Return the values of co for `offsetc`. Some are large."""
    shape = {"F": (), "C": m, "R": n}[offsetc.upper()]
    return rng.integers(INT32_MIN, INT32_MAX, shape, endpoint=True) >> rng.integers(0, 31, shape)


def random_zero_points(rng, dtype, shape):
    """Values over the whole range of dtype; shape () is one value."""
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True)


# --- the calling convention ------------------------------------------------------------------------------------------


def test_the_positional_arguments_are_those_of_scipy(pair):
    required, optional = re.search(r"sgemm\((.*),\[(.*)\]\)", scipy.linalg.blas.sgemm.__doc__).groups()
    parameters = inspect.signature(pair.gemm).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional if p.default is p.empty] == required.split(",")
    assert [p.name for p in positional if p.default is not p.empty] == optional.split(",")
    keyword_only = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert keyword_only == {"offsetc": "F", "ao": 0, "bo": 0, "co": 0, "numerics": "exact"}


def both(pair, rng, alpha, beta, order, trans_a, trans_b, overwrite_c):
    """Make the same call to our function and to sgemm, with values exact in float32; return (result, c) of each."""
    m, n, k = 5, 3, 4
    a = rng.integers(0, 9, (k, m) if trans_a else (m, k)).astype(pair.a_dtype)
    b = rng.integers(0, 9, (n, k) if trans_b else (k, n)).astype(pair.b_dtype)
    c = rng.integers(-99, 99, (m, n))
    ours, theirs = np.array(c, np.int32, order=order), np.array(c, np.float32, order=order)
    result = pair.gemm(alpha, a, b, beta, ours, trans_a, trans_b, overwrite_c)
    wanted = scipy.linalg.blas.sgemm(
        alpha, a.astype(np.float32), b.astype(np.float32), beta, theirs, trans_a, trans_b, overwrite_c
    )
    return (result, ours), (wanted, theirs)


@pytest.mark.parametrize("trans_a", [0, 1, 2])
@pytest.mark.parametrize("trans_b", [0, 1, 2])
def test_flags_and_order_of_arguments_mean_what_they_mean_in_scipy(isa, pair, trans_a, trans_b, rng):
    (result, _), (wanted, _) = both(pair, rng, 2.0, 3.0, "F", trans_a, trans_b, 0)
    assert_same(result, wanted.astype(np.int32))


def test_overwriting_and_copying_c_are_as_in_scipy(isa, pair, rng):
    (result, c), (wanted, wanted_c) = both(pair, rng, 1.0, 1.0, "F", 0, 0, 1)
    assert result is c
    assert wanted is wanted_c
    (result, c), (wanted, wanted_c) = both(pair, rng, 1.0, 1.0, "F", 0, 0, 0)
    assert not np.shares_memory(result, c)
    assert not np.shares_memory(wanted, wanted_c)
    assert_same(c, wanted_c.astype(np.int32))
    assert result.flags.f_contiguous
    assert wanted.flags.f_contiguous


def test_without_c_it_counts_as_zeros_as_in_scipy(isa, pair, rng):
    a, b = pair.operands(rng, 5, 3, 4)
    assert_same(pair.gemm(1.0, a, b, 1.0), reference.gemm(1.0, a, b))
    assert_same(pair.gemm(0.5, a, b, beta=2.0), reference.gemm(0.5, a, b))


def test_a_new_result_is_c_ordered(isa, pair, rng):
    a, b = pair.operands(rng, 5, 3, 4)
    for operands in (a, b), (np.asfortranarray(a), np.asfortranarray(b)):
        assert pair.gemm(1.0, *operands).flags.c_contiguous


def test_keywords_equal_positions(isa, pair, rng):
    a, b = pair.operands(rng, 4, 4, 4)
    c = random_c(rng, (4, 4))
    assert_same(
        pair.gemm(alpha=1, a=a, b=b, beta=1, c=c, trans_a=True, trans_b=True, overwrite_c=False),
        pair.gemm(1, a, b, 1, c, True, True, False),
    )


@pytest.mark.parametrize("flags", list(product([False, True, 0, 1, 2, np.True_, np.int64(2)], repeat=2)))
def test_transposition_flags(isa, pair, flags, rng):
    for m, n, k in FEW:
        a, b = pair.operands(rng, m, n, k)
        a, b = (a.T if flags[0] else a), (b.T if flags[1] else b)
        expected = reference.gemm(1.0, a, b, trans_a=flags[0], trans_b=flags[1])
        assert_same(pair.gemm(1.0, a, b, trans_a=flags[0], trans_b=flags[1]), expected, m=m, n=n, k=k)


def test_operands_are_anything_that_numpy_makes_an_array_of(isa):
    a, b = np.array([[1, 2]], np.uint8), np.array([[3], [-4]], np.int8)
    assert_same(int8blas.gemm_u8s8s32(1.0, memoryview(a), memoryview(b)), np.array([[-5]], np.int32))


# --- alpha and beta --------------------------------------------------------------------------------------------------


def uniform_gemm(alpha, acc, beta, c, co):
    """The value that all elements have if every sum is acc and C is c; in both orders of C, larger than a tile."""
    high, low = divmod(abs(acc), 127)
    a = np.tile(np.array([127, 1], np.int8), (17, 1))
    b = np.tile(np.sign(acc) * np.array([[high], [low]]), (1, 53)).astype(np.int8)
    values = set()
    for order in "CF":
        full = np.full((len(a), b.shape[1]), c, np.int32, order=order)
        values |= set(int8blas.gemm_s8s8s32(alpha, a, b, beta, full, co=co).flat)
    assert len(values) == 1
    return values.pop()


@pytest.mark.parametrize(("alpha", "beta"), ALPHAS_AND_BETAS)
@pytest.mark.parametrize("numerics", ["exact", "saturating"])
def test_alpha_and_beta(isa, pair, alpha, beta, numerics, rng):
    for m, n, k in FEW:
        a, b = pair.operands(rng, m, n, k)
        c, co = random_c(rng, (m, n)), int(rng.integers(-(2**20), 2**20))
        expected = reference.gemm(alpha, a, b, beta, c, co=co, numerics=numerics)
        assert_same(pair.gemm(alpha, a, b, beta, c, co=co, numerics=numerics), expected, m=m, n=n, k=k)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("alpha", [1.0, 0.37, 3e5])
def test_columns_that_do_not_fill_a_vector(isa, pair, alpha, beta, rng):
    """Rows of a C without gaps may be computed together. Some results saturate."""
    for m, n, k, gap in product((1, 70), (1, 2, 3, 7, 15, 16, 17, 47), (1, 9), (0, 3)):
        a, b = pair.operands(rng, m, n, k)
        c = rng.integers(-(2**31), 2**31, (m, n + gap), np.int32)[:, :n]
        expected = reference.gemm(alpha, a, b, beta, c)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert_same(pair.gemm(alpha, a, b, beta, c, overwrite_c=True), expected, m=m, n=n, k=k)


@pytest.mark.parametrize(("alpha", "acc", "beta", "c", "co", "expected"), [
    (0.5, 1, 0, 0, 0, 0), (0.5, 3, 0, 0, 0, 2), (0.5, 5, 0, 0, 0, 2), (0.5, 7, 0, 0, 0, 4),
    (0.5, -1, 0, 0, 0, 0), (0.5, -3, 0, 0, 0, -2), (0.5, -5, 0, 0, 0, -2),
    (0.5, 1, 0.5, 2, -1, 0), (0.5, 1, 0.5, 2, 0, 2), (0.25, 3, 0, 0, 0, 1),
])  # fmt: skip
def test_halves_are_rounded_to_even(isa, alpha, acc, beta, c, co, expected):
    assert uniform_gemm(alpha, acc, beta, c, co) == expected


# 0.1 is a little more than 1/10, so 0.1 * 10005 rounds to 1000.5 from above; a fused multiply-add would not round.
@pytest.mark.parametrize(("alpha", "acc", "beta", "c", "expected"), [
    (0.1, 10005, 1, -1000, 0),
    (-1, 1000, 0.1, 10005, 0),
])  # fmt: skip
def test_products_are_rounded_before_they_are_added(isa, alpha, acc, beta, c, expected):
    assert uniform_gemm(alpha, acc, beta, c, 0) == expected


def test_terms_are_added_in_the_order_of_the_formula(isa):
    assert uniform_gemm(2.0**54, 1, -(2.0**54), 1, 1) == 1  # (2^54 - 2^54) + 1; 1 is lost in 2^54 + (-2^54 + 1)


def test_double_precision_saturates_at_both_ends(isa):
    assert uniform_gemm(1e300, 100, 0, 0, 0) == INT32_MAX
    assert uniform_gemm(-1e300, 100, 0, 0, 0) == INT32_MIN
    assert uniform_gemm(0.5, 2, 0.5, INT32_MAX, INT32_MAX) == INT32_MAX
    assert uniform_gemm(0.5, 2, 1.0, INT32_MIN, INT32_MIN) == INT32_MIN
    assert uniform_gemm(0.5, 0, 1.0, INT32_MAX, 0) == INT32_MAX
    assert uniform_gemm(0.5, 0, 1.0, INT32_MIN, 0) == INT32_MIN


@pytest.mark.parametrize(("acc", "c", "co", "expected"), [
    (100, INT32_MAX, -100, INT32_MAX), (100, INT32_MAX, -101, INT32_MAX - 1), (100, INT32_MAX, 0, INT32_MAX),
    (-100, INT32_MIN, 100, INT32_MIN), (-100, INT32_MIN, 101, INT32_MIN + 1), (-100, INT32_MIN, 0, INT32_MIN),
    (1, INT32_MAX, INT32_MAX, INT32_MAX), (-1, INT32_MIN, INT32_MIN, INT32_MIN), (0, INT32_MAX, INT32_MIN, -1),
])  # fmt: skip
def test_integers_saturate_once_after_everything_is_added(isa, acc, c, co, expected):
    assert uniform_gemm(1, acc, 1, c, co) == expected


def test_c_is_not_looked_at_when_beta_is_zero(isa, pair, rng):
    for alpha, (m, n, k) in product((1.0, 0.37), FEW):
        a, b = pair.operands(rng, m, n, k)
        results = [
            pair.gemm(alpha, a, b, 0.0, np.full((m, n), fill, np.int32), overwrite_c=True)
            for fill in (INT32_MIN, -1, 0, 0x7FC00000, INT32_MAX)
        ]
        for result in results:
            assert_same(result, reference.gemm(alpha, a, b), alpha=alpha, m=m, n=n, k=k)


@pytest.mark.parametrize("numerics", ["exact", "saturating"])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (0.5, 2.5)])
def test_an_empty_sum_leaves_beta_c_plus_co(isa, pair, alpha, beta, numerics, rng):
    for m, n in product((0, 1, 3, 17), repeat=2):
        a, b = pair.operands(rng, m, n, 0)
        c = np.full((m, n), 10, np.int32)
        expected = np.full((m, n), beta * 10 + 7, np.int32)
        for form in B_FORMS.values():
            assert_same(pair.gemm(alpha, a, form(b), beta, c, co=7, ao=3, bo=5, numerics=numerics), expected, m=m, n=n)


@pytest.mark.parametrize("number", [np.float32(1), np.float64(1), np.int32(1), True, np.array(1.0)], ids=repr)
def test_any_real_number_can_be_alpha_and_beta(isa, number, rng):
    a, b = np.ones((2, 3), np.uint8), np.ones((3, 2), np.int8)
    c = np.ones((2, 2), np.int32)
    assert_same(int8blas.gemm_u8s8s32(number, a, b, number, c), np.full((2, 2), 4, np.int32))


# --- c ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("overwrite_c", [False, True, 0, 1])
def test_c_is_copied_or_overwritten_in_its_own_order(isa, pair, order, overwrite_c, rng):
    for beta, (m, n, k) in product((0, 1, 0.5), FEW):
        a, b = pair.operands(rng, m, n, k)
        values = random_c(rng, (m, n))
        c = np.array(values, order=order)
        result = pair.gemm(1, a, b, beta, c, overwrite_c=overwrite_c)
        assert_same(result, reference.gemm(1, a, b, beta, values), beta=beta, m=m, n=n, k=k)
        assert result.flags[f"{order}_CONTIGUOUS"]
        if overwrite_c:
            assert result is c
        else:
            assert not np.shares_memory(result, c)
            assert_same(c, values)


def test_a_read_only_or_broadcast_c_can_be_copied(isa, pair, rng):
    a, b = pair.operands(rng, 4, 5, 6)
    c = np.broadcast_to(np.arange(5, dtype=np.int32), (4, 5))
    assert_same(pair.gemm(1, a, b, 1, c), reference.gemm(1, a, b, 1, c))


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (0.5, 0.5)])
@pytest.mark.parametrize("overlaps", ["a", "b"])
def test_c_may_overlap_an_operand(isa, pair, overlaps, alpha, beta, rng):
    for n in (1, 8, 33):
        c = random_c(rng, (n, n))
        a, b = pair.operands(rng, n, n, n)
        shared = c.view(np.uint8).reshape(-1)[3 : 3 + n * n].reshape(n, n)
        if overlaps == "a":
            a = shared.view(pair.a_dtype)
        else:
            b = shared.view(pair.b_dtype)
        expected = reference.gemm(alpha, a.copy(), b.copy(), beta, c.copy())
        assert pair.gemm(alpha, a, b, beta, c, overwrite_c=True) is c
        assert_same(c, expected, n=n)


# --- offsets and zero points -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("offsetc", ["F", "C", "R", "f", "c", "r"])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (-0.3, 0.7)])
def test_offsets_of_c(isa, pair, offsetc, alpha, beta, rng):
    for m, n, k in FEW:
        a, b = pair.operands(rng, m, n, k)
        c, co = random_c(rng, (m, n)), random_offsets(rng, offsetc, m, n)
        expected = reference.gemm(alpha, a, b, beta, c, offsetc=offsetc, co=co)
        assert_same(pair.gemm(alpha, a, b, beta, c, offsetc=offsetc, co=co), expected, m=m, n=n, k=k)


@pytest.mark.parametrize("form", B_FORMS)
@pytest.mark.parametrize("numerics", ["exact", "saturating"])
@pytest.mark.parametrize("ao_per_row", [False, True])
@pytest.mark.parametrize("bo_per_column", [False, True])
def test_zero_points(isa, pair, form, numerics, ao_per_row, bo_per_column, rng):
    for m, n, k in (*FEW, (0, 3, 2), (3, 0, 2), (3, 4, 0)):
        a, b = pair.operands(rng, m, n, k)
        ao = random_zero_points(rng, pair.a_dtype, (m,) if ao_per_row else ())
        bo = random_zero_points(rng, pair.b_dtype, (n,) if bo_per_column else ())
        expected = reference.gemm(1, a, b, ao=ao, bo=bo, numerics=numerics)
        assert_same(pair.gemm(1, a, B_FORMS[form](b), ao=ao, bo=bo, numerics=numerics), expected, m=m, n=n, k=k)


def test_zero_points_at_the_ends_of_their_ranges(isa, pair, rng):
    a_ends, b_ends = ((np.iinfo(dtype).min, np.iinfo(dtype).max) for dtype in pair[1:])
    for (ao, bo), (m, n, k) in product(product(a_ends, b_ends), FEW):
        a, b = pair.operands(rng, m, n, k, "extreme")
        assert_same(
            pair.gemm(1, a, b, ao=ao, bo=bo), reference.gemm(1, a, b, ao=ao, bo=bo), ao=ao, bo=bo, m=m, n=n, k=k
        )


@pytest.mark.parametrize(
    "container", [list, tuple, np.array, lambda x: np.array(x, np.int8), lambda x: np.array(x)[::-1]]
)
def test_vectors_of_offsets_and_zero_points_come_in_any_form(isa, container):
    a, b = np.ones((2, 2), np.int8), np.ones((2, 2), np.int8)
    vector = container([3, -4])
    for arguments in ({"ao": vector}, {"bo": vector}, {"co": vector, "offsetc": "C"}, {"co": vector, "offsetc": "R"}):
        assert_same(int8blas.gemm_s8s8s32(1, a, b, **arguments), reference.gemm(1, a, b, **arguments), **arguments)


@pytest.mark.parametrize("scalar", [5, np.int8(5), np.uint64(5), np.array(5)], ids=repr)
def test_scalar_offsets_and_zero_points_come_in_any_integer_type(isa, scalar):
    a, b = np.ones((2, 3), np.int8), np.ones((3, 4), np.int8)
    expected = np.full((2, 4), (1 - 5) * (1 - 5) * 3 + 5, np.int32)
    assert_same(int8blas.gemm_s8s8s32(1, a, b, ao=scalar, bo=scalar, co=scalar), expected)


def test_everything_together(isa, pair, rng):
    for m, n, k in SMALL_GRID:
        numerics, offsetc = rng.choice(["exact", "saturating"]), rng.choice(list("FCR"))
        alpha, beta = ALPHAS_AND_BETAS[rng.integers(len(ALPHAS_AND_BETAS))]
        a, b = pair.operands(rng, m, n, k)
        c, co = random_c(rng, (m, n)), random_offsets(rng, offsetc, m, n)
        ao, bo = random_zero_points(rng, pair.a_dtype, (m,)), random_zero_points(rng, pair.b_dtype, (n,))
        keywords = {"offsetc": offsetc, "ao": ao, "bo": bo, "co": co, "numerics": numerics}
        expected = reference.gemm(alpha, a, b, beta, c, **keywords)
        form = B_FORMS[rng.choice(list(B_FORMS))]
        assert_same(pair.gemm(alpha, a, form(b), beta, c, **keywords), expected, alpha=alpha, beta=beta, m=m, n=n, k=k)


def test_vectors_in_the_memory_of_c(isa, pair, rng):
    for m, n, k in ((5, 18, 7), (40, 70, 33), (1, 64, 100), (130, 49, 300), (300, 2, 65), (200, 200, 3)):
        a, b = pair.operands(rng, m, n, k)
        vectors = {"offsetc": "R", "co": "row"}, {"offsetc": "C", "co": "column"}, {"ao": "column"}, {"bo": "row"}
        for options in vectors:
            for alpha, beta in ((1, 0), (1, 1), (0.5, 0.5)):
                c = rng.integers(0, 100, (m, n), np.int32)
                views = {"row": c[m // 2], "column": c[:, n // 2]}
                copies = {name: view.copy() for name, view in views.items()}
                given, kept = (
                    {key: values.get(value, value) for key, value in options.items()} for values in (views, copies)
                )
                expected = reference.gemm(alpha, a, b, beta, c, **kept)
                pair.gemm(alpha, a, b, beta, c, overwrite_c=True, **given)
                assert_same(c, expected, m=m, n=n, k=k, options=list(options), alpha=alpha)
