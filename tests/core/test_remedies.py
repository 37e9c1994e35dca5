"""Remedies in errors: the argument that an error suggests is accepted and has the same numbers, or raises an error."""

import re
import warnings

import numpy as np
import pytest
from arrays import assert_same
from calls import CALLS, F32, IMAGE, S8, U8, dynamic_layer, lstm, same_bits, static_layer

import int8blas
from int8blas import InnerProduct
from int8blas.core.words import KEEPS_VALUES

# "give <expression>", without the explanation that follows it.
GIVEN = re.compile(r"(?:: give|, or give) (.+?)(, which rounds integers beyond 2\*\*\d+| of whole numbers|$)")
DTYPES = ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f4", "bfloat16", "O"]
# Values: for each type some fit and some do not.
VALUES = {
    "small": lambda shape: np.arange(np.prod(shape)).reshape(shape) % 7,
    "negative": lambda shape: np.arange(np.prod(shape)).reshape(shape) % 7 - 3,
    "large": lambda shape: np.arange(np.prod(shape)).reshape(shape) % 7 * 59,
    "wide": lambda shape: 2**24 + np.arange(np.prod(shape)).reshape(shape) % 7,
}


def as_dtype(values, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def names_of(text, x):
    """The name by which a program has the argument that the error is about."""
    name = text.split(" must be ")[0]
    if name.startswith("srcs["):
        return {"srcs": [x, x]}
    return {"x" if " " in name else re.match(r"\w+", name)[0]: x}


def evaluated(expression, text, x):
    import ml_dtypes

    return eval(expression, {"np": np, "ml_dtypes": ml_dtypes}, names_of(text, x))


def follow(call, x, other):
    """Call with an array, and while that raises a TypeError with a remedy, follow the remedy. Return how often, and the
    argument that was accepted. `other` has other numbers of the same dtype: no remedy may change numbers silently."""
    for steps in range(5):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # saturated elements
                call(x)
        except TypeError as error:
            text = str(error)
        except ValueError:  # numbers that are invalid in any type
            return steps, x
        else:
            return steps, x
        found = GIVEN.search(text)
        if found is None:
            return None, text
        expression, more = found.groups()
        try:
            x = evaluated(expression, text, x)
        except ValueError:
            assert "of whole numbers" in more
            return None, text
        try:
            result = evaluated(expression, text, other)
        except (ValueError, OverflowError):  # NumPy raises them for a number that does not fit
            continue
        if "rounds" in more:
            other = other.astype(np.float64)
        same_numbers(result, other)
    raise AssertionError(f"a remedy that does not help: {text}")


def same_numbers(result, x):
    """Whether numbers are equal, or equal after rounding to float32."""
    with np.errstate(over="ignore"):
        expected = np.asarray(x.tolist(), np.float64)
        is_real = result.dtype.kind not in "biu"
        equal = np.asarray(result, np.float64) == (expected.astype(result.dtype) if is_real else expected)
    assert equal.all(), (result.dtype, x.dtype)


ARRAYS = [(name, i) for name, call in CALLS.items() for i in range(len(call) - 1)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "i"), ARRAYS, ids=lambda value: str(value))
def test_a_conversion_keeps_the_numbers(name, i, dtype):
    pytest.importorskip("ml_dtypes")
    function, *arrays = CALLS[name]
    others = [as_dtype(make(arrays[i].shape), dtype) for make in VALUES.values()]
    for x in others:
        for other in others:
            steps, taken = follow(lambda y: function(*arrays[:i], y, *arrays[i + 1 :]), x, other)
            if steps:
                same_numbers(taken, x)


@pytest.mark.parametrize("values", [[[1, 2]] * 8, [[-1, 2]] * 8])
def test_lists_of_integers_are_refused_as_lists(values):
    for call, name, wanted in (
        (lambda x: int8blas.pack_b(x), "b", "uint8, int8 or int16"),
        (lambda x: int8blas.gemm_s8s8s32(1, S8.T, x), "b", "int8"),
        (lambda x: int8blas.syrk_s8s32(1, x), "a", "int8"),
        (lambda x: int8blas.quantize(x, 1), "x", "float32, float16 or bfloat16"),
        (lambda x: dynamic_layer()(np.transpose(x).tolist()), "src", "float32"),
    ):
        with pytest.raises(
            TypeError, match=f"^{name} must be {wanted}, got a list of int64: give np.asarray"
        ) as raised:
            call(values)
        if name != "src":
            call(evaluated(GIVEN.search(str(raised.value))[1], str(raised.value), values))


def test_integers_that_no_type_holds():
    for x, text in (([-1, 40_000], "a list of int64 of values from -1 to 40000"),
                    (np.array([1 << 15, 4]), "int64 of values from 4 to 32768")):  # fmt: skip
        with pytest.raises(TypeError, match=f"^b must be uint8, int8 or int16, got {text}$"):
            int8blas.pack_b(x)


@pytest.mark.skipif(not KEEPS_VALUES, reason="this NumPy has no cast that is an error for fractions")
def test_numbers_in_objects():
    for values in ([1, 2.0, np.int64(3)], [True, 1, 2]):
        with pytest.raises(TypeError, match=r"got object: .*give np.asarray") as raised:
            int8blas.matmul(np.array(values, object), S8[:3])
        expression = GIVEN.search(str(raised.value))[1]
        x = evaluated(expression, str(raised.value), np.array(values, object))
        same_bits(int8blas.matmul(x, S8[:3]), int8blas.matmul(np.uint8(values), S8[:3]))
        for wrong in (-1, 1.5, 300, np.int64(-1), np.float64(1.5)):
            with pytest.raises((ValueError, OverflowError)):
                evaluated(expression, str(raised.value), np.array([wrong, *values[1:]], object))


# --- other functions, and arguments of layers ------------------------------------------------------------------------

FORMS = {"arrays": lambda b: b, "a packed B": int8blas.pack_b}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["gemm_u8s8s32", "gemm_u8u8s32", "gemm_s8s8s32", "gemm_s8u8s32"])
@pytest.mark.parametrize("b_type", [np.uint8, np.int8])
@pytest.mark.parametrize("a_type", [np.uint8, np.int8])
def test_another_gemm_takes_operands_of_other_signs(a_type, b_type, name, form, rng):
    a, b = rng.integers(0, 256, (5, 9), np.uint8).view(a_type), rng.integers(0, 256, (9, 4), np.uint8).view(b_type)
    expected = a.astype(np.int32) @ b.astype(np.int32)
    b = FORMS[form](b)
    try:
        result = getattr(int8blas, name)(1, a, b)
    except TypeError as error:
        text = re.fullmatch(r"[ab] must be (u?int8), got (a PackedB of )?(u?int8): (gemm_\w+) takes these operands, "
                            r"and so does matmul", str(error))  # fmt: skip
        assert text[1] != text[3]
        result = getattr(int8blas, text[4])(1, a, b)
    else:
        assert name[5:9] == "".join("us"[t == np.int8] + "8" for t in (a_type, b_type))
    assert_same(result, expected)
    assert_same(int8blas.matmul(a, b), expected)


def test_another_syrk_takes_a_matrix_of_the_other_sign():
    for x, function, other in ((U8, int8blas.syrk_s8s32, "syrk_u8s32"), (S8, int8blas.syrk_u8s32, "syrk_s8s32")):
        with pytest.raises(TypeError, match=rf": {other} takes it, and so does matmul\(a, a.T\)$"):
            function(1, x)
        assert_same(getattr(int8blas, other)(1, x), np.triu(int8blas.matmul(x, x.T)))


def test_src_dtype_lets_a_layer_take_a_source():
    def remedied(make, src, given):
        with pytest.raises(TypeError, match=r"^src must be .*: create the layer with src_dtype='(\w+)'") as raised:
            make(given)(src)
        dtype = re.search(r"src_dtype='(\w+)'", str(raised.value))[1]
        same_bits(make(dtype)(src), make(src.dtype.name)(src))

    def product(src_dtype):
        return InnerProduct(S8.T, src_dtype=src_dtype, dst_dtype=np.int32)

    def convolution(src_dtype):
        return int8blas.Convolution(np.ones((2, 3, 3, 3), np.int8), src_dtype=src_dtype, dst_dtype=np.int32)

    remedied(product, U8, "int8")
    remedied(product, U8.view(np.int8), "uint8")
    remedied(convolution, IMAGE.view(np.int8), "uint8")
    for src_dtype in ("float16", "bfloat16"):
        if src_dtype == "bfloat16":
            pytest.importorskip("ml_dtypes")
        remedied(lambda dtype: dynamic_layer(src_dtype=dtype), F32, src_dtype)
        with pytest.raises(TypeError, match=f"^src must be {src_dtype}, got float64: create the layer with"):
            lstm(src_dtype=src_dtype)(F32[np.newaxis].astype(np.float64))


def test_a_mask_becomes_indices_where_it_is_one_of_rows():
    mask = U8[:, 0] > 50
    with pytest.raises(TypeError, match=r": give np.flatnonzero\(mask\) for a mask$"):
        int8blas.gather(U8, mask)
    same_bits(int8blas.gather(U8, np.flatnonzero(mask)), int8blas.gather(U8, np.arange(5))[mask])
    for other in (U8 > 50, mask[:4]):
        with pytest.raises(TypeError, match=r"got bool$"):
            int8blas.gather(U8, other)


def test_what_else_is_to_be_given():
    packed = int8blas.pack_b(S8)
    with pytest.raises(ValueError, match="give trans_b to pack_b"):
        int8blas.gemm_u8s8s32(1, U8, packed, trans_b=True)
    same_bits(int8blas.gemm_u8s8s32(1, U8, int8blas.pack_b(S8.T.copy(), trans_b=True)), int8blas.matmul(U8, S8))
    with pytest.raises(TypeError, match=r"give .unpack\(\) of it"):
        np.asarray(packed)
    same_bits(packed.unpack(), S8)
    masked = np.ma.array(U8, mask=U8 > 100)
    with pytest.raises(TypeError, match=r"give .filled\(value\) of it, or .data"):
        int8blas.matmul(masked, S8)
    same_bits(int8blas.matmul(masked.filled(0), S8), int8blas.matmul(np.where(U8 > 100, 0, U8), S8))
    bits = U8 > 50
    with pytest.raises(TypeError, match=r"give out.view\(np.uint8\)"):
        int8blas.sum([bits, bits], out=bits.copy())
    out = bits.copy()
    int8blas.sum([bits, bits], out=out.view(np.uint8))
    same_bits(out.view(np.uint8), 2 * bits.view(np.uint8))
    with pytest.raises(ValueError, match=r"give src\[np.newaxis, ..., np.newaxis\] for one image"):
        int8blas.max_pool(U8, 2)
    same_bits(int8blas.max_pool(U8[np.newaxis, ..., np.newaxis], 2)[0, ..., 0],
              U8[:4].reshape(2, 2, 4, 2).max(axis=(1, 3)))  # fmt: skip
    with pytest.raises(TypeError, match="give dynamic='per_row'"):
        InnerProduct(F32, src_dtype=np.float32, dst_dtype=np.float32)
    with pytest.raises(TypeError, match=r"quantize it \(int8blas.quantize\)"):
        static_layer()(F32)
    same_bits(static_layer()(int8blas.quantize(F32, 0.5, dtype=np.uint8)),
              static_layer()(np.clip(np.rint(F32 / 0.5), 0, 255).astype(np.uint8)))  # fmt: skip


# --- sparse arrays and tables ----------------------------------------------------------------------------------------


def test_sparse_arrays_are_to_be_made_dense():
    sparse = pytest.importorskip("scipy.sparse")
    x = np.where(U8 % 5 == 0, U8, 0)
    for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        for function, *_ in (CALLS["matmul"], CALLS["sqeuclidean"]):
            other = S8 if function is CALLS["matmul"][0] else S8.T
            with pytest.raises(TypeError, match=rf"must be a dense array, got {kind.__name__}: give \.toarray\(\) of"):
                function(kind(x), other)
            same_bits(function(kind(x).toarray(), other), function(x, other))
        for call in (lambda y: int8blas.quantize(y, 1), lambda y: static_layer()(y), InnerProduct.dynamic):
            with pytest.raises(TypeError, match=r"must be a dense array, got .*: give \.toarray\(\) of it$"):
                call(kind(x))


class TorchSparse:
    """A stand-in for a sparse tensor of torch."""

    layout = type("layout", (), {"__repr__": lambda self: "torch.sparse_coo"})()

    def to_dense(self):
        return U8


class Table:
    """A stand-in for a DataFrame of pandas or polars."""

    def __init__(self, values, nulls=None):
        self.values, self.nulls, self.columns = values, nulls, list("abc")

    def to_numpy(self):
        return self.values

    def __array__(self, dtype=None, copy=None):
        return self.values

    def null_count(self):
        """Return the counts of the columns, as a table."""
        return Table(np.array([self.nulls or [0]]))


def test_sparse_tensors_and_tables():
    with pytest.raises(TypeError, match=r"^a must be a dense array, got TorchSparse: give \.to_dense\(\) of it$"):
        int8blas.matmul(TorchSparse(), S8)
    same_bits(int8blas.matmul(Table(U8), S8), int8blas.matmul(U8, S8))
    with pytest.raises(TypeError, match=r"^a must not have nulls, got 3 in Table: fill them first"):
        int8blas.matmul(Table(U8, [1, 0, 2]), S8)
    texts = np.array([["a", 1]] * 5, object)
    for call, name in ((lambda x: int8blas.matmul(x, S8), "a"), (lambda x: int8blas.quantize(x, 1), "x"),
                       (lambda x: int8blas.gemm_u8s8s32(1, x, S8), "a"), (static_layer(), "src")):  # fmt: skip
        with pytest.raises(
            TypeError, match=rf"^{name} must be .*, got a Table of object: give \.to_numpy\(\) of its c"
        ):
            call(Table(texts))
    with pytest.raises(TypeError, match=r"got a Table of int64: give np\.a"):
        int8blas.gemm_u8s8s32(1, Table(U8.astype(np.int64)), S8)
