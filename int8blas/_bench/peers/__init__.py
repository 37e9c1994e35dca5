"""The contestants: int8blas, float32 BLAS, and int8 libraries that are installed.

A new peer is a module with a function `peers(reuse_c)`, which returns its `Peer` objects or raises `UnavailableError`.
With `reuse_c`, functions that can store to a given result do not create a new result. This package has the peers that
need no compiler and give an exact int32 result. The benchmarks of a checkout have more peers.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from int8blas._bench.peers.base import Peer, UnavailableError

# The order of the peers in the tables.
FLOAT32 = ("int8blas._bench.peers.blas_f32",)
INT8 = tuple(
    f"int8blas._bench.peers.{name}" for name in ("onednn_gemm", "torch_int_mm", "onnxruntime_matmul", "numkong_dots")
)


def short_name(module: str) -> str:
    return module.rpartition(".")[2]


def load(modules: Iterable[str], skip: set[str], *arguments: object) -> tuple[list[Peer], dict[str, str]]:
    """Return all available peers, and for each module without peers, by its short name, the reason."""
    found: list[Peer] = []
    missing: dict[str, str] = {}
    for module in modules:
        name = short_name(module)
        if name in skip:
            missing[name] = "skipped"
            continue
        try:
            found += importlib.import_module(module).peers(*arguments)
        except UnavailableError as reason:
            missing[name] = str(reason)
        except Exception as error:  # a broken installation of a peer must not end the benchmark
            missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return found, missing
