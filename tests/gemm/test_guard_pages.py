"""Nothing outside the operands is read or written: every operand begins or ends at a protected page."""

from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import reference
from arrays import BROADCASTS, LAYOUTS, SIGN_PAIRS, assert_same, guarded, needs_mprotect, place, random_c
from paths import ALL, TALL, TINY
from processes import run_python
from shapes import BLOCKED, FEW, M_EDGES, N_EDGES, SMALL_GRID

import int8blas

pytestmark = needs_mprotect

SIDES = ("start", "end")
LARGEST = 2**24


READ_GUARD = """
import ctypes
import sys

sys.path.insert(0, sys.argv[1])
from arrays import guarded

memory = guarded(sys.argv[2])(100)
outside = {"start": memory.ctypes.data - 1, "end": memory.ctypes.data + 100}[sys.argv[2]]
print(ctypes.string_at(memory.ctypes.data, 100) == bytes(100), flush=True)
print(ctypes.string_at(outside, 1))
"""


@pytest.mark.parametrize("side", SIDES)
def test_the_guards_are_protected(side):
    process = run_python("-c", READ_GUARD, str(Path(__file__).parents[1]), side)
    assert process.returncode != 0
    assert process.stdout == "True\n"


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("numerics", ["exact", "saturating"])
def test_every_operand_and_the_result(isa, pair, side, numerics, rng):
    for m, n, k in SMALL_GRID:
        a, b = (place(values, "C", guarded(side)) for values in pair.operands(rng, m, n, k))
        c = place(random_c(rng, (m, n)), "C", guarded(side))
        expected = reference.gemm(1, a, b, 1, c, numerics=numerics)
        pair.gemm(1, a, b, 1, c, overwrite_c=True, numerics=numerics)
        assert_same(c, expected, m=m, n=n, k=k)


@pytest.mark.parametrize("side", SIDES)
def test_every_tile_of_rows_and_columns(isa, side, rng):
    for m in M_EDGES:
        for n in N_EDGES:
            k = int(rng.integers(1, 70))
            a = place(rng.integers(0, 256, (m, k), np.uint8), "C", guarded(side))
            b = place(rng.integers(-128, 128, (k, n), np.int8), "C", guarded(side))
            c = place(random_c(rng, (m, n)), "C", guarded(side))
            int8blas.gemm_u8s8s32(1, a, b, c=c, overwrite_c=True)
            assert_same(c, reference.gemm(1, a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCASTS])
def test_operands_of_any_strides(isa, pair, side, layout, rng):
    for m, n, k in FEW:
        a, b = (place(values, layout, guarded(side)) for values in pair.operands(rng, m, n, k))
        expected = reference.gemm(1, a, b)
        assert_same(pair.gemm(1, a, b), expected, m=m, n=n, k=k)
        assert_same(pair.gemm(1, a.T, b.T, trans_a=True, trans_b=True), expected, m=m, n=n, k=k)
        assert_same(int8blas.pack_b(b).unpack(), b.copy(), n=n, k=k)
        assert_same(pair.gemm(1, a, int8blas.pack_b(b.T, trans_b=True)), expected, m=m, n=n, k=k)
        assert_same(int8blas.matmul(a, b), expected, m=m, n=n, k=k)
        assert int8blas.would_saturate(a, b).count == len(reference.saturated_pairs(a, b))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (0.5, 0.5)])
def test_results_of_any_strides(isa, side, layout, alpha, beta, rng):
    for m, n, k in FEW:
        a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n), np.int8)
        c = place(random_c(rng, (m, n)), layout, guarded(side))
        expected = reference.gemm(alpha, a, b, beta, c)
        int8blas.gemm_u8s8s32(alpha, a, b, beta, c, overwrite_c=True)
        assert_same(c, expected, m=m, n=n, k=k)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_shapes_larger_than_a_block(isa, side, order, rng):
    for m, n, k in BLOCKED:
        if m * n * k <= LARGEST:
            a = place(rng.integers(0, 256, (m, k), np.uint8), order, guarded(side))
            b = place(rng.integers(-128, 128, (k, n), np.int8), order, guarded(side))
            c = place(np.zeros((m, n), np.int32), order, guarded(side))
            int8blas.gemm_u8s8s32(1, a, b, c=c, overwrite_c=True)
            assert_same(c, reference.gemm(1, a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_path(isa, side, order, rng):
    for (m, n, k), pair in zip(ALL + TINY + TALL, cycle(SIGN_PAIRS), strict=False):
        operands = pair.operands(rng, m, n, k)
        a, b = (place(values, order, guarded(side)) for values in operands)
        c = place(np.zeros((m, n), np.int32), order, guarded(side))
        expected = reference.gemm(1, *operands)
        for form in (b, int8blas.pack_b(b)):
            pair.gemm(1, a, form, c=c, overwrite_c=True)
            assert_same(c, expected, m=m, n=n, k=k)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_outliers(isa, side, order, rng):
    n, k = 130, 513
    b = np.where(rng.random((k, n)) < 0.01, 127, rng.integers(-16, 16, (k, n))).astype(np.int8)
    packed = int8blas.pack_b(b)
    for m in (7, 24, 63, 64, 150):
        a = place(rng.integers(0, 256, (m, k), np.uint8), order, guarded(side))
        c = place(np.zeros((m, n), np.int32), order, guarded(side))
        int8blas.gemm_u8s8s32(1, a, packed, c=c, overwrite_c=True)
        assert_same(c, reference.gemm(1, a, b), m=m)


@pytest.mark.parametrize("side", SIDES)
def test_vectors_of_offsets_and_zero_points(isa, pair, side, rng):
    def vector(values):
        return place(values.reshape(1, -1), "C", guarded(side))[0]

    for m, n, k in FEW:
        a, b = pair.operands(rng, m, n, k)
        ao, bo = (vector(values) for values in pair.operands(rng, 1, n, m)[:1] + pair.operands(rng, 1, n, 1)[1:])
        for offsetc, count in (("F", 1), ("C", m), ("R", n)):
            arguments = {"ao": ao, "bo": bo, "offsetc": offsetc, "co": vector(random_c(rng, (1, count)))}
            assert_same(pair.gemm(1, a, b, **arguments), reference.gemm(1, a, b, **arguments), m=m, n=n, k=k)


def test_short_rows_with_gaps(isa, rng):
    """The last row of A ends at a protected page."""
    for m, n, k in ((1, 8, 2), (2, 3, 1), (5, 20, 3), (300, 8, 2), (2000, 17, 7), (900, 40, 20)):
        b = rng.integers(-128, 128, (k, n), np.int8)
        for gap in (1, 2, 3, 15, 16, 40):
            memory = guarded("end")((m - 1) * (k + gap) + k)
            memory[...] = rng.integers(0, 256, memory.size, np.uint8)
            a = np.ndarray((m, k), np.int8, memory, strides=(k + gap, 1))
            assert_same(int8blas.matmul(a, b), reference.matmul(a, b), m=m, n=n, k=k, gap=gap)
