"""The evolution of matrices: the algorithm of section V of [HuangDu]_, step by step.

Omega keeps the best matrix found for each slot of privacy (section V-H).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import InputError
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.checkpoints import DamagedCheckpoint, read_checkpoint, write_checkpoint
from ppdm_dask.search.operators import Draws, make_toolbox, mapped
from ppdm_dask.search.problem import Objectives, Problem, Settings, evaluate

NUMBERS = ("privacy", "worst", "mse")


def nondominated(privacy: Floats, mse: Floats) -> Ints:
    """Indices of the points that no other dominates, by falling privacy; equals once."""
    order = np.lexsort((mse, -privacy))
    best = np.minimum.accumulate(mse[order])
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = mse[order][1:] < best[:-1]
    return order[keep & np.isfinite(mse[order])]


class Omega:
    """A matrix a slot: of privacy in ``[i / slots, (i + 1) / slots)``, that with the least MSE.

    Parameters
    ----------
    slots : int
    shape : (int, int)
        Reported symbols and true categories.

    Attributes
    ----------
    P : array, shape (slots, K, n)
    privacy, worst, mse : arrays, shape (slots,)
        The MSE of an empty slot is infinite.
    """

    def __init__(self, slots: int, shape: tuple[int, int]) -> None:
        self.P = np.zeros((slots, *shape))
        self.privacy = np.full(slots, np.nan)
        self.worst = np.full(slots, np.nan)
        self.mse = np.full(slots, np.inf)

    def __len__(self) -> int:
        return int(np.isfinite(self.mse).sum())

    def slot(self, privacy: Floats) -> Ints:
        """The slot of each privacy."""
        slots = len(self.mse)
        return np.minimum((privacy * slots).astype(np.int64), slots - 1)

    def offer(self, P: Floats, found: Objectives) -> int:
        """Take the matrices that beat their slot; how many slots changed.

        Of several for one slot the best is taken, of equal ones the first; a slot keeps what is as
        good.
        """
        slot = self.slot(found.privacy)
        order = np.lexsort((found.mse, slot))
        first = order[np.r_[True, slot[order][1:] != slot[order][:-1]]] if len(order) else order
        better = first[found.mse[first] < self.mse[slot[first]]]
        at = slot[better]
        self.P[at] = P[better]
        self.privacy[at] = found.privacy[better]
        self.worst[at] = found.worst[better]
        self.mse[at] = found.mse[better]
        return len(better)

    def write_back(self, P: Floats, found: Objectives) -> None:
        """Replace the matrices that their slot beats by the slot's, in place."""
        slot = self.slot(found.privacy)
        worse = np.flatnonzero(self.mse[slot] < found.mse)
        at = slot[worse]
        P[worse] = self.P[at]
        found.privacy[worse] = self.privacy[at]
        found.worst[worse] = self.worst[at]
        found.mse[worse] = self.mse[at]

    def front(self) -> tuple[Floats, Objectives]:
        """The matrices that no other dominates, by falling privacy, and what they achieve."""
        keep = nondominated(np.where(np.isnan(self.privacy), -1.0, self.privacy), self.mse)
        return self.P[keep], Objectives(self.privacy[keep], self.worst[keep], self.mse[keep])

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The filled slots as arrays, for :meth:`from_state`."""
        at = np.flatnonzero(np.isfinite(self.mse))
        return {
            "omega_at": at,
            "omega_P": self.P[at],
            "omega_privacy": self.privacy[at],
            "omega_worst": self.worst[at],
            "omega_mse": self.mse[at],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]], like: Omega) -> Self:
        """Inverse of :meth:`state`, for an Omega of the size of another.

        Raises
        ------
        KeyError, ValueError
            If the state is none of such an Omega.
        """
        slots, *shape = like.P.shape
        at = state["omega_at"]
        require_form(state, "omega_at", (len(at),), "i")
        if not (np.diff(at, prepend=-1, append=slots) > 0).all():
            raise ValueError("its slots do not belong to this Omega")
        omega = cls(slots, (shape[0], shape[1]))
        for name, wanted in (("P", (len(at), *shape)), *((key, (len(at),)) for key in NUMBERS)):
            require_form(state, f"omega_{name}", wanted)
            getattr(omega, name)[at] = state[f"omega_{name}"]
        return omega


def require_form(
    state: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...], kind: str = "f"
) -> None:
    """Raise a KeyError or ValueError unless an array of a checkpoint has a shape and a type."""
    array = state[name]
    if array.shape != shape or array.dtype.kind != kind:
        raise ValueError(f"{name} has shape {array.shape}, {shape} is needed")


FIRST = 20
"""The first population is larger by this factor: what it lacks is not easily found later."""

ENDS = ("generations", "patience")

ALIKE = 1e-9
"""Difference of privacy, or of a posterior, that rounding may make."""

ILL_CONDITIONED = 0.5
"""Share of its MSE that another processor may find for a matrix that has hardly an inverse."""

Hook = Callable[["Evolution"], None]


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
        From :func:`~ppdm_dask.search.operators.make_toolbox` by default.
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
                f"symbols: got {K}; at least {problem.n} are needed, one for each category", K
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
        """Continue until a rule for stopping is met; `hook` is called after each generation."""
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
        # Equal points would crowd one another out of the archive, and share one density.
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
        # The archive's objectives are known: only the children are evaluated.
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
        """Write a checkpoint atomically.

        Parameters
        ----------
        path : Path
        more : mapping of str to array, optional
            State of what runs beside the evolution.
        """
        arrays = {
            "population": self.population,
            "archive": self.archive,
            "found": np.stack(self.found),
            **self.omega.state(),
            **(more or {}),
        }
        now = {"generation": self.generation, "unchanged": self.unchanged}
        write_checkpoint(path, {**self._identity, **now}, arrays)

    def restore(self, path: Path, take: Callable[[dict[str, Any]], None] | None = None) -> Self:
        """Take up a checkpoint of the same search.

        Parameters
        ----------
        path : Path
        take : callable, optional
            Called with all arrays of the file, for the state of what runs beside the evolution;
            it raises a KeyError or ValueError where that is not its own.

        Raises
        ------
        DamagedCheckpoint
            If the file is not a checkpoint, a damaged one, or one of another problem, seed or size.
        """
        facts, state = read_checkpoint(path, most_bytes(self.settings, *self.omega.P.shape[1:]))
        what = "this is the checkpoint of another search"
        same = {name: facts.get(name) for name in self._identity} == self._identity
        if same:
            try:
                generation, unchanged = self._checked(facts, state)
                omega = Omega.from_state(state, self.omega)
                if take is not None:
                    take(state)
            except (ValueError, KeyError, TypeError) as error:
                same, what = False, "no checkpoint of this search: " + " ".join(str(error).split())
        if not same or not self._evaluates_alike(state):
            raise DamagedCheckpoint(f"{path}: {what}; remove it to begin again", path)
        self.generation, self.unchanged, self.omega = generation, unchanged, omega
        self.population, self.archive = state["population"], state["archive"]
        self.found = Objectives(*state["found"])
        return self

    @property
    def _identity(self) -> dict[str, Any]:
        """What makes this search this one, as JSON values."""
        return {
            "entropy": str(self.stream.entropy),
            "key": [str(part) for part in self.stream.key],
            "settings": self._kept_settings,
            "prior": self.problem.prior.tolist(),
            "n_records": self.problem.n_records,
            "delta": self.problem.delta,
        }

    def _checked(
        self, facts: Mapping[str, Any], state: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[int, int]:
        """Generation and how long unchanged; a ValueError where anything has another form."""
        K, n = self.omega.P.shape[1:]
        size, archive = len(state["population"]), len(state["archive"])
        if size not in (self.settings.population, self.settings.population * FIRST):
            raise ValueError(f"its population has {size} matrices")
        if archive > self.settings.archive:
            raise ValueError(f"its archive has {archive} matrices")
        require_form(state, "population", (size, K, n))
        require_form(state, "archive", (archive, K, n))
        require_form(state, "found", (3, size + archive))
        # A generation below 0 would draw from keys of other lists.
        generation, unchanged = int(facts["generation"]), int(facts["unchanged"])
        if generation < 0 or unchanged < 0:
            raise ValueError(f"generation {generation}, unchanged for {unchanged}")
        return generation, unchanged

    def _evaluates_alike(self, state: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Whether the objectives of a checkpoint are ours, and no matrix has better ones than ours.

        The first matrix tells whether the objectives are the same.  A number that is too good would
        stay for ever; it is looked for where evaluating is cheap.
        """
        first = np.stack(self.toolbox.evaluate(state["population"][:1]))
        if not np.allclose(first, state["found"][:, :1], rtol=1e-6, atol=0, equal_nan=True):
            return False
        # A custom objective may take minutes a matrix; the paper's takes microseconds.
        if getattr(self.toolbox.evaluate, "func", None) is not evaluate:
            return True
        P = np.concatenate([state[name] for name in ("population", "archive", "omega_P")])
        kept = np.stack([state[f"omega_{name}"] for name in Objectives._fields])
        privacy, worst, mse = np.concatenate([state["found"], kept], axis=1)
        with np.errstate(all="ignore"):  # of matrices that are none
            ours = evaluate(self.problem, P)
        alike = (np.abs(privacy - ours.privacy) <= ALIKE) & (np.abs(worst - ours.worst) <= ALIKE)
        return bool((alike & (mse > 0) & (mse >= ours.mse * ILL_CONDITIONED)).all())


def most_bytes(settings: Settings, K: int, n: int) -> int:
    """More than any checkpoint of a search for K by n matrices has."""
    matrices = settings.population * FIRST + settings.archive + settings.slots + 1_000
    return 2 * matrices * (8 * K * n + 100) + (1 << 20)


def _distinct(found: Objectives) -> npt.NDArray[np.int64]:
    """Indices, increasing, of matrices with an inverse, each pair of objectives once."""
    order = np.lexsort((found.mse, found.privacy))
    first = np.ones(len(order), dtype=bool)
    same = found.privacy[order][1:] == found.privacy[order][:-1]
    first[1:] = ~(same & (found.mse[order][1:] == found.mse[order][:-1]))
    return np.sort(order[first & np.isfinite(found.mse[order])])
