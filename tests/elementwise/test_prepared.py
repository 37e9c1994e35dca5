"""Functions that are prepared once remember the memory layout of their last arrays. Results must not depend on earlier
calls."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from arrays import guarded, needs_mprotect, with_strides

import int8blas
from int8blas.elementwise.functions import PreparedBinary, PreparedConcat, PreparedEltwise, PreparedTable

VALUES = {"scales": {"src0": 0.05, "src1": 0.5, "dst": 0.7}, "zero_points": {"src0": 3, "src1": 7, "dst": 11}}


def views(rng, dtype):
    """Arrays with many memory layouts, each followed by another array with this layout."""
    for shape in ((5,), (3, 40), (2, 5, 300), (64, 70), (1, 1), (0, 4), ()):
        for _ in range(2):
            x = rng.integers(0, 256, shape, np.uint8).view(dtype)
            yield x
            if x.ndim > 1:
                yield from (x.T, x[..., ::-1], x[:, ::2], x[:, :1], x[:1])


def sources_of_pairs(rng, dtypes):
    """Pairs whose second array broadcasts against the first: equal, one row, one column, one element."""
    for first in views(rng, dtypes[0]):
        second = rng.integers(0, 256, first.shape, np.uint8).view(dtypes[1])
        yield first, second
        if first.ndim > 1 and first.size:
            yield from ((first, second[..., :1]), (second[..., :1].view(dtypes[0]), second), (first, second[:1]))
            yield first, second[(0,) * first.ndim].reshape(1)


@pytest.mark.parametrize("op", ["add", "mul"])
def test_pairs(isa, op, rng):
    for dtypes in product((np.uint8, np.int8), repeat=2):
        dtypes = tuple(map(np.dtype, dtypes))
        for scheme, ops in (("float", ()), ("onnx", int8blas.ReLU())):
            prepared = PreparedBinary(op, dtypes, **VALUES, dst_dtype=np.uint8, scheme=scheme, post_ops=ops)
            for x, y in sources_of_pairs(rng, dtypes):
                wanted = int8blas.binary(op, x, y, **VALUES, dst_dtype=np.uint8, scheme=scheme, post_ops=ops)
                for _ in range(2):
                    result = prepared(x, y)
                    np.testing.assert_array_equal(result, wanted)
                    assert type(result) is type(wanted)
                    assert result.strides == wanted.strides


def unaligned(x):
    """Return an array with these values that is not aligned."""
    result = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    result[...] = x
    return result


def test_floats_and_operands(isa, rng):
    operand = rng.uniform(-2, 2, 40).astype(np.float32)
    ops = [int8blas.Eltwise("logistic"), int8blas.Binary(operand=operand, algorithm="mul"), int8blas.ReLU()]
    one, two = PreparedEltwise(ops), PreparedBinary("sub", (np.dtype(np.float32),) * 2, post_ops=ops)
    other = PreparedEltwise([int8blas.Eltwise("tanh")])
    many = PreparedEltwise(many_ops(20))
    for shape in ((40,), (3, 40), (2, 5, 40), (70, 40), (1, 1), (0, 40), ()):
        for _ in range(2):
            x, y = (np.asarray(rng.uniform(-4, 4, shape), np.float32) for _ in range(2))
            laid = [x, unaligned(x)] + ([x[::-1], x.copy("F"), x.repeat(2, 0)[::2]] if x.ndim > 1 else [])
            for each in laid:
                np.testing.assert_array_equal(other(each), int8blas.eltwise(each, int8blas.Eltwise("tanh")))
                np.testing.assert_array_equal(many(each), int8blas.eltwise(each, many_ops(20)))
                with pytest.raises(TypeError, match="other byte order"):
                    other(each.astype(each.dtype.newbyteorder()))
                if shape[-1:] == (40,):
                    result, wanted = one(each), int8blas.eltwise(each, ops)
                    np.testing.assert_array_equal(result, wanted)
                    assert result.strides == wanted.strides
                    for second in (y, y[:1]) if y.ndim > 1 else (y,):
                        np.testing.assert_array_equal(
                            two(each, second), int8blas.binary("sub", each, second, post_ops=ops)
                        )


def many_ops(count):
    return [int8blas.Eltwise("linear", 1.0, 0.5)] * count


def test_a_table(isa, rng):
    for dtype in (np.uint8, np.int8):
        table = rng.integers(0, 256, 256, np.uint8).view(np.int8)
        prepared = PreparedTable(table)
        for x in views(rng, dtype):
            for _ in range(2):
                np.testing.assert_array_equal(prepared(x), table[x.view(np.uint8)])


def test_parts(isa, rng):
    tables = [rng.integers(0, 256, 256, np.uint8), None, rng.integers(0, 256, 256, np.uint8)]
    for axis, shape in product((0, 1, -1), ((2, 3, 4), (1, 40, 70), (5, 64, 90))):
        prepared = PreparedConcat(tables, axis, np.dtype(np.uint8))
        for layout in (lambda x: x, lambda x: x.transpose(2, 1, 0), lambda x: x[..., ::-1], lambda x: x[:, ::2]):
            for turn in range(2):
                parts = tuple(layout(rng.integers(0, 256, shape, np.uint8)) for _ in tables)
                converted = [x if table is None else table[x] for x, table in zip(parts, tables, strict=True)]
                again = prepared.again(parts)
                result = again if turn else prepared(parts)
                np.testing.assert_array_equal(result, np.concatenate(converted, axis))
                assert turn or again is None
    for wrong in ((parts[0], parts[1][:, :1], parts[2][:0]), (parts[0], parts[1][0], parts[2])):
        assert PreparedConcat(tables, 0, np.dtype(np.uint8))(wrong) is None
    assert prepared.again(parts[:2]) is None
    assert prepared.again((parts[0], parts[1].view(np.int8), parts[2])) is None


def test_another_type_after_arrays_that_lie_alike(rng):
    x = rng.integers(0, 256, 40, np.uint8)
    prepared, table = PreparedBinary("add", (x.dtype, x.dtype)), PreparedTable(x[:1].repeat(256))
    prepared(x, x)
    for wrong in ((x.view(np.int8), x), (x, x.view(np.int8))):
        with pytest.raises(TypeError, match=r"^src0 and src1 must be uint8 and uint8, got "):
            prepared(*wrong)
    with pytest.raises(TypeError, match=r"^src must be "):
        table(x.astype(np.float32))


def test_the_instruction_set_may_change(rng):
    x = rng.integers(0, 256, (9, 50), np.uint8)
    prepared = PreparedBinary("add", (x.dtype, x.dtype), **VALUES)
    results = []
    for name in 2 * int8blas.available_isas():
        with int8blas.use_isa(name):
            results.append(prepared(x, x))
    for result in results:
        np.testing.assert_array_equal(result, results[0])


@needs_mprotect
def test_nothing_outside_the_arrays_is_read(isa, rng):
    prepared = PreparedBinary("add", (np.dtype(np.uint8),) * 2, **VALUES)
    table = PreparedTable(np.arange(256, dtype=np.uint8))
    for shape, side in product(((7,), (5, 33), (64, 70)), ("start", "end")):
        for _ in range(2):
            drawn = [rng.integers(0, 256, size, np.uint8) for size in (shape, shape[-1:])]
            x, y = (with_strides(values, values.strides, guarded(side)) for values in drawn)
            np.testing.assert_array_equal(prepared(x, y), int8blas.binary("add", x, y, **VALUES))
            np.testing.assert_array_equal(table(x), x)


def test_threads_with_arrays_that_lie_differently(rng):
    prepared = PreparedBinary("add", (np.dtype(np.uint8),) * 2, **VALUES)

    def check(seed):
        draw = np.random.default_rng(seed)
        for _ in range(200):
            x, y = draw.integers(0, 256, (4, 32 + seed), np.uint8), draw.integers(0, 256, 32 + seed, np.uint8)
            np.testing.assert_array_equal(prepared(x, y), int8blas.binary("add", x, y, **VALUES))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, range(4)))
