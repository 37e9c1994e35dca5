"""Pages whose examples need packages that the tests do not: pytest leaves them out where one is missing."""

from importlib.util import find_spec

PAGES = {
    "howto/quantize_pytorch.md": ["torch"],
}

collect_ignore = [page for page, modules in PAGES.items() if not all(find_spec(module) for module in modules)]
