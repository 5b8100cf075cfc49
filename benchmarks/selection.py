"""Is the depth that a search finds on disguised Adult the one that is best on the truth?

For each seed 39,073 people are disguised, 9,769 stay as they are.  ``GridSearchCV`` sees reports
only; the trees that it chooses from are then scored on the clean rest.  A choice is right where it
is within one standard error of the best depth there.  Beside it is scikit-learn's tree, tuned by
its own score on the same reports as if they were true.

The last table spends one total epsilon in three ways: a pipeline disguises clean records, so that
the search compares designs.  Reports at hand have one design, and nothing of it can be tuned.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import ppdm_dask as pp

TRAIN, TARGET = 39_073, "income"
DEPTHS = [1, 2, 3, 4, 5]
PEER_DEPTHS = [1, 2, 3, 4, 6, 8, 10]
PLANNED_DEPTHS = [3, 4]
RULES: dict[str, Callable[[Mapping[str, Any]], int]] = {
    "best score": lambda results: int(np.argmax(results["mean_test_accuracy"])),
    "one SE": pp.one_standard_error("max_depth"),
    "one SE, paired": pp.one_standard_error("max_depth", paired=True),
}
TREES: dict[str, dict[str, Any]] = {
    "ID3": {},
    "ID3, min_z=2": {"min_z": 2.0},
    "ID3, gain ratio, min_z=2": {"criterion": "gain_ratio", "min_z": 2.0},
}


def adult() -> pp.Records:
    """All 48,842 records, binned by the bundled codebook."""
    book = pp.Codebook.from_toml(pp.resources.codebook_path("adult"))
    return book.encode(pp.datasets.load("adult"))


def halves(records: pp.Records, seed: int) -> tuple[pp.Records, pp.Records]:
    """People to disguise, and people to score on."""
    order = np.random.default_rng(seed).permutation(len(records))
    return records.take(order[:TRAIN]), records.take(order[TRAIN:])


def kary(book: pp.Codebook, p: float) -> pp.Product:
    """Every answer is the truth with probability p."""
    return pp.Product([pp.KaryResponse(name, len(book[name]), p=p) for name in book.names])


def error_of(share: float, n: int) -> float:
    """Standard error of an accuracy on clean records."""
    return math.sqrt(share * (1 - share) / n)


def depths_found(
    reports: pp.Reports, test: pp.Records, parameters: Mapping[str, Any], depths: Sequence[int]
) -> dict[str, Any]:
    """Depths that each rule chooses, and what the trees of all depths get right on the truth."""
    search = GridSearchCV(
        pp.ID3(**parameters),
        {"max_depth": list(depths)},
        scoring=pp.disguised_accuracy,
        refit=False,
        cv=5,
    ).fit(reports)
    clean = [pp.ID3(max_depth=d, **parameters).fit(reports).score(test) for d in depths]
    chosen = {name: rule(search.cv_results_) for name, rule in RULES.items()}
    return {
        "clean": clean,
        "chosen": chosen,
        "promised": [float(x) for x in search.cv_results_["mean_test_accuracy"]],
        "error": error_of(max(clean), len(test)),
    }


def peer(reports: pp.Reports, test: pp.Records) -> dict[str, float]:
    """scikit-learn's tree on the reports, as if they were true: what it promises, what it holds."""
    target = reports.codebook.index(TARGET)
    known = [list(range(len(each.categories))) for each in reports.codebook.attributes]
    encoder = OneHotEncoder(categories=known[:target] + known[target + 1 :], dtype=np.float32)
    columns = [c for c in range(reports.codes.shape[1]) if c != target]
    X = encoder.fit_transform(reports.codes[:, columns]).tocsc()
    search = GridSearchCV(
        DecisionTreeClassifier(criterion="entropy", random_state=0),
        {"max_depth": PEER_DEPTHS},
        cv=5,
    ).fit(X, reports.codes[:, target])
    clean = search.score(encoder.transform(test.codes[:, columns]), test.codes[:, target])
    return {"clean": float(clean), "promised": float(search.best_score_)}


def spent(book: pp.Codebook) -> dict[str, pp.Product]:
    """Three designs of one total epsilon, which is that of the truth with probability .9."""
    sizes = {name: len(book[name]) for name in book.names}
    alike = {name: math.log(0.9 * (k - 1) / 0.1) for name, k in sizes.items()}
    total = sum(alike.values())
    twice = {name: total / (len(sizes) + 1) * (1 + (name == TARGET)) for name in sizes}
    shares = {
        "the same p": alike,
        "the same epsilon": dict.fromkeys(sizes, total / len(sizes)),
        "twice the epsilon for the class": twice,
    }
    return {
        name: pp.Product([pp.KaryResponse(a, sizes[a], epsilon=e) for a, e in share.items()])
        for name, share in shares.items()
    }


def designs_compared(train: pp.Records, test: pp.Records, seed: int) -> dict[str, Any]:
    """The design and depth that a search over both chooses, and what all of them hold."""
    designs = spent(train.codebook)
    steps = [
        ("disguise", pp.Disguise(next(iter(designs.values())), seed)),
        ("tree", pp.ID3(min_z=2.0)),
    ]
    search = GridSearchCV(
        Pipeline(steps),
        {"disguise__design": list(designs.values()), "tree__max_depth": PLANNED_DEPTHS},
        scoring=pp.disguised_accuracy,
        refit="accuracy",
        cv=3,
    ).fit(train)
    clean = []
    for parameters in search.cv_results_["params"]:
        reports = pp.Disguise(parameters["disguise__design"], seed).transform(train)
        tree = pp.ID3(min_z=2.0, max_depth=parameters["tree__max_depth"]).fit(reports)
        clean.append(tree.score(test))
    names, best = list(designs), int(search.best_index_)
    return {
        "clean": clean,
        "chosen": best,
        "design": names[best // len(PLANNED_DEPTHS)],
        "error": error_of(max(clean), len(test)),
    }


def within(found: Mapping[str, Any], chosen: int) -> bool:
    """Whether a choice is within one standard error of the best on the truth."""
    clean = found["clean"]
    return bool(clean[chosen] >= max(clean) - found["error"])


def one_seed(records: pp.Records, seed: int, ps: Sequence[float], planned: bool) -> dict[str, Any]:
    """All searches of a seed."""
    train, test = halves(records, seed)
    found: dict[str, Any] = {"peer": {}, "trees": {}}
    for p in ps:
        reports = kary(train.codebook, p).disguise(train, pp.Stream.from_seed(seed))
        found["peer"][f"{p:g}"] = peer(reports, test)
        found["trees"][f"{p:g}"] = {
            name: depths_found(reports, test, parameters, DEPTHS)
            for name, parameters in TREES.items()
        }
    if planned:
        found["designs"] = designs_compared(train, test, seed)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1, help="repetitions (1; the page has 20)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--p", type=float, nargs="*", default=[0.9], help="designs (.9)")
    parser.add_argument("--no-designs", action="store_true", help="leave out the three designs")
    parser.add_argument("--json", action="store_true", help="print the figures, a line per seed")
    given = parser.parse_args()
    records, start, found = adult(), time.process_time(), []
    for seed in range(given.first, given.first + given.seeds):
        found.append(one_seed(records, seed, given.p, not given.no_designs))
        if given.json:
            print(json.dumps(found[-1]), flush=True)
    if not given.json:
        seconds = time.process_time() - start
        print(tables(found), f"\n\n{given.seeds} seeds, {seconds / 60:.1f} minutes of CPU")


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """The page's table, and what became of the designs."""
    seeds = len(found)
    lines = [
        "| p | tree | rule | right choices | clean accuracy | best depth's | score promised |",
        "|---|---|---|---|---|---|---|",
    ]
    for p, trees in found[0]["trees"].items():
        for name in trees:
            runs = [one["trees"][p][name] for one in found]
            best = np.mean([max(run["clean"]) for run in runs])
            for rule in RULES:
                at = [run["chosen"][rule] for run in runs]
                right = sum(within(run, i) for run, i in zip(runs, at, strict=True))
                held = np.mean([run["clean"][i] for run, i in zip(runs, at, strict=True)])
                promised = np.mean([run["promised"][i] for run, i in zip(runs, at, strict=True)])
                figures = f"{right} of {seeds} | {held:.4f} | {best:.4f} | {promised:.4f}"
                lines.append(f"| {p} | {name} | {rule} | {figures} |")
        held, promised = (
            np.mean([one["peer"][p][key] for one in found]) for key in ("clean", "promised")
        )
        lines.append(f"| {p} | scikit-learn's | best score | | {held:.4f} | | {promised:.4f} |")
    runs = [one["designs"] for one in found if "designs" in one]
    if not runs:
        return "\n".join(lines)
    right = sum(within(run, run["chosen"]) for run in runs)
    held = np.mean([run["clean"][run["chosen"]] for run in runs])
    best = np.mean([max(run["clean"]) for run in runs])
    which = [run["design"] for run in runs]
    lines += [
        "",
        f"design and depth: {right} of {len(runs)}; {held:.4f}, the best {best:.4f}; chosen:",
    ]
    lines += [f"  {which.count(name)} times {name}" for name in sorted(set(which))]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
