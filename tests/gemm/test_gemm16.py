"""The GEMMs of 16-bit integers, on every instruction set, against the formula."""

import warnings

import numpy as np
import pytest
import reference

import int8blas

GEMMS = {
    "gemm_s16s16s32": (np.int16, np.int16),
    "gemm_s16s8s32": (np.int16, np.int8),
    "gemm_u16s8s32": (np.uint16, np.int8),
}
SHAPES = [(1, 1, 1), (3, 17, 5), (33, 65, 300), (70, 130, 33), (9, 50, 1100), (0, 3, 4), (4, 0, 3), (5, 6, 0)]


def draw(rng, dtype, shape, bits):
    info = np.iinfo(dtype)
    shift = max(0, info.bits - bits - (info.min < 0))
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True) >> dtype(shift)


@pytest.mark.parametrize("name", GEMMS)
@pytest.mark.parametrize("bits", [8, 11, 14, 16])
@pytest.mark.parametrize("shape", SHAPES)
def test_gemm(isa, name, bits, shape):
    m, n, k = shape
    rng = np.random.default_rng(m + bits)
    function, (a_dtype, b_dtype) = getattr(int8blas, name), GEMMS[name]
    a, b = draw(rng, a_dtype, (m, k), bits), draw(rng, b_dtype, (k, n), bits)
    c = rng.integers(-(2**31), 2**31, (m, n), np.int32)
    cases = [
        {}, {"ao": int(np.iinfo(a_dtype).max), "bo": -7}, {"beta": 1.0, "c": c, "co": 99},
        {"alpha": 0.001, "beta": -0.5, "c": c, "ao": 5},
        {"ao": rng.integers(0, 9, m), "bo": rng.integers(-9, 9, n), "co": rng.integers(-9, 9, n), "offsetc": "R"},
        {"alpha": 2.0**-9, "bo": 3, "co": rng.integers(-9, 9, m), "offsetc": "C"},
    ]  # fmt: skip
    for case in cases:
        alpha, rest = case.get("alpha", 1.0), {key: value for key, value in case.items() if key != "alpha"}
        expected = reference.gemm(alpha, a, b, **rest)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = function(alpha, a, b, **rest)
            other = function(alpha, np.asfortranarray(a).T, b.T.copy(), **rest, trans_a=True, trans_b=1)
        assert result.dtype == np.int32
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(other, expected)


@pytest.mark.parametrize("name", GEMMS)
def test_the_largest_products(isa, name):
    """Two products -32768 * -32768 add up to 2**31, which overflows in a multiply-add of pairs. A long K exceeds int32
    and saturates."""
    a_dtype, b_dtype = GEMMS[name]
    for k in (2, 3, 500, 70_000):
        for a_value in (np.iinfo(a_dtype).min, np.iinfo(a_dtype).max):
            for b_value in (np.iinfo(b_dtype).min, np.iinfo(b_dtype).max):
                a, b = np.full((3, k), a_value, a_dtype), np.full((k, 4), b_value, b_dtype)
                exact = int(a_value) * int(b_value) * k
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("always")
                    result = getattr(int8blas, name)(1, a, b)
                assert (result == np.clip(exact, -(2**31), 2**31 - 1)).all()
                assert len(seen) == (not -(2**31) <= exact < 2**31)
                assert all(f"{name}: elements of the result beyond int32" in str(one.message) for one in seen)
                co = -int(np.clip(exact, -(2**31) + 1, 2**31 - 1))
                assert (getattr(int8blas, name)(0, a, b, co=co) == co).all()


def test_c_is_overwritten_in_place(isa):
    rng = np.random.default_rng(3)
    a, b = rng.integers(-99, 99, (20, 30)).astype(np.int16), rng.integers(-99, 99, (30, 40)).astype(np.int16)
    product = a.astype(np.int64) @ b
    for c in (np.ones((20, 40), np.int32), np.ones((40, 20), np.int32).T, np.ones((20, 80), np.int32)[:, ::2]):
        left = c.copy()
        np.testing.assert_array_equal(int8blas.gemm_s16s16s32(1, a, b, 2, c), product + 2)
        np.testing.assert_array_equal(c, left)
        assert int8blas.gemm_s16s16s32(1, a, b, 2, c, overwrite_c=True) is c
        np.testing.assert_array_equal(c, product + 2)
    square = np.arange(900, dtype=np.int32).reshape(30, 30)
    low = square.view(np.int16)[:, ::2]
    expected = low.astype(np.int64) @ low
    np.testing.assert_array_equal(int8blas.gemm_s16s16s32(1, low, low, c=square, overwrite_c=True), expected)


@pytest.mark.parametrize("name", GEMMS)
def test_wrong_arguments(name):
    function, (a_dtype, b_dtype) = getattr(int8blas, name), GEMMS[name]
    a, b = np.ones((2, 3), a_dtype), np.ones((3, 4), b_dtype)
    high = int(np.iinfo(a_dtype).max) + 1
    for changes, error, text in (
        ({"a": a.astype(np.int32)}, TypeError, f"a must be {np.dtype(a_dtype)}, got int32"),
        ({"b": b.astype(np.int64)}, TypeError, f"b must be {np.dtype(b_dtype)}, got int64"),
        ({"a": a.astype(a.dtype.newbyteorder())}, TypeError, f"a must be {np.dtype(a_dtype)}, got .* other byte order"),
        ({"a": a[0]}, ValueError, r"a must have 2 dimensions, got shape \(3,\)"),
        ({"b": b.T}, ValueError, r"b must have 3 rows in op\(b\), as op\(a\) has 3 columns, got 4"),
        ({"ao": high}, ValueError, f"ao must be between {np.iinfo(a_dtype).min} and {high - 1}, got {high}"),
        ({"bo": [1, 2]}, ValueError, r"bo must be one integer or 4 \(a column of op\(b\) each\)"),
        ({"co": 0.5}, TypeError, "co must be an integer"),
        ({"offsetc": "X"}, ValueError, "offsetc must be 'F', 'R' or 'C'"),
        ({"alpha": np.nan}, ValueError, "alpha must be finite"),
        ({"c": np.ones((4, 2), np.int32)}, ValueError, r"c must have shape \(2, 4\), got \(4, 2\)"),
        ({"c": np.ones((2, 4))}, TypeError, "c must be int32, got float64"),
        ({"trans_a": 3}, ValueError, "trans_a must be a bool or 0, 1, 2, got 3"),
        ({"overwrite_c": None}, TypeError, "overwrite_c must be a bool, 0 or 1, got NoneType"),
    ):
        arguments = {"alpha": 1.0, "a": a, "b": b, "c": None, "overwrite_c": "c" in changes} | changes
        before = None if arguments["c"] is None else arguments["c"].copy()
        with pytest.raises(error, match=f"^{text}"):
            function(**arguments)
        assert before is None or (before == arguments["c"]).all()
