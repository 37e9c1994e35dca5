"""max_pool, avg_pool and the global ones: windows, padding by number and name, ceil_mode, `out`."""

import numpy as np
import reference_pooling
from convolutions import LAYOUTS
from layers import DST_DTYPES
from post_ops import ELTWISES

import int8blas

from .draws import held, stored


def problem(draws):
    spatial = draws.integer(1, 3)
    layout = draws.among(LAYOUTS[spatial])
    kernel = tuple(draws.size(2.4) for _ in range(spatial))
    function = draws.among(("max_pool", "avg_pool", "global_max_pool", "global_avg_pool"))
    padding = tuple((draws.below(k), draws.below(k)) for k in kernel)
    options = {"layout": layout}
    if not function.startswith("global"):
        options["strides"] = tuple(draws.size(2) for _ in range(spatial))
        options["padding"] = draws.among((padding, "same", "same_lower"))
        options["ceil_mode"] = bool(draws.below(2)) if options["padding"] is padding else False
        if function == "avg_pool":
            options["include_padding"] = bool(draws.below(2))
    bits = draws.among((3.4, 3.4, {1: 13, 2: 6, 3: 4}[spatial]))
    sizes = [max(k - sum(p), 1) + draws.size(bits) - 1 for k, p in zip(kernel, padding, strict=True)]
    if isinstance(options.get("padding"), str):
        sizes = [max(size, k) for size, k in zip(sizes, kernel, strict=True)]
    c, n = draws.size(7 if bits < 4 else 3), draws.among((1, 1, 2, 3))
    src = draws.array(draws.among((np.uint8, np.int8)), (n, c, *sizes) if layout[1] == "c" else (n, *sizes, c))
    options |= attributes(draws, src.dtype)
    if "avg" in function and "scales" not in options:
        options["dst_dtype"] = draws.among((src.dtype.type, np.float32))
    arguments = (src,) if function.startswith("global") else (src, kernel)
    problem = {"function": function, "arguments": arguments, "options": options, "out": None}
    if draws.below(2):
        problem["out"] = draws.output(options.get("dst_dtype", src.dtype.type), shape_of(*arguments, **options))
    return problem


def attributes(draws, dtype):
    """Either scales, zero points, post-ops and a destination, or no such arguments."""
    if draws.below(2):
        return {}
    target = draws.among(DST_DTYPES)
    zeros = {"src": draws.among((0, 3, -200, 2**31 - 1))}
    if np.dtype(target).kind != "f":
        zeros["dst"] = draws.among((0, 7, 1000))
    scales = {"src": draws.among((1.0, 0.037, -0.25)), "dst": draws.among((1.0, -0.5, 3.0))}
    ops = [draws.among(ELTWISES) for _ in range(draws.below(3))]
    return {"scales": scales, "zero_points": zeros, "post_ops": ops, "dst_dtype": target}


def shape_of(src, kernel=None, **options):
    """The shape of the result."""
    options = {name: value for name, value in options.items() if name in ("strides", "padding", "ceil_mode", "layout")}
    kernel = reference_pooling.spatial_shape(src, options["layout"]) if kernel is None else kernel
    return reference_pooling.dst_shape(src, kernel, **options)


def run(problem):
    function = getattr(int8blas, problem["function"])
    return (stored(problem["out"], function, *problem["arguments"], **problem["options"]),)


def oracle(problem):
    name, arguments, options = problem["function"], problem["arguments"], problem["options"]
    if "scales" in options:
        if name.startswith("global"):
            arguments = (*arguments, reference_pooling.spatial_shape(arguments[0], options["layout"]))
        expected = reference_pooling.with_attributes(name.removeprefix("global_"), *arguments, **options)
    else:
        expected = getattr(reference_pooling, name)(*arguments, **options)
    return (held(problem["out"], expected),)
