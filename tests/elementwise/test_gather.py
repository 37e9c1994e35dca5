"""gather has the bits of dequantize and then indexing, and errors name the argument before anything is written."""

from itertools import pairwise, product

import numpy as np
import pytest
import reference_quantization as reference
from arrays import Canary, assert_same, guarded, needs_mprotect, random_values, with_strides
from elementwise import WIDE

import int8blas
from int8blas.elementwise.gather import sum_bags

DTYPES = (np.uint8, np.int8)
ROWS = 50
LAYOUTS = {
    "C": lambda table: table,
    "F": np.asfortranarray,
    "padded": lambda table: np.pad(table, ((0, 0), (0, 3)))[:, :-3],
    "reversed": lambda table: table[::-1],
    "every other": lambda table: np.repeat(table, 2, axis=1)[:, ::2],
    "one row": lambda table: np.broadcast_to(table[0], table.shape),
}


def parameters(rng, dtype, axis, shape):
    """Scales and zero points of the table."""
    size = () if axis is None else shape[axis]
    return rng.uniform(0.01, 1, size).astype(np.float32), random_values(rng, dtype, size).astype(int)


def expected_rows(table, indices, scale, zero_point, axis):
    scale, zero_point = (reference.along(value, axis, 2) for value in (scale, zero_point))
    return reference.dequantize(table, scale, zero_point)[indices]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(isa, dtype, layout, rng):
    all_indices = (7, [3], [[4, 0], [49, 49]], np.zeros((0, 3), np.int64), np.arange(50, dtype=np.uint8)[::-3], [])
    for axis, columns, indices in product((None, 0, 1, -1), (1, 15, 16, 33, 130), all_indices):
        table = LAYOUTS[layout](random_values(rng, dtype, (ROWS, columns)))
        scale, zero_point = parameters(rng, dtype, axis, table.shape)
        wanted = np.asarray(indices, np.int64)
        expected = expected_rows(table, wanted, scale, zero_point, axis)
        assert_same(int8blas.gather(table, indices, scale, zero_point, axis=axis), expected, axis=axis, columns=columns)
        if axis is not None:
            expected = expected_rows(table, wanted, scale, 5, axis)
            assert_same(int8blas.gather(table, indices, scale, 5, axis=axis), expected, axis=axis, columns=columns)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_many_short_rows(isa, axis, rng):
    """Rows that share kernel calls: up to a thousand rows of one element, or eight rows of 128 elements."""
    for columns, count in product((1, 2, 7, 8, 9, 15, 17, 31, 48, 49, 64, 100, 127, 128, 129), (1, 7, 8, 9, 1030)):
        table = random_values(rng, np.int8, (ROWS, columns))
        indices = rng.integers(0, ROWS, count)
        scale, zero_point = parameters(rng, np.int8, axis, table.shape)
        for s, z in ((scale, zero_point), (0.3, zero_point), (scale, 5)):
            expected = expected_rows(table, indices, s, z, axis)
            assert_same(int8blas.gather(table, indices, s, z, axis=axis), expected, columns=columns, count=count)


def test_defaults(isa, rng):
    table = random_values(rng, np.int8, (ROWS, 20))
    assert_same(int8blas.gather(table, [1, 0]), table[[1, 0]].astype(np.float32))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_any_strides_of_out_and_nothing_else_is_written(isa, axis, rng):
    table = random_values(rng, np.uint8, (ROWS, 20))
    indices = rng.integers(0, ROWS, (3, 4))
    scale, zero_point = parameters(rng, np.uint8, axis, table.shape)
    expected = expected_rows(table, indices, scale, zero_point, axis)
    for strides in ((80, 20, 1), (100, 24, 1), (1, 3, 12), (-80, 20, 1), (160, 40, 2)):
        canary = Canary()
        out = with_strides(np.zeros_like(expected), strides, canary)
        assert int8blas.gather(table, indices, scale, zero_point, axis=axis, out=out) is out
        assert_same(out, expected, strides=strides)
        canary.assert_only_elements_written(out)


def test_out_may_overlap_the_table_and_the_indices(isa, rng):
    values, rows = random_values(rng, np.int8, (ROWS, 16)), np.arange(10)[::-1]
    memory = np.zeros(2000, np.uint8)
    table, out = memory[:800].view(np.int8).reshape(ROWS, 16), memory[400:1040].view(np.float32).reshape(10, 16)
    table[...] = values
    int8blas.gather(table, rows, 0.5, 3, out=out)
    assert_same(out, reference.dequantize(values[rows], 0.5, 3))
    indices = memory[480:560].view(np.int64)
    indices[:] = rows
    int8blas.gather(values, indices, 0.5, 3, out=out)
    assert_same(out, reference.dequantize(values[rows], 0.5, 3))


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_is_read_or_written(isa, side, rng):
    for columns in (1, 15, 16, 33, 100):
        table = with_strides(random_values(rng, np.int8, (9, columns)), (columns, 1), guarded(side))
        indices = [8, 0, 8, 4]
        out = with_strides(np.zeros((4, columns), np.float32), (columns, 1), guarded(side))
        int8blas.gather(table, indices, 0.3, 1, out=out)
        assert_same(out, reference.dequantize(table[indices], 0.3, 1), columns=columns)


def test_any_number_of_threads_gives_the_same_bits(isa, rng):
    table, indices = random_values(rng, np.int8, (1000, 384)), rng.integers(0, 1000, 3001)
    scale, zero_point = parameters(rng, np.int8, 0, table.shape)
    expected = expected_rows(table, indices, scale, zero_point, 0)
    for threads in (1, 2, 3, 4):
        with int8blas.num_threads(threads):
            assert_same(int8blas.gather(table, indices, scale, zero_point, axis=0), expected, threads=threads)


def test_empty_tables():
    assert int8blas.gather(np.zeros((0, 5), np.int8), []).shape == (0, 5)
    assert int8blas.gather(np.zeros((3, 0), np.int8), [[1, 2]]).shape == (1, 2, 0)
    with pytest.raises(ValueError, match=r"^indices must "):
        int8blas.gather(np.zeros((0, 5), np.int8), [0])


def test_more_dimensions_than_an_array_can_have():
    table = np.zeros((3, 5), np.int8)
    assert int8blas.gather(table, np.ones((1,) * 63, np.int64)).ndim == 64
    with pytest.raises(ValueError, match=r"maximum supported dimension for an ndarray is .*64, found 65"):
        int8blas.gather(table, np.ones((1,) * 64, np.int64))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_zero_points_beyond_the_type(isa, dtype, axis, rng):
    table, indices = random_values(rng, dtype, (9, 37)), [[8, 0, 3], [3, 3, 1]]
    for far in WIDE:
        scale, zero_point = parameters(rng, dtype, axis, table.shape)
        zero_point = np.full_like(zero_point, far)
        expected = expected_rows(table, indices, scale, zero_point, axis)
        assert_same(int8blas.gather(table, indices, scale, zero_point, axis=axis), expected, far=far)


def test_parameters_of_other_rows_are_not_looked_at():
    table, scales, zero_points = np.array([[1], [2], [3]], np.int8), [0.5, np.nan, 2], [1, 2, 2**31]
    assert_same(int8blas.gather(table, [2, 0], scales, axis=0), np.float32([[6], [0.5]]))
    assert_same(int8blas.gather(table, [0, 0], scales, zero_points, axis=0), np.float32([[0], [0]]))
    with pytest.raises(ValueError, match=r"^scale must be finite and not 0 in float32, got nan"):
        int8blas.gather(table, [2, 1], scales, axis=0)
    with pytest.raises(ValueError, match=r"^zero_point must be between -2147483648 and 2147483647, got 2147483648"):
        int8blas.gather(table, 2, scales, zero_points, axis=0)


TABLE = np.zeros((3, 4), np.int8)
WRONG = [
    *(("table", {"table": TABLE.astype(dtype)}, TypeError) for dtype in (np.int16, np.float32, np.int32, object)),
    *(("table", {"table": value}, TypeError) for value in (None, "a", [[1, 2], [3, 4]])),
    *(("table", {"table": np.zeros(shape, np.int8)}, ValueError) for shape in ((), 3, (3, 4, 5))),
    *(("indices", {"indices": value}, TypeError) for value in (None, [0.0], "0", [True], np.zeros(2), [10**30])),
    *(("indices", {"indices": value}, ValueError) for value in (3, [-1, 0], [[0, 1, 2, 3]], np.uint64([2**63]))),
    *(("scale", {"scale": value}, ValueError) for value in (0, -np.inf, np.nan, 1e39, [1.0, 2.0])),
    *(("scale", {"scale": value}, TypeError) for value in (None, "1", True)),
    *(("scale", {"scale": [1.0] * count, "axis": 0}, ValueError) for count in (2, 4)),
    *(("zero_point", {"zero_point": value}, ValueError) for value in (2**31, -(2**31) - 1, [1, 2])),
    *(("zero_point", {"zero_point": value}, TypeError) for value in (None, 0.5, "0")),
    ("zero_point", {"zero_point": [1] * 3, "axis": 1}, ValueError),
    *(("axis", {"axis": value}, ValueError) for value in (2, -3)),
    *(("axis", {"axis": value}, TypeError) for value in ("0", 0.0, (0, 1))),
    *(("out", {"out": out}, TypeError) for out in (np.zeros((2, 4)), np.zeros((2, 4), np.int8), [[0] * 4] * 2)),
    *(("out", {"out": np.zeros(shape, np.float32)}, ValueError) for shape in ((3, 4), (4, 2), 8)),
    ("out", {"out": np.broadcast_to(np.float32(0), (2, 4))}, ValueError),
]  # fmt: skip


@pytest.mark.parametrize(("named", "changes", "error"), WRONG)
def test_wrong_arguments(named, changes, error):
    keywords = {"table": TABLE, "indices": [2, 0], "out": np.full((2, 4), 77, np.float32)} | changes
    before = np.array(keywords["out"])
    with pytest.raises(error, match=rf"^{named} must "):
        int8blas.gather(keywords.pop("table"), keywords.pop("indices"), **keywords)
    np.testing.assert_array_equal(keywords["out"], before)


def test_sums_of_bags(isa, rng):
    """Each product and each sum is rounded, in the order of the rows. Bags may be empty, and may end early."""
    indices = rng.integers(0, ROWS, 40)
    starts = np.array([0, 0, 1, 4, 37, 37], np.int64)
    for columns, mean in product((1, 15, 16, 63, 64, 83, 145), (False, True)):
        table, scales = random_values(rng, np.int8, (ROWS, columns)), rng.uniform(0.01, 1, ROWS).astype(np.float32)
        expected = np.zeros((len(starts) - 1, columns), np.float32)
        for bag, (first, end) in enumerate(pairwise(starts)):
            for row in indices[first:end]:
                expected[bag] += scales[row] * table[row].astype(np.float32)
            if mean and end > first:
                expected[bag] /= np.float32(end - first)
        assert_same(sum_bags(table, indices, scales, starts, mean), expected, columns=columns)
    for wrong in ([1, 2], [0, 3, 2], [0, 41], []):
        assert sum_bags(table, indices, scales, np.array(wrong, np.int64), mean) is None
    for wrong_table, wrong_scales in (
        (np.asfortranarray(table), scales), (table.view(np.uint8), scales), (table[0], scales), (table, scales[1:]),
        (table, scales.astype(np.float64)), (table, np.repeat(scales, 2)[::2]),
    ):  # fmt: skip
        assert sum_bags(wrong_table, indices, wrong_scales, starts, mean) is None
    with pytest.raises(ValueError, match="indices must be between 0 and 49, got 50"):
        sum_bags(table, [50], scales, starts, mean)
