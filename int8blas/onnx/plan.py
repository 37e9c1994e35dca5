"""Compile a graph to a flat list of calls when it is loaded: sort nodes, fold constants, bind functions, and free each
tensor after its last use.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from int8blas.core.calls import Program
from int8blas.onnx.graph import Array, Graph, Network, Node, Value
from int8blas.onnx.limits import TooLargeError, limited
from int8blas.onnx.lookups import Tables
from int8blas.onnx.operators import TABLE
from int8blas.onnx.packed import Packed
from int8blas.onnx.shape import VIEWS, View
from int8blas.onnx.sizes import Memory, derived
from int8blas.onnx.table import NEWEST, Call, Operator, Site, bind, check_attributes

# A constant result is not folded if it has more than FOLDED_BYTES bytes and more than FOLDED_TIMES the bytes of its
# inputs. With FOLDED_BYTES and FOLDED_TIMES, the size of the file limits the memory of the model. The factor 8 allows
# int8 weights that are cast to int64.
FOLDED_BYTES = 1 << 24
FOLDED_TIMES = 8
# The operators whose results are always views. A Gather of several indices is no view.
VIEWED = VIEWS.keys() - {"Gather"}


# A call whose tensors have no slots yet: the function, the names of its arguments, and the node.
Bound: TypeAlias = tuple[Call, tuple[str, ...], Node]


class Step(NamedTuple):
    """A call: a function, the slots of its arguments and results, the slots that are free after the call, the node."""

    call: Call
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    freed: tuple[int, ...]
    node: Node

    @property
    def plans(self) -> dict[str, Plan]:
        """The plans of the node's subgraphs, by the names of its attributes."""
        return {name: value for name, value in self.node.attributes.items() if isinstance(value, Plan)}


# For each domain, the reason why int8blas lacks operators, and a remedy.
REASONS = {
    "ai.onnx.ml": "onnxruntime has all operators of ai.onnx.ml: floats='onnxruntime' runs them",
    "com.microsoft.nchwc": "com.microsoft.nchwc is a layout for one kind of CPU: let onnxruntime optimize the file at "
                           "most to the level extended",
}  # fmt: skip

# The errors that operators raise for graphs and inputs that violate their specification.
WRONG = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError)


def wrong(error: Exception, note: str) -> ValueError:
    """Return an error that blames the graph or an input, and names the original error."""
    result = ValueError(f"the graph or an input is invalid for its operators: {type(error).__name__}: {error}")
    result.add_note(note)
    return result


def described(error: Exception, node: Node) -> Exception:
    """Return the error to raise if a call raises an error, with a note that names the node of the call."""
    # onnx's reference implementation raises RuntimeError, which is also the base of NotImplementedError.
    if isinstance(error, (*WRONG, RuntimeError)) and not isinstance(error, NotImplementedError):
        result = wrong(error, f"in {node}")
        result.__cause__ = error
        return result
    error.add_note(f"in {node}")
    return error


@dataclass
class Plan:
    """The steps of a run, and the slots for tensors. Slot 0 is None, for absent inputs. Constants are read-only."""

    steps: list[Step]
    constants: list[Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    # The steps whose results depend on the inputs' shapes alone. No other step writes the slots of these steps.
    derived: frozenset[int] = frozenset()
    memory: Memory = field(default_factory=Memory)
    # The declared names, types and shapes of the outputs.
    results: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        for constant in self.constants:
            if isinstance(constant, np.ndarray):
                constant.flags.writeable = False
        calls = [tuple(step) for step in self.steps]
        others = [call for i, call in enumerate(calls) if i not in self.derived]
        remembered = [slot for i in sorted(self.derived) for slot in self.steps[i].outputs if slot]
        program = Program(
            calls, others, self.constants, self.inputs, self.outputs, remembered, self.memory, described
        )  # fmt: skip
        # Several threads may run a plan at the same time, because a run changes only the plan's record of shapes.
        self.run: Callable[[Sequence[Any]], list[Any]] = program.run

    @functools.cached_property
    def updates(self) -> dict[int, int]:
        """The outputs that a run may write to the memory of an input: a dict from the position of the output to the
        position of the input. No node reads an input in the dict, except the node that updates the input."""
        result = {}
        for i, slot in enumerate(self.inputs):
            readers = []
            for step in self.steps:
                if step.plans:
                    return {}
                if slot in step.inputs and not TABLE.traits_of(step.node).of_shape:
                    readers.append(step)
                if slot in step.outputs:
                    break  # another tensor has the slot from here on
            for at, source in TABLE.traits_of(readers[0].node).updates.items() if len(readers) == 1 else ():
                step = readers[0]
                if step.inputs[source] == slot and step.inputs.count(slot) == 1 and len(step.outputs) > at:
                    result.update({j: i for j, output in enumerate(self.outputs) if output == step.outputs[at] != 0})
        return result

    def timed(self, arguments: Sequence[Any]) -> dict[int, float]:
        """Return the seconds of each call in one run, by the id of its node, except calls with remembered results. The
        time of a call in a subgraph is the sum over all runs of the subgraph, and is also part of the time of the node
        that has the subgraph."""
        times: dict[int, float] = {}

        def measured(step: Step) -> Call:
            def with_time(*inputs: Any) -> Any:
                start = time.perf_counter()
                results = step.call(*inputs)
                times[id(step.node)] = times.get(id(step.node), 0.0) + time.perf_counter() - start
                return results

            return with_time

        self.watched(measured).run(arguments)
        return times

    def watched(self, around: Callable[[Step], Call]) -> Plan:
        """Return the plan with its calls wrapped by `around`, including calls in subgraphs."""
        steps = []
        for step in self.steps:
            plans = {name: plan.watched(around) for name, plan in step.plans.items()}
            inner = step._replace(call=functools.partial(step.call, **plans)) if plans else step
            steps.append(step._replace(call=around(inner)))
        return replace(self, steps=steps)


def check_operators(network: Network) -> None:
    """Check that the table has every operator in the file's version, and that nodes have the operators' attributes. The
    error names all missing operators, with their nodes."""
    for domain, newest in NEWEST.items():
        if network.opsets.get(domain, 0) > newest:
            version = network.opsets[domain]
            raise ValueError(f"operators of domain {domain!r} must be of a version up to {newest}, got {version}")
    missing: dict[str, list[str]] = {}
    domains = set()
    for node in network.graph.walk():
        operator = TABLE.find(node, network.opsets)
        if operator is not None:
            check_attributes(operator, node)
        else:
            domains.add(node.domain)
            kind = f"{node.kind} of version {network.opsets.get(node.domain, 'not given')}"
            missing.setdefault(kind, []).append(node.name or (node.outputs or ("",))[0])
    if missing:
        lines = "; ".join(f"{kind}: {', '.join(map(repr, nodes))}" for kind, nodes in missing.items())
        reasons = "".join(f"; {REASONS[domain]}" for domain in sorted(domains & REASONS.keys()))
        raise NotImplementedError(f"operators must be in the table of docs/howto/onnx.md, got {lines}{reasons}")


def make_plan(network: Network) -> Plan:
    """Return the plan of a network whose operators have been checked."""
    return Planner(network.opsets).plan(network.graph)


class Planner:
    """The builder of the plans of a graph and its subgraphs."""

    def __init__(self, opsets: Mapping[str, int]) -> None:
        self.opsets = opsets
        self.packed = Packed()
        self.later: dict[tuple[str, ...], list[Callable[[], None]]] = {}

    def plan(self, graph: Graph, captured: Sequence[str] = (), outer: Mapping[str, Any] | None = None) -> Plan:
        """Return the plan of a graph, whose nodes are sorted. The plan of a subgraph has the constants of the graphs
        around it, `outer`, and takes captured tensors that are not constant as further inputs. A subgraph may never
        run, so its nodes raise errors only when they run."""
        constants: dict[str, Any] = {**(outer or {}), **graph.constants}
        calls: list[Bound] = []
        tables = Tables()
        for node in graph.nodes:
            operator = TABLE.find(node, self.opsets)
            assert operator is not None  # check_operators
            known = {i: constants[name] for i, name in enumerate(node.inputs) if name in constants}
            call, names, node = self.bound(operator, node, known, constants)
            folded = None
            if len(known) == len(names) - names.count(""):
                with contextlib.nullcontext() if outer is None else contextlib.suppress(Exception):
                    folded = fold(operator, call, node, names, constants)
            if folded is None:
                looked_up = tables.follow(node, call, constants)
                if looked_up is not None:
                    del self.later[node.outputs]
                calls.append(looked_up or (call, names, node))
            else:
                constants.update(zip(node.outputs, folded, strict=False))
        inputs = [*(value.name for value in graph.inputs), *captured]
        outputs = [value.name for value in graph.outputs]
        calls = used_calls(calls, outputs)
        for *_, node in calls:
            for function in self.later.get(node.outputs, ()):
                function()
        facts = [(node, names, self.is_pure(node)) for _, names, node in calls]
        from_shapes = derived(facts, inputs, constants.keys()) - {*outputs}
        kept = {"", *constants, *from_shapes}  # values that runs keep; all inputs of a View except the first are kept
        calls = [(View([(call, len(names) - 1)], TABLE.traits_of(node).reshapes), names, node)
                 if node.kind in VIEWED and kept.issuperset(names[1:]) else (call, names, node)
                 for call, names, node in calls]  # fmt: skip
        return assembled(calls, constants, inputs, graph.outputs, from_shapes)

    def is_pure(self, node: Node) -> bool:
        """Return whether a node always computes the same results from the same inputs, and has no subgraph."""
        operator = TABLE.find(node, self.opsets)
        return operator is not None and operator.pure and not operator.control

    def bound(self, operator: Operator, node: Node, known: Mapping[int, Array], constants: Mapping[str, Any]) -> Bound:
        """Bind a node's function to the names of its arguments. Replace the node's graphs by plans."""
        names = node.inputs
        try:
            if operator.control:
                inside = set().union(*(graph.captured() for graph in node.subgraphs()))
                captured = sorted(inside - constants.keys())
                outer = {name: constants[name] for name in inside & constants.keys()}
                plans = {name: self.plan(value, captured, outer) for name, value in node.attributes.items()
                         if isinstance(value, Graph)}  # fmt: skip
                node, names = replace(node, attributes={**node.attributes, **plans}), (*names, *captured)
            site = Site(node, known, self.opsets.get(node.domain, 1), self.packed)
            call, self.later[node.outputs] = bind(operator, site), site.later
        except Exception as error:
            error.add_note(f"in {node}")
            raise
        return call, names, node


def used_calls(calls: Sequence[Bound], outputs: Sequence[str]) -> list[Bound]:
    """Return the calls whose results are used."""
    names = set(outputs)
    result = []
    for bound in reversed(calls):
        if names.intersection(bound[2].outputs) - {""}:
            result.append(bound)
            names.update(bound[1])
    return result[::-1]


def fold(
    operator: Operator, call: Call, node: Node, names: Sequence[str], constants: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """Return the results of a node with constant arguments, or None if each run must call it."""
    if not operator.pure or not all(name in constants or not name for name in names):
        return None
    arguments = [constants.get(name) for name in names]
    most = max(FOLDED_BYTES, FOLDED_TIMES * sum(getattr(argument, "nbytes", 0) for argument in arguments))
    try:
        with limited(most), np.errstate(all="ignore"):
            results = call(*arguments)
    except TooLargeError:
        return None
    except Exception as error:
        error.add_note(f"in {node}")
        raise
    results = results if type(results) is tuple else (results,)
    if sum(getattr(result, "nbytes", 0) for result in results) > most:
        return None
    return tuple(np.asarray(result) if isinstance(result, np.generic) else result for result in results)


def assembled(
    calls: Sequence[Bound], constants: Mapping[str, Any], inputs: Sequence[str], results: tuple[Value, ...],
    from_shapes: set[str],
) -> Plan:  # fmt: skip
    """Assemble calls to a plan: assign slots to names, and reuse a slot after its tensor's last use, except slots of
    tensors that depend on shapes alone."""
    slots: dict[str, int] = {"": 0}
    values: list[Any] = [None]
    outputs = [value.name for value in results]
    for name in inputs:
        slots[name] = len(values)
        values.append(None)
    used = {name for _, names, _ in calls for name in names}.union(outputs)
    for name, value in constants.items():
        if name in used and name not in slots:
            slots[name] = len(values)
            values.append(value)
    last = {name: i for i, (_, names, _) in enumerate(calls) for name in names}
    kept = {"", *constants, *outputs, *from_shapes}
    free: list[int] = []
    steps = []
    for i, (call, names, node) in enumerate(calls):
        for name in node.outputs:
            if name:
                slots[name] = free.pop() if free and name not in from_shapes else len(values)
                if slots[name] == len(values):
                    values.append(None)
        given = tuple(slots[name] for name in names)
        # If no later call reads a tensor, free its slot after this call. The slot of an output that no call reads is
        # free right after the call.
        ended = {name for name in names if last[name] == i} | {name for name in node.outputs if name not in last}
        freed = tuple(slots[name] for name in sorted(ended - kept))
        made = tuple(slots[name] for name in node.outputs)
        steps.append(Step(call, given, made, (*freed, 0) if 0 in made else freed, node))
        free.extend(freed)
    remembered = frozenset(i for i, step in enumerate(steps) if from_shapes.issuperset(filter(None, step.node.outputs)))
    before, after = (tuple(slots[name] for name in names) for names in (inputs, outputs))
    return Plan(steps, values, before, after, remembered, results=results)
