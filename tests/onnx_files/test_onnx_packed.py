"""Nodes of a network that share weights pack them once, and share nothing else."""

import gc
import itertools
import re

import numpy as np
import pytest
from onnx import numpy_helper
from onnx_models import loaded, model_of

import int8blas.onnx

INTEGERS = "int8[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 127}, float s = {0.5}, uint8 z = {3}, " \
           "int8 o = {0}"  # fmt: skip
FILTERS = "int8[4, G, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 127}, float s = {0.5}, " \
          "uint8 z = {3}, int8 o = {0}"  # fmt: skip
SHARED = {
    "MatMulInteger": ("uint8[n, 4]", INTEGERS, "YK = MatMulInteger(XK, w, z)"),
    "QLinearMatMul": ("uint8[n, 4]", INTEGERS, "YK = QLinearMatMul(XK, s, z, w, s, o, s, z)"),
    "QGemm": ("uint8[n, 4]", INTEGERS, "YK = com.microsoft.QGemm<transB = 1>(XK, s, z, w, s, o, , s, z)"),
    "DynamicMatMul": ("float[n, 4]", INTEGERS, "q, a, b = DynamicQuantizeLinear(XK) m = MatMulInteger(q, w, b)"
                      " f = Cast<to = 1>(m) t = Mul(a, s) YK = Mul(f, t)"),
    "StoredMatMul": ("float[n, 4]", INTEGERS, "f = Cast<to = 1>(w) r = Mul(f, s) YK = MatMul(XK, r)"),
    "ConvInteger": ("uint8[n, 4, 3, 3]", FILTERS, "YK = ConvInteger<strides = [2, 2]>(XK, w, z)"),
    "QLinearConv": ("uint8[n, 4, 3, 3]", FILTERS, "YK = QLinearConv(XK, s, z, w, s, o, s, z)"),
    "DynamicConv": ("float[n, 4, 3, 3]", FILTERS, "q, a, b = DynamicQuantizeLinear(XK) m = ConvInteger(q, w, b)"
                    " f = Cast<to = 1>(m) t = Mul(a, s) YK = Mul(f, t)"),
}  # fmt: skip


def packed_matrices():
    gc.collect()
    return sum(issubclass(type(each), int8blas.PackedB) for each in gc.get_objects())


def model_of_copies(name, count):
    """Return a model that repeats an operator with the same weights."""
    kind, constants, body = SHARED[name]
    copies = [re.sub(r"\b([qabmftr])\b", rf"\g<1>{k}", body).replace("XK", f"x{k}").replace("YK", f"y{k}")
              for k in range(count)]  # fmt: skip
    inputs, outputs = (", ".join(f"{kind} {x}{k}" for k in range(count)) for kind, x in ((kind, "x"), ("float", "y")))
    constants = constants.replace("G", "4")
    return loaded(f"g ({inputs}) => ({outputs}) <{constants}> {{ {' '.join(copies)} }}", microsoft=True)


@pytest.mark.parametrize("name", SHARED)
def test_weights_that_nodes_share_are_packed_once(name):
    rng = np.random.default_rng(0)
    kind = SHARED[name][0]
    shape = (5, 4, 3, 3) if "3" in kind else (5, 4)
    xs = [rng.integers(0, 256, shape, np.uint8) if "uint8" in kind else rng.normal(0, 1, shape).astype(np.float32)
          for _ in range(6)]  # fmt: skip
    single = model_of_copies(name, 1)
    wanted = [single.run(None, {"x0": x})[0] for x in xs]
    before = packed_matrices()
    model = model_of_copies(name, 6)
    results = model.run(None, {f"x{k}": x for k, x in enumerate(xs)})
    assert packed_matrices() == before + 1
    for result, one in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, one)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_filters_of_different_geometry_share_nothing(group):
    """The packed format of filters also depends on strides, dilations and zero points."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-128, 128, (4, 4 // group, 3, 3), np.int8)
    attributes = ["", "strides = [2, 2],", "strides = [3, 1],", "dilations = [1, 2],", "dilations = [2, 2],",
                  "pads = [1, 1, 1, 1],"]  # fmt: skip
    variants = list(itertools.product(attributes, ["o", "p", "v"]))
    outputs, nodes = [], []
    for k, (geometry, zero) in enumerate(variants):
        outputs.append(f"int32 y{k}")
        nodes.append(f"y{k} = ConvInteger<{geometry} group = {group}>(x, w, z, {zero})")

    def made(chosen):
        proto = model_of(f"g (uint8[n, 4, 9, 9] x) => ({', '.join(outputs[k] for k in chosen)}) <uint8 z = {{3}}, "
                         f"int8 o = {{0}}, int8 p = {{5}}, int8[4] v = {{1, 2, 3, 4}}> {{"
                         f"{' '.join(nodes[k] for k in chosen)} }}")  # fmt: skip
        proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        return int8blas.onnx.load(proto)

    x = rng.integers(0, 256, (2, 4, 9, 9), np.uint8)
    everything = made(range(len(variants))).run(None, {"x": x})
    for k, result in enumerate(everything):
        np.testing.assert_array_equal(result, made([k]).run(None, {"x": x})[0])


def test_an_lstm_that_is_there_twice_is_packed_once():
    rng = np.random.default_rng(0)
    values = {"w": rng.integers(-128, 128, (1, 3, 16), np.int8), "r": rng.integers(-128, 128, (1, 4, 16), np.int8),
              "s": np.array([0.01], np.float32), "z": np.zeros(1, np.int8)}  # fmt: skip

    def made(count):
        node = "YK, HK = com.microsoft.DynamicQuantizeLSTM<hidden_size = 4>(XK, w, r, , , , , , s, z, s, z)"
        nodes = [node.replace("K", str(k)) for k in range(count)]
        inputs, outputs = (", ".join(f"float[t, n, 3] X{k}" for k in range(count)),
                           ", ".join(f"float Y{k}" for k in range(count)))  # fmt: skip
        proto = model_of(f"g ({inputs}) => ({outputs}) {{ {' '.join(nodes)} }}", microsoft=True)
        proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
        return int8blas.onnx.load(proto)

    xs = [rng.normal(0, 1, (5, 2, 3)).astype(np.float32) for _ in range(3)]
    (single,), before = [made(1)], packed_matrices()
    model = made(3)
    assert packed_matrices() == before + 2
    for result, x in zip(model.run(None, {f"X{k}": x for k, x in enumerate(xs)}), xs, strict=True):
        np.testing.assert_array_equal(result, single.run(None, {"X0": x})[0])
