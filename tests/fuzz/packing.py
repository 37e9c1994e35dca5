"""pack_b and the attributes of a PackedB: layout, sums, no-saturation proofs; unpack, pickle, and would_saturate."""

import pickle

import numpy as np
import reference
from arrays import SIGN_PAIRS

import int8blas

WORK = 13  # bits: the oracles go element by element


def problem(draws):
    pair = draws.among(SIGN_PAIRS)
    m, n, k = draws.sizes(3, WORK)
    trans_a, trans_b = draws.below(2), draws.below(2)
    return {
        "a": draws.array(pair.a_dtype, (k, m) if trans_a else (m, k)),
        "b": draws.array(pair.b_dtype, (n, k) if trans_b else (k, n)),
        "trans_a": trans_a,
        "trans_b": trans_b,
        "limit": draws.size(12) - 1,
    }


def padded(b, trans_b, columns, depth):
    """B' padded with zeros to multiples of `columns` and `depth`."""
    b, _ = reference.signed_b(b, trans_b)
    return np.pad(b, ((0, -b.shape[0] % depth), (0, -b.shape[1] % columns)))


def packed_data(b, trans_b):
    """Compute reference.packed_data for all elements at once."""
    b = padded(b, trans_b, reference.PANEL_COLUMNS, reference.GROUP).astype(np.int8)
    groups, panels = len(b) // reference.GROUP, b.shape[1] // reference.PANEL_COLUMNS
    return b.reshape(groups, reference.GROUP, panels, reference.PANEL_COLUMNS).transpose(2, 0, 3, 1)


def certified(b, trans_b):
    """Compute reference.certified for all pairs at once."""
    b = padded(b, trans_b, reference.PANEL_COLUMNS, 2)
    pairs = b.reshape(len(b) // 2, 2, b.shape[1])
    high, low = np.maximum(pairs, 0).sum(axis=1), np.minimum(pairs, 0).sum(axis=1)
    return ((high <= 128) & (low >= -128)).all(axis=0).reshape(-1, reference.PANEL_COLUMNS).all(axis=1)


def run(problem):
    packed = int8blas.pack_b(problem["b"], trans_b=problem["trans_b"])
    again = pickle.loads(pickle.dumps(packed))
    operands = {name: problem[name] for name in ("a", "b", "trans_a", "trans_b")}
    found = int8blas.would_saturate(**operands, limit=problem["limit"])
    facts = (packed.data, packed.column_sums, packed.certified, packed.unpack())
    return *facts, again.data, found.where, np.array(found.count)


def oracle(problem):
    b, trans_b = problem["b"], problem["trans_b"]
    where = reference.saturated_pairs(problem["a"], b, problem["trans_a"], trans_b)
    data = packed_data(b, trans_b)
    return (data, reference.column_sums(b, trans_b), certified(b, trans_b), b.T if trans_b else b, data,
            where[: problem["limit"]], np.array(len(where)))  # fmt: skip
