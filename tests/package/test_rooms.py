"""The rooms (subpackages) of the package: which may import which, in Python and in Cython."""

import ast
import graphlib
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "int8blas"
MAY_IMPORT = {
    "core": set(),
    "gemm": {"core"},
    "stage": {"core", "gemm"},
    "convolution": {"core", "gemm", "stage"},
    "layers": {"core", "gemm", "stage"},
    "elementwise": {"core", "gemm", "stage"},
    "neighbors": {"core", "gemm", "elementwise"},
    "network": {"core", "gemm", "stage", "convolution", "layers", "elementwise"},
    "onnx": {"core", "gemm", "stage", "convolution", "layers", "elementwise", "network"},
    "sklearn": {"core", "gemm", "stage", "layers", "neighbors"},
    "torch": {"core", "gemm", "stage", "convolution", "layers", "elementwise", "network", "onnx"},
}
# Modules above the rooms: public import paths, and the module that python -m int8blas runs.
ABOVE = {"__init__", "__main__", "_former", "_version", "calibration", "cython_blas", "formats"}
NAMED = re.compile(
    r"^\s*(?:from\s+int8blas(?:\.([\w.]+))?\s+c?import\s+(\([^)]*\)|.+)|c?import\s+int8blas\.([\w.]+))", re.MULTILINE
)
SOURCES = {".py", ".pyx", ".pxd"}
MODULES = sorted(path for room in MAY_IMPORT for path in (PACKAGE / room).rglob("*.p*") if path.suffix in SOURCES)

pytestmark = pytest.mark.skipif(not MODULES, reason="needs the sources of the package beside the tests")


def imported(text):
    """The rooms or modules of int8blas that a module's text names in imports, inside functions too."""
    for module, names, dotted in NAMED.findall(text):
        for name in re.findall(r"\w+", names) if not module and not dotted else [(module or dotted)]:
            yield name.split(".")[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_module_imports_only_the_rooms_below_its_own(path):
    room = path.relative_to(PACKAGE).parts[0]
    assert set(imported(path.read_text())) - {room} - MAY_IMPORT[room] <= ({"_version"} if room == "core" else set())


def module_of(path):
    """The dotted name inside the package; a .pxd file and its .pyx file are one module."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def imports_of_modules(texts):
    """For each module of `texts`, a dict of lists of texts, the modules among them that it imports."""
    found = {module: set() for module in texts}
    for module, parts in texts.items():
        for parent, names, dotted in NAMED.findall("\n".join(parts)):
            named = [dotted] if dotted else [f"{parent}.{name}".strip(".") for name in re.findall(r"\w+", names)]
            found[module] |= {name if name in texts else parent for name in named} & texts.keys() - {module}
    return found


def test_no_modules_import_each_other_in_a_circle():
    texts = {}
    for path in PACKAGE.rglob("*.p*"):
        if path.suffix in SOURCES and path != PACKAGE / "__init__.py":
            texts.setdefault(module_of(path), []).append(path.read_text())
    graphlib.TopologicalSorter(imports_of_modules(texts)).prepare()


def test_circles_are_found():
    texts = {
        "a.first": ["from int8blas.a cimport second"],
        "a.second": ["x = 1", "def f():\n    from int8blas.a.third import (\n        g,\n        h,\n    )"],
        "a.third": ["cimport int8blas.a.first"],
        "a": ["from int8blas.a.first import x"],
    }
    assert imports_of_modules(texts) == {
        "a.first": {"a.second"}, "a.second": {"a.third"}, "a.third": {"a.first"}, "a": {"a.first"}
    }  # fmt: skip
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(imports_of_modules(texts)).prepare()


def test_imports_are_found_in_every_form():
    text = """
from int8blas.core.arrays cimport as_array
from int8blas cimport gemm
    from int8blas.stage import output_stage
cimport int8blas.layers.rnn
import int8blas.network.graph
"""
    assert list(imported(text)) == ["core", "gemm", "stage", "layers", "network"]


def test_every_module_is_in_a_room():
    assert {path.stem for path in PACKAGE.iterdir() if path.suffix in {".py", ".pyx"}} == ABOVE
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} == {
        *MAY_IMPORT,
        "_bench",
        "_golden",
    }
    assert {path.parent.name for path in MODULES} == {*MAY_IMPORT, "paths"}


def test_numpy_is_declared_in_one_place():
    """Otherwise Cython would parse all of NumPy's declarations for each module, and each module would look up all its
    types."""
    declares = re.compile(r"^ *(cimport numpy|from numpy cimport)", re.MULTILINE)
    assert [path.name for path in MODULES if declares.search(path.read_text())] == []


def test_parallel_regions_begin_in_the_gate_to_threads_alone():
    names = re.compile(r"cython\.parallel|\bprange\b|\bomp_\w+|#\s*pragma omp parallel")
    files = [path for suffix in ("*.p[yx]*", "*.c", "*.h") for path in PACKAGE.rglob(suffix) if path.suffix != ".pyc"]
    found = {str(path.relative_to(PACKAGE).as_posix()) for path in files if names.search(path.read_text())}
    assert found == {"core/threads.pyx", "csrc/core/openmp.h", "csrc/core/team.h"}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_says_what_lives_there(room):
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
    assert text
    named = set(re.findall(r"\w+", text))
    assert (
        not {path.stem for path in (PACKAGE / room).glob("*.p*") if path.suffix in {".py", ".pyx"}}
        - named
        - {"__init__"}
    )


def test_the_table_of_paths_has_every_path():
    (table,) = re.findall(
        r"^PATHS = \(\n((?:    \w+,\n)+)\)", (PACKAGE / "gemm" / "plan.pyx").read_text(), re.MULTILINE
    )
    modules = {path.stem for path in (PACKAGE / "gemm" / "paths").glob("*.pyx")}
    assert sorted(re.findall(r"\w+", table)) == sorted(modules | {"blocks"})


def test_no_function_of_the_rooms_is_imported_from_the_package_itself():
    for path in MODULES:
        assert not re.search(r"^\s*import int8blas$", path.read_text(), re.MULTILINE), path
