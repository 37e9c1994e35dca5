"""Tests of ONNX files need the package onnx, which the extra "test" installs."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("onnx") else ["test_*.py"]
