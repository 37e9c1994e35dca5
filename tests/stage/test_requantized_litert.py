"""Compare layers that requantize in integers with the reference kernels of LiteRT (TensorFlow Lite), if it is
installed."""

import numpy as np
import pytest
from layers import assert_same_bits

from int8blas import Attributes, Convolution, Eltwise, InnerProduct, ReLU

litert = pytest.importorskip("ai_edge_litert.interpreter")
flatbuffers = pytest.importorskip("flatbuffers")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")

ACTIVATIONS = {"NONE": (), "RELU": (ReLU(),), "RELU6": (Eltwise("clip", 0, 6),)}
OPTIONS = {
    "FULLY_CONNECTED": ("FullyConnectedOptions", 4),
    "CONV_2D": ("Conv2DOptions", 3),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", 3),
}


def tensor(model, shape, dtype, scales, zero_point, data=None, axis=0):
    """A tensor of a model, constant if it has data."""
    found, found.quantization = schema.TensorT(), schema.QuantizationParametersT()
    found.type = schema.TensorType.INT8 if dtype == np.int8 else schema.TensorType.INT32
    found.shape, found.buffer = list(shape), 0
    found.quantization.scale = [float(scale) for scale in scales]
    found.quantization.zeroPoint, found.quantization.quantizedDimension = [zero_point] * len(scales), axis
    if data is not None:
        found.buffer = len(model.buffers)
        model.buffers.append(schema.BufferT())
        model.buffers[-1].data = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
    return found


def by_litert(operator, src, weights, bias, shape, scales, zero_points, activation, axis=0, **options):
    """The result of an operator's int8 reference kernel."""
    name, version = OPTIONS[operator]
    model, graph, code, layer = schema.ModelT(), schema.SubGraphT(), schema.OperatorCodeT(), schema.OperatorT()
    code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, operator)
    code.version = version
    layer.opcodeIndex, layer.inputs, layer.outputs = 0, [0, 1, 2], [3]
    layer.builtinOptionsType = getattr(schema.BuiltinOptions, name)
    layer.builtinOptions = getattr(schema, f"{name}T")()
    options["fusedActivationFunction"] = getattr(schema.ActivationFunctionType, activation)
    for option, value in options.items():
        setattr(layer.builtinOptions, option, value)
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [graph], [schema.BufferT()]
    graph.inputs, graph.outputs, graph.operators = [0], [3], [layer]
    graph.tensors = [
        tensor(model, src.shape, np.int8, [scales["src"]], zero_points["src"]),
        tensor(model, weights.shape, np.int8, scales["weights"], 0, weights, axis),
        tensor(model, bias.shape, np.int32, scales["src"] * scales["weights"], 0, bias),
        tensor(model, shape, np.int8, [scales["dst"]], zero_points["dst"]),
    ]
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    interpreter = litert.Interpreter(
        model_content=bytes(builder.Output()), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, src)
    interpreter.invoke()
    return interpreter.get_tensor(3)


def random_values(rng, channels, oc):
    """Bias, scales and zero points with which results are neither all zeros nor all saturated."""
    scales = {
        "src": np.float32(rng.uniform(0.01, 0.05)),
        "weights": rng.uniform(0.002, 0.02, channels).astype(np.float32),
        "dst": np.float32(rng.uniform(0.05, 0.5)),
    }
    zero_points = {"src": int(rng.integers(-128, 128)), "dst": int(rng.integers(-128, 128))}
    return rng.integers(-5000, 5000, oc, np.int32), scales, zero_points


def arguments(scheme, activation, zero_points):
    attributes = Attributes(post_ops=ACTIVATIONS[activation], requantization=scheme)
    return {"src_dtype": np.int8, "dst_dtype": np.int8, "attributes": attributes, "zero_points": zero_points}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_fully_connected_rounds_once(activation, rng):
    for _ in range(6):
        m, k, oc = (int(rng.integers(1, high)) for high in (40, 200, 70))
        src, weights = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-127, 128, (oc, k), np.int8)
        bias, scales, zero_points = random_values(rng, 1, oc)
        wanted = by_litert("FULLY_CONNECTED", src, weights, bias, (m, oc), scales, zero_points, activation)
        # If the weights have a single scale, LiteRT rounds the product of the scales of source and weights to float32.
        scales = {"weights": scales["src"] * scales["weights"][0], "dst": scales["dst"]}
        layer = InnerProduct(weights, bias, scales=scales, **arguments("single", activation, zero_points))
        assert_same_bits(layer(src), wanted, m=m, k=k, oc=oc)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("operator", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_convolutions_round_twice(operator, activation, rng):
    for _ in range(6):
        ic, oc, size = int(rng.integers(3, 70)), int(rng.integers(1, 70)), int(rng.integers(5, 12))
        depthwise = operator == "DEPTHWISE_CONV_2D"
        oc = ic if depthwise else oc
        src = rng.integers(-128, 128, (1, size, size, ic), np.int8)
        weights = rng.integers(-127, 128, (1 if depthwise else oc, 3, 3, ic), np.int8)
        bias, scales, zero_points = random_values(rng, oc, oc)
        options = {"padding": schema.Padding.VALID, "strideW": 1, "strideH": 1, "dilationWFactor": 1}
        options |= {"dilationHFactor": 1} | ({"depthMultiplier": 1} if depthwise else {})
        shape = (1, size - 2, size - 2, oc)
        wanted = by_litert(operator, src, weights, bias, shape, scales, zero_points, activation,
                           axis=3 if depthwise else 0, **options)  # fmt: skip
        ours = weights[0].transpose(2, 0, 1)[:, np.newaxis] if depthwise else weights.transpose(0, 3, 1, 2)
        layer = Convolution(np.ascontiguousarray(ours), bias, groups=ic if depthwise else 1, scales=scales,
                            **arguments("doubling", activation, zero_points))  # fmt: skip
        assert_same_bits(layer(src), wanted, ic=ic, oc=oc)
