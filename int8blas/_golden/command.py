"""``python -m int8blas check``: compute all golden problems, and compare their bits with the file."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from int8blas._version import __version__
from int8blas.core.config import cpu_name
from int8blas.core.kernels import available_isas
from int8blas.core.threads import num_threads

SUMMARY = "check that this machine gives the golden bits"
DESCRIPTION = (
    "Compute small problems of every primitive, on each instruction set of this CPU, with one thread and "
    "with all, and compare the SHA-256 of each result with the SHA-256 that every machine and every release must give. "
    "The exit status is 1 if a result differs."
)


def thread_count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"must be an integer from 1 to 1024, got {text!r}")
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--isa", action="append", choices=available_isas(), help="this one, or these, not all")
    parser.add_argument("--threads", metavar="N", type=thread_count, action="append",
                        help="at most N, or each of several numbers, not one and all")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="print the digest of each problem, and compute nothing")


def main(options: argparse.Namespace) -> int:
    """Return the exit status: 0, or 1 if a result differs."""
    # Import the problems only here, because the import takes as long as all other work of the command line.
    digests = import_module("int8blas._golden.digests")
    golden = digests.read()
    if options.list:
        for name, bits in golden.items():
            print(bits, name)
        print(digests.whole(golden), "all")
        return 0
    isas = options.isa or available_isas()
    counts = options.threads or sorted({1, num_threads()})
    failed = 0
    for isa in isas:
        for threads in counts:
            for difference in digests.differences(golden, isa, threads):
                print(difference, file=sys.stderr)
                failed += 1
    where = f"int8blas {__version__} on {cpu_name()}"
    how = f"{', '.join(isas)}; threads {', '.join(map(str, counts))}"
    if failed:
        print(f"{where}: FAILED: {failed} results of {len(golden)} problems differ ({how})")
        return 1
    print(f"{where}: {len(golden)} problems have the golden bits ({how}): sha256 {digests.whole(golden)}")
    return 0
