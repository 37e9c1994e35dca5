"""Small K: C is written row by row, in whole cache lines, and past the caches where it is large."""

import numpy as np
import paths
import pytest
import reference
from arrays import B_FORMS, assert_same
from paths import LAYOUTS, check_explained, check_layouts_of_c, check_options, check_products

import int8blas

SHAPES = paths.SHAPES["small_k"]
LARGE = ((1024, 1024, 8), (500, 100, 5))
STREAMED = ((2050, 2064, 3), (2400, 1800, 9))


@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_products(isa, pair, a_layout, rng):
    check_products(pair, SHAPES, a_layout, rng)


@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_zero_points_offsets_and_accumulation(isa, pair, a_layout, rng):
    check_options(pair, SHAPES, a_layout, rng)


@pytest.mark.parametrize("form", B_FORMS)
def test_any_layout_of_c(isa, form, rng):
    check_layouts_of_c(SHAPES, form, rng)


def test_large_c_at_any_place_in_a_cache_line(isa, pair, rng):
    for m, n, k in STREAMED:
        a, b = pair.operands(rng, m, n, k)
        expected = reference.gemm(1, a, b)
        for start, threads in ((0, 1), (13, 1), (0, 2)):
            memory = np.full(m * n + 48, -7, np.int32)
            first = -memory.ctypes.data // 4 % 16 + start
            c = memory[first : first + m * n].reshape(m, n)
            # The part of a second thread is not as large as what is written past the caches.
            with int8blas.num_threads(threads):
                pair.gemm(1, a, b, c=c, overwrite_c=True)
            assert_same(c, expected, m=m, n=n, k=k, start=start, threads=threads)
            assert (memory[:first] == -7).all()
            assert (memory[first + m * n :] == -7).all()


def test_explain_tells_the_path(isa, rng):
    check_explained("blocks" if isa == "ref" else "small_k", isa, LARGE, "packed", rng)
