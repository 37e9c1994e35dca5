"""A float source is quantized by its own range while it is packed: the bits of the formula, then of the integer
layer."""

import pickle
from itertools import product

import numpy as np
import pytest
import reference_quantized
from arrays import BROADCASTS, LAYOUTS, guarded, needs_mprotect, place
from layers import DST_DTYPES, LAYER_SHAPES, assert_same_bits, name_of, random_bias

import int8blas
from int8blas import Attributes, Eltwise, InnerProduct, ReLU

SHAPES = ((1, 50, 7), (9, 33, 20), (20, 5, 70), (31, 49, 33), (3, 130, 1100))

every_source = pytest.mark.parametrize("src_dtype", [np.float32, np.float16], ids=name_of)
every_range = pytest.mark.parametrize("dynamic", ["per_row", "per_tensor"])
every_target = pytest.mark.parametrize("dynamic_dtype", [np.int8, np.uint8], ids=name_of)


def normal(rng, m, k, src_dtype=np.float32):
    """Numbers whose rows differ in range."""
    x = rng.normal(0, 1, (m, k)) + rng.normal(0, 1, (m, 1))
    return (x * rng.uniform(0.1, 10, (m, 1))).astype(src_dtype)


def random_weights(rng, n, k):
    return rng.integers(-128, 128, (n, k), np.int8), rng.uniform(0.005, 0.02, n).astype(np.float32)


def check(rng, x, n, dynamic, dynamic_dtype, dst_dtype=np.float32, bias="f32", ops=(), output_scales=None, **facts):
    """A layer on the source x has the bits of the oracle."""
    weights, scale = random_weights(rng, n, x.shape[1])
    bias = random_bias(rng, bias, n)
    scales = {} if output_scales is not None else {"weights": scale}
    if output_scales is None and np.dtype(dst_dtype).kind != "f":
        scales["dst"] = np.float32(0.05)
    layer = InnerProduct(
        weights,
        bias,
        src_dtype=x.dtype,
        dst_dtype=dst_dtype,
        dynamic=dynamic,
        dynamic_dtype=dynamic_dtype,
        scales=scales,
        attributes=Attributes(post_ops=ops, output_scales=None if output_scales is None else (2, output_scales)),
    )
    quantized, src_scale, zero = reference_quantized.quantize_dynamically(
        x.copy(order="C"), dynamic_dtype, dynamic == "per_row"
    )
    expected = reference_quantized.inner_product(
        quantized,
        weights,
        bias,
        dst_dtype=dst_dtype,
        scales=scales | {"src": src_scale},
        zero_points={"src": zero},
        ops=ops,
        output_scales=output_scales,
    )
    assert_same_bits(layer(x), expected, shape=(*x.shape, n), **facts)


@every_source
@every_range
@every_target
def test_shapes_around_the_edges_of_tiles(isa, src_dtype, dynamic, dynamic_dtype, rng):
    for m, n, k in (*LAYER_SHAPES, *SHAPES):
        check(rng, normal(rng, m, k, src_dtype), n, dynamic, dynamic_dtype)


@every_range
@every_target
def test_many_columns_and_blocks(isa, dynamic, dynamic_dtype, rng):
    """Rows are quantized once for one block of columns, or again for the next block."""
    with int8blas.num_threads(1):  # several threads would divide the columns
        for m, n, k in ((70, 1100, 800), (300, 600, 1100), (480, 1100, 1100)):
            check(rng, normal(rng, m, k), n, dynamic, dynamic_dtype)


@every_range
@every_target
@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
@pytest.mark.parametrize("bias", [None, "f32", "s32"])
def test_destinations_biases_and_post_ops(isa, dynamic, dynamic_dtype, dst_dtype, bias, rng):
    for m, n, k in SHAPES[:4]:
        for ops in ((), (ReLU(),), (Eltwise("linear", -0.5, 1), ReLU(0.1))):
            check(rng, normal(rng, m, k), n, dynamic, dynamic_dtype, dst_dtype, bias, ops)


@every_range
@every_target
def test_output_scales(isa, dynamic, dynamic_dtype, rng):
    for m, n, k in SHAPES:
        values = rng.uniform(-0.02, 0.02, n).astype(np.float32)
        check(rng, normal(rng, m, k), n, dynamic, dynamic_dtype, output_scales=values)


@every_source
@every_range
@every_target
def test_rows_of_every_kind(isa, src_dtype, dynamic, dynamic_dtype, rng):
    largest = float(np.finfo(src_dtype).max)
    kinds = {
        "zeros": 0, "negative zeros": -0.0, "denormal": 1e-40 if src_dtype == np.float32 else 1e-7, "huge": largest,
        "negative": -np.arange(20), "positive": np.arange(20) + 5, "one value": np.eye(1, 20)[0] * -3,
        "NaN": np.nan, "infinite": np.inf, "negative infinite": -np.inf,
        "some NaN": np.where(np.arange(20) % 3, rng.normal(0, 1, 20), np.nan),
        "some infinite": np.where(np.arange(20) % 3, rng.normal(0, 1, 20), np.inf),
        "some infinite and NaN": np.resize([np.inf, -np.inf, np.nan, 1, -0.25, 0], 20),
        "both ends": np.resize([largest, -largest, largest / 2, 1], 20), "halves": np.resize([127, 0.5, 1.5, -2.5], 20),
        "least": np.resize([float(np.finfo(src_dtype).smallest_subnormal), 0], 20),
    }  # fmt: skip
    rows = np.stack([np.broadcast_to(np.float64(row), 20) for row in kinds.values()]).astype(src_dtype)
    # Each kind alone, where it determines the range; all kinds as rows; and all kinds as columns.
    for name, row in zip(kinds, rows, strict=True):
        check(rng, np.repeat(row[np.newaxis], 3, axis=0), 33, dynamic, dynamic_dtype, kind=name)
        check(rng, np.resize(row, (2, 83)), 5, dynamic, dynamic_dtype, kind=name)
    check(rng, rows, 33, dynamic, dynamic_dtype)
    check(rng, rows.T.copy(), 33, dynamic, dynamic_dtype)


@every_target
def test_a_value_at_any_place_sets_the_range_of_its_row(isa, dynamic_dtype, rng):
    for k in (1, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 70):
        x = rng.normal(0, 1, (k, k)).astype(np.float32)
        np.fill_diagonal(x, rng.choice([-20, 20], k))
        check(rng, x, 3, "per_row", dynamic_dtype, k=k)
        for place_of in (0, k // 2, k - 1):
            check(rng, np.roll(x, place_of, axis=1)[:1], 3, "per_tensor", dynamic_dtype, k=k)


@every_source
@every_range
def test_sources_of_any_strides(isa, src_dtype, dynamic, rng):
    for layout, (m, n, k) in product([*LAYOUTS, *BROADCASTS], SHAPES[:4]):
        x = place(normal(rng, m, k, src_dtype), layout)
        check(rng, x, n, dynamic, np.uint8, layout=layout)


@needs_mprotect
@every_source
@every_range
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_the_source_is_read(isa, src_dtype, dynamic, side, rng):
    for layout, (m, n, k) in product(("C", "F", "C, padded rows", "every other column"), SHAPES[:4]):
        x = place(normal(rng, m, k, src_dtype), layout, guarded(side))
        check(rng, x, n, dynamic, np.int8, layout=layout)


@every_range
@every_target
def test_any_number_of_threads_gives_the_same_bits(isa, dynamic, dynamic_dtype, rng):
    x = normal(rng, 300, 500)
    weights, scale = random_weights(rng, 200, 500)
    layer = InnerProduct(
        weights, src_dtype=np.float32, dst_dtype=np.float32, dynamic=dynamic, dynamic_dtype=dynamic_dtype,
        scales={"weights": scale},
    )  # fmt: skip
    with int8blas.num_threads(1):
        expected = layer(x)
    for threads in (2, 3, 4):
        with int8blas.num_threads(threads):
            assert_same_bits(layer(x), expected, threads=threads)


@every_range
@every_target
def test_saturating_numerics(isa, dynamic, dynamic_dtype, rng):
    for m, n, k in SHAPES[:4]:
        x, (weights, scale) = normal(rng, m, k), random_weights(rng, n, k)
        arguments = {"src_dtype": np.float32, "dst_dtype": np.float32, "scales": {"weights": scale}, "dynamic": dynamic}
        layer = InnerProduct(weights, dynamic_dtype=dynamic_dtype, numerics="saturating", **arguments)
        quantized, src_scale, zero = reference_quantized.quantize_dynamically(x, dynamic_dtype, dynamic == "per_row")
        expected = reference_quantized.inner_product(
            quantized, weights, dst_dtype=np.float32, scales={"src": src_scale, "weights": scale},
            zero_points={"src": zero}, numerics="saturating",
        )  # fmt: skip
        assert_same_bits(layer(x), expected)


@every_source
@every_range
@every_target
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_has_no_results(isa, src_dtype, dynamic, dynamic_dtype, bad, rng):
    """One such value at any position is enough; the results of the other rows do not change."""
    weights, scale = random_weights(rng, 37, 70)
    weights[3] = 0  # also for a sum that is 0 for every source
    arguments = {
        "src_dtype": src_dtype, "dynamic": dynamic, "dynamic_dtype": dynamic_dtype, "scales": {"weights": scale},
    }  # fmt: skip
    x = normal(rng, 9, 70, src_dtype)
    for bias, ops in product((None, rng.normal(0, 1, 37).astype(np.float32)), ((), (ReLU(),), (ReLU(0.5),))):
        layer = InnerProduct(weights, bias, dst_dtype=np.float32, attributes=Attributes(post_ops=ops), **arguments)
        expected = layer(x)
        for row, column in product((0, 4, 8), (0, 15, 16, 33, 69)):
            damaged = x.copy()
            damaged[row, column] = bad
            result = layer(damaged)
            assert np.isnan(result[row]).all()
            others = np.arange(9) != row
            if dynamic == "per_row":
                assert_same_bits(result[others], expected[others])
            else:
                assert np.isnan(result).all()
    for dtype, zero in product((np.uint8, np.int8, np.int32), (0, 7)):
        layer = InnerProduct(weights, dst_dtype=dtype, zero_points={"dst": zero}, **arguments)
        assert (layer(damaged)[8] == zero).all()


def test_rows_that_are_not_finite_in_parts_of_other_threads(isa, rng):
    """Each thread finds the range of its part."""
    weights, scale = random_weights(rng, 20, 500)
    for dynamic_dtype, row, bad in product((np.int8, np.uint8), (0, 250, 999), (np.nan, np.inf)):
        layer = InnerProduct.dynamic(
            weights, dynamic="per_tensor", dynamic_dtype=dynamic_dtype, scales={"weights": scale}
        )
        x = normal(rng, 1000, 500)
        x[row, 7] = bad
        for threads in (1, 4):
            with int8blas.num_threads(threads):
                assert np.isnan(layer(x)).all()


@every_source
@every_range
@every_target
@pytest.mark.parametrize("weights_dtype", [np.int8, np.uint8], ids=name_of)
def test_zero_points_of_weights(isa, src_dtype, dynamic, dynamic_dtype, weights_dtype, rng):
    info = np.iinfo(weights_dtype)
    for m, n, k in (*LAYER_SHAPES, *SHAPES, (70, 300, 800)):
        weights = rng.integers(info.min, info.max, (n, k), weights_dtype, endpoint=True)
        values = rng.integers(info.min, info.max, n, endpoint=True)
        x, scale = normal(rng, m, k, src_dtype), rng.uniform(0.005, 0.02, n).astype(np.float32)
        quantized, src_scale, zero = reference_quantized.quantize_dynamically(x, dynamic_dtype, dynamic == "per_row")
        for zeros, at_creation in product((None, info.max, values), (True, False)):
            given = {} if zeros is None else {"weights": zeros}
            layer = InnerProduct.dynamic(
                weights, dynamic=dynamic, dynamic_dtype=dynamic_dtype, src_dtype=src_dtype, scales={"weights": scale},
                zero_points=given if at_creation else None,
                attributes=None if at_creation else Attributes(zero_points={t: np.ndim(v) for t, v in given.items()}),
            )  # fmt: skip
            expected = reference_quantized.inner_product(
                quantized, weights, dst_dtype=np.float32, scales={"src": src_scale, "weights": scale},
                zero_points={"src": zero} | given,
            )  # fmt: skip
            result = layer(x) if at_creation else layer(x, zero_points=given)
            assert_same_bits(result, expected, shape=(m, n, k), zeros=np.shape(zeros))


@every_range
@every_target
def test_zero_points_of_weights_in_long_sums_and_with_post_ops(isa, dynamic, dynamic_dtype, rng):
    """Sums beyond int32, several blocks of K and of columns, and quantized rows that are kept for the next columns."""
    with int8blas.num_threads(1):
        for m, n, k in ((3, 20, 66_000), (130, 300, 1100)):
            weights = rng.integers(0, 256, (n, k), np.uint8) | np.uint8(128 if k > 10**4 else 0)
            x, zeros = normal(rng, m, k), rng.integers(0, 256, n)
            quantized, src_scale, zero = reference_quantized.quantize_dynamically(
                x, dynamic_dtype, dynamic == "per_row"
            )
            for dst_dtype, ops, numerics in (
                (np.float32, (), "exact"), (np.uint8, (ReLU(),), "exact"), (np.float32, (), "saturating"),
            ):  # fmt: skip
                scales = {"weights": np.float32(0.01)} | ({"dst": np.float32(0.5)} if dst_dtype == np.uint8 else {})
                layer = InnerProduct.dynamic(
                    weights, dynamic=dynamic, dynamic_dtype=dynamic_dtype, scales=scales, dst_dtype=dst_dtype,
                    zero_points={"weights": zeros}, attributes=Attributes(post_ops=ops), numerics=numerics,
                )  # fmt: skip
                expected = reference_quantized.inner_product(
                    quantized, weights, dst_dtype=dst_dtype, scales=scales | {"src": src_scale}, ops=ops,
                    zero_points={"src": zero, "weights": zeros}, numerics=numerics,
                ) if k < 10**4 or numerics == "exact" else None  # fmt: skip
                if expected is not None:
                    assert_same_bits(layer(x), expected, shape=(m, n, k))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16], ids=name_of)
def test_the_commonest_layer_is_one_call(isa, dtype, rng):
    w, b, x = rng.normal(0, 1, (40, 70)).astype(dtype), rng.normal(0, 1, 40).astype(dtype), normal(rng, 20, 70)
    layer = InnerProduct.dynamic(w, b)
    assert (layer.src_dtype, layer.dst_dtype, layer.scales["weights"].shape) == (np.float32, np.float32, (40,))
    result, exact = layer(x), x.astype(np.float64) @ w.T + b
    assert np.linalg.norm(result - exact) < 0.02 * np.linalg.norm(exact)
    spelled_out = InnerProduct(
        w.astype(np.float32), b.astype(np.float32), src_dtype=np.float32, dst_dtype=np.float32, dynamic="per_row",
        scales={"weights": "per_channel"},
    )  # fmt: skip
    assert_same_bits(result, spelled_out(x))
    assert_same_bits(pickle.loads(pickle.dumps(layer))(x), result)


def test_its_options_are_those_of_the_constructor(isa, rng):
    w, x = rng.normal(0, 1, (40, 70)).astype(np.float32), normal(rng, 20, 70, np.float16)
    arguments = {
        "dynamic": "per_tensor", "dynamic_dtype": np.uint8, "src_dtype": np.float16, "dst_dtype": np.float16,
        "attributes": Attributes(post_ops=ReLU()), "scales": {"weights": "per_tensor", "dst": 0.5},
        "numerics": "saturating",
    }  # fmt: skip
    assert_same_bits(InnerProduct.dynamic(w, **arguments)(x), InnerProduct(w, **arguments)(x))
    packed = int8blas.pack_b(rng.integers(-128, 128, (70, 40), np.int8))
    assert_same_bits(
        InnerProduct.dynamic(packed)(np.float32(x)),
        InnerProduct(packed, src_dtype="f4", dst_dtype="f4", dynamic="per_row")(np.float32(x)),
    )


@every_source
@every_range
@every_target
def test_empty_sources(isa, src_dtype, dynamic, dynamic_dtype, rng):
    for m, n, k in ((0, 5, 3), (4, 0, 3), (4, 5, 0), (0, 0, 0)):
        check(rng, np.zeros((m, k), src_dtype), n, dynamic, dynamic_dtype)


@every_range
def test_leading_dimensions(isa, dynamic, rng):
    weights, scale = random_weights(rng, 33, 20)
    layer = InnerProduct(
        weights, src_dtype=np.float32, dst_dtype=np.float32, scales={"weights": scale}, dynamic=dynamic
    )
    x = normal(rng, 12, 20)
    assert_same_bits(layer(x.reshape(2, 3, 2, 20)), layer(x).reshape(2, 3, 2, 33))
    assert_same_bits(layer(x[0]), layer(x[:1])[0])


def test_the_result_is_near_that_of_float64(isa, rng):
    x, weights = normal(rng, 40, 300), rng.normal(0, 1, (50, 300)).astype(np.float32)
    exact = x.astype(np.float64) @ weights.T.astype(np.float64)
    for dynamic_dtype in (np.int8, np.uint8):
        layer = InnerProduct(
            weights, src_dtype=np.float32, dst_dtype=np.float32, dynamic="per_row", dynamic_dtype=dynamic_dtype,
            scales={"weights": "per_channel"},
        )  # fmt: skip
        assert np.linalg.norm(layer(x) - exact) < 0.02 * np.linalg.norm(exact)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=name_of)
def test_a_result_in_int32_is_quantized_by_its_own_range(isa, dtype, rng):
    # The three steps of the guide: compute in s32, find the range, and convert to 8 bits.
    src = rng.integers(0, 256, (9, 50), np.uint8)
    weights, scales = rng.integers(-128, 128, (20, 50), np.int8), np.float32([0.25, 0.125])
    sums = InnerProduct(weights, src_dtype=np.uint8, dst_dtype=np.int32)(src)
    x = sums * scales.prod()
    found = int8blas.calibration.MinMaxObserver(dtype=dtype, symmetric=dtype == np.int8).observe(x).parameters()
    result = int8blas.requantize(sums, scales.prod() / found.scale, found.zero_point, dtype)
    assert np.ptp(result.astype(int)) > 200
    assert np.abs(int8blas.dequantize(result, found.scale, found.zero_point) - x).max() <= 0.5001 * found.scale


@every_source
@every_range
@every_target
def test_a_source_that_is_not_aligned(isa, src_dtype, dynamic, dynamic_dtype, rng):
    for m, n, k in SHAPES:
        for layout in ("C", "every other column"):
            check(rng, place(normal(rng, m, k, src_dtype), layout, misalign=1), n, dynamic, dynamic_dtype)
