"""Tests of the oracles: against cases computed by hand and against sums of Python integers."""

import numpy as np
import pytest
import reference


def u8(*rows):
    return np.array(rows, np.uint8)


def s8(*rows):
    return np.array(rows, np.int8)


def sums_of_python_integers(a, b, ao, bo):
    """(A - ao) @ (B - bo) by its definition."""
    m, depth, n = len(a), len(b), len(b[0])
    return [[sum((a[i][k] - ao[i]) * (b[k][j] - bo[j]) for k in range(depth)) for j in range(n)] for i in range(m)]


def test_the_product_is_the_sum_of_products(pair, rng):
    a, b = pair.operands(rng, 3, 4, 5)
    (ao,), (bo,) = pair.operands(rng, 1, 4, 3)[0], pair.operands(rng, 1, 4, 1)[1]
    expected = sums_of_python_integers(a.tolist(), b.tolist(), ao.tolist(), bo.tolist())
    assert reference.exact_product(a, b, ao, bo).tolist() == expected
    assert reference.exact_product(a.T, b.T, ao, bo, True, True).tolist() == expected
    assert reference.gemm(1, a, b, ao=ao, bo=bo).tolist() == expected


def test_offsets_go_where_offsetc_says():
    a, b = u8([1], [2]), s8([1, 10])
    assert reference.gemm(1, a, b, co=5).tolist() == [[6, 15], [7, 25]]
    assert reference.gemm(1, a, b, co=[100, 200], offsetc="C").tolist() == [[101, 110], [202, 220]]
    assert reference.gemm(1, a, b, co=[100, 200], offsetc="R").tolist() == [[101, 210], [102, 220]]


def test_beta_times_c_is_added_rounded_and_saturated():
    a, b, c = u8([1, 2]), s8([3, 4], [5, 6]), np.array([[7, 2**31 - 1]], np.int32)
    assert reference.gemm(1, a, b, 1, c).tolist() == [[20, 2**31 - 1]]
    assert reference.gemm(0.5, a, b, 0, c).tolist() == [[6, 8]]
    assert reference.gemm(-0.5, a, b, -1, c).tolist() == [[-14, -(2**31)]]


@pytest.mark.parametrize(("a", "b", "exact", "saturating"), [
    (u8([255, 255, 0, 0]), s8([127], [127], [0], [0]), 64770, 32767),
    (s8([127, 127, 0, 0]), s8([127], [127], [0], [0]), 32258, 255),
    (u8([255, 255, 255]), s8([-128], [-128], [-128]), -97920, -32768 - 32640),
    (u8([0, 255, 255, 0]), s8([127], [127], [127], [127]), 64770, 64770),
    (u8([255, 255]), u8([255], [255]), 130050, 32767 + 128 * 510),
    (s8([-128, -128]), u8([0], [0]), 0, 0),
])  # fmt: skip
def test_pairs_saturate_and_shifts_are_compensated_exactly(a, b, exact, saturating):
    assert reference.exact_product(a, b).item() == exact
    assert reference.saturating_product(a, b).item() == saturating


def test_packed_data_is_figure_4():
    b = (np.arange(6 * 18).reshape(6, 18) - 50).astype(np.int8)
    data = reference.packed_data(b)
    assert data.shape == (2, 2, 16, 4)
    assert data.reshape(-1)[:8].tolist() == [*b[:4, 0], *b[:4, 1]]
    assert data[0, 1, 0].tolist() == [b[4, 0], b[5, 0], 0, 0]
    assert data[1, 0, 1].tolist() == [*b[:4, 17]]
    assert not data[1, :, 2:].any()
    np.testing.assert_array_equal(reference.packed_data(b.astype(np.uint8)), reference.packed_data(b ^ -128))


@pytest.mark.parametrize(("column", "certified"), [
    ([64, 64], True), ([64, 65], False), ([127, 1], True), ([127, 2], False), ([-128, 0], True), ([-128, -1], False),
    ([-128, 127], True), ([-64, -64], True), ([1, 127, 127, 1], True), ([0, 127, 2], True), ([], True),
])  # fmt: skip
def test_no_saturation_proof(column, certified):
    b = np.array(column, np.int8).reshape(-1, 1)
    assert reference.certified(b).tolist() == [certified]
    assert reference.certified((b.astype(int) + 128).astype(np.uint8)).tolist() == [certified]


def test_each_panel_has_a_separate_no_saturation_proof():
    b = np.zeros((2, 33), np.int8)
    b[:, 20] = 127
    assert reference.certified(b).tolist() == [True, False, True]
    assert reference.certified(b[:, :0]).tolist() == []


def test_saturated_pairs_come_in_order():
    a, b = u8([255] * 4, [1] * 4), s8([127, 0], [127, 0], [0, -128], [0, -128])
    assert reference.saturated_pairs(a, b).tolist() == [[0, 0, 0], [0, 1, 2]]
    assert reference.saturated_pairs(a[:0], b).shape == (0, 3)
