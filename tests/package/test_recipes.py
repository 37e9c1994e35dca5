"""The recipes of docs/howto/extend.md: their code compiles against this checkout and computes the documented
results."""

import pathlib
import pickle
import platform
import re
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest
import reference
from arrays import assert_same
from layers import assert_same_bits

import int8blas

TESTS = pathlib.Path(__file__).parents[1]
PACKAGE = pathlib.Path(int8blas.__file__).parent
PAGE = (TESTS.parent / "docs" / "howto" / "extend.md").read_text()
COMPILER = (sysconfig.get_config_var("CC") or "cc").split()

pytestmark = pytest.mark.skipif(
    not (PACKAGE / "csrc" / "gemm").exists() or sys.platform == "win32",
    reason="recipes change a checkout, and are compiled by a Unix compiler",
)

SETUP = """
import sys
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
place, names = sys.argv.pop(1), sys.argv.pop(1).split()
places = {"include_dirs": [place + "/int8blas/csrc", numpy.get_include()], "extra_compile_args": ["-O1"]}
extensions = [Extension(name, [name + ".pyx"], **places) for name in names]
setup(name="recipe", ext_modules=cythonize(extensions, include_path=[place], compiler_directives={"language_level": 3}))
"""


def text_of(recipe):
    """The section of the page with this recipe."""
    (text,) = re.findall(rf"^## {recipe}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return text


def code_of(recipe, language):
    """The code blocks of a recipe in one language."""
    blocks = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text_of(recipe), re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in blocks]


def compiled(folder, *names):
    """Compile some Cython modules in a folder, and import the last one."""
    (folder / "setup.py").write_text(SETUP)
    command = [sys.executable, "setup.py", str(PACKAGE.parent), " ".join(names), "build_ext", "--inplace"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    sys.path.insert(0, str(folder))
    try:
        return __import__(names[-1])
    finally:
        sys.path.remove(str(folder))


# --- an instruction set ----------------------------------------------------------------------------------------------

NEAREST = "dotprod" if platform.machine() in ("aarch64", "arm64") else "avx512vnni"


def test_a_copy_of_an_instruction_set_compiles(tmp_path):
    """A header and a row of the list are enough for every file that is compiled once for each instruction set."""
    source = tmp_path / "csrc"
    shutil.copytree(PACKAGE / "csrc", source)
    shutil.copy(source / "isa" / f"{NEAREST}.h", source / "isa" / "copied.h")
    path = source / "isa" / "list.h"
    text, count = re.subn(rf"SET\({NEAREST}\)", f"SET(copied) SET({NEAREST})", path.read_text())
    assert count == 1
    path.write_text(text)
    units = [path for path in source.glob("*/*.c") if '"isa/set.h"' in path.read_text()]
    assert {path.stem for path in units} == set(re.findall(r"csrc/\w+/(\w+)\.c`[,)]", text_of("An instruction set")))
    command = [*COMPILER, "-std=c11", "-O0", "-Wall", "-Werror", f"-I{source}", "-DI8_SET=copied", "-shared", "-fPIC"]
    command += [*map(str, units), str(source / "isa" / "cpu.c"), "-Wl,--unresolved-symbols=ignore-all"]
    process = subprocess.run([*command, "-o", "copied.so"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    for table in ("kernels", "gemm", "convolution"):
        assert f"i8_{table}_copied".encode() in (tmp_path / "copied.so").read_bytes()


# --- a path ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("path")
    source, *_ = code_of("A path", "cython")
    (folder / "outer.pyx").write_text(source)
    shutil.copy(TESTS / "package" / "recipe_outer.pyx", folder)
    return compiled(folder, "outer", "recipe_outer").outer


@pytest.mark.parametrize("shape", [(1, 1), (70, 300), (300, 70), (32, 33)])
@pytest.mark.parametrize("a_type", [np.uint8, np.int8])
@pytest.mark.parametrize("b_type", [np.uint8, np.int8])
@pytest.mark.parametrize("order", "CF")
def test_a_path(outer, shape, a_type, b_type, order, rng, isa):
    (m, n), low_a, low_b = shape, np.iinfo(a_type).min, np.iinfo(b_type).min
    a = rng.integers(low_a, low_a + 256, (m, 1)).astype(a_type)
    b = rng.integers(low_b, low_b + 256, (1, n)).astype(b_type)
    ao, bo = rng.integers(low_a, low_a + 256, m), rng.integers(low_b, low_b + 256, n)
    c = np.full((m, n), 99, np.int32, order=order)
    outer(a, b, c, ao, bo)
    assert_same(c, reference.exact_product(a, b, ao, bo).astype(np.int32))


# --- a post-op -------------------------------------------------------------------------------------------------------

EVALUATE = """
#define I8_SET ref
#include "stage/stage.c"
void evaluate(int kind, float scale, float *y, long n)
{
    const i8_post_op op = {.kind = kind, .scale = scale};
    i8_eltwise(&op, y, y, n);
}
int softsign(void) { return I8_SOFTSIGN; }
"""


def test_a_post_op(tmp_path, rng):
    import ctypes

    source = tmp_path / "csrc"
    shutil.copytree(PACKAGE / "csrc", source)
    (line,) = code_of("A post-op", "c")
    (formula,) = code_of("A post-op", "python")
    operators = source / "stage" / "eltwise_list.h"
    text, count = re.subn(
        r"^ *OP\(ABS", lambda found: f"    {line.strip()} \\\n{found[0]}", operators.read_text(), flags=re.M
    )
    assert count == 1
    operators.write_text(text)
    (tmp_path / "evaluate.c").write_text(EVALUATE)
    command = [*COMPILER, "-std=c11", "-O1", "-ffp-contract=off", "-shared", "-fPIC", f"-I{source}", "evaluate.c"]
    process = subprocess.run([*command, "-o", "evaluate.so", "-lm"], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    library = ctypes.CDLL(str(tmp_path / "evaluate.so"))
    softsign = eval("{" + formula + "}", {"ONE": np.float32(1), "np": np})["softsign"]
    x = np.concatenate([rng.normal(0, 100, 60).astype(np.float32), np.float32([0, -0.0, 3e38, -1e-40])])
    y = x.copy()
    library.evaluate(library.softsign(), ctypes.c_float(0.75), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(y.size))
    assert_same_bits(y, np.float32(0.75) * softsign(x, None, None))


# --- a primitive -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def projection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("primitive")
    (source,) = code_of("A primitive", "cython")
    (folder / "projection.pyx").write_text(source)
    return compiled(folder, "projection").Projection


@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8, np.int32])
def test_a_primitive(projection, dst_dtype, rng, isa):
    weights = rng.integers(-128, 128, (33, 70), np.int8)
    bias = rng.normal(0, 50, 33).astype(np.float32)
    given = {
        "dst_dtype": dst_dtype,
        "scales": {"src": 0.02, "weights": np.linspace(0.01, 0.03, 33, dtype=np.float32), "dst": 0.5},
        "zero_points": {"src": 7, "dst": 100},
        "attributes": int8blas.Attributes(post_ops=[int8blas.ReLU(0.25)]),
    }
    x = rng.integers(0, 256, (9, 70), np.uint8)
    expected = int8blas.InnerProduct(weights, bias, src_dtype=np.uint8, **given)(x)
    layer = projection(weights, bias, **given)
    for made in (layer, pickle.loads(pickle.dumps(layer))):
        assert_same_bits(made(x), expected)
    with pytest.raises(ValueError, match=r"^src must have shape \(n, 70\), got \(9, 71\)$"):
        layer(np.zeros((9, 71), np.uint8))
