"""The statements of docs/migration.md about other libraries, if these are installed: the calls give the same
numbers."""

import ctypes
import importlib.metadata
import itertools
import os
from typing import NamedTuple

import numpy as np
import pytest
from processes import run_python
from scipy.linalg.blas import sgemm, ssyrk

import int8blas
from int8blas.calibration import MinMaxObserver, MovingAverageObserver

F = np.float32
MICROSOFT = "com.microsoft"


def u8(rng, *shape):
    return rng.integers(0, 256, shape, np.uint8)


def s8(rng, *shape):
    return rng.integers(-128, 128, shape, np.int8)


def weights(rng, *shape):
    """int8 values of 7 bits: sums of two products with uint8 fit int16, so that every library is exact on every CPU."""
    return rng.integers(-64, 64, shape, np.int8)


def largest_difference(x, y):
    assert x.shape == y.shape
    assert x.dtype == y.dtype
    return np.abs(x.astype(np.int64) - y.astype(np.int64)).max()


# --- SciPy -----------------------------------------------------------------------------------------------------------


def test_arguments_of_sgemm(rng):
    a, b = rng.integers(-9, 10, (2, 12, 12)).astype(np.int8)
    c = rng.integers(-9, 10, (12, 12)).astype(np.int32)
    arguments = 2, a, b, 3, c, True, True
    expected = sgemm(*(x.astype(F) if isinstance(x, np.ndarray) else x for x in arguments))
    result = int8blas.gemm_s8s8s32(*arguments)
    assert np.array_equal(result, expected)
    assert int8blas.gemm_s8s8s32(*arguments, True) is c
    assert np.array_equal(c, expected)


def test_arguments_of_ssyrk(rng):
    a = rng.integers(-9, 10, (12, 7)).astype(np.int8)
    c = rng.integers(-9, 10, (7, 7)).astype(np.int32)
    arguments = 2, a, 3, c, True, True
    expected = ssyrk(*(x.astype(F) if isinstance(x, np.ndarray) else x for x in arguments))
    assert np.array_equal(int8blas.syrk_s8s32(*arguments), expected)
    assert int8blas.syrk_s8s32(*arguments, True) is c
    assert np.array_equal(c, expected)
    assert np.array_equal(int8blas.syrk_s8s32(1, a), ssyrk(1, a.astype(F)))


# --- oneDNN and MKL, by ctypes ---------------------------------------------------------------------------------------


def library(distribution, name):
    """The path of a shared library of an installed distribution; skip the test if it is not installed."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{distribution} is not installed")
    paths = [str(file.locate()) for file in files if file.name.startswith(name)]
    return os.path.normpath(min(paths, key=len)) if paths else pytest.skip(f"{distribution} has no {name}")


def assert_runs(code, *arguments, **environment):
    """Run the code in a separate process, where it can import this module."""
    here = os.path.dirname(__file__)
    paths = os.pathsep.join([here, os.path.dirname(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = run_python("-c", code, *arguments, PYTHONPATH=paths, **environment)
    assert process.returncode == 0, process.stderr


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def dnnl_gemm(a, b, co, offsetc="F", ao=0, bo=0, c=None, alpha=1, beta=0, trans_a=False, trans_b=False):
    """dnnl_gemm_u8s8s32 or dnnl_gemm_s8s8s32 of row-major matrices."""
    functions = ctypes.CDLL(library("onednn-cpu-gomp", "libdnnl.so"))
    function = functions.dnnl_gemm_s8s8s32 if a.dtype == np.int8 else functions.dnnl_gemm_u8s8s32
    m, k = a.shape[::-1] if trans_a else a.shape
    n = b.shape[0] if trans_b else b.shape[1]
    c = np.zeros((m, n), np.int32) if c is None else c.copy()
    co = np.asarray(co, np.int32).reshape(-1)
    letters = [ctypes.c_char(letter) for letter in (b"NT"[trans_a], b"NT"[trans_b], offsetc.encode())]
    sizes = [ctypes.c_int64(size) for size in (m, n, k)]
    lda, ldb, ldc = (ctypes.c_int64(x.shape[1]) for x in (a, b, c))
    zero_point = ctypes.c_int8 if a.dtype == np.int8 else ctypes.c_uint8
    status = function(*letters, *sizes, ctypes.c_float(alpha), pointer(a), lda, zero_point(ao), pointer(b), ldb,
                      ctypes.c_int8(bo), ctypes.c_float(beta), pointer(c), ldc, pointer(co))  # fmt: skip
    assert status == 0
    return c


@pytest.mark.parametrize(("offsetc", "count"), [("F", 1), ("C", 5), ("R", 9)])
def test_dnnl_gemm_has_the_same_zero_points_and_offsets(offsetc, count, rng):
    a, b, co = rng.integers(0, 64, (5, 37), np.uint8), rng.integers(-64, 64, (37, 9), np.int8), np.arange(count) * 100
    co_of_ours = co if count > 1 else 0
    expected = dnnl_gemm(a, b, co, offsetc, ao=7, bo=-3)
    assert np.array_equal(int8blas.gemm_u8s8s32(1, a, b, offsetc=offsetc, ao=7, bo=-3, co=co_of_ours), expected)


def test_dnnl_gemm_has_the_same_alpha_and_beta_if_they_are_integers(rng):
    a, b = rng.integers(0, 64, (37, 5), np.uint8), rng.integers(-64, 64, (9, 37), np.int8)
    c = rng.integers(-100, 100, (5, 9)).astype(np.int32)
    expected = dnnl_gemm(a, b, 11, c=c, alpha=2, beta=3, trans_a=True, trans_b=True)
    assert np.array_equal(int8blas.gemm_u8s8s32(2, a, b, 3, c, True, True, co=11), expected)
    fractions = dnnl_gemm(a, b, 11, c=c, alpha=0.25, beta=0.5, trans_a=True, trans_b=True)
    assert largest_difference(int8blas.gemm_u8s8s32(0.25, a, b, 0.5, c, True, True, co=11), fractions) <= 1


def test_dnnl_gemm_leaves_c_where_k_is_0(rng):
    c = np.ones((2, 3), np.int32)
    a, b = np.empty((2, 0), np.uint8), np.empty((0, 3), np.int8)
    functions = ctypes.CDLL(library("onednn-cpu-gomp", "libdnnl.so"))
    size, letter = ctypes.c_int64, ctypes.c_char
    status = functions.dnnl_gemm_u8s8s32(
        letter(b"N"), letter(b"N"), letter(b"F"), size(2), size(3), size(0), ctypes.c_float(1), pointer(a), size(1),
        ctypes.c_uint8(0), pointer(b), size(3), ctypes.c_int8(0), ctypes.c_float(0), pointer(c), size(3),
        pointer(np.zeros(1, np.int32)))  # fmt: skip
    assert status == 0
    assert c.all()
    assert not int8blas.gemm_u8s8s32(1, a, b, c=c).any()


SATURATION = """
import numpy as np
import int8blas
from test_migration import s8, u8{imports}

rng = np.random.default_rng(0)
for m, n, k in (5, 9, 37), (64, 48, 256), (1, 64, 100):
    for gemm, make in (int8blas.gemm_u8s8s32, u8), (int8blas.gemm_s8s8s32, s8):
        a, b = make(rng, m, k), s8(rng, k, n)
        expected = gemm(1, a, b, numerics="saturating")
        assert not np.array_equal(expected, gemm(1, a, b))
        assert np.array_equal({call}, expected), (m, n, k, gemm)
"""


@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE"])
@pytest.mark.parametrize("peer", ["oneDNN", "torch"])
def test_without_vnni_onednn_saturates_like_the_saturating_mode(peer, isa):
    if (isa == "AVX512_CORE" or peer == "torch") and "avx512bw" not in int8blas.available_isas():
        pytest.skip("the CPU has no AVX-512; where it has AVX2 alone, torch does not call oneDNN")
    if peer == "oneDNN":
        library("onednn-cpu-gomp", "libdnnl.so")
        imports, call = ", dnnl_gemm", "dnnl_gemm(a, b, 0)"
    else:
        pytest.importorskip("torch")
        imports, call = "\nimport torch", "torch._int_mm(torch.from_numpy(a), torch.from_numpy(b)).numpy()"
    assert_runs(SATURATION.format(imports=imports, call=call), ONEDNN_MAX_CPU_ISA=isa)


MKL = """
import ctypes
import sys
import numpy as np
import int8blas
from test_migration import pointer, s8, u8

mkl = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
mkl.MKL_Set_Threading_Layer(1)  # sequential
rng = np.random.default_rng(0)
ROW_MAJOR, COLUMN_MAJOR, NO_TRANS, ROW_OFFSET, COLUMN_OFFSET, FIX_OFFSET = 101, 102, 111, 171, 172, 173
M, N, K = 5, 9, 37


def gemm(layout, kind, a, oa, b, ob, co):
    c = np.zeros((M, N), np.int32, order="C" if layout == ROW_MAJOR else "F")
    lda, ldb, ldc = (x.shape[layout == ROW_MAJOR] for x in (a, b, c))
    mkl.cblas_gemm_s8u8s32(
        layout, NO_TRANS, NO_TRANS, kind, M, N, K, ctypes.c_float(1), pointer(a), lda, ctypes.c_int8(oa), pointer(b),
        ldb, ctypes.c_int8(ob), ctypes.c_float(0), pointer(c), ldc, pointer(np.asarray(co, np.int32)))
    return c


a, b = u8(rng, M, K) // 4, s8(rng, K, N) // 2  # nothing saturates
ours = int8blas.gemm_u8s8s32
for kind, letter, count in (FIX_OFFSET, "F", 1), (COLUMN_OFFSET, "C", M), (ROW_OFFSET, "R", N):
    co = np.arange(count) * 100 + 11
    expected = gemm(ROW_MAJOR, kind, a, -7, b, 3, co)
    assert np.array_equal(ours(1, a, b, offsetc=letter, ao=7, bo=-3, co=co if count > 1 else 11), expected), letter
a, b = np.asfortranarray(s8(rng, M, K) // 2), np.asfortranarray(u8(rng, K, N) // 4)
assert np.array_equal(int8blas.gemm_s8u8s32(1, a, b), gemm(COLUMN_MAJOR, FIX_OFFSET, a, 0, b, 0, [0]))
"""


def test_mkl_adds_its_offsets_and_is_unsigned_on_the_left_if_row_major():
    assert_runs(MKL, library("mkl", "libmkl_rt.so"))


# --- ONNX ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def onnx():
    """A function that executes one operator with onnxruntime, on arrays; None is an omitted input."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")

    def execute(operator, *inputs, outputs=1, domain="", **attributes):
        names = [f"input{i}" for i in range(len(inputs))]
        arrays = {name: np.asarray(x) for name, x in zip(names, inputs, strict=True) if x is not None}
        node = onnx.helper.make_node(
            operator, [name if name in arrays else "" for name in names], [f"output{i}" for i in range(outputs)],
            domain=domain, **attributes)  # fmt: skip
        graph = onnx.helper.make_graph(
            [node], "graph",
            [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for name, x in arrays.items()],
            [onnx.helper.make_empty_tensor_value_info(f"output{i}") for i in range(outputs)])  # fmt: skip
        opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid(MICROSOFT, 1)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, arrays)
        return results[0] if outputs == 1 else results

    return execute


def test_matmul_integer(onnx, rng):
    a, b, b_zero_points = u8(rng, 2, 5, 37), weights(rng, 37, 9), s8(rng, 9)
    assert np.array_equal(int8blas.matmul(a, b), onnx("MatMulInteger", a, b))
    expected = onnx("MatMulInteger", a, b, np.uint8(7), b_zero_points)
    assert np.array_equal(int8blas.matmul(a, b, ao=7, bo=b_zero_points), expected)


@pytest.mark.parametrize("bias", [None, np.int32])
def test_qlinear_matmul_and_qgemm(onnx, bias, rng):
    a, b, scales = u8(rng, 50, 64), weights(rng, 64, 9), rng.uniform(0.01, 0.05, 9).astype(F)
    bias = None if bias is None else rng.integers(-5000, 5000, 9).astype(bias)
    layer = int8blas.InnerProduct(
        b.T, bias, src_dtype=np.uint8, dst_dtype=np.uint8, scales={"src": 0.02, "weights": scales, "dst": 7},
        zero_points={"src": 7, "dst": 120})  # fmt: skip
    source, matrix, dst = (a, F(0.02), np.uint8(7)), (b, scales, np.zeros(9, np.int8)), (F(7), np.uint8(120))
    assert np.array_equal(layer(a), onnx("QGemm", *source, *matrix, bias, *dst, domain=MICROSOFT))
    if bias is None:
        assert np.array_equal(layer(a), onnx("QLinearMatMul", *source, *matrix, *dst))


def test_convolutions(onnx, rng):
    x, w, scales = u8(rng, 2, 6, 9, 8), weights(rng, 10, 6, 3, 3), rng.uniform(0.01, 0.05, 10).astype(F)
    bias = rng.integers(-1000, 1000, 10).astype(np.int32)
    pads = {"pads": [1, 0, 2, 1], "strides": [2, 1]}
    options = {"layout": "nchw", "padding": ((1, 2), (0, 1)), "strides": (2, 1), "src_dtype": np.uint8}
    layer = int8blas.Convolution(w, dst_dtype=np.int32, zero_points={"src": 5}, **options)
    assert np.array_equal(layer(x), onnx("ConvInteger", x, w, np.uint8(5), **pads))
    layer = int8blas.Convolution(
        w, bias, dst_dtype=np.uint8, scales={"src": 0.02, "weights": scales, "dst": 3},
        zero_points={"src": 5, "dst": 120}, **options)  # fmt: skip
    expected = onnx("QLinearConv", x, F(0.02), np.uint8(5), w, scales, np.zeros(10, np.int8), F(3), np.uint8(120), bias,
                    **pads)  # fmt: skip
    assert largest_difference(layer(x), expected) <= 1


def test_quantize_linear_rounds_before_it_adds_the_zero_point(onnx, rng):
    x = rng.normal(0, 2, (20, 30)).astype(F)
    for zero_point in np.uint8(3), np.int8(-3):
        expected = onnx("QuantizeLinear", x, F(0.031), zero_point)
        assert np.array_equal(int8blas.quantize(x, 0.031, zero_point, zero_point.dtype), expected)
    scales, zero_points = rng.uniform(0.1, 1, 30).astype(F), np.zeros(30, np.int8)
    q = onnx("QuantizeLinear", x, scales, zero_points, axis=1)
    assert np.array_equal(int8blas.quantize(x, scales, axis=1), q)
    floats = onnx("DequantizeLinear", q, scales, zero_points, axis=1)
    assert np.array_equal(int8blas.dequantize(q, scales, axis=1), floats)
    ties = np.array([0.5, 1.5, 2.5], F)
    assert onnx("QuantizeLinear", ties, F(1), np.uint8(3)).tolist() == [3, 5, 5]  # 0, 2 and 2, then + 3
    assert int8blas.quantize(ties, 1, 3, np.uint8).tolist() == [4, 4, 6]
    even = onnx("QuantizeLinear", ties, F(1), np.uint8(4))
    assert np.array_equal(int8blas.quantize(ties, 1, 4, np.uint8), even)


def test_dynamic_quantization(onnx, rng):
    x, b, scales = rng.normal(0, 1, (4, 37)).astype(F), weights(rng, 37, 9), rng.uniform(0.01, 0.05, 9).astype(F)
    q, scale, zero_point = onnx("DynamicQuantizeLinear", x, outputs=3)
    found = MinMaxObserver(dtype=np.uint8, symmetric=False).observe(x).parameters()
    assert (found.scale, found.zero_point) == (scale, zero_point)
    assert np.array_equal(int8blas.quantize(x, found.scale, found.zero_point, np.uint8), q)
    layer = int8blas.InnerProduct(
        b.T, src_dtype=F, dst_dtype=F, dynamic="per_tensor", dynamic_dtype=np.uint8, scales={"weights": scales}
    )
    expected = onnx("DynamicQuantizeMatMul", x, b, scales, np.zeros(9, np.int8), domain=MICROSOFT)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-5, atol=1e-5)
    layer = int8blas.InnerProduct(
        b.T, src_dtype=np.uint8, dst_dtype=F, scales={"src": scale, "weights": scales},
        zero_points={"src": zero_point})  # fmt: skip
    expected = onnx("MatMulIntegerToFloat", q, b, scale, scales, zero_point, np.zeros(9, np.int8), domain=MICROSOFT)
    np.testing.assert_allclose(layer(q), expected, rtol=1e-5, atol=1e-5)


def test_operators_on_elements_and_windows(onnx, rng):
    x, y = u8(rng, 4, 50), u8(rng, 4, 50)
    operands = x, F(0.1), np.uint8(3), y, F(0.2), np.uint8(9)
    options = {"scales": {"src0": 0.1, "src1": 0.2, "dst": 4}, "zero_points": {"src0": 3, "src1": 9, "dst": 10}}
    for operator, op in ("QLinearAdd", "add"), ("QLinearMul", "mul"):
        expected = onnx(operator, *operands, F(4), np.uint8(10), domain=MICROSOFT)
        assert largest_difference(int8blas.binary(op, x, y, **options), expected) <= 1
    expected = onnx("QLinearSigmoid", x, F(0.05), np.uint8(128), F(1 / 255), np.uint8(0), domain=MICROSOFT)
    result = int8blas.eltwise(x, int8blas.Eltwise("logistic"), scales={"src": 0.05, "dst": 1 / 255},
                              zero_points={"src": 128})  # fmt: skip
    assert largest_difference(result, expected) <= 1
    one, zero = F(1), np.uint8(0)
    expected = onnx("QLinearConcat", one, zero, x, one, zero, y, one, zero, domain=MICROSOFT, axis=1)
    assert np.array_equal(int8blas.concat([x, y], axis=1), expected)
    image = u8(rng, 1, 4, 8, 8)
    windows = {"kernel_shape": [2, 2], "strides": [2, 2]}
    assert np.array_equal(int8blas.max_pool(image, 2, layout="nchw"), onnx("MaxPool", image, **windows))
    average = onnx("QLinearAveragePool", image, one, zero, one, zero, domain=MICROSOFT, **windows)
    assert largest_difference(int8blas.avg_pool(image, 2, layout="nchw"), average) <= 1
    average = onnx("QLinearGlobalAveragePool", image, one, zero, one, zero, domain=MICROSOFT)
    assert largest_difference(int8blas.global_avg_pool(image, layout="nchw"), average) <= 1


# --- PyTorch ---------------------------------------------------------------------------------------------------------

ignore_deprecation = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


class Quantized(NamedTuple):
    """A quantized module's source, weights and destination."""

    src_scale: float = 0.0625
    src_zero_point: int = 130
    dst_scale: float = 0.05
    dst_zero_point: int = 120

    @property
    def values(self):
        return {
            "src_dtype": np.uint8,
            "dst_dtype": np.uint8,
            "zero_points": {"src": self.src_zero_point, "dst": self.dst_zero_point},
        }

    def scales(self, of_weights):
        return {"src": self.src_scale, "weights": of_weights, "dst": self.dst_scale}


def test_int_mm(torch, rng):
    a, b = weights(rng, 33, 64), weights(rng, 64, 24)
    assert np.array_equal(int8blas.gemm_s8s8s32(1, a, b), torch._int_mm(torch.from_numpy(a), torch.from_numpy(b)))


@ignore_deprecation
def test_quantize_per_tensor_and_per_channel(torch, rng):
    x = rng.normal(0, 1, (24, 50)).astype(F)
    expected = torch.quantize_per_tensor(torch.from_numpy(x), 0.031, 3, torch.quint8)
    q = int8blas.quantize(x, 0.031, 3, np.uint8)
    assert np.array_equal(q, expected.int_repr())
    np.testing.assert_allclose(int8blas.dequantize(q, 0.031, 3), expected.dequantize(), rtol=1e-6)
    scales = rng.uniform(0.01, 0.05, 24).astype(F)
    zero_points = torch.zeros(24, dtype=torch.int64)
    expected = torch.quantize_per_channel(torch.from_numpy(x), torch.from_numpy(scales), zero_points, 0, torch.qint8)
    assert np.array_equal(int8blas.quantize(x, scales, axis=0), expected.int_repr())
    ties = torch.quantize_per_tensor(torch.tensor([0.5, 1.5, 2.5]), 1, 3, torch.quint8).int_repr()
    assert np.array_equal(int8blas.quantize(np.array([0.5, 1.5, 2.5], F), 1, 3, np.uint8), ties)


@ignore_deprecation
def test_observers(torch, rng):
    ao = torch.ao.quantization
    x = rng.normal(0, 2, (60, 50)).astype(F)
    tensor = torch.from_numpy(x)

    def torch_finds(observer, *batches):
        for batch in batches:
            observer(batch)
        return tuple(value.numpy() for value in observer.calculate_qparams())

    scale, zero_point = torch_finds(ao.MinMaxObserver(), tensor)
    found = MinMaxObserver(dtype=np.uint8, symmetric=False).observe(x).parameters()
    assert zero_point == found.zero_point
    np.testing.assert_allclose(scale, found.scale, rtol=1e-6)
    symmetric = {"dtype": torch.qint8, "qscheme": torch.per_tensor_symmetric}
    scale, zero_point = torch_finds(ao.MinMaxObserver(**symmetric), tensor)
    found = MinMaxObserver().observe(x).parameters()
    assert zero_point == found.zero_point == 0
    np.testing.assert_allclose(scale * 127.5, found.scale * 127, rtol=1e-6)
    per_channel = {"dtype": torch.qint8, "qscheme": torch.per_channel_symmetric}
    scale, _ = torch_finds(ao.PerChannelMinMaxObserver(ch_axis=0, **per_channel), tensor)
    np.testing.assert_allclose(scale * 127.5, MinMaxObserver(axis=0).observe(x).parameters().scale * 127, rtol=1e-6)
    batches = np.split(x, 5)
    scale, zero_point = torch_finds(ao.MovingAverageMinMaxObserver(), *map(torch.from_numpy, batches))
    observer = MovingAverageObserver(momentum=0.99, dtype=np.uint8, symmetric=False)
    for batch in batches:
        observer.observe(batch)
    assert zero_point == observer.parameters().zero_point
    np.testing.assert_allclose(scale, observer.parameters().scale, rtol=1e-5)


@pytest.fixture
def engine(torch):
    """A function that sets torch's quantized engine until the end of the test."""
    before = torch.backends.quantized.engine

    def use(name):
        if name not in torch.backends.quantized.supported_engines:
            pytest.skip(f"torch has no engine {name} here")
        torch.backends.quantized.engine = name

    yield use
    torch.backends.quantized.engine = before


@ignore_deprecation
@pytest.mark.parametrize("name", ["x86", "fbgemm", "onednn", "qnnpack"])
def test_quantized_modules(torch, engine, name, rng):
    engine(name)
    q = Quantized()
    x = torch.from_numpy(rng.normal(0, 2, (60, 16, 6, 5)).astype(F))
    source = torch.quantize_per_tensor(x, q.src_scale, q.src_zero_point, torch.quint8)
    scales = rng.uniform(0.01, 0.05, 24).astype(F)
    for kind, shape in ("Linear", (24, 16)), ("Conv2d", (24, 16, 3, 3)):
        w, bias = rng.uniform(-0.6, 0.6, shape).astype(F), rng.normal(0, 1, 24).astype(F)
        quantized = torch.quantize_per_channel(
            torch.from_numpy(w), torch.from_numpy(scales), torch.zeros(24, dtype=torch.int64), 0, torch.qint8
        )
        w = quantized.int_repr().numpy()
        if kind == "Linear":
            module = torch.ao.nn.quantized.Linear(16, 24)
            layer = int8blas.InnerProduct(w, bias, scales=q.scales(scales), **q.values)
            src = source[:, :, 0, 0]
        else:
            module = torch.ao.nn.quantized.Conv2d(16, 24, 3, padding=1)
            layer = int8blas.Convolution(w, bias, padding=1, layout="nchw", scales=q.scales(scales), **q.values)
            src = source
        module.set_weight_bias(quantized, torch.from_numpy(bias))
        module.scale, module.zero_point = q.dst_scale, q.dst_zero_point
        expected = module(src).int_repr().numpy()
        assert largest_difference(layer(src.int_repr().numpy()), expected) <= (name == "qnnpack"), kind


@ignore_deprecation
def test_dynamic_modules(torch, engine, rng):
    linear = torch.nn.Linear(50, 24)
    x = rng.normal(0, 2, (60, 50)).astype(F)
    exact = linear(torch.from_numpy(x)).detach().numpy()

    def of_engine(name):
        engine(name)
        model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(linear), {torch.nn.Linear})
        matrix = model[0].weight()
        layer = int8blas.InnerProduct(
            matrix.int_repr().numpy(), linear.bias.detach().numpy(), src_dtype=F, dst_dtype=F, dynamic="per_tensor",
            dynamic_dtype=np.uint8, scales={"weights": matrix.q_scale()})  # fmt: skip
        return layer(x), model(torch.from_numpy(x)).numpy()

    result, expected = of_engine("qnnpack")
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    result, expected = of_engine("fbgemm")  # a source of 7 bits
    assert np.linalg.norm(result - exact) < np.linalg.norm(expected - exact)


@ignore_deprecation
def test_functions_of_quantized_tensors(torch, engine, rng):
    engine("fbgemm")
    x, y = rng.normal(0, 2, (2, 60, 50)).astype(F)
    a = torch.quantize_per_tensor(torch.from_numpy(x), 0.05, 128, torch.quint8)
    b = torch.quantize_per_tensor(torch.from_numpy(y), 0.07, 100, torch.quint8)
    options = {"scales": {"src0": 0.05, "src1": 0.07, "dst": 0.1}, "zero_points": {"src0": 128, "src1": 100, "dst": 60}}
    for op, post_ops in ("add", []), ("mul", []), ("add_relu", [int8blas.ReLU()]):
        expected = getattr(torch.ops.quantized, op)(a, b, 0.1, 60).int_repr().numpy()
        result = int8blas.binary(op[:3], a.int_repr().numpy(), b.int_repr().numpy(), post_ops=post_ops, **options)
        assert largest_difference(result, expected) <= 1, op
    image = torch.quantize_per_tensor(torch.from_numpy(x.reshape(5, 6, 10, 10)), 0.05, 128, torch.quint8)
    pixels = image.int_repr().numpy()
    expected = torch.nn.functional.max_pool2d(image, 2).int_repr()
    assert np.array_equal(int8blas.max_pool(pixels, 2, layout="nchw"), expected)
    expected = torch.nn.functional.avg_pool2d(image, 2).int_repr().numpy()
    assert largest_difference(int8blas.avg_pool(pixels, 2, layout="nchw"), expected) <= 1


# --- faiss -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["inner", "sqeuclidean"])
def test_an_index_of_faiss(metric, rng):
    faiss = pytest.importorskip("faiss")
    x, q = s8(rng, 500, 24), s8(rng, 6, 24)
    ids = rng.permutation(2000)[:500]
    flat = faiss.IndexFlatIP(24) if metric == "inner" else faiss.IndexFlatL2(24)
    theirs, ours = faiss.IndexIDMap2(flat), int8blas.Index(24, metric)
    theirs.add_with_ids(x.astype(F), ids)
    ours.add(x, ids)
    theirs.remove_ids(ids[:20])
    ours.remove(ids[:20])
    some = ids[10:300]

    def same(found, expected):
        """Check equal results; vectors with equal scores may be in any order."""
        assert np.array_equal(found[0], expected[0])
        differs = np.diff(found[0], axis=1, prepend=np.inf, append=np.inf) != 0
        is_alone = differs[:, 1:] & differs[:, :-1]
        is_alone[:, -1] = False  # the next vector, which is not shown, may have the same score
        assert np.array_equal(found[1][is_alone], expected[1][is_alone])

    same(ours.search(q, 9), theirs.search(q.astype(F), 9))
    selected = faiss.SearchParameters(sel=faiss.IDSelectorBatch(some))
    same(ours.search(q, 9, include=some), theirs.search(q.astype(F), 9, params=selected))
    assert np.array_equal(ours.reconstruct(ids[30:40]), np.stack([theirs.reconstruct(int(i)) for i in ids[30:40]]))
    # The radius lies between two scores, because faiss excludes scores equal to the radius.
    radius = ours.search(q, 40)[0][0, -1] + 0.5
    limits, scores, found = ours.range_search(q, radius)
    expected = theirs.range_search(q.astype(F), radius)
    assert np.array_equal(limits, expected[0])
    for start, end in itertools.pairwise(limits):
        assert sorted(zip(found[start:end], scores[start:end], strict=True)) == sorted(
            zip(expected[2][start:end], expected[1][start:end], strict=True)
        )
