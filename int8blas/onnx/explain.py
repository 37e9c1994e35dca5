"""Explain a model's plan: list each call, its arithmetic, and its share of the run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from int8blas.onnx import dynamic, integer, microsoft, reference
from int8blas.onnx.graph import Node
from int8blas.onnx.plan import Plan
from int8blas.onnx.table import DOMAIN

# Operators with quantized inputs or results, and their domains.
INT8 = {row.kind for row in (*integer.OPERATORS, *dynamic.OPERATORS, *microsoft.OPERATORS)} | {f"{DOMAIN}.Table"}
# The arithmetic of operators that other packages compute.
OTHERS = {f"{DOMAIN}.Onnxruntime": "onnxruntime", **{row.kind: "onnx" for row in reference.OPERATORS}}


def is_int8(node: Node) -> bool:
    """Return whether a node's operator takes or returns int8 tensors, or multiplies in int8."""
    return node.kind in INT8 or (node.kind == f"{DOMAIN}.StoredMatMul" and bool(node.attributes.get("dynamic")))


class Call(NamedTuple):
    """One call of a plan.

    Parameters
    ----------
    node : str
        The node's name in the file, or the name of its first output.
    operator : str
        The operator with its domain.
    arithmetic : str
        "int8" for operators that take or return int8 tensors, "onnxruntime" for nodes that onnxruntime computes, "onnx"
        for operators of onnx's reference implementation, and "other" for other operators. The last bits of
        onnxruntime's results depend on the CPU.
    seconds : float or None
        The call's time. The time is 0 if the results depend on shapes alone and the plan remembers them. Without a run,
        the time is None. In a subgraph the time is the sum over all runs of the subgraph. The time of an If, Loop or
        Scan does not include the time of its subgraphs.
    nodes : tuple of str
        The nodes of the file that the call computes.
    reason : str
        The reason why an operator that could be quantized is not quantized, else "".
    """

    node: str
    operator: str
    arithmetic: str
    seconds: float | None
    nodes: tuple[str, ...] = ()
    reason: str = ""


class ModelExplanation(tuple[Call, ...]):
    """The calls of a plan in their order. Calls of a subgraph follow their If, Loop or Scan. The string is a table by
    operator, and then the reasons why operators that could be quantized are not quantized."""

    __slots__ = ()

    def __str__(self) -> str:
        counts = Counter((call.operator, call.arithmetic) for call in self)
        spent: Counter[tuple[str, str]] = Counter()
        for call in self:
            spent[call.operator, call.arithmetic] += call.seconds or 0.0  # type: ignore[assignment]
        total = sum(spent.values())
        rows = sorted(counts, key=lambda row: (-spent[row], -counts[row], row))
        width = max([len(operator) for operator, _ in rows], default=0)
        lines = []
        for operator, arithmetic in rows:
            share = f"  {spent[operator, arithmetic] / total:6.1%}" if total else ""
            lines.append(f"{counts[operator, arithmetic]:5}  {operator:{width}}  {arithmetic:5}{share}".rstrip())
        reasons = Counter((call.operator, call.reason) for call in self if call.reason)
        if reasons:
            lines.append("not in bytes:")
        lines.extend(f"{count:5}  {operator}: {reason}" for (operator, reason), count in reasons.most_common())
        return "\n".join(lines)


def explained(plan: Plan, arguments: Sequence[Any] | None) -> ModelExplanation:
    """Explain a plan. With arguments, run the plan once and report the times."""
    return ModelExplanation(calls_of(plan, None if arguments is None else plan.timed(arguments)))


def calls_of(plan: Plan, times: Mapping[int, float] | None) -> Iterator[Call]:
    """Yield the calls of a plan in their order. The calls of a subgraph follow the call of its node."""
    for step in plan.steps:
        node, plans = step.node, step.plans.values()
        seconds = None
        if times is not None:
            inside = sum(times.get(id(inner.node), 0.0) for each in plans for inner in each.steps)
            seconds = max(times.get(id(node), 0.0) - inside, 0.0)
        arithmetic = "int8" if is_int8(node) else OTHERS.get(node.kind, "other")
        yield Call(node.label, node.kind, arithmetic, seconds, node.parts or (node.label,), node.reason)
        for each in plans:
            yield from calls_of(each, times)
