"""Extreme sizes: huge arrays without elements, results too large for the address space, and long values in errors."""

import numpy as np
import pytest

import int8blas
from int8blas import Attributes, Binary, Eltwise, InnerProduct, ReLU, Sum, calibration

LARGE = 2**30
# A loop over this number of elements would never end.
ENDLESS = 2**60
U8, F32 = np.ones((2, 3), np.uint8), np.ones((2, 3), np.float32)


def virtual(dtype, *shape):
    """An array of the given shape that takes no memory."""
    return np.broadcast_to(np.ones((), dtype), shape)


# --- no elements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_packing_of_columns_without_rows(isa, dtype):
    packed = int8blas.pack_b(virtual(dtype, 0, LARGE))
    assert packed.shape == (0, LARGE)
    assert packed.nbytes == 0
    assert int8blas.pack_b(virtual(dtype, LARGE, 0), trans_b=True) == packed
    assert int8blas.matmul(virtual(np.uint8, 0, 0), packed).shape == (0, LARGE)
    few = int8blas.pack_b(virtual(dtype, 0, 40))
    assert few.column_sums.tolist() == [0] * 40
    assert few.certified.tolist() == [True] * 3
    assert int8blas.matmul(virtual(np.uint8, 2, 0), few).tolist() == [[0] * 40] * 2
    for columns in (ENDLESS, 2**62):
        with pytest.raises(MemoryError):
            int8blas.pack_b(virtual(dtype, 0, columns))


def test_stacks_of_results_without_elements(isa):
    for a, b, shape in (
        ((2**58, 0, 3), (3, 2), (2**58, 0, 2)),
        ((2**29, 1, 0, 3), (1, 2**29, 3, 2), (2**29, 2**29, 0, 2)),
        ((LARGE, 2, 3), (LARGE, 3, 0), (LARGE, 2, 0)),
    ):
        assert int8blas.matmul(virtual(np.uint8, *a), virtual(np.int8, *b)).shape == shape


def test_nothing_saturates_where_there_is_nothing():
    for m, n, k in ((ENDLESS, 0, 3), (0, ENDLESS, 3), (ENDLESS, ENDLESS, 0), (0, 0, ENDLESS), (0, 3, ENDLESS)):
        found = int8blas.would_saturate(virtual(np.uint8, m, k), virtual(np.int8, k, n))
        assert (found.count, found.where.shape) == (0, (0, 3))
    packed = int8blas.pack_b(virtual(np.int8, 3, 0))
    assert int8blas.would_saturate(virtual(np.uint8, ENDLESS, 3), packed).count == 0
    assert int8blas.would_saturate(virtual(np.uint8, 0, 5), virtual(np.int8, 5, 2), limit=0).count == 0


def test_a_dynamic_layer_without_outputs_looks_for_no_range(isa):
    for dynamic_dtype in (np.int8, np.uint8):
        layer = InnerProduct(virtual(np.int8, 0, 3), src_dtype="f4", dst_dtype="f4", dynamic="per_tensor",
                             dynamic_dtype=dynamic_dtype, scales={"weights": 1})  # fmt: skip
        assert layer(virtual(np.float32, 2**58, 3)).shape == (2**58, 0)


def test_layer_norm_of_no_rows_makes_no_factors():
    for src in (virtual(np.float32, 0, ENDLESS), virtual(np.uint8, 0, ENDLESS)):
        assert int8blas.layer_norm(src).shape == (0, ENDLESS)
        with pytest.raises(ValueError, match="gamma must have shape"):
            int8blas.layer_norm(src, np.ones(3, np.float32))


# --- beyond 64 bits --------------------------------------------------------------------------------------------------


def test_results_that_can_not_be_addressed_name_their_sources():
    with pytest.raises(
        ValueError, match=r"^srcs must have a result of less than \d+ bytes, got the shape \(9223372036"
    ):
        int8blas.concat([virtual(np.uint8, 2**62)] * 2, 0)
    with pytest.raises(ValueError, match=r"^srcs must have a result of less than"):
        int8blas.concat([virtual(np.uint8, 2**31, 2**31)] * 3, 1)
    with pytest.raises(
        ValueError, match=r"^src0 and src1 must have a result of less than .*\(2147483648, 2147483648\)$"
    ):
        int8blas.binary("add", virtual(np.uint8, 2**31, 1), virtual(np.uint8, 2**31))


@pytest.mark.parametrize(("first", "second"), [((2, 3), (2,)), ((2, 3), (4, 3)), ((0,), (2,)), ((3, 1, 2), (2, 3, 3))])
def test_shapes_that_do_not_broadcast(first, second):
    with pytest.raises(ValueError, match=r"^src1 must have a shape that broadcasts against \("):
        int8blas.binary("add", np.ones(first, np.uint8), np.ones(second, np.uint8))


@pytest.mark.parametrize(
    ("first", "second"),
    [((2, 3), (3,)), ((3,), (2, 3)), ((0, 1), (1, 3)), ((), (2,)), ((1,), (0,)), ((4, 1, 2), (3, 1)), ((2, 2), ())],
)
def test_shapes_broadcast_as_those_of_numpy(first, second):
    a, b = np.ones(first, np.uint8), np.full(second, 2, np.uint8)
    np.testing.assert_array_equal(int8blas.binary("add", a, b), a + b)


# --- values in errors ------------------------------------------------------------------------------------------------

LONG = {
    "10**400": 10**400,
    "10**5000": 10**5000,
    "-10**5000": -(10**5000),
    "text": "x" * 10_000,
    "list": ["x"] * 10_000,
}
ARGUMENTS = {
    "alpha": lambda x: int8blas.gemm_u8s8s32(x, U8, U8.T.astype(np.int8)),
    "beta": lambda x: int8blas.gemm_u8s8s32(1, U8, U8.T.astype(np.int8), x),
    "ao": lambda x: int8blas.matmul(U8, U8.T, ao=x),
    "co": lambda x: int8blas.gemm_u8u8s32(1, U8, U8.T, co=x),
    "offsetc": lambda x: int8blas.gemm_u8u8s32(1, U8, U8.T, offsetc=x),
    "numerics": lambda x: int8blas.matmul(U8, U8.T, numerics=x),
    "trans_b": lambda x: int8blas.pack_b(U8, trans_b=x),
    "scale": lambda x: int8blas.quantize(F32, x),
    "zero_point": lambda x: int8blas.quantize(F32, 1, x),
    "axis": lambda x: int8blas.quantize(F32, 1, axis=x),
    "dtype": lambda x: int8blas.quantize(F32, 1, dtype=x),
    "scheme": lambda x: int8blas.requantize(U8.astype(np.int32), 1, scheme=x),
    "axis of concat": lambda x: int8blas.concat([U8], x),
    "op": lambda x: int8blas.binary(x, U8, U8),
    "scales": lambda x: int8blas.eltwise(U8, (), scales={"dst": x}),
    "zero_points": lambda x: int8blas.eltwise(U8, (), zero_points={"dst": x}),
    "epsilon": lambda x: int8blas.layer_norm(F32, epsilon=x),
    "epsilon of folding": lambda x: int8blas.fold_batch_norm(F32, None, *[F32[:, 0]] * 4, epsilon=x),
    "shift": lambda x: int8blas.shifted_bias(None, F32, x),
    "mask": lambda x: int8blas.reorder(F32, scales=1.0, mask=x),
    "src_layout": lambda x: int8blas.reorder(F32, src_layout=x),
    "Eltwise": lambda x: Eltwise("clip", x, 1),
    "algorithm": lambda x: Eltwise(x),
    "Binary": lambda x: Binary(1.0, x),
    "Sum": lambda x: Sum(zero_point=x),
    "masks": lambda x: Attributes(scales={"src": x}),
    "dst_dtype": lambda x: InnerProduct(U8, src_dtype=np.uint8, dst_dtype=x),
    "layer's scale": lambda x: InnerProduct(U8, src_dtype="u1", dst_dtype="f4", scales={"src": x}),
    "layer's zero point": lambda x: InnerProduct(U8, src_dtype="u1", dst_dtype="f4", zero_points={"src": x}),
    "QuantizationParameters": lambda x: calibration.QuantizationParameters(x, x),
    "bins": lambda x: calibration.EntropyObserver(bins=x),
    "relu": lambda x: ReLU(x),
}


@pytest.mark.parametrize("function", ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
def test_errors_show_the_ends_of_long_values(function, value):
    with pytest.raises((TypeError, ValueError), match="must") as raised:
        function(value)
    assert len(str(raised.value)) < 400
