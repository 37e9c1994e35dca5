"""Add the digests of new problems to the file: ``python -m int8blas._golden.add``.

The program never changes or removes a digest of the file. If a result differs from its digest, or if a problem no
longer exists, the program writes nothing. A new result must have the same bits on every instruction set of this CPU,
with one thread and with two threads.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from int8blas._golden.cases import CASES, Problem
from int8blas._golden.digests import FILE, compute, differences, read
from int8blas._version import __version__
from int8blas.core.kernels import available_isas

THREADS = (1, 2)


def add(path: Path = FILE, problems: Mapping[str, Problem] = CASES) -> list[str]:
    """Add the missing digests to a file. Return the reasons why nothing was written, if there are any."""
    old = read(path)
    known = {name: problem for name, problem in problems.items() if name in old}
    new: dict[str, str] = {}
    wrong: list[str] = []
    for isa, threads in product(available_isas(), THREADS):
        wrong += differences(old, isa, threads, known)
        for name in problems.keys() - known.keys():
            found = compute(problems[name], isa, threads)
            if new.setdefault(name, found) != found:
                wrong.append(f"{name}: on {isa} with at most {threads} threads {found}, not {new[name]}")
    if new and not wrong:
        with path.open("a", encoding="ascii", newline="\n") as file:
            file.write(f"# int8blas {__version__}\n")
            file.writelines(f"{new[name]} {name}\n" for name in problems if name in new)
    return wrong


def main() -> int:
    """Return the exit status: 0, or 1 if nothing was written because a result differs."""
    before = len(read())
    wrong = add()
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    print(f"{before} digests are as they were, {len(read()) - before} are new")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
