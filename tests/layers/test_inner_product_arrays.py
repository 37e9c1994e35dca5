"""Sources and destinations of any shape and strides, with nothing read or written outside them."""

from itertools import product

import numpy as np
import pytest
from arrays import BROADCASTS, LAYOUTS, Canary, guarded, needs_mprotect, place, random_values
from layers import (
    DST_DTYPES,
    FEW_LAYERS,
    LAYER_SHAPES,
    WEIGHTS_DTYPES,
    assert_same_bits,
    name_of,
    random_old,
    random_problem,
    sign_pairs,
)

from int8blas import Binary, InnerProduct, PReLU, ReLU, Sum

EMPTY = ((0, 5, 3), (4, 0, 3), (4, 5, 0), (0, 0, 3), (0, 5, 0), (4, 0, 0), (0, 0, 0))

every_dst = pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)


# --- strides ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCASTS])
def test_sources_of_any_strides(isa, layout, rng):
    for (src_dtype, weights_dtype), shape in product(sign_pairs(), (*FEW_LAYERS, *EMPTY[:3])):
        problem = random_problem(rng, *shape, src_dtype, weights_dtype)
        problem.but(src=place(problem.src, layout)).check()


@pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCASTS])
def test_weights_of_any_strides(isa, layout, rng):
    for weights_dtype, shape in product(WEIGHTS_DTYPES, (*FEW_LAYERS, *EMPTY[:3])):
        problem = random_problem(rng, *shape, weights_dtype=weights_dtype)
        problem.but(weights=place(problem.weights, layout)).check()


@every_dst
@pytest.mark.parametrize("misalign", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_the_elements_of_out_are_written(isa, layout, misalign, dst_dtype, rng):
    for shape, ops in product((*FEW_LAYERS, *EMPTY[:3]), ((), (Sum(0.5), ReLU()))):
        problem = random_problem(rng, *shape, dst_dtype=dst_dtype, ops=ops)
        canary = Canary()
        old = random_old(rng, dst_dtype, shape[:2]) if problem.old is None else problem.old
        out = place(old, layout, canary, misalign)
        assert problem.result(out=out) is out
        assert_same_bits(out.copy(order="C"), problem.expected(), shape=shape)
        canary.assert_only_elements_written(out)


def test_operands_are_never_written(isa, rng):
    for layout, shape in product(LAYOUTS, FEW_LAYERS):
        problem = random_problem(rng, *shape, ops=[Binary(), PReLU()])
        canaries = [Canary() for _ in range(3)]
        first, second = rng.normal(0, 1, (2, *shape[:2])).astype(np.float32)
        arrays = [
            place(values, layout, canary) for values, canary in zip((problem.src, first, second), canaries, strict=True)
        ]
        for array in arrays:
            array.flags.writeable = False
        changed = problem.but(src=arrays[0], operands=tuple(arrays[1:]))
        changed.result()
        for array, values, canary in zip(arrays, (problem.src, first, second), canaries, strict=True):
            assert_same_bits(array.copy(order="C"), values)
            canary.assert_only_elements_written(array)


# --- guard pages -----------------------------------------------------------------------------------------------------


def guarded_problem(rng, allocate, *shape, layout="C", **keywords):
    """A problem in which every array ends or begins at a protected page."""

    def vector(values):
        return values if np.ndim(values) == 0 else place(np.reshape(values, (1, -1)), "C", allocate)[0]

    ops = [Binary(), Sum(0.5), PReLU()]
    problem = random_problem(rng, *shape, ops=ops, vectors=("src", "weights", "dst"), **keywords)
    operands = rng.normal(0, 1, shape[:2]).astype(np.float32), rng.normal(0, 1, shape[1]).astype(np.float32)
    return problem.but(
        src=place(problem.src, layout, allocate),
        weights=place(problem.weights, layout, allocate),
        bias=vector(problem.bias),
        scales={tensor: vector(values) for tensor, values in problem.scales.items()},
        zero_points={tensor: vector(values) for tensor, values in problem.zero_points.items()},
        old=place(problem.old, layout, allocate),
        operands=(place(operands[0], layout, allocate), vector(operands[1])),
    )


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("layout", ["C", "F", "C, padded rows", "every other, both reversed"])
def test_nothing_outside_the_arrays_is_read_or_written(isa, side, layout, rng):
    for shape, dst_dtype in product(FEW_LAYERS, DST_DTYPES):
        problem = guarded_problem(rng, guarded(side), *shape, layout=layout, dst_dtype=dst_dtype)
        expected = problem.expected()
        problem.result(out=problem.old)
        assert_same_bits(problem.old.copy(order="C"), expected, shape=shape)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_plain_arrays_is_read_or_written(isa, side, rng):
    for shape, dst_dtype in product(LAYER_SHAPES, DST_DTYPES):
        problem = random_problem(rng, *shape, dst_dtype=dst_dtype)
        problem = problem.but(src=place(problem.src, "C", guarded(side)))
        out = place(np.zeros(shape[:2], dst_dtype), "C", guarded(side))
        assert_same_bits(problem.result(out=out), problem.expected(), shape=shape)


# --- overlap ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ops", [(), (Sum(0.5, 3), ReLU())], ids=["", "sum"])
def test_out_may_overlap_src(isa, ops, rng):
    for m, n, k in ((1, 16, 16), (9, 20, 20), (9, 20, 33), (9, 33, 20), (20, 5, 70)):
        for offset in (0, 1, 5, n):
            memory = np.empty(m * max(n, k) + offset, np.uint8)
            problem = random_problem(rng, m, n, k, dst_dtype=np.uint8, ops=ops)
            src = memory[: m * k].reshape(m, k)
            out = memory[offset : offset + m * n].reshape(m, n)
            src[:] = problem.src
            problem = problem.but(src=src.copy(), old=out.copy())
            expected = problem.expected()
            assert problem.but(src=src).result(out=out) is out
            assert_same_bits(out, expected, offset=offset, m=m, n=n, k=k)


def test_out_may_be_an_operand(isa, rng):
    for shape in FEW_LAYERS:
        problem = random_problem(rng, *shape, dst_dtype=np.float32, ops=[Binary(algorithm="mul")])
        out = rng.normal(0, 1, shape[:2]).astype(np.float32)
        problem = problem.but(operands=(out.copy(),))
        expected = problem.expected()
        assert_same_bits(problem.but(operands=(out,)).result(out=out), expected)


# --- shapes ----------------------------------------------------------------------------------------------------------


def pairs_of_shapes():
    """Shapes of weights and source, and of the resulting destination."""
    yield (7, 12), (12,), (7,)
    yield (7, 12), (5, 12), (5, 7)
    yield (7, 12), (2, 3, 12), (2, 3, 7)
    yield (7, 12), (2, 3, 4, 12), (2, 3, 4, 7)
    yield (7, 12), (5, 3, 4), (5, 7)
    yield (7, 12), (5, 3, 2, 2), (5, 7)
    yield (7, 3, 4), (5, 3, 4), (5, 7)
    yield (7, 3, 2, 2), (5, 3, 2, 2), (5, 7)
    yield (7, 3, 2, 2), (5, 12), (5, 7)
    yield (7, 3, 2, 2), (2, 5, 12), (2, 5, 7)
    yield (7, 3, 2, 2), (12,), (7,)
    yield (7, 3, 2, 1, 2), (5, 3, 2, 1, 2), (5, 7)
    yield (7, 12), (0, 12), (0, 7)
    yield (7, 12), (2, 0, 12), (2, 0, 7)
    yield (7, 12), (0, 3, 4), (0, 7)
    yield (7, 3, 2, 2), (0, 3, 2, 2), (0, 7)
    yield (7, 0), (5, 0), (5, 7)
    yield (7, 0), (2, 3, 0), (2, 3, 7)
    yield (7, 3, 0, 2), (5, 3, 0, 2), (5, 7)
    yield (0, 12), (2, 3, 12), (2, 3, 0)
    yield (0, 3, 2, 2), (5, 3, 2, 2), (5, 0)


@pytest.mark.parametrize(("weights_shape", "src_shape", "dst_shape"), list(pairs_of_shapes()), ids=str)
@pytest.mark.parametrize("with_sum", [False, True])
def test_dimensions_are_flattened_or_lead(isa, weights_shape, src_shape, dst_shape, with_sum, rng):
    m, n, k = int(np.prod(dst_shape[:-1])), dst_shape[-1], int(np.prod(weights_shape[1:]))
    for dst_dtype in (np.int8, np.float32):
        problem = random_problem(rng, m, n, k, dst_dtype=dst_dtype, ops=[Sum(0.5)] if with_sum else [])
        expected = problem.expected().reshape(dst_shape)
        shaped = problem.but(src=problem.src.reshape(src_shape), weights=problem.weights.reshape(weights_shape))
        layer = shaped.layer()
        assert layer.weights_shape == weights_shape
        old = np.zeros(dst_shape, dst_dtype) if problem.old is None else problem.old.reshape(dst_shape)
        if not with_sum:
            assert_same_bits(layer(shaped.src), expected)
        for out in (old.copy(), np.asfortranarray(old), np.repeat(old, 2, axis=-1)[..., ::2]):
            assert layer(shaped.src, out=out) is out
            assert_same_bits(out.copy(order="C"), expected)


def test_dimensions_of_a_strided_source(isa, rng):
    problem = random_problem(rng, 6, 7, 12)
    layer = problem.but(weights=problem.weights.reshape(7, 3, 2, 2)).layer()
    nhwc = np.ascontiguousarray(problem.src.reshape(6, 3, 2, 2).transpose(0, 2, 3, 1))
    assert_same_bits(layer(nhwc.transpose(0, 3, 1, 2)), problem.expected())
    assert_same_bits(layer(problem.src.reshape(3, 2, 12).transpose(1, 0, 2)[::-1].transpose(1, 0, 2)[:, ::-1]),
                     problem.expected().reshape(3, 2, 7))  # fmt: skip


def test_rows_of_scales_and_operands_with_leading_dimensions(isa, rng):
    ops = [Binary(), PReLU()]
    problem = random_problem(rng, 6, 7, 12, ops=ops, scales=("src", "dst"), vectors=("src",), dst_dtype=np.float32)
    full, column = rng.normal(0, 1, (6, 7)).astype(np.float32), rng.normal(0, 1, (6, 1)).astype(np.float32)
    expected = problem.but(operands=(full, column)).expected()
    layer = problem.layer(at_creation=False)
    result = layer(
        problem.src.reshape(2, 3, 12), scales=problem.scales, zero_points=problem.zero_points,
        operands=[full.reshape(2, 3, 7), column.reshape(2, 3, 1)],
    )  # fmt: skip
    assert_same_bits(result, expected.reshape(2, 3, 7))


@every_dst
def test_empty_problems(isa, dst_dtype, rng):
    for shape, ops in product(EMPTY, ((), (ReLU(0.5), Sum(0.5)))):
        for bias in (None, "f32", "s32"):
            problem = random_problem(rng, *shape, dst_dtype=dst_dtype, bias=bias, ops=ops, vectors=("src", "dst"))
            problem.check(at_creation=True)
            problem.check(at_creation=False)


def test_a_source_that_is_not_an_array(isa, rng):
    class Array:
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            return self.values

    problem = random_problem(rng, 9, 33, 20)
    assert_same_bits(problem.layer()(Array(problem.src)), problem.expected())
    assert_same_bits(problem.but(weights=Array(problem.weights)).layer()(problem.src), problem.expected())


def test_the_result_is_new_memory(isa, rng):
    layer = InnerProduct(random_values(rng, np.int8, (33, 20)), src_dtype=np.uint8, dst_dtype=np.float32)
    src = random_values(rng, np.uint8, (9, 20))
    first = layer(src)
    kept = first.copy()
    second = layer(255 - src)
    assert first.flags.c_contiguous
    assert first.flags.owndata
    assert not np.shares_memory(first, second)
    assert_same_bits(first, kept)
