"""The file of digests. Each line has the SHA-256 of a problem's result, and the problem's name."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from int8blas._golden import functions, layers, networks, products
from int8blas._golden.cases import CASES, Problem, Result
from int8blas.core.kernels import use_isa
from int8blas.core.threads import num_threads

FILE = Path(__file__).with_name("digests.txt")
# The modules with problems. Importing a module adds its problems to the table.
MODULES = (products, layers, functions, networks)


def read(path: Path = FILE) -> dict[str, str]:
    """Return the digest of each problem by its name, in the order of the file."""
    lines = [line for line in path.read_text("ascii").splitlines() if line and not line.startswith("#")]
    return {name: bits for bits, name in (line.split(" ", 1) for line in lines)}


def whole(digests: Mapping[str, str]) -> str:
    """Return one digest of all names and digests, in their order."""
    return hashlib.sha256("".join(f"{bits} {name}\n" for name, bits in digests.items()).encode()).hexdigest()


def digest(result: Result) -> str:
    """Return the SHA-256 of arrays with their types and shapes. All NaN count as one value, and bytes are
    little-endian."""
    found = hashlib.sha256()
    for value in result if isinstance(result, (list, tuple)) else [result]:
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
        found.update(f"{array.dtype.name} {array.shape} ".encode())
        found.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return found.hexdigest()


def compute(problem: Problem, isa: str, threads: int) -> str:
    """Return the digest of a problem's result on an instruction set, with at most `threads` threads."""
    with use_isa(isa), num_threads(threads), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # some problems test results that saturate
        return digest(problem())


def differences(
    digests: Mapping[str, str], isa: str, threads: int, problems: Mapping[str, Problem] = CASES
) -> Iterator[str]:
    """Yield a line for each problem whose digest differs from the digest in the file."""
    for name, wanted in digests.items():
        if name not in problems:
            yield f"{name}: no such problem"
        elif (found := compute(problems[name], isa, threads)) != wanted:
            yield f"{name}: on {isa} with at most {threads} threads {found}, not {wanted}"
    for name in problems.keys() - digests.keys():
        yield f"{name}: has no digest"
