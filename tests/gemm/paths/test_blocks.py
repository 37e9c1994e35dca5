"""The general path: tiles of C from packed panels of B, in blocks."""

import numpy as np
import reference
from arrays import SIGN_PAIRS
from paths import (
    assert_every_way,
    check_explained,
)

import int8blas

SLABS = ((66, 1200, 4200), (70, 70, 9000))
LARGE = ((65, 70, 1030), (70, 1040, 517), (53, 1100, 300))


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
