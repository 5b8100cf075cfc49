"""Which accuracy a classifier tells of which records: shares by hand, and who is asked for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from strategies import make_codebook

from ppdm_dask import Records, Reports, Stream, Warner
from ppdm_dask.designs import Design, Identity, Product
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference.result import Estimate
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.mine.classifier import Classifier, check_inputs

BOOK = make_codebook(["a", "class"], [2, 3], "class")
DESIGN = Product([Warner("a", 0.8), Identity(["class"], [3])])
# Seven records, of which the fixed prediction below is right for the first, third and last.
CODES = np.array([[0, 2], [0, 1], [1, 2], [1, 0], [0, 0], [1, 1], [0, 2]], np.uint8)
UNBIASED = Estimate.single(1.125, 0.5, 7)


class AlwaysTheThird(Classifier):
    """Predicts the third class, and knows one estimate of reports, which leaves [0, 1]."""

    def __init__(self, design: Design | Stratified) -> None:
        self.design = self.design_ = design
        self.target_ = "class"
        self.classes_ = np.array(["x", "y", "z"])

    def fit(self, X: Any, y: Any = None) -> Any:
        return self

    def predict_codes(self, X: Records) -> Any:
        return np.full(len(X), 2)

    def predict_proba(self, X: Any) -> Any:
        return np.tile([0.0, 0.0, 1.0], (len(X), 1))

    def draw(self, path: Any) -> None:
        raise AssertionError("nothing here draws")

    def count_correct(self, X: Records) -> int:
        return int((X.codes[:, 1] == 2).sum())

    def score_disguised(self, reports: Any) -> Estimate:
        return UNBIASED


@pytest.mark.parametrize("n", range(1, 8))
def test_of_clean_records_the_score_is_the_share_that_is_right(n: int) -> None:
    model = AlwaysTheThird(DESIGN)
    records = Records(CODES[:n], BOOK)
    assert model.score(records) == sum(c == 2 for _, c in CODES[:n].tolist()) / n
    assert model.predict(records).tolist() == ["z"] * n


def test_of_reports_the_score_is_the_unbiased_one() -> None:
    reports = DESIGN.disguise(Records(CODES, BOOK), Stream.from_seed(1))
    assert AlwaysTheThird(DESIGN).score(reports) == UNBIASED.value
    # Strata come as a list, and what one of them says of its design is looked at further in.
    owners = Stratified([DESIGN, Identity(["a", "class"], [2, 3])])
    for given in ([reports, Records(CODES, BOOK)], reports):
        assert AlwaysTheThird(owners).score(given) == UNBIASED.value


def test_reports_of_which_the_design_is_another_or_not_known_have_no_score() -> None:
    other = Product([Warner("a", 0.7), Identity(["class"], [3])])
    for reports in (
        other.disguise(Records(CODES, BOOK), Stream.from_seed(1)),
        Reports(CODES, BOOK),
    ):
        with pytest.raises(RecordsError, match="do not say that the model's design made them"):
            AlwaysTheThird(DESIGN).score(reports)


def test_no_records_have_no_share() -> None:
    with pytest.raises(RecordsError, match="there are no test records"):
        AlwaysTheThird(DESIGN).score(Records(CODES[:0], BOOK))


def test_inputs_have_the_categories_of_the_model_wherever_it_looks() -> None:
    records = Records(CODES, BOOK)
    known = {attribute.name: attribute.categories for attribute in BOOK.attributes}
    check_inputs(records, ["a", "class"], known)
    turned = known | {"class": known["class"][::-1]}
    check_inputs(records, ["a"], turned)
    with pytest.raises(RecordsError, match="attribute 'class' has other categories"):
        check_inputs(records, ["a", "class"], turned)
    with pytest.raises(RecordsError, match="X: got ndarray; Records are needed"):
        check_inputs(CODES, ["a"], known)
