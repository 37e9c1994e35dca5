"""Compare ONNX files with onnxruntime: whether they load, agreement, time, load time and memory.

    python benchmarks/onnx_files.py FILE_OR_FOLDER ... [--threads N] [--floats own|onnxruntime] [--seconds S]

A file's form is the part of its name before ".onnx", as in "network.qdq.onnx". Each file runs in a separate process.
Ratios are the other library's time divided by int8blas's; the last lines have their geometric means by form. A model's
inputs come from a .npz file of the same name, or are random. A random input has these sizes if the model does not fix
them: (1, 3, 64, 320) with four dimensions, (1, 16, 80) with three, (1, 16) with two.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import numpy as np
from int8blas._bench.contest import MIN_SAMPLE
from int8blas._bench.timing import Plan
from int8blas._bench.timing import measure as take_turns

OPEN_SIZES = {4: (1, 3, 64, 320), 3: (1, 16, 80), 2: (1, 16), 1: (1,)}
ROUNDS = 40  # samples of each library, at most
# Seconds between libraries on several threads. After 5 ms, onnxruntime's threads still spin: on two CPUs (Zen 5) a
# network then takes 4.5 ms, and 2.6 ms after 50 ms.
SETTLE = 0.05
LEAST_TOP = 1e-3
INTEGERS = 10  # larger values may not be indices of an embedding


def random_feeds(inputs):
    """Return random feeds for the inputs of a model, which have a name, a dtype and a shape."""
    rng = np.random.default_rng(0)
    feeds = {}
    for value in inputs:
        usual = OPEN_SIZES.get(len(value.shape or ()), (1,) * len(value.shape or ()))
        shape = [size if isinstance(size, int) and size > 0 else other
                 for size, other in zip(value.shape or (), usual, strict=True)]  # fmt: skip
        if value.dtype.kind in "iu":
            feeds[value.name] = rng.integers(0, INTEGERS, shape).astype(value.dtype)
        elif value.dtype.kind == "b":
            feeds[value.name] = np.ones(shape, bool)
        else:
            feeds[value.name] = rng.uniform(-1, 1, shape).astype(value.dtype)
    return feeds


def given(path, model):
    """Return the feeds in the .npz file next to a model's file, or random ones."""
    beside = Path(path).with_suffix(".npz")
    return dict(np.load(beside)) if beside.exists() else random_feeds(model.inputs)


def session_of(path, threads, exact):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.x64quantprecision", str(int(exact)))
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def start(floats):
    """Load an empty network in both libraries. The first one of a process takes up to 10 ms longer than later ones."""
    import int8blas.onnx
    import onnx
    import onnxruntime

    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "empty", ports[:1], ports[1:])
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()
    onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    int8blas.onnx.load(model, floats=floats)


def timed(make, clock):
    """Return the result of a function, its seconds, and the growth of the process's largest memory in MiB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = clock()
    made = make()
    seconds = clock() - start
    return made, seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def differences(ours, theirs):
    """Return the largest difference of float results and of integers, relative to the largest value, or to LEAST_TOP if
    all values are smaller, as in a detector's map of an image without an object."""
    found = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if np.asarray(a).dtype.kind in "biufe" and np.shape(a) == np.shape(b):
            a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
            top = max(np.max(np.abs(b), initial=0, where=np.isfinite(b)), LEAST_TOP)
            with np.errstate(invalid="ignore"):
                gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
            found = max(found, float(np.max(np.nan_to_num(gaps, nan=math.inf, posinf=math.inf), initial=0)) / top)
        elif np.shape(a) != np.shape(b) or not np.array_equal(a, b):
            found = math.inf
    return found


def measure(path, threads, floats, seconds, clock):
    """Return the row of one file."""
    import int8blas
    import int8blas.onnx

    for name in ("int8blas.onnx.model", "onnx.inliner", "onnxruntime"):  # imports are no part of the time to load
        import_module(name)
    start(floats)
    int8blas.num_threads(threads, scope="process")
    row = {}
    try:
        model, row["load"], row["memory"] = timed(lambda: int8blas.onnx.load(path, floats=floats), clock)
    except Exception as error:
        model, row["refusal"] = None, f"{type(error).__name__}: {error}"
    try:
        session, row["load_onnxruntime"], row["memory_onnxruntime"] = timed(
            lambda: session_of(path, threads, False), clock
        )
        feeds = given(path, int8blas.onnx.load(path, floats="onnxruntime") if model is None else model)
        default = right = session.run(None, feeds)
    except Exception as error:
        return row | {"other": f"{type(error).__name__}: {error}"}
    if model is None:
        return row
    try:
        ours = model.run(None, feeds)
    except Exception as error:
        return row | {"refusal": f"{type(error).__name__}: {error}"}
    runs = {"int8blas": lambda: model.run(None, feeds), "default": lambda: session.run(None, feeds)}
    try:
        exact = session_of(path, threads, True)
    except Exception as error:  # onnxruntime cannot make this session of some files
        row["no_exact"] = str(error)
    else:
        right, runs["exact"] = exact.run(None, feeds), lambda: exact.run(None, feeds)
    row["difference"], row["difference_default"] = differences(ours, right), differences(default, right)
    plan = Plan(ROUNDS, seconds * len(runs), MIN_SAMPLE, SETTLE if threads > 1 else 0, clock)
    row["times"] = {name: timing.best for name, timing in take_turns(runs, plan).items()}
    return row


def shown(name, row):
    """Return the line of a file."""
    if "times" not in row:
        return f"{name:56} {(row.get('refusal') or 'onnxruntime: ' + row.get('other', ''))[:120]}"
    ours, default, exact = (row["times"].get(key, math.nan) * 1e3 for key in ("int8blas", "default", "exact"))
    return (f"{name:56} {ours:9.3f} {default:9.3f} {exact:9.3f} {default / ours:6.2f} {exact / ours:6.2f} "
            f"{row['load'] / row['load_onnxruntime']:6.2f} {row['memory']:6.0f} {row['memory_onnxruntime']:6.0f} "
            f"{row['difference']:8.1e} {row['difference_default']:8.1e}")  # fmt: skip


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--floats", choices=["own", "onnxruntime"], default="own")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each library and file")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu for one thread on a busy machine")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one file")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        clock = time.process_time if options.clock == "cpu" else time.perf_counter
        row = measure(str(options.paths[0]), options.threads, options.floats, options.seconds, clock)
        print(json.dumps(row))
        return
    files = [file for path in options.paths for file in (sorted(path.rglob("*.onnx")) if path.is_dir() else [path])]
    header = f"{'file':56} {'int8blas':>9} {'default':>9} {'exact':>9} {'x def.':>6} {'x ex.':>6} {'load x':>6} "
    print(header + f"{'MiB':>6} {'theirs':>6} {'differs':>8} {'default':>8}")
    forms = defaultdict(list)
    for file in files:
        command = [sys.executable, __file__, str(file), "--one", "--floats", options.floats, "--threads",
                   str(options.threads), "--seconds", str(options.seconds), "--clock", options.clock]  # fmt: skip
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
            row = json.loads(result.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            row = {"refusal": f"more than {options.limit:.0f} s"}
        except (IndexError, ValueError):
            row = {"refusal": "the process ended: " + result.stderr[-200:]}
        forms[file.stem.rpartition(".")[2]].append(row)
        print(shown(file.stem, row), flush=True)
    print(f"\n{'form':16} {'files':>5} {'load':>5} {'x def.':>6} {'x ex.':>6} {'least':>6} {'load x':>6}")
    for form, rows in sorted(forms.items()):
        known = [row for row in rows if "other" not in row]  # onnxruntime runs them
        timed_rows = [row for row in known if "times" in row]
        by = {key: [row["times"][key] / row["times"]["int8blas"] for row in timed_rows if key in row["times"]]
              for key in ("default", "exact")}  # fmt: skip
        loads = mean([row["load"] / row["load_onnxruntime"] for row in timed_rows])
        print(f"{form:16} {len(known):5} {len(timed_rows):5} {mean(by['default']):6.2f} {mean(by['exact']):6.2f} "
              f"{min(by['default'], default=math.nan):6.2f} {loads:6.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
