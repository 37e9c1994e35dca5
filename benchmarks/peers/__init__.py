"""The contestants of the benchmark: int8blas, float32 BLAS, and every int8 library that is installed.

A new peer is one module with a function `peers(reuse_c)` that returns its `Peer` objects or raises `UnavailableError`,
and one line in `MODULES`.
"""

from __future__ import annotations

import importlib

from peers.base import Peer, Prepared, UnavailableError
from peers.onednn import limit_isa

__all__ = ["MODULES", "Peer", "Prepared", "UnavailableError", "limit_isa", "load"]

# In this order in the tables.
MODULES = ("onednn", "mkl", "torch_int_mm", "onnxruntime_matmul", "openvino_matmul", "litert", "blas_f32")


def load(skip: set[str], reuse_c: bool) -> tuple[list[Peer], dict[str, str]]:
    """All peers that are there, and for the modules without any the reason.

    reuse_c: let functions that can either make a new result or fill a given one fill a given one.
    """
    found: list[Peer] = []
    missing: dict[str, str] = {}
    for name in MODULES:
        if name in skip:
            missing[name] = "skipped"
            continue
        try:
            found += importlib.import_module(f"peers.{name}").peers(reuse_c)
        except UnavailableError as reason:
            missing[name] = str(reason)
        except Exception as error:  # a broken installation of a peer must not end the benchmark
            missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return found, missing
