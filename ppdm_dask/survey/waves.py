"""Proportions from the files of several waves that the same people took part in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ppdm_dask.designs.matching import covering
from ppdm_dask.errors import DataError
from ppdm_dask.inference.waves import estimate_waves
from ppdm_dask.survey.counts import Sources
from ppdm_dask.survey.estimate import Answer, Question
from ppdm_dask.survey.mining import reports_of

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs import Design

__all__ = ["estimate_wave_files"]


def estimate_wave_files(
    waves: Sequence[Sources], codebook: Codebook, design: Design, question: Question
) -> Answer:
    """Estimate joint proportions from files of reports, those of each wave together.

    Parameters
    ----------
    waves : sequence of sources
        Of each wave; see :func:`ppdm_dask.survey.counts.open_sources`.
    codebook, design
        Those that the files belong to.
    question : Question
        With ``waves``.

    Raises
    ------
    DataError
        If a file holds counts.
    InputError
        If the question cannot be answered for waves.
    """
    question.check(codebook, design)
    names = covering(design, question.over)
    for sources in waves:
        for path, about in sources:
            if about.kind != "reports":
                raise DataError(
                    f"{path}: holds counts; --waves takes the reports of each wave", path
                )
    reports = [reports_of(sources, codebook, names) for sources in waves]
    found = estimate_waves(reports, question.over, design=design.bind(codebook, positions=True))
    return Answer(
        question,
        found,
        found.rows(question.level, "wald"),
        "Wald",
        any(about.simulated for sources in waves for _, about in sources),
        names[len(question.over) :],
    )
