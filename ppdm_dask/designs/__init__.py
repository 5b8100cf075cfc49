"""Randomization designs: one family a file, one contract, one registry."""

from typing import Any

from ppdm_dask._moved import moved_attribute
from ppdm_dask.designs.base import Design, design_from_config, design_schema, families, register
from ppdm_dask.designs.files import read_design, write_design
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.forced import ForcedResponse
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.itemcount import item_count
from ppdm_dask.designs.kary import Crosswise, KaryResponse, Warner
from ppdm_dask.designs.kuk import Kuk
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.mixed import mixed
from ppdm_dask.designs.multigroup import MultiGroup, RandomGroups, scheme_from_config
from ppdm_dask.designs.onesided import Mangat, Triangular
from ppdm_dask.designs.permanent import (
    Permanent,
    epsilon_of_waves,
    lasting,
    permanent_blocks,
)
from ppdm_dask.designs.pram import InvariantPRAM, two_stage
from ppdm_dask.designs.product import Product
from ppdm_dask.designs.sets import SetDesign
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.designs.unary import UnaryEncoding
from ppdm_dask.designs.unrelated import UnrelatedQuestion

__all__ = [
    "Crosswise",
    "Design",
    "Flip",
    "ForcedResponse",
    "Identity",
    "InvariantPRAM",
    "KaryResponse",
    "Kuk",
    "Mangat",
    "MultiGroup",
    "Permanent",
    "Product",
    "RRMatrix",
    "RandomGroups",
    "SetDesign",
    "SubsetSelection",
    "Triangular",
    "UnaryEncoding",
    "UnrelatedQuestion",
    "Warner",
    "design_from_config",
    "design_schema",
    "epsilon_of_waves",
    "families",
    "item_count",
    "lasting",
    "mixed",
    "permanent_blocks",
    "read_design",
    "register",
    "scheme_from_config",
    "two_stage",
    "write_design",
]

_MOVED = {"Stratified": "inference.stratified", "TwoSample": "inference.two_sample"}


def __getattr__(name: str) -> Any:
    return moved_attribute(__name__, _MOVED, name)
