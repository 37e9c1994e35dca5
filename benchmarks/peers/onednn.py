"""oneDNN: dnnl_gemm through ctypes, its matmul and inner-product primitives through onednn_shim.c."""

from __future__ import annotations

import ctypes
import os
from functools import partial

import numpy as np

import native
from peers.base import Peer, Prepared, compare, find_library
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


class _Plan:
    """Owns a plan of the shim."""

    def __init__(self, shim: ctypes.CDLL, *arguments: object) -> None:
        self._shim = shim
        self.pointer = ctypes.c_void_p(shim.onednn_create(*arguments))
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
        flags = (int(flag) for flag in (self._inner_product, self.kind == "packed", p.signs == "s8s8"))
        sizes = (ctypes.c_int64(size) for size in (p.m, p.n, p.k))
        pointers = (ctypes.c_void_p(x.ctypes.data) for x in (operands.a, operands.b, c))
        plan = _Plan(self._shim, *flags, *sizes, *pointers)
        run = partial(self._shim.onednn_run, plan.pointer)
        return Prepared(run, lambda: compare(operands, c), keep=(operands, plan))


def peers(reuse_c: bool) -> list[Peer]:
    path = find_library(DISTRIBUTION, "libdnnl.so")
    library = ctypes.CDLL(str(path))
    library.dnnl_version.restype = ctypes.POINTER(_Version)
    numbers = library.dnnl_version().contents
    version = f"{numbers.major}.{numbers.minor}.{numbers.patch}"
    found: list[Peer] = [Gemm(library, version)]
    try:
        shim = native.build("onednn_shim.c", str(path), f"-Wl,-rpath,{path.parent}")
    except native.BuildError as error:
        print(f"oneDNN's primitives are left out: {error}")
        return found
    shim.onednn_create.restype = ctypes.c_void_p
    found += [
        Primitive(shim, version, "matmul", "plain"),
        Primitive(shim, version, "matmul", "packed"),
        Primitive(shim, version, "inner product", "packed"),
    ]
    return found
