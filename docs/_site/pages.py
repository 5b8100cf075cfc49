"""What the site has beyond its pages: the reference of rooms, and a first page."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import GenericAlias
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import ppdm_dask

FIRST = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>ppdm_dask</title>
<meta http-equiv="refresh" content="0; url=docs/index.html">
<p><a href="docs/index.html">ppdm_dask</a></p></html>
"""


# What the theme leaves out for those who use a keyboard or a screen reader.
MENDED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
    '<div class="ppdm-face': '<div tabindex="0" class="ppdm-face',
    "<th></th>": "<td></td>",
    '<div id="search-results"></div>': '<h1>Search</h1><div id="search-results"></div>',
    '<div class="math">': '<div tabindex="0" class="math">',
}


def described(module: str, name: str) -> str:
    """Directive of autodoc for a public name."""
    found = getattr(importlib.import_module(module), name)
    if isinstance(found, GenericAlias):
        return f".. py:type:: {module}.{name}\n   :canonical: {found}\n"
    if inspect.isclass(found):
        return f".. autoclass:: {module}.{name}\n   :members:\n   :inherited-members: {BASES}\n"
    if inspect.isroutine(found):
        return f".. autofunction:: {module}.{name}\n"
    return f".. autodata:: {module}.{name}\n   :no-value:\n"


# Members that these give are theirs to explain.
BASES = (
    "object, tuple, list, dict, Exception, BaseException, Warning, Protocol, Generic, Design, "
    "Product, BaseEstimator, ClassifierMixin, ClusterMixin, TransformerMixin, ReprHTMLMixin, "
    "_MetadataRequester, _SetOutputMixin"
)


class Names(SphinxDirective):
    """``.. names:: MODULE`` and names, one a line: each is described in full.

    Without names it is every public name of the module; what ``ppdm_dask`` has too is told by a
    link, since it is described there.
    """

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Let autodoc describe them."""
        module = self.arguments[0]
        given = [line for line in self.content if line.strip()]
        lines: list[str] = []
        elsewhere = []
        for name in given or sorted(public(module)):
            if not given and same(module, name):
                elsewhere.append(f":py:obj:`~ppdm_dask.{name}`")
            else:
                lines += [*described(module, name).splitlines(), ""]
        if elsewhere:
            lines = [f"Also here, described in the main room: {', '.join(elsewhere)}.", "", *lines]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=False)


def public(module: str) -> set[str]:
    """Public names of a room that are no modules."""
    room = importlib.import_module(module)
    names = getattr(room, "__all__", None)
    assert names is not None, f"{module} declares no public names"
    return {name for name in names if not inspect.ismodule(getattr(room, name))}


def same(module: str, name: str) -> bool:
    """Whether the main room has this very object."""
    here = getattr(importlib.import_module(module), name)
    return name in ppdm_dask.__all__ and getattr(ppdm_dask, name) is here


def _skip(
    app: Any, what: str, name: str, found: object, skip: bool, options: object
) -> bool | None:
    """Leave out what scikit-learn adds to every estimator to route metadata."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def _orphans(app: Any, doctree: nodes.document) -> None:
    """Decisions are reached by their list; fifty of them would fill the navigation."""
    name = app.env.docname
    if name.startswith("docs/decisions/0"):
        app.env.metadata[name]["orphan"] = True


def _folders(app: Any, name: str, source: list[str]) -> None:
    """Make a link to a folder of the repository its text: a site has no page for it."""
    page = Path(app.env.doc2path(name))
    if page.suffix == ".md":
        source[0] = re.sub(
            r"\[([^][]*)\]\(([\w./-]+)\)",
            lambda link: link[1] if (page.parent / link[2]).is_dir() else link[0],
            source[0],
        )


def _first(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        for path in Path(app.outdir).rglob("*.html"):
            text = path.read_text(encoding="utf-8")
            for left, right in MENDED.items():
                text = text.replace(left, right)
            path.write_text(text, encoding="utf-8")
        Path(app.outdir, "index.html").write_text(FIRST, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Add the directive and both hooks."""
    app.add_directive("names", Names)
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _orphans)
    app.connect("source-read", _folders)
    app.connect("build-finished", _first)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
