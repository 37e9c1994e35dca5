"""The contestants of the benchmarks: int8blas, float32 BLAS, and every int8 library that is installed.

A new peer is one module with a function `peers()` that returns its `Peer` objects or raises `UnavailableError`, and one
word in the list of the benchmark it is for. Of the GEMM's peers, `peers(reuse_c)` says whether functions that can
either make a new result or fill a given one are to fill a given one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from peers.base import Peer, Prepared, UnavailableError
from peers.onednn import limit_isa

__all__ = [
    "CONVOLUTION",
    "ENCODER",
    "GEMM",
    "LINEAR",
    "RECURRENT",
    "Peer",
    "Prepared",
    "UnavailableError",
    "limit_isa",
    "load",
]

# In this order in the tables.
GEMM = ("onednn", "mkl", "torch_int_mm", "onnxruntime_matmul", "openvino_matmul", "litert", "blas_f32")
LINEAR = ("onednn_linear", "torch_linear", "onnxruntime_linear", "openvino_linear", "litert_linear", "scipy_linear")
CONVOLUTION = (
    "onednn_convolution",
    "torch_convolution",
    "onnxruntime_convolution",
    "openvino_convolution",
    "litert_convolution",
    "scipy_convolution",
)
ENCODER = ("torch_encoder", "onnxruntime_encoder")
RECURRENT = ("onednn_recurrent", "torch_recurrent", "onnxruntime_recurrent", "openvino_recurrent")


def load(modules: Iterable[str], skip: set[str], *arguments: object) -> tuple[list[Peer], dict[str, str]]:
    """All peers of the modules that are there, and for the modules without any the reason."""
    found: list[Peer] = []
    missing: dict[str, str] = {}
    for name in modules:
        if name in skip:
            missing[name] = "skipped"
            continue
        try:
            found += importlib.import_module(f"peers.{name}").peers(*arguments)
        except UnavailableError as reason:
            missing[name] = str(reason)
        except Exception as error:  # a broken installation of a peer must not end the benchmark
            missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return found, missing
