"""Pages from the templates of this room."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render"]


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("ppdm_dask.report"),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt name is an error and no empty text
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["figure"] = _figure
    return made


def _figure(value: object) -> str:
    """A number of a drift as text."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return "none" if value is None else str(value)


def render(template: str, **context: Any) -> str:
    """A page from a template of this room; values are escaped."""
    return _environment().get_template(template).render(**context)
