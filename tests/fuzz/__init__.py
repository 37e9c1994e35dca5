"""Random problems for every public function, against the oracles of the tests: python -m tests.fuzz --minutes 1

A family is a module with three functions:

    problem(draws)      a problem, a dict of everything that a call needs, from random decisions
    run(problem)        the results of int8blas, a tuple of arrays
    oracle(problem)     what they must be

`draws.Draws` makes and records the decisions, so that `campaign.shrunk` can repeat a failing problem with smaller ones;
`snippet.snippet` prints the smallest one as a program. The seed of the campaign, the family and the number determine a
problem, independently of all problems before it.
"""

from importlib import import_module
from importlib.util import find_spec

FAMILIES = ("gemm", "packing", "matmul", "integers", "syrk", "neighbors", "index", "convolution", "deconvolution",
            "inner_product", "four_bits", "pooling", "recurrent", "quantization", "elementwise", "normalization",
            "reorder", "overlaps", "files")  # fmt: skip
if find_spec("onnx"):
    FAMILIES += ("onnx_graphs", "onnx_operands", "onnx_quantization", "onnx_windows", "onnx_bytes", "onnx_samples")


def family(name):
    """The module of a family."""
    return import_module(f"{__name__}.{name}")
