"""Association rules from disguised records against those of the truth.  [ZhanDu]_, section 4.8."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.designs import Design, Identity
from ppdm_dask.designs.multigroup import MultiGroup
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.trials.trial import Measure, Trial
from ppdm_dask.files.values import Many, Number, Place, Text, Whole
from ppdm_dask.inference.tables import ContingencyTable
from ppdm_dask.mine.rules import Items, Rules, association_rules
from ppdm_dask.shown import listed

if TYPE_CHECKING:
    from typing import Self

    from ppdm_dask.mine.rules import Rule
    from ppdm_dask.randomness import SimulationStream

__all__ = ["RulesTrial"]

MOST_ATTRIBUTES = 12
"""Their joint categories are one table."""

Share = Annotated[float, Number("a share above 0 and up to 1 is needed", above=0, most=1)]
Key = tuple[Items, Items]


class Ready(NamedTuple):
    """What all repeats have in common."""

    design: Design
    codebook: Codebook
    law: Floats
    """Of reports, over their joint categories."""

    true: frozenset[Key]
    """Rules of the truth."""


@dataclass(frozen=True)
class RulesTrial(Trial):
    """Rules that are found from the reports of n people, who are drawn from the records.

    Parameters
    ----------
    theta : float
        Probability of a truthful answer; 1 draws people and disguises nothing.
    n : int
        Reports.
    groups : int
        Number of groups, each with its own coin; attributes are assigned to them in turn.
    attributes : tuple of str
        Binary attributes that rules are about, at most 12; all by default.
    min_support, min_confidence : float
        Limit for a rule, for true and for estimated values.
    max_length : int
        Largest number of items in a rule.
    fdr : float
        Expected share of false rules, for the variant ``tested``.
    """

    measures = (
        Measure("recall", "share of the true rules that are found"),
        Measure("precision", "share of the rules found that are true"),
        Measure("false_discoveries", "share of the rules found that are false, 0 if none is found"),
        Measure("found", "rules found", "rules"),
    )
    variants = ("estimated", "tested")
    uses_data = True

    theta: Annotated[float, Number("a probability from 0 to 1 is needed", 0, 1)]
    n: Annotated[int, Whole(1)]
    groups: Annotated[int, Whole(1)] = 1
    attributes: Annotated[tuple[str, ...], Many(Text(), distinct=True)] = ()
    min_support: Share = 0.1
    min_confidence: Share = 0.8
    max_length: Annotated[int, Whole(2)] = 2
    fdr: Annotated[float, Number("a share between 0 and 1 is needed", above=0, below=1)] = 0.05

    def checked(self, at: Place) -> Self:
        if 0 < len(self.attributes) < max(self.groups, 2):
            right = f"as many as groups, and 2 or more, are needed: {max(self.groups, 2)}"
            raise at["attributes"].wrong(list(self.attributes), right)
        return self

    def check_codebook(self, codebook: Codebook) -> None:
        if unknown := [name for name in self.attributes if name not in codebook.names]:
            raise InputError(
                f"attributes: got {listed(unknown)}; there are {listed(codebook.names)}", unknown
            )
        if (number := len(self.attributes or codebook.names)) > MOST_ATTRIBUTES:
            raise InputError(f"attributes: got {number}; at most {MOST_ATTRIBUTES} are needed")

    def undefined(self, records: Records | None) -> str:
        assert records is not None
        return self._design(records).undefined

    def _design(self, records: Records) -> MultiGroup:
        names = self.attributes or records.codebook.names
        shape = [len(records.codebook[name].categories) for name in names]
        dealt = [names[group :: self.groups] for group in range(self.groups)]
        return MultiGroup(dealt, self.theta, attributes=names, shape=shape)

    def ready(self, records: Records | None) -> Ready:
        assert records is not None
        design = self._design(records)
        chosen = records.select(design.attributes)
        book = chosen.codebook
        cells = np.ravel_multi_index(tuple(chosen.codes.T), book.shape)
        counts = np.bincount(cells, minlength=math.prod(book.shape))
        law = design.apply(counts / counts.sum())
        plain = Identity(book.names, book.shape)
        true = self._find(_table(book, plain, counts), plain)
        return Ready(design, book, law, frozenset(map(_key, true)))

    def _find(self, table: ContingencyTable, design: Design) -> Rules:
        return association_rules(
            table,
            design,
            min_support=self.min_support,
            min_confidence=self.min_confidence,
            max_length=self.max_length,
        )

    def repeat(self, stream: SimulationStream, ready: Ready) -> Mapping[str, Any]:
        # People are drawn with replacement, so that their reports are drawn from one law.
        counts = stream.generator().multinomial(self.n, ready.law)
        rules = list(self._find(_table(ready.codebook, ready.design, counts), ready.design))
        tested = [rule for rule in rules if rule.q <= self.fdr]
        scores = [_score(found, ready.true) for found in (rules, tested)]
        return {
            name: dict(zip(self.variants, values, strict=True))
            for name, values in zip(
                (each.name for each in self.measures), zip(*scores, strict=True), strict=True
            )
        }


def _table(codebook: Codebook, design: Design, counts: Any) -> ContingencyTable:
    return ContingencyTable(
        codebook,
        np.asarray(counts, np.int64).reshape(codebook.shape),
        design_digest=design.digest,
        simulated=True,
        design=design,
    )


def _key(rule: Rule) -> Key:
    return rule.antecedent, rule.consequent


def _score(rules: Sequence[Rule], true: frozenset[Key]) -> tuple[float, float, float, int]:
    """Recall, precision, share that is false and number of the rules found."""
    found = set(map(_key, rules))
    right = len(found & true)
    precision = right / len(found) if found else math.nan
    recall = right / len(true) if true else math.nan
    return recall, precision, 1 - precision if found else 0.0, len(found)
