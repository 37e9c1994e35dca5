"""Arguments whose conversion runs Python code that sets the layout of another argument's array in place."""

import multiprocessing
import warnings

import numpy as np
import pytest
from arrays import between_guards
from processes import TIMEOUT_S, forks_on_purpose, needs_fork

import int8blas
from int8blas import Attributes, Binary, Convolution, Deconvolution, InnerProduct

pytestmark = [needs_fork, forks_on_purpose]

U8 = np.arange(64, dtype=np.uint8).reshape(8, 8)
S8 = U8.astype(np.int8)
S16 = U8.astype(np.int16) * 300
F32 = U8.astype(np.float32)
IMAGE = np.arange(512, dtype=np.uint16).astype(np.uint8).reshape(2, 8, 8, 4)
STEPS = np.tile(F32, (4, 1, 1))
WINDOWS = np.ones((5, 4, 3, 3), np.int8)
SCALES = {"src": 0.5, "weights": 0.25}
LARGE = np.ones((8, 40_000), np.float32)
MASK = np.zeros(8, bool)


class Changing:
    """A number, a sequence or an array whose conversion first runs a function."""

    def __init__(self, value, change):
        self.value, self.change = value, change

    def __array__(self, dtype=None, copy=None):
        self.change()
        return np.asarray(self.value)

    def __index__(self):
        self.change()
        return int(self.value)

    def __float__(self):
        self.change()
        return float(self.value)

    def __len__(self):
        return len(self.value)

    def __getitem__(self, index):
        self.change()
        return self.value[index]


def inner_product(src_dtype=np.uint8):
    return InnerProduct(
        S8, src_dtype=src_dtype, dst_dtype=np.float32, scales=SCALES, attributes=Attributes(post_ops=[Binary()])
    )


def convolution(kind=Convolution, post_ops=()):
    weights = WINDOWS if kind is Convolution else np.ascontiguousarray(WINDOWS.transpose(1, 0, 2, 3))
    attributes = Attributes(post_ops=post_ops)
    return kind(weights, src_dtype=np.uint8, dst_dtype=np.float32, scales=SCALES, attributes=attributes)


def recurrent(kind, gates):
    weights = np.linspace(-1, 1, 64 * gates, dtype=np.float32).reshape(8, gates, 8)
    return kind(weights, weights, data_scale=50, data_shift=128, weights_scale="per_tensor", src_dtype=np.float32)


def real_product():
    return int8blas.RealProduct(int8blas.pack_b(S8), np.ones(8, np.float32))


def zeros(*shape):
    return np.zeros(shape, np.float32)


# The array that changes, and the call; `c` makes a Changing of a value.
CALLS = {
    "gemm_s16s16s32 a": (S16, lambda x, c: int8blas.gemm_s16s16s32(1, x, S16, ao=c(0))),
    "gemm_s16s16s32 b": (S16, lambda x, c: int8blas.gemm_s16s16s32(1, S16, x, 1, c(U8.astype(np.int32)))),
    "gemm_u8s8s32": (U8, lambda x, c: int8blas.gemm_u8s8s32(1, x, S8, trans_a=c(0))),
    "syrk_s16s64": (S16, lambda x, c: int8blas.syrk_s16s64(1, x, ao=c(0))),
    "matmul stack": (IMAGE, lambda x, c: int8blas.matmul(x, IMAGE.swapaxes(2, 3), bo=c(0))),
    "matmul wide": (S16, lambda x, c: int8blas.matmul(x, S16, out=c(np.zeros((8, 8), np.int64)))),
    "matmul mod": (S16, lambda x, c: int8blas.matmul(x, c(S16), mod=7)),
    "pack_b": (S16, lambda x, c: int8blas.gemm_s16s16s32(1, S16, int8blas.pack_b(x, trans_b=c(0)))),
    "explain": (S16, lambda x, c: int8blas.explain(x, c(S16))),
    "would_saturate": (U8, lambda x, c: int8blas.would_saturate(x, c(S8))),
    "sqeuclidean": (U8, lambda x, c: int8blas.sqeuclidean(x, c(U8))),
    "hamming x": (U8, lambda x, c: int8blas.hamming(x, c(U8))),
    "hamming y": (U8, lambda x, c: int8blas.hamming(U8, x, out=c(np.zeros((8, 8), np.int32)))),
    "nearest base": (U8, lambda x, c: int8blas.nearest(x, c(U8), 2)),
    "nearest exclude": (U8, lambda x, c: int8blas.nearest(x, U8, 2, exclude=c(MASK))),
    "nearest shards": (U8, lambda x, c: int8blas.nearest(U8, [x, c(U8)], 2)),
    "nearest callback": (
        np.tile(U8, (2000, 1)),
        lambda x, c: int8blas.nearest(x, U8, 2, metric="hamming", callback=lambda *_: c(0).__index__()),
    ),
    "im2col": (IMAGE, lambda x, c: int8blas.im2col(x, c(2))),
    "max_pool kernel": (IMAGE, lambda x, c: int8blas.max_pool(x, c(2))),
    "max_pool out": (IMAGE, lambda x, c: int8blas.max_pool(x, 2, out=c(np.zeros((2, 4, 4, 4), np.uint8)))),
    "max_pool scales": (IMAGE, lambda x, c: int8blas.max_pool(x, 2, scales={"src": c(0.5)})),
    "avg_pool": (IMAGE, lambda x, c: int8blas.avg_pool(x, c(2))),
    "global_max_pool": (IMAGE, lambda x, c: int8blas.global_max_pool(x, scales={"dst": c(0.5)})),
    "global_avg_pool": (IMAGE, lambda x, c: int8blas.global_avg_pool(x, scales={"dst": c(0.5)})),
    "gather out": (U8, lambda x, c: int8blas.gather(x, [7, 1], out=c(zeros(2, 8)))),
    "gather zero_point": (U8, lambda x, c: int8blas.gather(x, [7, 1], 0.5, c(np.arange(8)), axis=0)),
    "quantize zero_point": (F32, lambda x, c: int8blas.quantize(x, 0.5, c(3))),
    "quantize scales": (LARGE[0], lambda x, c: int8blas.quantize(LARGE, x, c(np.zeros(40_000, np.int32)), axis=1)),
    "dequantize": (U8, lambda x, c: int8blas.dequantize(x, np.ones(8, np.float32), c(3), axis=0)),
    "requantize": (U8.astype(np.int32), lambda x, c: int8blas.requantize(x, 0.5, c(3))),
    "softmax": (U8, lambda x, c: int8blas.softmax(x, 1, scales={"src": c(0.5)})),
    "layer_norm": (U8, lambda x, c: int8blas.layer_norm(x, None, c(F32[0]))),
    "eltwise": (U8, lambda x, c: int8blas.eltwise(x, int8blas.ReLU(), out=c(np.zeros((8, 8), np.uint8)))),
    "binary": (U8, lambda x, c: int8blas.binary("mul", U8, x, out=c(np.zeros((8, 8), np.uint8)))),
    "sum": (U8, lambda x, c: int8blas.sum([U8, x], scales=[1, c(0.5)])),
    "concat sources": (U8, lambda x, c: int8blas.concat([x, c(U8)], 1)),
    "concat axis": (U8, lambda x, c: int8blas.concat([x, U8], c(1))),
    "concat out": (U8, lambda x, c: int8blas.concat([U8, x], 0, out=c(np.zeros((16, 8), np.uint8)))),
    "InnerProduct operands": (U8, lambda x, c: inner_product()(x, operands=[c(F32)])),
    "InnerProduct out": (S16, lambda x, c: inner_product(np.int16)(x, operands=[F32], out=c(zeros(8, 8)))),
    "Convolution operands": (IMAGE, lambda x, c: convolution(post_ops=[Binary()])(x, operands=[c(zeros(2, 6, 6, 5))])),
    "Convolution out": (IMAGE, lambda x, c: convolution()(x, out=c(zeros(2, 6, 6, 5)))),
    "Deconvolution": (IMAGE, lambda x, c: convolution(Deconvolution)(x, out=c(zeros(2, 10, 10, 5)))),
    "LSTM": (STEPS, lambda x, c: recurrent(int8blas.LSTM, 4)(x, c(F32))),
    "GRU": (STEPS, lambda x, c: recurrent(int8blas.GRU, 3)(x, c(F32))),
    "RealProduct": (F32, lambda x, c: real_product()(x, out=c(zeros(8, 8)))),
}


def in_a_row(array):
    array.shape = (1,) * (array.ndim - 1) + (array.size,) if array.ndim > 1 else (1, array.size)


def as_void(array):
    array.dtype = np.dtype("V1")


def check_refusal(array, function, change):
    """Call the function in a child process, which ends with an error unless the call raises an error."""
    x = between_guards("end", array)
    warnings.simplefilter("ignore", DeprecationWarning)  # NumPy advises against setting members of arrays
    with pytest.raises((TypeError, ValueError)):
        function(x, lambda value: Changing(value, lambda: change(x)))


@pytest.mark.parametrize("change", [in_a_row, as_void])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_refuses_an_array_that_changes_during_the_call(name, change):
    """The kernel must not read the array as it was validated, nor in a layout that was not validated."""
    child = multiprocessing.get_context("fork").Process(target=check_refusal, args=(*CALLS[name], change))
    child.start()
    child.join(TIMEOUT_S)
    child.kill()
    assert child.exitcode == 0
