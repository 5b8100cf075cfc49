"""Perturbation experiments: recipe, plan, result, findings, tables and figures."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from ppdm_dask.cli import main
from ppdm_dask.cli.output import print_result
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import RecipeError
from ppdm_dask.experiments.folder import read_run
from ppdm_dask.experiments.grid import moments
from ppdm_dask.experiments.kinds import (
    check_recipe,
    load_recipe,
    make_plan,
    recipe_from_config,
)
from ppdm_dask.experiments.perturbation import PERTURBATION
from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe
from ppdm_dask.experiments.perturbation.results import METRICS, PERTURBATION_REGISTRY
from ppdm_dask.experiments.perturbation.trials import CLASSIFIERS, stream_key
from ppdm_dask.experiments.results import digest, read_netcdf
from ppdm_dask.experiments.run import run
from ppdm_dask.files.documents import seal
from ppdm_dask.perturb import AIBR, disclosure, distortion
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.resources import pipelines_dir

BOOKS = pipelines_dir() / "codebooks"
CONFIG: dict[str, Any] = {
    "about": {"title": "A small perturbation", "references": ["Guo"]},
    "data": [
        {
            "id": "wbc",
            "set": "breast-cancer",
            "codebook": str(BOOKS / "breast-cancer.toml"),
            "incomplete": "drop",
            "duplicates": "drop",
            "binarise": "midrange",
        },
        {"id": "pid", "set": "pima", "codebook": str(BOOKS / "pima.toml"), "records": 120},
    ],
    "perturb": [
        {"id": "aibr", "method": "aibr", "published": 2, "sweep": {"k": [1, 2, 20]}},
        {"id": "cut", "method": "ssvd", "data": ["wbc"], "k": 7, "sweep": {"e": [0.05, 0.4]}},
    ],
    "usability": {"classifiers": ["svm", "naive-bayes"], "judges": ["svm"], "accept": 0.02},
    "sweep": {"repeats": 4, "seed": 5, "train": 0.8},
    "figure": [
        {"id": "fig", "kind": "usability", "title": "Loss", "perturb": "aibr", "data": "wbc"}
    ],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The small recipe with one value changed; ``...`` takes the key out."""
    config = copy.deepcopy(CONFIG)
    *parents, last = path.replace("[", ".").replace("]", "").split(".")
    at: Any = config
    for key in parents:
        at = at[int(key)] if isinstance(at, list) else at[key]
    if value is ...:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return config


def read(config: dict[str, Any] = CONFIG) -> PerturbationRecipe:
    recipe = recipe_from_config(config, source="my.toml")
    assert isinstance(recipe, PerturbationRecipe)
    return recipe


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The small recipe, run in this process."""
    return run(read(), workers=0, out=tmp_path_factory.mktemp("runs"))


# -- the recipe ------------------------------------------------------------------------------------


def test_the_published_recipe() -> None:
    recipe = load_recipe("aibr")
    assert isinstance(recipe, PerturbationRecipe)
    check_recipe(recipe)
    plan = make_plan(recipe)
    assert [len(prepared.records) for prepared in plan.prepared] == [449, 768]
    sizes = {prepared.entry.id: len(prepared.records) for prepared in plan.prepared}
    for spec in recipe.perturb[:2]:
        n_train = round(0.8 * sizes[spec.data[0]])
        assert spec.values == tuple(range(1, round(n_train / 20) + 1))
    published = {(s.data, s.spec.method, s.value) for s in recipe.settings if s.published}
    wbc = {(0, "aibr", 2), (0, "kcg", 9), (0, "bsvd", 7), (0, "ssvd", 0.45)}
    assert published == wbc | {(1, "aibr", 4), (1, "kcg", 5), (1, "bsvd", 6), (1, "ssvd", 0.15)}
    assert recipe.sweep.repeats == 50
    assert recipe.usability.judges == ("1nn", "svm", "entropy-tree")
    assert recipe.usability.classifiers == ("1nn", "svm", "entropy-tree", "naive-bayes", "id3")
    assert set(recipe.usability.classifiers) <= set(CLASSIFIERS)


def test_the_longer_variant_differs_in_repeats_alone() -> None:
    short, long = load_recipe("aibr"), load_recipe("aibr-500")
    assert long.sweep.repeats == 500
    assert short.with_changes(repeats=500).digest == long.digest != short.digest


def test_plain_tables_and_back() -> None:
    recipe = read()
    again = recipe_from_config(json.loads(json.dumps(recipe.config())), source="my.toml")
    assert again == recipe
    assert again.digest == recipe.digest
    assert read(changed("about.title", "Another")).digest == recipe.digest
    for path, value in (("sweep.seed", 6), ("usability.accept", 0.03), ("perturb[1].k", 6)):
        assert read(changed(path, value)).digest != recipe.digest
    assert recipe.with_changes(repeats=9, seed=1).sweep.repeats == 9
    assert recipe.labels == (
        "aibr k=1",
        "aibr k=2",
        "aibr k=20",
        "ssvd k=7 e=0.05",
        "ssvd k=7 e=0.4",
    )
    assert len(recipe.settings) == 5 + 3


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("perturb", [], "perturb: got []; at least one table [[perturb]] is needed"),
        ("perturb[0].method", "abir", 'perturb[0].method: got "abir"; did you mean "aibr"? '),
        ("perturb[0].sweep", ..., "perturb[0].sweep: got nothing; a table [perturb.sweep]"),
        ("perturb[0].sweep.k", [], "perturb[0].sweep.k: got []; a list of at least one value"),
        ("perturb[0].sweep.k", [2, 0], "perturb[0].sweep.k[1]: got 0; a whole number"),
        ("perturb[0].sweep.e", [0.1], "perturb[0].sweep: got "),
        ("perturb[0].published", 3, "perturb[0].published: got 3; one of the values of k"),
        (
            "perturb[0].data",
            ["wbd"],
            'perturb[0].data[0]: got "wbd"; did you mean "wbc"? the id of a',
        ),
        ("perturb[0].k", 3, "perturb[0].k: got 3; sweep.k gives the values"),
        ("perturb[0].knack", 3, "perturb[0].knack: got 3; not a parameter of 'aibr'"),
        ("perturb[1].k", ..., "perturb[1].k: got nothing; missing; 'ssvd' needs it"),
        ("perturb[1].id", "aibr", 'perturb[1].id: got "aibr"; another entry has this id'),
        ("usability.accept", 2, "usability.accept: got 2; a share between 0 and 1"),
        ("usability.judges", ["1nn"], 'usability.judges[0]: got "1nn"; one of `classifiers`'),
        (
            "usability.classifiers",
            ["svn"],
            'usability.classifiers[0]: got "svn"; did you mean "svm"? a classifier',
        ),
        ("metrics", {"interval": 0}, "metrics.interval: got 0; a share between 0 and 1"),
        ("metrics", ["naive-bayes"], 'metrics: got ["naive-bayes"]; a table [metrics] is'),
        ("perturb[0].published", [2], "perturb[0].published: got [2]; a text or a finite"),
        ("metrics", {"width": 0.1}, "metrics.width: got 0.1; there is no such key"),
        ("sweep.train", 1, "sweep.train: got 1; a share between 0 and 1"),
        ("sweep.repeats", 0, "sweep.repeats: got 0; a whole number of 1 or more"),
        ("sweep.split", "fixed", 'sweep.split: got "fixed"; there is no such key'),
        ("figure[0].perturb", "abc", 'figure[0].perturb: got "abc"; the id of a [[perturb]]'),
        ("figure[0].kind", "mean", 'figure[0].kind: got "mean"; a kind of figure is needed'),
        ("data[0].duplicates", "dorp", 'data[0].duplicates: got "dorp"; did you mean "drop"?'),
        ("design", {"family": "unrelated"}, "design: got "),
    ],
)
def test_a_wrong_key_is_one_line(path: str, value: Any, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        check_recipe(read(changed(path, value)))
    text = str(caught.value)
    assert text.startswith(f"my.toml: {message}")
    assert "\n" not in text


def test_figures_name_the_data_of_their_entry() -> None:
    config = changed("figure[0].perturb", "cut")
    config["figure"][0]["data"] = "pid"
    with pytest.raises(RecipeError, match=r"figure\[0\].data: got \"pid\"; a data entry of 'cut'"):
        read(config)


def test_the_same_setting_twice_is_refused() -> None:
    config = copy.deepcopy(CONFIG)
    config["perturb"].append({"id": "more", "method": "aibr", "sweep": {"k": [2, 3]}})
    with pytest.raises(RecipeError, match="'aibr' has aibr k=2 on 'wbc' already"):
        read(config)


def test_settings_that_the_data_forbid_are_refused_before_the_run(tmp_path: Path) -> None:
    recipe = read(changed("perturb[0].sweep.k", [1, 2, 100]))
    what = r"perturb\[0\]: aibr k=100 on the training part of 'pid': k: got 100; there are 96"
    with pytest.raises(RecipeError, match=what):
        run(recipe, workers=0, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_nominal_attributes_are_refused() -> None:
    config = changed("data[1]", {"id": "v", "set": "votes", "codebook": str(BOOKS / "votes.toml")})
    with pytest.raises(
        RecipeError, match=r"data\[1\].codebook: got .* is nominal, and only numbers"
    ):
        check_recipe(read(config))


def test_duplicates_are_dropped_on_request() -> None:
    sizes = {}
    for duplicates in ("keep", "drop"):
        plan = make_plan(read(changed("data[0].duplicates", duplicates)))
        sizes[duplicates] = len(plan.prepared[0].records)
    assert sizes == {"keep": 683, "drop": 449}
    # Writing out the default changes no key.
    left_out = make_plan(read(changed("data[0].duplicates", ...))).cells
    kept = make_plan(read(changed("data[0].duplicates", "keep"))).cells
    assert [cell.key for cell in left_out] == [cell.key for cell in kept]


# -- trials ----------------------------------------------------------------------------------------


def test_a_trial_is_what_a_user_would_type() -> None:
    plan = make_plan(read())
    cell = next(cell for cell in plan.cells if cell.id == "wbc aibr k=2")
    found = plan.work.trials(cell, 2, 4)
    work: Any = plan.work
    material = next(iter(work.materials.values()))
    for row, repeat in enumerate((2, 3)):
        train, test = material.sample.parts(5, repeat)
        stream = SimulationStream(5, (stream_key(cell.params), repeat))
        original = material.values[train]
        released = AIBR(2).fit(original).perturb(original, stream.child(1))
        for name, value in distortion(original, released)._asdict().items():
            assert found[name][row] == value
        assert found["linkage"][row] == disclosure(original, released).linkage
        classes = material.sample.records.column("class")
        model = make_pipeline(MinMaxScaler(), SVC(kernel="linear")).fit(released, classes[train])
        expected = (model.predict(material.values[test]) == classes[test]).sum()
        assert found["correct"][row, 0] == expected
        assert len(train) + len(test) == 449


def test_classifiers_move_no_other_number() -> None:
    alone = make_plan(read(changed("usability.classifiers", ["svm"])))
    both = make_plan(read())
    for one, two in zip(alone.cells, both.cells, strict=True):
        first, second = alone.work.trials(one, 0, 2), both.work.trials(two, 0, 2)
        np.testing.assert_array_equal(first["correct"][:, 0], second["correct"][:, 0])
        for name in set(first) - {"correct"}:
            np.testing.assert_array_equal(first[name], second[name])


def test_every_classifier_learns() -> None:
    config = changed("usability", {"accept": 0.02})
    plan = make_plan(read(config))
    wbc, pid = plan.work.trials(plan.cells[0], 0, 3), plan.work.trials(plan.cells[1], 0, 3)
    assert (wbc["correct"].mean(axis=0) / 90 > 0.88).all()
    assert (pid["correct"].mean(axis=0) / 24 > 0.5).all()


# -- the result ------------------------------------------------------------------------------------


def test_statistics_of_the_result(finished: Any) -> None:
    ds = finished.dataset
    assert list(ds.data_vars) == [variable.name for variable in PERTURBATION_REGISTRY]
    assert all(ds[name].attrs["long_name"] for name in ds.data_vars)
    assert ds.sizes == {"data": 2, "setting": 5, "classifier": 2, "repeat": 4}
    wbc = ds.sel(data="wbc")
    before, after = wbc["benchmark_correct"].to_numpy(), wbc["correct"].to_numpy()
    for s in range(5):
        for c in range(2):
            r = moments((before[c] - after[s, c]) / before[c])
            assert wbc["r_mean"][s, c] == pytest.approx(r.mean)
            assert wbc["r_mean_se"][s, c] == pytest.approx(r.mean_se)
            delta = after[s, c] / 90 - 0.98 * before[c] / 90
            assert wbc["delta_r_mean"][s, c] == pytest.approx(delta.mean())
        for name in METRICS:
            values = wbc[name][s].to_numpy()
            assert wbc[f"{name}_mean"][s] == pytest.approx(values.mean())
            assert wbc[f"{name}_mean_se"][s] == pytest.approx(values.std(ddof=1) / 2)
    pid = ds.sel(data="pid")
    assert (pid["undefined"] != "").to_numpy().tolist() == [False] * 3 + [True] * 2
    assert (pid["completed"] == [4, 4, 4, 0, 0]).all()
    assert np.isnan(pid["vd_mean"][3:]).all()
    assert wbc["published"].to_numpy().tolist() == [0, 1, 0, 0, 0]
    for i in range(2):
        _assert_choice(ds.isel(data=i))


def _assert_choice(part: Any) -> None:
    """The most private acceptable setting of each entry, judged by the SVM alone."""
    orders = {"aibr": ["aibr k=1", "aibr k=2", "aibr k=20"]}
    orders["cut"] = ["ssvd k=7 e=0.4", "ssvd k=7 e=0.05"]
    for entry, order in orders.items():
        rows = part.sel(setting=order)
        if entry not in part["entry"].to_numpy():
            continue
        good = rows["r_mean"].sel(classifier="svm").to_numpy() < 0.02
        expected = [0] * len(order)
        if good.any():
            expected[int(np.argmax(good))] = 1
        assert rows["chosen"].to_numpy().tolist() == expected


def test_findings_name_the_choice(finished: Any) -> None:
    found = PERTURBATION.findings(finished.dataset)
    assert found == finished.findings
    assert any(text.startswith("wbc, aibr: aibr k=") for text in found)
    one = finished.dataset.sel(data="wbc", setting="aibr k=2", classifier="svm")
    if not int(one["chosen"]):
        r = f"{float(one['r_mean']):.4f}"
        assert any(f"at the published setting, aibr k=2, the largest r is {r}" in t for t in found)


def test_the_digest_depends_on_the_numbers_alone(finished: Any, tmp_path: Path) -> None:
    again = run(read(), workers=0, batch_seconds=0.01, out=tmp_path / "a")
    assert again.digest == finished.digest
    stored = read_netcdf(again.folder / "result.nc")
    assert digest(stored) == finished.digest
    assert run(read(), workers=0, out=again.folder).digest == finished.digest
    assert run(read().with_changes(seed=6), workers=0, out=tmp_path / "c").digest != finished.digest
    altered = stored.copy(deep=True)
    altered["vd"][0, 0, 0] += 1e-12
    assert digest(altered) != finished.digest


@pytest.mark.cluster
def test_the_digest_on_workers(finished: Any, tmp_path: Path) -> None:
    assert run(read(), workers=2, out=tmp_path).digest == finished.digest


def test_an_unfinished_run_is_read_and_resumed(finished: Any, tmp_path: Path) -> None:
    recipe = read()
    whole = run(recipe, workers=0, out=tmp_path)
    manifest = json.loads((whole.folder / "manifest.json").read_text())
    manifest["status"] = "partial"
    (whole.folder / "manifest.json").write_text(json.dumps(seal(manifest)))
    (whole.folder / "ledger.sqlite").unlink()
    plan = make_plan(recipe)
    with Ledger(whole.folder / "ledger.sqlite") as ledger:
        for cell in plan.cells[:3]:
            ledger.commit(cell, 1, 3, plan.work.trials(cell, 1, 3), 0.1)
    partial = read_run(whole.folder)
    assert not partial.finished
    ds = partial.dataset.sel(data="wbc", setting="aibr k=1")
    assert (int(ds["completed"]), int(ds["chosen"])) == (2, -1)
    assert ds["correct"].to_numpy()[:, [0, 3]].tolist() == [[-1, -1]] * 2
    assert PERTURBATION.findings(partial.dataset) == []
    assert run(recipe, workers=0, out=tmp_path).digest == finished.digest


# -- tables, figures and commands ------------------------------------------------------------------


def test_tables_fit_80_columns(
    finished: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = read(changed("usability", {"accept": 0.02}))
    with Ledger(tmp_path / "empty.sqlite") as ledger:
        print_result(make_plan(many).collect(ledger))  # headings with all classifiers, no number
    print_result(finished.dataset)
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    vd = finished.dataset["vd_mean"].sel(data="wbc", setting="aibr k=2").item()
    assert any(line.startswith("aibr k=2 *") and f"{vd:.3f}±" in line for line in lines)


def test_show_figures_check_and_dry_run(
    finished: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(finished.folder)
    assert main(["show", folder, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["digest"] == finished.digest
    assert len(shown["cells"]) == 8
    cell = next(c for c in shown["cells"] if c["data"] == "wbc" and c["setting"] == "aibr k=2")
    ds = finished.dataset.sel(data="wbc", setting="aibr k=2")
    assert cell["rp_mean"] == ds["rp_mean"].item()
    assert cell["classifiers"]["svm"]["r_mean"] == ds["r_mean"].sel(classifier="svm").item()
    assert cell["published"] == 1
    assert main(["figures", folder]) == 0
    assert capsys.readouterr().out.split() == [
        str(finished.folder / "figures" / f"fig.{kind}") for kind in ("png", "svg")
    ]
    assert main(["check", "aibr"]) == 0
    out = capsys.readouterr().out
    assert "110 cells of 50 repeats; wbc (449 records), pid (768 records)" in out
    assert main(["run", "aibr", "--repeats", "2", "--out", str(tmp_path), "--dry-run"]) == 0
    assert "aibr: 0 of 224 repeats are done" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_relative_paths_start_at_the_recipe(tmp_path: Path) -> None:
    recipe = replace(read(changed("data[0].codebook", "books/b.toml")), base=tmp_path)
    with pytest.raises(RecipeError, match=r"data\[0\].codebook: got 'books/b.toml'; there is no f"):
        check_recipe(recipe)


def test_sweeps_load_no_perturbation(fresh_python: Callable[[str], str]) -> None:
    code = (
        "import sys; from ppdm_dask.experiments.kinds import load_recipe; "
        "load_recipe('electronic-surveys'); "
        "print(*(name for name in sys.modules if name.startswith('ppdm_dask.perturb')))"
    )
    assert fresh_python(code).split() == []
