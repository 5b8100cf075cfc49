"""How often intervals hold the truth, in settings that were fixed before the first run."""

from __future__ import annotations

import math
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from strategies import codebook_of

from ppdm_dask import design_from_config, invert
from ppdm_dask.inference import bootstrap, event_interval, mle, profile_deviance
from ppdm_dask.inference.sums import WeightSums
from ppdm_dask.inference.tables import ContingencyTable
from ppdm_dask.inference.uncertainty import normal_quantile

SETTINGS = tomllib.loads((Path(__file__).parent / "coverage.toml").read_text())
LEVEL, REPEATS = SETTINGS["level"], SETTINGS["repeats"]
LOWEST, HIGHEST = SETTINGS["lowest"], SETTINGS["highest"]
BY_ID = {setting["id"]: setting for setting in SETTINGS["setting"]}
RESAMPLES = 300

pytestmark = pytest.mark.slow


class Setting:
    """Reports drawn from one setting, and the proportion that they are about."""

    def __init__(self, setting, seed):
        self.design = design_from_config(setting["design"])
        self.book = codebook_of(self.design)
        self.prior, self.n = np.array(setting["prior"]), setting["n"]
        name = self.book.names[0]
        self.event = {name: setting["event"]}
        self.inside = self.book.masks(self.event)[name]
        self.rng = np.random.default_rng(seed)
        # A file of exactly these records, for what is said about the file.
        self.file = np.rint(self.prior * self.n).astype(int)
        self.file[0] += self.n - self.file.sum()

    def table(self, counts):
        sizes = self.design.reported_shape
        return ContingencyTable(
            self.book, np.asarray(counts, np.int64), None, self.design.digest, True, sizes
        )

    def population(self):
        """Counts of reports of n records drawn afresh."""
        return self.rng.multinomial(self.n, self.design.apply(self.prior), size=REPEATS)

    def of_the_file(self):
        """Counts of reports of the same n records disguised afresh."""
        P = self.design.matrix()
        drawn = [self.rng.multinomial(m, P[:, x], size=REPEATS) for x, m in enumerate(self.file)]
        return np.sum(drawn, axis=0)

    @property
    def proportion(self):
        return float(self.prior[self.inside].sum())

    @property
    def proportion_of_the_file(self):
        return float(self.file[self.inside].sum() / self.n)


def wald(setting, counts, estimand, truth):
    """Share of repeats whose Wald interval holds the truth."""
    inside, weight, z = setting.inside, {}, normal_quantile(LEVEL)
    held = 0
    for row in counts:
        key = tuple(row)
        if key not in weight:
            estimate = invert(setting.table(row), setting.design, estimand=estimand)
            spread = float(inside @ estimate.covariance @ inside)
            half = z * math.sqrt(max(spread, 0))
            weight[key] = abs(float(estimate.values @ inside) - truth) <= half
        held += weight[key]
    return held / len(counts)


def within(coverage):
    assert LOWEST <= coverage <= HIGHEST, f"coverage {coverage:.4f}"


def all_settings(seed):
    return [
        pytest.param(setting, seed + i, id=setting["id"])
        for i, setting in enumerate(SETTINGS["setting"])
    ]


def test_the_file_has_ten_settings():
    assert len(SETTINGS["setting"]) == 10
    assert REPEATS >= 4_000


@pytest.mark.parametrize(("setting", "seed"), all_settings(100))
def test_wald_of_the_population(setting, seed):
    s = Setting(setting, seed)
    within(wald(s, s.population(), "population", s.proportion))


@pytest.mark.parametrize(("setting", "seed"), all_settings(200))
def test_wald_of_the_file(setting, seed):
    s = Setting(setting, seed)
    within(wald(s, s.of_the_file(), "file", s.proportion_of_the_file))


@pytest.mark.parametrize(("setting", "seed"), all_settings(300))
def test_event_interval(setting, seed):
    """Likelihood-ratio ordering where the event's reports are two-valued, else the profile."""
    s = Setting(setting, seed)
    counts, truth = s.population(), s.proportion
    if event_interval(s.table(counts[0]), s.design, s.event).method.startswith("profile"):
        within(profile_coverage(s, counts, truth))
        return

    # The interval depends on the counts of the event alone.
    reported = s.inside if len(s.inside) == counts.shape[1] else None
    assert reported is not None

    @cache
    def holds(yes):
        row = counts[counts[:, reported].sum(axis=1) == yes][0]
        interval = event_interval(s.table(row), s.design, s.event, level=LEVEL)
        return interval.lower <= truth <= interval.upper

    within(np.mean([holds(int(yes)) for yes in counts[:, reported].sum(axis=1)]))


def profile_coverage(s, counts, truth):
    """The truth is in the profile's interval where its deviance is below the critical value."""
    critical = normal_quantile(LEVEL) ** 2
    held = {}
    for row in counts:
        if tuple(row) not in held:
            deviance, _ = profile_deviance(s.table(row), s.design, s.event)
            held[tuple(row)] = deviance(truth) <= critical
    return np.mean([held[tuple(row)] for row in counts])


@pytest.mark.parametrize("name", ["warner", "mangat", "unrelated"])
def test_profile_of_two_valued_reports(name):
    s = Setting(BY_ID[name], 400)
    within(profile_coverage(s, s.population(), s.proportion))


@pytest.mark.parametrize(("setting", "seed"), all_settings(500))
def test_bootstrap_of_the_inversion(setting, seed):
    s = Setting(setting, seed)
    held = 0
    for i, row in enumerate(s.population()):
        result = bootstrap(s.table(row), s.design, invert, repeats=RESAMPLES, seed=i)
        values = result.replicates.reshape(RESAMPLES, -1) @ s.inside
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        held += low <= s.proportion <= high
    within(held / REPEATS)


@pytest.mark.parametrize("name", ["skewed-matrix", "tall-matrix", "kuk"])
def test_errors_of_the_maximum_likelihood(name):
    s = Setting(BY_ID[name], 600)
    z, held, inside = normal_quantile(LEVEL), 0, np.flatnonzero(s.inside)[0]
    for row in s.population():
        estimate = mle(s.table(row), s.design)
        if estimate.variance is None:
            continue
        half = z * math.sqrt(estimate.variance[inside])
        held += abs(estimate.values[inside] - s.prior[inside]) <= half
    within(held / REPEATS)


@pytest.mark.parametrize("strata", [False, True], ids=["weights", "weights-and-strata"])
def test_survey_weights(strata):
    """Records drawn with unequal chances, weighted back; two strata of different prevalence."""
    rng = np.random.default_rng(700)
    q, shares, weights = 0.8, np.array([0.5, 0.15]), np.array([1.0, 4.0])
    sizes = np.array([300, 200])
    total = sizes * weights
    truth = float((total * shares).sum() / total.sum())
    held = 0
    for _ in range(REPEATS):
        if not strata:
            first = rng.binomial(500, 0.6)
            drawn = np.array([first, 500 - first])
            # Drawn at random, so the shares of the groups are random too.
            truth = float((np.array([0.6, 0.4]) * weights * shares).sum() / (0.6 + 1.6))
        else:
            drawn = sizes
        yes = rng.binomial(drawn, shares * q + (1 - q) / 2)
        w = (np.array([0.0, 1.0]) - (1 - q) / 2) / q
        counts = np.stack([drawn - yes, yes], axis=1)
        d = weights[:, None]
        sums = {
            "n": drawn.astype(float),
            "d": drawn * weights,
            "dd": drawn * weights**2,
            "f": drawn * weights,
            "ddf": drawn * weights**2,
            "ddff": drawn * weights**2,
            "w": (d * counts * w).sum(axis=1, keepdims=True),
            "ddw": (d**2 * counts * w).sum(axis=1, keepdims=True),
            "ddwf": (d**2 * counts * w).sum(axis=1, keepdims=True),
            "ddww": (d**2 * counts * w**2).sum(axis=1, keepdims=True),
        }
        if not strata:
            sums = {name: value.sum(axis=0, keepdims=True) for name, value in sums.items()}
        made = WeightSums(None, "", np.arange(len(sums["n"])), **sums)
        half = normal_quantile(LEVEL) * math.sqrt(made.variances()[0])
        held += abs(made.values()[0] - truth) <= half
    within(held / REPEATS)


@pytest.mark.parametrize("setting", SETTINGS["known"], ids=lambda s: s["id"])
def test_where_coverage_is_known_to_differ(setting):
    s = Setting(setting, 800)
    counts = s.population()
    if setting["method"] == "wald":
        assert wald(s, counts, "population", s.proportion) < setting["below"]
        return

    @cache
    def holds(row):
        interval = event_interval(s.table(row), s.design, s.event, level=LEVEL)
        return interval.lower <= s.proportion <= interval.upper

    assert np.mean([holds(tuple(row)) for row in counts]) > setting["above"]
