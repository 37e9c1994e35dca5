"""Observers of the ranges of tensors; int8blas.network.calibration defines them."""

from int8blas.network.calibration import *  # noqa: F403
from int8blas.network.calibration import __all__ as __all__
