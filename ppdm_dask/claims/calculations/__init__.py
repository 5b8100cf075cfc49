"""Numbers for claims that need no run: formulas, enumerations, sizes of data sets.

A calculation is a function without arguments that returns numbers by name.  A claim's file names
the calculation and the number, and the same rules judge it as judge results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from ppdm_dask.claims.calculations.guo import (
    aibr_histogram,
    aibr_reach,
    joint_distribution,
    sample_counts,
)
from ppdm_dask.claims.calculations.huang_du import (
    best_estimate,
    combinations,
    extreme_matrices,
    inverse_as_mle,
    least_posterior,
    schemes,
    theorem_6,
)
from ppdm_dask.claims.calculations.zhan_du import (
    adversary_s_guess,
    coefficient_matrices,
    half,
    hint,
    record_counts,
    solved_equations,
    whole_record,
)
from ppdm_dask.claims.calculations.zhan_matwin import (
    conjunction,
    mixture,
    printed_pse,
    pse_symmetry,
)

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CALCULATIONS", "calculate"]

CALCULATIONS: Mapping[str, Callable[[], dict[str, float]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        # [ZhanMatwin]_
        conjunction,
        mixture,
        printed_pse,
        pse_symmetry,
        # [ZhanDu]_
        adversary_s_guess,
        coefficient_matrices,
        half,
        hint,
        record_counts,
        solved_equations,
        whole_record,
        # [Guo]_
        aibr_histogram,
        aibr_reach,
        joint_distribution,
        sample_counts,
        # [HuangDu]_
        best_estimate,
        combinations,
        extreme_matrices,
        inverse_as_mle,
        least_posterior,
        schemes,
        theorem_6,
    )
}
"""Calculations by name."""


@cache
def calculate(name: str) -> xr.Dataset:
    """The numbers of a calculation, as a result without axes."""
    import xarray as xr

    return xr.Dataset({key: ((), value) for key, value in CALCULATIONS[name]().items()})
