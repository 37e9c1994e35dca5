"""Lookup tables. If all operators between two 8-bit tensors are element-wise and have constant operands, each element
of the later tensor depends on one element of the earlier tensor. At load the nodes compute a table with the results of
all 256 bytes, so a table gives the bits of the nodes. A run looks up the results. For example, the seven nodes of a
HardSwish become one pass over bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from int8blas.onnx.elementwise import table
from int8blas.onnx.exact import bytes_of
from int8blas.onnx.graph import Array, Node
from int8blas.onnx.operators import TABLE
from int8blas.onnx.shape import identity
from int8blas.onnx.table import DOMAIN, Call, Site
from int8blas.onnx.types import BYTES


class Function(NamedTuple):
    """A tensor that is a function of one int8 or uint8 tensor, its source: each element depends only on the element at
    its position. `values` has the result for each byte of the source, indexed by its bits as a number from 0 to 255.
    The tensor has at least `ndim` dimensions, the largest number of dimensions of a constant operand. `parts` are the
    nodes that compute the tensor."""

    source: str
    dtype: np.dtype[Any]
    values: Array
    ndim: int
    parts: tuple[str, ...] = ()


class Tables:
    """The lookup tables of a plan that is being created."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}

    def argument(self, node: Node, position: int, constants: Mapping[str, Any]) -> Function | None:
        """Return the function that computes a variable input of a node from an 8-bit tensor. Return the identity
        if the input itself is an 8-bit tensor with one constant zero point, and None for any other input."""
        name = node.inputs[position]
        zero_at = TABLE.traits_of(node).zero_points.get(position)
        if name in self.functions or zero_at is None or zero_at >= len(node.inputs):
            return self.functions.get(name)
        zero = constants.get(node.inputs[zero_at])
        if not isinstance(zero, np.ndarray) or zero.dtype not in BYTES or zero.size != 1:
            return None
        return Function(name, zero.dtype, bytes_of(zero.dtype), 0)

    def follow(self, node: Node, call: Call, constants: Mapping[str, Any]) -> tuple[Call, tuple[str], Node] | None:
        """Record a node, after all nodes that it needs. If the node ends a function from an int8 tensor to int8, return
        the call that replaces the function."""
        if not TABLE.traits_of(node).elementwise or len(node.outputs) != 1:
            return None
        arguments: list[Array | None] = []
        functions: list[Function] = []
        ndim, traits = 0, TABLE.traits_of(node)
        # Scales and zero points do not change the number of dimensions.
        operands = traits.zero_points or ({0} if node.operator == "QuantizeLinear" else range(len(node.inputs)))
        for i, name in enumerate(node.inputs):
            value = constants.get(name) if name else None
            if name and value is None:
                function = self.argument(node, i, constants)
                if function is None:
                    return None
                functions.append(function)
                value, ndim = function.values, max(ndim, function.ndim)
            elif value is not None:
                if not isinstance(value, np.ndarray) or value.size != 1:
                    return None
                ndim = max(ndim, value.ndim if i in operands else 0)
            arguments.append(value)
        if len({function.source for function in functions}) != 1:
            return None
        source, dtype = functions[0][:2]
        with np.errstate(all="ignore"):
            values = np.asarray(call(*arguments))
        if values.size != 256:
            return None
        values = np.ascontiguousarray(values.reshape(-1))
        before = dict.fromkeys(part for function in functions for part in function.parts)
        parts = (*before, *(node.parts or (node.label,)))
        self.functions[node.outputs[0]] = Function(source, dtype, values, ndim, parts)
        if values.dtype not in BYTES:
            return None
        if values.dtype == dtype and not ndim and (values == bytes_of(dtype)).all():
            return identity, (source,), Node("Identity", "", (source,), node.outputs, {}, node.name, parts)
        looked_up = Node("Table", DOMAIN, (source,), node.outputs, {}, node.name, parts)
        return table(Site(looked_up), values=values, dtype=dtype, ndim=ndim), (source,), looked_up
