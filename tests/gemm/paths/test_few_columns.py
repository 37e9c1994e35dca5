"""Few columns, or few rows: dot products with an operand that is read in place along k."""

import numpy as np
import pytest
import reference
from arrays import SIGN_PAIRS, WITH_MATRIX_UNIT, assert_same, guarded, needs_mprotect, random_values
from paths import check_explained

import int8blas

LARGE_DOTS = ((1500, 2, 1030), (999, 8, 1030))
LARGE_DOTS_OF_COLUMNS = ((3, 999, 1030), (16, 300, 999))


@pytest.mark.parametrize(("shapes", "form"), [(LARGE_DOTS, "packed"), (LARGE_DOTS_OF_COLUMNS, "F order")])
def test_explain_tells_the_path(isa, shapes, form, rng):
    if isa in WITH_MATRIX_UNIT and form == "packed":  # the matrix unit takes more columns
        shapes = [shape for shape in shapes if shape[1] <= 4]
    # ref has no kernels that read operands in place.
    check_explained("blocks" if isa == "ref" else "few_columns", isa, shapes, form, rng)


def test_explain_tells_whether_more_rows_pack_b(isa, rng):
    """With 512-bit VNNI they read columns in place, because these kernels take 16 columns."""
    a, b = SIGN_PAIRS[1].operands(rng, 64, 300, 999)
    b = np.asfortranarray(b)
    in_place = isa == "avx512vnni"
    assert int8blas.explain(a, b).path == ("few_columns" if in_place else "blocks")
    assert int8blas.explain(a, int8blas.pack_b(b)).path == "blocks"


def test_vectors_that_are_not_contiguous(isa, pair, rng):
    """Every other k, other steps, and negative steps along k in either operand, for products of matrices by vectors and
    by few columns."""
    for m, n, k in ((40, 1, 200), (300, 2, 65), (70, 4, 516), (9, 3, 1030), (5, 1, 8)):
        for step in (2, 3, 7, -1, -2, -5):
            size = k * abs(step)
            a = random_values(rng, pair.a_dtype, (m, size))[:, ::step]
            b = random_values(rng, pair.b_dtype, (k, n))
            backwards = random_values(rng, pair.b_dtype, (k, n))[::-1]
            for y in (b, backwards, np.asfortranarray(backwards), b[:, 0], backwards[:, 0]):
                assert_same(int8blas.matmul(a, y), reference.matmul(a, y), m=m, n=n, k=k, step=step)
            assert_same(int8blas.matmul(b.T, a.T), reference.matmul(b.T, a.T), m=m, n=n, k=k, step=step)
            assert_same(int8blas.matmul(a, b, ao=3, bo=5), reference.matmul(a, b, 3, 5), m=m, n=n, k=k, step=step)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_vectors_that_are_not_contiguous_is_read(isa, side, rng):
    for k, step in ((100, 2), (97, 3), (64, 5), (90, -1), (75, -2)):
        memory = guarded(side)(40 * k * abs(step) - (abs(step) - 1))
        memory[...] = rng.integers(0, 256, memory.size, np.uint8)
        strides = k * abs(step), step
        start = memory[(k - 1) * -step :] if step < 0 else memory
        a = np.lib.stride_tricks.as_strided(start, (40, k), strides)
        b = random_values(rng, np.int8, (k,))
        assert_same(int8blas.matmul(a, b), reference.matmul(a, b[:, None])[:, 0], k=k, step=step)
