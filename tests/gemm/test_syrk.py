"""Products of a matrix and its transpose: one triangle (syrk_u8s32, syrk_s8s32), or both triangles by the path
"triangle"."""

import ctypes
import inspect
import mmap
import re
import warnings
from itertools import product

import numpy as np
import pytest
import reference
import scipy.linalg.blas
from arrays import (
    BROADCASTS,
    LAYOUTS,
    WITH_MATRIX_UNIT,
    WITHOUT_VNNI,
    Canary,
    assert_same,
    guarded,
    needs_mprotect,
    place,
    random_c,
    random_values,
)
from reference import INT32_MAX, INT32_MIN

import int8blas

FUNCTIONS = {np.uint8: int8blas.syrk_u8s32, np.int8: int8blas.syrk_s8s32}
# Rows around panels and tiles, and K around groups and blocks.
SIDES = (0, 1, 2, 5, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 97, 130)
DEPTHS = (0, 1, 3, 4, 5, 64, 130, 515, 1023, 1025, 2100)
SHAPES = tuple(zip(SIDES, (DEPTHS * 2)[3 : 3 + len(SIDES)], strict=True)) + tuple(
    zip(SIDES, (DEPTHS * 3)[8 : 8 + len(SIDES)], strict=True)
)
# Sizes for a whole C: larger than the paths tiny, few_columns and small_k take, and with incomplete panels.
WHOLE = ((64, 300), (97, 515), (130, 1030), (160, 97), (300, 257), (515, 128), (97, 4200))
MIRRORED_MATRIX_K = 4096  # from this K on, the matrix unit computes the other half more slowly than it can be mirrored
TRIANGLES = (False, True)
PARAMETERS = (
    {},
    {"ao": 5},
    {"beta": 1},
    {"alpha": -0.37, "beta": 2.5, "ao": 3},
    {"alpha": 0.5, "ao": "vector"},
    {"ao": "vector"},
    {"beta": 1, "ao": "vector"},
    {"alpha": 3.5},
)


@pytest.fixture(params=[np.uint8, np.int8], ids=["u8", "s8"])
def dtype(request):
    return request.param


def arguments_of(parameters, dtype, n, rng):
    """alpha, beta and ao, with a zero point for each row if a vector is asked for."""
    arguments = {"alpha": 1, "beta": 0, **parameters}
    if parameters.get("ao") == "vector":
        arguments["ao"] = random_values(rng, dtype, n)
    return arguments


def call(dtype, arguments, a, c, trans, lower, **more):
    arguments = dict(arguments)
    return FUNCTIONS[dtype](arguments.pop("alpha"), a, arguments.pop("beta"), c, trans, lower, **arguments, **more)


# --- the calling convention ------------------------------------------------------------------------------------------


def test_the_positional_arguments_are_those_of_scipy(dtype):
    required, optional = re.search(r"ssyrk\((.*),\[(.*)\]\)", scipy.linalg.blas.ssyrk.__doc__).groups()
    parameters = inspect.signature(FUNCTIONS[dtype]).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional if p.default is p.empty] == required.split(",")
    assert [p.name for p in positional if p.default is not p.empty] == optional.split(",")
    assert {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY} == {"ao": 0, "numerics": "exact"}


@pytest.mark.parametrize("overwrite_c", [0, 1])
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("trans", [0, 1, 2])
def test_arguments_mean_what_they_mean_in_scipy(isa, dtype, trans, lower, overwrite_c, rng):
    a, c = rng.integers(0, 9, (5, 4) if trans == 0 else (4, 5)).astype(dtype), rng.integers(-99, 99, (5, 5))
    ours, theirs = np.array(c, np.int32, order="F"), np.array(c, np.float32, order="F")
    result = FUNCTIONS[dtype](2.0, a, 3.0, ours, trans, lower, overwrite_c)
    wanted = scipy.linalg.blas.ssyrk(2.0, a.astype(np.float32), 3.0, theirs, trans, lower, overwrite_c)
    assert_same(result, wanted.astype(np.int32))
    assert_same(ours, theirs.astype(np.int32))
    assert (result is ours) == (wanted is theirs)
    assert result.flags.f_contiguous


def test_without_c_the_rest_is_zeros_as_in_scipy(isa, dtype, rng):
    for n in (1, 5, 50):
        a = rng.integers(0, 9, (n, 4)).astype(dtype)
        for lower, beta in product(TRIANGLES, (0, 1)):
            wanted = scipy.linalg.blas.ssyrk(1.0, a.astype(np.float32), beta=beta, lower=lower)
            result = FUNCTIONS[dtype](1.0, a, beta, lower=lower)
            assert_same(result, wanted.astype(np.int32))
            assert result.flags.c_contiguous


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lower", TRIANGLES)
@pytest.mark.parametrize("trans", [False, True])
def test_sizes(isa, dtype, trans, lower, threads, rng):
    for n, k in SHAPES:
        a = random_values(rng, dtype, (k, n) if trans else (n, k))
        c = random_c(rng, (n, n))
        expected = reference.syrk(1, a, 0, c, trans, lower)
        with int8blas.num_threads(threads):
            assert FUNCTIONS[dtype](1, a, 0, c, trans, lower, True) is c
        assert_same(c, expected, n=n, k=k)


@pytest.mark.parametrize("numerics", ["exact", "saturating"])
@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@pytest.mark.parametrize("lower", TRIANGLES)
def test_parameters_and_orders_of_c(isa, dtype, parameters, numerics, lower, rng):
    for (n, k), order, trans in zip(((3, 5), (17, 64), (50, 33), (64, 1030)), "CFFC", (0, 1, 0, 1), strict=True):
        a = random_values(rng, dtype, (k, n) if trans else (n, k))
        values = random_c(rng, (n, n))
        arguments = arguments_of(parameters, dtype, n, rng) | {"numerics": numerics}
        expected = reference.syrk(a=a, c=values, trans=trans, lower=lower, **arguments)
        for layout in (order, "every other, both reversed"):
            c = place(values, layout)
            assert call(dtype, arguments, a, c, trans, lower, overwrite_c=True) is c
            assert_same(c.copy(), expected, n=n, k=k, layout=layout)
            given = place(values, layout)
            assert_same(call(dtype, arguments, a, given, trans, lower), expected, n=n, k=k, layout=layout)
            assert_same(given.copy(), values)


@pytest.mark.parametrize("kind", ["extreme", "small"])
def test_values_at_the_ends_of_their_range(isa, dtype, kind, rng):
    for n, k in ((33, 130), (70, 1500)):
        a = random_values(rng, dtype, (n, k), kind)
        for lower, ao in product(TRIANGLES, (np.iinfo(dtype).min, np.iinfo(dtype).max)):
            assert_same(FUNCTIONS[dtype](1, a, lower=lower, ao=ao), reference.syrk(1, a, lower=lower, ao=ao), n=n, k=k)


@pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCASTS])
def test_a_of_any_strides(isa, dtype, layout, rng):
    for n, k in ((1, 1), (16, 7), (35, 66)):
        a = place(random_values(rng, dtype, (n, k)), layout)
        for lower in TRIANGLES:
            expected = reference.syrk(1, a.copy(), lower=lower)
            assert_same(FUNCTIONS[dtype](1, a, lower=lower), expected, n=n, k=k)
            assert_same(FUNCTIONS[dtype](1, a.T, trans=True, lower=lower), expected, n=n, k=k)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_that_divide_k(isa, dtype, threads, rng):
    """Tall matrices of few columns, with sums that fit int32 and sums that do not."""
    for n, k in ((5, 20_000), (33, 21_000), (70, 40_003)):
        a = random_values(rng, dtype, (k, n), "extreme")
        with int8blas.num_threads(threads):
            assert_same(int8blas.matmul(a.T, a, dtype=np.int64), reference.exact_product(a, a, trans_a=True), n=n, k=k)
        for lower, (alpha, beta) in product(TRIANGLES, ((1, 0), (1, 1), (0.01, 0.5))):
            c = random_c(rng, (n, n))
            expected = reference.syrk(alpha, a, beta, c, True, lower, ao=3)
            with int8blas.num_threads(threads):
                assert_same(FUNCTIONS[dtype](alpha, a, beta, c, True, lower, ao=3), expected, n=n, k=k)


@pytest.mark.parametrize("lower", TRIANGLES)
@pytest.mark.parametrize("numerics", ["exact", "saturating"])
def test_sums_beyond_int32_are_carried_and_saturate(isa, dtype, lower, numerics, rng):
    k = 140_000
    a = np.full((19, k), np.iinfo(dtype).max, dtype)
    a[::3] = random_values(rng, dtype, (7, k), "extreme")
    a[1::4] //= 2
    c = random_c(rng, (19, 19))
    for parameters in ({"alpha": 1, "beta": 0}, {"alpha": 1, "beta": 1}, {"alpha": 0.25, "beta": 0.5, "ao": 3}):
        expected = reference.syrk(a=a, c=c, lower=lower, numerics=numerics, **parameters)
        if numerics == "exact" and parameters["alpha"] == 1:
            assert (expected == INT32_MAX).any()
        with pytest.warns(RuntimeWarning, match="beyond int32"):
            result = call(dtype, parameters | {"numerics": numerics, "alpha": 1e6}, a, c, False, lower)
        assert_same(result, reference.syrk(a=a, c=c, lower=lower, numerics=numerics, **parameters | {"alpha": 1e6}))
        assert_same(call(dtype, parameters | {"numerics": numerics}, a, c, False, lower), expected)


def test_only_elements_of_the_triangle_count_as_saturated(isa, dtype):
    """Values in the rest of C do not matter."""
    a = np.ones((40, 3), dtype)
    for lower, value in product(TRIANGLES, (INT32_MAX, INT32_MIN)):
        c = np.where(np.tri(40, dtype=bool) == lower, np.int32(0), np.int32(value))
        c[np.diag_indices(40)] = 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for alpha in (1, -0.5):
                FUNCTIONS[dtype](alpha, a, 1, c, lower=lower)
        with pytest.warns(RuntimeWarning, match="beyond int32"):
            FUNCTIONS[dtype](1 if value > 0 else -1, a, 1, c.T, lower=lower)


# --- which elements are written --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lower", TRIANGLES)
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (0.5, 0.25)])
def test_the_rest_of_c_is_not_written(isa, dtype, lower, alpha, beta, rng):
    for n, k, layout in ((50, 64, "C"), (65, 1030, "F"), (33, 7, "C, padded rows"), (70, 2100, "every other column")):
        canary = Canary()
        c = place(np.zeros((n, n), np.int32), layout, canary)
        outside = ~np.tri(n, dtype=bool) if lower else ~np.tri(n, dtype=bool).T
        before = random_c(rng, (n, n))
        c[...] = before
        a = random_values(rng, dtype, (n, k))
        FUNCTIONS[dtype](alpha, a, beta, c, lower=lower, overwrite_c=True)
        canary.assert_only_elements_written(c)
        assert_same(c[outside], before[outside], n=n, k=k)
        assert_same(c.copy(), reference.syrk(alpha, a, beta, before, lower=lower), n=n, k=k)


def half_read_only(n, lower):
    """A C of zeros whose rows lie some pages apart; the pages outside the triangle are read-only.

    Pages begin 8 columns after a multiple of 16, so that a cell on the diagonal lies in two.
    """
    page = mmap.PAGESIZE
    columns = page // 4
    first = columns - 8
    if n <= first or n > first + columns:
        raise ValueError(f"n must be from {first + 1} to {first + columns}")
    c = np.frombuffer(mmap.mmap(-1, 2 * page * n), np.int32).reshape(n, 2 * columns)[:, 8 : 8 + n]
    libc = ctypes.CDLL(None, use_errno=True)
    for row in range(first) if lower else range(first, n):
        at = c[row, first:].ctypes.data if lower else c[row].ctypes.data - 32
        if libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(page), mmap.PROT_READ):
            raise OSError(ctypes.get_errno(), "mprotect failed")
    return c


@needs_mprotect
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lower", TRIANGLES)
def test_the_rest_of_c_is_not_written_with_what_was_there(isa, dtype, lower, threads, rng):
    """Another thread may write to the rest of C at the same time; in this test the rest is read-only."""
    n = mmap.PAGESIZE // 4 + 20
    for k, alpha, beta in ((20, 1, 0), (3, 1, 1), (3, 0.5, 0.25)):
        c = half_read_only(n, lower)
        a = random_values(rng, dtype, (n, k))
        with int8blas.num_threads(threads):
            assert FUNCTIONS[dtype](alpha, a, beta, c, lower=lower, overwrite_c=True) is c
        assert_same(c.copy(), reference.syrk(alpha, a, beta, np.zeros((n, n), np.int32), lower=lower), k=k)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("lower", TRIANGLES)
def test_nothing_outside_the_operands_is_read_or_written(isa, dtype, side, lower, rng):
    for n, k in SHAPES:
        for trans, beta, order in ((False, 0, "C"), (True, 1, "F"), (True, 0, "F")):
            a = place(random_values(rng, dtype, (k, n) if trans else (n, k)), "C", guarded(side))
            c = place(random_c(rng, (n, n)), order, guarded(side))
            expected = reference.syrk(1, a, beta, c, trans, lower)
            FUNCTIONS[dtype](1, a, beta, c, trans, lower, True)
            assert_same(c, expected, n=n, k=k)


@pytest.mark.parametrize("lower", TRIANGLES)
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (0.5, 0.5)])
def test_c_may_overlap_a(isa, dtype, lower, alpha, beta, rng):
    for n in (1, 8, 33):
        c = random_c(rng, (n, n))
        a = c.view(np.uint8).reshape(-1)[3 : 3 + n * n].reshape(n, n).view(dtype)
        expected = reference.syrk(alpha, a.copy(), beta, c.copy(), lower=lower)
        assert FUNCTIONS[dtype](alpha, a, beta, c, lower=lower, overwrite_c=True) is c
        assert_same(c, expected, n=n)


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"a": np.ones((2, 3), np.int16)}, TypeError, "a must be uint8, got int16"),
    ({"a": np.ones(3, np.uint8)}, ValueError, r"a must have 2 dimensions, got shape \(3,\)"),
    ({"c": np.ones((2, 3), np.int32)}, ValueError, r"c must have shape \(2, 2\), got \(2, 3\)"),
    ({"trans": True, "c": np.ones((2, 2), np.int32)}, ValueError, r"c must have shape \(3, 3\), got \(2, 2\)"),
    ({"c": np.ones((2, 2), np.int64)}, TypeError, "c must be int32, got int64"),
    ({"c": [[1, 2], [3, 4]], "overwrite_c": True}, TypeError, "c must be"),
    ({"trans": 3}, ValueError, "trans must be"),
    ({"lower": 2}, ValueError, "lower must be a bool, 0 or 1, got 2"),
    ({"lower": "L"}, TypeError, "lower must be a bool, 0 or 1, got str"),
    ({"alpha": np.nan}, ValueError, "alpha must be finite"),
    ({"beta": "1"}, TypeError, "beta must be"),
    ({"ao": 256}, ValueError, "ao must be"),
    ({"ao": [1, 2, 3]}, ValueError, "ao must"),
    ({"numerics": "fast"}, ValueError, "numerics must be"),
])  # fmt: skip
def test_errors_name_the_argument_before_anything_is_written(arguments, error, message):
    given = {"alpha": 1, "a": np.ones((2, 3), np.uint8), **arguments}
    if "c" not in given:
        given |= {"c": np.full((2, 2), 7, np.int32), "overwrite_c": True}
    before = np.array(given["c"])
    with pytest.raises(error, match=message):
        int8blas.syrk_u8s32(**given)
    assert_same(np.array(given["c"]), before)


# --- both triangles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("order", ["rows", "columns", "reversed"])
def test_a_whole_gram_matrix(isa, dtype, order, threads, rng):
    for n, k in WHOLE:
        x = random_values(rng, dtype, (n, k))
        x = {"rows": x, "columns": np.asfortranarray(x), "reversed": x[::-1, ::-1]}[order]
        with int8blas.num_threads(1):
            path = "blocks" if isa in WITH_MATRIX_UNIT and k < MIRRORED_MATRIX_K else "triangle"
            assert int8blas.explain(x, x.T).path == path
            assert int8blas.explain(x.T, x.T, trans_a=True).path == path
        expected = reference.exact_product(x, x, trans_b=True)
        with int8blas.num_threads(threads):
            assert_same(int8blas.matmul(x, x.T), expected.astype(np.int32), n=n, k=k)
            assert_same(int8blas.matmul(x, x.T, dtype=np.int64), expected, n=n, k=k)
            for out in (np.empty((n, n), np.int32, order="F"), np.empty((2 * n, 3 * n), np.int32)[::2, ::3]):
                assert int8blas.matmul(x, x.T, out=out) is out
                assert_same(out.copy(), expected.astype(np.int32), n=n, k=k)


def test_zero_points_and_scale_of_a_whole_gram_matrix(isa, dtype, rng):
    gemm = {np.uint8: int8blas.gemm_u8u8s32, np.int8: int8blas.gemm_s8s8s32}[dtype]
    for n, k in WHOLE[:3]:
        x, zeros, others = (random_values(rng, dtype, shape) for shape in ((k, n), n, n))
        for ao, bo in ((3, 3), (3, 4), (zeros, zeros), (zeros, others), (zeros, 3), (3, zeros)):
            expected = reference.exact_product(x, x, ao, bo, trans_a=True)
            assert_same(int8blas.matmul(x.T, x, ao=ao, bo=bo), expected.astype(np.int32), n=n, k=k)
            assert_same(int8blas.matmul(x.T, x, ao=ao, bo=bo, dtype=np.int64), expected, n=n, k=k)
            for alpha, beta, more in ((-0.3, 0, {}), (1, 1, {}), (1, 0, {"co": 7}), (1, 0, {"numerics": "saturating"})):
                c = random_c(rng, (n, n))
                keywords = {"trans_a": True, "ao": ao, "bo": bo, **more}
                expected = reference.gemm(alpha, x, x, beta, c, **keywords)
                assert_same(gemm(alpha, x, x, beta, c, **keywords), expected, n=n, k=k)


def test_a_whole_gram_matrix_of_long_vectors(isa, dtype, rng):
    x = np.full((70, 140_000), np.iinfo(dtype).max, dtype)
    x[::3] = random_values(rng, dtype, (24, 140_000), "extreme")
    expected = reference.exact_product(x, x, trans_b=True)
    assert_same(int8blas.matmul(x, x.T, dtype=np.int64), expected)
    with pytest.warns(RuntimeWarning, match="beyond int32"):
        assert_same(int8blas.matmul(x, x.T), reference.saturate(expected))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_large_gram_matrix_of_long_vectors(isa, threads):
    """Its int64 sums are also added in segments of K, however large the matrix is."""
    n, k = 1030, 33_100
    values = np.arange(n) % 251 + 5
    x = np.repeat(values.astype(np.uint8), k).reshape(n, k)
    with int8blas.num_threads(threads):
        plan = int8blas.explain(x, x.T)
        assert (plan.path, plan.segments > plan.k_parts) == ("triangle", True)
        if isa != "ref":  # ref would take half a minute
            assert_same(int8blas.matmul(x, x.T, dtype=np.int64), k * np.outer(values, values))


@pytest.mark.parametrize("threads", [1, 2])
def test_stacks_of_gram_matrices(isa, dtype, threads, rng):
    x = random_values(rng, dtype, (2, 3, 70, 130))
    stacks = (x, x[0], np.broadcast_to(x[0], (2, 3, 70, 130)), x[:, ::-1], x[:, :1])
    for stack in stacks:
        expected = reference.matmul(stack, stack.swapaxes(-1, -2))
        with int8blas.num_threads(threads):
            assert_same(int8blas.matmul(stack, stack.swapaxes(-1, -2)), expected, shape=stack.shape)
    expected = reference.matmul(x[0], x[0, 0].T)
    assert_same(int8blas.matmul(x[0], x[0, 0].T), expected)


def test_what_is_not_a_gram_matrix(isa, rng):
    """Pairs of views of one memory whose product is not a symmetric matrix."""
    x = random_values(rng, np.uint8, (140, 200))
    for a, b in (
        (x, x.view(np.int8).T),
        (x.view(np.int8), x.T),
        (x[:100], x[:100, ::-1].T),
        (x[:100], x[1:101].T),
        (x[:100], x[::-1][:100].T),
        (x[:140, :140], x[:140, :140]),
    ):
        assert int8blas.explain(a, b).path != "triangle"
        assert_same(int8blas.matmul(a, b), reference.matmul(a, b))
    assert int8blas.explain(x, x.T, numerics="saturating").path != "triangle"


@pytest.mark.parametrize(("threads", "n", "k"), [(2, 385, 70), (2, 401, 41), (3, 700, 40), (5, 970, 24)])
def test_threads_that_pack_what_they_need(isa, dtype, threads, n, k, rng):
    """A thread packs its panels if each thread has at least 12 panels of 16 rows."""
    x = random_values(rng, dtype, (n, k))
    zeros = rng.integers(0, 100, n).astype(np.int32)
    exact = reference.exact_product(x, x, trans_b=True)
    shifted = reference.exact_product(x, x, zeros, zeros, trans_b=True)
    with int8blas.num_threads(threads):
        for lower in TRIANGLES:
            half = np.tril if lower else np.triu
            assert_same(FUNCTIONS[dtype](1, x, lower=lower), half(exact).astype(np.int32), lower=lower)
            assert_same(FUNCTIONS[dtype](1, x, ao=zeros, lower=lower), half(shifted).astype(np.int32), lower=lower)
        assert_same(int8blas.matmul(x, x.T), exact.astype(np.int32))


def test_more_columns_than_a_block_of_a_matrix_unit_has(isa, dtype, rng):
    """A block there has 1024 columns and 512 k; other instruction sets take all columns at once."""
    n = 1090 if isa in WITH_MATRIX_UNIT else 300
    x = random_values(rng, dtype, (n, 515))
    expected = reference.exact_product(x, x, trans_b=True)
    for lower in TRIANGLES:
        half = (np.tril if lower else np.triu)(expected).astype(np.int32)
        assert_same(FUNCTIONS[dtype](1, x, lower=lower), half, lower=lower)
    assert_same(int8blas.matmul(x, x.T), expected.astype(np.int32))


def test_explain_tells_how_a_gram_matrix_is_computed(isa, rng):
    x = random_values(rng, np.uint8, (1000, 200))
    with int8blas.num_threads(1):
        explanation = int8blas.explain(x.T, x)
    assert explanation.shape == (200, 200, 1000)
    assert explanation.block[2] <= 1024  # a matrix unit has steps of 64
    assert explanation.may_widen == (isa in WITHOUT_VNNI)
    if isa in WITH_MATRIX_UNIT:  # a matrix unit reads A in another layout than B
        assert "A is packed block by block" in str(explanation)
        return
    assert explanation.workspace > 200 * 1000
    assert "A is packed once, as B is, for both operands" in str(explanation)
    assert ("16 bits, once for both operands" in str(explanation)) == (isa in WITHOUT_VNNI)
    assert "block by block" not in str(explanation)
    assert "no-saturation proof" not in str(explanation)
