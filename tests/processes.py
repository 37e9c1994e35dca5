"""Python in a process of its own, for what can be seen, or crash, only there."""

import os
import subprocess
import sys


def run_python(*arguments, **environment):
    """The exit status, output and error output of Python with these arguments and no settings of int8blas but these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("INT8BLAS_")}
    return subprocess.run(
        [sys.executable, *arguments],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
