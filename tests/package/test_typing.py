"""The stubs, checked with mypy."""

import os
import pathlib
import subprocess
import sys

import pytest

import int8blas

EXAMPLES = pathlib.Path(__file__).parents[1] / "typing_examples.py"
PLACE = pathlib.Path(int8blas.__file__).parents[1]


def test_mypy_agrees_with_the_examples(tmp_path):
    pytest.importorskip("mypy")
    installed = PLACE.name == "site-packages"  # without a path mypy looks only here
    # In a checkout mypy also checks the modules of the package, for which pyproject.toml has rules.
    config = "" if installed else PLACE / "pyproject.toml"
    cache = tmp_path / "cache"
    mypy = [sys.executable, "-m", "mypy", "--strict", f"--config-file={config}", f"--cache-dir={cache}", EXAMPLES]
    environment = {**os.environ, "MYPYPATH": "" if installed else str(PLACE)}
    result = subprocess.run(mypy, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
