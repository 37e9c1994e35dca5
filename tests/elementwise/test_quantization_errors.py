"""Bad arguments of the quantization functions raise an error that names the argument, and nothing is written."""

from itertools import product

import numpy as np
import pytest

import int8blas

X = np.ones((3, 4), np.float32)
Q = np.ones((3, 4), np.int32)
WRONG = [
    *(("scale", {"scale": value}, ValueError) for value in (
        0, 0.0, -0.0, np.nan, np.inf, -np.inf, 1e-46, 1e39, 10**400, np.float64(1e300), [1.0, 2.0], [], [[1.0] * 4],
    )),
    *(("scale", {"scale": value}, TypeError) for value in (None, "1", 1j, True, [None], ["a"], [[1], [2, 3]])),
    *(("scale", {"scale": value, "axis": 1}, ValueError) for value in ([1.0] * 3, [1, 1, 1, 0], [1, 1, np.nan, 1])),
    *(("zero_point", {"zero_point": value}, ValueError) for value in (2**31, -(2**31) - 1, 10**30, [1, 2], [1] * 12)),
    *(("zero_point", {"zero_point": value}, TypeError) for value in (None, 0.0, "0", 1j, [0.5], True)),
    ("zero_point", {"zero_point": [1, 1, 1, 2**31], "axis": 1}, ValueError),
    ("zero_point", {"zero_point": [1, 1, 1], "axis": 1}, ValueError),
    *(("axis", {"axis": value}, ValueError) for value in (2, -3, (0, 0), (0, -2), (0, 5), 10**30)),
    *(("axis", {"axis": value}, TypeError) for value in ("0", 0.0, (0, "1"), ((0,),))),
]  # fmt: skip
WRONG_X = [
    *((X.astype(dtype), TypeError) for dtype in (np.longdouble, np.int16, np.uint32, object, ">f4", complex)),
    (None, TypeError), ("a", TypeError), ([1, 2], TypeError), ([[1], [2, 3]], TypeError), (object(), TypeError),
]  # fmt: skip
WRONG_OUT = [
    (np.zeros((3, 4), np.int16), TypeError), (np.zeros((3, 4), np.float64), TypeError), ([[0] * 4] * 3, TypeError),
    (np.zeros((4, 3), np.int8), ValueError), (np.zeros(12, np.int8), ValueError), (np.zeros((), np.int8), ValueError),
    (np.broadcast_to(np.zeros(4, np.int8), (3, 4)), ValueError),
    (np.lib.stride_tricks.as_strided(np.zeros(12, np.int8), (3, 4), (1, 1)), ValueError),
]  # fmt: skip


def check_refused(function, arguments, keywords, error, named):
    """The call raises `error` with a text that names the argument, and leaves `out` as it was."""
    out = keywords.get("out")
    before = None if out is None else np.array(out)
    with pytest.raises(error, match=rf"^{named} must "):
        function(*arguments, **keywords)
    if out is not None:
        np.testing.assert_array_equal(out, before)


@pytest.mark.parametrize(("named", "changes", "error"), WRONG)
def test_wrong_parameters(named, changes, error):
    for function, x, out in ((int8blas.quantize, X, np.int8), (int8blas.requantize, Q, np.int8),
                             (int8blas.dequantize, X.astype(np.int8), np.float32)):  # fmt: skip
        keywords = {"scale": 1.0, "out": np.full((3, 4), 77, out)} | changes
        check_refused(function, (x,), keywords, error, named)


@pytest.mark.parametrize("at", [0, 1, 39_998, 39_999])
def test_one_wrong_value_among_many(at):
    x, scale, zero_point = np.ones((100, 400), np.float32), np.ones((100, 400), np.float32), np.ones((100, 400), int)
    keywords = {"axis": (0, 1), "scheme": "onnx", "out": np.full((100, 400), 77, np.int8)}
    for value in (0, -0.0, np.inf, -np.inf, np.nan):
        scale.flat[at] = value
        check_refused(int8blas.quantize, (x, scale), keywords, ValueError, "scale")
    for value in (1e-45, -3.4e38, 1e-38):
        scale.flat[at] = value
        int8blas.quantize(x, scale, **keywords | {"out": None})
    for dtype, value in product((np.int32, np.int64), (-129, 128, 2**31 - 1, -(2**31))):
        zero_point.flat[at] = value
        check_refused(int8blas.quantize, (x, 1.0, zero_point.astype(dtype)), keywords, ValueError, "zero_point")


@pytest.mark.parametrize("value", [128, -129, [1, 1, 1, 128]])
def test_zero_points_that_are_added_after_rounding_are_of_the_type(value):
    keywords = {"scale": 1.0, "zero_point": value, "axis": None if np.ndim(value) == 0 else 1}
    for function, x, scheme in ((int8blas.quantize, X, "onnx"), (int8blas.requantize, Q, "onnx"),
                                (int8blas.requantize, Q, "single"), (int8blas.requantize, Q, "doubling")):  # fmt: skip
        out = np.full((3, 4), 77, np.int8)
        check_refused(function, (x,), keywords | {"scheme": scheme, "out": out}, ValueError, "zero_point")


@pytest.mark.parametrize(("x", "error"), WRONG_X)
def test_wrong_x(x, error):
    for function in (int8blas.quantize, int8blas.dequantize, int8blas.requantize):
        check_refused(function, (x, 1.0), {}, error, "x")
    check_refused(int8blas.quantize, (Q, 1.0), {}, TypeError, "x")
    check_refused(int8blas.dequantize, (X, 1.0), {}, TypeError, "x")
    check_refused(int8blas.requantize, (X.astype(np.int8), 1.0), {}, TypeError, "x")


@pytest.mark.parametrize(("out", "error"), WRONG_OUT)
def test_wrong_out(out, error):
    check_refused(int8blas.quantize, (X, 1.0), {"out": out}, error, "out")
    check_refused(int8blas.requantize, (Q, 1.0), {"out": out}, error, "out")


def test_read_only_out():
    out = np.zeros((3, 4), np.int8)
    out.flags.writeable = False
    check_refused(int8blas.quantize, (X, 1.0), {"out": out}, ValueError, "out")


@pytest.mark.parametrize("dtype", [None, np.int16, float, "x", 5, np.dtype(">i4"), "u1,u1"])
def test_wrong_dtype(dtype):
    check_refused(int8blas.quantize, (X, 1.0), {"dtype": dtype}, TypeError, "dtype")
    check_refused(int8blas.requantize, (Q, 1.0), {"dtype": dtype}, TypeError, "dtype")


@pytest.mark.parametrize("scheme", ["", "Float", None, 1, b"float"])
def test_wrong_scheme(scheme):
    check_refused(int8blas.requantize, (Q, 1.0), {"scheme": scheme}, ValueError, "scheme")


def test_wrong_arguments_of_factors():
    for function, name in ((int8blas.activation_factor, "x"), (int8blas.weights_factor, "w")):
        for value, error in (([], ValueError), ([np.nan], ValueError), ([np.inf], ValueError), ([1e-310], ValueError),
                             (["a"], TypeError), (None, TypeError), ([1j], TypeError)):  # fmt: skip
            check_refused(function, (value,), {}, error, name)
    check_refused(int8blas.activation_factor, ([1, -1],), {}, ValueError, "x")
    check_refused(int8blas.weights_factor, ([1],), {"axis": 1}, ValueError, "axis")
    check_refused(int8blas.quantize_bias, ([np.nan], 1, 1), {}, ValueError, "bias")
    check_refused(int8blas.quantize_bias, (["a"], 1, 1), {}, TypeError, "bias")
    check_refused(int8blas.quantize_bias, ([1, 2], 0, 1), {}, ValueError, "q_a")
    check_refused(int8blas.quantize_bias, ([1, 2], [1, 2], 1), {}, ValueError, "q_a")
    check_refused(int8blas.quantize_bias, ([1, 2], 1, [1, 2, 3]), {}, ValueError, "q_w")
    for value in (0, -1.0, np.inf, np.nan, 10**400):
        check_refused(int8blas.quantized_multiplier, (value,), {}, ValueError, "scale")
    check_refused(int8blas.quantized_multiplier, ("1",), {}, TypeError, "scale")
