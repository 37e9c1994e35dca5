"""int8blas.torch: static networks of prepare, convert and calibrate, and of PT2E."""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch, the extra int8blas[torch]")
with warnings.catch_warnings():  # torch's own, at import
    warnings.simplefilter("ignore")
    import int8blas
    import int8blas.torch as i8
    from int8blas.torch import shapes, static, translation
nn = torch.nn
functional = nn.functional

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def _start():
    torch.manual_seed(0)
    torch._dynamo.reset()


def error(result, expected):
    return float((result - expected).detach().norm() / expected.detach().norm())


class Residual(nn.Module):
    """Convolutions with batch normalization, activations in place, a residual sum, pooling and a linear layer."""

    def __init__(self, activation=nn.ReLU):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.normalized = nn.BatchNorm2d(8)
        self.activations = nn.ModuleList(activation(inplace=True) for _ in range(2))
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Linear(8, 5)
        nn.init.uniform_(self.normalized.running_mean, -1, 1)
        nn.init.uniform_(self.normalized.running_var, 0.5, 2)

    def forward(self, x):
        y = self.activations[0](self.normalized(self.first(x)))
        y = self.pool(self.activations[1](self.second(y) + y))
        return self.last(torch.flatten(functional.adaptive_avg_pool2d(y, 1), 1))


def images(*shape):
    return torch.randn(shape or (4, 3, 16, 16))


def networks(model):
    return [each for each in model.modules() if isinstance(each, i8.Int8Network)]


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Hardswish, nn.SiLU, nn.ReLU6])
def test_a_network_is_one_part_in_int8(activation):
    model = Residual(activation).eval()
    data = [images() for _ in range(3)]
    near = i8.calibrate(model, data)
    (part,) = networks(near)
    operators = [call.operator for call in part._layer.explain()]
    assert [each.rpartition(".")[2] for each in operators].count("QuantizedConv") == 2
    assert not {"Conv", "BatchNormalization", "Gemm"} & {*operators}
    assert "com.microsoft.QLinearAdd" in operators
    # Other batches and sizes than the calibration's: a batch of one image must not fix the size of batches.
    near = i8.calibrate(model, [*data, images(1, 3, 16, 16)][::-1])
    for x in (data[0], images(1, 3, 20, 12)):
        with torch.no_grad():
            assert 0 < error(near(x), model(x)) < 0.05
    assert not any(each.requires_grad for each in near.parameters())


def test_deep_networks():
    depth = 600  # a recursion along the operators would exceed Python's limit of nested calls
    model = nn.Sequential(nn.Linear(8, 8), *(nn.ReLU() if k % 2 else nn.Tanh() for k in range(depth)), nn.Linear(8, 8))
    x = torch.randn(4, 8)
    near = i8.calibrate(model.eval(), [x])
    assert len(networks(near)) == 1
    with torch.no_grad():
        assert error(near(x), model(x)) < 0.05


def test_prepared_models_compute_in_floats_and_observe():
    model, x = Residual().eval(), images()
    prepared = i8.prepare(model)
    for scale in (1, 5):
        assert error(prepared(scale * x), model(scale * x)) < 1e-5
    near = i8.convert(prepared)
    # The scale of the source is computed from all data.
    with torch.no_grad():
        assert error(near(5 * x), model(5 * x)) < 0.05
    alone = i8.calibrate(model, [x])
    with torch.no_grad():
        assert error(alone(5 * x), model(5 * x)) > 0.2
    # The prepared model goes on.
    assert error(prepared(x), model(x)) < 1e-5


def test_a_filter_keeps_products_in_floats():
    names = []
    near = i8.calibrate(Residual().eval(), [images()],
                        filter=lambda name, module: names.append((name, type(module))) or name != "second")  # fmt: skip
    assert {*names} == {("first", nn.Conv2d), ("second", nn.Conv2d), ("last", nn.Linear)}
    kinds = [call.operator for part in networks(near) for call in part._layer.explain() if call.arithmetic != "int8"]
    assert kinds.count("Conv") == 1
    with pytest.raises(
        ValueError, match="model must have products of float32, bfloat16 or float16 with constant weights"
    ):
        i8.calibrate(Residual().eval(), [images()], filter=lambda *_: False)


class Integers(nn.Module):
    """Integers and masks beside a linear layer, whose types torch converts."""

    def __init__(self):
        super().__init__()
        self.linear, self.table = nn.Linear(24, 16), nn.Embedding(50, 16)

    def forward(self, x, ids):
        return (
            self.linear(x) * (ids > 20).unsqueeze(-1)
            + self.table(ids.view(ids.shape[0], -1) + 1)
            + (ids * 2)[..., None]
        )


def test_integers_and_masks_stay_with_torch():
    model, x, ids = Integers().eval(), torch.randn(2, 5, 24), torch.randint(0, 49, (2, 5))
    prepared = i8.prepare(model)
    assert error(prepared(x, ids), model(x, ids)) < 1e-6
    near = i8.convert(prepared)
    with torch.no_grad():
        assert 0 < error(near(x, ids), model(x, ids)) < 0.01


class Islands(nn.Module):
    """Operators between linear layers that int8blas has no nodes for, arguments by name, several results."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.gru = nn.Linear(24, 16), nn.Linear(16, 16), nn.GRU(16, 16, batch_first=True)

    def forward(self, x, *, scale, mask=None):
        y = torch.relu(self.first(x))
        y = torch.cumsum(y * scale, 1) if mask is None else y.masked_fill(mask, 0)
        z, _ = self.gru(self.second(y))
        return {"y": y, "z": functional.layer_norm(z, (16,))}


def test_unknown_operators_are_islands_of_floats():
    model, data = Islands().eval(), [{"x": torch.randn(2, 5, 24), "scale": torch.tensor([1.5])} for _ in range(2)]
    near = i8.calibrate(model, data)
    assert len(networks(near)) == 2
    with torch.no_grad():
        for n in (2, 3):
            given = {"x": torch.randn(n, 5, 24), "scale": torch.tensor([1.5])}
            found, wanted = near(**given), model(**given)
            assert found.keys() == wanted.keys()
            assert all(0 < error(found[key], wanted[key]) < 0.05 for key in wanted)


ONES = {shape: torch.ones(shape) for shape in ((4, 6, 3, 3), (6, 1, 3, 2), (4, 6, 3), (6, 4, 3, 3), (4, 6), (6,))}
RISING = {n: torch.arange(float(n)) for n in (4, 6)}
OPERATORS = [
    (lambda x: functional.conv2d(x, ONES[4, 6, 3, 3], stride=(2, 1), padding=(1, 0), dilation=(1, 2)), (2, 6, 9, 9)),
    (lambda x: functional.conv2d(x, ONES[6, 1, 3, 2], RISING[6], padding="same", groups=6), (2, 6, 9, 9)),
    (lambda x: functional.conv1d(x, ONES[4, 6, 3], padding="valid"), (2, 6, 9)),
    (lambda x: functional.conv_transpose2d(x, ONES[6, 4, 3, 3], stride=2, padding=1, output_padding=1), (2, 6, 5, 5)),
    (lambda x: functional.linear(x, ONES[4, 6]), (2, 6)),
    (lambda x: functional.linear(x, ONES[4, 6], RISING[4]), (2, 5, 6)),
    (lambda x: functional.max_pool2d(x, (3, 2), stride=2, padding=1, ceil_mode=True), (2, 6, 8, 8)),
    (lambda x: functional.max_pool1d(x, 3, dilation=2), (2, 6, 9)),
    (lambda x: functional.avg_pool2d(x, 3, padding=1, count_include_pad=False), (2, 6, 9, 9)),
    (lambda x: functional.avg_pool2d(x, 3, stride=2, padding=1), (2, 6, 9, 9)),
    (lambda x: functional.adaptive_avg_pool2d(x, 1), (2, 6, 9, 9)),
    (lambda x: x.mean((2, 3)), (2, 6, 9, 9)),
    (lambda x: x.mean((-2, -1), keepdim=True), (2, 6, 9, 9)),
    (functional.hardswish, (2, 6)), (functional.hardsigmoid, (2, 6)), (functional.silu, (2, 6)),
    (functional.gelu, (2, 6)), (lambda x: functional.gelu(x, approximate="tanh"), (2, 6)),
    (lambda x: functional.leaky_relu(x, 0.2), (2, 6)), (lambda x: functional.elu(x, 0.5), (2, 6)),
    (functional.relu6, (2, 6)), (lambda x: x.clamp(min=0.25), (2, 6)), (lambda x: x.clamp(-0.5, 0.5), (2, 6)),
    (torch.tanh, (2, 6)), (torch.sigmoid, (2, 6)),
    (lambda x: x + 2 * x, (2, 6)), (lambda x: x / 3 - x.mean(-1, keepdim=True), (2, 6)),
    (lambda x: torch.cat([x, x * 2], -1), (2, 6)),
    (lambda x: x.view(2, 3, 2).transpose(0, -1), (2, 6)), (lambda x: x.permute(2, 0, -2), (2, 6, 3)),
    (lambda x: x.flatten(1), (2, 6, 3)), (lambda x: x.unsqueeze(-1), (2, 6)),
    (lambda x: x.reshape(x.shape[0] * 3, -1), (2, 6)),
    (lambda x: functional.softmax(x, -1), (2, 6)),
    (lambda x: functional.layer_norm(x, (6,), RISING[6], ONES[6,]), (2, 5, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "shape"), OPERATORS)
def test_operators_compute_what_torch_does(function, shape, monkeypatch):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.product = nn.Linear(shape[-1], shape[-1])

        def forward(self, x):
            return function(self.product(x))

    model, x = Model().eval(), torch.randn(shape)
    prepared = i8.prepare(model)
    found, wanted = prepared(x), model(x)
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-5)
    # Nothing but sizes is left to torch.
    left = {str(node.target) for node in prepared.graph.graph.nodes if node.op == "call_function"}
    assert {each for each in left if "sym_size" not in each and "built-in" not in each and "slice" not in each} == set()


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_files(clone):
    model, x = Residual().eval(), images()
    near = i8.calibrate(model, [x])
    assert torch.equal(clone(near)(x), near(x))
    buffer = io.BytesIO()
    torch.save(near.state_dict(), buffer)
    buffer.seek(0)
    other = i8.calibrate(Residual().eval(), [2 * x])
    assert not torch.equal(other(x), near(x))
    state = torch.load(buffer, weights_only=True)
    other.load_state_dict(state)
    assert torch.equal(other(x), near(x))
    linear = i8.calibrate(nn.Linear(16, 8).eval(), [torch.randn(2, 16)])
    text = r"int8_0\.network must be of .* the same architecture, got one whose line 1 is constant \[8, 3, 3, 3\].* "
    with pytest.raises(RuntimeError, match=text + r"instead of constant \[8, 16\]"):
        linear.load_state_dict(state)


@pytest.mark.parametrize("make", [lambda: nn.Linear(16, 9), lambda: nn.Linear(16, 8, bias=False),
                                  lambda: nn.Sequential(nn.Linear(16, 8), nn.ReLU())])  # fmt: skip
def test_states_of_other_architectures_with_the_same_names_are_refused(make):
    x = torch.randn(2, 16)
    near, other = (i8.calibrate(model.eval(), [x]) for model in (nn.Linear(16, 8), make()))
    wanted = near(x)
    with pytest.raises(RuntimeError, match="same architecture, got one whose line"):
        near.load_state_dict(other.state_dict())
    assert torch.equal(near(x), wanted)


def test_states_of_other_batches_and_sizes_are_taken():
    model = Residual().eval()
    first, *others = (
        i8.calibrate(model, [images(*shape)]) for shape in ((4, 3, 16, 16), (1, 3, 16, 16), (5, 3, 20, 12))
    )
    for other in others:
        other.load_state_dict(first.state_dict())
        x = images(2, 3, 24, 24)
        assert torch.equal(other(x), first(x))


def test_pickles_have_the_operators_of_torch():
    # torch.fx cannot trace the graph's code again: torch.zeros has a size that is no number.
    model, x = Islands().eval(), {"x": torch.randn(2, 5, 24), "scale": torch.tensor([1.5])}
    near = i8.calibrate(model, [x])
    buffer = io.BytesIO()
    torch.save(near, buffer)
    buffer.seek(0)
    other = torch.load(buffer, weights_only=False)
    for n in (2, 3):
        x["x"] = torch.randn(n, 5, 24)
        assert torch.equal(other(**x)["z"], near(**x)["z"])
    assert torch.equal(copy.deepcopy(other)(**x)["z"], near(**x)["z"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_of_short_floats(dtype):
    model, x = Residual().eval().to(dtype), images().to(dtype)
    near = i8.calibrate(model, [x])
    with torch.no_grad():
        for y in (x, images(1, 3, 20, 12).to(dtype)):
            assert near(y).dtype is dtype
            assert 0 < error(near(y).float(), model(y).float()) < 0.05
        assert torch.equal(pickle.loads(pickle.dumps(near))(x), near(x))
        assert all(each.dtype is dtype for each in model.parameters())


def test_compilers_gradients_and_devices():
    near, x = i8.calibrate(Residual().eval(), [images()]), images()
    compiled = torch.compile(near, backend="aot_eager", fullgraph=True, dynamic=True)
    for y in (x, images(2, 3, 20, 12)):
        assert torch.equal(compiled(y), near(y))
    with torch.inference_mode():
        assert near(x).shape == (4, 5)
    y = near(x.requires_grad_())
    with pytest.raises(RuntimeError, match="module 'int8_0', Int8Network, has no gradient"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="computes on the CPU, got device 'meta'"):
        near.to("meta")


@pytest.mark.parametrize("model", [Residual(), nn.Sequential(nn.Linear(16, 16), nn.Dropout(), nn.Linear(16, 8))])
def test_static_networks_under_autocast(model):
    x = images() if isinstance(model, Residual) else torch.randn(2, 16)
    for chosen in (None, lambda name, module: name != "0"):
        near = i8.calibrate(model.eval(), [x], filter=chosen)
        compiled = torch.compile(near, backend="aot_eager")
        with torch.no_grad(), torch.autocast("cpu"):
            wanted, found, again = model(x), near(x), compiled(x)
        assert found.dtype is wanted.dtype is again.dtype is torch.bfloat16
        assert error(found.float(), near(x)) < 0.02


def test_exported_programs():
    near, x = i8.calibrate(Residual().eval(), [images()]), images()
    program = torch.export.export(near, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO},))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    for y in (x, images(2, 3, 20, 16)):
        assert torch.equal(loaded(y), near(y))


class SelfAttention(nn.Module):
    """Attention with three linear layers, as in BERT."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        q, k, v = (part(x).view(*x.shape[:2], 4, 8).transpose(1, 2) for part in self.parts[:3])
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.parts[3](mixed.transpose(1, 2).reshape(*x.shape))


def test_views_behind_operators_that_choose_their_strides():
    near, x = i8.calibrate(SelfAttention().eval(), [torch.randn(2, 10, 32)]), torch.randn(2, 10, 32)
    expected = near(x)
    assert torch.equal(torch.export.export(near, (x,)).module()(x), expected)
    with torch.no_grad():
        assert torch.equal(torch.compile(near, backend="aot_eager", fullgraph=True)(x), expected)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # its result has other strides
        assert error(near(x), expected) < 0.02
    shape = near.get_submodule("int8_0").shapes
    assert "aten.view.default" in shape  # its name in files stays


@pytest.mark.parametrize("kind", [nn.AvgPool2d, nn.MaxPool2d])
@pytest.mark.parametrize("padding", [0, 3])
def test_windows_larger_than_images_in_ceil_mode(kind, padding):
    pool = kind(20, padding=padding, ceil_mode=True)
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), pool).eval(), images(2, 3, 5, 6)
    near = i8.calibrate(model, [x])
    assert [name for name, _ in near.named_children()] == ["int8_0"]
    assert error(near(x), model(x)) < 0.02


def test_the_operator():
    (part,) = networks(i8.calibrate(Residual().eval(), [images()]))
    torch.library.opcheck(static.network, ([images()], [4], part.network, part.shapes, "name"))
    with pytest.raises(ValueError, match="the network takes 1 tensors and 1 sizes, got 1 and 0"):
        static.network([images()], [], part.network, part.shapes, "")
    with pytest.raises(ValueError, match="the bytes must have the network of an Int8Network, got list"):
        static.restored(torch.frombuffer(bytearray(saved([])), dtype=torch.uint8))
    for name in ("load_library", "ops.load_library", "aten.relu"):
        with pytest.raises((ValueError, AttributeError), match=r"operator|attribute"):
            shapes.operator_of(name)


def saved(value):
    file = io.BytesIO()
    int8blas.save(file, value)
    return file.getvalue()


def test_recurrent_layers_of_quantize_are_islands():
    model, x = Islands().eval(), {"x": torch.randn(2, 5, 24), "scale": torch.tensor([1.5])}
    with torch.no_grad():
        wanted = model(**x)
        i8.quantize_(model, filter=lambda name, module: isinstance(module, nn.GRU))
        assert 0 < error(i8.calibrate(model, [x])(**x)["z"], wanted["z"]) < 0.05


def quantized_by_pt2e(model, x, dynamic_batch=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="needs torchao")
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
    sizes = ({0: torch.export.Dim.AUTO},) if dynamic_batch else None
    graph = torch.export.export(model, (x,), dynamic_shapes=sizes).module()
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = quantize.prepare_pt2e(graph, quantizer)
    prepared(x)
    return quantize.convert_pt2e(prepared)


def test_models_of_pt2e():
    model, x = Residual().eval(), images()
    theirs = quantized_by_pt2e(model, x)
    ours = i8.convert(theirs, x)
    (part,) = networks(ours)
    assert not any(call.operator == "Conv" for call in part._layer.explain())
    with torch.no_grad():
        for y in (x, images(2, 3, 16, 16)):
            # Both compute with the same integers; torch rounds x * (1 / scale), int8blas x / scale.
            assert error(ours(y), theirs(y)) < 1e-3
    linear = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    x = torch.randn(2, 5, 24)
    theirs = quantized_by_pt2e(linear, x)
    ours = i8.convert(theirs, (x,))
    assert error(ours(x), theirs(x)) < 1e-3
    assert all(call.arithmetic == "int8" for part in networks(ours) for call in part._layer.explain()
               if "MatMul" in call.operator)  # fmt: skip


def test_scales_of_pt2e_with_few_bits_stay_with_torch():
    class Few(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            q = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.1, 60, 0, 127, torch.uint8)
            return self.linear(torch.ops.quantized_decomposed.dequantize_per_tensor(q, 0.1, 60, 0, 127, torch.uint8))

    translation.add_pt2e()
    model, x = Few().eval(), 10 * torch.randn(3, 8)
    program = torch.export.export(model, (x,)).module()
    ours = i8.convert(program, x)
    assert "quantize_per_tensor" in "".join(str(node.target) for node in ours.graph.nodes)
    assert torch.allclose(ours(x), model(x), atol=1e-5)


def test_wrong_arguments():
    model, x = Residual().eval(), images()
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got str"):
        i8.prepare("model")
    with pytest.raises(TypeError, match="config must be Int8Static or None, got Int8Dynamic"):
        i8.prepare(model, i8.Int8Dynamic())
    with pytest.raises(TypeError, match="filter must be callable or None, got str"):
        i8.calibrate(model, [x], filter="name")
    with pytest.raises(ValueError, match="model must have been called on data after prepare, got no call"):
        i8.calibrate(model, [])
    with pytest.raises(TypeError, match=r"a result of int8blas\.torch\.prepare or of convert_pt2e, got Residual"):
        i8.convert(model)
    prepared = i8.prepare(model)
    prepared(x)
    with pytest.raises(ValueError, match="example_inputs must be None for a result of prepare"):
        i8.convert(prepared, x)
    with pytest.raises(ValueError, match="example_inputs must be the inputs of a call for a model of PT2E, got None"):
        i8.convert(prepared.graph)
    with pytest.raises(ValueError, match=r"got module '', Residual in training mode: call model\.eval\(\) first"):
        i8.prepare(Residual())(x)
    with pytest.raises(ValueError, match=r"call model\.float\(\) first"):
        i8.prepare(nn.Linear(8, 8).double().eval())(torch.ones(1, 8).double())


def test_models_that_cannot_be_exported_are_told_of_quantize():
    class Branches(nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else x

    with pytest.raises(Exception, match=r"data-dependent|guard") as caught:  # torch's own
        i8.prepare(Branches(8, 8).eval())(torch.ones(1, 8))
    assert "quantize_ replaces its modules one by one" in "".join(caught.value.__notes__)


class Divided(nn.Module):
    """A division whose result is infinite for 0."""

    def __init__(self):
        super().__init__()
        self.first, self.divide, self.second = nn.Linear(8, 8), Inverse(), nn.Linear(8, 8)

    def forward(self, x):
        return self.second(self.divide(self.first(x)))


class Inverse(nn.Module):
    """1 / x."""

    def forward(self, x):
        return 1 / x


def test_values_that_are_not_finite_name_the_batch_and_the_module():
    prepared = i8.prepare(nn.Sequential(nn.Linear(8, 8)).eval())
    prepared(torch.ones(1, 8))
    with pytest.raises(ValueError, match="finite") as caught:
        prepared(torch.full((1, 8), np.nan))
    wanted = "in batch 1 (from 0), in the source of module '0', Linear: remove the batch from the data"
    assert wanted in caught.value.__notes__
    model = Divided().eval()
    nn.init.zeros_(model.first.weight), nn.init.zeros_(model.first.bias)
    with pytest.raises(ValueError, match="finite") as caught:
        i8.calibrate(model, [torch.ones(1, 8)])
    assert "in the result of module 'divide', Inverse" in "".join(caught.value.__notes__)
    # The remedy: the same data without the batch.
    assert i8.convert(prepared)(torch.ones(1, 8)).shape == (1, 8)


def test_other_dtypes_name_the_input():
    near = i8.calibrate(nn.Linear(16, 8).eval(), [torch.ones(2, 16)])
    with pytest.raises(TypeError, match=r"must be torch\.float32.* got torch\.bfloat16: convert it") as caught:
        near(torch.ones(2, 16).bfloat16())
    assert "module 'int8_0'" in "".join(caught.value.__notes__)
