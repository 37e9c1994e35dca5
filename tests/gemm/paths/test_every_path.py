"""The results of every path, for shapes that take the path."""

import pytest
from arrays import B_FORMS
from paths import LAYOUTS, SHAPES, check_layouts_of_c, check_options, check_products


@pytest.mark.parametrize("path", SHAPES)
@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_products(isa, pair, path, a_layout, rng):
    check_products(pair, SHAPES[path], a_layout, rng)


@pytest.mark.parametrize("path", SHAPES)
@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_zero_points_offsets_and_accumulation(isa, pair, path, a_layout, rng):
    check_options(pair, SHAPES[path], a_layout, rng)


@pytest.mark.parametrize("path", SHAPES)
@pytest.mark.parametrize("form", B_FORMS)
def test_any_layout_of_c(isa, path, form, rng):
    check_layouts_of_c(SHAPES[path], form, rng)
