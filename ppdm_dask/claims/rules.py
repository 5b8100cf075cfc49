"""The rules by which claims are judged, by the word in a claim's key ``rule``."""

from __future__ import annotations

from collections.abc import Mapping

from ppdm_dask.claims.cell_rules import Compare, Defined, Equal, Within
from ppdm_dask.claims.line_rules import Extreme, Monotone
from ppdm_dask.claims.rule import Rule

__all__ = ["RULES"]

RULES: Mapping[str, type[Rule]] = {
    "within": Within,
    "compare": Compare,
    "equal": Equal,
    "defined": Defined,
    "monotone": Monotone,
    "extreme": Extreme,
}
