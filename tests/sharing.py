"""Oracles share their results among the instruction sets of a test."""

import contextlib
import functools
import hashlib
import pickle

import numpy as np

_results = None


@contextlib.contextmanager
def sharing():
    """A context in which equal calls of an oracle are computed once."""
    global _results
    _results = {}
    try:
        yield
    finally:
        _results = None


def shared(oracle):
    """Return the oracle with its results kept by :func:`sharing`. They may depend only on the values of its arguments.

    Later calls return the same arrays, so a test must not write to them.
    """

    @functools.wraps(oracle)
    def wrapper(*arguments, **keywords):
        if _results is None:
            return oracle(*arguments, **keywords)
        problem = pickle.dumps((arguments, keywords), pickle.HIGHEST_PROTOCOL)
        key = oracle, hashlib.sha1(problem, usedforsecurity=False).digest()
        if key not in _results:
            _results[key] = oracle(*arguments, **keywords)
            for result in _results[key] if isinstance(_results[key], tuple) else (_results[key],):
                if isinstance(result, np.ndarray):
                    result.flags.writeable = False
        return _results[key]

    return wrapper
