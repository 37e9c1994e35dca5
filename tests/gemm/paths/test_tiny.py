"""Very small problems: everything on the stack."""

import pytest
from paths import LAYOUTS, TALL, TINY, check_explained, check_options


@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_zero_points_offsets_and_accumulation(isa, pair, a_layout, rng):
    for shape in TINY + TALL:
        check_options(pair, [shape] * len(LAYOUTS), a_layout, rng)


def test_explain_tells_the_path(isa, rng):
    check_explained("tiny", isa, TINY, "C order", rng)
