"""How Sphinx makes the site of what `docs/site/build.py` has put together."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import Any

from sphinx.application import Sphinx

project = "pystreams"
author = "the authors of pystreams"
project_copyright = ""
version = release = version_of("pystreams-kafka")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
root_doc = "index"
# A block without a language is what a program prints, or a picture.
highlight_language = "none"
smartquotes = False

# Headings of all depths are anchors, named as a forge names them.
myst_heading_anchors = 6

# A docstring writes `code` in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "separated"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = "pystreams"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "native"


def setup(app: Sphinx) -> None:
    """Tell Sphinx of the functions below."""
    app.connect("autodoc-process-docstring", _blocks_of_code)
    app.connect("html-page-context", _shallow_navigation, priority=400)  # Before furo's at 500.


def _blocks_of_code(*event: Any) -> None:
    """Let what is indented behind a colon in a docstring be code."""
    lines: list[str] = event[5]
    for number, (line, empty, code) in enumerate(zip(lines, lines[1:], lines[2:], strict=False)):
        spaces = len(line) - len(line.lstrip())
        if line.endswith(":") and not empty.strip() and code.startswith(" " * (spaces + 4)):
            lines[number] = line + ":"


def _shallow_navigation(*event: Any) -> None:
    """Give pages no more navigation than they need: it is made anew for each, of all headings."""
    _, name, _, context, _ = event
    if "toctree" in context:
        whole = context["toctree"]
        depth = 2 if name.startswith(("adr/", "reference/api/")) else 1
        context["toctree"] = lambda **options: whole(**options | {"maxdepth": depth})
