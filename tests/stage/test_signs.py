"""Negative scales of source, weights and destination, in layers with every type of destination."""

from itertools import product

import numpy as np
import pytest
from convolutions import random_convolution
from layers import DST_DTYPES, FEW_LAYERS, name_of, random_problem

import int8blas
from int8blas import Attributes, Eltwise, ReLU

SIGNS = list(product((1, -1), repeat=3))[1:]
every_sign = pytest.mark.parametrize("signs", SIGNS, ids=str)
every_dst = pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)


def signed(problem, signs):
    """Return the problem with these signs of scales. A third of the scales of a vector keeps its sign."""
    scales = {}
    for (tensor, scale), sign in zip(problem.scales.items(), signs, strict=True):
        mixed = np.where(np.arange(np.size(scale)) % 3, sign, 1).astype(np.float32) if np.ndim(scale) else sign
        scales[tensor] = np.float32(mixed) * scale
    return problem.but(scales=scales)


@every_sign
@every_dst
def test_inner_product(isa, signs, dst_dtype, rng):
    for vectors, ops, shape in product((("weights",), ("src", "dst"), ()), ((), (ReLU(),), (ReLU(0.1),)), FEW_LAYERS):
        problem = random_problem(
            rng, *shape, dst_dtype=dst_dtype, scales=("src", "weights", "dst"), vectors=vectors, ops=ops
        )
        for at_creation in (True, False):
            signed(problem, signs).check(at_creation, signs=signs)


@every_sign
@every_dst
def test_convolution(isa, signs, dst_dtype, rng):
    for groups, ops in product((1, 2, 16), ((), (ReLU(),), (Eltwise("clip", -1, 2),))):
        problem = random_convolution(
            rng, (7, 9), (3, 3), 16, 32, groups=groups, dst_dtype=dst_dtype, scales=("src", "weights", "dst"), ops=ops,
            padding=1,
        )  # fmt: skip
        signed(problem, signs).check(signs=signs)


@pytest.mark.parametrize("scheme", ["doubling", "single"])
def test_integer_arithmetic_has_no_negative_scales(scheme):
    attributes = Attributes(requantization=scheme)
    arguments = {"src_dtype": np.uint8, "dst_dtype": np.int8, "attributes": attributes}
    text = rf"^scales\['weights'\] must be positive with requantization='{scheme}', got -1.0"
    for value in (-1.0, [1.0, -1.0]):
        with pytest.raises(ValueError, match=text):
            int8blas.InnerProduct(np.ones((2, 3), np.int8), scales={"weights": value}, **arguments)


@pytest.mark.parametrize("layer", ["InnerProduct", "Convolution"])
def test_no_outputs_have_no_sign(isa, layer):
    weights, src, dst = (0, 3), (2, 3), (2, 0)
    if layer == "Convolution":
        weights, src, dst = (*weights, 1, 1), (2, 4, 4, 3), (2, 4, 4, 0)
    create = getattr(int8blas, layer)(
        np.zeros(weights, np.int8), src_dtype=np.uint8, dst_dtype=np.uint8,
        attributes=Attributes(post_ops=[ReLU()], scales={"dst": 1 << 1}), scales={"dst": np.zeros(0, np.float32)},
    )  # fmt: skip
    assert create(np.zeros(src, np.uint8)).shape == dst
