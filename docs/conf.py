"""Sphinx's configuration: the repository is the source, so that links hold in both places.

``make docs`` builds the site; docs/decisions/061-site.md says why it is made this way.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_site")]

import ppdm_dask  # noqa: E402

# Kernels start without what the user has set up for IPython, and keep quiet unless they fail.
ipython = tempfile.TemporaryDirectory()
profile = Path(ipython.name, "profile_default")
profile.mkdir()
(profile / "ipython_kernel_config.py").write_text('get_config().IPKernelApp.log_level = "ERROR"\n')
os.environ["IPYTHONDIR"] = ipython.name
logging.getLogger("traitlets").setLevel(logging.WARNING)

project = "ppdm_dask"
author = "The ppdm_dask developers"
copyright = author
version = release = ppdm_dask.__version__

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_nb",
    "citations",
    "mathml",
    "pages",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "pipelines/**",
    "cluster/**",
    "ppdm_dask/datasets/PROVENANCE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
]
exclude_patterns = ["**/.ipynb_checkpoints"]
nitpicky = False

# Markdown.
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}

# Notebooks are committed without outputs and run by each build.
nb_execution_mode = "force"
nb_execution_timeout = 60
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# The reference.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# The theme: its own files only, and search without a server.
html_theme = "furo"
html_title = "ppdm_dask"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
