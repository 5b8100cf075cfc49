"""Records of several owners, of whom some disguise theirs.  [ZhanDu]_, 2 and 4.8."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.data.codebook import Records, Reports
from ppdm_dask.designs.base import Design
from ppdm_dask.designs.identity import Identity
from ppdm_dask.errors import CodebookError, InputError, RecordsError
from ppdm_dask.faces.face import Face, html_table
from ppdm_dask.faces.listing import Listing
from ppdm_dask.inference.stratified import Strata, Stratified
from ppdm_dask.shown import cut, given, shown

if TYPE_CHECKING:
    from markupsafe import Markup

    from ppdm_dask.data.codebook import Codebook

__all__ = ["Owners", "pair_strata", "precision_weights", "scored", "weights_of"]


class Owners(Face, Sequence[Records]):
    r"""Records of several owners, some disguised and some not: evidence that adds.

    Learners and :func:`ppdm_dask.estimate` take them like the reports of one owner; what they find
    is about all records together.  Owners are strata in the standard errors: with the share s of
    each owner h,

    .. math:: \hat p = \sum_h s_h \hat p_h, \qquad \text{SE}^2 = \sum_h s_h^2 \text{SE}_h^2, \qquad
        s_h = \frac{n_h c_h}{\sum_g n_g c_g}

    [ZhanDu]_, sections 2 and 4.8; c is what a record counts for.

    Parameters
    ----------
    *parts : Reports, Records, or (Reports or Records, Design)
        Of each owner.  Reports carry their design or it stands beside them; ``Records`` that are no
        ``Reports`` are true answers.  All over the same attributes, whose order is that of the
        first.
    weights : "sum", "precision" or sequence of float, default "sum"
        What a record of each owner counts for.  By *sum* all count alike, which estimates the
        records of all owners together.  With *precision* the weights are :func:`precision_weights`,
        which do not depend on the data: the estimate stays unbiased if the owners' records come
        from one population, and noisy reports get little weight compared with clean records.

    Raises
    ------
    RecordsError
        If there are no parts, records are given twice, or reports do not carry their design.
    CodebookError
        If an attribute differs from the first owner's; the message names it.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> book = pp.Codebook((pp.Attribute("sick", ("no", "yes")),))
    >>> own = pp.Records(np.array([[0], [1], [1], [1]]), book)
    >>> theirs = pp.Warner("sick", theta=0.75).disguise(own, pp.Stream.from_seed(1))
    >>> both = pp.Owners(own, theirs)
    >>> pp.estimate(both, {"sick": "yes"}).n
    8
    """

    def __init__(
        self,
        *parts: Records | tuple[Records, Design],
        weights: str | Sequence[float] = "sum",
    ) -> None:
        if not parts:
            raise RecordsError("owners: got none; records of at least one are needed", parts)
        records: list[Records] = []
        designs: list[Design] = []
        for h, part in enumerate(parts, 1):
            one, design = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
            if not isinstance(one, Records):
                raise RecordsError(
                    f"owner {h}: got {type(one).__name__}; Reports or Records are needed", one
                )
            for g, other in enumerate(records, 1):
                if one is other or one.codes is other.codes:
                    raise RecordsError(
                        f"owner {h}: has the records of owner {g}; they would count twice", one
                    )
            designs.append(_design_of(h, one, design))
            records.append(one)
        self.records = tuple(_like(h, one, records[0]) for h, one in enumerate(records, 1))
        self.codebook: Codebook = self.records[0].codebook
        if isinstance(weights, str) or not isinstance(weights, Iterable):
            if weights not in ("sum", "precision"):
                raise InputError(
                    f"weights: got {given(weights)}; 'sum', 'precision' or a number for each "
                    "owner is needed",
                    weights,
                )
            plain = weights == "sum"
            counted = None if plain else precision_weights(designs, self.codebook)
        else:
            counted = tuple(weights)
        self.design = Stratified(designs, counted)

    @property
    def n(self) -> int:
        """Records of all owners."""
        return sum(map(len, self.records))

    @property
    def simulated(self) -> bool:
        """Whether some of the reports are of a simulation."""
        return any(isinstance(one, Reports) and one.simulated for one in self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, at: Any) -> Any:
        return self.records[at]

    def __iter__(self) -> Iterator[Records]:
        return iter(self.records)

    def _rows(self) -> list[tuple[int, str]]:
        """Records and families of each owner."""
        return [
            (len(one), ", ".join(dict.fromkeys(block.id for block in design.blocks)))
            for one, design in zip(self.records, self.design.designs, strict=True)
        ]

    def _said(self) -> str:
        return f"Owners({'; '.join(f'{n:,} by {by}' for n, by in self._rows())})"

    def _shown(self) -> Iterator[Markup]:
        records, designs = zip(*self._rows(), strict=True)
        yield html_table(Listing.of({"records": records, "design": designs}))

    def replaced(self, records: Iterable[Records]) -> Owners:
        """Other records of the same owners, counted alike, such as those of a fold."""
        made = object.__new__(type(self))
        made.records, made.design, made.codebook = tuple(records), self.design, self.codebook
        return made

    def select(self, names: Iterable[str]) -> Owners:
        """The same records over fewer attributes, in the order given."""
        names = tuple(names)
        made = self.replaced(one.select(names) for one in self.records)
        made.codebook = made.records[0].codebook
        return made


def _design_of(h: int, records: Records, design: Any) -> Design:
    if design is None:
        design = getattr(records, "design", None)
    if design is None and not isinstance(records, Reports):
        design = Identity(records.codebook.names, records.codebook.shape)
    if not isinstance(design, Design):
        got = "none" if design is None else type(design).__name__
        raise RecordsError(
            f"owner {h}: design: got {got}; the one that made the reports is needed, as "
            "(reports, design)",
            records,
        )
    return design


def _like(h: int, records: Records, first: Records) -> Records:
    """An owner's records by the codebook of the first owner, if it declares the same."""
    book, theirs = first.codebook, records.codebook
    if theirs is book:
        return records
    for one, other, who, lacks in ((theirs, book, h, 1), (book, theirs, 1, h)):
        if absent := [name for name in one.names if name not in other.names]:
            raise CodebookError(
                f"owner {h}: has another codebook than owner 1: attribute {shown(absent[0])} is "
                f"owner {who}'s, and owner {lacks} lacks it",
                absent[0],
            )
    for name in book.names:
        mine, other_one = book[name].config(), theirs[name].config()
        for key in sorted((mine.keys() | other_one.keys()) - {"rule"}):
            if mine.get(key) != other_one.get(key):
                raise CodebookError(
                    f"owner {h}: has another codebook than owner 1: attribute {shown(name)}: "
                    f"{key} is {cut(repr(other_one.get(key)))}, not {cut(repr(mine.get(key)))}",
                    name,
                )
    return replace(records.select(book.names), codebook=book)


def precision_weights(
    designs: Iterable[Design], codebook: Codebook, target: str | None = None
) -> tuple[float, ...]:
    r"""What a report of each design is worth beside one of the most precise, in (0, 1].

    .. math:: c_h = \frac{V}{V_h}, \qquad \hat p = \frac{\sum_h n_h c_h \hat p_h}{\sum_h n_h c_h}

    V_h is the variance of a report's weights, added over the categories of the pairs of attributes
    that a classifier looks at first, if all answers were equally frequent; V is the least of them.
    Of such means these have the least variance at that guess, whatever the n_h.  Nothing depends on
    the reports, so no weight is correlated with what it weighs, and the estimate stays unbiased.

    Parameters
    ----------
    designs : iterable of Design
    codebook : Codebook
    target : str, optional
        Attribute of all pairs; by default the codebook's target, and if it names none all pairs
        are looked at.

    Raises
    ------
    NotInvertible
        Where a design allows no estimate.
    """
    target, names = codebook.target if target is None else target, codebook.names
    if len(names) == 1:
        asked: list[tuple[str, ...]] = [names]
    elif target is None:
        asked = list(combinations(names, 2))
    else:
        codebook.index(target)
        asked = [(target, name) for name in names if name != target]
    found = [sum(_spread(design, codebook, pair) for pair in asked) for design in designs]
    # Attributes of one category have no variance under any design.
    return tuple(min(found) / each if each else 1.0 for each in found)


def _spread(design: Design, codebook: Codebook, names: tuple[str, ...]) -> float:
    """Variance of a report's weights added over the joint categories, at equal shares of them."""
    square = 1.0
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if not kept:
            continue
        part = block.marginal(kept)
        if part is not None:
            size = part.n_true
            equal = np.full(part.shape, 1 / size)
            square *= float(part.variance(equal).sum()) + 1 / size
            continue
        # Weights of what is kept are sums over the rest of the block.
        block.require_inverse()
        others = tuple(i for i, name in enumerate(block.attributes) if name not in kept)
        B = block.left_inverse().reshape(*block.shape, -1).sum(axis=others)
        law = block.apply(np.full(block.n_true, 1 / block.n_true))
        square *= float((B.reshape(-1, B.shape[-1]) ** 2 @ law).sum())
    return square - 1 / math.prod(len(codebook[name].categories) for name in names)


def pair_strata(design: Design | Stratified, reports: Records | Sequence[Records]) -> Strata:
    """Strata of a miner's reports: one under a design, several under a stratified one or owners."""
    if isinstance(reports, Owners):
        return reports.design.pair(reports)
    if isinstance(design, Stratified):
        return design.pair(reports)  # type: ignore[arg-type]
    if not isinstance(reports, Records):
        raise RecordsError(f"got {type(reports).__name__}; Reports are needed", reports)
    if not len(reports):
        raise RecordsError("there are no records; at least one is needed", reports)
    return Stratified([design]).pair([reports])


def scored(design: Design | Stratified, reports: Any) -> Any:
    """Reports to score a model by: under its design, or one owner's, who brings the design."""
    if isinstance(design, Stratified) and isinstance(reports, Records):
        return Owners(reports)
    return reports


def weights_of(design: Design | Stratified, reports: Any) -> tuple[float, ...] | None:
    """Weight of a record in each stratum; None where all count alike."""
    made = reports.design if isinstance(reports, Owners) else design
    return made.weights if isinstance(made, Stratified) else None
