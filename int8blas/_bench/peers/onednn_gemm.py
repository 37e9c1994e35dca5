"""oneDNN's dnnl_gemm, through ctypes."""

from __future__ import annotations

import ctypes
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from int8blas._bench.peers.base import Peer, Prepared, compare, find_library
from int8blas._bench.shapes import Operands

DISTRIBUTION = "onednn-cpu-gomp"

# int8blas's ISAs in the terms of ONEDNN_MAX_CPU_ISA.
ISAS = {
    "avx2": "AVX2",
    "avxvnni": "AVX2_VNNI",
    "avx512bw": "AVX512_CORE",
    "avx512vnni": "AVX512_CORE_VNNI",
    "amx": "AVX512_CORE_AMX",
}


def limit_isa(isa: str) -> None:
    """Limit oneDNN, also in torch, to int8blas's ISA of this name. Call this function before oneDNN is first used."""
    if isa in ISAS:
        os.environ["ONEDNN_MAX_CPU_ISA"] = ISAS[isa]


class _Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int), ("hash", ctypes.c_char_p)]


class OneDNN(Peer):
    library = "oneDNN"

    def __init__(self, name: str, kind: str, version: str) -> None:
        self.name, self.kind, self.version = name, kind, version

    def supports(self, problem: Any) -> bool:
        return problem.signs in ("u8s8", "s8s8")


class Gemm(OneDNN):
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


def version_of(library: ctypes.CDLL) -> str:
    """Return the version of oneDNN, in the form that oneDNN prints."""
    library.dnnl_version.restype = ctypes.POINTER(_Version)
    numbers = library.dnnl_version().contents
    return f"{numbers.major}.{numbers.minor}.{numbers.patch}"


def load_library() -> tuple[ctypes.CDLL, Path, str]:
    """Return oneDNN's library, the path of its file, and its version."""
    path = find_library(DISTRIBUTION, "libdnnl.so")
    library = ctypes.CDLL(str(path))
    return library, path, version_of(library)


def peers(reuse_c: bool) -> list[Peer]:
    library, _, version = load_library()
    return [Gemm(library, version)]
