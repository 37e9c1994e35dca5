"""nearest, by every metric, of rows, packed rows and shards, sqeuclidean and hamming."""

from itertools import pairwise

import numpy as np
import reference_neighbors
from arrays import SIGN_PAIRS

import int8blas

WORK = 15
METRICS = ("inner", "sqeuclidean", "cosine", "hamming")


def problem(draws):
    pair, metric = draws.among(SIGN_PAIRS), draws.among(METRICS)
    is_bits = metric == "hamming"
    m, n, k = draws.sizes(3, WORK, empty=False)
    x_dtype, y_dtype = (np.uint8, np.uint8) if is_bits else (pair.a_dtype, pair.b_dtype)
    x, y = draws.array(x_dtype, (m, k)), draws.array(y_dtype, (n, k))
    if draws.below(3) == 0:
        dtypes = (np.int32,) if is_bits else (np.int32, np.int64)
        out = draws.output(draws.among(dtypes), (m, n)) if draws.below(2) else None
        return {"x": x, "y": y, "packed": bool(draws.below(2)), "out": out, "is_bits": is_bits}
    few = sorted({draws.below(n) for _ in range(draws.below(3))})
    many = np.flatnonzero(draws.generator().random(n) < draws.among((0.5, 0.95, 1))).tolist()
    excluded = draws.among(([], few, many))
    cuts = sorted(draws.integer(1, n - 1) for _ in range(draws.below(3))) if n > 1 else []
    return {
        "x": x,
        "y": y,
        "metric": metric,
        "count": draws.integer(1, n),
        "excluded": excluded,
        "cuts": sorted(set(cuts)),
        "packed": bool(draws.below(2)),
    }


def packed(problem, rows):
    return int8blas.pack_b(rows, trans_b=True) if problem["packed"] else rows


def run(problem):
    x, y = problem["x"], problem["y"]
    if "metric" not in problem:
        y = packed(problem, y)
        if problem["out"] is None:
            is_bits = problem["is_bits"]
            return (int8blas.hamming(x, y).astype(int) if is_bits else int8blas.sqeuclidean(x, y, dtype=np.int64),)
        memory, out = problem["out"].fresh()
        (int8blas.hamming if problem["is_bits"] else int8blas.sqeuclidean)(x, y, out=out)
        return (memory,)
    cuts = [0, *problem["cuts"], len(y)]
    shards = [packed(problem, y[i:j]) for i, j in pairwise(cuts)]
    mask = np.isin(np.arange(len(y)), problem["excluded"]) if problem["excluded"] else None
    indices, scores = int8blas.nearest(
        x, shards if len(shards) > 1 else shards[0], problem["count"], metric=problem["metric"], exclude=mask
    )
    return indices, scores if problem["metric"] == "cosine" else scores.astype(np.int64)


def oracle(problem):
    if "metric" not in problem:
        function = reference_neighbors.hamming if problem["is_bits"] else reference_neighbors.sqeuclidean
        expected = function(problem["x"], problem["y"])
        out = problem["out"]
        return (expected if out is None else out.holding(expected.astype(out.dtype)),)
    return reference_neighbors.nearest(
        problem["x"], problem["y"], problem["count"], problem["metric"], problem["excluded"]
    )
