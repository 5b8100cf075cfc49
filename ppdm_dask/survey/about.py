"""What a file of reports or counts says of itself, and whether it belongs to a design.

Checksums over files of reports and counts: what is not as it was written is not read.

A Parquet file contains its own SHA-256, computed with zeros in the place of the checksum. So the
checksum covers the answers, the metadata, and everything that Parquet needs to read them.  A CSV
has its checksum in the file beside it, which has one of its own.  Checksums show damage, and
changes by hand or by another program; they are no signature of who made the file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from ppdm_dask import __version__
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.data.words import Imported
from ppdm_dask.designs import Design, design_from_config
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files.documents import Form, misfit
from ppdm_dask.shown import shown

__all__ = ["EMPTY", "KEY", "PLACE", "About", "checksum_of", "file_checksum", "seal", "sealed"]


PLACE = b"ppdm.checksum"
"""Key under which a Parquet file keeps its checksum."""

EMPTY = b"0" * 64
"""What stands there while the checksum is taken."""

# A key and its value in the footer, in Thrift's compact protocol: a binary field of 64 bytes.
_MARK = PLACE + b"\x18" + bytes([len(EMPTY)])

_CHUNK = 1 << 20
_TAIL = b"PAR1"
_LONGEST_FOOTER = 1 << 27


def checksum_of(config: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values, whatever the order of keys and the spaces between them."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(path: Path) -> None:
    """Write the checksum of a Parquet file into it; it was written with `EMPTY` at `PLACE`."""
    with path.open("r+b") as file:
        place = _place(file)
        assert place is not None, "the file was written without a place for its checksum"
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest.encode())


def sealed(path: Path) -> bool:
    """Whether a Parquet file has a checksum; if it has one, it was checked.

    Raises
    ------
    DataError
        If it is another one than that of the file.
    """
    try:
        with path.open("rb") as file:
            place = _place(file)
            if place is None:
                return False
            file.seek(place)
            written = file.read(len(EMPTY))
            found = _digest(file, place)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file", path) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", path) from None
    if written != found.encode():
        raise DataError(
            f"{path}: is damaged or was changed: its checksum differs than was written; "
            "ask for the file again",
            path,
        )
    return True


def _place(file: IO[bytes]) -> int | None:
    """Where the checksum is, from the start of the file."""
    size = file.seek(0, 2)
    if size < 12:
        return None
    file.seek(size - 8)
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _TAIL or not 0 < length <= min(size - 8, _LONGEST_FOOTER):
        return None
    start = size - 8 - length
    file.seek(start)
    found = file.read(length).rfind(_MARK)
    return None if found < 0 else start + found + len(_MARK)


def _digest(file: IO[bytes], place: int) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    left = place
    while left:
        part = file.read(min(left, _CHUNK))
        digest.update(part)
        left -= len(part)
    digest.update(EMPTY)
    file.seek(place + len(EMPTY))
    while part := file.read(_CHUNK):
        digest.update(part)
    return digest.hexdigest()


KEY = b"ppdm"
"""Under which a Parquet file keeps it."""

FORMAT = 2
"""Files of format 1 have no checksum.  They are read, since answers are disguised once; what reads
them says that damage to them is not seen."""

BATCH = re.compile("[0-9a-f]{32}")

FORM: Form = {
    "ppdm": str,
    "simulated": bool,
    "design": dict,
    "codebook": dict,
    "undisguised": [str],
    "batches": [str],
}
FORM_2: Form = {"kept": {...: str}, "data_checksum": str}
FIELD: dict[str, Form] = {
    "rows": int,
    "nonresponse": {...: int},
    "choice": str,
    "dropped": int,
    "unweighted": int,
    "symbols": {...: {...: (str, dict)}},
}
FORM_OF: dict[str, Form] = {"disguise": str, "counted": {...: [str]}, "field": FIELD}
"""What stands in what they say, what in that of format 2 as well, and what may stand there."""


@dataclass(frozen=True, eq=False)
class About:
    """What made a file of reports or counts; kept in the file.

    Parameters
    ----------
    kind : {"reports", "counts"}
    codebook : Codebook
        The coded attributes of the file, in the order of its columns.
    design : Design
        The whole design, also where the file holds a part of its attributes.
    simulated : bool
        Whether draws came from a seed, so that the disguise protects nobody.
    undisguised : tuple of str
        Columns of true values that were kept on request.
    batches : tuple of str
        A random name for each disguise whose reports are in the file, so that none counts twice.
    n : int, optional
        Reports.
    kept : mapping of str to str
        Digest of each undisguised column of reports, by which files of the same people are noticed.
    data : str
        SHA-256 of the CSV that it stands beside.
    format : int
    disguise : str
        Of a part of reports: the random name of the disguise that its manifest has too.
    counted : mapping of str to (str, str)
        Of counts: of each disguise whose reports were counted from a file the checksum of that
        file, and a digest of its path.
    imported : Imported, optional
        Of reports that people randomised themselves: what was read, and what was left out.
    seal : str
        Checksum that the file has to carry; empty where it has been compared.  Not in the file.
    """

    kind: str
    codebook: Codebook
    design: Design
    simulated: bool
    undisguised: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()
    n: int | None = None
    kept: Mapping[str, str] = field(default_factory=dict)
    data: str = ""
    format: int = FORMAT
    disguise: str = ""
    counted: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    imported: Imported | None = None
    seal: str = ""

    def text(self) -> str:
        """JSON that :meth:`read` reads back."""
        config = {
            "ppdm": self.kind,
            "format": FORMAT,
            "version": __version__,
            "simulated": self.simulated,
            "design": self.design.channel(),
            "design_digest": self.design.digest,
            "codebook": self.codebook.config(),
            "codebook_digest": self.codebook.digest,
            "undisguised": list(self.undisguised),
            "batches": list(self.batches),
            "reports": self.n,
            "kept": dict(self.kept),
            "data_checksum": self.data,
        }
        if self.disguise:
            config["disguise"] = self.disguise
        if self.counted:
            config["counted"] = {name: list(pair) for name, pair in self.counted.items()}
        if self.imported is not None:
            config["field"] = self.imported.config()
        return json.dumps({**config, "checksum": checksum_of(config)}, ensure_ascii=False)

    @classmethod
    def read(cls, path: Path, text: str | bytes | None) -> Self:
        """Read the description that a file contains.

        Raises
        ------
        DataError
            If it has no description, or the description is damaged or of a newer format.
        """
        if text is None:
            raise DataError(
                f"{path}: does not say which program made it; reports of `ppdm disguise` or "
                "counts of `ppdm count` are needed",
                path,
            )
        try:
            config = json.loads(text)
            version = config["format"]
            if type(version) is int and version > FORMAT:
                raise DataError(
                    f"{path}: was written by a newer version ({str(config['version'])[:20]})", path
                )
            _check(config)
            design = design_from_config(config["design"])
            codebook = Codebook.from_config(config["codebook"])
            if (config["design_digest"], config["codebook_digest"]) != (
                design.digest,
                codebook.digest,
            ):
                raise ValueError
            return cls(
                config["ppdm"],
                codebook,
                design,
                config["simulated"],
                tuple(config["undisguised"]),
                tuple(config["batches"]),
                config["reports"],
                config.get("kept", {}),
                config.get("data_checksum", ""),
                version,
                config.get("disguise", ""),
                {name: (pair[0], pair[1]) for name, pair in config.get("counted", {}).items()},
                None
                if "field" not in config
                else Imported(**{k: config["field"][k] for k in FIELD}),
            )
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError, InputError):
            raise DataError(
                f"{path}: its description of the design is damaged; ask for the file again", path
            ) from None

    def require(
        self, path: Path, codebook: Codebook, design: Design, names: Mapping[str, Path]
    ) -> None:
        """Check that a file was made under a design and a codebook.

        Parameters
        ----------
        path : Path
            The file.
        codebook, design
            Those that are asked for; the design is bound to the codebook.
        names : mapping of "codebook" and "design" to Path
            Their files, for messages.

        Raises
        ------
        DataError
            One line that names the files, and the block or the attribute that differs.

        Notes
        -----
        Files of before designs carried labels hold the law by position.  Such a file is accepted
        for a labelled design, bound to the codebook, if both have the same probabilities at every
        position; the order of its own codebook is compared as for any other file.
        """
        if self.design.digest != design.digest and not self._by_position(design):
            raise DataError(
                f"{path}: was made under another design than {names['design']}: "
                f"{_difference(self.design, design)}",
                design,
            )
        for attribute in self.codebook.attributes:
            name = attribute.name
            if name not in codebook.names:
                raise DataError(
                    f"{path}: was made under another codebook than {names['codebook']}, which "
                    f"lacks attribute {shown(name)}",
                    name,
                )
            mine, theirs = attribute.config(), codebook[name].config()
            for key in ("categories", "cuts", "groups", "missing", "missing_codes", "range"):
                if mine.get(key) != theirs.get(key):
                    raise DataError(
                        f"{path}: was made under another codebook than {names['codebook']}: "
                        f"attribute.{name}.{key} was {_short(mine.get(key))}, "
                        f"not {_short(theirs.get(key))}",
                        name,
                    )

    def _by_position(self, design: Design) -> bool:
        """Whether the file's design states no labels, and is the other one but for them."""
        without = design.by_position()
        return without is not None and without.digest == self.design.digest


def _check(config: Any) -> None:
    """Raise ValueError or KeyError unless all is there, of its kind, and as it was written."""
    if (at := misfit(config, FORM)) is not None:
        raise ValueError(at)
    if config["format"] == 1 and type(config["format"]) is int:
        if "checksum" in config:  # format 1 has none: this is a damaged 2
            raise ValueError
    else:
        checksum = config.pop("checksum")
        if config["format"] != FORMAT or checksum != checksum_of(config):
            raise ValueError
        if misfit(config, FORM_2) is not None:
            raise ValueError
    for key, form in FORM_OF.items():
        if key in config and misfit(config[key], form) is not None:
            raise ValueError
    if any(len(pair) != 2 for pair in config.get("counted", {}).values()):
        raise ValueError
    batches, n = config["batches"], config["reports"]
    names = [text for text in batches if type(text) is str and BATCH.fullmatch(text)]
    # Without a name for each disguise the same reports would count twice, unnoticed.
    right = len(set(names)) == len(batches) > 0
    if config["ppdm"] == "reports":
        right = right and len(batches) == 1
    elif config["ppdm"] != "counts":
        right = False
    if n is not None and (type(n) is not int or not 0 <= n < 1 << 63):
        right = False
    if "field" in config:
        found = config["field"]
        numbers = [
            *(found[k] for k in ("rows", "dropped", "unweighted")),
            *found["nonresponse"].values(),
        ]
        right = right and all(type(x) is int and 0 <= x < 1 << 63 for x in numbers)
    if type(config["simulated"]) is not bool or not right:
        raise ValueError
    if not all(type(name) is str for name in config["undisguised"]):
        raise ValueError


def _difference(there: Design, here: Design) -> str:
    """The first block in which two designs differ."""
    for mine, theirs in zip(there.blocks, here.blocks, strict=False):
        if mine.channel() != theirs.channel():
            return f"{_short(mine.channel())} there, {_short(theirs.channel())} here"
    return f"{len(there.blocks)} blocks there, {len(here.blocks)} here"


def _short(value: Any) -> str:
    if value is None:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "..."
