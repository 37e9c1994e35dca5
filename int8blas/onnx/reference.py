"""Operators that call onnx's reference implementation, and so need the package onnx at run time."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from int8blas.onnx.table import LEARNING, Call, Operator, Site
from int8blas.onnx.types import wide


def referred(site: Site, **attributes: Any) -> Call:
    """Return onnx's own function for a node."""
    if len(attributes.get("prob_a", ())) > 1:
        raise NotImplementedError("prob_a must have one number, as only floats='onnxruntime' computes probabilities of "
                                  f"three or more classes, got {len(attributes['prob_a'])}")  # fmt: skip
    node, reduction = site.node, attributes.get("reduction", "mean")
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"attribute 'reduction' of {node} must be one of none, sum, mean, got {reduction!r}")
    onnx = import_module("onnx")
    load_op = import_module(f"onnx.reference.ops{'.aionnxml' if node.domain else ''}").load_op
    proto = onnx.helper.make_node(node.operator, node.inputs, node.outputs, domain=node.domain)
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            value = onnx.numpy_helper.from_array(value)
        proto.attribute.append(onnx.helper.make_attribute(name, value))
    parameters = {"log": lambda *_: None, "opsets": {node.domain: site.opset}, "verbose": 0, "new_ops": None}
    operator = load_op(node.domain, node.operator, site.opset)(proto, parameters)
    accepted: Callable[..., tuple[Any, ...]] = ACCEPTED.get(node.operator, lambda *given: given)

    def call(*inputs: Any) -> Any:
        shape = EMPTY[node.operator](attributes, *inputs) if node.operator in EMPTY else ()
        if 0 in shape:
            return np.empty(shape, inputs[0].dtype if inputs[0].dtype.kind == "f" else np.float32)
        used = operator
        if attributes.get("max_skip_count", 0) > inputs[0].size:
            # onnx's loop goes through all skips, also skips longer than the input
            used = copy.copy(operator)
            used.max_skip_count = inputs[0].size
        results = tuple(of_objects(result) for result in used.run(*accepted(*inputs)))
        return results[0] if len(results) == 1 else results

    return call if node.operator in AS_WRITTEN else wide(call)


def of_objects(result: Any) -> Any:
    """Return strings in arrays of objects, like all other operators."""
    text = isinstance(result, (str, np.ndarray)) and np.asarray(result).dtype.kind in "UT"
    return np.asarray(result, object) if text else result


# Functions that adapt inputs that the specification or onnxruntime accepts and onnx's implementation refuses.
ACCEPTED: dict[str, Callable[..., tuple[Any, ...]]] = {
    "STFT": lambda signal, *others: (signal[..., None] if signal.ndim == 2 else signal, *others),
    "FeatureVectorizer": lambda *inputs: tuple(x.astype(np.float32) for x in inputs),
}
# Functions that compute the shape of an empty result, for operators whose implementation in onnx cannot create it.
EMPTY: dict[str, Callable[..., tuple[int, ...]]] = {
    "Col2Im": lambda _, x, image, block, *__: (x.shape[0], x.shape[1] // math.prod(block.tolist()), *image.tolist()),
    "TfIdfVectorizer": lambda attributes, x: (*x.shape[:-1], 1 + max(attributes["ngram_indexes"])),
}
# Operators whose tests in onnx round to 16-bit floats between steps.
AS_WRITTEN = {"Attention"}
# The operators, each with the first of its versions that onnx's implementation computes correctly.
NAMES = {
    "AffineGrid": 20, "BlackmanWindow": 17, "CenterCropPad": 18, "Col2Im": 18, "DFT": 17, "DeformConv": 19, "Det": 11,
    "HammingWindow": 17, "HannWindow": 17, "MaxUnpool": 9, "MelWeightMatrix": 17,
    "NegativeLogLikelihoodLoss": 12, "RotaryEmbedding": 23, "STFT": 17,
    "SoftmaxCrossEntropyLoss": 12, "StringConcat": 20, "StringNormalizer": 10, "StringSplit": 20, "RegexFullMatch": 20,
    "SwiGLU": 26, "TensorScatter": 24, "TfIdfVectorizer": 9, "Attention": 23,
}  # fmt: skip
# Operators of ai.onnx.ml.
LEARNED = {"ArrayFeatureExtractor": 1, "Binarizer": 1, "DictVectorizer": 1, "FeatureVectorizer": 1, "Imputer": 1,
           "LabelEncoder": 2, "OneHotEncoder": 1, "SVMClassifier": 1, "SVMRegressor": 1}  # fmt: skip
OPERATORS = [
    *(Operator(name, referred, since, prepared=True) for name, since in NAMES.items()),
    *(Operator(name, referred, since, domain=LEARNING, prepared=True) for name, since in LEARNED.items()),
]
