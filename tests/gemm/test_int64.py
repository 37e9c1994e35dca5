"""Products in int64: exact for every K, on every path, to any C."""

import sys
from itertools import product

import numpy as np
import pytest
import reference
from arrays import B_FORMS
from processes import run_python
from shapes import FEW
from sharing import shared

import int8blas

# Sums exceed int32, on every path: few rows, few columns, tiles, and K divided among threads.
LONG = [
    (1, 1, 66_000), (16, 1, 66_000), (1, 20, 131_075), (3, 17, 66_001), (20, 2, 132_003), (9, 18, 66_002),
]  # fmt: skip
# Problems for several paths, with columns that fill panels and columns that do not.
SHORT = [
    *FEW, (4, 4, 4), (64, 64, 64), (1, 300, 70), (5, 640, 300), (300, 1, 600), (300, 8, 600), (200, 300, 3),
    (130, 96, 150), (130, 100, 150), (9, 48, 700),
]  # fmt: skip


@shared
def exact(a, b, ao=0, bo=0):
    """The product in int64, by float64 in blocks of K whose sums it holds exactly."""
    a, b = a.astype(np.int64) - np.reshape(ao, (-1, 1)), b.astype(np.int64) - bo
    total = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for k in range(0, a.shape[1], 1 << 15):
        total += (a[:, k : k + (1 << 15)].astype(np.float64) @ b[k : k + (1 << 15)].astype(np.float64)).astype(np.int64)
    return total


def operands(rng, pair, m, n, k, ends):
    """Random values, or, if `ends`, the extreme values with the largest sums."""
    a, b = np.iinfo(pair.a_dtype), np.iinfo(pair.b_dtype)
    if ends:
        return (np.full((m, k), a.max if a.min == 0 else a.min, pair.a_dtype),
                np.full((k, n), b.max if b.min == 0 else b.min, pair.b_dtype))  # fmt: skip
    return rng.integers(a.min, a.max + 1, (m, k), pair.a_dtype), rng.integers(b.min, b.max + 1, (k, n), pair.b_dtype)


def outputs(m, n, k):
    """Arrays of every order and alignment; only two for a long K, whose sums are always stored in the same way."""
    yield None
    yield np.full((m, n), -1, np.int64, order="F")
    if k > 60_000:
        return
    yield np.full((2 * m, 3 * n), -1, np.int64)[::-2, ::3]
    yield np.full((m, n + 5), -1, np.int64)[:, 3 : 3 + n]
    yield np.full(8 * m * n + 4, 255, np.uint8)[4:].view(np.int64).reshape(m, n)  # not aligned


@pytest.mark.parametrize("form", B_FORMS)
@pytest.mark.parametrize("shape", SHORT + LONG, ids=lambda shape: "x".join(map(str, shape)))
def test_products_in_int64_are_exact(isa, pair, form, rng, shape):
    m, n, k = shape
    for ends in (False, True) if k < 60_000 else (True,):
        a, b = operands(rng, pair, m, n, k, ends)
        expected = exact(a, b)
        for out in outputs(m, n, k):
            result = int8blas.matmul(a, B_FORMS[form](b), dtype=np.int64, out=out)
            assert result.dtype == np.int64
            assert np.array_equal(result, expected)
            assert out is None or result is out


@pytest.mark.parametrize("shape", [(5, 17, 9), (64, 64, 64), (200, 300, 3), (130, 96, 150), (3, 5, 66_001)])
@pytest.mark.parametrize("form", B_FORMS)
def test_zero_points_in_int64(isa, pair, form, rng, shape):
    m, n, k = shape
    a, b = operands(rng, pair, m, n, k, False)
    a_low, b_low = np.iinfo(pair.a_dtype).min, np.iinfo(pair.b_dtype).min
    zeros_a = (a_low, rng.integers(a_low, a_low + 256, m))
    zeros_b = (b_low + 255, rng.integers(b_low, b_low + 256, n))
    for ao, bo in product(zeros_a, zeros_b):
        for out in (None, np.zeros((m, n), np.int64, order="F")):
            result = int8blas.matmul(a, B_FORMS[form](b), ao=ao, bo=bo, dtype=np.int64, out=out)
            assert np.array_equal(result, exact(a, b, ao, bo))


def test_threads_and_parts_of_k_in_int64(isa, pair, rng):
    for m, n, k in ((1, 1, 300_000), (5, 6, 131_075), (600, 40, 100)):
        a, b = operands(rng, pair, m, n, k, True)
        for threads in (1, 2, 3, 7):
            with int8blas.num_threads(threads):
                for form in B_FORMS.values():
                    assert np.array_equal(int8blas.matmul(a, form(b), dtype=np.int64), exact(a, b))


def test_a_large_result_in_int64(isa, rng):
    """The result is written with non-temporal stores if the kernels have them."""
    a, b = rng.integers(0, 256, (2200, 40), np.uint8), rng.integers(-128, 128, (40, 2000), np.int8)
    expected = exact(a, b)
    for columns in (2000, 1995):
        memory = np.full(2200 * 2000 + 8, 7, np.int64)
        out = memory[-memory.ctypes.data // 8 % 8 :][: 2200 * 2000].reshape(2200, 2000)  # aligned to cache lines
        for threads in (1, 2):
            with int8blas.num_threads(threads):
                int8blas.matmul(a, b[:, :columns], out=out[:, :columns])
            assert np.array_equal(out[:, :columns], expected[:, :columns])
            assert (out[:, columns:] == 7).all()


def test_saturating_numerics_in_int64(isa, rng):
    a, b = np.full((2, 70_000), 255, np.uint8), rng.integers(100, 128, (70_000, 17), np.int8)
    small = reference.gemm(1, a[:, :1000], b[:1000], numerics="saturating").astype(np.int64)
    assert np.array_equal(int8blas.matmul(a[:, :1000], b[:1000], dtype=np.int64, numerics="saturating"), small)
    parts = sum(
        reference.gemm(1, a[:, k : k + 1000], b[k : k + 1000], numerics="saturating").astype(np.int64)
        for k in range(0, 70_000, 1000)
    )
    for form in B_FORMS.values():
        assert np.array_equal(int8blas.matmul(a, form(b), dtype=np.int64, numerics="saturating"), parts)


def test_batches_vectors_and_nothing_in_int64(isa, rng):
    a, b = rng.integers(0, 256, (3, 1, 4, 9), np.uint8), rng.integers(-128, 128, (5, 9, 6), np.int8)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(int8blas.matmul(a, b, dtype="int64"), expected)
    out = np.zeros((6, 3, 5, 4), np.int64).transpose(1, 2, 3, 0)
    assert np.array_equal(int8blas.matmul(a, b, out=out), expected)
    scalar = int8blas.matmul(a[0, 0, 0], b[0, :, 0], dtype=np.int64)
    assert isinstance(scalar, np.int64)
    assert scalar == expected[0, 0, 0, 0]
    assert np.array_equal(int8blas.matmul(a[:, 0], b[0, :, 1], dtype=np.int64), expected[:, 0, :, 1])
    assert int8blas.matmul(a[0, 0, :0], b[0], dtype=np.int64).shape == (0, 6)
    assert np.array_equal(int8blas.matmul(a[0, 0, :, :0], b[0, :0], dtype=np.int64), np.zeros((4, 6), np.int64))


def test_the_type_of_the_result():
    a, b = np.ones((2, 3), np.uint8), np.ones((3, 4), np.int8)
    assert int8blas.matmul(a, b).dtype == np.int32
    assert int8blas.matmul(a, b, dtype=np.int32).dtype == np.int32
    assert int8blas.matmul(a, b, out=np.empty((2, 4), np.int64)).dtype == np.int64
    for dtype in (np.float32, ">u4", bool, "nonsense"):
        with pytest.raises(TypeError, match=r"^dtype must be an integer dtype, got "):
            int8blas.matmul(a, b, dtype=dtype)
    with pytest.raises(TypeError, match=r"^out must be of an integer dtype, got float64$"):
        int8blas.matmul(a, b, out=np.empty((2, 4)))
    with pytest.raises(TypeError, match=r"^out must be int64, as dtype says, got int32$"):
        int8blas.matmul(a, b, dtype=np.int64, out=np.empty((2, 4), np.int32))
    with pytest.raises(TypeError, match=r"^out must be int32, as dtype says, got int64$"):
        int8blas.matmul(a, b, dtype=np.int32, out=np.empty((2, 4), np.int64))
    with pytest.raises(ValueError, match=r"^out must have shape \(2, 4\), got \(4, 2\)$"):
        int8blas.matmul(a, b, out=np.empty((4, 2), np.int64))


def test_a_k_beyond_int32_takes_the_path_of_a_shorter_one(isa):
    for m, n in ((16, 1), (1, 30)):
        short, long = (
            int8blas.explain(np.zeros((m, k), np.uint8), np.zeros((n, k), np.int8).T) for k in (65_000, 140_000)
        )
        assert (short.segments, short.wide_sums) == (short.k_parts, False)
        assert long.segments >= 3
        assert long.wide_sums
        assert long.path == short.path
        assert f"the sums of {long.segments} segments of k are added in int64" in str(long)


LONG_PRODUCT = """
import resource, sys
import numpy as np
import int8blas
a, b = np.full((1, 20_000_000), 200, np.uint8), np.full((20_000_000, 1), 100, np.int8)
with int8blas.num_threads(int(sys.argv[2])), int8blas.use_isa(sys.argv[1]):
    int8blas.matmul(a[:, :10], b[:10])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for forms in (b, np.broadcast_to(b[:1], b.shape)):
        assert int8blas.matmul(a, forms, dtype=np.int64) == 20_000_000 * 20_000
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < 16 << 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_memory_of_a_call_does_not_grow_with_k(isa, threads):
    process = run_python("-c", LONG_PRODUCT, isa, str(threads))
    assert (process.returncode, process.stdout, process.stderr) == (0, "True\n", "")
