"""oneDNN: dnnl_gemm, and its matmul and inner-product primitives through onednn_shim.c."""

from __future__ import annotations

import ctypes
from functools import partial
from pathlib import Path

import numpy as np
from int8blas._bench.peers import onednn_gemm
from int8blas._bench.peers.base import Peer, Prepared, UnavailableError, compare
from int8blas._bench.peers.onednn_gemm import OneDNN
from int8blas._bench.shapes import Operands

import native

_OPERANDS = [
    *((name, ctypes.c_void_p) for name in ("src", "weights", "dst")),
    *((name, ctypes.c_void_p) for name in ("bias", "src_scale", "weight_scales", "dst_scale")),
    *((name, ctypes.c_void_p) for name in ("src_zero_point", "dst_zero_point")),
]


class ProductStruct(ctypes.Structure):
    """product_t of the shim."""

    create = "onednn_create_product"
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("inner_product", "packed", "src_signed", "outputs_first")),
        *((name, ctypes.c_int64) for name in ("m", "n", "k")),
        *_OPERANDS,
    ]


class ConvolutionStruct(ctypes.Structure):
    """convolution_t of the shim."""

    create = "onednn_create_convolution"
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("batch", "h", "w", "ic", "kh", "kw", "oc", "oh", "ow")),
        *((name, ctypes.c_int64) for name in ("stride", "top", "left", "dilation", "groups")),
        *_OPERANDS,
    ]


class RecurrentStruct(ctypes.Structure):
    """recurrent_t of the shim."""

    create = "onednn_create_recurrent"
    _fields_ = [
        ("gru", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("t", "n", "input", "units", "layers", "directions")),
        *((name, ctypes.c_void_p) for name in ("src", "weights_layer", "weights_iter", "dst")),
        *((name, ctypes.c_void_p) for name in ("bias", "weights_scale", "data_scale", "data_shift")),
    ]


class Plan:
    """The owner of a plan of the shim for a `problem`, whose struct has flags and sizes, and names the arrays."""

    def __init__(
        self,
        shim: ctypes.CDLL,
        problem: type[ProductStruct] | type[ConvolutionStruct] | type[RecurrentStruct],
        sizes: dict[str, int],
        arrays: dict[str, np.ndarray],
    ) -> None:
        self._shim, self._arrays = shim, arrays
        pointers = {name: array.ctypes.data for name, array in arrays.items()}
        create = getattr(shim, problem.create)
        create.restype = ctypes.c_void_p
        self.pointer = ctypes.c_void_p(create(ctypes.byref(problem(**sizes, **pointers))))
        if not self.pointer:
            raise RuntimeError("oneDNN has no primitive for this problem")

    def __del__(self) -> None:
        if self.pointer:
            self._shim.onednn_destroy(self.pointer)


class Primitive(OneDNN):
    """The matmul or inner-product primitive; packed: with weights in the layout that the primitive chooses."""

    def __init__(self, shim: ctypes.CDLL, version: str, operation: str, kind: str) -> None:
        super().__init__(f"oneDNN {operation}{' packed' * (kind == 'packed')}", kind, version)
        self._shim, self._inner_product = shim, operation == "inner product"

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        p = operands.problem
        c = np.empty((p.m, p.n), np.int32)
        sizes = {"inner_product": self._inner_product, "packed": self.kind == "packed", "m": p.m, "n": p.n, "k": p.k}
        arrays = {"src": operands.a, "weights": operands.b, "dst": c}
        plan = Plan(self._shim, ProductStruct, {**sizes, "src_signed": p.signs == "s8s8"}, arrays)
        return Prepared(partial(self._shim.onednn_run, plan.pointer), lambda: compare(operands, c), keep=plan)


def build_shim(path: Path) -> ctypes.CDLL:
    """onednn_shim.c, linked with the library at `path`."""
    return native.build("onednn_shim.c", str(path), f"-Wl,-rpath,{path.parent}")


def load_shim() -> tuple[ctypes.CDLL, str]:
    """Return onednn_shim.c, compiled for the installed library, and the library's version."""
    _, path, version = onednn_gemm.load_library()
    try:
        return build_shim(path), version
    except native.BuildError as error:
        raise UnavailableError(str(error)) from None


def peers(reuse_c: bool) -> list[Peer]:
    library, path, version = onednn_gemm.load_library()
    found: list[Peer] = [onednn_gemm.Gemm(library, version)]
    try:
        shim = build_shim(path)
    except native.BuildError as error:
        print(f"oneDNN's primitives are left out: {error}")
        return found
    found += [
        Primitive(shim, version, "matmul", "plain"),
        Primitive(shim, version, "matmul", "packed"),
        Primitive(shim, version, "inner product", "packed"),
    ]
    return found
