"""What every cluster profile has in common: its keys, its certificates and the pool it opens."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from ppdm_dask.cluster.security import make_certificates, read_certificates
from ppdm_dask.cluster.sizes import UNITS, parse_size, show_size
from ppdm_dask.errors import ProfileError, RecipeError
from ppdm_dask.files.fields import Table, read_toml
from ppdm_dask.resources import profile_path

if TYPE_CHECKING:
    from ppdm_dask.cluster.client import Pool
    from ppdm_dask.cluster.security import Certificates

__all__ = ["KINDS", "Profile", "load_profile", "register"]


KINDS: dict[str, type[Profile]] = {}
"""Kinds of profiles by the word that names them in a file."""

# Certificates that are made for one pool and forgotten with it.
OWN = "run"


@dataclass(frozen=True, kw_only=True)
class Profile(ABC):
    """Where a run computes; read from a TOML file, never written.

    Parameters
    ----------
    source : str
        The file, for messages.
    workers : int
        Number of worker processes, 1 or more, fixed for the run.
    memory : int
        Bytes that a worker may use; one that uses more is ended and started anew.
    security : str or None
        ``"run"`` for certificates made for one run and forgotten with it, a folder that ``ppdm
        cluster certificates`` made, or None where a scheduler on the loopback interface has none.
    """

    kind: ClassVar[str]
    needs_security: ClassVar[bool] = False

    source: str
    workers: int
    memory: int
    security: str | None = None

    @classmethod
    @abstractmethod
    def read(cls, table: Table, common: Mapping[str, Any]) -> Self:
        """Build the profile from its own keys and the common ones, which are read already.

        Raises
        ------
        RecipeError
            One line: file, dotted path, value, and what would be right.
        """

    @abstractmethod
    def pool(self, folder: Path) -> AbstractContextManager[Pool]:
        """Start or reach the workers; leaving the context ends what was started.

        Parameters
        ----------
        folder : Path
            Folder of the run, for logs.

        Raises
        ------
        ClusterError
            If the workers cannot be reached or started, or must not be used.
        """

    @property
    def where(self) -> str:
        """One line for a person: kind and size."""
        plural = "s" if self.workers > 1 else ""
        return f"{self.kind}, {self.workers} worker{plural} of {show_size(self.memory)}"

    def with_workers(self, workers: int) -> Self:
        """Return the same profile with another number of workers."""
        return replace(self, workers=workers)

    def certificates(self, *roles: str) -> Certificates | None:
        """Certificates of the pool; None where nothing is encrypted.

        Parameters
        ----------
        *roles : str
            Roles that are needed of ``scheduler``, ``worker`` and ``client``.

        Raises
        ------
        ClusterError
            If the folder of certificates lacks one, or one is out of date or open to others.
        """
        if self.security is None:
            return None
        if self.security == OWN:
            return make_certificates()
        return read_certificates(Path(self.security), roles)


Kind = TypeVar("Kind", bound=type[Profile])


def register(cls: Kind) -> Kind:
    """Make a kind of profile known by its ``kind``."""
    KINDS[cls.kind] = cls
    return cls


def load_profile(name_or_path: str | os.PathLike[str]) -> Profile:
    """Read a cluster profile from a file, or by the name of one of the package.

    Raises
    ------
    ProfileError
        One line: file, dotted path, value, and what would be right.
    """
    path = profile_path(name_or_path)
    try:
        return _read(Table(read_toml(path), str(path)), path.parent)
    except RecipeError as error:
        raise ProfileError(str(error), error.subject) from None


def _read(table: Table, base: Path) -> Profile:
    cls = KINDS[table.choice("kind", KINDS, "a kind of cluster")]
    workers = table.integer("workers", 1)
    memory = _size(table, "memory")
    security = table.optional_text("security", 'a folder of certificates, or "run", is needed')
    if security is not None and security != OWN:
        security = str(base / security)
    if security is None and cls.needs_security:
        security = OWN
    common = {"source": table.source, "workers": workers, "memory": memory, "security": security}
    profile = cls.read(table, common)
    table.done()
    return profile


def _size(table: Table, key: str) -> int:
    right = 'the memory that one worker may use is needed, such as "4 GiB"'
    text = table.text(key, right)
    size = parse_size(text)
    if size is None:
        raise table.error(key, text, f"{right}; units are {', '.join(UNITS)}")
    if size < 64 * 2**20:
        raise table.error(key, text, "a worker needs 64 MiB at the very least, in practice 500")
    return size
