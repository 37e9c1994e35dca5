"""Compare int8blas's pooling with oneDNN, torch and onnxruntime, and with a plain copy of the same number of bytes.

    python benchmarks/bench_pooling.py
    python benchmarks/bench_pooling.py --threads 2 --isa avx2

All contestants take turns in one run, on one batch of uint8 images. Images have channels last, except for onnxruntime's
MaxPool, which supports only channels first; the line "channels first" has int8blas's time for it. Each result is
checked before it is timed: maxima for equality, averages to one step. A ratio of 1 is the speed of the copy: the same
number of bytes read and written in all, one half each, on one thread, by numpy.copyto.
"""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import dataclass
from functools import partial

import int8blas
import numpy as np
from int8blas._bench.peers import onednn_gemm
from int8blas._bench.peers.base import UnavailableError, import_peer

import bandwidth
from bandwidth import Calls


@dataclass(frozen=True)
class Pooling:
    """A pooling layer of a known network."""

    network: str
    operation: str  # "max" or "average"
    height: int
    width: int
    channels: int
    kernel: int  # 0: the whole image
    stride: int = 1
    padding: int = 0

    def __str__(self) -> str:
        window = f"{self.kernel}x{self.kernel}/{self.stride}" if self.kernel else "global"
        return f"{self.network}: {self.operation} {window}, {self.height}x{self.width}x{self.channels}"

    @property
    def window(self) -> tuple[int, int]:
        return (self.kernel, self.kernel) if self.kernel else (self.height, self.width)


POOLINGS = (
    Pooling("ResNet-50", "max", 112, 112, 64, 3, 2, 1),
    Pooling("ResNet-50", "average", 7, 7, 2048, 0),
    Pooling("VGG", "max", 56, 56, 256, 2, 2),
    Pooling("DenseNet", "average", 56, 56, 256, 2, 2),
    Pooling("GoogLeNet", "max", 28, 28, 192, 3, 1, 1),
    Pooling("Inception", "average", 28, 28, 192, 3, 1, 1),
    Pooling("YOLO", "max", 20, 20, 256, 5, 1, 2),
)


def ours(p: Pooling, x: np.ndarray) -> tuple[Calls, np.ndarray]:
    """Return int8blas's calls for both layouts, and the result."""
    options = {"strides": p.stride, "padding": p.padding}
    pool = int8blas.max_pool if p.operation == "max" else int8blas.avg_pool
    dst = pool(x, p.window, **options)
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    dst_first = pool(first, p.window, **options, layout="nchw")
    np.testing.assert_array_equal(dst_first.transpose(0, 2, 3, 1), dst)
    if not p.kernel:
        whole = int8blas.global_max_pool if p.operation == "max" else int8blas.global_avg_pool
        return {
            "int8blas": partial(whole, x, out=dst),
            "int8blas, channels first": partial(whole, first, layout="nchw", out=dst_first),
        }, dst
    return {
        "int8blas": partial(pool, x, p.window, **options, out=dst),
        "int8blas, channels first": partial(pool, first, p.window, **options, layout="nchw", out=dst_first),
    }, dst


def check(name: str, p: Pooling, result: np.ndarray, expected: np.ndarray) -> None:
    """Check an average to one step: other libraries multiply by a reciprocal."""
    difference = np.abs(result.astype(np.int64) - expected.astype(np.int64)).max()
    if difference > (p.operation == "average"):
        print(f"  {name} is off by {difference}")


def torch_calls(p: Pooling, x: np.ndarray, expected: np.ndarray, threads: int) -> Calls:
    torch, _ = import_peer("torch", "torch")
    torch.set_num_threads(threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantized tensors are deprecated, but the operators take nothing else
        src = torch._make_per_tensor_quantized_tensor(torch.from_numpy(x).permute(0, 3, 1, 2), 1.0, 0)
    functional = torch.nn.functional
    if p.operation == "max":
        run = partial(functional.max_pool2d, src, p.window, p.stride, p.padding)
    elif p.kernel:
        run = partial(functional.avg_pool2d, src, p.window, p.stride, p.padding, False, False)
    else:
        run = partial(functional.adaptive_avg_pool2d, src, 1)
    check("torch", p, run().int_repr().permute(0, 2, 3, 1).numpy(), expected)
    return {"torch": run}


def onnxruntime_calls(p: Pooling, x: np.ndarray, expected: np.ndarray, threads: int) -> Calls:
    onnxruntime, _ = import_peer("onnxruntime", "onnxruntime")
    onnx, _ = import_peer("onnx", "onnx")
    first = p.operation == "max"
    src = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if first else x
    window = {"kernel_shape": p.window, "strides": (p.stride,) * 2, "pads": (p.padding,) * 4} if p.kernel else {}
    quantization = ["scale", "zero", "scale", "zero"]
    if first:
        node = onnx.helper.make_node("MaxPool" if p.kernel else "GlobalMaxPool", ["src"], ["dst"], **window)
    else:
        name = "QLinearAveragePool" if p.kernel else "QLinearGlobalAveragePool"
        inputs = ["src", *quantization]
        node = onnx.helper.make_node(name, inputs, ["dst"], domain="com.microsoft", channels_last=1, **window)
    unsigned = onnx.TensorProto.UINT8
    graph = onnx.helper.make_graph(
        [node],
        "pooling",
        [onnx.helper.make_tensor_value_info("src", unsigned, src.shape)],
        [onnx.helper.make_tensor_value_info("dst", unsigned, [None] * 4)],
        [
            onnx.helper.make_tensor("scale", onnx.TensorProto.FLOAT, [], [1.0]),
            onnx.helper.make_tensor("zero", unsigned, [], [0]),
        ],
    )
    domains = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=domains, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    dst = np.empty([x.shape[0], p.channels, *expected.shape[1:3]] if first else expected.shape, np.uint8)
    binding = session.io_binding()
    binding.bind_input("src", "cpu", 0, np.uint8, src.shape, src.ctypes.data)
    binding.bind_output("dst", "cpu", 0, np.uint8, dst.shape, dst.ctypes.data)
    run = partial(session.run_with_iobinding, binding)
    run()
    check("onnxruntime", p, dst.transpose(0, 2, 3, 1) if first else dst, expected)
    return {f"onnxruntime{', channels first' * first}": lambda keep=(src, dst): run()}


def onednn_calls(p: Pooling, x: np.ndarray, expected: np.ndarray) -> Calls:
    """oneDNN's pooling primitive through its C API; its enumerators and structures are part of the ABI of version 3."""
    library, _, _ = onednn_gemm.load_library()
    forward_inference, u8, arg_src, arg_dst = 96, 6, 1, 17
    maximum, average_without_padding = 0x1FF, 0x3FF
    handle, dims = ctypes.c_void_p, ctypes.c_int64 * 12
    algorithm = maximum if p.operation == "max" else average_without_padding

    def create(function: str, *arguments: object) -> ctypes.c_void_p:
        made = handle()
        if status := getattr(library, function)(ctypes.byref(made), *arguments):
            raise UnavailableError(f"oneDNN's {function} returned {status}")
        return made

    class Argument(ctypes.Structure):
        _fields_ = (("arg", ctypes.c_int), ("memory", handle))

    dst = np.empty_like(expected)
    engine = create("dnnl_engine_create", 1, ctypes.c_size_t(0))
    stream = create("dnnl_stream_create", engine, 1)
    memories = []
    for array in (x, dst):
        n, h, w, c = array.shape
        desc = create("dnnl_memory_desc_create_with_strides", 4, dims(n, c, h, w), u8, dims(h * w * c, 1, w * c, c))
        memories.append((desc, create("dnnl_memory_create", desc, engine, handle(array.ctypes.data))))
    pads, zeros = dims(p.padding, p.padding), dims(0, 0)
    window = (dims(p.stride, p.stride), dims(*p.window), zeros, pads, pads)
    description = create(
        "dnnl_pooling_forward_primitive_desc_create",
        *(engine, forward_inference, algorithm, memories[0][0], memories[1][0], *window, None),
    )
    primitive = create("dnnl_primitive_create", description)
    arguments = (Argument * 2)((arg_src, memories[0][1]), (arg_dst, memories[1][1]))
    run = partial(library.dnnl_primitive_execute, primitive, stream, 2, arguments)
    run()
    check("oneDNN", p, dst, expected)
    return {"oneDNN": lambda keep=(x, dst): run()}


def contestants(p: Pooling, threads: int) -> tuple[Calls, int]:
    """Return the calls for one layer, and the bytes that a call reads and writes."""
    x = np.random.default_rng(0).integers(0, 256, (1, p.height, p.width, p.channels), np.uint8)
    calls, expected = ours(p, x)
    for peer in (
        partial(onednn_calls, p, x, expected),
        partial(torch_calls, p, x, expected, threads),
        partial(onnxruntime_calls, p, x, expected, threads),
    ):
        try:
            calls |= peer()
        except UnavailableError as error:
            print(f"  {error}")
    return calls, x.size + expected.size


if __name__ == "__main__":
    bandwidth.run(__doc__, [(p, partial(contestants, p)) for p in POOLINGS], budget=3.0)
