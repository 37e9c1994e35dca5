"""matmul has the shapes of numpy.matmul, and the values of numpy.matmul on int64, saturated to int32."""

from itertools import product

import numpy as np
import pytest
import reference
from arrays import Canary, assert_same, random_values

import int8blas

# Shapes of A and B of every kind that numpy.matmul accepts.
SHAPES = (
    ((5,), (5,)), ((0,), (0,)), ((1,), (1,)),
    ((5,), (5, 17)), ((3, 5), (5,)), ((0, 5), (5,)), ((5,), (5, 0)), ((0,), (0, 3)),
    ((3, 5), (5, 17)), ((0, 5), (5, 17)), ((3, 0), (0, 17)), ((3, 5), (5, 0)), ((0, 0), (0, 0)),
    ((4, 3, 5), (5, 17)), ((3, 5), (4, 5, 17)), ((4, 3, 5), (4, 5, 17)), ((1, 3, 5), (4, 5, 17)),
    ((4, 3, 5), (1, 5, 17)), ((2, 1, 3, 5), (4, 5, 17)), ((2, 1, 3, 5), (1, 4, 5, 17)), ((0, 3, 5), (1, 5, 17)),
    ((5,), (4, 5, 17)), ((4, 3, 5), (5,)), ((2, 3, 4, 5), (5,)), ((4, 0, 5), (4, 5, 17)), ((4, 3, 0), (4, 0, 17)),
    ((2, 0, 3, 5), (5, 7)), ((7, 1, 64), (7, 64, 1)), ((2, 2, 2, 2, 3, 4), (2, 1, 2, 4, 5)), ((40, 2, 3), (40, 3, 2)),
)  # fmt: skip

MISMATCHED = (
    ((5,), (4,)), ((5,), (4, 5)), ((3, 5), (4,)), ((3, 5), (3, 5)), ((2, 3, 5), (3, 5, 7)), ((2, 3, 5), (2, 4, 7)),
    ((), (5,)), ((5,), ()), ((), ()),
)  # fmt: skip

PACKED_SHAPES = (((5,), (5, 17)), ((3, 5), (5, 17)), ((4, 3, 5), (5, 17)), ((2, 0, 3, 5), (5, 17)), ((3, 0), (0, 17)))


@pytest.fixture(params=SHAPES, ids=str)
def operands(request, pair, rng):
    """An A and a B for each of the shapes and sign pairs."""
    a_shape, b_shape = request.param
    return random_values(rng, pair.a_dtype, a_shape), random_values(rng, pair.b_dtype, b_shape)


def test_shapes_and_values(isa, operands):
    result = int8blas.matmul(*operands)
    assert_same(result, reference.matmul(*operands))
    assert type(result) is type(np.matmul(*(x.astype(np.int32) for x in operands)))


@pytest.mark.parametrize("numerics", ["exact", "saturating"])
def test_zero_points(isa, operands, numerics):
    a, b = operands
    for ao, bo in product((np.iinfo(a.dtype).min, 3), (np.iinfo(b.dtype).max, 0)):
        if numerics == "exact":
            assert_same(int8blas.matmul(a, b, ao=ao, bo=bo), reference.matmul(a, b, ao, bo), ao=ao, bo=bo)
        elif a.ndim == b.ndim == 2:
            expected = reference.gemm(1, a, b, ao=ao, bo=bo, numerics=numerics)
            assert_same(int8blas.matmul(a, b, ao=ao, bo=bo, numerics=numerics), expected, ao=ao, bo=bo)


def test_a_batch_saturates_like_its_matrices(isa, pair, rng):
    a, b = random_values(rng, pair.a_dtype, (3, 4, 9)), random_values(rng, pair.b_dtype, (3, 9, 20))
    expected = np.stack([reference.gemm(1, *matrices, numerics="saturating") for matrices in zip(a, b, strict=True)])
    assert_same(int8blas.matmul(a, b, numerics="saturating"), expected)


def test_out(isa, operands):
    expected = reference.matmul(*operands)
    out = np.full(np.shape(expected), -1, np.int32)
    assert int8blas.matmul(*operands, out=out) is out
    assert_same(out, expected)


def test_out_of_any_strides(isa, pair, rng):
    a, b = random_values(rng, pair.a_dtype, (3, 4, 9)), random_values(rng, pair.b_dtype, (2, 1, 9, 20))
    expected = reference.matmul(a, b)
    for axes, step in product(((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)), (-2, -1, 2, 3)):
        canary = Canary()
        shape = [expected.shape[axis] for axis in axes]
        memory = canary(4 * abs(step) * expected.size).view(np.int32).reshape(*shape[:-1], -1)[..., ::step]
        out = memory.transpose(np.argsort(axes))
        assert int8blas.matmul(a, b, out=out) is out
        assert_same(out, expected, axes=axes, step=step)
        canary.assert_only_elements_written(out)


def test_operands_of_any_strides(isa, pair, rng):
    a = random_values(rng, pair.a_dtype, (9, 4, 6)).transpose(2, 1, 0)[::-2]
    b = random_values(rng, pair.b_dtype, (3, 18, 40))[::-1, ::2, ::-2]
    assert_same(int8blas.matmul(a, b), reference.matmul(a, b))
    a, b = np.broadcast_to(a[:1], (3, 4, 9)), np.broadcast_to(b[0], (3, 9, 20))
    assert_same(int8blas.matmul(a, b), reference.matmul(a, b))
    assert_same(int8blas.matmul(a[0, 0, ::-1], b[0, :, 3]), reference.matmul(a[0, 0, ::-1], b[0, :, 3]))


@pytest.mark.parametrize("shapes", PACKED_SHAPES, ids=str)
def test_a_packed_b(isa, pair, shapes, rng):
    a, b = random_values(rng, pair.a_dtype, shapes[0]), random_values(rng, pair.b_dtype, shapes[1])
    packed, expected = int8blas.pack_b(b), reference.matmul(a, b, 2, 3)
    assert_same(int8blas.matmul(a, packed, ao=2, bo=3), expected)
    out = np.empty(expected.shape, np.int32)
    assert int8blas.matmul(a, packed, out=out, ao=2, bo=3) is out
    assert_same(out, expected)


def test_zero_points_by_row_and_column_of_matrices(isa, pair, rng):
    a, b = pair.operands(rng, 6, 19, 7)
    ao, bo = random_values(rng, pair.a_dtype, 6), random_values(rng, pair.b_dtype, 19)
    for form in (b, int8blas.pack_b(b)):
        for numerics in ("exact", "saturating"):
            expected = reference.gemm(1, a, b, ao=ao, bo=bo, numerics=numerics)
            assert_same(int8blas.matmul(a, form, ao=ao, bo=bo, numerics=numerics), expected)


def test_results_saturate_to_int32(isa):
    a = np.full((2, 2, 140_000), 255, np.uint8)
    b = np.stack([np.full(140_000, 127, np.int8), np.full(140_000, -128, np.int8)], axis=1)
    assert_same(int8blas.matmul(a, b), reference.matmul(a, b))


@pytest.mark.parametrize("overlaps", ["a", "b"])
def test_out_may_overlap_an_operand(isa, pair, overlaps, rng):
    out = rng.integers(-(2**31), 2**31, (3, 8, 8), np.int32)
    a, b = random_values(rng, pair.a_dtype, (3, 8, 8)), random_values(rng, pair.b_dtype, (3, 8, 8))
    shared = out.view(np.uint8).reshape(-1)[5 : 5 + 192].reshape(3, 8, 8)
    if overlaps == "a":
        a = shared.view(pair.a_dtype)
    else:
        b = shared.view(pair.b_dtype)
    expected = reference.matmul(a.copy(), b.copy())
    assert int8blas.matmul(a, b, out=out) is out
    assert_same(out, expected)


@pytest.mark.parametrize("shapes", MISMATCHED, ids=str)
def test_what_numpy_refuses_is_refused(pair, shapes):
    a, b = np.zeros(shapes[0], pair.a_dtype), np.zeros(shapes[1], pair.b_dtype)
    with pytest.raises(ValueError, match=r"matmul|operands"):
        np.matmul(a.astype(np.int32), b.astype(np.int32))
    with pytest.raises(ValueError, match=r"^(a|b) must have "):
        int8blas.matmul(a, b)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_share_stacks_of_small_matrices(isa, pair, threads, rng):
    a = random_values(rng, pair.a_dtype, (40, 12, 1, 17, 64))[..., ::2]
    b = random_values(rng, pair.b_dtype, (12, 2, 32, 18))
    out = np.empty((40, 17, 12, 2, 18), np.int32)
    with int8blas.num_threads(threads):
        assert_same(int8blas.matmul(a, b), reference.matmul(a, b))
        int8blas.matmul(a, b, out=out.transpose(0, 2, 3, 1, 4))
    assert_same(out.transpose(0, 2, 3, 1, 4), reference.matmul(a, b))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_threads_share_stacks_of_larger_matrices_and_the_rest(isa, pair, threads, count, rng):
    for m, n, k in ((110, 130, 90), (1, 300, 500), (300, 2, 500), (200, 180, 7)):
        a = random_values(rng, pair.a_dtype, (count, m, k))
        b = random_values(rng, pair.b_dtype, (count, k, n))
        with int8blas.num_threads(threads):
            assert_same(int8blas.matmul(a, b, ao=3), reference.matmul(a, b, 3), m=m, n=n, k=k)
            columns = np.asfortranarray(a.transpose(1, 2, 0)).transpose(2, 0, 1)
            assert_same(int8blas.matmul(columns, b), reference.matmul(a, b), m=m, n=n, k=k)


def test_one_value_is_a_zero_point_of_no_rows(pair):
    a, b = np.zeros((0, 3), pair.a_dtype), np.zeros((3, 2), pair.b_dtype)
    assert int8blas.matmul(a, b, ao=[5], bo=[7]).shape == (0, 2)
