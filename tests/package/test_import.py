"""Which modules the package imports, and whether everything public is documented."""

import inspect
import json
import pathlib
import re
import sys

import pytest
from processes import run_python

import int8blas

PUBLIC = (
    "gemm_u8s8s32", "gemm_s8s8s32", "gemm_s8u8s32", "gemm_u8u8s32", "matmul", "pack_b", "PackedB", "would_saturate",
    "nearest", "sqeuclidean", "hamming", "Index",
    "syrk_u8s32", "syrk_s8s32",
    "available_isas", "use_isa", "num_threads", "show_config", "explain", "reorder", "weights_scales",
    "quantize", "dequantize", "requantize", "quantized_multiplier", "activation_factor", "weights_factor",
    "quantize_bias", "eltwise", "binary", "sum", "concat", "softmax", "layer_norm", "gather", "InnerProduct",
    "Convolution", "Deconvolution", "im2col", "LSTM", "GRU", "RNN", "DynamicLSTM",
    "fold_batch_norm", "shifted_bias", "Attributes", "Sum",
    "Eltwise", "ReLU", "Binary", "PReLU", "save", "load", "calibrate", "fuse_quantization", "move_strides",
    "get_include",
)  # fmt: skip


IMPORT = """
import json
import pathlib
import sys

import numpy

before = set(sys.modules)
import int8blas

print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_importing_imports_nothing_but_numpy_and_the_standard_library():
    modules = json.loads(run_python("-c", IMPORT).stdout)
    cython = ("cython_runtime", "_cython_")
    packages = {name.partition(".")[0] for name in modules if not name.startswith(cython)}
    assert packages - {"numpy"} - sys.stdlib_module_names == {"int8blas"}


def test_public_names():
    assert {*PUBLIC, "__version__"} <= set(int8blas.__all__)
    assert re.fullmatch(r"\d+\.\d+.*", int8blas.__version__)
    for name in int8blas.__all__:
        assert inspect.getdoc(getattr(int8blas, name)), name


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented_with_an_example(name):
    documentation = inspect.getdoc(getattr(int8blas, name))
    assert documentation
    assert ">>> " in documentation


def test_members_of_packed_b_are_documented():
    documentation = inspect.getdoc(int8blas.PackedB)
    for attribute in ("data", "column_sums", "certified", "shape", "dtype", "nbytes"):
        assert f"\n{attribute} : " in documentation
    for method in ("unpack", "save", "load"):
        assert inspect.getdoc(getattr(int8blas.PackedB, method))


def test_promises_name_every_module_with_public_names():
    promises = (pathlib.Path(__file__).parents[2] / "docs" / "promises.md").read_text()
    assert {"calibration", "onnx"} <= set(int8blas.__all__)
    for name in ("int8blas", "int8blas.calibration", "int8blas.onnx", "int8blas.sklearn", "int8blas.torch"):
        assert f"`{name}.__all__`" in promises
