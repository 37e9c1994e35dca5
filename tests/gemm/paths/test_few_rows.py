"""Few rows of A: a plain B is read in place along its rows. Other forms of B take other paths."""

import reference
from arrays import SIGN_PAIRS
from paths import assert_every_way, check_explained

# B beyond the L2 cache.
FAR_ROWS = ((1, 1100, 1030), (2, 1088, 1030), (5, 1088, 1030), (13, 1090, 1030))
MORE_FAR_ROWS = ((1, 1056, 1026), (2, 1057, 1026), (3, 1030, 1060), (8, 2100, 517), (21, 1030, 1027))
LARGE = ((1, 2048, 1030), (2, 2100, 999))


def test_rows_of_a_large_b(isa, rng):
    for i, (m, n, k) in enumerate(FAR_ROWS + MORE_FAR_ROWS):
        pair = SIGN_PAIRS[i % len(SIGN_PAIRS)]
        a, b = pair.operands(rng, m, n, k)
        assert_every_way(lambda b, a=a, pair=pair: pair.gemm(1, a, b), b, reference.gemm(1, a, b), m=m, n=n, k=k)


def test_explain_tells_the_path(isa, rng):
    # ref has no kernels that read operands in place.
    check_explained("blocks" if isa == "ref" else "few_rows", isa, LARGE, "C order", rng)
