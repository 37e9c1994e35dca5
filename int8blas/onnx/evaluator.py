"""Quantized operators for onnx's reference evaluator."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from int8blas.onnx import fused, integer, microsoft
from int8blas.onnx.table import Operator, Site, bind, check_attributes


def new_ops() -> list[type]:
    """Return the quantized operators as classes for ``onnx.reference.ReferenceEvaluator``.

    Returns
    -------
    list of type
        Subclasses of ``onnx.reference.op_run.OpRun``, including the domain com.microsoft, which onnx lacks.

    Raises
    ------
    ImportError
        If the package onnx is not installed.

    Examples
    --------
    >>> import numpy as np, int8blas.onnx, onnx.parser, onnx.reference
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 18]>
    ...     product (uint8[n, 3] a, uint8[3, 2] b) => (int32[n, 2] y) { y = MatMulInteger(a, b) }''')
    >>> evaluator = onnx.reference.ReferenceEvaluator(model, new_ops=int8blas.onnx.new_ops())
    >>> evaluator.run(None, {"a": np.full((1, 3), 255, np.uint8), "b": np.full((3, 2), 255, np.uint8)})
    [array([[195075, 195075]], dtype=int32)]
    """
    base = import_module("onnx.reference.op_run").OpRun
    return [evaluated(base, row) for row in (*integer.OPERATORS, *microsoft.OPERATORS, *fused.OPERATORS)]


def evaluated(base: type, row: Operator) -> type:
    """Return a subclass of `base` that computes an operator. The class takes each input as variable, because onnx's
    evaluator does not say which inputs are constant."""

    def run(self: Any, *inputs: Any, **_attributes: Any) -> tuple[Any, ...]:
        reader = import_module("int8blas.onnx.reader")
        node = reader.Reader(import_module("onnx"), None, {}).node(self.onnx_node)
        check_attributes(row, node)
        given = (*inputs, *[None] * (len(node.inputs) - len(inputs)))
        results = bind(row, Site(node))(*given)
        return results if isinstance(results, tuple) else (results,)

    return type(row.name, (base,), {"op_domain": row.domain, "_run": run})
