"""matmul: stacks of matrices that broadcast, vectors, zero points, int64, `out`, and packed B."""

import numpy as np
import reference
from arrays import SIGN_PAIRS

import int8blas

from .draws import held, stored

WORK = 15


def problem(draws):
    pair = draws.among(SIGN_PAIRS)
    small = draws.below(2)  # whether long runs of small matrices are drawn
    m, n, k = draws.sizes(3, WORK - 4 * small)
    batch = [draws.size(6) if small and not i else draws.integer(1, 3) for i in range(draws.below(4))][::-1]
    shapes = []
    for rows, columns in ((m, k), (k, n)):
        kept = batch[draws.below(len(batch) + 1) :]
        shapes.append((*(1 if draws.below(2) else size for size in kept), rows, columns))
    if draws.once_in(16):
        shapes[0] = (k,)
    if draws.once_in(16):
        shapes[1] = (k,)
    a, b = draws.array(pair.a_dtype, shapes[0]), draws.array(pair.b_dtype, shapes[1])
    problem = {"a": a, "b": b, "dtype": draws.among((np.int32, np.int32, np.int64)), "out": None}
    for name, x in (("ao", a), ("bo", b)):
        info = np.iinfo(x.dtype)
        problem[name] = draws.integer(int(info.min), int(info.max)) if draws.below(2) else 0
    problem["packed"] = b.ndim == 2 and bool(draws.below(2))
    expected = oracle(problem)[0]
    if draws.below(2) and expected.ndim:
        problem["out"] = draws.output(problem["dtype"], expected.shape)
    return problem


def run(problem):
    keywords = {name: problem[name] for name in ("ao", "bo", "dtype")}
    b = int8blas.pack_b(problem["b"]) if problem["packed"] else problem["b"]
    return (np.asarray(stored(problem["out"], int8blas.matmul, problem["a"], b, **keywords)),)


def oracle(problem):
    a, b = problem["a"].astype(np.float64) - problem["ao"], problem["b"].astype(np.float64) - problem["bo"]
    exact = np.matmul(a, b).astype(np.int64)
    expected = exact if problem["dtype"] == np.int64 else np.asarray(reference.saturate(exact))
    return (held(problem["out"], expected),)
