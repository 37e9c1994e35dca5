"""InnerProduct: static, with scales by groups of k, and with a dynamic source."""

import numpy as np
import reference_quantized
from layers import GroupedProblem, random_problem

import int8blas

from . import layer

WORK = 14


def problem(draws):
    rows, outputs, inputs = draws.sizes(3, WORK)
    kind = draws.below(4)
    if kind == 3:
        return dynamic(draws, max(rows, 1), max(outputs, 1), max(inputs, 1))
    options = layer.options(draws, layer.TENSORS, wide=kind != 2)
    options["vectors"] += draws.some(("src",))
    if kind == 2:
        return grouped(draws, rows, max(outputs, 1), options)
    weights_dtype = draws.among((np.int8, np.uint8))
    made = random_problem(draws.generator(), rows, outputs, inputs, weights_dtype=weights_dtype, **options)
    if draws.below(4) == 0:
        far = {tensor: draws.among((-200, 300, -(2**20), 2**31 - 1)) for tensor in draws.some(("src", "weights"))}
        if len(far) == 2:
            far["weights"] = min(far["weights"], 2**20)
        scales = {tensor: draws.among((1, -1)) * scale for tensor, scale in made.scales.items()}
        made = made.but(zero_points=made.zero_points | far, scales=scales)
    return layer.finished(draws, made)


def grouped(draws, rows, outputs, options):
    """Scales by groups of k."""
    size, groups = 4 * draws.integer(1, 16), draws.integer(1, 4)
    options["scales"] = tuple(name for name in options["scales"] if name != "weights")
    options["bias"] = "f32" if options["bias"] else None
    generator = draws.generator()
    made = random_problem(generator, rows, outputs, size * groups, **options)
    weights = generator.uniform(0.002, 0.02, (groups, outputs)).astype(np.float32)
    scales, zeros = made.scales | {"weights": weights}, dict(made.zero_points)
    if draws.below(3) == 0:
        scales["src"] = generator.uniform(-0.02, 0.02, (rows, groups)).astype(np.float32)
    for tensor, shape in (("src", (rows, groups)), ("weights", (groups, outputs))):
        if draws.below(3) == 0:
            zeros[tensor] = generator.integers(-400, 400, shape)
    made = GroupedProblem(**vars(made) | {"scales": scales, "zero_points": zeros})
    return layer.finished(draws, made) | {"at_creation": True}


def dynamic(draws, rows, outputs, inputs):
    """A float source, quantized in the call."""
    x = draws.float32s((rows, inputs), draws.among((1.0, 1e-3, 1e6)))
    return {
        "x": x.astype(draws.among((np.float32, np.float16))),
        "weights": draws.array(np.int8, (outputs, inputs)),
        "scale": np.abs(draws.float32s((outputs,), 0.01)) + np.float32(1e-4),
        "bias": draws.among((None, draws.float32s((outputs,)))),
        "dynamic": draws.among(("per_row", "per_tensor")),
        "dynamic_dtype": draws.among((np.int8, np.uint8)),
    }


def run(problem):
    if "layer" in problem:
        return layer.run(problem)
    options = {name: problem[name] for name in ("dynamic", "dynamic_dtype")}
    made = int8blas.InnerProduct(
        problem["weights"], problem["bias"], src_dtype=problem["x"].dtype, dst_dtype=np.float32,
        scales={"weights": problem["scale"]}, **options,
    )  # fmt: skip
    return (made(problem["x"]),)


def oracle(problem):
    if "layer" in problem:
        return layer.oracle(problem)
    quantized, scale, zero = reference_quantized.quantize_dynamically(
        problem["x"], problem["dynamic_dtype"], problem["dynamic"] == "per_row"
    )
    options = {"scales": {"weights": problem["scale"], "src": scale}, "zero_points": {"src": zero}}
    operands = (quantized, problem["weights"], problem["bias"])
    return (reference_quantized.inner_product(*operands, dst_dtype=np.float32, **options),)
