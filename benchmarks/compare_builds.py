"""Compare the speed of two builds of int8blas, for example from before and after a change.

    python benchmarks/compare_builds.py old/bin/python new/bin/python
    python benchmarks/compare_builds.py ../old-checkout ../new-checkout --threads 1,2 --seconds 1
    python benchmarks/compare_builds.py old/bin/python new/bin/python --classes gemm,pooling

A build is given as the Python interpreter of its environment, or as the folder of a checkout that is built in place.
The interpreter that runs this program then imports int8blas from that folder. Two processes with the old build and two
with the new build call all shape sets of the other benchmarks, with operands at three places, because the place of data
changes the time. The arrays that a call gets are at the same places of shared memory in all of these processes, if the
system can share memory by a file descriptor. Samples alternate, and no process has two samples in a row. The ratio of
a shape is the old build's shortest time divided by the new build's: more than 1 is faster. With one thread it is CPU
time, which depends least on other work on the machine. Only public functions are called, and results of both builds
must be equal, bit by bit.

Shapes below the bound, and all shapes of a class whose geometric mean is below the class's bound, are measured again,
three times, in new processes and for twice the time. The exit status is 1 if a shape is below the bound each time, if a
class is below its bound over all measurements, or if a result differs.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from int8blas._bench.contest import MIN_SAMPLE, SETTLE
from int8blas._bench.progress import Progress
from int8blas._bench.report import print_columns
from int8blas._bench.timing import SLOW_SAMPLE, WARM_CALLS, WARM_SECONDS

from build_cases import FAMILIES, Case
from build_ratios import ClassRatio, Result, class_ratios, slower, to_repeat

HERE = Path(__file__).resolve().parent
ORDER = ("old", "new", "new", "old")
LEAST, MOST = 6, 200  # rounds of a shape
# How many times a shape is measured again, and the factor of the duration of these measurements. Each measurement has
# new processes, because the address of the stack changes the time of the smallest shapes by up to 5 %.
AGAIN, LONGER = 3, 2
SHARED_BYTES = 1 << 32  # room for three copies of the operands of a call
LIST_AT_MOST = 20  # maximum number of shapes in the second table


class WorkerError(RuntimeError):
    """The error of a worker for a call that it cannot make."""


class Worker:
    """A process with one build (see build_worker.py)."""

    def __init__(self, build: str, descriptor: int | None) -> None:
        python, environment = build, {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        if Path(build).is_dir():
            python, environment["PYTHONPATH"] = sys.executable, str(Path(build).resolve())
        command = [python, "-c", "import build_worker; build_worker.main()"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE, env=environment,
            pass_fds=() if descriptor is None else (descriptor,),
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return the result of the worker's method."""
        self.tell(name, *arguments)
        return self.answer()

    def tell(self, name: str, *arguments: Any) -> None:
        pickle.dump((name, *arguments), self._process.stdin, pickle.HIGHEST_PROTOCOL)  # type: ignore[arg-type]
        self._process.stdin.flush()  # type: ignore[union-attr]

    def answer(self) -> Any:
        try:
            state, value = pickle.load(self._process.stdout)  # type: ignore[arg-type]
        except EOFError:
            raise SystemExit(f"the process of a build has ended, with {self._process.wait()}") from None
        if state == "failed":
            raise WorkerError(value)
        return value


def shared_memory(stack: ExitStack) -> int | None:
    """Return a file in memory, of the largest size of operands; it takes memory only for written pages. Return None if
    the system has no such files."""
    if not hasattr(os, "memfd_create"):
        return None
    descriptor = os.memfd_create("operands")
    stack.callback(os.close, descriptor)
    os.truncate(descriptor, SHARED_BYTES)
    return descriptor


class Comparison:
    """Two processes with each build, which make the same calls in turns."""

    def __init__(self, builds: dict[str, str], threads: int, isa: str | None, stack: ExitStack) -> None:
        shared = shared_memory(stack)
        self.workers = [(name, stack.enter_context(Worker(builds[name], shared))) for name in ORDER]
        self.settle = SETTLE if threads > 1 else 0.0
        self.about = {name: worker.ask("start", threads, isa, shared) for name, worker in self.workers}

    def measure(self, result: Result, seconds: float) -> None:
        """Measure one shape for about `seconds`, if both builds have its function."""
        if not all(worker.ask("has", result.case.needs) for _, worker in self.workers):
            return
        call = result.case.make()
        try:
            digests = {worker.ask("prepare", call) for _, worker in self.workers}
        except WorkerError as error:
            result.fault = f"not measured: {error}"
            return
        if len(digests) > 1:
            result.fault = "the results differ"
        del call
        inner, once = max(self._calibrate(worker) for _, worker in self.workers)
        warm = max(1, min(WARM_CALLS, int(WARM_SECONDS / once)))
        cost = len(ORDER) * ((inner + warm) * once + self.settle)
        best = dict.fromkeys(ORDER, float("inf"))
        rounds = max(LEAST, min(MOST, int(seconds / cost)))
        for index in range(rounds):
            if index in (rounds // 3, 2 * rounds // 3):
                for _, worker in self.workers:
                    worker.ask("move")
            # Rotate the order. If a round began with the process that ended the round before, its data would be cached.
            first = index % len(ORDER)
            for name, worker in self.workers[first:] + self.workers[:first]:
                time.sleep(self.settle)
                best[name] = min(best[name], worker.ask("sample", warm, inner))
        result.seconds.append(best)

    def _calibrate(self, worker: Worker) -> tuple[int, float]:
        """Return the calls of a sample, and the seconds of one call."""
        inner = 1
        while True:
            seconds = worker.ask("sample", 1, inner)
            if MIN_SAMPLE <= seconds * inner < SLOW_SAMPLE:
                seconds = min(seconds, worker.ask("sample", 0, inner))
            if seconds * inner >= MIN_SAMPLE:
                return inner, seconds
            inner = max(inner + 1, min(10 * inner, int(1.1 * MIN_SAMPLE / max(seconds, 1e-9)) + 1))


def measure_all(results: Sequence[Result], options: argparse.Namespace, threads: int, seconds: float) -> dict[str, str]:
    """Measure all shapes, in new processes. Return the descriptions of both builds."""
    bar = Progress()
    with ExitStack() as stack:
        comparison = Comparison({"old": options.old, "new": options.new}, threads, options.isa, stack)
        for index, result in enumerate(results):
            bar.show(index / len(results), str(result.case))
            comparison.measure(result, seconds)
    bar.clear()
    return comparison.about


def print_shapes(results: Sequence[Result]) -> None:
    """Print a line for each shape: microseconds and ratios."""
    body = []
    for result in results:
        times = [f"{1e6 * result.best(name):.4g}" if result.seconds else "-" for name in ("old", "new")]
        ratios = " ".join(f"{ratio:.3f}" for ratio in result.ratios)
        body.append([str(result.case), *times, ratios or "-"])
    widths = [max(len(line[0]) for line in body), 9, 9, 12]
    print_columns([["shape"], ["old us"], ["new us"], ["ratios"]], body, widths)
    for result in results:
        if result.fault:
            print(f"! {result.case}: {result.fault}")


def print_classes(entries: Sequence[ClassRatio]) -> None:
    """Print a line for each class: geometric mean, worst shape."""
    body = [
        [entry.cls, str(entry.shapes), f"{entry.mean:.3f}", f"{entry.worst.ratio:.3f}", entry.worst.case.name]
        for entry in entries
    ]
    widths = [max(len(line[0]) for line in body), 6, 6, 6, max(len(line[4]) for line in body)]
    print_columns([["class"], ["shapes"], ["mean"], ["worst"], ["at"]], body, widths)


def compare(options: argparse.Namespace, cases: Sequence[Case], threads: int) -> bool:
    """Measure and print the tables. Return whether the new build is as fast as the old one, with equal results."""
    start = time.perf_counter()
    results = [Result(case) for case in cases]
    about = measure_all(results, options, threads, options.seconds)
    again = to_repeat(results, options.class_bound, options.shape_bound)
    for _ in range(AGAIN if again else 0):
        measure_all(again, options, threads, LONGER * options.seconds)
    print(f"\n{threads} thread{'s' * (threads > 1)}: time of the old build over time of the new one")
    for name in ("old", "new"):
        print(f"{name}: {about[name]}")
    if not any(result.seconds for result in results):
        print_shapes(results)
        return False
    print()
    print_classes(class_ratios(results))
    shown = [result for result in results if result.fault or result.seconds]
    if not options.all:
        shown = sorted(shown, key=lambda result: (not result.fault, result.ratio if result.seconds else 0))
        shown = shown[: max(LIST_AT_MOST, sum(bool(result.fault) for result in results))]
    print(f"\n{'all' if options.all else 'the lowest'} of {len(results)} shapes; {len(again)} were measured again")
    print_shapes(shown)
    classes, shapes = slower(results, options.class_bound, options.shape_bound)
    for entry in classes:
        print(f"class {entry.cls} has a mean of {entry.mean:.3f}, below {options.class_bound}")
    for result in shapes:
        print(f"{result.case} is below {options.shape_bound} in all {len(result.ratios)} measurements")
    wrong = [result for result in results if result.fault]
    absent = sum(not result.seconds and not result.fault for result in results)
    if absent:
        print(f"{absent} shapes are of functions that one build does not have")
    print(f"{len(classes)} classes and {len(shapes)} shapes are slower, {len(wrong)} have faults; "
          f"{time.perf_counter() - start:.0f} seconds")  # fmt: skip
    return not (classes or shapes or wrong)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("old", help="an interpreter, or a folder with the package")
    add("new", help="another one")
    add("--classes", default="", help=f"families, of {','.join(FAMILIES)}, or beginnings of classes")
    add("--threads", default="1", help="thread counts, one after the other (default: %(default)s)")
    add("--isa", help="hold both builds to this ISA")
    add("--seconds", type=float, default=0.4, help="for each shape, about (default: %(default)s)")
    add("--class-bound", type=float, default=0.99, help="of a class's geometric mean (default: %(default)s)")
    add("--shape-bound", type=float, default=0.96, help="of a shape measured again (default: %(default)s)")
    add("--all", action="store_true", help="print all shapes, not only the lowest")
    options = parser.parse_args()
    try:
        options.threads = [int(word) for word in options.threads.split(",")]
    except ValueError as error:
        parser.error(str(error))
    return options


def chosen(classes: str) -> list[Case]:
    """Return the cases of these families, and of classes whose names begin with these words; all cases by default."""
    words = [word for word in classes.split(",") if word]
    return [
        case
        for family, cases in FAMILIES.items()
        for case in cases()
        if not words or any(word == family or case.cls.startswith(word) for word in words)
    ]


def main() -> None:
    options = parse_arguments()
    cases = chosen(options.classes)
    if not cases:
        raise SystemExit(f"there is no class of {options.classes}")
    fine = [compare(options, cases, threads) for threads in options.threads]
    raise SystemExit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
