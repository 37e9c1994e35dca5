"""Float products. Products of float32 use int8blas, because the threads of NumPy's BLAS keep their CPUs busy for a
while after each product, and int8blas's threads need these CPUs. Products of 16-bit floats are computed in float32, and
each result is rounded once. Other types use NumPy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from int8blas.elementwise.functions import eltwise
from int8blas.layers.inner_product import InnerProduct
from int8blas.layers.real_product import RealProduct, real_matmul
from int8blas.onnx.graph import Array
from int8blas.onnx.table import DOMAIN, HEAVY, SAME_TYPE, Call, Operator, Site, passes_to
from int8blas.onnx.types import SINGLE, is_short, wide
from int8blas.stage.attributes import Attributes, Binary

# The maximum number of rows for which a copy of a Gemm's weights pays off. The copy makes a Gemm of 320 x 320 1.4x
# faster for 30 rows and 1.05x faster for 200 rows (AVX-512, Zen 5).
FEW_ROWS = 128


def matmul(a: Array, b: Array) -> Array:
    if a.dtype == SINGLE == b.dtype and a.ndim > 1 and b.ndim > 1:
        return real_matmul(a, b)
    return np.asarray(np.matmul(a, b), a.dtype) if not is_short(a) else wide(matmul)(a, b)


def gemm(
    a: Array, b: Array, c: Array | None = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,  # noqa: N803
) -> Array:  # fmt: skip
    y = matmul(a.T if transA else a, b.T if transB else b)
    if alpha != 1:
        y *= y.dtype.type(alpha)
    if c is not None and beta != 0:
        y += c if beta == 1 else c * y.dtype.type(beta)
    return y


@passes_to(gemm)
def prepared_gemm(site: Site, **attributes: Any) -> Call:
    """Transpose constant weights once, for sources with few rows. Give a constant bias the dimensions of the result,
    because NumPy then adds it to one row in half the time."""
    weights, bias = site.constants.get(1), site.constants.get(2)
    general: Call = wide(functools.partial(gemm, **attributes))
    if weights is None or weights.dtype != np.float32 or weights.ndim != 2:
        return general
    transposed = functools.cache(lambda: np.ascontiguousarray(weights.T))
    plain: Call = functools.partial(gemm, **{**attributes, "transB": 0})
    bias = None if bias is None else bias[(None,) * (2 - bias.ndim)]

    def call(a: Array, b: Array, c: Array | None = None) -> Array:
        if a.dtype != SINGLE:
            return np.asarray(general(a, b, c))
        if attributes.get("transB"):
            b = transposed() if a.size <= FEW_ROWS * b.shape[1] else b.T
        return plain(a, b, c if bias is None else bias)

    return call


@wide
def einsum(*arrays: Array, equation: str) -> Array:
    return np.asarray(np.einsum(equation, *arrays, optimize=len(arrays) > 1), arrays[0].dtype)


def stored_matmul(site: Site, *, block: int = 0, dynamic: int = 0, ops: Any = ()) -> Call:
    """Multiply by an int8 matrix with a scale for each column, or for each `block` of k and each column. The product is
    in float32. With `dynamic` the product is in int8, with a scale for each row of the other operand. Add the bias, if
    it is given, and apply post-ops."""
    packed = site.packed.matrix(site.constants[1])
    scale, bias = site.constants[2], site.constants.get(3)
    if dynamic:
        scales = {"weights": scale if scale.size > 1 else scale.item()}
        layer: Call = InnerProduct.dynamic(
            packed, bias, scales=scales, attributes=Attributes(post_ops=[*ops]), group=block or None
        )  # fmt: skip
        return lambda a, *_: layer(a)
    layer = RealProduct(packed, scale)
    behind = [*([] if bias is None else [Binary(operand=bias, algorithm="add")]), *ops]
    if not behind:
        return lambda a, *_: layer(a)

    def call(a: Array, *_: Array) -> Array:
        y = layer(a)
        eltwise(y, behind, out=y)
        return y

    return call


OPERATORS = [
    Operator("MatMul", matmul, 1, traits=HEAVY),
    Operator("Gemm", prepared_gemm, 7, prepared=True, traits=HEAVY),
    Operator("Einsum", einsum, 12, traits=HEAVY),
    Operator("StoredMatMul", stored_matmul, 1, domain=DOMAIN, prepared=True, traits=SAME_TYPE),
]
