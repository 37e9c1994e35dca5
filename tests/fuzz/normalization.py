"""softmax, its logarithm, and layer_norm, of every type."""

import elementwise as shared
import numpy as np
import reference_normalization as reference
from post_ops import ELTWISES

import int8blas

from .draws import held, stored
from .layer import canonical

SRC_DTYPES = (np.uint8, np.int8, np.int32, np.float32, np.float16)
DST_DTYPES = (np.uint8, np.int8, np.float32, np.float16)


def problem(draws):
    rows, n = draws.sizes(2, 12, empty=False)
    src_dtype, dst_dtype = draws.among(SRC_DTYPES), draws.among(DST_DTYPES)
    if np.dtype(src_dtype).kind == "f":
        x = draws.float32s((rows, n), draws.among((5.0, 1e-3, 1e3))).astype(src_dtype)
    elif src_dtype == np.int32:
        x = shared.random_integers(draws.generator(), src_dtype, (rows, n))
    else:
        x = draws.array(src_dtype, (rows, n))
    kind = draws.among(("softmax", "log", "layer_norm"))
    scales = {"src": {np.int32: 3e-9, np.uint8: 0.05, np.int8: 0.05}.get(src_dtype, 0.7)}
    scales["src"] *= draws.among((1, -1))
    post_ops = [draws.among(ELTWISES) for _ in range(draws.below(3))]
    options = {"scales": scales, "dst_dtype": dst_dtype, "post_ops": post_ops}
    if np.dtype(dst_dtype).kind in "iu":
        scales["dst"] = 1 / 255 if kind == "softmax" else 0.03
        options["zero_points"] = {"dst": {"softmax": 0, "log": 120, "layer_norm": 3}[kind]}
    if kind == "layer_norm":
        options["gamma"], options["beta"] = draws.float32s((2, n), 1.0)
        options["epsilon"] = draws.among((1e-3, 1e-5, 1e-12))
    elif kind == "log":
        options["log"] = True
    if kind != "layer_norm":
        options["axis"] = draws.among((-1, 0))
    return {"function": "layer_norm" if kind == "layer_norm" else "softmax", "x": x, "options": options,
            "out": draws.output(dst_dtype, x.shape) if draws.below(2) else None}  # fmt: skip


def run(problem):
    function = getattr(int8blas, problem["function"])
    return (canonical(stored(problem["out"], function, problem["x"], **problem["options"]), problem["out"]),)


def oracle(problem):
    expected = getattr(reference, problem["function"])(problem["x"], **problem["options"])
    return (canonical(held(problem["out"], expected), problem["out"]),)
