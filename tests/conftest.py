"""Fixtures of every test: the instruction set and the sign pair."""

import functools
import os

# Processes of pytest-xdist share the CPUs. A waiting thread must not keep a core busy, and the products of the oracles
# are too small for threads. The libraries read this when they are loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Tests use any number of threads, however many cores the machine has.
os.environ.setdefault("INT8BLAS_OVERSUBSCRIBE", "1")

import numpy as np
import pytest
from arrays import SIGN_PAIRS
from hypothesis import HealthCheck, settings
from sharing import sharing

import int8blas

settings.register_profile("int8blas", max_examples=150, derandomize=True, deadline=None, database=None,
                          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
settings.load_profile("int8blas")

EACH = object()


def pytest_addoption(parser):
    parser.addoption("--isa", action="append", choices=int8blas.available_isas(), help="this one, or these, not all")


def selected(config):
    """Instruction sets that the fixture `isa` goes through."""
    return config.getoption("--isa") or int8blas.available_isas()


def pytest_report_header(config):
    return f"instruction sets: {', '.join(selected(config))}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let a process that has finished its tests take over tests of another: some take seconds, most milliseconds."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture
def isa():
    """Each instruction set this CPU supports, selected: a test that asks for it is called once for each."""
    return EACH


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that has the fixture `isa` on each instruction set, with the same random numbers."""
    if pyfuncitem.funcargs.get("isa") is EACH:
        pyfuncitem.obj = for_each_isa(pyfuncitem.obj, selected(pyfuncitem.config), pyfuncitem.funcargs.get("rng"))
    return (yield)


def for_each_isa(test, names, rng):
    """Return a test that calls `test` on each of these instruction sets, and names the one of a failure."""
    state = rng and rng.bit_generator.state

    @functools.wraps(test)
    def wrapper(**arguments):
        with sharing():
            for name in names:
                if rng:
                    rng.bit_generator.state = state
                try:
                    with int8blas.use_isa(name):
                        test(**arguments | ({"isa": name} if "isa" in arguments else {}))
                except BaseException as error:
                    error.add_note(f"instruction set: {name}")
                    raise

    return wrapper


@pytest.fixture(params=SIGN_PAIRS, ids=[pair.name for pair in SIGN_PAIRS])
def pair(request):
    """Each combination of operand types, with its function."""
    return request.param


@pytest.fixture
def rng():
    """The same random numbers in every run of a test."""
    return np.random.default_rng(20190528)
