"""Sphinx builds the pages of docs/: `python -m sphinx -W docs OUT`; the tables of reference/ are read from the code."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from docutils import nodes  # noqa: E402
from docutils.utils.math.latex2mathml import tex2mathml  # noqa: E402
from tables import write_reference  # noqa: E402

import geosim  # noqa: E402

project, author, copyright = "geosim", "the geosim founders", "the geosim founders, MIT licence"
version = release = geosim.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
extensions += ["sphinx_gallery.gen_gallery"]  # runs scripts, keeps what they print, makes the page of small pictures
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"\.py$",
    "image_scrapers": ("gallery_pictures",),
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,  # its pages ask other servers for their tables
    "within_subsection_order": "gallery_pictures.Order",
}
exclude_patterns = ["_build", "gallery/README.rst"]
smartquotes = False  # keys and values are to be copied
default_role = "code"  # a name between single backticks, as docstrings write it
html_theme = "furo"
html_static_path, html_css_files = ["static"], ["site.css"]
html_math_renderer = "mathml"  # below: browsers draw it themselves, so formulas need no network
html_title = f"geosim {geosim.__version__}"
html_show_sphinx = False
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say shapes and units, which types do not
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False  # the same of the fields of dataclasses

logging.getLogger("geosim").setLevel(logging.WARNING)  # sphinx shows what every logger says
write_reference(HERE / "reference")


def _formula(self, node):
    self.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def _plain_property(app, what, name, obj, options, lines):
    """An empty first line: else what stands before a colon in a property's sentence is taken for its type."""
    if what in ("property", "attribute"):
        lines.insert(0, "")


def setup(app):
    """Register the renderer of formulas, and what keeps the sentences of properties whole."""
    app.connect("autodoc-process-docstring", _plain_property, priority=400)  # before that of napoleon, 500
    app.add_html_math_renderer("mathml", inline_renderers=(_formula, None), block_renderers=(_formula, None))
