"""The stubs, as a type checker understands them."""

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
    installed = PLACE.name == "site-packages"  # where mypy looks by itself, and nowhere else
    # Of a checkout mypy also checks the package's own modules, which pyproject.toml has rules for.
    config = "" if installed else PLACE / "pyproject.toml"
    cache = tmp_path / "cache"
    mypy = [sys.executable, "-m", "mypy", "--strict", f"--config-file={config}", f"--cache-dir={cache}", EXAMPLES]
    environment = {**os.environ, "MYPYPATH": "" if installed else str(PLACE)}
    result = subprocess.run(mypy, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
