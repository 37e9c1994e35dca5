"""A small learned image codec, whose decoder must repeat the encoder's arithmetic to the last bit.

    python examples/codec.py            # needs scikit-learn and Pillow: pip install int8blas[examples]
    python examples/codec.py --quick    # fewer steps of training, and fewer decoders

The codec is a scale hyperprior (Balle et al. 2018), trained on one of scikit-learn's photos and used on the other. A
learned transform (principal components of 8 x 8 blocks) computes coefficients y. For each group of 2 x 2 blocks a few
small integers z describe how large the coefficients are, and a network computes from z a scale for each coefficient:

    z -> 768 units, ReLU -> index of a scale for each of 4 * 32 coefficients

Encoder and decoder run this network on the same z, and the entropy coder (rANS) codes y with the probabilities for the
index. If one index of 100,000 differs, everything after it decodes to noise. The network runs in int8 and, for
comparison, in float32 with NumPy; processes with other kernels, threads and batches decode.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import int8blas

BLOCK, CHANNELS, FEATURES, HIDDEN = 8, 32, 8, 768
STEP = 12  # step of the quantized coefficients
LARGEST = 150  # coefficients are from -150 to 150
LARGEST_Z = 15  # z are from 0 to 15, and 8 in the middle
LEVELS = 256  # scales: 2**-4 to 2**6, 25.5 per octave, in the units of the network's output
LOWEST, OCTAVE = -4.0, 25.5
TOTAL = 1 << 16  # sum of the frequencies in a table of the entropy coder
WORD = 32  # bits that the entropy coder writes at once
Arrays = dict[str, np.ndarray]


# --- the transform ---------------------------------------------------------------------------------------------------


def blocks_of(image: np.ndarray) -> np.ndarray:
    """Rows of 8 x 8 x 3 values, ordered so that 4 successive rows are 2 x 2 blocks."""
    h, w, _ = image.shape
    cut = image.reshape(h // 16, 2, 8, w // 16, 2, 8, 3).transpose(0, 3, 1, 4, 2, 5, 6)
    return cut.reshape(-1, 3 * BLOCK * BLOCK).astype(np.float64) - 128


def image_of(blocks: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    h, w, _ = shape
    pixels = blocks.reshape(h // 16, w // 16, 2, 2, 8, 8, 3).transpose(0, 2, 4, 1, 3, 5, 6)
    return np.clip(np.rint(pixels.reshape(h, w, 3) + 128), 0, 255)


def learn_transform(image: np.ndarray) -> np.ndarray:
    """The most important directions of the blocks."""
    blocks = blocks_of(image)
    return np.linalg.eigh(blocks.T @ blocks)[1][:, ::-1][:, :CHANNELS]


def coefficients(image: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """y: a row of 4 * 32 integers for each group of 2 x 2 blocks."""
    y = np.rint(blocks_of(image) @ basis / STEP)
    return np.clip(y, -LARGEST, LARGEST).astype(np.int64).reshape(-1, 4 * CHANNELS)


# --- training --------------------------------------------------------------------------------------------------------


def features(y: np.ndarray) -> np.ndarray:
    return np.log1p(np.abs(y)).reshape(-1, 4, CHANNELS).mean(axis=1)


def slope_of_bits(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """d bits / d t for y with a Laplace distribution of scale 2**(LOWEST + t / OCTAVE)."""
    inverse = np.exp2(-(LOWEST + np.clip(t, 0, LEVELS - 1) / OCTAVE))
    zero = 0.5 / np.expm1(inverse / 2)
    other = -np.abs(y) + 0.5 / np.tanh(inverse / 2)
    return np.where(y == 0, zero, other) * inverse / OCTAVE


def train(y: np.ndarray, steps: int) -> Arrays:
    """Find analysis (a) and synthesis (w1, b1, w2, b2) that minimize the bits of y and z, with Adam."""
    rng = np.random.default_rng(0)
    x = features(y)
    p = {
        "a": rng.normal(0, 2, (CHANNELS, FEATURES)), "a0": np.zeros(FEATURES),
        "w1": rng.normal(0, 0.3, (FEATURES, HIDDEN)), "b1": np.zeros(HIDDEN),
        "w2": rng.normal(0, 0.1, (HIDDEN, y.shape[1])), "b2": np.full(y.shape[1], 80.0),
    }  # fmt: skip
    p["a0"] -= (x @ p["a"]).mean(axis=0)
    rates = {"a": 0.01, "a0": 0.01, "w1": 0.003, "b1": 0.003, "w2": 0.003, "b2": 0.5}
    mean, square = ({name: np.zeros_like(v) for name, v in p.items()} for _ in range(2))
    for step in range(1, steps + 1):
        chosen = rng.integers(0, len(x), 256)
        xb = x[chosen]
        z = xb @ p["a"] + p["a0"] + rng.uniform(-0.5, 0.5, (256, FEATURES))  # noise instead of rounding
        h = np.maximum(z @ p["w1"] + p["b1"], 0)
        dt = slope_of_bits(y[chosen], h @ p["w2"] + p["b2"])
        dh = (dt @ p["w2"].T) * (h > 0)
        dz = dh @ p["w1"].T + z / 9  # z costs bits too, by a normal distribution with standard deviation 3
        gradients = {"a": xb.T @ dz, "a0": dz.sum(0), "w1": z.T @ dh, "b1": dh.sum(0), "w2": h.T @ dt, "b2": dt.sum(0)}
        for name, gradient in gradients.items():
            mean[name] = 0.9 * mean[name] + 0.1 * gradient
            square[name] = 0.99 * square[name] + 0.01 * gradient**2
            rate = rates[name] * (1 - step / (steps + 1))
            p[name] -= rate * mean[name] / (1 - 0.9**step) / (np.sqrt(square[name] / (1 - 0.99**step)) + 1e-9)
    return p


def tables_of(probabilities: np.ndarray) -> np.ndarray:
    """Cumulative integer frequencies for rows of probabilities: at least 1 for each symbol, TOTAL in all.

    The tables are part of the model: the float32 exp that computes them may differ between machines.
    """
    free = TOTAL - probabilities.shape[1]
    sums = np.cumsum(probabilities / probabilities.sum(axis=1, keepdims=True), axis=1)
    ends = np.floor(sums * free).astype(np.int64) + np.arange(1, probabilities.shape[1] + 1)
    ends[:, -1] = TOTAL
    return np.pad(ends, ((0, 0), (1, 0)))


def make_model(image: np.ndarray, steps: int) -> Arrays:
    """Return the transform, the network in float32 and in int8, and the tables."""
    basis = learn_transform(image[: len(image) // 16 * 16])
    # One photo has few blocks; shifting it by some pixels gives more.
    h, w = (image.shape[0] - 8) // 16 * 16, (image.shape[1] - 16) // 16 * 16
    y = np.concatenate([coefficients(image[i : i + h, j : j + w], basis) for i in (0, 3, 7) for j in (0, 5, 10, 15)])
    p = train(y, steps)
    model = {"basis": basis, "a": p["a"], "a0": p["a0"]}
    z = hyper(y, model)
    # The network takes z from 0 to 15: the bias subtracts the middle.
    model["w1"], model["w2"] = p["w1"].astype(np.float32), p["w2"].astype(np.float32)
    model["b1"] = (p["b1"] - (LARGEST_Z + 1) // 2 * p["w1"].sum(axis=0)).astype(np.float32)
    model["b2"] = p["b2"].astype(np.float32)
    hidden = np.maximum(z @ model["w1"] + model["b1"], 0)
    model["step"] = np.float32(hidden.max() / 255)  # of the uint8 hidden units
    scale = np.exp2(LOWEST + np.arange(LEVELS) / OCTAVE)[:, np.newaxis]
    edges = np.arange(-LARGEST, LARGEST) + 0.5
    tails = 0.5 * np.exp(-np.abs(edges) / scale)
    below = np.where(edges < 0, tails, 1 - tails)
    model["y_tables"] = tables_of(np.diff(below, prepend=0, append=1))
    counts = np.stack([np.bincount(column, minlength=LARGEST_Z + 1) for column in z.T])
    model["z_tables"] = tables_of(counts + 0.1)
    return model


def hyper(y: np.ndarray, model: Arrays) -> np.ndarray:
    """Compute z. Only the encoder computes z; a decoder reads z from the stream."""
    z = np.rint(features(y) @ model["a"] + model["a0"]) + (LARGEST_Z + 1) // 2
    return np.clip(z, 0, LARGEST_Z).astype(np.uint8)


# --- the network, which encoder and decoder run ----------------------------------------------------------------------


def float_indices(z: np.ndarray, model: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Return the scale's index for each coefficient, by the float32 network, and the number before rounding."""
    hidden = np.maximum(z.astype(np.float32) @ model["w1"] + model["b1"], 0)
    t = hidden @ model["w2"] + model["b2"]
    return np.clip(np.rint(t), 0, LEVELS - 1).astype(np.uint8), t


def int8_layers(model: Arrays) -> list[int8blas.InnerProduct]:
    """Two layers from uint8 to uint8; the destination of the last has scale 1, so that its values are the indices."""
    relu = int8blas.Attributes(post_ops=[int8blas.ReLU()])
    scales = ({"src": 1, "dst": model["step"]}, {"src": model["step"], "dst": 1})
    return [
        int8blas.InnerProduct(
            np.ascontiguousarray(model[f"w{i}"].T), model[f"b{i}"], src_dtype=np.uint8, dst_dtype=np.uint8,
            scales={**scales[i - 1], "weights": "per_channel"}, attributes=relu,
        )
        for i in (1, 2)
    ]  # fmt: skip


def indices(z: np.ndarray, model: Arrays, number: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Run the network on `rows` rows at a time."""
    parts = [z[first : first + rows] for first in range(0, len(z), rows)]
    if number == "float32":
        found = [float_indices(part, model) for part in parts]
        return np.concatenate([index for index, _ in found]), np.concatenate([t for _, t in found])
    first, second = int8_layers(model)
    index = np.concatenate([second(first(part)) for part in parts])
    return index, index.astype(np.float32)


# --- the entropy coder -----------------------------------------------------------------------------------------------


def encode(symbols: np.ndarray, tables: np.ndarray, chosen: np.ndarray) -> list[int]:
    """rANS: a symbol with frequency f of TOTAL takes log2(TOTAL / f) bits. It encodes symbols from the last to the
    first."""
    words, state = [], TOTAL
    for symbol, table in zip(symbols[::-1].tolist(), chosen[::-1].tolist(), strict=True):
        start, end = tables[table, symbol].item(), tables[table, symbol + 1].item()
        if state >= (end - start) << WORD:
            words.append(state & ((1 << WORD) - 1))
            state >>= WORD
        state = (state // (end - start) << 16) + state % (end - start) + start
    return [state & ((1 << WORD) - 1), state >> WORD, *words[::-1]]


def decode(words: list[int], tables: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The inverse of encode. With other tables a stream decodes to noise; words after its end count as 0."""
    source: Iterator[int] = iter(words)
    state = next(source) | next(source) << WORD
    rows, symbols = tables.tolist(), []
    for table in chosen.tolist():
        row, slot = rows[table], state & (TOTAL - 1)
        symbol = bisect_right(row, slot) - 1
        symbols.append(symbol)
        state = (row[symbol + 1] - row[symbol]) * (state >> 16) + slot - row[symbol]
        if state < TOTAL:
            state = state << WORD | next(source, 0)
    return np.array(symbols)


def z_choice(rows: int) -> np.ndarray:
    return np.tile(np.arange(FEATURES), rows)


# --- two sides -------------------------------------------------------------------------------------------------------


def write_stream(folder: Path, y: np.ndarray, model: Arrays, number: str) -> tuple[int, Arrays]:
    """Encode to a file. Return its size in bits, and the arrays that a decoder should find."""
    z = hyper(y, model)
    index, t = indices(z, model, number, len(z))
    streams = [
        encode(z.reshape(-1), model["z_tables"], z_choice(len(z))),
        encode(y.reshape(-1) + LARGEST, model["y_tables"], index.reshape(-1)),
    ]
    np.savez(folder / f"{number}.npz", rows=len(z), z=np.array(streams[0]), y=np.array(streams[1]))
    return WORD * sum(map(len, streams)), {"y": y, "index": index, "t": t}


def read_stream(folder: Path, number: str, rows: int, result: Path) -> None:
    """Decode a file and write the result; this runs in a separate process."""
    model = dict(np.load(folder / "model.npz"))
    stream = np.load(folder / f"{number}.npz")
    count = stream["rows"].item()
    z = decode(stream["z"].tolist(), model["z_tables"], z_choice(count)).reshape(count, FEATURES).astype(np.uint8)
    index, t = indices(z, model, number, rows or count)
    y = decode(stream["y"].tolist(), model["y_tables"], index.reshape(-1)) - LARGEST
    np.savez(result, y=y.reshape(count, -1), index=index, t=t)


def decoded_elsewhere(folder: Path, number: str, rows: int, **environment: str) -> Arrays:
    """Decode in another process, with other kernels, threads, and number of rows at a time (0: all)."""
    result = folder / "decoded.npz"
    command = [sys.executable, __file__, "--decode", str(folder), number, str(rows), str(result)]
    subprocess.run(command, env=os.environ | environment, check=True)
    with np.load(result) as found:
        return dict(found)


def psnr(image: np.ndarray, y: np.ndarray, model: Arrays) -> float:
    """Peak signal-to-noise ratio of a decoded image in dB."""
    found = image_of(y.reshape(-1, CHANNELS) * STEP @ model["basis"].T, image.shape)
    return float(10 * np.log10(255**2 / np.mean((found - image) ** 2)))


def report(name: str, found: Arrays, wanted: Arrays, image: np.ndarray, model: Arrays) -> bool:
    """Print the result of a decoder and the first difference from the encoder; return whether the results are equal."""
    index, t = wanted["index"], wanted["t"]
    quality = f"{psnr(image, found['y'], model):.2f} dB"
    wrong = np.argwhere(found["index"] != index)
    if np.array_equal(found["y"], wanted["y"]):
        print(f"  {name}: {quality}, {len(wrong)} of {index.size} indices differ")
        return True
    row, column = wrong[0]
    behind = np.s_[row * index.shape[1] + column :]
    noise = np.mean(found["y"].reshape(-1)[behind] != wanted["y"].reshape(-1)[behind])
    print(
        f"  {name}: FAILS, {quality}, {len(wrong)} of {index.size} indices differ\n"
        f"      first in block {row * 4 + column // CHANNELS} of {index.size // CHANNELS}: the encoder rounds "
        f"{t[row, column]:.9g} to {index[row, column]}, the decoder {found['t'][row, column]:.9g} to "
        f"{found['index'][row, column]}\n      {noise:.0%} of the coefficients after it are wrong"
    )
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description="A learned image codec whose entropy model runs in int8.")
    parser.add_argument("--quick", action="store_true", help="fewer steps of training, and fewer decoders")
    parser.add_argument("--decode", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.decode:
        folder, number, rows, result = options.decode
        read_stream(Path(folder), number, int(rows), Path(result))
        return 0

    from sklearn.datasets import load_sample_images

    h, w, steps = 416, 640, 150 if options.quick else 300  # more steps overfit the photo
    training, image = load_sample_images().images
    image = image[:h, :w]
    model = make_model(training, steps)
    y = coefficients(image, model["basis"])
    failed = False
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        np.savez(folder / "model.npz", **model)
        decoders: dict[str, dict[str, tuple[int, dict[str, str]]]] = {
            "int8": {
                f"{isa}, threads {threads}, {rows or 'all'} rows at a time": (
                    rows,
                    {"INT8BLAS_ISA": isa, "INT8BLAS_NUM_THREADS": str(threads), "INT8BLAS_OVERSUBSCRIBE": "1"},
                )
                for isa in int8blas.available_isas()
                for threads, rows in (((3, 7),) if options.quick else ((1, 0), (3, 7)))
            },
            "float32": {
                "the same kernels and rows": (0, {}),
                "one row at a time": (1, {}),
                "7 rows at a time": (7, {}),
                "OpenBLAS with the kernels of an older CPU": (0, {"OPENBLAS_CORETYPE": "Haswell"}),
            },
        }
        for number, ways in decoders.items():
            bits, wanted = write_stream(folder, y, model, number)
            print(f"entropy model in {number}: {bits / (h * w):.3f} bits a pixel; decoded by")
            for name, (rows, environment) in ways.items():
                found = decoded_elsewhere(folder, number, rows, **environment)
                failed |= not report(name, found, wanted, image, model) and number == "int8"
    if failed:
        print("FAILED: int8 must decode everywhere", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
