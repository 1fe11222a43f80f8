"""How Sphinx makes the site of what `docs/site/build.py` has put together."""

from __future__ import annotations

import functools
import re
from importlib.metadata import version as version_of
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment.adapters.toctree import global_toctree_for_doc

project = "pystreams"
author = "the authors of pystreams"
project_copyright = ""
version = release = version_of("pystreams-kafka")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
root_doc = "index"
# A block without a language is what a program prints, or a picture.
highlight_language = "none"
smartquotes_action = "D"  # Dashes; quotes and ellipses stay as they are written.

# Headings of all depths are anchors, named as a forge names them.
myst_heading_anchors = 6

# A docstring writes `code` in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
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
pygments_dark_style = "github-dark"

_told: dict[str, list[str]] = {}
"""Docstrings as they are written, by what they are of."""


def setup(app: Sphinx) -> None:
    """Tell Sphinx of the functions below."""
    app.connect("autodoc-process-docstring", _blocks_of_code, priority=400)  # napoleon's is 500.
    app.connect("autodoc-process-docstring", _sentences, priority=600)
    app.connect("html-page-context", _navigation, priority=400)  # Before furo's at 500.


def _blocks_of_code(*event: Any) -> None:
    """Let what is indented behind a colon in a docstring be code."""
    lines: list[str] = event[5]
    _told[event[2]] = list(lines)
    for number, (line, empty, code) in enumerate(zip(lines, lines[1:], lines[2:], strict=False)):
        spaces = len(line) - len(line.lstrip())
        if line.endswith(":") and not empty.strip() and code.startswith(" " * (spaces + 4)):
            lines[number] = line + ":"


def _sentences(*event: Any) -> None:
    """Let a colon in an attribute's docstring be one: napoleon takes what is before for a type."""
    if event[1] in {"attribute", "data", "property"}:
        event[5][:] = _told[event[2]]


def _navigation(*event: Any) -> None:
    """Make the navigation once, not for every page anew of all headings: half of a build."""
    app, name, _, context, _ = event
    if "toctree" not in context:
        return
    up = "../" * name.count("/")
    html = re.sub(r'(?<= href=")(?!https?:)', up, _whole_navigation(app))
    for current in (name, name.rpartition("/")[0] + "/index"):
        link = f'"><a class="reference internal" href="{up}{current}.html"'
        html = html.replace(link, " current" + link)
    context["toctree"] = lambda **_: html


@functools.cache
def _whole_navigation(app: Sphinx) -> str:
    tree = global_toctree_for_doc(
        app.env, root_doc, app.builder, tags=app.tags, includehidden=True, titles_only=True
    )
    builder: Any = app.builder  # The one for HTML.
    return str(builder.render_partial(tree)["fragment"])
