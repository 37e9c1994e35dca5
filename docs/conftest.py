"""Pages whose examples need more than the extra `test` are collected where their packages are installed."""

from importlib.util import find_spec

PAGES = {
    "howto/arrays.md": ["ml_dtypes"],
}
collect_ignore = [page for page, modules in PAGES.items() if not all(map(find_spec, modules))]
