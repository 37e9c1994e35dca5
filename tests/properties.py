"""Shared by the tests of random properties."""

from hypothesis import strategies as st

import int8blas

seeds = st.integers(0, 2**32 - 1)


def on_every_isa():
    """Select each instruction set in turn."""
    for name in int8blas.available_isas():
        with int8blas.use_isa(name):
            yield name
