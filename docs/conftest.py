"""Select the pages that pytest runs: a page is skipped if a module that it needs is not installed. Sphinx's output is
skipped too."""

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
