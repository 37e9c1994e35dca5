"""Arrays of other libraries, buffers, subclasses and bfloat16: accepted as NumPy views them, or refused with an error
that names the argument."""

import array
import gc
import mmap
import subprocess
import sys
import tempfile
import weakref

import numpy as np
import pytest
from calls import (
    CALLS,
    F32,
    FILTERS,
    FLOATS,
    IMAGE,
    OUTPUTS,
    RNN_WEIGHTS,
    S8,
    U8,
    dynamic_layer,
    lstm,
    same_bits,
    static_layer,
)

import int8blas
from int8blas import InnerProduct
from int8blas.core.arrays import as_array

# --- stand-ins for arrays of other libraries -------------------------------------------------------------------------


class WithDLPack:
    """An array with only DLPack, in its current version; on `device` if that is given."""

    def __init__(self, values, device=(1, 0)):
        self.values, self.device = values, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        assert self.device[0] in (1, 3)
        return self.values.__dlpack__(**keywords)


class WithOldDLPack(WithDLPack):
    """DLPack before it had versions, which could not mark memory as read-only."""

    def __dlpack__(self, stream=None):
        return self.values.__dlpack__()


class WithArray:
    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values.copy() if copy else self.values


class WithInterface:
    def __init__(self, values):
        self.values, self.__array_interface__ = values, values.__array_interface__


class Subclass(np.ndarray):
    pass


def on_memmap(values):
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, values.dtype, "w+", shape=values.shape)
    mapped[...] = values
    return mapped


def on_ctypes(values):
    kind = np.ctypeslib.as_ctypes_type(values.dtype)
    for size in reversed(values.shape):
        kind = kind * size
    return kind.from_buffer_copy(values.tobytes())


FORMS = {
    "dlpack": WithDLPack,
    "old dlpack": WithOldDLPack,
    "__array__": WithArray,
    "__array_interface__": WithInterface,
    "memoryview": memoryview,
    "strided memoryview": lambda values: memoryview(np.repeat(values, 2, axis=0))[::2],
    "F-ordered memoryview": lambda values: memoryview(np.asfortranarray(values)),
    "ctypes": on_ctypes,
    "matrix": lambda values: values.view(np.matrix) if values.ndim == 2 else values.view(Subclass),
    "memmap": on_memmap,
    "subclass": lambda values: values.view(Subclass),
}
# From version 2.2.5 on, NumPy can write to memory that it receives through DLPack.
READ_ONLY = {"old dlpack"} if np.from_dlpack(np.zeros(1)).flags.writeable else {"old dlpack", "dlpack"}
# The forms whose memory is writable, in the order of the values.
MEMORIES = {name: form for name, form in FORMS.items() if name not in READ_ONLY}
MEMORY = MEMORIES.get("dlpack", WithInterface)

every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
every_memory = pytest.mark.parametrize("form", MEMORIES.values(), ids=MEMORIES)

every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
every_output = pytest.mark.parametrize("call", OUTPUTS.values(), ids=OUTPUTS)
every_float = pytest.mark.parametrize("call", FLOATS.values(), ids=FLOATS)


# --- what goes in ----------------------------------------------------------------------------------------------------


@every_call
@every_form
def test_arrays_of_any_form_go_in(call, form):
    function, *arrays = call
    result = function(*map(form, arrays))
    assert isinstance(result, float) or type(result) in (np.ndarray, np.float32)
    same_bits(result, function(*arrays))


@pytest.mark.parametrize("form", [
    pytest.param(bytearray, id="bytearray"), pytest.param(memoryview, id="memoryview"),
    pytest.param(lambda x: array.array("B", x.tobytes()), id="array"), pytest.param(WithDLPack, id="dlpack"),
])  # fmt: skip
def test_buffers_are_vectors(form):
    same_bits(int8blas.matmul(form(U8[0]), S8), int8blas.matmul(U8[0], S8))


def test_a_mapped_file_is_a_vector():
    with mmap.mmap(-1, 8) as mapped:
        mapped[:] = U8[1].tobytes()
        same_bits(int8blas.matmul(mapped, S8), int8blas.matmul(U8[1], S8))


@pytest.mark.parametrize(
    "name", sorted(set(FORMS) - {"strided memoryview", "F-ordered memoryview", "ctypes", "memmap"})
)
def test_nothing_is_copied(name):
    x = U8.copy()
    assert np.shares_memory(as_array(FORMS[name](x), "x"), x)
    assert type(as_array(FORMS[name](x), "x")) is np.ndarray


@every_output
@pytest.mark.parametrize(
    "name", [n for n in ("dlpack", "__array__", "__array_interface__", "memoryview", "subclass") if n in MEMORIES]
)
def test_results_go_to_memory_of_any_form(call, name):
    function, *arrays = call
    expected = function(*arrays)
    memory = np.zeros_like(expected)
    out = MEMORIES[name](memory)
    assert function(*arrays, out=out) is out
    same_bits(memory, expected)


@every_memory
def test_c_is_overwritten_in_any_form(form):
    c = form(np.ones((5, 3), np.int32))
    assert int8blas.gemm_u8s8s32(1, U8, S8, 2, c, overwrite_c=True) is c
    same_bits(as_array(c, "c"), int8blas.matmul(U8, S8) + 2)


def test_results_in_memory_that_a_source_is_in():
    expected = int8blas.matmul(U8, S8)
    memory = np.zeros((5, 3), np.int32)
    memory.view(np.uint8)[:, :8] = U8
    out, a = MEMORY(memory), memory.view(np.uint8)[:, :8]
    assert int8blas.matmul(a, S8, out=out) is out
    same_bits(memory, expected)
    memory.view(np.uint8)[:, :8] = U8
    assert int8blas.gemm_u8s8s32(1, WithDLPack(a), S8, 0, out, overwrite_c=True) is out
    same_bits(memory, expected)
    image = IMAGE.copy()
    windows = MEMORY(image.reshape(-1, 3))
    assert int8blas.im2col(image, 1, out=windows) is windows
    same_bits(image, IMAGE)
    assert int8blas.reorder(image, zero_points=np.uint8(1), out=(out := MEMORY(image[::-1]))) is out
    same_bits(image[::-1], int8blas.reorder(IMAGE, zero_points=np.uint8(1)))


# --- what does not ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "named"),
    [((2, 1), "CUDA device 1"), ((8, 0), "Metal device 0"), ((10, 0), "ROCm device 0"), ((99, 3), "DLPack type 99")],
)
@pytest.mark.parametrize("base", [WithDLPack, WithOldDLPack])
def test_a_device_is_named(device, named, base):
    x = base(U8, device)
    for call in (
        lambda: int8blas.gemm_u8s8s32(1, x, S8),
        lambda: int8blas.matmul(S8.T, out=x, b=S8),
        lambda: int8blas.quantize(F32, 0.5, out=x),
        lambda: static_layer()(x),
        lambda: int8blas.reorder(x),
    ):
        with pytest.raises(
            TypeError, match=rf"^(a|out|src|x) must be in the CPU's memory, .*{named}.* copy it, as x\.cpu"
        ):
            call()


def test_a_device_of_the_cuda_array_interface():
    class Device:
        __cuda_array_interface__ = {"shape": (5, 8), "typestr": "|u1", "data": (0, False), "version": 3}  # noqa: RUF012

    with pytest.raises(TypeError, match="a must be in the CPU's memory, got Device on a CUDA device"):
        int8blas.matmul(Device(), S8)


def test_pinned_memory_is_the_cpus():
    same_bits(int8blas.matmul(WithDLPack(U8, (3, 0)), S8), int8blas.matmul(U8, S8))


def test_a_device_that_an_array_cannot_tell_is_left_to_the_conversion():
    class Silent(WithArray):
        def __dlpack_device__(self):
            raise BufferError("several")

    same_bits(int8blas.matmul(Silent(U8), S8), int8blas.matmul(U8, S8))


@every_call
def test_masked_arrays_are_refused(call):
    function, *arrays = call
    masked = [np.ma.masked_array(x) for x in arrays]
    with pytest.raises(TypeError, match=r"must not be a masked array, .* \.filled\(value\)"):
        function(*masked)


@every_output
def test_masked_results_are_refused(call):
    function, *arrays = call
    out = np.ma.masked_array(np.zeros_like(function(*arrays)))
    with pytest.raises(TypeError, match="out must not be a masked array"):
        function(*arrays, out=out)


@every_output
@pytest.mark.parametrize(
    ("form", "error", "match"),
    [
        (lambda x: memoryview(x).toreadonly(), ValueError, "out must be writeable, got a read-only array"),
        (lambda x: WithDLPack(np.broadcast_to(x, x.shape)), ValueError, "out must be writeable, got a read-only"),
        (WithOldDLPack, TypeError, "out must be an ndarray of .*, or share its memory with NumPy, got WithOldDLPack"),
        (lambda x: x.tolist(), TypeError, "out must be an ndarray of .*, or share its memory with NumPy, got list"),
        (lambda x: x.tobytes(), TypeError, "out must be"),
        (lambda x: None if x is None else 0, TypeError, "out must be an ndarray of .* got int"),
    ],
    ids=["read-only buffer", "read-only dlpack", "old dlpack", "list", "bytes", "number"],
)
def test_results_need_memory_to_write_to(call, form, error, match):
    function, *arrays = call
    memory = np.zeros_like(function(*arrays))
    with pytest.raises(error, match=match):
        function(*arrays, out=form(memory))
    assert not memory.any()


def test_no_memory_for_a_view_is_no_wrong_type():
    class Full:
        def __array__(self, dtype=None, copy=None):
            raise MemoryError("no memory for the view")

    with pytest.raises(MemoryError, match="no memory for the view"):
        int8blas.matmul(U8, S8, out=Full())


def test_a_copy_that_an_array_gives_is_not_written_to():
    class Copies(WithArray):
        def __array__(self, dtype=None, copy=None):
            if copy is False:
                raise ValueError("no view")
            return self.values.copy()

    same_bits(int8blas.matmul(Copies(U8), S8), int8blas.matmul(U8, S8))
    with pytest.raises(TypeError, match=r"out must be an ndarray of int32, .* got Copies \(no view\)"):
        int8blas.matmul(U8, S8, out=Copies(np.zeros((5, 3), np.int32)))


@pytest.mark.parametrize(
    ("x", "error", "match"),
    [
        (None, TypeError, "a must be an array, got None"),
        (object(), TypeError, "a must be uint8 or int8, got object"),
        (U8.astype(object), TypeError, "a must be uint8 or int8, got object"),
        (np.zeros(3, [("x", np.uint8)]), TypeError, "got a structured dtype with the fields x: give one of them, such"),
        (np.rec.array([(1,)], dtype=[("x", np.uint8)]), TypeError, "a must be uint8 or int8"),
        (np.uint8(1), ValueError, "a must have at least 1 dimension"),
        (WithDLPack(np.array(1, np.uint8)), ValueError, "a must have at least 1 dimension"),
        ([[1], [2, 3]], TypeError, "a must be an array, got list"),
        ("text", TypeError, "a must be uint8 or int8"),
        (b"bytes", TypeError, "a must be uint8 or int8, got bytes$"),
    ],
    ids=["None", "object", "objects", "structured", "record", "number", "0-d dlpack", "ragged", "text", "bytes"],
)
def test_what_is_no_array_of_numbers(x, error, match):
    with pytest.raises(error, match=match):
        int8blas.matmul(x, S8)


def test_a_gradient_is_refused():
    class Tracked(WithArray):
        requires_grad = True

    with pytest.raises(TypeError, match=r"src must not require a gradient, .* got Tracked: give \.detach\(\)"):
        dynamic_layer()(Tracked(F32))


# --- references ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [WithDLPack, WithOldDLPack, WithArray, WithInterface, memoryview], ids=str)
def test_no_reference_stays(form):
    x, memory = U8.copy(), np.zeros((5, 3), np.int32)
    before = sys.getrefcount(x), sys.getrefcount(memory)
    for _ in range(3):
        int8blas.matmul(form(x), S8)
        static_layer()(form(x))
        with pytest.raises(ValueError, match="b must have 8 rows"):
            int8blas.matmul(form(x), S8[1:])
        if form in MEMORIES.values():
            int8blas.matmul(x, S8, out=form(memory))
        with pytest.raises(ValueError, match="out must have shape"):
            int8blas.matmul(x, S8[:, :2], out=MEMORY(memory))
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(memory)) == before


def test_a_source_lives_as_long_as_the_call():
    """The exporter drops its own reference to the memory while it exports it, so that the call holds the only one."""

    class Dropping(WithDLPack):
        def __dlpack__(self, **keywords):
            values, self.values = self.values, None
            return values.__dlpack__(**keywords)

    values = U8.copy().view(Subclass)
    gone = weakref.ref(values)
    x = Dropping(values)
    del values
    same_bits(int8blas.matmul(x, S8), int8blas.matmul(U8, S8))
    gc.collect()
    assert gone() is None


def test_nothing_is_imported_for_arrays_of_numpy():
    code = (
        "import sys, numpy as np, int8blas; int8blas.quantize(np.ones(3, np.float16), 1);"
        "assert not {'ml_dtypes', 'torch', 'jax', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- float16 and bfloat16 --------------------------------------------------------------------------------------------


@pytest.fixture
def bfloat16():
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


@pytest.fixture(params=["float16", "bfloat16"])
def half(request):
    return np.dtype(np.float16) if request.param == "float16" else request.getfixturevalue("bfloat16")


# For these functions, the type of the source determines the type of the result.
OWN_TYPE = ("eltwise", "binary", "concat")


@pytest.mark.parametrize("name", [name for name in FLOATS if name not in OWN_TYPE])
def test_halves_are_taken_as_their_float32_values(isa, name, half):
    function, *arrays = FLOATS[name]
    halves = [x.astype(half) if x.dtype == np.float32 else x for x in arrays]
    same = [x.astype(np.float32) if x.dtype == half else x for x in halves]
    same_bits(function(*halves), function(*same))
    strided = [np.repeat(x, 2, axis=-1)[..., ::2] for x in halves]
    same_bits(function(*strided), function(*same))


def half_values(half, rng, shape=(67, 83)):
    """All numbers of the type, infinities and NaN among them, in random order, in `shape`."""
    return rng.permutation(np.arange(1 << 16, dtype=np.uint16))[: np.prod(shape)].reshape(shape).view(half)


@pytest.mark.parametrize("step", [1, -1, 3])
@pytest.mark.parametrize("dynamic", ["per_row", "per_tensor"])
@pytest.mark.parametrize("dynamic_dtype", [np.int8, np.uint8])
def test_dynamic_sources_of_halves(isa, half, dynamic, dynamic_dtype, step, rng):
    weights = rng.integers(-128, 128, (19, 83), np.int8)
    finite = rng.normal(0, 3, (67, 83 * abs(step))).astype(half)[:, ::step]
    for x in (finite, half_values(half, rng)):
        results = []
        with np.errstate(invalid="ignore"):  # signalling NaN, for which some CPUs report an invalid operation
            widened = x.astype(np.float32)
        for src in (x, widened):
            layer = InnerProduct(
                weights,
                src_dtype=src.dtype,
                dst_dtype=np.float32,
                dynamic=dynamic,
                dynamic_dtype=dynamic_dtype,
                scales={"weights": 0.01},
            )
            with np.errstate(all="ignore"):
                results.append(layer(src))
        same_bits(*results)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("order", ["C", "F", "strided", "reversed", "single"])
def test_every_half_is_quantized_as_its_float32_value(isa, half, dtype, order, rng):
    x = half_values(half, rng, (64, 1024))
    x = {"C": x, "F": x.T.copy().T, "strided": x[::3, ::2], "reversed": x[:, ::-1], "single": x[:, 7:8]}[order]
    with np.errstate(all="ignore"):
        same = x.astype(np.float32)
    for scale, axis in ((0.3, None), (rng.uniform(0.1, 3, x.shape[0]), 0), (rng.uniform(0.1, 3, x.shape[1]), 1)):
        expected = int8blas.quantize(same, scale, 7, dtype, axis=axis)
        same_bits(int8blas.quantize(x, scale, 7, dtype, axis=axis), expected)
        out = np.zeros((x.shape[1], x.shape[0]), dtype).T
        int8blas.quantize(x, scale, 7, dtype, axis=axis, out=out)
        same_bits(out.copy(order="C"), expected)


def test_nan_keeps_nothing_but_its_sign_in_half_of_the_bits(isa, half):
    for bits, expected in ((0x7F800001, 0), (0x7FC12345, 0), (0x7FFFFFFF, 0), (0xFF800001, 1), (0xFFFFFFFF, 1)):
        x = np.full(37, bits, np.uint32).view(np.float32)
        result = int8blas.eltwise(x, int8blas.Eltwise("linear", 1, -0.0), dst_dtype=half).view(np.uint16)
        nan = 0x7E00 if half == np.float16 else 0x7FC0
        assert set(result.tolist()) == {nan | expected << 15}


def test_recurrent_sources_of_halves(isa, half):
    x = F32[np.newaxis].astype(half)
    state = np.linspace(-1, 1, 40).reshape(5, 8).astype(half)
    halves, floats = (lstm(src_dtype=dtype) for dtype in (half, np.float32))
    for actual, expected in zip(
        halves(x, state, state), floats(x.astype(np.float32), *2 * [state.astype(np.float32)]), strict=True
    ):
        same_bits(actual, expected)


FUNCTIONS = {
    "eltwise": lambda x, **k: int8blas.eltwise(x, int8blas.Eltwise("logistic"), **k),
    "binary": lambda x, **k: int8blas.binary("sub", x, x[::-1], **k),
    "sum": lambda x, **k: int8blas.sum([x, x[::-1]], **k),
    "softmax": lambda x, **k: int8blas.softmax(x, **k),
    "log-softmax": lambda x, **k: int8blas.softmax(x, 0, log=True, **k),
    "layer_norm": lambda x, **k: int8blas.layer_norm(x, **k),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("shape", [(3, 5), (67, 83)])
def test_halves_in_and_out(isa, half, function, shape, rng):
    x = rng.normal(0, 2, shape).astype(half)
    expected = function(x.astype(np.float32), dst_dtype=np.float32)
    same_bits(function(x, dst_dtype=np.float32), expected)
    same_bits(function(x, dst_dtype=half), expected.astype(half))
    out = np.zeros((shape[0], 2 * shape[1]), half)[:, ::2]
    assert function(x, dst_dtype=half, out=out) is out
    same_bits(out, expected.astype(half))


def test_every_bfloat16_and_its_neighbours_are_rounded_as_numpy_does(isa, bfloat16):
    every = np.arange(1 << 16, dtype=np.uint32) << 16
    for offset in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        x = (every + np.uint32(offset)).view(np.float32)
        with np.errstate(all="ignore"):
            expected = x.astype(bfloat16)
            actual = int8blas.eltwise(x, int8blas.Eltwise("linear", 1, 0), dst_dtype=bfloat16)
        np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))
    numbers = np.arange(1 << 16, dtype=np.uint16).view(bfloat16)[~np.isnan(every.view(np.float32))]
    same_bits(int8blas.concat([numbers, numbers], 0, dst_dtype=np.float32)[: numbers.size], numbers.astype(np.float32))


def test_layers_with_results_in_bfloat16(isa, bfloat16, rng):
    x = rng.normal(0, 3, (9, 8)).astype(bfloat16)
    for layer, same, src in (
        (dynamic_layer(src_dtype=bfloat16, dst_dtype=bfloat16), dynamic_layer(), x),
        (dynamic_layer(dst_dtype=bfloat16), dynamic_layer(), x.astype(np.float32)),
    ):
        expected = same(x.astype(np.float32))
        same_bits(layer(src), expected.astype(bfloat16))
        out = np.zeros((9, 6), bfloat16)[:, ::2]
        assert layer(src, out=out) is out
        same_bits(out, expected.astype(bfloat16))
    total = dynamic_layer(dst_dtype=bfloat16, attributes=int8blas.Attributes(post_ops=[int8blas.Sum()]))
    out = np.ones((9, 3), bfloat16)
    total(x.astype(np.float32), out=out)
    same_bits(out, (dynamic_layer()(x.astype(np.float32)) + np.float32(1)).astype(bfloat16))


LAYERS = {
    "InnerProduct": (lambda: InnerProduct.dynamic(F32), F32),
    "per tensor, to uint8": (lambda: InnerProduct.dynamic(F32, dynamic="per_tensor", dynamic_dtype="uint8"), F32),
    "groups": (lambda: InnerProduct.dynamic(F32, group=4), F32),
    "Convolution": (
        lambda: int8blas.Convolution(FILTERS / np.float32(7), src_dtype=np.float32, dst_dtype=np.float32,
                                     dynamic="per_image", scales={"weights": "per_channel"}),
        (IMAGE / np.float32(9)),
    ),
    "Deconvolution": (
        lambda: int8blas.Deconvolution(FILTERS / np.float32(7), src_dtype=np.float32, dst_dtype=np.float32,
                                       dynamic="per_tensor", scales={"weights": "per_channel"}),
        (IMAGE / np.float32(9)),
    ),
    "LSTM": (lambda: lambda x: lstm()(x)[0], F32[np.newaxis]),
    "GRU": (
        lambda: lambda x: int8blas.GRU(RNN_WEIGHTS[:, :3], RNN_WEIGHTS[:, :3], data_scale=50, data_shift=128,
                                       weights_scale="per_tensor", src_dtype=np.float32)(x)[0],
        F32[np.newaxis],
    ),
    "RNN": (
        lambda: lambda x: int8blas.RNN(RNN_WEIGHTS[:, :1], RNN_WEIGHTS[:, :1], data_scale=50, data_shift=128,
                                       weights_scale="per_tensor", src_dtype=np.float32)(x)[0],
        F32[np.newaxis],
    ),
    "DynamicLSTM": (lambda: lambda x: int8blas.DynamicLSTM(RNN_WEIGHTS, RNN_WEIGHTS)(x)[0], F32[np.newaxis]),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_float32_takes_halves(isa, name, half):
    make, x = LAYERS[name]
    layer, x = make(), x.astype(half)
    same_bits(layer(x), layer(x.astype(np.float32)))
    strided = np.repeat(x, 2, axis=-1)[..., ::2]
    same_bits(layer(strided), layer(x.astype(np.float32)))
    same_bits(layer(x.astype(np.float32).astype(np.float64)), layer(x))
    if "InnerProduct" in name or "Convolution" in name:  # the result does not depend on the type of the source
        same_bits(layer(x.astype(np.float32)), make()(x.astype(np.float32)))


def test_a_layer_takes_the_type_that_it_was_created_for(bfloat16):
    x = F32.astype(bfloat16)
    for layer, src, wanted, got in (
        (dynamic_layer(src_dtype=np.float16), x, "float16", "bfloat16"),
        (dynamic_layer(src_dtype=bfloat16), F32, "bfloat16", "float32"),
        (lstm(src_dtype=np.float16), x[np.newaxis], "float16", "bfloat16"),
        (lstm(src_dtype=bfloat16), F32[np.newaxis], "bfloat16", "float32"),
    ):
        with pytest.raises(TypeError, match=f"src must be {wanted}, got .*{got}"):
            layer(src)
    with pytest.raises(TypeError, match=r"out must be bfloat16, got .*float32"):
        int8blas.softmax(x, dst_dtype=bfloat16, out=np.zeros_like(F32))
    with pytest.raises(ValueError, match=r"zero_points\['dst'\] must be for an integer type, got bfloat16"):
        int8blas.softmax(x, dst_dtype=bfloat16, zero_points={"dst": 1})
    with pytest.raises(ValueError, match=r"zero_points\['dst'\] must be 0 for bfloat16"):
        int8blas.eltwise(x, (), zero_points={"dst": 1})


def test_other_small_floats_are_refused():
    float8 = pytest.importorskip("ml_dtypes").float8_e4m3fn
    with pytest.raises(TypeError, match=r"x must be float32, float16 or bfloat16, got .*float8_e4m3fn"):
        int8blas.quantize(F32.astype(float8), 1)
    with pytest.raises(TypeError, match=r"dst_dtype must be .* float16 or bfloat16, got float8_e4m3fn"):
        int8blas.softmax(F32, dst_dtype=float8)
    with pytest.raises(TypeError, match="x must be float32, float64, float16 or bfloat16, got float8"):
        int8blas.calibration.MinMaxObserver().observe(F32.astype(float8))


def test_bfloat16_in_files(bfloat16, tmp_path):
    layer, x = dynamic_layer(src_dtype=bfloat16, dst_dtype=bfloat16), F32.astype(bfloat16)
    int8blas.save(tmp_path / "layer", {"layer": layer, "x": x.T, "one": x[0, 0]})
    for mapped in (True, False):
        loaded = int8blas.load(tmp_path / "layer", mmap=mapped)
        same_bits(loaded["x"], np.ascontiguousarray(x.T))
        same_bits(loaded["one"], x[0, 0])
        same_bits(loaded["layer"](x), layer(x))


# --- libraries -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@every_call
def test_torch(torch, call):
    function, *arrays = call
    same_bits(function(*[torch.from_numpy(x.copy()) for x in arrays]), function(*arrays))


@every_output
def test_torch_results(torch, call):
    function, *arrays = call
    expected = function(*arrays)
    out = torch.zeros(*expected.shape[::-1], dtype=torch.from_numpy(expected).dtype).permute(
        *reversed(range(expected.ndim))
    )
    assert function(*arrays, out=out) is out
    same_bits(out.numpy(), expected)


def test_torch_strides_and_gradients(torch):
    a = torch.from_numpy(U8.copy())
    same_bits(
        int8blas.matmul(a[:, ::2].T, a[:, :3].to(torch.int8)), int8blas.matmul(U8[:, ::2].T, U8[:, :3].astype(np.int8))
    )
    weights = torch.nn.Linear(8, 3).weight
    with pytest.raises(TypeError, match=r"weights must not require a gradient, .* got Parameter: give \.detach\(\)"):
        dynamic_layer(weights)
    same_bits(dynamic_layer(weights.detach())(F32), dynamic_layer(weights.detach().numpy())(F32))
    with pytest.raises(TypeError, match="src must be an array, got Tensor"):
        static_layer()(a.to("meta"))


def test_torch_bfloat16(torch, bfloat16):
    x = torch.from_numpy(F32.copy()).to(torch.bfloat16)
    same = F32.astype(bfloat16)
    assert as_array(x, "x").__array_interface__["data"][0] == x.data_ptr()
    same_bits(int8blas.quantize(x.T, 0.5), int8blas.quantize(same.T, 0.5))
    layer = dynamic_layer(src_dtype=bfloat16, dst_dtype=bfloat16)
    out = torch.zeros(3, 5, dtype=torch.bfloat16).T
    assert layer(x, out=out) is out
    same_bits(out.float().numpy(), layer(same).astype(np.float32))


def test_torch_bfloat16_without_ml_dtypes(torch, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match=r"x must be an array, got Tensor .*bfloat16 needs the package ml_dtypes"):
        int8blas.quantize(torch.zeros(3, dtype=torch.bfloat16), 0.5)


def test_jax(bfloat16):
    jax, jnp = pytest.importorskip("jax"), pytest.importorskip("jax.numpy")
    with jax.default_device(jax.devices("cpu")[0]):
        for function, *arrays in CALLS.values():
            if all(x.dtype.itemsize <= 4 for x in arrays):
                same_bits(function(*map(jnp.asarray, arrays)), function(*arrays))
        x = jnp.asarray(F32, jnp.bfloat16)
        same_bits(int8blas.quantize(x, 0.5), int8blas.quantize(F32.astype(bfloat16), 0.5))
        with pytest.raises(ValueError, match="out must be writeable, got a read-only array"):
            int8blas.quantize(F32, 0.5, out=jnp.zeros((5, 8), jnp.int8))


def test_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(U8)
    same_bits(int8blas.matmul(frame, S8), int8blas.matmul(U8, S8))
    same_bits(int8blas.matmul(frame[0], S8[:5]), int8blas.matmul(U8[:, 0], S8[:5]))
    with pytest.raises(TypeError, match="a must be uint8 or int8, got object"):
        int8blas.matmul(frame.assign(name="row"), np.zeros((9, 2), np.int8))
