"""A model that respondents test: estimates beside formulas, and the paper's own equation."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.audit.measures import epsilon_of
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.experiments.kinds import recipe_from_config
from ppdm_dask.experiments.run import run
from ppdm_dask.experiments.trials.respondents import RespondentsTrial
from ppdm_dask.inference import Estimate
from ppdm_dask.mine import score_by_personal
from ppdm_dask.resources import pipelines_dir

FEATURES = ("physician-fee-freeze", "el-salvador-aid")


@pytest.fixture(scope="module")
def records() -> pp.Records:
    frame = pp.datasets.load("votes")
    book = pp.Codebook.from_toml(pp.resources.codebook_path("votes"))
    found = book.binarise(frame, "midrange").encode(frame)
    return pp.Records(found.codes, pp.Codebook(found.codebook.attributes, "party"))


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_bit_and_record_have_the_same_epsilon(records: pp.Records, epsilon: float) -> None:
    trial = RespondentsTrial(epsilon=epsilon, n=10, attributes=FEATURES)
    book = trial.ready(records).codebook
    assert book.names == (*FEATURES, "party")
    assert epsilon_of(trial.bit()) == pytest.approx(epsilon)
    assert epsilon_of(trial.record(book)) == pytest.approx(epsilon)


def test_errors_are_those_of_formulas_and_intervals_hold(records: pp.Records) -> None:
    """Six means at 4.5 standard errors, three coverages at 4.5 of 240 repeats."""
    epsilon, n, repeats = 2.0, 400, 240
    trial = RespondentsTrial(epsilon=epsilon, n=n, attributes=FEATURES)
    ready = trial.ready(records)
    streams = [pp.Stream.from_seed(i) for i in range(repeats)]
    found = trial.batch(streams, ready)
    p = found["accuracy"][:, 0]
    theta = math.exp(epsilon) / (1 + math.exp(epsilon))
    q = trial.record(ready.codebook).q
    assert q == pytest.approx((math.exp(epsilon) - 1) / (math.exp(epsilon) - 1 + 8))
    seen = q * p + (1 - q) / 2  # of two even classes a personal one is predicted half the time
    by_law = seen * (1 - seen) / q**2
    expected = {
        "bit": p * (1 - p) + theta * (1 - theta) / (2 * theta - 1) ** 2,  # Warner, 1965
        "record": by_law,
        "record and others": by_law + (1 - q) ** 2 / 4 / q**2,
    }
    for i, name in enumerate(trial.variants):
        for value, mean in ((found["bias"], 0.0), (found["squared"], expected[name])):
            difference = value[:, i] - mean
            error = difference.std(ddof=1) / math.sqrt(repeats)
            assert abs(difference.mean()) < 4.5 * error, name
        spread = math.sqrt(0.05 * 0.95 / repeats)
        assert abs(found["coverage"][:, i].mean() - 0.95) < 4.5 * spread, name


@pytest.mark.parametrize("learner", [pp.NaiveBayes, pp.ID3])
def test_by_the_known_law_of_personal_answers_both_scores_are_one(
    records: pp.Records, learner: Any
) -> None:
    """The equation of section 2.4 is the inversion, where P(Y(cc)) is that of the stated law."""
    trial = RespondentsTrial(epsilon=1.0, n=10, attributes=FEATURES)
    ready = trial.ready(records)
    design = pp.UnrelatedQuestion(ready.codebook.names, 0.6, [0.3, 0.5, 0.8]).bind(
        ready.codebook, positions=True
    )
    model = learner(design, "party").fit(design.disguise(ready, pp.Stream.from_seed(1)))
    test = design.disguise(ready, pp.Stream.from_seed(2))
    domain = pp.Records(np.array(list(product((0, 1), repeat=3))), ready.codebook)
    law = np.prod(np.where(domain.codes == 1, [0.3, 0.5, 0.8], [0.7, 0.5, 0.2]), axis=1)
    share = float(law @ (model.predict_codes(domain) == domain.column("party")))
    found = score_by_personal(model, test, Estimate.single(share, 0.0, 100))
    known = model.score_disguised(test)
    assert found.value == pytest.approx(known.value, abs=1e-12)
    assert float(found.standard_error) == pytest.approx(float(known.standard_error), rel=1e-9)
    # An error of .1 of the personal share adds (1 - q) / q of it.
    more = score_by_personal(model, test, Estimate.single(share, 0.1, 100))
    added = math.sqrt(float(more.standard_error) ** 2 - float(found.standard_error) ** 2)
    assert added == pytest.approx(0.1 * 0.4 / 0.6)


def test_what_the_equation_does_not_hold_for_is_refused(records: pp.Records) -> None:
    ready = RespondentsTrial(epsilon=1.0, n=10, attributes=FEATURES).ready(records)
    names, share = ready.codebook.names, Estimate.single(0.5, 0.1, 100)
    model = pp.NaiveBayes().fit(ready)
    groups = pp.MultiGroup([names], 0.8).disguise(ready, pp.Stream.from_seed(1))
    part = pp.UnrelatedQuestion(names[:2], 0.8).disguise(ready, pp.Stream.from_seed(1))
    for reports in (groups, part):
        with pytest.raises(InputError, match=r"reports: those of one unrelated question over"):
            score_by_personal(model, reports, share)
    with pytest.raises(RecordsError, match="got Records; Reports are needed"):
        score_by_personal(model, ready, share)  # type: ignore[arg-type]
    whole = pp.UnrelatedQuestion(names, 0.8).disguise(ready, pp.Stream.from_seed(1))
    with pytest.raises(RecordsError, match="no test reports"):
        score_by_personal(model, whole[:0], share)
    with pytest.raises(InputError, match=r"personal: one proportion is needed; got 2"):
        score_by_personal(model, whole, pp.estimate(whole, ["party"]))


def test_who_sends_a_report_and_the_bit_of_his_personal_record_gives_himself_away() -> None:
    """Errata, ZhanMatwin 7, by enumeration: coin, private and personal record, what is sent."""
    q, private, personal = 0.6, 0.9, 0.5  # shares of right predictions
    sent: dict[tuple[int, int], list[float]] = {}
    for coin, a, y in product((0, 1), repeat=3):
        chance = (q if coin else 1 - q) * (private if a else 1 - private)
        chance *= personal if y else 1 - personal
        sent.setdefault((a if coin else y, y), [0.0, 0.0])[coin] += chance
    certain = [sent[key] for key in ((0, 1), (1, 0))]
    assert all(personal_part == 0 for personal_part, _ in certain)
    assert sum(map(sum, certain)) == pytest.approx(
        q * (private * (1 - personal) + (1 - private) * personal)
    )
    assert sum(map(sum, certain)) == pytest.approx(0.3)


def config(**trial: Any) -> dict[str, Any]:
    codebook = str(pipelines_dir() / "codebooks" / "votes.toml")
    return {
        "about": {"title": "t"},
        "data": [{"id": "votes", "set": "votes", "codebook": codebook, "binarise": "midrange"}],
        "trial": {"name": "respondents", "n": 200, "attributes": list(FEATURES), **trial},
        "sweep": {"repeats": 40, "seed": 1, "grid": {"epsilon": [2], "features": [1, 2]}},
    }


def test_findings_say_what_a_record_costs_beside_a_bit(tmp_path: Any) -> None:
    ds = run(recipe_from_config(config()), workers=0, out=tmp_path).dataset
    said = RespondentsTrial.findings(ds)[-1]
    mean = ds["squared"].sel(data="votes", epsilon=2).mean("repeat")
    ratio = mean.sel(variant="record") / mean.sel(variant="bit")
    least, most = float(ratio.min()), float(ratio.max())
    assert said.startswith(f"For the same error, records need {least:,.1f} (votes, epsilon = 2, ")
    assert f" to {most:,.0f} (votes, " in said
    # An estimate that is off, and intervals that miss, are told.
    shifted = ds.copy()
    shifted["bias_mean"] = ds["bias_mean"] + 1
    shifted["coverage_mean"] = ds["coverage_mean"] - 0.5
    told = RespondentsTrial.findings(shifted)
    assert sum("biased by +" in line for line in told) == 6
    assert sum("intervals of 95 % hold the accuracy in 0." in line for line in told) == 6


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        ({"attributes": ["crime", "none"]}, "trial.attributes: got none; there are "),
        ({"attributes": ["crime"]}, "sweep.grid.features[1]: got 2; there are 1"),
        ({"q": 0}, "trial.q: got 0; a probability above 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(trial: dict[str, Any], said: str) -> None:
    from ppdm_dask.experiments.kinds import check_recipe

    with pytest.raises(InputError) as caught:
        check_recipe(recipe_from_config(config(**trial)))
    assert said in str(caught.value)
