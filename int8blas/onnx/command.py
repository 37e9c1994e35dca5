"""``python -m int8blas onnx FILE``: summarize a file, measure it, and compare it with onnxruntime."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from int8blas.onnx.graph import Value
from int8blas.onnx.model import load

SUMMARY = "run an ONNX file: a summary, times, a comparison with onnxruntime"
DESCRIPTION = """Load an ONNX file and describe its inputs, outputs and operators. Inputs are random numbers unless a
file of inputs is given."""
LEAST = 3
QUANTIZED = ("weights", "dynamic", "static")
# The libraries take turns of TURN seconds, after PAUSE seconds in which the other library's threads fall asleep.
TURN, PAUSE = 0.02, 0.02


def size_of(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isascii() or not number.isdigit():
        raise argparse.ArgumentTypeError(f"must be NAME=NUMBER, got {text!r}")
    return name, int(number)


def seconds_of(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text!r}")
    return seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the ONNX file")
    parser.add_argument("--inputs", metavar="NPZ", help="a file of numpy.savez with an array for each input")
    parser.add_argument("--size", metavar="NAME=N", type=size_of, action="append", default=[],
                        help="a size that the file leaves open, by its name; 1 if it is not given")  # fmt: skip
    parser.add_argument("--bench", metavar="SECONDS", type=seconds_of, help="measure for so long")
    parser.add_argument("--quantize", metavar="HOW", nargs="?", const="dynamic", choices=QUANTIZED,
                        help="quantize a float32 file: weights, dynamic (the default), or static, calibrated on the "
                        "inputs; and say what this costs")  # fmt: skip
    parser.add_argument("--compare", action="store_true", help="beside onnxruntime, which is to be installed")


def main(options: argparse.Namespace) -> int:
    """Return the exit status: 0, or 1 if the file cannot be loaded or run."""
    try:
        return run(options)
    except (OSError, ImportError, NotImplementedError, TypeError, ValueError) as error:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        print(f"{options.file}: {error}{notes}", file=sys.stderr)
        return 1


def run(options: argparse.Namespace) -> int:
    start = time.perf_counter()
    model = plain = load(options.file)
    print(f"loaded in {(time.perf_counter() - start) * 1e3:.0f} ms")
    feeds = given(options.inputs) if options.inputs else random_feeds(model.inputs, dict(options.size))
    if options.quantize:
        start = time.perf_counter()
        model = load(options.file, quantize=feeds if options.quantize == "static" else options.quantize)
        print(f"quantized in {(time.perf_counter() - start) * 1e3:.0f} ms")
    for kind, ports in (("input", model.get_inputs()), ("output", model.get_outputs())):
        for port in ports:
            print(f"{kind:6}  {port.name}  {port.type}  {port.shape}")
    print(model.explain(feeds))
    if options.quantize:
        show_cost(model.run(None, feeds), plain.run(None, feeds), [port.name for port in model.get_outputs()])
    sessions = onnxruntime_sessions(options.file) if options.compare else {}
    if options.compare:
        compare(model.run(None, feeds), sessions, feeds, [port.name for port in model.get_outputs()])
        counts = model.saturations(feeds)
        found = {name: count for name, count in counts.items() if count}
        print(f"{len(found)} of {len(counts)} products of uint8 and int8 saturate sums of two products in 16 bits, as "
              f"onnxruntime's do on CPUs without VNNI{':' if found else ''}")  # fmt: skip
        for name, count in found.items():
            print(f"    {name}: {count} sums")
        if counts.not_counted:
            print("not counted:")
        for name, reason in counts.not_counted.items():
            print(f"    {name}: {reason}")
    if options.bench:
        runs: dict[str, Callable[[], Any]] = {"int8blas": partial(model.run, None, feeds)}
        if options.quantize:
            runs["int8blas, float32"] = partial(plain.run, None, feeds)
        runs |= {name: partial(session.run, None, feeds) for name, session in sessions.items()}
        bench(runs, options.bench)
    return 0


def show_cost(ours: Sequence[Any], right: Sequence[Any], names: Sequence[str]) -> None:
    """Print two figures for each float output: the root mean square of the error relative to the values, and the number
    of rows whose largest value is in the same position."""
    for name, a, b in zip(names, ours, right, strict=True):
        if not isinstance(b, np.ndarray) or b.dtype.kind != "f" or not b.size:
            continue
        if np.shape(a) != b.shape:
            print(f"output {name}: shape {np.shape(a)}, in float32 {b.shape}")
            continue
        difference = np.asarray(a, np.float64) - b
        error = np.sqrt(np.mean(difference**2) / max(float(np.mean(b.astype(np.float64) ** 2)), 1e-300))
        best, right_best = (np.argmax(np.atleast_1d(values), -1) for values in (a, b))
        same = np.equal(best, right_best)
        print(f"output {name}: error {error:.4f} of the float32 values, largest value at the same place in "
              f"{np.count_nonzero(same)} of {np.size(same)} rows")  # fmt: skip


def given(path: str) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def random_feeds(inputs: Sequence[Value], sizes: dict[str, int]) -> dict[str, Any]:
    """Return random feeds: normal floats, all int8 and uint8 values, 0 and 1 for other integers, True for booleans."""
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {}
    for value in inputs:
        if value.dtype is None or value.dtype.hasobject:
            raise ValueError(f"--inputs must be given, as input {value.name!r} is no tensor of numbers")
        shape = [size if isinstance(size, int) else sizes.get(size or "", 1) for size in value.shape or ()]
        if value.dtype.kind == "b":
            feeds[value.name] = np.ones(shape, bool)
        elif value.dtype.kind in "iu":
            limits = np.iinfo(value.dtype)
            high = limits.max if value.dtype.itemsize == 1 else 1
            feeds[value.name] = rng.integers(max(limits.min, -high - 1) if high > 1 else 0, high, shape, value.dtype,
                                             endpoint=True)  # fmt: skip
        else:
            feeds[value.name] = rng.normal(0, 1, shape).astype(value.dtype)
    return feeds


def onnxruntime_sessions(path: str) -> dict[str, Any]:
    """Open a session with default options, and a session whose int8 products do not saturate."""
    try:
        onnxruntime = import_module("onnxruntime")
    except ImportError as error:
        raise ImportError("--compare needs onnxruntime, which is not installed") from error
    sessions = {}
    for name, exact in (("onnxruntime", "0"), ("onnxruntime, exact", "1")):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.x64quantprecision", exact)
        sessions[name] = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return sessions


def compare(ours: Sequence[Any], sessions: dict[str, Any], feeds: dict[str, Any], names: Sequence[str]) -> None:
    """Print the largest difference of each output. Saturation causes differences that only the default session has."""
    theirs = {name: session.run(None, feeds) for name, session in sessions.items()}
    for i, output in enumerate(names):
        scale = np.max(np.abs(np.asarray(ours[i], np.float64)), initial=0)
        print(f"output {output}: largest value {scale:.4g}")
        for name, results in theirs.items():
            print(f"    {name}: largest difference {difference(ours[i], results[i]):.4g}")


def difference(a: Any, b: Any) -> float:
    if np.shape(a) != np.shape(b):
        return float("inf")
    return float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)), initial=0))


def turn(function: Callable[[], Any]) -> list[float]:
    """Time calls of one library, after one untimed call that wakes its threads and reloads its memory."""
    function()
    times: list[float] = []
    while sum(times) < TURN or not times:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def bench(runs: dict[str, Callable[[], Any]], seconds: float) -> None:
    """Print the median time of each library. The libraries take turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["int8blas"]) < LEAST:
        for name, function in runs.items():
            time.sleep(PAUSE)
            times[name] += turn(function)
        if sys.stderr.isatty():
            left = max(end - time.perf_counter(), 0)
            print(f"\r{left:5.0f} s left", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 12 + "\r", end="", file=sys.stderr)
    for name, found in times.items():
        print(f"{name}: {np.median(found) * 1e3:.3g} ms, the median of {len(found)}")
