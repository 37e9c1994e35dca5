"""int8blas.h declares the functions of cython_blas, and a module in C builds with it and runs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference
from arrays import assert_same
from processes import run_python

import int8blas
from int8blas import cython_blas

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "cython.md"
EXAMPLE = Path(__file__).parents[2] / "examples" / "c_extension"
HEADER = Path(int8blas.get_include()) / "int8blas.h"

SETUP = """
import int8blas
from setuptools import Extension, setup
strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"] if {strict} else []
setup(name="caller", ext_modules=[
    Extension("caller", ["{source}"], include_dirs=[int8blas.get_include()], extra_compile_args=strict)])
"""
CALLER = """
#include <int8blas.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "caller", NULL, -1, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_caller(void) {
    return import_int8blas() < 0 || int8blas.packed_b_size(4, 4) < 64 ? NULL : PyModule_Create(&definition);
}
"""


def build(folder):
    """Run the setup.py of a folder."""
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


def member(name):
    """The declaration of a function in the header, in Cython's form: without the names of its parameters."""
    text = " ".join(HEADER.read_text().split())
    result, parameters = re.search(rf"(\w+) \(\*{name}\)\(([^)]*)\);", text).groups()
    types = []
    for parameter in parameters.split(", "):
        constant, kind, star = re.fullmatch(r"(const )?(\w+) (\*?)\w+", parameter).groups()
        types.append(kind + " const" * (constant is not None) + f" {star}" * bool(star))
    return f"{result} ({', '.join(types)})"


def test_the_prototypes_are_those_of_the_capsules():
    found = re.findall(r"\(\*(\w+)\)\(", HEADER.read_text())
    assert sorted(found) == sorted(cython_blas.__pyx_capi__)
    for name, capsule in cython_blas.__pyx_capi__.items():
        assert f'"{member(name)}"' in repr(capsule)


@pytest.mark.parametrize("source", ["caller.c", "caller.cpp"])
def test_a_module_imports_the_functions_in_c_and_cpp(source, tmp_path):
    (tmp_path / source).write_text(CALLER)
    (tmp_path / "setup.py").write_text(SETUP.format(source=source, strict=sys.platform == "linux"))
    build(tmp_path)
    run = "import sys; sys.path.insert(0, sys.argv[1]); {change}; import caller"
    assert run_python("-c", run.format(change="pass"), str(tmp_path)).returncode == 0
    change = "import int8blas.cython_blas as x; x.__pyx_capi__['pack_b_u8'] = x.__pyx_capi__['packed_b_size']"
    process = run_python("-c", run.format(change=change), str(tmp_path))
    assert 'ImportError: int8blas.cython_blas.pack_b_u8 must be "int (char, int64_t' in process.stderr
    change = "import int8blas.cython_blas as x; del x.__pyx_capi__['gemm_u8s8s32']"
    assert "KeyError: 'gemm_u8s8s32'" in run_python("-c", run.format(change=change), str(tmp_path)).stderr


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The folder of the example, after the build."""
    if not EXAMPLE.exists():
        pytest.skip("the examples are not here")
    folder = tmp_path_factory.mktemp("c") / "example"
    shutil.copytree(EXAMPLE, folder)
    build(folder)
    return folder


def test_the_example_runs(example):
    command = [sys.executable, "compare.py", "--quick"]
    process = subprocess.run(command, cwd=example, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "the same results" in process.stdout


def test_the_example_finds_what_numpy_finds(example, isa, rng):
    sys.path.insert(0, str(example))
    try:
        from nearest import nearest
    finally:
        sys.path.remove(str(example))
    for queries, vectors, k in ((1, 1, 1), (130, 700, 33), (64, 257, 2), (0, 5, 4)):
        asked = rng.integers(-128, 128, (queries, k), np.int8)
        base = rng.integers(-128, 128, (vectors, k), np.int8)
        numbers, best = np.full(queries, -1, np.int64), np.zeros(queries, np.int32)
        nearest(asked, base, numbers, best)
        scores = reference.matmul(asked, base.T)
        assert_same(numbers, scores.argmax(axis=1))
        assert_same(best, scores.max(axis=1).astype(np.int32))
    for wrong in (asked.view(np.uint8), asked[:, :3].copy(), asked[0:0].reshape(-1)):
        with pytest.raises(ValueError, match="arrays must be int8"):
            nearest(wrong, base, numbers, best)


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")
def test_the_page_shows_the_example():
    assert (EXAMPLE / "setup.py").read_text() in re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    for line in ("import_int8blas() < 0 ? NULL : PyModule_Create(&definition);", "#include <int8blas.h>"):
        assert line in PAGE.read_text()
        assert line in (EXAMPLE / "nearest.c").read_text()
