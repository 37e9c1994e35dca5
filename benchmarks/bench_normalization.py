"""Compare softmax, layer_norm and gather with oneDNN, torch and onnxruntime.

    python benchmarks/bench_normalization.py
    python benchmarks/bench_normalization.py --threads 2 --isa avx2

All contestants take turns in one run, on the shapes of a transformer: attention scores of 12 heads, 128 rows of
activations, 512 rows of a table of words. The other libraries take float32; int8blas takes float32 and the int32 sums
of a product. Each result is checked against float64 before it is timed. The rate is in elements.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from functools import partial

import int8blas
import numpy as np
from int8blas._bench.peers import onednn_gemm
from int8blas._bench.peers.base import UnavailableError, import_peer
from int8blas._bench.timing import Plan, measure

from held import held_to

Calls = dict[str, Callable[[], object]]

HEADS, ROWS, WORDS, TOKENS = 12, 128, 30522, 512
SOFTMAX_LENGTHS = (16, 64, 128, 384, 512)
LAYER_NORM_LENGTHS = (384, 768, 1024)
GATHER_LENGTHS = (384, 768)
SCALE = 1e-3  # scale of scores that are int32 sums
FACTOR = 1 / 255  # scale of uint8 probabilities
STEP = 1 / 32  # scale of int8 activations
EPSILON = 1e-5


def check(name: str, result: np.ndarray, exact: np.ndarray, step: float = 0.0) -> None:
    """Print the error of a result if it is more than half a step, plus a margin for float32."""
    allowed = 0.51 * step if step else 2e-6 * max(1.0, float(np.abs(exact).max()))
    difference = float(np.abs(result.astype(np.float64) * (step or 1.0) - exact).max())
    if not difference <= allowed:
        print(f"  {name} is off by {difference:.2g}")


class Primitive:
    """oneDNN's primitives through its C API; enumerators and structures are part of the ABI of version 3."""

    FORWARD_INFERENCE = 96
    SRC, DST, SHIFT, SCALE, DST_SCALE = 1, 17, 52, 51, 4096 | 17

    def __init__(self) -> None:
        self.library, _, _ = onednn_gemm.load_library()
        self.engine = self.create("dnnl_engine_create", 1, ctypes.c_size_t(0))
        self.stream = self.create("dnnl_stream_create", self.engine, 1)

    def create(self, function: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        if status := getattr(self.library, function)(ctypes.byref(made), *arguments):
            raise UnavailableError(f"oneDNN's {function} returned {status}")
        return made

    def describe(self, array: np.ndarray) -> ctypes.c_void_p:
        sizes = (ctypes.c_int64 * 12)(*array.shape)
        strides = (ctypes.c_int64 * 12)(*(step // array.itemsize for step in array.strides))
        kind = {"float32": 3, "int8": 5, "uint8": 6}[array.dtype.name]
        return self.create("dnnl_memory_desc_create_with_strides", array.ndim, sizes, kind, strides)

    def attributes(self, scaled: bool) -> ctypes.c_void_p:
        made = self.create("dnnl_primitive_attr_create")
        if scaled and self.library.dnnl_primitive_attr_set_scales_mask(made, self.DST, 0):
            raise UnavailableError("oneDNN refuses a scale of the destination")
        return made

    def bind(self, description: ctypes.c_void_p, arrays: dict[int, np.ndarray]) -> Callable[[], object]:
        class Argument(ctypes.Structure):
            _fields_ = (("arg", ctypes.c_int), ("memory", ctypes.c_void_p))

        primitive = self.create("dnnl_primitive_create", description)
        memories = [
            self.create("dnnl_memory_create", self.describe(array), self.engine, ctypes.c_void_p(array.ctypes.data))
            for array in arrays.values()
        ]
        pairs = zip(arrays, memories, strict=True)
        arguments = (Argument * len(arrays))(*(Argument(kind, memory) for kind, memory in pairs))
        execute = partial(self.library.dnnl_primitive_execute, primitive, self.stream, len(arrays), arguments)
        if status := execute():
            raise UnavailableError(f"oneDNN's dnnl_primitive_execute returned {status}")
        return lambda keep=arrays: execute()


def onednn_softmax(x: np.ndarray, dst: np.ndarray, step: float) -> Callable[[], object]:
    p = Primitive()
    function, accurate = "dnnl_softmax_forward_primitive_desc_create", 0x30000
    arguments = (p.FORWARD_INFERENCE, accurate, p.describe(x), p.describe(dst), x.ndim - 1, p.attributes(step != 0))
    arrays = {p.SRC: x, p.DST: dst} | ({p.DST_SCALE: np.array([step], np.float32)} if step else {})
    return p.bind(p.create(function, p.engine, *arguments), arrays)


def onednn_layer_norm(x, dst, gamma, beta, step):  # type: ignore[no-untyped-def]
    p = Primitive()
    function, use_scale_and_shift = "dnnl_layer_normalization_forward_primitive_desc_create", 2 | 4
    arguments = (p.FORWARD_INFERENCE, p.describe(x), p.describe(dst), None, ctypes.c_float(EPSILON))
    description = p.create(function, p.engine, *arguments, use_scale_and_shift, p.attributes(step != 0))
    arrays = {p.SRC: x, p.DST: dst, p.SCALE: gamma, p.SHIFT: beta}
    return p.bind(description, arrays | ({p.DST_SCALE: np.array([step], np.float32)} if step else {}))


def onnxruntime_call(operator: str, inputs: list[np.ndarray], dst: np.ndarray, threads: int, **attributes: object):  # type: ignore[no-untyped-def]
    onnxruntime, _ = import_peer("onnxruntime", "onnxruntime")
    onnx, _ = import_peer("onnx", "onnx")
    names = [f"input{i}" for i in range(len(inputs))]
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape)
        for name, array in zip(names, inputs, strict=True)
    ]
    result = onnx.helper.make_tensor_value_info("dst", onnx.TensorProto.FLOAT, dst.shape)
    node = onnx.helper.make_node(operator, names, ["dst"], axis=-1, **attributes)
    graph = onnx.helper.make_graph([node], "normalization", values, [result])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in zip(names, inputs, strict=True):
        binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    binding.bind_output("dst", "cpu", 0, np.float32, dst.shape, dst.ctypes.data)
    session.run_with_iobinding(binding)
    return lambda keep=(inputs, dst): session.run_with_iobinding(binding)


def add(calls: Calls, name: str, make: Callable[[], tuple[Callable[[], object], np.ndarray]], verify) -> None:  # type: ignore[no-untyped-def]
    try:
        run, result = make()
    except UnavailableError as error:
        print(f"  {name}: {error}")
        return
    run()
    verify(name, result)
    calls[name] = run


def softmax_calls(n: int, threads: int) -> tuple[Calls, int]:
    sums = np.random.default_rng(0).integers(-5000, 5000, (HEADS, n, n), np.int32)
    x = (sums * SCALE).astype(np.float32)
    e = np.exp(x - x.max(axis=-1, keepdims=True), dtype=np.float64)
    exact = e / e.sum(axis=-1, keepdims=True)
    u8, f32 = (partial(np.empty, x.shape, dtype) for dtype in (np.uint8, np.float32))
    calls: Calls = {}

    def verify(name: str, result: np.ndarray) -> None:
        check(name, result, exact, FACTOR if result.dtype == np.uint8 else 0.0)

    def ours(src: np.ndarray, dst: np.ndarray) -> tuple[Callable[[], object], np.ndarray]:
        scales = ({"src": SCALE} if src is sums else {}) | ({"dst": FACTOR} if dst.dtype == np.uint8 else {})
        return partial(int8blas.softmax, src, scales=scales, dst_dtype=dst.dtype, out=dst), dst

    add(calls, "int8blas s32 -> u8", partial(ours, sums, u8()), verify)
    add(calls, "int8blas f32 -> u8", partial(ours, x, u8()), verify)
    add(calls, "int8blas f32 -> f32", partial(ours, x, f32()), verify)
    for dst, step in ((u8(), FACTOR), (f32(), 0.0)):
        name = f"oneDNN f32 -> {'u8' if step else 'f32'}"
        add(calls, name, lambda dst=dst, step=step: (onednn_softmax(x, dst, step), dst), verify)

    def torch_call() -> tuple[Callable[[], object], np.ndarray]:
        torch, _ = import_peer("torch", "torch")
        torch.set_num_threads(threads)
        dst = f32()
        return partial(torch.softmax, torch.from_numpy(x), -1, out=torch.from_numpy(dst)), dst

    def onnxruntime_softmax() -> tuple[Callable[[], object], np.ndarray]:
        dst = f32()
        return onnxruntime_call("Softmax", [x], dst, threads), dst

    add(calls, "torch f32 -> f32", torch_call, verify)
    add(calls, "onnxruntime f32 -> f32", onnxruntime_softmax, verify)
    return calls, x.size


def layer_norm_calls(n: int, threads: int) -> tuple[Calls, int]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, n)).astype(np.float32)
    gamma, beta = rng.uniform(0.5, 1, (2, n)).astype(np.float32)
    d = x - x.mean(axis=-1, keepdims=True, dtype=np.float64)
    exact = d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + EPSILON) * gamma + beta
    s8, f32 = (partial(np.empty, x.shape, dtype) for dtype in (np.int8, np.float32))
    calls: Calls = {}

    def verify(name: str, result: np.ndarray) -> None:
        inside = np.clip(exact, -128 * STEP, 127 * STEP) if result.dtype == np.int8 else exact
        check(name, result, inside, STEP if result.dtype == np.int8 else 0.0)

    def ours(dst: np.ndarray) -> tuple[Callable[[], object], np.ndarray]:
        scales = {"dst": STEP} if dst.dtype == np.int8 else {}
        return partial(int8blas.layer_norm, x, gamma, beta, scales=scales, dst_dtype=dst.dtype, out=dst), dst

    add(calls, "int8blas f32 -> s8", partial(ours, s8()), verify)
    add(calls, "int8blas f32 -> f32", partial(ours, f32()), verify)
    for dst, step in ((s8(), STEP), (f32(), 0.0)):
        name = f"oneDNN f32 -> {'s8' if step else 'f32'}"
        add(calls, name, lambda dst=dst, step=step: (onednn_layer_norm(x, dst, gamma, beta, step), dst), verify)

    def torch_call() -> tuple[Callable[[], object], np.ndarray]:
        torch, _ = import_peer("torch", "torch")
        torch.set_num_threads(threads)
        tensors = [torch.from_numpy(array) for array in (x, gamma, beta)]
        run = partial(torch.layer_norm, tensors[0], (n,), *tensors[1:], EPSILON)
        return run, run().numpy()

    def onnxruntime_layer_norm() -> tuple[Callable[[], object], np.ndarray]:
        dst = f32()
        return onnxruntime_call("LayerNormalization", [x, gamma, beta], dst, threads, epsilon=EPSILON), dst

    add(calls, "torch f32 -> f32", torch_call, verify)
    add(calls, "onnxruntime f32 -> f32", onnxruntime_layer_norm, verify)
    return calls, x.size


def gather_calls(n: int, threads: int) -> tuple[Calls, int]:
    rng = np.random.default_rng(0)
    table = rng.integers(-128, 128, (WORDS, n), np.int8)
    scale, indices = rng.uniform(0.5, 1, WORDS).astype(np.float32), rng.integers(0, WORDS, TOKENS)
    real = int8blas.dequantize(table, scale, axis=0)
    dst = np.empty((TOKENS, n), np.float32)
    calls: Calls = {
        "int8blas, a scale": partial(int8blas.gather, table, indices, 0.5, out=dst),
        "int8blas, scales of rows": partial(int8blas.gather, table, indices, scale, axis=0, out=dst),
        "dequantize(table[...])": lambda: int8blas.dequantize(table[indices], 0.5, out=dst),
        "NumPy take, f32": partial(np.take, real, indices, axis=0, out=dst, mode="clip"),
    }

    def torch_call() -> tuple[Callable[[], object], np.ndarray]:
        torch, _ = import_peer("torch", "torch")
        torch.set_num_threads(threads)
        run = partial(torch.nn.functional.embedding, torch.from_numpy(indices), torch.from_numpy(real))
        return run, run().numpy()

    add(calls, "torch embedding, f32", torch_call, lambda name, result: check(name, result, real[indices]))
    return calls, dst.size


PARTS = {
    f"softmax of {HEADS} heads, rows of": (softmax_calls, SOFTMAX_LENGTHS),
    f"layer_norm of {ROWS} rows of": (layer_norm_calls, LAYER_NORM_LENGTHS),
    f"gather of {TOKENS} rows of": (gather_calls, GATHER_LENGTHS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of all contestants (default: %(default)s)")
    parser.add_argument("--isa", help="hold int8blas and oneDNN to this ISA")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds per shape (default: %(default)s)")
    options = parser.parse_args()
    plan = Plan(rounds=30, budget=options.budget, min_sample=2e-4, settle=5e-3 if options.threads > 1 else 0.0)
    if options.isa is not None:
        onednn_gemm.limit_isa(options.isa)
    with held_to(options.threads, options.isa):
        for title, (contestants, lengths) in PARTS.items():
            for n in lengths:
                print(f"\n{title} {n}")
                calls, size = contestants(n, options.threads)
                for name, timing in measure(calls, plan).items():
                    print(f"  {name:28}{timing.best * 1e6:10.1f} us {size / timing.best / 1e9:7.2f} G/s")


if __name__ == "__main__":
    main()
