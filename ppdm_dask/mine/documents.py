"""Fitted models as sealed JSON documents, which open without pickle, also years later."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.data.codebook import Codebook
from ppdm_dask.designs.base import design_from_config
from ppdm_dask.errors import InputError
from ppdm_dask.files.documents import misfit, read_sealed, seal
from ppdm_dask.files.writing import write_text
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.mine.id3 import ID3
from ppdm_dask.mine.naive_bayes import NaiveBayes
from ppdm_dask.mine.tree import Tree
from ppdm_dask.shown import given, located

if TYPE_CHECKING:
    from ppdm_dask.inference.result import Estimate
    from ppdm_dask.mine.classifier import Classifier

__all__ = ["read_model", "write_model"]

FORMAT = 1

KINDS: dict[str, type[Classifier]] = {"naive-bayes": NaiveBayes, "id3": ID3}

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

TREE = ("attribute", "first_child", "parent", "category", "depth", "counts", "negative", "label")
"""Arrays of a tree's nodes; scores, which have gaps, stand beside them."""


def write_model(
    path: str | os.PathLike[str], model: Classifier, accuracy: Estimate | None = None
) -> None:
    """Write a fitted model, whole or not at all.

    Parameters
    ----------
    path : path
        Ends in ``.json``.
    model : NaiveBayes or ID3
        Fitted to reports or records.
    accuracy : Estimate, optional
        Its unbiased accuracy on other reports, to stand in the document.

    Raises
    ------
    InputError
        For another ending, or a model that was fitted to arrays or to several designs.
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
    if model._columns is not None or isinstance(model.design_, Stratified):
        what = "arrays" if model._columns is not None else "several designs"
        raise InputError(f"model: fitted to {what}; a file holds one of a codebook's records", kind)
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
        "fitted": _tree(model) if isinstance(model, ID3) else _conditionals(model),
    }
    if accuracy is not None:
        found["accuracy"] = {
            "value": accuracy.value,
            "standard_error": _number(float(accuracy.standard_error)),
            "reports": accuracy.n,
        }
    return found


def read_model(path: str | os.PathLike[str]) -> Classifier:
    """Read a model that :func:`write_model` wrote; it predicts what the written one does.

    Raises
    ------
    InputError
        If there is no such file, or it is no model, damaged, or of a newer version.
    """
    place = Path(path)
    try:
        found = read_sealed(place, "model")
    except FileNotFoundError:
        raise InputError(f"{located(place)}: there is no such file", place) from None
    if (at := misfit(found, FORM)) is not None or found["model"] not in KINDS:
        raise InputError(f"{place}: this is no model: {at or 'model'} is not what it should be", at)
    if found["format"] > FORMAT:
        raise InputError(
            f"{place}: written by a newer version (format {found['format']}, not {FORMAT})", place
        )
    try:
        return model_of(found)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise InputError(f"{place}: {error}", error.subject) from None
        raise InputError(f"{place}: this is no model: parts of it do not fit", place) from None


def model_of(found: Mapping[str, Any]) -> Classifier:
    """Inverse of :func:`document_of`."""
    book = Codebook.from_config(found["codebook"])
    design = design_from_config(found["design"])
    if design.digest != found["design_digest"]:
        raise InputError("design: has another digest than the model's", found["design"])
    model = KINDS[found["model"]](design=design, target=found["target"], **found["parameters"])
    model.design_, model.target_, model.codebook_ = design, found["target"], book
    model._fitted_to(found["features"])
    model.categories_ = {name: book[name].categories for name in book.names}
    model.n_reports_ = int(found["reports"])
    model.classes_ = model._labelled(book[found["target"]].categories)
    if isinstance(model, ID3):
        _grow(model, found["fitted"])
    elif isinstance(model, NaiveBayes):
        _settle(model, found["fitted"])
    return model


# -- each learner's own ----------------------------------------------------------------------------


def _conditionals(model: Any) -> dict[str, Any]:
    return {
        "floor": model.floor_,
        "floored": model.floored_,
        "floored_share": model.floored_share_,
        "class_log_prior": model.class_log_prior_.tolist(),
        "feature_log_prob": {k: v.tolist() for k, v in model.feature_log_prob_.items()},
    }


def _settle(model: NaiveBayes, fitted: Mapping[str, Any]) -> None:
    model.floor_, model.floored_ = float(fitted["floor"]), int(fitted["floored"])
    model.floored_share_ = float(fitted["floored_share"])
    model.class_log_prior_ = np.array(fitted["class_log_prior"], float)
    tables = {name: np.array(fitted["feature_log_prob"][name], float) for name in model.features_}
    n = len(model.classes_)
    shapes = {name: (len(model.categories_[name]), n) for name in tables}
    if any(tables[name].shape != shape for name, shape in shapes.items()):
        raise InputError("fitted: has other categories than the codebook", fitted)
    if model.class_log_prior_.shape != (n,):
        raise InputError("fitted: has other classes than the codebook", fitted)
    model.feature_log_prob_ = tables


def _tree(model: ID3) -> dict[str, Any]:
    tree = model.tree_
    return {
        "columns": list(tree.codebook.names),
        "tolerance": float(tree.tolerance),
        **{name: getattr(tree, name).tolist() for name in TREE},
        "score": [_number(score) for score in tree.score.tolist()],
        "standard_error": [[_number(x) for x in row] for row in tree.standard_error.tolist()],
    }


def _grow(model: ID3, fitted: Mapping[str, Any]) -> None:
    book = model.codebook_.select(fitted["columns"])
    arrays: dict[str, Any] = {name: np.array(fitted[name]) for name in TREE}
    nodes, k = len(arrays["attribute"]), len(model.classes_)
    gaps = {name: np.array(fitted[name], float) for name in ("score", "standard_error")}
    wide = {"counts", "standard_error"}
    for name, array in (arrays | gaps).items():
        if array.shape != ((nodes, k) if name in wide else (nodes,)):
            raise InputError(f"fitted.{name}: has another shape than the tree", name)
    inner = np.flatnonzero(arrays["attribute"] >= 0)
    last = arrays["first_child"][inner] + np.array(book.shape)[arrays["attribute"][inner]]
    if (arrays["first_child"][inner] <= inner).any() or (last > nodes).any():
        raise InputError("fitted.first_child: leads out of the tree", "first_child")
    arrays["counts"] = arrays["counts"].astype(float)
    tree = Tree(
        book,
        book.index(model.target_),
        model.n_reports_,
        float(fitted["tolerance"]),
        **arrays,
        score=gaps["score"],
    )
    # The reports stay behind; what would be computed from them comes along.
    tree.__dict__["standard_error"] = gaps["standard_error"]
    model._set_tree(tree)


def _number(value: float) -> float | None:
    """A number as JSON has it: None where there is none."""
    return value if math.isfinite(value) else None
