"""quantize, dequantize and requantize by every scheme, with parameters along some axes; quantized_multiplier."""

import elementwise as shared
import numpy as np
import reference_quantization as reference
from arrays import with_strides

import int8blas

from .draws import held, stored

WORK = 15


def problem(draws):
    name = draws.among(shared.FUNCTIONS)
    dtype = draws.among(shared.DTYPES)
    shape = tuple(draws.sizes(draws.integer(1, 3), 7 if name in ("doubling", "single") else WORK))
    axis = draws.among((None, 0, -1, tuple(sorted(draws.some(range(len(shape))), key=lambda _: draws.fraction()))))
    generator = draws.generator()
    if name.startswith("quantize"):
        scheme = "onnx" if name.endswith("onnx") else "float"
        x, options = shared.random_floats(generator, shape), {"dtype": dtype, "scheme": scheme}
    elif name == "dequantize":
        x, options = shared.random_integers(generator, dtype, shape), {}
    else:
        x, options = shared.random_integers(generator, np.int32, shape), {"dtype": dtype, "scheme": name}
    scale, zero_point = shared.parameters(generator, dtype, shared.shape_of(x, axis))
    if name in ("quantize", "dequantize", "float") and draws.below(3) == 0:
        zero_point = generator.integers(-(2**31), 2**31, np.shape(zero_point))
    function = "requantize" if name in shared.SCHEMES else name.removesuffix(" onnx")
    result = np.float32 if name == "dequantize" else dtype
    if draws.below(3) == 0:
        x = with_strides(x, draws.strides(shape, shared=True))
    return {"function": function, "x": x, "scale": scale, "zero_point": zero_point, "axis": axis, "options": options,
            "out": draws.output(result, shape) if draws.below(2) else None}  # fmt: skip


def run(problem):
    function, options = getattr(int8blas, problem["function"]), problem["options"]
    arguments = (problem["x"], problem["scale"], problem["zero_point"])
    return (stored(problem["out"], function, *arguments, axis=problem["axis"], **options),)


def oracle(problem):
    x, axis = problem["x"], problem["axis"]
    scale, zero_point = (reference.along(problem[name], axis, x.ndim) for name in ("scale", "zero_point"))
    expected = getattr(reference, problem["function"])(x, scale, zero_point, **problem["options"])
    return (held(problem["out"], expected),)
