"""Build nearest.c in place: python setup.py build_ext --inplace."""

from setuptools import Extension, setup

import int8blas

setup(name="nearest", ext_modules=[Extension("nearest", ["nearest.c"], include_dirs=[int8blas.get_include()])])
