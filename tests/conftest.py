"""Fixtures of every test: the instruction set and the sign pair."""

import numpy as np
import pytest
from arrays import SIGN_PAIRS

import int8blas


@pytest.fixture(params=int8blas.available_isas())
def isa(request):
    """Each instruction set this CPU supports, selected for the duration of the test."""
    with int8blas.use_isa(request.param):
        yield request.param


@pytest.fixture(params=SIGN_PAIRS, ids=[pair.name for pair in SIGN_PAIRS])
def pair(request):
    """Each combination of operand types, with its function."""
    return request.param


@pytest.fixture
def rng():
    """The same random numbers in every run of a test."""
    return np.random.default_rng(20190528)
