"""Layers and functions with ONNX's rounding: results are rounded before the zero point is added."""

from itertools import cycle, product

import numpy as np
import pytest
import reference_elementwise
import reference_quantization
from arrays import assert_same
from convolutions import random_convolution
from layers import LAYER_SHAPES, assert_same_bits, random_problem, sign_pairs
from test_exact_layers import PATHS

import int8blas
from int8blas import Attributes, Eltwise, InnerProduct, ReLU

DTYPES = (np.uint8, np.int8)
OPS = {"none": (), "relu": (ReLU(),), "functions": (Eltwise("hardswish"), ReLU(0.1))}


def with_rounding(problem, at_creation=True):
    """A problem's layer with ONNX's rounding."""
    masks = {"scales": problem.masks(problem.scales), "zero_points": problem.masks(problem.zero_points)}
    values = {"scales": problem.scales, "zero_points": problem.zero_points} if at_creation else {}
    return getattr(int8blas, problem.primitive)(
        problem.weights, problem.bias, src_dtype=problem.src.dtype, dst_dtype=problem.dst_dtype,
        attributes=Attributes(**masks, post_ops=problem.ops, requantization="onnx"), **problem.geometry, **values,
    )  # fmt: skip


def expected(problem):
    """The real numbers by the oracle, rounded and shifted."""
    zero_points = {tensor: value for tensor, value in problem.zero_points.items() if tensor != "dst"}
    y = problem.but(dst_dtype=np.float32, zero_points=zero_points).expected()
    zero = np.asarray(problem.zero_points.get("dst", 0), np.int64)
    if zero.ndim and problem.geometry.get("layout", "").startswith("nc"):
        zero = zero.reshape(-1, *(1,) * (y.ndim - 2))
    return reference_quantization.round_and_shift(y, problem.dst_dtype, zero)


def check(problem, **facts):
    wanted = expected(problem)
    assert_same_bits(with_rounding(problem)(problem.src), wanted, **facts)
    late = with_rounding(problem, at_creation=False)
    result = late(problem.src, scales=problem.scales, zero_points=problem.zero_points)
    assert_same_bits(result, wanted, **facts)


@pytest.mark.parametrize("dst_dtype", DTYPES)
@pytest.mark.parametrize("ops", OPS)
def test_inner_products_of_every_shape(isa, dst_dtype, ops, rng):
    for (src_dtype, weights_dtype), (m, n, k) in zip(cycle(sign_pairs()), (*LAYER_SHAPES, (20, 5, 1100)), strict=False):
        for vectors, bias in product(((), ("weights", "dst"), ("src", "weights")), ("s32", "f32")):
            problem = random_problem(
                rng, m, n, k, src_dtype, weights_dtype, dst_dtype=dst_dtype, vectors=vectors, bias=bias,
                scales=("src", "weights", "dst"), zero_points=("src", "weights", "dst"), ops=OPS[ops],
            )  # fmt: skip
            check(problem, m=m, n=n, k=k, vectors=vectors, bias=bias)


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("name", PATHS)
def test_convolutions_on_every_path(isa, layout, name, rng):
    size, kernel, ic, oc, geometry = PATHS[name]
    for dst_dtype, ops in product(DTYPES, OPS.values()):
        problem = random_convolution(
            rng, size, kernel, ic, oc, layout=layout, src_dtype=np.uint8, dst_dtype=dst_dtype, bias="s32",
            scales=("src", "weights", "dst"), zero_points=("src", "dst"), vectors=("weights",), ops=ops, **geometry,
        )  # fmt: skip
        check(problem, layout=layout, path=name, dtype=dst_dtype)


@pytest.mark.parametrize("oc", [1, 3, 4, 8, 15, 16, 17, 24, 40, 47, 56, 88])
@pytest.mark.parametrize("dst_dtype", DTYPES)
def test_ties_and_every_number_of_channels(isa, oc, dst_dtype, rng):
    differs = False
    for groups in (1, oc):
        ic = 8 if groups == 1 else oc
        src = rng.integers(0, 3, (1, 5, 7, ic), np.uint8)
        weights = rng.integers(-2, 3, (oc, ic // groups, 3, 3), np.int8)
        for bias, op in product((None, rng.integers(-50, 50, oc, np.int32)), ((), (ReLU(),))):
            problem = random_convolution(
                rng, (5, 7), (3, 3), ic, oc, groups=groups, padding=1, bias=None, scales=("weights",),
                zero_points=("dst",), src_dtype=np.uint8, dst_dtype=dst_dtype, layout="nhwc", ops=op,
            ).but(src=src, weights=weights, bias=bias, scales={"weights": np.full(oc, 0.5, np.float32)},
                  zero_points={"dst": 7})  # fmt: skip
            differs |= bool((expected(problem) != problem.expected()).any())
            check(problem, groups=groups, bias=bias is not None)
    assert differs


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max"])
def test_functions_of_two_tensors(isa, name, rng):
    scales, zeros = {"src0": 0.5, "src1": 0.25, "dst": 0.5}, {"src0": 3, "src1": 100, "dst": 5}
    for dtypes in product(DTYPES, DTYPES, (np.uint8, np.int8, np.int32)):
        x, y = (rng.integers(np.iinfo(t).min, np.iinfo(t).max, (3, 700), t, endpoint=True) for t in dtypes[:2])
        for scale, ops, second in product((0.5, 0.37), ((), (ReLU(),), (Eltwise("abs"),)), (y, y[:, :1])):
            given = scales | {"dst": scale}
            floats = {key: value for key, value in given.items() if key != "dst"}
            points = {key: value for key, value in zeros.items() if key != "dst"}
            real = reference_elementwise.binary(name, x, second, scales=floats, zero_points=points, post_ops=ops,
                                                dst_dtype=np.float32)  # fmt: skip
            wanted = reference_quantization.quantize(real, scale, 5, dtypes[2], "onnx")
            result = int8blas.binary(name, x, second, scales=given, zero_points=zeros, post_ops=ops,
                                     dst_dtype=dtypes[2], scheme="onnx")  # fmt: skip
            assert_same(result, wanted, dtypes=dtypes, scale=scale)


@pytest.mark.parametrize("src_dtype", [np.uint8, np.int8, np.float32])
def test_functions_of_one_tensor(isa, src_dtype, rng):
    for shape in ((7,), (2000,)):
        x = rng.normal(0, 60, shape).astype(np.float32).clip(0, 127).astype(src_dtype)
        for dst_dtype in (np.uint8, np.int8, np.int32):
            real = reference_elementwise.eltwise(x, [Eltwise("linear", 0.5, 0)], scales={"src": 0.5},
                                                 dst_dtype=np.float32)  # fmt: skip
            result = int8blas.eltwise(x, Eltwise("linear", 0.5, 0), scales={"src": 0.5, "dst": 0.5},
                                      zero_points={"dst": 9}, dst_dtype=dst_dtype, scheme="onnx")  # fmt: skip
            assert_same(result, reference_quantization.quantize(real, 0.5, 9, dst_dtype, "onnx"))


def test_what_it_is_not_for():
    with pytest.raises(TypeError, match="dst_dtype must be uint8, int8 or int32 with scheme='onnx', got float32"):
        int8blas.eltwise(np.zeros(3, np.float32), (), scheme="onnx")
    with pytest.raises(ValueError, match="scheme must be 'float' or 'onnx', got 'single'"):
        int8blas.binary("add", np.zeros(3, np.int8), np.zeros(3, np.int8), scheme="single")
    with pytest.raises(ValueError, match="scheme must be 'float' or 'onnx', got 'doubling'"):
        int8blas.quantize(np.zeros(3, np.float32), 1, scheme="doubling")
    given = {"src_dtype": np.uint8, "attributes": Attributes(requantization="onnx")}
    weights = np.ones((2, 3), np.int8)
    with pytest.raises(
        ValueError, match=r"zero_points\['dst'\] must not be given for int32 with requantization='onnx'"
    ):
        InnerProduct(weights, dst_dtype=np.int32, zero_points={"dst": 1}, **given)
    with pytest.raises(ValueError, match=r"zero_points\['dst'\]"):
        InnerProduct(weights, dst_dtype=np.int8, zero_points={"dst": 128}, **given)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_are_looked_up(isa, dtype, rng):
    table = rng.integers(0, 256, 256, np.uint8).view(dtype)
    x = rng.integers(0, 256, (3, 5, 700), np.uint8)
    for view in (x, x[:, ::2], x.transpose(2, 0, 1), x[..., ::3], x[0, 0, 0], x[:0], x.view(np.int8)):
        assert_same(int8blas.elementwise.functions.look_up(view, table), table[view.view(np.uint8)])
    with pytest.raises(ValueError, match="table must have 256 contiguous elements"):
        int8blas.elementwise.functions.look_up(x, table[:100])
