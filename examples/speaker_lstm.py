"""An LSTM in int8: train in float32 with torch, quantize, recognise speakers with only int8blas and NumPy.

    pip install 'int8blas[lstm]' && pip install --no-deps aeon==1.6.0
    python examples/speaker_lstm.py            # --threads 1 for one core
    python examples/speaker_lstm.py --quick    # fewer training epochs

Nine men say two Japanese vowels; which of them is it? A recording is a sequence of 7 to 29 vectors of 12 numbers, which
describe the spectrum. Two LSTM layers read it, and a linear layer computes nine scores from the state after the last
vector.

Weights become int8 with a scale for each gate and unit, which is found when the layer is created. Source and states are
uint8, all with the same scale and shift:

    uint8 = float32 * 127 + 128

A state is between -1 and 1 by its formula, h = logistic(o) * tanh(c), and the recordings are divided by the largest
value of each channel, which gives the same range: no calibration is needed. Sums are int32, and gates and the cell
state c float32.

The data set is JapaneseVowels of the UCI archive (M. Kudo, J. Toyama and M. Shimbo, 1999), from the package aeon. The
dependencies of aeon are not needed here, hence --no-deps; it is under the BSD license.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

import int8blas

UNITS, LAYERS, SPEAKERS = 128, 2, 9
DATA_SCALE, DATA_SHIFT = 127, 128
LARGEST_LOSS = 1.0  # percentage points of accuracy


# --- data ------------------------------------------------------------------------------------------------------------


def read(part: str) -> tuple[list[np.ndarray], np.ndarray]:
    """The recordings (vectors, 12) of "TRAIN" or "TEST", and the numbers of the speakers."""
    package = find_spec("aeon")
    if package is None or package.origin is None:
        sys.exit("the data is missing: pip install --no-deps aeon==1.6.0")
    path = Path(package.origin).parent / "datasets" / "data" / "JapaneseVowels" / f"JapaneseVowels_{part}.ts"
    recordings, speakers = [], []
    for line in path.read_text().splitlines():
        if line and line[0] not in "#@":  # channel:channel:...:speaker, a channel as numbers with commas
            *channels, speaker = line.split(":")
            recordings.append(np.array([channel.split(",") for channel in channels], np.float32).T)
            speakers.append(int(speaker) - 1)
    return recordings, np.array(speakers)


def batch(recordings: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Recordings as one array (t, n, 12), with zeros after shorter ones, and the index of each one's last vector."""
    last = np.array([len(recording) - 1 for recording in recordings])
    x = np.zeros((last.max() + 1, len(recordings), recordings[0].shape[1]), np.float32)
    for index, recording in enumerate(recordings):
        x[: len(recording), index] = recording
    return x, last


# --- float32: torch --------------------------------------------------------------------------------------------------


class SpeakerLSTM(nn.Module):
    """Scores of the nine speakers, from a batch (t, n, channels) and the index of each sequence's last vector."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(channels, UNITS, LAYERS, dropout=0.4)
        self.dropout = nn.Dropout(0.4)
        self.linear = nn.Linear(UNITS, SPEAKERS)

    def forward(self, x: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(x)
        return self.linear(self.dropout(states[last, torch.arange(len(last))]))


def as_tensors(recordings: list[np.ndarray]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in batch(recordings))


def train(recordings: list[np.ndarray], speakers: np.ndarray, epochs: int, size: int = 30) -> SpeakerLSTM:
    torch.manual_seed(0)
    model = SpeakerLSTM(recordings[0].shape[1])
    (x, last), y = as_tensors(recordings), torch.from_numpy(speakers)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    steps = epochs * -(-len(y) // size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(y)).split(size):
            optimizer.zero_grad()
            noisy = x[:, chosen] + 0.03 * torch.randn(len(x), len(chosen), x.shape[2])
            loss = nn.functional.cross_entropy(model(noisy, last[chosen]), y[chosen], label_smoothing=0.1)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return model.eval()


def quantize_dynamic(model: SpeakerLSTM) -> nn.Module:
    """torch's own int8: weights have one scale per matrix; source and state are quantized in each step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, but the package that replaces it is not part of torch
        return torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.LSTM, nn.Linear})


# --- int8: NumPy and int8blas alone ----------------------------------------------------------------------------------


class Int8SpeakerLSTM:
    """The same network in int8, from float32 tensors, which the constructor quantizes."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        def weights(name: str) -> list[np.ndarray]:
            """Convert the weights of each layer from torch's (4 * units, inputs) to (inputs, 4, units), gates in the
            same order."""
            matrices = [tensors[f"lstm.weight_{name}_l{layer}"] for layer in range(LAYERS)]
            return [matrix.reshape(4, UNITS, -1).transpose(2, 0, 1) for matrix in matrices]

        bias = [tensors[f"lstm.bias_ih_l{layer}"] + tensors[f"lstm.bias_hh_l{layer}"] for layer in range(LAYERS)]
        self.lstm = int8blas.LSTM(
            weights("ih"),
            weights("hh"),
            [b.reshape(4, UNITS) for b in bias],
            data_scale=DATA_SCALE,
            data_shift=DATA_SHIFT,
            weights_scale="per_channel",
            src_dtype=np.float32,
            dst_dtype=np.uint8,
        )
        self.linear = int8blas.InnerProduct(
            tensors["linear.weight"],
            tensors["linear.bias"],
            src_dtype=np.uint8,
            dst_dtype=np.float32,
            scales={"src": 1 / DATA_SCALE, "weights": "per_channel"},
            zero_points={"src": DATA_SHIFT},
        )

    def __call__(self, x: np.ndarray, last: np.ndarray) -> np.ndarray:
        states, _, _ = self.lstm(x)
        return self.linear(states[last, np.arange(len(last))])


# --- comparison ------------------------------------------------------------------------------------------------------


def accuracy(scores: np.ndarray, speakers: np.ndarray) -> float:
    return 100 * float(np.mean(scores.argmax(axis=1) == speakers))


def best_times(*functions: Callable[[], object], seconds: float) -> list[float]:
    """The shortest time of each function in microseconds; they take turns, so that all run under the same
    conditions."""
    best = [np.inf] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for index, function in enumerate(functions):
            for _ in range(3):  # in the first call, the other library's threads may still be spinning
                start = time.perf_counter()
                function()
                best[index] = min(best[index], (time.perf_counter() - start) * 1e6)
    return best


def print_times(
    models: list[nn.Module], int8_model: Int8SpeakerLSTM, recordings: list[np.ndarray], seconds: float
) -> None:
    print("\nrecordings a call     torch  torch int8  int8blas  speedups  (microseconds a recording)")
    for count in (1, 8, 64, len(recordings)):
        some = recordings[:count]
        arrays, tensors = batch(some), as_tensors(some)
        calls = [lambda model=model, tensors=tensors: model(*tensors) for model in models]
        times = best_times(*calls, lambda arrays=arrays: int8_model(*arrays), seconds=seconds)
        float_time, torch_time, int8_time = (time / count for time in times)
        print(f"{count:17}  {float_time:8.1f}  {torch_time:10.1f}  {int8_time:8.1f}", end="")
        print(f"  {float_time / int8_time:.1f}x, {torch_time / int8_time:.1f}x")


def main() -> int:
    parser = argparse.ArgumentParser(description="Speakers of Japanese vowels, recognised by an int8 LSTM.")
    parser.add_argument("--quick", action="store_true", help="fewer training epochs, shorter measurements")
    parser.add_argument("--threads", type=int, help="for both torch and int8blas (default: all)")
    options = parser.parse_args()

    train_recordings, train_speakers = read("TRAIN")
    test_recordings, test_speakers = read("TEST")
    largest = np.abs(np.concatenate(train_recordings)).max(axis=0)
    train_recordings, test_recordings = ([x / largest for x in part] for part in (train_recordings, test_recordings))
    if options.threads is not None:
        torch.set_num_threads(options.threads)

    config = int8blas.show_config("dicts")
    print(f"{config['cpu']['name']}, {config['isas']['selected']}, threads: {torch.get_num_threads()}")
    start = time.perf_counter()
    model = train(train_recordings, train_speakers, epochs=15 if options.quick else 40)
    print(f"trained {LAYERS} layers of {UNITS} units on {len(train_recordings)} recordings in ", end="")
    print(f"{time.perf_counter() - start:.1f} s")
    torch_int8 = quantize_dynamic(model)
    tensors = {name: tensor.numpy(force=True) for name, tensor in model.state_dict().items()}
    int8_model = Int8SpeakerLSTM(tensors)

    with torch.inference_mode(), int8blas.num_threads(torch.get_num_threads()):
        float_scores, torch_scores = (m(*as_tensors(test_recordings)).numpy() for m in (model, torch_int8))
        int8_scores = int8_model(*batch(test_recordings))
        float_accuracy, int8_accuracy = accuracy(float_scores, test_speakers), accuracy(int8_scores, test_speakers)
        print(f"accuracy on {len(test_recordings)} other recordings: float32 {float_accuracy:.2f} %, ", end="")
        print(f"torch int8 {accuracy(torch_scores, test_speakers):.2f} %, int8blas {int8_accuracy:.2f} %; ", end="")
        print(f"the same answer in float32 and int8blas for {accuracy(int8_scores, float_scores.argmax(axis=1)):.2f} %")
        weights = [array for array in tensors.values() if array.ndim > 1]
        print(f"weights: float32 {sum(w.nbytes for w in weights) / 1024:.0f} KiB, ", end="")
        print(f"int8 {sum(w.size for w in weights) / 1024:.0f} KiB")
        print_times([model, torch_int8], int8_model, test_recordings, seconds=0.2 if options.quick else 2)
    loss = float_accuracy - int8_accuracy
    if not loss < LARGEST_LOSS:
        print(f"FAILED: int8 loses {loss:.2f} percentage points", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
