"""Observers of the ranges of tensors. They live in the room of networks."""

from int8blas.network.calibration import (
    EntropyObserver,
    LeastSquaresObserver,
    MinMaxObserver,
    MovingAverageObserver,
    PercentileObserver,
    QuantizationParameters,
    load_parameters,
    save_parameters,
)

__all__ = [
    "EntropyObserver",
    "LeastSquaresObserver",
    "MinMaxObserver",
    "MovingAverageObserver",
    "PercentileObserver",
    "QuantizationParameters",
    "load_parameters",
    "save_parameters",
]
