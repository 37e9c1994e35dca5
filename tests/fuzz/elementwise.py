"""eltwise, binary, sum and concat of every type, with scales and zero points, and with `out`."""

import elementwise as shared
import numpy as np
import reference_elementwise as reference
from layers import DST_DTYPES
from post_ops import ELTWISES
from reference_quantized import BINARY

import int8blas

from .draws import held, stored
from .layer import canonical

WORK = 12


def values(draws, dtype, shape):
    """An array of a type, with its special values."""
    if np.dtype(dtype).kind == "f":
        return shared.random_floats(draws.generator(), shape).astype(dtype)
    return draws.array(dtype, shape) if dtype != np.int32 else shared.random_integers(draws.generator(), dtype, shape)


def zero_point(draws, dtype):
    return 0 if np.dtype(dtype).kind == "f" else draws.among((0, 3, *shared.ends(dtype), -200, 2**31 - 1))


def scale(draws):
    return draws.among((1.0, 0.5, 0.037, 12.5, -0.25))


def problem(draws):
    function = draws.among(("eltwise", "binary", "sum", "concat"))
    shape = result = tuple(draws.sizes(draws.integer(1, 3), draws.among((WORK, WORK, WORK, WORK + 4))))
    plain = function == "binary" and not draws.below(3)  # bytes of one type, without scales
    dtypes = [draws.among(DST_DTYPES[:2])] * 3 if plain else [draws.among(DST_DTYPES) for _ in range(3)]
    destination = dtypes[2]
    problem = {"function": function, "out": None, "options": {"dst_dtype": destination}}
    options = problem["options"]
    if function in ("sum", "concat"):
        count = draws.integer(1, 4)
        kinds = [draws.among(DST_DTYPES) for _ in range(count)]
        shapes, axis = [shape] * count, draws.below(len(shape))
        if function == "concat":
            shapes = [(*shape[:axis], draws.among((shape[axis], draws.size(4))), *shape[axis + 1 :]) for _ in kinds]
        problem["arguments"] = ([values(draws, *each) for each in zip(kinds, shapes, strict=True)],)
        options["scales"] = [scale(draws) for _ in kinds]
        options["zero_points"] = [zero_point(draws, kind) for kind in kinds]
        options["dst_scale"], options["dst_zero_point"] = scale(draws), zero_point(draws, destination)
        if draws.below(2):
            options["post_ops"] = [draws.among(ELTWISES) for _ in range(draws.integer(1, 2))]
        if function == "concat":
            problem["arguments"] += (axis,)
            result = (*shape[:axis], sum(each[axis] for each in shapes), *shape[axis + 1 :])
            if draws.below(2):
                options.clear()
                destination = kinds[0]
    else:
        names = ("src",) if function == "eltwise" else ("src0", "src1")
        arrays = [values(draws, dtypes[0], shape)]
        if function == "binary":
            arrays.append(values(draws, dtypes[1], tuple(size if draws.below(2) else 1 for size in shape)))
        ops = [draws.among(ELTWISES) for _ in range(draws.below(3))]
        kinds = dict(zip((*names, "dst"), (*dtypes[: len(names)], destination), strict=True))
        options["scales"] = {name: scale(draws) for name in draws.some(tuple(kinds))}
        options["zero_points"] = {name: zero_point(draws, kinds[name]) for name in draws.some(tuple(kinds))
                                  if np.dtype(kinds[name]).kind != "f"}  # fmt: skip
        if function == "eltwise":
            problem["arguments"] = (arrays[0], ops or [ELTWISES[0]])
        else:
            problem["arguments"] = (draws.among(tuple(BINARY)), *arrays)
            options["post_ops"] = ops
        if plain:
            options = problem["options"] = {}
    if draws.below(2):
        problem["out"] = draws.output(destination, result)
    return problem


def run(problem):
    function = getattr(int8blas, problem["function"])
    found = stored(problem["out"], function, *problem["arguments"], **problem["options"])
    return (canonical(found, problem["out"]),)


def oracle(problem):
    expected = getattr(reference, problem["function"])(*problem["arguments"], **problem["options"])
    return (canonical(held(problem["out"], expected), problem["out"]),)
