"""The signatures of compiled classes, for ``inspect.signature`` and ``help``.

CPython reads the signature of ``__init__`` and ``__call__`` from their docstrings. Cython writes it there if the method
has a docstring and ``@cython.binding(False)``. setup.py sets ``embedsignature`` only for these methods, as all other
functions know their signatures. CPython evaluates literals in it and nothing else: a default is ``"int8"``, not
``np.int8``.
"""

import inspect
from typing import Any


class Signature:
    """``__signature__`` of a compiled class, which creates an instance, and of an instance, which calls it."""

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        if instance is not None and not callable(instance):
            raise AttributeError(f"{owner.__name__} objects are not callable")
        method = owner.__init__ if instance is None else owner.__call__  # type: ignore[misc]
        signature = inspect.signature(method)
        return signature.replace(parameters=[*signature.parameters.values()][1:])
