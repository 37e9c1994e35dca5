"""Squared distances of rows: int64 differences, whatever the path of the product."""

from itertools import product

import numpy as np
import pytest
import reference_neighbors as reference
from arrays import BROADCASTS, LAYOUTS, assert_same, guarded, needs_mprotect, place, random_values
from errors import refused, s8, u8
from shapes import BLOCKED, FEW, SMALL_GRID

import int8blas

FORMS = {"rows": lambda y: y, "columns": np.asfortranarray, "packed": lambda y: int8blas.pack_b(y, trans_b=True)}
INT32_MAX = 2**31 - 1


def operands(rng, pair, m, n, k, kind="full"):
    return random_values(rng, pair.a_dtype, (m, k), kind), random_values(rng, pair.b_dtype, (n, k), kind)


@pytest.mark.parametrize("form", FORMS)
def test_every_pair_of_types(isa, pair, form, rng):
    for m, n, k in SMALL_GRID:
        x, y = operands(rng, pair, m, n, k)
        distances = int8blas.sqeuclidean(x, FORMS[form](y))
        assert distances.dtype == np.int32
        assert_same(distances, reference.sqeuclidean(x, y).astype(np.int32), m=m, n=n, k=k)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_blocks_of_every_size_and_type(isa, pair, form, dtype, rng):
    for m, n, k in BLOCKED:
        x, y = operands(rng, pair, m, n, k, "extreme" if k < 100 else "full")
        expected = by_product(x, y)
        for threads in (1, 3):
            with int8blas.num_threads(threads):
                assert_same(int8blas.sqeuclidean(x, FORMS[form](y), dtype=dtype), expected.astype(dtype), m=m, n=n, k=k)


def by_product(x, y):
    """Compute distances without a large array of differences; sums in float64 are exact up to 2**53."""
    x, y = x.astype(float), y.astype(float)
    return (np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1) - 2 * (x @ y.T)).astype(np.int64)


@pytest.mark.parametrize("kind", ["full", "extreme"])
def test_few_rows_from_rows_in_place(isa, pair, kind, rng):
    """Kernels of 1, 2 and 4 rows x, and blocked products for more rows, up to 16; K is around the vector sizes of a
    kernel."""
    for k, n in ((1, 3), (2, 9), (15, 7), (16, 1), (17, 5), (31, 6), (33, 2), (63, 4), (64, 9), (65, 8), (127, 5),
                 (130, 30), (385, 350), (1500, 180)):  # fmt: skip
        x, y = operands(rng, pair, 17, n, k, kind)
        expected = reference.sqeuclidean(x, y).astype(np.int32)
        padded = np.zeros((n, k + 5), pair.b_dtype)[:, 3 : 3 + k]
        padded[...] = y
        for m, threads in product((1, 2, 3, 4, 5, 7, 8, 16, 17), (1, 3)):
            with int8blas.num_threads(threads):
                for form in (y, padded):
                    assert_same(int8blas.sqeuclidean(x[:m], form), expected[:m], m=m, n=n, k=k, threads=threads)
                assert_same(int8blas.sqeuclidean(x[:m], y[::-1]), expected[:m, ::-1], m=m, n=n, k=k, threads=threads)


@pytest.mark.parametrize("plan", ["private_rows", "private_columns", "packed_blocks", "k_parts", "transposed", "plain"])
def test_squares_are_found_where_y_is_packed(isa, pair, plan, rng):
    """Each thread computes them for itself, or for all threads, or in parts of K; paths that do not pack y compute them
    first."""
    m, n, k, threads = {
        "private_rows": (400, 130, 90, 3),
        "private_columns": (40, 700, 300, 3),
        "packed_blocks": (70, 600, 14000, 1),
        "k_parts": (20, 20, 14000, 3),
        "transposed": (300, 200, 20, 1),
        "plain": (100, 97, 203, 2),
    }[plan]
    x, y = operands(rng, pair, m, n, k)
    out = np.empty((n, m), np.int32).T if plan == "transposed" else np.empty((m, n), np.int32)
    with int8blas.num_threads(threads):
        for form in (y, np.asfortranarray(y)):
            assert_same(int8blas.sqeuclidean(x, form, out=out).copy(), by_product(x, y).astype(np.int32))


@pytest.mark.parametrize("form", FORMS)
def test_small_k_with_many_distances(isa, pair, form, rng):
    """Distances are written in whole cache lines, with non-temporal stores if there are many; rows are aligned or
    not."""
    for m, n, k in ((2100, 2048, 3), (257, 304, 1), (130, 416, 8), (70, 710, 13), (90, 560, 16), (65, 768, 32)):
        x, y = operands(rng, pair, m, n, k, "extreme")
        expected = by_product(x, y).astype(np.int32)
        memory = np.full(m * n + 64, 7, np.int32)
        for start in (0, 1, 5, 16):
            out = memory[start : start + m * n].reshape(m, n)
            assert int8blas.sqeuclidean(x, FORMS[form](y), out=out) is out
            assert_same(out, expected, m=m, n=n, k=k, start=start)
            assert_same(memory[start + m * n :], np.full(64 - start, 7, np.int32))
            memory[:] = 7
        out = np.empty((n, m), np.int32).T
        assert_same(int8blas.sqeuclidean(x, FORMS[form](y), out=out).copy(), expected, m=m, n=n, k=k)


@pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCASTS])
def test_operands_of_any_strides(isa, pair, layout, rng):
    for m, n, k in FEW:
        x, y = (place(values, layout) for values in operands(rng, pair, m, n, k))
        assert_same(int8blas.sqeuclidean(x, y), reference.sqeuclidean(x, y).astype(np.int32), m=m, n=n, k=k)
        packed = int8blas.pack_b(y, trans_b=True)
        assert_same(int8blas.sqeuclidean(x, packed), reference.sqeuclidean(x, y).astype(np.int32), m=m, n=n, k=k)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_results_of_any_strides(isa, pair, layout, dtype, rng):
    for m, n, k in FEW:
        x, y = operands(rng, pair, m, n, k)
        for form in FORMS.values():
            out = place(np.full((m, n), 7, dtype), layout)
            assert int8blas.sqeuclidean(x, form(y), out=out) is out
            assert_same(out.copy(), reference.sqeuclidean(x, y).astype(dtype), m=m, n=n, k=k)


def test_one_row_from_more_than_a_cache_has(isa, pair, rng):
    """Rows of y from memory are read one after the other: whole steps and a remainder, and four rows or more."""
    for n, k in ((17_003, 64), (2_850, 385), (1_101, 1024)):
        x, y = operands(rng, pair, 1, n, k)
        with int8blas.num_threads(1):
            assert_same(int8blas.sqeuclidean(x, y), by_product(x, y).astype(np.int32), n=n, k=k)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_is_touched(isa, pair, side, rng):
    for m, n, k in SMALL_GRID:
        x, y = (place(values, "C", guarded(side)) for values in operands(rng, pair, m, n, k))
        out = place(np.zeros((m, n), np.int32), "C", guarded(side))
        int8blas.sqeuclidean(x, y, out=out)
        assert_same(out, reference.sqeuclidean(x, y).astype(np.int32), m=m, n=n, k=k)


# The last K up to which all distances fit int32, for operands of one type and of two types.
LIMITS = {True: INT32_MAX // 255**2, False: INT32_MAX // 383**2}


@pytest.mark.parametrize("form", FORMS)
def test_long_vectors_at_the_ends_of_their_ranges(isa, pair, form):
    limit = LIMITS[pair.a_dtype == pair.b_dtype]
    for k, (m, n) in product((limit, limit + 1, 33025, 33026, 70000), ((1, 1), (3, 20))):
        low, high = np.iinfo(pair.a_dtype).min, np.iinfo(pair.b_dtype).max
        x, y = np.full((m, k), low, pair.a_dtype), np.full((n, k), high, pair.b_dtype)
        y[0], y[-1, 1:] = np.iinfo(pair.b_dtype).min, low if low == np.iinfo(pair.b_dtype).min else 0
        distances = int8blas.sqeuclidean(x, FORMS[form](y))
        assert distances.dtype == (np.int32 if k <= limit else np.int64)
        assert np.array_equal(distances, reference.sqeuclidean(x, y))
        assert_same(int8blas.sqeuclidean(x, FORMS[form](y), dtype=np.int64), reference.sqeuclidean(x, y), k=k)


def test_int32_saturates_where_it_is_asked_for(isa):
    x, y = np.zeros((2, 40000), np.uint8), np.full((3, 40000), 255, np.uint8)
    y[1] = 1
    expected = np.array([[INT32_MAX, 40000, INT32_MAX]] * 2, np.int32)
    for y_form in (y, int8blas.pack_b(y, trans_b=True)):
        with pytest.warns(RuntimeWarning, match=r"^sqeuclidean: elements of the result beyond int32"):
            assert_same(int8blas.sqeuclidean(x, y_form, dtype=np.int32), expected)
        out = np.zeros((3, 2), np.int32).T
        with pytest.warns(RuntimeWarning, match=r"^sqeuclidean"):
            assert int8blas.sqeuclidean(x, y_form, out=out) is out
        assert_same(out.copy(), expected)


def test_single_vectors_have_no_dimension(isa, pair, rng):
    x, y = operands(rng, pair, 4, 5, 9)
    expected = reference.sqeuclidean(x, y).astype(np.int32)
    packed = int8blas.pack_b(y, trans_b=True)
    assert_same(int8blas.sqeuclidean(x[0], y), expected[0])
    assert_same(int8blas.sqeuclidean(x[0], packed), expected[0])
    assert_same(int8blas.sqeuclidean(x, y[1]), expected[:, 1])
    assert int8blas.sqeuclidean(x[2], y[3]) == expected[2, 3]
    out = np.zeros(5, np.int64)
    assert int8blas.sqeuclidean(x[1], y, out=out) is out
    assert np.array_equal(out, expected[1])


def test_out_may_share_memory_with_an_operand(isa, rng):
    memory = rng.integers(0, 256, 4096, np.uint8)
    x = memory[:160].reshape(10, 16)
    expected = reference.sqeuclidean(x, x).astype(np.int32)
    out = memory.view(np.int32)[:100].reshape(10, 10)
    int8blas.sqeuclidean(x, x, out=out)
    assert_same(out.copy(), expected)


def test_a_packed_matrix_from_a_file_or_a_pickle_has_its_squares(isa, pair, tmp_path, rng):
    import pickle

    x, y = operands(rng, pair, 5, 70, 33)
    packed = int8blas.pack_b(y, trans_b=True)
    expected = reference.sqeuclidean(x, y).astype(np.int32)
    packed.save(tmp_path / "y.i8")
    for again in (packed, int8blas.PackedB.load(tmp_path / "y.i8"), pickle.loads(pickle.dumps(packed, 5))):
        assert_same(int8blas.sqeuclidean(x, again), expected)


def test_bools_have_the_number_of_places_in_which_they_differ(isa, rng):
    x, y = rng.random((30, 300)) < 0.5, rng.random((20, 300)) < 0.3
    expected = (x[:, None] != y).sum(axis=2)
    assert np.array_equal(int8blas.sqeuclidean(x, y), expected)
    assert np.array_equal(int8blas.sqeuclidean(x, int8blas.pack_b(y, trans_b=True)), expected)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"x": np.ones((2, 3))}, TypeError, "x must be uint8 or int8, got float64"),
        ({"y": np.ones((2, 3))}, TypeError, "y must be uint8 or int8, got float64"),
        ({"x": u8(1, 2, 3)}, ValueError, "x must have 1 or 2 dimensions, got shape (1, 2, 3)"),
        ({"y": s8()}, ValueError, "y must have 1 or 2 dimensions, got shape ()"),
        ({"y": s8(4, 2)}, ValueError, "y must have vectors of 3 elements, as x has, got 2"),
        ({"y": int8blas.pack_b(s8(4, 2))}, ValueError, "y must have vectors of 3 elements, as x has, got 4"),
        ({"dtype": np.float32}, TypeError, "dtype must be int32 or int64, got float32"),
        ({"out": np.ones((2, 4), np.int16)}, TypeError, "out must be int32 or int64, got int16"),
        ({"out": np.ones((4, 2), np.int32)}, ValueError, "out must have shape (2, 4), got (4, 2)"),
        (
            {"out": np.ones((2, 4), np.int32), "dtype": "int64"},
            TypeError,
            "out must be int64, as dtype says, got int32",
        ),
    ],
)
def test_errors(arguments, error, text):
    arguments = {"x": u8(2, 3), "y": s8(4, 3)} | arguments
    before = arguments["out"].copy() if "out" in arguments else None
    with refused(error, text):
        int8blas.sqeuclidean(**arguments)
    assert before is None or np.array_equal(arguments["out"], before)
