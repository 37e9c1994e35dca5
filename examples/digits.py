"""Handwritten digits in int8: train in float32, quantize, classify with exact int8 matrix products.

    python examples/digits.py            # needs scikit-learn and SciPy: pip install int8blas[examples]
    python examples/digits.py --quick    # fewer training epochs

A multilayer perceptron is trained on scikit-learn's digits (8 x 8 pixels of 0..16). Its weights become int8 and its
activations, which are never negative after ReLU, uint8. With R the largest absolute value of a tensor,

    Q_a = 255 / R_a           a_u8  = rne(Q_a * a)              activations (calibrated on the training images)
    Q_w = 127 / R_w           w_s8  = rne(Q_w * w)              weights, once
                              b_s32 = rne(Q_a * Q_w * b)        biases, once

where rne rounds half to even. Then one int8 product per layer gives x_s32 = a_u8 @ w_s8 + b_s32, which is about
Q_a * Q_w times the float32 layer's output.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import sgemm
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import int8blas

HIDDEN = (512, 512)
LARGEST_LOSS = 0.5  # percentage points of accuracy


@dataclass
class FloatLayer:
    weights: np.ndarray  # float32 (inputs, outputs)
    bias: np.ndarray  # float32 (outputs,)


@dataclass
class Int8Layer:
    weights: int8blas.PackedB  # int8 (inputs, outputs)
    bias: np.ndarray  # int32 (outputs,)
    requantize: np.float32  # from x_s32 to the next layer's u8 activations


def train(images: np.ndarray, labels: np.ndarray, epochs: int) -> list[FloatLayer]:
    model = MLPClassifier(HIDDEN, max_iter=epochs, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is fixed on purpose
        model.fit(images, labels)
    return [
        FloatLayer(weights.astype(np.float32), bias.astype(np.float32))
        for weights, bias in zip(model.coefs_, model.intercepts_, strict=True)
    ]


def float_activations(layers: list[FloatLayer], images: np.ndarray) -> list[np.ndarray]:
    """The input of every layer, and last the output: one score per digit."""
    activations = [images]
    for layer in layers[:-1]:
        activations.append(np.maximum(activations[-1] @ layer.weights + layer.bias, 0))
    return [*activations, activations[-1] @ layers[-1].weights + layers[-1].bias]


def quantize(layers: list[FloatLayer], training_images: np.ndarray) -> tuple[np.float32, list[Int8Layer]]:
    """The quantization factor of the images, and the int8 layers."""
    # Calibration: the largest activation that enters each layer, over the training set.
    inputs = float_activations(layers, training_images)[:-1]
    q_activations = [255 / activations.max() for activations in inputs]

    quantized = []
    for index, layer in enumerate(layers):
        q_a = q_activations[index]
        q_w = 127 / np.abs(layer.weights).max()
        weights = np.rint(q_w * layer.weights).astype(np.int8)
        bias = np.rint(q_a * q_w * layer.bias.astype(np.float64)).astype(np.int32)
        # The last layer's scores are only compared with each other: they need no scale.
        q_next = q_activations[index + 1] if index + 1 < len(layers) else 1.0
        # Packing rearranges the weights for the kernel once; all later products use the packed form.
        quantized.append(Int8Layer(int8blas.pack_b(weights), bias, np.float32(q_next / (q_a * q_w))))
    return np.float32(q_activations[0]), quantized


def to_uint8(x: np.ndarray, factor: np.float32) -> np.ndarray:
    """rne(factor * x), saturated to 0..255: quantization, and ReLU with it, because negative values become 0."""
    return np.clip(np.rint(x * factor), 0, 255).astype(np.uint8)


def int8_activations(q_images: np.float32, layers: list[Int8Layer], images: np.ndarray) -> list[np.ndarray]:
    """The uint8 input of every layer, and last the int32 scores."""
    activations = [to_uint8(images, q_images)]
    for index, layer in enumerate(layers):
        # offsetc="R": co has one value per column, here the bias of each output.
        x = int8blas.gemm_u8s8s32(1.0, activations[-1], layer.weights, offsetc="R", co=layer.bias)
        activations.append(x if index + 1 == len(layers) else to_uint8(x, layer.requantize))
    return activations


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    return 100 * float(np.mean(scores.argmax(axis=1) == labels))


def best_times(*functions: Callable[[], object], rounds: int = 50, calls: int = 5) -> list[float]:
    """The shortest time of each function in microseconds; they take turns, so that all run under the same
    conditions."""
    best = [np.inf] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            function()  # not timed: brings its own operands back into the cache
            start = time.perf_counter()
            for _ in range(calls):
                function()
            best[index] = min(best[index], (time.perf_counter() - start) / calls * 1e6)
    return best


def print_layers(
    float_layers: list[FloatLayer], layers: list[Int8Layer], a_f32: list[np.ndarray], a_u8: list[np.ndarray]
) -> None:
    """Time of each layer's product, int8 against float32, and the bytes of its weights."""
    print("\nlayer       M x N x K      sgemm   int8blas  speedup   float32      int8")
    totals = np.zeros(4)
    for index, (float_layer, layer) in enumerate(zip(float_layers, layers, strict=True)):
        # SciPy takes Fortran-ordered operands without a copy; int8blas takes any order.
        a, w = np.asfortranarray(a_f32[index]), np.asfortranarray(float_layer.weights)
        u8 = a_u8[index]
        float_time, int8_time = best_times(
            lambda a=a, w=w: sgemm(1.0, a, w),
            lambda u8=u8, layer=layer: int8blas.gemm_u8s8s32(1.0, u8, layer.weights, offsetc="R", co=layer.bias),
        )
        sizes = np.array([float_time, int8_time, w.nbytes, layer.weights.nbytes])
        totals += sizes
        print_line(str(index + 1), f"{len(u8)} x {w.shape[1]} x {w.shape[0]}", sizes)
    print_line("all", "", totals)
    print("       (times in microseconds, weights in bytes; the int8 product includes the bias)")


def print_line(layer: str, shape: str, values: np.ndarray) -> None:
    float_time, int8_time, float_bytes, int8_bytes = values
    print(
        f"{layer:>5}  {shape:>14}  {float_time:9.1f}  {int8_time:9.1f}  {float_time / int8_time:6.1f}x"
        f"  {float_bytes:8.0f}  {int8_bytes:8.0f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Handwritten digits, classified with int8 matrix products.")
    parser.add_argument("--quick", action="store_true", help="fewer training epochs")
    epochs = 10 if parser.parse_args().quick else 40

    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images.astype(np.float32), labels, test_size=0.5, random_state=0, stratify=labels)
    train_images, test_images, train_labels, test_labels = split

    start = time.perf_counter()
    float_layers = train(train_images, train_labels, epochs)
    seconds = time.perf_counter() - start
    widths = " - ".join(str(layer.weights.shape[0]) for layer in float_layers)
    print(f"trained {widths} - 10 on {len(train_images)} digits in {seconds:.1f} s")

    q_images, layers = quantize(float_layers, train_images)
    a_f32 = float_activations(float_layers, test_images)
    a_u8 = int8_activations(q_images, layers, test_images)

    float_accuracy, int8_accuracy = accuracy(a_f32[-1], test_labels), accuracy(a_u8[-1], test_labels)
    loss = float_accuracy - int8_accuracy
    print(f"accuracy on {len(test_images)} other digits: float32 {float_accuracy:.2f} %, int8 {int8_accuracy:.2f} %")

    # The products are exact on every CPU: NumPy's slow int64 arithmetic gives the same scores.
    last = layers[-1]
    exact = a_u8[-2].astype(np.int64) @ last.weights.unpack().astype(np.int64) + last.bias
    print(f"scores equal to int64 arithmetic: {np.array_equal(exact, a_u8[-1])}")

    print_layers(float_layers, layers, a_f32, a_u8)
    if loss >= LARGEST_LOSS or not np.array_equal(exact, a_u8[-1]):
        print(f"FAILED: int8 loses {loss:.2f} percentage points (or its scores are wrong)", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
