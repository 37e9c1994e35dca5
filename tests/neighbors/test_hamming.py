"""Hamming distances are counts of different bits, for all pairs of rows and for the nearest rows."""

from itertools import product

import numpy as np
import pytest
import reference_neighbors as reference
from arrays import LAYOUTS, assert_same, guarded, needs_mprotect, place, with_strides
from errors import refused, s8, u8
from hypothesis import given
from hypothesis import strategies as st

import int8blas

FORMS = {"rows": lambda y: y, "columns": np.asfortranarray, "packed": lambda y: int8blas.pack_b(y, trans_b=True)}
# Rows x, rows y and bytes: around the sizes of vectors, panels, units of work, and of counts that fit a byte.
SIZES = (
    (1, 1, 1), (1, 16, 4), (2, 17, 8), (3, 15, 5), (4, 33, 32), (5, 100, 123), (7, 40, 124), (9, 31, 125),
    (64, 70, 248), (65, 18, 249), (130, 300, 3), (600, 50, 16), (2, 5000, 70), (1, 30, 5000),
)  # fmt: skip


def bits(rng, *shape):
    return rng.integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("form", FORMS)
def test_all_sizes(isa, form, rng):
    for m, n, k in SIZES:
        x, y = bits(rng, m, k), bits(rng, n, k)
        expected = reference.hamming(x, y).astype(np.int32)
        for threads in (1, 3):
            with int8blas.num_threads(threads):
                assert_same(int8blas.hamming(x, FORMS[form](y)), expected, m=m, n=n, k=k, threads=threads)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_which_all_bits_differ(isa, form):
    for k in (4, 31, 124, 128, 1000):
        x, y = np.full((9, k), 255, np.uint8), np.zeros((20, k), np.uint8)
        y[3] = 255
        distances = int8blas.hamming(x, FORMS[form](y))
        assert (distances[:, 3] == 0).all()
        assert (np.delete(distances, 3, axis=1) == 8 * k).all()


def test_single_rows_have_no_dimension(isa, rng):
    x, y = bits(rng, 5, 9), bits(rng, 40, 9)
    expected = reference.hamming(x, y).astype(np.int32)
    assert_same(int8blas.hamming(x[2], y), expected[2])
    assert_same(int8blas.hamming(x, y[3]), expected[:, 3])
    scalar = int8blas.hamming(x[2], y[3])
    assert isinstance(scalar, np.int32)
    assert scalar == expected[2, 3]
    assert_same(int8blas.hamming(x[2], FORMS["packed"](y)), expected[2])


def test_empty_rows(isa):
    for m, n, k in product((0, 3), (0, 20), (0, 5)):
        for form in FORMS.values():
            x, y = np.zeros((m, k), np.uint8), np.zeros((n, k), np.uint8)
            assert_same(int8blas.hamming(x, form(y)), np.zeros((m, n), np.int32))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_of_any_strides(isa, layout, rng):
    for m, n, k in ((1, 40, 7), (6, 200, 33), (20, 70, 66)):
        x, y = place(bits(rng, m, k), layout), place(bits(rng, n, k), layout)
        expected = reference.hamming(x, y).astype(np.int32)
        assert_same(int8blas.hamming(x, y), expected)
        out = place(np.full((m, n), 7, np.int32), layout)
        assert int8blas.hamming(x, FORMS["packed"](y), out=out) is out
        assert_same(np.ascontiguousarray(out), expected)


def test_results_over_operands(rng):
    memory = bits(rng, 400)
    x, y = memory[:40].reshape(4, 10), memory[40:80].reshape(4, 10)
    expected = reference.hamming(x, y)
    out = memory[32:96].view(np.int32).reshape(4, 4)
    assert_same(int8blas.hamming(x, y, out=out), expected.astype(np.int32))
    out = np.zeros(4, np.int32)
    assert int8blas.hamming(memory[:10], memory[100:140].reshape(4, 10), out=out) is out
    assert_same(out, reference.hamming(memory[None, :10], memory[100:140].reshape(4, 10))[0].astype(np.int32))


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_is_read_or_written(isa, side, rng):
    for m, n, k in product((1, 3, 4, 9), (1, 15, 16, 17, 65), (1, 3, 4, 18, 125)):
        x, y = (place(values, "C", guarded(side)) for values in (bits(rng, m, k), bits(rng, n, k)))
        out = with_strides(np.zeros((m, n), np.int32), (n, 1), guarded(side))
        expected = reference.hamming(x, y).astype(np.int32)
        for form in (y, FORMS["packed"](y)):
            assert_same(int8blas.hamming(x, form, out=out), expected, m=m, n=n, k=k)
            assert_same(int8blas.nearest(x, form, 3, metric="hamming")[0], reference.nearest(x, y, 3, "hamming")[0])


# --- nearest rows ----------------------------------------------------------------------------------------------------


def check(x, base, rows, k, exclude=None):
    excluded = () if exclude is None else np.flatnonzero(exclude)
    indices, distances = int8blas.nearest(x, base, k, metric="hamming", exclude=exclude)
    expected, expected_distances = reference.nearest(x, rows, k, "hamming", excluded)
    assert_same(indices, expected, k=k)
    assert_same(distances, expected_distances.astype(np.int32), k=k)


@pytest.mark.parametrize("form", FORMS)
def test_nearest_rows(isa, form, rng):
    for m, n, k in SIZES:
        x, y = bits(rng, m, k), bits(rng, n, k)
        for wanted, threads in product((1, 10, 100, n), (1, 2)):
            with int8blas.num_threads(threads):
                check(x, FORMS[form](y), y, wanted)


def test_nearest_rows_of_shards_without_some(isa, rng):
    x, y = bits(rng, 30, 9), bits(rng, 3000, 9)
    y[500:900] = y[:400]
    base = [FORMS["packed"](y[:1000]), y[1000:1203], FORMS["packed"](y[1203:])]
    for kept in (1, 0.5, 0.1, 0.002):
        check(x, base, y, 50, rng.random(len(y)) >= kept)


@given(st.integers(1, 20), st.integers(1, 400), st.integers(1, 40), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_random_rows(m, n, k, wanted, seed):
    rng = np.random.default_rng(seed)
    few = int(rng.choice([1, 3, 255]))
    x, y = rng.integers(0, few + 1, (m, k)).astype(np.uint8), rng.integers(0, few + 1, (n, k)).astype(np.uint8)
    mask = rng.random(n) < rng.choice([0, 0.5, 0.95])
    with int8blas.use_isa(str(rng.choice(int8blas.available_isas()))):
        for form in FORMS.values():
            assert_same(int8blas.hamming(x, form(y)), reference.hamming(x, y).astype(np.int32))
            check(x, form(y), y, wanted, mask)


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"x": s8(2, 3)}, TypeError, "x must be uint8, packed bits, got int8"),
        ({"x": np.ones((2, 3))}, TypeError, "x must be uint8 or int8, got float64"),
        ({"y": s8(4, 3)}, TypeError, "y must be uint8, packed bits, got int8"),
        (
            {"y": int8blas.pack_b(s8(4, 3), trans_b=True)},
            TypeError,
            "y must be uint8, packed bits, got a PackedB of int8",
        ),
        ({"x": u8(1, 2, 3)}, ValueError, "x must have 1 or 2 dimensions, got shape (1, 2, 3)"),
        ({"y": u8(4, 2)}, ValueError, "y must have rows of 3 bytes, as x has, got 2"),
        ({"y": int8blas.pack_b(u8(4, 3))}, ValueError, "y must have rows of 3 bytes, as x has, got 4"),
        ({"out": np.zeros((2, 5), np.int32)}, ValueError, "out must have shape (2, 4), got (2, 5)"),
        ({"out": np.zeros((2, 4), np.int64)}, TypeError, "out must be int32, got int64"),
    ],
)
def test_errors(arguments, error, text):
    with refused(error, text):
        int8blas.hamming(**({"x": u8(2, 3), "y": u8(4, 3)} | arguments))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"queries": s8(2, 3)}, "queries must be uint8, packed bits, for metric 'hamming', got int8"),
        ({"base": s8(4, 3)}, "base must be uint8, packed bits, for metric 'hamming', got int8"),
        (
            {"base": [u8(4, 3), int8blas.pack_b(s8(4, 3), trans_b=True)]},
            "base[1] must be uint8, packed bits, for metric 'hamming', got int8",
        ),
    ],
)
def test_nearest_refuses_what_is_not_bits(arguments, text):
    with refused(TypeError, text):
        int8blas.nearest(**({"queries": u8(2, 3), "base": u8(4, 3), "k": 2, "metric": "hamming"} | arguments))
