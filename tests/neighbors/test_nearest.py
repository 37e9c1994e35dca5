"""nearest returns the rows that a stable argsort of all scores gives, for all blocks, shards and threads."""

import ctypes
import pickle
import signal
from itertools import product

import numpy as np
import pytest
import reference_neighbors as reference
from arrays import LAYOUTS, assert_same, guarded, needs_mprotect, place, random_values, with_strides
from errors import refused, s8, u8
from hypothesis import given
from hypothesis import strategies as st
from others import assert_other_threads_run_during

import int8blas

METRICS = ("inner", "sqeuclidean", "cosine")
# More than this number of rows to find is a list, not a heap.
MOST_OF_HEAP = 64


def packed(rows):
    return int8blas.pack_b(rows, trans_b=True)


FORMS = {"rows": lambda x: x, "packed": packed}


def operands(rng, pair, m, n, k, kind="full"):
    return random_values(rng, pair.a_dtype, (m, k), kind), random_values(rng, pair.b_dtype, (n, k), kind)


def check(queries, base, rows, k, metric="inner", exclude=None, excluded=(), **context):
    """The result for `base`, which holds `rows`, is the oracle's."""
    indices, scores = int8blas.nearest(queries, base, k, metric=metric, exclude=exclude)
    expected, expected_scores = reference.nearest(queries, rows, k, metric, excluded)
    assert indices.dtype == np.int64
    assert_same(indices, expected, metric=metric, k=k, **context)
    assert_same(scores.astype(expected_scores.dtype), expected_scores, metric=metric, k=k, **context)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
def test_every_pair_of_types(isa, pair, form, metric, rng):
    for m, n, k in ((1, 1, 1), (1, 300, 33), (2, 130, 4), (3, 17, 64), (7, 1000, 30), (16, 515, 65), (40, 257, 130)):
        queries, rows = operands(rng, pair, m, n, k)
        base = FORMS[form](rows)
        for wanted in (1, 10, MOST_OF_HEAP, MOST_OF_HEAP + 1, 100, 1024):
            check(queries, base, rows, wanted, metric, m=m, n=n)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
def test_more_rows_and_queries_than_a_block(isa, form, metric, rng):
    for m, n, k in ((1, 20000, 5), (300, 1500, 12), (2, 9000, 33)):
        queries, rows = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (n, k), np.int8)
        check(queries, FORMS[form](rows), rows, 10, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_lists_that_are_shortened_often(isa, metric, rng):
    """Scores of all spreads: equal, nearly equal, and in all digits; rising, falling, and in any order."""
    for n, k, spread in ((30_000, 3, 2), (30_000, 40, 128), (9_000, 3, 128), (30_000, 1, 1)):
        rows = rng.integers(-spread, spread, (n, k), np.int8)
        order = np.argsort(reference.scores(rows[:1], rows, metric)[0], kind="stable")
        for some, wanted, threads in ((rows, 100, 1), (rows[order], 1000, 2), (rows[order[::-1]], 333, 3)):
            with int8blas.num_threads(threads):
                check(rows[:3], packed(some), some, wanted, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
def test_equal_scores_are_in_the_order_of_rows(isa, pair, form, metric, rng):
    queries, few = operands(rng, pair, 5, 3, 20)
    queries[1] = 0
    for rows in (np.zeros((700, 20), pair.b_dtype), np.repeat(few, 300, axis=0), np.tile(few, (300, 1))):
        for threads, wanted in product((1, 2, 4), (1, 400)):
            with int8blas.num_threads(threads):
                check(queries, FORMS[form](rows), rows, wanted, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_rows_that_become_better_and_better(isa, metric):
    """Either each row is better than all before it, or none is better than the first ones."""
    steps = np.arange(3000)
    rows = np.stack([steps // 24, steps % 24, np.ones_like(steps)], axis=1).astype(np.int8)
    queries = np.array([[127, 1, 1], [-128, -1, 1]], np.int8)
    for order in (rows, rows[::-1]):
        check(queries, packed(order), order, 1000, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_the_best_row_among_many_equal_rows(isa, metric, rng):
    """The lengths are below, at and above one or several groups of 128 scores, and blocks of 1024."""
    for n in (1, 2, 85, 127, 128, 129, 300, 515, 1024, 1025, 3000):
        for spread, k in ((2, 2), (2, 6), (128, 7)):
            queries, rows = (rng.integers(-spread, spread, (m, k), np.int8) for m in (9, n))
            order = np.argsort(reference.scores(queries[:1], rows, metric)[0], kind="stable")
            for some in (rows, rows[order], rows[order[::-1]]):
                check(queries, packed(some), some, 1, metric, n=n)
                if n > 2:
                    check(queries, some, some, 1, metric, range(1, 2), np.array([1]), n=n)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
def test_any_number_of_rows_is_found(isa, form, metric, rng):
    """Find more than 1024 rows, up to all; queries then go through the base in several batches."""
    for m, n, k in ((1, 2500, 40), (260, 1100, 12), (3, 30_000, 4)):
        queries, rows = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-3, 4, (n, k), np.int8)
        mask = rng.random(n) < 0.2
        for threads, wanted in product((1, 2), (1025, n - 1, 2**70)):
            with int8blas.num_threads(threads):
                check(queries, FORMS[form](rows), rows, wanted, metric)
        check(queries, FORMS[form](rows), rows, n, metric, exclude=mask, excluded=np.flatnonzero(mask))


@pytest.mark.parametrize("metric", METRICS)
def test_values_at_the_ends_of_their_ranges(isa, pair, metric, rng):
    for m, n, k in ((3, 200, 64), (9, 90, 1000)):
        queries, rows = operands(rng, pair, m, n, k, "extreme")
        for form in FORMS.values():
            check(queries, form(rows), rows, 20, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
def test_sums_beyond_int32(isa, pair, form, metric):
    k = 140_000
    queries = np.full((2, k), np.iinfo(pair.a_dtype).max, pair.a_dtype)
    queries[1] = np.iinfo(pair.a_dtype).min
    rows = np.full((20, k), np.iinfo(pair.b_dtype).max, pair.b_dtype)
    rows[::3] = np.iinfo(pair.b_dtype).min
    rows[np.arange(20), np.arange(20) % 7] = 1
    indices, scores = int8blas.nearest(queries, FORMS[form](rows), 20, metric=metric)
    assert scores.dtype == (np.float64 if metric == "cosine" else np.int64)
    expected, expected_scores = reference.nearest(queries, rows, 20, metric)
    assert_same(indices, expected)
    assert_same(scores, expected_scores)


@pytest.mark.parametrize(
    ("metric", "queries_type", "base_type", "last"),
    [
        ("inner", np.uint8, np.uint8, 33025),
        ("inner", np.uint8, np.int8, 65793),
        ("inner", np.int8, np.uint8, 65793),
        ("inner", np.int8, np.int8, 131071),
        ("sqeuclidean", np.uint8, np.uint8, 33025),
        ("sqeuclidean", np.int8, np.int8, 33025),
        ("sqeuclidean", np.uint8, np.int8, 14639),
    ],
)
def test_scores_are_int32_as_long_as_all_fit(isa, metric, queries_type, base_type, last):
    ends = [np.iinfo(t).min if np.iinfo(t).min else np.iinfo(t).max for t in (queries_type, base_type)]
    if metric == "sqeuclidean":
        ends = [np.iinfo(queries_type).max, np.iinfo(base_type).min]
    for k, dtype in ((last, np.int32), (last + 1, np.int64)):
        queries, rows = np.full((1, k), ends[0], queries_type), np.full((3, k), ends[1], base_type)
        rows[1, 0] = 1
        for base in (rows, packed(rows)):
            indices, scores = int8blas.nearest(queries, base, 3, metric=metric)
            assert scores.dtype == dtype
            expected, expected_scores = reference.nearest(queries, rows, 3, metric)
            assert_same(indices, expected)
            assert np.array_equal(scores, expected_scores)


@pytest.mark.parametrize("metric", METRICS)
def test_any_number_of_threads_gives_the_same_bits(isa, metric, rng):
    for m, n, k in ((1, 12000, 64), (20, 6000, 100), (270, 1000, 64)):
        queries, rows = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-3, 4, (n, k), np.int8)
        expected = reference.nearest(queries, rows, 300, metric)
        for threads, form in product((1, 2, 3, 4), FORMS.values()):
            with int8blas.num_threads(threads):
                indices, scores = int8blas.nearest(queries, form(rows), 300, metric=metric)
            assert_same(indices, expected[0], threads=threads, m=m)
            assert np.array_equal(scores, expected[1])


@pytest.mark.parametrize("metric", METRICS)
def test_shards_are_searched_as_one(isa, pair, metric, rng):
    queries, rows = operands(rng, pair, 9, 800, 37)
    rows[500:700] = rows[:200]
    other_type = np.uint8 if pair.b_dtype == np.int8 else np.int8
    small = rows.copy()
    small[:] = rows.astype(np.int16) & 127
    for cuts in ((), (0, 0), (1, 2, 3), (100, 116, 117, 799), (250, 800), tuple(range(7, 800, 7))):
        parts = np.split(rows, cuts)
        mixed = [packed(part) if i % 2 else np.asfortranarray(part) for i, part in enumerate(parts)]
        for threads, base in product((1, 3), ([packed(part) for part in parts], parts, tuple(mixed))):
            with int8blas.num_threads(threads):
                check(queries, base, rows, 30, metric, cuts=cuts)
        types = [packed(part.astype(other_type)) if i % 2 else part for i, part in enumerate(np.split(small, cuts))]
        check(queries, types, small, 30, metric, cuts=cuts)


def test_shards_from_files_and_pickles(isa, tmp_path, rng):
    rows = rng.integers(-128, 128, (500, 40), np.int8)
    for i, part in enumerate(np.split(rows, (200, 333))):
        packed(part).save(tmp_path / f"{i}.i8")
    shards = [int8blas.PackedB.load(tmp_path / f"{i}.i8") for i in range(3)]
    for metric in METRICS:
        check(rows[:50], shards, rows, 7, metric)
        check(rows[:50], pickle.loads(pickle.dumps(shards, 5)), rows, 7, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_rows_are_left_out(isa, metric, rng):
    queries, rows = rng.integers(0, 256, (10, 30), np.uint8), rng.integers(0, 256, (900, 30), np.uint8)
    mask = rng.random(900) < 0.4
    ranges = [range(0), range(5, 5), range(100), range(899, 900), range(130, 800), range(900)]
    for base in (rows, packed(rows), [packed(rows[:333]), rows[333:]]):
        for some in (mask, ~mask, np.ones(900, bool), np.arange(900) != 77, np.zeros(1800, bool)[::2]):
            check(queries, base, rows, 25, metric, exclude=some, excluded=np.flatnonzero(some))
        for some in ranges:
            check(queries, base, rows, 300, metric, exclude=some, excluded=np.array(some, int))
        check(queries, base, rows, 9, metric, exclude=slice(-100, None), excluded=np.arange(800, 900))
        check(queries, base, rows, 9, metric, exclude=slice(None), excluded=np.arange(900))


@pytest.mark.parametrize("metric", METRICS)
def test_few_rows_that_are_left_are_copied(isa, pair, metric, rng):
    for m, n, k in ((1, 5000, 20), (40, 3000, 33), (300, 2000, 5), (2, 3000, 1)):
        queries, rows = operands(rng, pair, m, n, k)
        parts = [rows[:1000], packed(rows[1000:1017]), packed(rows[1017:])]
        for kept, threads in ((0.3, 1), (0.1, 2), (0.01, 3), (0.0005, 1)):
            mask = rng.random(n) >= kept
            mask[n // 2 : n // 2 + 700] = True
            mask[:3] = False
            with int8blas.num_threads(threads):
                for base in (packed(rows), parts):
                    check(queries, base, rows, 40, metric, exclude=mask, excluded=np.flatnonzero(mask), kept=kept, m=m)


def test_one_to_three_rows_that_are_left(isa, pair, rng):
    for k, left in product((1, 2, 3, 5, 23, 33, 47, 97, 103), (1, 2, 3)):
        queries, rows = operands(rng, pair, 34, 58, k)
        mask = np.ones(58, bool)
        mask[rng.choice(58, left, replace=False)] = False
        # Memory of the first search, which has no zeros, serves the second search.
        for exclude in (mask[::-1] ^ (np.arange(58) < 30), mask):
            check(queries, packed(rows), rows, 1, "inner", exclude=exclude, excluded=np.flatnonzero(exclude))


def test_fewer_rows_than_wanted(isa, rng):
    queries, rows = rng.integers(0, 256, (3, 8), np.uint8), rng.integers(-128, 128, (5, 8), np.int8)
    for metric, base in product(METRICS, (rows, packed(rows), [rows[:2], packed(rows[2:])])):
        check(queries, base, rows, 100, metric)
        assert int8blas.nearest(queries, base, 100, metric=metric)[0].shape == (3, 5)
        assert int8blas.nearest(queries[:0], base, 2, metric=metric)[0].shape == (0, 2)
    for empty in (rows[:0], packed(rows[:0]), [rows[:0], packed(rows[:0])]):
        indices, scores = int8blas.nearest(queries, empty, 2)
        assert indices.shape == scores.shape == (3, 0)


@pytest.mark.parametrize("form", FORMS)
def test_vectors_without_elements(isa, form):
    for metric in METRICS:
        indices, scores = int8blas.nearest(np.zeros((2, 0), np.int8), FORMS[form](np.zeros((20, 0), np.int8)), 3,
                                           metric=metric)  # fmt: skip
        assert indices.tolist() == [[0, 1, 2]] * 2
        assert not scores.any()


def test_a_single_query_has_no_dimension(isa, rng):
    rows = rng.integers(-128, 128, (50, 16), np.int8)
    indices, scores = int8blas.nearest(rows[3], packed(rows), 4)
    expected = int8blas.nearest(rows[3:4], rows, 4)
    assert_same(indices, expected[0][0])
    assert_same(scores, expected[1][0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_of_any_strides(isa, pair, layout, rng):
    for m, n, k in ((1, 40, 7), (6, 200, 33), (20, 70, 66)):
        queries, rows = (place(values, layout) for values in operands(rng, pair, m, n, k))
        for metric in METRICS:
            check(queries, rows, rows, 8, metric, m=m)
            check(queries, packed(rows), rows, 8, metric, m=m)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_is_read(isa, pair, side, rng):
    for m, n, k in product((1, 2, 6, 15, 29), (1, 15, 17, 48, 65, 130), (1, 3, 4, 18, 65)):
        queries, rows = (place(values, "C", guarded(side)) for values in operands(rng, pair, m, n, k))
        mask = with_strides(np.arange(n) % 3 == 1, (1,), guarded(side))
        for metric in METRICS:
            check(queries, rows, rows, 5, metric, exclude=mask, excluded=np.flatnonzero(mask))


@given(
    st.integers(1, 40), st.lists(st.integers(0, 300), min_size=1, max_size=4), st.integers(1, 90), st.integers(1, 60),
    st.sampled_from(METRICS), st.sampled_from([np.uint8, np.int8]), st.sampled_from([np.uint8, np.int8]),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_random_searches(m, sizes, k, wanted, metric, queries_type, base_type, seed):
    rng = np.random.default_rng(seed)
    spread = rng.choice([1, 5, 127])
    queries = rng.integers(0, spread + 1, (m, k)).astype(queries_type)
    rows = rng.integers(0, spread + 1, (sum(sizes), k)).astype(base_type)
    if base_type == np.int8:
        rows = -rows
    shards = [packed(part) if rng.random() < 0.6 else part for part in np.split(rows, np.cumsum(sizes)[:-1])]
    mask = rng.random(len(rows)) < rng.choice([0, 0.5, 0.95])
    with int8blas.use_isa(str(rng.choice(int8blas.available_isas()))), int8blas.num_threads(int(rng.integers(1, 4))):
        check(queries, shards, rows, wanted, metric, exclude=mask, excluded=np.flatnonzero(mask))


# --- long searches ---------------------------------------------------------------------------------------------------


def long_search(rng):
    """Operands of a search of several steps, even for one thread."""
    return rng.integers(0, 256, (300, 64), np.uint8), packed(rng.integers(-128, 128, (70000, 64), np.int8))


def test_progress_is_told(rng):
    queries, base = long_search(rng)
    for threads in (1, 2):
        told = []
        with int8blas.num_threads(threads):
            indices, _ = int8blas.nearest(queries, base, 2, callback=lambda *progress, told=told: told.append(progress))
        assert_same(indices, int8blas.nearest(queries, base, 2)[0])
        done = [pairs for pairs, total in told]
        assert {total for _, total in told} == {300 * 70000}
        assert done == sorted(set(done))
        assert done[-1] == 300 * 70000
        assert len(done) >= 2


def test_the_callback_may_change_the_mask(rng):
    queries, base = long_search(rng)
    mask = rng.random(70000) < 0.5
    expected = int8blas.nearest(np.concatenate([queries] * 30), base, 2, exclude=mask)
    indices, scores = int8blas.nearest(
        np.concatenate([queries] * 30), base, 2, exclude=mask, callback=lambda *_: mask.fill(True)
    )
    assert mask.all()
    assert_same(indices, expected[0])
    assert_same(scores, expected[1])


def test_an_exception_in_the_callback_ends_the_search(rng):
    queries, base = long_search(rng)
    calls = []

    def stop(done, total):
        calls.append(done)
        raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        int8blas.nearest(queries, base, 2, callback=stop)
    assert len(calls) == 1


def test_a_signal_ends_the_search(rng):
    """Python looks at signals between the steps: here the interrupt is set before the first one."""
    queries, base = long_search(rng)
    calls = []

    def interrupt(done, total):
        calls.append(done)
        ctypes.pythonapi.PyErr_SetInterrupt()

    # A process that a shell started in the background ignores interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            int8blas.nearest(queries, base, 2, callback=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) == 1


def test_other_python_threads_run_during_a_search(rng):
    queries, base = long_search(rng)
    assert_other_threads_run_during(lambda: int8blas.nearest(queries[:64], base, 2))


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"queries": np.ones((2, 3))}, TypeError, "queries must be uint8 or int8, got float64"),
        ({"queries": u8(1, 2, 3)}, ValueError, "queries must have 1 or 2 dimensions, got shape (1, 2, 3)"),
        ({"base": np.ones((2, 3))}, TypeError, "base must be uint8 or int8, got float64"),
        ({"base": s8(3)}, ValueError, "base must have 2 dimensions, rows of vectors, got shape (3,)"),
        ({"base": s8(4, 2)}, ValueError, "base must have vectors of 3 elements, as queries have, got 2"),
        (
            {"base": int8blas.pack_b(s8(4, 2))},
            ValueError,
            "base must have vectors of 3 elements, as queries have, got 4",
        ),
        ({"base": []}, ValueError, "base must have at least one shard, got none"),
        ({"base": [s8(4, 3), s8(3)]}, ValueError, "base[1] must have 2 dimensions, rows of vectors, got shape (3,)"),
        ({"base": (u8(4, 3), s8(4, 4))}, ValueError, "base[1] must have vectors of 3 elements, as queries have, got 4"),
        ({"k": 0}, ValueError, "k must be at least 1, got 0"),
        ({"k": -(2**70)}, ValueError, "k must be at least 1, got -1180591620717411303424"),
        ({"k": 1.0}, TypeError, "k must be an integer, got float"),
        ({"metric": "l2"}, ValueError, "metric must be 'inner', 'sqeuclidean', 'cosine' or 'hamming', got 'l2'"),
        (
            {"exclude": np.zeros(3, bool)},
            ValueError,
            "exclude must have shape (4,), a value for each row of base, got (3,)",
        ),
        ({"exclude": np.zeros(4, int)}, TypeError, "exclude must be a range, a slice or an array of bool, got int64"),
        ({"exclude": range(2, 5)}, ValueError, "exclude must be within the 4 rows of base, got range(2, 5)"),
        ({"exclude": range(2**70)}, ValueError, f"exclude must be within the 4 rows of base, got range(0, {2**70})"),
        ({"exclude": range(-1, 2)}, ValueError, "exclude must be within the 4 rows of base, got range(-1, 2)"),
        ({"exclude": range(0, 4, 2)}, ValueError, "exclude must be a range of step 1, got 2"),
        ({"exclude": slice(None, None, -1)}, ValueError, "exclude must be a range of step 1, got -1"),
        ({"callback": 3}, TypeError, "callback must be callable, got int"),
    ],
)
def test_errors(arguments, error, text):
    told = []
    arguments = {"queries": u8(2, 3), "base": s8(4, 3), "k": 2, "callback": lambda *done: told.append(done)} | arguments
    with refused(error, text):
        int8blas.nearest(**arguments)
    assert not told
