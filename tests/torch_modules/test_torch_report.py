"""int8blas.torch: the output of quantize_, report and compare."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the extra int8blas[torch]")
with warnings.catch_warnings():  # torch itself warns at import
    warnings.simplefilter("ignore")
    import int8blas.torch as i8
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class Own(nn.Linear):
    pass


def hooked():
    layer = nn.Linear(8, 8)
    layer.register_forward_hook(lambda *_: None)
    return layer


@pytest.mark.parametrize(
    ("make", "config", "reason"),
    [
        (lambda: Own(8, 8), None, "Own is a subclass of Linear"),
        (hooked, None, "it has hooks"),
        (lambda: nn.Linear(8, 8).double(), None, "it has torch.float64"),
        (lambda: nn.Conv2d(3, 3, 3, device="meta"), None, "it is on the device 'meta'"),
        (lambda: nn.Linear(20, 8), i8.Int8Dynamic(group=16), r"group=16 does not divide its inputs, \(20,\)"),
        (lambda: nn.MultiheadAttention(8, 2, add_zero_attn=True), None, "it has add_bias_kv or add_zero_attn"),
        (lambda: nn.EmbeddingBag(8, 2, max_norm=1.0), None, "max_norm changes its rows"),
        (lambda: nn.LSTM(8, 8).double(), None, "it has torch.float64"),
    ],
)
def test_what_stays_float_is_told(make, config, reason):
    with pytest.warns(UserWarning, match=rf"(?s)left 1 float .*part, \w+: {reason}"):
        model = i8.quantize_(nn.ModuleDict({"part": make()}), config)
    assert not any(isinstance(module, i8.Int8Linear) for module in model.modules())


def test_nothing_is_told_of_modules_that_nobody_chose_or_that_are_small():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        i8.quantize_(nn.Sequential(Own(8, 8)), filter=lambda *_: False)
        i8.quantize_(nn.Sequential(nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 8)))


def test_a_report_has_errors_sizes_times_and_reasons():
    model = nn.ModuleDict(
        {"table": nn.Embedding(50, 32), "lstm": nn.LSTM(32, 32), "kept": nn.Linear(32, 16), "never": nn.Linear(32, 32)}
    )

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, ids, scale=1):
            return {"y": self.parts["kept"](self.parts["lstm"](self.parts["table"](ids))[0] * scale)}

    whole = Model().eval()
    near = i8.quantize_(copy.deepcopy(whole), filter=lambda name, _: name != "parts.kept")
    ids = torch.randint(0, 50, (6, 3))
    for reference in (whole, None):
        for inputs in (ids, (ids,), {"ids": ids, "scale": 2}):
            found = i8.report(near, inputs, reference=reference)
            rows = {row.name: row for row in found.rows}
            assert list(rows) == ["parts.table", "parts.lstm", "parts.kept", "parts.never"]
            assert (rows["parts.kept"].mode, rows["parts.kept"].reason) == ("float", "filter did not choose it")
            assert rows["parts.never"].error is None
            assert rows["parts.table"].bytes_before == 50 * 32 * 4
            assert rows["parts.table"].bytes_after == 50 * 32 + 50 * 4
            # Without the float model, the table is compared with its own dequantized values.
            assert (rows["parts.table"].error > 0) == (reference is not None)
            assert 0 < rows["parts.lstm"].error < 0.03
            assert 0 < found.model.error < 0.03
            assert min(found.model.seconds_before, rows["parts.lstm"].seconds_after) > 0
    text, table = str(found), found.to_dict()
    assert len(text.splitlines()) == 6
    assert "filter did not choose it" in text
    assert table["rows"][1]["name"] == "parts.lstm"
    assert table["model"]["bytes_after"] == sum(row["bytes_after"] for row in table["rows"])
    assert not any(module._forward_pre_hooks for module in near.modules())


def test_reports_of_models_that_nobody_quantized():
    found = i8.report(nn.Sequential(nn.Linear(8, 8)), torch.ones(1, 8))
    assert [row.reason for row in found.rows] == ["quantize_ did not see it"]
    assert found.model.mode == "float"
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got str"):
        i8.report("model", torch.ones(1))


def test_reports_of_short_floats_and_attention():
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).bfloat16().eval()
    near = i8.quantize_(copy.deepcopy(model))
    found = i8.report(near, torch.randn(2, 5, 32).bfloat16())
    assert [row.module for row in found.rows] == ["Int8MultiheadAttention", "Int8Linear", "Int8Linear"]
    assert all(0 < row.error < 0.05 for row in (*found.rows, found.model))


def test_models_are_compared():
    model = nn.Linear(64, 10).requires_grad_(False)
    near = i8.quantize_(copy.deepcopy(model))
    tensors = [torch.randn(8, 64) for _ in range(3)]

    def metric(output, batch):
        return float(output.sum())

    found = i8.compare(model, near, tensors, metric)
    assert found.batches == 3
    assert found.metric_before == pytest.approx(sum(float(model(x).sum()) for x in tensors) / 3)
    assert found.metric_after == pytest.approx(sum(float(near(x).sum()) for x in tensors) / 3)
    assert found.to_dict()["bytes_before"] == 4 * (640 + 10)
    assert "float" in str(found)
    assert "metric" in str(found)
    assert i8.compare(model, near, [(tensors[0], 1)]).metric_before is None
    with pytest.raises(ValueError, match="at least one batch, got none"):
        i8.compare(model, near, [])
