"""``ppdm count``: files of reports and counts, added up in one file of counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ppdm_dask.cli.names import named
from ppdm_dask.cli.output import print_json, print_lines, say
from ppdm_dask.cli.survey_files import read_both, require_new

__all__ = ["count_reports"]


def count_reports(
    files: Sequence[Path],
    codebook: Path,
    design: Path,
    out: Path,
    *,
    over: Sequence[str],
    force: bool,
    as_json: bool,
) -> None:
    """Write the counts of some attributes, and say what was counted."""
    from ppdm_dask.survey.about import About
    from ppdm_dask.survey.counts import count_files, open_sources, remarks, write_counts

    book, plan = read_both(codebook, design)
    require_new(out, force, (*files, codebook, design), (".parquet",))
    sources = open_sources(files, book, plan, {"codebook": codebook, "design": design})
    names = named(over, book.names) or list(sources[0][1].codebook.names)
    table = count_files(sources, book, plan, names)
    kept = {name for _, about in sources for name in about.undisguised}
    shown = tuple(name for name in table.attributes if name in kept)
    batches = tuple(batch for _, about in sources for batch in about.batches)
    made = About("counts", table.codebook, plan, table.simulated, shown, batches)
    write_counts(out, table, made, [path for path, _ in sources])
    cells = len(table.sparse().counts)
    along = [name for name in table.attributes if name not in names]
    if as_json:
        print_json(
            {
                "files": [str(path) for path, _ in sources],
                "out": str(out),
                "over": list(table.attributes),
                "counted_along": along,
                "reports": table.n,
                "cells": cells,
                "simulated": table.simulated,
                "remarks": remarks(sources),
            }
        )
        return
    for path, about in sources:
        say(f"{path}: {about.kind} of {', '.join(about.codebook.names)}")
    if along:
        say(f"counted along, as its block does not marginalise: {', '.join(along)}")
    if table.simulated:
        say("simulated: some of the reports protect nobody")
    print_lines(remarks(sources))
    say(f"{table.n:,} reports in {cells:,} cells over {', '.join(table.attributes)}: {out}")
