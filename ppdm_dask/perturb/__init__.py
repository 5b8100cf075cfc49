"""Perturbation of continuous data: release numbers that ordinary algorithms run on.  [Guo]_."""

from ppdm_dask.perturb.aibr import AIBR
from ppdm_dask.perturb.base import (
    ColumnSummary,
    Perturbation,
    methods,
    perturbation_from_config,
    read_matrix,
)
from ppdm_dask.perturb.condensation import KCG
from ppdm_dask.perturb.metrics import (
    Disclosure,
    Distortion,
    check_interval,
    disclosure,
    distortion,
    distortion_of_columns,
    expected_rp,
    within_interval,
)
from ppdm_dask.perturb.release import released_frame, write_csv, write_parquet
from ppdm_dask.perturb.svd import BSVD, SSVD

__all__ = [
    "AIBR",
    "BSVD",
    "KCG",
    "SSVD",
    "ColumnSummary",
    "Disclosure",
    "Distortion",
    "Perturbation",
    "check_interval",
    "disclosure",
    "distortion",
    "distortion_of_columns",
    "expected_rp",
    "methods",
    "perturbation_from_config",
    "read_matrix",
    "released_frame",
    "within_interval",
    "write_csv",
    "write_parquet",
]
