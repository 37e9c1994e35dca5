"""reorder and weights_scales against loops over single elements in the logical order of dimensions."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from arrays import assert_same
from hypothesis import given
from hypothesis import strategies as st
from reference_reorder import expected_values, moved, values_of

import int8blas
from int8blas import reorder, weights_scales

pytestmark = pytest.mark.usefixtures("isa")

DTYPES = (np.float32, np.int32, np.int8, np.uint8)
SIZES = {"n": 2, "c": 3, "g": 2, "o": 3, "i": 4, "d": 2, "h": 3, "w": 2}
GROUPS = ("nc", "ncw", "nchw", "ncdhw", "oi", "oiw", "oihw", "oidhw", "goi", "goiw", "goihw", "goidhw")
WEIGHTS = ("oi", "iwo", "oihw", "hwio", "ohwi", "ihwo", "goihw", "hwigo", "gohwi", "dhwio", "goi")


def same(result, expected):
    """Whether arrays are equal bit for bit, NaN included."""
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)
    assert result.flags.c_contiguous


# --- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letters", GROUPS)
def test_layouts_are_permutations(letters, rng):
    orders = ["".join(order) for order in permutations(letters)]
    if len(orders) > 120:
        orders = list(rng.choice(orders, 30, replace=False))
    for source, target in zip(orders, rng.permutation(orders), strict=True):
        x = rng.integers(-128, 128, [SIZES[letter] for letter in source], np.int8)
        same(reorder(x, src_layout=source, dst_layout=str(target)), moved(x, source, target))
        same(reorder(x, src_layout=source), x)
    x = rng.integers(-128, 128, [SIZES[letter] for letter in letters], np.int8)
    same(reorder(x, dst_layout=orders[-1]), moved(x, letters, orders[-1]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_move_values_bit_for_bit(dtype, rng):
    x = rng.integers(0, 256, (2, 3, 4, 5 * np.dtype(dtype).itemsize), np.uint8).view(dtype)
    result = reorder(x, src_layout="nhwc", dst_layout="nchw")
    assert result.tobytes() == np.ascontiguousarray(x.transpose(0, 3, 1, 2)).tobytes()


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32])
def test_transposed_copies_of_every_size(isa, dtype, rng):
    """Sizes around blocks of 4 and 16 elements, pieces of 64 rows and 16 KiB, and images with gaps."""
    sizes = [(h, c) for h in (1, 2, 3, 4, 5, 8, 15, 16, 17, 33) for c in (1, 3, 4, 5, 15, 16, 17, 31, 64)]
    for h, c in (*sizes, (13, 300), (90, 70)):
        x = rng.integers(0, 256, (2, h, 7, c * np.dtype(dtype).itemsize), np.uint8).view(dtype)
        gaps = np.repeat(np.pad(x, ((0, 0), (0, 1), (0, 2), (0, 3))), 2, axis=1)
        for view in (x, gaps[:, ::2][:, :h, :7, :c], x[::-1], x[:, ::-1], x[..., ::-1], np.broadcast_to(x[0], x.shape)):
            for source, target in (("nhwc", "nchw"), ("nchw", "nhwc"), ("nhwc", "nwhc"), ("nhwc", "cwhn")):
                expected = np.ascontiguousarray(view.transpose([source.index(letter) for letter in target]))
                result = reorder(view, src_layout=source, dst_layout=target)
                assert result.tobytes() == expected.tobytes(), (view.shape, view.strides, source, target)


def test_transposed_copies_have_the_same_bits_with_any_number_of_threads(rng):
    x = rng.integers(0, 256, (3, 100, 90, 70), np.uint8)
    for n in (1, 2, 5):
        with int8blas.num_threads(n):
            same(reorder(x, src_layout="nhwc", dst_layout="nchw"), np.ascontiguousarray(x.transpose(0, 3, 1, 2)))


def test_any_strides_and_byte_orders(rng):
    x = rng.normal(size=(4, 6, 8, 10)).astype(np.float32)
    for view in (x[::2, ::-1, 1::3], x.T, np.broadcast_to(x[0], x.shape), x.astype(">f4")):
        expected = np.ascontiguousarray(np.rint(view).astype(np.int8).transpose(0, 3, 1, 2))
        same(reorder(view, src_layout="nhwc", dst_layout="nchw", dtype=np.int8), expected)
        assert reorder(view).dtype == np.dtype("=f4")


@pytest.mark.parametrize("sizes", [(0, 3, 2, 2), (2, 0, 2, 2), (2, 3, 0, 2)])
def test_empty_tensors(sizes):
    x = np.empty(sizes, np.float32)
    result = reorder(x, src_layout="oihw", dst_layout="hwio", dtype=np.int8)
    assert result.shape == (*sizes[2:], sizes[1], sizes[0])
    assert weights_scales(x).tolist() == [1.0] * sizes[0]


# --- types, scales, zero points --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize(("mask", "layout"), [(0, "hwigo"), (2, "oihw"), (3, "hwigo"), (0b10001, "gohwi"), (4, "nhwc")])
def test_every_pair_of_types_with_every_parameter(source, target, mask, layout, rng):
    letters = next(letters for letters in GROUPS if sorted(letters) == sorted(layout))
    logical = values_of(rng, source, [SIZES[letter] for letter in letters])
    x = moved(logical, letters, layout)
    selected = [size for axis, size in enumerate(logical.shape) if mask & (1 << axis)]
    for has in product((False, True), repeat=4):
        parameters = {}
        for name, present in zip(("scales", "zero_points", "src_scales", "src_zero_points"), has, strict=True):
            dtype = source if name.startswith("src") else target
            if present and name.endswith("scales"):
                parameters[name] = np.exp(rng.normal(0, 3, selected)).astype(np.float32)
            elif present and dtype != np.float32:
                low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype != np.int32 else (-1000, 1000)
                parameters[name] = rng.integers(low, high, selected, np.int32, endpoint=True)
        expected = expected_values(logical, target, mask, **parameters)
        result = reorder(x, src_layout=layout, dst_layout=letters, dtype=target, mask=mask, **parameters)
        same(result, expected)
        flat = {name: values.reshape(-1) if mask else values for name, values in parameters.items()}
        out = np.empty(x.shape, target)
        assert reorder(x, src_layout=layout, out=out, dtype=target, mask=mask, **flat) is out
        same(out, moved(expected, letters, layout))


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize(("src_mask", "mask"), [(0, 2), (1, 0), (1, 2), (3, 4), (15, 8), (6, 6)])
def test_each_side_has_a_mask(source, target, src_mask, mask, rng):
    x = values_of(rng, source, (2, 3, 4, 2))
    parameters = {}
    for side, bits, dtype in (("src_", src_mask, source), ("", mask, target)):
        selected = [size for axis, size in enumerate(x.shape) if bits & (1 << axis)]
        signs, wide = rng.choice([-1, 1], selected), rng.random() < 0.5
        parameters[f"{side}scales"] = (signs * np.exp(rng.normal(0, 3, selected))).astype(np.float32)
        if dtype != np.float32:
            low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype != np.int32 else (-1000, 1000)
            low, high = (-(2**31), 2**31 - 1) if wide else (low, high)
            parameters[f"{side}zero_points"] = rng.integers(low, high, selected, np.int32, endpoint=True)
    expected = expected_values(x, target, mask, src_mask, **parameters)
    same(reorder(x, dtype=target, mask=mask, src_mask=src_mask, **parameters), expected)


@given(
    st.lists(st.floats(width=32) | st.floats(-400, 400, width=32), min_size=1, max_size=20),
    st.floats(2.0**-20, 2.0**20, width=32),
    st.integers(-128, 127),
)
def test_quantizing_is_saturated_rounded_division(values, scale, zero_point):
    x = np.array(values, np.float32)
    expected = expected_values(x, np.int8, scales=np.float32(scale), zero_points=zero_point)
    same(reorder(x, dtype=np.int8, scales=scale, zero_points=zero_point), expected)


def test_quantizing_divides_and_does_not_multiply_by_the_reciprocal():
    x = np.arange(-127, 128).astype(np.float32) / 2
    scales = np.float32([0.1, 0.3, 0.7, 3, 49])
    different = 0
    for scale in scales:
        y = x * scale  # quotients halfway between two integers
        expected = np.array([round(Fraction(float(v / scale))) for v in y], np.int8)
        same(reorder(y, dtype=np.int8, scales=scale), expected)
        different += np.sum(expected != np.rint(y * (np.float32(1) / scale)))
        same(reorder(y, dtype=np.int8, src_scales=np.float32(1) / scale), np.rint(y * (1 / scale)).astype(np.int8))
    assert different


def test_a_nan_becomes_the_zero_point():
    x = np.float32([[np.nan, np.inf], [-np.inf, np.nan]])
    result = reorder(x, dtype=np.uint8, scales=[1, 2], zero_points=[7, 9], mask=1)
    assert result.tolist() == [[7, 255], [0, 9]]
    assert reorder(x, dtype=np.int32).tolist() == [[0, 2**31 - 1], [-(2**31), 0]]


def test_integers_convert_exactly_without_scales():
    x = np.array([2**31 - 1, -(2**31), 2**24 + 1, -(2**24) - 1, 127, 128, -129], np.int32)
    same(reorder(x), x)
    assert reorder(x, dtype=np.int8).tolist() == [127, -128, 127, -128, 127, 127, -128]
    assert reorder(x, src_zero_points=2**24, dtype=np.uint8).tolist() == [255, 0, 1, 0, 0, 0, 0]
    assert reorder(x, zero_points=1)[:4].tolist() == [2**31 - 1, 1 - 2**31, 2**24 + 2, -(2**24)]
    assert reorder(np.int8([-128, 0, 127]), dtype=np.uint8, zero_points=128).tolist() == [0, 128, 255]
    assert reorder(x, dtype=np.float32).tolist() == x.astype(np.float32).tolist()


def test_dequantizing_inverts_quantizing(rng):
    q = rng.integers(-128, 128, (3, 50), np.int8)
    scales, zero_points = np.float32([0.1, 3, 1e-5]), [-128, 0, 127]
    x = reorder(q, dtype=np.float32, src_scales=scales, src_zero_points=zero_points, mask=1)
    same(x, scales[:, None] * (q.astype(np.float32) - np.float32(zero_points)[:, None]))
    same(reorder(x, dtype=np.int8, scales=scales, zero_points=zero_points, mask=1), q)


# --- scales of weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", WEIGHTS)
def test_weights_use_the_range_from_minus_127_to_127(layout, rng):
    letters = "".join(letter for letter in "goidhw" if letter in layout)
    w = rng.normal(size=[SIZES[letter] for letter in layout]).astype(np.float32) * np.float32(1e3)
    logical = moved(w, layout, letters)
    channels = [letters.index(letter) for letter in "go" if letter in letters]
    for which, axes in (("per_channel", channels), ("per_tensor", [])):
        mask = sum(1 << axis for axis in axes)
        expected = (
            np.abs(logical).max(tuple(a for a in range(w.ndim) if a not in axes)).astype(np.float64).ravel() / 127
        )
        scales = weights_scales(w, which, layout=layout)
        assert_same(scales, expected.astype(np.float32))
        assert_same(weights_scales(w, mask, layout=layout), scales)
        result, found = reorder(w, src_layout=layout, dtype=np.int8, scales=which)
        assert_same(found, scales)
        same(result, reorder(w, src_layout=layout, dtype=np.int8, scales=scales, mask=mask))
        largest = np.abs(moved(result, layout, letters).astype(int)).max(tuple(set(range(w.ndim)) - set(axes)))
        assert np.all(largest == 127)
    assert_same(weights_scales(w, layout=layout), weights_scales(w, "per_channel", layout=layout))


def test_weights_without_a_layout_have_output_channels_first(rng):
    w = rng.normal(size=(3, 4, 5)).astype(np.float32)
    assert_same(weights_scales(w), weights_scales(w, layout="oiw"))
    result, scales = reorder(w, dtype=np.int8, scales="per_channel")
    assert_same(scales, weights_scales(w))
    same(result, reorder(w, dtype=np.int8, scales=scales, mask=1))


def test_channels_of_zeros_and_of_tiny_weights_have_finite_scales():
    w = np.zeros((3, 2), np.float32)
    w[1], w[2] = 2.0**-149, -3e38
    scales = weights_scales(w)
    assert scales[:2].tolist() == [1.0, 2.0**-126]
    assert reorder(w, dtype=np.int8, scales=scales, mask=1).tolist() == [[0, 0], [0, 0], [-127, -127]]


# --- oneDNN's two examples -------------------------------------------------------------------------------------------


def test_weights_quantization_per_output_channel_and_group(rng):
    g, oc, ic, kh, kw = 2, 6, 4, 3, 2
    wei_user_f32 = rng.normal(size=(kh, kw, ic // g, g, oc // g)).astype(np.float32)
    wei_scales = rng.uniform(0.01, 0.1, g * oc // g).astype(np.float32)
    inv_wei_scales = (np.float32(1) / wei_scales).astype(np.float32)
    mask = 1 << 0 | 1 << 1
    result = reorder(
        wei_user_f32, src_layout="hwigo", dst_layout="goihw", dtype=np.int8, src_scales=inv_wei_scales, mask=mask
    )
    expected = np.empty((g, oc // g, ic // g, kh, kw), np.int8)
    for gg, o, i, y, x in np.ndindex(*expected.shape):
        value = np.rint(inv_wei_scales[gg * (oc // g) + o] * wei_user_f32[y, x, i, gg, o])
        expected[gg, o, i, y, x] = np.clip(value, -128, 127)
    same(result, expected)


def test_convolution_with_groups_and_output_scales_per_channel(rng):
    g, oc, ic, size = 2, 6, 4, 5
    src_f32 = rng.uniform(-1, 1, (2, ic, size, size)).astype(np.float32)
    wei_f32 = rng.normal(size=(3, 3, ic // g, g, oc // g)).astype(np.float32)
    wei_s8, wei_scales = reorder(wei_f32, src_layout="hwigo", dst_layout="goihw", dtype=np.int8, scales="per_channel")
    src_scale = np.float32(1 / 127)
    src_s8 = reorder(src_f32, dtype=np.int8, scales=src_scale)
    patches = np.lib.stride_tricks.sliding_window_view(src_s8.astype(np.int64), (3, 3), (2, 3))
    patches = patches.reshape(2, g, ic // g, size - 2, size - 2, 3, 3)
    acc_s32 = np.einsum("ngihwyx,goiyx->ngohw", patches, wei_s8.astype(np.int64)).reshape(2, oc, size - 2, size - 2)
    exact_patches = np.lib.stride_tricks.sliding_window_view(src_f32.astype(np.float64), (3, 3), (2, 3))
    exact_patches = exact_patches.reshape(2, g, ic // g, size - 2, size - 2, 3, 3)
    exact = np.einsum("ngihwyx,yxigo->ngohw", exact_patches, wei_f32.astype(np.float64)).reshape(acc_s32.shape)
    dst_scale = np.float32(np.abs(exact).max() / 120)
    conv_output_scales = src_scale * wei_scales / dst_scale
    dst_s8 = reorder(acc_s32.astype(np.int32), dtype=np.int8, src_scales=conv_output_scales, mask=1 << 1)
    same(dst_s8, np.rint(acc_s32.astype(np.float32) * conv_output_scales[:, None, None]).astype(np.int8))
    # 18 products, each off by at most half a step of either operand, and the rounding of the result.
    bound = 18 * (0.5 * src_scale * np.abs(wei_f32).max() + 0.5 * wei_scales.max()) + 0.51 * dst_scale
    assert np.abs(dst_scale * dst_s8 - exact).max() <= bound
    assert len(np.unique(dst_s8)) > 20


# --- packed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", WEIGHTS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_packed_weights_are_the_matrix_in_the_order_of_k(layout, dtype, rng):
    letters = "".join(letter for letter in "goidhw" if letter in layout)
    k_letters = letters.replace("g", "").replace("o", "")
    w = values_of(rng, dtype, [SIZES[letter] for letter in layout])
    logical = moved(w, layout, letters)
    for order in ["".join(order) for order in permutations(k_letters)][:24]:
        packed = reorder(w, src_layout=layout, dst_layout="packed", k_order=order)
        groups = packed if "g" in layout else (packed,)
        assert isinstance(groups, tuple)
        assert len(groups) == (SIZES["g"] if "g" in layout else 1)
        for number, group in enumerate(groups):
            b = np.empty((np.prod([SIZES[letter] for letter in order]), SIZES["o"]), dtype)
            for k, place in enumerate(np.ndindex(*(SIZES[letter] for letter in order))):
                at = dict(zip(order, place, strict=True))
                for o in range(SIZES["o"]):
                    b[k, o] = logical[tuple({**at, "g": number, "o": o}[letter] for letter in letters)]
            assert group == int8blas.pack_b(b)
        same(reorder(packed, src_layout="packed", dst_layout=layout, k_order=order, shape=logical.shape), w)
        if order == k_letters:
            assert reorder(w, src_layout=layout, dst_layout="packed") == packed
            same(reorder(packed, src_layout="packed", dst_layout=letters, shape=list(logical.shape)), logical)
            if order == "i":
                same(reorder(packed, src_layout="packed", dst_layout=letters), logical)


def test_packed_weights_multiply_patches_of_an_nhwc_image(rng):
    w = rng.integers(-128, 128, (6, 5, 3, 2), np.int8)  # oihw
    image = rng.integers(0, 256, (1, 8, 9, 5), np.uint8)  # nhwc
    packed = reorder(w, src_layout="oihw", dst_layout="packed", k_order="hwi")
    patches = np.lib.stride_tricks.sliding_window_view(image, (3, 2), (1, 2)).transpose(0, 1, 2, 4, 5, 3)
    result = int8blas.matmul(patches.reshape(-1, 30), packed).reshape(1, 6, 8, 6)
    assert_same(result, np.einsum("nyxhwi,oihw->nyxo", patches.astype(np.int32), w.astype(np.int32)))


def test_quantizing_into_packed_and_dequantizing_out_of_it(rng):
    w = rng.normal(size=(3, 2, 4, 2, 5)).astype(np.float32)  # hwigo
    packed, scales = reorder(w, src_layout="hwigo", dst_layout="packed", dtype=np.int8, scales="per_channel")
    array, again = reorder(w, src_layout="hwigo", dst_layout="goihw", dtype=np.int8, scales="per_channel")
    assert_same(scales, again)
    shape = array.shape
    same(reorder(packed, src_layout="packed", dst_layout="goihw", shape=shape), array)
    options = {"dtype": np.float32, "src_scales": scales, "mask": 3}
    back = reorder(list(packed), src_layout="packed", dst_layout="hwigo", shape=shape, **options)
    same(back, reorder(array, src_layout="goihw", dst_layout="hwigo", **options))
    out = np.empty(w.shape, np.float32)
    assert reorder(packed, src_layout="packed", dst_layout="hwigo", shape=shape, out=out, **options) is out
    same(out, back)


# --- out -------------------------------------------------------------------------------------------------------------


def test_out_of_any_strides_and_over_the_source(rng):
    x = rng.normal(0, 50, (4, 5, 5, 4)).astype(np.float32)
    expected = reorder(x, src_layout="nhwc", dst_layout="nchw", scales=3.0)
    whole = np.zeros((8, 4, 5, 10), np.float32)
    out = whole[::2, ::-1, :, ::2]
    assert reorder(x, src_layout="nhwc", dst_layout="nchw", scales=3.0, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert not whole[1::2].any()
    assert not whole[..., 1::2].any()
    same_memory = x.reshape(4, 4, 5, 5)
    reorder(x, src_layout="nhwc", dst_layout="nchw", scales=3.0, out=same_memory)
    np.testing.assert_array_equal(same_memory, expected)


# --- errors ----------------------------------------------------------------------------------------------------------

X = np.ones((2, 3, 4, 5), np.float32)
S8 = np.ones((2, 3, 4, 5), np.int8)
PACKED = int8blas.pack_b(np.ones((60, 2), np.int8))
UNPACK = {"src_layout": "packed", "dst_layout": "oihw"}


@pytest.mark.parametrize(("x", "options", "error", "text"), [
    (X.astype(complex), {}, TypeError, "x must be float32, int32, int8 or uint8, got complex128"),
    (None, {}, TypeError, "x must be"), ("x", {}, TypeError, "x must be"), (X.astype(int), {}, TypeError, "x must be"),
    (X, {"dtype": np.float64}, TypeError, "dtype must be"),
    (X, {"dtype": "no"}, TypeError, "dtype must be .* got 'no'"),
    (X, {"src_layout": 1}, TypeError, "src_layout must be a string"),
    *((X, {name: layout}, ValueError, f"{name} must be an order of the letters")
      for name in ("src_layout", "dst_layout")
      for layout in ("", "nch", "nchh", "NCHW", "oihx", "nihw", "ncoi", "nchd", "gihw", "oi hw", "nnchw", "Packed")),
    (X, {"src_layout": "oiw"}, ValueError, "x must have 3 dimensions"),
    (X, {"dst_layout": "goihw"}, ValueError, "x must have 5 dimensions"),
    (X, {"src_layout": "nchw", "dst_layout": "oihw"}, ValueError, "dst_layout must have the letters of src_layout"),
    (X, {"src_layout": "nchw", "dst_layout": "nhwcd"}, ValueError, "dst_layout must have the letters of"),
    (X, {"mask": -1}, ValueError, "mask must be between 0 and 15 for 4 dimensions, got -1"),
    (X, {"mask": 16}, ValueError, "mask must be"), (X, {"mask": 1.0}, TypeError, "mask must be an integer"),
    (X, {"mask": True}, TypeError, "mask must be an integer"),
    (X, {"src_mask": -1}, ValueError, "src_mask must be between 0 and 15 for 4 dimensions, got -1"),
    (X, {"src_mask": 16}, ValueError, "src_mask must be"),
    (X, {"src_mask": 1.0}, TypeError, "src_mask must be an integer"),
    (X, {"src_mask": 2, "src_scales": [1, 2]}, ValueError, "src_scales must be one number or 3"),
    *((X, {name: value}, error, f"{name} must be") for name in ("scales", "src_scales") for value, error in [
        (0, ValueError), (-0.0, ValueError), (np.nan, ValueError), (np.inf, ValueError), (1e39, ValueError),
        (True, TypeError), (1j, TypeError), ([1.0, 2.0], ValueError), ([[1.0]], ValueError), (b"1", TypeError),
    ]),
    (X, {"scales": [1.0, 2.0], "mask": 2}, ValueError, r"scales must be one number or 3 \(the mask selects"),
    (X, {"scales": np.ones((3, 2)), "mask": 3}, ValueError, "scales must be one number or 6"),
    (X, {"scales": "all"}, ValueError, "scales must be numbers or 'per_channel' or 'per_tensor', got 'all'"),
    (X, {"scales": "per_channel"}, ValueError, "scales must be numbers unless float32 becomes int8"),
    (X, {"scales": "per_channel", "dtype": np.uint8}, ValueError, "scales must be numbers unless"),
    (S8, {"scales": "per_channel"}, ValueError, "scales must be numbers unless"),
    (X, {"scales": "per_channel", "dtype": np.int8, "src_layout": "nchw"}, ValueError, "scales must be numbers for"),
    (X, {"scales": "per_channel", "dtype": np.int8, "mask": 1}, ValueError, "mask must be 0 with scales"),
    (X * np.nan, {"scales": "per_channel", "dtype": np.int8}, ValueError, "x must be finite to have scales"),
    (X, {"zero_points": 0}, ValueError, "zero_points must be None for float32"),
    (X, {"src_zero_points": 0}, ValueError, "src_zero_points must be None for float32"),
    (X, {"zero_points": 2**31, "dtype": np.int8}, ValueError, "zero_points must be between -2147483648 and 2147483647"),
    (X, {"zero_points": 0.0, "dtype": np.int8}, TypeError, "zero_points must be integers"),
    (X, {"zero_points": [0, 0], "dtype": np.int8}, ValueError, "zero_points must be one number or 1"),
    (S8, {"src_zero_points": [0, -(2**31) - 1, 0], "mask": 2}, ValueError, "src_zero_points must be between"),
    (X, {"out": [1]}, TypeError, "out must be an ndarray of float32, or share its memory with NumPy, got list"),
    (X, {"out": S8}, TypeError, "out must be float32, got int8$"),
    (X, {"out": X.T}, ValueError, "out must have shape"),
    (X, {"out": np.broadcast_to(X, X.shape)}, ValueError, "out must be writeable"),
    (X, {"k_order": "ihw"}, ValueError, "k_order must be None unless"),
    (X, {"shape": X.shape}, ValueError, "shape must be None unless src_layout is 'packed'"),
    (PACKED, {}, TypeError, "x must be an array for src_layout None, got a PackedB"),
    (S8, {"dst_layout": "packed"}, ValueError, "src_layout must be a layout of weights for .* got None"),
    (S8, {"dst_layout": "packed", "src_layout": "nchw"}, ValueError, "src_layout must be a layout of weights"),
    (X, {"dst_layout": "packed", "src_layout": "oihw"}, TypeError, "dtype must be int8 or uint8 for dst_layout"),
    (S8, {"dst_layout": "packed", "src_layout": "oihw", "out": S8}, ValueError, "out must be None for dst_layout"),
    (S8, {"dst_layout": "packed", "src_layout": "oihw", "k_order": "iho"}, ValueError, "k_order must be an order of"),
    (S8, {"dst_layout": "packed", "src_layout": "oihw", "k_order": 1}, TypeError, "k_order must be a string"),
    (PACKED, {"dst_layout": "packed", "src_layout": "packed"}, ValueError, "src_layout must be a layout of weights"),
    (PACKED, {"src_layout": "packed"}, ValueError, "dst_layout must be a layout of weights"),
    (PACKED, {"src_layout": "packed", "dst_layout": "nchw"}, ValueError, "dst_layout must be a layout of weights"),
    (PACKED, UNPACK, ValueError, "shape must be the sizes of o, i, h, w"),
    (PACKED, {**UNPACK, "shape": (2, 60)}, ValueError, "shape must be 4 sizes"),
    (PACKED, {**UNPACK, "shape": 5}, TypeError, "shape must be integers"),
    (PACKED, {**UNPACK, "shape": (2, 3, 4, 5.0)}, TypeError, "shape must be integers"),
    (PACKED, {**UNPACK, "shape": (2, 3, 4, 4)}, ValueError, "shape must begin with .2,., and its other"),
    (PACKED, {**UNPACK, "shape": (3, 3, 4, 5)}, ValueError, "shape must begin with"),
    (PACKED, {**UNPACK, "shape": (2, -3, -4, 5)}, ValueError, "shape must be 4 sizes"),
    (S8, UNPACK, TypeError, "x must be a PackedB"), ([PACKED], UNPACK, TypeError, "x must be a PackedB"),
    (PACKED, {**UNPACK, "dst_layout": "goi"}, TypeError, "x must be a sequence of PackedB"),
    ([], {**UNPACK, "dst_layout": "goi"}, TypeError, "x must be a sequence of PackedB"),
    ([PACKED, int8blas.pack_b(np.ones((60, 3), np.int8))], {**UNPACK, "dst_layout": "goi"}, ValueError,
     "x must have groups of one shape"),
])  # fmt: skip
def test_wrong_arguments(x, options, error, text):
    before = S8.copy(), X.copy()
    with pytest.raises(error, match=f"^{text}"):
        reorder(x, **options)
    assert_same(S8, before[0])
    assert_same(X, before[1])


@pytest.mark.parametrize(("w", "options", "error", "text"), [
    (S8, {}, TypeError, "w must be float32, .* got int8"), (X * np.inf, {}, ValueError, "w must be finite"),
    (X, {"layout": "oiw"}, ValueError, "w must have 3 dimensions, as layout 'oiw' has"),
    (X, {"layout": "xyz"}, ValueError, "layout must be an order"), (X, {"mask": 16}, ValueError, "mask must be"),
    (X, {"mask": "all"}, ValueError, "mask must be an integer or 'per_channel' or 'per_tensor'"),
    (X, {"layout": "nchw"}, ValueError, "layout must be one of weights for 'per_channel'"),
])  # fmt: skip
def test_wrong_weights(w, options, error, text):
    with pytest.raises(error, match=f"^{text}"):
        weights_scales(w, **options)
