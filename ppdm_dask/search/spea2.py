"""The evolution of matrices: the algorithm of section V of [HuangDu]_, step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.experiments.files import replacing
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.archive import Omega
from ppdm_dask.search.draws import Draws
from ppdm_dask.search.objectives import Objectives
from ppdm_dask.search.problem import Problem
from ppdm_dask.search.toolbox import make_toolbox, mapped

__all__ = ["Evolution", "Settings"]

Floats = npt.NDArray[np.float64]
FIRST = 20
"""The first population is larger by this factor: what it lacks is not easily found later."""

ENDS = ("generations", "patience")

Hook = Callable[["Evolution"], None]


@dataclass(frozen=True)
class Settings:
    """Sizes and rates of the evolution.

    Parameters
    ----------
    generations : int
        L, after which it stops.
    population, archive : int
        N_Q and N_V, 2 or more.
    slots : int
        Size of Omega.
    density : int
        Which nearest neighbour the density looks at; 1 in the paper.
    rate, scale : float
        Probability of a mutation, and the largest change of an entry by one.
    patience : int, optional
        Stop after so many generations in a row that leave Omega as it is.
    symbols : int, optional
        Reported symbols K, as many as categories by default.
    """

    generations: int = 20_000
    population: int = 200
    archive: int = 100
    slots: int = 1_000
    density: int = 1
    rate: float = 1.0
    scale: float = 0.1
    patience: int | None = None
    symbols: int | None = None

    def __post_init__(self) -> None:
        least = {"generations": 0, "population": 2, "archive": 2, "slots": 1, "density": 1}
        least |= {name: 1 for name in ("patience", "symbols") if getattr(self, name) is not None}
        for name, smallest in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise InputError(
                    f"{name}: got {value!r}; a whole number of {smallest} or more is needed", value
                )
        for name in ("rate", "scale"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 < value <= 1:
                raise InputError(f"{name}: got {value!r}; a number in (0, 1] is needed", value)


@dataclass(eq=False)
class Evolution:
    """Population, archive and Omega after some generations.

    Draws are keyed by the generation, so what is computed does not depend on where a run was
    stopped and taken up again.

    Parameters
    ----------
    problem : Problem
    settings : Settings
    stream : SimulationStream
        Key of all draws.
    toolbox : deap.base.Toolbox, optional
        From :func:`~ppdm_dask.search.toolbox.make_toolbox` by default.
    begun : bool
        Whether to draw and evaluate a first population; without one only :meth:`restore` is left.

    Raises
    ------
    InputError
        For fewer symbols than categories, and where no matrix of the first population is of use.
    """

    problem: Problem
    settings: Settings
    stream: SimulationStream
    toolbox: Any = None
    begun: bool = True
    generation: int = 0
    unchanged: int = 0
    omega: Omega = field(init=False)
    population: Floats = field(init=False)
    archive: Floats = field(init=False)
    found: Objectives = field(init=False)
    """Of the population and the archive, in this order."""

    def __post_init__(self) -> None:
        problem, settings = self.problem, self.settings
        K = settings.symbols or problem.n
        if problem.n > K:
            raise InputError(
                f"symbols: got {K}; at least {problem.n} are needed, one a category", K
            )
        if self.toolbox is None:
            self.toolbox = make_toolbox(
                problem, density=settings.density, rate=settings.rate, scale=settings.scale
            )
        self.omega = Omega(settings.slots, (K, problem.n))
        self.population = self.archive = np.zeros((0, K, problem.n))
        if self.begun:
            self._begin(settings.population * FIRST)

    def _begin(self, size: int) -> None:
        draws = Draws(self.stream, 0)
        self.population = self.toolbox.population(size, self.population.shape[1], draws=draws)
        self.toolbox.repair(self.population)
        self.found = mapped(self.toolbox, self.population)
        if not np.isfinite(self.found.mse).any():
            raise InputError(
                f"objective: all errors of the first {size} matrices are infinite; a search needs "
                "some that are finite",
                self.found,
            )
        self.omega.offer(self.population, self.found)

    @property
    def finished(self) -> bool:
        """Whether a rule for stopping is met."""
        patience = self.settings.patience
        tired = patience is not None and self.unchanged >= patience
        return self.generation >= self.settings.generations or tired

    def run(self, hook: Hook | None = None) -> Self:
        """Go on until a rule for stopping is met; `hook` is called after each generation."""
        while not self.finished:
            self.step()
            if hook is not None:
                hook(self)
        return self

    def step(self) -> None:
        """One generation."""
        tools, settings = self.toolbox, self.settings
        draws = Draws(self.stream, self.generation + 1)
        everyone = np.concatenate([self.population, self.archive])
        kept = _distinct(self.found)
        F = self.found.minimised[kept]
        fitness = tools.fitness(F)
        chosen = tools.select(F, fitness, settings.archive)
        self.archive = everyone[kept[chosen]]
        parents = tools.parents(fitness.total[chosen], settings.population, draws)
        self.population = self.archive[parents]
        tools.mate(self.population, draws)
        tools.mutate(self.population, draws)
        tools.repair(self.population)
        children = mapped(tools, self.population)
        old = (values[kept[chosen]] for values in self.found)
        self.found = Objectives(*map(np.concatenate, zip(children, old, strict=True)))
        self.introduce(np.concatenate([self.population, self.archive]), self.found)
        self.generation += 1

    def introduce(self, everyone: Floats, found: Objectives) -> None:
        """Let the population, the archive and Omega update one another.  Section V-H."""
        changed = self.omega.offer(everyone, found)
        self.omega.write_back(everyone, found)
        size = len(self.population)
        self.population, self.archive = everyone[:size], everyone[size:]
        self.found = found
        self.unchanged = 0 if changed else self.unchanged + 1

    @property
    def _kept_settings(self) -> str:
        """All that the next generations depend on; where they end may change."""
        kept = {k: v for k, v in asdict(self.settings).items() if k not in ENDS}
        return json.dumps(kept | {"symbols": self.omega.P.shape[1]}, sort_keys=True)

    def save(self, path: Path, more: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        """Write a checkpoint, whole or not at all.

        Parameters
        ----------
        path : Path
        more : mapping of str to array, optional
            State of what goes on beside the evolution.
        """
        state: dict[str, Any] = {**self.omega.state(), **(more or {})}
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                entropy=np.array(str(self.stream.entropy)),
                key=np.array([str(part) for part in self.stream.key]),
                settings=np.array(self._kept_settings),
                generation=self.generation,
                unchanged=self.unchanged,
                population=self.population,
                archive=self.archive,
                found=np.stack(self.found),
                prior=self.problem.prior,
                bound=np.array([self.problem.n_records, self.problem.delta]),
                **state,
            )

    def restore(self, path: Path, take: Callable[[dict[str, Any]], None] | None = None) -> Self:
        """Take up a checkpoint of the same search.

        Parameters
        ----------
        path : Path
        take : callable, optional
            Called with all arrays of the file, for the state of what goes on beside the evolution;
            it raises a KeyError or ValueError where that is not its own.

        Raises
        ------
        InputError
            If the file is no checkpoint, or one of another problem, seed or size.
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                state = dict(stored)
            same = (
                str(state["entropy"]) == str(self.stream.entropy)
                and state["key"].tolist() == [str(part) for part in self.stream.key]
                and np.array_equal(state["prior"], self.problem.prior)
                and state["bound"].tolist() == [self.problem.n_records, self.problem.delta]
                and str(state["settings"]) == self._kept_settings
            )
            same = same and self._evaluates_alike(state)
            if same and take is not None:
                take(state)
        except (OSError, ValueError, KeyError) as error:
            what = " ".join(str(error).split())
            raise InputError(
                f"{path}: no checkpoint of this search: {what}; remove it to begin anew", path
            ) from None
        if not same:
            raise InputError(
                f"{path}: this is the checkpoint of another search; remove it to begin anew", path
            )
        self.generation, self.unchanged = int(state["generation"]), int(state["unchanged"])
        self.population, self.archive = state["population"], state["archive"]
        self.found = Objectives(*state["found"])
        self.omega = Omega.from_state(state)
        return self

    def _evaluates_alike(self, state: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Whether the objectives of a checkpoint are ours, judged by its first matrix."""
        ours = np.stack(self.toolbox.evaluate(state["population"][:1]))
        return np.allclose(ours, state["found"][:, :1], rtol=1e-6, atol=0, equal_nan=True)


def _distinct(found: Objectives) -> npt.NDArray[np.int64]:
    """Indices, increasing, of matrices with an inverse, each pair of objectives once."""
    order = np.lexsort((found.mse, found.privacy))
    first = np.ones(len(order), dtype=bool)
    same = found.privacy[order][1:] == found.privacy[order][:-1]
    first[1:] = ~(same & (found.mse[order][1:] == found.mse[order][:-1]))
    return np.sort(order[first & np.isfinite(found.mse[order])])
