"""Compare weights of other formats with the programs that define these formats, each if it is installed.

AutoGPTQ and AutoAWQ need not be importable (`pip install --no-deps auto_gptq autoawq`): their packing code is read from
its file.
"""

import importlib.util
from importlib.machinery import PathFinder
from pathlib import Path

import numpy as np
import pytest
from arrays import assert_same
from layers import assert_same_bits

from int8blas import formats


def module_of(package, file):
    """A module of an installed package, without the package's other modules."""
    found = PathFinder.find_spec(package)
    if found is None:
        pytest.skip(f"{package} is not installed")
    spec = importlib.util.spec_from_file_location(Path(file).stem, Path(found.origin).parent / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_gguf(kind, rng):
    """Matrices that gguf has quantized, and blocks of random bytes, which have all scales."""
    gguf, quants = pytest.importorskip("gguf"), pytest.importorskip("gguf.quants")
    kind_of_gguf = gguf.GGMLQuantizationType[kind]
    size = gguf.GGML_QUANT_SIZES[kind_of_gguf][1]
    for rows, blocks in ((1, 1), (5, 3), (64, 16)):
        w = rng.normal(0, 1, (rows, 32 * blocks)).astype(np.float32)
        w[0, :32] = 0
        quantized = quants.quantize(w, kind_of_gguf)
        random_bytes = rng.integers(0, 256, (rows, blocks, size), np.uint8)
        random_bytes[:, :, [1, 3] if kind == "Q4_1" else [1]] &= 0xBF  # no infinity or NaN
        for given in (quantized, random_bytes.reshape(rows, -1)):
            found = formats.from_gguf(given, kind)
            assert_same_bits(found.dequantized(), quants.dequantize(given, kind_of_gguf), kind=kind, rows=rows)


def real_weights(q, zeros, scales, of_k):
    """Real weights (oc, ic), as torch has them, of integers (ic, oc)."""
    torch = pytest.importorskip("torch")
    return torch.from_numpy(np.ascontiguousarray((scales[of_k] * (q - zeros[of_k])).T.astype(np.float32)))


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_gptq(scattered, rng):
    """AutoGPTQ packs a layer. The layer's product with an identity matrix is its dequantized weights."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    packer = module_of("auto_gptq", "nn_modules/qlinear/qlinear_cuda.py")
    for ic, oc, group in ((64, 32, 32), (128, 64, 128), (96, 32, 32)):
        of_k = np.arange(ic) // group
        of_k = rng.permutation(of_k) if scattered else of_k
        q, zeros = rng.integers(0, 16, (ic, oc)), rng.integers(1, 16, (ic // group, oc))
        scales = rng.uniform(0.1, 1, (ic // group, oc)).astype(np.float16).astype(np.float32)
        linear = torch.nn.Linear(ic, oc, bias=False)
        linear.weight.data = real_weights(q, zeros, scales, of_k)
        layer = packer.QuantLinear(4, group, ic, oc, False, weight_dtype=torch.float32)
        given = (torch.from_numpy(x.T.astype(np.float32)) for x in (scales, zeros))
        layer.pack(linear, *given, torch.from_numpy(of_k.astype(np.int32)))
        tensors = (layer.qweight, layer.qzeros, layer.scales, layer.g_idx)
        found = formats.from_gptq(*(x.numpy() for x in tensors))
        assert (found.order is not None) == (scattered and ic > group)
        assert_same(found.zero_points, zeros.astype(np.uint8))
        assert_same(found.dequantized(), np.ascontiguousarray(layer(torch.eye(ic)).numpy().T) + np.float32(0))


def test_awq(rng):
    """AutoAWQ unpacks all dwords that there are."""
    torch = pytest.importorskip("torch")
    packing = module_of("awq", "utils/packing_utils.py")
    for ic, oc, group in ((64, 16, 32), (128, 64, 128), (96, 8, 32)):
        qweight, qzeros = (
            rng.integers(-(2**31), 2**31, (rows, oc // 8)).astype(np.int32) for rows in (ic, ic // group)
        )
        scales = rng.uniform(0.1, 1, (ic // group, oc)).astype(np.float16).astype(np.float32)
        expected = packing.dequantize_gemm(*map(torch.from_numpy, (qweight, qzeros, scales)), 4, group).numpy()
        found = formats.from_awq(qweight, qzeros, scales).dequantized()
        assert_same_bits(found, np.ascontiguousarray(expected.T))
