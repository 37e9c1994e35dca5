"""B of 4 bits: pack_b, PackedB4 through a pickle, matmul, the GEMMs, and InnerProduct with scales by groups of k."""

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
    return (*results, layer(a))


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
    return (*results, y)
