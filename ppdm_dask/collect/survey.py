"""A survey as stored in its folder: the page, and what a collector must know about it.

``index.html`` is what respondents open; ``survey.json``, with a checksum, holds the codebook, the
design, and how reports are made.  Neither is secret.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ppdm_dask.collect.classify import FORM as TEST
from ppdm_dask.collect.classify import ModelTest
from ppdm_dask.data.codebook import Codebook, Reports
from ppdm_dask.designs.base import Design, design_from_config
from ppdm_dask.designs.sets import pack
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files.documents import Form, misfit, read_sealed, seal
from ppdm_dask.files.writing import write_text

if TYPE_CHECKING:
    from ppdm_dask.collect.page import Page

__all__ = ["Refused", "Submission", "Survey"]

PAGE, ABOUT = "index.html", "survey.json"
FORMAT = 1
FORM: Form = {
    "ppdm": str,
    "format": int,
    "survey": str,
    "page": str,
    "codebook": dict,
    "design": dict,
    "design_digest": str,
    "hands": [str],
}

ID = re.compile(r"[0-9a-f]{32}")
TOKEN = re.compile(r"[A-Za-z0-9_-]{8,64}")
KEYS = {"survey", "design", "id", "report"}


class Refused(Exception):
    """A submission that is refused: the status of the answer, and a line without its content."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Submission:
    """What a page sends, once it is found to be a report of the survey.

    Parameters
    ----------
    id : str
        The report's own random name: the same when it is sent again.
    report : str
        JSON: symbols in the order of the codebook, a list of categories where they are sets.
    token : str, optional
        Single use.
    """

    id: str
    report: str
    token: str | None = None


@dataclass(frozen=True, eq=False)
class Survey:
    """A survey that is built.

    Parameters
    ----------
    id : str
        That the page sends with each report.
    codebook : Codebook
        Of what is asked.
    design : Design
        Bound to it.
    hands : tuple of str
        Attributes whose reports are made by a device in the respondent's hand.
    html : str
        The page.
    test : ModelTest, optional
        The model that the page applies.
    """

    id: str
    codebook: Codebook
    design: Design
    hands: tuple[str, ...]
    html: str
    test: ModelTest | None = None

    @classmethod
    def of(cls, page: Page, hands: Sequence[str]) -> Self:
        """The survey of a page that was just made."""
        return cls(page.survey, page.codebook, page.design, tuple(hands), page.html, page.test)

    def write(self, folder: str | Path) -> Path:
        """Write the page and what collectors read; the folder is made if it is absent."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / ABOUT, self.text() + "\n")
        write_text(folder / PAGE, self.html)
        return folder / PAGE

    def text(self) -> str:
        """JSON that :meth:`read` reads back."""
        about = {
            "ppdm": "survey",
            "format": FORMAT,
            "survey": self.id,
            "page": _sha256(self.html),
            "codebook": self.codebook.config(),
            "design": self.design.config(),
            "design_digest": self.design.digest,
            "hands": list(self.hands),
        }
        if self.test is not None:
            about["classifier"] = self.test.config()
        return json.dumps(seal(about), ensure_ascii=False, indent=1)

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Read the folder that ``ppdm survey build`` wrote.

        Raises
        ------
        DataError
            If it is not such a folder, or page and description are not those of one build.
        """
        path = Path(folder) / ABOUT
        try:
            found = read_sealed(path, "survey of ppdm survey build", DataError)
            # Bytes: reading a text would change its line ends, and with them its digest.
            html = (Path(folder) / PAGE).read_bytes().decode("utf-8", "replace")
        except FileNotFoundError as error:
            raise DataError(
                f"{folder}: there is no {Path(error.filename).name}; a folder of `ppdm survey "
                "build` is needed",
                folder,
            ) from None
        except OSError as error:
            raise DataError(
                f"{Path(folder) / PAGE}: cannot be read: {error.strerror}", folder
            ) from None
        if (where := misfit(found, FORM)) is None and "classifier" in found:
            where = misfit(found["classifier"], TEST, "classifier")
        if where is not None or found["format"] != FORMAT:
            raise DataError(f"{path}: {where or 'format'}: was not written by this version", path)
        if _sha256(html) != found["page"]:
            raise DataError(
                f"{Path(folder) / PAGE}: is not the page that was built with {path}; build both "
                "again",
                path,
            )
        try:
            book = Codebook.from_config(found["codebook"], str(path))
            design = design_from_config(found["design"]).bind(book)
            tested = found.get("classifier")
            test = None if tested is None else ModelTest.from_config(tested, book)
        except InputError as error:
            raise DataError(f"{path}: {error}", error.subject) from None
        if design.digest != found["design_digest"]:
            raise DataError(f"{path}: the design does not have the digest that is stated", path)
        return cls(found["survey"], book, design, tuple(found["hands"]), html, test)

    @cached_property
    def symbols(self) -> tuple[tuple[int, str, int], ...]:
        """For each attribute how many symbols there are, their kind, and the size of sets."""
        found = {name: (len(self.codebook[name]), "symbol", 0) for name in self.codebook.names}
        for block in self.design.blocks:
            for name, size in zip(block.attributes, block.reported_shape, strict=True):
                many = block.n_true if block.kind == "set" else size
                own = block.size if isinstance(block, SubsetSelection) else 0
                found[name] = many, block.kind, own
        return tuple(found[name] for name in self.codebook.names)

    def check(self, body: bytes) -> Submission:
        """Read what a page sent.

        Raises
        ------
        Refused
            If it is not a report of this survey; the reason holds nothing of it.
        """
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise Refused(400, "the body is not JSON") from None
        if not isinstance(found, dict) or not KEYS <= found.keys() <= KEYS | {"token"}:
            raise Refused(422, "the body has other keys than a report")
        if found["survey"] != self.id:
            raise Refused(409, "the page is of another survey")
        if found["design"] != self.design.digest:
            raise Refused(409, "the page was built for another design")
        if not isinstance(found["id"], str) or not ID.fullmatch(found["id"]):
            raise Refused(422, "the id is not 32 hexadecimal digits")
        token = found.get("token")
        if token is not None and not (isinstance(token, str) and TOKEN.fullmatch(token)):
            raise Refused(403, "the token is not known")
        report = found["report"]
        if not isinstance(report, list) or len(report) != len(self.symbols):
            raise Refused(422, f"the report has not {len(self.symbols)} entries")
        for i, (entry, (many, kind, size)) in enumerate(zip(report, self.symbols, strict=True)):
            if not (_is_set(entry, many, size) if kind == "set" else _is_symbol(entry, many)):
                raise Refused(422, f"entry {i} is not a report of the design")
        return Submission(found["id"], json.dumps(report, separators=(",", ":")), token)

    def reports(self, texts: Sequence[str], offset: int = 0) -> Reports:
        """Reports as everything else takes them, from their JSON."""
        rows = [json.loads(text) for text in texts]
        codes = np.zeros((len(rows), len(self.symbols)), np.int64)
        sets = {}
        for i, (name, (many, kind, _)) in enumerate(
            zip(self.codebook.names, self.symbols, strict=True)
        ):
            if kind == "set":
                within = np.zeros((len(rows), many), bool)
                for row, entries in enumerate(rows):
                    within[row, entries[i]] = True
                sets[name] = pack(within)
            else:
                codes[:, i] = [row[i] for row in rows]
        sizes = tuple(1 if kind == "set" else many for many, kind, _ in self.symbols)
        return Reports(
            codes,
            self.codebook,
            offset,
            self.design.digest,
            simulated=False,
            reported_sizes=sizes,
            sets=sets,
            design=self.design,
        )


def _is_symbol(entry: Any, many: int) -> bool:
    return type(entry) is int and 0 <= entry < many


def _is_set(entry: Any, many: int, size: int) -> bool:
    if not isinstance(entry, list) or not all(_is_symbol(each, many) for each in entry):
        return False
    return all(a < b for a, b in pairwise(entry)) and size in (0, len(entry))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
