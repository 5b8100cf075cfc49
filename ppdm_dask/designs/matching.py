"""Whether reports, tables and a design belong together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from ppdm_dask.data.codebook import Records, Reports
from ppdm_dask.designs.base import Design
from ppdm_dask.designs.binding import require_labels
from ppdm_dask.designs.identity import Identity
from ppdm_dask.errors import DesignError, NotLumpable, RecordsError
from ppdm_dask.shown import given, listed, quoted, shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook

__all__ = [
    "bound_to",
    "covering",
    "require_countable",
    "require_design",
    "require_unweighted",
    "require_whole",
]


class Coded(Protocol):
    """Reports, or a table of them: what has a codebook."""

    @property
    def codebook(self) -> Codebook:
        """Declares the attributes and categories."""
        ...  # pragma: no cover


def covering(design: Design, over: Iterable[str]) -> tuple[str, ...]:
    """Attributes to count for an estimate over some: blocks that are not lumpable, whole."""
    names = list(over)
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if kept and block.marginal(kept) is None:
            names += [name for name in block.attributes if name not in names]
    return tuple(names)


def _orders(design: Design, codebook: Codebook) -> dict[str, tuple[str, ...]]:
    """Categories, in the codebook's order, of the design's attributes that it has."""
    return {n: codebook[n].categories for n in design.attributes if n in codebook.names}


def bound_to(source: Coded, design: Design) -> Design:
    """The design in the order of the categories of reports or a table, by label.

    Blocks whose labels are not stated stay as they are: :func:`require_design` and
    :func:`require_order` say whether reports may be read by position.

    Raises
    ------
    DesignError
        If it is not a design, or the labels are not those that it states.
    """
    if not isinstance(design, Design):
        raise DesignError(f"design: got {given(design)}; a Design is needed", design)
    return design.in_order(_orders(design, source.codebook))


def require_order(source: Coded, design: Design) -> None:
    """Raise DesignError where reports would be read by position.

    Only simulated reports may be, if they say that this design made them: nobody's answers are
    behind them.  The design has to be bound already.
    """
    simulated = getattr(source, "simulated", False)
    if not (simulated and getattr(source, "design_digest", "") == design.digest):
        require_labels(design, _orders(design, source.codebook))
    if bound_to(source, design) is not design:
        raise DesignError(
            f"design on {quoted(design.attributes)}: is not in the order of the "
            "reports' categories; bind it to their codebook",
            design,
        )


def require_design(records: Records, design: Design) -> tuple[str, bool]:
    """Digest of the reports' design and whether they are simulated, as a table keeps them.

    The design has to be bound to the reports' codebook already, see :func:`bound_to`.

    Raises
    ------
    RecordsError
        If the reports were made by another design, or are undisguised records of attributes that
        the design disguises.
    """
    if not isinstance(records, Reports):
        for block in design.blocks:
            names = [name for name in block.attributes if name in records.codebook.names]
            if names and not isinstance(block, Identity):
                raise RecordsError(
                    f"got undisguised records; reports of {listed(names)} made by the "
                    f"{block.id!r} design are needed",
                    records,
                )
        return "", False
    require_order(records, design)
    digest = records.design_digest
    if digest and digest != design.digest:
        raise RecordsError(
            f"these reports were made by another design ({digest[:12]}, not {design.digest[:12]})",
            design,
        )
    return digest, records.simulated


def require_unweighted(records: Records) -> None:
    """Raise RecordsError for weights, strata and the like of a survey, where they go unused."""
    if records.survey:
        what = " or ".join(records.survey)
        raise RecordsError(
            f"records with survey {what} can be used only in estimate; leave them out",
            records,
        )


def require_countable(records: Records, design: Design) -> None:
    """Raise RecordsError for what a learner cannot count: sets, survey weights, strata."""
    require_unweighted(records)
    for block in design.blocks:
        if block.kind == "set" and any(n in records.codebook.names for n in block.attributes):
            raise RecordsError(
                f"reports of {shown(block.attributes[0])} are sets, which learners do not take; "
                "select the other attributes, or use a design whose reports are symbols",
                block,
            )


def require_whole(design: Design, attributes: Iterable[str]) -> None:
    """Raise NotLumpable if the attributes cut through a block that does not marginalise."""
    names = tuple(attributes)
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if kept and block.marginal(kept) is None:
            missing = [name for name in block.attributes if name not in names]
            raise NotLumpable(
                f"the table cuts a block of {block.id!r} that is not lumpable: "
                f"it lacks {listed(missing)}",
                block,
            )
