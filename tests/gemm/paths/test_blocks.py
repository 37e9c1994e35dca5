"""The general path: tiles of C from packed panels of B, in blocks."""

import numpy as np
import paths
import pytest
import reference
from arrays import B_FORMS, SIGN_PAIRS
from paths import (
    LAYOUTS,
    assert_every_way,
    check_explained,
    check_layouts_of_c,
    check_options,
    check_products,
)

import int8blas

SHAPES = paths.SHAPES["blocks"]
SLABS = ((66, 1200, 4200), (70, 70, 9000))
LARGE = ((65, 70, 1030), (70, 1040, 517), (53, 1100, 300))


@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_products(isa, pair, a_layout, rng):
    check_products(pair, SHAPES, a_layout, rng)


@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_zero_points_offsets_and_accumulation(isa, pair, a_layout, rng):
    check_options(pair, SHAPES, a_layout, rng)


@pytest.mark.parametrize("form", B_FORMS)
def test_any_layout_of_c(isa, form, rng):
    check_layouts_of_c(SHAPES, form, rng)


def test_more_than_one_slab_of_packed_b(isa, rng):
    for (m, n, k), pair in zip(SLABS, SIGN_PAIRS[1:3], strict=True):
        a, b = pair.operands(rng, m, n, k)
        assert_every_way(lambda b, a=a, pair=pair: pair.gemm(1, a, b), b, reference.gemm(1, a, b), m=m, n=n, k=k)


def test_explain_tells_the_path(isa, rng):
    check_explained("blocks", isa, LARGE, "C order", rng)


def test_explain_tells_the_tile_of_one_row(isa):
    a, packed = np.ones((1, 5000), np.uint8), int8blas.pack_b(np.ones((5000, 400), np.int8))
    assert int8blas.explain(a, packed).tile == (1, 16 if isa == "ref" else 48)
    assert int8blas.explain(a[:, :50], int8blas.pack_b(np.ones((50, 400), np.int8))).tile[0] == 1
