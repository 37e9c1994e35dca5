"""calibrate, fuse_quantization and move_strides: small networks against results computed by hand."""

import math
from itertools import product

import numpy as np
import pytest
from arrays import assert_same, random_values
from layers import assert_same_bits

import int8blas
from int8blas import Sum
from int8blas.calibration import EntropyObserver, MinMaxObserver, QuantizationParameters

# --- calibrate -------------------------------------------------------------------------------------------------------


def relu(x):
    return np.maximum(x, 0)


@pytest.fixture
def batches(rng):
    """Three batches of float32."""
    return [rng.normal(0, size, (4, 5)).astype(np.float32) for size in (1, 3, 2)]


def test_each_layer_is_observed_on_what_the_one_before_gave(batches):
    network = [("scaled", lambda x: 3 * x), ("relu", relu), ("sum", lambda x: x.sum(axis=1))]
    found = int8blas.calibrate(network, iter(batches))
    assert list(found) == ["scaled", "relu", "sum"]
    x = np.concatenate(batches)
    for name, activation in (("scaled", 3 * x), ("relu", relu(3 * x)), ("sum", relu(3 * x).sum(axis=1))):
        observer = MinMaxObserver(dtype=np.uint8, symmetric=False)
        assert found[name] == observer.observe(activation).parameters()
    assert found["relu"].zero_point == 0


def test_a_network_reports_what_it_wants(batches):
    def network(x, report):
        y = report("hidden", relu(x))
        assert y is not None
        return report("sum", y + report("image", x))

    found = int8blas.calibrate(network, batches, lambda name: EntropyObserver(bins=256, symmetric=name == "sum"))
    assert list(found) == ["hidden", "image", "sum"]
    expected = EntropyObserver(bins=256)
    for x in batches:
        expected.observe(relu(x) + x)
    assert found["sum"] == expected.parameters()
    assert found["sum"].dtype == np.int8


def test_activations_may_share_an_observer(batches):
    one = MinMaxObserver()
    found = int8blas.calibrate([("x", lambda x: x), ("more", lambda x: 2 * x)], batches, lambda _: one)
    assert found["x"] == found["more"] == MinMaxObserver().observe(2 * np.concatenate(batches)).parameters()


def test_the_parameters_go_through_their_file(batches, tmp_path):
    found = int8blas.calibrate([("x", relu)], batches)
    int8blas.calibration.save_parameters(tmp_path / "parameters.json", found)
    assert int8blas.calibration.load_parameters(tmp_path / "parameters.json") == found


@pytest.mark.parametrize(("network", "error", "match"), [
    (None, TypeError, "network must be a callable or a sequence"),
    ([relu], TypeError, "network must be a callable or a sequence"),
    ([("a", None)], TypeError, r"network\['a'\] must be callable, got NoneType"),
    ([("a", relu), ("b", relu), ("a", relu)], ValueError, "different names, got 'a' 2 times"),
    ([(1, relu)], TypeError, "name of an activation must be a str, got int"),
    ([("a", lambda x: np.log(-np.ones_like(x)))], ValueError, "activation 'a': x must be finite"),
    ([("a", lambda x: x.astype(int))], TypeError, "activation 'a': x must be float32"),
    (lambda x, _report: x, ValueError, "network must report an activation"),
    ([], ValueError, "network must report an activation"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value")
def test_networks_that_are_not_right(network, error, match, batches):
    with pytest.raises(error, match=match):
        int8blas.calibrate(network, batches)


def test_no_batches_and_no_observer(batches):
    with pytest.raises(ValueError, match="batches must have at least one"):
        int8blas.calibrate([("a", relu)], [])
    with pytest.raises(TypeError, match="observer must make an observer, got NoneType for 'a'"):
        int8blas.calibrate([("a", relu)], batches, lambda _: None)


# --- fuse_quantization -----------------------------------------------------------------------------------------------

BLOCK = {"stem": ("image",), "first": ("stem",), "second": ("first", "stem"), "scores": ("second",)}


def u8(scale, zero_point=0):
    return QuantizationParameters(scale, zero_point, np.uint8)


def some_parameters(**scales):
    return {name: u8(scale) for name, scale in scales.items()}


def test_a_result_is_quantized_as_its_readers_want_it():
    parameters = some_parameters(image=1, stem=2, first=3, second=4, unused=5)
    layers = int8blas.fuse_quantization(BLOCK, parameters)
    assert list(layers) == list(BLOCK)
    for name, read in BLOCK.items():
        assert layers[name].sources == tuple(parameters[source] for source in read)
        assert layers[name].dst == parameters.get(name)
    assert layers["second"].sum() == Sum(2, 0, np.uint8)


def test_the_arguments_of_a_primitive(rng):
    parameters = {"x": QuantizationParameters(0.5, -3), "a": u8(0.25, 7)}
    layers = int8blas.fuse_quantization({"a": ("x",), "b": ("a",)}, parameters)
    weights = rng.normal(0, 1, (3, 4)).astype(np.float32)
    layer = int8blas.InnerProduct(weights, **layers["a"].arguments())
    by_hand = int8blas.InnerProduct(weights, src_dtype=np.int8, dst_dtype=np.uint8, zero_points={"src": -3, "dst": 7},
                                    scales={"src": 0.5, "weights": "per_channel", "dst": 0.25})  # fmt: skip
    x = random_values(rng, np.int8, (5, 4))
    assert_same(layer(x), by_hand(x))
    last = int8blas.InnerProduct(weights[:, :3], **layers["b"].arguments("per_tensor"))
    by_hand = int8blas.InnerProduct(weights[:, :3], src_dtype=np.uint8, dst_dtype=np.float32, zero_points={"src": 7},
                                    scales={"src": 0.25, "weights": "per_tensor"})  # fmt: skip
    assert_same_bits(last(layer(x)), by_hand(layer(x)))


def test_the_sources_of_a_concatenation_and_its_result_share():
    graph = {"a": ("x",), "b": ("x",), "both": ("a", "b"), "pool": ("both",), "more": ("c", "pool"), "end": ("more",)}
    parameters = some_parameters(x=1, a=2, b=3, c=1.5)
    layers = int8blas.fuse_quantization(graph, parameters, same=["both", "more", "pool"])
    assert layers["a"].sources == (u8(1),)
    for shared in (layers["a"].dst, layers["b"].dst, *layers["more"].sources, *layers["end"].sources):
        assert shared == u8(3)
    assert layers["end"].dst is None


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_union_contains_all_ranges(dtype, rng):
    info = np.iinfo(dtype)
    for _ in range(100):
        parameters = {
            name: QuantizationParameters(rng.uniform(0.1, 2), int(rng.integers(info.min, info.max + 1)), dtype)
            for name in "ab"
        }
        shared = int8blas.fuse_quantization({"c": ("a", "b")}, parameters, same={"c"})["c"].dst
        low, high = (
            min(float(p.scale) * (end - p.zero_point) * sign for p in parameters.values()) * sign
            for end, sign in ((info.min, 1), (info.max, -1))
        )
        scale = (max(high, 0) - min(low, 0)) / 255
        assert math.isclose(shared.scale, scale, rel_tol=1e-6)
        assert float(shared.scale) * (info.min - shared.zero_point) <= low + scale
        assert float(shared.scale) * (info.max - shared.zero_point) >= high - scale


@pytest.mark.parametrize(("graph", "parameters", "same", "error", "match"), [
    ([], {}, (), TypeError, "graph must be a mapping"),
    ({"a": "x"}, {}, (), TypeError, r"graph\['a'\] must be a sequence of names, got 'x'"),
    ({"a": (1,)}, {}, (), TypeError, r"graph\['a'\] must be a sequence of names"),
    ({"a": ()}, {}, (), ValueError, r"graph\['a'\] must have a source"),
    ({"a": ("b",), "b": ("x",)}, {}, (), ValueError, r"graph\['a'\] must come after its source 'b'"),
    ({"a": ("a",)}, {}, (), ValueError, r"graph\['a'\] must come after its source 'a'"),
    (BLOCK, some_parameters(image=1, stem=1, second=1), (), ValueError, r"parameters\['first'\] must be.*'second'"),
    (BLOCK, {"image": 1}, (), TypeError, r"parameters\['image'\] must be QuantizationParameters, got int"),
    (BLOCK, {"image": QuantizationParameters([1, 2], [0, 0], axis=0)}, (), ValueError, r"parameters\['image'\].*got 2"),
    (BLOCK, {}, {"none"}, ValueError, "same must have names of layers in graph, got 'none'"),
    (BLOCK, {}, {"stem"}, ValueError, "parameters must be given for one of image, stem"),
    (BLOCK, [], (), TypeError, "parameters must be a mapping of names, got list"),
    (BLOCK, {}, None, TypeError, "same must be a collection of names, got NoneType"),
    (BLOCK, {"image": u8(1), "stem": QuantizationParameters(1)}, {"stem"}, ValueError, "one dtype.*got "),
])  # fmt: skip
def test_graphs_that_are_not_right(graph, parameters, same, error, match):
    with pytest.raises(error, match=match):
        int8blas.fuse_quantization(graph, parameters, same)


def test_layers_that_can_not_add():
    layers = int8blas.fuse_quantization({"a": ("x",), "b": ("a", "x")}, some_parameters(x=1, a=1))
    with pytest.raises(ValueError, match="must have 2 sources to add one to its result, got 1"):
        layers["a"].sum()
    with pytest.raises(ValueError, match="must have a quantized result"):
        layers["b"].sum()


# --- move_strides ----------------------------------------------------------------------------------------------------


def execute(graph, strides, layers, x):
    """All results of a network of int8 convolutions for an image; inputs that join are added."""
    values = {"x": x}
    for name, (src, *joined) in graph.items():
        if name not in layers:
            values[name] = values[src][:, :: strides[name], :: strides[name]]
            continue
        weights, bias = layers[name]
        layer = int8blas.Convolution(
            weights,
            bias,
            strides=strides[name],
            padding=weights.shape[-1] // 2,
            src_dtype=np.uint8,
            dst_dtype=np.uint8,
            scales={"weights": np.float32(1 / 400), "dst": np.float32(1)},
            attributes=int8blas.Attributes(post_ops=[Sum(0.5)] * len(joined) + [int8blas.ReLU()]),
        )
        out = values[joined[0]].copy() if joined else None
        values[name] = layer(values[src], out=out)
    return values


def random_layers(rng, graph, pointwise, channels=8):
    return {
        name: (
            random_values(rng, np.int8, (channels, channels, *((1, 1) if name in pointwise else (3, 3)))),
            rng.normal(0, 50, channels).astype(np.float32),
        )
        for name in graph
    }


def assert_moved(rng, graph, strides, pointwise, outputs=(), sizes=((9, 8), (1, 2), (12, 13))):
    """Move the strides of a network, check that its outputs keep their results, and return it."""
    layers = random_layers(rng, graph, pointwise)
    new_graph, new_strides = int8blas.move_strides(graph, strides, pointwise, outputs)
    wanted = {*graph, *outputs} - {source for read in graph.values() for source in read} | set(outputs)
    for size in sizes:
        x = random_values(rng, np.uint8, (2, *size, 8))
        expected, found = execute(graph, strides, layers, x), execute(new_graph, new_strides, layers, x)
        for name in wanted:
            assert_same(found[name], expected[name], name=name, size=size)
    return new_graph, new_strides


def resnet(stages=(2, 2)):
    """Residual blocks of 1 x 1, 3 x 3 and 1 x 1 convolutions, where the first block of a stage has stride 2."""
    graph, strides, pointwise, src = {}, {}, set(), "x"
    for stage, blocks in enumerate(stages):
        for block in range(blocks):
            name, stride = f"{stage}.{block}", 2 if block == 0 and stage else 1
            graph[f"{name}.a"], graph[f"{name}.b"] = (src,), (f"{name}.a",)
            strides |= {f"{name}.a": stride, f"{name}.b": 1, f"{name}.c": 1}
            pointwise |= {f"{name}.a", f"{name}.c"}
            added = src
            if block == 0:
                added = f"{name}.shortcut"
                graph[added], strides[added] = (src,), stride
                pointwise.add(added)
            graph[f"{name}.c"] = (f"{name}.b", added)
            src = f"{name}.c"
    return graph, strides, pointwise


def test_figure_6(isa, rng):
    graph, strides, pointwise = resnet((2, 3, 2))
    new_graph, new_strides = assert_moved(rng, graph, strides, pointwise)
    assert {name: stride for name, stride in new_strides.items() if stride > 1} == {
        "0.1.b": 2, "0.0.c[::2]": 2, "1.2.b": 2, "1.1.c[::2]": 2,
    }  # fmt: skip
    assert new_graph["0.1.c"] == ("0.1.b", "0.0.c[::2]")
    assert new_graph["1.0.a"] == graph["1.0.a"]


def test_a_stride_moves_through_a_chain_and_both_sides_of_a_sum(rng):
    graph = {"a": ("x",), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ("d",), "f": ("e",)}
    _, strides = assert_moved(rng, graph, dict.fromkeys(graph, 1) | {"e": 2, "f": 3}, {"c", "d", "e", "f"})
    assert strides == {"a": 1, "b": 6, "c": 6, "d": 1, "e": 1, "f": 1}
    _, strides = assert_moved(rng, graph, dict.fromkeys(graph, 1) | {"f": 2}, {"b", "c", "d", "e", "f"})
    assert strides == {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}


def test_what_moves_is_the_common_divisor(rng):
    graph = {"a": ("x",), "b": ("a",), "c": ("a",)}
    _, strides = assert_moved(rng, graph, {"a": 3, "b": 4, "c": 6}, {"b", "c"})
    assert strides == {"a": 6, "b": 2, "c": 3}


@pytest.mark.parametrize(("graph", "strides", "pointwise", "outputs"), [
    ({"a": ("x",), "b": ("a",)}, {"a": 1, "b": 2}, {"a"}, ()),
    ({"a": ("x",), "b": ("a",), "c": ("a",)}, {"a": 1, "b": 2, "c": 1}, {"b", "c"}, ()),
    ({"a": ("x",), "b": ("a",), "c": ("a",)}, {"a": 1, "b": 2, "c": 3}, {"b", "c"}, ()),
    ({"a": ("x",), "b": ("a",), "c": ("b", "a")}, {"a": 1, "b": 1, "c": 1}, {"b", "c"}, ()),
    ({"a": ("x",), "b": ("a",)}, {"a": 1, "b": 2}, {"b"}, ("a",)),
    ({"a": ("x",)}, {"a": 2}, {"a"}, ()),
], ids=["a window", "another reader", "other strides", "a join", "an output", "a source of the network"])  # fmt: skip
def test_a_stride_stays_where_the_other_elements_are_needed(graph, strides, pointwise, outputs, rng):
    found = assert_moved(rng, graph, strides, pointwise, outputs, sizes=((9, 8),))
    assert found == (graph, strides)


def test_a_stride_does_not_move_into_a_layer_without_one():
    graph = {"a": ("x",), "flat": ("a",), "b": ("flat",)}
    assert int8blas.move_strides(graph, {"a": 1, "b": 2}, {"b"}) == (graph, {"a": 1, "b": 2})


def test_names_from_an_iterator():
    graph = {"a": ("x",), "b": ("a",)}
    moved = int8blas.move_strides(graph, {"a": 1, "b": 2}, iter(["b"]), iter([]))
    assert moved == int8blas.move_strides(graph, {"a": 1, "b": 2}, {"b"})
    kept = int8blas.move_strides(graph, {"a": 1, "b": 2}, {"b"}, iter(["a"]))
    assert kept == (graph, {"a": 1, "b": 2})
    parameters = some_parameters(x=1, a=2, b=4)
    shared = int8blas.fuse_quantization(graph, parameters, iter(["a"]))
    assert shared["a"].dst.scale == shared["a"].sources[0].scale == 2


def test_random_networks(rng):
    moved = 0
    for _ in range(60):
        names = [f"layer {i}" for i in range(rng.integers(2, 9))]
        graph, strides, sizes = {}, {}, {"x": (13, 10)}
        for name in names:
            src = str(rng.choice([*sizes][-3:]))
            strides[name] = int(rng.choice([1, 1, 2, 3]))
            size = tuple((n - 1) // strides[name] + 1 for n in sizes[src])
            equal = [other for other, other_size in sizes.items() if other_size == size]
            joined = rng.choice(equal, 1).tolist() if equal and rng.random() < 0.5 else []
            graph[name], sizes[name] = (src, *joined), size
        pointwise = {name for name in names if rng.random() < 0.8}
        outputs = {name for name in names if rng.random() < 0.1}
        _, new_strides = assert_moved(rng, graph, strides, pointwise, outputs, sizes=((13, 10),))
        moved += new_strides != strides
    assert moved > 10


@pytest.mark.parametrize(("strides", "pointwise", "outputs", "error", "match"), [
    ({"a": 0}, (), (), ValueError, r"strides\['a'\] must be at least 1, got 0"),
    ({"a": (2, 2)}, (), (), TypeError, r"strides\['a'\] must be an integer, got tuple"),
    ({"c": 1}, (), (), ValueError, "strides must have names of layers in graph, got 'c'"),
    (None, (), (), TypeError, "strides must be a mapping of names, got NoneType"),
    ({"a": 1}, 3, (), TypeError, "pointwise must be a collection of names, got int"),
    ({"a": 1}, {"b"}, (), ValueError, "pointwise must have names of layers in strides, got 'b'"),
    ({"a": 1}, (), {"x"}, ValueError, "outputs must have names of layers in graph, got 'x'"),
])  # fmt: skip
def test_strides_that_are_not_right(strides, pointwise, outputs, error, match):
    with pytest.raises(error, match=match):
        int8blas.move_strides({"a": ("x",), "b": ("a",)}, strides, pointwise, outputs)


def test_a_name_that_is_taken():
    graph = {"x[::2]": ("x",), "a": ("x[::2]", "x"), "b": ("a",)}
    with pytest.raises(ValueError, match=r"graph must not have a layer 'x\[::2\]'"):
        int8blas.move_strides(graph, {"a": 1, "b": 2}, {"b"})


# --- all steps together ----------------------------------------------------------------------------------------------


def convolve(x, weights, bias, stride=1):
    """A float convolution of images (n, h, w, c), padded to keep their size."""
    size = weights.shape[-1]
    padded = np.pad(x, ((0, 0), *[(size // 2, size // 2)] * 2, (0, 0)))
    rows, columns = x.shape[1:3]
    windows = [
        padded[:, i : i + rows : stride, j : j + columns : stride] @ weights[:, :, i, j].T
        for i, j in product(range(size), repeat=2)
    ]
    return np.sum(windows, axis=0, dtype=np.float32) + bias


@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
def test_from_a_float_network_to_an_int8_one_in_a_file(isa, mmap, rng, tmp_path):
    graph = {"stem": ("image",), "first": ("stem",), "second": ("first", "stem")}
    tensors = {}
    for name, inputs in (("stem", 3), ("first", 8), ("second", 8)):
        weights = rng.normal(0, 1 / math.sqrt(9 * inputs), (8, inputs, 3, 3))
        tensors[name] = int8blas.fold_batch_norm(weights, None, *rng.uniform(0.5, 1.5, (2, 8)), rng.normal(0, 1, 8),
                                                 rng.uniform(0.5, 1.5, 8))  # fmt: skip

    def network(x, report):
        values = {"image": report("image", x)}
        for name, (src, *joined) in graph.items():
            y = sum((values[other] for other in joined), convolve(values[src], *tensors[name]))
            values[name] = report(name, relu(y))
        return values["second"]

    images = rng.uniform(0, 1, (20, 8, 8, 3)).astype(np.float32)
    parameters = int8blas.calibrate(network, images.reshape(4, 5, 8, 8, 3))
    fused = int8blas.fuse_quantization(graph, parameters)
    layers = {}
    for name, read in graph.items():
        added = [fused[name].sum()] if len(read) > 1 else []
        layers[name] = int8blas.Convolution(
            *tensors[name],
            padding=1,
            **fused[name].arguments(),
            attributes=int8blas.Attributes(post_ops=[*added, int8blas.ReLU()]),
        )
    int8blas.save(tmp_path / "network.i8", {"graph": graph, "parameters": parameters, "layers": layers})
    loaded = int8blas.load(tmp_path / "network.i8", mmap)

    def int8_network(network):
        q = network["parameters"]
        values = {"image": int8blas.quantize(images, q["image"].scale, q["image"].zero_point, np.uint8)}
        for name, (src, *joined) in network["graph"].items():
            out = values[joined[0]].copy() if joined else None
            values[name] = network["layers"][name](values[src], out=out)
        return int8blas.dequantize(values["second"], q["second"].scale, q["second"].zero_point)

    result = int8_network(loaded)
    assert_same_bits(result, int8_network({"graph": graph, "parameters": parameters, "layers": layers}))
    expected = network(images, lambda _, x: x)
    assert np.abs(result - expected).mean() < 0.02 * np.abs(expected).mean()
