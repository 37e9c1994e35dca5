"""MKL's cblas_gemm_s8u8s32 and its packed form, through ctypes.

With CblasRowMajor the left operand is unsigned and the right operand signed, despite the name: the C interface swaps
the operands to call the column-major routine.
"""

from __future__ import annotations

import ctypes
from functools import partial

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared, UnavailableError, compare, find_library
from int8blas._bench.shapes import Operands, Problem

ROW_MAJOR, NO_TRANS, PACKED, FIX_OFFSET, B_MATRIX = 101, 111, 151, 173, 162
GNU_THREADING = 3


class Gemm(Peer):
    """cblas_gemm_s8u8s32, or with B packed cblas_gemm_s8u8s32_compute."""

    library = "MKL"

    def __init__(self, library: ctypes.CDLL, version: str, kind: str) -> None:
        self.name = "MKL packed" if kind == "packed" else "MKL"
        self.kind, self.version, self._library = kind, version, library

    def set_threads(self, threads: int) -> None:
        self._library.MKL_Set_Num_Threads(ctypes.c_int(threads))

    def supports(self, problem: Problem) -> bool:
        return problem.signs == "u8s8"

    def prepare(self, operands: Operands, threads: int) -> Prepared:
        p = operands.problem
        c = np.empty((p.m, p.n), np.int32)
        offset = ctypes.c_int32(0)
        a, b, out = (ctypes.c_void_p(x.ctypes.data) for x in (operands.a, operands.b, c))
        m, n, k = (ctypes.c_int(size) for size in (p.m, p.n, p.k))
        zero = ctypes.c_int8(0)
        function, layout, keep = self._library.cblas_gemm_s8u8s32, NO_TRANS, None
        if self.kind == "packed":
            function, layout = self._library.cblas_gemm_s8u8s32_compute, PACKED
            size = self._library.cblas_gemm_s8u8s32_pack_get_size(B_MATRIX, m, n, k)
            keep = np.empty(size + 64, np.uint8)
            packed = ctypes.c_void_p(keep.ctypes.data + -keep.ctypes.data % 64)
            self._library.cblas_gemm_s8u8s32_pack(ROW_MAJOR, B_MATRIX, NO_TRANS, m, n, k, b, n, packed)
            b = packed
        run = partial(
            function,
            *(ROW_MAJOR, NO_TRANS, layout, FIX_OFFSET, m, n, k, ctypes.c_float(1)),
            *(a, k, zero, b, n, zero, ctypes.c_float(0), out, n, ctypes.byref(offset)),
        )
        return Prepared(run, lambda: compare(operands, c), keep=(operands, offset, keep))


def peers(reuse_c: bool) -> list[Peer]:
    path = find_library("mkl", "libmkl_rt.so")
    try:
        # MKL loads its other libraries by name; the GNU threading layer shares OpenMP with the other contestants.
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise UnavailableError(f"{path.name} does not load: {error}") from None
    library.MKL_Set_Threading_Layer(GNU_THREADING)
    library.cblas_gemm_s8u8s32_pack_get_size.restype = ctypes.c_size_t
    text = ctypes.create_string_buffer(200)
    library.mkl_get_version_string(text, 200)
    words = text.value.decode().split("Version ")[-1].split()
    return [Gemm(library, words[0].removesuffix("-Product") if words else "?", kind) for kind in ("plain", "packed")]
