"""Oracles of distances and of nearest rows, in NumPy int64; cosines in float64, by their definition."""

import numpy as np

DISTANCES = ("sqeuclidean", "hamming")  # the smallest are the best


def sqeuclidean(x, y):
    """Squared distances (M, N) in int64, from differences."""
    return np.square(x.astype(np.int64)[:, np.newaxis] - y.astype(np.int64)).sum(axis=2)


def hamming(x, y):
    """Numbers of different bits (M, N) in int64, by counting them."""
    return np.bitwise_count(x[:, np.newaxis] ^ y).sum(axis=2, dtype=np.int64)


def scores(queries, base, metric):
    """All scores."""
    q, x = queries.astype(np.int64), base.astype(np.int64)
    if metric == "sqeuclidean":
        return sqeuclidean(queries, base)
    if metric == "inner":
        return q @ x.T
    if metric == "hamming":
        return hamming(queries, base)
    squares = np.square(q).sum(axis=1)[:, np.newaxis].astype(float) * np.square(x).sum(axis=1).astype(float)
    cosines = np.zeros(squares.shape)
    np.divide(q @ x.T, np.sqrt(squares), out=cosines, where=squares > 0)
    return cosines


def nearest(queries, base, k, metric="inner", excluded=()):
    """Indices and scores, best first."""
    every = scores(queries, base, metric)
    left = np.delete(np.arange(len(base)), excluded)
    sign = 1 if metric in DISTANCES else -1
    order = np.argsort(sign * every[:, left], axis=1, kind="stable")
    indices = left[order[:, :k]]
    return indices, np.take_along_axis(every, indices, axis=1)
