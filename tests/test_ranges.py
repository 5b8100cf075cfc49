"""Numbers outside of their range are refused in one line, by everything that is public."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ppdm_dask as pp
from ppdm_dask import PPDMError, designs, perturb, privacy
from ppdm_dask import privacy as hints
from ppdm_dask.data import binning
from ppdm_dask.designs import Flip, Permanent, epsilon_of_waves
from ppdm_dask.inference import association_test, bootstrap, estimate, project_simplex
from ppdm_dask.inference.two_sample import TwoSample
from ppdm_dask.inference.waves import variance_of_waves
from ppdm_dask.perturb import metrics
from ppdm_dask.randomness import SimulationStream

MODULES = (
    "ppdm_dask",
    "ppdm_dask.privacy",
    "ppdm_dask.privacy",
    "ppdm_dask.perturb",
    "ppdm_dask.perturb.metrics",
    "ppdm_dask.perturb.metrics",
    "ppdm_dask.inference",
    "ppdm_dask.inference.weights",
    "ppdm_dask.mine",
    "ppdm_dask.data.binning",
    "ppdm_dask.randomness",
    "ppdm_dask.designs",
)

NO_NUMBER: tuple[Any, ...] = ("x", True, None, [[0.5]], 1j)
GIVEN = ("x", True, [[0.5]], 1j)
"""The same, where None stands for what is not asked for."""
UNBOUNDED = (math.nan, math.inf, -math.inf)
PROBABILITY = (*NO_NUMBER, *UNBOUNDED, -0.1, 1.1, np.float64(-1e-9))
SHARE = (*PROBABILITY, 0, 1)
WHOLE = (*NO_NUMBER, *UNBOUNDED, -1, 0.5, np.float64(3.5))
MANY_PROBABILITIES = ("x", True, math.nan, math.inf, -0.1, 1.1, [0.5, -0.1], [0.5, "x"])
PRIORS = ("x", True, [0.5], [0.5, 0.6], [-0.1, 1.1], [math.nan, 1], [math.inf, 0], [[1, 2, 3]])

BOOK = pp.Codebook((pp.Attribute("a", ("n", "y")), pp.Attribute("b", ("n", "y"))))
DESIGN = pp.Product([pp.Warner("a", 0.8), pp.Warner("b", 0.8)])
RECORDS = pp.Records(np.array([[0, 1], [1, 1], [0, 0], [1, 0]] * 10), BOOK)
REPORTS = DESIGN.disguise(RECORDS, pp.Stream.from_seed(1))
TABLE = pp.count(REPORTS, DESIGN)
WARNER = pp.Warner("a", 0.8)
STAGES = Permanent(WARNER, pp.Warner("a", 0.7))
WAVE = STAGES.disguise(RECORDS, pp.Stream.from_seed(2))
JOINT = xr.DataArray([[0.4, 0.1], [0.2, 0.3]], {"a": ["n", "y"], "b": ["n", "y"]})
FRAME = pd.DataFrame({"u": [1.0, 2, 4, 8, 9, 3], "v": [3.0, 1, 4, 1, 5, 9]})


Calls = dict[str, tuple[Callable[[Any], object], Iterable[Any]]]


def of_design(family: str, **right: Any) -> Calls:
    """A call for each number of a design, the others being right."""
    home = "inference.two_sample" if family == "TwoSample" else "designs"
    made = getattr(import_module(f"ppdm_dask.{home}"), family)
    return {
        name: (
            lambda wrong, name=name: made("a", **{**right, name: wrong}),
            WHOLE if isinstance(value, int) else PROBABILITY,
        )
        for name, value in right.items()
    }


CASES: dict[str, Calls] = {
    "Attribute": {"cuts": (lambda x: pp.Attribute("a", ("l", "h"), cuts=(x,)), UNBOUNDED)},
    "ContingencyTable": {
        "counts": (
            lambda x: pp.ContingencyTable(BOOK, x),
            (
                np.full((2, 2), -1),
                np.full((2, 2), 2**61),
                np.ones(4, np.int64),
                np.ones((2, 2)),
                [1],
            ),
        )
    },
    "Estimate": {
        "level": (lambda x: pp.invert(TABLE, DESIGN).interval(x), SHARE),
        "level of one": (
            lambda x: pp.estimate(REPORTS, {"a": "y"}, design=DESIGN).interval(x),
            SHARE,
        ),
    },
    "Identity": {"shape": (lambda x: pp.Identity("a", [x]), WHOLE)},
    "KaryResponse": of_design("KaryResponse", n=3, p=0.5),
    "MultiGroup": {
        "theta": (lambda x: pp.MultiGroup([["a"]], x), ("x", True, math.nan, -0.1, 1.1))
    },
    "ID3": {
        "max_depth": (
            lambda x: pp.ID3(DESIGN, "a", max_depth=x).fit(REPORTS),
            [wrong for wrong in WHOLE if wrong is not None],
        ),
        "min_weight": (
            lambda x: pp.ID3(DESIGN, "a", min_weight=x).fit(REPORTS),
            (*NO_NUMBER, *UNBOUNDED, -1),
        ),
    },
    "NaiveBayes": {"floor": (lambda x: pp.NaiveBayes(DESIGN, "a", floor=x).fit(REPORTS), SHARE)},
    "RRMatrix": {
        "P": (
            lambda x: pp.RRMatrix("a", x),
            (
                "x",
                1,
                [0.5, 0.5],
                [[0.5, math.nan], [0.5, 1]],
                [[1.5, 0], [-0.5, 1]],
                [[1, 1], [1, 1]],
            ),
        )
    },
    "Records": {
        "codes": (
            lambda x: pp.Records(x, BOOK),
            ([[0, 2]], [[-1, 0]], [[0.5, 0]], [0, 1], [["x", "y"]]),
        ),
        "weights": (
            lambda x: RECORDS.surveyed(weights=x),
            ([1.0], np.zeros(40), np.full(40, math.nan), np.full(40, math.inf), ["x"] * 40, 1),
        ),
        "strata": (lambda x: RECORDS.surveyed(strata=x), ([1], np.full(40, -1), np.full(40, 0.5))),
        "offset": (lambda x: pp.Records(RECORDS.codes, BOOK, x), WHOLE),
    },
    "UnrelatedQuestion": {
        **of_design("UnrelatedQuestion", q=0.5),
        "w_y": (lambda x: pp.UnrelatedQuestion("a", 0.5, x), ("x", True, math.nan, -0.1, 1.1)),
    },
    "Warner": of_design("Warner", theta=0.8),
    "Stream": {"seed": (pp.Stream.from_seed, WHOLE)},
    "SimulationStream": {"seed": (SimulationStream, WHOLE)},
    "Source": {
        "m": (lambda x: pp.Stream.from_seed(1).source().below(x, 3), (*WHOLE, 0, 2**32)),
        "n": (lambda x: pp.Stream.from_seed(1).source().words(x), WHOLE),
        "probability": (lambda x: pp.Stream.from_seed(1).source().bernoulli(x, 3), PROBABILITY),
    },
    "optimize": {"prior": (lambda x: pp.optimize(x, n_records=100, delta=0.75), PRIORS)},
    "exact": {
        "probability": (
            import_module("ppdm_dask.randomness").exact,
            ("x", math.nan, math.inf, None, [[0.5]], 1j),
        )
    },
    "binary_digits": {
        "probability": (
            import_module("ppdm_dask.randomness").binary_digits,
            (Fraction(-1), Fraction(1)),
        )
    },
    # Other designs.
    "Crosswise": of_design("Crosswise", p=0.3),
    "Flip": of_design("Flip", theta=0.3),
    "ForcedResponse": {
        **of_design("ForcedResponse", truth=0.3, forced=[0.5, 0.5]),
        "forced": (lambda x: designs.ForcedResponse("a", 0.5, x), PRIORS[:-1]),
    },
    "InvariantPRAM": {
        "prior": (
            lambda x: designs.InvariantPRAM("a", x, 0.5),
            ("x", True, [0.5, 0.6], [-0.1, 1.1]),
        ),
        "q": (lambda x: designs.InvariantPRAM("a", [0.5, 0.5], x), PROBABILITY),
    },
    "Kuk": of_design("Kuk", p1=0.3, p2=0.6, repeats=2),
    "Mangat": of_design("Mangat", p=0.3),
    "RandomGroups": {
        "groups": (lambda x: designs.RandomGroups(["a", "b"], x, 0.8), (*WHOLE, 0, 3)),
        "theta": (lambda x: designs.RandomGroups(["a", "b"], 2, x), ("x", True, None, math.nan, 2)),
    },
    "SubsetSelection": {
        "n": (lambda x: designs.SubsetSelection("a", x, 1, 0.5), (*WHOLE, 1)),
        "size": (lambda x: designs.SubsetSelection("a", 4, x, 0.5), (*WHOLE[:2], *WHOLE[3:], 0, 4)),
        "p": (
            lambda x: designs.SubsetSelection("a", 4, 1, x),
            (*PROBABILITY[:2], *PROBABILITY[3:]),
        ),
    },
    "Triangular": of_design("Triangular", p=0.3),
    "TwoSample": {
        "q": (lambda x: TwoSample("a", "b", x), ("x", 0.5, [0.5], [0.5, 2], [0.5, None]))
    },
    "UnaryEncoding": {
        **of_design("UnaryEncoding", n=3, p=0.6, q=0.2),
        "n": (lambda x: designs.UnaryEncoding("a", x, 0.6, 0.2), (*WHOLE, 1)),
    },
    "two_stage": {"prior": (lambda x: designs.two_stage(WARNER, x), PRIORS)},
    # Privacy.
    "amplified": {
        "gamma": (lambda x: privacy.amplified(x, 0.1), (*NO_NUMBER, math.nan, -math.inf, 0.9)),
        "before": (lambda x: privacy.amplified(2.0, x), PROBABILITY),
    },
    "attribute_channel": {"prior": (lambda x: privacy.attribute_channel(WARNER, "a", x), PRIORS)},
    "check_prior": {"prior": (lambda x: privacy.check_prior(WARNER, x), PRIORS)},
    "map_privacy": {"prior": (lambda x: privacy.map_privacy(WARNER, x), PRIORS)},
    "max_posterior": {"prior": (lambda x: privacy.max_posterior(WARNER, x), PRIORS)},
    "posterior": {"prior": (lambda x: privacy.posterior(WARNER, x), PRIORS)},
    "pse": {"prior": (lambda x: privacy.pse(WARNER, x), PRIORS)},
    "per_attribute": {"prior": (lambda x: privacy.per_attribute(privacy.pse, WARNER, x), PRIORS)},
    "pse_unrelated": {
        "w_a": (lambda x: privacy.pse_unrelated(x, 0.5, 0.5), (*MANY_PROBABILITIES, 1.5)),
        "w_y": (lambda x: privacy.pse_unrelated(0.5, x, 0.5), MANY_PROBABILITIES),
        "q": (lambda x: privacy.pse_unrelated(0.5, 0.5, x), MANY_PROBABILITIES),
        "shapes": (lambda x: privacy.pse_unrelated(x, [0.5, 0.5], 0.5), ([0.1, 0.2, 0.3],)),
    },
    "hint_attack": {
        "prior": (lambda x: hints.hint_attack(Flip(["a"], 0.8), x, "a", []), PRIORS),
    },
    # Perturbation.
    "AIBR": {"k": (lambda x: perturb.AIBR(k=x).fit(FRAME), [w for w in WHOLE if w is not None])},
    "KCG": {"k": (lambda x: perturb.KCG(k=x).fit_transform(FRAME), WHOLE)},
    "BSVD": {"k": (lambda x: perturb.BSVD(k=x).fit_transform(FRAME), WHOLE)},
    "SSVD": {"k": (lambda x: perturb.SSVD(k=x, e=0.1).fit_transform(FRAME), WHOLE)},
    "disclosure": {"interval": (lambda x: perturb.disclosure(FRAME, FRAME, x), SHARE)},
    "check_interval": {"interval": (perturb.disclosure.__globals__["check_interval"], SHARE)},
    "within_interval": {
        "interval": (lambda x: perturb.disclosure.__globals__["within_interval"]([], x), SHARE)
    },
    "distortion": {
        "released": (
            lambda x: perturb.distortion([[1.0, 2.0]], x),
            ([[math.nan, 2.0]], [[1.0]], "x", [["x", "y"]], [[math.inf, 1]]),
        )
    },
    "distortion_of_columns": {
        "pairs": (
            lambda x: metrics.distortion_of_columns(x),
            (
                [],
                [(np.array([math.nan]), np.array([1.0]))],
                [(np.array([1.0, 2.0]), np.array([1.0]))],
                [(np.array([0.0]), np.array([1.0]))],
            ),
        )
    },
    "expected_rp": {
        "counts": (
            perturb.expected_rp,
            (
                "x",
                True,
                -1,
                0.5,
                math.nan,
                [],
                [0, 0],
                [3, -1],
                [1.5, 2],
                [[[1]]],
                [[1, 2], [0, 0]],
            ),
        )
    },
    "read_pair": {
        "released": (lambda x: metrics.read_pair([[1.0]], x), ([[math.nan]], [[1, 2]], "x"))
    },
    # Estimates.
    "association_test": {
        "table": (
            lambda x: association_test(pp.ContingencyTable(BOOK, x), DESIGN, "a", "b"),
            (np.zeros((2, 2), np.int64),),
        )
    },
    "bootstrap": {
        "repeats": (lambda x: bootstrap(TABLE, DESIGN, pp.invert, repeats=x), (*WHOLE, 0, 1)),
        "seed": (lambda x: bootstrap(TABLE, DESIGN, pp.invert, repeats=2, seed=x), WHOLE),
    },
    "em": {
        "tolerance": (
            lambda x: pp.em(TABLE, DESIGN, tolerance=x),
            (*NO_NUMBER, math.nan, math.inf, -1e-9),
        ),
        "max_steps": (lambda x: pp.em(TABLE, DESIGN, max_steps=x), (*WHOLE, 0)),
    },
    "estimate": {
        "over": (lambda x: estimate(REPORTS, x, design=DESIGN), ([],)),
        "coefficients": (
            lambda x: estimate(REPORTS, [{"a": "y"}], design=DESIGN).combine(x),
            ([1, 2], [math.nan], [math.inf], ["x"], "x"),
        ),
    },
    "joint_design": {
        "epsilon": (lambda x: pp.joint_design(JOINT, epsilon=x), (*GIVEN, *UNBOUNDED, 0, -1, 31)),
        "max_posterior": (
            lambda x: pp.joint_design(JOINT, max_posterior=x),
            (*GIVEN, *UNBOUNDED, -0.1, 1.1, 0.4),
        ),
        "privacy": (
            lambda x: pp.joint_design(JOINT, privacy={"a": x}),
            (*NO_NUMBER, *UNBOUNDED, -0.1, 0.5),
        ),
    },
    "joint_front": {
        "n_records": (lambda x: pp.joint_front(JOINT, x, levels=1), (*WHOLE, 0)),
        "levels": (lambda x: pp.joint_front(JOINT, 10, levels=x), (*WHOLE, 0)),
    },
    "estimate_waves": {
        "overlap": (lambda x: pp.estimate_waves([WAVE, WAVE], ["a"], overlap=x), PROBABILITY)
    },
    "epsilon_of_waves": {
        "waves": (lambda x: epsilon_of_waves(STAGES, x), tuple(w for w in WHOLE if w is not None))
    },
    "variance_of_waves": {
        "waves": (lambda x: variance_of_waves(STAGES, [0.5, 0.5], x), (*WHOLE, 0))
    },
    "project_simplex": {
        "values": (project_simplex, ("x", 1, [], [[1.0]], [math.nan], [math.inf], [True]))
    },
    "normal_quantile": {
        "level": (import_module("ppdm_dask.inference.uncertainty").normal_quantile, SHARE)
    },
    # Binning.
    "fit_attribute": {
        "rule": (
            lambda x: binning.fit_attribute("a", pd.Series([1.0, 2, 3]), x),
            (
                "x",
                "quantiles(1)",
                "quantiles(0)",
                "quantiles(x)",
                [math.nan],
                [2, 1],
                [1, 1],
                ["x"],
                3,
            ),
        ),
        "limits": (
            lambda x: binning.fit_attribute("a", pd.Series([1.0, 2, 3]), [2], limits=x),
            ((3, 1), (math.nan, 1), ("x", 1), (1,)),
        ),
    },
    "binarise_attribute": {
        "rule": (
            lambda x: binning.binarise_attribute(BOOK["a"], pd.Series(["n", "y"]), x),
            ("x", 0.5, None),
        )
    },
    "cut_labels": {
        "cuts": (binning.cut_labels, (["x"], [math.nan], [math.inf], [2, 1], [1, 1], 1, [True]))
    },
}

MADE = [
    "Association",
    "Comparison",
    "Disclosure",
    "Distortion",
    "Fit",
    "GroupTest",
    "GroupedSums",
    "Hint",
    "Interval",
    "KeyedStream",
    "Plan",
    "PosteriorSummary",
    "Reports",
    "Rule",
    "Rules",
    "SealedStream",
    "WeightSums",
]
"""Classes whose objects the package makes; Reports are checked as Records are."""

ELSEWHERE = {
    "Disguise": "test_selection.py",
    "GLM": "test_regression.py",
    "LatentClasses": "test_latent.py",
    "Owners": "test_owners.py",
    "Stratified": "test_owners.py and test_stages.py",
    "TAN": "test_tan.py",
    "TwoStage": "test_stages.py",
    "device_design": "test_lattice.py",
    "regret": "test_robust.py",
    "robust_design": "test_robust.py",
    "association_rules": "test_rules.py",
    "evaluate": "test_evaluation.py",
    "item_count": "test_field_answers.py",
    "noncompliance": "test_noncompliance.py",
    "plan": "test_plan.py",
    "feldman_cousins": "test_likelihood.py",
    "chosen_design": "test_optimize.py",
    "run": "test_recipe.py and test_rundir.py",
    "Replicates": "test_survey_errors.py",
    "linearised": "test_clusters.py",
    "event_interval": "test_likelihood.py",
    "profile_deviance": "test_likelihood.py",
}
"""Functions whose refusals have a test of their own."""

INTERNAL = (
    "unpack_plane",
    "ordinal_ranks",
    "standard_error_of",
    "mean_variance",
    "cell_sums",
    "mask_weights",
    "ColumnSummary",
    "read_matrix",
    "released_frame",
)
"""Steps that take what the package has checked, element by element."""

NUMERIC = re.compile(
    r"\b(int|float|ArrayLike|NDArray|Floats|Fraction|Personal|Probability|Nonnegative|Size)\b"
)


def public() -> dict[str, Any]:
    """Public functions and classes that take a number, by name."""
    found = {}
    for module in map(import_module, MODULES):
        own = [
            n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        ]
        for name in getattr(module, "__all__", [n for n in own if not n.startswith("_")]):
            value = getattr(module, name)
            if not callable(value) or (isinstance(value, type) and issubclass(value, Exception)):
                continue
            try:
                parameters = inspect.signature(value).parameters.values()
            except ValueError:
                continue
            if any(NUMERIC.search(str(p.annotation)) for p in parameters):
                found[name] = value
    return found


def test_no_public_name_that_takes_a_number_is_forgotten() -> None:
    names = {*public()}
    known = {*CASES, *MADE, *ELSEWHERE, *INTERNAL}
    assert names - known == set()
    assert {"pse_unrelated", "KaryResponse", "bootstrap", "AIBR", "amplified"} <= names
    assert not {*CASES} & {*MADE, *ELSEWHERE, *INTERNAL}


@pytest.mark.parametrize(
    ("name", "argument", "wrong"),
    [
        pytest.param(name, argument, wrong, id=f"{name}({argument}={str(wrong)[:20]})")
        for name, calls in CASES.items()
        for argument, (_, wrongs) in calls.items()
        for wrong in wrongs
    ],
)
def test_what_is_out_of_range_is_refused_in_one_line(name: str, argument: str, wrong: Any) -> None:
    with pytest.raises(PPDMError) as error:
        CASES[name][argument][0](wrong)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
