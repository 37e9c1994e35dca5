"""Quantization by dimensions, of operands and results of any strides, on any number of threads."""

from itertools import product

import numpy as np
import pytest
import reference_quantization as reference
from arrays import BROADCASTS, LAYOUTS, Canary, assert_same, guarded, needs_mprotect, place
from elementwise import SCHEMES, call, every_function, parameters, random_floats, random_integers, shape_of

import int8blas

# --- axes ------------------------------------------------------------------------------------------------------------

AXES = (None, (), 0, 1, 2, 3, -1, (0, 1), (1, 0), (1, 3), (3, 1), (0, 2, 3), (-1, -3), (0, 1, 2, 3), (3, 2, 1, 0))
SHAPES = ((2, 3, 4, 5), (1, 40, 3, 3), (3, 4, 7, 7), (2, 1300, 1, 2), (70, 2, 1, 3), (2, 3, 1, 64), (1, 1, 1, 1))
ORDERS = {
    "nchw": lambda x: x,
    "nhwc": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "F": np.asfortranarray,
    "every other": lambda x: np.repeat(x, 2, axis=3)[..., ::2],
    "reversed": lambda x: np.ascontiguousarray(x[:, ::-1, :, ::-1])[:, ::-1, :, ::-1],
    "padded": lambda x: np.pad(x, ((0, 0), (0, 1), (0, 0), (0, 2)))[:, :-1, :, :-2],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["quantize", "dequantize", "float"])
def test_axes(isa, name, order, rng):
    for axis, shape in product(AXES, SHAPES):
        ours, oracle, x = call(name, rng, np.int8, shape)
        x = ORDERS[order](x)
        scale, zero_point = parameters(rng, np.int8, shape_of(x, axis))
        expected = oracle(x, scale, zero_point, axis)
        result = ours(x, scale, zero_point, axis=axis)
        assert_same(result, expected, axis=axis, shape=shape)
        out = np.empty_like(result, order="C")
        assert ours(x, scale, zero_point, axis=axis, out=out) is out
        assert_same(out, expected, axis=axis, shape=shape)


@pytest.mark.parametrize("scheme", SCHEMES[1:])
def test_axes_of_integer_schemes(isa, scheme, rng):
    for axis, order in product((0, 3, (3, 1), (0, 1, 2, 3)), ("nchw", "nhwc")):
        ours, oracle, x = call(scheme, rng, np.uint8, (2, 3, 4, 5))
        scale, zero_point = parameters(rng, np.uint8, shape_of(x, axis))
        result = ours(ORDERS[order](x), scale, zero_point, axis=axis)
        assert_same(result, oracle(x, scale, zero_point, axis), axis=axis)


def test_scales_of_short_rows(isa, rng):
    """Rows of a few elements, each with its own scale: vectors begin at every element of a row."""
    for row in [*range(1, 33), 40, 63, 64, 65, 100, 127, 128, 129, 150]:
        shape = (2, 4500 // row + 3, row)
        x = rng.normal(0, 50, shape).astype(np.float32)
        scale, zero_point = parameters(rng, np.int8, shape[1])
        expected = reference.quantize(x, reference.along(scale, 1, 3), reference.along(zero_point, 1, 3))
        assert_same(int8blas.quantize(x, scale, zero_point, axis=1), expected, row=row)
        assert_same(int8blas.quantize(x[0], scale[::-1], zero_point[::-1], axis=0)[::-1],
                    int8blas.quantize(x[0, ::-1].copy(), scale, zero_point, axis=0), row=row)  # fmt: skip
        few = slice(None, 2000 // row + 1)  # all parameters are repeated in memory first
        assert_same(int8blas.quantize(x[0, few], scale[few], zero_point[few], axis=0), expected[0, few], row=row)


@every_function
def test_one_scale_with_many_zero_points_and_the_other_way_round(isa, name, rng):
    ours, oracle, x = call(name, rng, np.int8, (3, 50))
    scale, zero_point = parameters(rng, np.int8, 50)
    assert_same(ours(x, 0.3, zero_point, axis=1), oracle(x, 0.3, zero_point, 1))
    assert_same(ours(x, scale, 7, axis=1), oracle(x, scale, 7, 1))
    assert_same(ours(x, scale.tolist(), zero_point.tolist(), axis=(1,)), oracle(x, scale, zero_point, 1))
    assert_same(ours(x, 0.3, 7, axis=1), oracle(x, 0.3, 7))


def test_a_run_of_repeated_parameters_longer_than_a_stretch(isa, rng):
    for channels in (3, 31, 1000, 1024, 1025, 20000):
        x = random_floats(rng, (7, channels))
        scale, zero_point = parameters(rng, np.int8, channels)
        expected = reference.quantize(x, scale, zero_point)
        assert_same(int8blas.quantize(x, scale, zero_point, axis=1), expected, channels=channels)


@every_function
@pytest.mark.parametrize(("shape", "axis"), [((90, 500), (0, 1)), ((3, 9000, 2), (0, 1)), ((2, 500, 91), (1, 2))])
def test_parameters_of_several_dimensions_in_a_row(isa, name, shape, axis, rng):
    """Parameters are read in place, or repeated for a few elements."""
    ours, oracle, x = call(name, rng, np.int8, shape)
    scale, zero_point = parameters(rng, np.int8, shape_of(x, axis))
    for s, z in ((scale, zero_point), (0.3, zero_point), (scale, 7)):
        assert_same(ours(x, s, z, axis=axis), oracle(x, s, z, axis))


@pytest.mark.parametrize("offset", [0, 1, 70])
def test_out_may_overlap_parameters(isa, offset, rng):
    x, zero_point = random_integers(rng, np.int8, (100, 400)), random_integers(rng, np.int32, (100, 400))
    memory = np.zeros(100 * 400 + offset, np.float32)
    scale, out = memory[: x.size].reshape(x.shape), memory[offset:].reshape(x.shape)
    scale[:] = rng.uniform(0.1, 2, x.shape)
    expected = reference.dequantize(x, scale.copy(), zero_point)
    int8blas.dequantize(x, scale, zero_point, axis=(0, 1), out=out)
    assert_same(out, expected)
    zeros, out = zero_point.copy(), zero_point.reshape(-1)[::-1].reshape(x.shape)
    expected = reference.quantize(expected, 0.5, zeros, np.int32)
    assert_same(int8blas.quantize(memory[offset:].reshape(x.shape), 0.5, zero_point, np.int32, axis=(0, 1), out=out),
                expected)  # fmt: skip


# --- memory ----------------------------------------------------------------------------------------------------------

SMALL = ((3, 17),)
MATRICES = ((1, 1), (3, 17), (33, 70), (2, 600), (0, 5), (5, 0), (0, 0))


@every_function
@pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCASTS])
def test_any_strides_of_x(isa, name, layout, rng):
    for dtype, shape in product((np.uint8, np.int32), SMALL if name in SCHEMES[1:] else MATRICES):
        ours, oracle, values = call(name, rng, dtype, shape)
        x = place(values, layout, misalign=1)
        scale, zero_point = parameters(rng, dtype, shape[1])
        assert_same(ours(x, 0.37, 5), oracle(x, 0.37, 5), shape=shape)
        assert_same(ours(x, scale, zero_point, axis=1), oracle(x, scale, zero_point, 1), shape=shape)


@every_function
@pytest.mark.parametrize("misalign", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides_of_out_and_nothing_else_is_written(isa, name, layout, misalign, rng):
    for dtype, shape in product((np.uint8, np.int32), SMALL if name in SCHEMES[1:] else MATRICES):
        ours, oracle, x = call(name, rng, dtype, shape)
        expected = oracle(x, 0.37, 5)
        canary = Canary()
        out = place(np.zeros_like(expected), layout, canary, misalign)
        assert ours(x, 0.37, 5, out=out) is out
        assert_same(out, expected, shape=shape)
        canary.assert_only_elements_written(out)


@needs_mprotect
@every_function
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_is_read_or_written(isa, name, side, rng):
    for dtype, shape in product((np.uint8, np.int32), ((1, 1), (1, 15), (1, 16), (2, 17), (5, 33))):
        ours, oracle, values = call(name, rng, dtype, shape)
        for layout in ("C", "F", "rows reversed", "every other column"):
            x = place(values, layout, guarded(side))
            expected = oracle(x, 0.37, 5)
            out = place(np.zeros_like(expected), layout, guarded(side))
            ours(x, 0.37, 5, out=out)
            assert_same(out, expected, shape=shape, layout=layout)
            scale, zero_point = parameters(rng, dtype, shape[1])
            ours(x, scale, zero_point, axis=1, out=out)
            assert_same(out, oracle(x, scale, zero_point, 1), shape=shape, layout=layout)


def test_a_new_array_has_the_order_of_x(rng):
    x = random_floats(rng, (3, 4, 5))
    assert int8blas.quantize(x, 1).flags.c_contiguous
    assert int8blas.quantize(x.T, 1).flags.f_contiguous
    assert int8blas.quantize(x.transpose(1, 0, 2), 1).strides == (5, 20, 1)


def test_no_dimensions_and_many():
    assert int8blas.quantize(np.float32(3.6), 1) == 4
    assert isinstance(int8blas.quantize(np.float32(3.6), 1), np.int8)
    out = np.zeros((), np.int8)
    assert int8blas.quantize(np.float32(3.6), 1, out=out) is out
    assert out == 4
    x = np.arange(2**12, dtype=np.float32).reshape((1, 2) * 12 + (1,) * 8)[..., ::-1]
    assert_same(int8blas.quantize(x.T, 17, -100), reference.quantize(x.T, 17, -100))


@pytest.mark.parametrize("offset", [0, 1, 3, 16, 64, 100])
def test_out_may_overlap_x(isa, offset, rng):
    values = random_floats(rng, 700)
    expected = reference.quantize(values, 0.37, 5)
    for backwards in (False, True):
        memory = np.zeros(3200, np.uint8)
        x = memory[200:3000].view(np.float32)
        start = 200 + offset if not backwards else 3000 - 700 - offset
        out = memory[start : start + 700].view(np.int8)
        for target in (out, out[::-1]):
            x[:] = values
            int8blas.quantize(x, 0.37, 5, out=target)
            assert_same(target, expected, backwards=backwards)


def test_out_may_be_x_itself(isa, rng):
    x = random_integers(rng, np.int32, (30, 41))
    expected = reference.requantize(x, 0.3, 7, np.int32)
    for view in (lambda a: a, lambda a: a.T, lambda a: a[::-1]):
        out = x.copy()
        int8blas.requantize(view(out), 0.3, 7, np.int32, out=view(out))
        assert_same(out, expected)
    for target in (lambda a: a[::-1], lambda a: a[:, ::-1]):
        out = x.copy()
        int8blas.requantize(out, 0.3, 7, np.int32, out=target(out))
        assert_same(target(out), expected)
    floats = random_floats(rng, 99)
    out = floats.copy()
    int8blas.quantize(out, 0.3, 7, np.int32, out=out.view(np.int32))
    assert_same(out.view(np.int32), reference.quantize(floats, 0.3, 7, np.int32))


def test_x_and_parameters_are_never_written(isa, rng):
    ours, _, x = call("quantize", rng, np.int8, (5, 70))
    scale, zero_point = parameters(rng, np.int8, 70)
    for array in (x, scale, zero_point):
        array.flags.writeable = False
    copies = x.copy(), scale.copy(), zero_point.copy()
    ours(x, scale, zero_point, axis=1)
    for array, copy in zip((x, scale, zero_point), copies, strict=True):
        assert array.tobytes() == copy.tobytes()


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quantize", "dequantize", "float"])
def test_any_number_of_threads_gives_the_same_bits(isa, name, rng):
    for shape in ((1_000_003,), (1000, 999)):
        ours, oracle, x = call(name, rng, np.int8, shape)
        scale, zero_point = parameters(rng, np.int8, shape[-1])
        expected = oracle(x, 0.37, 5), oracle(x, scale, zero_point, len(shape) - 1)
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                assert_same(ours(x, 0.37, 5), expected[0], threads=threads)
                assert_same(ours(x, scale, zero_point, axis=-1), expected[1], threads=threads)


@pytest.mark.parametrize("offset", [0, 1, 4, 12, 60])
def test_results_that_are_written_past_the_caches(isa, offset, rng):
    x = random_integers(rng, np.int8, 2**22 + 2**16 + 5)
    memory = np.zeros(4 * x.size + 200, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    out = memory[start : start + 4 * x.size].view(np.float32)
    int8blas.dequantize(x, 0.37, 5, out=out)
    assert_same(out, reference.dequantize(x, 0.37, 5))
    assert not memory[:start].any()
    assert not memory[start + 4 * x.size :].any()
