"""What the tests of random properties share."""

from hypothesis import strategies as st

import int8blas

seeds = st.integers(0, 2**32 - 1)


def on_every_isa():
    """Each instruction set in turn, selected."""
    for name in int8blas.available_isas():
        with int8blas.use_isa(name):
            yield name
