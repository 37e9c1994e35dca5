"""The network of examples/sentence_encoder.py, small and with random weights: int8 compared with float32."""

import sys
from pathlib import Path

import numpy as np
import pytest

import int8blas

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from int8_encoder import Int8Encoder, quantize_encoder
from sentence_encoder import FloatEncoder

WORDS, LONGEST, LAYERS, HEADS, WIDTH, HIDDEN = 200, 40, 2, 3, 48, 112


@pytest.fixture(scope="module")
def tensors():
    """Random weights, under the names of BERT; a product has about the same variance as its source."""
    rng = np.random.default_rng(1)
    found = {}

    def add(name, *shape, scale=1.0, shift=0.0):
        found[name] = (shift + scale * rng.standard_normal(shape)).astype(np.float32)

    def add_linear(name, outputs, inputs):
        add(f"{name}.weight", outputs, inputs, scale=inputs**-0.5)
        add(f"{name}.bias", outputs, scale=0.2)

    def add_norm(name):
        add(f"{name}.LayerNorm.weight", WIDTH, scale=0.1, shift=1)
        add(f"{name}.LayerNorm.bias", WIDTH, scale=0.1)

    for name, rows in (("word", WORDS), ("position", LONGEST), ("token_type", 2)):
        add(f"embeddings.{name}_embeddings.weight", rows, WIDTH)
    add_norm("embeddings")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            add_linear(f"{name}.{part}", WIDTH, WIDTH)
        add_norm(f"{name}.attention.output")
        add_linear(f"{name}.intermediate.dense", HIDDEN, WIDTH)
        add_linear(f"{name}.output.dense", WIDTH, HIDDEN)
        add_norm(f"{name}.output")
    return found


@pytest.fixture(scope="module")
def sentences():
    rng = np.random.default_rng(2)
    return [rng.integers(0, WORDS, length).tolist() for length in (1, 3, 17, LONGEST, 8, 17)]


@pytest.fixture(scope="module")
def float_encoder(tensors):
    return FloatEncoder(tensors, LAYERS, HEADS)


@pytest.fixture(scope="module")
def encoder(tensors, float_encoder):
    rng = np.random.default_rng(3)
    batches = [[rng.integers(0, WORDS, LONGEST).tolist() for _ in range(4)] for _ in range(2)]
    return quantize_encoder(tensors, HEADS, float_encoder, batches)


def test_embeddings_are_near_those_in_float32(isa, float_encoder, encoder, sentences):
    expected, result = float_encoder(sentences), encoder(sentences)
    assert result.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1, rtol=1e-6)
    cosines = np.sum(expected * result, axis=1)
    assert cosines.min() >= 0.99, cosines


def test_the_same_bits_on_every_isa_for_any_threads_and_company(isa, encoder, sentences):
    with int8blas.use_isa("ref"):
        expected = encoder(sentences)
    for threads in (1, 2, 3):
        with int8blas.num_threads(threads):
            np.testing.assert_array_equal(encoder(sentences), expected)
    for sentence, embedding in zip(sentences, expected, strict=True):
        np.testing.assert_array_equal(encoder([sentence])[0], embedding)


def test_an_encoder_comes_back_from_a_file(encoder, sentences, tmp_path):
    encoder.save(tmp_path / "encoder.i8")
    loaded = Int8Encoder.load(tmp_path / "encoder.i8")
    np.testing.assert_array_equal(loaded(sentences), encoder(sentences))
    size = (tmp_path / "encoder.i8").stat().st_size
    weights = LAYERS * 4 * WIDTH * WIDTH + LAYERS * 2 * WIDTH * HIDDEN + WORDS * WIDTH
    assert weights < size < 2 * weights
