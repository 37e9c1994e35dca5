"""Threads that start at once share data that is created on first use: parts of a packed matrix, layers, files.

Each thread uses its own instruction set. A race shows as a report of ThreadSanitizer or, without the GIL, as a wrong
result; docs/trust.md has the commands.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import reference
import reference_neighbors
from arrays import SIGN_PAIRS
from calls import CALLS, F32, IMAGE, U8, convolution, dynamic_layer, lstm, same_bits, static_layer

import int8blas

THREADS, ROUNDS = 8, 4


def at_once(function):
    """Call function(number) in several threads at once, each with its own instruction set, and return the results."""
    isas, ready = int8blas.available_isas(), threading.Barrier(THREADS)

    def work(number):
        ready.wait()
        with int8blas.use_isa(isas[number % len(isas)]), int8blas.num_threads(1 + number % 3):
            return function(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(THREADS)))


def outliers(rng, dtype, shape):
    """Return values with few large ones, so that a packed matrix has a dense part and outliers."""
    x = rng.integers(0, 60, shape)
    x[rng.random(shape) < 0.01] = 127
    return x.astype(dtype)


@pytest.mark.parametrize("pair", SIGN_PAIRS, ids=lambda pair: pair.name)
def test_parts_of_a_packed_matrix_that_are_made_when_first_needed(pair, rng):
    m, n, k = 70, 100, 130
    a, b = rng.integers(0, 100, (m, k)).astype(pair.a_dtype), outliers(rng, pair.b_dtype, (k, n))
    expected, distances = reference.matmul(a, b), reference_neighbors.sqeuclidean(a, b.T)
    for _ in range(ROUNDS):
        packed = int8blas.pack_b(b)
        work = (
            partial(int8blas.matmul, a, packed),
            partial(int8blas.sqeuclidean, a, packed, dtype=np.int64),
            lambda packed=packed: packed.address,
        )
        results = at_once(lambda number, work=work: work[number % 3]())
        for number, result in enumerate(results):
            if number % 3 < 2:
                np.testing.assert_array_equal(result, (expected, distances)[number % 3])
            else:
                assert result == packed.address


def test_layers(rng):
    layers = {
        "static": (static_layer, U8),
        "dynamic": (dynamic_layer, F32),
        "convolution": (convolution, IMAGE),
        "lstm": (lambda: lambda x: lstm()(x)[0], F32[np.newaxis]),
    }
    for name, (make, x) in layers.items():
        expected = make()(x)
        for _ in range(ROUNDS):
            layer = make()
            for result in at_once(lambda _, layer=layer, x=x: layer(x)):
                assert result.tobytes() == expected.tobytes(), name


def test_a_file_that_is_mapped_once_and_loaded_by_all(tmp_path, rng):
    path = tmp_path / "shared.i8"
    a, b = rng.integers(0, 100, (40, 130)).astype(np.uint8), outliers(rng, np.int8, (130, 70))
    int8blas.save(path, {"packed": int8blas.pack_b(b), "layer": static_layer()})
    shared, expected = int8blas.load(path), static_layer()(U8)

    def use(number):
        loaded = shared if number % 2 else int8blas.load(path)
        return int8blas.matmul(a, loaded["packed"]), loaded["layer"](U8)

    for product, result in at_once(use):
        np.testing.assert_array_equal(product, reference.matmul(a, b))
        same_bits(result, expected)


def test_a_file_that_some_write_and_others_read(tmp_path):
    path = tmp_path / "replaced.i8"
    packed = int8blas.pack_b(np.eye(33, dtype=np.int8))
    packed.save(path)

    def use(number):
        if number % 2:
            packed.save(path)
        return int8blas.PackedB.load(path)

    assert all(loaded == packed for loaded in at_once(use))


@pytest.mark.parametrize("name", CALLS)
def test_every_function(name):
    function, *arrays = CALLS[name]
    expected = function(*arrays)
    for result in at_once(lambda _: function(*arrays)):
        same_bits(result, expected)


def test_settings_of_a_thread_are_its_own():
    isas = int8blas.available_isas()

    def switch(number):
        seen = []
        for i in range(200):
            name = isas[(number + i) % len(isas)]
            with int8blas.use_isa(name), int8blas.num_threads(1 + (number + i) % 5):
                seen.append((int8blas.use_isa(), int8blas.num_threads()) == (name, 1 + (number + i) % 5))
        return all(seen)

    assert all(at_once(switch))
