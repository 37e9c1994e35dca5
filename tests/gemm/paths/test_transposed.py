"""Problems that are computed transposed: few columns and A in Fortran order, or C in Fortran order and a small K."""

import numpy as np
import reference
from arrays import SIGN_PAIRS
from paths import LAYOUTS, assert_every_way

import int8blas

FEW_COLUMNS = ((64, 1, 130), (257, 2, 65), (1000, 3, 259), (40, 4, 17), (300, 4, 1030), (90, 1, 5), (1100, 60, 35))
SMALL_K_COLUMNS = ((400, 130, 3), (740, 67, 8), (528, 129, 1), (66, 760, 4), (2064, 1200, 3))
LARGE_C = 1 << 20  # number of elements from which only some options are tested


def test_products_that_are_transposed(isa, pair, rng):
    """The products have every layout of C, and every parameter of gemm."""
    for m, n, k in FEW_COLUMNS + SMALL_K_COLUMNS:
        a, b = pair.operands(rng, m, n, k)
        a = np.asfortranarray(a)
        c = np.asfortranarray(rng.integers(-1000, 1000, (m, n), np.int32))
        row, column = rng.integers(-1000, 1000, m), rng.integers(-1000, 1000, n)
        for options in (
            {},
            {"ao": 9, "bo": 7, "co": 11},
            {"offsetc": "R", "co": column, "ao": 5},
            {"offsetc": "C", "co": row, "bo": 1},
            {"ao": row % 100, "bo": column % 100},
            {"beta": 1},
            {"alpha": -0.37, "beta": 2.5, "co": 17},
            {"numerics": "saturating"},
        ):
            if m * n > LARGE_C and options not in ({}, {"beta": 1}):
                continue
            arguments = {"alpha": 1, "beta": 0, **options}
            expected = reference.gemm(a=a, b=b, c=c, **arguments)
            for layout, laid_out in LAYOUTS.items():
                assert_every_way(
                    lambda b, a=a, c=c, laid_out=laid_out, x=arguments: pair.gemm(
                        a=a, b=b, c=laid_out(c.copy("K")), overwrite_c=True, **x),
                    b, expected, m=m, n=n, k=k, options=list(options), layout=layout,
                )  # fmt: skip


def test_explain_tells_what_is_transposed(isa, rng):
    for m, n, k in FEW_COLUMNS:
        a, b = SIGN_PAIRS[1].operands(rng, m, n, k)
        by_columns = int8blas.explain(np.asfortranarray(a), b)
        assert by_columns.shape == (m, n, k)
        assert by_columns.transposed == (m >= (16 if isa == "ref" else 4) * n)
        assert ("C.T = B.T @ A.T" in str(by_columns)) == by_columns.transposed
        for other in (int8blas.explain(a, b), int8blas.explain(np.asfortranarray(a), int8blas.pack_b(b))):
            assert not other.transposed
