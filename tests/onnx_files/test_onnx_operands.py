"""Scales, zero points and biases of every shape that broadcasts: results equal NumPy's formula, fused or not."""

import numpy as np
import pytest
from onnx import numpy_helper
from onnx_models import model_of

import int8blas.onnx

F = np.float32
RNG = np.random.default_rng(11)
A = RNG.integers(0, 256, (3, 4), np.uint8)
B = RNG.integers(-128, 128, (4, 5), np.int8)
# Operands of a result of shape (3, 5), or (5,); the last ones enlarge it.
SHAPES = [(), (1,), (5,), (1, 1), (1, 5), (3, 1), (3, 5), (1, 1, 1), (1, 1, 5), (2, 1, 1), (2, 3, 5), (6, 1, 1, 5)]


def real(shape):
    return RNG.uniform(0.25, 4, shape).astype(F)


def run(text, constants, feeds, opset=18):
    """Return the outputs of a graph with additional constants."""
    model = model_of(text, opset)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return int8blas.onnx.load(model).run(None, feeds)


def equal(y, wanted):
    assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("a", [A, A[0]], ids=["matrix", "vector"])
@pytest.mark.parametrize("constant", [True, False])
def test_sums_are_scaled_by_every_shape(shape, a, constant):
    s, c = real(shape), real(5)
    dims = "m,4" if a.ndim == 2 else "4"
    more = "" if constant else f", float{[*shape] if shape else ''} s"
    text = f"""g (uint8[{dims}] a{more}) => (float y) {{ i = MatMulInteger(a, w) f = Cast<to = 1>(i) p = Mul(f, s)
        y = Add(c, p) }}"""
    values, feeds = {"w": B, "c": c}, {"a": a}
    (values if constant else feeds)["s"] = s
    equal(run(text, values, feeds)[0], (a.astype(np.int64) @ B).astype(F) * s + c)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape], ids=str)
@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("source", ["matrix", "vector"])
@pytest.mark.parametrize("at", ["scale", "bias"])
def test_dynamic_products_take_every_shape(shape, columns, source, at):
    """The source has the range 255, so that its scale is 1 and its zero point 0."""
    a = A.astype(F)
    a[0] = (0, 255, 7, 9)
    a, w = a if source == "matrix" else a[0], B[:, :columns].copy()
    s, c = (real(shape) if at == name else real(()) for name in ("scale", "bias"))
    text = f"""g (float{[*a.shape]} x) => (float y) {{ q, t, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, z)
        f = Cast<to = 1>(i) u = Mul(t, s) p = Mul(f, u) r = Add(p, c) y = Relu(r) }}"""
    wanted = np.maximum((a.astype(np.int64) @ w).astype(F) * s + c, F(0))
    equal(run(text, {"w": w, "s": s, "c": c}, {"x": a})[0], wanted)


IMAGE = RNG.integers(0, 256, (2, 3, 4, 4), np.uint8)
FILTERS = RNG.integers(-128, 128, (5, 3, 1, 1), np.int8)
SHAPES_OF_IMAGES = [(), (1,), (4,), (5, 1, 1), (1, 1, 1, 1), (1, 5, 1, 1), (2, 1, 1, 1), (1, 5, 4, 4), (1, 1, 1, 1, 1),
                    (1, 1, 5, 1, 1), (3, 1, 1, 1, 1)]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES_OF_IMAGES, ids=str)
@pytest.mark.parametrize("at", ["scale", "bias", "operand"])
@pytest.mark.parametrize("dynamic", [True, False])
def test_convolutions_take_every_shape(shape, at, dynamic):
    image = IMAGE.copy()
    image.flat[:2] = 0, 255  # a scale of 1, and a zero point of 0
    s, c, d = (real(shape if at == name else ()) for name in ("scale", "bias", "operand"))
    first = "q, t, z = DynamicQuantizeLinear(x)" if dynamic else "q, t, z = DynamicQuantizeLinear(x) v = Neg(t)"
    text = f"""g (float[2,3,4,4] x) => (float y{"" if dynamic else ", float v"}) {{ {first} i = ConvInteger(q, w, z)
        f = Cast<to = 1>(i) u = Mul(t, s) p = Mul(f, u) r = Add(p, c) n = Relu(r) y = Add(n, d) }}"""
    sums = np.einsum("nchw,oc->nohw", image.astype(np.int64), FILTERS[:, :, 0, 0].astype(np.int64))
    wanted = np.maximum(sums.astype(F) * s + c, F(0)) + d
    equal(run(text, {"w": FILTERS, "s": s, "c": c, "d": d}, {"x": image.astype(F)})[0], wanted)


@pytest.mark.parametrize("shape", [(5, 1, 1), (1, 5, 1, 1)], ids=str)
def test_operands_of_channels_follow_scales_of_channels(shape):
    """The scale is variable, so it cannot be a constant of the layer."""
    s, d = real((5, 1, 1)), real(shape)
    text = """g (uint8[2,3,4,4] x, float[5,1,1] s) => (float y) { i = ConvInteger(x, w) f = Cast<to = 1>(i)
        p = Mul(f, s) n = Relu(p) y = Mul(n, d) }"""
    sums = np.einsum("nchw,oc->nohw", IMAGE.astype(np.int64), FILTERS[:, :, 0, 0].astype(np.int64))
    wanted = np.maximum(sums.astype(F) * s, F(0)) * d
    equal(run(text, {"w": FILTERS, "d": d}, {"x": IMAGE, "s": s})[0], wanted)


def test_the_channels_of_a_normalization_are_those_of_the_larger_result():
    """A scale of five dimensions turns the images into the second axis."""
    s, numbers = real((1, 1, 1, 1, 1)), {name: real(2) for name in "ghmv"}
    text = """g (uint8[2,3,4,4] x) => (float y) { i = ConvInteger(x, w) f = Cast<to = 1>(i) p = Mul(f, s)
        y = BatchNormalization(p, g, h, m, v) }"""
    sums = np.einsum("nchw,oc->nohw", IMAGE.astype(np.int64), FILTERS[:2, :, 0, 0].astype(np.int64))
    g, h, m, v = (each.reshape(-1, 1, 1, 1) for each in numbers.values())
    wanted = (sums.astype(F) * s - m) / np.sqrt(v + F(1e-5)) * g + h
    (y,) = run(text, {"w": FILTERS[:2].copy(), "s": s, **numbers}, {"x": IMAGE})
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, 1e-5, 1e-3)


# Shapes of the parameters of A, B and the result, for these shapes of A and B: ONNX's "per row" and "per column".
PLACES = {
    "vectors": ((3, 4), (4, 5), (3,), (5,), ()),
    "matrices": ((3, 4), (4, 5), (3, 1), (1, 5), (1, 1)),
    "rows": ((3, 4), (4, 5), (3,), (), ()),
    "rows of the result": ((5, 4), (4, 5), (), (), (5, 1)),
    "columns of the result": ((5, 4), (4, 5), (5, 1), (5,), (1, 5)),
    "a stack of A": ((2, 3, 4), (4, 5), (2, 3, 1), (1, 5), ()),
    "stacks": ((2, 3, 4), (2, 4, 5), (2, 3, 1), (2, 1, 5), (2, 1, 1)),
    "as many matrices as rows": ((3, 3, 4), (4, 5), (3, 1, 1), (5,), ()),
    "as many matrices as columns": ((5, 3, 4), (5, 4, 5), (), (5, 1, 1), ()),
    "no rows": ((0, 4), (4, 5), (0,), (5,), ()),
    "no columns": ((3, 4), (4, 0), (3,), (0,), ()),
    "a vector A": ((4,), (4, 5), (1,), (1, 5), ()),
    "a vector A and a stack": ((4,), (2, 4, 5), (), (2, 1, 5), ()),
    "a vector B": ((2, 3, 4), (4,), (2, 3, 1), (1,), ()),
}


def parameters(shape, dtype):
    limits = np.iinfo(dtype)
    return real(shape), RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def product(operator, values, fed):
    """Return a node's result for some inputs that are fed and others that are constant."""
    kinds = {F: "float", np.uint8: "uint8", np.int8: "int8"}
    ports = ", ".join(f"{kinds[values[k].dtype.type]}{[*values[k].shape] if values[k].ndim else ''} {k}" for k in fed)
    text = f"g ({ports}) => ({'uint8' if 'sy' in values else 'int32'} y) {{ y = {operator}({', '.join(values)}) }}"
    constants = {key: value for key, value in values.items() if key not in fed}
    return run(text, constants, {key: values[key] for key in fed}, 21)[0]


@pytest.mark.parametrize("constant", ["all", "all but A", "none"])
@pytest.mark.parametrize("name", PLACES)
def test_products_have_parameters_of_rows_and_columns(name, constant):
    a_shape, b_shape, *shapes = PLACES[name]
    a = RNG.integers(0, 256, a_shape, np.uint8)
    b = RNG.integers(-128, 128, b_shape, np.int8)
    (sa, za), (sb, zb), (sy, zy) = map(parameters, shapes, (np.uint8, np.int8, np.uint8))
    sy = sy * F(3000)
    values = {"a": a, "sa": sa, "za": za, "b": b, "sb": sb, "zb": zb, "sy": sy, "zy": zy}
    fed = {"all": ("a",), "all but A": ("a", "sa", "za"), "none": tuple(values)}[constant]
    # A vector is a matrix of one row or column.
    left, right = a.reshape(-1, a.shape[-1]) if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    rows = [x.reshape(-1, 1) if x.ndim == 1 and x.size != 1 else x for x in (sa, za)]
    sums = (left.astype(np.int64) - rows[1]) @ (right.astype(np.int64) - zb)
    wanted = np.clip(np.rint(sums.astype(F) * (rows[0] * sb / sy)).astype(np.float64) + zy, 0, 255).astype(np.uint8)
    drop = tuple(axis for axis, x in ((-2, a), (-1, b)) if x.ndim == 1)
    equal(product("QLinearMatMul", values, fed), wanted.squeeze(drop))
    if 1 not in (a.ndim, b.ndim) or za.size == zb.size == 1:
        integers = {key: values[key] for key in ("a", "b", "za", "zb")}
        equal(product("MatMulInteger", integers, [key for key in fed if key in integers]),
              sums.astype(np.int32).squeeze(drop))  # fmt: skip


@pytest.mark.parametrize("operation", ["y = Abs(a)", "b = Sigmoid(a) y = Add(x, b)"])
def test_operands_of_one_dimension_make_numbers_vectors(operation):
    text = f"g (float x) => (float y) {{ a = Add(x, c) {operation} }}"
    (y,) = run(text, {"c": np.array([2], F)}, {"x": np.array(-5, F)})
    assert y.shape == (1,)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_numbers_of_two_dimensions_make_matrices_in_attention(shape):
    text = """g (float[4] q, float[4,5] k, float[5,6] v) => (float y) {
        a = Mul(q, c) p = MatMul(a, k) w = Softmax<axis = -1>(p) y = MatMul(w, v) }"""
    feeds = {"q": real(4), "k": real((4, 5)), "v": real((5, 6))}
    (y,) = run(text, {"c": np.full(shape, 0.5, F)}, feeds)
    assert y.shape == ((1, 6) if len(shape) == 2 else (6,))
