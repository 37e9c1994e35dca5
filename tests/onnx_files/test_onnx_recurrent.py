"""LSTM, GRU and RNN: weights that are constants, which load arranges, give the bits of weights that are inputs."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import int8blas.onnx

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def model_of(operator, weights, x, constant, **attributes):
    """Return a model of one node. `weights` has W, R and B."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    names = ["w", "r", "b"][: len(weights)]
    node = helper.make_node(operator, ["x", *names], ["y", "h"], **attributes)
    arrays = dict(zip(names, weights, strict=True))
    inputs = {"x": x} | ({} if constant else arrays)
    graph = helper.make_graph(
        [node], "recurrent", [helper.make_tensor_value_info(name, kind, value.shape) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name in ("y", "h")],
        [numpy_helper.from_array(value, name) for name, value in arrays.items()] if constant else [],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return int8blas.onnx.load(model), inputs


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(
    "attributes", [{}, {"direction": "bidirectional"}, {"direction": "reverse", "clip": 0.5}, {"activations": True}]
)
def test_constant_weights_give_the_bits_of_variable_ones(operator, dtype, with_bias, attributes):
    rng, units, gates = np.random.default_rng(0), 5, GATES[operator]
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    if "activations" in attributes:
        attributes = {
            "activations": {"LSTM": ["Tanh", "Relu", "Tanh"], "GRU": ["Tanh", "Relu"], "RNN": ["Relu"]}[operator]
        }
    shapes = [(directions, gates * units, 3), (directions, gates * units, units), (directions, 2 * gates * units)]
    weights = [rng.normal(0, 1, shape).astype(dtype) for shape in shapes[: 2 + with_bias]]
    x = rng.normal(0, 1, (4, 2, 3)).astype(dtype)
    made = [model_of(operator, weights, x, constant, hidden_size=units, **attributes) for constant in (False, True)]
    (variable, feeds), (constant, feed) = made
    for got, wanted in zip(constant.run(None, feed), variable.run(None, feeds), strict=True):
        assert got.dtype == wanted.dtype == dtype
        np.testing.assert_array_equal(got, wanted)
