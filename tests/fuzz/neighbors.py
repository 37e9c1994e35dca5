"""nearest, by every metric, of rows, packed rows and shards, and sqeuclidean."""

from itertools import pairwise

import numpy as np
import reference_neighbors
from arrays import SIGN_PAIRS

import int8blas

WORK = 15
METRICS = ("inner", "sqeuclidean", "cosine")


def problem(draws):
    pair = draws.among(SIGN_PAIRS)
    m, n, k = draws.sizes(3, WORK, empty=False)
    x, y = draws.array(pair.a_dtype, (m, k)), draws.array(pair.b_dtype, (n, k))
    if draws.below(3) == 0:
        out = draws.output(draws.among((np.int32, np.int64)), (m, n)) if draws.below(2) else None
        return {"x": x, "y": y, "packed": bool(draws.below(2)), "out": out}
    excluded = sorted({draws.below(n) for _ in range(draws.below(3))}) if draws.below(2) else []
    cuts = sorted(draws.integer(1, n - 1) for _ in range(draws.below(3))) if n > 1 else []
    return {
        "x": x,
        "y": y,
        "metric": draws.among(METRICS),
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
        if problem["out"] is None:
            return (int8blas.sqeuclidean(x, packed(problem, y), dtype=np.int64),)
        memory, out = problem["out"].fresh()
        int8blas.sqeuclidean(x, packed(problem, y), out=out)
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
        expected = reference_neighbors.sqeuclidean(problem["x"], problem["y"])
        out = problem["out"]
        return (expected if out is None else out.holding(expected.astype(out.dtype)),)
    return reference_neighbors.nearest(
        problem["x"], problem["y"], problem["count"], problem["metric"], problem["excluded"]
    )
