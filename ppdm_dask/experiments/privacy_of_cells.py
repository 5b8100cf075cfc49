"""The privacy of a sweep's cells: no repeat is needed for it, only the design and the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask import privacy
from ppdm_dask.designs import Design, design_from_config
from ppdm_dask.designs.random_groups import RandomGroups
from ppdm_dask.errors import DesignError
from ppdm_dask.experiments.adversary import disclose
from ppdm_dask.experiments.population import Population
from ppdm_dask.experiments.variables import ADVERSARIES, SPLITS_AVERAGED

if TYPE_CHECKING:
    from ppdm_dask.experiments.sweep import SweepPlan
    from ppdm_dask.experiments.trials import Setting

__all__ = ["fill_privacy", "single_attribute"]


def fill_privacy(arrays: dict[str, npt.NDArray[Any]], plan: SweepPlan) -> None:
    """Fill what the result says on privacy: PSE, its curves, and what adversaries learn.

    Parameters
    ----------
    arrays : dict of str to array
        As ``empty_arrays`` makes them, with the variables ``DISCLOSURES``.
    plan : SweepPlan
    """
    populations = [Population.of(prepared.records) for prepared in plan.prepared]
    starts = np.cumsum([0, *(len(population.names) for population in populations)])
    for point, cell, _ in plan.points:
        setting = plan.work.setting(cell)
        entry, *where = point.index
        population = populations[entry]
        for i, name in enumerate(population.names, int(starts[entry])):
            channel = setting.design.marginal([name])
            if channel is not None:
                pse = privacy.pse(channel, population.laws[name])
                arrays["pse_attribute"][(i, *where)] = pse
        for name, value in _disclosures(setting, population).items():
            arrays[name][point.index] = value
    for i, w_a in enumerate(plan.recipe.w_a):
        for point in plan.recipe.points():
            channel = single_attribute(plan.recipe.design_at(point))
            if channel is not None:
                pse = privacy.pse(channel, [1 - w_a, w_a])
                arrays["pse_curve"][(i, *point.index[1:])] = pse


def _disclosures(setting: Setting, population: Population) -> dict[str, float]:
    """What each adversary learns in a cell, by variable."""
    scheme = setting.design
    repeats = 1
    if isinstance(scheme, RandomGroups) and scheme.redrawn and scheme.groups > 1:
        repeats = SPLITS_AVERAGED
    designs = [setting.design_for(repeat) for repeat in range(repeats)]
    found = {}
    for adversary in ADVERSARIES:
        # A single attribute's report is the same in all groups, unless their thetas differ.
        own = adversary == "own" and scheme.marginal(population.names[:1]) is not None
        each = [disclose(adversary, design, population) for design in designs[: 1 if own else None]]
        for measure in each[0]._fields:
            values = [getattr(disclosure, measure) for disclosure in each]
            found[f"{measure}_{adversary}"] = math.fsum(values) / len(values)
    return found


def single_attribute(config: Mapping[str, Any]) -> Design | None:
    """The design of one binary attribute alone, None where a configuration is for several.

    Parameters
    ----------
    config : mapping
        Of a grid point, as ``Recipe.design_at`` gives it.
    """
    alone = {**config, "attributes": ["A"], "shape": [2]}
    if isinstance(config.get("groups"), int):
        # However many groups there are, a single attribute is in one.
        alone |= {"groups": [["A"]]}
        alone.pop("split", None)
    try:
        design = design_from_config(alone)
    except DesignError:
        return None
    # With labels it is about one attribute, not about any.
    return None if any(design.categories) else design
