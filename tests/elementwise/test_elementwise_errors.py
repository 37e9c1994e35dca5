"""Bad arguments of the element-wise primitives raise an error that names the argument, and nothing is written."""

import re

import numpy as np
import pytest
from test_quantization_errors import check_refused

import int8blas
from int8blas import Binary, PReLU, ReLU, Sum

X, F = np.ones((3, 4), np.uint8), np.ones((3, 4), np.float32)
WRONG_SOURCES = [
    *((X.astype(dtype), TypeError) for dtype in (np.longdouble, np.int16, np.uint32, object, ">i4", complex)),
    (None, TypeError), ("a", TypeError), ([1, 2], TypeError), ([[1], [2, 3]], TypeError), (object(), TypeError),
]  # fmt: skip
WRONG_SCALES = [
    *((value, ValueError) for value in (0, -0.0, np.nan, np.inf, -np.inf, 1e-46, 1e39, 10**400, [1.0, 2.0])),
    *((value, TypeError) for value in (None, "1", 1j, True)),
]
WRONG_ZERO_POINTS = [
    *((value, ValueError) for value in (2**31, -(2**31) - 1, 10**30, [1, 2])),
    *((value, TypeError) for value in (None, 0.0, "0", 1j, True)),
]
WRONG_OUT = [
    (np.zeros((3, 4), np.int8), TypeError), (np.zeros((3, 4), np.float64), TypeError), ([[0] * 4] * 3, TypeError),
    (np.zeros((4, 3), np.uint8), ValueError), (np.zeros(12, np.uint8), ValueError),
    (np.zeros((), np.uint8), ValueError), (np.broadcast_to(np.zeros(4, np.uint8), (3, 4)), ValueError),
    (np.lib.stride_tricks.as_strided(np.zeros(12, np.uint8), (3, 4), (1, 1)), ValueError),
]  # fmt: skip
CALLS = {
    "eltwise": lambda **options: int8blas.eltwise(X, ReLU(), **options),
    "binary": lambda **options: int8blas.binary("add", X, X, **options),
    "sum": lambda **options: int8blas.sum([X, X], **options),
    "concat": lambda **options: int8blas.concat([X], 0, **options),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
TENSORS = {"eltwise": ("src", "dst"), "binary": ("src0", "src1", "dst")}


def refuse(call, options, error, named):
    out = {} if "out" in options else {"out": np.full((3, 4), 77, options.get("dst_dtype") or np.uint8)}
    check_refused(call, (), {**out, **options}, error, re.escape(named))


@pytest.mark.parametrize(("src", "error"), WRONG_SOURCES)
def test_wrong_sources(src, error):
    check_refused(int8blas.eltwise, (src, ReLU()), {}, error, "src")
    check_refused(int8blas.binary, ("add", src, X), {}, error, "src0")
    check_refused(int8blas.binary, ("add", X, src), {}, error, "src1")
    for function, more in ((int8blas.sum, ()), (int8blas.concat, (0,))):
        check_refused(function, ([X, src], *more), {}, error, r"srcs\[1\]")


@pytest.mark.parametrize(
    ("srcs", "error"), [(None, TypeError), (3, TypeError), ("ab", TypeError), ({}, TypeError), ([], ValueError)]
)
def test_wrong_sequences_of_sources(srcs, error):
    check_refused(int8blas.sum, (srcs,), {}, error, "srcs")
    check_refused(int8blas.concat, (srcs, 0), {}, error, "srcs")


@pytest.mark.parametrize("name", TENSORS)
def test_wrong_values_by_tensor(name):
    for tensor in TENSORS[name]:
        for value, error in WRONG_SCALES:
            refuse(CALLS[name], {"scales": {tensor: value}}, error, f"scales['{tensor}']")
        for value, error in WRONG_ZERO_POINTS:
            refuse(CALLS[name], {"zero_points": {tensor: value}}, error, f"zero_points['{tensor}']")
    for kind in ("scales", "zero_points"):
        for value, error in ((3, TypeError), ([1], TypeError), ({"weights": 1}, ValueError), ({0: 1}, ValueError)):
            refuse(CALLS[name], {kind: value}, error, kind)


def test_wrong_values_by_source():
    for value, error in WRONG_SCALES:
        refuse(CALLS["concat"], {"scales": [value]}, error, "scales[0]")
        for name in ("sum", "concat"):
            refuse(CALLS[name], {"dst_scale": value}, error, "dst_scale")
    for value, error in WRONG_ZERO_POINTS:
        refuse(CALLS["sum"], {"zero_points": [0, value]}, error, "zero_points[1]")
        for name in ("sum", "concat"):
            refuse(CALLS[name], {"dst_zero_point": value}, error, "dst_zero_point")
    for value, error in (
        (np.nan, ValueError),
        (1e39, ValueError),
        (10**400, ValueError),
        (None, TypeError),
        ("1", TypeError),
    ):
        refuse(CALLS["sum"], {"scales": [1, value]}, error, "scales[1]")
    for name in ("sum", "concat"):
        for kind in ("scales", "zero_points"):
            for value, error in (
                (3, TypeError),
                ("ab", TypeError),
                ({0: 1}, TypeError),
                ([1, 2, 3], ValueError),
                ([], ValueError),
            ):
                refuse(CALLS[name], {kind: value}, error, kind)


def test_zero_points_of_floats():
    check_refused(int8blas.eltwise, (F, ReLU()), {"zero_points": {"src": 1}}, ValueError, r"zero_points\['src'\]")
    check_refused(int8blas.binary, ("add", F, X), {"zero_points": {"dst": 1}}, ValueError, r"zero_points\['dst'\]")
    check_refused(int8blas.sum, ([X, F],), {"zero_points": [1, 1]}, ValueError, r"zero_points\[1\]")
    options = {"dst_dtype": np.float16, "dst_zero_point": 1}
    check_refused(int8blas.concat, ([X], 0), options, ValueError, "dst_zero_point")
    assert int8blas.eltwise(F, ReLU(), zero_points={"src": 0, "dst": 0}).dtype == np.float32


@every_call
@pytest.mark.parametrize("dtype", [np.int16, float, "x", 5, np.dtype(">i4"), "u1,u1"])
def test_wrong_dst_dtype(call, dtype):
    check_refused(call, (), {"dst_dtype": dtype}, TypeError, "dst_dtype")


@every_call
@pytest.mark.parametrize(("out", "error"), WRONG_OUT)
def test_wrong_out(call, out, error):
    check_refused(call, (), {"out": out}, error, "out")


@every_call
def test_read_only_out(call):
    out = np.zeros((3, 4), np.uint8)
    out.flags.writeable = False
    check_refused(call, (), {"out": out}, ValueError, "out")


def test_wrong_shapes():
    for other in (np.ones((4, 4), np.uint8), np.ones((2, 1, 4, 4), np.uint8), np.ones(3, np.uint8)):
        check_refused(int8blas.binary, ("add", X, other), {}, ValueError, "src1")
        check_refused(int8blas.sum, ([X, other],), {}, ValueError, r"srcs\[1\]")
    for other in (np.ones((4, 3), np.uint8), np.ones((3, 4, 1), np.uint8), np.ones(3, np.uint8), np.uint8(1)):
        check_refused(int8blas.concat, ([X, other], 0), {}, ValueError, r"srcs\[1\]")
    check_refused(int8blas.sum, ([X, X[:1]],), {}, ValueError, r"srcs\[1\]")
    check_refused(int8blas.concat, ([np.uint8(1)], 0), {}, ValueError, r"srcs\[0\]")


@pytest.mark.parametrize(
    ("axis", "error"),
    [(2, ValueError), (-3, ValueError), (None, TypeError), ("0", TypeError), (0.0, TypeError), ((0,), TypeError)],
)
def test_wrong_axis(axis, error):
    check_refused(int8blas.concat, ([X], axis), {}, error, "axis")


@pytest.mark.parametrize("op", ["plus", "", None, 3, b"add", ["add"]])
def test_wrong_operation(op):
    check_refused(int8blas.binary, (op, X, X), {}, ValueError, "op")


def test_wrong_post_ops():
    for name, call in (
        ("ops", lambda ops, **options: int8blas.eltwise(X, ops, **options)),
        ("post_ops", lambda ops, **options: int8blas.binary("add", X, X, post_ops=ops, **options)),
    ):
        for ops in ("relu", None, 3, [3], ["relu"], ReLU, [ReLU]):
            check_refused(call, (ops,), {}, TypeError, name)
        for ops in (Binary(), [ReLU(), PReLU()]):
            check_refused(call, (ops,), {}, ValueError, name)
        check_refused(call, (Binary([1, 2]),), {}, ValueError, "operand of Binary")
        check_refused(call, (PReLU(np.ones((2, 3, 4))),), {}, ValueError, "operand of PReLU")
        check_refused(call, (Sum(),), {}, ValueError, "out")
        options = {"out": np.zeros((3, 4), np.float32), "dst_dtype": np.float32}
        check_refused(call, (Sum(dtype=np.int8),), options, ValueError, "dtype of Sum")
