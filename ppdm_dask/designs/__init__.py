"""Randomization designs: one family a file, one contract, one registry."""

from ppdm_dask.designs.base import Design
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.kary import KaryResponse, Warner
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.multigroup import MultiGroup
from ppdm_dask.designs.product import Product
from ppdm_dask.designs.random_groups import RandomGroups, scheme_from_config
from ppdm_dask.designs.registry import design_from_config, families, register
from ppdm_dask.designs.stratified import Stratified
from ppdm_dask.designs.unrelated import UnrelatedQuestion

__all__ = [
    "Design",
    "Flip",
    "Identity",
    "KaryResponse",
    "MultiGroup",
    "Product",
    "RRMatrix",
    "RandomGroups",
    "Stratified",
    "UnrelatedQuestion",
    "Warner",
    "design_from_config",
    "families",
    "register",
    "scheme_from_config",
]
