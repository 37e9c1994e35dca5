"""matmul(..., mod=p) against Python's integers, on every instruction set."""

import itertools

import numpy as np
import pytest
from arrays import between_guards

import int8blas

DTYPES = (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
# Residues of 8, 16 and 32 bits, at the ends of each.
MODULI = (2, 3, 7, 127, 251, 256, 257, 4093, 65536, 65537, 1_000_003, 2**22 + 1, 2**31 - 1)


def draw(rng, dtype, shape):
    if dtype is np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x.flat[0], x.flat[-1] = info.min, info.max
    return x


def exact(a, b, p):
    return np.asarray((a * 1).astype(object) @ (b * 1).astype(object) % p, object)


@pytest.mark.parametrize("p", MODULI)
def test_every_mix_of_dtypes(isa, p):
    rng = np.random.default_rng(p)
    for a_dtype, b_dtype in itertools.product(DTYPES, repeat=2):
        a, b = draw(rng, a_dtype, (5, 37)), draw(rng, b_dtype, (37, 20))
        result = int8blas.matmul(a, b, mod=p, dtype=np.uint32)
        assert result.dtype == np.uint32
        np.testing.assert_array_equal(result, exact(a, b, p))


@pytest.mark.parametrize("p", [255, 65521, 2**31 - 1])
def test_long_k_of_the_largest_residues(isa, p):
    """Sums of the largest magnitudes: modulo 2**31 - 1, sums of 8 terms or more exceed 64 bits."""
    for k in (7, 9, 1000, 70_001):
        for low in (-(p // 2), (p - 1) // 2):
            a = np.full((3, k), low, np.int64)
            np.testing.assert_array_equal(int8blas.matmul(a, a.T, mod=p), low * low * k % p)


def test_more_k_than_one_product_takes():
    p, k = 2**31 - 1, 2**24 + 3
    a = np.full(k, p // 2, np.int32)
    a[-1] = 5
    assert int8blas.matmul(a, a[:, None], mod=p).item() == ((p // 2) ** 2 * (k - 1) + 25) % p
    with pytest.raises(ValueError, match=f"^b must have {k} rows, as a has {k} columns, got {k - 1}$"):
        int8blas.matmul(a, a[1:], mod=p)


def test_the_dtype_of_the_result():
    for a, b, expected in [
        (np.uint8, np.uint8, np.uint8), (np.int8, np.int16, np.int16), (np.uint64, np.uint64, np.uint64),
        (np.uint64, np.int8, np.int64), (bool, bool, np.uint8), (bool, np.int32, np.int32),
    ]:  # fmt: skip
        assert int8blas.matmul(np.ones((2, 2), a), np.ones((2, 2), b), mod=2).dtype == expected
    assert int8blas.matmul([[1, 2]], [[3], [4]], mod=5).dtype == np.int64


@pytest.mark.parametrize("p", [5, 1009, 10**9 + 7])
def test_shapes_strides_and_out(isa, p):
    rng = np.random.default_rng(p)
    x, y = rng.integers(-(10**12), 10**12, (2, 3, 8, 9)), rng.integers(0, 10**12, (3, 9, 5))
    pairs = [
        (x, y), (x[0, 0], y[0]), (x[0, 0, 0], y[0]), (x[0, 0], y[0, :, 0]), (x[0, 0, 0], y[0, :, 0]),
        (x[..., ::-1], y[0]), (x[0, 0].T.copy().T, y[0].T.copy().T), (x[:, :, :0], y), (x[..., :0], y[:, :0]),
    ]  # fmt: skip
    for a, b in pairs:
        expected = exact(a, b, p).astype(np.int64)
        result = int8blas.matmul(a, b, mod=p)
        assert type(result) is type(expected[()])
        np.testing.assert_array_equal(result, expected)
        if expected.ndim:
            for dtype in (np.int64, np.uint32):
                out = np.zeros((*expected.shape, 2), dtype)
                assert int8blas.matmul(a, b, out=out[..., 1], mod=p).base is out
                np.testing.assert_array_equal(out[..., 1], expected)
                assert not out[..., 0].any()


def test_a_result_in_the_memory_of_an_operand(isa):
    x = np.random.default_rng(1).integers(0, 97, (40, 40))
    expected = x @ x % 97
    assert int8blas.matmul(x, x, out=x, mod=97) is x
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_is_read_outside_the_operands(isa, side):
    rng = np.random.default_rng(2)
    for p, dtype in itertools.product((13, 3001, 2**30), (np.int8, np.uint16, np.int64)):
        a, b = (between_guards(side, draw(rng, dtype, shape)) for shape in ((6, 11), (11, 7)))
        out = between_guards(side, np.zeros((6, 7), np.int64))
        int8blas.matmul(a, b, out=out, mod=p)
        np.testing.assert_array_equal(out, exact(a, b, p))


def test_powers_of_a_matrix():
    """The number of paths of 2**k steps, modulo a prime."""
    p, x = 998_244_353, np.random.default_rng(3).integers(0, 2, (30, 30))
    expected = x.astype(object)
    for _ in range(6):
        x, expected = int8blas.matmul(x, x, mod=p), expected @ expected % p
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(
    ("keywords", "error", "text"),
    [
        ({"mod": 1}, ValueError, r"^mod must be at least 2 and less than 2\*\*31, got 1$"),
        ({"mod": 2**31}, ValueError, r"^mod must be at least 2 and less than 2\*\*31, got 2147483648$"),
        ({"mod": 2.0}, TypeError, "^mod must be an integer, got float$"),
        ({"mod": True}, TypeError, "^mod must be an integer, got bool$"),
        ({"mod": 5, "ao": 1}, ValueError, "^ao must be 0 when mod is given, got 1$"),
        ({"mod": 5, "bo": [1, 2]}, ValueError, "^bo must be 0 when mod is given, got "),
        ({"mod": 5, "numerics": "saturating"}, ValueError, "^numerics must be 'exact' when mod is given, got "),
        ({"mod": 5, "overflow": "wrap"}, ValueError, "^overflow must be 'saturate' when mod is given, got 'wrap'$"),
        ({"mod": 257}, ValueError, "^mod must be at most 256, as the result is uint8, got 257: give a wider dtype$"),
        ({"mod": 5, "dtype": np.float32}, TypeError, "^dtype must be an integer dtype, got float32$"),
        ({"mod": 5, "out": np.zeros((2, 3), np.int32)}, ValueError, r"^out must have shape \(2, 2\), got \(2, 3\)$"),
    ],
)
def test_errors(keywords, error, text):
    x = np.ones((2, 2), np.uint8)
    with pytest.raises(error, match=text):
        int8blas.matmul(x, x, **keywords)


def test_errors_of_operands():
    x = np.ones((2, 2), np.uint8)
    with pytest.raises(TypeError, match=r"^b must be an array when mod is given, got a PackedB: give b\.unpack\(\)$"):
        int8blas.matmul(x, int8blas.pack_b(x.astype(np.int8)), mod=5)
    with pytest.raises(TypeError, match=r"^a must be uint8 or int8, got float64"):
        int8blas.matmul(x / 2, x, mod=5)
    with pytest.raises(ValueError, match=r"^a must have at least 1 dimension, got a scalar$"):
        int8blas.matmul(np.uint8(3), x, mod=5)
    with pytest.raises(ValueError, match=r"^b must have 2 rows, as a has 2 columns, got 3$"):
        int8blas.matmul(x, np.ones((3, 2), np.uint8), mod=70000, dtype=np.int64)
