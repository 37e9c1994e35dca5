"""Operands and results of any strides, with nothing written but the elements of the result."""

from itertools import product

import numpy as np
import pytest
import reference
from arrays import B_FORMS, BROADCASTS, LAYOUTS, Canary, assert_same, place, random_c
from shapes import BLOCKED, FEW

import int8blas

OPERAND_LAYOUTS = [*LAYOUTS, *BROADCASTS]
EMPTY = ((0, 5, 3), (4, 0, 3), (4, 5, 0), (0, 0, 0))


@pytest.mark.parametrize("a_layout", OPERAND_LAYOUTS)
@pytest.mark.parametrize("numerics", ["exact", "saturating"])
def test_a(isa, pair, a_layout, numerics, rng):
    for m, n, k in (*FEW, *EMPTY):
        values, b = pair.operands(rng, m, n, k)
        a = place(values, a_layout)
        expected = reference.gemm(1, a, b, numerics=numerics)
        for form in B_FORMS.values():
            assert_same(pair.gemm(1, a, form(b), numerics=numerics), expected, m=m, n=n, k=k)
            assert_same(pair.gemm(1, a.T, form(b), trans_a=True, numerics=numerics), expected, m=m, n=n, k=k)


@pytest.mark.parametrize("b_layout", OPERAND_LAYOUTS)
@pytest.mark.parametrize("numerics", ["exact", "saturating"])
def test_b(isa, pair, b_layout, numerics, rng):
    for m, n, k in (*FEW, *EMPTY):
        a, values = pair.operands(rng, m, n, k)
        b = place(values, b_layout)
        expected = reference.gemm(1, a, b, numerics=numerics)
        assert_same(pair.gemm(1, a, b, numerics=numerics), expected, m=m, n=n, k=k)
        assert_same(pair.gemm(1, a, b.T, trans_b=True, numerics=numerics), expected, m=m, n=n, k=k)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (0.5, -0.5)])
@pytest.mark.parametrize("misalign", [0, 1, 2, 3])
@pytest.mark.parametrize("c_layout", LAYOUTS)
def test_c(isa, c_layout, misalign, alpha, beta, rng):
    for m, n, k in (*FEW, *EMPTY):
        a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n), np.int8)
        values = random_c(rng, (m, n))
        expected = reference.gemm(alpha, a, b, beta, values)
        canary = Canary()
        c = place(values, c_layout, canary, misalign)
        assert int8blas.gemm_u8s8s32(alpha, a, b, beta, c, overwrite_c=True) is c
        assert_same(c, expected, m=m, n=n, k=k)
        canary.assert_only_elements_written(c)
        c[...] = values
        assert_same(int8blas.gemm_u8s8s32(alpha, a, b, beta, c), expected, m=m, n=n, k=k)
        assert_same(c, values)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (0.5, -0.5)])
@pytest.mark.parametrize("c_layout", ["F", "F, padded columns"])
def test_columns_of_many_tiles(isa, pair, c_layout, alpha, beta, rng):
    """Kernels transpose several tiles of C at a time, of a whole block of rows and of the last, smaller block."""
    for (m, n, k), form in product([shape for shape in BLOCKED if shape[0] > 1], B_FORMS.values()):
        a, b = pair.operands(rng, m, n, k)
        values, zero_points = random_c(rng, (m, n)), {"ao": 3, "bo": rng.integers(0, 100, n), "co": -7}
        for keywords in ({}, zero_points):
            expected = reference.gemm(alpha, a, b, beta, values, **keywords)
            canary = Canary()
            c = place(values, c_layout, canary, 0)
            pair.gemm(alpha, a, form(b), beta, c, overwrite_c=True, **keywords)
            assert_same(c, expected, m=m, n=n, k=k)
            canary.assert_only_elements_written(c)


def test_sizes_of_every_path_in_every_layout(isa, pair, rng):
    """Sizes between 1 and 1500, small ones as likely as large ones, in all three dimensions."""
    for _ in range(600):
        m, n, k = np.exp(rng.uniform(0, np.log(1500), 3)).astype(int)
        if m * n * k > 4e6:
            continue
        a_layout, b_layout, c_layout = rng.choice([*LAYOUTS, *["C", "F"] * 6], 3)
        a, b = pair.operands(rng, m, n, k)
        ao, bo, beta = (int(x) for x in rng.choice([0, 0, 1], 3))
        values = rng.integers(-1000, 1000, (m, n), np.int32)
        # Exact: all sums are far below 2**53.
        expected = ((a.astype(float) - ao) @ (b.astype(float) - bo) + beta * values).astype(np.int32)
        a, b, c = place(a, a_layout), place(b, b_layout), place(values, c_layout)
        for form in (b, int8blas.pack_b(b)):
            with int8blas.num_threads(int(rng.choice([1, 3]))):
                c[...] = values
                pair.gemm(1, a, form, beta, c, overwrite_c=True, ao=ao, bo=bo)
            assert_same(c, expected, m=m, n=n, k=k, a=a_layout, b=b_layout, c=c_layout, packed=form is not b)


@pytest.mark.parametrize("out_layout", LAYOUTS)
def test_out(isa, pair, out_layout, rng):
    for m, n, k in (*FEW, *EMPTY):
        a, b = pair.operands(rng, m, n, k)
        canary = Canary()
        out = place(random_c(rng, (m, n)), out_layout, canary, misalign=1)
        assert int8blas.matmul(a, b, out=out) is out
        assert_same(out, reference.matmul(a, b), m=m, n=n, k=k)
        canary.assert_only_elements_written(out)


def test_all_layouts_of_a_and_b_together(isa, rng):
    for (a_layout, b_layout), (m, n, k) in product(product(OPERAND_LAYOUTS, repeat=2), FEW[3:]):
        a = place(rng.integers(0, 256, (m, k), np.uint8), a_layout)
        b = place(rng.integers(-128, 128, (k, n), np.int8), b_layout)
        result = int8blas.gemm_u8s8s32(1, a, b)
        assert_same(result, reference.gemm(1, a, b), a_layout=a_layout, b_layout=b_layout, m=m, n=n, k=k)


def test_operands_are_never_written(isa, pair, rng):
    for layout, (m, n, k) in product(LAYOUTS, FEW):
        canaries = Canary(), Canary()
        values = pair.operands(rng, m, n, k)
        a, b = (place(v, layout, canary) for v, canary in zip(values, canaries, strict=True))
        a.flags.writeable = b.flags.writeable = False
        pair.gemm(1, a, b)
        assert_same(a, values[0])
        assert_same(b, values[1])
        canaries[0].assert_only_elements_written(a)
        canaries[1].assert_only_elements_written(b)


def test_fields_of_a_structured_array(isa, rng):
    record = np.dtype([("a", np.uint8), ("b", np.int8), ("c", np.int32), ("tail", np.int8)])
    for n in (1, 17, 50):
        records = np.zeros((n, n), record)
        records["a"] = rng.integers(0, 256, (n, n))
        records["b"] = rng.integers(-128, 128, (n, n))
        records["tail"] = 77
        a, b, c = (records[name].copy() for name in "abc")
        int8blas.gemm_u8s8s32(1, records["a"], records["b"], 1, records["c"], overwrite_c=True)
        assert_same(records["c"].copy(), reference.gemm(1, a, b, 1, c), n=n)
        assert_same(records["a"].copy(), a)
        assert_same(records["b"].copy(), b)
        assert (records["tail"] == 77).all()


@pytest.mark.parametrize("step", [-2, -1, 2, 3])
def test_vectors_of_offsets_and_zero_points(isa, pair, step, rng):
    m, n, k = 20, 35, 9
    a, b = pair.operands(rng, m, n, k)
    length = max(m, n) * abs(step)
    ao, bo = (values.reshape(-1)[::step] for values in pair.operands(rng, 1, length, length))
    co = rng.integers(-99, 99, length)[::step]
    arguments = {"ao": ao[:m], "bo": bo[:n], "co": co[:n], "offsetc": "R"}
    assert_same(pair.gemm(1, a, b, **arguments), reference.gemm(1, a, b, **arguments))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("step", [-3, -1, 2, 5])
def test_operands_without_contiguous_rows_or_columns_are_copied_first(isa, pair, step, threads, rng):
    for m, n, k in ((90, 70, 33), (260, 250, 270)):
        a, b = pair.operands(rng, m, n * abs(step), k * abs(step))
        a, b = a[:, ::step], b[:: abs(step), ::step]
        with int8blas.num_threads(threads):
            result, plan = pair.gemm(1, a, b), int8blas.explain(a, b)
            contiguous = int8blas.explain(np.ascontiguousarray(a), np.ascontiguousarray(b))
        assert_same(result, reference.gemm(1, a, b), m=m, n=n, k=k)
        assert plan.copied == sum(-(-x.size // 64) * 64 for x in (a, b) if x.size >= 512)
        assert (plan.path, plan.threads) == (contiguous.path, contiguous.threads)
        assert "are copied first" in str(plan)


@pytest.mark.parametrize("step", [-17, -3, -1, 2, 5])
@pytest.mark.parametrize("zero_points", [{}, {"ao": 3, "bo": 5}])
def test_few_vectors_are_spread_instead_of_copying_the_other_operand(isa, pair, step, zero_points, rng):
    """Steps along k, and along the rows or columns of C, with few rows or few columns."""
    size = abs(step)
    for m, n, k in ((1, 300, 70), (2, 200, 80), (3, 501, 9), (1, 100, 600)):
        wide_a, wide_b = pair.operands(rng, m * size, n * size, k * size)
        for a, b in (
            (wide_a[:m, :k], wide_b[::step, ::3][:, : n // 3]), (wide_a[:m, ::step], wide_b[:: size, ::step]),
            (wide_a[::size, ::step], wide_b[:k, ::step]),
        ):  # fmt: skip
            expected = reference.gemm(1, a, b, **zero_points)
            assert_same(pair.gemm(1, a, b, **zero_points), expected, m=m, n=n, k=k)
            assert int8blas.explain(a, b).copied < a.size + 4 * b.size


@pytest.mark.parametrize("step", [-1, 2])
def test_a_transpose_of_a_copied_operand_is_not_copied_again(isa, step, rng):
    x = rng.integers(-128, 128, (70, 100 * abs(step)), np.int8)[:, ::step]
    assert int8blas.explain(x, x.T).copied == -(-x.size // 64) * 64
    assert_same(int8blas.matmul(x, x.T), reference.gemm(1, x, x.T))
