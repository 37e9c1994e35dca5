"""Build the extension modules; pyproject.toml has everything else, and CONTRIBUTING.md the environment variables."""

import gc
import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from Cython.Compiler.Code import UtilityCode
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

PACKAGE = Path("int8blas")
CSRC = PACKAGE / "csrc"
CACHE = Path(os.environ.get("INT8BLAS_CACHE", "build")).absolute()
FLAGS = os.environ.get("INT8BLAS_FLAGS", "").split()
NO_OPENMP, DEVELOP = (os.environ.get(f"INT8BLAS_{name}", "0") not in ("", "0") for name in ("NO_OPENMP", "DEVELOP"))
# Functions without Python's binding need less C and are called faster. Every class that pickles has a __reduce__.
# Coverage finds the lines of .pyx files by comments, which are a fifth of the C.
DIRECTIVES = {
    "language_level": 3,
    "cdivision": True,
    "binding": False,
    "auto_pickle": False,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "emit_code_comments": "--coverage" in FLAGS,
}
# If a list comprehension of Cython 3.3 cannot grow its list, it releases the new item twice. Other versions may lack
# this function.
with suppress(KeyError):
    APPEND = UtilityCode.load_cached("ListCompAppendAndDecref", "Optimize.c")
    APPEND.impl = APPEND.impl.replace("Py_DECREF(x);", "if (result == 0) Py_DECREF(x);")
# NumPy's C API as of version 2.1, the oldest that pyproject.toml accepts.
MACROS = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_2_1_API_VERSION")]
MACROS += [("CYTHON_USE_TYPE_SPECS", "1")]
# GCC precompiles these headers once, which saves a quarter of a second for each kernel.
INTRINSICS = "#include <immintrin.h>\n"
PYTHON = "#define PY_SSIZE_T_CLEAN\n#include <Python.h>\n#include <structmember.h>\n#include <frameobject.h>\n"

MSVC = ["/O2", "/std:c11", "/fp:precise"]
# -fno-math-errno and -fno-trapping-math change no result; they let rint() become one instruction. -g0 overrides
# Python's own -g: debug information would be four fifths of a wheel.
GCC = ["-std=c11", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
GCC += FLAGS or ["-O3", "-g0"]
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Werror"]
# Functions begin at a cache line, so that the speed of a loop does not depend on the code before it. In loops that use
# every register GCC copies sums between registers, up to two copies a multiply-add; the next two arguments prevent it.
KERNELS = ["-falign-functions=64", "-frename-registers", "-fira-region=all"]
# Short loops are up to a quarter slower across a cache line. SLP vectorization copies a struct as vectors right after
# its members were stored one by one; such a load waits for the stores.
MODULES = ["-falign-functions=64", "-falign-loops=32", "-fno-tree-slp-vectorize"]
# On x86, GCC fills and copies structs by instructions that take up to 10 ns to start. Loops over vectors shorten a
# product of 4 x 4 x 4 from 238 to 229 ns (Emerald Rapids).
MODULES += [f"-m{name}-strategy=vector_loop:512:noalign,libcall:-1:noalign" for name in ("memset", "memcpy")]
# Only debuggers and profilers unwind stacks through a module. The unwind tables are 3 % of a wheel.
LEAN = ["-fno-asynchronous-unwind-tables"] if not FLAGS else []
INLINE = ["-finline-functions", "-finline-small-functions", "-findirect-inlining", "-fpartial-inlining"]
LEVELS = {  # the first matching pattern applies
    # Loops over floats become vectors as with -O3, which makes these modules 6 % (elements) and 16 % (pool) larger.
    # cached_attention, which rotates heads itself, is a third smaller than with -O3. real_product is 5 % smaller than
    # with -O1 and inlining.
    "elementwise/(elements|epilogue|pool|top)[.]|layers/(cached_attention|real_(convolution|product))": [
        "-O2",
        "-fvect-cost-model=dynamic",
    ],
    # Modules that no small product enters are a quarter smaller with -Os. A call of max_pool, avg_pool or hamming with
    # 4 x 4 elements takes 1.01 to 1.04 times as long (Zen 4), and a small im2col, a Deconvolution or the creation of a
    # layer that requantizes in integers 1.02 to 1.05 times, and would_saturate 1.13 to 1.29 times (Zen 5). Grouped
    # convolutions with 4 x 4 elements take 1.01 to 1.03 times as long as with -O1, products with 4 bits 1.04 times and
    # small LSTMs 0.93 to 1.04 times (Emerald Rapids). Calls of convolution/layer, layers/inner_product, gemm/integers,
    # neighbors/nearest and elementwise/functions would take 1.04 to 1.26 times as long.
    "convolution/(deconvolution|explain|far_zeros|groups|im2col|views)|core/(machine|results|verbose)|"
    "elementwise/pooling|gemm/(blas16|explain|four_bits|packed|saturation|sixteen_bits)|"
    "layers/(dynamic_lstm|dynamic_steps|recurrent|rnn)|neighbors/hamming|"
    "stage/(output_stage|requantization)": ["-Os"],
    # Modules that mostly call kernels are as fast with -O1 as with -O3, and compile in half the time. The paths of gemm
    # would lose 5 %, and loops over elements more.
    "convolution/(depthwise|filters|layer|lines|window_sums)|core/(arrays|split|threads)|"
    "layers/(real_attention|real_steps)|neighbors/(distances|in_place|nearest|squares)": ["-O1", *INLINE],
    # Modules that mostly check arguments are up to a fifth smaller with -O2 than with -Og, and a call with 4 x 4
    # elements is 1.03 to 1.3 (matmul) times as fast (Zen 5).
    "convolution/|gemm/(integers|matmul|packing|syrk)|layers/|stage/|"
    "elementwise/(functions|fused|gather|normalization|quantization_factors)": ["-O2"],
    # GCC's -O3 splits the arrays that serve as vectors in portable kernels into scalars, and doubles the size of
    # saturating tiles without making them faster.
    "objects/(.*[-_]ref$|saturating-)": ["-O2"],
}
# Arguments for compiler and linker.
OPENMP = [(["-fopenmp"], ["-fopenmp"])]
OPENMP += [(["-Xpreprocessor", "-fopenmp"], ["-lomp"])] if sys.platform == "darwin" else []


def digest(*parts):
    """Return a short name for the content of `parts`."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


@cache
def text_of(path):
    """Return a source without the note at its top, because Cython writes the path of NumPy's folder there."""
    return path.read_text().rpartition("END: Cython Metadata */")[2]


def headers(source, unit):
    """Return the headers of ours that a C file includes, directly or not, when it is compiled for a unit."""
    found, new = set(), {source}
    while new:
        text = "".join(map(text_of, new)).replace("I8_PASTE(vectors, I8_SET)", f"vectors_{unit}")
        names = re.findall(r'^ *# *include (?:"|I8_STRING\()([^")]+)', text.replace("I8_SET", str(unit)), re.MULTILINE)
        new = {CSRC / name for name in names if (CSRC / name).exists()} - found
        found |= new
    return sorted(found)


def units(source):
    """Return the instruction sets or vector widths that a C file is compiled for, or [None]."""
    if kind := re.search(r'#include "isa/(set|width)\.h"', text_of(source)):
        kind = kind[1].upper()
        return sorted(set(re.findall(rf"\b{kind}\((\w+)\)", text_of(CSRC / "isa/list.h"))) - {kind})
    return [None]


def keep(folder, name, write):
    """Return the path of `name` in a folder of the cache; write(folder) writes it unless the folder is there."""
    folder = CACHE / folder
    if not folder.exists():
        # Counts of coverage go to the folder in which the compiler wrote an object.
        new = folder if "--coverage" in FLAGS else folder.with_name(f"{folder.name}.{os.getpid()}")
        new.mkdir(parents=True)
        write(new)
        try:
            new.rename(folder)
        except OSError:
            if not folder.exists():  # otherwise another build has written the same
                raise
            shutil.rmtree(new)
    return folder / name


class BuildPy(build_py):
    """build_py that writes a checkout's commit into a wheel."""

    def run(self):
        super().run()
        if not self.editable_mode and (commit := runpy.run_path(str(PACKAGE / "_version.py"))["describe"](Path.cwd())):
            Path(self.build_lib, "int8blas", "_commit.txt").write_text(commit + "\n")


class BuildExt(build_ext):
    """Compile the files whose content, headers or arguments are new, on all cores, and link them."""

    def build_extensions(self):
        self.msvc = self.compiler.compiler_type == "msvc"
        self.command = [] if self.msvc else list(vars(self.compiler)["compiler_so"])
        self.key = (self.command, vars(self.compiler).get("linker_so"), np.__version__, sys.version)
        openmp, link_openmp = self.openmp()
        common = openmp + (MSVC if self.msvc else GCC) + self.accepted(LEAN)
        self.kernels, self.modules = common + self.accepted(KERNELS), common + self.accepted(MODULES)
        self.kernels += STRICT if DEVELOP and not self.msvc else []
        self.levels = {pattern: self.accepted(arguments) for pattern, arguments in LEVELS.items() if not FLAGS}
        # Nothing links to the symbols of the modules, which are a twentieth of a wheel.
        self.link_args = link_openmp + (FLAGS or self.accepted([] if DEVELOP else ["-Wl,--strip-all"]))
        self.first = {
            INTRINSICS: self.precompile(INTRINSICS, self.kernels),
            PYTHON: self.precompile(PYTHON, self.modules),
        }
        sources = [(ext, Path(source)) for ext in self.extensions for source in ext.sources]
        jobs = [(ext, source, unit) for ext, source in sources for unit in units(source)]
        jobs.sort(key=lambda job: CSRC not in job[1].parents)  # kernels take longest
        with ThreadPoolExecutor(self.parallel or os.cpu_count()) as pool:
            made = list(pool.map(self.object, *zip(*jobs, strict=True)))
            objects = [[path for path, job in zip(made, jobs, strict=True) if job[0] is ext] for ext in self.extensions]
            list(pool.map(self.link, self.extensions, objects))

    def object(self, ext, source, unit):
        """Return the object of a C file for a unit."""
        used = headers(source, unit)
        ours = CSRC in source.parents
        name = f"{source.stem}-{unit}" if unit else source.stem
        where = f"objects/{name}" if ours else source.relative_to("build/int8blas").as_posix()
        level = next((level for pattern, level in self.levels.items() if re.match(pattern, where)), [])
        # The precompiled intrinsics have the level of their compilation, and their pragmas restore this level.
        has_intrinsics = ours and not level and any(INTRINSICS in text_of(path) for path in used)
        first = PYTHON if not ours else INTRINSICS if has_intrinsics else None
        arguments = (self.kernels if ours else self.modules) + level
        macros = ext.define_macros + ([("I8_SET", unit)] if unit else [])
        versions = self.command if ours else self.key  # kernels know neither Python nor NumPy
        key = digest([text_of(path) for path in (source, *used)], arguments, first, macros, versions)

        def write(folder):
            options = {"macros": macros, "include_dirs": ext.include_dirs}
            self.compiler.compile(
                [str(source)], str(folder), **options, extra_postargs=arguments + self.first.get(first, [])
            )

        return str(keep(f"objects/{name}-{key}", self.compiler.object_filenames([str(source)])[0], write))

    def link(self, ext, objects):
        """Link a module from its objects, and copy it to where setuptools expects it."""
        path = Path(self.get_ext_fullpath(ext.name))

        def write(folder):
            options = {"library_dirs": self.library_dirs, "export_symbols": self.get_export_symbols(ext)}
            options |= {"libraries": self.get_libraries(ext), "build_temp": str(folder)}
            self.compiler.link_shared_object(objects, str(folder / path.name), extra_postargs=self.link_args, **options)

        key = digest([os.path.relpath(name, CACHE) for name in objects], self.link_args, self.key)
        module = keep(f"modules/{ext.name}-{key}", path.name, write)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a process may have mapped the old file
        shutil.copy(module, path)

    def openmp(self):
        """Return (compile, link) arguments that turn OpenMP on; empty lists if it is off or does not work."""
        if NO_OPENMP:
            return [], []
        for pair in OPENMP if not self.msvc else [(["/openmp"], [])]:
            if self.links(*pair, "#include <omp.h>\nint probe(void) { return omp_get_max_threads(); }"):
                return pair
        warnings.warn("OpenMP does not compile and link here: int8blas is built for one thread", stacklevel=2)
        return [], []

    def accepted(self, arguments):
        """Return the GCC arguments that the compiler accepts."""
        if self.msvc:  # MSVC ignores unknown arguments
            return []
        if self.links(arguments, arguments):
            return arguments
        return [argument for argument in arguments if self.links([argument], [argument])]

    def links(self, compile_args, link_args, source="int probe(void) { return 0; }"):
        """Return whether C source compiles and links as a module does."""
        strict = [] if self.msvc else ["-Werror"]
        with tempfile.TemporaryDirectory() as tmp:
            path = Path(tmp, "probe.c")
            path.write_text(source)
            try:
                objects = self.compiler.compile([str(path)], tmp, extra_postargs=strict + compile_args)
                self.compiler.link_shared_object(objects, str(Path(tmp, "probe")), extra_postargs=link_args)
            except Exception:  # distutils' errors have no common base class that setuptools exports
                return False
        return True

    def precompile(self, text, arguments):
        """Return arguments that include a header of this text, precompiled where the compiler can do that."""

        def write(folder):
            (folder / "first.h").write_text(text)
            command = [*self.command, *arguments, *(f"-I{path}" for path in self.include_dirs), "-x", "c-header"]
            if not self.msvc:
                subprocess.run([*command, "first.h", "-o", "first.h.gch"], cwd=folder, check=False, capture_output=True)

        header = keep(f"headers/{digest(text, arguments, self.key)}", "first.h", write)
        return ["-include", str(header)] if header.with_name("first.h.gch").exists() else []


# One module links the kernels, so that their tables and the selected one exist once in the process; the other modules
# reach them by cimport.
MEMORY = CSRC / "core/memory.c"
LINKED = {"core/memory.pyx": [MEMORY], "core/kernels.pyx": sorted(set(CSRC.glob("*/*.c")) - {MEMORY})}


def extension(path):
    """Return the extension of a .pyx file."""
    sources = [path, *LINKED.get(path.relative_to(PACKAGE).as_posix(), [])]
    name = ".".join(path.with_suffix("").parts)
    return Extension(name, list(map(str, sources)), include_dirs=[str(CSRC), np.get_include()], define_macros=MACROS)


if __name__ == "__main__":  # without fork, Cython's processes import this file
    gc.disable()  # collecting Cython's trees would take a third of the time and free a third of the memory
    options = {"force": "--coverage" in FLAGS, "build_dir": "build", "nthreads": os.cpu_count() or 1}
    options["cache"] = str(CACHE / "translations") if "INT8BLAS_CACHE" in os.environ else False
    modules = cythonize([*map(extension, sorted(PACKAGE.rglob("*.pyx")))], compiler_directives=DIRECTIVES, **options)
    setup(ext_modules=modules, cmdclass={"build_ext": BuildExt, "build_py": BuildPy})
