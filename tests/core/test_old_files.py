"""Files of every earlier format and pickles of every earlier version still load; tests/files has examples.

format*.i8 was made from `values`, version*.i8.gz from `everything`, version*.pickle*.gz from `pickled`. A new version's
files are made by

    cd tests/core && PYTHONPATH=.. python -c "import test_old_files; test_old_files.write('0.3')"
"""

import gzip
import inspect
import io
import pickle
from pathlib import Path

import convolutions
import layers
import numpy as np
import pytest
import recurrent
from arrays import assert_same
from layers import assert_same_bits
from processes import run_python

import int8blas
from int8blas import Attributes, Binary, Eltwise, PReLU, ReLU, Sum, calibration
from int8blas.core import file

FILES = Path(__file__).parents[1] / "files"
PROTOCOLS = (2, 5)


def values():
    """The content of the files: a layer of each kind, inside plain values."""
    rng = np.random.default_rng(0)

    def weights(*shape):
        return rng.integers(-127, 128, shape, np.int8)

    scales = {"src": 0.02, "weights": 0.01, "dst": 0.5}
    post_ops = Attributes(post_ops=[ReLU(0.25), Eltwise("tanh")])
    states = {"src_dtype": np.uint8, "dst_dtype": np.float32, "weights_scale": 1 / 256}
    return {
        "packed": int8blas.pack_b(weights(9, 20)),
        "layers": [
            int8blas.InnerProduct(
                weights(5, 12), np.float32([1, -2, 0, 3, 0.5]), src_dtype=np.uint8, dst_dtype=np.int8, scales=scales,
                zero_points={"src": 131, "dst": -3}, attributes=post_ops,
            ),
            int8blas.Convolution(
                weights(4, 2, 3, 3), strides=2, padding=1, groups=2, src_dtype=np.uint8, dst_dtype=np.uint8,
                scales=scales,
            ),
            int8blas.Deconvolution(weights(3, 4, 2, 2), src_dtype=np.int8, dst_dtype=np.float32, scales={"src": 0.1}),
            int8blas.LSTM(weights(3, 4, 5), weights(5, 4, 5), **states),
            int8blas.GRU(weights(3, 3, 5), weights(5, 3, 5), **states),
        ],
        "plain": (None, True, -7, 0.1, "text", np.arange(6.0).reshape(2, 3), np.uint8(9), np.dtype("u1")),
    }  # fmt: skip


def problems():
    """Name -> a layer, its source, and the result from the oracle."""
    rng = np.random.default_rng(2)

    def bytes_of(dtype, *shape):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)

    def image(*channels):
        return bytes_of(np.uint8, 1, 4, 5, *channels), bytes_of(np.int8, 4, 2, 3, 2)

    channels = np.float32([0.01, 0.02, 0.005, 0.03])
    src, weights = bytes_of(np.uint8, 3, 9), bytes_of(np.int8, 4, 9)
    pixels, filters = image(4)
    geometry = {"strides": 2, "padding": 1, "dilation": 1, "groups": 2, "layout": "nhwc"}
    ops = (ReLU(0.25), Eltwise("clip", -3, 40), Binary(channels * 100, "max"), PReLU(channels))
    scales = {"src": np.float32(0.02), "weights": channels, "dst": np.float32(0.1)}
    zeros = {"src": 131, "dst": -3}
    recurrent_problem = recurrent.Problem(
        "lstm", bytes_of(np.uint8, 2, 3, 4), [bytes_of(np.int8, 1, 4, 4, 3)], [bytes_of(np.int8, 1, 3, 4, 3)],
        [np.linspace(-0.5, 0.5, 12, dtype=np.float32).reshape(1, 4, 3)], np.full((1, 1, 4, 3), 400, np.float32),
        dst_dtype=np.float32,
    )  # fmt: skip
    return {
        "InnerProduct": layers.Problem(src, weights, channels, np.int8, scales, zeros, ops),
        "InnerProduct that adds": layers.Problem(
            src, weights, None, np.int8, scales, zeros, (Sum(0.5, 3),), old=bytes_of(np.int8, 3, 4)
        ),
        "InnerProduct in integers": layers.Problem(
            src, weights, bytes_of(np.int8, 4).astype(np.int32), np.int32, {}, {"src": 7}
        ),
        "InnerProduct with scales by groups": layers.GroupedProblem(
            src[:, :8], weights[:, :8], channels, np.int8, scales | {"weights": np.stack([channels, channels[::-1]])},
            zeros, ops,
        ),
        "Convolution": convolutions.Convolution(
            pixels, filters, channels, np.uint8, scales, {"src": 9}, (ReLU(),), geometry=geometry
        ),
        "Convolution with zero points of weights": convolutions.Convolution(
            pixels, filters.view(np.uint8), None, np.float32, {"src": scales["src"], "weights": channels},
            {"src": 9, "weights": np.array([0, 3, 200, 255])}, geometry=geometry,
        ),
        "Deconvolution": convolutions.Deconvolution(
            pixels, filters, None, np.int8, scales, {"dst": 5}, geometry=geometry | {"output_padding": 0}
        ),
        "LSTM": recurrent_problem,
        "GRU": recurrent_problem.but(
            kind="gru", weights_layer=[recurrent_problem.weights_layer[0][:, :, :3]],
            weights_iter=[recurrent_problem.weights_iter[0][:, :, :3]], bias=[recurrent_problem.bias[0][:, :3]],
            weights_scale=np.full((1, 1, 3, 3), 400, np.float32),
        ),
    }  # fmt: skip


def parameters():
    return {
        "of a tensor": calibration.QuantizationParameters(0.5, 128, np.uint8),
        "of channels": calibration.QuantizationParameters([0.5, 0.25], [0, -3], axis=1),
    }


def everything():
    """Layers and parameters of every kind that can be saved, with many attributes, and plain values."""
    made = values()
    return {
        "packed": made["packed"],
        "plain": made["plain"],
        "problems": {name: problem.layer() for name, problem in problems().items()},
        "dynamic": int8blas.InnerProduct.dynamic(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)),
        "attributes": Attributes(
            {"src": 0, "weights": 1}, {"dst": 0}, [Sum(2.0, 3), Eltwise("elu", 0.5), Binary(None, "mul"), PReLU([0.5])]
        ),
        "scheme": Attributes(requantization="doubling"),
        "parameters": parameters(),
    }


def observers():
    """One observer of each kind, with data that it has observed."""
    x = np.linspace(-3, 5, 64, dtype=np.float32).reshape(-1, 2)
    with_bins = (calibration.PercentileObserver, calibration.EntropyObserver, calibration.LeastSquaresObserver)
    found = [calibration.MinMaxObserver(axis=1), calibration.MovingAverageObserver(0.5, symmetric=False)]
    return [observer.observe(x) for observer in [*found, *(make(bins=32) for make in with_bins)]]


def pickled():
    """The content of the pickles: `everything`, objects that only pickle can store, and functions by reference."""
    return {
        **everything(),
        "observers": observers(),
        "quantization": int8blas.LayerQuantization((parameters()["of a tensor"],), None),
        "saturation": int8blas.would_saturate(np.full((2, 3), 255, np.uint8), np.full((3, 2), 127, np.int8)),
        "explanation": int8blas.explain(np.zeros((4, 3), np.uint8), np.zeros((3, 2), np.int8)),
        "functions": {
            name: getattr(int8blas, name)
            for name in int8blas.__all__
            if callable(getattr(int8blas, name)) and not inspect.isclass(getattr(int8blas, name))
        },
    }


def write(version):
    """Add the files of this version."""
    file = io.BytesIO()
    int8blas.save(file, everything())
    contents = {"i8": file.getvalue()} | {f"pickle{n}": pickle.dumps(pickled(), n) for n in PROTOCOLS}
    for name, content in contents.items():
        (FILES / f"version{version}.{name}.gz").write_bytes(gzip.compress(content, mtime=0))


def read(path):
    with gzip.open(path) as file:
        return int8blas.load(file) if ".i8" in path.suffixes else pickle.load(file)


def results(value):
    """The results of packed weights and layers."""
    rng = np.random.default_rng(1)
    product, convolution, deconvolution, lstm, gru = value["layers"]
    yield int8blas.matmul(rng.integers(0, 256, (3, 9), np.uint8), value["packed"])
    yield product(rng.integers(0, 256, (3, 12), np.uint8))
    yield convolution(rng.integers(0, 256, (1, 5, 6, 4), np.uint8))
    yield deconvolution(rng.integers(-128, 128, (1, 3, 2, 4), np.int8))
    for layer in (lstm, gru):
        yield layer(rng.integers(0, 256, (2, 3, 3), np.uint8))[0]


every_file = pytest.mark.parametrize("path", sorted(FILES.glob("*.i8")), ids=lambda path: path.name)
every_new_file = pytest.mark.parametrize("path", sorted(FILES.glob("version*")), ids=lambda path: path.name)
every_pickle = pytest.mark.parametrize("path", sorted(FILES.glob("version*.pickle*")), ids=lambda path: path.name)


@every_file
def test_a_file_of_an_earlier_version_loads(path, isa):
    loaded, made = int8blas.load(path), values()
    for old, new in zip(results(loaded), results(made), strict=True):
        assert_same(old, new)
    assert_same_plain(loaded["plain"], made["plain"])


def assert_same_plain(loaded, made):
    for old, new in zip(loaded, made, strict=True):
        assert type(old) is type(new)
        assert np.array_equal(old, new)


def test_there_is_a_file_of_each_format():
    assert {int.from_bytes(path.read_bytes()[8:12], "little") for path in FILES.glob("*.i8")} == {
        *range(1, file.VERSION + 1)
    }


@every_new_file
def test_layers_of_an_earlier_version_compute_what_the_oracles_say(path, isa):
    loaded, made = read(path)["problems"], problems()
    assert list(loaded) == list(made)
    for name, problem in made.items():
        result, expected = problem.run(loaded[name]), problem.expected()
        if isinstance(expected, tuple):
            for one, wanted in zip(result, expected, strict=True):
                assert_same_bits(one, wanted, name=name)
        else:
            assert_same_bits(result, expected, name=name)


@every_new_file
def test_a_dynamic_layer_of_an_earlier_version_is_as_a_new_one(path, isa):
    x = np.linspace(-2, 3, 8, dtype=np.float32).reshape(2, 4)
    assert_same_bits(read(path)["dynamic"](x), everything()["dynamic"](x))


@every_new_file
def test_values_of_an_earlier_version_are_equal(path):
    loaded, made = read(path), everything()
    assert_same_plain(loaded["plain"], made["plain"])
    assert loaded["packed"] == made["packed"]
    assert repr(loaded["attributes"]) == repr(made["attributes"])
    assert repr(loaded["scheme"]) == repr(made["scheme"])
    assert loaded["parameters"] == made["parameters"]


@every_pickle
def test_observers_of_an_earlier_version_go_on(path):
    x = np.linspace(-9, 7, 64, dtype=np.float32).reshape(-1, 2)
    for old, new in zip(read(path)["observers"], observers(), strict=True):
        assert type(old) is type(new)
        assert old.parameters() == new.parameters()
        assert old.observe(x).parameters() == new.observe(x).parameters()


@every_pickle
def test_what_an_earlier_version_found_is_equal(path):
    loaded, made = read(path), pickled()
    assert loaded["quantization"] == made["quantization"]
    assert loaded["saturation"].count == made["saturation"].count
    assert np.array_equal(loaded["saturation"].where, made["saturation"].where)
    assert (loaded["explanation"].shape, loaded["explanation"].threads) == ((4, 2, 3), 1)


@every_pickle
def test_functions_of_an_earlier_version_are_those_of_this_one(path):
    for name, function in read(path)["functions"].items():
        assert function is getattr(int8blas, name), name


def test_a_pickle_finds_its_modules_in_a_new_process():
    for path in FILES.glob("version*.pickle*"):
        code = f"import gzip, pickle; print(pickle.load(gzip.open({str(path)!r}))['packed'])"
        process = run_python("-c", code)
        assert (process.returncode, process.stdout.strip()) == (0, "PackedB(shape=(9, 20), dtype=int8)")
