"""int8blas.torch: models whose linear layers, convolutions and attention are int8."""

import copy
import gc
import io
import pickle
import warnings

import numpy as np
import pytest

import int8blas

torch = pytest.importorskip("torch", reason="needs torch, the extra int8blas[torch]")
with warnings.catch_warnings():  # torch itself warns at import
    warnings.simplefilter("ignore")
    import int8blas.torch as i8
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def _start():
    torch.manual_seed(0)
    torch._dynamo.reset()  # the limit of compilations applies to the whole process


def error(result, expected):
    return float((result.detach().float() - expected.float()).norm() / expected.float().norm())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("group", [None, 16])
@pytest.mark.parametrize("shape", [(64,), (1, 64), (5, 64), (2, 3, 64), (0, 64), (2, 0, 64)])
def test_a_linear_layer_is_inner_product_dynamic(bias, group, shape):
    float_layer = nn.Linear(64, 24, bias=bias)
    layer = i8.quantize_(copy.deepcopy(float_layer), i8.Int8Dynamic(group=group))
    x = torch.randn(shape)
    weights, values = float_layer.weight.detach().numpy(), float_layer.bias
    ours = int8blas.InnerProduct.dynamic(weights, values.detach().numpy() if bias else None, group=group)
    assert np.array_equal(layer(x).numpy(), ours(x.numpy()))
    assert layer(x).shape == float_layer(x).shape


@pytest.mark.parametrize("make", [
    lambda: nn.Linear(6, 5), lambda: nn.LSTM(6, 4), lambda: nn.GRU(6, 4), lambda: nn.Conv1d(3, 2, 3),
])  # fmt: skip
def test_views_that_torch_negates_later(make):
    """torch negates the imaginary part of a conjugate only when it reads it."""
    layer = i8.quantize_(make())
    for x in (torch._neg_view(torch.randn(2, 3, 6)), torch.randn(2, 3, 6, dtype=torch.complex64).conj().imag):
        assert x.is_neg()
        results = [layer(each) for each in (x, x.clone().resolve_neg())]
        first, second = (y[0] if isinstance(y, tuple) else y for y in results)
        assert torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_floats_give_their_own_dtype(dtype):
    layer = i8.quantize_(nn.Linear(64, 24).to(dtype))
    x = torch.randn(3, 64).to(dtype)
    y = layer(x)
    assert y.dtype == dtype
    assert torch.equal(y, layer(x.float()).to(dtype))


def test_other_dtypes_are_refused_and_stay_float():
    layer = i8.quantize_(nn.Linear(8, 8))
    with pytest.raises(TypeError, match=r"input must be float32, bfloat16 or float16, got torch\.float64"):
        layer(torch.ones(1, 8, dtype=torch.float64))
    assert type(i8.quantize_(nn.Linear(8, 8).double())) is nn.Linear


def test_a_source_with_a_gradient_works_and_backward_is_refused():
    model = i8.quantize_(
        nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), filter=lambda name, _: name == "2"
    )
    x = torch.randn(3, 16)
    y = model(x)
    with torch.no_grad():
        assert torch.equal(y, model(x))
    with pytest.raises(RuntimeError, match="has no gradient"):
        y.sum().backward()


def test_filter_subclasses_hooks_and_shared_modules():
    class Own(nn.Linear):
        pass

    shared, hooked = nn.Linear(8, 8), nn.Linear(8, 8)
    hooked.register_forward_hook(lambda *_: None)
    model = nn.ModuleDict({"a": shared, "b": shared, "own": Own(8, 8), "hooked": hooked, "kept": nn.Linear(8, 8)})
    names = []
    assert i8.quantize_(model, filter=lambda name, module: names.append(name) or name != "kept") is model
    assert model["a"] is model["b"]
    assert [type(module).__name__ for module in model.values()] == [
        "Int8Linear", "Int8Linear", "Own", "Linear", "Linear"
    ]  # fmt: skip
    assert names == ["", "a", "own", "hooked", "kept"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dequantized_models_have_their_dtype(dtype):
    parts = [nn.Linear(16, 16), nn.Conv1d(16, 16, 3), nn.Embedding(5, 16), nn.GRU(16, 16), nn.MultiheadAttention(16, 2)]
    for module in parts:
        for make in (copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
            back = i8.dequantize_(make(i8.quantize_(copy.deepcopy(module).to(dtype))))
            assert {each.dtype for each in back.parameters()} == {dtype}


def test_dequantize_gives_the_weights_of_the_integers():
    layer = nn.Linear(64, 24)
    weight = layer.weight.detach()
    for group in (None, 16):
        back = i8.dequantize_(i8.quantize_(copy.deepcopy(layer), i8.Int8Dynamic(group=group)))
        assert type(back) is nn.Linear
        assert torch.equal(back.bias, layer.bias)
        limit = weight.abs().max() / 254 + 1e-6
        assert (back.weight - weight).abs().max() <= limit


def model_of_all():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8, bias=False)).eval()


def test_state_dict_goes_through_safe_files():
    model, x = i8.quantize_(model_of_all()), torch.randn(4, 32)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    other = i8.quantize_(model_of_all())
    assert not torch.equal(other(x), model(x))
    assert str(other.load_state_dict(torch.load(buffer, weights_only=True))) == "<All keys matched successfully>"
    assert torch.equal(other(x), model(x))
    # The loaded layer does not share memory.
    model[0].scale.zero_()
    assert other[0].scale.abs().sum() > 0


def test_a_state_dict_outlives_its_model():
    model = i8.quantize_(model_of_all())
    state, expected = model.state_dict(), model[0].packed.clone()
    del model
    gc.collect()
    others = [np.full(expected.numel(), 77, np.int8) for _ in range(20)]
    assert len(others) == 20
    assert torch.equal(state["0.packed"], expected)


def test_wrong_state_dicts_are_refused():
    model = i8.quantize_(model_of_all())
    with pytest.raises(RuntimeError, match=r"Missing key\(s\).*0.packed"):
        model.load_state_dict(model_of_all().state_dict())
    state = model.state_dict() | {"0.scale": torch.ones(3)}
    with pytest.raises(RuntimeError, match=r"0\.scale must be torch\.float32 of shape"):
        model.load_state_dict(state)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_compute_the_same(clone):
    model, x = i8.quantize_(model_of_all()), torch.randn(4, 32)
    assert torch.equal(clone(model)(x), model(x))


def test_devices_and_dtypes_of_a_model():
    model, x = i8.quantize_(model_of_all()), torch.randn(4, 32)
    expected = model(x)
    assert torch.equal(model.to("cpu").half().float()(x), expected)
    with pytest.raises(RuntimeError, match="computes on the CPU, got device 'meta'"):
        model.to("meta")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_compiled_whole(mode):
    model = i8.quantize_(model_of_all())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with mode():
        for rows in (1, 4, 5):
            x = torch.randn(rows, 32)
            assert torch.equal(compiled(x), model(x))


def test_the_operator_passes_opcheck():
    layer = i8.quantize_(nn.Linear(32, 8))
    for x in (torch.randn(3, 32), torch.randn(32), torch.randn(2, 3, 32).half()):
        torch.library.opcheck(torch.ops.int8blas.linear.default, (x, layer.packed, layer.scale, layer.bias, 32, False))


def test_exported_and_traced():
    model, x = i8.quantize_(model_of_all()), torch.randn(4, 32)
    other = torch.randn(4, 32)
    program = torch.export.export(model, (x,))
    assert torch.equal(program.module()(other), model(other))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    assert torch.equal(torch.export.load(buffer).module()(other), model(other))
    traced = torch.jit.trace(model, x)
    assert torch.equal(traced(other), model(other))
    assert torch.equal(torch.fx.symbolic_trace(model)(other), model(other))


@pytest.mark.parametrize("group", [None, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_alone(group, dtype):
    float_layer, config = nn.Linear(64, 24).to(dtype), i8.Int8WeightOnly(group=group)
    layer = i8.quantize_(copy.deepcopy(float_layer), config)
    assert "weight_only=True" in repr(layer)
    assert ("group=16" in repr(layer)) == (group is not None)
    x = torch.randn(2, 3, 64).to(dtype)
    weight, bias = (each.detach().float().numpy() for each in (float_layer.weight, float_layer.bias))
    wanted = int8blas.RealProduct(weight.T, bias=bias, group=group)(x.float().numpy())
    assert torch.equal(layer(x), torch.from_numpy(wanted).to(dtype))
    # Only weights are quantized.
    assert error(layer(x), torch.nn.functional.linear(x.float(), layer.weight.float(), float_layer.bias.float())) < (
        1e-6 if dtype == torch.float32 else 5e-3
    )
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    other = i8.quantize_(nn.Linear(64, 24).to(dtype), config)
    other.load_state_dict(layer.state_dict())
    for each in (compiled, other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(each(x), layer(x))


def test_weights_alone_of_models():
    model = nn.Sequential(nn.Embedding(50, 32), nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)).eval()
    near, ids = i8.quantize_(copy.deepcopy(model), i8.Int8WeightOnly()), torch.randint(0, 50, (2, 6))
    assert 0 < error(near(ids), model(ids).detach()) < 0.02
    with pytest.warns(UserWarning, match="Int8WeightOnly does not replace Conv2d; Int8Dynamic does"):
        assert type(i8.quantize_(nn.Conv2d(3, 3, 3), i8.Int8WeightOnly())) is nn.Conv2d


class Two(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x, x, x)[0] if isinstance(self.layer, i8.Int8MultiheadAttention) else self.layer(x)


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (lambda: nn.Linear(8, 4), torch.ones(2, 8)),
        (lambda: nn.Conv2d(3, 4, 3), torch.ones(2, 3, 5, 5)),
        (lambda: nn.ConvTranspose1d(3, 4, 3), torch.ones(2, 3, 5)),
        (lambda: nn.GRU(8, 4), torch.ones(2, 3, 8)),
        (lambda: nn.Embedding(8, 4), torch.tensor([[1, 2]])),
        (lambda: nn.EmbeddingBag(8, 4), torch.tensor([[1, 2]])),
        (lambda: nn.MultiheadAttention(8, 2), torch.ones(2, 3, 8)),
    ],
)
def test_fx_traces_every_module(make, x):
    model = Two(i8.quantize_(make()))
    traced = torch.fx.symbolic_trace(model)
    found, wanted = traced(x), model(x)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    ("make", "x"), [(lambda: nn.Linear(8, 4), torch.ones(2, 7)), (lambda: nn.Conv1d(3, 4, 3), torch.ones(2, 3, 2))]
)
def test_errors_of_sources_name_the_module(make, x):
    model = nn.Sequential(i8.quantize_(make()))
    with pytest.raises(ValueError, match="src must have") as caught:
        model(x)
    assert caught.value.__notes__ == [f"in {model[0]}"]


CONVOLUTIONS = [
    (nn.Conv1d, (6, 8, 3), {"stride": 2, "padding": 1}, (2, 6, 11)),
    (nn.Conv2d, (6, 8, 3), {"padding": "same", "dilation": 2, "bias": False}, (2, 6, 9, 10)),
    (nn.Conv2d, (6, 8, (3, 2)), {"padding": "same"}, (2, 6, 9, 10)),
    (nn.Conv2d, (6, 12, 3), {"groups": 3, "padding": (1, 0)}, (6, 9, 10)),
    (nn.Conv2d, (8, 8, 3), {"groups": 8, "stride": (2, 1)}, (2, 8, 9, 10)),
    (nn.Conv2d, (6, 8, 1), {"padding": "valid"}, (0, 6, 9, 10)),
    (nn.Conv3d, (3, 4, 3), {"padding": 1}, (2, 3, 5, 6, 7)),
    (nn.Conv1d, (6, 8, 4), {"padding": "same", "padding_mode": "circular"}, (2, 6, 11)),
    (nn.Conv2d, (6, 8, 3), {"padding": (2, 1), "padding_mode": "reflect"}, (2, 6, 9, 10)),
    (nn.Conv3d, (3, 4, 3), {"padding": 1, "padding_mode": "replicate"}, (2, 3, 5, 6, 7)),
    (nn.ConvTranspose1d, (6, 8, 3), {"stride": 2, "padding": 1, "output_padding": 1}, (2, 6, 11)),
    (nn.ConvTranspose2d, (6, 12, 3), {"groups": 3, "dilation": (2, 1), "bias": False}, (2, 6, 9, 10)),
    (nn.ConvTranspose2d, (8, 8, (4, 2)), {"groups": 8, "stride": 2, "padding": (1, 0)}, (8, 9, 10)),
    (nn.ConvTranspose3d, (3, 4, 2), {"stride": (2, 1, 2)}, (2, 3, 5, 6, 7)),
]


@pytest.mark.parametrize(("kind", "sizes", "options", "shape"), CONVOLUTIONS)
def test_convolutions(kind, sizes, options, shape):
    convolution, x = kind(*sizes, **options), torch.randn(shape)
    layer = i8.quantize_(copy.deepcopy(convolution))
    back = i8.dequantize_(copy.deepcopy(layer))
    images = [x, x.bfloat16()]
    if len(shape) == 4 and shape[0]:
        images.append(x.contiguous(memory_format=torch.channels_last))
    for image in images:
        y, expected = layer(image), convolution(image.float()).detach()
        assert (y.shape, y.dtype) == (expected.shape, image.dtype)
        if y.numel():
            assert y.is_contiguous() == expected.is_contiguous()
            assert 0 < error(y, expected) < 0.03
            assert error(y, back(image.float()).detach()) < 0.02
    if x.dim() == layer.quantized.dim() and y.numel():
        arguments = (layer.quantized, layer.scale, layer.bias, list(layer.stride),
                     [p for pair in layer.pads for p in pair], list(layer.dilation), layer.groups,
                     list(layer.output_padding) if layer.transposed else [])  # fmt: skip
        for image in images[:1] + images[2:]:
            if layer.padding_mode == "zeros":
                torch.library.opcheck(torch.ops.int8blas.convolution.default, (image, *arguments))
            assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(image), layer(image))


@pytest.mark.parametrize("make", [
    lambda: nn.Conv2d(6, 8, 3, groups=2), lambda: nn.Conv3d(6, 8, 3, padding=1), lambda: nn.ConvTranspose3d(6, 4, 2)
])  # fmt: skip
def test_convolutions_keep_the_layout_of_images(make):
    module = make().eval()
    layer = i8.quantize_(copy.deepcopy(module))
    dims = len(module.kernel_size)
    last = {2: torch.channels_last, 3: torch.channels_last_3d}[dims]
    first = torch.randn(2, 6, *(5, 6, 7)[:dims])
    wanted = layer(first)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for x in (first, first.contiguous(memory_format=last), first.flip(1)[:, :, ::2]):
        y, z = layer(x), compiled(x)
        assert y.stride() == z.stride() == module(x).stride()
        assert torch.equal(y, z)
        assert torch.equal(y, layer(x.contiguous()))
        assert y.shape != wanted.shape or torch.equal(y, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(16, 8), lambda: nn.ConvTranspose1d(8, 6, 3, groups=2), lambda: nn.Embedding(10, 6)]
)
def test_the_dtype_of_a_weight_does_not_compute_the_weight(make, dtype, monkeypatch):
    """Models of transformers read weight.dtype several times in each call."""
    module = make().to(dtype)
    layer = i8.quantize_(copy.deepcopy(module))
    with monkeypatch.context() as patch:
        patch.setattr(type(layer), "_dequantize", lambda self: pytest.fail("the weight was computed"))
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        assert (weight.dtype, weight.device.type, weight.shape) == (dtype, "cpu", module.weight.shape)
        assert (weight.dim(), weight.numel(), len(weight)) == (module.weight.dim(), weight.shape.numel(), len(weight))
    assert 0 < error(layer.weight, module.weight.detach()) < 0.01
    weight, values = layer.weight, layer.weight.clone()
    assert type(values) is torch.Tensor
    for each in (weight, copy.deepcopy(weight), pickle.loads(pickle.dumps(weight)), weight.detach(), weight.data):
        assert torch.equal(each, values)
    assert np.array_equal(weight.float().numpy(), np.asarray(values.float()))
    assert torch.equal(weight.mul_(2), 2 * values)
    assert torch.equal(weight, 2 * values)
    assert torch.equal(layer.weight, values)
    module.load_state_dict({**module.state_dict(), "weight": layer.weight})
    assert torch.equal(module.weight, values)


def test_functions_take_a_weight():
    """Models with tied weights call functional.linear with the weight of an embedding."""
    layer, x = i8.quantize_(nn.Linear(16, 8)), torch.randn(3, 16)
    values = layer.weight.clone()

    def product(x):
        return nn.functional.linear(x, layer.weight)

    for each in (product, torch.vmap(product), torch.compile(product, fullgraph=True, backend="aot_eager"),
                 torch.jit.trace(product, (x,)), lambda x: x @ layer.weight.T):  # fmt: skip
        assert torch.allclose(each(x), x @ values.T)


def test_a_model_of_short_floats_that_asks_for_the_dtype_of_a_weight():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)

        def forward(self, x):
            return self.norm(self.linear(x.to(self.linear.weight.dtype)))

    model, x = Model().to(torch.bfloat16), torch.randn(3, 16)
    wanted = model(x).detach()
    found = i8.quantize_(model)(x)
    assert found.dtype == torch.bfloat16
    assert error(found, wanted) < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [lambda: nn.Conv2d(6, 8, 3, groups=2), lambda: nn.ConvTranspose1d(6, 4, 3, groups=2)])
def test_convolutions_have_weights_as_models_of_transformers_ask_for(make, dtype):
    module = make().to(dtype)
    layer = i8.quantize_(copy.deepcopy(module))
    assert (layer.weight.shape, layer.weight.dtype) == (module.weight.shape, dtype)
    assert torch.equal(layer.weight, i8.dequantize_(copy.deepcopy(layer)).weight)
    assert error(layer.weight, module.weight.detach()) < 0.01


def test_files_copies_and_gradients_of_convolutions():
    layer, other, x = i8.quantize_(nn.Conv2d(6, 8, 3)), i8.quantize_(nn.Conv2d(6, 8, 3)), torch.randn(2, 6, 9, 9)
    other.load_state_dict(layer.state_dict())
    for clone in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(clone(x), layer(x))
    with pytest.raises(RuntimeError, match="has no gradient"):
        layer(x.requires_grad_()).sum().backward()
    with torch.no_grad():
        broken = nn.Sequential(nn.Conv2d(6, 8, 3))
        broken[0].weight[0, 0, 0, 0] = float("nan")
    with pytest.raises(ValueError, match="weight must be finite"):
        i8.quantize_(broken)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_embeddings(dtype):
    table = nn.Embedding(50, 24, padding_idx=3).to(dtype)
    layer, indices = i8.quantize_(copy.deepcopy(table)), torch.tensor([[0, 3, 49], [7, 7, 1]])
    y = layer(indices)
    assert (y.shape, y.dtype) == ((2, 3, 24), dtype)
    assert torch.equal(y[0, 1], torch.zeros(24, dtype=dtype))
    assert torch.equal(y, layer.weight[indices])
    largest = table.weight.detach().float().abs().amax(1, keepdim=True)
    assert ((layer.weight - table.weight).detach().float().abs() <= largest / 254 * 1.02 + largest / 256).all()
    assert layer(indices[:0].int()).shape == (0, 3, 24)
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(indices), y)
    torch.library.opcheck(torch.ops.int8blas.embedding.default, (indices, layer.quantized, layer.scale))
    assert torch.equal(torch.export.export(layer, (indices,)).module()(indices), y)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(indices), y)
    other = i8.quantize_(nn.Embedding(50, 24).to(dtype))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(indices), y)
    assert torch.equal(i8.dequantize_(layer)(indices).detach().to(dtype), y)
    with pytest.raises(ValueError, match="indices must be between 0 and 49, got 50"):
        other(torch.tensor([50]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}, {"include_last_offset": True}])
@pytest.mark.parametrize("columns", [3, 24, 83])
def test_embedding_bags(mode, options, columns):
    bag = nn.EmbeddingBag(50, columns, mode=mode, **options)
    layer = i8.quantize_(copy.deepcopy(bag))
    near = i8.dequantize_(copy.deepcopy(layer))
    indices, offsets = torch.tensor([0, 3, 49, 7, 7, 3, 3]), torch.tensor([0, 2, 2, 5, 7])
    given = [(indices, offsets), (indices.int(), offsets.int())]
    if not options.get("include_last_offset"):
        given.append((indices[:6].view(2, 3), None))
    for each in given:
        weights = torch.rand(each[0].shape) if mode == "sum" else None
        y, wanted = layer(*each, weights), near(*each, weights)
        assert torch.equal(y, wanted)
        with torch.no_grad():
            assert torch.equal(layer(*each), near(*each))
        assert error(y, bag(*each, weights)) < 0.01 or not wanted.any()
    assert torch.equal(
        torch.compile(layer, fullgraph=True, backend="aot_eager")(indices, offsets), layer(indices, offsets)
    )
    assert torch.equal(pickle.loads(pickle.dumps(layer))(indices, offsets), layer(indices, offsets))
    short = i8.quantize_(copy.deepcopy(bag).bfloat16())
    assert short(indices, offsets).dtype == torch.bfloat16


def test_sizes_of_transposed_convolutions():
    module, x = nn.ConvTranspose2d(6, 8, 3, stride=3), torch.randn(2, 6, 4, 5)
    layer = i8.quantize_(copy.deepcopy(module))
    for size in ([13, 16], [2, 8, 14, 15]):
        wanted = module(x, output_size=size)
        assert layer(x, output_size=size).shape == wanted.shape
        assert error(layer(x, output_size=size), wanted.detach()) < 0.02
    with pytest.raises(ValueError, match=r"output_size must be from \(12, 15\) to \(14, 17\)"):
        layer(x, output_size=[15, 15])
    with pytest.raises(TypeError, match="output_size must be None, as the convolution is not transposed"):
        i8.quantize_(nn.Conv2d(6, 8, 3))(x, output_size=[15, 15])


@pytest.mark.parametrize("make", [lambda: nn.Linear(32, 8), lambda: nn.Conv1d(6, 8, 3), lambda: nn.LSTM(8, 5)])
def test_parametrized_modules_give_their_weights(make):
    module = make()
    name = "weight_hh_l0" if isinstance(module, nn.LSTM) else "weight"
    nn.utils.parametrizations.weight_norm(module, name)
    with torch.no_grad():
        getattr(module.parametrizations, name).original0.mul_(3)
    layer = i8.quantize_(copy.deepcopy(module))
    assert isinstance(layer, (i8.Int8Linear, i8.Int8Conv, i8.Int8Recurrent))
    weight = getattr(i8.dequantize_(layer), name)
    assert error(weight, getattr(module, name).detach()) < 0.01


def test_embeddings_that_change_stay_float():
    assert type(i8.quantize_(nn.Embedding(5, 4, max_norm=1.0))) is nn.Embedding


def test_vmap_is_refused():
    layer = i8.quantize_(nn.Linear(32, 8))
    with pytest.raises(NotImplementedError, match="has no vmap"):
        torch.vmap(layer)(torch.randn(3, 32))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("options", [{}, {"kdim": 24, "vdim": 40}, {"bias": False}])
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_is_that_of_the_dequantized_module(batch_first, options, need_weights):
    attention = nn.MultiheadAttention(32, 4, batch_first=batch_first, **options).eval()
    ours = i8.quantize_(copy.deepcopy(attention))
    near = i8.dequantize_(copy.deepcopy(ours)).eval()
    query = torch.randn(2, 6, 32)
    key, value = torch.randn(2, 5, options.get("kdim", 32)), torch.randn(2, 5, options.get("vdim", 32))
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    mask = torch.zeros(6, 5, dtype=torch.bool)
    mask[0, 4] = True
    if not batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    for given in ({}, {"key_padding_mask": padding}, {"attn_mask": mask}, {"attn_mask": mask.expand(8, 6, 5)}):
        with torch.no_grad():
            y, weights = ours(query, key, value, need_weights=need_weights, **given)
            wanted, wanted_weights = near(query, key, value, need_weights=need_weights, **given)
        assert error(y, wanted) < 0.03
        assert (weights is None) == (wanted_weights is None)
        if weights is not None:
            assert error(weights, wanted_weights) < 0.03


def test_unbatched_attention():
    attention = nn.MultiheadAttention(32, 4).eval()
    ours, x = i8.quantize_(copy.deepcopy(attention)), torch.randn(6, 32)
    with torch.no_grad():
        (y, weights), (wanted, wanted_weights) = ours(x, x, x), attention(x, x, x)
    assert error(y, wanted) < 0.03
    assert weights.shape == wanted_weights.shape


@pytest.mark.parametrize("chosen", [lambda *_: True, lambda name, _: "linear1" in name, lambda name, _: "attn" in name])
def test_encoders_stay_off_the_fast_path_and_come_back(chosen):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 6, 32), torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    with torch.inference_mode():
        wanted = [model(x), model(x, src_key_padding_mask=padding)[:, :4]]
        i8.quantize_(model, filter=chosen)
        found = [model(x), model(x, src_key_padding_mask=padding)[:, :4]]
        assert all(0 < error(y, expected) < 0.05 for y, expected in zip(found, wanted, strict=True))
        assert not torch.equal(found[0], wanted[0])
        i8.dequantize_(model)
        assert model.use_nested_tensor
        assert model.layers[0].activation_relu_or_gelu == 1
        assert error(model(x), wanted[0]) < 0.05


def test_transformers_conv1d():
    utilities = pytest.importorskip("transformers.pytorch_utils", reason="needs transformers")
    layer = utilities.Conv1D(24, 64)
    x = torch.randn(3, 64)
    assert 0 < error(i8.quantize_(copy.deepcopy(layer))(x), layer(x).detach()) < 0.02


def test_the_linear_layer_of_falcon():
    modeling = pytest.importorskip("transformers.models.falcon.modeling_falcon", reason="needs transformers")
    for bias in (False, True):
        layer, x = modeling.FalconLinear(64, 24, bias=bias), torch.randn(3, 64)
        near = i8.quantize_(copy.deepcopy(layer))
        assert isinstance(near, i8.Int8Linear)
        assert 0 < error(near(x), layer(x).detach()) < 0.02


def test_a_model_that_keeps_most_weights_in_own_parameters_says_so():
    """Experts of a mixture are parameters of three dimensions."""

    class Experts(nn.Module):
        def __init__(self, count):
            super().__init__()
            self.gate, self.up = nn.Linear(16, count), nn.Parameter(torch.randn(count, 16, 32))

        def forward(self, x):
            return torch.einsum("ne,ni,eio->no", self.gate(x).softmax(1), x, self.up)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = i8.quantize_(nn.Sequential(Experts(4)))
    (warning,) = [str(each.message) for each in caught]
    assert "0, Experts: no int8 module for Experts, and its own parameters have 2,048 elements" in warning
    assert isinstance(model[0].gate, i8.Int8Linear)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        i8.quantize_(nn.Sequential(Experts(4)), filter=lambda name, module: True)
        i8.quantize_(nn.Sequential(Experts(1), nn.Linear(64, 64)))


def test_models_of_transformers():
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    bert = transformers.BertModel(transformers.BertConfig(vocab_size=100, **sizes))
    tokens = {"vocab_size": 100, "bos_token_id": 0, "eos_token_id": 0}
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=64, n_head=4, **tokens))
    ids = torch.randint(1, 100, (2, 7))
    with torch.inference_mode():
        vit = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **sizes)).eval()
        images = torch.randn(2, 3, 32, 32)
        assert 0 < error(i8.quantize_(copy.deepcopy(vit))(images)[0], vit(images)[0]) < 0.05
        for model in (bert.eval(), gpt.eval()):
            near = i8.quantize_(copy.deepcopy(model))
            assert not any(type(module) is nn.Linear for module in near.modules())
            wanted, found = model(ids)[0], near(ids)[0]
            assert 0 < error(found, wanted) < 0.05
        cached = near(ids[:, :-1], use_cache=True).past_key_values
        last = near(ids[:, -1:], past_key_values=cached)[0]
    assert error(last, found[:, -1:]) < 1e-4


def test_threads_of_torch_are_the_limit(monkeypatch):
    seen = []

    def layer(x):
        seen.append(int8blas.num_threads())
        return x

    monkeypatch.setattr(i8.ops, "get_num_threads", lambda: 1)
    with int8blas.num_threads(3):
        i8.ops.multiply(layer, torch.ones(1, 1))
    monkeypatch.setattr(i8.ops, "get_num_threads", lambda: 8)
    with int8blas.num_threads(3):
        i8.ops.multiply(layer, torch.ones(1, 1))
    assert seen == [1, 3]


@pytest.mark.parametrize(
    ("arguments", "error_type", "text"),
    [
        (("model",), TypeError, "model must be a torch.nn.Module, got str"),
        ((nn.ReLU(), 8), TypeError, "config must be Int8Dynamic, Int8WeightOnly or None, got int"),
    ],
)
def test_wrong_arguments(arguments, error_type, text):
    with pytest.raises(error_type, match=text):
        i8.quantize_(*arguments)


def test_wrong_groups_and_filters():
    with pytest.raises(ValueError, match="group must be a multiple of 4"):
        i8.Int8Dynamic(group=6)
    with pytest.raises(TypeError, match="filter must be callable or None, got str"):
        i8.quantize_(nn.ReLU(), filter="name")
    assert type(i8.quantize_(nn.Linear(20, 4), i8.Int8Dynamic(group=16))) is nn.Linear


class Functional(nn.Module):
    """A module that calls a function of torch with the weights of another one, as torchvision's Swin does."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 8, bias=False)

    def forward(self, x):
        return nn.functional.linear(x, self.inner.weight)


@pytest.mark.parametrize("group", [None, 8])
def test_modules_that_take_the_weights_of_others(group):
    model, x = Functional(), torch.randn(3, 16)
    near = i8.quantize_(copy.deepcopy(model), i8.Int8Dynamic(group=group))
    wanted = near(x)
    assert 0 < error(wanted, model(x).detach()) < 0.02
    compiled = torch.compile(near, fullgraph=True, backend="aot_eager")
    for each in (compiled, torch.export.export(near, (x,)).module()):
        assert torch.equal(each(x), wanted)
    back = i8.dequantize_(near)
    assert torch.equal(back(x), wanted)
    layer = i8.quantize_(model, i8.Int8Dynamic(group=group)).inner
    torch.library.opcheck(torch.ops.int8blas.weight.default, (layer.packed, layer.scale, 16))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_becomes_shorter_after_quantize(dtype):
    model = nn.Sequential(nn.Embedding(50, 32), nn.LayerNorm(32), nn.Linear(32, 8))
    ids = torch.randint(0, 50, (2, 6))
    wanted = model(ids).detach()
    near = i8.quantize_(model).to(dtype)
    assert near(ids).dtype == dtype
    assert error(near(ids), wanted) < 0.03
    assert near.float()(ids).dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (lambda: nn.Linear(8, 4), torch.ones(2, 8)),
        (lambda: nn.Conv2d(3, 4, 1), torch.ones(2, 3, 1, 1)),
        (lambda: nn.Conv2d(3, 4, 3), torch.ones(2, 3, 5, 5).contiguous(memory_format=torch.channels_last)),
        (lambda: nn.ConvTranspose1d(3, 4, 3), torch.ones(2, 3, 1)),
        (lambda: nn.GRU(8, 4), torch.ones(2, 3, 8)),
        (lambda: nn.LSTM(8, 4), torch.ones(2, 3, 8)),
        (lambda: nn.Embedding(8, 4), torch.tensor([[1, 2]])),
    ],
)
def test_results_may_be_changed_in_place_where_gradients_are_recorded(make, x):
    layer = i8.quantize_(make())
    source = x.requires_grad_() if x.is_floating_point() else x
    y = layer(source)
    for each in y if isinstance(y, tuple) else (y,):
        (each[0] if isinstance(each, tuple) else each).relu_()


@pytest.mark.parametrize(
    ("module", "x"),
    [
        (nn.Linear(8, 4), torch.ones(2, 8)),
        (nn.Conv2d(3, 4, 3), torch.ones(1, 3, 5, 5)),
        (nn.ConvTranspose1d(3, 4, 3), torch.ones(1, 3, 5)),
        (nn.GRU(8, 4), torch.ones(2, 3, 8)),
        (nn.LSTMCell(8, 4), torch.ones(2, 8)),
        (nn.Embedding(9, 4), torch.tensor([8])),
        (nn.EmbeddingBag(9, 4), torch.tensor([[8]])),
    ],
)
def test_arguments_have_the_names_of_torch(module, x):
    near = i8.quantize_(copy.deepcopy(module))
    found, wanted = near(input=x), module(input=x)
    for result, expected in zip(
        *((each if isinstance(each, tuple) else (each,)) for each in (found, wanted)), strict=True
    ):
        for one, other in zip(
            *((each if isinstance(each, tuple) else (each,)) for each in (result, expected)), strict=True
        ):
            assert error(one, other.detach()) < 0.05


@pytest.mark.parametrize("config", [i8.Int8Dynamic(), i8.Int8WeightOnly()])
@pytest.mark.parametrize("bias", [False, True])
def test_linear_layers_of_one_output(config, bias):
    module, x = nn.Linear(8, 1, bias=bias), torch.randn(3, 8)
    near = i8.quantize_(copy.deepcopy(module), config)
    assert near.scale.shape == (1,)
    wanted = near(x)
    assert error(wanted, module(x).detach()) < 0.02
    assert torch.equal(near(x.clone().requires_grad_()), wanted)  # the operator
    assert torch.equal(copy.deepcopy(near)(x), wanted)
    other = i8.quantize_(nn.Linear(8, 1, bias=bias), config)
    other.load_state_dict(near.state_dict())
    assert torch.equal(other(x), wanted)


@pytest.mark.parametrize("kind", [nn.Conv3d, nn.ConvTranspose3d])
def test_groups_of_three_dimensions(kind):
    module, x = kind(6, 4, 3, groups=2, stride=2), torch.randn(2, 6, 5, 6, 7)
    near = i8.quantize_(copy.deepcopy(module))
    assert error(near(x), module(x).detach()) < 0.03
    assert torch.equal(near(x.clone().requires_grad_()), near(x))


AUTOCAST = [
    (lambda: nn.Linear(16, 8), torch.randn(2, 3, 16)),
    (lambda: nn.Conv1d(3, 8, 3), torch.randn(2, 3, 16)),
    (lambda: nn.ConvTranspose2d(3, 8, 3), torch.randn(2, 3, 6, 5)),
    *[(lambda kind=kind: kind(16, 8), torch.randn(2, 3, 16)) for kind in (nn.LSTM, nn.GRU, nn.RNN)],
    *[(lambda kind=kind: kind(16, 8), torch.randn(2, 16)) for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)],
    (lambda: nn.Embedding(10, 8), torch.tensor([1, 2])),
    (lambda: nn.EmbeddingBag(10, 8), torch.tensor([[1, 2]])),
    (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 3, 16)),
]


def leaves(value):
    return [each for part in value for each in leaves(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("make", "x"), AUTOCAST)
def test_results_under_autocast_have_the_dtype_of_torch(make, x, dtype, monkeypatch):
    # torch's fast path returns another dtype than the modules in it.
    monkeypatch.setattr(torch.backends.mha, "_is_fastpath_enabled", False)
    model = make().eval()
    if isinstance(model, nn.LSTM) and dtype is torch.float16:
        pytest.skip("torch has an LSTM of float16 on some CPUs only")
    near = i8.quantize_(copy.deepcopy(model))
    compiled = torch.compile(near, backend="aot_eager")
    with torch.no_grad(), torch.autocast("cpu", dtype):
        wanted, found, again = (leaves(call(x)) for call in (model, near, compiled))
    assert [each.dtype for each in found] == [each.dtype for each in wanted] == [each.dtype for each in again]
    with torch.no_grad():
        plain = leaves(near(x))
        assert all(error(one, other) < 0.02 for one, other in zip(found, plain, strict=True))
        assert torch.equal(leaves(compiled(x))[0], plain[0])
