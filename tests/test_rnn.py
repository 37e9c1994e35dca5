"""LSTM and GRU: the bits of the oracle for every kind, direction, shape and type."""

from itertools import product

import numpy as np
import pytest
from recurrent import DIRECTIONS, KINDS, random_problem

every_kind = pytest.mark.parametrize("kind", KINDS)
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)

# Units on, under and over the edges of panels (16), of groups (4) and of tiles of panels.
UNITS = (1, 3, 15, 16, 17, 20, 32, 47, 48, 49, 64, 70)


# --- shapes ----------------------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("units", UNITS)
def test_units_and_rows(isa, kind, units, rng):
    for n, inputs in zip(range(1, 10), (1, 70, 4, 5, 16, 33, 64, 7, 10), strict=True):
        random_problem(rng, kind, units, inputs, n, t=3).check()


@every_kind
@every_direction
def test_time_steps_layers_and_directions(isa, kind, direction, rng):
    for t, layers, dst_dtype in product(range(7), (1, 2, 3), (np.uint8, np.float32)):
        random_problem(rng, kind, 18, t=t, layers=layers, direction=direction, dst_dtype=dst_dtype).check(layers=layers)
