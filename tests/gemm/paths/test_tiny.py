"""Very small problems: everything on the stack."""

import pytest
from arrays import WITH_MATRIX_UNIT
from paths import LAYOUTS, TALL, TINY, check_explained, check_options, check_products

import int8blas

# More multiply-adds than the path takes with rows that are not narrow.
NARROW = ((20_000, 9, 13), (30_000, 47, 2), (60_000, 3, 12))


@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_zero_points_offsets_and_accumulation(isa, pair, a_layout, rng):
    for shape in TINY + TALL:
        check_options(pair, [shape] * len(LAYOUTS), a_layout, rng)


def test_explain_tells_the_path(isa, rng):
    check_explained("tiny", isa, TINY, "C order", rng)
    with int8blas.num_threads(1):
        check_explained("blocks" if isa in WITH_MATRIX_UNIT else "tiny", isa, NARROW, "C order", rng)


def test_many_narrow_rows(isa, pair, rng):
    """The path prepares rows of int8 in several steps."""
    check_products(pair, [*NARROW, (5000, 17, 100)], "rows", rng)
    check_options(pair, [NARROW[0]], "rows", rng)
