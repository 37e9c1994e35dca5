"""Operators of ai.onnx.ml."""

import importlib

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test.case import node as node_cases
from onnx.reference import ReferenceEvaluator
from onnx_models import check

import int8blas.onnx

RNG = np.random.default_rng(5)
X = RNG.normal(0, 1, (9, 4)).astype(np.float32)
TYPES = {"float32": 1, "float64": 11, "int64": 7, "object": 8}
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def model_of(operator, x, outputs=1, version=3, **attributes):
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, ["x"], names, domain="ai.onnx.ml", **attributes)
    ports = [helper.make_tensor_value_info("x", TYPES[x.dtype.name], x.shape)]
    graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name=name) for name in names])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def results(operator, x, outputs=1, **attributes):
    return int8blas.onnx.load(model_of(operator, x, outputs, **attributes)).run(None, {"x": x})


def forest(count, modes, targets, prefix="target"):
    """Return the attributes of random trees: a root, two inner nodes and four leaves each."""
    nodes = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                                   "missing_value_tracks_true")}  # fmt: skip
    leaves = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(count):
        for i in range(7):
            row = (tree, i, int(RNG.integers(4)), float(RNG.choice(X.ravel())), RNG.choice(modes) if i < 3 else "LEAF",
                   2 * i + 1, 2 * i + 2, int(RNG.integers(2)))  # fmt: skip
            for values, value in zip(nodes.values(), row, strict=True):
                values.append(value)
            if i >= 3:
                row = tree, i, int(RNG.choice(targets)), float(RNG.uniform(0.1, 1))
                for values, value in zip(leaves.values(), row, strict=True):
                    values.append(value)
    return {f"nodes_{name}": values for name, values in nodes.items()} | {
        f"{prefix}_{name}": values for name, values in leaves.items()
    }


@pytest.mark.parametrize("name", ["array_feature_extractor", "binarizer", "label_encoder", "tree_ensemble"])
def test_an_operator_passes_the_tests_of_onnx(name):
    importlib.import_module(f"{node_cases.__name__}.ai_onnx_ml.{name}")
    cases = [
        case for case in node_cases._NodeTestCases if case.model.graph.node[0].op_type == name.title().replace("_", "")
    ]
    assert cases
    for case in cases:
        if "set_membership" in case.name:
            with pytest.raises(NotImplementedError, match="got BRANCH_MEMBER"):
                check(case)
        else:
            check(case)


@pytest.mark.parametrize("modes", [["BRANCH_LEQ"], ["BRANCH_LT"], MODES])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trees_give_the_sums_of_the_reference(modes, aggregate, dtype):
    x = np.where(RNG.random(X.shape) < 0.2, np.nan, X).astype(dtype)
    attributes = forest(11, modes, [0, 1]) | {"n_targets": 2, "aggregate_function": aggregate}
    if len(modes) > 1:
        x = np.nan_to_num(x)  # the reference decides "not equal" for NaN by the flag alone
    model = model_of("TreeEnsembleRegressor", x, **attributes)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    (y,) = int8blas.onnx.load(model).run(None, {"x": x})
    assert y.dtype == np.float32
    present = np.abs(wanted) < 1e30  # the reference gives the largest number if no leaf has a target
    np.testing.assert_allclose(np.where(present, y, 0), np.where(present, wanted, 0), 1e-6, 1e-6)


def test_a_row_alone_has_the_same_bits():
    attributes = forest(300, ["BRANCH_LEQ"], [0]) | {"n_targets": 1}
    (together,) = results("TreeEnsembleRegressor", X, **attributes)
    for row, y in zip(X, together, strict=True):
        np.testing.assert_array_equal(results("TreeEnsembleRegressor", row[None], **attributes)[0][0], y)


def test_classes_of_trees_are_those_of_the_reference():
    attributes = forest(7, ["BRANCH_LEQ"], [0, 1, 2], "class") | {"classlabels_strings": ["a", "b", "c"]}
    model = model_of("TreeEnsembleClassifier", X, 2, post_transform="SOFTMAX", **attributes)
    labels, scores = ReferenceEvaluator(model).run(None, {"x": X})
    got, y = int8blas.onnx.load(model).run(None, {"x": X})
    assert got.tolist() == labels.tolist()
    np.testing.assert_allclose(y, scores, 1e-5, 1e-6)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_weights_of_one_class_decide_between_two(sign, transform):
    attributes = forest(3, ["BRANCH_LEQ"], [0], "class")
    attributes["class_weights"] = [sign * weight / 3 for weight in attributes["class_weights"]]
    sums = {f"target_{name}": attributes[f"class_{name}"] for name in ("treeids", "nodeids", "ids", "weights")}
    nodes = {name: value for name, value in attributes.items() if name.startswith("nodes")}
    (total,) = results("TreeEnsembleRegressor", X, n_targets=1, **nodes, **sums)
    labels, y = results(
        "TreeEnsembleClassifier", X, 2, post_transform=transform, classlabels_int64s=[4, 9], **attributes
    )
    assert labels.tolist() == np.where(total[:, 0] > (0.5 if sign > 0 else 0), 9, 4).tolist()
    raw = np.concatenate([1 - total if sign > 0 and transform == "NONE" else -total, total], 1)
    np.testing.assert_allclose(y, raw if transform == "NONE" else 1 / (1 + np.exp(-raw)), 1e-6)


@pytest.mark.parametrize("given", [
    {"base_values": [0.1, 0.2]}, {"base_values": [0.1], "post_transform": "SOFTMAX"},
    {"base_values": [0.1], "class_ids": [1] * 4},
])  # fmt: skip
def test_weights_of_one_class_take_one_base_value(given):
    attributes = forest(1, ["BRANCH_LEQ"], [0], "class") | {"classlabels_int64s": [4, 9]} | given
    with pytest.raises(NotImplementedError, match="base_values must be a single number"):
        int8blas.onnx.load(model_of("TreeEnsembleClassifier", X, 2, **attributes))


def test_a_tree_must_have_no_cycle():
    attributes = forest(1, ["BRANCH_LEQ"], [0])
    attributes["nodes_truenodeids"][1] = 1
    with pytest.raises(ValueError, match="must not be its own descendant, got a cycle"):
        int8blas.onnx.load(model_of("TreeEnsembleRegressor", X, n_targets=1, **attributes))
    attributes = forest(2, ["BRANCH_LEQ"], [0]) | {"nodes_featureids": [7] * 14}
    with pytest.raises(ValueError, match=r"rows must have at least 8 features, got shape \(9, 4\)"):
        results("TreeEnsembleRegressor", X, n_targets=1, **attributes)


def test_linear_models():
    w, c = RNG.normal(0, 1, (3, 4)).astype(np.float32), [0.5, -0.5, 0.1]
    wanted = X @ w.T + np.float32(c)
    (y,) = results("LinearRegressor", X, coefficients=w.ravel().tolist(), intercepts=c, targets=3)
    np.testing.assert_allclose(y, wanted, 1e-5, 1e-6)
    labels, y = results("LinearClassifier", X.astype(np.float64), 2, coefficients=w.ravel().tolist(), intercepts=c,
                        classlabels_strings=["a", "b", "c"], post_transform="SOFTMAX")  # fmt: skip
    assert labels.tolist() == np.array(["a", "b", "c"])[wanted.argmax(1)].tolist()
    np.testing.assert_allclose(y, np.exp(wanted) / np.exp(wanted).sum(1, keepdims=True), 1e-5)
    labels, y = results("LinearClassifier", X, 2, coefficients=w[0].tolist(), classlabels_ints=[3, 5],
                        post_transform="LOGISTIC")  # fmt: skip
    score = X @ w[0]
    assert labels.tolist() == np.where(score > 0, 5, 3).tolist()
    np.testing.assert_allclose(y, 1 / (1 + np.exp(np.stack([score, -score], 1))), 1e-5)


@pytest.mark.parametrize("x", [X, X.astype(np.float64), np.arange(36).reshape(9, 4), X[0]], ids=str)
def test_features_are_prepared(x):
    real = x.astype(np.float32)
    (y,) = results("Scaler", x, offset=[1.0, 2, 3, 4], scale=[2.0])
    np.testing.assert_array_equal(y, (real - np.float32([1, 2, 3, 4])) * 2, strict=True)
    for norm, size in {"MAX": real.max(-1), "L1": np.abs(real).sum(-1), "L2": np.sqrt((real**2).sum(-1))}.items():
        (y,) = results("Normalizer", x, norm=norm)
        np.testing.assert_allclose(y, real / size[..., None], 1e-5, strict=True)


LINE = {"coefficients": [1.0] * 8, "intercepts": [1.0, 2.0]}
NO_ROWS = {
    "LinearClassifier": (2, LINE | {"classlabels_ints": [1, 2], "post_transform": "SOFTMAX"}, [(0,), (0, 2)]),
    "LinearRegressor": (1, LINE | {"targets": 2}, [(0, 2)]),
    "Normalizer": (1, {"norm": "MAX"}, [(0, 4)]),
    "Scaler": (1, {"offset": [1.0], "scale": [2.0]}, [(0, 4)]),
    "TreeEnsembleClassifier": (2, forest(2, MODES, [0], "class") | {"classlabels_int64s": [1, 2]}, [(0,), (0, 2)]),
    "TreeEnsembleRegressor": (1, forest(2, MODES, [0, 1]) | {"n_targets": 2}, [(0, 2)]),
}


@pytest.mark.parametrize("operator", NO_ROWS)
def test_no_rows_give_no_results(operator):
    outputs, attributes, shapes = NO_ROWS[operator]
    assert [y.shape for y in results(operator, X[:0], outputs, **attributes)] == shapes


def test_a_map_for_each_row():
    assert results("ZipMap", X[:0], classlabels_strings=list("abcd")) == [[]]
    (y,) = results("ZipMap", X[:2], classlabels_strings=list("abcd"))
    assert y == [dict(zip("abcd", row, strict=True)) for row in X[:2].tolist()]


def test_a_support_vector_machine_is_the_references():
    attributes = {"coefficients": [1.0, -2, 0.5], "support_vectors": X[:3].ravel().tolist(), "n_supports": 3,
                  "rho": [0.3], "kernel_type": "RBF", "kernel_params": [0.2, 0.0, 3.0]}  # fmt: skip
    model = int8blas.onnx.load(model_of("SVMRegressor", X, **attributes))
    distances = ((X[:, None] - X[None, :3]) ** 2).sum(-1)
    wanted = np.exp(-0.2 * distances) @ np.array([1, -2, 0.5]) + 0.3
    np.testing.assert_allclose(model.run(None, {"x": X})[0][:, 0], wanted, 1e-5)
    assert [call.arithmetic for call in model.explain()] == ["onnx"]
    with pytest.raises(NotImplementedError, match="prob_a must have one number"):
        int8blas.onnx.load(model_of("SVMClassifier", X, 2, prob_a=[1.0, 2.0, 3.0]))
