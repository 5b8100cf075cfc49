"""One repeat of the naive Bayes sweep: disguise the training part, fit, test on the clean part.

Contestants do the same work on the same data in one process, in turns:

- plain pandas: the paper's steps written down with frames and boolean indexing;
- NumPy: the same on arrays of one byte an answer, all records at once;
- expert NumPy: 64 records in a word, and each different test row scored once;
- ours: what a run of the recipe does, without and with the disguised test part;
- random bits: drawing the coins and personal answers, and nothing else.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import numba
import numpy as np
import pandas as pd
from timing import Claim, interleave, ratio, report

from ppdm_dask.experiments.inputs import prepare_all
from ppdm_dask.experiments.sweep.engines import BinaryNaiveBayes
from ppdm_dask.experiments.sweep.plan import SweepPlan
from ppdm_dask.experiments.sweep.recipe import Recipe
from ppdm_dask.experiments.sweep.trials import DISGUISE
from ppdm_dask.kernels.draws import absorb, extend, seed_rows
from ppdm_dask.kernels.naive_bayes import personal_planes
from ppdm_dask.kernels.planes import draw_bernoulli
from ppdm_dask.randomness import binary_digits, exact

Q = 0.6
ROUNDS = 9


def pandas_repeat(train: pd.DataFrame, test: pd.DataFrame, target: str, rng) -> float:
    """Sections 2.2 to 2.4 and 3.1 of the paper, as a reader would write them."""
    personal = pd.DataFrame(
        rng.integers(0, 2, train.shape), columns=train.columns, index=train.index
    )
    coin = pd.Series(rng.random(len(train)) < Q, index=train.index)
    disguised = train.where(coin, personal)
    n = len(disguised)
    scores = pd.DataFrame(index=test.index)
    for c in (0, 1):
        p_class = max(((disguised[target] == c).mean() - (1 - Q) * 0.5) / Q, 1 / n)
        score = pd.Series(np.log(p_class), index=test.index)
        for name in train.columns.drop(target):
            joint = {}
            for a in (0, 1):
                share = ((disguised[name] == a) & (disguised[target] == c)).mean()
                joint[a] = max((share - (1 - Q) * 0.25) / Q, 1 / n)
            total = sum(joint.values())
            score = score + test[name].map({a: np.log(p / total) for a, p in joint.items()})
        scores[c] = score
    return float((scores.idxmax(axis=1) == test[target]).mean())


def numpy_repeat(train: np.ndarray, test: np.ndarray, target: int, rng) -> float:
    """The same on arrays of one byte an answer."""
    n = len(train)
    personal = rng.integers(0, 2, train.shape, dtype=np.uint8)
    coin = rng.random(n) < Q
    disguised = np.where(coin[:, None], train, personal)
    classes = disguised[:, target].astype(bool)
    features = np.delete(disguised, target, axis=1)
    both = features[classes].sum(axis=0, dtype=np.int64)
    ones = features.sum(axis=0, dtype=np.int64)
    positive = int(classes.sum())
    counts = np.array([[n - positive - ones + both, ones - both], [positive - both, both]])
    joint = np.maximum((counts / n - (1 - Q) * 0.25) / Q, 1 / n)
    conditional = np.log(joint / joint.sum(axis=1, keepdims=True))
    prior = np.log(np.maximum((np.array([n - positive, positive]) / n - (1 - Q) * 0.5) / Q, 1 / n))
    clean = np.delete(test, target, axis=1)
    scores = prior + clean @ (conditional[:, 1] - conditional[:, 0]).T + conditional[:, 0].sum(1)
    return float((scores.argmax(axis=1) == test[:, target]).mean())


class ExpertNumPy:
    """The same on bit planes; what does not change between repeats is made once."""

    def __init__(self, train: np.ndarray, test: np.ndarray, target: int) -> None:
        self.n, width = train.shape
        words = -(-self.n // 64)
        padded = np.zeros((width, 64 * words), np.uint8)
        padded[:, : self.n] = train.T
        self.planes = np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
        there = np.arange(64 * words) < self.n
        self.there = np.packbits(there, bitorder="little").view(np.uint64)
        self.target = target
        rows, which = np.unique(np.delete(test, target, axis=1), axis=0, return_inverse=True)
        self.rows, self.n_test = rows.astype(float), len(test)
        self.tested = np.zeros((len(rows), 2), np.int64)
        np.add.at(self.tested, (which.ravel(), test[:, target]), 1)

    def repeat(self, rng) -> float:
        n = self.n
        coin = np.packbits(
            rng.random(64 * len(self.there), dtype=np.float32) < np.float32(Q), bitorder="little"
        ).view(np.uint64)
        personal = rng.integers(0, 1 << 64, self.planes.shape, np.uint64)
        disguised = (self.planes & coin) | (personal & (self.there & ~coin))
        classes = disguised[self.target]
        features = np.delete(disguised, self.target, axis=0)
        both = np.bitwise_count(features & classes).sum(axis=1, dtype=np.int64)
        ones = np.bitwise_count(features).sum(axis=1, dtype=np.int64)
        positive = int(np.bitwise_count(classes).sum())
        counts = np.array([[n - positive - ones + both, ones - both], [positive - both, both]])
        joint = np.maximum((counts / n - (1 - Q) * 0.25) / Q, 1 / n)
        logs = np.log(joint / joint.sum(axis=1, keepdims=True))
        share = np.array([n - positive, positive]) / n
        prior = np.log(np.maximum((share - (1 - Q) * 0.5) / Q, 1 / n))
        scores = prior + self.rows @ (logs[:, 1] - logs[:, 0]).T + logs[:, 0].sum(axis=1)
        chosen = scores.argmax(axis=1)
        return int(self.tested[np.arange(len(chosen)), chosen].sum()) / self.n_test


@numba.njit(nogil=True)
def draw_bits(seeds, digits, roles, coin, personal):
    """What a repeat draws: a coin plane and a fair plane an attribute, by our generator."""
    pool, own = np.empty(4, np.uint64), np.empty(4, np.uint64)
    for i in range(seeds.shape[0]):
        constant = absorb(seeds[i], pool)
        constant = extend(pool, constant, np.uint64(0))
        own[:] = pool
        extend(own, constant, np.uint64(0))
        draw_bernoulli(own, digits, coin)
        personal_planes(pool, constant, roles, personal)


def contestants(engine: BinaryNaiveBayes, repeats: int):
    setting, sample = engine.setting, engine.setting.sample
    codes = np.ascontiguousarray(sample.records.codes)
    names = list(sample.records.codebook.names)
    train, test = codes[: sample.n_train], codes[sample.n_train :]
    frames = [pd.DataFrame(part, columns=names) for part in (train, test)]
    target = names.index(sample.target)
    rng = np.random.default_rng(1)
    words = -(-sample.n_train // 64)
    seeds = seed_rows(setting.seed, (setting.key, DISGUISE), 0, repeats)
    digits, roles = binary_digits(exact(Q)), engine._personal[0]
    coin, personal = (
        np.empty(words, np.uint64),
        np.empty((words, engine.planes.shape[1]), np.uint64),
    )

    def plain_pandas() -> int:
        pandas_repeat(*frames, sample.target, rng)
        return 1

    def plain_numpy() -> int:
        for _ in range(5):
            numpy_repeat(train, test, target, rng)
        return 5

    expert = ExpertNumPy(train, test, target)

    def expert_numpy() -> int:
        for _ in range(20):
            expert.repeat(rng)
        return 20

    def ours() -> int:
        engine.run(0, repeats, disguised_test=False)
        return repeats

    def ours_with_disguised_test() -> int:
        engine.run(0, repeats)
        return repeats

    def bits() -> int:
        draw_bits(seeds, digits, roles, coin, personal)
        return repeats

    return {
        "plain pandas": plain_pandas,
        "NumPy": plain_numpy,
        "expert NumPy": expert_numpy,
        "ours": ours,
        "ours, with disguised test": ours_with_disguised_test,
        "random bits": bits,
    }


def agree(engine: BinaryNaiveBayes) -> None:
    """Stop if the contestants do not do the same work: their mean accuracies must agree."""
    sample = engine.setting.sample
    codes = np.ascontiguousarray(sample.records.codes)
    names = list(sample.records.codebook.names)
    target, rng = names.index(sample.target), np.random.default_rng(2)
    parts = codes[: sample.n_train], codes[sample.n_train :]
    frames = [pd.DataFrame(part, columns=names) for part in parts]
    ours = engine.run(0, 1_000)["correct"] / sample.n_test
    expert = ExpertNumPy(*parts, target)
    others = {
        "expert NumPy": [expert.repeat(rng) for _ in range(400)],
        "NumPy": [numpy_repeat(*parts, target, rng) for _ in range(200)],
        "plain pandas": [pandas_repeat(*frames, sample.target, rng) for _ in range(15)],
    }
    for name, scores in others.items():
        error = np.std(ours) * np.sqrt(1 / len(scores) + 1 / len(ours))
        if abs(np.mean(scores) - ours.mean()) > 5 * error:
            sys.exit(f"{name} has mean accuracy {np.mean(scores):.5f}, ours {ours.mean():.5f}")


def help_seconds() -> list[float]:
    """CPU seconds of `ppdm --help`, a process at a time."""
    found = []
    for _ in range(5):
        before = _children()
        command = [sys.executable, "-m", "ppdm_dask", "--help"]
        subprocess.run(command, capture_output=True, check=True)
        found.append(_children() - before)
    return found


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    recipe = Recipe.load("electronic-surveys")
    seconds: dict[str, list[float]] = {}
    claims = []
    plan = SweepPlan(recipe, prepare_all(recipe))
    for data in ("adult-median", "breast-cancer"):
        cell = next(
            cell
            for point, cell, _ in plan.points
            if point.entry.id == data and point.values["q"] == Q
        )
        engine = BinaryNaiveBayes(plan.work.setting(cell))
        agree(engine)
        times = interleave(contestants(engine, 1_000), ROUNDS)
        seconds |= {f"{data}: {name}": values for name, values in times.items()}
        found = ratio(times, "expert NumPy", "ours")
        claims.append(Claim(f"{data}, expert NumPy over ours", found, least=3))
        if data == "breast-cancer":
            claims.append(
                Claim("Breast-Cancer, NumPy over ours", ratio(times, "NumPy", "ours"), least=3)
            )
            continue
        claims += [
            Claim("Adult, plain pandas over ours", ratio(times, "plain pandas", "ours"), least=300),
            Claim("Adult, NumPy over ours", ratio(times, "NumPy", "ours"), least=50),
            Claim("Adult, ours over random bits", ratio(times, "ours", "random bits"), most=2),
        ]
    seconds["ppdm --help, CPU"] = help_seconds()
    limit = float(np.median(seconds["ppdm --help, CPU"])) / 0.3
    claims.append(Claim("ppdm --help over 0.3 s of CPU", limit, most=1))
    report("Naive Bayes under the unrelated-question design: one repeat", seconds, claims)


if __name__ == "__main__":
    main()
