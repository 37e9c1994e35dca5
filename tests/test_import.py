"""What importing the package brings along, and that everything public is documented."""

import inspect
import json
import subprocess
import sys

import int8blas
import pytest

PUBLIC = (
    "gemm_u8s8s32", "gemm_s8s8s32", "gemm_s8u8s32", "gemm_u8u8s32", "matmul", "pack_b", "PackedB", "would_saturate",
    "available_isas", "use_isa", "num_threads", "show_config", "explain",
)  # fmt: skip


def test_importing_imports_numpy_and_itself_and_nothing_else():
    code = """
import json, sys
import numpy
before = set(sys.modules)
import int8blas
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    cython = ("cython_runtime", "_cython_")
    new = {name.partition(".")[0] for name in json.loads(output) if not name.startswith(cython)}
    assert new - {"numpy"} == {"int8blas"}


def test_public_names():
    assert set(int8blas.__all__) - {"__version__"} == set(PUBLIC)
    assert int8blas.__version__.count(".") >= 1


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented_with_an_example(name):
    documentation = inspect.getdoc(getattr(int8blas, name))
    assert documentation
    assert ">>> " in documentation


@pytest.mark.parametrize(
    "name", ["data", "column_sums", "certified", "shape", "dtype", "nbytes", "unpack", "save", "load"]
)
def test_members_of_packed_b_are_documented(name):
    assert inspect.getdoc(getattr(int8blas.PackedB, name))
