"""Post-ops in the order given, each bit for bit: Sum, Eltwise where every operation is rounded once, Binary, PReLU."""

from itertools import permutations, product

import numpy as np
import pytest
import reference_quantized
from arrays import LAYOUTS, place
from layers import DST_DTYPES, FEW_LAYERS, assert_same_bits, name_of, random_problem
from post_ops import ELTWISES, SPECIAL

import int8blas
from int8blas import Attributes, Binary, Eltwise, PReLU, ReLU, Sum

BINARIES = [*(Binary(algorithm=name) for name in reference_quantized.BINARY), PReLU()]

every_dst = pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
every_eltwise = pytest.mark.parametrize("op", ELTWISES, ids=lambda op: f"{op.algorithm},{op.alpha:g},{op.scale:g}")
every_binary = pytest.mark.parametrize("op", BINARIES, ids=lambda op: getattr(op, "algorithm", "prelu"))


def identity(n, ops, dst_dtype=np.float32):
    """A layer whose sums are 0, with these post-ops; the first of them can replace the 0 by any value."""
    return int8blas.InnerProduct(
        np.zeros((n, 1), np.int8), src_dtype=np.uint8, dst_dtype=dst_dtype, attributes=Attributes(post_ops=ops)
    )


def through(values, *ops, operands=()):
    """float32 values (rows, columns) after some post-ops; zeros keep their sign."""
    negative_zero = Eltwise("linear", -1, -0.0)
    layer = identity(values.shape[1], (negative_zero, Binary(), *ops))
    return layer(np.zeros((len(values), 1), np.uint8), operands=[values, *operands])


# --- one at a time ---------------------------------------------------------------------------------------------------


@every_eltwise
def test_eltwise_on_special_values(isa, op, rng):
    values = np.concatenate([SPECIAL, rng.normal(0, 3, 90).astype(np.float32)]).reshape(3, -1)
    assert_same_bits(through(values, op), reference_quantized.post_ops(values, [op]))


@every_eltwise
def test_eltwise_after_a_sum(isa, op, rng):
    for dst_dtype, shape in product(DST_DTYPES, FEW_LAYERS):
        random_problem(rng, *shape, dst_dtype=dst_dtype, ops=[op]).check(dst_dtype=dst_dtype)


@every_binary
def test_binary_on_special_values(isa, op):
    values = np.repeat(SPECIAL, len(SPECIAL)).reshape(len(SPECIAL), -1)
    operand = np.tile(SPECIAL, len(SPECIAL)).reshape(values.shape)
    result = through(values, op, operands=[operand])
    assert_same_bits(result, reference_quantized.post_ops(values, [op], [operand]))


# Shapes of an operand that broadcast to m x n.
OPERANDS = {
    "all": lambda m, n: (m, n), "row": lambda m, n: (1, n), "vector": lambda m, n: (n,), "column": lambda m, n: (m, 1),
    "value": lambda m, n: (), "one": lambda m, n: (1,), "one by one": lambda m, n: (1, 1),
}  # fmt: skip


@every_binary
@pytest.mark.parametrize("shape_of", OPERANDS.values(), ids=OPERANDS)
def test_operands_are_broadcast(isa, op, shape_of, rng):
    for at_creation, (m, n, k) in product((False, True), FEW_LAYERS):
        operand = rng.normal(0, 2, shape_of(m, n)).astype(np.float32)
        given = type(op)(operand, *([op.algorithm] if isinstance(op, Binary) else [])) if at_creation else op
        problem = random_problem(rng, m, n, k, dst_dtype=np.float32, ops=[given])
        problem.but(operands=() if at_creation else (operand,)).check(at_creation=at_creation)


def test_operands_of_any_type_and_strides(isa, rng):
    for layout, (m, n, k) in product(LAYOUTS, FEW_LAYERS):
        problem = random_problem(rng, m, n, k, dst_dtype=np.float32, ops=[Binary(), PReLU()])
        operands = [place(rng.normal(0, 2, (m, n)).astype(np.float32), layout), rng.integers(-5, 5, n)]
        problem.but(operands=tuple(operands)).check(layout=layout)
        operands = [operands[0].astype(np.float64), operands[1].astype(np.float16)]
        problem.but(operands=tuple(operands)).check(layout=layout)


def test_operands_go_to_the_post_ops_without_one(isa, rng):
    m, n, k = 9, 33, 20
    own, first, second = rng.normal(0, 2, (3, n)).astype(np.float32)
    ops = [Binary(algorithm="mul"), Binary(own, "sub"), ReLU(0.5), PReLU()]
    problem = random_problem(rng, m, n, k, dst_dtype=np.float32, ops=ops)
    for operands in ((first, second), (second, first)):
        problem.but(operands=operands).check()


# --- Sum -------------------------------------------------------------------------------------------------------------


@every_dst
@pytest.mark.parametrize("op", [Sum(), Sum(0.5), Sum(-1.25, 7), Sum(0.1, -(2**31)), Sum(3, 2**24 + 1)], ids=str)
def test_sum_adds_what_the_destination_held(isa, dst_dtype, op, rng):
    for shape in FEW_LAYERS:
        random_problem(rng, *shape, dst_dtype=dst_dtype, ops=[op]).check()


@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8], ids=name_of)
@pytest.mark.parametrize("old_dtype", [np.uint8, np.int8], ids=name_of)
def test_sum_reads_the_destination_as_another_type(isa, dst_dtype, old_dtype, rng):
    for shape in FEW_LAYERS:
        problem = random_problem(rng, *shape, dst_dtype=dst_dtype, ops=[Sum(0.3, 11, old_dtype)])
        problem.check()
        if dst_dtype != old_dtype:
            plain = problem.but(ops=(Sum(0.3, 11),))
            assert (plain.result() != problem.result()).any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sum_into_any_strides(isa, layout, rng):
    for dst_dtype, shape in product(DST_DTYPES, FEW_LAYERS):
        problem = random_problem(rng, *shape, dst_dtype=dst_dtype, ops=[Sum(0.5), ReLU()])
        out = place(problem.old, layout)
        assert problem.result(out=out) is out
        assert_same_bits(out.copy(order="C"), problem.expected(), dst_dtype=dst_dtype)


def test_a_skip_connection(isa, rng):
    # dst = quantized(max(layer(src) + dst, 0)), as at the end of a residual block
    for src_dtype, shape in product((np.uint8, np.int8), FEW_LAYERS):
        random_problem(rng, *shape, src_dtype, dst_dtype=src_dtype, ops=[Sum(0.02, 3), ReLU()]).check()


def test_each_sum_adds_the_same_old_values(isa, rng):
    for shape in FEW_LAYERS:
        random_problem(rng, *shape, ops=[Sum(0.5), Eltwise("abs"), Sum(-0.25, 2)]).check()


# --- chains ----------------------------------------------------------------------------------------------------------


CHAIN = (ReLU(0.25), Sum(0.5, 3), Binary(algorithm="max"), PReLU())


@every_dst
@pytest.mark.parametrize(
    "chain", list(permutations(CHAIN)), ids=lambda chain: "-".join(type(op).__name__ for op in chain)
)
def test_the_order_is_the_one_given(isa, chain, dst_dtype, rng):
    operands = {op: rng.normal(0, 3, 33).astype(np.float32) for op in chain if isinstance(op, (Binary, PReLU))}
    problem = random_problem(rng, 9, 33, 20, dst_dtype=dst_dtype, ops=chain)
    problem.but(operands=tuple(operands.values())).check()


def test_a_first_relu_is_followed_by_the_others(isa, rng):
    for first, dst_dtype, shape in product(
        (ReLU(), ReLU(0, 2), ReLU(0.5), Eltwise("abs")), (np.int8, np.float32), FEW_LAYERS
    ):
        ops = [first, Eltwise("linear", -1, 3), ReLU(), Eltwise("clip", 0.5, 4)]
        random_problem(rng, *shape, dst_dtype=dst_dtype, ops=ops).check()


@every_dst
def test_random_chains(isa, dst_dtype, rng):
    candidates = [*ELTWISES, *BINARIES, Sum(0.5), Sum(-0.1, 3)]
    for shape in FEW_LAYERS * 4:
        ops = [candidates[i] for i in rng.integers(0, len(candidates), rng.integers(2, 9))]
        scales, zero_points = (("src", "weights", "dst"), ("src",)) if rng.random() < 0.5 else (("weights",), ())
        operands = [rng.normal(0, 3, shape[1]) for op in ops if isinstance(op, (Binary, PReLU))]
        problem = random_problem(
            rng, *shape, dst_dtype=dst_dtype, ops=ops, scales=scales, zero_points=zero_points, vectors=("src", "dst")
        )
        problem.but(operands=tuple(operands)).check(ops=ops)


def test_as_many_as_there_may_be(isa, rng):
    ops = [Eltwise("linear", 1.01, 0.1)] * 32
    random_problem(rng, 9, 33, 20, dst_dtype=np.float32, ops=ops).check()
    with pytest.raises(ValueError, match=r"^post_ops must be at most 32, got 33"):
        identity(3, [*ops, ReLU()])


@pytest.mark.parametrize("bias", [None, "f32", "s32"])
def test_post_ops_with_output_scales(isa, bias, rng):
    for dst_dtype, shape in product(DST_DTYPES, FEW_LAYERS):
        ops = [ReLU(0.1), Sum(2, 1), Eltwise("linear", 0.5, 1)]
        problem = random_problem(rng, *shape, dst_dtype=dst_dtype, bias=bias, ops=ops, scales=(), zero_points=())
        problem.but(output_scales=rng.uniform(-0.02, 0.02, shape[1]).astype(np.float32)).check()
