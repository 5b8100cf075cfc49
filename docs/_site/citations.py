"""``[Key]_`` in docstrings leads to the key's entry in docs/bibliography.md.

Entries there begin with the key, in bold and brackets; each becomes the target ``work-<key>``.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util.logging import getLogger

PAGE = "docs/bibliography"
ENTRY = re.compile(r"^\*\*\[(\w+)\]\*\*", re.MULTILINE)
logger = getLogger(__name__)


def anchor(key: str) -> str:
    """Name of the target of a work."""
    return f"work-{key.lower()}"


def _targets(app: Any, doctree: nodes.document) -> None:
    """Give each entry of the bibliography an id."""
    if app.env.docname != PAGE:
        return
    for strong in list(doctree.findall(nodes.strong)):
        key = re.fullmatch(r"\[(\w+)\]", strong.astext())
        if key:
            strong["ids"].append(anchor(key[1]))


class References(SphinxTransform):
    """Turn citations into links, before docutils looks for targets on the same page."""

    default_priority = 5

    def apply(self, **kwargs: Any) -> None:
        """Replace each reference that docutils has made of ``[Key]_``."""
        known = self.env.works
        for node in list(self.document.findall(nodes.citation_reference)):
            key = node.astext()
            if key not in known:
                logger.warning("[%s]_ is not in %s.md", key, PAGE, location=node)
                continue
            uri = self.app.builder.get_relative_uri(self.env.docname, PAGE)
            link = nodes.reference("", f"[{key}]", refuri=f"{uri}#{anchor(key)}", internal=True)
            node.replace_self(link)
        self.document.citation_refs.clear()


def _read(app: Any, env: Any, *_: Any) -> None:
    env.works = frozenset(ENTRY.findall(env.doc2path(PAGE).read_text(encoding="utf-8")))


def setup(app: Any) -> dict[str, bool]:
    """Add the transform and what it needs."""
    app.connect("env-before-read-docs", _read)
    app.connect("doctree-read", _targets)
    app.add_transform(References)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
