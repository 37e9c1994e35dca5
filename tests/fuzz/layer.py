"""Shared by the families of quantized layers: random attributes, and results with and without `out`."""

import numpy as np
from arrays import guarded, heap, with_strides
from layers import DST_DTYPES, SRC_DTYPES

from int8blas import Binary, Eltwise, PReLU, ReLU, Sum

from .draws import held

OPS = (ReLU(), ReLU(0.1), Eltwise("clip", -3, 60), Sum(0.5, 3), Binary(), Binary(None, "mul"), PReLU(), Eltwise("abs"),
       Eltwise("linear", 0.5, -1), Eltwise("hardswish", 1 / 6, 0.5), Eltwise("round"))  # fmt: skip
TENSORS = ("src", "weights", "dst")


def options(draws, zero_points=("src", "dst"), wide=True):
    """Types, bias, quantization and post-ops, as `layers.random_problem` and its variants take them. A source of 16
    bits only if it may be `wide`."""
    src_dtype = draws.among((*SRC_DTYPES, np.int16, np.uint16) if wide else SRC_DTYPES)
    numerics = draws.among(("exact", "exact", "exact", "saturating"))
    return {
        "src_dtype": src_dtype,
        "dst_dtype": draws.among(DST_DTYPES),
        "bias": draws.among((None, "f32", "s32")),
        "scales": draws.some(TENSORS),
        "zero_points": draws.some(zero_points),
        "vectors": draws.some(("weights", "dst")),
        "kind": draws.among(("small", "full", "extreme")),
        "ops": tuple(draws.among(OPS) for _ in range(draws.below(4))) if draws.below(2) else (),
        "numerics": numerics if np.dtype(src_dtype).itemsize == 1 else "exact",
    }


def with_operands(draws, problem, shape):
    """The problem with operands for the post-ops that need one; they broadcast to the shape of the destination."""
    wanted = [op for op in problem.ops if isinstance(op, (Binary, PReLU))]
    operands = tuple(draws.float32s(tuple(size if draws.below(2) else 1 for size in shape), spread=1.0) for _ in wanted)
    return problem.but(operands=operands)


def finished(draws, problem):
    """A problem of the family: the layer with its operands, and the output for its result."""
    shape = problem.dst_shape()
    if draws.below(2):
        allocate = draws.among((heap, heap, guarded("end"), guarded("start")))
        problem = problem.but(src=with_strides(problem.src, draws.strides(problem.src.shape, shared=True), allocate))
    problem = with_operands(draws, problem, shape)
    out = draws.output(problem.dst_dtype, shape) if draws.below(2) else None
    return {"layer": problem, "at_creation": bool(draws.below(2)), "out": out}


def run(problem):
    layer = problem["layer"]
    if problem["out"] is None:
        return (layer.result(problem["at_creation"]),)
    memory, out = problem["out"].fresh()
    if layer.old is not None:
        out[...] = layer.old
    assert layer.result(problem["at_creation"], out=out) is out
    return (canonical(memory, problem["out"]),)


def oracle(problem):
    expected = problem["layer"].expected()
    return (canonical(held(problem["out"], expected), problem["out"]),)


def canonical(memory, output):
    """The stored memory with every NaN replaced by the same one, if there is an output."""
    if output is None:
        return memory
    array = np.ndarray(output.shape, output.dtype, memory, output.offset, output.strides)
    if array.dtype.kind == "f":
        array[np.isnan(array)] = np.nan
    return memory
