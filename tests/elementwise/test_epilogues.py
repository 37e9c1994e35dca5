"""Scales of either sign, zero points beyond the type, and post-ops after every element-wise primitive, bit for bit."""

import functools
from itertools import product

import numpy as np
import pytest
import reference_elementwise
import reference_normalization
import reference_pooling
from layers import DST_DTYPES, assert_same_bits, name_of

import int8blas
from int8blas import Binary, Eltwise, PReLU, ReLU, Sum

BYTES = (np.uint8, np.int8)
OPERAND = np.linspace(-2, 3, 24, dtype=np.float32).reshape(1, 4, 1, 6)
CHAINS = (
    [], [ReLU()], [Eltwise("hardsigmoid")], [Binary(OPERAND, "mul"), PReLU(OPERAND[0, 0])], [Sum(0.5, 3), ReLU(0.25)],
    [Eltwise("clip", -1, 2, 3), Sum(-1), Binary(0.5, "max")],
)  # fmt: skip
SCALES = ({}, {"src": 0.5}, {"src": -0.25, "dst": 0.5}, {"dst": -0.125})
ZEROS = ({}, {"src": -200, "dst": 1000}, {"src": 2**31 - 1, "dst": -(2**31)}, {"src": 3, "dst": 7})
every_chain = pytest.mark.parametrize("chain", CHAINS, ids=lambda ops: "-".join(type(op).__name__ for op in ops))
every_dst = pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)


def image(rng, dtype, shape=(2, 4, 5, 6)):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def only(values, types):
    """The values of tensors of integers."""
    return {name: value for name, value in values.items() if np.dtype(types[name]).kind != "f"}


def check(function, oracle, arguments, options, dst_dtype, rng):
    """Compare a call without `out` (if there is no Sum) with a call whose `out` has any order in memory."""
    plain = oracle(*arguments, **options | {"post_ops": ()})
    with np.errstate(invalid="ignore"):
        old = (rng.standard_normal(plain.shape) * 9).astype(dst_dtype)
    expected = oracle(*arguments, **options, old=old)
    if not any(isinstance(op, Sum) for op in options["post_ops"]):
        assert_same_bits(function(*arguments, **options), expected, options=options)
    for out in (old.copy(), np.asfortranarray(old)):
        assert function(*arguments, **options, out=out) is out
        assert_same_bits(out.copy(order="C"), expected, options=options)


@every_chain
@every_dst
def test_pooling(isa, chain, dst_dtype, rng):
    windows = (
        (3, {"strides": 1, "padding": 1}),
        (2, {"strides": 2, "padding": ((0, 1), (1, 0)), "ceil_mode": True}),
    )
    for src_dtype, (kernel, window), scales, zeros in product(BYTES, windows, SCALES, ZEROS):
        src, types = image(rng, src_dtype), {"src": src_dtype, "dst": dst_dtype}
        if kernel == 2 and any(isinstance(op, PReLU) for op in chain):
            continue  # its operands have the shape of the result for the first windows
        given = {"scales": scales, "zero_points": only(zeros, types), "post_ops": chain}
        if not any(given.values()):
            continue  # other tests cover the primitive without attributes
        for name in ("max_pool", "avg_pool"):
            more = {"include_padding": True} if name == "avg_pool" else {}
            oracle = functools.partial(reference_pooling.with_attributes, name)
            options = given | window | more | {"dst_dtype": dst_dtype}
            check(getattr(int8blas, name), oracle, (src, kernel), options, dst_dtype, rng)


def test_the_largest_number_of_a_negative_scale_is_the_smallest_element(isa):
    x = np.arange(16, dtype=np.int8).reshape(1, 4, 4, 1)
    result = int8blas.max_pool(x, 2, scales={"src": -1.0}, dst_dtype=np.float32)
    assert_same_bits(result, -x[:, ::2, ::2].astype(np.float32))
    assert int8blas.global_max_pool(x, scales={"src": -1.0, "dst": -1.0}).item() == 0
    assert int8blas.global_avg_pool(x, scales={"src": -2.0}, dst_dtype=np.float32).item() == -15


@every_chain
@every_dst
def test_sum_and_concat(isa, chain, dst_dtype, rng):
    for scales, dst_scale, zero in product(((0.5, 2), (-0.25, 1)), (1, -0.5), (0, -200, 2**31 - 1)):
        srcs = [image(rng, np.uint8, (2, 4, 5, 6)), image(rng, np.int8, (2, 4, 5, 6))]
        dst_zero = 0 if np.dtype(dst_dtype).kind == "f" else zero
        options = {"scales": scales, "zero_points": (zero, -zero), "dst_scale": dst_scale, "dst_zero_point": dst_zero,
                   "post_ops": chain, "dst_dtype": dst_dtype}  # fmt: skip
        for name, arguments in (("sum", (srcs,)), ("concat", ([src[:, :, : 2 + i] for i, src in enumerate(srcs)], 2))):
            check(getattr(int8blas, name), getattr(reference_elementwise, name), arguments, options, dst_dtype, rng)


@pytest.mark.parametrize("src_dtype", [np.uint8, np.int8, np.int32, np.float32], ids=name_of)
@every_chain
@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8, np.float32, np.float16], ids=name_of)
def test_softmax_and_layer_norm(isa, chain, dst_dtype, src_dtype, rng):
    src = (rng.standard_normal((2, 4, 5, 6)) * 40 + 64).astype(src_dtype)
    types = {"src": src_dtype, "dst": dst_dtype}
    for scales, zeros in product(({}, {"src": 0.05, "dst": 0.01}, {"src": -0.02, "dst": -0.02}), ZEROS):
        options = {"scales": scales, "zero_points": only(zeros, types), "post_ops": chain, "dst_dtype": dst_dtype}
        softmax = ((src,), (src, 1), (src, -1))
        for i, arguments in enumerate(softmax):
            more = {"log": True} if i == 2 else {}
            check(int8blas.softmax, reference_normalization.softmax, arguments, options | more, dst_dtype, rng)
        gamma, beta = rng.standard_normal((2, 6)).astype(np.float32)
        for arguments in ((src,), (src, gamma, beta)):
            check(int8blas.layer_norm, reference_normalization.layer_norm, arguments, options, dst_dtype, rng)


@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
def test_eltwise_and_binary(isa, dst_dtype, rng):
    for src_dtype, scales, zeros in product(BYTES, SCALES, ZEROS):
        for size in (30, 5000):  # for 5000 elements, a function of a byte uses a table
            src, other = image(rng, src_dtype, size), image(rng, src_dtype, size)
            options = {"zero_points": only(zeros, {"src": src_dtype, "dst": dst_dtype}), "dst_dtype": dst_dtype}
            result = int8blas.eltwise(src, ReLU(), scales=scales, **options)
            assert_same_bits(result, reference_elementwise.eltwise(src, [ReLU()], scales=scales, **options))
            options["zero_points"] = {n.replace("src", "src1"): zero for n, zero in options["zero_points"].items()}
            named = {name.replace("src", "src0"): scale for name, scale in scales.items()}
            for op in ("add", "mul", "max"):
                result = int8blas.binary(op, src, other, scales=named, **options)
                assert_same_bits(result, reference_elementwise.binary(op, src, other, scales=named, **options))


# --- errors ----------------------------------------------------------------------------------------------------------

X = np.ones((1, 4, 4, 2), np.uint8)
POOLS = {"max_pool": (X, 2), "avg_pool": (X, 2), "global_max_pool": (X,), "global_avg_pool": (X,)}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize(("changes", "error", "text"), [
    *(({"scales": {tensor: value}}, ValueError, f"scales['{tensor}'] must be")
      for tensor in ("src", "dst") for value in (0, -0.0, np.nan, np.inf, 1e39, [1.0, 2.0])),
    ({"scales": {"dst": 2e-39}}, ValueError, "scales['dst'] must be more than 2**-128"),
    ({"scales": {"weights": 1}}, ValueError, "scales must be for 'src' or 'dst', got 'weights'"),
    ({"zero_points": {"src": 2**31}}, ValueError, "zero_points['src'] must be"),
    ({"zero_points": {"dst": 0.5}}, TypeError, "zero_points['dst'] must be"),
    ({"zero_points": {"dst": 1}, "dst_dtype": np.float32}, ValueError, "zero_points['dst'] must be 0 for float32"),
    ({"post_ops": [3]}, TypeError, "post_ops must be Sum, Eltwise, Binary or PReLU, got int"),
    ({"post_ops": [Binary()]}, ValueError, "post_ops must have operands, got a Binary without one"),
    ({"post_ops": [Binary(np.ones(5))]}, ValueError, "operand of Binary must broadcast to shape"),
    ({"post_ops": [ReLU()], "dst_dtype": np.int16}, TypeError, "dst_dtype must be"),
    ({"dst_dtype": np.int32}, TypeError, "dst_dtype must be uint8, as src is"),
])  # fmt: skip
def test_wrong_attributes_of_pooling(name, changes, error, text):
    out = np.full_like(int8blas.eltwise(getattr(int8blas, name)(*POOLS[name]), (), dst_dtype=np.uint8), 77)
    with pytest.raises(error) as raised:
        getattr(int8blas, name)(*POOLS[name], **changes, out=out)
    assert str(raised.value).startswith(text)
    assert (out == 77).all()


def test_a_sum_needs_a_destination():
    calls = [
        lambda ops: int8blas.max_pool(X, 2, post_ops=ops), lambda ops: int8blas.avg_pool(X, 2, post_ops=ops),
        lambda ops: int8blas.softmax(X, post_ops=ops), lambda ops: int8blas.layer_norm(X, post_ops=ops),
        lambda ops: int8blas.sum([X], post_ops=ops), lambda ops: int8blas.concat([X], 0, post_ops=ops),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match=r"^out must be given, as a Sum post-op adds to it"):
            call(Sum())


def test_one_zero_point_of_an_average():
    with pytest.raises(ValueError, match=r"^zero_point must not be given together with zero_points\['src'\], got 3"):
        int8blas.avg_pool(X, 2, zero_point=3, zero_points={"src": 3})
