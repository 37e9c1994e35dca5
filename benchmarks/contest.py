"""The common part of all benchmarks: options, threads and ISA of all contestants, one measured run, its JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

# Idle workers of a library must not spin while the next library is measured. OpenBLAS reads this when it is loaded.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

from int8blas._bench import environment, plot
from int8blas._bench.contest import MIN_SAMPLE, SETTLE
from int8blas._bench.peers import onednn_gemm, ours, short_name
from int8blas._bench.peers.base import Peer
from int8blas._bench.results import Row
from int8blas._bench.timing import Plan

from results import summarize

try:
    from threadpoolctl import threadpool_limits
except ImportError:
    raise SystemExit("the benchmark sets threads with threadpoolctl; install it: pip install threadpoolctl") from None


def make_parser(description: str, quick: str, modules: Iterable[str], shape: str = "MxNxK") -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks have.

    `quick` describes the shapes that --quick measures, `modules` are the names that --skip accepts, `shape` is the
    notation of a shape.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help=quick)
    add("--shape", action="append", default=[], metavar=shape, help="only this shape (repeat)")
    add("--threads", default="1", help="thread counts; all: every usable CPU (default: %(default)s)")
    add("--repeat", type=int, default=40, help="samples per contestant and shape, at most (default: %(default)s)")
    add("--budget", type=float, help="seconds per shape and kind of problem, about (default: 5; quick: 2)")
    add("--median", action="store_true", help="report medians instead of minima")
    add("--skip", default="", help=f"peers to leave out, of {','.join(map(short_name, modules))}")
    add("--json", type=Path, metavar="FILE", help="write all numbers")
    return parser


def product_sizes(text: str) -> tuple[int, ...]:
    """Return the numbers in MxNxK."""
    shape = tuple(map(int, text.lower().split("x")))
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(f"a shape is MxNxK, of at least 1, got {text!r}")
    return shape


def parse(parser: argparse.ArgumentParser, parse_shape: Callable[[str], object] = product_sizes) -> argparse.Namespace:
    """Return the options, with thread counts as numbers and shapes from `parse_shape`."""
    options = parser.parse_args()
    try:
        cpus = environment.usable_cpus()
        options.threads = [cpus if word == "all" else int(word) for word in options.threads.split(",")]
        options.shape = [parse_shape(text) for text in options.shape]
    except ValueError as error:
        parser.error(str(error))
    if min(options.threads) < 1:
        parser.error("thread counts are at least 1")
    if getattr(options, "plot", None) and (message := plot.obstacle(options.plot)):
        parser.error(f"--plot: {message}")
    options.skip = set(options.skip.split(","))
    options.budget = options.budget or (2.0 if options.quick else 5.0)
    options.statistic = "median" if options.median else "best"
    return options


def plan(options: argparse.Namespace, threads: int, problems: int) -> Plan:
    """Return the plan of a run of `problems` problems."""
    settle = SETTLE if threads > 1 else 0.0
    return Plan(rounds=options.repeat, budget=options.budget * problems, min_sample=MIN_SAMPLE, settle=settle)


@contextlib.contextmanager
def use_isa(isa: str | None) -> Iterator[str]:
    """Restrict all contestants that can be restricted to one of int8blas's instruction sets. Return its name, or the
    name of the best set."""
    if isa is None:
        yield ours.int8blas.available_isas()[0]
        return
    onednn_gemm.limit_isa(isa)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(ours.int8blas.use_isa(isa))
        except (ValueError, RuntimeError) as error:
            raise SystemExit(f"--isa {isa}: {error}") from None
        yield isa


@contextlib.contextmanager
def use_threads(threads: int, contestants: Iterable[Peer]) -> Iterator[None]:
    """Give every contestant this number of threads."""
    with threadpool_limits(threads), ours.int8blas.num_threads(threads):
        for peer in contestants:
            peer.set_threads(threads)
        yield


def save(path: Path, about: Mapping[str, object], groups: Mapping[str, list[Row]]) -> None:
    """Write the environment, the versions and all numbers; `groups` has rows by title."""
    content = {
        **about,
        "rows": [row.as_json() for rows in groups.values() for row in rows],
        "summary": {title: [vars(line) for line in summarize(rows)] for title, rows in groups.items()},
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def exit_if_wrong(groups: Mapping[str, list[Row]]) -> None:
    """End with an error if int8blas failed anywhere."""
    if any(entry.ours and entry.fault for rows in groups.values() for row in rows for entry in row.entries.values()):
        raise SystemExit("int8blas failed or gave a wrong result, see above")
