"""New arrays for results: their alignment, the owner of their memory, and their use by programs."""

import ctypes
import gc
import tracemalloc

import numpy as np
import pytest

# NumPy gives access to memory handlers only in C (NEP 49), except for the name of an array's handler.
from numpy._core._multiarray_umath import _ARRAY_API
from numpy._core.multiarray import get_handler_name

import int8blas
from int8blas.core.results import KnownView

LINE = 64
HANDLER = "int8blas"
SHAPE = (8, 24, 24, 128)  # results of this shape begin on a cache line, whatever their type
STATIC = {"src_dtype": np.uint8, "dst_dtype": np.uint8, "scales": {"src": 0.1, "weights": 0.01, "dst": 0.5}}

CAPSULE_POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
NEW_CAPSULE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
NUMPY_API = ctypes.cast(CAPSULE_POINTER(_ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
SET_HANDLER = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(NUMPY_API[304])
GET_HANDLER = ctypes.PYFUNCTYPE(ctypes.py_object)(NUMPY_API[305])
ALLOCATE = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(("PyMem_RawMalloc", ctypes.pythonapi))
CAPSULE_NAME = b"mem_handler"
NAME_BYTES, HANDLER_BYTES = 127, 128 + 5 * ctypes.sizeof(ctypes.c_void_p)  # of PyDataMem_Handler


@pytest.fixture
def own_handler():
    """The name of a handler that the program sets: NumPy's functions.

    The memory of the handler is never freed: an array only keeps the capsule alive but calls the handler when it is
    deallocated, and arrays of other fixtures outlive this one.
    """
    before = GET_HANDLER()
    handler = ALLOCATE(HANDLER_BYTES)
    ctypes.memmove(handler, CAPSULE_POINTER(before, CAPSULE_NAME), HANDLER_BYTES)
    ctypes.memmove(handler, b"of the program".ljust(NAME_BYTES, b"\0"), NAME_BYTES)
    SET_HANDLER(NEW_CAPSULE(handler, CAPSULE_NAME, None))
    yield "of the program"
    SET_HANDLER(before)


def results(rng):
    """A large new result of every function and layer that returns one."""
    x = rng.integers(0, 256, SHAPE, np.uint8)
    flat = x.reshape(-1, SHAPE[-1])
    square = rng.integers(-128, 128, (128, 128), np.int8)
    real = rng.normal(size=SHAPE).astype(np.float32)
    lstm = int8blas.LSTM(rng.integers(-128, 128, (128, 4, 64), np.int8), rng.integers(-128, 128, (64, 4, 64), np.int8),
                         src_dtype=np.uint8, weights_scale=50.0)  # fmt: skip
    return {
        "gemm_u8s8s32": int8blas.gemm_u8s8s32(1, flat, square),
        "beta": int8blas.gemm_u8s8s32(1, flat, square, 1, np.ones((len(flat), 128), np.int32)),
        "matmul": int8blas.matmul(flat, square),
        "matmul, a stack": int8blas.matmul(x, square),
        "InnerProduct": int8blas.InnerProduct(square, **STATIC)(flat),
        "InnerProduct, a stack": int8blas.InnerProduct(square, **STATIC)(x).base,
        "Convolution": int8blas.Convolution(square[:, :, None, None], **STATIC, layout="nhwc")(x),
        "Deconvolution": int8blas.Deconvolution(square[:, :, None, None], **STATIC, layout="nhwc")(x),
        "max_pool": int8blas.max_pool(x, 3, padding=1, strides=1, layout="nhwc"),
        "einsum": int8blas.einsum("bhwc,bhwc->bhwc", x, x.transpose(0, 2, 1, 3)),
        "eltwise": int8blas.eltwise(x, int8blas.Eltwise("abs")),
        "eltwise, other order": int8blas.eltwise(x.transpose(3, 1, 2, 0), int8blas.Eltwise("abs")),
        "binary": int8blas.binary("add", x, x),
        "concat": int8blas.concat([x, x], 1),
        "concat, other order": int8blas.concat([x.transpose(0, 3, 1, 2)] * 2, 1),
        "quantize": int8blas.quantize(real, 0.1),
        "dequantize": int8blas.dequantize(x, 0.1),
        "softmax": int8blas.softmax(real),
        "gather": int8blas.gather(square, rng.integers(0, 128, 4096), 0.1),
        "im2col": int8blas.im2col(x, (1, 1), layout="nhwc"),
        "LSTM": lstm(x.reshape(64, -1, 128))[0],
    }


def addresses(arrays):
    """The offset of each array from the start of a cache line."""
    return {name: array.ctypes.data % LINE for name, array in arrays.items()}


def test_large_results_begin_on_a_cache_line(rng):
    found = addresses(results(rng))
    assert found == dict.fromkeys(found, 0)


def test_large_results_own_memory_of_the_package(rng):
    found = {name: get_handler_name(array) for name, array in results(rng).items()}
    assert found == dict.fromkeys(found, HANDLER)


def test_small_results_are_as_numpy_makes_them(rng):
    c = int8blas.gemm_u8s8s32(1, rng.integers(0, 256, (8, 8), np.uint8), rng.integers(-128, 128, (8, 8), np.int8))
    assert get_handler_name(c) == get_handler_name(np.empty(8))


def test_the_handler_does_not_stay(rng):
    before = get_handler_name()
    results(rng)
    assert get_handler_name() == before
    # The handler does not stay after an error either: there is no memory for this C.
    zeros = np.zeros((1 << 40, 0), np.uint8)
    with pytest.raises((MemoryError, ValueError)):
        int8blas.gemm_u8s8s32(1, zeros, np.zeros((0, 1 << 22), np.int8))
    assert get_handler_name() == before


def test_the_handler_of_a_program_is_used(own_handler, rng):
    found = {name: get_handler_name(array) for name, array in results(rng).items()}
    assert found == dict.fromkeys(found, own_handler)
    assert get_handler_name() == own_handler


def test_results_can_be_resized_and_keep_their_elements(rng):
    c = int8blas.quantize(rng.normal(size=1 << 18).astype(np.float32), 0.1)
    expected = c.copy()
    c.resize(1 << 19, refcheck=False)
    np.testing.assert_array_equal(c[: expected.size], expected)
    assert not c[expected.size :].any()
    c.resize(1 << 10, refcheck=False)
    np.testing.assert_array_equal(c, expected[: 1 << 10])


def test_memory_of_results_is_traced_and_given_back():
    x = np.zeros((1 << 11, 1 << 11), np.int8)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = int8blas.dequantize(x, 0.5)
        assert tracemalloc.get_traced_memory()[0] - before >= result.nbytes
        del result
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < x.nbytes
    finally:
        tracemalloc.stop()


def test_results_outlive_what_made_them(rng):
    x = rng.integers(0, 256, (512, 512), np.uint8)
    expected = x.astype(np.float32) * np.float32(0.5)
    kept = [int8blas.dequantize(x, 0.5) for _ in range(20)]
    gc.collect()
    for array in kept[::2]:
        np.testing.assert_array_equal(array, expected)


def test_a_known_view_is_made_again_of_arrays_that_are_laid_out_alike():
    shape, other = np.array([3, 8]), np.array([3, 8])
    for x in (np.arange(24), np.arange(48.0)[::-2], np.arange(24)[::-1].reshape(2, 12)):
        y = x.reshape(2, 3, 4)[::-1, :, 1:].T
        known = KnownView(x, y, (shape,))
        for again in (x.copy()[...] if x.flags.c_contiguous else x[:], x):
            view = known(again, (shape,))
            assert view.base is again or view.base is again.base
            assert np.shares_memory(view, again)
            np.testing.assert_array_equal(view, again.reshape(2, 3, 4)[::-1, :, 1:].T)
            assert view.dtype == x.dtype
            assert view.flags.writeable
        assert known(x, (other,)) is None
        assert known(x.astype(np.int16), (shape,)) is None
        assert known(np.concatenate([x, x]), (shape,)) is None
        assert known(x[::-1], (shape,)) is None
    fixed = np.arange(24)
    fixed.flags.writeable = False
    assert not KnownView(fixed, fixed.reshape(4, 6), ())(fixed, ()).flags.writeable


def test_a_copy_is_no_known_view():
    x = np.arange(24).reshape(4, 6)
    for y in (x.copy(), x.T.reshape(-1), x.astype(np.int32), x[:0], x.view(np.int32)):
        assert KnownView(x, y, ())(x, ()) is None or y.size == 0
    assert KnownView(x[:0], x[:0].T, ())(x[:0], ()) is None
