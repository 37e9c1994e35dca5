"""Deconvolution of one to three dimensions: all geometries, groups, layouts and attributes."""

from . import layer
from .convolution import made
from .layer import oracle, run

__all__ = ["oracle", "problem", "run"]


def problem(draws):
    return layer.finished(draws, made(draws, True))
