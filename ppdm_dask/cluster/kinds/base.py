"""What every cluster profile has in common: its keys, its certificates and the pool it opens.

Amounts of memory are read as people write them.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from ppdm_dask.cluster.security import make_certificates, read_certificates
from ppdm_dask.errors import ProfileError
from ppdm_dask.files.declared import Declared, document_of_kinds
from ppdm_dask.files.documents import read_toml
from ppdm_dask.files.fields import TomlTable
from ppdm_dask.files.values import Place, Schema, Text, Value, Whole
from ppdm_dask.frozen import settle
from ppdm_dask.resources import profile_path

if TYPE_CHECKING:
    from ppdm_dask.cluster.client import Pool
    from ppdm_dask.cluster.security import Certificates


UNITS = {
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}


def parse_size(text: str) -> int | None:
    """Bytes of a text such as ``"4 GiB"``; None where it is not an amount of memory."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([A-Za-z]+)", text)
    if match is None or match[2] not in UNITS:
        return None
    return int(float(match[1]) * UNITS[match[2]])


def show_size(size: int) -> str:
    """An amount of memory in three digits.

    Examples
    --------
    >>> show_size(4 * 2**30), show_size(600 * 2**20)
    ('4 GiB', '600 MiB')
    """
    unit = "GiB" if size >= UNITS["GiB"] else "MiB"
    return f"{size / UNITS[unit]:.3g} {unit}"


KINDS: dict[str, type[Profile]] = {}
"""Kinds of profiles by the word that names them in a file."""

# Certificates that are made for one pool and forgotten with it.
OWN = "run"


class Size(Value):
    """Memory of a worker, in bytes."""

    right = 'the memory that one worker may use is needed, such as "4 GiB"'

    def read(self, value: Any, at: Place) -> int:
        size = parse_size(Text(self.right).read(value, at))
        if size is None:
            raise at.wrong(value, f"{self.right}; units are {', '.join(UNITS)}")
        if size < 64 * 2**20:
            raise at.wrong(value, "a worker needs 64 MiB at the very least, in practice 500")
        return size

    def schema(self) -> Schema:
        return {"type": "string", "pattern": rf"^\d+(?:\.\d+)? *(?:{'|'.join(UNITS)})$"}


@dataclass(frozen=True)
class Beside(Text):
    """Path of a file or a folder; a relative one starts from the folder of the profile.

    Parameters
    ----------
    there : {"", "file", "folder"}
        What has to be there.
    kept : str
        A word that is not a path.
    """

    there: str = ""
    kept: str = ""

    def read(self, value: Any, at: Place) -> str:
        text = super().read(value, at)
        path = Path(at.source).parent / Path(text).expanduser()
        if self.there and not (path.is_file() if self.there == "file" else path.is_dir()):
            raise at.wrong(value, f"there is no {self.there} {path}")
        return text if text == self.kept else str(path)


@dataclass(frozen=True, kw_only=True)
class Profile(Declared, ABC):
    """Where a run computes; read from a TOML file, never written.

    Parameters
    ----------
    source : str
        The file, for messages.
    workers : int
        Number of worker processes, 1 or more, fixed for the run.
    memory : int
        Bytes that a worker may use; a worker that uses more is ended and restarted.
    security : str or None
        ``"run"`` for certificates that the run makes and deletes at its end, a folder made by
        ``ppdm cluster certificates``, or None for a scheduler on the loopback interface without
        TLS.
    """

    kind: ClassVar[str]
    needs_security: ClassVar[bool] = False
    apart = ("source",)

    source: str
    workers: Annotated[int, Whole(1)]
    memory: Annotated[int, Size()]
    security: (
        Annotated[str, Beside('a folder of certificates, or "run", is needed', kept=OWN)] | None
    ) = None

    def __post_init__(self) -> None:
        if self.security is None and self.needs_security:
            settle(self, security=OWN)

    @classmethod
    def take(cls, table: TomlTable) -> dict[str, Any]:
        return {"source": table.source, **super().take(table)}

    @classmethod
    def schema(cls) -> Schema:
        found = super().schema()
        found["properties"] = {"kind": {"const": cls.kind}, **found["properties"]}
        return found | {"required": ["kind", *found["required"]]}

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


def profile_schema() -> Schema:
    """JSON Schema of a cluster profile of any kind."""
    kinds = {name: cls.schema() for name, cls in sorted(KINDS.items())}
    return document_of_kinds("A cluster profile of ppdm_dask", "kind", kinds)


def load_profile(name_or_path: str | os.PathLike[str]) -> Profile:
    """Read a cluster profile from a file, or by the name of one of the package.

    Raises
    ------
    ProfileError
        One line: file, dotted path, value, and what would be right.
    """
    path = profile_path(name_or_path)
    return profile_from_config(read_toml(path, ProfileError), str(path))


def profile_from_config(config: Mapping[str, Any], source: str) -> Profile:
    """Build a cluster profile from plain tables; paths in it start from the folder of `source`.

    Raises
    ------
    ProfileError
        One line: `source`, dotted path, value, and what would be right.
    """
    table = TomlTable(config, source, error=ProfileError)
    return KINDS[table.choice("kind", KINDS, "a kind of cluster")].from_table(table)
