"""Operators on elements: their bits, and the order of equal elements."""

import numpy as np
import pytest
from arrays import assert_same
from onnx_models import loaded

import int8blas
from int8blas import Eltwise
from int8blas.onnx.microsoft import sum_of_bytes

RNG = np.random.default_rng(31)
F = np.float32
NAMES = {"float16": "float16", "float32": "float", "float64": "double"}


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("count", [0, 1, 5, 20, 40])
def test_the_largest_elements_keep_the_order_of_their_indices(largest, axis, kind, count):
    x = RNG.integers(0, 50, (40, 41, 42)).astype(kind)
    x.flat[::7] = np.nan if kind.startswith("float") else np.iinfo(kind).max
    text = f"g ({NAMES.get(kind, kind)}[a,b,c] x, int64[1] k) => (y, int64 i) {{ y, i = K(x, k) }}"
    model = loaded(text.replace("K(", f"TopK<largest = {largest}, axis = {axis}>("))
    y, i = model.run(None, {"x": x, "k": np.array([count])})
    order = np.argsort(np.flip(x, axis) if largest else x, axis, kind="stable")
    order = np.flip(x.shape[axis] - 1 - order, axis) if largest else order
    order = order.take(np.arange(count), axis)
    np.testing.assert_array_equal(i, order)
    np.testing.assert_array_equal(y, np.take_along_axis(x, order, axis))


def test_more_elements_than_a_row_has():
    model = loaded("g (float[n] x, int64[1] k) => (float y, int64 i) { y, i = TopK(x, k) }")
    with pytest.raises(ValueError, match="k must be from 0 to 3, got 4"):
        model.run(None, {"x": np.zeros(3, F), "k": np.array([4])})


FUNCTIONS = {
    "Relu": Eltwise("relu"), "Exp": Eltwise("exp"), "Log": Eltwise("log"), "Mish": Eltwise("mish"),
    "Softplus": Eltwise("soft_relu"), "Selu<alpha = 1.5, gamma = 2.0>": Eltwise("elu", 1.5, 0, 2),
    "Tanh": Eltwise("tanh"), "Sigmoid": Eltwise("logistic"), "HardSwish": Eltwise("hardswish"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_functions_have_the_bits_of_the_primitive(isa, name, kind):
    x = np.concatenate([RNG.normal(0, 5, 300), [0, -0.0, np.inf, -np.inf, np.nan]]).astype(kind)
    (y,) = loaded(f"g ({NAMES[kind]}[n] x) => ({NAMES[kind]} y) {{ y = {name}(x) }}", opset=22).run(None, {"x": x})
    np.testing.assert_array_equal(y, int8blas.eltwise(x, FUNCTIONS[name]))


def test_limits_of_bytes():
    x = np.arange(-128, 128).astype(np.int8)
    text = "g (int8[n] x, int8 low, int8 high) => (int8 y, int8 z) { y = Clip(x, low, high) z = Relu(x) }"
    y, z = loaded(text).run(None, {"x": x, "low": np.array(-5, np.int8), "high": np.array(100, np.int8)})
    assert_same(y, np.clip(x, -5, 100))
    assert_same(z, np.maximum(x, 0))


@pytest.mark.parametrize("kind", NAMES)
def test_thresholds_and_infinities(kind):
    x = np.array([-np.inf, -1, -0.0, 0, 0.5, 1, 1.5, np.inf, np.nan], kind)
    text = f"g ({NAMES[kind]}[n] x) => (y, bool a, bool b, bool c, bool d) {{ y = ThresholdedRelu(x)"
    for result, low, high in (("a", 0, 0), ("b", 0, 1), ("c", 1, 0), ("d", 1, 1)):
        text += f" {result} = IsInf<detect_negative = {low}, detect_positive = {high}>(x)"
    y, *found = loaded(text + " }", opset=20).run(None, {"x": x})
    assert_same(y, np.where(x > 1, x, 0).astype(kind))
    for result, wanted in zip(found, ((), (7,), (0,), (0, 7)), strict=True):
        assert np.flatnonzero(result).tolist() == list(wanted)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_batch_normalization_rounds_the_product_and_the_sum(isa, order):
    back = np.argsort(order)
    x = RNG.normal(0, 1, (2, 5, 6, 7)).astype(F)
    s, b, m, v = RNG.uniform(0.5, 2, (4, 5)).astype(F)
    text = f"""g (float[2,d,e,f] x, float[5] s, float[5] b, float[5] m, float[5] v) => (float y) {{
        t = Transpose<perm = {[*map(int, back)]}>(x) y = BatchNormalization<epsilon = 0.0>(t, s, b, m, v) }}"""
    (y,) = loaded(text).run(None, {"x": x.transpose(order).copy(), "s": s, "b": b, "m": m, "v": v})
    factor = s / np.sqrt(v)
    assert_same(y, x * factor[:, None, None] + (b - m * factor)[:, None, None])


@pytest.mark.parametrize("kind", ["float", "uint8", "double", "float16", "bool"])
@pytest.mark.parametrize("perm", [(2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_transposed_results_are_in_c_order(kind, perm):
    dtype = {"float": F, "double": np.float64}.get(kind, kind)
    x = RNG.integers(0, 2, (33, 34, 35)).astype(dtype)
    (y,) = loaded(f"g ({kind}[a,b,c] x) => ({kind} y) {{ y = Transpose<perm = {[*perm]}>(x) }}").run(None, {"x": x})
    assert y.flags.c_contiguous
    assert y.flags.writeable
    assert_same(y, x.transpose(perm))


@pytest.mark.parametrize("stride", [1, 2, 3, 16, 17])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_maxima_of_strided_windows(stride, kind):
    x = RNG.normal(0, 1, (2, 3, 5, 70)).astype(F if kind == "float" else np.float64)
    x[0, 0, 0, ::9] = np.nan
    text = f"g ({kind}[a,b,c,d] x) => ({kind} y) {{ y = MaxPool<kernel_shape = [1, 3], strides = [1, {stride}]>(x) }}"
    (y,) = loaded(text).run(None, {"x": x})
    np.testing.assert_array_equal(y, np.lib.stride_tricks.sliding_window_view(x, 3, 3)[..., ::stride, :].max(-1))


@pytest.mark.parametrize(
    "name",
    [
        "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp",
        "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal",
        "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish",
        "Tan", "Tanh", "ThresholdedRelu",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", NAMES)
def test_arrays_without_dimensions_and_without_elements(name, kind):
    for sizes in ((), (0,), (2, 0)):
        text = f"g ({NAMES[kind]}{[*sizes] or ''} x) => ({NAMES[kind]} y) {{ y = {name}(x) }}"
        (y,) = loaded(text, opset=24).run(None, {"x": np.full(sizes, 0.5, kind)})
        assert isinstance(y, np.ndarray)
        assert (y.dtype, y.shape) == (np.dtype(kind), sizes)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("shape", [(1, 5, 6, 7), (2, 5, 1, 9), (1, 1, 6, 7), (2, 3, 70, 70)])
def test_sums_of_bytes_in_any_order_of_memory(isa, order, shape):
    x = RNG.integers(0, 256, [shape[axis] for axis in order], np.uint8).transpose(np.argsort(order))
    for dtype in (np.int32, np.int64):
        for axes in ((2, 3), (1, 2, 3), (1,), (3,), (0, 1, 2, 3)):
            for keep in (False, True):
                y = sum_of_bytes(x, axes, keep, 3, dtype)
                assert_same(y, (x.astype(dtype) - dtype(3)).sum(axes, dtype, keepdims=keep))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_scales_of_channels_that_are_constant(isa, axis, kind):
    x = RNG.normal(0, 30, (5, 5, 5)).astype(F)
    scale, zero = RNG.uniform(0.1, 2, 5).astype(F), RNG.integers(0, 100, 5).astype(kind)
    given = {"s": scale, "z": zero}
    text = f"""g (float[a,b,c] x) => ({kind} q, float y) {{
        q = QuantizeLinear<axis = {axis}>(x, s, z) y = DequantizeLinear<axis = {axis}>(q, s, z) }}"""
    for _ in range(2):
        q, y = loaded(text, constants=given).run(None, {"x": x})
        s, z = (each.reshape([-1 if i == axis % 3 else 1 for i in range(3)]) for each in (scale, zero.astype(int)))
        limits = np.iinfo(kind)
        assert_same(q, np.clip(np.rint(x / s) + z, limits.min, limits.max).astype(kind))
        assert_same(y, (q - z).astype(F) * s)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_factors_are_applied_in_place(isa, order):
    """A repeated call writes the result to the memory of the normalized rows."""
    text = f"""g (float[2,d,e,f] x, float[5] s, float[5] b) => (float y, float t) {{
        t = Transpose<perm = {[*map(int, np.argsort(order))]}>(x) y = InstanceNormalization(t, s, b) }}"""
    model, s, b = loaded(text), *RNG.normal(0, 1, (2, 5)).astype(F)
    for _ in range(3):
        x = RNG.normal(0, 1, (2, 5, 6, 7)).astype(F)
        y, t = model.run(None, {"x": x.transpose(order).copy(), "s": s, "b": b})
        rows = int8blas.layer_norm(x.reshape(2, 5, 42)).reshape(x.shape)
        assert_same(y, rows * s[:, None, None] + b[:, None, None])
        assert_same(t, x)


@pytest.mark.parametrize("place", [np.s_[:, 1:3, 2:6], np.s_[:1], np.s_[1:2, 4:, :], np.s_[:, ::2], np.s_[::-1, 2:3]])
@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("first", [0, -1])
def test_updates_are_written_to_slices(place, reduction, first):
    """With `first` the indices of the first dimension count from the end."""
    x = RNG.normal(size=(2, 5, 6)).astype(F)
    depth = len(place) if isinstance(place, tuple) else 1
    places = np.stack(np.indices(x.shape[:depth]), -1)[place] + [2 * first, 0, 0][:depth]
    updates = RNG.normal(size=places.shape[:-1] + x.shape[depth:]).astype(F)
    model = loaded(f"""g (float[a,b,c] x, int64[{",".join("tuvw"[: places.ndim])}] i,
        float[{",".join("klm"[: updates.ndim])}] u) => (float y) {{ y = ScatterND<reduction = "{reduction}">(x, i, u) }}
        """)
    wanted = x.copy()
    wanted[place] = updates if reduction == "none" else wanted[place] + updates
    for _ in range(2):
        np.testing.assert_array_equal(model.run(None, {"x": x, "i": places, "u": updates})[0], wanted)
