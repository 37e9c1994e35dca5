"""What a model's plan is: each call, whether it is of bytes or of floats, and its share of the time of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from int8blas.onnx import dynamic, integer, microsoft
from int8blas.onnx.graph import Node
from int8blas.onnx.plan import Plan
from int8blas.onnx.table import DOMAIN

# Operators of whose inputs some are bytes.
OF_BYTES = {(row.domain, row.name) for row in (*integer.OPERATORS, *dynamic.OPERATORS, *microsoft.OPERATORS)} - {
    (microsoft.DOMAIN, name) for name in ("Gelu", "BiasGelu", "FastGelu")
} | {(DOMAIN, "Table")}


def is_of_bytes(node: Node) -> bool:
    """Whether a node's operator takes or makes bytes, or multiplies them."""
    multiplies = (node.domain, node.operator) == (DOMAIN, "StoredMatMul") and node.attributes.get("dynamic")
    return bool(multiplies) or (node.domain, node.operator) in OF_BYTES


class Call(NamedTuple):
    """One call of a plan.

    Parameters
    ----------
    node : str
        The name of the node in the file, or of its first output.
    operator : str
        With its domain.
    arithmetic : str
        "int8" for operators that take or make bytes, "other" for all others.
    seconds : float or None
        What the call took, 0 if its results follow from the shapes of the inputs and are remembered; None without a
        run. A call of a subgraph has the time of all its turns, and If, Loop and Scan have what is left.
    nodes : tuple of str
        The nodes of the file that it stands for.
    reason : str
        Why it is no operator of bytes, if its operator could be one; else "".
    """

    node: str
    operator: str
    arithmetic: str
    seconds: float | None
    nodes: tuple[str, ...] = ()
    reason: str = ""


class ModelExplanation(tuple[Call, ...]):
    """The calls of a plan in their order, those of subgraphs behind their If, Loop or Scan; as a string, a table by
    operator, and why operators that could be of bytes are not."""

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
    """The calls of a plan, with the times of one run if there are arguments for it."""
    return ModelExplanation(calls_of(plan, None if arguments is None else plan.timed(arguments)))


def calls_of(plan: Plan, times: Mapping[int, float] | None) -> Iterator[Call]:
    """The calls of a plan in their order, those of subgraphs behind the node that has these."""
    for step in plan.steps:
        node, plans = step.node, step.plans.values()
        seconds = None
        if times is not None:
            inside = sum(times.get(id(inner.node), 0.0) for each in plans for inner in each.steps)
            seconds = max(times.get(id(node), 0.0) - inside, 0.0)
        arithmetic = "int8" if is_of_bytes(node) else "other"
        yield Call(node.label, node.kind, arithmetic, seconds, node.parts or (node.label,), node.reason)
        for each in plans:
            yield from calls_of(each, times)
