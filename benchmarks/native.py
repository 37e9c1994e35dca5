"""Small C files of the benchmark, compiled when they are needed."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent


class BuildError(RuntimeError):
    """The C file could not be built. The message is one line."""


def compiler() -> list[str]:
    """Return the command in the environment variable CC, or the first of cc, gcc, clang."""
    for candidate in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            return command
    raise BuildError("no C compiler found (set CC)")


def build(source: str, *flags: str) -> ctypes.CDLL:
    """Compile benchmarks/`source` into a shared library in a temporary directory and load it."""
    command = [*compiler(), "-O3", "-fPIC", "-shared", "-Wall", "-Wextra", str(DIRECTORY / source)]
    # A loaded library stays usable after its file is gone, except on Windows, where the directory is left behind.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        library = Path(directory) / f"{Path(source).stem}.so"
        done = subprocess.run([*command, *flags, "-o", str(library)], capture_output=True, text=True)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line.lower()), "the compiler failed")
            raise BuildError(f"{source}: {first.strip()}")
        return ctypes.CDLL(str(library))
