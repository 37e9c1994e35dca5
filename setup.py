"""Builds the extension modules; everything else about the package is in pyproject.toml.

Environment variables read here:

INT8BLAS_NO_OPENMP=1        build without OpenMP (every call then runs on one thread)
INT8BLAS_DEVELOP=1          warnings in our C are errors, and modules keep the names of their functions
INT8BLAS_SANITIZE=1         AddressSanitizer and UndefinedBehaviorSanitizer (see CONTRIBUTING.md)
INT8BLAS_SANITIZE=thread    ThreadSanitizer, which does not see what OpenMP orders: with INT8BLAS_NO_OPENMP=1
INT8BLAS_COVERAGE=1         count how often each line runs (see docs/trust.md)
INT8BLAS_AVXVNNI_AS_EVEX=1  assemble the avxvnni kernels so that an AVX512-VNNI CPU runs them, to test them there
CYTHON_CACHE_DIR=FOLDER     keep there what Cython makes, for other checkouts
"""

import functools
import gc
import hashlib
import os
import re
import runpy
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

PACKAGE = Path("int8blas")
CSRC = PACKAGE / "csrc"
# Functions that are not bound as Python's are built-in ones: less C, and faster calls. What can be pickled has a
# __reduce__ of its own.
DIRECTIVES = {
    "language_level": 3,
    "cdivision": True,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "binding": False,
    "auto_pickle": False,
}
# Of NumPy's C API what 2.1 has: the oldest that pyproject.toml takes.
MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    ("NPY_TARGET_VERSION", "NPY_2_1_API_VERSION"),
    ("CYTHON_USE_TYPE_SPECS", "1"),
]
# In loops that fill the registers GCC copies sums from one to another, two copies for a multiply-add at worst, on the
# ports that multiply. These keep it from that; other compilers need not know them.
REGISTERS = ["-frename-registers", "-fira-region=all"]
# Two members of a struct that are set one by one and copied as one vector make the copy wait until both are in the
# cache, longer than small products take to set up.
SCALARS = ["-fno-tree-slp-vectorize"]
# A loop of a few instructions takes up to a quarter longer where it lies across two lines of the instruction cache. So
# functions begin a line, and do not change their speed with the code before them; so do short loops of what Cython
# writes, or half a line. The loops of kernels are longer.
LINES = ["-falign-functions=64"]
SHORT_LOOPS = ["-falign-loops=32"]
# How far GCC goes for what Cython writes. With functions in line, what runs in each execution of a layer or a search is
# as fast with -O1 as with -O3, and takes half the time to compile; what checks arguments and sets kernels up is as fast
# with -Og, in a third. Not the paths of gemm, which are a twentieth slower, nor loops over elements.
IN_LINE = ("-finline-functions", "-finline-small-functions", "-findirect-inlining", "-fpartial-inlining")
EXECUTION = ("-O1", *IN_LINE)
SET_UP = ("-Og", *IN_LINE)
LEVELS = {
    "convolution": {
        "depthwise filters groups im2col layer lines window_sums": EXECUTION,
        "convolution deconvolution dynamic_images explain": SET_UP,
    },
    "core": {"arrays split threads": EXECUTION, "machine results verbose": SET_UP},
    "elementwise": {"functions fused gather normalization pooling quantization_factors": SET_UP},
    "gemm": {"saturation": EXECUTION, "explain matmul packing syrk": SET_UP},
    "layers": {
        "dynamic_steps real_attention real_product recurrent": EXECUTION,
        "dynamic_lstm inner_product rnn": SET_UP,
    },
    "neighbors": {"distances in_place nearest search squares": EXECUTION},
    "stage": {"by_range columns output_stage quantized_layer requantization": SET_UP},
}
LEVEL_OF = {
    PACKAGE / room / f"{name}.pyx": level
    for room, levels in LEVELS.items()
    for names, level in levels.items()
    for name in names.split()
}
# The vectors of portable kernels are arrays, which GCC takes apart into numbers with -O3: half as fast. Tiles that
# saturate gain nothing by it but a third of their code.
LESS = ("-O2",)
STRIP = "-Wl,--strip-all"
# What GCC reads once for all files, not a quarter of a second for each kernel, and a twentieth for each module.
INTRINSICS = "#include <immintrin.h>\n"
PYTHON = "#define PY_SSIZE_T_CLEAN\n#include <Python.h>\n#include <structmember.h>\n#include <frameobject.h>\n"
INCLUDE = re.compile(r'^ *# *include "(.+)"', re.MULTILINE)
PROBE = "int probe(void) { return 0; }"
OPENMP_PROBE = """
#include <omp.h>
int probe(void) { int n = 0;
#pragma omp parallel reduction(+ : n)
n += omp_get_max_threads() > 0;
return n == 0; }
"""


def flag(name):
    """Whether an environment variable is set to something other than 0."""
    return os.environ.get(name, "0") not in ("", "0")


def sanitizers():
    """GCC's arguments for what INT8BLAS_SANITIZE asks for.

    The kernels are long without a branch, and compilers take minutes for a check in line at every access: so the checks
    are calls, and those that AddressSanitizer makes too are left out. Python's own flags have -fwrapv, which would
    switch the check of signed overflow off.
    """
    if os.environ["INT8BLAS_SANITIZE"] == "thread":
        return ["-fsanitize=thread"]
    undefined = ["-fsanitize=address,undefined", "-fno-sanitize=null,object-size", "-fno-sanitize-recover=undefined"]
    return [*undefined, "-fno-wrapv", "--param", "asan-instrumentation-with-call-threshold=0"]


def extension(path):
    """The extension module of a .pyx file."""
    return Extension(
        ".".join(path.with_suffix("").parts),
        [str(path), *map(str, LINKED.get(path, []))],
        include_dirs=[str(CSRC), np.get_include()],
        define_macros=MACROS,
    )


# One module alone links the kernels: tables and the selected one exist once in the process, and the other modules
# reach them by cimport.
MEMORY = CSRC / "core/memory.c"
LINKED = {
    PACKAGE / "core/memory.pyx": [MEMORY],
    PACKAGE / "core/kernels.pyx": sorted(set(CSRC.glob("*/*.c")) - {MEMORY}),
}
EXTENSIONS = [extension(path) for path in sorted(PACKAGE.rglob("*.pyx"))]


@functools.cache
def headers(path):
    """The headers of ours that a file of C includes, and that these include."""
    named = (CSRC / name for name in INCLUDE.findall(path.read_text()))
    found = {header for header in named if header.exists()}
    return found.union(*map(headers, found))


@functools.cache
def includes_intrinsics(path):
    """Whether a header of ours that a file of C includes includes the intrinsics of x86."""
    return any(INTRINSICS in header.read_text() for header in headers(path))


@functools.cache
def digest_of(path):
    """What tells a file's content from any other, but for Cython's notes on top, which have NumPy's folder."""
    return hashlib.sha256(path.read_bytes().rpartition(b"END: Cython Metadata */")[2]).hexdigest()


def make(path, made_of, write):
    """Call `write` to write a file, unless it is there and made of the same, which a note beside it has."""
    note = path.with_suffix(".txt")
    if not (path.exists() and note.exists() and note.read_text() == repr(made_of)):
        note.unlink(missing_ok=True)
        write()
        note.write_text(repr(made_of))


class Objects:
    """A compiler's `compile` that works side by side, and only where an object is not made of the same already."""

    def __init__(self, compiler, pool, arguments_for):
        self.compiler, self.compile = compiler, compiler.compile
        self.pool, self.arguments_for = pool, arguments_for

    def __call__(self, sources, **options):
        return list(self.pool.map(lambda source: self.object(Path(source), **options), sources))

    def object(self, source, output_dir, extra_postargs=(), depends=(), **options):
        """The object of one source."""
        arguments = [*extra_postargs, *self.arguments_for(source)]
        (path,) = self.compiler.object_filenames([str(source)], output_dir=output_dir)
        # pip has NumPy in another folder each time.
        others = {name: value for name, value in options.items() if name != "include_dirs"}
        files = [digest_of(file) for file in (source, *sorted(headers(source)))]
        made_of = (files, arguments, others, np.__version__, vars(self.compiler)["compiler_so"])
        write = functools.partial(self.compile, [str(source)], output_dir=output_dir, extra_postargs=arguments)
        make(Path(path), made_of, functools.partial(write, **options))
        return path


class BuildPy(build_py):
    """build_py that writes a checkout's commit into a wheel."""

    def run(self):
        super().run()
        if not self.editable_mode and (commit := runpy.run_path(str(PACKAGE / "_version.py"))["describe"](Path.cwd())):
            Path(self.build_lib, "int8blas", "_commit.txt").write_text(commit + "\n")


class BuildExt(build_ext):
    """build_ext with the compiler's own flags, and OpenMP where it compiles and links."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()
        if self.editable_mode:
            # Objects stay for the next time, as they do without pip.
            self.build_temp = str(Path("build", f"temp.{self.plat_name}-{sys.implementation.cache_tag}"))

    def build_extensions(self):
        msvc = self.compiler.compiler_type == "msvc"
        compile_args, link_args = self.openmp_flags(msvc)
        if msvc:
            compile_args += ["/O2", "/std:c11", "/fp:precise"]
        else:
            # -fno-math-errno and -fno-trapping-math change no result; they let rint() become one instruction.
            compile_args += ["-std=c11", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno"]
            compile_args += ["-fno-trapping-math"]
            if flag("INT8BLAS_COVERAGE"):
                compile_args += ["-O1", "-g0", "--coverage"]
                link_args += ["--coverage"]
            elif not flag("INT8BLAS_SANITIZE"):
                compile_args += ["-O3", "-g0"]  # Python's own flags ask for debug information, four fifths of a wheel
        if flag("INT8BLAS_AVXVNNI_AS_EVEX"):
            compile_args.append("-DI8_AVXVNNI_AS_EVEX")
        if flag("INT8BLAS_SANITIZE"):
            compile_args += ["-O1", "-g1", "-fno-var-tracking", "-fno-omit-frame-pointer", *sanitizers()]
            link_args += sanitizers()
        if not any([msvc, *map(flag, ("INT8BLAS_DEVELOP", "INT8BLAS_SANITIZE", "INT8BLAS_COVERAGE"))]):
            # Names that nothing links to are a twentieth of a wheel.
            link_args += [STRIP] if self.links(PROBE, [], [STRIP]) else []
        for ext in self.extensions:
            ext.extra_compile_args = list(compile_args)
            ext.extra_link_args = list(link_args)
        own_args, cython_args = self.known(LINES + REGISTERS), self.known(LINES + SHORT_LOOPS + SCALARS)
        known = {level: self.known(level) for level in (EXECUTION, SET_UP, LESS)}
        if flag("INT8BLAS_DEVELOP") and not msvc:
            own_args += ["-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Werror"]

        intrinsics = self.precompiled("intrinsics.h", INTRINSICS, compile_args + own_args)
        python = self.precompiled("python.h", PYTHON, compile_args + cython_args)

        def arguments_for(source):
            """The compiler's arguments beyond those of all, for one file of C."""
            if CSRC in source.parents:
                level = LESS if source.stem.endswith("_ref") or source.stem.startswith("saturating_") else None
                return own_args + (intrinsics if includes_intrinsics(source) else []) + known.get(level, [])
            level = LEVEL_OF.get(source.relative_to("build").with_suffix(".pyx"))
            return cython_args + python + known.get(level, [])

        for ext in self.extensions:
            # This file too: the arguments may be others. Then `Objects` looks which objects they are for.
            used = {str(header) for source in ext.sources for header in headers(Path(source))}
            ext.depends = ["setup.py", *sorted(used)]
        with ThreadPoolExecutor(self.parallel) as pool:
            self.compiler.compile = Objects(self.compiler, pool, arguments_for)
            super().build_extensions()

    def openmp_flags(self, msvc):
        """(compile, link) flags that turn OpenMP on, empty lists if it is switched off or does not work."""
        if flag("INT8BLAS_NO_OPENMP"):
            return [], []
        if msvc:
            candidates = [(["/openmp"], [])]
        elif sys.platform == "darwin":
            candidates = [(["-fopenmp"], ["-fopenmp"]), (["-Xpreprocessor", "-fopenmp"], ["-lomp"])]
        else:
            candidates = [(["-fopenmp"], ["-fopenmp"])]
        for compile_args, link_args in candidates:
            if self.links(OPENMP_PROBE, compile_args, link_args):
                return list(compile_args), list(link_args)
        warnings.warn("OpenMP does not compile and link here: int8blas is built for one thread", stacklevel=2)
        return [], []

    def known(self, arguments):
        """Those of GCC's arguments that the compiler knows."""
        if self.compiler.compiler_type == "msvc":  # which ignores what it does not know
            return []
        if self.links(PROBE, ["-Werror", *arguments], []):
            return list(arguments)
        return [argument for argument in arguments if self.links(PROBE, ["-Werror", argument], [])]

    def precompiled(self, name, text, arguments):
        """Arguments that include a header that the compiler reads here and now; none where it can not."""
        if self.compiler.compiler_type == "msvc":
            return []
        folder = Path(self.build_temp, "precompiled").absolute()
        header, made = folder / name, folder / f"{name}.gch"
        compiler = [*vars(self.compiler)["compiler_so"], *arguments, *(f"-I{path}" for path in self.include_dirs)]
        command = [*compiler, "-x", "c-header", str(header), "-o", str(made)]
        use = ["-include", str(header), "-fpch-preprocess"]
        folder.mkdir(parents=True, exist_ok=True)
        header.write_text(text)
        try:
            read = functools.partial(subprocess.run, command, check=True, capture_output=True)
            make(made, (command, text, sys.version), read)
        except (OSError, subprocess.CalledProcessError):
            return []
        if self.links(PROBE, [*arguments, "-Werror", "-Winvalid-pch", *use], []):
            return use
        made.unlink(missing_ok=True)  # a later version of the compiler takes none of an earlier one
        return []

    def links(self, source, compile_args, link_args):
        """Whether C source compiles and links with the given flags, as a module does: LDFLAGS is for those alone."""
        with tempfile.TemporaryDirectory() as tmp:
            path = Path(tmp) / "probe.c"
            path.write_text(source)
            try:
                objects = self.compiler.compile([str(path)], output_dir=tmp, extra_postargs=compile_args)
                self.compiler.link_shared_object(objects, str(Path(tmp) / "probe"), extra_postargs=link_args)
            except Exception:  # distutils' errors have no common base class that setuptools exports
                return False
        return True


if __name__ == "__main__":  # where processes are not forked, Cython's import this file
    gc.disable()  # Cython's trees are full of references: looking for cycles takes a third of it and frees a third
    setup(
        ext_modules=cythonize(
            EXTENSIONS,
            # Lines of .pyx files as comments are a fifth of the C, and what coverage knows lines by.
            compiler_directives=DIRECTIVES | {"emit_code_comments": flag("INT8BLAS_COVERAGE")},
            force=flag("INT8BLAS_COVERAGE"),
            cache=os.environ.get("CYTHON_CACHE_DIR", False),
            build_dir="build",
            nthreads=os.cpu_count() or 1,
        ),
        cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    )
