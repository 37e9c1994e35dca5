"""Stacks of matrices that fit a register, of larger matrices, and of vectors: one kernel call or one plan for a run
of them."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import reference
from arrays import assert_same, between_guards, needs_mprotect, random_values

import int8blas

# (M, N, K): every number of pairs of k and of vectors, the largest sizes of each kernel, and one more in each
# dimension, which takes another path or several slices.
SIZES = [
    (1, 1, 1), (2, 2, 2), (3, 3, 3), (3, 1, 3), (4, 4, 4), (4, 1, 4), (1, 1, 16), (2, 8, 2), (16, 1, 1), (1, 16, 1),
    (5, 3, 3), (3, 5, 3), (2, 2, 8), (2, 1, 7), (4, 4, 1), (1, 1, 17), (1, 1, 64), (1, 1, 130), (17, 1, 1), (4, 4, 5),
    (8, 1, 8), (5, 5, 5), (7, 15, 6), (10, 1, 7), (1, 16, 16), (16, 17, 5), (12, 32, 20), (32, 8, 31), (33, 4, 4),
    (6, 33, 3), (20, 1, 23), (1, 20, 23), (5, 2, 64), (3, 1, 40), (1, 2, 33), (17, 2, 20), (2, 2, 17), (33, 1, 64),
    (1, 40, 16), (2, 1, 65), (9, 1, 32), (4, 1, 33), (65, 1, 9), (127, 1, 20), (1, 66, 32), (66, 1, 3), (1, 70, 2),
    (67, 3, 4), (5, 70, 3), (100, 1, 1), (1, 1, 9), (1, 1, 32), (1, 1, 33), (1, 1, 63),
]  # fmt: skip


def stack(rng, dtype, count, rows, columns, layout):
    """A stack of matrices in one of several orders in memory."""
    if layout == "columns":
        return random_values(rng, dtype, (count, columns, rows)).swapaxes(1, 2)
    if layout == "reversed":
        return random_values(rng, dtype, (count, rows, columns))[::-1, ::-1, ::-1]
    if layout == "apart":
        return random_values(rng, dtype, (count, rows + 1, 2 * columns + 15))[:, :rows, : 2 * columns : 2]
    if layout == "one":
        return np.broadcast_to(random_values(rng, dtype, (1, rows, columns)), (count, rows, columns))
    if layout == "inside out":
        return random_values(rng, dtype, (rows, columns, count)).transpose(2, 0, 1)
    return random_values(rng, dtype, (count, rows, columns))


LAYOUTS = ("plain", "columns", "reversed", "apart", "one", "inside out")


@pytest.mark.parametrize("layouts", [*product(LAYOUTS, ("plain",)), *product(("plain",), LAYOUTS[1:]), LAYOUTS[1:3]])
def test_every_order_in_memory(isa, pair, layouts, rng):
    for m, n, k in SIZES:
        a = stack(rng, pair.a_dtype, 23, m, k, layouts[0])
        b = stack(rng, pair.b_dtype, 23, k, n, layouts[1])
        assert_same(int8blas.matmul(a, b), reference.matmul(a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("layouts", [("inside out", "inside out"), ("inside out", "one"), ("one", "inside out")])
def test_runs_of_neighbouring_vectors(isa, pair, layouts, rng):
    for count, k in product((1, 7, 8, 15, 16, 17, 63, 64, 70, 131), (1, 2, 9, 130)):
        a = stack(rng, pair.a_dtype, count, 1, k, layouts[0])
        b = stack(rng, pair.b_dtype, count, k, 1, layouts[1])
        assert_same(int8blas.matmul(a, b), reference.matmul(a, b), count=count, k=k)
        out = np.zeros((count, 1, 2), np.int32)
        int8blas.matmul(a, b, ao=2, bo=3, out=out[..., :1])
        assert_same(out[..., :1], reference.matmul(a, b, 2, 3), count=count, k=k)
        assert not out[..., 1].any()


def test_long_runs_of_neighbouring_vectors_saturate(isa):
    ones = np.full((140_000, 1, 9), -128, np.int8).transpose(2, 1, 0)
    with pytest.warns(RuntimeWarning, match="saturated"):
        sums = int8blas.matmul(ones, ones.swapaxes(1, 2))
    assert_same(sums, np.full((9, 1, 1), 2**31 - 1, np.int32))


def test_zero_points_and_given_results(isa, pair, rng):
    for m, n, k in SIZES:
        a, b = random_values(rng, pair.a_dtype, (9, m, k)), random_values(rng, pair.b_dtype, (9, k, n))
        for ao, bo in product((0, *ends(pair.a_dtype)), (0, *ends(pair.b_dtype))):
            assert_same(int8blas.matmul(a, b, ao=ao, bo=bo), reference.matmul(a, b, ao, bo), m=m, n=n, k=k)
        rows = np.arange(m)
        assert_same(int8blas.matmul(a, b, ao=rows), reference.matmul(a, b, rows[:, None]), m=m, n=n, k=k)
        wide = np.zeros((9, m + 1, 2 * n), np.int32)
        int8blas.matmul(a, b, out=wide[:, 1:, ::2])
        assert_same(wide[:, 1:, ::2], reference.matmul(a, b), m=m, n=n, k=k)
        assert not wide[:, 0].any()
        assert not wide[:, :, 1::2].any()
        apart = np.full((9, m * n + 3), 7, np.int32)
        int8blas.matmul(a, b, out=apart[:, : m * n].reshape(9, m, n))
        assert (apart[:, m * n :] == 7).all()
        assert_same(int8blas.matmul(a, b, dtype=np.int64), reference.matmul(a, b).astype(np.int64), m=m, n=n, k=k)


def ends(dtype):
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def test_extreme_values(isa, pair):
    for m, n, k in SIZES:
        for a_value, b_value in product(ends(pair.a_dtype), ends(pair.b_dtype)):
            a, b = np.full((5, m, k), a_value, pair.a_dtype), np.full((5, k, n), b_value, pair.b_dtype)
            assert_same(int8blas.matmul(a, b), reference.matmul(a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_stacks_of_several_dimensions(isa, pair, threads, rng):
    """Dimensions with one common stride are merged into one; dimensions without one give several runs."""
    with int8blas.num_threads(threads):
        for m, n, k in ((3, 3, 3), (1, 1, 40), (6, 5, 7)):
            a = random_values(rng, pair.a_dtype, (3, 5, 4, m, k))
            b = random_values(rng, pair.b_dtype, (3, 5, 4, k, n))
            for x, y in ((a, b), (a[:, ::2], b[:, ::2]), (a[:, :1], b), (a, b[:, 1:2, ::-1]), (a[0], b), (a, b[0, 0])):
                assert_same(int8blas.matmul(x, y), reference.matmul(x, y), a=x.shape, b=y.shape)
            out = np.empty((4, 3, 5, m, n), np.int32).transpose(1, 2, 0, 3, 4)
            assert_same(int8blas.matmul(a, b, out=out), reference.matmul(a, b))


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_is_read_or_written(isa, pair, side, rng):
    place = partial(between_guards, side)
    for m, n, k in SIZES:
        for count in (1, 2, 3, 20):
            a = place(random_values(rng, pair.a_dtype, (count, m, k)))
            b = place(random_values(rng, pair.b_dtype, (count, k, n)))
            out = place(np.zeros((count, m, n), np.int32))
            int8blas.matmul(a, b, out=out)
            assert_same(out, reference.matmul(a, b), count=count, m=m, n=n, k=k)
    for count, k in product((1, 8, 17, 70), (1, 3)):
        a, b = (place(random_values(rng, dtype, (k, count))) for dtype in (pair.a_dtype, pair.b_dtype))
        out = place(np.zeros((count, 1, 1), np.int32))
        a, b = a.T[:, None], b.T[..., None]
        int8blas.matmul(a, b, out=out)
        assert_same(out, reference.matmul(a, b), count=count, k=k)


def test_sums_of_vectors_that_saturate(isa):
    ones = np.full((3, 1, 140_000), -128, np.int8)
    with pytest.warns(RuntimeWarning, match="saturated"):
        sums = int8blas.matmul(ones, ones.swapaxes(1, 2))
    assert_same(sums, np.full((3, 1, 1), 2**31 - 1, np.int32))
