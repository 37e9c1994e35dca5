"""C = A @ B on every shape around the edges of tiles, panels and blocks, in every form of B."""

import numpy as np
import pytest
import reference
from arrays import B_FORMS, SIGN_PAIRS, assert_same
from shapes import BLOCKED, CLASSES, GRID, M_EDGES, SMALL_GRID

import int8blas

LARGEST_CLASS_PROBLEM = 2**25


def test_every_shape_of_the_grid(isa, pair, rng):
    for m, n, k in GRID:
        a, b = pair.operands(rng, m, n, k)
        expected = reference.gemm(1.0, a, b)
        for form, make in B_FORMS.items():
            assert_same(pair.gemm(1.0, a, make(b)), expected, form=form, m=m, n=n, k=k)


def test_the_grid_covers_20000_distinct_problems():
    problems = len(set(GRID)) * len(B_FORMS) * len(SIGN_PAIRS) * len(int8blas.available_isas())
    assert problems >= 20_000
    assert {size for shape in GRID for size in shape} == set(range(71))


@pytest.mark.parametrize("form", B_FORMS)
def test_shapes_larger_than_a_block(isa, pair, form, rng):
    for m, n, k in BLOCKED:
        a, b = pair.operands(rng, m, n, k)
        assert_same(pair.gemm(1.0, a, B_FORMS[form](b)), reference.gemm(1.0, a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("shape_class", CLASSES)
def test_shape_classes(isa, shape_class, rng):
    for m, n, k in CLASSES[shape_class]:
        if m * n * k <= LARGEST_CLASS_PROBLEM:
            a, b = SIGN_PAIRS[0].operands(rng, m, n, k)
            assert_same(int8blas.gemm_u8s8s32(1.0, a, b), reference.gemm(1.0, a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("a_order", "CF")
@pytest.mark.parametrize("b_order", "CF")
@pytest.mark.parametrize("c_order", "CF")
def test_memory_orders(isa, pair, a_order, b_order, c_order, rng):
    for m, n, k in SMALL_GRID:
        a, b = pair.operands(rng, m, n, k)
        c = np.empty((m, n), np.int32, order=c_order)
        result = pair.gemm(1.0, np.asarray(a, order=a_order), np.asarray(b, order=b_order), c=c, overwrite_c=True)
        assert result is c
        assert_same(c, reference.gemm(1.0, a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("kind", ["extreme", "small"])
@pytest.mark.parametrize("form", B_FORMS)
def test_values_that_always_and_never_saturate_16_bits(isa, pair, form, kind, rng):
    for m, n, k in SMALL_GRID:
        a, b = pair.operands(rng, m, n, k, kind)
        assert_same(pair.gemm(1.0, a, B_FORMS[form](b)), reference.gemm(1.0, a, b), m=m, n=n, k=k)


def test_each_row_is_independent_of_the_others(isa, pair, rng):
    a, b = pair.operands(rng, max(M_EDGES), 65, 66)
    everything = pair.gemm(1.0, a, b)
    for row in range(len(a)):
        assert_same(pair.gemm(1.0, a[row : row + 1], b), everything[row : row + 1], row=row)
