r"""Maths as MathML, made by docutils while the site is built: no script, and nothing to load.

TeX that docutils does not know ends the build.  Formulas in a row, with ``\qquad`` between them,
stand below one another where a screen is narrow: browsers do not break MathML.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def rows(tex: str) -> list[str]:
    """Formulas of a row: TeX between quads that are in no group."""
    found, depth = [""], 0
    for part in re.split(
        r"(\\qquad(?![a-zA-Z])|\\begin\b|\\end\b|\\left\b|\\right\b|\\.|[{}])", tex
    ):
        depth += (part in ("{", r"\begin", r"\left")) - (part in ("}", r"\end", r"\right"))
        if part == r"\qquad" and not depth:
            found.append("")
        else:
            found[-1] += part
    return [each.strip() for each in found]


def _mathml(self: Any, node: nodes.Element, block: bool) -> None:
    tag = "div" if block else "span"
    parts = rows(node.astext()) if block else [node.astext()]
    made = "".join(tex2mathml(part, as_block=block) for part in parts)
    self.body.append(f'<{tag} class="math">{made}</{tag}>')
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
