"""Few rows and columns and a long K: exact for every K, type, layout and number of threads, in int64 and in int32."""

import itertools
import warnings

import numpy as np
import paths
import pytest
import reference
from arrays import LAYOUTS, SIGN_PAIRS, WITH_MATRIX_UNIT, assert_same, guarded, heap, needs_mprotect, place, random_c
from paths import check_explained
from processes import run_python
from sharing import shared

import int8blas

# Kernels take 4, 2 and 1 vectors of each operand.
COUNTS = (1, 2, 3, 4, 5, 8, 11, 16)
# Steps of a kernel are vectors of 16 to 64 bytes, up to 4 at once; segments have 32,768 k; int32 sums hold 65,793
# products.
LENGTHS = (64, 65, 79, 95, 127, 128, 191, 257, 300, 511, 513, 1030)
LONG_LENGTHS = (32_767, 32_768, 32_769, 32_800, 65_535, 65_536, 65_537, 65_793, 65_794, 66_001, 98_305, 131_075)
THREADS = (1, 2, 3)
SHAPES = paths.SHAPES["long_k"]


@shared
def exact(a, b):
    """The product in int64, by float64 in blocks of K whose sums it holds exactly."""
    total = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for k in range(0, a.shape[1], 1 << 15):
        total += (a[:, k : k + (1 << 15)].astype(np.float64) @ b[k : k + (1 << 15)].astype(np.float64)).astype(np.int64)
    return total


def ends(pair):
    """The values of the two types with the largest products, and the values with the largest products of the other
    sign."""
    a, b = np.iinfo(pair.a_dtype), np.iinfo(pair.b_dtype)
    return itertools.product((a.min, a.max), (b.min, b.max))


def along_k(a, b, allocate=heap):
    """Both operands contiguous along k."""
    return place(a, "C", allocate), place(b.T, "C", allocate).T


def check_int64(a, b, **problem):
    expected = exact(a, b)
    for threads in THREADS:
        with int8blas.num_threads(threads):
            assert_same(int8blas.matmul(a, b, dtype=np.int64), expected, threads=threads, **problem)


def test_every_number_of_rows_and_columns(isa, pair, rng):
    for m, n in itertools.product(COUNTS, COUNTS):
        k = 64 * m * n + int(rng.integers(0, 300))
        a, b = along_k(*pair.operands(rng, m, n, k))
        assert_same(int8blas.matmul(a, b, dtype=np.int64), exact(a, b), m=m, n=n, k=k)
        assert_same(pair.gemm(1, a, b), reference.gemm(1, a, b), m=m, n=n, k=k)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_the_operands_is_read(isa, pair, side, rng):
    for (m, n), k in zip(itertools.product((1, 2, 3, 4, 7, 16), repeat=2), itertools.cycle(LENGTHS), strict=False):
        k += 64 * m * n
        a, b = along_k(*pair.operands(rng, m, n, k), guarded(side))
        assert_same(int8blas.matmul(a, b, dtype=np.int64), exact(a, b), m=m, n=n, k=k)
    for k in (*range(1, 70), *LENGTHS):
        x, y = (place(v.reshape(1, -1), "C", guarded(side))[0] for v in pair.operands(rng, 1, 1, k))
        assert int8blas.matmul(x, y) == np.dot(x.astype(np.int64), y.astype(np.int64)), k


@pytest.mark.parametrize("k", LENGTHS + LONG_LENGTHS)
def test_k_around_vectors_and_segments(isa, pair, k, rng):
    for m, n in ((1, 1), (2, 3)) if k < 2000 or isa != "ref" else ((1, 1),):
        check_int64(*along_k(*pair.operands(rng, m, n, k)), m=m, n=n, k=k)


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (3, 5, 32_768),
        (3, 5, 65_794),
        (3, 5, 131_075),
        (1, 1, 262_145),
        (2, 2, 524_288),
        (1, 2, 524_301),
        (1, 1, 1_200_000),
    ],
)
def test_the_largest_sums(isa, pair, m, n, k):
    """Each lane of a vector adds up to 32,768 products before the lanes are added in int64."""
    for value_a, value_b in ends(pair):
        a, b = np.full((m, k), value_a, pair.a_dtype), np.full((n, k), value_b, pair.b_dtype).T
        for threads in (1, 2):
            with int8blas.num_threads(threads):
                result = int8blas.matmul(a, b, dtype=np.int64)
                assert (result == k * int(value_a) * int(value_b)).all(), (value_a, value_b, threads)


def test_ten_million_k(isa, pair):
    """Periodic values whose sums are known, in memory and as one byte that is broadcast."""
    k, period = 10_000_000, 1_000
    x = np.arange(period) % 256
    x, y = x.astype(np.uint8).view(pair.a_dtype), (7 * x + 3).astype(np.uint8).view(pair.b_dtype)
    once = int(np.dot(x.astype(np.int64), y.astype(np.int64)))
    x, y = np.tile(x, k // period), np.tile(y, k // period)
    for threads in (1, 2):
        with int8blas.num_threads(threads):
            assert int8blas.matmul(x, y, dtype=np.int64) == k // period * once
            assert int8blas.matmul(x[None], y[:, None], dtype=np.int64) == k // period * once


@pytest.mark.parametrize("shape", [(1, 1, 66_001), (3, 5, 1030), (4, 4, 70_000), (16, 2, 4100)])
def test_zero_points(isa, pair, shape, rng):
    m, n, k = shape
    a, b = along_k(*pair.operands(rng, m, n, k))
    a_low, b_low = np.iinfo(pair.a_dtype).min, np.iinfo(pair.b_dtype).min
    zeros_a = (0, a_low + 255, rng.integers(a_low, a_low + 256, m))
    zeros_b = (0, b_low + 255, rng.integers(b_low, b_low + 256, n))
    for (ao, bo), threads in itertools.product(itertools.product(zeros_a, zeros_b), (1, 2)):
        expected = exact(a.astype(np.int64) - np.reshape(ao, (-1, 1)), b.astype(np.int64) - bo)
        with int8blas.num_threads(threads):
            assert_same(int8blas.matmul(a, b, ao=ao, bo=bo, dtype=np.int64), expected, ao=ao, bo=bo, threads=threads)


@pytest.mark.filterwarnings("ignore:.*saturated:RuntimeWarning")
@pytest.mark.parametrize("shape", [(1, 1, 400), (5, 3, 1030), (16, 16, 16_400), (2, 4, 66_001)])
def test_the_epilogue(isa, pair, shape, rng):
    m, n, k = shape
    a, b = along_k(*pair.operands(rng, m, n, k))
    row, column = rng.integers(-(10**6), 10**6, n), rng.integers(-(10**6), 10**6, m)
    for options in (
        {"alpha": 1, "co": 7, "ao": 3},
        {"alpha": 0.25, "beta": -2.0},
        {"alpha": 1, "beta": 1, "co": row, "offsetc": "R"},
        {"alpha": -1.5, "beta": 0.5, "co": column, "offsetc": "C", "bo": 5},
    ):
        for order in "CF":
            c = np.asarray(random_c(rng, (m, n)), order=order)
            expected = reference.gemm(**({"a": a, "b": b, "c": c} | options))
            for threads in (1, 2):
                with int8blas.num_threads(threads):
                    assert_same(pair.gemm(a=a, b=b, c=c, **options), expected, order=order, options=list(options))


@pytest.mark.filterwarnings("ignore:.*saturated:RuntimeWarning")
@pytest.mark.parametrize("a_layout", LAYOUTS)
@pytest.mark.parametrize("b_layout", LAYOUTS)
def test_every_layout(isa, a_layout, b_layout, rng):
    for pair, (m, n, k) in zip(SIGN_PAIRS, ((1, 4, 2100), (8, 1, 515), (3, 7, 1377), (6, 5, 66_001)), strict=True):
        a, b = pair.operands(rng, m, n, k)
        a, b = place(a, a_layout), place(b, b_layout)
        check_int64(a, b, m=m, n=n, k=k)
        assert_same(int8blas.matmul(a, b), reference.saturate(exact(a, b)), m=m, n=n, k=k)
        assert_same(int8blas.matmul(a, int8blas.pack_b(b), dtype=np.int64), exact(a, b), m=m, n=n, k=k)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_vectors_side_by_side_are_set_apart(isa, side, rng):
    """Lines of 16 k of up to 2, 4 and 8 adjacent vectors, with and without gaps, forwards and backwards."""
    for pair, count in itertools.product(SIGN_PAIRS, range(1, 9)):
        for k, gap, step in ((64 * count + 37, 0, 1), (64 * count, 3, 1), (64 * count + 15, 1, -1)):
            a, b = pair.operands(rng, 1, count, k)
            lines = place(rng.integers(0, 2, (k, count + gap)).astype(b.dtype), "C", guarded(side))
            lines[:, gap:] = b
            b = lines[::step, gap:]
            assert int8blas.explain(a, b).path == ("long_k" if k > 256 or count > 4 else "tiny")
            assert_same(int8blas.matmul(a, b, dtype=np.int64), exact(a, b), count=count, k=k, gap=gap, step=step)
            assert_same(int8blas.matmul(b.T, a.T, dtype=np.int64), exact(a, b).T, count=count, k=k, gap=gap, step=step)


def test_vectors(isa, pair, rng):
    for k in (*range(1, 140), *LENGTHS, 4096, 33_000, 300_000 if isa != "ref" else 40_000):
        a, b = pair.operands(rng, 1, 1, k)
        x, y = a[0], b[:, 0].copy()
        expected = int(exact(a, b)[0, 0])
        for threads in (1, 2):
            with int8blas.num_threads(threads):
                for dtype in (np.int64, "i8"):
                    result = int8blas.matmul(x, y, dtype=dtype)
                    assert type(result) is np.int64
                    assert result == expected, k
                if k <= 33_000:
                    result = int8blas.matmul(x, y)
                    assert type(result) is np.int32
                    assert result == expected, k


def test_a_product_of_vectors_saturates_as_others_do(isa, pair):
    k = 140_000
    for value_a, value_b in ends(pair):
        x, y = np.full(k, value_a, pair.a_dtype), np.full(k, value_b, pair.b_dtype)
        sums = np.int64(k) * value_a * value_b
        if np.iinfo(np.int32).min <= sums <= np.iinfo(np.int32).max:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert int8blas.matmul(x, y) == sums
            continue
        with pytest.warns(RuntimeWarning, match=r"^matmul: elements of the result beyond int32 were saturated"):
            result = int8blas.matmul(x, y)
        assert_same(np.asarray(result), np.asarray(reference.saturate(np.asarray(sums))))
        assert int8blas.matmul(x, y, dtype=np.int64) == sums


def test_vectors_of_every_form(isa, rng):
    bits = rng.integers(0, 2, 900).astype(bool)
    x, y = rng.integers(-128, 128, 900).astype(np.int8), rng.integers(0, 256, 900).astype(np.uint8)
    wide = x.astype(np.int64)
    assert int8blas.matmul(bits, x) == wide[bits].sum()
    assert int8blas.matmul(x[::-1], x) == np.dot(wide[::-1], wide)
    assert int8blas.matmul(x[::3], y[::3]) == np.dot(wide[::3], y[::3].astype(np.int64))
    assert int8blas.matmul(np.broadcast_to(x[:1], 900), y) == wide[0] * y.sum()
    assert int8blas.matmul(x, x, ao=3, bo=-5) == np.dot(wide - 3, wide + 5)
    assert int8blas.matmul(x[:0], y[:0]) == 0
    assert type(int8blas.matmul(x[:0], y[:0])) is np.int32
    out = np.empty((), np.int64)
    assert int8blas.matmul(x, x, out=out) is out
    assert out == np.dot(wide, wide)
    with pytest.raises(ValueError, match=r"^b must have 900 rows, as a has 900 columns, got 899$"):
        int8blas.matmul(x, y[1:])
    with pytest.raises(TypeError, match=r"^b must be uint8 or int8, got float32: "):
        int8blas.matmul(x, y.astype(np.float32))


def test_a_product_of_vectors_is_in_the_verbose_output():
    code = "import numpy as np, int8blas; int8blas.matmul(np.ones(500, np.int8), np.ones(500, np.int8))"
    assert "m=1,n=1,k=500" in run_python("-c", code, INT8BLAS_VERBOSE="1").stderr


def test_explain_tells_the_path(isa):
    for m, n, k in ((1, 1, 300), (16, 16, 20_000), (1, 16, 65_536), (4, 3, 66_000), (1, 1, 10**8)):
        a, b = np.broadcast_to(np.uint8(1), (m, k)), np.broadcast_to(np.int8(1), (k, n))
        a, b = np.lib.stride_tricks.as_strided(a, strides=(0, 1)), np.lib.stride_tricks.as_strided(b, strides=(1, 0))
        # A matrix unit takes all it can.
        path = "few_columns" if isa in WITH_MATRIX_UNIT and min(m, n) > 4 else "long_k"
        for threads in (1, 2):
            with int8blas.num_threads(threads):
                explanation = int8blas.explain(a, b)
                assert (explanation.path, explanation.isa) == (path, isa), (m, n, k)
                assert f"path {path}" in str(explanation)
                if path == "long_k":
                    assert explanation.threads == explanation.k_parts
                    assert explanation.threads == threads or k <= 10**7


def test_explain_tells_the_path_with_threads(isa, rng):
    # A matrix unit takes products with more columns.
    shapes = [shape for shape in SHAPES if isa not in WITH_MATRIX_UNIT or shape[1] <= 4]
    check_explained("long_k", isa, shapes, "F order", rng)
