"""The contestants of the benchmarks, in addition to `int8blas._bench`: every installed int8 library.

A new peer is one module with a function `peers()` that returns its `Peer` objects or raises `UnavailableError`, and its
name in the list of its benchmark. `int8blas._bench.peers` describes the peers of the GEMM.
"""

from __future__ import annotations

from int8blas._bench.peers import FLOAT32, INT8, short_name


def _here(*names: str) -> tuple[str, ...]:
    return tuple(f"{__name__}.{name}" for name in names)


# In this order in the tables. peers.onednn has the dnnl_gemm of int8blas._bench as well.
GEMM = (
    *_here("onednn", "mkl"),
    *(module for module in INT8 if short_name(module) != "onednn_gemm"),
    *_here("openvino_matmul", "litert"),
    *FLOAT32,
)
LINEAR = _here(
    "onednn_linear", "torch_linear", "onnxruntime_linear", "openvino_linear", "litert_linear", "scipy_linear"
)
CONVOLUTION = _here(
    "onednn_convolution",
    "torch_convolution",
    "onnxruntime_convolution",
    "openvino_convolution",
    "litert_convolution",
    "scipy_convolution",
)
ENCODER = _here("torch_encoder", "onnxruntime_encoder")
RECURRENT = _here("onednn_recurrent", "torch_recurrent", "onnxruntime_recurrent", "openvino_recurrent")
