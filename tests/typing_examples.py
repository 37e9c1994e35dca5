"""Calls for type checkers: test_typing.py checks this file with mypy; nothing runs it."""

import array
import enum
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import int8blas

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
a = np.ones((2, 3), np.uint8)
b = np.ones((3, 2), np.int8)
x = np.ones((2, 3), np.float32)
image = np.ones((1, 4, 4, 1), np.uint8)
packed = int8blas.pack_b(b)


class Device(enum.IntEnum):
    CPU = 1


class Tensor:
    """An array of another library."""

    def __dlpack__(self, *, stream: Any = None, copy: bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[Device, int]:
        return Device.CPU, 0


tensor = Tensor()
view = memoryview(bytearray(16))

assert_type(int8blas.matmul(a, b), Ints)
assert_type(a @ packed, Ints)
assert_type(int8blas.matmul(a, packed, out=np.empty((2, 2), np.int32)), Ints)
assert_type(int8blas.matmul(a, b, out=tensor), Tensor)
assert_type(int8blas.matmul(a, b, dtype=np.int64), npt.NDArray[np.int64])
assert_type(int8blas.matmul(a, b, out=np.empty((2, 2), np.int64)), npt.NDArray[np.int64])
assert_type(int8blas.matmul(a, b, dtype="int64"), npt.NDArray[Any])
assert_type(int8blas.matmul(view, tensor), Ints)
assert_type(int8blas.gather(bytearray(6), [0], out=tensor), Tensor)
int8blas.max_pool(tensor, 2)
int8blas.reorder(x, out=tensor)
int8blas.quantize(view, 0.5)
assert_type(int8blas.sqeuclidean(a, packed, dtype=np.int32), Ints)
assert_type(int8blas.sqeuclidean(a, tensor, out=view), memoryview)
assert_type(int8blas.hamming(a, packed), Ints)
assert_type(int8blas.hamming(a, a, out=view), memoryview)
assert_type(int8blas.nearest(a, packed, 1), tuple[npt.NDArray[np.int64], npt.NDArray[np.int32 | np.int64]])
assert_type(
    int8blas.nearest(tensor, [a, packed], 1, metric="cosine", exclude=range(1), callback=print),
    tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]],
)
assert_type(int8blas.gemm_u8s8s32(1, a, packed), Ints)
int8blas.gemm_u8s8s32(1, a, b, c=tensor, overwrite_c=True)
assert_type(int8blas.gemm_u8s8s32(1, a > 1, b), Ints)
assert_type(int8blas.syrk_u8s32(1, a), Ints)
assert_type(int8blas.syrk_s8s32(1, b, 1, tensor, True, True, True, ao=3), Ints)
assert_type(int8blas.matmul(a > 1, b), Ints)
int8blas.InnerProduct.dynamic(np.ones((2, 3)), np.ones(2))
assert_type(int8blas.quantize(np.ones(3), 0.5), npt.NDArray[np.int8])
int8blas.layer_norm(np.ones((2, 3)), np.ones(3), np.ones(3))

layer = int8blas.InnerProduct(b, src_dtype=np.uint8, dst_dtype=np.float32)
assert_type(layer(a), npt.NDArray[Any])
assert_type(layer(a, out=view), memoryview)
lstm = int8blas.LSTM(np.ones((3, 4, 2), np.int8), np.ones((2, 4, 2), np.int8), weights_scale=1)
assert_type(lstm(image, out=tensor), tuple[Tensor, npt.NDArray[Any], Floats])

assert_type(int8blas.quantize(x, 0.5), npt.NDArray[np.int8])
assert_type(int8blas.quantize(x, 0.5, out=bytearray(6)), bytearray)
assert_type(int8blas.dequantize(b, 0.5, out=array.array("f", [0] * 6)), "array.array[float]")
assert_type(int8blas.max_pool(image, 2), npt.NDArray[np.uint8])
assert_type(int8blas.avg_pool(image, 2, out=tensor), Tensor)
assert_type(int8blas.softmax(x), Floats)
assert_type(int8blas.softmax(x, out=tensor), Tensor)
assert_type(int8blas.gather(a, [0, 1]), Floats)

# Calls that raise TypeError at run time are also type errors.
int8blas.matmul(x, b)  # type: ignore[arg-type]
int8blas.matmul(a, b, out=x)  # type: ignore[type-var]
int8blas.matmul(a, b, out=[0])  # type: ignore[call-overload]
int8blas.quantize(x, 0.5, scheme="single")  # type: ignore[call-overload]
int8blas.PackedB(b)  # type: ignore[arg-type]
