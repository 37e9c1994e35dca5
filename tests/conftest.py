"""Fixtures of every test: the instruction set and the sign pair."""

import numpy as np
import pytest
from arrays import SIGN_PAIRS
from hypothesis import HealthCheck, settings

import int8blas

settings.register_profile("int8blas", max_examples=150, derandomize=True, deadline=None, database=None,
                          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
settings.load_profile("int8blas")


def pytest_report_header():
    """Instruction sets that the fixture `isa` goes through here."""
    return f"instruction sets: {', '.join(int8blas.available_isas())}"


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
