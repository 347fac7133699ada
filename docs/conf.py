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
}
exclude_patterns = ["_build", "gallery/README.rst"]
smartquotes = False  # keys and values are to be copied
html_theme = "furo"
html_math_renderer = "mathml"  # below: browsers draw it themselves, so formulas need no network
html_title = f"geosim {geosim.__version__}"
html_show_sphinx = False
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say shapes and units, which types do not
napoleon_google_docstring = False
napoleon_use_rtype = False

logging.getLogger("geosim").setLevel(logging.WARNING)  # sphinx shows what every logger says
write_reference(HERE / "reference")


def _formula(self, node):
    self.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def setup(app):
    """Register the renderer of formulas."""
    app.add_html_math_renderer("mathml", inline_renderers=(_formula, None), block_renderers=(_formula, None))
