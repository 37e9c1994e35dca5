"""The configuration of Sphinx. CONTRIBUTING.md has the command."""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref

import int8blas

project = "int8blas"
author = "the int8blas developers"
release = int8blas.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build"]

# A reference without a target is an error. Names of other projects are not links, so a build needs no network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(numpy|scipy|threadpoolctl)\..*")]

myst_heading_anchors = 3  # [text](page.md#heading), as on code hosts

# The sections of docstrings have the types; signatures have names and defaults.
autodoc_typehints = "none"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
autosummary_generate = False  # a name has a line in the index of the reference, not a page
numpydoc_validation_checks = {
    *("GL05", "GL06", "GL07", "GL08", "GL09", "GL10", "SS02", "SS04"),
    *("PR05", "PR06", "PR07", "PR10", "RT01", "RT02", "RT05"),
}

highlight_language = "none"  # most literal blocks are formulas

html_theme = "pydata_sphinx_theme"
html_title = f"int8blas {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_theme_options = {"header_links_before_dropdown": 5, "navigation_with_keys": False}
NO_SECTION = ("index", "tour", "performance", "performance_notes", "migration", "specification", "promises")
# Pages outside of a section have no navigation at the left. The headings of a page are at its right.
html_sidebars = {page: [] for page in NO_SECTION}


def highlight_sessions(app, doctree):
    """Colour indented blocks with prompts as Python: Markdown cannot name the language of an indented block."""
    for block in doctree.findall(nodes.literal_block):
        if block.astext().startswith(">>> "):
            block["language"] = "pycon"


def link_names(app, doctree):
    """In pages of prose, make `InnerProduct` and `InnerProduct(...)` links to the reference."""
    if app.env.docname.startswith(("api/", "migration")):  # there other libraries have the same names
        return
    names = {*int8blas.__all__} - {"sum", "onnx"}  # also a method, and a package
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext().removeprefix("int8blas.").partition("(")[0]
        if name in names and not isinstance(literal.parent, nodes.reference | nodes.title | pending_xref):
            target = {"refdomain": "py", "reftype": "obj", "reftarget": f"int8blas.{name}", "refwarn": True}
            literal.replace_self(pending_xref("", literal.deepcopy(), refdoc=app.env.docname, **target))


def name_types(app, what, name, obj, options, signature, returns):
    """In signatures, show dtypes as they are written in code."""
    if signature is None:
        return None
    return re.sub(r"<class 'numpy\.(\w+)'>", r"np.\1", signature), returns


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", name_types)
    app.connect("doctree-read", highlight_sessions)
    app.connect("doctree-read", link_names)
