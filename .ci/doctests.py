"""Run the examples in the docstrings of all modules of int8blas, including compiled modules, which pytest skips."""

import doctest
import importlib
import pkgutil
import sys
from importlib.util import find_spec

import int8blas


def main():
    """Return the exit status: 0 if there are examples and all of them pass."""
    failed = attempted = 0
    for info in pkgutil.walk_packages(int8blas.__path__, "int8blas."):
        if ".peers." in info.name:
            continue  # other libraries' packages
        if info.name.startswith("int8blas.onnx") and not find_spec("onnx"):
            continue  # its examples read files, for which the extra "onnx" is needed
        if info.name.startswith("int8blas.torch") and not find_spec("torch"):
            continue  # its modules need the extra "torch"
        if info.name.startswith("int8blas.sklearn") and not find_spec("sklearn"):
            continue  # its modules need the extra "sklearn"
        module = importlib.import_module(info.name)
        vars(module).pop("__test__", None)  # Cython's list of examples, which the docstrings have anyway
        results = doctest.testmod(module)
        failed += results.failed
        attempted += results.attempted
    print(f"{attempted} examples in docstrings, {failed} failed")
    return 1 if failed or not attempted else 0


if __name__ == "__main__":
    sys.exit(main())
