"""The signatures of compiled classes, for ``inspect.signature`` and ``help``.

CPython reads the signature of ``__init__`` and ``__call__`` from their docstrings. Cython writes the signature into the
docstring of a method with ``@cython.binding(False)``. setup.py sets ``embedsignature`` only for ``__init__`` and
``__call__``, because Cython's functions with a binding know their signatures. CPython evaluates only literals in a
signature from a docstring, so a default is ``"int8"``, not ``np.int8``.
"""

import inspect
from typing import Any


class Signature:
    """The attribute ``__signature__``: for a compiled class the signature of the constructor, for an instance the
    signature of a call."""

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        if instance is not None and not callable(instance):
            raise AttributeError(f"{owner.__name__} objects are not callable")
        method = owner.__init__ if instance is None else owner.__call__  # type: ignore[misc]
        signature = inspect.signature(method)
        return signature.replace(parameters=[*signature.parameters.values()][1:])
