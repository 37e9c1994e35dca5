"""Operators of ai.onnx.ml: trees, linear models and others. :mod:`reference` has more operators of ai.onnx.ml.

All rows go down all trees at the same time, level by level. Sums add the trees in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from int8blas.onnx.elementwise import sigmoid
from int8blas.onnx.graph import Array
from int8blas.onnx.limits import allowed
from int8blas.onnx.linear import matmul
from int8blas.onnx.normalization import softmax
from int8blas.onnx.table import LEARNING, Call, Operator, Site

# The comparisons by mode, and the functions by aggregate. TreeEnsemble stores positions in MODES and AGGREGATES.
MODES: dict[str, np.ufunc] = {
    "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal,
}  # fmt: skip
AGGREGATES: dict[str, np.ufunc] = {"AVERAGE": np.add, "SUM": np.add, "MIN": np.minimum, "MAX": np.maximum}
# The value of a target for which no leaf has a weight.
ABSENT = {"MIN": np.inf, "MAX": -np.inf}


def softmax_zero(scores: Array) -> Array:
    """Apply softmax, but with x * e**-max in place of e**(x - max) for |x| up to 1e-7."""
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.where(np.abs(scores) > 1e-7, np.exp(scores - top), scores * np.exp(-top))
    total = e.sum(-1, keepdims=True)
    return np.asarray(np.where(total == 0, 0.5, e / total))


def probit(scores: Array) -> Array:
    """Return the inverse of the normal distribution function, by Winitzki's formula with onnxruntime's numbers."""
    x = 2 * scores - 1
    log = np.log((1 - x) * (1 + x))
    half = 2 / (3.14159 * 0.147) + 0.5 * log
    return np.asarray(1.41421356 * np.copysign(np.sqrt(np.sqrt(half * half - log / 0.147) - half), x), scores.dtype)


TRANSFORMS: dict[str, Callable[[Array], Array]] = {
    "NONE": np.asarray, "SOFTMAX": softmax, "LOGISTIC": sigmoid, "SOFTMAX_ZERO": softmax_zero, "PROBIT": probit,
}  # fmt: skip


def given(attributes: Mapping[str, Any], name: str) -> Array:
    """Return an attribute of float32 numbers, or the tensor attribute that may replace it."""
    tensor = attributes.get(f"{name}_as_tensor")
    return np.asarray(attributes.get(name, ()), np.float32) if tensor is None else tensor


def descent(
    roots: Sequence[int], features: Array, splits: Array, modes: Array, children: Array, missing: Array
) -> Callable[[Array], Array]:
    """Return the function that finds the leaf of each row in each tree. `children` has two children for each node,
    first the child for a false comparison. A leaf is its own child, and has the mode -1."""
    used, compare = sorted({*modes.tolist()} - {-1}), [*MODES.values()]
    if used and used[-1] >= len(MODES):
        raise NotImplementedError("nodes_modes of a tree must be comparisons, got BRANCH_MEMBER")
    after, start, depth, tracks = children.reshape(-1), np.asarray(roots)[:, None], 0, missing.any()
    level, width = start, int(features.max(initial=0)) + 1
    while (inner := modes[level] >= 0).any():
        level, depth = np.flatnonzero(np.bincount(children[level[inner]].reshape(-1))), depth + 1
        if depth > len(modes):
            raise ValueError("a node of a tree must not be its own descendant, got a cycle")

    def leaves(x: Array) -> Array:
        if x.shape[1] < width:
            raise ValueError(f"rows must have at least {width} features, got shape {x.shape}")
        elements, firsts, found = x.reshape(-1), np.arange(len(x)) * x.shape[1], np.repeat(start, len(x), 1)
        for _ in range(depth):  # take is twice as fast as an index
            value, split = elements.take(features.take(found) + firsts), splits.take(found)
            if len(used) > 1:
                right = np.choose(np.maximum(modes[found], 0), [function(value, split) for function in compare])
            else:
                right = compare[used[0]](value, split)
            if tracks:
                right |= np.isnan(value) & missing.take(found)
            found = after.take(2 * found + right)
        return found

    return leaves


def nodes_of(a: Mapping[str, Any], entries: str) -> tuple[Callable[[Array], Array], int, Any]:
    """Return the function that finds leaves, the number of nodes, and the leaf of each weight, from the attributes of
    an operator. `entries` is the prefix of the weights' attributes in old versions."""
    count, features = len(a["nodes_featureids"]), np.asarray(a["nodes_featureids"])
    missing = np.asarray(a.get("nodes_missing_value_tracks_true") or np.zeros(count), bool)
    if "tree_roots" in a:
        leaves = np.arange(count, count + len(a["leaf_targetids"]))
        sides = [np.asarray(a[f"nodes_{side}nodeids"]) + count * np.asarray(a[f"nodes_{side}leafs"], bool)
                 for side in ("false", "true")]  # fmt: skip
        zeros = np.zeros(leaves.size, int)
        children = np.concatenate([np.stack(sides, 1), np.stack([leaves, leaves], 1)])
        modes = np.concatenate([a["nodes_modes"].astype(int), zeros - 1])
        features, missing = (np.concatenate([each, zeros.astype(each.dtype)]) for each in (features, missing))
        splits = np.concatenate([a["nodes_splits"], zeros.astype(a["nodes_splits"].dtype)])
        return descent(a["tree_roots"], features, splits, modes, children, missing), len(children), leaves
    places = {pair: i for i, pair in enumerate(zip(a["nodes_treeids"], a["nodes_nodeids"], strict=True))}
    modes = np.array([-1 if mode == "LEAF" else [*MODES, mode].index(mode) for mode in a["nodes_modes"]])
    children = np.array([
        (i, i) if modes[i] < 0 else (places[tree, no], places[tree, yes])
        for i, (tree, no, yes) in enumerate(
            zip(a["nodes_treeids"], a["nodes_falsenodeids"], a["nodes_truenodeids"], strict=True)
        )
    ])  # fmt: skip
    roots = sorted({*range(count)} - {*children[modes >= 0].reshape(-1).tolist()})
    leaves = np.array([places[pair] for pair in zip(a[f"{entries}_treeids"], a[f"{entries}_nodeids"], strict=True)])
    return descent(roots, features, given(a, "nodes_values"), modes, children, missing), count, leaves


def scoring(a: Mapping[str, Any], entries: str, targets: int, ids: Any, weights: Array, aggregate: str) -> Call:
    """Return the function that aggregates the weights of each row's leaves, in the order of the trees."""
    leaves_of, count, leaves = nodes_of(a, entries)
    table = np.full(allowed((count, targets), weights.dtype), ABSENT.get(aggregate, 0), weights.dtype)
    function, base = AGGREGATES[aggregate], given(a, "base_values")
    function.at(table, (leaves, np.asarray(ids)), weights)

    def scores(x: Array) -> Array:
        dtype = np.float64 if x.dtype == np.float64 else np.float32
        found = leaves_of(np.atleast_2d(x).astype(dtype, copy=False))
        total = function.accumulate(table[found], 0, dtype)[-1]  # reduce's order depends on the number of rows
        if aggregate == "AVERAGE":
            total = total / dtype(len(found))
        total = np.where(np.isinf(total), 0, total) if aggregate in ABSENT else total
        return np.asarray(total + base[:targets] if base.size else total, dtype)

    return scores


def tree_ensemble(_: Site, *, aggregate_function: int = 1, post_transform: int = 0, **a: Any) -> Call:
    transform, aggregate = [*TRANSFORMS.values()][post_transform], [*AGGREGATES][aggregate_function]
    scores = scoring(a, "", a.get("n_targets", 1), a["leaf_targetids"], a["leaf_weights"], aggregate)
    return lambda x: transform(scores(x))


def regressor(_: Site, *, aggregate_function: str = "SUM", post_transform: str = "NONE", **a: Any) -> Call:
    weights, ids = given(a, "target_weights"), a["target_ids"]
    scores = scoring(a, "target", a.get("n_targets", max(ids) + 1), ids, weights, aggregate_function)
    return lambda x: np.asarray(TRANSFORMS[post_transform](scores(x)), np.float32)


def labelled(a: Mapping[str, Any], ints: str) -> Array:
    """Return the labels of classes."""
    names = a.get("classlabels_strings")
    return np.array(names, object) if names else np.array(a.get(ints, ()), np.int64)


def of_one_score(y: Array, post_transform: str, positive: bool) -> Array:
    """Return the scores of both classes from the score of the second class, as onnxruntime does."""
    if post_transform == "LOGISTIC":
        return sigmoid(np.concatenate([-y, y], 1))
    return np.concatenate([1 - y if positive else -y, y], 1)


def classifier(_: Site, *, post_transform: str = "NONE", **a: Any) -> Call:
    """Return labels and scores. If all weights are of one of two classes, the second class wins with a score above 0.5,
    or above 0 if weights may be negative. A class for which no leaf of a row has a weight gets the score 0."""
    labels, weights, ids = labelled(a, "classlabels_int64s"), given(a, "class_weights"), a["class_ids"]
    one, positive = labels.size == 2 and len({*ids}) == 1, bool((weights >= 0).all())
    alone, base = one and ids[0] == 0, given(a, "base_values").size
    if one and base and (base > 1 or not alone or post_transform not in {"NONE", "LOGISTIC"}):
        raise NotImplementedError(
            "base_values must be a single number, class_ids 0 and post_transform NONE or LOGISTIC if all weights are "
            f"of one class, got {base} base_values, class_ids {ids[0]} and {post_transform}"
        )
    scores = scoring(a, "class", 1 if alone else labels.size, ids, weights, "SUM")

    def call(x: Array) -> tuple[Array, Array]:
        y = scores(x)
        chosen = (y[:, -1] > (0.5 if positive else 0)).astype(int) if one else np.argmax(y, 1)
        y = of_one_score(y, post_transform, positive) if alone else TRANSFORMS[post_transform](y)
        return labels[chosen], np.asarray(y, np.float32)

    return call


def linear(a: Mapping[str, Any], x: Array, targets: int) -> Array:
    """Return products with the coefficients, plus the intercepts, in float32."""
    weights = np.float32(a["coefficients"]).reshape(targets, -1)
    y = matmul(np.atleast_2d(x).astype(np.float32, copy=False), weights.T)
    return y + np.float32(a["intercepts"]) if a.get("intercepts") else y


def linear_regressor(x: Array, *, targets: int = 1, post_transform: str = "NONE", **a: Any) -> Array:
    return TRANSFORMS[post_transform](linear(a, x, targets))


def linear_classifier(x: Array, *, post_transform: str = "NONE", **a: Any) -> tuple[Array, Array]:
    labels = labelled(a, "classlabels_ints")
    y = linear(a, x, len(a["coefficients"]) // x.shape[-1])
    if y.shape[1] == 1 and labels.size == 2:
        return labels[(y[:, 0] > 0).astype(int)], of_one_score(y, post_transform, True)
    return labels[np.argmax(y, 1)], TRANSFORMS[post_transform](y)


def scaler(x: Array, *, offset: Sequence[float], scale: Sequence[float]) -> Array:
    return np.asarray((x.astype(np.float32) - np.array(offset, np.float32)) * np.array(scale, np.float32))


def normalizer(x: Array, *, norm: Literal["MAX", "L1", "L2"] = "MAX") -> Array:
    """Divide rows by their largest element, the sum of magnitudes, or the length. A row with divisor 0 is unchanged."""
    x = x.astype(np.float32)
    size = x.max(-1, keepdims=True) if norm == "MAX" else np.linalg.norm(x, int(norm[1]), -1, keepdims=True)
    return np.asarray(x / np.where(size == 0, 1, size), np.float32)


def zip_map(x: Array, *, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()) -> Any:
    """Return a dict for each row."""
    return [dict(zip(classlabels_strings or classlabels_int64s, row, strict=True)) for row in x.tolist()]


PREPARED: dict[str, Callable[..., Any]] = {
    "TreeEnsemble": tree_ensemble, "TreeEnsembleClassifier": classifier, "TreeEnsembleRegressor": regressor,
}  # fmt: skip
OTHERS: dict[str, Callable[..., Any]] = {
    "LinearClassifier": linear_classifier, "LinearRegressor": linear_regressor, "Normalizer": normalizer,
    "Scaler": scaler, "ZipMap": zip_map,
}  # fmt: skip
OPERATORS = [
    *(Operator(name, function, domain=LEARNING, prepared=True) for name, function in PREPARED.items()),
    *(Operator(name, function, domain=LEARNING) for name, function in OTHERS.items()),
]
