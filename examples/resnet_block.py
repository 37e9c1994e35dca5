"""A residual network in int8: train in float32 with torch, fold, calibrate, quantize, and classify with only int8blas
and NumPy.

    python examples/resnet_block.py            # needs torch and scikit-learn: pip install int8blas[resnet]
    python examples/resnet_block.py --quick    # fewer training epochs
    python examples/resnet_block.py --threads 1

The images are scikit-learn's digits, 8 x 8 pixels of 0..16. The network has 3 x 3 convolutions, each followed by batch
normalization, in residual blocks:

    y = ReLU(convolution_2(ReLU(convolution_1(x))) + shortcut(x))

where the shortcut is x itself or, where the image shrinks and channels increase, a 1 x 1 convolution with strides.
After training

    1. each batch normalization becomes part of the convolution before it (fold_batch_norm);
    2. the range of every activation is observed on the training images (calibrate), which gives scale and zero point;
    3. each layer gets the parameters of its sources and result (fuse_quantization), and int8 weights with a scale for
       each output channel;
    4. the layers are saved to one file (save), and the int8 network is loaded from it (load).

Then only uint8 goes from layer to layer. A block's sum, its ReLU and the scale of the next layer are all in the
epilogue of the second convolution, which finds the shortcut's values in its destination (post-op Sum): Intel's article
"Accelerate Lower Numerical Precision Inference with Intel Deep Learning Boost" has the formulas in Appendix B.
docs/network.md goes through these steps with a smaller network.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import int8blas
from int8blas.calibration import QuantizationParameters

# Channels and strides of the residual blocks.
STEM = 32
BLOCKS = ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1))
PIXELS = QuantizationParameters(1 / 16, 0, np.uint8)  # a pixel of 16 is 1.0
LARGEST_LOSS = 1.0  # percentage points of accuracy


# --- float32: torch --------------------------------------------------------------------------------------------------


class ConvNorm(nn.Module):
    """A convolution and its batch normalization."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))

    def fold(self) -> None:
        """Make the normalization part of the convolution."""
        norm = self.norm
        tensors = (self.conv.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var)
        weights, gamma, beta, mean, variance = (tensor.numpy(force=True) for tensor in tensors)
        weights, bias = int8blas.fold_batch_norm(weights, None, gamma, beta, mean, variance, norm.eps)
        self.conv.weight, self.conv.bias = (nn.Parameter(torch.from_numpy(array)) for array in (weights, bias))
        self.norm = nn.Identity()


class Block(nn.Module):
    """y = ReLU(convolution_2(ReLU(convolution_1(x))) + shortcut(x))."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = ConvNorm(inputs, outputs, 3, stride)
        self.relu1 = nn.ReLU(inplace=True)
        self.second = ConvNorm(outputs, outputs, 3)
        self.shortcut = nn.Identity() if inputs == outputs else ConvNorm(inputs, outputs, 1, stride)
        self.relu2 = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.relu1(self.first(x)))
        y += self.shortcut(x)
        return self.relu2(y)


class ResNet(nn.Module):
    """Scores of the ten digits, from images (n, 1, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(1, STEM, 3)
        self.relu = nn.ReLU(inplace=True)
        inputs = (STEM, *(channels for channels, _ in BLOCKS))
        self.blocks = nn.Sequential(*(Block(n, *block) for n, block in zip(inputs, BLOCKS, strict=False)))
        self.linear = nn.Linear(inputs[-1], 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.blocks(self.relu(self.stem(x))).mean(dim=(2, 3)))


def as_tensor(images: np.ndarray) -> torch.Tensor:
    """Pixels (n, 8, 8, 1) of 0..16 as a tensor for torch."""
    return torch.from_numpy(images.transpose(0, 3, 1, 2) * np.float32(PIXELS.scale))


def train(images: np.ndarray, labels: np.ndarray, epochs: int, batch: int = 64) -> ResNet:
    torch.manual_seed(0)
    model = ResNet()
    x, y = as_tensor(images), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    steps = epochs * -(-len(x) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def fold(model: ResNet) -> None:
    for module in model.modules():
        if isinstance(module, ConvNorm):
            module.fold()
    model.to(memory_format=torch.channels_last)  # the fastest for torch too


def calibrate(model: ResNet, images: np.ndarray) -> dict[str, QuantizationParameters]:
    """Scale and zero point of each uint8 activation, by the name of the layer that computes it."""
    # A layer ends with its ReLU; a shortcut's convolution has none.
    layers = {name: name for name, _ in model.named_modules() if name.endswith("shortcut")}
    layers |= {"relu": "stem"}
    for block in range(len(BLOCKS)):
        layers |= {f"blocks.{block}.relu1": f"blocks.{block}.first", f"blocks.{block}.relu2": f"blocks.{block}.second"}

    def network(batch: np.ndarray, report: Callable[[str, np.ndarray], np.ndarray]) -> None:
        def hook(name: str) -> Callable[..., None]:
            def observe(_module: nn.Module, _inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
                report(name, output.numpy())

            return observe

        hooks = [model.get_submodule(module).register_forward_hook(hook(name)) for module, name in layers.items()]
        with torch.inference_mode():
            model(as_tensor(batch))
        for handle in hooks:
            handle.remove()

    return int8blas.calibrate(network, np.array_split(images, 4))


# --- int8: NumPy and int8blas alone ----------------------------------------------------------------------------------


def network_graph() -> dict[str, tuple[str, ...]]:
    """The sources of each layer: its input, and, for the second convolution of a block, also the shortcut that is
    added."""
    graph: dict[str, tuple[str, ...]] = {"stem": ("image",)}
    inputs, src = STEM, "stem"
    for index, (channels, _) in enumerate(BLOCKS):
        first, second, added = f"blocks.{index}.first", f"blocks.{index}.second", src
        graph[first] = (src,)
        if channels != inputs:
            added = f"blocks.{index}.shortcut"
            graph[added] = (src,)
        graph[second] = (first, added)
        inputs, src = channels, second
    return graph | {"pool": (src,), "linear": ("pool",)}


def quantize(tensors: dict[str, np.ndarray], parameters: dict[str, QuantizationParameters]) -> dict[str, Any]:
    """The int8 layers and their graph, from float32 tensors with the batch normalizations folded."""
    graph = network_graph()
    quantization = int8blas.fuse_quantization(graph, {"image": PIXELS, **parameters}, same={"pool"})
    strides = {f"blocks.{i}.{name}": stride for i, (_, stride) in enumerate(BLOCKS) for name in ("first", "shortcut")}
    layers: dict[str, int8blas.Convolution | int8blas.InnerProduct] = {}
    for name, read in graph.items():
        if name == "linear":
            weights, bias = tensors["linear.weight"], tensors["linear.bias"]
            layers[name] = int8blas.InnerProduct(weights, bias, **quantization[name].arguments())
        elif name != "pool":
            weights, bias = tensors[f"{name}.conv.weight"], tensors[f"{name}.conv.bias"]
            post_ops = [quantization[name].sum()] if len(read) == 2 else []
            if not name.endswith("shortcut"):
                post_ops = [*post_ops, int8blas.ReLU()]
            layers[name] = int8blas.Convolution(
                weights,
                bias,
                strides=strides.get(name, 1),
                padding=weights.shape[2] // 2,
                attributes=int8blas.Attributes(post_ops=post_ops),
                **quantization[name].arguments(),
            )
    return {"graph": graph, "layers": layers}


class Int8ResNet:
    """The network in a file: its graph, and its layers."""

    def __init__(self, path: Path) -> None:
        network = int8blas.load(path)
        layers = network["layers"] | {"pool": pool}
        last_reader = {source: name for name, read in network["graph"].items() for source in read}
        # Name, layer, source, whether the layer is the last to read it, and the name of the added tensor or None.
        self.steps = [
            (name, layers[name], src, last_reader[src] == name, added[0] if added else None)
            for name, (src, *added) in network["graph"].items()
        ]

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """float32 scores of the ten digits, from images (n, 8, 8, 1) of uint8."""
        values = {"image": images}
        for name, layer, src, last, added in self.steps:
            x = values.pop(src) if last else values[src]
            # The layer overwrites the tensor that is added, which no other layer reads later.
            values[name] = layer(x, out=values.pop(added)) if added else layer(x)
        return values["linear"]


def pool(x: np.ndarray) -> np.ndarray:
    return int8blas.global_avg_pool(x).reshape(len(x), -1)


# --- comparison ------------------------------------------------------------------------------------------------------


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    return 100 * float(np.mean(scores.argmax(axis=1) == labels))


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


def print_times(model: ResNet, int8_model: Int8ResNet, images: np.ndarray, seconds: float) -> None:
    print("\nimages a call     torch  int8blas  speedup   (microseconds an image)")
    for count in (1, 8, 64, len(images)):
        some = images[:count]
        tensor = as_tensor(some)
        times = best_times(lambda x=tensor: model(x), lambda x=some: int8_model(x), seconds=seconds)
        float_time, int8_time = (time / count for time in times)
        print(f"{count:13}  {float_time:8.1f}  {int8_time:8.1f}  {float_time / int8_time:6.1f}x")


def print_memory(tensors: dict[str, np.ndarray], int8_model: Int8ResNet, images: np.ndarray) -> None:
    weights = [array for array in tensors.values() if array.ndim > 1]
    print(f"weights: float32 {sum(w.nbytes for w in weights) / 1024:.0f} KiB, ", end="")
    print(f"int8 {sum(w.size for w in weights) / 1024:.0f} KiB")
    tracemalloc.start()  # NumPy reports its arrays to tracemalloc
    int8_model(images)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"activations: at most {peak / 1024 / len(images):.1f} KiB an image at any time")


def main() -> int:
    parser = argparse.ArgumentParser(description="Handwritten digits, classified by an int8 residual network.")
    parser.add_argument("--quick", action="store_true", help="fewer training epochs, shorter measurements")
    parser.add_argument("--threads", type=int, help="for both torch and int8blas (default: all)")
    options = parser.parse_args()

    digits = load_digits()
    images = digits.images.astype(np.uint8)[..., np.newaxis]
    split = train_test_split(images, digits.target, test_size=0.5, random_state=0, stratify=digits.target)
    train_images, test_images, train_labels, test_labels = split
    if options.threads is not None:
        torch.set_num_threads(options.threads)

    config = int8blas.show_config("dicts")
    print(f"{config['cpu']['name']}, {config['isas']['selected']}, threads: {torch.get_num_threads()}")
    start = time.perf_counter()
    model = train(train_images, train_labels, epochs=5 if options.quick else 30)
    print(f"trained {len(BLOCKS)} residual blocks on {len(train_images)} digits in {time.perf_counter() - start:.1f} s")
    fold(model)
    parameters = calibrate(model, train_images)
    tensors = {name: tensor.numpy(force=True) for name, tensor in model.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet.i8"
        int8blas.save(path, quantize(tensors, parameters))
        print(f"the int8 network is a file of {path.stat().st_size / 1024:.0f} KiB")
        int8_model = Int8ResNet(path)  # the file stays mapped

    with torch.inference_mode(), int8blas.num_threads(torch.get_num_threads()):
        float_scores, int8_scores = model(as_tensor(test_images)).numpy(), int8_model(test_images)
        float_accuracy, int8_accuracy = accuracy(float_scores, test_labels), accuracy(int8_scores, test_labels)
        print(f"accuracy on {len(test_images)} other digits: float32 {float_accuracy:.2f} %, ", end="")
        print(f"int8 {int8_accuracy:.2f} %; the same answer for ", end="")
        print(f"{accuracy(int8_scores, float_scores.argmax(axis=1)):.2f} %")
        print_memory(tensors, int8_model, test_images[:64])
        print_times(model, int8_model, test_images, seconds=0.2 if options.quick else 2)
    loss = float_accuracy - int8_accuracy
    if not loss < LARGEST_LOSS:
        print(f"FAILED: int8 loses {loss:.2f} percentage points", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
