"""The warning about saturated int32 results appears if and only if an element saturates."""

import warnings
from itertools import product

import numpy as np
import pytest
import reference
from arrays import B_FORMS, assert_same
from reference import INT32_MAX, INT32_MIN

import int8blas

# From these K on, sums of the largest products of the two types exceed int32.
LEAST_K = {("uint8", "uint8"): 33026, ("uint8", "int8"): 65794, ("int8", "uint8"): 65794, ("int8", "int8"): 131072}


def with_warnings(function, *arguments, **options):
    """The result, and the messages of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments, **options)
    assert all(warning.category is RuntimeWarning for warning in caught)
    return result, [str(warning.message) for warning in caught]


def largest(pair, m, n, k):
    """Operands whose products are the largest in magnitude."""
    a_low, b_low = np.iinfo(pair.a_dtype).min, np.iinfo(pair.b_dtype).min
    a = np.full((m, k), 255 if a_low == 0 else a_low, pair.a_dtype)
    b = np.full((k, n), 255 if b_low == 0 else b_low, pair.b_dtype)
    return a, b


@pytest.mark.parametrize("form", B_FORMS)
def test_it_comes_from_the_first_k_that_int32_cannot_hold(isa, pair, form):
    least = LEAST_K[np.dtype(pair.a_dtype).name, np.dtype(pair.b_dtype).name]
    for (m, n), threads in product(((1, 1), (3, 1), (1, 20), (7, 17)), (1, 3)):
        a, b = largest(pair, m, n, least)
        with int8blas.num_threads(threads):
            result, messages = with_warnings(int8blas.matmul, a[:, 1:], B_FORMS[form](b[1:]))
            assert_same(result, reference.gemm(1, a[:, 1:], b[1:]))
            assert messages == []
            result, messages = with_warnings(int8blas.matmul, a, B_FORMS[form](b))
        assert_same(result, reference.gemm(1, a, b))
        assert len(messages) == 1
        assert messages[0].startswith("matmul: ")
        assert "dtype=np.int64" in messages[0]


def test_one_element_of_many_is_enough(isa, pair):
    a, b = largest(pair, 10, 20, 140_000)
    a[:3], a[4:] = 1, 1
    b[:, :17], b[:, 18:] = 1, 1
    for form in B_FORMS.values():
        result, messages = with_warnings(pair.gemm, 1, a, form(b))
        assert np.count_nonzero((result == INT32_MAX) | (result == INT32_MIN)) == 1
        assert len(messages) == 1
        assert messages[0].startswith(f"{pair.gemm.__name__}: ")


@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 17, 9), (40, 70, 100), (1, 300, 64), (300, 1, 64), (70, 300, 5)])
def test_offsets_c_and_alpha_saturate_too(isa, shape):
    m, n, k = shape
    a, b = np.full((m, k), 2, np.uint8), np.full((k, n), 3, np.int8)
    x = 6 * k
    cases = (  # the number added to x, and whether the sum exceeds int32
        ({"co": INT32_MAX - x}, False),
        ({"co": INT32_MAX - x + 1}, True),
        ({"co": [INT32_MAX - x] * (n - 1) + [INT32_MAX - x + 1], "offsetc": "R"}, True),
        ({"co": [INT32_MAX - x] * (m - 1) + [INT32_MAX - x + 1], "offsetc": "C"}, True),
        ({"beta": 1, "c": INT32_MAX - x}, False),
        ({"beta": 1, "c": INT32_MAX - x + 1}, True),
        ({"beta": 1, "c": INT32_MAX - x, "co": 1}, True),
        ({"beta": -1, "c": INT32_MIN + x + 1}, False),
        ({"beta": -1, "c": INT32_MIN + x}, True),
    )
    for options, saturates in cases:
        options = dict(options)
        if "c" in options:
            options["c"] = np.full((m, n), options["c"], np.int32, order="F")
        result, messages = with_warnings(int8blas.gemm_u8s8s32, 1, a, b, **options)
        assert_same(result, reference.gemm(1, a, b, **options), **options)
        assert bool(messages) == saturates, options


def test_what_is_rounded_to_an_end_of_int32_is_not_saturated(isa):
    a, b = np.ones((1, 2), np.uint8), np.ones((2, 3), np.int8)
    for c, alpha, saturates in (
        (INT32_MAX, 0.125, False), (INT32_MAX, 0.25, True), (INT32_MIN, -0.25, False), (INT32_MIN, -0.375, True)
    ):  # fmt: skip
        c = np.full((1, 3), c, np.int32)
        result, messages = with_warnings(int8blas.gemm_u8s8s32, alpha, a, b, 1, c)
        assert_same(result, c)
        assert bool(messages) == saturates, alpha


def test_batches_warn_once(isa):
    a, b = np.full((5, 2, 140_000), 255, np.uint8), np.full((5, 140_000, 3), 127, np.int8)
    a[:3] = 0
    _, messages = with_warnings(int8blas.matmul, a, b)
    assert len(messages) == 1
    _, messages = with_warnings(int8blas.matmul, a[:3], b[:3])
    assert messages == []


def test_the_result_is_complete_where_the_warning_is_an_error(isa):
    a, b = np.full((3, 140_000), 255, np.uint8), np.full((140_000, 2), 127, np.int8)
    for out in (np.zeros((3, 2), np.int32), np.zeros(28, np.uint8)[4:].view(np.int32).reshape(3, 2)):
        with pytest.warns(RuntimeWarning, match="saturated"):
            int8blas.matmul(a, b, out=out)
        assert (out == INT32_MAX).all()
    out[:] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(RuntimeWarning, match=r"dtype=np\.int64"):
            int8blas.gemm_u8s8s32(1, a, b, 0, out, overwrite_c=True)
    assert (out == INT32_MAX).all()


def test_packed_operators_warn_as_matmul(isa):
    packed = int8blas.pack_b(np.full((140_000, 2), 127, np.int8))
    _, messages = with_warnings(lambda: np.full((1, 140_000), 255, np.uint8) @ packed)
    assert len(messages) == 1


def test_the_line_of_the_call_is_the_warning_s(isa):
    a, b = np.full((1, 140_000), 255, np.uint8), np.full((140_000, 1), 127, np.int8)
    with pytest.warns(RuntimeWarning, match="saturated") as caught:
        int8blas.matmul(a, b)
    assert caught[0].filename == __file__
