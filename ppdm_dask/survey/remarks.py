"""What files of reports and counts have together, which one by one cannot be seen."""

from __future__ import annotations

from ppdm_dask.survey.counts import Sources

__all__ = ["remarks"]


def remarks(sources: Sources) -> list[str]:
    """Sentences on files that may be of the same people, and on files without a checksum.

    Reports of the same answers under two disguises look like those of different people.  Equally
    many reports, and the same columns of truth where some were kept, are all that points to them.
    """
    found: list[str] = []
    alike: dict[tuple[int, tuple[tuple[str, str], ...]], list[str]] = {}
    for path, about in sources:
        if about.format == 1:
            found.append(
                f"older file: {path} has no checksum, so that damage to it would not be seen"
            )
        if about.kind == "reports" and about.n is not None:
            key = about.n, tuple(sorted(about.kept.items()))
            alike.setdefault(key, []).append(str(path))
    for (n, kept), paths in alike.items():
        if len(paths) > 1:
            same = f" and the same {', '.join(name for name, _ in kept)}" if kept else ""
            found.append(
                f"the same people? {', '.join(paths)} have {n:,} reports each{same}; people who "
                "are in several count several times, which nothing else can show"
            )
    return found
