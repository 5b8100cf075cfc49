"""Texts that pages are made of: scripts, styles and templates, from the folder ``assets``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["asset", "template"]


@cache
def asset(name: str) -> str:
    """The text of a file."""
    return (files("ppdm_dask.collect") / "assets" / name).read_text(encoding="utf-8")


@cache
def template(name: str) -> Template:
    """A template that escapes what it is given, and refuses a name that it is not given."""
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined).from_string(asset(name))
