"""Small ONNX models in onnx's own text form, and node tests of the package onnx."""

import importlib
import pkgutil
import warnings
from contextlib import suppress
from functools import cache

import numpy as np
import onnx
import onnx.parser

import int8blas.onnx

PLAIN = {"uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "bool", "float16", "float32",
         "float64", "bfloat16", "object"}  # fmt: skip


def model_of(text, opset=18, microsoft=False, constants=None):
    """Return a model from the text of a graph, "name (inputs) => (outputs) { nodes }", and its constants, arrays by
    name."""
    domains = f'"": {opset}' + (', "com.microsoft": 1' if microsoft else "")
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{domains}]>\n{text}")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(x, name) for name, x in (constants or {}).items())
    return model


def loaded(text, **options):
    return int8blas.onnx.load(model_of(text, **options))


@cache
def node_modules():
    """The modules that create the node tests, by the name of the operator in lower case."""
    from onnx.backend.test.case import node

    return {info.name.replace("_", ""): info.name for info in pkgutil.iter_modules(node.__path__)}


def node_tests(operator):
    """onnx's node tests of an operator, with types that NumPy and bfloat16 cover, without functions that are expanded
    into nodes."""
    from onnx.backend.test.case import node

    name = node_modules().get(operator.lower())
    if name is None:
        return []
    # The modules compute 1 / 0, and set the shape of an array, which NumPy 2.5 deprecates.
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        importlib.import_module(f"{node.__name__}.{name}")
    found = {case.name: case for case in node._NodeTestCases if case.model.graph.node[0].op_type == operator}
    single = [case for name, case in found.items() if "_expanded" not in name]
    return [case for case in single if types_of(case.model.graph) <= PLAIN]


def types_of(graph):
    """The types of the inputs and outputs."""
    ports = [*graph.input, *graph.output]
    numbers = {port.type.tensor_type.elem_type for port in ports if port.type.HasField("tensor_type")}
    return {np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number)).name for number in numbers}


def as_value(data):
    """Test data in the form that run takes."""
    return onnx.numpy_helper.to_array(data) if isinstance(data, onnx.TensorProto) else data


def check(case):
    """Run a node test; integers must be equal, floats within the tolerance of the test."""
    model = int8blas.onnx.load(case.model)
    for inputs, outputs in case.data_sets:
        names = [port.name for port in model.get_inputs()]
        results = model.run(None, dict(zip(names, map(as_value, inputs), strict=True)))
        for result, wanted in zip(results, map(as_value, outputs), strict=True):
            compare(result, wanted, case)


def compare(result, wanted, case):
    if wanted is None:
        assert result is None
    elif isinstance(wanted, list):
        assert len(result) == len(wanted)
        for a, b in zip(result, wanted, strict=True):
            compare(a, b, case)
    else:
        wanted = np.asarray(wanted)
        wanted = wanted.astype(object) if wanted.dtype.kind in "UT" else wanted
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind in "biuO":
            np.testing.assert_array_equal(result, wanted)
        else:
            wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(result.astype(wide), wanted.astype(wide), case.rtol, case.atol)


def run_again(model, feeds):
    """Return the results of a model whose inputs had other values in the run before. Check that the results of inputs
    with another layout in memory are equal."""
    inputs = {name: np.array(x)[..., ::-1].copy() if np.ndim(x) else np.array(x) for name, x in feeds.items()}
    with suppress(ValueError):  # the other values may be invalid
        model.run(None, inputs)
    for name, x in feeds.items():
        inputs[name][...] = x
    results = model.run(None, inputs)
    others = model.run(None, {name: np.array(x, order="F") for name, x in feeds.items()})
    for result, other in zip(results, others, strict=True):
        np.testing.assert_array_equal(result, other, strict=True)
    return tuple(results)
