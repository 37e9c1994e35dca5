"""int8blas.torch: modules quantized by other libraries, torchao's config, torch._int_mm."""

import copy
import pickle
import subprocess
import sys
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


@pytest.fixture
def torchao():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torchao.quantization", reason="needs torchao")


def integers(layer):
    return torch.from_numpy(np.ascontiguousarray(layer._layer.weights.unpack().T))


def test_weights_of_torchao(torchao):
    for config in (
        torchao.Int8DynamicActivationInt8WeightConfig(),
        torchao.Int8WeightOnlyConfig(),
        torchao.Int8WeightOnlyConfig(granularity=torchao.PerGroup(16)),
        torchao.Int8WeightOnlyConfig(granularity=torchao.PerTensor()),
        torchao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=torchao.PerGroup(32)),
        torchao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=torchao.PerAxis(0)),
    ):
        model = nn.Sequential(nn.Linear(64, 24))
        torchao.quantize_(model, config)
        weight, x = model[0].weight, torch.randn(5, 64)
        for ours in (i8.Int8Dynamic(), i8.Int8WeightOnly()):
            near = i8.quantize_(copy.deepcopy(model), ours)
            assert isinstance(near[0], i8.Int8Linear)
            assert torch.equal(integers(near[0]), weight.qdata)
            assert torch.equal(near[0].weight, weight.dequantize().float())
            assert float((near(x) - model(x)).norm() / model(x).norm()) < 0.02


def is_near(result, expected):
    return float((result - expected).detach().norm() / expected.detach().norm()) < 0.02


def remedy(model, text):
    """Quantize a model that stays float, and return the remedy that the warning has."""
    with pytest.warns(UserWarning, match=text) as caught:
        assert i8.quantize_(model) is model
    (warning,) = [str(each.message) for each in caught if "left 1 float" in str(each.message)]
    return warning.rpartition("; ")[2]


def test_weights_of_torchao_that_stay_and_their_remedies(torchao):
    model, x = nn.Linear(64, 24), torch.randn(5, 64)
    torchao.quantize_(model, torchao.Int8WeightOnlyConfig(), filter_fn=lambda *_: True)
    model.weight.zero_point = torch.full((24, 1), 3, dtype=torch.int8)
    wanted = nn.functional.linear(x, model.weight.dequantize(), model.bias)
    told = remedy(model, "its weight has zero points")
    assert told.startswith("restore its floats first: module.weight = ")
    exec(told.partition(": ")[2], {"torch": torch, "module": model})
    assert is_near(i8.quantize_(model)(x), wanted)
    torchao.quantize_(model := nn.Linear(64, 24), torchao.Int8WeightOnlyConfig(), filter_fn=lambda *_: True)
    model.weight.act_pre_scale = torch.ones(64)
    assert remedy(model, "its source has factors") == "quantize the float model instead"


def test_other_modules_of_torchao_and_other_groups_stay(torchao):
    """An embedding, and a linear layer with groups of 2, stay; restored floats are quantized."""
    four_bits = torchao.IntxWeightOnlyConfig(torch.int4, torchao.PerGroup(2))
    for module, config, text in (
        (nn.Embedding(10, 64), torchao.Int8WeightOnlyConfig(), "its weight is torchao's, whose integers only linear"),
        (nn.Linear(64, 24), four_bits, "its scales are of groups of 2, not of a multiple of 4"),
    ):
        model = nn.Sequential(module, nn.Linear(64, 8))
        torchao.quantize_(model, config, filter_fn=lambda _, name: name == "0")
        told = remedy(model, text)
        assert type(model[1]).__name__ == "Int8Linear"
        exec(told.partition(": ")[2], {"torch": torch, "module": model[0]})
        i8.quantize_(model)
        assert type(model[0]).__name__.startswith("Int8")


def test_packed_weights_of_torchao_stay(torchao):
    """The bytes of two int4 are no int8, even if their number and the number of scales look like groups."""
    packed = torch.randint(-128, 128, (16, 128), dtype=torch.int8)
    scale, zero_point = torch.ones(8, 16, dtype=torch.bfloat16), torch.zeros(8, 16, dtype=torch.bfloat16)
    model = nn.Linear(256, 16)
    model.weight = nn.Parameter(torchao.Int4Tensor(packed, scale, zero_point, [1, 32], torch.Size([16, 256])), False)
    assert remedy(model, "its weight is Int4Tensor with packed values") == "quantize the float model instead"


@pytest.mark.parametrize("short", [True, False])
def test_weights_of_torch_ao_that_stay_and_their_remedy(short):
    quantization, model, x = torch.ao.quantization, nn.Sequential(nn.Linear(64, 24)), torch.randn(5, 64)
    how = quantization.float16_dynamic_qconfig if short else quantization.default_dynamic_qconfig
    other = quantization.quantize_dynamic(model, {nn.Linear: how})
    if not short:
        weight = torch.quantize_per_tensor(model[0].weight.detach(), 0.002, 3, torch.qint8)
        other[0].set_weight_bias(weight, model[0].bias.detach())
    told = remedy(other, "its weight is torch.float32, not torch.qint8" if short else "its weight has zero points")
    assert "a torch.nn.Linear with the weight module.weight().dequantize() and the bias module.bias()" in told
    module, other[0] = other[0], nn.Linear(64, 24)
    other[0].load_state_dict({"weight": module.weight().dequantize(), "bias": module.bias()})
    assert is_near(i8.quantize_(other)(x), model(x))


def test_static_layers_of_torch_ao_stay():
    """Their sources are quantized tensors, which int8 modules do not take."""
    quantization, x = torch.ao.quantization, torch.randn(5, 64)
    model = nn.Sequential(quantization.QuantStub(), nn.Linear(64, 24), quantization.DeQuantStub()).eval()
    model.qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(model, inplace=True)(x)
    quantization.convert(model, inplace=True)
    wanted = model(x)
    assert "int8blas.torch.calibrate" in remedy(model, "it takes and returns quantized tensors")
    assert torch.equal(model(x), wanted)


def test_layers_of_quantization_aware_training_are_told_by_their_modules():
    quantization, model = torch.ao.quantization, nn.Sequential(nn.Linear(64, 24)).train()
    model.qconfig = quantization.get_default_qat_qconfig("x86")
    quantization.prepare_qat(model, inplace=True)
    remedy(model, r"torch\.ao\.nn\.qat\.modules\.linear\.Linear is a subclass of Linear")


def test_a_config_for_torchao(torchao):
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5))
    wanted = i8.quantize_(copy.deepcopy(model))
    torchao.quantize_(model, i8.Int8DynamicConfig())
    x = torch.randn(3, 64)
    assert torch.equal(model(x), wanted(x))
    other = nn.Sequential(nn.Linear(64, 32))
    torchao.quantize_(other, i8.Int8DynamicConfig(group=16))
    assert "group=16" in repr(other)
    assert pickle.loads(pickle.dumps(i8.Int8DynamicConfig(group=16))).group == 16


@pytest.mark.parametrize("per_channel", [True, False])
def test_weights_of_torch_ao(per_channel):
    quantization = torch.ao.quantization
    chosen = quantization.per_channel_dynamic_qconfig if per_channel else quantization.default_dynamic_qconfig
    model = nn.Sequential(nn.Linear(64, 24), nn.Linear(24, 8, bias=False))
    model = quantization.quantize_dynamic(model, {nn.Linear: chosen}, dtype=torch.qint8)
    near, x = i8.quantize_(copy.deepcopy(model)), torch.randn(5, 64)
    for ours, theirs in zip(near, model, strict=True):
        assert isinstance(ours, i8.Int8Linear)
        assert torch.equal(integers(ours), theirs.weight().int_repr())
        assert torch.allclose(ours.weight, theirs.weight().dequantize())
    assert float((near(x) - model(x)).norm() / model(x).norm()) < 0.03


class GPTQLinear(nn.Module):
    """The tensors of a GPTQ layer in 8 bits."""

    def __init__(self, integers, scales, stored_zero=127, order=None):
        super().__init__()
        rows, columns = integers.shape
        self.bits, self.bias = 8, None
        unsigned = (integers.astype(np.int32) + 128).astype(np.uint8)
        words = unsigned.reshape(rows // 4, 4, columns).transpose(0, 2, 1).copy().view(np.int32)[..., 0]
        zeros = np.full((len(scales), columns), stored_zero, np.uint8).view(np.int32)
        self.register_buffer("qweight", torch.from_numpy(words.copy()))
        self.register_buffer("qzeros", torch.from_numpy(zeros))
        self.register_buffer("scales", torch.from_numpy(scales).half())
        self.register_buffer("g_idx", torch.arange(rows) // (rows // len(scales)) if order is None else order)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("zero", [127, 128])
def test_weights_of_gptq(groups, zero, rng):
    w = rng.integers(-128, 128, (64, 24)).astype(np.int8)
    scales = rng.uniform(0.001, 0.01, (groups, 24)).astype(np.float32)
    layer = i8.quantize_(GPTQLinear(w, scales, zero), i8.Int8WeightOnly())
    x = rng.normal(size=(3, 64)).astype(np.float32)
    rounded = scales.astype(np.float16).astype(np.float32)
    wanted = int8blas.RealProduct(w, rounded if groups > 1 else rounded[0])(x)
    assert np.array_equal(layer(torch.from_numpy(x)).numpy(), wanted)


def test_gptq_that_cannot_be_taken(rng):
    w, scales = np.zeros((64, 24), np.int8), np.ones((4, 24), np.float32)
    bits4 = GPTQLinear(w, scales)
    bits4.bits = 4
    for module, text in (
        (GPTQLinear(w, scales, 3), "its zero points are not 128; GPTQ with sym=True makes such layers"),
        (GPTQLinear(w, scales, order=torch.arange(64) % 4), "its groups are not in order; GPTQ with desc_act=False"),
        (bits4, "it has 4 bits, not 8; quantize the float model instead"),
    ):
        with pytest.warns(UserWarning, match=text):
            assert i8.quantize_(module) is module
    # The remedies: a float model, or a layer that GPTQ made with these arguments.
    assert isinstance(i8.quantize_(GPTQLinear(w, scales)), i8.Int8Linear)


class Linear8bitLt(nn.Linear):
    """The tensors of a quantized layer of bitsandbytes."""

    def __init__(self, integers, largest):
        super().__init__(integers.shape[1], integers.shape[0])
        self.weight = nn.Parameter(integers, requires_grad=False)
        self.register_buffer("SCB", largest)


def test_weights_of_bitsandbytes():
    w, largest = torch.randint(-127, 128, (24, 64), dtype=torch.int8), torch.rand(24) + 0.1
    model = nn.Sequential(Linear8bitLt(w, largest))
    bias, near = model[0].bias.detach().clone(), i8.quantize_(model)
    assert isinstance(near[0], i8.Int8Linear)
    assert torch.equal(integers(near[0]), w)
    assert torch.equal(near[0].scale, largest / 127)
    assert torch.equal(near[0].bias, bias)


def test_layers_of_bitsandbytes_itself():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bitsandbytes = pytest.importorskip("bitsandbytes", reason="needs bitsandbytes")
    layer = bitsandbytes.nn.Linear8bitLt(64, 24, has_fp16_weights=False)
    with pytest.warns(UserWarning, match="Linear8bitLt is a subclass of Linear"):  # before it quantizes
        assert i8.quantize_(layer) is layer
    layer, x = layer.to("cpu"), torch.randn(3, 64)
    near, wanted = i8.quantize_(copy.deepcopy(layer)), layer(x).detach()
    assert torch.equal(integers(near), layer.state_dict()["weight"])
    assert float((near(x) - wanted).norm() / wanted.norm()) < 0.02


def test_int_mm_is_replaced_and_comes_back(monkeypatch):
    calls = []
    matmul = i8.others.matmul
    monkeypatch.setattr(i8.others, "matmul", lambda *args, **options: calls.append(1) or matmul(*args, **options))
    a = torch.randint(-128, 128, (48, 96), dtype=torch.int8)
    b = torch.randint(-128, 128, (40, 96), dtype=torch.int8).t()
    wanted = (a.long() @ b.long()).int()
    with i8.int_mm():
        assert torch.equal(torch._int_mm(a, b), wanted)
        with i8.int_mm():
            assert torch.equal(torch._int_mm(a, b, out=torch.empty(0, dtype=torch.int32)), wanted)
        assert len(calls) == 2
        assert torch.equal(torch._int_mm(a, b), wanted)
    assert len(calls) == 3
    assert torch.equal(torch._int_mm(a, b), wanted)
    assert len(calls) == 3
    replaced = i8.int_mm().start()
    torch._int_mm(a, b)
    replaced.stop()
    replaced.stop()
    torch._int_mm(a, b)
    assert len(calls) == 4


def test_int_mm_stays_without_a_name():
    program = (
        "import torch, int8blas.torch as t; t.int_mm().start(); seen = []; m = t.others.matmul;"
        "t.others.matmul = lambda *a, **k: seen.append(1) or m(*a, **k);"
        "x = torch.ones(32, 32, dtype=torch.int8); torch._int_mm(x, x); assert seen"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        i8.nothing  # noqa: B018
