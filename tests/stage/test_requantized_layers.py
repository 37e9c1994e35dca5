"""Layers that requantize in integers: TensorFlow Lite's arithmetic in their epilogue, on every path."""

import pickle
from dataclasses import replace
from itertools import cycle, product

import numpy as np
import pytest
import reference
from arrays import guarded, needs_mprotect, place, random_values
from convolutions import random_convolution
from layers import FEW_LAYERS, LAYER_SHAPES, SRC_DTYPES, assert_same_bits, name_of, random_problem, sign_pairs
from reference_requantized import requantized
from test_exact_layers import PATHS

import int8blas
from int8blas import Attributes, Binary, Eltwise, InnerProduct, ReLU, Sum

INT32 = np.iinfo(np.int32)
DST_DTYPES = (np.uint8, np.int8, np.int32)
ACTIVATIONS = {
    "none": (),
    "relu": (ReLU(),),
    "relu6": (Eltwise("clip", 0, 6),),
    "relu within 1": (Eltwise("clip", -1, 1),),
    "beyond float32's quotient": (Eltwise("clip", -3e38, 3e38),),
}

every_scheme = pytest.mark.parametrize("scheme", ["doubling", "single"])


def in_integers(problem, scheme):
    """The layer of a problem with integer arithmetic."""
    masks = {"scales": problem.masks(problem.scales), "zero_points": problem.masks(problem.zero_points)}
    return getattr(int8blas, problem.primitive)(
        problem.weights,
        problem.bias,
        src_dtype=problem.src.dtype,
        dst_dtype=problem.dst_dtype,
        attributes=Attributes(**masks, post_ops=problem.ops, requantization=scheme),
        scales=problem.scales,
        zero_points=problem.zero_points,
        **problem.geometry,
    )


def exact_sums(problem):
    """The oracle's sums without bias, in int64."""
    zero_points = {tensor: value for tensor, value in problem.zero_points.items() if tensor != "dst"}
    if problem.primitive == "InnerProduct":
        return reference.exact_product(
            problem.src, problem.weights, zero_points.get("src", 0), zero_points.get("weights", 0), trans_b=True
        )
    sums = problem.but(dst_dtype=np.int32, bias=None, scales={}, zero_points=zero_points, ops=()).expected()
    return np.moveaxis(sums, 1, -1) if problem.geometry["layout"].startswith("nc") else sums


def expected(problem, scheme):
    op = problem.ops[0] if problem.ops else None
    zero_point = problem.zero_points.get("dst", 0)
    result = requantized(
        exact_sums(problem), problem.bias, scheme, problem.scales, zero_point, np.dtype(problem.dst_dtype).type, op
    )
    if problem.geometry.get("layout", "").startswith("nc"):
        return np.moveaxis(result, -1, 1)
    return result


def check(problem, scheme, **facts):
    assert_same_bits(in_integers(problem, scheme)(problem.src), expected(problem, scheme), scheme=scheme, **facts)


def random_layer(rng, m, n, k, **keywords):
    given = {"bias": "s32", "zero_points": ("src", "dst"), "scales": ("src", "weights", "dst")} | keywords
    return random_problem(rng, m, n, k, **given)


@every_scheme
@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
def test_inner_products_of_every_shape(isa, scheme, dst_dtype, rng):
    for (src_dtype, weights_dtype), (m, n, k) in zip(cycle(sign_pairs()), (*LAYER_SHAPES, (20, 5, 1100)), strict=False):
        for vectors in ((), ("weights",), ("weights", "dst")):
            problem = random_layer(
                rng, m, n, k, src_dtype=src_dtype, weights_dtype=weights_dtype, dst_dtype=dst_dtype, vectors=vectors,
                zero_points=("src", "weights", "dst"),
            )  # fmt: skip
            check(problem, scheme, m=m, n=n, k=k, vectors=vectors)


@every_scheme
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_limit_the_range(isa, scheme, activation, rng):
    for dst_dtype, (m, n, k) in product(DST_DTYPES, FEW_LAYERS):
        problem = random_layer(rng, m, n, k, dst_dtype=dst_dtype, vectors=("weights",), ops=ACTIVATIONS[activation])
        check(problem, scheme, activation=activation, dtype=name_of(dst_dtype))


@every_scheme
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("name", PATHS)
def test_convolutions_on_every_path(isa, scheme, layout, name, rng):
    size, kernel, ic, oc, geometry = PATHS[name]
    for src_dtype, dst_dtype in product(SRC_DTYPES, DST_DTYPES):
        problem = random_convolution(
            rng, size, kernel, ic, oc, layout=layout, src_dtype=src_dtype, dst_dtype=dst_dtype, bias="s32",
            scales=("src", "weights", "dst"), vectors=("weights",), ops=ACTIVATIONS["relu6"], **geometry,
        )  # fmt: skip
        check(problem, scheme, layout=layout, path=name)


@every_scheme
def test_deconvolutions(isa, scheme, rng):
    for groups, strides in ((1, 1), (1, 2), (4, 2), (8, 1)):
        problem = random_convolution(
            rng, (5, 6), (3, 3), 8, 8, transposed=True, groups=groups, strides=strides, bias="s32",
            scales=("src", "weights", "dst"), vectors=("weights",),
        )  # fmt: skip
        check(problem, scheme, groups=groups, strides=strides)


@every_scheme
def test_the_ends_of_shifts_and_sums(isa, scheme):
    """Factors range from values that give only zeros to values that saturate everything. Sums reach both ends of
    int32."""
    factors = np.array([2.0**-40, 2.0**-33, 2.0**-32, 2.0**-31, 2.0**-30, 3e-5, 0.5, 0.999, 1, 1.5, 2, 2.0**29,
                        2.0**30, 2.0**31, 2.0**32, 2.0**40, 2.0**90], np.float32)  # fmt: skip
    n = len(factors)
    sums = (INT32.min, INT32.min + 1, -(2**30), -1000, -3, -2, -1, 0, 1, 2, 3, 1000, 2**30, INT32.max - 1, INT32.max)
    for value, zero_point, dst_dtype in product(sums, (0, -7, INT32.min, INT32.max), (np.int32, np.int8)):
        zero_point = zero_point if dst_dtype == np.int32 else int(np.clip(zero_point, -128, 127))
        bias = np.full(n, value, np.int32)
        attributes = Attributes(requantization=scheme)
        layer = InnerProduct(np.zeros((n, 3), np.int8), bias, src_dtype=np.uint8, dst_dtype=dst_dtype,
                             attributes=attributes, scales={"weights": factors},
                             zero_points={"dst": zero_point})  # fmt: skip
        wanted = requantized(np.zeros((2, n), np.int64), bias, scheme, {"weights": factors}, zero_point, dst_dtype)
        assert_same_bits(layer(np.zeros((2, 3), np.uint8)), wanted, sum=value, zero_point=zero_point)


@every_scheme
def test_sums_beyond_int32_saturate_before_they_are_scaled(isa, scheme, rng):
    k = 70_000
    src = np.full((3, k), 255, np.uint8)
    weights = np.stack([np.full(k, 127, np.int8), np.full(k, -128, np.int8)])
    bias = np.array([INT32.max, INT32.min], np.int32)
    scales = {"weights": np.float32(2.0**-25)}
    layer = InnerProduct(weights, bias, src_dtype=np.uint8, dst_dtype=np.int8, scales=scales,
                         attributes=Attributes(requantization=scheme))  # fmt: skip
    sums = src.astype(np.int64) @ weights.T.astype(np.int64)
    assert_same_bits(layer(src), requantized(sums, bias, scheme, scales, 0, np.int8))


@every_scheme
def test_zero_points_of_rows_and_columns(isa, scheme, rng):
    """They are applied to sums within int32, and to sums beyond it."""
    for (src_dtype, weights_dtype), (m, n, k) in product(sign_pairs(), ((1, 20, 40), (9, 33, 20), (2, 3, 66_100))):
        problem = random_layer(rng, m, n, k, src_dtype=src_dtype, weights_dtype=weights_dtype, dst_dtype=np.int32)
        rows = random_values(rng, src_dtype, m).astype(np.int32)
        columns = random_values(rng, weights_dtype, n).astype(np.int32)
        for zeros in ({"src": rows}, {"weights": columns}, {"src": rows, "weights": columns}):
            zero_points = {"dst": problem.zero_points["dst"], **zeros}
            check(problem.but(zero_points=zero_points), scheme, m=m, n=n, k=k, zeros=list(zeros))


@needs_mprotect
@every_scheme
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_is_read_or_written(isa, scheme, side, rng):
    for dst_dtype, (m, n, k) in product(DST_DTYPES, LAYER_SHAPES):
        problem = random_layer(rng, m, n, k, dst_dtype=dst_dtype, vectors=("weights",))
        src = place(problem.src, "C", guarded(side))
        out = place(np.zeros((m, n), dst_dtype), "C", guarded(side))
        assert_same_bits(in_integers(problem, scheme)(src, out=out), expected(problem, scheme))


@every_scheme
def test_values_of_an_execution(isa, scheme, rng):
    problem = random_layer(rng, 9, 33, 20, vectors=("weights",))
    masks = {"scales": problem.masks(problem.scales), "zero_points": problem.masks(problem.zero_points)}
    layer = InnerProduct(problem.weights, problem.bias, src_dtype=np.uint8, dst_dtype=np.int8,
                         attributes=Attributes(**masks, requantization=scheme))  # fmt: skip
    result = layer(problem.src, scales=problem.scales, zero_points=problem.zero_points)
    assert_same_bits(result, expected(problem, scheme))


@every_scheme
def test_it_is_requantize_of_the_sums(scheme, rng):
    src, weights = rng.integers(0, 256, (30, 70), np.uint8), rng.integers(-128, 128, (50, 70), np.int8)
    attributes = Attributes(requantization=scheme)
    layer = InnerProduct(weights, src_dtype=np.uint8, dst_dtype=np.uint8, attributes=attributes,
                         scales={"src": 0.5, "weights": 0.25, "dst": 64}, zero_points={"dst": 77})  # fmt: skip
    sums = int8blas.gemm_u8s8s32(1, src, weights, trans_b=True)
    assert_same_bits(layer(src), int8blas.requantize(sums, 0.125 / 64, 77, np.uint8, scheme=scheme))


def test_pickles_and_files_keep_it(tmp_path, rng):
    problem = random_layer(rng, 9, 33, 20, ops=(ReLU(),))
    layer = in_integers(problem, "doubling")
    int8blas.save(tmp_path / "layer.i8", layer)
    for copy in (pickle.loads(pickle.dumps(layer)), int8blas.load(tmp_path / "layer.i8")):
        assert copy.attributes.requantization == "doubling"
        assert_same_bits(copy(problem.src), expected(problem, "doubling"))
    assert len(Attributes().__reduce__()[1]) == 4  # as in earlier versions


WEIGHTS = np.ones((2, 3), np.int8)
REFUSED = {
    "dst_dtype": ({"dst_dtype": np.float32}, TypeError, "dst_dtype must be uint8, int8 or int32 with requantization"),
    "bias": ({"bias": np.zeros(2, np.float32)}, TypeError, "bias must be int32 with requantization='single'"),
    "rows": ({"scales": {"src": [1, 2]}}, ValueError, r"scales\['src'\] must have the mask 0 with requantization"),
    "dynamic": (
        {"src_dtype": np.float32, "dynamic": "per_row"},
        ValueError,
        "requantization must be 'float' or 'onnx' for a source that is quantized dynamically",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_place_in_integers_is_refused(name):
    keywords, error, text = REFUSED[name]
    keywords = {"src_dtype": np.uint8, "dst_dtype": np.int8} | keywords
    with pytest.raises(error, match=text):
        InnerProduct(WEIGHTS, attributes=Attributes(requantization="single"), **keywords)


def test_a_convolution_with_a_dynamic_source_is_refused():
    with pytest.raises(
        ValueError, match="requantization must be 'float' or 'onnx' for a source that is quantized dynamically"
    ):
        int8blas.Convolution(
            np.ones((2, 3, 1, 1), np.int8), src_dtype=np.float32, dst_dtype=np.int8, dynamic="per_image",
            attributes=Attributes(requantization="doubling"),
        )  # fmt: skip


@pytest.mark.parametrize(
    "ops", [[ReLU(0.1)], [ReLU(0, 2.0)], [Sum()], [Binary([1.0])], [ReLU(), ReLU()], [Eltwise("tanh")]]
)
def test_post_ops_that_are_no_range_are_refused(ops):
    with pytest.raises(ValueError, match="post_ops must be at most one, ReLU or Eltwise"):
        Attributes(post_ops=ops, requantization="doubling")


def test_arguments_of_the_attribute_are_checked():
    with pytest.raises(
        ValueError, match="requantization must be 'float', 'doubling', 'single' or 'onnx', got 'triple'"
    ):
        Attributes(requantization="triple")
    with pytest.raises(ValueError, match="output_scales must not be given with requantization='single'"):
        Attributes(output_scales=(0, 1.0), requantization="single")
    assert replace(Attributes(), requantization="single").requantization == "single"
