"""RealProduct and real_matmul: the bits of their formula for every shape, instruction set and number of threads."""

import copy
import pickle

import numpy as np
import pytest
from arrays import BROADCASTS, LAYOUTS, guarded, needs_mprotect, place
from errors import refused
from layers import assert_same_bits
from sharing import shared

import int8blas
from int8blas import num_threads
from int8blas.layers.real_product import RealProduct, real_matmul


@shared
def expected(x, weights, scale):
    """Compute one fused multiply-add at a time: all numbers of :func:`problem` are multiples of 2**-26 below 2**26, so
    that float64 holds each exact sum before it is rounded to float32."""
    sums = np.zeros((x.shape[0], weights.shape[1]), np.float32)
    for k in range(x.shape[1]):
        sums = (sums.astype(np.float64) + np.outer(x[:, k].astype(np.float64), weights[k])).astype(np.float32)
    return sums * scale


def problem(rng, rows, k, columns):
    x = rng.uniform(1, 2, (rows, k)) * 2.0 ** rng.integers(-3, 4, (rows, k)) * rng.choice([-1, 1], (rows, k))
    weights = rng.integers(-128, 127, (k, columns), endpoint=True).astype(np.int8)
    return x.astype(np.float32), weights, rng.uniform(0.001, 0.1, columns).astype(np.float32)


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 32, 47, 48, 49, 96, 100])
def test_shapes(isa, columns, rng):
    for rows, k in ((1, 1), (2, 3), (3, 4), (4, 5), (5, 70), (6, 16), (7, 8), (8, 9), (9, 513), (17, 33)):
        x, weights, scale = problem(rng, rows, k, columns)
        assert_same_bits(RealProduct(weights, scale)(x), expected(x, weights, scale))


def test_blocks_of_k(isa, rng):
    for k in (511, 512, 1024, 1100):
        x, weights, scale = problem(rng, 3, k, 50)
        assert_same_bits(RealProduct(weights, scale)(x), expected(x, weights, scale))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=["int4", "uint4"])
def test_four_bits_are_unpacked(isa, dtype, rng):
    """The bits of int8 weights minus the zero points."""
    low, high = (-8, 7) if dtype == np.int8 else (0, 15)
    for k, columns, group in ((1, 1, None), (7, 3, None), (20, 17, None), (1100, 50, None), (48, 65, 24), (96, 100, 8),
                              (2048, 33, 1024)):  # fmt: skip
        weights = rng.integers(low, high, (k, columns), dtype, endpoint=True)
        shape = columns if group is None else (k // group, columns)
        scale = rng.uniform(0.1, 1, shape).astype(np.float32)
        for zeros in (None, rng.integers(low, high, shape, endpoint=True)):
            less = 0 if zeros is None else zeros if group is None else np.repeat(zeros, group, 0)
            eight = RealProduct((weights.astype(int) - less).astype(np.int8), scale)
            layers = [RealProduct(weights, scale, bits=4, zero_points=zeros)]
            layers.append(RealProduct(int8blas.pack_b(weights, bits=4), scale, zero_points=zeros))
            layers += [pickle.loads(pickle.dumps(layers[0])), copy.deepcopy(layers[0])]
            for rows in (1, 2, 3, 9, 40):
                x = rng.normal(0, 1, (rows, k)).astype(np.float32)
                for layer in layers:
                    assert_same_bits(layer(x), eight(x), k=k, columns=columns, group=group, rows=rows)


@pytest.mark.parametrize("group", [None, 16])
def test_four_bits_of_float_weights(group, rng):
    w = rng.normal(0, 1, (64, 10)).astype(np.float32)
    layer = RealProduct(w, group=group, bits=4)
    scale = int8blas.weights_scales(w.T, group=group, bits=4)
    assert_same_bits(layer.scale, scale)
    by_k = scale if group is None else np.repeat(scale, group, 0)
    assert (layer.weights.unpack() == np.clip(np.rint(w / by_k), -8, 7)).all()
    assert repr(layer) == f"RealProduct(64, 10{'' if group is None else ', group=16'}, bits=4)"


def test_wrong_arguments_of_four_bits(rng):
    w = np.zeros((24, 3), np.int8)
    packed = int8blas.pack_b(w)
    for error, text, arguments, more in (
        (ValueError, "bits must be 8 or 4, got 2", (w, 1), {"bits": 2}),
        (TypeError, "weights must be an array or a PackedB4 with bits=4, got a PackedB", (packed, 1), {"bits": 4}),
        (ValueError, "zero_points must not be given for weights of 8 bits: subtract", (w, 1), {"zero_points": 1}),
        (ValueError, "zero_points must not be given for weights of float32", (w.astype(np.float32),),
         {"zero_points": 1, "bits": 4}),
        (ValueError, "scale must have blocks of a multiple of 8 k for weights of 4 bits, got 12", (w, np.ones((2, 3))),
         {"bits": 4}),
        (ValueError, "zero_points must be between -8 and 7, got 8", (w, 1), {"bits": 4, "zero_points": 8}),
    ):  # fmt: skip
        with refused(error, text):
            RealProduct(*arguments, **more)


def test_stacks_scales_and_orders(isa, rng):
    x, weights, _ = problem(rng, 12, 10, 20)
    layer, wanted = RealProduct(weights, 0.5), expected(x, weights, np.full(20, 0.5, np.float32))
    assert_same_bits(layer(x.reshape(3, 4, 10)), wanted.reshape(3, 4, 20))
    assert_same_bits(layer(x[0]), wanted[0])
    assert_same_bits(layer(np.asfortranarray(x)), wanted)
    assert layer(x[:0]).shape == (0, 20)


def test_threads(isa, rng):
    x, weights, scale = problem(rng, 50, 200, 500)
    for threads in (1, 2, 3, 5):
        with num_threads(threads):
            assert_same_bits(RealProduct(weights, scale)(x), expected(x, weights, scale))


def test_what_is_not_finite_stays_in_its_row(isa, rng):
    x, weights, scale = problem(rng, 3, 10, 20)
    wanted = expected(x, weights, scale)
    x = x.copy()
    x[1, 4] = np.nan
    y = RealProduct(weights, scale)(x)
    assert np.isnan(y[1]).all()
    assert_same_bits(y[::2], wanted[::2])


def test_copies_and_files(tmp_path, rng):
    x, weights, scale = problem(rng, 3, 10, 20)
    layer = RealProduct(weights, scale)
    int8blas.save(tmp_path / "product", layer)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), int8blas.load(tmp_path / "product")):
        assert_same_bits(other(x), layer(x))


@pytest.mark.parametrize("shape", [(1, 24, 5), (7, 24, 40), (40, 2048, 70)])
def test_scales_of_blocks(shape, isa, rng):
    """Powers of two as scales, so that no product and no sum is rounded."""
    rows, k, columns = shape
    x = rng.integers(-8, 9, (rows, k)).astype(np.float32)
    weights = rng.integers(-128, 128, (k, columns)).astype(np.int8)
    scale = 2.0 ** rng.integers(-2, 3, (k // 8, columns))
    layer = RealProduct(weights, scale)
    wanted = x @ (weights * np.repeat(scale, 8, 0))
    for each in (layer, pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(each(x), wanted)


def test_few_rows_with_scales_of_blocks_of_any_size(isa, rng):
    """Blocks that are whole groups are converted in registers, all other blocks through a buffer."""
    for block in (4, 6, 36):
        for rows in (1, 2, 8, 9):
            x = rng.integers(-8, 9, (rows, 72)).astype(np.float32)
            weights = rng.integers(-128, 128, (72, 70)).astype(np.int8)
            scale = 2.0 ** rng.integers(-2, 3, (72 // block, 70))
            wanted = x @ (weights * np.repeat(scale, block, 0))
            np.testing.assert_array_equal(RealProduct(weights, scale)(x), wanted)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_few_rows_beside_protected_memory(isa, side, rng):
    for rows, k, columns in ((1, 5, 17), (1, 70, 48), (2, 33, 50), (8, 6, 16)):
        x, weights, scale = problem(rng, rows, k, columns)
        y = RealProduct(weights, scale)(place(x, "C", guarded(side)))
        assert_same_bits(y, expected(x, weights, scale))


def test_scales_of_blocks_round_each_weight(isa, rng):
    x, weights, _ = problem(rng, 1, 24, 20)
    scale = rng.uniform(0.5, 1, (3, 20)).astype(np.float32)
    sums = np.zeros((1, 20), np.float32)
    for k in range(24):
        weight = weights[k].astype(np.float32) * scale[k // 8]
        # A product of two float32 is exact in float64; the sum is rounded to float64 and then to float32.
        sums = (sums.astype(np.float64) + x[:, k, None].astype(np.float64) * weight).astype(np.float32)
    found = RealProduct(weights, scale)(x)
    np.testing.assert_array_max_ulp(found, sums, 1)
    # Nine rows use the buffer.
    assert_same_bits(RealProduct(weights, scale)(np.repeat(x, 9, 0))[:1], found)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("group", [None, 8])
def test_float_weights_bias_and_out(isa, rows, group, rng):
    w, bias = rng.normal(size=(24, 20)).astype(np.float32), rng.normal(size=20).astype(np.float32)
    layer = RealProduct(w, bias=bias, group=group)
    scale = int8blas.weights_scales(w.T, group=group)
    by_row = scale if group is None else np.repeat(scale, group, 0)
    integers = np.rint(w / by_row).astype(np.int8)
    np.testing.assert_array_equal(layer.weights.unpack(), integers)
    np.testing.assert_array_equal(layer.scale, scale)
    np.testing.assert_array_equal(layer.bias, bias)
    assert layer.group == group
    x = rng.normal(size=(rows, 24)).astype(np.float32)
    wanted = RealProduct(integers, scale)(x) + bias
    out = np.empty((20, rows), np.float32).T
    assert layer(x, out=out) is out
    for other in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert_same_bits(other(x), wanted)
    assert_same_bits(out, wanted)
    np.testing.assert_array_equal(RealProduct(w.astype(np.float16)).weights.unpack().shape, (24, 20))


def test_names():
    layer = int8blas.RealProduct(np.ones((8, 3), np.float32), group=4)
    assert layer.group == 4
    assert repr(layer) == "RealProduct(8, 3, group=4)"
    assert not layer.scale.flags.writeable
    assert repr(int8blas.RealProduct(np.ones((8, 3), np.int8), 1)) == "RealProduct(8, 3)"


def test_errors():
    weights = np.ones((4, 3), np.int8)
    for error, text, arguments in (
        (TypeError, r"weights must be a matrix of int8 or float32, got uint8 of shape \(4, 3\)", (weights.view("u1"),)),
        (TypeError, r"weights must be a matrix .* got int8 of shape \(3,\)", (weights[0], 1)),
        (ValueError, "scale must be given for weights of int8", (weights,)),
        (ValueError, "scale must not be given for weights of float32", (weights.astype("f4"), 1)),
        (ValueError, r"bias must have shape \(3,\), got \(4,\)", (weights, 1, np.ones(4))),
        (ValueError, "w must be finite", (np.full((4, 3), np.nan),)),
    ):
        with pytest.raises(error, match=text):
            RealProduct(*arguments)
    with pytest.raises(ValueError, match="group must not be given with a scale"):
        RealProduct(weights, 1, group=4)
    with pytest.raises(ValueError, match="group must be a multiple of 4 that divides ic, 4"):
        RealProduct(weights.astype("f4"), group=8)
    out = np.full((2, 3), 7.0)
    with pytest.raises((TypeError, ValueError), match="out"):
        RealProduct(weights, 1)(np.ones((2, 4)), out=out)
    assert (out == 7).all()
    with pytest.raises(ValueError, match="scale one value or 3"):
        RealProduct(np.ones((2, 3), np.int8), [1, 2])
    with pytest.raises(ValueError, match=r"x must have shape \(\.\.\., 2\), got \(4, 3\)"):
        RealProduct(np.ones((2, 3), np.int8), 1)(np.ones((4, 3), np.float32))
    with pytest.raises(TypeError, match="x must be float32"):
        RealProduct(np.ones((2, 3), np.int8), 1)(np.ones((4, 2), np.int8))


def stack(rng, *shape):
    """Numbers of 13 bits, whose products float64 can add to their float32 sums without rounding."""
    return (rng.integers(-(2**12), 2**12, shape) * 2.0**-8).astype(np.float32)


@shared
def matrix_products(a, b):
    """Compute one fused multiply-add at a time, as in `expected`."""
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    y = np.zeros((*shape, a.shape[-2], b.shape[-1]), np.float32)
    for k in range(a.shape[-1]):
        products = a[..., :, k, None].astype(np.float64) * b[..., k, None, :].astype(np.float64)
        y = (y.astype(np.float64) + products).astype(np.float32)
    return y


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 47, 48, 49, 100])
def test_matrices_of_any_layout(isa, columns, rng):
    for rows, k in ((1, 1), (1, 64), (2, 12), (3, 4), (7, 8), (8, 5), (9, 70), (33, 7), (40, 513)):
        a, b = stack(rng, rows, k), stack(rng, k, columns)
        wanted = matrix_products(a, b)
        for layout in LAYOUTS:
            assert_same_bits(real_matmul(place(a, layout), b), wanted)
            assert_same_bits(real_matmul(a, place(b, layout)), wanted)


@pytest.mark.parametrize("columns", [63, 64, 65, 130, 192, 240, 500])
def test_one_row_reads_several_panels_at_a_time(isa, columns, rng):
    for k in (1, 30, 600):  # 600 is more than a block of k
        a, b = stack(rng, 3, 1, k), stack(rng, 3, k, columns)
        wanted = matrix_products(a, b)
        assert_same_bits(real_matmul(a, b), wanted)
        assert_same_bits(real_matmul(a[0], place(b[0], "C, padded rows")), wanted[0])


def test_steps_that_are_no_whole_numbers(isa, rng):
    """The operands are fields of records."""
    a, b = stack(rng, 9, 20), stack(rng, 20, 50)
    wanted = matrix_products(a, b)
    records = [np.zeros(x.shape, [("byte", "i1"), ("value", "f4")]) for x in (a, b)]
    for record, x in zip(records, (a, b), strict=True):
        record["value"] = x
    assert_same_bits(real_matmul(a, records[1]["value"]), wanted)
    assert_same_bits(real_matmul(records[0]["value"], b), wanted)


@pytest.mark.parametrize("layout", BROADCASTS)
def test_matrices_whose_elements_share_memory(isa, layout, rng):
    a, b = place(stack(rng, 9, 20), layout), place(stack(rng, 20, 50), layout)
    assert_same_bits(real_matmul(a, b), matrix_products(a, b))


def test_stacks_of_matrices(isa, rng):
    shapes = [((2, 3, 5, 7), (2, 3, 7, 20)), ((2, 1, 5, 7), (3, 7, 20)), ((5, 7), (2, 3, 7, 20))]
    for first, second in [*shapes, ((2, 3, 5, 7), (7, 20))]:
        a, b = stack(rng, *first), stack(rng, *second)
        wanted = matrix_products(a, b)
        assert_same_bits(real_matmul(a, b), wanted)
        apart = [np.ascontiguousarray(x.swapaxes(0, -2)).swapaxes(0, -2) for x in (a, b)]
        assert_same_bits(real_matmul(*apart), wanted)


def test_rows_whose_step_says_nothing(isa, rng):
    """A dimension of size 1 may have any stride; in a transposed array it is not the distance between rows."""
    a, b = stack(rng, 1, 9, 7).transpose(1, 0, 2), stack(rng, 7, 20)
    assert a.flags.c_contiguous
    assert a.strides[1] != 28
    assert_same_bits(real_matmul(a, b), matrix_products(a, b))


def test_threads_divide_products_rows_and_columns(isa, rng):
    for first, second in (((7, 40, 90), (7, 90, 300)), ((1100, 60), (60, 40)), ((20, 300), (300, 600))):
        a, b = stack(rng, *first), stack(rng, *second)
        wanted = matrix_products(a, b)
        for threads in (1, 2, 3, 5):
            with num_threads(threads):
                assert_same_bits(real_matmul(a, b), wanted)


def test_nothing_to_multiply():
    assert_same_bits(real_matmul(np.ones((3, 0)), np.ones((0, 4))), np.zeros((3, 4), np.float32))
    assert real_matmul(np.ones((2, 0, 3)), np.ones((3, 4))).shape == (2, 0, 4)
    assert real_matmul(np.ones((0, 2, 3)), np.ones((1, 3, 4))).shape == (0, 2, 4)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_matrices_beside_protected_memory(isa, side, rng):
    for rows, k, columns in (
        (9, 33, 50), (40, 5, 17), (1, 70, 48), (1, 9, 192), (1, 64, 50), (3, 8, 17), (6, 4, 16)
    ):  # fmt: skip
        a, b = stack(rng, rows, k), stack(rng, k, columns)
        for layout in ("C", "F"):
            y = real_matmul(place(a, layout, guarded(side)), place(b, layout, guarded(side)))
            assert_same_bits(y, matrix_products(a, b))


def test_errors_of_matrices():
    with pytest.raises(ValueError, match=r"shapes \(\.\.\., m, k\) and \(\.\.\., k, n\), got \(2, 3\) and \(2, 3\)"):
        real_matmul(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="stacks that broadcast"):
        real_matmul(np.ones((2, 3, 4)), np.ones((3, 4, 5)))
    with pytest.raises(TypeError, match="b must be float32"):
        real_matmul(np.ones((2, 3)), np.ones((3, 2), np.int8))
