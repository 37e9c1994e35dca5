"""int8blas.torch: each refusal names the module and a remedy, and each remedy works."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the extra int8blas[torch]")
with warnings.catch_warnings():  # torch's own, at import
    warnings.simplefilter("ignore")
    from torch.nn.utils import prune

    import int8blas.torch as i8
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _start():
    torch.manual_seed(0)


def error(result, expected):
    return float((result - expected).detach().norm() / expected.detach().norm())


class Model(nn.Module):
    """A part that quantize_ leaves float."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x)


class Subclass(nn.Linear):
    """A linear layer with another forward."""

    def forward(self, x):
        return 2 * super().forward(x)


def replaced_forward():
    module = nn.Linear(16, 8)
    module.forward = lambda x: 2 * nn.Linear.forward(module, x)
    return module


def hooked():
    module = nn.Linear(16, 8)
    module.register_forward_hook(lambda module, args, y: 2 * y)
    return module


def hook_after(model):
    hooks = model.part._forward_hooks.copy()
    model.part._forward_hooks.clear()
    i8.quantize_(model)
    model.part._forward_hooks.update(hooks)


def renormalize(model):
    module = model.part
    module.weight.data.renorm_(module.norm_type, 0, module.max_norm)
    module.max_norm = None


def replace_by_linear(model):
    module = model.part
    model.part = nn.Linear(16, 8)
    model.part.load_state_dict({"weight": 2 * module.weight, "bias": 2 * module.bias})


FLOATS = torch.linspace(-1, 1, 48).reshape(3, 16)
IDS = torch.tensor([[1, 2, 9]])
LEFT = [
    (lambda: Subclass(16, 8), "Subclass is a subclass of Linear, whose forward may differ", FLOATS, replace_by_linear),
    (replaced_forward, r"its forward was replaced for this object.*del module\.forward", FLOATS, None),
    (lambda: nn.Linear(16, 8).double(), r"it has torch\.float64; call module\.float\(\) first", FLOATS.double(),
     lambda model: model.float()),
    (hooked, "register all other hooks after quantize_", FLOATS, hook_after),
    (lambda: nn.utils.weight_norm(nn.Linear(16, 8)), "call torch.nn.utils.remove_weight_norm", FLOATS,
     lambda model: nn.utils.remove_weight_norm(model.part)),
    (lambda: prune.l1_unstructured(nn.Linear(16, 8), "weight", 0.5), r"prune\.remove", FLOATS,
     lambda model: prune.remove(model.part, "weight")),
    (lambda: nn.Embedding(10, 8, max_norm=0.5), r"renorm_\(module\.norm_type, 0, module\.max_norm\)", IDS, renormalize),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text", "x", "mend"), LEFT)
def test_what_stays_float_has_a_reason_and_a_remedy(make, text, x, mend):
    model = Model(make()).eval()
    wanted = model(x)
    with pytest.warns(UserWarning, match=rf"(?s)part, \w+: .*{text}"):
        i8.quantize_(model)
    assert torch.equal(model(x), wanted)
    if mend is not None:
        mend(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            i8.quantize_(model)
        found = model(x.float() if x.is_floating_point() else x)
        assert 0 < error(found, wanted) < 0.02


class Functions(nn.Module):
    """A product without a module."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16))

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


def test_models_of_functions_and_of_jit_have_a_remedy():
    with pytest.warns(UserWarning, match=r"the model, Functions: it has no module .*int8blas\.torch\.calibrate"):
        i8.quantize_(model := Functions().eval())
    assert 0 < error(i8.calibrate(model, [FLOATS])(FLOATS), model(FLOATS)) < 0.02
    model = nn.Sequential(nn.Linear(16, 8)).eval()
    program = torch.jit.trace(model, FLOATS)
    with pytest.warns(UserWarning, match=r"a program of torch\.jit; quantize_ the module first, then call torch\.jit"):
        assert i8.quantize_(program) is program
    wanted = model(FLOATS)
    assert 0 < error(torch.jit.trace(i8.quantize_(model), FLOATS)(FLOATS), wanted) < 0.02


CALLS = [
    (nn.Linear(16, 8), (torch.ones(2, 15),)),
    (nn.Linear(16, 8), (torch.ones(2, 16, dtype=torch.float64),)),
    (nn.Linear(16, 8), (torch.ones(2, 16, dtype=torch.int64),)),
    (nn.Conv2d(4, 8, 3), (torch.ones(1, 3, 8, 8),)),
    (nn.Conv2d(4, 8, 3), (torch.ones(4, 8),)),
    (nn.Conv2d(4, 8, 3), (torch.ones(1, 4, 8, 8), (8, 8))),
    (nn.ConvTranspose1d(4, 8, 3, stride=2), (torch.ones(1, 4, 8), (99,))),
    (nn.LSTM(16, 8), (torch.ones(2, 3, 15),)),
    (nn.LSTM(16, 8), (torch.ones(2, 3, 16, dtype=torch.float64),)),
    (nn.GRU(16, 8), (torch.ones(2, 3, 16), torch.ones(1, 4, 8))),
    (nn.LSTMCell(16, 8), (torch.ones(2, 15),)),
    (nn.MultiheadAttention(16, 2), (torch.ones(2, 3, 15),) * 3),
    (nn.Embedding(10, 8), (torch.tensor([10]),)),
    (nn.Embedding(10, 8), (torch.ones(2),)),
    (nn.EmbeddingBag(10, 8), (torch.tensor([[-1]]),)),
]


@pytest.mark.parametrize(("part", "args"), CALLS)
def test_errors_of_calls_name_the_module(part, args):
    model = i8.quantize_(nn.ModuleDict({"first": nn.Sequential(part)}))
    with torch.no_grad(), pytest.raises((TypeError, ValueError, IndexError)) as caught:
        model["first"][0](*args)
    assert "first.0" in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


@pytest.mark.parametrize("part", [nn.Linear(16, 8), nn.Conv1d(3, 8, 3), nn.GRU(16, 8)])
def test_gradients_name_the_layer_and_dequantize(part):
    x = FLOATS[None].requires_grad_()
    kind = type(i8.quantize_(model := Model(copy.deepcopy(part))).part).__name__
    text = rf"module 'part', {kind} of .*, has no gradient: call int8blas\.torch\.dequantize_"
    for call in (model, torch.compile(model, backend="aot_eager")):
        y = call(x)
        with pytest.raises(RuntimeError, match=text):
            (y[0] if isinstance(y, tuple) else y).sum().backward()
    y = i8.dequantize_(model)(x)
    (y[0] if isinstance(y, tuple) else y).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("part", [nn.Linear(16, 8), nn.Conv1d(3, 8, 3), nn.GRU(16, 8), nn.Embedding(10, 8)])
def test_vmap_names_the_module_and_takes_the_whole_batch(part):
    model = Model(part).eval()
    x = torch.tensor([[1, 2], [3, 4]]) if isinstance(part, nn.Embedding) else torch.stack([FLOATS[None], FLOATS[None]])
    networks = [i8.quantize_(copy.deepcopy(model))]
    if isinstance(part, (nn.Linear, nn.Conv1d)):
        networks.append(i8.calibrate(model, [x[0]]))
    text = r"module '(part|int8_0)', Int8\w+, has no vmap: give it .*(batch|all)"
    for near in networks:
        with pytest.raises(NotImplementedError, match=text):
            torch.vmap(near)(x)
        assert near(x.flatten(0, 1)) is not None


def test_devices_and_states():
    model = i8.quantize_(nn.Sequential(nn.Linear(16, 8)))
    with pytest.raises(RuntimeError, match=r"module '0', Int8Linear.*call int8blas\.torch\.dequantize_\(model\) first"):
        model.to("meta")
    other = i8.quantize_(nn.Sequential(nn.Linear(16, 8)), i8.Int8Dynamic(group=8))
    with pytest.raises(RuntimeError, match=r"0\.scale must be .*quantize_ this model as the saved one"):
        model.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match=r"got 'weight' on 'meta': call model\.cpu\(\) first"):
        i8.prepare(nn.Linear(16, 8, device="meta").eval())


def test_masks_of_attention():
    attention, x = i8.quantize_(nn.MultiheadAttention(16, 2, batch_first=True)), FLOATS[None]
    with pytest.raises(RuntimeError, match=r"generate_square_subsequent_mask\(steps\)"):
        attention(x, x, x, is_causal=True)
    y, _ = attention(x, x, x, attn_mask=nn.Transformer.generate_square_subsequent_mask(3), is_causal=True)
    assert y.shape == x.shape
    with pytest.raises(ValueError, match=r"key_padding_mask must have shape \(1, 3\), got \(1, 1\)"):
        attention(x, x, x, key_padding_mask=torch.zeros(1, 1, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"attn_mask must have shape \(3, 3\) or \(2, 3, 3\), got \(1, 3\)"):
        attention(x, x, x, attn_mask=torch.zeros(1, 3))


def test_static_networks_have_no_float_modules():
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU()).eval()
    with pytest.raises(TypeError, match=r"loader must be an iterable of batches, got Tensor: pass \[batch\] for one"):
        i8.calibrate(model, FLOATS)
    near = i8.calibrate(model, [FLOATS])
    with pytest.raises(TypeError, match="got a static network with the module 'int8_0', Int8Network: use the float mo"):
        i8.dequantize_(near)
    with pytest.raises(TypeError, match=r"int8blas\.torch\.compare\(float_model, model, loader\)"):
        i8.report(near, FLOATS)
    assert i8.compare(model, near, [FLOATS]).error < 0.05
    y = near(FLOATS.clone().requires_grad_())
    with pytest.raises(RuntimeError, match=r"Int8Network, has no gradient.*int8blas\.torch\.calibrate for it again"):
        y.sum().backward()


def test_arguments_of_report_and_compare():
    model = nn.Sequential(nn.Linear(16, 8))
    near = i8.quantize_(copy.deepcopy(model))
    with pytest.raises(ValueError, match="reference must have the modules of model, got no '0'"):
        i8.report(near, FLOATS, reference=nn.Linear(16, 8))
    with pytest.raises(TypeError, match=r"quantized must be a torch\.nn\.Module, got str"):
        i8.compare(model, "near", [FLOATS])
    with pytest.raises(TypeError, match="metric must be callable or None, got str"):
        i8.compare(model, near, [FLOATS], "accuracy")
    with pytest.raises(TypeError, match="loader must be an iterable of batches, got Tensor"):
        i8.compare(model, near, FLOATS)
    with pytest.raises(ValueError, match="an iterator that was used is empty"):
        i8.compare(model, near, iter([]))
