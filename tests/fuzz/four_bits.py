"""B of 4 bits: pack_b, PackedB4 through a pickle, matmul, the GEMMs, and InnerProduct and RealProduct with scales and
zero points by groups of k.
"""

import pickle

import numpy as np
import reference

import int8blas

WORK = 15
RANGES = {np.int8: (-8, 7), np.uint8: (0, 15)}


def problem(draws):
    m, n, k = draws.sizes(3, WORK)
    a_dtype, b_dtype = draws.among((np.uint8, np.int8)), draws.among((np.uint8, np.int8))
    low, _ = RANGES[b_dtype]
    a = draws.array(a_dtype, (m, k))
    b = (np.asarray(draws.array(np.uint8, (k, n))).astype(int) % 16 + low).astype(b_dtype)
    info, generator = np.iinfo(a_dtype), draws.generator()
    group = 8 * draws.integer(1, 8)
    groups = max(1, -(-k // group))
    block = draws.among((k, *(size for size in range(8, k, 8) if k % size == 0)))
    shape = (k // max(block, 1), max(n, 1))
    return {
        "a": a,
        "b": b,
        "trans_b": draws.below(2),
        "ao": draws.among((0, draws.integer(info.min, info.max))),
        "bo": draws.among((0, low, low + 15, generator.integers(low, low + 16, n))),
        "co": draws.among((0, draws.integer(-1000, 1000))),
        "numbers": draws.among(((1, 0), (1, 0), (0.5, 0))),
        "group": group,
        "scales": generator.uniform(0.01, 0.1, (groups, max(n, 1))).astype(np.float32),
        "zeros": draws.among((None, generator.integers(low, low + 16, (groups, max(n, 1))))),
        # Multiples of 1/8, so that float64 holds the sum that each multiply-add rounds.
        "x": (generator.integers(-64, 65, (m, k)) / 8).astype(np.float32),
        "real_scale": generator.uniform(0.01, 0.1, shape).astype(np.float32),
        "real_zeros": draws.among((None, generator.integers(low, low + 16, shape))),
    }


def has_layer(problem):
    return min(problem["a"].shape[1], problem["b"].shape[1]) > 0


def run(problem):
    a, b = problem["a"], problem["b"]
    packed = int8blas.pack_b(b.T if problem["trans_b"] else b, trans_b=problem["trans_b"], bits=4)
    packed = pickle.loads(pickle.dumps(packed))
    name = "gemm_u8s4s32" if a.dtype == np.uint8 else "gemm_s8s4s32"
    alpha, beta = problem["numbers"]
    arguments = {"ao": problem["ao"], "bo": problem["bo"]}
    full = getattr(int8blas, name)(alpha, a, packed, beta, co=problem["co"], **arguments)
    results = packed.unpack(), packed.column_sums, int8blas.matmul(a, packed, dtype=np.int64, **arguments), full
    if not has_layer(problem):
        return results
    zeros = {"src": problem["ao"]} | ({} if problem["zeros"] is None else {"weights": problem["zeros"]})
    layer = int8blas.InnerProduct(packed, src_dtype=a.dtype, dst_dtype=np.float32, group=problem["group"],
                                  scales={"weights": problem["scales"]}, zero_points=zeros)  # fmt: skip
    real = int8blas.RealProduct(packed, problem["real_scale"], zero_points=problem["real_zeros"])
    return (*results, layer(a), real(problem["x"]))


def real_oracle(problem):
    """Round after each multiply-add; scales of one group multiply the sums."""
    x, scale, zeros = problem["x"], problem["real_scale"], problem["real_zeros"]
    block = x.shape[1] // len(scale)
    weights = problem["b"].astype(np.int64)
    if zeros is not None:
        weights = weights - np.repeat(zeros, block, 0)
    weights = weights.astype(np.float32)
    if len(scale) > 1:
        weights *= np.repeat(scale, block, 0)
    y = np.zeros((len(x), weights.shape[1]), np.float32)
    for column, row in zip(x.T.astype(np.float64), weights, strict=True):
        y = (y + np.outer(column, row)).astype(np.float32)
    return y if len(scale) > 1 else y * scale


def oracle(problem):
    a, b, group = problem["a"], problem["b"], problem["group"]
    alpha, beta = problem["numbers"]
    arguments = {"ao": problem["ao"], "bo": problem["bo"]}
    full = reference.gemm(alpha, a, b.astype(np.int8), beta, co=problem["co"], **arguments)
    product = reference.exact_product(a, b, **arguments)
    results = np.array(b), b.sum(axis=0, dtype=np.int64), product, full
    if not has_layer(problem):
        return results
    y = None
    for g, scale in enumerate(problem["scales"]):
        part = slice(g * group, (g + 1) * group)
        zero = 0 if problem["zeros"] is None else problem["zeros"][g]
        sums = (a[:, part].astype(np.int64) - problem["ao"]) @ (b[part].astype(np.int64) - zero)
        x = sums.astype(np.float32) * scale
        y = x if y is None else y + x
    return (*results, y, real_oracle(problem))
