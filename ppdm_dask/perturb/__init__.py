"""Perturbation of continuous data: release numbers that ordinary algorithms run on.  [Guo]_."""

from ppdm_dask.perturb.aibr import AIBR
from ppdm_dask.perturb.base import Perturbation, methods, perturbation_from_config
from ppdm_dask.perturb.condensation import KCG
from ppdm_dask.perturb.metrics import Disclosure, Distortion, disclosure, distortion, expected_rp
from ppdm_dask.perturb.svd import BSVD, SSVD

__all__ = [
    "AIBR",
    "BSVD",
    "KCG",
    "SSVD",
    "Disclosure",
    "Distortion",
    "Perturbation",
    "disclosure",
    "distortion",
    "expected_rp",
    "methods",
    "perturbation_from_config",
]
