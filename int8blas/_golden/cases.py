"""The table of problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, TypeAlias

from int8blas._golden.draws import Draws

# The result of a problem: an array, bytes, a number, or several of these.
Result: TypeAlias = Any
Problem: TypeAlias = Callable[[], Result]
CASES: dict[str, Problem] = {}


def golden(**axes: Iterable[Any]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Add a problem for each combination of the axes' values to the table.

    For each problem the function gets random numbers, and the values of the axes by name. A problem's name contains the
    function's name and the values, and determines the random numbers. A new value, axis or function therefore changes
    no other problem.
    """

    def add(function: Callable[..., Result]) -> Callable[..., Result]:
        for values in product(*axes.values()):
            chosen = dict(zip(axes, values, strict=True))
            words = [function.__name__, *(f"{axis}={word_of(value)}" for axis, value in chosen.items())]
            name = " ".join(words)
            if name in CASES:
                raise ValueError(f"there are two problems {name!r}")
            CASES[name] = problem(function, name, chosen)
        return function

    return add


def problem(function: Callable[..., Result], name: str, chosen: dict[str, Any]) -> Problem:
    return lambda: function(Draws(name), **chosen)


def word_of(value: Any) -> str:
    """Return a value as text for a name, without blanks."""
    if isinstance(value, tuple):
        return "x".join(map(word_of, value))
    return str(value).replace(" ", "")
