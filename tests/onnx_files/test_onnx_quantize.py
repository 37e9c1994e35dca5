"""load(..., quantize=): float32 files become int8, and their results stay close to the float32 results."""

import argparse
import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import int8blas
import int8blas.onnx
from int8blas.onnx import command

PRODUCTS = {"Conv", "ConvTranspose", "MatMul", "Gemm"}
RNG = np.random.default_rng(5)


def weights(*shape):
    return RNG.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(np.float32)


def model_of(nodes, constants, x_shape, outputs=("y",), opset=17):
    """Return the bytes of a model whose input is "x"."""
    graph = helper.make_graph(
        nodes, "floats", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model.SerializeToString()


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs, [output], output, **attributes)


def images():
    """A network of images: products, and the operators that exporters put between products."""
    nodes = [
        node("Conv", ["x", "w0", "b0"], "first", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Clip", ["first", "zero", "six"], "limited"),
        node("Conv", ["limited", "w1", "b1"], "second", group=8, pads=[1, 1, 1, 1]),
        node("Sigmoid", ["second"], "gate"),
        node("Mul", ["second", "gate"], "swish"),
        node("Conv", ["swish", "w2"], "third"),
        node("BatchNormalization", ["third", "scale", "shift", "mean", "variance"], "normal"),
        node("Add", ["normal", "limited"], "sum"),
        node("Relu", ["sum"], "positive"),
        node("MaxPool", ["positive"], "pooled", kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["pooled", "", "scales"], "large", mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
        node("Concat", ["large", "positive"], "both", axis=1),
        node("ConvTranspose", ["both", "w3", "b3"], "fourth", strides=[2, 2]),
        node("GlobalAveragePool", ["fourth"], "mean_of_all"),
        node("Flatten", ["mean_of_all"], "flat"),
        node("Gemm", ["flat", "w4", "b4"], "y", transB=1),
    ]  # fmt: skip
    constants = {
        "w0": weights(8, 3, 3, 3), "b0": weights(8), "w1": weights(8, 1, 3, 3), "b1": weights(8),
        "w2": weights(8, 8, 1, 1), "w3": weights(16, 6, 2, 2), "b3": weights(6), "w4": weights(5, 6), "b4": weights(5),
        "zero": np.float32(0), "six": np.float32(6), "scales": np.float32([1, 1, 2, 2]),
        "scale": np.abs(weights(8)) + 1, "shift": weights(8), "mean": weights(8), "variance": np.abs(weights(8)) + 1,
    }  # fmt: skip
    return model_of(nodes, constants, [1, 3, 16, 16]), (1, 3, 16, 16)


def texts():
    """A network of texts: matrices, GELU, and a normalization."""
    nodes = [
        node("MatMul", ["x", "w0"], "product"),
        node("Add", ["product", "b0"], "hidden"),
        node("Div", ["hidden", "root"], "divided"),
        node("Erf", ["divided"], "erf"),
        node("Add", ["erf", "one"], "plus"),
        node("Mul", ["hidden", "plus"], "times"),
        node("Mul", ["times", "half"], "gelu"),
        node("MatMul", ["gelu", "w1"], "back"),
        node("Add", ["back", "x"], "sum"),
        node("LayerNormalization", ["sum", "scale", "shift"], "normal"),
        node("Gemm", ["normal", "w2", "b2"], "y"),
    ]
    constants = {
        "w0": weights(8, 32), "b0": weights(32), "w1": weights(32, 8), "w2": weights(8, 4), "b2": weights(4),
        "root": np.float32(np.sqrt(2)), "one": np.float32(1), "half": np.float32(0.5),
        "scale": np.abs(weights(8)) + 1, "shift": weights(8),
    }  # fmt: skip
    return model_of(nodes, constants, ["n", 8]), (6, 8)


NETWORKS = {"images": images, "texts": texts}


def error_of(ours, right):
    """Return the root of the mean squared error, relative to the values."""
    return np.sqrt(np.mean((ours - right) ** 2) / np.mean(right**2))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("how", ["weights", "dynamic", "static"])
def test_files_of_floats_become_int8(name, how, tmp_path):
    file, shape = NETWORKS[name]()
    feeds = [{"x": RNG.normal(0, 1, shape).astype(np.float32)} for _ in range(4)]
    (right,) = int8blas.onnx.load(file).run(None, feeds[0])
    model = int8blas.onnx.load(file, quantize=feeds if how == "static" else how)
    (y,) = model.run(None, feeds[0])
    assert y.shape == right.shape
    assert 0 < error_of(y, right) < 0.04
    calls = model.explain()
    floats = {call.operator for call in calls if call.arithmetic == "other"}
    if how == "weights":
        assert "int8blas.StoredMatMul" in floats
    elif how == "dynamic":
        assert floats & PRODUCTS <= {"ConvTranspose"}
    else:
        assert not floats & PRODUCTS
    if how == "static" and name == "images":  # all tensors between the products are bytes
        assert floats <= {"Flatten", "Identity", "int8blas.View", "Concat", "MaxPool", "Resize"}
    path = tmp_path / "model"
    model.save(path)
    np.testing.assert_array_equal(int8blas.load(path).run(None, feeds[0])[0], y)
    np.testing.assert_array_equal(model.run(None, feeds[0])[0], y)


def test_float16_files_become_int8():
    model = helper.make_model(
        helper.make_graph(
            [node("MatMul", ["x", "w"], "y")], "half",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
            [numpy_helper.from_array(weights(8, 3).astype(np.float16), "w")],
        ), opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    x = {"x": RNG.normal(0, 1, (2, 8)).astype(np.float16)}
    (right,) = int8blas.onnx.load(model).run(None, x)
    quantized = int8blas.onnx.load(model, quantize="dynamic")
    (y,) = quantized.run(None, x)
    assert y.dtype == np.float16
    assert error_of(y.astype(np.float64), right.astype(np.float64)) < 0.04
    assert [call.arithmetic for call in quantized.explain() if "MatMul" in call.operator] == ["int8"]


def test_kept_nodes_stay_in_float32():
    file, shape = images()
    x = {"x": RNG.normal(0, 1, shape).astype(np.float32)}
    model = int8blas.onnx.load(file, quantize=[x], keep=["first", "y"])
    kept = {call.node: call.operator for call in model.explain() if call.arithmetic == "other"}
    assert {kept.get("first"), kept.get("y")} == {"Conv", "Gemm"}


def test_ranges_have_the_least_squared_error():
    """Rare large values are clipped if that costs less than large steps."""
    file = model_of([node("MatMul", ["x", "w"], "y")], {"w": np.eye(4, dtype=np.float32)}, ["n", 4])
    x = np.random.default_rng(0).standard_t(3, (20_000, 4)).astype(np.float32)
    (y,) = int8blas.onnx.load(file, quantize={"x": x}).run(None, {"x": x})
    of_range = (x.max() - x.min()) / 255 / np.sqrt(12) / np.sqrt(np.mean(x**2))
    assert error_of(y, x) < 0.95 * of_range


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantize": "static"}, "quantize must be 'weights', 'dynamic' or calibration data, got 'static'"),
        ({"quantize": "dynamic", "keep": ["none", "y"]}, "keep must have names of nodes, got 'none'"),
        ({"keep": ["y"]}, "keep must be given with quantize only"),
        ({"quantize": []}, "batches must have at least one, got none"),
        ({"quantize": [{"z": 1}]}, "feeds must have"),
        ({"quantize": {"x": np.full((1, 8), np.inf, np.float32)}}, "activation"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        int8blas.onnx.load(texts()[0], **arguments)
    for keep in ("y", None, iter(["y"])):
        with pytest.raises(TypeError, match="keep must be a sequence of names, got "):
            int8blas.onnx.load(texts()[0], quantize="dynamic", keep=keep)


def test_files_that_have_nothing_to_quantize_are_refused():
    file = model_of([node("Relu", ["x"], "y")], {}, [3])
    with pytest.raises(ValueError, match="products of float32 with constant weights to be quantized, got none"):
        int8blas.onnx.load(file, quantize="dynamic")
    file = model_of([node("MatMul", ["x", "w"], "y")], {"w": weights(3, 3)}, [1, 3], opset=9)
    with pytest.raises(ValueError, match="operators of version 11 or later to be quantized, got version 9"):
        int8blas.onnx.load(file, quantize="dynamic")


def test_the_command_says_what_quantization_costs(tmp_path, capsys):
    file, shape = images()
    path, inputs = tmp_path / "images.onnx", tmp_path / "inputs.npz"
    path.write_bytes(file)
    np.savez(inputs, x=RNG.normal(0, 1, shape).astype(np.float32))
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    for how in ([], ["weights"], ["static"]):
        options = parser.parse_args([str(path), "--inputs", str(inputs), "--quantize", *how])
        assert command.main(options) == 0
        shown = capsys.readouterr().out
        assert re.search(r"output y: error 0\.0\d+ of the float32 values, .* same place in 1 of 1 rows", shown)
    assert "QuantizedConv" in shown


def test_deep_networks():
    count = 2000  # more than Python's limit of nested calls
    nodes = [node("MatMul", ["x", "w"], "0")]
    nodes += [node("Relu" if k % 2 else "Neg", [str(k)], str(k + 1)) for k in range(count)]
    nodes += [node("MatMul", [str(count), "w"], "y")]
    model = model_of(nodes, {"w": weights(8, 8)}, (2, 8))
    feeds = {"x": RNG.normal(size=(2, 8)).astype(np.float32)}
    (wanted,) = int8blas.onnx.load(model).run(None, feeds)
    for quantize in ("weights", "dynamic", [feeds]):
        (got,) = int8blas.onnx.load(model, quantize=quantize).run(None, feeds)
        assert np.abs(got - wanted).max() < 0.1
