"""Convolution of one to three dimensions: all geometries, groups, depthwise, layouts and attributes; and im2col."""

import math

import numpy as np
import reference_convolution
from convolutions import LAYOUTS, random_convolution

import int8blas

from . import layer

WORK = 1 << 17


def geometry(draws, transposed=False):
    """Sizes of the source and the kernel, strides, dilation and padding."""
    spatial = draws.among((2, 1, 3))
    largest, longest = {1: (9, 3), 2: (5, 2.6), 3: (3.6, 2)}[spatial]
    while True:
        size = tuple(draws.size(largest) for _ in range(spatial))
        kernel = tuple(draws.size(longest) for _ in range(spatial))
        more = {
            "strides": tuple(draws.size(2) for _ in range(spatial)),
            "dilation": tuple(draws.size(2) for _ in range(spatial)),
            "padding": tuple((draws.below(3), draws.below(3)) for _ in range(spatial)),
        }
        if draws.once_in(8):  # windows of single pixels
            kernel, more["strides"], more["padding"] = (1,) * spatial, (1,) * spatial, ((0, 0),) * spatial
        if transposed:
            more["output_padding"] = tuple(draws.below(stride) for stride in more["strides"])
        if min(reference_convolution.out_sizes(size, kernel, **more)) > 0:
            return size, kernel, more


def channels(draws):
    """Groups, and channels of source and destination, of all groups."""
    kind = draws.below(5)
    if kind == 3:
        depth = draws.size(7)
        return depth, depth, depth * draws.among((1, 1, 2, 3, 4, 16))
    groups = draws.integer(4, 9) if kind == 4 else draws.integer(1, 3) if kind == 2 else 1
    if kind == 4:
        return groups, groups * draws.among((4, 8)), groups * draws.among((4, 8))
    return groups, groups * draws.size(6), groups * draws.size(6)


def made(draws, transposed):
    """A convolution or deconvolution, small enough that the oracle takes milliseconds."""
    while True:
        size, kernel, more = geometry(draws, transposed)
        groups, ic, oc = channels(draws)
        work = math.prod(size) * math.prod(kernel) * ic * oc // groups
        if work < WORK:
            break
    options = layer.options(draws)
    if transposed and options["numerics"] == "saturating" and work > WORK // 16:
        options["numerics"] = "exact"
    problem = random_convolution(
        draws.generator(), size, kernel, ic, oc, n=draws.among((1, 1, 2, 3, 0)), groups=groups,
        grouped=bool(draws.below(2)), layout=draws.among(LAYOUTS[len(size)]), transposed=transposed, **options, **more,
    )  # fmt: skip
    if options["numerics"] == "exact" and draws.below(4) == 0:
        far = {"src": draws.among((-200, 300, 2**31 - 1)), "weights": draws.among((-300, 1000, -(2**20)))}
        zeros = {tensor: far[tensor] for tensor in draws.some(("src", "weights"))}
        problem = problem.but(zero_points=problem.zero_points | zeros)
    return problem


def finished(draws, transposed):
    """A problem of the family; zero points of the weights are given at creation."""
    problem = layer.finished(draws, made(draws, transposed))
    return problem | ({"at_creation": True} if "weights" in problem["layer"].zero_points else {})


def problem(draws):
    if draws.below(4) < 3:
        return finished(draws, False)
    size, kernel, more = geometry(draws)
    groups, c, n = draws.integer(1, 3), draws.size(4), draws.among((1, 2, 0))
    layout = draws.among(LAYOUTS[len(size)])
    shape = (n, c * groups, *size) if layout[1] == "c" else (n, *size, c * groups)
    more |= {"groups": groups, "layout": layout, "padding_value": draws.below(128)}
    return {"src": draws.array(draws.among((np.uint8, np.int8)), shape), "kernel": kernel, "options": more}


def run(problem):
    if "layer" in problem:
        return layer.run(problem)
    return (int8blas.im2col(problem["src"], problem["kernel"], **problem["options"]),)


def oracle(problem):
    if "layer" in problem:
        return layer.oracle(problem)
    return (reference_convolution.im2col(problem["src"], problem["kernel"], **problem["options"]),)
