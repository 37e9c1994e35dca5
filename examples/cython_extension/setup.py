"""Build grouped.pyx in place: python setup.py build_ext --inplace."""

import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

import int8blas

OPENMP = ["-fopenmp"] if sys.platform == "linux" else []  # elsewhere flags differ; without any, prange is a serial loop

setup(
    name="grouped",
    ext_modules=cythonize(
        Extension("grouped", ["grouped.pyx"], extra_compile_args=OPENMP, extra_link_args=OPENMP),
        include_path=[str(Path(int8blas.__file__).parents[1])],  # Cython does not find editable installs by itself
    ),
)
