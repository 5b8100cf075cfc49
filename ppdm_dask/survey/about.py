"""What a file of reports or counts says of itself, and whether it belongs to a design."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ppdm_dask.codebook import Codebook
from ppdm_dask.designs import Design, design_from_config
from ppdm_dask.errors import DataError, InputError

__all__ = ["KEY", "About"]

KEY = b"ppdm"
"""Under which a Parquet file keeps it."""

FORMAT = 1


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
        Columns of true values, which someone asked to keep.
    batches : tuple of str
        A random name for each disguise whose reports are in the file, so that none counts twice.
    n : int, optional
        Reports, where it stands beside a CSV of them, which may have been cut short.
    """

    kind: str
    codebook: Codebook
    design: Design
    simulated: bool
    undisguised: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()
    n: int | None = None

    def text(self) -> str:
        """JSON that :meth:`read` reads back."""
        from ppdm_dask import __version__

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
        }
        return json.dumps(config, ensure_ascii=False)

    @classmethod
    def read(cls, path: Path, text: str | bytes | None) -> Self:
        """Read what a file says of itself.

        Raises
        ------
        DataError
            If it says nothing, or what it says is damaged or of a newer format.
        """
        if text is None:
            raise DataError(
                f"{path}: does not say what made it; reports of `ppdm disguise` or counts of "
                "`ppdm count` are needed",
                path,
            )
        try:
            config = json.loads(text)
            if config["format"] > FORMAT:
                raise DataError(
                    f"{path}: was written by a newer version ({config['version']})", path
                )
            design = design_from_config(config["design"])
            codebook = Codebook.from_config(config["codebook"])
            digests = (config["design_digest"], config["codebook_digest"])
            if digests != (design.digest, codebook.digest) or config["ppdm"] not in (
                "reports",
                "counts",
            ):
                raise ValueError
            return cls(
                config["ppdm"],
                codebook,
                design,
                bool(config["simulated"]),
                tuple(map(str, config["undisguised"])),
                tuple(map(str, config["batches"])),
                None if config["reports"] is None else int(config["reports"]),
            )
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, InputError):
            raise DataError(f"{path}: what it says of its design is damaged", path) from None

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
        Files of before designs carried labels hold the law by position.  Such a file is taken for
        one of a labelled design, bound to the codebook, if both have the same law at every
        position; the order of its own codebook is compared like that of any other.
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
                    f"lacks attribute {name!r}",
                    name,
                )
            mine, theirs = attribute.config(), codebook[name].config()
            for key in ("categories", "cuts", "groups", "missing", "range"):
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
