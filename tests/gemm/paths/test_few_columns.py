"""Few columns, or few rows: dot products with an operand that is read in place along k."""

import numpy as np
import pytest
from arrays import SIGN_PAIRS
from paths import check_explained

import int8blas

LARGE_DOTS = ((1500, 2, 1030), (999, 8, 1030))
LARGE_DOTS_OF_COLUMNS = ((3, 999, 1030), (16, 300, 999))


@pytest.mark.parametrize(("shapes", "form"), [(LARGE_DOTS, "packed"), (LARGE_DOTS_OF_COLUMNS, "F order")])
def test_explain_tells_the_path(isa, shapes, form, rng):
    if isa == "amx" and form == "packed":  # more columns are for the matrix unit
        shapes = [shape for shape in shapes if shape[1] <= 4]
    # ref has no kernels for operands in place.
    check_explained("blocks" if isa == "ref" else "few_columns", isa, shapes, form, rng)


def test_explain_tells_whether_more_rows_pack_b(isa, rng):
    """They read columns in place with VNNI of 512 bits, whose kernels have 16 of them."""
    a, b = SIGN_PAIRS[1].operands(rng, 64, 300, 999)
    b = np.asfortranarray(b)
    in_place = isa == "avx512vnni"
    assert int8blas.explain(a, b).path == ("few_columns" if in_place else "blocks")
    assert int8blas.explain(a, int8blas.pack_b(b)).path == "blocks"
