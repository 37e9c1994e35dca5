"""InnerProduct has the bits of the documented formula, whatever the types, the attributes and the shape."""

from itertools import combinations, product

import numpy as np
import pytest
import reference
import reference_quantized
from arrays import SIGN_PAIRS, random_values
from layers import (
    DST_DTYPES,
    FEW_LAYERS,
    LAYER_SHAPES,
    SRC_DTYPES,
    WEIGHTS_DTYPES,
    assert_same_bits,
    name_of,
    random_bias,
    random_problem,
    sign_pairs,
)

import int8blas
from int8blas import Attributes, Binary

TENSORS = ("src", "weights", "dst")

# Every set of tensors that can have a value for each row or column.
VECTORS = [vectors for count in range(4) for vectors in combinations(TENSORS, count)]

every_dst = pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)


# --- types, shapes, masks --------------------------------------------------------------------------------------------


@every_dst
@pytest.mark.parametrize("weights_dtype", WEIGHTS_DTYPES, ids=name_of)
@pytest.mark.parametrize("src_dtype", SRC_DTYPES, ids=name_of)
def test_shapes_around_the_edges_of_tiles(isa, src_dtype, weights_dtype, dst_dtype, rng):
    for m, n, k in LAYER_SHAPES:
        random_problem(rng, m, n, k, src_dtype, weights_dtype, dst_dtype).check()


def test_every_number_of_columns(isa, rng):
    for n in range(1, 70):
        for m, dst_dtype in ((1, np.int8), (3, np.float32), (20, np.float16)):
            random_problem(rng, m, n, 13, dst_dtype=dst_dtype).check()


@every_dst
@pytest.mark.parametrize("vectors", VECTORS, ids="+".join)
def test_masks_with_values_at_creation_and_at_execution(isa, vectors, dst_dtype, rng):
    for (src_dtype, weights_dtype), shape in product(sign_pairs(), FEW_LAYERS):
        problem = random_problem(
            rng, *shape, src_dtype, weights_dtype, dst_dtype, scales=TENSORS, zero_points=TENSORS, vectors=vectors
        )
        problem.check(at_creation=True)
        problem.check(at_creation=False)


@every_dst
@pytest.mark.parametrize("bias", [None, "f32", "s32"])
@pytest.mark.parametrize("scales", [(), ("src",), ("weights",), ("dst",), ("src", "weights")], ids="+".join)
def test_scales_and_bias_that_are_left_out(isa, scales, bias, dst_dtype, rng):
    for zero_points, shape in product(((), ("src",), ("weights",), ("dst",)), FEW_LAYERS):
        problem = random_problem(
            rng, *shape, dst_dtype=dst_dtype, bias=bias, scales=scales, zero_points=zero_points, vectors=()
        )
        problem.check()


def test_values_may_change_from_execution_to_execution(isa, rng):
    shape = (9, 33, 20)
    layer = random_problem(rng, *shape).layer(at_creation=False)
    weights, bias = None, None
    for _ in range(3):
        problem = random_problem(rng, *shape)
        if weights is None:
            weights, bias = problem.weights, problem.bias
            layer = problem.layer(at_creation=False)
        problem = problem.but(weights=weights, bias=bias)
        assert_same_bits(problem.run(layer, at_creation=False), problem.expected())


def test_one_value_of_a_vector_is_one_value(isa, rng):
    problem = random_problem(rng, 5, 7, 20, scales=TENSORS, zero_points=TENSORS, vectors=())
    scales, zero_points = (
        {tensor: np.atleast_1d(value) for tensor, value in values.items()}
        for values in (problem.scales, problem.zero_points)
    )
    layer = int8blas.InnerProduct(problem.weights, problem.bias, src_dtype=problem.src.dtype,
                                  dst_dtype=problem.dst_dtype, scales=scales, zero_points=zero_points)  # fmt: skip
    assert_same_bits(layer(problem.src), problem.expected())
    declared = problem.layer(at_creation=False)
    assert_same_bits(declared(problem.src, scales=scales, zero_points=zero_points), problem.expected())


def test_values_at_creation_need_no_mask_beside_those_of_others(isa, rng):
    problem = random_problem(rng, 5, 7, 20, scales=TENSORS, zero_points=TENSORS, vectors=("weights", "dst"))
    later = {kind: {"src": getattr(problem, kind)["src"]} for kind in ("scales", "zero_points")}
    sooner = {kind: {tensor: value for tensor, value in getattr(problem, kind).items() if tensor != "src"}
              for kind in later}  # fmt: skip
    layer = int8blas.InnerProduct(problem.weights, problem.bias, src_dtype=problem.src.dtype,
                                  dst_dtype=problem.dst_dtype, **sooner,
                                  attributes=Attributes(scales={"src": 0}, zero_points={"src": 0}))  # fmt: skip
    assert_same_bits(layer(problem.src, **later), problem.expected())


@pytest.mark.parametrize("scale", ["per_channel", "per_tensor"])
def test_weights_are_quantized_with_the_scales_of_weights_scales(scale, rng):
    weights = rng.normal(0, 1, (6, 9)).astype(np.float32)
    weights[2] = 0
    scales = int8blas.weights_scales(weights, scale)
    given, found = (
        int8blas.InnerProduct(weights, np.arange(6, dtype=np.int32), src_dtype=np.uint8, dst_dtype=np.float32,
                              scales={"weights": values}) for values in (scales, scale)
    )  # fmt: skip
    src = random_values(rng, np.uint8, (4, 9))
    assert_same_bits(found(src), given(src))
    assert (found.scales["weights"] == (scales if scale == "per_channel" else scales[0])).all()
    if scale == "per_channel":
        assert (found(src)[:, 2] == 2).all()  # a bias in units of the sum, times 1


@pytest.mark.parametrize("primitive", [int8blas.InnerProduct, int8blas.Convolution, int8blas.Deconvolution])
def test_what_a_layer_was_created_with(primitive):
    scales, zero_points, bias = {"src": 0.5, "dst": [2, 4]}, {"src": 3, "dst": [1, 2]}, np.array([1, -1], np.float32)
    weights = np.ones((2, 3) if primitive is int8blas.InnerProduct else (2, 3, 1, 1), np.int8)
    layer = primitive(weights, bias, src_dtype=np.uint8, dst_dtype=np.uint8, scales=scales, zero_points=zero_points)
    for found, wanted in ((layer.scales, scales), (layer.zero_points, zero_points), ({0: layer.bias}, {0: bias})):
        assert {key: np.asarray(value).tolist() for key, value in found.items()} == {
            key: np.asarray(value).tolist() for key, value in wanted.items()
        }
    for array in (layer.scales["dst"], layer.zero_points["dst"], layer.bias):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    with pytest.raises(TypeError):
        layer.scales["src"] = 1
    bias[0] = 7
    assert layer.bias[0] == 1
    bare = primitive(weights, src_dtype=np.uint8, dst_dtype=np.float32)
    assert (dict(bare.scales), dict(bare.zero_points), bare.bias) == ({}, {}, None)


def test_some_values_at_creation_and_the_others_at_execution(isa, rng):
    problem = random_problem(rng, 9, 33, 20, scales=TENSORS, zero_points=TENSORS)
    layer = int8blas.InnerProduct(
        problem.weights,
        problem.bias,
        src_dtype=np.uint8,
        dst_dtype=np.int8,
        attributes=Attributes(
            scales={"src": 0, "weights": 1, "dst": 0}, zero_points={"src": 0, "weights": 1, "dst": 0}
        ),
        scales={"weights": problem.scales["weights"], "dst": problem.scales["dst"]},
        zero_points={"weights": problem.zero_points["weights"], "dst": problem.zero_points["dst"]},
    )
    result = layer(problem.src, scales={"src": problem.scales["src"]}, zero_points={"src": problem.zero_points["src"]})
    assert_same_bits(result, problem.expected())


def test_a_vector_of_one_value_is_one_value(isa, rng):
    problem = random_problem(rng, 9, 33, 20, vectors=())
    layer = problem.layer(at_creation=False)
    scales = {tensor: [value] for tensor, value in problem.scales.items()}
    zero_points = {tensor: np.array([value]) for tensor, value in problem.zero_points.items()}
    assert_same_bits(layer(problem.src, scales=scales, zero_points=zero_points), problem.expected())


@pytest.mark.parametrize("zero_points", [(), ("src",)], ids=["", "zero point"])
def test_scales_of_rows_alone(isa, zero_points, rng):
    """The destination is float32, which the micro-kernels store directly."""
    for m, n, k in FEW_LAYERS:
        problem = random_problem(
            rng, m, n, k, dst_dtype=np.float32, scales=("src", "weights"), zero_points=zero_points, vectors=("weights",)
        )
        rows = rng.uniform(0.01, 0.03, m).astype(np.float32)
        problem = problem.but(scales=problem.scales | {"src": rows})
        problem.check()
        problem.check(at_creation=False)


def test_packed_weights_are_the_transpose(isa, rng):
    for weights_dtype, shape in product(WEIGHTS_DTYPES, FEW_LAYERS):
        problem = random_problem(rng, *shape, np.int8, weights_dtype)
        expected = problem.expected()
        packed = int8blas.pack_b(problem.weights.T)
        assert_same_bits(problem.but(weights=packed).result(), expected)
        assert_same_bits(problem.but(weights=int8blas.pack_b(problem.weights, trans_b=True)).result(), expected)
        assert_same_bits(problem.but(weights=problem.layer().weights).result(), expected)
        assert problem.layer().weights.shape == packed.shape


# --- sums ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dst_dtype", [np.int32, np.float32], ids=name_of)
@pytest.mark.parametrize("vectors", [(), ("src",), ("weights",), ("src", "weights")], ids="+".join)
def test_sums_beyond_32_bits(isa, vectors, dst_dtype, rng):
    for (src_dtype, weights_dtype), bias, (m, n) in zip(
        sign_pairs(), (None, "s32") * 2, ((1, 3), (2, 17)) * 2, strict=True
    ):
        problem = random_problem(
            rng, m, n, 66100, src_dtype, weights_dtype, dst_dtype, bias, ("weights",), ("src", "weights"), vectors
        )
        # All products of the first row and column have the largest magnitude and one sign: their sum is beyond int32.
        problem.src[0] = np.iinfo(src_dtype).max
        problem.weights[0] = np.iinfo(weights_dtype).min
        problem.zero_points["src"] = np.full_like(problem.zero_points["src"], np.iinfo(src_dtype).min)
        problem.zero_points["weights"] = np.full_like(problem.zero_points["weights"], np.iinfo(weights_dtype).max)
        problem.check()


@pytest.mark.parametrize("k", [0, 1, 40])
def test_an_integer_bias_is_added_before_the_sum_is_rounded(isa, k, rng):
    limits = [reference.INT32_MIN, reference.INT32_MAX, 2**24 + 1, -(2**24) - 1, 0, 1]
    for m, dst_dtype in product((1, 3, 20), (np.float32, np.int32)):
        problem = random_problem(rng, m, 37, k, dst_dtype=dst_dtype, scales=(), zero_points=("src",))
        problem.but(bias=np.resize(limits, 37).astype(np.int32)).check()


@pytest.mark.parametrize("dst_dtype", [np.int32, np.float32], ids=name_of)
def test_sums_are_rounded_to_float32_once(isa, dst_dtype, rng):
    # Odd sums beyond 2**24; some lie halfway between two float32 numbers.
    for n in (1, 16, 33):
        problem = random_problem(rng, 5, n, 2000, dst_dtype=dst_dtype, bias=None, scales=(), zero_points=())
        problem.src[:], problem.weights[:] = 255, 127
        problem.src[:, 0] = rng.integers(0, 256, 5)
        problem.weights[:, 0] = rng.integers(-128, 127, n)
        problem.check()
        acc = reference.exact_product(problem.src, problem.weights, trans_b=True)
        assert (acc.astype(np.float32).astype(np.int64) != acc).any()


@pytest.mark.parametrize("kind", ["full", "extreme"])
def test_saturating_numerics_are_those_of_the_gemm(isa, kind, rng):
    for (src_dtype, weights_dtype), shape in product(sign_pairs(), (*FEW_LAYERS, (3, 7, 70), (20, 16, 300))):
        problem = random_problem(
            rng, *shape, src_dtype, weights_dtype, np.int32, None, (), ("src", "weights"), ("src", "weights"), kind,
            numerics="saturating",
        )  # fmt: skip
        problem.check()
        pair = next(pair for pair in SIGN_PAIRS if (pair.a_dtype, pair.b_dtype) == (src_dtype, weights_dtype))
        ao, bo = problem.zero_points["src"], problem.zero_points["weights"]
        acc = pair.gemm(1, problem.src, problem.weights.T, ao=ao, bo=bo, numerics="saturating")
        assert_same_bits(problem.result(), acc.astype(np.float32).astype(np.int32))
        random_problem(rng, *shape, src_dtype, weights_dtype, kind=kind, numerics="saturating").check()


def test_saturating_numerics_saturate(isa, rng):
    problem = random_problem(rng, 3, 17, 8, dst_dtype=np.float32, scales=(), zero_points=(), bias=None)
    problem.src[:], problem.weights[:] = 255, 127
    assert (problem.result() == 8 * 255 * 127).all()
    assert (problem.but(numerics="saturating").result() == 4 * reference.INT16_MAX).all()


# --- extreme values --------------------------------------------------------------------------------------------------


@every_dst
def test_results_far_beyond_the_destination(isa, dst_dtype, rng):
    for scale, (m, n, k) in product((1e-38, 1e-30, 1e-3, 1, 1e5, 1e30, 3e38), FEW_LAYERS):
        for src_scale, dst_scale in product((min(scale, 3e38 / scale), 1), (3e-39, 1e-20, 1, 1e38)):
            problem = random_problem(rng, m, n, k, dst_dtype=dst_dtype, kind="extreme")
            scales = {"src": np.float32(src_scale), "weights": np.full(n, scale), "dst": np.float32(dst_scale)}
            problem.src[0] = problem.zero_points["src"]  # sums that are 0
            problem.but(scales=scales, bias=None).check(scale=scale, dst_scale=dst_scale)


@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8, np.int32], ids=name_of)
@pytest.mark.parametrize("row_scales", [False, True])
def test_nan_becomes_the_zero_point(isa, row_scales, dst_dtype, rng):
    for m, n, k in FEW_LAYERS:
        problem = random_problem(rng, m, n, k, dst_dtype=dst_dtype, bias=None)
        src = np.full(m if row_scales else (), 3e38, np.float32)
        problem = problem.but(scales={"src": src}, ops=(Binary(np.float32(0), "div"),))
        problem.src[:] = problem.zero_points["src"]
        zero_point = np.clip(problem.zero_points["dst"], np.iinfo(dst_dtype).min, np.iinfo(dst_dtype).max)
        assert_same_bits(problem.result(), np.full((m, n), zero_point, dst_dtype))
        problem.check()


@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8, np.int32], ids=name_of)
def test_halves_are_rounded_to_even(isa, dst_dtype):
    weights = np.arange(-120, 121, dtype=np.int8)[:, np.newaxis]
    layer = int8blas.InnerProduct(weights, src_dtype=np.uint8, dst_dtype=dst_dtype, scales={"src": 0.5})
    low = max(np.iinfo(dst_dtype).min, -(2**31))
    expected = [max(round(int(w) / 2), low) for w in weights[:, 0]]
    assert layer(np.ones((1, 1), np.uint8)).tolist() == [expected]


def test_int32_saturates_at_its_ends(isa):
    values = np.array([2**31 - 128, 2**31 - 1, 2**31, -(2**31), -(2**31) - 300, 1e20, -1e20, 3e38, -3e38], np.float32)
    ops = [int8blas.Binary(values)]
    layer = int8blas.InnerProduct(
        np.zeros((9, 1), np.int8), src_dtype=np.uint8, dst_dtype=np.int32, attributes=Attributes(post_ops=ops)
    )
    low, high = reference.INT32_MIN, reference.INT32_MAX
    expected = [2**31 - 128, high, high, low, low, high, low, high, low]
    assert layer(np.ones((1, 1), np.uint8)).tolist() == [expected]


@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8, np.int32], ids=name_of)
def test_large_zero_points_of_the_destination(isa, dst_dtype, rng):
    for zero_point in (reference.INT32_MIN, -1000, 0, 2**24 + 1, reference.INT32_MAX):
        for n in (5, 33):
            problem = random_problem(rng, 6, n, 20, dst_dtype=dst_dtype)
            problem.but(zero_points=problem.zero_points | {"dst": zero_point}).check(zero_point=zero_point)


def test_float16_is_rounded_as_numpy_rounds(isa, rng):
    # All finite float16 values, the numbers halfway between them with their neighbours, and values that overflow.
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[:-1] + halves[1:]) / 2
    values = np.concatenate([halves, middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf)])
    values = np.concatenate([values, [65519.996, 65520, 1e6, np.inf, np.nan, 1e-45, 2**-25, 2**-24 * 1.5]])
    values = np.concatenate([values, -values]).astype(np.float32).reshape(2, -1)
    layer = int8blas.InnerProduct(
        np.zeros((values.shape[1], 1), np.int8),
        src_dtype=np.uint8,
        dst_dtype=np.float16,
        attributes=Attributes(post_ops=[int8blas.Binary()]),
    )
    with np.errstate(over="ignore"):
        expected = (values + np.float32(0)).astype(np.float16)
    assert_same_bits(layer(np.ones((2, 1), np.uint8), operands=[values]), expected)


# --- the older model -------------------------------------------------------------------------------------------------


@every_dst
@pytest.mark.parametrize("bias", [None, "f32", "s32"])
@pytest.mark.parametrize("per_column", [False, True])
def test_output_scales_multiply_the_sum_and_the_bias(isa, per_column, bias, dst_dtype, rng):
    for (src_dtype, weights_dtype), (m, n, k) in product(sign_pairs(), FEW_LAYERS):
        problem = random_problem(rng, m, n, k, src_dtype, weights_dtype, dst_dtype, None, (), ())
        values = (rng.uniform(-0.03, 0.03, n if per_column else ())).astype(np.float32)
        real = rng.normal(0, 5000, n).astype(np.float32)
        problem.but(bias=real if bias == "f32" else random_bias(rng, bias, n), output_scales=values).check()


# --- float32 weights -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["per_channel", "per_tensor", "vector", "value"])
def test_float_weights_are_quantized(isa, scale, rng):
    for m, n, k in FEW_LAYERS:
        weights = rng.normal(0, 1, (n, k)).astype(np.float32) * rng.uniform(0.1, 10, (n, 1)).astype(np.float32)
        weights[0] = 0
        scale_argument = {"vector": rng.uniform(0.001, 0.1, n), "value": 0.05}.get(scale, scale)
        quantized, values = reference_quantized.quantize_weights(weights, scale_argument)
        problem = random_problem(rng, m, n, k, dst_dtype=np.float32, zero_points=("src",))
        layer = int8blas.InnerProduct(
            weights, problem.bias, src_dtype=np.uint8, dst_dtype=np.float32,
            scales={"src": 0.5, "weights": scale_argument}, zero_points=problem.zero_points,
        )  # fmt: skip
        assert_same_bits(layer.weights.unpack(), quantized.T)
        expected = problem.but(weights=quantized, scales={"src": 0.5, "weights": values}).expected()
        assert_same_bits(layer(problem.src), expected)


def test_arguments_are_copied(isa, rng):
    for weights in (random_values(rng, np.int8, (20, 9)), rng.normal(0, 1, (20, 9)).astype(np.float32)):
        scale = rng.uniform(0.01, 0.1, 20).astype(np.float32)
        zero_point = rng.integers(-9, 9, 20)
        bias, operand = rng.normal(0, 1, 20).astype(np.float32), rng.normal(0, 1, 20).astype(np.float32)
        scales, zero_points = {"weights": scale}, {"dst": zero_point}
        layer = int8blas.InnerProduct(
            weights, bias, src_dtype=np.uint8, dst_dtype=np.int8, scales=scales, zero_points=zero_points,
            attributes=Attributes(post_ops=[int8blas.Binary(operand)]),
        )  # fmt: skip
        src = random_values(rng, np.uint8, (3, 9))
        before = layer(src)
        for array in (weights, scale, zero_point, bias, operand):
            array[:] = 1
        scales.clear()
        zero_points.clear()
        assert_same_bits(layer(src), before)
