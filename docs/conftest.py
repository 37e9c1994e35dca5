"""Which pages pytest takes: those whose modules are installed. Sphinx's output is none of them."""

from importlib.util import find_spec

# Pages that need modules outside of the extra "test".
PAGES = {
    "howto/arrays.md": ["ml_dtypes"],
    "howto/clusters.md": ["dask", "distributed", "joblib"],
    "howto/onnx.md": ["onnx"],
    "howto/quantize_pytorch.md": ["torch"],
    "howto/replace_int_mm.md": ["torch"],
    "howto/scikit_learn.md": ["sklearn"],
}

collect_ignore = ["_build"] + [page for page, modules in PAGES.items() if not all(map(find_spec, modules))]
