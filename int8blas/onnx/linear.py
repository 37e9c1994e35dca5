"""Products of floats, by NumPy's BLAS; with weights that are stored in 8 bits by int8blas."""

from __future__ import annotations

import numpy as np

from int8blas.layers.inner_product import InnerProduct
from int8blas.layers.real_product import RealProduct
from int8blas.onnx.graph import Array
from int8blas.onnx.table import DOMAIN, Call, Operator, Site


def matmul(a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(a, b), a.dtype)


def gemm(
    a: Array, b: Array, c: Array | None = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,  # noqa: N803
) -> Array:  # fmt: skip
    y = np.asarray((a.T if transA else a) @ (b.T if transB else b))
    if alpha != 1:
        y *= y.dtype.type(alpha)
    if c is not None and beta != 0:
        y += c if beta == 1 else c * y.dtype.type(beta)
    return y


def einsum(*arrays: Array, equation: str) -> Array:
    return np.asarray(np.einsum(equation, *arrays, optimize=len(arrays) > 1), arrays[0].dtype)


def prepared_matmul(site: Site) -> Call:
    """Weights that are a matrix multiply all rows at once: one product, not one for each matrix of a stack."""
    if 1 not in site.constants or site.constants[1].ndim != 2:
        return matmul
    columns = site.constants[1].shape[1]

    def of_rows(a: Array, b: Array) -> Array:
        if a.ndim < 3:
            return matmul(a, b)
        return np.asarray(a.reshape(-1, a.shape[-1]) @ b, a.dtype).reshape(*a.shape[:-1], columns)

    return of_rows


def stored_matmul(site: Site, *, dynamic: int = 0) -> Call:
    """The product with a matrix of int8 and scales of its columns, in float32; or, if `dynamic`, in bytes, with a scale
    for each row of the other factor.
    """
    weights, scale = site.constants[1], site.constants[2].reshape(-1)
    if dynamic:
        layer: Call = InnerProduct.dynamic(weights.T, scales={"weights": scale if scale.size > 1 else scale[0]})
    else:
        layer = RealProduct(weights, scale)
    return lambda a, *_: layer(a)


OPERATORS = [
    Operator("MatMul", prepared_matmul, 1, prepared=True),
    Operator("Gemm", gemm, 7),
    Operator("Einsum", einsum, 12),
    Operator("StoredMatMul", stored_matmul, 1, domain=DOMAIN, prepared=True),
]
