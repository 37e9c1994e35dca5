"""``python -m int8blas bench``: its options, the process that measures, and the order of a run."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import int8blas
from int8blas._bench import environment, peers, plot, report
from int8blas._bench.contest import MIN_SAMPLE, SETTLE, prepare, take_turns
from int8blas._bench.load import Watch
from int8blas._bench.peak import Peak
from int8blas._bench.peers import onednn_gemm, ours
from int8blas._bench.peers.base import Peer
from int8blas._bench.progress import Progress
from int8blas._bench.results import GemmRow, class_means
from int8blas._bench.shapes import MINUTE, Operands, Problem
from int8blas._bench.timing import MIN_SAMPLES, Plan
from int8blas.core import kernels

SUMMARY = "measure the speed of this machine, in about a minute"
DESCRIPTION = (
    "Measure the speed of int8blas on this machine, in about a minute, and compare it with the machine's "
    "limits, NumPy, SciPy and the installed int8 libraries."
)
ROUNDS = 40  # samples of a contestant, at most
# FIRST_SHARE is the largest share of the time for the first (smallest) shape of a class. The benchmark skips this shape
# if its preparation would exceed the whole time by more than the share FIRST_LATE. The benchmark runs the first shapes
# of all classes in the order of their sizes.
FIRST_SHARE, FIRST_LATE = 1 / 40, 1 / 2
LARGE = 1 << 20  # bytes of a problem; the preparation of a smaller problem takes constant time
FEWEST_CALLS = 2 * (MIN_SAMPLES + 1)  # calls of a contestant: samples and calibration, each with a call before it
INTERRUPTED = 130  # exit status, as in shells
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def thread_count(text: str) -> int:
    cpus = environment.usable_cpus()
    if text == "all":
        return cpus
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= cpus:
        raise argparse.ArgumentTypeError(f"must be 'all' or an integer from 1 to {cpus}, got {text!r}")
    return int(text)


def duration(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < float("inf"):
            return seconds
    raise argparse.ArgumentTypeError(f"must be a positive number, got {text!r}")


def output_file(text: str) -> Path:
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"must be a file in a directory that exists, got {text!r}")
    return path


def figure_file(text: str) -> Path:
    path = output_file(text)
    if message := plot.obstacle(path):
        raise argparse.ArgumentTypeError(message)
    return path


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--threads", type=thread_count, default=1, metavar="N", help="of all contestants; or all (default: 1)")
    add("--isa", choices=int8blas.available_isas(), help="hold int8blas, oneDNN and the peak to this instruction set")
    add("--seconds", type=duration, default=60.0, metavar="S", help="about how long to take (default: 60)")
    add("--peers", action=argparse.BooleanOptionalAction, default=True, help="int8 libraries, if installed")
    add("--json", type=output_file, metavar="FILE", help="write all numbers")
    add("--plot", type=figure_file, metavar="FILE", help="write figures (needs matplotlib)")


def settings(options: argparse.Namespace) -> dict[str, str]:
    """Return the variables that other libraries read when they are loaded."""
    # Idle threads of one library must not spin on the CPUs on which the next library is measured.
    found = {name: str(options.threads) for name in THREAD_VARIABLES} | {"OPENBLAS_THREAD_TIMEOUT": "20"}
    if options.isa in onednn_gemm.ISAS:
        found["ONEDNN_MAX_CPU_ISA"] = onednn_gemm.ISAS[options.isa]
    return found


def in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Order the shapes: first the smallest shape of each class, then all other shapes. Sort both groups by size."""
    by_size = sorted(problems, key=lambda problem: problem.operations)
    firsts = {problem.cls: problem for problem in reversed(by_size)}.values()
    return [p for p in by_size if p in firsts] + [p for p in by_size if p not in firsts]


class Run:
    """A measurement that starts at the time `start` and takes the seconds of the options."""

    def __init__(self, options: argparse.Namespace, contestants: Sequence[Peer], start: float) -> None:
        self._seconds: float = options.seconds
        self._threads: int = options.threads
        self._contestants, self._start = contestants, start
        self._peak, self._bar = Peak(options.threads), Progress()
        self._preparing = 0.0  # seconds per byte of the previous problem

    def _left(self) -> float:
        return self._start + self._seconds - time.perf_counter()

    def measure(self) -> tuple[list[GemmRow], list[Problem]]:
        """Return the rows of the shapes that can be measured in time, and the other shapes."""
        problems = [Problem(cls, *shape, "u8s8") for cls, shape in MINUTE]
        rows: dict[Problem, GemmRow] = {}
        try:
            # Measure small problems first, because their times show which problems do not fit a short run. Measure at
            # least one problem.
            for index, problem in enumerate(in_order(problems)):
                share, late = self._left() / (len(problems) - index), 0.0
                if problem.cls not in {row.problem.cls for row in rows.values()}:
                    share, late = min(share, FIRST_SHARE * self._seconds), FIRST_LATE * self._seconds
                if (row := self._row(problem, max(share, 0.0), late if rows else math.inf)) is not None:
                    rows[problem] = row
        finally:
            self._bar.clear()
        return [rows[problem] for problem in problems if problem in rows], [p for p in problems if p not in rows]

    def _row(self, problem: Problem, share: float, late: float) -> GemmRow | None:
        """Measure a problem in its share of the time. Skip the problem if its preparation would end more than `late`
        seconds late. If `late` is not 0, a prepared problem is always measured."""

        def show() -> None:
            self._bar.show(1 - self._left() / self._seconds, f"{problem.cls} {problem}")

        show()
        if self._preparing * problem.total_bytes > self._left() + late:
            return None
        start = time.perf_counter()
        setup = prepare(Operands(problem), self._contestants, self._threads)
        prepared = time.perf_counter()
        self._preparing = (prepared - start) / max(problem.total_bytes, LARGE)
        for ready in setup[1].values():
            ready.run()
        if late == 0 and FEWEST_CALLS * (time.perf_counter() - prepared) > self._left():
            return None
        settle = SETTLE if self._threads > 1 else 0.0
        plan = Plan(rounds=ROUNDS, budget=share, min_sample=MIN_SAMPLE, settle=settle)
        compute, read = self._peak.beside(problem.operand_bytes, lambda calls: take_turns([setup], plan, calls, show))
        return GemmRow(problem, self._threads, setup[0], compute, read)


def save(path: Path, about: dict[str, object], rows: list[GemmRow]) -> None:
    content = about | {
        "rows": [row.as_json() for row in rows],
        "classes": [asdict(means) for means in class_means(rows)],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def run(options: argparse.Namespace, start: float) -> int:
    """Measure and report. Return the exit status."""
    found, missing = peers.load(peers.FLOAT32 + peers.INT8 * options.peers, set(), True)
    for peer in found:
        peer.set_threads(options.threads)
    isa = options.isa or str(kernels.kernel_info()["isa"])
    versions = {f"int8blas ({isa})": int8blas.__version__} | {peer.library: peer.version for peer in found}
    about = environment.describe()
    title = f"{options.threads} thread{'s' * (options.threads > 1)}"
    watch = Watch(environment.usable_cpus())
    with int8blas.use_isa(isa), int8blas.num_threads(options.threads):
        rows, unmeasured = Run(options, ours.contestants("reuse", None) + found, start).measure()
    elapsed, load = time.perf_counter() - start, watch.load()

    report.print_header(about, versions, missing)
    report.print_classes(class_means(rows), rows)
    if unmeasured:
        report.print_items(f"not measured in {options.seconds:g} seconds: ", map(str, unmeasured), " ")
    print(f"\n{title}, {elapsed:.0f} seconds")
    if load.warning:
        report.print_text(load.warning)
    if options.json:
        measured = {"environment": about, "versions": versions, "missing": missing, "isa": isa}
        run_of = {"threads": options.threads, "seconds": elapsed, "unmeasured": [str(p) for p in unmeasured]}
        run_of |= {"load": asdict(load)}
        save(options.json, measured | run_of, rows)
    if options.plot:
        plot.save([(title, rows)], options.plot, [plot.roofline, plot.speeds])
    return int(any(entry.ours and entry.fault for row in rows for entry in row.entries.values()))


def main(options: argparse.Namespace) -> int:
    """Run in a new process with the given settings, because NumPy has already read its settings in this process."""
    start = time.perf_counter()
    wanted = settings(options)
    try:
        if all(os.environ.get(name) == value for name, value in wanted.items()):
            return run(options, start)
        return subprocess.run([sys.executable, *sys.orig_argv[1:]], env=os.environ | wanted, check=False).returncode
    except KeyboardInterrupt:
        return INTERRUPTED
