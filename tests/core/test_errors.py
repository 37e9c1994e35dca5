"""Bad input raises an error that names the argument, and nothing is written."""

import numpy as np
import pytest
from arrays import assert_same
from errors import read_only, s8, s32, u8

import int8blas
import int8blas.formats

M, N, K = 4, 6, 5
HUGE = 2**31 + 5


def check_refused(function, arguments, result, error, named):
    """Check that the call raises `error` with a text that names the argument, and leaves the result unchanged."""
    before = None if result is None else np.array(result)
    with pytest.raises(error, match=rf"^{named} must "):
        function(**arguments)
    if result is not None:
        np.testing.assert_array_equal(result, before)


WRONG_A = [
    (s8(M, K), TypeError), (u8(M, K).astype(np.int32), TypeError), (u8(M, K).astype(float), TypeError),
    (u8(M, K).astype(complex), TypeError), (u8(M, K).astype(object), TypeError), (np.zeros((M, K), "u1,u1"), TypeError),
    (None, TypeError), ("a", TypeError), (b"a", TypeError), ([[1, 2]], TypeError), ([[1], [2, 3]], TypeError),
    ({}, TypeError), (object(), TypeError), (1, TypeError),
    (u8(K), ValueError), (u8(1, M, K), ValueError), (np.uint8(1), ValueError),
]  # fmt: skip

WRONG_B = [
    (u8(K, N), TypeError), (s8(K, N).astype(np.int16), TypeError), (None, TypeError), ("b", TypeError),
    ([[1, 2]], TypeError), (object(), TypeError), (int8blas.pack_b(u8(K, N)), TypeError),
    (s8(K), ValueError), (s8(1, K, N), ValueError), (s8(N, K), ValueError), (s8(K + 1, N), ValueError),
    (s8(0, N), ValueError), (int8blas.pack_b(s8(N, K)), ValueError), (int8blas.pack_b(s8(0, N)), ValueError),
]  # fmt: skip

WRONG_NUMBERS = [
    (np.nan, ValueError), (np.inf, ValueError), (-np.inf, ValueError), (np.float32("inf"), ValueError),
    (10**400, ValueError), ("1", TypeError), (None, TypeError), (1j, TypeError), ([], TypeError), (b"1", TypeError),
    (np.complex64(1), TypeError), (np.array(1j), TypeError), (np.array("1"), TypeError), (np.void(b"1"), TypeError),
]  # fmt: skip

WRONG_FLAGS = [
    (3, ValueError),
    (-1, ValueError),
    (2**70, ValueError),
    ("T", TypeError),
    (None, TypeError),
    (1.0, TypeError),
]

WRONG_ZERO_POINTS = [
    (0.0, TypeError), (1.5, TypeError), (None, TypeError), ("1", TypeError), (1j, TypeError), ([1.0] * N, TypeError),
    (10**30, ValueError), (-(10**30), ValueError), ([1] * 3, ValueError), ([1] * 99, ValueError),
    ([[1] * N], ValueError), (256, ValueError), (-129, ValueError), (np.int64(2**40), ValueError),
]  # fmt: skip

WRONG_OFFSETS = [
    (0.5, TypeError), (None, TypeError), ("1", TypeError), (2**31, ValueError), (-(2**31) - 1, ValueError),
    (10**30, ValueError), (np.uint64(2**63), ValueError), ([1, 2], ValueError), ([[1]], ValueError), ([], ValueError),
]  # fmt: skip

GEMM = [
    *(("a", {"a": a}, error) for a, error in WRONG_A),
    *(("(a|b)", {"a": a}, ValueError) for a in (u8(M, K - 1), u8(K, M), u8(M, 0))),
    ("c", {"a": u8(M + 1, K)}, ValueError),
    ("a", {"a": int8blas.pack_b(s8(M, K))}, TypeError),
    *(("b", {"b": b}, error) for b, error in WRONG_B),
    *((name, {name: value}, error) for name in ("alpha", "beta") for value, error in WRONG_NUMBERS),
    *((name, {name: value}, error) for name in ("trans_a", "trans_b", "overwrite_c") for value, error in WRONG_FLAGS),
    ("b", {"trans_b": True}, ValueError),
    ("trans_b", {"b": int8blas.pack_b(s8(K, N)), "trans_b": True}, ValueError),
    *((name, {name: value}, error) for name in ("ao", "bo") for value, error in WRONG_ZERO_POINTS),
    ("ao", {"ao": -1}, ValueError),
    ("bo", {"bo": 128}, ValueError),
    ("ao", {"ao": [1] * N}, ValueError),
    ("bo", {"bo": [1] * M}, ValueError),
    ("ao", {"ao": [0, 0, 0, 256]}, ValueError),
    ("bo", {"bo": [0, 0, 0, 0, 0, -129]}, ValueError),
    *(("co", {"co": co}, error) for co, error in WRONG_OFFSETS),
    ("co", {"co": [1] * N, "offsetc": "C"}, ValueError),
    ("co", {"co": [1] * M, "offsetc": "R"}, ValueError),
    ("co", {"co": [0, 0, 0, 2**31], "offsetc": "C"}, ValueError),
    ("co", {"co": [0.0] * M, "offsetc": "C"}, TypeError),
    *(("offsetc", {"offsetc": offsetc}, (TypeError, ValueError)) for offsetc in ("X", "", "FC", None, 1, b"F")),
    *(("numerics", {"numerics": numerics}, (TypeError, ValueError)) for numerics in ("fast", "", "EXACT", None, 1)),
]  # fmt: skip

WRONG_RESULTS = [
    (s32(M, N).astype(np.int64), TypeError), (s32(M, N).astype(np.float32), TypeError), (u8(M, N), TypeError),
    (s32(M, N).astype(np.uint32), TypeError), (s32(M, N).astype(np.dtype("i4").newbyteorder()), TypeError),
    (s32(M, N).tolist(), TypeError), ("c", TypeError), (7, TypeError),
    (s32(N, M), ValueError), (s32(M, N + 1), ValueError), (s32(M * N), ValueError), (s32(1, M, N), ValueError),
    (s32(0, N), ValueError), (read_only(s32(M, N)), ValueError),
    (np.broadcast_to(s32(1, N), (M, N)), ValueError),
    (np.lib.stride_tricks.as_strided(s32(N), (M, N), (0, 4)), ValueError),
    (np.lib.stride_tricks.as_strided(s32(M), (M, N), (4, 0)), ValueError),
    (np.lib.stride_tricks.as_strided(s32(M + N), (M, N), (4, 4)), ValueError),
    (np.lib.stride_tricks.as_strided(s32(M * N), (M, N), (4 * N - 4, 4)), ValueError),
]  # fmt: skip


@pytest.mark.parametrize(("named", "changes", "error"), GEMM)
@pytest.mark.parametrize("numerics", ["exact", "saturating"])
def test_gemm(named, changes, error, numerics):
    c = s32(M, N)
    good = {"alpha": 1.0, "a": u8(M, K), "b": s8(K, N), "beta": 1.0, "c": c, "overwrite_c": True, "numerics": numerics}
    check_refused(int8blas.gemm_u8s8s32, good | changes, c, error, named)


@pytest.mark.parametrize(("c", "error"), WRONG_RESULTS)
def test_gemm_into_a_wrong_c(c, error):
    arguments = {"alpha": 1.0, "a": u8(M, K), "b": s8(K, N), "beta": 0.0, "c": c, "overwrite_c": True}
    check_refused(int8blas.gemm_u8s8s32, arguments, c, error, "c")


# The result of matmul may have any integer dtype.
WRONG_OUTS = [pair for pair in WRONG_RESULTS if getattr(pair[0], "dtype", None) not in (np.int64, np.uint8, np.uint32)]


@pytest.mark.parametrize(("out", "error"), [(s32(N, M).astype(np.int64), ValueError), *WRONG_OUTS])
def test_matmul_into_a_wrong_out(out, error):
    check_refused(int8blas.matmul, {"a": u8(M, K), "b": s8(K, N), "out": out}, out, error, "out")


@pytest.mark.parametrize("shape", [(2, N), (3, N), (2, M, N), (2, M, 1), (2, M, 1, 1), (M,)])
def test_products_of_stacks_and_vectors_into_a_wrong_out(shape):
    """The result has the shape (2, M)."""
    arguments = {"a": u8(2, M, K), "b": s8(K)}
    assert int8blas.matmul(**arguments, out=s32(2, M)).tolist() == [[K] * M] * 2
    out = s32(*shape)
    check_refused(int8blas.matmul, arguments | {"out": out}, out, ValueError, "out")


@pytest.mark.parametrize(
    "c", [s32(M, N).astype(np.int64), s32(N, M), s32(M * N), "c"], ids=["int64", "shape", "1-D", "str"]
)
def test_a_c_that_is_copied_is_checked_too(c):
    arguments = {"alpha": 1.0, "a": u8(M, K), "b": s8(K, N), "beta": 1.0, "c": c}
    check_refused(int8blas.gemm_u8s8s32, arguments, c, (TypeError, ValueError), "c")


def test_each_gemm_takes_its_own_types_only(pair):
    other = {np.uint8: s8, np.int8: u8}
    a, b = np.ones((M, K), pair.a_dtype), np.ones((K, N), pair.b_dtype)
    wrong_a, wrong_b = other[pair.a_dtype](M, K), other[pair.b_dtype](K, N)
    for bad_a, bad_b, named, wanted in (
        (wrong_a, b, "a", pair.a_dtype),
        (a, wrong_b, "b", pair.b_dtype),
        (a, int8blas.pack_b(wrong_b), "b", pair.b_dtype),
    ):
        with pytest.raises(TypeError, match=rf"^{named} must be {wanted.__name__}, got "):
            pair.gemm(1.0, bad_a, bad_b)


def test_missing_and_unknown_arguments():
    for arguments, keywords in (
        ((), {}), ((1.0,), {}), ((1.0, u8(M, K)), {}), ((1.0, u8(M, K), s8(K, N)), {"unknown": 1}),
        ((1.0, u8(M, K), s8(K, N), 0.0, None, False, False, False, "F"), {}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="argument"):
            int8blas.gemm_u8s8s32(*arguments, **keywords)


@pytest.mark.parametrize(("named", "changes", "error"), [
    ("a", {"a": u8(M, K).astype(float)}, TypeError), ("a", {"a": None}, TypeError), ("a", {"a": "a"}, TypeError),
    ("a", {"a": int8blas.pack_b(s8(M, K))}, TypeError), ("a", {"a": np.uint8(1)}, ValueError),
    ("b", {"b": s8(K, N).astype(float)}, TypeError), ("b", {"b": None}, TypeError),
    ("b", {"b": np.int8(1)}, ValueError),
    ("b", {"b": s8(K + 1, N)}, ValueError), ("b", {"b": int8blas.pack_b(s8(K + 1, N))}, ValueError),
    ("b", {"a": u8(2, M, K), "b": s8(3, K, N)}, ValueError),
    *(("ao", {"ao": ao}, ValueError) for ao in (-1, 256, [1, 2], [[1] * M], 10**30)), ("ao", {"ao": 0.5}, TypeError),
    *(("bo", {"bo": bo}, ValueError) for bo in (-129, 128, [1, 2], [[1] * N], 10**30)), ("bo", {"bo": "0"}, TypeError),
    ("numerics", {"numerics": "fast"}, ValueError), ("numerics", {"numerics": None}, (TypeError, ValueError)),
])  # fmt: skip
def test_matmul(named, changes, error):
    out = s32(M, N)
    check_refused(int8blas.matmul, {"a": u8(M, K), "b": s8(K, N), "out": out} | changes, out, error, named)


def test_matmul_takes_options_by_keyword_only():
    with pytest.raises(TypeError, match="argument"):
        int8blas.matmul(u8(M, K), s8(K, N), s32(M, N))


@pytest.mark.parametrize(("named", "changes", "error"), [
    ("b", {"b": s8(K, N).astype(np.int32)}, TypeError), ("b", {"b": None}, TypeError), ("b", {"b": "b"}, TypeError),
    ("b", {"b": [[1]]}, TypeError), ("b", {"b": s8(K)}, ValueError), ("b", {"b": s8(2, K, N)}, ValueError),
    ("b", {"b": int8blas.pack_b(s8(K, N))}, TypeError),
    *(("trans_b", {"trans_b": flag}, error) for flag, error in WRONG_FLAGS),
])  # fmt: skip
def test_pack_b(named, changes, error):
    check_refused(int8blas.pack_b, {"b": s8(K, N)} | changes, None, error, named)


def test_packed_b_is_made_by_pack_b_only():
    for arguments in ((), (s8(K, N),)):
        with pytest.raises(TypeError):
            int8blas.PackedB(*arguments)


@pytest.mark.parametrize("function", [int8blas.would_saturate, int8blas.explain], ids=["would_saturate", "explain"])
@pytest.mark.parametrize(("named", "changes", "error"), [
    ("a", {"a": u8(M, K).astype(float)}, TypeError), ("a", {"a": None}, TypeError), ("a", {"a": u8(K)}, ValueError),
    ("a", {"a": int8blas.pack_b(s8(M, K))}, TypeError),
    ("b", {"b": s8(K, N).astype(float)}, TypeError), ("b", {"b": None}, TypeError), ("b", {"b": s8(K)}, ValueError),
    ("b", {"b": s8(N, K)}, ValueError), ("b", {"b": int8blas.pack_b(s8(N, K))}, ValueError),
    ("trans_b", {"b": int8blas.pack_b(s8(K, N)), "trans_b": True}, ValueError),
    *((name, {name: flag}, error) for name in ("trans_a", "trans_b") for flag, error in WRONG_FLAGS),
])  # fmt: skip
def test_functions_that_look_at_operands(function, named, changes, error):
    check_refused(function, {"a": u8(M, K), "b": s8(K, N)} | changes, None, error, named)


@pytest.mark.parametrize(
    ("limit", "error"),
    [(-1, ValueError), (-(2**70), ValueError), (1.5, TypeError), ("1", TypeError), (None, TypeError)],
)
def test_would_saturate_limit(limit, error):
    check_refused(int8blas.would_saturate, {"a": u8(M, K), "b": s8(K, N), "limit": limit}, None, error, "limit")


def test_explain_numerics():
    check_refused(int8blas.explain, {"a": u8(M, K), "b": s8(K, N), "numerics": "fast"}, None, ValueError, "numerics")


# --- dimensions beyond 32 bits, of arrays that take no memory --------------------------------------------------------


def virtual(dtype, rows, columns):
    """An array of `rows` by `columns` elements in the memory of one element."""
    return np.broadcast_to(np.ones((), dtype), (rows, columns))


@pytest.mark.parametrize(("m", "n", "k"), [
    (HUGE, 0, 3), (HUGE, 0, 0), (HUGE, 0, HUGE), (0, HUGE, 3), (0, HUGE, 0), (0, HUGE, HUGE), (0, 3, HUGE),
    (3, 0, HUGE), (0, 0, HUGE), (2**40, 0, 2**22),
])  # fmt: skip
def test_huge_dimensions_of_an_empty_result(isa, pair, m, n, k):
    a, b = virtual(pair.a_dtype, m, k), virtual(pair.b_dtype, k, n)
    assert pair.gemm(1.0, a, b).shape == (m, n)
    assert pair.gemm(0.5, a.T, b.T, trans_a=True, trans_b=True, ao=1, bo=1, co=1).shape == (m, n)
    assert int8blas.matmul(a, b).shape == (m, n)


def test_a_huge_number_of_rows_and_columns_is_refused(isa):
    for m, n, k in ((2**40, 2**40, 1), (2**40, 2**20, 0), (2**62, 2**62, 0)):
        with pytest.raises((MemoryError, ValueError)):
            int8blas.matmul(virtual(np.uint8, m, k), virtual(np.int8, k, n))


def test_packing_a_huge_matrix(isa):
    packed = int8blas.pack_b(virtual(np.int8, HUGE, 0))
    assert packed.shape == (HUGE, 0)
    assert packed.unpack().shape == (HUGE, 0)
    assert_same(packed.column_sums, np.zeros(0, np.int64))
    with pytest.raises((MemoryError, ValueError)):
        int8blas.pack_b(virtual(np.int8, 2**40, 2**20))


def nested():
    """A list that contains itself."""
    items = []
    items.append(items)
    return items


LAYER = int8blas.InnerProduct(s8(3, 4), src_dtype=np.int16, dst_dtype=np.int32)
W = np.ones((3, 8), np.float32)
DATES, SECONDS = np.zeros(2, "M8[ns]"), np.timedelta64(5, "s")
GROUPED = {"src_dtype": np.int8, "dst_dtype": np.float32, "scales": {"weights": "per_channel"}}
ODD = [np.zeros(3), np.zeros(0), np.zeros((2, 2), np.int8), np.zeros(2, "u1,f4")]


@pytest.mark.parametrize(("named", "call"), [
    ("bits", lambda x: int8blas.pack_b(s8(K, N), bits=x)),
    ("bits", lambda x: int8blas.pack_b(np.ones((K, N), np.int16), bits=x)),
    ("bits", lambda x: int8blas.InnerProduct(W, **GROUPED, bits=x)),
    ("bits", lambda x: int8blas.RealProduct(W, bits=x)),
    ("bits", lambda x: int8blas.weights_scales(W, bits=x)),
    ("bits", lambda x: int8blas.formats.from_float(W, group=8, bits=x)),
    ("group", lambda x: int8blas.InnerProduct(W, **GROUPED, group=x)),
    ("algorithm of Binary", lambda x: int8blas.Binary(algorithm=x)),
    ("scope", lambda x: int8blas.num_threads(1, scope=x)),
    ("mmap", lambda x: int8blas.load("none", x)),
    ("verify", lambda x: int8blas.load("none", verify=x)),
    ("mmap", lambda x: int8blas.Index.load("none", mmap=x)),
    ("verify", lambda x: int8blas.Index.load("none", verify=x)),
    ("src_layout", lambda x: int8blas.reorder(u8(2, 3, 4, 5), src_layout=x)),
    ("dst_layout", lambda x: int8blas.reorder(u8(2, 3, 4, 5), src_layout="nchw", dst_layout=x)),
    ("scales", lambda x: LAYER(np.ones((2, 4), np.int16), scales=x)),
    ("zero_points", lambda x: LAYER(np.ones((2, 4), np.int16), zero_points=x)),
    ("observer", lambda x: int8blas.calibrate([("x", np.negative)], [W], x)),
])  # fmt: skip
def test_an_array_is_no_option(named, call):
    """NumPy compares the elements of an array, and refuses to tell whether it is true."""
    for value in ODD:
        with pytest.raises((TypeError, ValueError), match=rf"^{named} must be "):
            call(value)


@pytest.mark.parametrize(("text", "call"), [
    ("scales must be a mapping, got int", lambda: LAYER(np.ones((2, 4), np.int16), scales=0)),
    ("zero_points must be a mapping, got str", lambda: LAYER(np.ones((2, 4), np.int16), zero_points="")),
    ("observer must be callable or None, got int", lambda: int8blas.calibrate([("x", np.negative)], [W], 0)),
    ("batches must be iterable, got NoneType", lambda: int8blas.calibrate([("x", np.negative)], None)),
    ("zero_point of Sum must be an integer, got timedelta64", lambda: int8blas.Sum(zero_point=SECONDS)),
    ("scale must be a real number, got timedelta64", lambda: int8blas.Index(3, "inner", scale=SECONDS)),
    ("zero_point must be integers, got datetime64",
     lambda: int8blas.calibration.QuantizationParameters([1.0, 2.0], DATES, axis=0)),
    ("weights_layer must be an array, got list", lambda: int8blas.DynamicLSTM([[1], [2, 3]], np.zeros((3, 4, 3)))),
])  # fmt: skip
def test_values_of_no_use(text, call):
    with pytest.raises(TypeError, match=rf"^{text}"):
        call()


def test_values_that_have_no_end(tmp_path):
    path = tmp_path / "value.i8"
    with pytest.raises(ValueError, match=r"^value must not contain itself"):
        int8blas.save(path, nested())
    assert not path.exists()
    layer = int8blas.InnerProduct(s8(3, 4), src_dtype=np.uint8, dst_dtype=np.int32)
    with pytest.raises(TypeError, match=r"^src must be uint8, got int32"):
        layer(np.broadcast_to(np.int32(1), (2**20, 2**20, 2**20)))


def test_the_name_of_an_instruction_set_may_be_any_string():
    with int8blas.use_isa(np.str_("ref")):
        assert int8blas.use_isa() == "ref"
