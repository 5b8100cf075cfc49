"""Maths as MathML, made by docutils while the site is built: no script, and nothing to load."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def _mathml(self: Any, node: nodes.Element, block: bool) -> None:
    tag = "div" if block else "span"
    self.body.append(f'<{tag} class="math">{tex2mathml(node.astext(), as_block=block)}</{tag}>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Make it the way in which HTML has maths."""
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(lambda self, node: _mathml(self, node, False), None),
        block_renderers=(lambda self, node: _mathml(self, node, True), None),
    )
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
