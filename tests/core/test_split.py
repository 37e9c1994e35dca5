"""How work is divided among threads, from 4 to 128 of them."""

import itertools

import numpy as np
import pytest
import reference
from arrays import B_FORMS, SIGN_PAIRS, assert_same
from int8blas.core.split import split_of

import int8blas

GRIDS = [*itertools.product((1, 2, 3, 7, 10, 22, 128), (1, 2, 5, 13, 43, 86)), (1, 1000), (997, 1), (125, 683)]


def size(piece):
    row, row_end, column, column_end = piece
    return (row_end - row) * (column_end - column)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 31, 32, 48, 56, 64, 96, 127, 128])
def test_every_unit_once_and_no_part_above_the_mean_rounded_up(threads):
    for rows, columns in GRIDS:
        parts = split_of(rows, columns, threads, columns_first=threads % 2 == 0)
        assert len(parts) <= threads
        seen = np.zeros((rows, columns), int)
        for pieces in parts:
            assert 1 <= len(pieces) <= 3
            for row, row_end, column, column_end in pieces:
                seen[row:row_end, column:column_end] += 1
        assert (seen == 1).all(), (rows, columns)
        most = -(-rows * columns // min(threads, rows * columns))
        assert max(sum(map(size, pieces)) for pieces in parts) <= most, (rows, columns)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7, 16, 31, 128])
def test_threads_are_left_out_that_would_not_make_the_largest_part_smaller(threads):
    for rows, columns in GRIDS:
        every = split_of(rows, columns, threads)
        parts = split_of(rows, columns, threads, leaves_out=True)
        seen = np.zeros((rows, columns), int)
        for row, row_end, column, column_end in itertools.chain(*parts):
            seen[row:row_end, column:column_end] += 1
        assert (seen == 1).all(), (rows, columns)
        assert len(parts) <= len(every)
        assert max(sum(map(size, pieces)) for pieces in parts) == max(sum(map(size, pieces)) for pieces in every)
    assert len(split_of(5, 1, 4, leaves_out=True)) == 3
    assert len(split_of(1, 9, 8, leaves_out=True)) == 5


def test_rectangles_where_they_are_even():
    assert split_of(8, 6, 4) == [[(0, 2, 0, 6)], [(2, 4, 0, 6)], [(4, 6, 0, 6)], [(6, 8, 0, 6)]]
    assert split_of(8, 6, 2, columns_first=True) == [[(0, 8, 0, 3)], [(0, 8, 3, 6)]]
    assert split_of(1, 4, 4) == [[(0, 1, i, i + 1)] for i in range(4)]


def test_stretches_where_rectangles_are_not():
    assert split_of(3, 3, 2) == [[(0, 3, 0, 1), (0, 1, 1, 2)], [(1, 3, 1, 2), (0, 3, 2, 3)]]


@pytest.mark.parametrize("packed", [False, True])
def test_columns_of_whole_panels_fall_into_equal_halves(packed, isa):
    """196 rows are an odd number of tiles of 8, so columns are divided: 16 panels into 8 and 8, not 9 and 7."""
    b = np.zeros((1024, 256), np.int8)
    with int8blas.num_threads(2):
        plan = int8blas.explain(np.zeros((196, 1024), np.uint8), int8blas.pack_b(b) if packed else b)
    if plan.thread_grid == (1, 2):
        assert plan.block[1] <= 128
    else:
        assert plan.thread_grid == (2, 1)


# Problems in which threads divide rows, columns or other parts of C: with small and large B, few columns, a small K.
UNEVEN = (150, 250, 301), (49, 700, 270), (70, 65, 5000), (333, 97, 300), (301, 333, 22), (1001, 7, 300), (260, 48, 410)


@pytest.mark.parametrize("threads", [2, 5, 7])
def test_uneven_grids(isa, threads, rng):
    for (m, n, k), pair in zip(UNEVEN, itertools.cycle(SIGN_PAIRS), strict=False):
        a, b = pair.operands(rng, m, n, k)
        c = rng.integers(-1000, 1000, (m, n), np.int32)
        row, column = rng.integers(0, 100, m), rng.integers(0, 100, n)
        for options in (
            {"ao": 3, "bo": 5},
            {"ao": row, "bo": column, "offsetc": "R", "co": column},
            {"alpha": 0.25, "beta": -2.0, "c": c, "offsetc": "C", "co": row},
        ):
            expected = reference.gemm(**({"alpha": 1, "a": a, "b": b} | options))
            for form, make in B_FORMS.items():
                with int8blas.num_threads(threads):
                    result = pair.gemm(**({"alpha": 1, "a": a, "b": make(b)} | options))
                assert_same(result, expected, form=form, m=m, n=n, k=k, options=list(options))


def test_a_long_k_is_divided(isa, rng):
    shapes = (3, 20, 70003), (1, 1, 600001), (2, 65, 30002), (5, 3, 250001)
    for (m, n, k), pair in zip(shapes, SIGN_PAIRS, strict=True):
        a, b = pair.operands(rng, m, n, k)
        c = rng.integers(-1000, 1000, (m, n), np.int32)
        row, column = rng.integers(0, 100, m), rng.integers(0, 100, n)
        for options in (
            {},
            {"ao": 3, "bo": 5, "co": 7},
            {"ao": row, "bo": column, "offsetc": "R", "co": column},
            {"alpha": 0.25, "beta": -2.0, "c": c, "offsetc": "C", "co": row},
            {"numerics": "saturating"},
        ):
            expected = reference.gemm(**({"alpha": 1, "a": a, "b": b} | options))
            for form, make in B_FORMS.items():
                with int8blas.num_threads(3):
                    result = pair.gemm(**({"alpha": 1, "a": a, "b": make(b)} | options))
                assert_same(result, expected, form=form, m=m, n=n, k=k, options=list(options))


def test_explain_tells_the_parts_of_k():
    a, b = np.zeros((4, 100000), np.uint8), np.zeros((100000, 16), np.int8)
    with int8blas.num_threads(4):
        assert int8blas.explain(a, b).k_parts == 4
        assert int8blas.explain(a[:, :300], b[:300]).k_parts == 1
