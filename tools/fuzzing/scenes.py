"""What is fuzzed: valid small files of every kind, and commands that read them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from fuzzing.chance import Chance
from fuzzing.rawbytes import damage_bytes
from fuzzing.stores import damage_checkpoint, damage_netcdf, damage_sqlite
from fuzzing.tabular import damage_csv, damage_excel, damage_parquet
from fuzzing.trees import damage_json, damage_toml, dump_toml

__all__ = ["SPECIAL", "Scene", "make_scenes", "place"]

Damage = Callable[[bytes, Chance], bytes]
Call = Callable[[tuple[str, ...]], tuple[int, str]]
BY_ENDING: dict[str, Damage] = {
    ".toml": damage_toml,
    ".json": damage_json,
    ".csv": damage_csv,
    ".parquet": damage_parquet,
    ".xlsx": damage_excel,
    ".sqlite": damage_sqlite,
    ".npz": damage_checkpoint,
    ".nc": damage_netcdf,
}
SPECIAL = ("a folder", "a pipe", "endless zeros", "a dangling link", "a link to itself", "a socket")
"""What stands in a file's place now and then."""

STRUCTURED = 0.65
"""Share of cases whose damage keeps the syntax of the format."""


def place(path: Path, content: bytes | str) -> None:
    """Put what a case has into a file's place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A run's folder is copied with the file in it.
    path.unlink(missing_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "a folder":
        path.mkdir()
    elif content == "a pipe":
        os.mkfifo(path)
    elif content == "endless zeros":
        path.symlink_to("/dev/zero")
    elif content == "a dangling link":
        path.symlink_to("nowhere")
    elif content == "a link to itself":
        path.symlink_to(path.name)
    else:
        with (
            contextlib.closing(socket.socket(socket.AF_UNIX)) as made,
            contextlib.chdir(path.parent),
        ):
            made.bind(path.name)


@dataclass(frozen=True)
class Scene:
    """A command and the one file of its input that is damaged.

    Parameters
    ----------
    file : str
        The file, below the folder of seeds.
    command : tuple of str
        Arguments of ``ppdm``, to be run in a copy of the folder.
    needs : tuple of str
        Further files and folders that the command reads.
    writes : bool
        Whether the command may leave something behind although it fails, as a run does.
    """

    file: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    writes: bool = False

    def damage(self, content: bytes, chance: Chance) -> bytes | str:
        """The file, damaged in a way that the draws decide; a text is one of ``SPECIAL``."""
        if chance.coin(0.01):
            return chance.pick(SPECIAL)
        structured = BY_ENDING.get(Path(self.file).suffix, damage_bytes)
        return (structured if chance.coin(STRUCTURED) else damage_bytes)(content, chance)


CODEBOOK: dict[str, Any] = {
    "attribute": [
        {"name": "smokes", "categories": ["no", "yes"]},
        {
            "name": "drug",
            "categories": ["(none given)", "never", "once", "often"],
            "missing": "(none given)",
        },
        {
            "name": "age",
            "categories": ["young", "middle", "old", "unknown"],
            "cuts": [30, 50.5],
            "range": [0, 120],
            "missing": "unknown",
        },
    ],
}
SURVEY_DESIGN: dict[str, Any] = {
    "id": "product",
    "blocks": [
        {"id": "warner", "attribute": "smokes", "theta": 0.8},
        {"id": "kary", "attribute": "drug", "n": 4, "epsilon": 1.5},
        {"id": "kary", "attribute": "age", "n": 4, "p": 0.7},
    ],
}
DESIGNS: dict[str, dict[str, Any]] = {
    "product": SURVEY_DESIGN,
    "warner": {"id": "warner", "attribute": "smokes", "theta": 0.8},
    "kary": {"id": "kary", "attribute": "drug", "n": 4, "p": 0.6},
    "crosswise": {"id": "crosswise", "attribute": "smokes", "p": 0.2},
    "flip": {"id": "flip", "attributes": ["smokes", "owns"], "theta": 0.7},
    "multigroup": {"id": "multigroup", "groups": [["a", "b"], ["c"]], "theta": [0.8, 0.3]},
    "unary": {"id": "unary", "attribute": "drug", "n": 4, "epsilon": 1.0},
    "subset": {"id": "subset", "attribute": "drug", "n": 4, "epsilon": 1.0},
}
PRIOR: dict[str, Any] = {
    "prior": {
        "smokes": {"no": 0.7, "yes": 0.3},
        "drug": {"(none given)": 0.1, "never": 0.6, "once": 0.2, "often": 0.1},
    }
}
ONE_PRIOR: dict[str, Any] = {
    "attribute": "drug",
    "prior": {"never": 0.6, "once": 0.3, "often": 0.1},
}
PROFILES: dict[str, dict[str, Any]] = {
    "local": {"kind": "local", "workers": 2, "memory": "2 GiB"},
    "scheduler": {
        "kind": "scheduler",
        "address": "tls://scheduler.example.org:8786",
        "security": "certificates",
        "workers": 4,
        "memory": "4 GiB",
    },
    "slurm": {
        "kind": "slurm",
        "workers": 16,
        "memory": "2 GiB",
        "walltime": "01:00:00",
        "interface": "eth0",
    },
    "ssh": {
        "kind": "ssh",
        "hosts": ["node1.example.org", "node2.example.org"],
        "workers": 4,
        "memory": "4 GiB",
    },
}
SEARCH = ("optimize", "--prior", "one-prior.toml", "--n", "500", "--delta", "0.8", "--method")


def _recipes(books: Path) -> dict[str, dict[str, Any]]:
    cancer = {"id": "wbc", "set": "breast-cancer", "codebook": str(books / "breast-cancer.toml")}
    pima = {"id": "pid", "set": "pima", "codebook": str(books / "pima.toml"), "records": 90}
    sweep = {"repeats": 2, "seed": 7, "train": 0.8, "split": "fixed"}
    return {
        "answers": {
            "about": {"title": "Answers", "references": ["ZhanMatwin"]},
            "data": [cancer | {"binarise": "median", "records": 120, "incomplete": "drop"}],
            "design": {"family": "unrelated", "w_y": 0.5},
            "mine": {"learner": "naive-bayes", "floor": "1/n"},
            "sweep": sweep | {"grid": {"q": [0, 0.5, 1]}},
            "figure": [{"id": "means", "kind": "mean", "title": "Means"}],
        },
        "trees": {
            "about": {"title": "Trees", "references": ["ZhanDu"]},
            "data": [cancer | {"binarise": "midrange", "records": 120}],
            "design": {"family": "multigroup", "split": "redrawn"},
            "mine": {"learner": "id3"},
            "sweep": sweep | {"grid": {"groups": [1, 2], "theta": [0, 0.8]}},
            "figure": [
                {"id": "grid", "kind": "grid", "title": "Grid", "x": "theta"},
                {"id": "privacy", "kind": "privacy", "title": "P", "x": "theta", "w_a": [0.5]},
            ],
        },
        "numbers": {
            "about": {"title": "Numbers", "references": ["Guo"], "notes": "Notes."},
            "data": [pima],
            "perturb": [{"id": "aibr", "method": "aibr", "published": 2, "sweep": {"k": [1, 2]}}],
            "usability": {
                "classifiers": ["naive-bayes"],
                "judges": ["naive-bayes"],
                "accept": 0.02,
            },
            "sweep": {"repeats": 2, "seed": 5, "train": 0.8},
            "figure": [
                {"id": "l", "kind": "usability", "title": "L", "perturb": "aibr", "data": "pid"}
            ],
        },
        "fronts": {
            "about": {"title": "Fronts", "references": ["HuangDu"]},
            "prior": [
                {"id": "normal", "law": "normal", "reach": 3, "bins": 4, "delta": [0.8]},
                {"id": "adult", "set": "adult", "attributes": ["sex"], "delta": [0.75]},
            ],
            "search": {
                "methods": ["spea2"],
                "n_records": 1_000,
                "generations": 10,
                "population": 10,
                "archive": 10,
                "simulations": 2,
            },
            "sweep": {"repeats": 1, "seed": 5},
            "figure": [{"id": "f", "kind": "front", "title": "F", "prior": "normal"}],
        },
        "own": {
            "about": {"title": "Own"},
            "data": [{"id": "own", "file": "s.csv", "codebook": "classes.toml"}],
            "design": {"family": "unrelated", "w_y": 0.5},
            "mine": {"learner": "naive-bayes"},
            "sweep": sweep | {"grid": {"q": [0.5]}},
        },
    }


ANSWERS = (
    ("no", "never", "20"),
    ("yes", "often", "31.5"),
    ("no", "", "50.5"),
    ("no", "once", "77"),
    ("yes", "never", ""),
)
"""Rows of the survey's file."""


RUNS = ("answers", "trees", "numbers", "fronts")
"""Recipes whose results are damaged: one of each kind of experiment, and two designs."""


def make_scenes(folder: Path, call: Call, runs: Sequence[str] = RUNS) -> dict[str, list[Scene]]:
    """Make a folder of valid files; the scenes on them, by target.

    Parameters
    ----------
    folder : Path
        An empty folder.
    call : callable
        Runs ``ppdm`` with arguments in the current folder; the exit code and what it complained of.
    runs : sequence of str
        Recipes whose results are damaged.
    """
    with contextlib.chdir(folder):
        return _make(call, runs)


def _make(call: Call, runs: Sequence[str]) -> dict[str, list[Scene]]:
    from ppdm_dask.resources import pipelines_dir

    def done(*arguments: str, code: int = 0) -> None:
        found, complaint = call(arguments)
        if found != code:
            raise RuntimeError(f"ppdm {' '.join(arguments)}: exit code {found}: {complaint}")

    def write(files: Mapping[str, Mapping[str, Any]]) -> None:
        for name, content in files.items():
            path = Path(f"{name}.toml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dump_toml(content), encoding="utf-8")

    os.mkdir("certificates")
    done("cluster", "certificates", "made")
    os.rmdir("certificates")
    os.rename("made", "certificates")
    region = {"name": "region", "categories": ["N", "S"]}
    classes = {"target": "smokes", "attribute": [CODEBOOK["attribute"][0], region]}
    write({"book": CODEBOOK, "classes": classes, "design": SURVEY_DESIGN, "prior": PRIOR})
    write({"one-prior": ONE_PRIOR})
    write({f"designs/{name}": config for name, config in DESIGNS.items()})
    write({f"profiles/{name}": config for name, config in PROFILES.items()})
    os.rename("certificates", "profiles/certificates")
    recipes = _recipes(pipelines_dir() / "codebooks")
    write(recipes)
    return {
        "recipes": _recipe_scenes(list(recipes)),
        **_survey_scenes(done),
        **_design_scenes(),
        "results": _result_scenes(done, runs),
        "ledgers": _ledger_scenes(call),
        "checkpoints": _checkpoint_scenes(call, done),
        "goldens": _golden_scenes(done, write, recipes["answers"]),
    }


def _recipe_scenes(names: list[str]) -> list[Scene]:
    beside = {"own": ("s.csv", "classes.toml")}
    scenes = []
    for name in names:
        needs = beside.get(name, ())
        scenes.append(Scene(f"{name}.toml", ("check", f"{name}.toml"), needs))
        scenes.append(Scene(f"{name}.toml", ("run", f"{name}.toml", "--dry-run"), needs))
    return scenes


def _survey_scenes(done: Callable[..., None]) -> dict[str, list[Scene]]:
    import pyarrow.csv
    import pyarrow.parquet

    rows = [",".join((f"p{n}", *ANSWERS[n % 5], f"{1 + n % 3}", "NS"[n % 2])) for n in range(60)]
    text = "\n".join(["name,smokes,drug,age,w,region", *rows]) + "\n"
    Path("s.csv").write_text(text, encoding="utf-8")
    holes = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    frame = pyarrow.csv.read_csv("s.csv", convert_options=holes)
    pyarrow.parquet.write_table(frame, "s.parquet")
    numbers = [f"{20 + n % 41},{1000.5 + 37 * (n * n % 23)},c{n % 2}" for n in range(60)]
    Path("n.csv").write_text("\n".join(["age,income,class", *numbers]) + "\n", encoding="utf-8")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv("n.csv"), "n.parquet")
    _write_formats()
    both = ("--codebook", "book.toml", "--design", "design.toml")
    how = ("--drop", "name", "--keep-undisguised", "w,region", "--simulate", "1")
    done("disguise", "s.csv", *both, *how, "--out", "r.csv")
    done("disguise", "s.csv", *both, *how, "--out", "r.parquet")
    done("count", "r.parquet", *both, "--out", "c.parquet")
    about = next(path.name for path in Path().glob("r*.json"))
    needs = ("book.toml", "design.toml")

    def commands(file: str) -> list[tuple[str, ...]]:
        return [
            ("count", file, *both, "--out", "o.parquet"),
            ("estimate", file, *both, "--over", "smokes,drug"),
            ("estimate", file, *both, "--over", "age", "--method", "mle", "--out", "o.csv"),
            ("estimate", file, *both, "--over", "drug", "--where", "smokes=yes"),
        ]

    weighted = ("--over", "smokes", "--weights", "w", "--strata", "region")
    reports = [Scene("r.csv", each, (*needs, about)) for each in commands("r.csv")]
    reports.append(Scene("r.csv", ("estimate", "r.csv", *both, *weighted), (*needs, about)))
    reports += [Scene(about, each, (*needs, "r.csv")) for each in commands("r.csv")]
    binary = [Scene("r.parquet", each, needs) for each in commands("r.parquet")]
    binary.append(Scene("r.parquet", ("estimate", "r.parquet", *both, *weighted), needs))
    disguise = ("disguise", "s.csv", *both, *how, "--out", "o.parquet")
    perturb = ("--method", "aibr", "--k", "4", "--keep", "class", "--out", "o.csv")
    groups = ("--method", "kcg", "--k", "5", "--keep", "class", "--out", "o.parquet")
    data = {
        ending: [
            Scene(f"s.{ending}", ("codebook", f"s.{ending}")),
            Scene(
                f"s.{ending}",
                ("disguise", f"s.{ending}", *both, *how, "--out", "o.csv", "--block", "7"),
                needs,
            ),
            Scene(f"n.{ending}", ("perturb", f"n.{ending}", *perturb)),
            Scene(f"n.{ending}", ("perturb", f"n.{ending}", *groups)),
        ]
        for ending in ("csv", "parquet", "sav", "dta", "xlsx")
    }
    data["csv"].append(Scene("e.csv", ("codebook", "e.csv")))
    data["csv"].append(Scene("e.csv", ("perturb", "e.csv", *perturb)))
    data["csv"].append(Scene("s.csv", ("check", "own.toml"), ("own.toml", "classes.toml")))
    run = ("run", "own.toml", "--workers", "0", "--out", "runs")
    data["csv"].append(Scene("s.csv", run, ("own.toml", "classes.toml"), writes=True))
    return {
        "codebooks": [
            Scene("book.toml", ("check", "book.toml")),
            Scene("book.toml", disguise, ("s.csv", "design.toml")),
            Scene("book.toml", ("audit", *both), ("design.toml",)),
            Scene("book.toml", commands("r.parquet")[1], ("r.parquet", "design.toml")),
            Scene("classes.toml", ("check", "classes.toml")),
            Scene("classes.toml", ("check", "own.toml"), ("own.toml", "s.csv")),
        ],
        "survey-designs": [
            Scene("design.toml", ("check", "design.toml")),
            Scene("design.toml", disguise, ("s.csv", "book.toml")),
            Scene("design.toml", ("audit", *both), ("book.toml",)),
            Scene("design.toml", commands("r.parquet")[1], ("r.parquet", "book.toml")),
        ],
        "reports-csv": reports,
        "reports-parquet": binary,
        "counts": [Scene("c.parquet", each, needs) for each in commands("c.parquet")],
        "data-csv": data["csv"],
        "data-parquet": data["parquet"],
        "data-statistical": [*data["sav"], *data["dta"]],
        "data-excel": data["xlsx"],
    }


def _write_formats() -> None:
    """The answers and numbers in files of other programs."""
    import pandas as pd
    import pyreadstat

    for name in ("s", "n"):
        frame = pd.read_csv(f"{name}.csv")
        frame.to_excel(f"{name}.xlsx", index=False)
        labels = {"w": {1: "one", 2: "two"}}
        pyreadstat.write_sav(frame, f"{name}.sav", variable_value_labels=labels)
        pyreadstat.write_dta(frame, f"{name}.dta", variable_value_labels=labels)
    pd.read_csv("n.csv").to_csv("e.csv", index=False, sep=";", decimal=",")


def _design_scenes() -> dict[str, list[Scene]]:
    designs, profiles = [], []
    for name in DESIGNS:
        file = f"designs/{name}.toml"
        designs.append(Scene(file, ("check", file)))
        designs.append(Scene(file, ("audit", "--design", file)))
    for name in PROFILES:
        file = f"profiles/{name}.toml"
        profiles.append(Scene(file, ("check", file), ("profiles/certificates",)))
    audit = ("audit", "--design", "design.toml", "--prior", "prior.toml")
    bound = (*SEARCH, "bound")
    short = (*SEARCH, "spea2", "--generations", "5")
    priors = [
        Scene("prior.toml", audit, ("design.toml",)),
        Scene("prior.toml", (*audit, "--codebook", "book.toml"), ("design.toml", "book.toml")),
        Scene("one-prior.toml", bound),
        Scene("one-prior.toml", (*bound, "--choose", "privacy=0.2")),
        Scene("one-prior.toml", short),
    ]
    return {"designs": designs, "profiles": profiles, "priors": priors}


def _result_scenes(done: Callable[..., None], names: Sequence[str]) -> list[Scene]:
    scenes = []
    for name in names:
        out = f"finished/{name}"
        done("run", f"{name}.toml", "--workers", "0", "--out", out)
        (folder,) = Path(out).iterdir()
        for page in ("report.html",):
            (folder / page).unlink(missing_ok=True)
        for file in ("result.nc", "manifest.json"):
            for command in (("show",), ("show", "--json"), ("show",), ("figures",), ("report",)):
                arguments = (command[0], str(folder), *command[1:])
                needs = (str(folder), f"{name}.toml")
                scenes.append(Scene(str(folder / file), arguments, needs, writes=True))
    return scenes


def _ledger_scenes(call: Call) -> list[Scene]:
    from ppdm_dask.engine.ledger import Ledger

    whole = Ledger.commit
    commits = iter(range(3))

    def interrupted(self: Ledger, *arguments: Any) -> None:
        whole(self, *arguments)
        if next(commits, None) is None:
            raise KeyboardInterrupt

    run = ("run", "answers.toml", "--workers", "0", "--repeats", "40", "--out", "begun/answers")
    with mock.patch.object(Ledger, "commit", interrupted):
        code, complaint = call(run)
    if code not in (0, 130):
        raise RuntimeError(f"the run that is broken off ended with {code}: {complaint}")
    (folder,) = Path("begun/answers").iterdir()
    if code == 0:  # few batches: the ledger is whole, but the run is said to be under way
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        manifest |= {"status": "running", "digest": None, "finished": None}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    needs = (str(folder), "answers.toml")
    file = str(folder / "ledger.sqlite")
    commands = (("show", str(folder)), (*run, "--dry-run"), run, ("show", str(folder), "--json"))
    scenes = [Scene(file, command, needs, writes=True) for command in commands]
    manifest_file = str(folder / "manifest.json")
    return scenes + [Scene(manifest_file, command, needs, writes=True) for command in commands]


def _checkpoint_scenes(call: Call, done: Callable[..., None]) -> list[Scene]:
    from ppdm_dask.engine.ledger import Ledger

    short = (*SEARCH, "spea2", "--generations", "5", "--checkpoint", "spea2.npz", "--out", "o")
    long = (*SEARCH, "memetic", "--generations", "5", "--checkpoint", "memetic.npz", "--out", "o")
    done(*short)
    done(*long)
    further = [
        (*arguments[:-6], "--generations", "6", *arguments[-4:]) for arguments in (short, long)
    ]
    scenes = [
        Scene(file, arguments, ("one-prior.toml",), writes=True)
        for file, arguments in zip(("spea2.npz", "memetic.npz"), further, strict=True)
    ]

    def never(self: Ledger, *arguments: Any) -> None:
        raise KeyboardInterrupt

    run = ("run", "fronts.toml", "--workers", "0", "--out", "begun/fronts")
    with mock.patch.object(Ledger, "commit", never):
        call(run)
    (folder,) = Path("begun/fronts").iterdir()
    for file in sorted((folder / "checkpoints").glob("*.npz")):
        scenes.append(Scene(str(file), run, (str(folder), "fronts.toml"), writes=True))
    return scenes


def _golden_scenes(
    done: Callable[..., None],
    write: Callable[[Mapping[str, Mapping[str, Any]]], None],
    recipe: Mapping[str, Any],
) -> list[Scene]:
    from ppdm_dask.reproduce.golden import Golden

    write({"golden/answers": recipe, "golden/grades": {"small": {"answers": {"file": "a.toml"}}}})
    os.rename("golden/answers.toml", "golden/a.toml")
    common = ("reproduce", "--against", "golden", "--out", "made", "--workers", "0", "--no-page")
    done(*common, "--renew", "the first golden")
    path = Path("golden/answers/small.json")
    golden = Golden.read(path)
    replace(golden, digest="0" * 64).write(path)
    done(*common, code=1)  # a drift, which made/state.json remembers
    golden.write(path)
    # Goldens without a list of their checksums are believed, so damage gets further.
    shutil.copytree("golden", "loose")
    Path("loose/SHA256SUMS").unlink(missing_ok=True)
    scenes = []
    for folder in ("golden", "loose"):
        command = tuple(folder if word == "golden" else word for word in common)
        files = (f"{folder}/answers/small.json", f"{folder}/grades.toml", "made/state.json")
        scenes += [Scene(file, command, (folder, "made"), writes=True) for file in files]
    page = ("report", "made/reproduction.json")
    return [*scenes, Scene("made/reproduction.json", page, ("made",), writes=True)]
