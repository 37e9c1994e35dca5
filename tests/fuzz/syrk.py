"""syrk_u8s32 and syrk_s8s32: both triangles, transposed or not, C new, given and in place."""

import math

import numpy as np
import reference

import int8blas

from .gemm import BETAS, SATURATING_WORK, SCALARS, zero_point

WORK = 15


def problem(draws):
    name, dtype = draws.among((("u8", np.uint8), ("s8", np.int8)))
    rows, columns, k = draws.sizes(3, WORK)
    n = math.isqrt(rows * columns)
    trans = draws.below(2)
    arguments = {
        "alpha": draws.among(SCALARS),
        "a": draws.array(dtype, (k, n) if trans else (n, k)),
        "beta": draws.among(BETAS),
        "trans": trans,
        "lower": draws.below(2),
        "ao": zero_point(draws, dtype, n),
    }
    if draws.once_in(8) and n * n * k < SATURATING_WORK:
        arguments["numerics"] = "saturating"
    c = draws.below(3)
    return {"function": f"syrk_{name}s32", "arguments": arguments, "c": draws.output(np.int32, (n, n)) if c else None,
            "in_place": c == 2}  # fmt: skip


def run(problem):
    function = getattr(int8blas, problem["function"])
    if problem["c"] is None:
        return (function(**problem["arguments"]),)
    memory, c = problem["c"].fresh()
    result = function(**problem["arguments"], c=c, overwrite_c=problem["in_place"])
    return (memory, memory if result is c else result)


def oracle(problem):
    if problem["c"] is None:
        return (reference.syrk(**problem["arguments"]),)
    memory, c = problem["c"].fresh()
    expected = reference.syrk(**problem["arguments"], c=c)
    return (problem["c"].holding(expected),) * 2 if problem["in_place"] else (memory, expected)
