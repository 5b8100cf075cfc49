"""Claims that are judged from the counts, or the law, of a published survey."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest

from ppdm_dask.claims.claim import Claim, load_papers, paper_from_config
from ppdm_dask.claims.judge import judge
from ppdm_dask.claims.rules import Printed
from ppdm_dask.claims.verdict import Verdict
from ppdm_dask.errors import RecipeError

(PUBLISHED,) = (paper for paper in load_papers() if paper.key == "Published")
CLAIMS = PUBLISHED.claims
SECOND_DRAW = "pub-near-sales"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_published_results_are_reproduced(claim: Claim) -> None:
    found = judge(claim, {})
    assert found.status == ("differs" if claim.id == SECOND_DRAW else "reproduced")
    assert found.error == 0


def test_ten_results_and_more_are_judged_from_counts() -> None:
    counted = [claim for claim in CLAIMS if claim.survey and claim.survey.table is not None]
    assert len(counted) >= 10
    assert len({claim.where.partition("]")[0] for claim in counted}) >= 5


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
@pytest.mark.parametrize("units", [-1.01, 1.01])
def test_another_last_digit_is_no_longer_ours(claim: Claim, units: float) -> None:
    rule = claim.rule
    assert isinstance(rule, Printed)
    if claim.id == SECOND_DRAW:  # what the printed count gives, of which they printed another draw
        rule = replace(rule, printed=(3516.5,))
        assert judge(replace(claim, rule=rule), {}).status == "reproduced"
    for i, (value, half) in enumerate(zip(rule.printed, rule.tolerances, strict=True)):
        printed = (*rule.printed[:i], value + 2 * units * half, *rule.printed[i + 1 :])
        moved = replace(claim, rule=replace(rule, printed=printed))
        assert judge(moved, {}).status == "differs"


# -- surveys of our own, with known answers --------------------------------------------------------

WARNER: dict[str, Any] = {
    "design": {"id": "warner", "attribute": "a", "theta": 0.7},
    "categories": ["no", "yes"],
    "counts": {"yes": 92, "no": 108},
    "of": "yes",
}
GOOD: dict[str, Any] = {
    "id": "one",
    "where": "page 1",
    "says": "Of 200 answers 92 are yes.",
    "rule": "printed",
    # (92/200 - .3) / .4 = .4; sqrt(.46 * .54 / 199) / .4 = .08833.
    "expected": {"estimate": "0.400", "error": "0.0883"},
    "test": "tests/test_claims_survey.py::test_a_wrong_count_fails",
    "survey": WARNER,
}


def read(survey: dict[str, Any] | None = None, **keys: Any) -> Claim:
    """The good claim with other keys; of the survey ... leaves one out."""
    config = copy.deepcopy(GOOD) | keys
    merged = copy.deepcopy(WARNER) | (survey or {})
    config["survey"] = {key: value for key, value in merged.items() if value is not ...}
    paper = {"paper": "Mine", "title": "A paper", "authors": "Somebody", "claim": [config]}
    (claim,) = paper_from_config(paper, "mine.toml").claims
    return claim


def judged(survey: dict[str, Any] | None = None, **keys: Any) -> Verdict:
    return judge(read(survey, **keys), {})


def numbers(**survey: Any) -> dict[str, float]:
    found = read(survey).survey
    assert found is not None
    return {str(key): float(value) for key, value in found.numbers().items()}


def test_a_wrong_count_fails() -> None:
    assert judged().status == "reproduced"
    assert judged({"counts": {"yes": 93, "no": 107}}).status == "differs"
    assert judged({"counts": {"yes": 92, "no": 109}}).status == "differs"
    assert judged({"of": "no"}).status == "differs"
    assert judged({"categories": ["yes", "no"]}).status == "reproduced"  # nothing goes by position


def test_the_numbers_of_counts() -> None:
    found = numbers()
    error = math.sqrt(0.46 * 0.54 / 199) / 0.4
    assert found["estimate"] == pytest.approx(0.4, abs=1e-14)
    assert found["total"] == pytest.approx(80)
    assert found["error"] == pytest.approx(error, rel=1e-12)
    assert found["lower"] == pytest.approx(0.4 - 1.959963984540054 * error, rel=1e-12)
    assert found["upper"] == pytest.approx(0.4 + 1.959963984540054 * error, rel=1e-12)
    plain = numbers(divisor="n")
    assert plain["error"] == pytest.approx(math.sqrt(0.46 * 0.54 / 200) / 0.4, rel=1e-12)
    # 20 % of yes is less than the 30 % that chance gives: the most likely proportion is 0.
    few = {"yes": 40, "no": 160}
    assert numbers(counts=few)["estimate"] == pytest.approx(-0.25)
    assert numbers(counts=few, method="mle")["estimate"] == 0


def test_counts_go_by_the_words_of_the_device() -> None:
    device = {"id": "crosswise", "attribute": "a", "p": "1/4"}
    words = {"same": "yes", "different": "no"}
    found = numbers(design={**device, "symbols": words}, counts={"different": 65, "same": 35})
    assert found["estimate"] == pytest.approx((0.35 - 0.75) / -0.5)
    # Two words for one report add.
    words |= {"gleich": "yes"}
    counts = {"same": 30, "gleich": 5, "different": 65}
    again = numbers(design={**device, "symbols": words}, counts=counts)
    assert again["estimate"] == pytest.approx(found["estimate"])


def test_the_numbers_of_a_law() -> None:
    law = {"no": 0.9, "yes": 0.1}
    reported = 0.1 * 0.7 + 0.9 * 0.3
    variance = reported * (1 - reported) / 0.4**2
    alone = numbers(counts=..., law=law)
    assert alone == {"ratio": pytest.approx(variance / 0.09)}
    known = numbers(counts=..., law=law, n=500)
    assert known["error"] == pytest.approx(math.sqrt(variance / 500))
    known = numbers(counts=..., law=law, n=500, divisor="n - 1")
    assert known["error"] == pytest.approx(math.sqrt(variance / 499))


def test_half_a_unit_of_the_last_digit_is_allowed() -> None:
    def status(text: str) -> str:
        return judged(expected={"error": text}).status

    # The error is .088326...
    assert status("0.1") == status("0.09") == status("0.088") == status(".0883") == "reproduced"
    assert status("0.0880") == status("0.089") == status(".08832") == "differs"
    few = {"counts": {"yes": 40, "no": 160}, "method": "mle"}  # at 0 it has no variance
    missing = judged(few, expected={"lower": "0.2"})
    assert (missing.status, missing.measured) == ("not judged", "the result has no lower")


@pytest.mark.parametrize(
    ("survey", "says"),
    [
        ({"counts": ...}, "survey.counts: got nothing; either counts or a law is needed"),
        ({"law": {"no": 1, "yes": 0}}, "survey.counts: got {"),
        ({"counts": {"ja": 92, "no": 108}}, "survey.counts: got "),
        ({"counts": {"yes": 92.5, "no": 108}}, "survey.counts.yes: got 92.5; a whole number"),
        ({"counts": {"yes": -1, "no": 108}}, "survey.counts.yes: got -1"),
        ({"counts": {"yes": 0, "no": 0}}, "survey.counts: got 0; at least one respondent"),
        ({"counts": [92, 108]}, "survey.counts: got "),
        ({"design": {"id": "warmer"}}, "survey.design: got "),
        ({"design": {"id": "warner", "attribute": "a", "theta": 2}}, "survey.design: got "),
        ({"design": {"id": "flip", "attributes": ["a", "b"], "theta": 0.7}}, "one is needed"),
        ({"design": ...}, "survey.design: got nothing; a table with the id of a design"),
        ({"categories": ["no"]}, "survey.categories: got "),
        ({"categories": ["no", "yes", "none"]}, "survey.design: got "),
        ({"of": "yas"}, 'survey.of: got "yas"; did you mean "yes"?'),
        ({"method": "em"}, 'survey.method: got "em"'),
        ({"divisor": "n + 1"}, 'survey.divisor: got "n + 1"'),
        ({"n": 200}, "survey.n: got 200; there is no such key"),
        ({"counts": ..., "law": {"yes": 1}}, "survey.law: got "),
        ({"counts": ..., "law": {"yes": 0.5, "no": 0.6}}, "survey.law: got 1.1; proportions"),
        ({"counts": ..., "law": {"yes": 1.5, "no": 0}}, "survey.law.yes: got 1.5"),
        (
            {"counts": ..., "law": {"yes": 1, "no": 0}},
            "survey.law.yes: got 1; a proportion above 0 and below 1",
        ),
    ],
)
def test_bad_surveys_are_one_line(survey: dict[str, Any], says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read(survey)
    message = str(caught.value)
    assert message.startswith("mine.toml: claim[0].survey")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"expected": {"estimate": 0.4}}, "claim[0].expected.estimate: got 0.4; digits as they"),
        ({"expected": {"estimate": "4e-1"}}, 'claim[0].expected.estimate: got "4e-1"'),
        ({"expected": {}}, "claim[0].expected: got "),
        ({"expected": "0.4"}, 'claim[0].expected: got "0.4"'),
        ({"recipe": "optrr"}, 'claim[0].recipe: got "optrr"; either a recipe or a calculation'),
        ({"tolerance": 1}, "claim[0].tolerance: got 1; there is no such key"),
    ],
)
def test_bad_claims_on_surveys_are_one_line(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read(**keys)
    message = str(caught.value)
    assert message.startswith(f"mine.toml: {says}")
    assert "\n" not in message
