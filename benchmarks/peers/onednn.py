"""oneDNN: dnnl_gemm through ctypes, its matmul and inner-product primitives through onednn_shim.c."""

from __future__ import annotations

import ctypes
import os
from functools import partial
from pathlib import Path

import numpy as np

import native
from peers.base import Peer, Prepared, UnavailableError, compare, find_library
from shapes import Operands, Problem

DISTRIBUTION = "onednn-cpu-gomp"

# int8blas's ISAs in the terms of ONEDNN_MAX_CPU_ISA.
ISAS = {"avx2": "AVX2", "avxvnni": "AVX2_VNNI", "avx512bw": "AVX512_CORE", "avx512vnni": "AVX512_CORE_VNNI"}


def limit_isa(isa: str) -> None:
    """Hold oneDNN, also the one inside torch, to int8blas's ISA of that name; to be called before its first use."""
    if isa in ISAS:
        os.environ["ONEDNN_MAX_CPU_ISA"] = ISAS[isa]


class _Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int), ("hash", ctypes.c_char_p)]


class _OneDNN(Peer):
    library = "oneDNN"

    def __init__(self, name: str, kind: str, version: str) -> None:
        self.name, self.kind, self.version = name, kind, version

    def supports(self, problem: Problem) -> bool:
        return problem.signs in ("u8s8", "s8s8")


class Gemm(_OneDNN):
    """dnnl_gemm_u8s8s32 and dnnl_gemm_s8s8s32 (row-major)."""

    def __init__(self, library: ctypes.CDLL, version: str) -> None:
        super().__init__("oneDNN gemm", "plain", version)
        self._functions = {"u8s8": library.dnnl_gemm_u8s8s32, "s8s8": library.dnnl_gemm_s8s8s32}

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        p = operands.problem
        c = np.empty((p.m, p.n), np.int32)
        offset = ctypes.c_int32(0)
        zero = ctypes.c_int8(0)
        size = ctypes.c_int64
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (operands.a, operands.b, c)]
        run = partial(
            self._functions[p.signs],
            *(ctypes.c_char(letter) for letter in (b"N", b"N", b"F")),  # trans_a, trans_b, offsetc
            *(size(p.m), size(p.n), size(p.k), ctypes.c_float(1)),
            *(pointers[0], size(p.k), zero),
            *(pointers[1], size(p.n), zero),
            *(ctypes.c_float(0), pointers[2], size(p.n), ctypes.byref(offset)),
        )
        return Prepared(run, lambda: compare(operands, c), keep=(operands, offset))


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
    """Owns a plan of the shim for a `problem`; flags and sizes as in that struct, which names the arrays too."""

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


class Primitive(_OneDNN):
    """The matmul or inner-product primitive; packed: with weights in the layout that the primitive asks for."""

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


def load_library() -> tuple[ctypes.CDLL, Path, str]:
    """oneDNN, where it lies, and its version."""
    path = find_library(DISTRIBUTION, "libdnnl.so")
    library = ctypes.CDLL(str(path))
    library.dnnl_version.restype = ctypes.POINTER(_Version)
    numbers = library.dnnl_version().contents
    return library, path, f"{numbers.major}.{numbers.minor}.{numbers.patch}"


def build_shim(path: Path) -> ctypes.CDLL:
    """onednn_shim.c, linked with the library at `path`."""
    return native.build("onednn_shim.c", str(path), f"-Wl,-rpath,{path.parent}")


def load_shim() -> tuple[ctypes.CDLL, str]:
    """onednn_shim.c, compiled for the library that is installed, and its version."""
    _, path, version = load_library()
    try:
        return build_shim(path), version
    except native.BuildError as error:
        raise UnavailableError(str(error)) from None


def peers(reuse_c: bool) -> list[Peer]:
    library, path, version = load_library()
    found: list[Peer] = [Gemm(library, version)]
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
