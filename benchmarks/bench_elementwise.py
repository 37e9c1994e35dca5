"""Compare eltwise, binary, sum and concat with oneDNN, torch and NumPy, and with a plain copy of the same number of
bytes.

    python benchmarks/bench_elementwise.py
    python benchmarks/bench_elementwise.py --threads 2 --isa avx2

All contestants take turns in one run, on uint8 tensors, channels last. Each result is checked to one step before it is
timed, because other libraries round and scale in another order. oneDNN's sources have scales, its destinations none;
torch's have scales and zero points. A ratio of 1 is the speed of the copy: the same number of bytes read and written in
all, one half each, on one thread, by numpy.copyto.
"""

from __future__ import annotations

import ctypes
import warnings
from functools import partial
from typing import Any

import int8blas
import numpy as np
from int8blas._bench.peers import onednn_gemm
from int8blas._bench.peers.base import UnavailableError, import_peer

import bandwidth
from bandwidth import Calls

# The sum of a residual block early and late in ResNet-50, and a sum that does not fit in caches.
SHAPES = ((1, 56, 56, 256), (1, 7, 7, 2048), (16, 56, 56, 256))
SCALES = (0.5, 0.25)


def check(name: str, result: np.ndarray, expected: np.ndarray) -> None:
    difference = np.abs(result.astype(np.int64) - expected.astype(np.int64)).max()
    if difference > 1:
        print(f"  {name} is off by {difference}")


class OneDNN:
    """oneDNN's primitives through its C API; its enumerators and structures are part of the ABI of version 3."""

    SRC, DST, MULTIPLE_SRC, ATTR_SCALES = 1, 17, 1024, 4096

    class _Argument(ctypes.Structure):
        _fields_ = (("arg", ctypes.c_int), ("memory", ctypes.c_void_p))

    def __init__(self) -> None:
        self.library, _, _ = onednn_gemm.load_library()
        self.engine = self.create("dnnl_engine_create", 1, ctypes.c_size_t(0))
        self.stream = self.create("dnnl_stream_create", self.engine, 1)

    def call(self, function: str, *arguments: object) -> None:
        if status := getattr(self.library, function)(*arguments):
            raise UnavailableError(f"oneDNN's {function} returned {status}")

    def create(self, function: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(function, ctypes.byref(made), *arguments)
        return made

    def descriptor(self, array: np.ndarray) -> ctypes.c_void_p:
        kind = {"uint8": 6, "float32": 3}[array.dtype.name]
        dims = (ctypes.c_int64 * 12)(*array.shape)
        strides = (ctypes.c_int64 * 12)(*(step // array.itemsize for step in array.strides))
        return self.create("dnnl_memory_desc_create_with_strides", array.ndim, dims, kind, strides)

    def execution(self, description: ctypes.c_void_p, arrays: dict[int, np.ndarray]) -> Any:
        """Return a primitive as a function without arguments, which keeps the arrays."""
        primitive = self.create("dnnl_primitive_create", description)
        arguments = (self._Argument * len(arrays))()
        for argument, (number, array) in zip(arguments, arrays.items(), strict=True):
            data = ctypes.c_void_p(array.ctypes.data)
            memory = self.create("dnnl_memory_create", self.descriptor(array), self.engine, data)
            argument.arg, argument.memory = number, memory
        run = partial(self.library.dnnl_primitive_execute, primitive, self.stream, len(arrays), arguments)
        return lambda keep=arrays: run()

    def binary(self, algorithm: int, x: np.ndarray, y: np.ndarray, dst: np.ndarray) -> Any:
        attributes = self.create("dnnl_primitive_attr_create")
        arrays = {self.SRC: x, self.SRC + 1: y, self.DST: dst}
        for argument, scale in zip((self.SRC, self.SRC + 1), SCALES, strict=True):
            self.call("dnnl_primitive_attr_set_scales_mask", attributes, argument, 0)
            arrays[self.ATTR_SCALES | argument] = np.full(1, scale, np.float32)
        descriptors = [self.descriptor(array) for array in (x, y, dst)]
        description = self.create("dnnl_binary_primitive_desc_create", self.engine, algorithm, *descriptors, attributes)
        return self.execution(description, arrays)

    def sum(self, x: np.ndarray, y: np.ndarray, dst: np.ndarray) -> Any:
        sources = (ctypes.c_void_p * 2)(*(self.descriptor(array).value for array in (x, y)))
        scales = (ctypes.c_float * 2)(*SCALES)
        description = self.create(
            "dnnl_sum_primitive_desc_create", self.engine, self.descriptor(dst), 2, scales, sources, None
        )
        return self.execution(description, {self.MULTIPLE_SRC: x, self.MULTIPLE_SRC + 1: y, self.DST: dst})

    def concat(self, x: np.ndarray, y: np.ndarray, dst: np.ndarray) -> Any:
        sources = (ctypes.c_void_p * 2)(*(self.descriptor(array).value for array in (x, y)))
        description = self.create(
            "dnnl_concat_primitive_desc_create", self.engine, self.descriptor(dst), 2, x.ndim - 1, sources, None
        )
        return self.execution(description, {self.MULTIPLE_SRC: x, self.MULTIPLE_SRC + 1: y, self.DST: dst})


ADD, MUL = 0x1FFF0, 0x1FFF1


def torch_tensors(threads: int, *arrays: np.ndarray) -> tuple[Any, list[Any]]:
    """Return torch and quantized tensors with SCALES and without zero points."""
    torch, _ = import_peer("torch", "torch")
    torch.set_num_threads(threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantized tensors are deprecated, but the operators take nothing else
        make = torch._make_per_tensor_quantized_tensor
        return torch, [make(torch.from_numpy(x), scale, 0) for x, scale in zip(arrays, SCALES, strict=False)]


def timed(expected: np.ndarray, peers: dict[str, Any]) -> Calls:
    """Return the calls of the installed peers. `peers` has a function for each peer. It prepares the peer and returns
    two functions: the call to measure, and a function that returns the result."""
    calls = {}
    for name, prepare in peers.items():
        try:
            run, result = prepare()
        except (UnavailableError, RuntimeError) as error:
            print(f"  {name}: {error}")
            continue
        run()
        check(name, result(), expected)
        calls[name] = run
    return calls


def random_images(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, shape, np.uint8) for shape in shapes]


def binary(op: str, post_ops: tuple[object, ...], shape: tuple[int, ...], threads: int) -> tuple[Calls, int]:
    x, y = random_images(shape, shape)
    options = {"scales": dict(zip(("src0", "src1"), SCALES, strict=True)), "post_ops": post_ops}
    dst = int8blas.binary(op, x, y, **options)

    def onednn_call() -> tuple[Any, Any]:
        result = np.empty_like(dst)
        return OneDNN().binary(ADD if op == "add" else MUL, x, y, result), lambda: result

    def torch_call() -> tuple[Any, Any]:
        torch, sources = torch_tensors(threads, x, y)
        run = partial(getattr(torch.ops.quantized, op + "_relu" * bool(post_ops)), *sources, 1.0, 0)
        return run, lambda: run().int_repr().numpy()

    calls = {"int8blas": partial(int8blas.binary, op, x, y, **options, out=dst)}
    peers = {"oneDNN": onednn_call, "torch": torch_call}
    if post_ops:
        del peers["oneDNN"]
    return calls | timed(dst, peers), 3 * x.size


def total(shape: tuple[int, ...], threads: int) -> tuple[Calls, int]:
    x, y = random_images(shape, shape)
    dst = int8blas.sum([x, y], scales=SCALES)

    def onednn_call() -> tuple[Any, Any]:
        result = np.empty_like(dst)
        return OneDNN().sum(x, y, result), lambda: result

    calls = {"int8blas": partial(int8blas.sum, [x, y], scales=SCALES, out=dst)}
    return calls | timed(dst, {"oneDNN": onednn_call}), 3 * x.size


def concat(shape: tuple[int, ...], threads: int) -> tuple[Calls, int]:
    x, y = random_images(shape, shape)
    dst = int8blas.concat([x, y], -1)

    def onednn_call() -> tuple[Any, Any]:
        result = np.empty_like(dst)
        return OneDNN().concat(x, y, result), lambda: result

    def torch_call() -> tuple[Any, Any]:
        torch, _ = torch_tensors(threads)
        sources = [torch.from_numpy(array) for array in (x, y)]
        result = torch.empty(dst.shape, dtype=torch.uint8)
        return partial(torch.cat, sources, -1, out=result), result.numpy

    calls = {
        "int8blas": partial(int8blas.concat, [x, y], -1, out=dst),
        "int8blas, other scales": partial(int8blas.concat, [x, y], -1, scales=SCALES, out=np.empty_like(dst)),
        "NumPy": partial(np.concatenate, [x, y], -1, out=np.empty_like(dst)),
    }
    return calls | timed(dst, {"oneDNN": onednn_call, "torch": torch_call}), 4 * x.size


def eltwise(algorithm: str, shape: tuple[int, ...], threads: int) -> tuple[Calls, int]:
    (x,) = random_images(shape)
    options = {"scales": {"src": SCALES[0], "dst": 1 / 256}}
    op = int8blas.Eltwise(algorithm)
    dst = int8blas.eltwise(x, op, **options)

    def torch_call() -> tuple[Any, Any]:
        torch, sources = torch_tensors(threads, x)
        run = partial(torch.sigmoid, *sources)  # its scale is 1 / 256
        return run, lambda: run().int_repr().numpy()

    calls = {"int8blas": partial(int8blas.eltwise, x, op, **options, out=dst)}
    return calls | timed(dst, {"torch": torch_call} if algorithm == "logistic" else {}), 2 * x.size


if __name__ == "__main__":
    cases: list[tuple[object, Any]] = []
    for shape in SHAPES:
        name = "x".join(map(str, shape))
        cases += [
            (f"add: {name}", partial(binary, "add", (), shape)),
            (f"add and ReLU: {name}", partial(binary, "add", (int8blas.ReLU(),), shape)),
            (f"mul: {name}", partial(binary, "mul", (), shape)),
            (f"sum: {name}", partial(total, shape)),
            (f"concat along channels, twice {name}", partial(concat, shape)),
            (f"logistic: {name}", partial(eltwise, "logistic", shape)),
            (f"gelu_erf: {name}", partial(eltwise, "gelu_erf", shape)),
        ]
    bandwidth.run(__doc__, cases, budget=1.0)
