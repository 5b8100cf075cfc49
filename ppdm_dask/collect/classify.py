"""Models that a page applies to answers: their steps, by places of the answers and codes.

``assets/classify.js`` follows them in the browser and :meth:`ModelTest.found` here, so that a
survey can be rehearsed; both add the same numbers in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.errors import InputError
from ppdm_dask.files.documents import Form
from ppdm_dask.shown import quoted, shown

if TYPE_CHECKING:
    from ppdm_dask.files.table import Table
    from ppdm_dask.mine.classifier import Classifier

__all__ = ["FORM", "ModelTest", "attributes_of"]

Steps = Mapping[str, Any]

FORM: Form = {
    "attribute": str,
    "codebook": dict,
    "target": int,
    "outcomes": [int],
    "step": {"op": str},
}
"""Of :meth:`ModelTest.config`."""


MOST = 1e100
"""Of a number in the steps of a model: sums of such are finite."""


@dataclass(frozen=True, eq=False)
class ModelTest:
    """Whether a model predicts a respondent's class.  [ZhanMatwin]_, section 2.4.

    Parameters
    ----------
    attribute : str
        What is found out, and sent.
    codebook : Codebook
        Of the report, and after it of answers that are never sent; codes stand in its order.
    target : int
        Place of the respondent's class.
    outcomes : (int, int)
        Codes of the attribute: the prediction is wrong, it is right.
    step : mapping
        :meth:`ppdm_dask.mine.classifier.Classifier.client_steps`, with places in place of
        attributes and codes in place of labels.
    """

    attribute: str
    codebook: Codebook
    target: int
    outcomes: tuple[int, int]
    step: Steps

    @classmethod
    def of(cls, model: Classifier, attribute: str, right: str, codebook: Codebook) -> Self:
        """The test of a fitted model.

        Parameters
        ----------
        model : Classifier
        attribute, right : str
            What is found out, and its category for a right prediction.
        codebook : Codebook
            Has the attribute and those that the model needs; categories may stand in another order
            than the model's.

        Raises
        ------
        InputError
            ``ATTRIBUTE: what is wrong`` where categories are not the model's.
        """
        steps = model.client_steps()
        for name in attributes_of(model):
            own, asked = model.categories_[name], codebook[name].categories
            if {*own} != {*asked}:
                raise InputError(
                    f"{shown(name)}: the model has the categories {quoted(own)}; the codebook has "
                    f"{quoted(asked)}",
                    name,
                )
        outcome = codebook[attribute].categories.index(right)
        target = codebook.index(model.target_)
        classes = codebook[model.target_].categories
        step = (_tree if steps["op"] == "tree" else _scores)(steps, codebook, classes)
        return cls(attribute, codebook, target, (1 - outcome, outcome), step)

    def client(self) -> dict[str, Any]:
        """What ``classify.js`` takes."""
        return {"target": self.target, "outcomes": list(self.outcomes), "step": self.step}

    def config(self) -> dict[str, Any]:
        """Plain values, from which :meth:`from_config` makes an equal test."""
        return {
            **self.client(),
            "attribute": self.attribute,
            "codebook": self.codebook.config(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], sent: Codebook) -> Self:
        """Inverse of :meth:`config`, for values that have the form `FORM`.

        Parameters
        ----------
        config : mapping
        sent : Codebook
            Of the report.

        Raises
        ------
        InputError
            ``classifier.KEY: was not written by this version``.
        """
        book = Codebook.from_config(config["codebook"], "classifier.codebook")
        if where := _odd(config, book, sent):
            raise InputError(f"classifier.{where}: was not written by this version", config)
        wrong, right = config["outcomes"]
        return cls(config["attribute"], book, config["target"], (wrong, right), config["step"])

    def encode(self, table: Table) -> Records:
        """Records of answers, with what is found out of them.

        Raises
        ------
        CodebookError
            As :meth:`ppdm_dask.Codebook.encode`.
        """
        names = self.asked
        answers = self.codebook.select(names).encode(table)
        codes = np.zeros((len(answers), len(self.codebook.names)), answers.codes.dtype, order="F")
        codes[:, [self.codebook.index(name) for name in names]] = answers.codes
        codes[:, self.codebook.index(self.attribute)] = self.found(codes)
        return Records(codes, self.codebook)

    @property
    def asked(self) -> tuple[str, ...]:
        """Attributes that respondents answer."""
        return tuple(name for name in self.codebook.names if name != self.attribute)

    def predict(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Predicted codes of the class, shape (n,), for answers of shape (n, places)."""
        step = self.step
        if step["op"] == "tree":
            found = np.empty(len(codes), np.int64)
            _descend(step["root"], codes, np.arange(len(codes)), found)
            return found
        sums = np.tile(np.array(step["prior"], float), (len(codes), 1))
        for table in step["tables"]:
            gains = np.array(table["gains"], float)
            sums += gains[tuple(codes[:, place] for place in table["places"])]
        best = sums.max(axis=1, keepdims=True)
        classes: npt.NDArray[np.int64] = np.array(step["classes"], np.int64)
        first: npt.NDArray[np.int64] = classes[np.argmax(sums >= best - step["tie"], axis=1)]
        return first

    def found(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Codes of what is found of answers of shape (n, places), shape (n,)."""
        right = self.predict(codes) == codes[:, self.target]
        wrong, found = self.outcomes
        return np.where(right, found, wrong).astype(np.int64)


def _odd(config: Mapping[str, Any], book: Codebook, sent: Codebook) -> str:
    """Dotted path of the first value that :meth:`ModelTest.config` gives to no test; or nothing."""
    names, n = book.names, len(sent.names)
    if names[:n] != sent.names or book.select(sent.names).digest != sent.digest:
        return "codebook"
    if config["attribute"] not in sent.names or len(book[config["attribute"]]) != 2:
        return "attribute"
    tested = book.index(config["attribute"])
    if config["target"] not in range(len(names)) or config["target"] == tested:
        return "target"
    if config["outcomes"] not in ([0, 1], [1, 0]):
        return "outcomes"
    sizes = [len(each) for each in book.attributes]
    classes = sizes[config["target"]]
    asked = {i: size for i, size in enumerate(sizes) if i not in (tested, config["target"])}
    if config["step"]["op"] == "tree":
        return _odd_node(config["step"].get("root"), asked, classes, "step.root")
    return _odd_scores(config["step"], asked, classes)


def _odd_node(node: Any, sizes: Mapping[int, int], classes: int, at: str) -> str:
    """As :func:`_odd`; an attribute is asked about once on each way down."""
    if type(node) is int:
        return "" if 0 <= node < classes else at
    if not isinstance(node, dict) or not _is_place(node.get("place"), sizes):
        return at
    place, below = node["place"], node.get("below")
    if not isinstance(below, list) or len(below) != sizes[place]:
        return f"{at}.below"
    left = {i: size for i, size in sizes.items() if i != place}
    odd = (_odd_node(each, left, classes, f"{at}.below[{i}]") for i, each in enumerate(below))
    return next(filter(None, odd), "")


def _odd_scores(step: Steps, sizes: Mapping[int, int], n: int) -> str:
    coded, tables = step.get("classes", ()), step.get("tables")
    fits = {
        "op": step["op"] == "scores",
        "classes": _is_array(coded, (n,), int) and sorted(coded) == list(range(n)),
        "prior": _is_array(step.get("prior"), (n,)),
        "tie": _is_array(step.get("tie"), ()) and step["tie"] >= 0,
        "tables": isinstance(tables, list) and all(_is_table(each, sizes, n) for each in tables),
    }
    return next((f"step.{key}" for key, right in fits.items() if not right), "")


def _is_table(table: Any, sizes: Mapping[int, int], n: int) -> bool:
    if not isinstance(table, dict) or not isinstance(places := table.get("places"), list):
        return False
    if not all(_is_place(place, sizes) for place in places):
        return False
    return _is_array(table.get("gains"), (*(sizes[place] for place in places), n))


def _is_place(value: Any, sizes: Mapping[int, int]) -> bool:
    return type(value) is int and value in sizes


def _is_array(value: Any, shape: tuple[int, ...], *kinds: type) -> bool:
    """Whether these are nested lists of numbers of a shape."""
    if not shape:
        return type(value) in (kinds or (int, float)) and abs(value) <= MOST
    return (
        isinstance(value, list)
        and len(value) == shape[0]
        and all(_is_array(each, shape[1:], *kinds) for each in value)
    )


def attributes_of(model: Classifier) -> list[str]:
    """Attributes that a model needs, the class last.

    A tree may need fewer than it was fitted to.
    """
    steps = model.client_steps()
    if steps["op"] == "scores":
        names = [name for table in steps["tables"] for name in table["attributes"]]
        return [*dict.fromkeys(names), model.target_]
    found: dict[str, None] = {}
    left = [steps["root"]]
    while left:
        if not isinstance(node := left.pop(), str):
            found[node["attribute"]] = None
            left += node["below"].values()
    return [*found, model.target_]


def _tree(steps: Steps, codebook: Codebook, classes: Sequence[str]) -> dict[str, Any]:
    def coded(node: Any) -> Any:
        if isinstance(node, str):
            return classes.index(node)
        name, below = node["attribute"], node["below"]
        return {
            "place": codebook.index(name),
            "below": [coded(below[label]) for label in codebook[name].categories],
        }

    return {"op": "tree", "root": coded(steps["root"])}


def _scores(steps: Steps, codebook: Codebook, classes: Sequence[str]) -> dict[str, Any]:
    tables = []
    for table in steps["tables"]:
        gains = np.array(table["gains"], float)
        pairs = zip(table["attributes"], table["categories"], strict=True)
        for axis, (name, own) in enumerate(pairs):
            gains = gains.take([own.index(label) for label in codebook[name].categories], axis)
        places = [codebook.index(name) for name in table["attributes"]]
        tables.append({"places": places, "gains": gains.tolist()})
    # Classes keep the model's order, for the first of those that tie is predicted.
    coded = [classes.index(label) for label in steps["classes"]]
    same = {key: steps[key] for key in ("op", "prior", "tie")}
    return {**same, "classes": coded, "tables": tables}


def _descend(node: Any, codes: Any, rows: Any, found: npt.NDArray[np.int64]) -> None:
    if isinstance(node, int):
        found[rows] = node
        return
    here = codes[rows, node["place"]]
    for code, below in enumerate(node["below"]):
        _descend(below, codes, rows[here == code], found)
