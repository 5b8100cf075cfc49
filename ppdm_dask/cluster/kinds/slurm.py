"""Workers as jobs of SLURM, one job a worker."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ppdm_dask.cluster.kinds.base import Profile, register
from ppdm_dask.files.fields import Table

if TYPE_CHECKING:
    from ppdm_dask.cluster.client import Pool

__all__ = ["SLURMProfile", "show_time"]


LEAST_WALLTIME = 60
# A job starts Python, and its last batch has to end, within its walltime.
LIFETIME_SHARE = 0.85
MARGIN_SECONDS = 20

FORM = 'a time is needed, "HH:MM:SS" or "D-HH:MM:SS"'

_TIME = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)")


@register
@dataclass(frozen=True, kw_only=True)
class SLURMProfile(Profile):
    """Jobs that the run submits, replaces when they end, and cancels when it ends itself.

    Parameters
    ----------
    interface : str
        Network interface of the nodes on which workers listen, and the scheduler as well.
    scheduler_interface : str
        The one of this machine, where it has another name.
    walltime : int
        Seconds after which SLURM ends a job.
    lifetime : int
        Seconds after which a worker leaves by itself, at the latest; a new job takes its place.
    queue, account : str or None
        Partition and account of SLURM; None leaves the choice to SLURM.
    directives : tuple of str
        Further options of ``sbatch``, such as ``--constraint=avx2``.
    python : str
        Path of the Python with this package, on all nodes.
    shared : str or None
        Folder that this machine and the nodes see under one path, for the jobs' certificates and
        logs; by default the run's own folder.
    """

    kind: ClassVar[str] = "slurm"
    needs_security: ClassVar[bool] = True

    interface: str
    scheduler_interface: str
    walltime: int
    lifetime: int
    queue: str | None = None
    account: str | None = None
    directives: tuple[str, ...] = ()
    python: str = sys.executable
    shared: str | None = None

    @classmethod
    def read(cls, table: Table, common: Mapping[str, Any]) -> Self:
        right = "the nodes' network interface is needed, such as ib0 or eth0"
        interface = table.text("interface", right)
        walltime = _seconds(table, "walltime")
        if walltime is None:
            raise table.error("walltime", None, FORM)
        if walltime < LEAST_WALLTIME:
            raise table.error("walltime", show_time(walltime), "a minute or more is needed")
        lifetime = _seconds(table, "lifetime")
        latest = min(int(walltime * LIFETIME_SHARE), walltime - MARGIN_SECONDS)
        if lifetime is not None and not 0 < lifetime <= latest:
            limit = (
                f"above 0, at most {show_time(latest)} with this walltime, so that a batch can end"
            )
            raise table.error("lifetime", show_time(lifetime), limit)
        directives = table.texts("directives")
        for directive in directives:
            if not directive.startswith("-") or not directive.isprintable():
                raise table.error("directives", directive, "options of sbatch begin with a hyphen")
        shared = table.optional_text("shared", "the path of a folder is needed")
        if shared is not None:
            folder = Path(table.source).parent / Path(shared).expanduser()
            if not folder.is_dir():
                raise table.error("shared", shared, f"there is no folder {folder}")
            shared = str(folder)
        return cls(
            **common,
            interface=interface,
            scheduler_interface=table.optional_text("scheduler_interface") or interface,
            walltime=walltime,
            lifetime=lifetime or latest,
            queue=_word(table, "queue"),
            account=_word(table, "account"),
            directives=directives,
            python=table.optional_text("python") or sys.executable,
            shared=shared,
        )

    @property
    def where(self) -> str:
        queue = "" if self.queue is None else f" in {self.queue}"
        return f"{super().where}{queue}, jobs of {show_time(self.walltime)}"

    def pool(self, folder: Path) -> AbstractContextManager[Pool]:
        from ppdm_dask.cluster.slurm import slurm_pool

        return slurm_pool(self, folder)


def _seconds(table: Table, key: str) -> int | None:
    text = table.optional_text(key, FORM)
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise table.error(key, text, FORM)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _word(table: Table, key: str) -> str | None:
    text = table.optional_text(key)
    if text is not None and (not text.isprintable() or len(text.split()) != 1):
        raise table.error(key, text, "one word is needed")
    return text


def show_time(seconds: int) -> str:
    """Write a time as SLURM reads it, ``HH:MM:SS``."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
