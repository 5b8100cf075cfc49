"""pp.optimize and ppdm optimize: a front, a chosen design, and clear refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs.files import read_design, write_design
from ppdm_dask.errors import DesignError
from ppdm_dask.search.optimize import choose, chosen_design, optimize

PRIOR = [0.2, 0.5, 0.3]


@pytest.fixture(scope="module")
def optimum():
    return optimize(PRIOR, 1_000, 0.8, method="bound", privacy=0.3, categories=["a", "b", "c"])


@pytest.mark.parametrize("method", ["spea2", "memetic", "bound"])
def test_a_front_is_a_labelled_dataset(method):
    generations = None if method == "bound" else 50
    front = optimize(PRIOR, 1_000, 0.8, method=method, generations=generations, seed=3)
    assert dict(front.sizes) | {"point": 0, "reported": 0} == {"point": 0, "reported": 0, "true": 3}
    assert (np.diff(front["privacy"]) <= 0).all()
    np.testing.assert_allclose(front["matrix"].sum("reported"), 1, atol=1e-12)
    assert (front["mse"] >= front["bound"] * (1 - 1e-9)).all()
    assert float(front["worst"].max()) <= 0.8 + 1e-11
    least = {"spea2": 0.5, "memetic": 0.8, "bound": 1 - 1e-6}[method]
    assert least < front.attrs["hypervolume"] <= 1 + 1e-9
    again = optimize(PRIOR, 1_000, 0.8, method=method, generations=generations, seed=3)
    assert front.identical(again)


def test_the_chosen_design_is_usable(optimum):
    design = chosen_design(optimum, "answer", privacy=0.3)
    assert design.privacy(PRIOR) == pytest.approx(0.3, abs=1e-9)
    assert design.max_posterior(PRIOR) <= 0.8 + 1e-12
    assert design.n_reported > 3
    book = pp.Codebook((pp.Attribute("answer", ("a", "b", "c")),))
    rng = np.random.default_rng(2)
    records = pp.Records(rng.choice(3, 60_000, p=PRIOR).astype(np.uint8)[:, None], book)
    reports = design.disguise(records, pp.Stream.from_seed(1))
    estimate = pp.invert(pp.count(reports, design), design)
    error = np.sqrt(float(optimum["mse"][choose(optimum, privacy=0.3)]) * 1_000 / 60_000)
    assert np.abs(estimate.values - PRIOR).max() < 5 * error


def test_square_designs_are_square():
    front = optimize(PRIOR, 1_000, 0.8, generations=50)
    design = chosen_design(front, "answer", mse=float(front["mse"].max()))
    assert design.matrix().shape == (3, 3)


def test_choices_that_the_front_lacks_are_refused(optimum):
    assert optimum["privacy"][choose(optimum, privacy=0.3)] == pytest.approx(0.3)
    with pytest.raises(pp.InputError, match=r"^privacy: got 0.9; the front goes up to 0.49"):
        choose(optimum, privacy=0.9)
    with pytest.raises(pp.InputError, match=r"^mse: got 1e-09; the front begins at"):
        choose(optimum, mse=1e-9)
    with pytest.raises(pp.InputError, match="either privacy or mse"):
        choose(optimum)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"method": "nsga2"}, "^method: got 'nsga2'; one of spea2, memetic, bound"),
        ({"method": "bound", "generations": 5}, "not available for 'bound'"),
        ({"method": "memetic", "map": map}, "^map: 'memetic' has none; 'spea2' has"),
        ({"symbols": 2}, "^symbols: got 2; at least 3"),
        ({"categories": ["a"]}, "^categories: got 1 labels; 3 are needed"),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments, says):
    with pytest.raises(pp.InputError, match=says):
        optimize(
            PRIOR,
            1_000,
            0.8,
            **{"generations": 5, **arguments}
            if (arguments.get("method") != "bound")
            else arguments,
        )


def test_a_checkpoint_is_taken_up(tmp_path):
    path = tmp_path / "search.npz"
    optimize(PRIOR, 1_000, 0.8, method="spea2", generations=20, checkpoint=path)
    seen = []
    resumed = optimize(
        PRIOR,
        1_000,
        0.8,
        method="spea2",
        generations=50,
        checkpoint=path,
        progress=lambda done, whole: seen.append(done),
    )
    whole = optimize(PRIOR, 1_000, 0.8, method="spea2", generations=50)
    assert seen[0] == 21
    assert resumed.identical(whole)


def test_more_categories_than_can_be_listed_still_have_a_certified_limit():
    prior = np.full(20, 0.05)
    front = optimize(prior, 1_000, method="spea2", generations=5)
    # Of a uniform prior the limit is that of erasure.
    loss = 1 - front["privacy"].to_numpy()
    erasure = (1 - 1 / 20) ** 2 / (20 * 1_000 * (loss - 1 / 20))
    assert (front["bound"] <= erasure * (1 + 1e-9)).all()
    np.testing.assert_allclose(front["bound"], erasure, rtol=0.02)
    assert front.attrs["attained"] == "false"
    with pytest.raises(pp.InputError, match=r"^method: 'bound' lists all .* the prior has 20"):
        optimize(prior, 1_000, method="bound")


# -- files and the command -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "design",
    [
        pp.Warner("sex", 0.8),
        pp.RRMatrix("a b", [[0.5, 0.1], [0.25, 0.2], [0.25, 0.7]], p0=[0.3, 0.7]),
        pp.Product([pp.Warner("x", 0.8), pp.UnrelatedQuestion(["y", "z"], 0.5, [0.2, 0.3])]),
    ],
    ids=["warner", "tall", "product"],
)
def test_design_files_go_round(design, tmp_path):
    path = tmp_path / "design.toml"
    write_design(design, path, "Two\nlines.")
    assert path.read_text().startswith("# Two\n# lines.\n")
    assert read_design(path) == design
    assert read_design(path).digest == design.digest


def test_bad_design_files_are_one_clear_line(tmp_path):
    path = tmp_path / "design.toml"
    with pytest.raises(DesignError, match="there is no such file"):
        read_design(path)
    path.write_text('id = "warner"\nattribute = "a"\ntheta = 2')
    with pytest.raises(DesignError, match=r"design.toml: theta: got 2"):
        read_design(path)
    path.write_text("id = ")
    with pytest.raises(DesignError, match="this is not TOML"):
        read_design(path)


@pytest.fixture
def prior_file(tmp_path):
    path = tmp_path / "prior.toml"
    path.write_text('attribute = "answer"\n[prior]\na = 0.2\nb = 0.5\nc = 0.3\n')
    return path


def run_command(*arguments: object) -> int:
    return main(["optimize", *map(str, arguments)])


def test_the_command_writes_a_front_and_a_design_that_check_accepts(prior_file, tmp_path, capsys):
    out = tmp_path / "found"
    common = ("--prior", prior_file, "--n", 1_000, "--delta", 0.8, "--out", out)
    assert run_command(*common, "--method", "bound", "--choose", "privacy=0.3") == 0
    text = capsys.readouterr().out
    assert "certified limit" in text and "privacy 0.3000" in text
    assert (out / "front.nc").is_file()
    design = read_design(out / "design.toml")
    assert design.attributes == ("answer",)
    assert design.privacy(PRIOR) == pytest.approx(0.3, abs=1e-9)
    assert main(["check", str(out / "design.toml")]) == 0
    assert "design, matrix on answer" in capsys.readouterr().out
    assert run_command(*common, "--generations", 30, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "memetic" and len(found["front"]) > 20


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--delta", "0.4"), "error: --delta: got 0.4; a number above"),
        (("--choose", "utility=3"), "--choose: got 'utility=3'; privacy=0.5, mse=1e-4 or"),
        (
            ("--choose", "privacy=0.9"),
            "error: --choose: privacy: got 0.9; from 0 (1 - delta) to below 0.5",
        ),
        (("--symbols", "2"), "error: --symbols: got 2"),
    ],
)
def test_the_command_refuses_in_one_line(prior_file, tmp_path, capsys, arguments, says):
    out = tmp_path / "found"
    code = run_command(
        "--prior", prior_file, "--n", 100, "--generations", 3, "--out", out, *arguments
    )
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("ppdm: error: ") and says in error and error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'attribute = "a"\n[prior]\nx = 0.5\ny = 0.4\n',
            "prior: proportions sum to 0.9; 1 is needed",
        ),
        ('attribute = "a"\n[prior]\nx = 1.0\ny = 0.0\n', "category 'y' has proportion 0"),
        ('attribute = "a"\n[prior]\nx = 1.0\ny = 1e-17\n', "category 'y' has proportion 1e-17"),
        ('attribute = "a"\n[prior]\nx = 1.0\n', "2 or more categories are needed"),
        ('attribute = "a"\n[prior]\nx = -1\ny = 2\n', "prior.x: got -1; a proportion"),
        ("[prior.a]\nx = 1\n[prior.b]\ny = 1\n", "prior: has 'a', 'b'; one attribute is needed"),
        ("[prior]\nx = 0.5\ny = 0.5\n", "prior.x: got 0.5; a table of categories is needed"),
        ('attribute = "a"\n', "prior: got nothing; a table"),
        ('attribute = "a"\nn = 3\n[prior]\nx = 0.5\ny = 0.5\n', "n: got 3; there is no such key"),
    ],
)
def test_bad_prior_files_are_one_line(tmp_path, capsys, text, says):
    path = tmp_path / "prior.toml"
    path.write_text(text)
    assert run_command("--prior", path, "--n", 100, "--out", tmp_path / "o") == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert error.startswith(f"ppdm: error: {path}: ")
