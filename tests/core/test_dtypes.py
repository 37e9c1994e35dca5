"""Dtypes: bool is read as uint8 in place, float64 is rounded to float32 once, and the error for any other dtype names a
remedy."""

import numpy as np
import pytest
from calls import (
    CALLS,
    F32,
    FILTERS,
    FLOATS,
    IMAGE,
    RNN_WEIGHTS,
    S8,
    U8,
    convolution,
    dynamic_layer,
    lstm,
    same_bits,
    static_layer,
)

import int8blas
from int8blas import Attributes, InnerProduct, ReLU, Sum, calibration
from int8blas.core.words import KEEPS_VALUES, checked

# More calls with uint8 arrays: CALLS has each function once, and these are further functions of the same kinds.
BYTES = {name: call for name, call in CALLS.items() if any(x.dtype == np.uint8 for x in call[1:])} | {
    "gemm of uint8 and uint8": (lambda a, b: int8blas.gemm_u8u8s32(2, a, b, trans_b=True), U8, U8),
    "gemm of int8 and uint8": (lambda b: int8blas.gemm_s8u8s32(1, S8, b, trans_a=True, trans_b=True), U8),
    "saturating gemm": (lambda a: int8blas.gemm_u8s8s32(1, a, S8, numerics="saturating"), U8),
    "matmul of vectors": (lambda a, b: int8blas.matmul(a, b), U8[0], U8[1]),
    "matmul of stacks": (lambda a: int8blas.matmul(a, S8), U8[:, np.newaxis]),
    "pack_b of uint8": (lambda b: int8blas.pack_b(b, trans_b=True).unpack(), U8),
    "explain": (lambda a, b: np.array(int8blas.explain(a, b, trans_b=True).shape), U8, U8),
    "InnerProduct's uint8 weights": (lambda w: InnerProduct(w, src_dtype="u1", dst_dtype="f4")(U8), U8),
    "Deconvolution": (
        lambda x: int8blas.Deconvolution(FILTERS, src_dtype=np.uint8, dst_dtype=np.int32)(x),
        IMAGE,
    ),
    "LSTM of uint8": (
        lambda x, h: lstm(src_dtype=np.uint8)(x, h)[0],
        U8[np.newaxis],
        np.arange(40, dtype=np.uint8).reshape(5, 8),
    ),
    "eltwise of uint8": (lambda x: int8blas.eltwise(x, ReLU(), scales={"dst": 2}), U8),
    "binary of uint8": (lambda x, y: int8blas.binary("add", x, y), U8, U8[0]),
    "concat of uint8": (lambda x, y: int8blas.concat([x, y], 1), U8, U8),
    "softmax of uint8": (lambda x: int8blas.softmax(x), U8),
    "layer_norm of uint8": (lambda x: int8blas.layer_norm(x), U8),
    "global_max_pool": (lambda x: int8blas.global_max_pool(x), IMAGE),
    "global_avg_pool": (lambda x: int8blas.global_avg_pool(x), IMAGE),
    "reorder of uint8": (lambda x: int8blas.reorder(x, zero_points=3), U8),
}
every_call_of_bytes = pytest.mark.parametrize("call", BYTES.values(), ids=BYTES)

# These functions compute in double precision and round once at the end.
IN_DOUBLE = ("quantize_bias", "weights_factor", "fold_batch_norm", "shifted_bias")
ROUNDED = {name: call for name, call in FLOATS.items() if name not in IN_DOUBLE} | {
    "Convolution's float weights": (
        lambda w, b: convolution(w, b, scale="per_channel")(IMAGE),
        FILTERS.astype(np.float32) / 7,
        np.linspace(-2, 2, 5, dtype=np.float32),
    ),
    "LSTM's bias and states": (
        lambda b, h, c: lstm(bias=b)(F32[np.newaxis], h, c)[1],
        np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8),
        F32,
        F32[::-1],
    ),
    "GRU": (
        lambda x, w, b: int8blas.GRU(w, w, b, data_scale=50, weights_scale="per_channel", src_dtype=np.float32)(x)[0],
        F32[np.newaxis],
        RNN_WEIGHTS[:, :3],
        np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8),
    ),
    "operands": (
        lambda x: InnerProduct(
            S8.T, src_dtype="u1", dst_dtype="f4", attributes=Attributes(post_ops=[int8blas.Binary()])
        )(U8, operands=[x]),
        np.linspace(-1, 1, 3, dtype=np.float32),
    ),
    "scales": (lambda s: int8blas.gather(U8, [1, 2], s, axis=0), np.linspace(1, 2, 5, dtype=np.float32)),
}
every_rounded_call = pytest.mark.parametrize("call", ROUNDED.values(), ids=ROUNDED)


# --- bool ------------------------------------------------------------------------------------------------------------


@every_call_of_bytes
def test_bool_is_uint8(isa, call):
    function, *arrays = call
    bools = [x > 100 if x.dtype == np.uint8 else x for x in arrays]
    bytes_ = [x.astype(np.uint8) if y.dtype == np.uint8 else y for x, y in zip(bools, arrays, strict=True)]
    same_bits(function(*bools), function(*bytes_))
    strided = [np.repeat(x, 2, axis=-1)[..., ::2] for x in bools]
    same_bits(function(*strided), function(*bytes_))


@every_call_of_bytes
def test_bool_is_read_in_place(call):
    """The bytes are not only 0 and 1; a copy by NumPy would turn every other byte into 1."""
    function, *arrays = call
    same_bits(function(*[x.view(bool) if x.dtype == np.uint8 else x for x in arrays]), function(*arrays))


def test_bool_results_of_comparisons_count_what_they_have_in_common(rng):
    bits = rng.integers(0, 2, (20, 300)) > 0
    either = int8blas.matmul(bits, bits.T)
    np.testing.assert_array_equal(either, bits.astype(np.int64) @ bits.T)
    distances = np.diag(either)[:, np.newaxis] + np.diag(either) - 2 * either
    np.testing.assert_array_equal(distances, (bits[:, np.newaxis] != bits).sum(axis=2))


def test_bool_sources_decide_the_type_of_the_result():
    for function in (
        lambda x: int8blas.eltwise(x, ReLU()),
        lambda x: int8blas.binary("add", x, x),
        lambda x: int8blas.sum([x, x]),
        lambda x: int8blas.concat([x, x], 0),
        lambda x: int8blas.max_pool(x[np.newaxis], 1),
    ):
        assert function(U8.reshape(5, 8) > 9).dtype == np.uint8


@pytest.mark.parametrize("letter", "ilq")
def test_types_of_c_that_are_one_in_memory(letter):
    """NumPy has separate types for C's int, long and long long, and two of them are alike; which two depends on the
    system."""
    product, out = U8.astype(np.int64) @ S8, np.zeros((5, 3), letter)
    assert int8blas.matmul(U8, S8, out=out) is out
    np.testing.assert_array_equal(out, product)
    if out.itemsize == 4:
        assert int8blas.gemm_u8s8s32(1, U8, S8, 1, out, overwrite_c=True) is out
        np.testing.assert_array_equal(out, 2 * product)
        same_bits(int8blas.dequantize(out, 0.5), int8blas.dequantize(out.astype(np.int32), 0.5))
        layer = InnerProduct(S8.T, out[0].copy(), src_dtype=np.uint8, dst_dtype=np.int32)
        assert layer(U8, out=out) is out
        np.testing.assert_array_equal(out, product + 2 * product[0])


def test_bool_is_neither_int8_nor_an_index_nor_a_result():
    bits = U8 > 9
    for call, text in (
        (lambda: int8blas.gemm_s8s8s32(1, bits, S8), "a must be int8, got bool: give np.asarray(a, np.int8)"),
        (lambda: int8blas.gemm_u8s8s32(1, U8, bits), "b must be int8, got bool: give np.asarray(b, np.int8)"),
        (lambda: int8blas.gather(U8, bits[:, 0]), "indices must be integers, got bool: give np.flatnonzero(mask)"),
        (lambda: dynamic_layer()(bits), "src must be float32, got bool: give np.asarray(src, np.float32)"),
        (lambda: int8blas.quantize(bits, 1), "x must be float32, float16 or bfloat16, got bool: give np.asarray(x, "),
        (lambda: int8blas.requantize(bits, 1), "x must be int32, got bool: give np.asarray(x, np.int32)"),
        (lambda: int8blas.matmul(U8, S8, out=np.zeros((5, 3), bool)), "out must be of an integer dtype, got bool"),
        (lambda: int8blas.gemm_u8s8s32(1, U8, S8, 1, np.zeros((5, 3), bool)), "c must be int32, got bool"),
        (
            lambda: int8blas.eltwise(U8, ReLU(), out=bits),
            "out must be uint8, got bool: give out.view(np.uint8)",
        ),
        (lambda: int8blas.sum([bits], out=bits), "out must be uint8, got bool: give out.view(np.uint8)"),
        (lambda: int8blas.im2col(IMAGE > 0, 1, out=IMAGE > 0), "out must be uint8, got bool"),
    ):
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value).startswith(text)
    np.testing.assert_array_equal(bits, U8 > 9)


# --- float64 ---------------------------------------------------------------------------------------------------------


def doubled(x):
    """float64 values that lie between float32 values."""
    return x.astype(np.float64) * (1 + 2.0**-26) if x.dtype == np.float32 else x


@every_rounded_call
def test_float64_is_rounded_to_float32(isa, call):
    function, *arrays = call
    doubles = [doubled(x) for x in arrays]
    expected = function(*[x.astype(np.float32) if x.dtype == np.float64 else x for x in doubles])
    same_bits(function(*doubles), expected)
    strided = [np.repeat(x, 2, axis=-1)[..., ::2] for x in doubles]
    same_bits(function(*strided), expected)
    swapped = [x.astype(">f8") if x.dtype == np.float64 else x for x in doubles]
    same_bits(function(*swapped), expected)


# Weights that are lists have an array for each layer.
@pytest.mark.parametrize("name", [name for name in ROUNDED if not name.startswith(("LSTM's", "GRU"))])
def test_lists_of_floats_are_taken(name):
    function, *arrays = ROUNDED[name]
    doubles = [doubled(x) for x in arrays]
    lists = [x.tolist() if x.dtype == np.float64 else x for x in doubles]
    same_bits(function(*lists), function(*doubles))


@pytest.mark.parametrize("name", IN_DOUBLE)
def test_offline_functions_round_once_at_the_end(name):
    function, *arrays = CALLS[name]
    doubles = [x.astype(np.float64) if x.dtype == np.float32 else x for x in arrays]
    same_bits(function(*doubles), function(*arrays))


def test_python_floats_are_arrays_without_dimensions():
    same_bits(int8blas.quantize(0.3, 0.1), np.int8(3))
    same_bits(int8blas.eltwise(0.1, int8blas.Eltwise("linear", 2, 0)), np.float32(0.1) * 2)


def test_float64_beyond_float32_is_infinite_without_a_warning():
    x = np.array([1e300, -1e300, 1e-300, np.nan, 3])
    same_bits(int8blas.quantize(x, 1), np.int8([127, -128, 0, 0, 3]))
    same_bits(int8blas.eltwise(x, ReLU()), np.float32([np.inf, 0, 0, np.nan, 3]))


@pytest.mark.parametrize("value", [1e300, -1e39, np.nan])
def test_weights_and_biases_are_finite_once_they_are_float32(value):
    wrong = np.full((3, 8), 0.5)
    wrong[1, 2] = value
    filters = np.full((5, 3, 3, 3), value)
    for call, named in (
        (lambda: dynamic_layer(S8.T, wrong[:, 2]), "bias"),
        (lambda: InnerProduct(wrong, src_dtype="u1", dst_dtype="f4", scales={"weights": "per_channel"}), "weights"),
        (lambda: convolution(filters, scale="per_tensor"), "weights"),
        (lambda: convolution(bias=filters[:, 0, 0, 0]), "bias"),
        (lambda: lstm(np.full((8, 4, 8), value)), "weights_layer"),
        (lambda: lstm(bias=np.full((4, 8), value)), "bias"),
        (lambda: int8blas.weights_scales(wrong), "w"),
        (lambda: calibration.MinMaxObserver().observe(wrong), "x"),
    ):
        with pytest.raises(ValueError, match=f"^{named} must be finite"):
            call()


def test_results_are_not_float64():
    double = np.zeros((5, 8))
    for call in (
        lambda: int8blas.softmax(F32, out=double),
        lambda: int8blas.dequantize(U8, 1, out=double),
        lambda: static_layer()(U8, out=double[:, :3]),
        lambda: int8blas.eltwise(double, ReLU(), out=double),
    ):
        with pytest.raises(TypeError, match=r"^out must be float32, got float64$"):
            call()
    for name in ("src_dtype", "dst_dtype"):
        with pytest.raises(TypeError, match=rf"^{name} must be .*float32.*, got float64"):
            dynamic_layer(**{name: np.float64})
    with pytest.raises(TypeError, match=r"got float64: a float64 array is taken as float32$"):
        dynamic_layer(src_dtype=np.float64)
    with pytest.raises(TypeError, match=r"got bool: a bool array is taken as uint8$"):
        InnerProduct(S8, src_dtype=bool, dst_dtype=np.float32)


# --- refused arguments -----------------------------------------------------------------------------------------------


def of_whole_numbers(name, to):
    return f", or give {checked(name, to)} of whole numbers" if KEEPS_VALUES else ""


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: int8blas.syrk_u8s32(1, U8.astype(int)),
            f"a must be uint8, got int64: give {checked('a', 'uint8')}",
        ),
        (
            lambda: int8blas.gemm_u8s8s32(1, [[1, 2]], S8),
            f"a must be uint8, got a list of int64: give {checked('a', 'uint8')}",
        ),
        (
            lambda: int8blas.gemm_s8s8s32(1, F32, S8),
            f"a must be int8, got float32: quantize it (int8blas.quantize){of_whole_numbers('a', 'int8')}",
        ),
        (
            lambda: static_layer()(F32),
            f"src must be uint8, got float32: quantize it (int8blas.quantize){of_whole_numbers('src', 'uint8')}",
        ),
        (
            lambda: int8blas.quantize(F32.astype(">f4"), 1),
            "x must be float32, float16 or bfloat16, got float32 in the other byte order: give "
            "np.asarray(x, np.float32)",
        ),
        (
            lambda: int8blas.quantize(U8.astype(np.int16), 1),
            "x must be float32, float16 or bfloat16, got int16: give np.asarray(x, np.float32)",
        ),
        (
            lambda: int8blas.sum([U8, U8.astype(np.int64)]),
            "srcs[1] must be uint8, int8, int32, float32, float16 or bfloat16, got int64: give "
            f"{checked('srcs[1]', 'int32')}",
        ),
        (
            lambda: dynamic_layer(bias=[1, 2, 3]),
            f"bias must be float32 or int32, got int64: give {checked('bias', 'int32')}",
        ),
        (lambda: int8blas.matmul(U8 + 1j, S8), "a must be uint8 or int8, got complex128"),
        (lambda: int8blas.quantize("0.5", 1), "x must be float32, float16 or bfloat16, got str"),
        (
            lambda: int8blas.quantize(np.array(["2024-01-01"], "M8[D]"), 1),
            "x must be float32, float16 or bfloat16, got datetime64",
        ),
        (
            lambda: int8blas.matmul(np.zeros(8, [("red", "u1"), ("green", "u1")]), S8),
            "a must be uint8 or int8, got a structured dtype with the fields red, green: give one of them, such as "
            "a['red']",
        ),
        (lambda: int8blas.gemm_u8s8s32(1, U8, S8, ao=[0.5] * 5), "ao must be an integer or a vector of integers, got "
         "float64"),
        (
            lambda: int8blas.matmul(U8, S8, out=np.zeros((5, 3), np.float16)),
            "out must be of an integer dtype, got float16",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_dtype_and_the_remedy(call, text):
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == text


# --- columns of data frames ------------------------------------------------------------------------------------------


class NAType:
    """A stand-in for pandas.NA, which is neither equal nor unequal to anything."""

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __eq__(self, other):
        return self

    __ne__ = __eq__
    __hash__ = None


class Column:
    """A stand-in for a pandas Series of a nullable type, which NumPy converts to an array of objects."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, object if dtype is None else dtype)


class Arrow:
    """A stand-in for an Array of pyarrow: with nulls it converts to floats, NaN for each null."""

    def __init__(self, values):
        self.values, self.null_count = values, values.count(None)

    def __array__(self, dtype=None, copy=None):
        return np.array([np.nan if value is None else value for value in self.values])


class Polars(Arrow):
    """A stand-in for a Series of polars, whose null_count is a method."""

    def __init__(self, values):
        super().__init__(values)
        count, self.null_count = self.null_count, lambda: count


@pytest.mark.parametrize("missing", [None, np.nan, NAType()], ids=["None", "NaN", "NA"])
def test_missing_values_are_named(missing):
    for x in (Column([1, missing, 3, missing]), np.array([1, missing, 3, missing], object)):
        with pytest.raises(TypeError, match=r"^a must be uint8 or int8, got object with 2 missing values: fill them"):
            int8blas.matmul(x, S8[:4])
        with pytest.raises(TypeError, match=r"^x must be .* got object with 2 missing values"):
            int8blas.quantize(x, 1)


def test_numbers_in_objects_are_to_be_converted():
    column = Column([1, 2, 3, 4])
    with pytest.raises(TypeError) as raised:
        int8blas.matmul(column, S8[:4])
    conversion = checked("np.asarray(a).tolist()", "uint8")
    assert str(raised.value) == f"a must be uint8 or int8, got object: give {conversion}"
    same_bits(int8blas.matmul(np.asarray(column, np.uint8), S8[:4]), int8blas.matmul(np.uint8([1, 2, 3, 4]), S8[:4]))
    with pytest.raises(TypeError, match=r"got object$"):
        int8blas.matmul(Column([1, "2", 3, 4]), S8[:4])


@pytest.mark.parametrize("library", [Arrow, Polars])
def test_nulls_are_named_before_they_become_nan(library):
    with pytest.raises(TypeError, match=rf"^x must not have nulls, got 2 in {library.__name__}: fill them first"):
        int8blas.quantize(library([0.5, None, None]), 1)
    same_bits(int8blas.quantize(library([0.5, 2.0]), 0.5), np.int8([1, 4]))


# --- arguments that are dtypes ---------------------------------------------------------------------------------------


def torch_dtype(name):
    """A stand-in for a dtype of torch: an object of a class torch.dtype, printed as torch.<name>."""
    kind = type("dtype", (), {"__repr__": lambda self: f"torch.{name}", "__module__": "torch"})
    return kind()


DTYPE_ARGUMENTS = {
    "quantize": lambda dtype: int8blas.quantize(F32, 1, dtype=dtype).dtype,
    "requantize": lambda dtype: int8blas.requantize(np.arange(3, dtype=np.int32), 1, 0, dtype).dtype,
    "reorder": lambda dtype: int8blas.reorder(U8, dtype=dtype).dtype,
    "eltwise": lambda dtype: int8blas.eltwise(U8, (), dst_dtype=dtype).dtype,
    "binary": lambda dtype: int8blas.binary("add", F32, F32, dst_dtype=dtype).dtype,
    "sum": lambda dtype: int8blas.sum([F32], dst_dtype=dtype).dtype,
    "concat": lambda dtype: int8blas.concat([F32], 0, dst_dtype=dtype).dtype,
    "softmax": lambda dtype: int8blas.softmax(F32, dst_dtype=dtype).dtype,
    "layer_norm": lambda dtype: int8blas.layer_norm(F32, dst_dtype=dtype).dtype,
    "avg_pool": lambda dtype: int8blas.avg_pool(IMAGE, 2, dst_dtype=dtype).dtype,
    "global_avg_pool": lambda dtype: int8blas.global_avg_pool(IMAGE, dst_dtype=dtype).dtype,
    "src_dtype": lambda dtype: InnerProduct(S8, src_dtype=dtype, dst_dtype=np.int32).src_dtype,
    "dst_dtype": lambda dtype: InnerProduct(S8, src_dtype=np.uint8, dst_dtype=dtype)(U8[:, :3]).dtype,
    "dynamic src_dtype": lambda dtype: dynamic_layer(src_dtype=dtype).src_dtype,
    "Convolution": lambda dtype: int8blas.Convolution(FILTERS, src_dtype=dtype, dst_dtype=np.int32).src_dtype,
    "LSTM": lambda dtype: lstm(src_dtype=dtype).src_dtype,
    "Sum": lambda dtype: Sum(dtype=dtype).dtype,
    "QuantizationParameters": lambda dtype: calibration.QuantizationParameters(1, 0, dtype).dtype,
    "MinMaxObserver": lambda dtype: calibration.MinMaxObserver(dtype=dtype).dtype,
}
every_dtype_argument = pytest.mark.parametrize("function", DTYPE_ARGUMENTS.values(), ids=DTYPE_ARGUMENTS)
NAMES = ("uint8", "int8", "int32", "float32", "float16", "bfloat16")


def result_of(function, dtype):
    """Return the dtype that results from an argument, or the text of the error."""
    try:
        return function(dtype)
    except TypeError as error:
        return str(error)


def check_dtypes(function, forms):
    """Check that all forms of a dtype act like NumPy's own form, also if the dtype is refused."""
    results = {name: result_of(function, np.dtype(name)) for name, _ in forms}
    assert {name: result_of(function, dtype) for name, dtype in forms} == results
    taken = {name: dtype for name, dtype in results.items() if isinstance(dtype, np.dtype)}
    assert taken
    assert taken == {name: np.dtype(name) for name in taken}


@every_dtype_argument
def test_dtypes_of_torch_are_taken_by_their_names(function):
    pytest.importorskip("ml_dtypes")
    check_dtypes(function, [(name, torch_dtype(name)) for name in (*NAMES, "float64", "int16", "bool")])


@every_dtype_argument
@pytest.mark.parametrize("text", ["byte8", ",int8", "4)u1", "\ud800", "(2,)u1"])
def test_texts_that_name_no_dtype(function, text):
    with pytest.raises(TypeError, match=r"dtype .*must be .*, got"):
        function(text)


@every_dtype_argument
def test_dtypes_of_torch_itself(function):
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    check_dtypes(function, [(name, getattr(torch, name)) for name in NAMES])


@every_dtype_argument
def test_names_types_and_dtypes_are_taken(function):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    check_dtypes(function, [(name, name) for name in NAMES])
    check_dtypes(function, [(name, getattr(np, name, None) or ml_dtypes.bfloat16) for name in NAMES])
    check_dtypes(function, [("float64", float), ("bool", bool), ("uint8", "B"), ("int8", "i1"), ("float32", "f"),
                            ("bfloat16", ml_dtypes.bfloat16)])  # fmt: skip


@every_dtype_argument
@pytest.mark.parametrize(("dtype", "got"), [
    ("no", "'no'"), (3, "3"), ([], "void"), (object(), "<object object at .*>"), ({"a": 1}, r"\{'a': 1\}"),
    (torch_dtype("qint8"), "torch.qint8"), (np.uint32, "uint32"), (">i4", "int32 in the other byte order"),
    (str, "str"), ([("a", "u1")], "a structured dtype with the fields a"),
    ("no" * 1000, r"'nono.*\.\.\..*nono' \(2002 characters\)"),
])  # fmt: skip
def test_other_dtypes_are_refused_in_one_form(function, dtype, got):
    if dtype == ">i4" and function is DTYPE_ARGUMENTS["reorder"]:
        pytest.skip("takes dtypes of any byte order, and gives the native one")
    with pytest.raises(TypeError, match=rf"^(\w+|dtype of Sum) must be \w+(, \w+)*.* or \w+, got {got}$"):
        function(dtype)


def test_a_dtype_without_a_type_number():
    """Dtypes of NumPy's newer interface have the type number -1, which NumPy's tables do not have."""
    umath = pytest.importorskip("numpy._core._multiarray_umath")
    dtype = umath._get_sfloat_dtype()(1.0)
    assert dtype.num == -1
    a, other = np.ones((2, 2), np.int8), np.ones((2, 2)).view(dtype)
    for call in (
        lambda: int8blas.matmul(a, a, dtype=dtype), lambda: int8blas.matmul(a, a, out=other),
        lambda: int8blas.matmul(other, a), lambda: int8blas.vecdot(a, a, dtype=dtype),
        lambda: int8blas.gemm_s8s8s32(1, other, a), lambda: int8blas.gemm_s8s8s32(1, a, a, c=other, overwrite_c=True),
        lambda: int8blas.gemm_s16s16s32(1, other, a.astype(np.int16)),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"must be|dtype"):
            call()
