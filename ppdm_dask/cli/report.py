"""``ppdm report``: pages of runs and reproductions, and the page of all claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ppdm_dask.cli.output import print_json, print_lines
from ppdm_dask.errors import InputError

__all__ = ["write_pages"]


def write_pages(sources: Sequence[Path], claims: Path | None, *, as_json: bool) -> None:
    """Write the page of each run or reproduction, or with `claims` that of all claims."""
    from ppdm_dask.claims.judge import write_reproduction_page
    from ppdm_dask.report import write_report, write_reproduction

    for source in sources:
        if not source.exists():
            raise InputError(f"{source}: there is no such folder or file", source)
    if claims is not None:
        written = list(write_reproduction_page(sources, claims))
    else:
        written = [
            write_report(source) if source.is_dir() else write_reproduction(source)
            for source in sources
        ]
    if as_json:
        print_json([str(path) for path in written])
    else:
        print_lines(map(str, written))
