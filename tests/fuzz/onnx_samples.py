"""GridSample, Resize, RoiAlign and NonMaxSuppression with all attributes, against onnx's reference implementation. All
positions, weights and elements are multiples of powers of two in float64, so that all sums are exact."""

import math

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx_models import run_again

import int8blas.onnx

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")


def integers(draws, low, high, shape):
    """Return an array of integers."""
    return np.array([draws.integer(low, high) for _ in range(math.prod(shape))]).reshape(shape)


def sampled(draws):
    """Return GridSample's attributes and inputs."""
    dims = draws.integer(1, 3)
    sizes = [draws.integer(2, 5) for _ in range(dims)]  # onnx cannot reflect at a single element: it divides by 0
    x = draws.array(np.int8, (draws.integer(1, 2), draws.integer(1, 2), *sizes)).astype(np.float64)
    shape = (len(x), *(draws.integer(1, 3) for _ in range(dims)), dims)
    grid = (integers(draws, -24, 24, shape) * 2 + 1) / 16  # odd: no position lies between two elements
    given = {"mode": draws.among(("linear", "nearest", "cubic") if dims < 3 else ("linear", "nearest")),
             "padding_mode": draws.among(("zeros", "border", "reflection")),
             "align_corners": draws.below(2)}  # fmt: skip
    # onnx clips the position, not the index of each element.
    if given["mode"] == "cubic" and given["padding_mode"] == "border":
        given["mode"] = "linear"
    return given, [x, grid]


def resized(draws):
    """Return Resize's attributes and inputs. Scales are powers of two, or give align_corners such steps."""
    x = draws.array(np.int8, (1, 2, *(draws.among((2, 3, 5)) for _ in range(2)))).astype(np.float64)
    kind = draws.among(COORDINATES)
    sizes = [(size - 1) * draws.among((1, 2, 4)) + 1 if kind == "align_corners" else size * draws.among((1, 2, 4))
             for size in x.shape[2:]]  # fmt: skip
    given = {"coordinate_transformation_mode": kind, "mode": draws.among(("nearest", "linear", "cubic")),
             "axes": [2, 3],
             "nearest_mode": draws.among(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))}  # fmt: skip
    return given, [x, np.empty(0), np.empty(0, np.float32), np.array(sizes)]


def aligned(draws):
    """Return RoiAlign's attributes and inputs."""
    x = draws.array(np.int8, (2, 2, draws.integer(2, 6), draws.integer(2, 6))).astype(np.float64)
    first = integers(draws, -4, 8, (3, 2)) / 2
    rois = np.concatenate([first, first + np.exp2(integers(draws, 0, 2, (3, 2)))], 1)
    given = {"mode": draws.among(("avg", "max")), "spatial_scale": draws.among((1.0, 0.5)),
             "output_height": draws.among((1, 2)), "output_width": draws.among((1, 2)),
             "sampling_ratio": draws.among((0, 1, 2)),
             "coordinate_transformation_mode": draws.among(("half_pixel", "output_half_pixel"))}  # fmt: skip
    return given, [x, rois, integers(draws, 0, 1, (3,))]


def suppressed(draws):
    """Return NonMaxSuppression's attributes and inputs: boxes with an area and different scores."""
    n, count, classes = draws.integer(1, 2), draws.integer(1, 8), draws.integer(1, 2)
    first = integers(draws, 0, 6, (n, count, 2))
    boxes = np.concatenate([first, first + integers(draws, 1, 4, (n, count, 2))], 2).astype(np.float32)
    places = np.argsort(integers(draws, 0, 1 << 30, (n, classes, count)), -1)
    scores = (places.astype(np.float32) + 1) / 16
    center = draws.below(2)
    if center:
        boxes[..., 2:] -= boxes[..., :2]
    limits = [np.array([draws.integer(0, count + 1)]), np.array([draws.among((0.0, 0.25, 0.5, 1.0))], np.float32)]
    least = [np.array([0.2], np.float32)] if draws.below(2) else []
    return {"center_point_box": center}, [boxes, scores, *limits, *least]


FORMS = {"GridSample": (sampled, 20), "Resize": (resized, 19), "RoiAlign": (aligned, 16),
         "NonMaxSuppression": (suppressed, 11)}  # fmt: skip


def problem(draws):
    operator = draws.among(tuple(FORMS))
    attributes, inputs = FORMS[operator][0](draws)
    return {"operator": operator, "attributes": attributes, "inputs": inputs}


def model_of(problem):
    names = [f"x{i}" if x.size else "" for i, x in enumerate(problem["inputs"])]
    node = onnx.helper.make_node(problem["operator"], names, ["y"], **problem["attributes"])
    ports = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for name, x in zip(names, problem["inputs"], strict=True) if name]  # fmt: skip
    number = onnx.TensorProto.INT64 if problem["operator"] == "NonMaxSuppression" else onnx.TensorProto.DOUBLE
    graph = onnx.helper.make_graph([node], "g", ports, [onnx.helper.make_tensor_value_info("y", number, None)])
    opset = onnx.helper.make_opsetid("", FORMS[problem["operator"]][1])
    feeds = {name: x for name, x in zip(names, problem["inputs"], strict=True) if name}
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), feeds


def comparable(y):
    """Return a result in a type that is compared bit by bit, without negative zeros, whose sign no document states."""
    return (y + 0.0).astype(np.float32) if y.dtype == np.float64 else y


def run(problem):
    model, feeds = model_of(problem)
    return (comparable(run_again(int8blas.onnx.load(model), feeds)[0]),)


def oracle(problem):
    model, feeds = model_of(problem)
    (y,) = ReferenceEvaluator(model).run(None, feeds)
    return (y.reshape(-1, 3) if problem["operator"] == "NonMaxSuppression" else comparable(y),)
