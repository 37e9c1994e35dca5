"""Oracles: the expected results of every function of int8blas, in NumPy int64 (and float64 where the formula says so).

The oracles are written to be read, with a formula above each function. They do not model tiles, the order of panels, or
instructions.
"""

import numpy as np
from sharing import shared

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1
PANEL_COLUMNS, GROUP = 16, 4


def op(x, trans):
    """op(X) in int64: X, or its transpose, of each matrix of a stack."""
    x = np.asarray(x).astype(np.int64)
    return x.swapaxes(-1, -2) if trans else x


def per_row(values):
    """One value, or one for each row, as a column that broadcasts."""
    return np.asarray(values, np.int64).reshape(-1, 1)


def per_column(values):
    """One value, or one for each column, as a row that broadcasts."""
    return np.asarray(values, np.int64).reshape(1, -1)


def integer_product(x, y):
    """x @ y for int64 matrices. NumPy has a fast product only for floats; in float64 it is exact below 2**53."""
    largest = x.shape[-1] * int(np.abs(x).max(initial=0)) * int(np.abs(y).max(initial=0))
    if largest >= 2**53:
        return x @ y
    return (x.astype(np.float64) @ y.astype(np.float64)).astype(np.int64)


# acc = (op(A) - ao) @ (op(B) - bo)
def exact_product(a, b, ao=0, bo=0, trans_a=False, trans_b=False):
    """The exact product, int64 (M, N), or a stack of them."""
    return integer_product(op(a, trans_a) - per_row(ao), op(b, trans_b) - per_column(bo))


# A' = A (u8) or A + 128 (s8)
def unsigned_a(a, trans_a=False):
    """Return A as VPMADDUBSW reads it (uint8), and the number that was added to A."""
    shift = 128 if np.asarray(a).dtype == np.int8 else 0
    return op(a, trans_a) + shift, shift


# B' = B (s8) or B - 128 (u8)
def signed_b(b, trans_b=False):
    """Return B as VPMADDUBSW reads it (int8), and the number that was added to B."""
    shift = -128 if np.asarray(b).dtype == np.uint8 else 0
    return op(b, trans_b) + shift, shift


# s[:, k / 2, :] = A'[:, k] B'[k, :] + A'[:, k + 1] B'[k + 1, :]    for even k; a last odd k stands alone
def pair_sums(a, b):
    """Yield the sums of two products for some pairs at a time, int64 (M, pairs, N)."""
    products = max(a.shape[0] * b.shape[1], 1)
    step = 2 * max(2**16 // products, 1)
    for k in range(0, a.shape[1], step):
        even, odd = (a[:, k + i : k + step : 2, np.newaxis] * b[k + i : k + step : 2] for i in (0, 1))
        even[:, : odd.shape[1]] += odd
        yield even


# acc = sum over pairs of sat_s16(s) - ao' colsum(B') - bo' rowsum(A') + K ao' bo'
# with ao' = ao + 128 for an s8 A, bo' = bo - 128 for a u8 B
def saturating_product(a, b, ao=0, bo=0, trans_a=False, trans_b=False):
    """The product by VPMADDUBSW, VPMADDWD, VPADDD, with exact compensation of shifts and zero points, int64 (M, N)."""
    a, a_shift = unsigned_a(a, trans_a)
    b, b_shift = signed_b(b, trans_b)
    ao, bo = per_row(ao) + a_shift, per_column(bo) + b_shift
    acc = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for sums in pair_sums(a, b):
        acc += np.clip(sums, INT16_MIN, INT16_MAX).sum(axis=1)
    return acc - ao * b.sum(axis=0) - bo * a.sum(axis=1, keepdims=True) + a.shape[1] * ao * bo


def saturate(x):
    """x saturated to int32."""
    return np.clip(x, INT32_MIN, INT32_MAX).astype(np.int32)


# alpha = 1, beta = 0 or 1:  C := sat_s32(acc + beta C + co)                                 in integers
# else:                      C := sat_s32(rne((alpha acc + beta C) + co))                    in double precision
@shared
def gemm(
    alpha,
    a,
    b,
    beta=0.0,
    c=None,
    trans_a=False,
    trans_b=False,
    *,
    offsetc="F",
    ao=0,
    bo=0,
    co=0,
    numerics="exact",
):
    """C after the call, int32 (M, N); without c, C is zeros, and for beta = 0 its values do not matter."""
    product = {"exact": exact_product, "saturating": saturating_product}[numerics]
    acc = product(a, b, ao, bo, trans_a, trans_b)
    offset = per_row(co) if offsetc in "Cc" else per_column(co)
    added = np.zeros(acc.shape, np.int64) if c is None or beta == 0 else np.asarray(c).astype(np.int64)
    if alpha == 1 and beta in (0, 1):
        return saturate(acc + added + offset)
    y = np.float64(alpha) * acc.astype(np.float64)
    y = y + np.float64(beta) * added.astype(np.float64)
    y = y + offset.astype(np.float64)
    return saturate(np.rint(y))


# C := gemm(op(A), op(A).T) in one triangle, with the diagonal; the rest of C is unchanged
def syrk(alpha, a, beta=0.0, c=None, trans=False, lower=False, *, ao=0, numerics="exact"):
    """C after the call, int32 (N, N); without c, C is zeros."""
    product = gemm(alpha, a, a, beta, c, trans, not trans, ao=ao, bo=ao, numerics=numerics)
    inside = np.tri(len(product), dtype=bool)
    return np.where(inside if lower else inside.T, product, np.int32(0) if c is None else c)


# C := sat_s32((A - ao) @ (B - bo)), with the shapes of numpy.matmul
@shared
def matmul(a, b, ao=0, bo=0):
    """numpy.matmul on int64, saturated to int32; ao and bo are scalars."""
    return saturate(np.matmul(np.asarray(a).astype(np.int64) - ao, np.asarray(b).astype(np.int64) - bo))


# data[n // 16, k // 4, n % 16, k % 4] = B'[k, n], 0 elsewhere
def packed_data(b, trans_b=False):
    """The packed layout, element by element."""
    b, _ = signed_b(b, trans_b)
    depth, columns = b.shape
    data = np.zeros((-(-columns // PANEL_COLUMNS), -(-depth // GROUP), PANEL_COLUMNS, GROUP), np.int8)
    for k in range(depth):
        for n in range(columns):
            data[n // PANEL_COLUMNS, k // GROUP, n % PANEL_COLUMNS, k % GROUP] = b[k, n]
    return data


# column_sums[n] = sum over k of B[k, n]
def column_sums(b, trans_b=False):
    """Sums of the original values over K, int64 (N,)."""
    return op(b, trans_b).sum(axis=0)


# certified[p]: for every column of panel p and every pair (k even, k + 1),
#     max(b[k], 0) + max(b[k + 1], 0) <= 128   and   min(b[k], 0) + min(b[k + 1], 0) >= -128
def certified(b, trans_b=False):
    """The proofs that no u8 A saturates a pair sum, bool (panels,)."""
    b, _ = signed_b(b, trans_b)
    ok = np.ones(b.shape[1], bool)
    for k in range(0, b.shape[0], 2):
        pair = b[k : k + 2]
        ok &= np.maximum(pair, 0).sum(axis=0) <= 128
        ok &= np.minimum(pair, 0).sum(axis=0) >= -128
    return np.array([ok[n : n + PANEL_COLUMNS].all() for n in range(0, ok.size, PANEL_COLUMNS)], bool)


# (m, n, k), k even, where s(m, n, k / 2) is outside s16
def saturated_pairs(a, b, trans_a=False, trans_b=False):
    """Where numerics="saturating" saturates, int64 (count, 3), in C order of (m, n, k)."""
    a, _ = unsigned_a(a, trans_a)
    b, _ = signed_b(b, trans_b)
    none = np.zeros((a.shape[0], 0, b.shape[1]), np.int64)
    sums = np.concatenate([none, *pair_sums(a, b)], axis=1).transpose(0, 2, 1)
    where = np.argwhere((sums < INT16_MIN) | (sums > INT16_MAX)).reshape(-1, 3)
    return where * (1, 1, 2)
