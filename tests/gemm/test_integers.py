"""matmul of integers of every width is exact: against Python's integers, on every instruction set."""

import itertools
import warnings

import numpy as np
import pytest
from arrays import guarded

import int8blas

DTYPES = (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
MODES = ("saturate", "wrap", "raise")


def draw(rng, dtype, shape, kind):
    """Values of a dtype: small values, the whole range, its ends, or numbers of fewer bits."""
    if dtype is np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    if kind == "small":
        return rng.integers(max(info.min, -90), 100, shape).astype(dtype)
    if kind == "ends":
        return np.where(rng.random(shape) < 0.5, info.min, info.max).astype(dtype)
    values = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return values if kind == "full" else values >> dtype(info.bits // 3)


def exact(a, b):
    return np.asarray((a * 1).astype(object) @ (b * 1).astype(object), object)


def stored(product, dtype, overflow):
    """An exact product converted to a dtype, or None if matmul must raise an error."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if overflow == "wrap":
        return ((product - low) % (high - low + 1) + low).astype(dtype)
    if overflow == "raise" and not (low <= product.min() and product.max() <= high):
        return None
    return np.clip(product, low, high).astype(dtype)


def check(a, b, dtype, overflow):
    expected = stored(exact(a, b), dtype, overflow)
    if expected is None:
        with pytest.raises(OverflowError, match=rf"^matmul: elements of the result are beyond {np.dtype(dtype)}, "):
            int8blas.matmul(a, b, dtype=dtype, overflow=overflow)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = int8blas.matmul(a, b, dtype=dtype, overflow=overflow)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", ["small", "part", "full", "ends"])
def test_every_mix_of_dtypes(isa, kind):
    rng = np.random.default_rng(54)
    for a_dtype, b_dtype in itertools.product(DTYPES, repeat=2):
        a, b = draw(rng, a_dtype, (5, 37), kind), draw(rng, b_dtype, (37, 30), kind)
        for dtype, overflow in itertools.product((np.int32, np.int64, np.uint64, np.uint8), MODES):
            check(a, b, dtype, overflow)


SHAPES = [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (9, 1, 50), (1, 300, 1), (70, 300, 1), (1, 300, 70),
          (70, 300, 60), (33, 1030, 130), (2, 2, 600)]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bits", [(3, 9), (12, 12), (14, 14), (15, 15), (16, 7), (20, 31), (33, 33), (63, 63)])
def test_every_kind_of_multiply_add(isa, shape, bits):
    """Operands of these widths are multiplied as pairs of s16, as s32, or in 64 bits; sizes have several blocks and
    incomplete tiles."""
    m, k, n = shape
    rng = np.random.default_rng(m + k + n)
    a, b = (rng.integers(-(2**count), 2**count, size, np.int64, endpoint=count < 63) if count < 63
            else rng.integers(-(2**63), 2**63 - 1, size, np.int64)
            for count, size in zip(bits, ((m, k), (k, n)), strict=True))  # fmt: skip
    wrapped = int8blas.matmul(a, b, overflow="wrap")
    np.testing.assert_array_equal(wrapped, a @ b)
    if m * n * k <= 5000:
        check(a, b, np.int64, "saturate")


def test_sums_at_the_ends_of_s32_and_s64(isa):
    """Each kind of multiply-add with the largest operands for which it is chosen, at every k."""
    for count in (7, 13, 14, 15, 31):
        low = np.full((7, 4100), -(2**count), np.int64)
        for b in (low.T, ~low.T):
            np.testing.assert_array_equal(int8blas.matmul(low, b, overflow="wrap"), low @ b)
    edge = np.array([[2**31, 1]])
    assert int8blas.matmul(edge, [[2**32 - 1], [2**31 - 1]]).item() == 2**63 - 1
    with pytest.warns(RuntimeWarning, match="beyond int64 were saturated"):
        assert int8blas.matmul(edge, [[2**32 - 1], [2**31]]).item() == 2**63 - 1
    with pytest.raises(OverflowError, match="beyond int64"):
        int8blas.matmul(edge, [[2**32 - 1], [2**31]], overflow="raise")
    assert int8blas.matmul(-edge, [[2**32 - 1], [2**31]]).item() == -(2**63)
    unsigned = np.array([[2**32, 2**32 - 1]], np.uint64)
    assert int8blas.matmul(unsigned, np.array([[2**32 - 1], [1]], np.uint64)).item() == 2**64 - 1
    with pytest.raises(OverflowError, match="beyond uint64"):
        int8blas.matmul(unsigned, np.array([[2**32 - 1], [2]], np.uint64), overflow="raise")


def test_sums_that_cancel(isa):
    """float64 is not precise enough to decide whether these sums fit 64 bits; a computation by digits is."""
    x = np.random.default_rng(3).integers(2**61, 2**62, (4, 90), np.int64)
    a, b = np.hstack([x, -x]), np.hstack([x, x]).T.copy()
    b[0, 0] += 1
    for dtype, overflow in itertools.product((np.int64, np.uint64, np.int16), MODES):
        check(a, b, dtype, overflow)


@pytest.mark.parametrize("dtype", [np.int16, np.int64])
@pytest.mark.parametrize("large", [False, True])
def test_strides_stacks_and_out(isa, dtype, large):
    """Tiny and large products, of values that fit 8 bits and values that do not."""
    m, k, n = (70, 90, 80) if large else (3, 4, 5)
    rng = np.random.default_rng(5)
    for high in (100, 9000):
        x, y = rng.integers(-high, high, (2, 3, 2 * m, k)).astype(dtype), rng.integers(0, high, (3, k, n)).astype(dtype)
        pairs = [
            (x[0, 0], y[0]), (x[0, 0, ::-2], y[0, :, ::-1]), (x[0, 0].copy("F"), y[0].copy("F")), (x[0, 0, 0], y[0]),
            (x[0, 0], y[0, :, 0]), (x[0, 0, 0], y[0, :, 0]), (x, y), (x, y[0]), (x[0, 0], y), (x[:, :1], y),
            (x[0, :, ::2], y[::-1]), (x[0, 0, 0], y), (np.broadcast_to(x[0, 0, :1], (m, k)), y[0]),
        ]  # fmt: skip
        for a, b in pairs:
            expected = a.astype(np.int64) @ b.astype(np.int64)
            a.flags.writeable = False
            result = int8blas.matmul(a, b)
            assert type(result) is type(expected)
            np.testing.assert_array_equal(result, expected)
            if expected.ndim:
                for out_dtype in (np.int64, np.int32):
                    out = np.zeros((*expected.shape, 2), out_dtype)
                    assert int8blas.matmul(a, b, out=out[..., 1]).base is out
                    np.testing.assert_array_equal(out[..., 1], expected)
                    assert not out[..., 0].any()


def test_strides_of_dimensions_of_one_element(isa):
    """Such strides may have any value: NumPy considers the arrays contiguous."""
    x = np.lib.stride_tricks.as_strided(np.arange(10, 30, dtype=np.int16), (2, 1, 1), (2, 34, 6))
    assert x.flags.c_contiguous
    np.testing.assert_array_equal(int8blas.matmul(x, [[10**6]])[:, 0, 0], [10 * 10**6, 11 * 10**6])


def test_a_result_in_the_memory_of_an_operand(isa):
    for high in (50, 10**6):
        x = np.random.default_rng(1).integers(-high, high, (60, 60))
        expected = x @ x
        assert int8blas.matmul(x, x, out=x) is x
        np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("end", ["start", "end"])
def test_nothing_beyond_the_operands_is_read(isa, end):
    memory = guarded(end)
    rng = np.random.default_rng(2)
    for dtype, (m, k, n) in itertools.product((np.int16, np.int32, np.uint64), ((1, 1, 1), (5, 7, 9), (13, 300, 50))):
        arrays = []
        for shape in ((m, k), (k, n)):
            x = memory(int(np.prod(shape)) * np.dtype(dtype).itemsize).view(dtype).reshape(shape)
            x[...] = rng.integers(0, 2**15, shape)
            arrays.append(x)
        a, b = arrays
        np.testing.assert_array_equal(int8blas.matmul(a, b), a.astype(np.int64) @ b.astype(np.int64))


def test_empty_products():
    for dtype in (np.int64, np.uint16):
        a, b = np.zeros((3, 0), dtype), np.zeros((0, 4), dtype)
        assert not int8blas.matmul(a, b).any()
        assert int8blas.matmul(b.T, a.T, out=np.ones((4, 3), np.int32)).sum() == 0
        assert int8blas.matmul(np.zeros((0, 5), dtype), np.zeros((5, 2), dtype)).shape == (0, 2)
        assert int8blas.matmul(np.zeros((0, 2, 5), dtype), np.zeros((5, 2), dtype)).shape == (0, 2, 2)
        assert int8blas.matmul(a[0], b[:, 0]) == 0


def test_threads_give_the_same_sums():
    rng = np.random.default_rng(8)
    for high in (100, 2000, 2**20, 2**40):
        a, b = rng.integers(-high, high, (150, 200)), rng.integers(-high, high, (200, 130))
        stack = rng.integers(-high, high, (5, 60, 200))
        for threads in (1, 2, 3, 5):
            with int8blas.num_threads(threads):
                np.testing.assert_array_equal(int8blas.matmul(a, b, overflow="wrap"), a @ b)
                np.testing.assert_array_equal(int8blas.matmul(stack, b[np.newaxis], overflow="wrap"), stack @ b)


def test_the_dtype_of_the_result():
    for a_dtype, b_dtype in itertools.product(DTYPES, repeat=2):
        a, b = np.ones((2, 2), a_dtype), np.ones((2, 2), b_dtype)
        narrow = a.itemsize == b.itemsize == 1
        wanted = np.int32 if narrow else np.uint64 if a.dtype == b.dtype == np.uint64 else np.int64
        assert int8blas.matmul(a, b).dtype == wanted
    assert int8blas.matmul([[1, 2]], [[3], [4]]).dtype == np.int64
    swapped = np.array([[1, -2]], ">i4")
    assert int8blas.matmul(swapped, swapped.T).item() == 5


def test_a_packed_b_takes_values_of_any_width():
    b = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    packed = int8blas.pack_b(b)
    for a in (np.array([[1, -100, 127]]), np.array([[1, 300, 127]]), np.array([[2**50, -(2**51), 7]])):
        np.testing.assert_array_equal(int8blas.matmul(a, packed), a @ b)


def test_wrong_arguments():
    wide, narrow = np.ones((2, 2), np.int16), np.ones((2, 2), np.int8)
    for arguments, error, text in (
        ({"ao": 1}, ValueError, "ao must be 0 when an operand is wider than 8 bits, got 1"),
        ({"bo": [1, 2]}, ValueError, "bo must be 0 when an operand is wider than 8 bits, got \\[1, 2\\]"),
        ({"numerics": "saturating"}, ValueError, "numerics must be 'exact' when an operand is wider than 8 bits"),
        ({"overflow": "clip"}, ValueError, "overflow must be 'saturate', 'wrap' or 'raise', got 'clip'"),
        ({"overflow": None}, ValueError, "overflow must be 'saturate', 'wrap' or 'raise', got None"),
        ({"dtype": float}, TypeError, "dtype must be an integer dtype, got float64"),
        ({"out": np.ones((2, 3), int)}, ValueError, "out must have shape \\(2, 2\\), got \\(2, 3\\)"),
        ({"out": np.ones((2, 2))}, TypeError, "out must be of an integer dtype, got float64"),
        ({"out": np.ones((2, 2), bool)}, TypeError, "out must be of an integer dtype, got bool"),
    ):
        with pytest.raises(error, match=f"^{text}"):
            int8blas.matmul(wide, narrow, **arguments)
    for a, b, error, text in (
        (wide, np.ones((3, 2), int), ValueError, "b must have 2 rows, as a has 2 columns, got 3"),
        (np.ones((2, 2, 2), int), np.ones((3, 2, 2), int), ValueError, "b must have leading dimensions that broadcast"),
        (wide, np.int64(1), ValueError, "b must have at least 1 dimension, got a scalar"),
        (np.int64(1), wide, ValueError, "a must have at least 1 dimension, got a scalar"),
        (wide, np.ones((2, 2)), TypeError, "b must be uint8 or int8, got float64"),
        (wide.astype("m8[s]"), wide, TypeError, "a must be uint8 or int8, got "),
        (wide.astype(object), wide, TypeError, "a must be uint8 or int8, got "),
    ):
        with pytest.raises(error, match=f"^{text}"):
            int8blas.matmul(a, b)


def test_raise_leaves_out_as_it_was():
    for a, b in (
        (np.full((40, 90), 2000, np.int16),) * 2,
        (np.full((40, 90), 2**40),) * 2,
        (np.full((3, 9), 120, "i1"),) * 2,
    ):
        out = np.full((len(a), len(b)), 7, np.int16)
        with pytest.raises(OverflowError, match="beyond int16"):
            int8blas.matmul(a, b.T, out=out, overflow="raise")
        assert (out == 7).all()


# --- explain ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "kind", "segment"),
    [((10, 15), "s16", 62), ((15, 11), "s16", 30), ((14, 14), "s16_full", None), ((15, 15), "s16_full", None),
     ((20, 31), "s32", None), ((33, 3), "s64", None)],
)  # fmt: skip
def test_explain_names_the_multiply_add(isa, bits, kind, segment):
    a, b = (np.full(shape, -(2**count)) for count, shape in zip(bits, ((30, 40), (40, 50)), strict=True))
    plan = int8blas.explain(a, b)
    assert (plan.shape, plan.isa, plan.multiply_add, plan.segment) == ((30, 50, 40), isa, kind, segment)
    assert plan.bits == bits
    assert (plan.limbs, plan.b_is_packed, plan.searches_overflow) == (1, False, False)
    assert plan.exact_in_float64 == (sum(bits) + 6 <= 53)
    assert f"kernel {isa} {kind} {plan.tile[0]}x{plan.tile[1]}: " in str(plan)
    assert ("float64 BLAS" in str(plan)) == (plan.exact_in_float64 and kind in ("s32", "s64"))
    assert int8blas.explain(a.T.copy(), b.T.copy(), trans_a=True, trans_b=True) == plan


def test_explain_small_values_and_limbs(isa):
    small = int8blas.explain(np.ones((300, 200), np.int64), np.ones((200, 100), np.uint16))
    assert isinstance(small, int8blas.Explanation)
    assert small == int8blas.explain(np.ones((300, 200), np.int8), np.ones((200, 100), np.int8))
    wide = np.full((9, 50), 2**33)
    for b, kind, limbs in (
        (np.ones((50, 8), np.int16), "s16_full", 3), (np.ones((50, 8), np.int8), "bytes", 5),
    ):  # fmt: skip
        plan = int8blas.explain(wide, int8blas.pack_b(b))
        assert (plan.multiply_add, plan.limbs, plan.b_is_packed) == (kind, limbs, True)
        assert f"A is divided into {limbs} limbs" in str(plan)
    packed = int8blas.explain(np.full((9, 50), 300), int8blas.pack_b(np.full((50, 8), 300, np.int16)))
    assert (packed.multiply_add, packed.limbs) == ("s16", 1)
    assert int8blas.explain(wide[:2, :2], wide[:2, :2]).multiply_add == "direct"
    assert int8blas.explain(wide, wide.T).searches_overflow
    with pytest.raises(ValueError, match=r"^numerics must be 'exact' when an operand is wider than 8 bits"):
        int8blas.explain(wide, wide.T, numerics="saturating")
    with pytest.raises(ValueError, match=r"^a and b must have 2 dimensions"):
        int8blas.explain(wide[0], wide.T)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: int8blas.matmul(x, x, dtype=np.int8), lambda x: int8blas.dot(x, x, dtype=np.int16),
        lambda x: int8blas.einsum("ij,jk", x, x, dtype=np.int8), lambda x: int8blas.vecdot(x, x, dtype=np.uint8),
        lambda x: int8blas.syrk_s16s64(2**60, x), lambda x: int8blas.gemm_s16s16s32(2**30, x, x),
    ],
)  # fmt: skip
def test_a_warning_names_the_caller(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call(np.full((2, 2), 3000, np.int16))
    assert [one.filename for one in seen] == [__file__]
