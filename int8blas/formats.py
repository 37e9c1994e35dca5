"""Weights of other formats; int8blas.stage.formats defines the functions."""

from int8blas.stage.formats import *  # noqa: F403
from int8blas.stage.formats import __all__ as __all__
