"""A PyTorch model in int8, in one line: train in float32, quantize, compare, save, generate.

    python examples/torch_quantize.py            # needs torch: pip install int8blas[torch]
    python examples/torch_quantize.py --quick    # fewer training steps

The model predicts the next character of Python's own help texts: an embedding, a block of attention, an LSTM of two
layers and a linear layer. ``int8blas.torch.quantize_`` replaces all of them.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import int8blas.torch

CHARACTERS, WIDTH, STEPS, BATCH = 128, 128, 64, 16
LARGEST_LOSS = 0.02  # bits for each character


class Model(nn.Module):
    """Logits of the next character at each position of (sequences, characters)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(CHARACTERS, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True)
        self.lstm = nn.LSTM(WIDTH, 2 * WIDTH, num_layers=2, batch_first=True)
        self.last = nn.Linear(2 * WIDTH, CHARACTERS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        y, _ = self.lstm(self.block(self.table(ids), src_mask=mask, is_causal=True))
        scores: torch.Tensor = self.last(y)
        return scores


def batches(text: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Draw sequences of the text, with the character after each."""
    starts = torch.randint(0, len(text) - STEPS - 1, (count, BATCH))
    return [torch.stack([text[start : start + STEPS + 1] for start in row]) for row in starts]


def bits(scores: torch.Tensor, batch: Any) -> float:
    """Return the bits that a model needs for each character of a batch."""
    return functional.cross_entropy(scores.flatten(0, 1), batch[1].flatten()).item() / 0.6931


def train(model: Model, text: torch.Tensor, steps: int) -> None:
    """Train in float32."""
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for batch in batches(text, steps):
        loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> int:
    """Return 1 if int8 loses more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer training steps")
    quick = parser.parse_args().quick
    torch.manual_seed(0)
    letters = "".join(topics.values()).encode("ascii", "ignore")
    text = torch.tensor(list(letters))
    cut = len(text) * 9 // 10
    model = Model()
    train(model, text[:cut], 20 if quick else 400)
    model.eval()

    near = int8blas.torch.quantize_(copy.deepcopy(model))
    print(near)

    test = [(batch[:, :-1], batch[:, 1:]) for batch in batches(text[cut:], 4 if quick else 20)]
    print(int8blas.torch.report(near, test[0][0], reference=model))
    found = int8blas.torch.compare(model, near, test, bits)
    print(f"\nbits for each character:\n{found}")

    # Its state_dict has only tensors, so that safetensors can store it.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        torch.save(near.state_dict(), path)
        loaded = int8blas.torch.quantize_(Model().eval())
        loaded.load_state_dict(torch.load(path, weights_only=True))
        print(f"\nfile: {path.stat().st_size / 1e6:.2f} MB")
    with torch.inference_mode():
        assert torch.equal(loaded(test[0][0]), near(test[0][0]))
        line = text[cut : cut + STEPS]
        for _ in range(40):
            line = torch.cat([line, near(line[None, -STEPS:])[0, -1].argmax()[None]])
    print("generated:", bytes(line[STEPS:].tolist()).decode())
    assert found.metric_before is not None
    assert found.metric_after is not None
    return int(found.metric_after - found.metric_before > LARGEST_LOSS)


if __name__ == "__main__":
    sys.exit(main())
