"""Compare a server's figures with onnxruntime: latency and calls a second with several callers, memory and start time.

    python benchmarks/serving.py [FILE.onnx ...] [--callers 1,2,4] [--threads 1] [--seconds 1]

Each library runs in its own process. A process imports the library, loads the model, runs it once, and then runs it
from 1, 2 and 4 threads at the same time. Each call of a library uses --threads threads. Without files, the models are
two small networks that this script makes: a network of 10 convolutions for images of 32 x 32, quantized statically, and
an encoder of 4 layers for 8 tokens, quantized dynamically. "exact" is onnxruntime with session.x64quantprecision. The
libraries take turns, and the best of --turns processes counts for each figure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np

from onnx_files import given, session_of

LIBRARIES = ("int8blas", "onnxruntime", "exact")
CHANNELS = (3, 16, 16, 32, 32, 32, 64, 64, 64, 64, 64)
LAYERS, TOKENS, WIDTH, HEADS = 4, 8, 128, 4


class Graph:
    """The nodes and weights of a network."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes, self.weights = [], []

    def weight(self, *shape):
        values = (self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:] or (1,)))).astype(np.float32)
        return self.constant(values)

    def constant(self, values):
        from onnx.numpy_helper import from_array

        self.weights.append(from_array(np.asarray(values), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def add(self, kind, *inputs, **attributes):
        from onnx.helper import make_node

        name = f"t{len(self.nodes)}"
        self.nodes.append(make_node(kind, inputs, [name], name, **attributes))
        return name

    def save(self, path, feeds, result, shape):
        from onnx import TensorProto, checker, helper, save

        x = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in feeds.items()]
        y = [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, "network", x, y, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        checker.check_model(model, full_check=True)
        save(model, path)


def make_cnn(folder):
    """Write a network of 10 convolutions, quantized by onnxruntime for u8s8 without a scale for each channel."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = [{"x": np.random.default_rng(1).uniform(-1, 1, (1, 3, 32, 32)).astype(np.float32)}]

        def get_next(self):
            return self.left.pop() if self.left else None

    g, value = Graph(), "x"
    for i, (inside, outside) in enumerate(pairwise(CHANNELS)):
        step = 2 if i in (2, 5, 8) else 1
        weights = g.weight(outside, inside, 3, 3), g.weight(outside)
        value = g.add("Conv", value, *weights, pads=[1] * 4, strides=[step] * 2)
        value = g.add("Relu", value)
    value = g.add("Flatten", g.add("GlobalAveragePool", value))
    value = g.add("Gemm", value, g.weight(CHANNELS[-1], 10), g.weight(10))
    g.save(folder / "float.onnx", {"x": Reader().left[0]["x"]}, value, (1, 10))
    path = folder / "cnn.onnx"
    quantization.quantize_static(folder / "float.onnx", path, Reader(), per_channel=False)
    return path


def make_encoder(folder):
    """Write an encoder, quantized dynamically by onnxruntime."""
    from onnxruntime import quantization

    g = Graph()

    def linear(x, inside, outside):
        return g.add("Add", g.add("MatMul", x, g.weight(inside, outside)), g.weight(outside))

    def heads(x):
        shaped = g.add("Reshape", x, g.constant(np.array([1, TOKENS, HEADS, -1])))
        return g.add("Transpose", shaped, perm=[0, 2, 1, 3])

    def norm(x):
        return g.add("LayerNormalization", x, g.weight(WIDTH), g.weight(WIDTH), axis=-1)

    value = "x"
    for _ in range(LAYERS):
        q, k, v = (heads(linear(value, WIDTH, WIDTH)) for _ in range(3))
        scores = g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g.add("Softmax", g.add("Div", scores, g.constant(np.float32(np.sqrt(WIDTH / HEADS)))), axis=-1)
        mixed = g.add("Transpose", g.add("MatMul", scores, v), perm=[0, 2, 1, 3])
        mixed = g.add("Reshape", mixed, g.constant(np.array([1, TOKENS, WIDTH])))
        value = norm(g.add("Add", value, linear(mixed, WIDTH, WIDTH)))
        inner = linear(value, WIDTH, 4 * WIDTH)
        erf = g.add("Erf", g.add("Div", inner, g.constant(np.float32(np.sqrt(2)))))
        both = g.add("Mul", inner, g.add("Add", erf, g.constant(np.float32(1))))
        gelu = g.add("Mul", both, g.constant(np.float32(0.5)))
        value = norm(g.add("Add", value, linear(gelu, 4 * WIDTH, WIDTH)))
    g.save(folder / "float.onnx", {"x": np.zeros((1, TOKENS, WIDTH), np.float32)}, value, (1, TOKENS, WIDTH))
    path = folder / "encoder.onnx"
    quantization.quantize_dynamic(folder / "float.onnx", path)
    return path


def resident():
    """Return the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


def serve(run, callers, seconds):
    """Return the median and 95 % latency in ms, and the calls a second, of `callers` threads that call at once."""
    times = [[] for _ in range(callers)]
    start, end = threading.Barrier(callers), [0.0]

    def work(mine):
        run()
        if start.wait() == 0:
            end[0] = time.perf_counter() + seconds
        start.wait()
        now = time.perf_counter()
        while now < end[0] or not mine:
            run()
            before, now = now, time.perf_counter()
            mine.append(now - before)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in times]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = np.sort(np.concatenate(times)) * 1e3
    rate = sum(len(mine) / sum(mine) for mine in times)
    return float(np.median(together)), float(together[int(0.95 * len(together))]), rate


def measure(library, path, feeds, threads, callers, seconds):
    """Return the figures of one library in this process, by name."""
    start = time.perf_counter()
    import_module("int8blas.onnx.model" if library == "int8blas" else "onnxruntime")
    imported = resident()
    if library == "int8blas":
        run = import_module("int8blas.onnx").load(path, num_threads=threads).run
    else:
        run = session_of(path, threads, library == "exact").run
    feeds = dict(np.load(feeds))
    run(None, feeds)
    row = {"start": time.perf_counter() - start}
    for count in callers:
        row[f"median {count}"], row[f"late {count}"], row[f"rate {count}"] = serve(
            lambda: run(None, feeds), count, seconds
        )
    return row | {"memory": resident() - imported}


def figures(path, options):
    """Return the best figures of each library for one file."""
    import int8blas.onnx

    best = {}
    with tempfile.TemporaryDirectory() as folder:
        feeds = Path(folder) / "feeds.npz"
        np.savez(feeds, **given(path, int8blas.onnx.load(path)))
        for library in options.turns * LIBRARIES:
            command = [sys.executable, __file__, str(path), "--one", library, str(feeds), "--callers", options.callers]
            command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            row, known = json.loads(result.stdout), best.setdefault(library, {})
            for name, value in row.items():
                known[name] = (max if name.startswith("rate") else min)(value, known.get(name, value))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--callers", default="1,2,4")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1, help="for each library and number of callers")
    parser.add_argument("--turns", type=int, default=3, help="processes of each library")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    callers = [int(count) for count in options.callers.split(",")]
    if options.one:
        library, feeds = options.one
        row = measure(library, str(options.paths[0]), feeds, options.threads, callers, options.seconds)
        print(json.dumps(row))
        return
    columns = "".join(f"{f'{count} callers: ms':>16} {'95 %':>7} {'calls/s':>8}" for count in callers)
    print(f"{'model':24} {'library':12}{columns} {'MiB':>6} {'start s':>8}")
    with tempfile.TemporaryDirectory() as folder:
        made = [] if options.paths else [make_cnn(Path(folder)), make_encoder(Path(folder))]
        for path in options.paths or made:
            for library, row in figures(path, options).items():
                columns = "".join(
                    f"{row[f'median {count}']:16.3f} {row[f'late {count}']:7.3f} {row[f'rate {count}']:8.0f}"
                    for count in callers
                )
                print(f"{path.stem:24} {library:12}{columns} {row['memory']:6.1f} {row['start']:8.2f}", flush=True)


if __name__ == "__main__":
    main()
