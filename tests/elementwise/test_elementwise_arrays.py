"""eltwise, binary, sum and concat of arrays of any shapes and strides, in place, on any number of threads."""

import threading
from itertools import product

import numpy as np
import pytest
import reference_elementwise as reference
from arrays import BROADCASTS, LAYOUTS, Canary, guarded, needs_mprotect, place
from elementwise import random_integers
from layers import DST_DTYPES, assert_same_bits, name_of
from others import assert_other_threads_run_during
from test_elementwise import random_array

import int8blas
from int8blas import Binary, Eltwise, ReLU
from int8blas.elementwise.functions import PreparedBinary

BYTES, FLOATS = (np.uint8, np.uint8, np.uint8), (np.int8, np.float16, np.float32)
PLAIN = (np.int8, np.int8, np.int8)
# Types of two sources and a destination: one kind is computed in registers, one through a buffer of floats, and one,
# without scales, in bytes.
every_way = pytest.mark.parametrize("types", [BYTES, FLOATS, PLAIN], ids=["bytes", "floats", "plain"])
OPTIONS = {"scales": {"src0": 0.5, "src1": 0.25, "dst": 0.7}, "zero_points": {"src0": 5}}


def options_of(x, y, dst_dtype):
    return {} if (x.dtype, y.dtype, dst_dtype) == PLAIN else OPTIONS


def add(x, y, dst_dtype, **options):
    return int8blas.binary("add", x, y, dst_dtype=dst_dtype, **options_of(x, y, dst_dtype), **options)


def expected_of(x, y, dst_dtype):
    return reference.binary("add", x, y, dst_dtype=dst_dtype, **options_of(x, y, dst_dtype))


def lookup(x, **options):
    return int8blas.eltwise(x, ReLU(), scales={"src": 0.3}, **options)


def expected_lookup(x):
    return reference.eltwise(x, [ReLU()], scales={"src": 0.3})


# --- broadcasting ----------------------------------------------------------------------------------------------------

PAIRS = (
    ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), ()), ((2, 3, 4, 5), (5,)), ((2, 3, 4, 5), (4, 1)),
    ((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 4, 5), (2, 1, 1, 1)), ((2, 3, 4, 5), (1, 3, 1, 5)), ((2, 3, 1, 5), (1, 4, 1)),
    ((7, 1), (1, 9)), ((1,), (1, 1, 1)), ((9, 64), (64,)), ((9, 64), (9, 1)), ((9, 300), (300,)), ((9, 700), (9, 1)),
    ((50, 300), (300,)), ((3, 5000), (5000,)), ((3, 5000), (3, 1)), ((400, 3), (3,)), ((400, 3), (400, 1)),
    ((40, 30, 3), (40, 1, 3)),
    ((6, 1300, 2), (6, 1, 2)), ((0, 3), (1, 3)), ((2, 0, 3), (3,)), ((1, 0), (5, 1)), ((2000, 1, 2), (3, 1)),
)  # fmt: skip


@every_way
@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_broadcasting(isa, types, shapes, rng):
    for first, second in (shapes, shapes[::-1]):
        x, y = random_array(rng, types[0], first), random_array(rng, types[1], second)
        expected = expected_of(x, y, types[2])
        assert_same_bits(add(x, y, types[2]), expected)
        assert_same_bits(
            add(x.T, y, types[2]) if y.ndim == 0 else add(x, y, types[2]), expected.T if y.ndim == 0 else expected
        )
        out = np.zeros(expected.shape[::-1], types[2]).T
        assert add(x, y, types[2], out=out) is out
        assert_same_bits(out, expected)


def test_broadcasting_in_every_dimension(isa, rng):
    shape = (3, 4, 5, 6)
    for mask in product((False, True), repeat=4):
        x = random_array(rng, np.int8, shape)
        y = random_array(rng, np.uint8, [1 if one else size for one, size in zip(mask, shape, strict=True)])
        for order in ("C", "F"):
            result = add(np.array(x, order=order), y, np.int8)
            assert_same_bits(result, expected_of(x, y, np.int8), mask=mask)


def test_float32_at_sizes_around_chunks(isa, rng):
    """float32 is computed in place, in whole chunks. One shape has runs that share a block, another longer runs."""
    for shape, post_ops in product(((5, 37), (3, 137), (2, 1025), (4099,), (3,)), ((), (Eltwise("linear", 0.5, 1),))):
        x = rng.standard_normal(shape).astype(np.float32)
        for other in (shape, shape[-1:], (1,), (*shape[:-1], 1)):
            y = rng.standard_normal(other).astype(np.float32)
            for sources in ((x, y), (y, x)):
                expected = reference.binary("sub", *sources, post_ops=post_ops)
                assert_same_bits(int8blas.binary("sub", *sources, post_ops=post_ops), expected, shape=shape)
                prepared = PreparedBinary("sub", (x.dtype, y.dtype), post_ops=post_ops)
                for _ in range(2):
                    assert_same_bits(prepared(*sources), expected, shape=shape)
            out = x.copy()
            expected = reference.binary("sub", x, y, post_ops=post_ops)
            assert_same_bits(int8blas.binary("sub", out, y, post_ops=post_ops, out=out), expected, shape=shape)


def test_operands_of_post_ops_broadcast(isa, rng):
    x = random_array(rng, np.int8, (30, 7, 20))
    for shape in ((), (20,), (7, 1), (30, 1, 1), (30, 7, 20)):
        operand = rng.normal(0, 3, shape).astype(np.float32)
        result = int8blas.eltwise(x, Binary(operand, "mul"))
        assert_same_bits(result, reference.eltwise(x, [Binary(operand, "mul")]))


# --- memory ----------------------------------------------------------------------------------------------------------

MATRICES = ((1, 1), (3, 17), (33, 70), (2, 600), (70, 2), (3, 2000), (0, 5), (5, 0), (0, 0))


@every_way
@pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCASTS])
def test_any_strides_of_sources(isa, types, layout, rng):
    for shape in MATRICES:
        x = place(random_array(rng, types[0], shape), layout, misalign=1)
        y = random_array(rng, types[1], shape)
        assert_same_bits(add(x, y, types[2]), expected_of(x, y, types[2]), shape=shape)
        y = place(y, layout, misalign=1)
        assert_same_bits(add(x, y, types[2]), expected_of(x, y, types[2]), shape=shape)
        assert_same_bits(lookup(x), expected_lookup(x), shape=shape)
        expected = reference.sum([x, y, x], dst_dtype=types[2])
        assert_same_bits(int8blas.sum([x, y, x], dst_dtype=types[2]), expected, shape=shape)


@every_way
@pytest.mark.parametrize("misalign", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides_of_out_and_nothing_else_is_written(isa, types, layout, misalign, rng):
    for shape in MATRICES:
        x, y = (random_array(rng, dtype, shape) for dtype in types[:2])
        for call, expected in (
            (lambda out, x=x, y=y: add(x, y, types[2], out=out), expected_of(x, y, types[2])),
            (lambda out, x=x: lookup(x, out=out), expected_lookup(x)),
            (lambda out, x=x, y=y: int8blas.concat([x, y], 1, out=out), reference.concat([x, y], 1)),
        ):
            canary = Canary()
            out = place(np.zeros_like(expected), layout, canary, misalign)
            assert call(out) is out
            assert_same_bits(out, expected, shape=shape)
            canary.assert_only_elements_written(out)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
@every_way
def test_nothing_outside_is_read_or_written(isa, types, side, rng):
    for shape in ((1, 1), (1, 15), (1, 16), (2, 17), (5, 33), (1, 127), (3, 600), (1, 5000)):
        for layout in ("C", "F", "rows reversed", "every other column"):
            x, y = (place(random_array(rng, dtype, shape), layout, guarded(side)) for dtype in types[:2])
            expected = expected_of(x, y, types[2])
            out = place(np.zeros_like(expected), layout, guarded(side))
            assert_same_bits(add(x, y, types[2], out=out), expected, shape=shape, layout=layout)
            out = place(np.zeros_like(x), layout, guarded(side))
            assert_same_bits(lookup(x, out=out), expected_lookup(x), shape=shape, layout=layout)
            expected = reference.concat([x, y], 0)
            out = place(np.zeros_like(expected), layout, guarded(side))
            assert_same_bits(int8blas.concat([x, y], 0, out=out), expected, shape=shape, layout=layout)


def test_a_new_array_has_the_order_of_the_first_source_of_its_shape(rng):
    x = random_integers(rng, np.int8, (3, 4, 5))
    assert int8blas.eltwise(x.T, ReLU()).flags.f_contiguous
    assert int8blas.eltwise(x.transpose(1, 0, 2), ReLU(), dst_dtype=np.float32).strides == (20, 80, 4)
    assert int8blas.binary("add", x[0, 0], x.transpose(1, 0, 2)).strides == (5, 20, 1)
    assert int8blas.binary("add", x[:, :1], x[:1]).flags.c_contiguous
    assert int8blas.sum([x.T, np.ascontiguousarray(x.T)]).flags.f_contiguous
    assert int8blas.concat([x.T, x.T], 1).flags.f_contiguous


def test_no_dimensions_and_many():
    x = np.array(-3, np.int8)
    assert int8blas.eltwise(x, Eltwise("abs")) == 3
    assert isinstance(int8blas.eltwise(x, ReLU()), np.int8)
    assert isinstance(int8blas.binary("add", x, np.float32(0.5)), np.int8)
    assert isinstance(int8blas.sum([x, x], dst_dtype=np.float32), np.float32)
    out = np.zeros((), np.float32)
    assert int8blas.binary("add", x, np.float32(0.5), dst_dtype=np.float32, out=out) is out
    assert out == -2.5
    many = np.arange(2**12, dtype=np.int32).astype(np.int8).reshape((1, 2) * 12 + (1,) * 8)[..., ::-1]
    assert_same_bits(lookup(many.T), expected_lookup(many.T))
    assert_same_bits(add(many.T, many[..., :1], np.int8), expected_of(many.T, many[..., :1], np.int8))


def test_sources_are_never_written(isa, rng):
    x, y = random_integers(rng, np.int8, (5, 700)), random_integers(rng, np.int8, (5, 700))
    copies = x.copy(), y.copy()
    for array in (x, y):
        array.flags.writeable = False
    add(x, y, np.int8)
    lookup(x)
    int8blas.concat([x, y], 0)
    for array, copy in zip((x, y), copies, strict=True):
        assert array.tobytes() == copy.tobytes()


# --- overlap ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, 3, 64, 100])
@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
def test_out_may_overlap_sources(isa, dst_dtype, offset, rng):
    size = 1200
    values, other = random_integers(rng, np.int8, size), random_integers(rng, np.uint8, size)
    expected = expected_of(values, other, dst_dtype)
    for backwards, reverse, swapped in product((False, True), repeat=3):
        memory = np.zeros(11 * size, np.uint8)
        x = memory[5 * size : 6 * size].view(np.int8)
        start = 5 * size + offset if not backwards else 6 * size - offset - expected.nbytes
        out = memory[start : start + expected.nbytes].view(dst_dtype)
        x[:] = values
        target = out[::-1] if reverse else out
        if swapped:
            int8blas.sum(
                [other, x], scales=[0.25, 0.5], zero_points=[0, 5], dst_scale=0.7, dst_dtype=dst_dtype, out=target
            )
        else:
            add(x, other, dst_dtype, out=target)
        assert_same_bits(target, expected, backwards=backwards, reverse=reverse)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=name_of)
def test_out_may_be_a_source(isa, dtype, rng):
    x, y = (random_integers(rng, dtype, (30, 41)) for _ in range(2))
    expected = expected_of(x, y, dtype), expected_of(x, x[3], dtype), expected_of(x, x[:, 3:4], dtype)
    for view in (lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::-1]):
        out = x.copy()
        add(view(out), view(y), dtype, out=view(out))
        assert_same_bits(out, expected[0])
        out = x.copy()
        add(out, y, dtype, out=view(out) if view(out).shape == out.shape else out)
        assert_same_bits(view(out) if view(out).shape == out.shape else out, expected[0])
    out = x.copy()
    add(out, out[3], dtype, out=out)
    assert_same_bits(out, expected[1])
    out = x.copy()
    add(out, out[:, 3:4], dtype, out=out)
    assert_same_bits(out, expected[2])
    out = x.copy()
    lookup(out, out=out[::-1])
    assert_same_bits(out[::-1], expected_lookup(x))


def test_rows_with_one_value_each(isa, rng):
    """Rows of one step that have a last block of less than a chunk, and results that overlap an operand."""
    for n in (1, 15, 16, 17, 128, 130, 361, 1023, 1024, 1030, 1040, 2050):
        x, y = (random_array(rng, np.float32, shape) for shape in ((5, n), (5, 1)))
        for op in ("add", "div"):
            expected = reference.binary(op, x, np.broadcast_to(y, x.shape))
            assert_same_bits(int8blas.binary(op, x, y), expected, n=n, op=op)
            out = x.copy()
            int8blas.binary(op, out, y, out=out)
            assert_same_bits(out, expected, n=n, op=op)
            memory = np.zeros(5 * n + 3, np.float32)
            memory[3:] = x.ravel()
            int8blas.binary(op, memory[3:].reshape(x.shape), y, out=memory[:-3].reshape(x.shape))
            assert_same_bits(memory[:-3].reshape(x.shape), expected, n=n, op=op)


def test_concat_in_place(isa, rng):
    other = random_integers(rng, np.int8, 30)
    for shift, sources in product((0, 1, 20), (lambda x, y: [x, y], lambda x, y: [y, x], lambda x, y: [other, y])):
        memory = random_integers(rng, np.int8, 100)
        parts = sources(memory[:30], memory[20:60])
        expected = reference.concat(parts, 0)
        out = memory[shift : shift + 70]
        int8blas.concat(parts, 0, out=out)
        assert_same_bits(out, expected, shift=shift)


# --- concat ----------------------------------------------------------------------------------------------------------

CONCATS = (
    (((2, 3, 4, 5),), 1), (((2, 3, 4, 5), (2, 1, 4, 5)), 1), (((2, 3, 4, 5), (2, 3, 4, 9)), 3),
    (((2, 3), (5, 3), (1, 3)), 0), (((2, 3), (5, 3)), -2), (((7, 64), (7, 32), (7, 32)), 1), (((7, 700), (7, 1)), -1),
    (((5,), (0,), (7,)), 0), (((0, 3), (0, 3)), 0), (((0, 3), (0, 2)), 1), (((2, 0), (2, 4)), 1),
    (((60, 60, 3), (60, 60, 1)), 2), (((1, 5, 900, 3), (1, 2, 900, 3)), 1), (((3, 40000), (3, 30000)), 1),
    (((300, 16), (300, 15), (300, 1)), 1), (((300, 70), (300, 1)), 1), (((9, 29000), (9, 30000)), 1),
)  # fmt: skip


@pytest.mark.parametrize(("shapes", "axis"), CONCATS, ids=str)
def test_concat(isa, shapes, axis, rng):
    for src_dtype, dst_dtype, order in product((np.uint8, np.int8, np.float16), (np.uint8, np.float32), ("C", "F")):
        sources = [np.array(random_array(rng, src_dtype, shape), order=order) for shape in shapes]
        assert_same_bits(int8blas.concat(sources, axis), np.concatenate(sources, axis))
        zero = 0 if src_dtype == np.float16 else 3
        options = {
            "scales": [0.5, 0.25, 2][: len(sources)],
            "zero_points": [zero, 0, 0][: len(sources)],
            "dst_scale": 0.5,
            "dst_zero_point": 0 if dst_dtype == np.float32 else 3,
            "dst_dtype": dst_dtype,
        }
        expected = reference.concat(sources, axis, **options)
        assert_same_bits(int8blas.concat(sources, axis, **options), expected)
        out = np.zeros(expected.shape[::-1], dst_dtype).T
        int8blas.concat(sources, axis, **options, out=out)
        assert_same_bits(out, expected)


def test_concat_of_different_types(isa, rng):
    sources = [random_array(rng, dtype, (4, size)) for dtype, size in zip(DST_DTYPES, (5, 70, 1, 33, 8), strict=True)]
    for dst_dtype in DST_DTYPES:
        result = int8blas.concat(sources, 1, dst_dtype=dst_dtype)
        assert_same_bits(result, reference.concat(sources, 1, dst_dtype=dst_dtype))


def test_what_is_copied_keeps_every_bit(rng):
    floats = rng.integers(0, 2**32, 500, np.uint32).view(np.float32)
    halves = rng.integers(0, 2**16, 500, np.uint16).view(np.float16)
    for x, word in ((floats, np.uint32), (halves, np.uint16)):
        result = int8blas.concat([x, x[::2]], 0)
        np.testing.assert_array_equal(result.view(word), np.concatenate([x, x[::2]]).view(word))


# --- threads ---------------------------------------------------------------------------------------------------------


@every_way
def test_any_number_of_threads_gives_the_same_bits(isa, types, rng):
    for shape in ((1_000_003,), (1000, 999), (100, 100, 101)):
        x, y = (random_array(rng, dtype, shape) for dtype in types[:2])
        row = y[..., :1]
        expected = expected_of(x, y, types[2]), expected_of(x, row, types[2])
        joined = reference.concat([x, y], -1)
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                assert_same_bits(add(x, y, types[2]), expected[0], threads=threads)
                assert_same_bits(add(x, row, types[2]), expected[1], threads=threads)
                assert_same_bits(int8blas.concat([x, y], -1), joined, threads=threads)
                assert_same_bits(lookup(x), expected_lookup(x), threads=threads)


def test_many_threads_may_call_at_once(rng):
    x, y = (random_array(rng, np.uint8, (300, 1000)) for _ in range(2))
    expected = expected_of(x, y, np.uint8)
    results = [None] * 8

    def call(i):
        for _ in range(5):
            results[i] = add(x, y, np.uint8)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        assert_same_bits(result, expected)


def test_the_gil_is_released(rng):
    x, y = (random_array(rng, np.uint8, 10**6) for _ in range(2))
    out = np.empty_like(x)
    assert_other_threads_run_during(lambda: add(x, y, np.uint8, out=out))
    assert_other_threads_run_during(lambda: int8blas.concat([x, y], 0))
