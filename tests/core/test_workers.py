"""Packed weights and layers in other processes, sent in every usual way: the same bits, and how much is sent."""

import concurrent.futures
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
from layers import assert_same_bits
from processes import TIMEOUT_S, forks_on_purpose

import int8blas

WORKERS = 2
STATIC = {"src_dtype": np.uint8, "dst_dtype": np.uint8, "scales": {"src": 0.1, "weights": 0.01, "dst": 0.5}}
METHODS = multiprocessing.get_all_start_methods()


def layers(rng):
    """One object of every class that holds weights, with a source for it."""

    def weights(*shape):
        return rng.integers(-128, 128, shape, np.int8)

    def sources(*shape):
        return rng.integers(0, 256, shape, np.uint8)

    recurrent = {"src_dtype": np.uint8, "weights_scale": 50.0}
    return {
        "PackedB": (int8blas.pack_b(weights(300, 200)), sources(200, 300)),
        "InnerProduct": (int8blas.InnerProduct(weights(200, 300), rng.normal(size=200).astype(np.float32), **STATIC),
                         sources(200, 300)),
        "Convolution": (int8blas.Convolution(weights(40, 20, 3, 3), padding=1, **STATIC), sources(4, 20, 20, 20)),
        "depthwise": (int8blas.Convolution(weights(40, 1, 3, 3), groups=40, **STATIC), sources(4, 20, 20, 40)),
        "small groups": (int8blas.Convolution(weights(40, 4, 3, 3), groups=10, **STATIC), sources(4, 20, 20, 40)),
        "Deconvolution": (int8blas.Deconvolution(weights(40, 20, 3, 3), strides=2, **STATIC), sources(4, 20, 20, 20)),
        "LSTM": (int8blas.LSTM(weights(30, 4, 50), weights(50, 4, 50), **recurrent), sources(5, 20, 30)),
        "GRU": (int8blas.GRU(weights(30, 3, 50), weights(50, 3, 50), **recurrent), sources(5, 20, 30)),
    }  # fmt: skip


def execute(layer, src):
    """The result, or the first of several."""
    if isinstance(layer, int8blas.PackedB):
        return int8blas.gemm_u8s8s32(1, src, layer)
    result = layer(src)
    return result[0] if isinstance(result, tuple) else result


def assert_workers_agree(run, rng):
    """run(execute, layers, sources) gives the results of this process, which has already used threads."""
    pairs = layers(rng)
    with int8blas.num_threads(4):
        expected = {name: execute(*pair) for name, pair in pairs.items()}
    results = run(execute, *zip(*pairs.values(), strict=True))
    for (name, value), result in zip(expected.items(), results, strict=True):
        assert_same_bits(result, value, layer=name)


@forks_on_purpose
@pytest.mark.parametrize("method", METHODS)
def test_a_process_pool(method, rng):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        assert_workers_agree(lambda f, *columns: list(pool.map(f, *columns, timeout=TIMEOUT_S)), rng)


@forks_on_purpose
@pytest.mark.parametrize("method", METHODS)
def test_a_pool_of_multiprocessing(method, rng):
    with multiprocessing.get_context(method).Pool(WORKERS) as pool:
        assert_workers_agree(lambda f, *columns: pool.starmap_async(f, zip(*columns)).get(TIMEOUT_S), rng)  # noqa: B905


# --- joblib ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_nbytes", [None, 100], ids=["in the message", "in shared memory"])
def test_joblib(max_nbytes, rng):
    joblib = pytest.importorskip("joblib")
    parallel = joblib.Parallel(WORKERS, max_nbytes=max_nbytes, timeout=TIMEOUT_S)

    def run(f, *columns):
        return parallel(joblib.delayed(f)(*pair) for pair in zip(*columns, strict=True))

    assert_workers_agree(run, rng)


def files_of(folder, layer, src):
    """The files in a folder while a task runs."""
    execute(layer, src)
    return sorted(str(path) for path in Path(folder).rglob("*.pkl"))


def test_joblib_writes_packed_weights_to_shared_memory_once(tmp_path, rng):
    joblib = pytest.importorskip("joblib")
    weights = rng.integers(-128, 128, (300, 500), np.int8)
    layer, src = int8blas.InnerProduct(weights, **STATIC), np.ones((4, 500), np.uint8)
    parallel = joblib.Parallel(WORKERS, max_nbytes=50_000, temp_folder=tmp_path, batch_size=1, timeout=TIMEOUT_S)
    seen = parallel(joblib.delayed(files_of)(tmp_path, layer, src) for _ in range(6))
    assert {len(files) for files in seen} == {1}
    assert len(set(map(tuple, seen))) == 1


# --- Dask ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    """Two worker processes of Dask on this machine."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_dask_workers_get_layers_by_scatter(client, rng):
    def run(f, *columns):
        return client.gather(client.map(f, *map(client.scatter, map(list, columns))))

    assert_workers_agree(run, rng)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_dask_array_maps_a_layer_over_blocks(client, rng):
    array = pytest.importorskip("dask.array")
    layer, src = layers(rng)["InnerProduct"]
    blocks = array.from_array(src, chunks=(30, -1))
    result = blocks.map_blocks(layer, dtype=layer.dst_dtype, chunks=(blocks.chunks[0], (200,)))
    assert_same_bits(result.compute(), layer(src))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_what_dask_sends_has_the_weights_once(rng):
    protocol = pytest.importorskip("distributed.protocol")
    packed = int8blas.pack_b(rng.integers(-128, 128, (256, 256), np.int8))
    header, frames = protocol.serialize(packed)
    frames = [memoryview(frame) for frame in frames]
    (data,) = [frame for frame in frames if frame.nbytes > 1000]
    assert np.shares_memory(np.asarray(data), packed.data)
    assert sum(frame.nbytes for frame in frames) < packed.nbytes + 1000
    assert protocol.deserialize(header, frames) == packed


def threads(_):
    """How many threads a call may use in this process."""
    return int8blas.core.threads.threading_info()["threads"]


def test_what_sets_the_number_of_threads_of_dask_workers(client):
    assert client.gather(client.map(threads, range(4), pure=False)) == [int(os.environ.get("OMP_NUM_THREADS", 1))] * 4
