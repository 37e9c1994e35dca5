"""python -m tests.fuzz: random problems for every public function, in the root of a checkout."""

import argparse
import os
import secrets
import sys
import time
from pathlib import Path

# Set before the libraries are loaded: one thread for oracles; waiting threads leave their core to others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("INT8BLAS_OVERSUBSCRIBE", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import int8blas

from . import FAMILIES, family
from .campaign import Setting, decisions_of, drawn, ran, shrunk
from .draws import Draws
from .snippet import snippet

SLICE_S = 2.0  # time for a family before the next one


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all families together (1)")
    parser.add_argument("--count", type=int, help="instead of --minutes: problems of each family")
    parser.add_argument("--seed", type=int, help="of the problems (a new one, which is printed)")
    parser.add_argument("--first", type=int, default=0, help="number of the first problem (0)")
    parser.add_argument("--family", default=",".join(FAMILIES), help="some of " + ", ".join(FAMILIES))
    parser.add_argument("--isa", default="", help="some of " + ", ".join(int8blas.available_isas()))
    return parser.parse_args(arguments)


def fuzz(setting, names, first, seconds, count):
    """Return the reports by family; stop at the first problem that fails."""
    total = {name: [first, 0.0] for name in names}
    for name in names:
        family(name)  # imported once, not by each process
    end = time.perf_counter() + seconds
    while True:
        for name, (number, spent) in total.items():
            left = first + count - number
            until = min(SLICE_S if len(names) > 1 else 60.0, end - time.perf_counter())
            if left <= 0 or until <= 0:
                continue
            report = ran(setting, name, number, left, until)
            total[name] = [number + report.count, spent + report.seconds]
            if report.failed is not None:
                return total, name, report
        if time.perf_counter() >= end or all(number >= first + count for number, _ in total.values()):
            return total, None, None


def tell(setting, name, report):
    """Print a failing problem: the error, and the smallest program that shows it."""
    print(f"\n{name}: problem {report.failed} of seed {setting.seed} fails; again by\n"
          f"  python -m tests.fuzz --family {name} --seed {setting.seed} --first {report.failed} --count 1\n"
          f"{report.error}\n# The same, made smaller:", flush=True)  # fmt: skip
    decisions = shrunk(setting, name, decisions_of(setting, name, report.failed))
    print(snippet(name, *drawn(setting, name, Draws(setting.pools, decisions=decisions))))


def main(arguments=None):
    options = parsed(arguments)
    names = options.family.split(",")
    unknown = set(names) - set(FAMILIES)
    if unknown:
        sys.exit(f"--family must be some of {', '.join(FAMILIES)}, got {', '.join(sorted(unknown))}")
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    setting = Setting(seed, tuple(options.isa.split(",")) if options.isa else ())
    print(f"seed {seed}, instruction sets {', '.join(setting.isas)}", flush=True)
    seconds, count = (60 * options.minutes, 1 << 62) if options.count is None else (1e9, options.count)
    total, failed, report = fuzz(setting, names, options.first, seconds, count)
    for name, (number, spent) in total.items():
        problems = number - options.first
        print(f"{name:14} {problems:10} problems {spent:8.1f} s {problems / max(spent, 1e-9):8.0f} a second")
    if failed:
        tell(setting, failed, report)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
