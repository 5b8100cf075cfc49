"""Fitted models as sealed JSON documents, which open without pickle, also years later."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.data.codebook import Codebook
from ppdm_dask.designs.base import design_from_config
from ppdm_dask.errors import InputError
from ppdm_dask.files.documents import misfit, read_sealed, seal
from ppdm_dask.files.writing import write_text
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.mine.id3 import ID3
from ppdm_dask.mine.naive_bayes import NaiveBayes
from ppdm_dask.mine.tan import TAN
from ppdm_dask.mine.tree import json_number
from ppdm_dask.shown import given, located

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.result import Estimate
    from ppdm_dask.mine.classifier import Classifier

__all__ = ["read_model", "write_model"]

FORMAT = 1

KINDS: dict[str, type[Classifier]] = {"naive-bayes": NaiveBayes, "tan": TAN, "id3": ID3}

FORM = {
    "model": str,
    "format": int,
    "codebook": dict,
    "target": str,
    "features": [str],
    "design": dict,
    "design_digest": str,
    "parameters": dict,
    "reports": int,
    "fitted": dict,
}


def write_model(
    path: str | os.PathLike[str], model: Classifier, accuracy: Estimate | None = None
) -> None:
    """Write a fitted model, atomically.

    Parameters
    ----------
    path : path
        Ends in ``.json``.
    model : NaiveBayes, TAN or ID3
        Fitted to reports or records.
    accuracy : Estimate, optional
        Its unbiased accuracy on other reports, to stand in the document.

    Raises
    ------
    InputError
        For another ending, or a model that was fitted to arrays.
    RunFolderError
        If the file cannot be written.
    """
    place = Path(path)
    if place.suffix.lower() != ".json":
        raise InputError(f"{place}: a file that ends in .json is needed", place)
    write_text(place, json.dumps(seal(document_of(model, accuracy)), indent=1) + "\n")


def document_of(model: Classifier, accuracy: Estimate | None = None) -> dict[str, Any]:
    """A fitted model as JSON values; see :func:`write_model`."""
    kind = next((name for name, cls in KINDS.items() if type(model) is cls), None)
    if kind is None:
        raise InputError(f"model: got {given(model)}; one of {', '.join(KINDS)} is needed", model)
    if model._columns is not None:
        raise InputError(
            "model: it was fitted to arrays; only a model of records with a codebook can be saved",
            kind,
        )
    parameters = model.get_params(deep=False)
    book = model.codebook_.select((*model.features_, model.target_))
    found = {
        "model": kind,
        "format": FORMAT,
        "codebook": Codebook(book.attributes, target=model.target_).config(),
        "target": model.target_,
        "features": list(model.features_),
        "design": model.design_.config(),
        "design_digest": model.design_.digest,
        "parameters": {k: v for k, v in parameters.items() if k not in ("design", "target")},
        "reports": model.n_reports_,
        "fitted": model.fitted_values(),
    }
    if accuracy is not None:
        found["accuracy"] = {
            "value": accuracy.value,
            "standard_error": json_number(float(accuracy.standard_error)),
            "reports": accuracy.n,
        }
    return found


def read_model(path: str | os.PathLike[str]) -> Classifier:
    """Read a model that :func:`write_model` wrote; it predicts what the written one does.

    Raises
    ------
    InputError
        If there is no such file, or it is not a model, damaged, or of a newer version.
    """
    place = Path(path)
    try:
        found = read_sealed(place, "model")
    except FileNotFoundError:
        raise InputError(f"{located(place)}: there is no such file", place) from None
    if (at := misfit(found, FORM)) is not None or found["model"] not in KINDS:
        what = f"{at or 'model'} is not what it should be"
        raise InputError(f"{place}: this is not a model: {what}", at)
    if found["format"] > FORMAT:
        raise InputError(
            f"{place}: written by a newer version (format {found['format']}, not {FORMAT})", place
        )
    try:
        return model_of(found)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise InputError(f"{place}: {error}", error.subject) from None
        raise InputError(f"{place}: this is not a model: parts of it do not fit", place) from None


def model_of(found: Mapping[str, Any]) -> Classifier:
    """Inverse of :func:`document_of`."""
    book = Codebook.from_config(found["codebook"])
    several = "strata" in found["design"]
    made = Stratified.from_config if several else design_from_config
    design: Design | Stratified = made(found["design"])
    if design.digest != found["design_digest"]:
        raise InputError("design: has another digest than the model's", found["design"])
    model = KINDS[found["model"]](design=design, target=found["target"], **found["parameters"])
    model.design_, model.target_, model.codebook_ = design, found["target"], book
    model._fitted_to(found["features"])
    model.categories_ = {name: book[name].categories for name in book.names}
    model.n_reports_ = int(found["reports"])
    model.classes_ = model._labelled(book[found["target"]].categories)
    model.restore(found["fitted"])
    return model
