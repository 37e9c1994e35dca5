"""A float source quantized by its own range, while it is packed: the bits of the formula, then of an integer source."""

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
    """Rows that are quantized once, for one block of columns, or again for the next."""
    with int8blas.num_threads(1):  # several would share the columns
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
    # One at a time, where a range is that of the kind itself; all of them; and each in one column of 37.
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
    # The guide's three steps: a result in s32, its range, and from there to 8 bits.
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
