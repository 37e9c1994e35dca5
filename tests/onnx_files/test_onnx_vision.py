"""Operators that sample images, old versions of operators, and files that need more than a row."""

import numpy as np
import onnx
import pytest
from arrays import assert_same
from onnx_models import loaded, model_of

import int8blas.onnx

F = np.float32
IMAGE = np.arange(12, dtype=F).reshape(1, 1, 3, 4)


def run(text, feeds, **options):
    (y,) = loaded(f"g {text}", **options).run(None, feeds)
    return y


@pytest.mark.parametrize(("padding", "wanted"), [("zeros", [0, 3, 11, 0]), ("border", [3, 3, 11, 8]),
                                                 ("reflection", [2, 3, 11, 5])])  # fmt: skip
def test_positions_outside_an_image_are_padded(padding, wanted):
    """A corner, one element above it and beside it, and one element below and beside another corner."""
    text = f"""(float[1,1,3,4] x, float[1,1,4,2] g) => (y)
        {{ y = GridSample<mode = "nearest", padding_mode = "{padding}", align_corners = 1>(x, g) }}"""
    grid = F([[[[5 / 3, -1], [1, -1], [1, 1], [-5 / 3, 2]]]])
    np.testing.assert_array_equal(run(text, {"x": IMAGE, "g": grid}, opset=20), [[[wanted]]])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("opset", [16, 20])
def test_border_padding_repeats_elements(mode, opset):
    """Far outside, each sample is the nearest corner, whatever the weights; NaN and infinities read nothing else."""
    name = mode if opset == 20 else f"bi{mode}"
    text = f"""(float[1,1,3,4] x, float[1,2,2,2] g) => (y) {{
        y = GridSample<mode = "{name}", padding_mode = "border">(x, g) }}"""
    grid = F([[[[-9, -9], [9, -9]], [[-9, 9], [9, 9]]]])
    np.testing.assert_allclose(run(text, {"x": IMAGE, "g": grid}, opset=opset), [[[[0, 3], [8, 11]]]], rtol=1e-6)
    run(text, {"x": IMAGE, "g": np.full_like(grid, np.nan)}, opset=opset)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_samples_add_neighbors_in_their_order(isa, kind):
    rng = np.random.default_rng(3)
    x, grid = (rng.normal(0, 1, s).astype(F if kind == "float" else float) for s in ((2, 3, 5, 7), (2, 4, 6, 2)))
    text = f"({kind}[2,3,5,7] x, {kind}[2,4,6,2] g) => (y) {{ y = GridSample(x, g) }}"
    y = run(text, {"x": x, "g": grid}, opset=20)
    turned = {"x": np.asfortranarray(x), "g": np.asfortranarray(grid)}
    np.testing.assert_array_equal(run(text, turned, opset=20), y)
    half = x.dtype.type(0.5)
    across, down = ((grid[..., d] + 1) / 2 * size - half for d, size in enumerate((7, 5)))
    wanted = np.zeros_like(y)
    for i in (0, 1):
        for j in (0, 1):
            row, column = np.floor(down) + i, np.floor(across) + j
            inside = (row >= 0) & (row < 5) & (column >= 0) & (column < 7)
            weight = np.where(inside, (1 - np.abs(row - down)) * (1 - np.abs(column - across)), 0).astype(x.dtype)
            at = np.clip(row, 0, 4).astype(int), np.clip(column, 0, 6).astype(int)
            for n in range(2):
                wanted[n] += x[n][:, at[0][n], at[1][n]] * weight[n]
    assert_same(y, wanted)


@pytest.mark.parametrize(("given", "message"), [
    ('mode = "area"', "'mode' of .* must be one of .*, got 'area'"),
    ('padding_mode = "mirror"', "'padding_mode' of .* must be one of zeros, border, reflection, got 'mirror'"),
])  # fmt: skip
def test_unknown_ways_to_sample_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        run(f"(float[1,1,3,4] x, float[1,1,1,2] g) => (y) {{ y = GridSample<{given}>(x, g) }}",
            {"x": IMAGE, "g": np.zeros((1, 1, 1, 2), F)}, opset=20)  # fmt: skip


def test_equal_scores_keep_their_order_and_boxes_without_an_area_suppress_nothing():
    boxes = F([[[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 2, 3], [2, 2, 2, 3]]])
    text = """(float[1,4,4] b, float[1,1,4] s) => (y) <int64 m = {9}, float i = {0.5}> {
        y = NonMaxSuppression(b, s, m, i) }"""
    y = run(text, {"b": boxes, "s": np.ones((1, 1, 4), F)}, opset=11)
    np.testing.assert_array_equal(y[:, 2], [0, 2, 3])


def test_a_corner_of_a_region_may_be_any_corner_of_a_box():
    boxes = F([[[1, 1, 0, 0], [0, 0, 1, 1]]])
    text = "(float[1,2,4] b, float[1,1,2] s) => (y) <int64 m = {2}> { y = NonMaxSuppression(b, s, m) }"
    assert run(text, {"b": boxes, "s": F([[[0.5, 1]]])}).tolist() == [[0, 0, 1]]


def test_regions_before_version_16_have_no_offset():
    """One bin of one sample: the center of a region of 2 x 2, and the same less half an element."""
    feeds = {"x": IMAGE, "r": F([[0, 0, 2, 2]]), "b": np.zeros(1, np.int64)}
    text = "(float[1,1,3,4] x, float[1,4] r, int64[1] b) => (y) { y = RoiAlign<sampling_ratio = 1>(x, r, b) }"
    assert run(text, feeds, opset=10).item() == 5
    assert run(text, feeds, opset=16).item() == 2.5


def test_the_maximum_of_a_region():
    text = """(float[1,1,3,4] x, float[2,5] r) => (y) {
        y = MaxRoiPool<pooled_shape = [1, 2], spatial_scale = 0.5>(x, r) }"""
    y = run(text, {"x": IMAGE, "r": F([[0, 0, 0, 6, 2], [0, 20, 20, 24, 24]])})
    np.testing.assert_array_equal(y, [[[[5, 7]]], [[[0, 0]]]])


def test_norms_of_windows():
    x = F([[[3, -4, 0, 5]]])
    np.testing.assert_array_equal(run("(float[1,1,4] x) => (y) { y = LpPool<kernel_shape = [2]>(x) }", {"x": x}),
                                  [[[5, 4, 5]]])  # fmt: skip
    assert run("(float[1,1,4] x) => (y) { y = GlobalLpPool<p = 1>(x) }", {"x": x}).item() == 12


# ---------------------------------------------------------------------------------------- old versions ------


@pytest.mark.parametrize(("body", "wanted"), [
    ("y = BatchNormalization<epsilon = 0.0, spatial = 1>(x, s, s, s, s)", [[[2], [8]]]),
    ("y = Upsample<scales = [1.0, 1.0, 2.0]>(x)", [[[2, 2], [6, 6]]]),
    ("y = Max(x, x)", [[[2], [6]]]), ("y = Sum(x, x)", [[[4], [12]]]),
])  # fmt: skip
def test_operators_of_version_7(body, wanted):
    text = f"(float[1,2,1] x) => (y) <float[2] s = {{1, 4}}> {{ {body} }}"
    np.testing.assert_array_equal(run(text, {"x": F([[[2], [6]]])}, opset=7), wanted)


def test_a_mean_for_each_element_is_refused():
    with pytest.raises(ValueError, match="must normalize channels, got spatial = 0"):
        loaded("g (float[1,2] x, float[2] s) => (y) { y = BatchNormalization<spatial = 0>(x, s, s, s, s) }", opset=7)


def test_a_scan_of_version_8_has_a_batch_whose_rows_end_early():
    text = """g (int64[2] l, float[2,1] s, float[2,3,1] x) => (t, y) { t, y = Scan<num_scan_inputs = 1,
        body = b (float[1] p, float[1] q) => (float[1] a, float[1] c) { a = Add(p, q) c = Identity(a) }>(l, s, x) }"""
    feeds = {"l": np.array([3, 1]), "s": np.zeros((2, 1), F), "x": F([[[1], [2], [3]], [[4], [5], [6]]])}
    t, y = loaded(text, opset=8).run(None, feeds)
    assert t.tolist() == [[6], [4]]
    assert y.tolist() == [[[1], [3], [6]], [[4], [0], [0]]]


def test_a_map_of_sequences_takes_tensors_and_captures():
    text = """(float[1] x, float[2] z, float[1] c) => (y) { s = SequenceConstruct(x, z) r = SequenceMap<body =
        b (float[n] p, float[1] q) => (float[n] w) { m = Mul(p, q) w = Add(m, c) }>(s, x)
        y = ConcatFromSequence<axis = 0>(r) }"""
    assert run(text, {"x": F([2]), "z": F([3, 4]), "c": F([1])}).tolist() == [5, 7, 9]


# ------------------------------------------------------------------------------------- random numbers ------


def test_draws_have_the_given_probabilities():
    x = np.repeat(F([0, 0.25, 1]), 4000).reshape(3, -1)
    y = run("(float[n,m] x) => (y) { y = Bernoulli<seed = 1.0>(x) }", {"x": x})
    assert y.dtype == F
    np.testing.assert_allclose(y.mean(1), [0, 0.25, 1], atol=0.03)
    x = F([[0, np.log(2), 0], [-np.inf, -np.inf, 3]])
    y = run("(float[n,m] x) => (y) { y = Multinomial<sample_size = 4000, seed = 1.0>(x) }", {"x": x})
    assert (y.dtype, y.shape) == (np.int32, (2, 4000))
    np.testing.assert_allclose([(y[0] == i).mean() for i in range(3)], [0.25, 0.5, 0.25], atol=0.03)
    assert (y[1] == 2).all()


# ---------------------------------------------------------------------------------------------- files ------


def test_images_with_channels_last_have_the_results_of_channels_first():
    rng = np.random.default_rng(0)
    weights = rng.integers(-99, 99, (4, 3, 2, 2), np.int8)
    tail = "(x, s, z, w, s, v, s, z)"
    text = """g (uint8[1,5,6,3] x) => (uint8[1,4,5,4] y, uint8[1,4,5,3] m) {{
        y = com.microsoft.QLinearConv<channels_last = 1>{0}
        m = com.microsoft.NhwcMaxPool<kernel_shape = [2, 2]>(x) }}"""
    first = f"g (uint8[1,3,5,6] x) => (y, m) {{ y = QLinearConv{tail} m = MaxPool<kernel_shape = [2, 2]>(x) }}"
    constants = {"s": F(0.1), "z": np.uint8(3), "v": np.int8(0), "w": weights}
    constants = {name: np.asarray(value) for name, value in constants.items()}
    x = rng.integers(0, 256, (1, 5, 6, 3), np.uint8)
    model = loaded(text.format(tail), microsoft=True, constants=constants)
    wanted = loaded(first, constants=constants).run(None, {"x": x.transpose(0, 3, 1, 2)})
    for ours, right in zip(model.run(None, {"x": x}), wanted, strict=True):
        np.testing.assert_array_equal(ours, right.transpose(0, 2, 3, 1))
    counted = model.saturations({"x": x})
    assert counted == loaded(first, constants=constants).saturations({"x": x.transpose(0, 3, 1, 2)})
    assert counted["y"] > 0


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_constants_are_made_dense(indices):
    model = model_of("g (float[2,3] x) => (float[2,3] y) { y = Add(x, c) }")
    values = onnx.numpy_helper.from_array(F([7, 9]), "c")
    model.graph.sparse_initializer.append(
        onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(np.array(indices)), [2, 3])
    )
    (y,) = int8blas.onnx.load(model).run(None, {"x": np.zeros((2, 3), F)})
    np.testing.assert_array_equal(y, [[0, 7, 0], [0, 0, 9]])


@pytest.mark.parametrize(("indices", "shape"), [([6], [2, 3]), ([[0, 3]], [2, 3]), ([[0, -1]], [2, 3]),
                                                ([0], [1 << 20] * 3)])  # fmt: skip
def test_wrong_sparse_constants_are_refused(indices, shape):
    model = model_of("g (float[n,m] x) => (y) { y = Add(x, c) }")
    values = onnx.numpy_helper.from_array(F([7]), "c")
    model.graph.sparse_initializer.append(
        onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(np.array(indices)), shape)
    )
    with pytest.raises(ValueError, match=r"indices|index|at most"):
        int8blas.onnx.load(model)


def test_a_refusal_of_a_domain_says_what_to_do():
    nodes = [onnx.helper.make_node("ReorderInput", ["x"], ["p"], domain="com.microsoft.nchwc"),
             onnx.helper.make_node("CategoryMapper", ["p"], ["y"], domain="ai.onnx.ml")]  # fmt: skip
    port = [onnx.helper.make_tensor_value_info(name, 1, None) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", port[:1], port[1:])
    opsets = [onnx.helper.make_opsetid(*each) for each in (("", 18), ("com.microsoft.nchwc", 1), ("ai.onnx.ml", 3))]
    with pytest.raises(NotImplementedError, match=r"floats='onnxruntime' runs them; .* the level extended$"):
        int8blas.onnx.load(onnx.helper.make_model(graph, opset_imports=opsets))


@pytest.mark.parametrize(("kind", "nearest", "scale", "size", "wanted"), [
    ("align_corners", "floor", 1.5, 3, [0, 0, 1, 2]), ("align_corners", "ceil", 0.5, 5, [0, 4]),
    ("align_corners", "round_prefer_floor", 1.5, 5, [0, 1, 1, 2, 3, 3, 4]),
    ("half_pixel", "floor", 0.6, 5, [0, 2, 3]), ("pytorch_half_pixel", "ceil", 0.5, 3, [0]),
    ("half_pixel_symmetric", "ceil", 1.5, 7, [0, 1, 2, 2, 3, 4, 4, 5, 6, 6]),
    ("asymmetric", "round_prefer_ceil", 0.8, 5, [0, 1, 3, 4]),
    ("asymmetric", "floor", 1.7, 12, [0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 6, 7, 7, 8, 8, 9, 10, 10, 11]),
    ("asymmetric", "round_prefer_ceil", 1.2, 9, [0, 1, 2, 3, 3, 4, 5, 6, 7, 8]),
    ("half_pixel_symmetric", "round_prefer_floor", 0.6, 7, [0, 2, 4, 5]),
])  # fmt: skip
def test_the_nearest_elements_are_those_of_positions_in_float32(kind, nearest, scale, size, wanted):
    """The expected positions are onnxruntime's. Some positions lie on a border in float32 but not in float64, some
    are half way between two elements apart from rounding errors, and the size of most results is no multiple of the
    scale."""
    body = f'y = Resize<coordinate_transformation_mode = "{kind}", nearest_mode = "{nearest}">(x, , s)'
    scales = np.array([1, scale], np.float32)
    model = loaded(f"g (float[1, n] x) => (float[1, m] y) {{ {body} }}", constants={"s": scales})
    (y,) = model.run(None, {"x": np.arange(size, dtype=np.float32)[None]})
    np.testing.assert_array_equal(y, [wanted])
