"""Small runs of every kind, for pages: each with texts that would break a page unescaped."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from small_recipe import CODEBOOK, CONFIG, TREES, many

from ppdm_dask.experiments.kinds import load_recipe, recipe_from_config
from ppdm_dask.experiments.run import run
from ppdm_dask.report.pages import write_report
from ppdm_dask.resources import pipelines_dir

HOSTILE = "<script>alert(\"x\")</script> & <b>bold</b> 'quoted' </style>"

NUMBERS: dict[str, Any] = {
    "about": {"title": HOSTILE, "references": ["Guo", HOSTILE], "notes": HOSTILE},
    "data": [
        {
            "id": "pid",
            "set": "pima",
            "codebook": str(pipelines_dir() / "codebooks" / "pima.toml"),
            "records": 100,
        }
    ],
    "perturb": [{"id": "aibr", "method": "aibr", "published": 2, "sweep": {"k": [1, 2, 20]}}],
    "usability": {"classifiers": ["svm", "naive-bayes"], "judges": ["svm"], "accept": 0.02},
    "sweep": {"repeats": 3, "seed": 5, "train": 0.8},
    "figure": [
        {"id": "loss", "kind": "usability", "title": HOSTILE, "perturb": "aibr", "data": "pid"}
    ],
}

FRONTS: dict[str, Any] = {
    "about": {"title": HOSTILE, "references": ["HuangDu"]},
    "prior": [
        {"id": "normal", "law": "normal", "reach": 3, "bins": 4, "delta": [0.8]},
        {"id": "adult", "set": "adult", "attributes": ["race"], "delta": [0.75]},
    ],
    "search": {
        "methods": ["spea2"],
        "n_records": 1_000,
        "generations": 20,
        "population": 20,
        "archive": 20,
        "simulations": 2,
    },
    "sweep": {"repeats": 2, "seed": 5},
    "figure": [
        {"id": "fronts", "kind": "front", "title": HOSTILE, "prior": "normal"},
        {"id": "none", "kind": "front", "title": "Undefined", "prior": "adult/race"},
        {"id": "em", "kind": "iterative", "title": "EM", "prior": "normal"},
    ],
}

ANSWERS = many(CONFIG, {"about.title": HOSTILE, "figure[0].title": HOSTILE})
GROUPS = many(TREES, {"about.title": HOSTILE, "figure[2].title": HOSTILE})


def own_data(folder: Path) -> dict[str, Any]:
    """A recipe on a file of one's own, whose labels are hostile too."""
    rows = "".join(f'"{label.replace(chr(34), chr(34) * 2)}",{n % 2}\n' for n, label in LABELS)
    (folder / "own.csv").write_text(f"answer,class\n{rows}", encoding="utf-8")
    (folder / "own.toml").write_text(
        'target = "class"\n\n[[attribute]]\nname = "answer"\n'
        f"categories = ['''{HOSTILE}''', 'plain']\n\n"
        '[[attribute]]\nname = "class"\ncategories = ["0", "1"]\n',
        encoding="utf-8",
    )
    config = copy.deepcopy(CONFIG)
    config["about"] = {"title": HOSTILE}
    config["data"] = [
        {"id": "own", "file": "own.csv", "codebook": "own.toml"},
    ]
    config["figure"] = [{"id": "means", "kind": "mean", "title": HOSTILE}]
    return config


LABELS = [(n, HOSTILE if n % 3 else "plain") for n in range(60)]


def make_page(config: dict[str, Any], folder: Path, name: str) -> Path:
    """Run plain tables in this process; the page of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = replace(recipe_from_config(config, source=f"{name}.toml", name=name), base=folder)
    return write_report(run(recipe, workers=0, out=folder).folder)


def make_pages(folder: Path) -> dict[str, Path]:
    """Pages of all kinds of runs, and of a small run of a recipe with claims."""
    (folder / "own").mkdir()
    pages = {
        "answers": make_page(ANSWERS, folder / "answers", "answers"),
        "groups": make_page(GROUPS, folder / "groups", "groups"),
        "numbers": make_page(NUMBERS, folder / "numbers", "numbers"),
        "fronts": make_page(FRONTS, folder / "fronts", "fronts"),
        "own": make_page(own_data(folder / "own"), folder / "own", "own"),
    }
    claimed = load_recipe("electronic-surveys").with_changes(repeats=40)
    pages["claims"] = write_report(run(claimed, workers=0, out=folder / "claims").folder)
    return pages


__all__ = ["CODEBOOK", "HOSTILE", "make_page", "make_pages"]
