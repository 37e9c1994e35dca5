"""Bad arguments of softmax and layer_norm raise an error that names the argument, and nothing is written."""

import numpy as np
import pytest

import int8blas

X = np.ones((3, 4), np.float32)
Q = np.ones((3, 4), np.uint8)
OF_BOTH = [
    *(("src", {"src": X.astype(dtype)}, TypeError)
      for dtype in (np.longdouble, np.int16, np.int64, complex, object, ">f4")),
    *(("src", {"src": value}, TypeError) for value in (None, "a", [1, 2], [[1], [2, 3]])),
    ("src", {"src": np.float32(1)}, ValueError),
    *(("scales", {"scales": value}, TypeError) for value in (1.0, [1.0], "src", {"src"})),
    *(("scales", {"scales": value}, ValueError) for value in ({"weights": 1.0}, {0: 1.0}, {"src": 1, "x": 1})),
    *(("scales['src']", {"scales": {"src": value}}, ValueError) for value in (0, -np.inf, np.nan, 1e39, [1.0, 2.0])),
    *(("scales['dst']", {"scales": {"dst": value}}, TypeError) for value in (None, "1", 1j, True)),
    *(("zero_points", {"zero_points": value}, TypeError) for value in (1, [1], "dst")),
    ("zero_points", {"zero_points": {"weights": 0}}, ValueError),
    ("zero_points['src']", {"zero_points": {"src": 1}}, ValueError),
    ("zero_points['src']", {"src": Q, "zero_points": {"src": 2**31}}, ValueError),
    *(("zero_points['dst']", {"zero_points": {"dst": value}}, ValueError) for value in (2**31, [1, 2], 10**30)),
    *(("zero_points['dst']", {"zero_points": {"dst": value}}, TypeError) for value in (None, 0.5, "0", True)),
    ("zero_points['dst']", {"dst_dtype": np.float32, "zero_points": {"dst": 0}}, ValueError),
    *(("dst_dtype", {"dst_dtype": value}, TypeError) for value in (np.int32, np.float64, bool, "x", 5, ">f4")),
    *(("out", {"out": out}, TypeError) for out in (np.zeros((3, 4), np.int8), X.copy(), [[0] * 4] * 3)),
    *(("out", {"out": np.zeros(shape, np.uint8)}, ValueError) for shape in ((4, 3), (12,), ())),
    ("out", {"out": np.broadcast_to(np.uint8(0), (3, 4))}, ValueError),
    ("out", {"out": np.lib.stride_tricks.as_strided(np.zeros(12, np.uint8), (3, 4), (1, 1))}, ValueError),
]  # fmt: skip
OF_SOFTMAX = [
    *(("axis", {"axis": value}, ValueError) for value in (2, -3, 10**30)),
    *(("axis", {"axis": value}, TypeError) for value in (None, 0.0, "0", (0,))),
    *(("log", {"log": value}, TypeError) for value in (None, 1, "yes")),
]
OF_LAYER_NORM = [
    *((name, {name: np.ones(shape, np.float32)}, ValueError)
      for name in ("gamma", "beta") for shape in (3, (1, 4), (), (3, 4))),
    *((name, {name: value}, TypeError) for name in ("gamma", "beta") for value in (np.arange(4), [1] * 4, "a", 1)),
    *(("epsilon", {"epsilon": value}, ValueError) for value in (-1e-9, np.nan, np.inf, 1e39)),
    *(("epsilon", {"epsilon": value}, TypeError) for value in (None, "0", 1j)),
]  # fmt: skip


def check_refused(function, named, changes, error):
    """The call raises `error` with a text that names the argument, and leaves `out` as it was."""
    keywords = {"src": X, "dst_dtype": np.uint8, "out": np.full((3, 4), 77, np.uint8)} | changes
    before = np.array(keywords["out"])
    with pytest.raises(error) as raised:
        function(keywords.pop("src"), **keywords)
    assert str(raised.value).startswith(f"{named} must ")
    np.testing.assert_array_equal(keywords["out"], before)


@pytest.mark.parametrize(("named", "changes", "error"), OF_BOTH)
@pytest.mark.parametrize("function", [int8blas.softmax, int8blas.layer_norm])
def test_wrong_arguments(function, named, changes, error):
    check_refused(function, named, changes, error)


@pytest.mark.parametrize(("named", "changes", "error"), OF_SOFTMAX)
def test_wrong_arguments_of_softmax(named, changes, error):
    check_refused(int8blas.softmax, named, changes, error)


@pytest.mark.parametrize(("named", "changes", "error"), OF_LAYER_NORM)
def test_wrong_arguments_of_layer_norm(named, changes, error):
    check_refused(int8blas.layer_norm, named, changes, error)


def test_read_only_out():
    out = np.zeros((3, 4), np.uint8)
    out.flags.writeable = False
    check_refused(int8blas.softmax, "out", {"out": out}, ValueError)
