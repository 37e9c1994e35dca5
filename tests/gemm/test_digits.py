"""Products of 16-bit integers of all values from products of their bytes are exact (int8blas/gemm/digits.pyx)."""

import numpy as np
import pytest
from arrays import WITHOUT_VNNI

import int8blas

BY_PAIRS = {"ref", "neon", *WITHOUT_VNNI}  # instruction sets without a multiply-add of four bytes
SHAPE = 515, 521, 530  # M, N, K


def extremes(rng, dtype, shape):
    """Return values at the ends of the range, around the borders of bytes, and random ones."""
    info = np.iinfo(np.int16)
    ends = [info.min, info.min + 127, info.min + 128, -129, -128, -1, 0, 127, 128, 255, 256, info.max - 127, info.max]
    values = np.where(rng.random(shape) < 0.5, rng.choice(ends, shape), rng.integers(info.min, info.max + 1, shape))
    values[0], values[:, 0] = info.min, info.min
    return np.abs(values).clip(max=info.max).astype(dtype) if dtype == np.uint16 else values.astype(dtype)


def exact(a, b):
    """Return the product by float64, whose sums below 2**53 are exact."""
    return (a.astype(float) @ b.astype(float)).astype(np.int64)


@pytest.mark.parametrize("dtypes", [(np.int16, np.int16), (np.int64, np.int16), (np.uint16, np.int32)])
@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_all_values(isa, rng, dtypes, threads):
    m, n, k = SHAPE
    a, b = extremes(rng, dtypes[0], (m, k)), extremes(rng, dtypes[1], (k, n))
    expected = exact(a, b)
    out = np.zeros((n, m), np.int64).T
    with int8blas.num_threads(threads):
        np.testing.assert_array_equal(int8blas.matmul(a, b, dtype=np.int64), expected)
        np.testing.assert_array_equal(int8blas.matmul(np.asfortranarray(a), b[:, ::-1], dtype=np.int64, out=out),
                                      expected[:, ::-1])  # fmt: skip
    np.testing.assert_array_equal(out, expected[:, ::-1])


def test_several_blocks_of_rows(isa, rng):
    a, b = extremes(rng, np.int16, (2100, 520)), extremes(rng, np.int16, (520, 513))
    np.testing.assert_array_equal(int8blas.matmul(a[::-1], b, dtype=np.int64), exact(a, b)[::-1])


def test_sums_at_both_ends(isa):
    """All products have the largest magnitude: at the largest K, digits reach the ends of int32."""
    a = np.full((512, 65_535), -32768, np.int16)
    b = np.full((65_535, 512), -32768, np.int16)
    b[:, ::2] = 32767
    product = int8blas.matmul(a, b, dtype=np.int64)
    assert (product[:, 1::2] == 65_535 * 2**30).all()
    assert (product[:, ::2] == -65_535 * 32768 * 32767).all()


def test_gemm_with_packed_b_and_zero_points(isa, rng):
    m, n, k = SHAPE
    a, b = extremes(rng, np.int16, (m, k)), extremes(rng, np.int16, (k, n))
    c = np.zeros((m, n), np.int32)
    expected = np.clip((a.astype(float) + 7) @ (b.astype(float) - 9), -(2**31), 2**31 - 1).astype(np.int32)
    for right in (b, int8blas.pack_b(b)):
        with pytest.warns(RuntimeWarning, match="saturated"):
            int8blas.gemm_s16s16s32(1, a, right, c=c, overwrite_c=True, ao=-7, bo=9)
        np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("shape", [SHAPE, (511, 600, 600), (600, 511, 600), (600, 600, 511), (512, 512, 65_536)])
def test_explain_names_them(isa, shape):
    m, n, k = shape
    a, b = np.full((m, k), 32767, np.int16), np.full((k, n), -32768, np.int16)
    kind = "digits" if isa not in BY_PAIRS and shape is SHAPE else "s16_full"
    plan = int8blas.explain(a, b)
    assert plan.multiply_add == kind
    assert plan.limbs == 1
    assert ("in three products of the kernels of 8 bits" in str(plan)) == (kind == "digits")
    assert int8blas.explain(a, int8blas.pack_b(b)).multiply_add == kind
