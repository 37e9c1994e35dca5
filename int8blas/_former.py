"""The former import paths of modules, which are in pickles of old versions."""

import importlib
import sys

# The present name of each module by its former name. If a package now has the former name of a module, the package
# exports the objects that pickles contain.
PLACES = {
    "_config": "core.config",
    "_explain": "gemm.explain",
    "_file": "core.file",
    "_histogram": "network.histogram",
    "_include": "core.include",
    "_kernels": "core.kernels",
    "_layer_arguments": "stage.layer_arguments",
    "_matmul": "gemm.matmul",
    "_parameters": "core.parameters",
    "_reorder": "elementwise.reorder",
    "_threads": "core.threads",
    "_weights_scales": "stage.weights_scales",
    "attributes": "stage.attributes",
    "blas": "gemm.blas",
    "deconvolution": "convolution.deconvolution",
    "folding": "network.folding",
    "gather": "elementwise.gather",
    "im2col": "convolution.im2col",
    "inner_product": "layers.inner_product",
    "normalization": "elementwise.normalization",
    "packing": "gemm.packing",
    "pooling": "elementwise.pooling",
    "quantization": "elementwise.quantization",
    "quantization_factors": "elementwise.quantization_factors",
    "rnn": "layers.rnn",
    "saturation": "gemm.saturation",
}


def name_former_places() -> None:
    """Let imports find modules under their former names."""
    for former, place in PLACES.items():
        sys.modules[f"int8blas.{former}"] = importlib.import_module(f"int8blas.{place}")
