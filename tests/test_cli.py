"""The command line: what it prints, its exit codes, and one line for a user's mistake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_recipe import CODEBOOK, CONFIG, changed, write_recipe

import ppdm_dask as pp
from ppdm_dask import __version__, datasets
from ppdm_dask.cli import main
from ppdm_dask.errors import RunInterrupted
from ppdm_dask.experiments.results import digest, read_netcdf

Capture = pytest.CaptureFixture[str]
PPDM = [sys.executable, "-W", "error", "-m", "ppdm_dask"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A recipe, its run's folder, and what the run printed."""
    folder = tmp_path_factory.mktemp("finished")
    recipe = write_recipe(folder / "small.toml", changed("figure", CONFIG["figure"][:1]))
    command = [*PPDM, "run", str(recipe), "--workers", "0", "--out", str(folder / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    (run,) = (folder / "runs").iterdir()
    return recipe, run, done.stdout


def refused(capsys: Capture, *arguments: str | Path) -> str:
    """The one line with which a command is refused."""
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ppdm: error: ")
    assert err.count("\n") == 1
    return err.removeprefix("ppdm: error: ").rstrip("\n")


def read_json(capsys: Capture, *arguments: str | Path, code: int = 0) -> Any:
    assert main([*map(str, arguments), "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


# -- a run -------------------------------------------------------------------------------------


def test_run_prints_tables_folder_and_the_digest_last(finished: tuple[Path, Path, str]) -> None:
    _, run, out = finished
    lines = out.rstrip("\n").split("\n")
    ds = read_netcdf(run / "result.nc")
    assert lines[-1] == f"digest: {digest(ds)}"
    assert lines[-2] == f"folder: {run}"
    assert lines[0] == "A small recipe"
    assert f"cancer: {559} training and {140} test records" in lines
    mean = ds["accuracy_mean"].sel(data="cancer", q=0.5).item()
    error = ds["accuracy_mean_se"].sel(data="cancer", q=0.5).item()
    assert any(f"{mean:.4f} ± {error:.4f}" in line for line in lines)
    assert "undefined at q = 0: at q = 0 every report is the personal answer" in lines


def test_a_piped_table_has_80_columns_and_no_control_codes(
    finished: tuple[Path, Path, str], capsys: Capture
) -> None:
    text = finished[2]
    for arguments in (["list"], ["show", str(finished[1])]):
        assert main(arguments) == 0
        text += capsys.readouterr().out
    tables = [line for line in text.split("\n") if not line.startswith(("finding:", "folder:"))]
    assert max(map(len, tables)) <= 80
    assert "\x1b" not in text
    assert "…" not in text


def test_a_run_leaves_manifest_result_ledger_and_figures(finished: tuple[Path, Path, str]) -> None:
    _, run, out = finished
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert out.endswith(f"digest: {manifest['digest']}\n")
    assert {path.name for path in run.iterdir()} >= {"ledger.sqlite", "result.nc", "figures"}
    assert {path.name for path in (run / "figures").iterdir()} == {"means.png", "means.svg"}
    assert not [path for path in run.rglob(".*") if path.suffix in {".nc", ".json", ".png"}]


def test_the_same_command_finds_it_done(finished: tuple[Path, Path, str], capsys: Capture) -> None:
    recipe, run, out = finished
    (plan,) = read_json(capsys, "run", recipe, "--out", run.parent, "--dry-run")
    # 2 data entries with 2 defined cells of 4 repeats, and a benchmark each.
    assert (plan["repeats"], plan["done"], plan["exists"]) == (18, 18, True)
    assert plan["folder"] == str(run)
    assert main(["run", str(recipe), "--workers", "0", "--out", str(run)]) == 0
    assert capsys.readouterr().out.split("\n")[-2] == out.split("\n")[-2]


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    recipe = write_recipe(tmp_path / "small.toml")
    assert main(["run", str(recipe), "--repeats", "9", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "small: 0 of 38 repeats are done" in out
    assert "(not there yet)" in out
    assert [line.split()[:3] for line in out.split("\n") if line.startswith("cancer q=0.5")] == [
        ["cancer", "q=0.5", "0"]
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_options_override_the_recipe(tmp_path: Path, capsys: Capture) -> None:
    recipe = write_recipe(tmp_path / "small.toml", changed("data", [_first()]) | {"figure": []})
    options = ["--repeats", "3", "--workers", "0"]
    assert main(["run", str(recipe), *options, "--seed", "1"]) == 0
    assert main(["run", str(recipe), *options, "--seed", "2"]) == 0
    digests = {line for line in capsys.readouterr().out.split("\n") if line.startswith("digest")}
    assert len(digests) == 2
    manifests = [json.loads(path.read_text()) for path in Path("runs").glob("*/manifest.json")]
    assert sorted(m["seed"] for m in manifests) == [1, 2]
    assert {m["recipe"]["sweep"]["repeats"] for m in manifests} == {3}


def _first() -> dict[str, Any]:
    return {"id": "cancer", "set": "breast-cancer", "codebook": CODEBOOK, "binarise": "midrange"}


def test_json_of_a_run_and_of_show_agree(finished: tuple[Path, Path, str], capsys: Capture) -> None:
    recipe, run, _ = finished
    shown = read_json(capsys, "show", run)
    assert main(["run", str(recipe), "--workers", "0", "--out", str(run.parent), "--json"]) == 0
    (ran,) = json.loads(capsys.readouterr().out)
    assert shown.pop("status") == "finished"
    assert ran == shown
    assert [entry["id"] for entry in ran["data"]] == ["cancer", "first-300"]
    assert len(ran["cells"]) == 6
    undefined = ran["cells"][0]
    assert (undefined["q"], undefined["accuracy_mean"]) == (0, None)
    assert undefined["undefined"]


def test_figures_are_drawn_again(finished: tuple[Path, Path, str], capsys: Capture) -> None:
    _, run, _ = finished
    picture = run / "figures" / "means.svg"
    before = picture.read_bytes()
    picture.unlink()
    files = read_json(capsys, "figures", run)
    assert str(picture) in files
    assert picture.read_bytes() == before


def test_quarantined_trials_exit_1(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(tmp_path / "small.toml", changed("figure", []))
    run = pp.run

    def quarantine(*arguments: Any, **options: Any) -> Any:
        result = run(*arguments, **options)
        outcome = replace(result.outcome, quarantined=("cell cancer q=0.5, repeat 2: killed",))
        return replace(result, digest=None, outcome=outcome)

    monkeypatch.setattr(pp, "run", quarantine)
    assert main(["run", str(recipe), "--workers", "0"]) == 1
    out, err = capsys.readouterr()
    assert "ppdm: quarantined: cell cancer q=0.5, repeat 2: killed\n" in err
    assert out.endswith("digest: none, since trials were quarantined\n")


# -- interruption ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stop", [RunInterrupted("stopped with 3 of 9 stored"), KeyboardInterrupt()]
)
def test_an_interrupted_run_exits_130_and_says_how_to_resume(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    recipe = write_recipe(tmp_path / "my small.toml")

    def interrupted(*_: Any, **__: Any) -> None:
        raise stop

    monkeypatch.setattr(pp, "run", interrupted)
    for before in ([], ["-v"]):
        assert main([*before, "run", str(recipe), "--workers", "0"]) == 130
        err = capsys.readouterr().err
        command = " ".join(["ppdm", *before, "run", f"'{recipe}'", "--workers", "0"])
        assert err.endswith(f"resume with the same command: {command}\n")
        assert "Traceback" not in err


def test_ctrl_c_in_a_real_run_then_show_then_the_same_command(
    tmp_path: Path, capsys: Capture
) -> None:
    recipe = write_recipe(tmp_path / "long.toml", changed("figure", []))
    command = [*PPDM, "run", str(recipe), "--workers", "0", "--repeats", "500000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        deadline = time.monotonic() + 60
        # The first line of progress; then wait for more than the two benchmarks.
        assert b"0 of 2,000,002 repeats" in process.stderr.readline()
        while time.monotonic() < deadline and _done(recipe, capsys) <= 2:
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert time.monotonic() - began < 20
    assert out == b""
    assert b"Traceback" not in err
    assert b"resume with the same command: ppdm run" in err
    (run,) = Path("runs").iterdir()
    shown = read_json(capsys, "show", run)
    assert shown["status"] == "partial"
    assert shown["digest"] is None
    assert 0 < sum(cell["completed"] for cell in shown["cells"]) < 2_000_000
    assert main(["show", str(run)]) == 0
    assert capsys.readouterr().out.endswith("unfinished: no digest yet\n")
    assert main(["figures", str(run)]) == 0


def _done(recipe: Path, capsys: Capture) -> int:
    plan = read_json(capsys, "run", recipe, "--repeats", "500000", "--dry-run")[0]
    return int(plan["done"])


def test_a_broken_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*PPDM, "list"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""


# -- what a user can get wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("sweep.repeets", 3, 'sweep.repeets: got 3; there is no such key, did you mean "repeats"?'),
        ("sweep.grid.q", [1, 1.5], "sweep.grid.q[1]: got 1.5; a probability in [0, 1] is needed"),
        ("data[0].set", "adlut", 'data[0].set: got "adlut"; did you mean "adult"?'),
    ],
)
def test_bad_recipes(tmp_path: Path, capsys: Capture, path: str, value: Any, expected: str) -> None:
    recipe = write_recipe(tmp_path / "bad.toml", changed(path, value))
    for command in ("check", "run"):
        assert refused(capsys, command, recipe).startswith(f"{recipe}: {expected}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.toml"]


def test_a_damaged_data_file(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "damaged.parquet"
    content = bytearray(datasets.describe("breast-cancer").path.read_bytes())
    content[100] ^= 1
    damaged.write_bytes(content)
    info = datasets.describe("breast-cancer")
    monkeypatch.setattr(datasets.DatasetInfo, "path", damaged)
    recipe = write_recipe(tmp_path / "small.toml")
    text = refused(capsys, "run", recipe)
    assert text.startswith(f"{damaged}: damaged: ")
    assert info.sha256 in text
    assert not Path("runs").exists()


def test_a_codebook_that_lacks_a_category(tmp_path: Path, capsys: Capture) -> None:
    book = tmp_path / "book.toml"
    text = Path(CODEBOOK).read_text(encoding="utf-8")
    assert '"malignant"' in text
    book.write_text(text.replace('"malignant"', '"malign"'), encoding="utf-8")
    recipe = write_recipe(tmp_path / "small.toml", changed("data[0].codebook", str(book)))
    for command in ("check", "run"):
        line = refused(capsys, command, recipe)
        assert line.startswith(
            f"{book}: does not fit the data of 'cancer': attribute 'class', row "
        )
        assert "'malignant' is not declared" in line
    assert not Path("runs").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path, capsys: Capture) -> None:
    recipe = write_recipe(tmp_path / "small.toml")
    (tmp_path / "file").write_text("")
    line = refused(capsys, "run", recipe, "--out", tmp_path / "file" / "runs")
    assert line.startswith(f"{tmp_path / 'file' / 'runs' / 'small-'}")
    assert line.endswith(": the run's folder cannot be made: Not a directory")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "small.toml"]


def test_the_folder_of_another_recipe(
    tmp_path: Path, capsys: Capture, finished: tuple[Path, Path, str]
) -> None:
    other = write_recipe(tmp_path / "other.toml", changed("sweep.seed", 8))
    before = {path: path.read_bytes() for path in finished[1].rglob("*") if path.is_file()}
    line = refused(capsys, "run", other, "--out", finished[1])
    assert line.startswith(f"{finished[1]} is a run of small (")
    assert ", not of other (" in line
    assert {path: path.read_bytes() for path in finished[1].rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "electronic-surveys", "--repeats", "0"], "Invalid value for '--repeats': "),
        (["run", "electronic-surveys", "--workers", "-1"], "Invalid value for '--workers': "),
        (["run", "electronic-surveys", "--workrs", "1"], "No such option: --workrs"),
        (["run"], "Missing argument 'RECIPE...'"),
        (["rum"], "No such command 'rum'"),
        (["list", "miners"], "Invalid value for '"),  # kind, or as older versions of typer show it
        (["run", "electronic-survey"], "no recipe is called 'electronic-survey'"),
        (["run", "none.toml"], "none.toml: there is no such file"),
        (["show", "nowhere"], "nowhere: this is not a run's folder, it has no manifest.json"),
        (["figures", "nowhere"], "nowhere: this is not a run's folder, it has no manifest.json"),
        (["check", "none.toml"], "none.toml: there is no such file"),
    ],
)
def test_usage_errors(capsys: Capture, arguments: list[str], expected: str) -> None:
    assert refused(capsys, *arguments).startswith(expected)
    assert list(Path().iterdir()) == []


def test_a_later_bad_recipe_stops_before_the_first_is_run(tmp_path: Path, capsys: Capture) -> None:
    good = write_recipe(tmp_path / "good.toml")
    bad = write_recipe(tmp_path / "bad.toml", changed("sweep.train", 2.5))
    assert refused(capsys, "run", good, bad).startswith(f"{bad}: sweep.train: got 2.5; ")
    assert not Path("runs").exists()


# -- check, list, help -------------------------------------------------------------------------


def test_check_tells_recipes_from_codebooks(tmp_path: Path, capsys: Capture) -> None:
    recipe = write_recipe(tmp_path / "small.toml")
    assert main(["check", str(recipe), CODEBOOK, "electronic-surveys"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == (
        f"{recipe}: recipe, 6 cells of 4 repeats; cancer (699 records), first-300 (300 records)"
    )
    assert lines[1] == f"{CODEBOOK}: codebook, 10 attributes, target class"
    assert lines[2].startswith("electronic-surveys: recipe, 36 cells of 1,000 repeats; adult-mid")


def test_check_goes_on_after_a_bad_file(tmp_path: Path, capsys: Capture) -> None:
    neither = tmp_path / "neither.toml"
    neither.write_text("[tool]\nx = 1\n")
    found = read_json(capsys, "check", neither, CODEBOOK, code=2)
    assert [each["ok"] for each in found] == [False, True]
    assert found[0]["summary"].startswith(
        f"{neither}: neither a recipe, which has [sweep] and [perturb], or [search]"
    )


def test_list(capsys: Capture) -> None:
    found = read_json(capsys, "list")
    assert list(found) == ["recipes", "designs", "datasets"]
    recipes = {each["recipe"]: each for each in found["recipes"]}
    assert recipes["electronic-surveys"].items() >= {"cells": 36, "repeats": 1000}.items()
    assert recipes["aibr"].items() >= {"cells": 110, "repeats": 50}.items()
    assert {each["design"] for each in found["designs"]} >= {"identity", "warner", "unrelated"}
    assert [each["records"] for each in found["datasets"]] == [48_842, 699, 435, 768]
    assert list(read_json(capsys, "list", "designs")) == ["designs"]
    assert main(["list", "datasets"]) == 0
    assert "48,842" in capsys.readouterr().out


def test_help_and_version(capsys: Capture) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert all(f" {name} " in out for name in ("list", "check", "run", "show", "figures"))
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ppdm {__version__}\n"


def test_help_imports_nothing_heavy(fresh_python: Callable[[str], str]) -> None:
    code = """
import sys
from ppdm_dask.cli import main
assert main(["--help"]) == main(["run", "--help"]) == 0
heavy = "numpy pandas numba xarray dask distributed scipy sklearn matplotlib deap h5py".split()
print([name for name in heavy if name in sys.modules])
"""
    assert fresh_python(code).rstrip().endswith("[]")


def test_an_output_without_unicode_still_works(finished: tuple[Path, Path, str]) -> None:
    done = subprocess.run(
        [*PPDM, "show", str(finished[1])],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert b"accuracy ? SE" in done.stdout


def test_ctrl_c_while_a_text_is_run_ends_with_130(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(
        "import sys\n"
        "from ppdm_dask import cli\n"
        "def parse(**given):\n"
        "    exec('raise KeyboardInterrupt')\n"
        "import ppdm_dask.cli.app as app\n"
        "app.parser = parse\n"
        "sys.exit(cli.main(['list']))\n"
    )
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "ppdm: interrupted\n")
