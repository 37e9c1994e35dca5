"""Products of many rows with few columns and a small K: several rows of A fit a register."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import reference
from arrays import assert_same, between_guards, needs_mprotect, random_values
from paths import check_explained

import int8blas

# (M, N, K): 3 to 16 rows in a register, with and without a remainder.
SHAPES = [
    (192, 1, 1), (193, 1, 4), (200, 2, 2), (301, 3, 3), (300, 4, 4), (299, 5, 3), (250, 3, 5), (192, 5, 1), (277, 2, 4),
]  # fmt: skip


def test_explain_tells_the_path(isa, rng):
    check_explained("register", isa, SHAPES, "C order", rng)


@pytest.mark.parametrize("threads", [1, 3])
def test_signs_and_zero_points(isa, pair, threads, rng):
    for m, n, k in SHAPES:
        a, b = pair.operands(rng, m, n, k)
        with int8blas.num_threads(threads):
            for ao, bo in product((0, np.iinfo(a.dtype).min, np.iinfo(a.dtype).max), (0, np.iinfo(b.dtype).min)):
                assert_same(int8blas.matmul(a, b, ao=ao, bo=bo), reference.matmul(a, b, ao, bo), m=m, n=n, k=k)


def test_orders_in_memory(isa, pair, rng):
    for m, n, k in SHAPES:
        a, b = pair.operands(rng, m, n, k)
        wide = random_values(rng, a.dtype, (m, k + 1))
        for x in (np.asfortranarray(a), a[::-1], a[:, ::-1], wide[:, :k], wide[:, 1:][::-1]):
            for y in (b, np.asfortranarray(b), b[::-1, ::-1]):
                assert_same(int8blas.matmul(x, y), reference.matmul(x, y), m=m, n=n, k=k)
        apart = np.zeros((m, n + 2), np.int32)
        int8blas.matmul(a, b, out=apart[:, 1:-1])
        assert_same(apart[:, 1:-1], reference.matmul(a, b))
        assert not apart[:, [0, -1]].any()


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_is_read_or_written(isa, pair, side, rng):
    place = partial(between_guards, side)
    for m, n, k in SHAPES:
        a, b = map(place, pair.operands(rng, m, n, k))
        out = place(np.zeros((m, n), np.int32))
        int8blas.matmul(a, b, out=out)
        assert_same(out, reference.matmul(a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("empty", range(3))
def test_explain_takes_empty_products(isa, empty):
    m, n, k = (0 if i == empty else size for i, size in enumerate((385, 3, 2)))
    a, b = np.zeros((m, k), np.int8), np.zeros((k, n), np.int8)
    assert int8blas.explain(a, b).shape == (m, n, k)
    assert_same(int8blas.matmul(a, b), np.zeros((m, n), np.int32))
