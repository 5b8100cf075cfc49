"""``ppdm schema``: JSON Schemas of the files that a person writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import ppdm_dask as pp
from ppdm_dask.cli.output import print_json
from ppdm_dask.reproduce.documents import write_json

__all__ = ["schema"]
