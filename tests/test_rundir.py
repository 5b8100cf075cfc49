"""The run's folder: its name, whose it is, and that nothing is left behind where it cannot be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from small_recipe import CONFIG, changed

import ppdm_dask
from ppdm_dask.engine.environment import code_version
from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.folder import RunFolder, read_run, run_id
from ppdm_dask.experiments.sweep.recipe import Recipe
from ppdm_dask.files.documents import seal

INPUTS = {"cancer": {"data": "d", "codebook": "c"}, "first-300": {"data": "d", "codebook": "e"}}


def small(**changes: int) -> Recipe:
    return Recipe.from_config(CONFIG, source="small.toml").with_changes(**changes)


def line(error: pytest.ExceptionInfo[RunFolderError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_the_run_id_comes_from_recipe_seed_and_sources() -> None:
    package = Path(ppdm_dask.__file__).parent
    sha = hashlib.sha256()
    for name in sorted(str(path.relative_to(package)) for path in package.rglob("*.py")):
        content = (package / name).read_bytes()
        sha.update(f"{name}\n{len(content)}\n".encode() + content)
    assert code_version() == sha.hexdigest()
    recipe = small()
    text = f"{recipe.digest}\n7\n{code_version()}"
    assert run_id(recipe) == hashlib.sha256(text.encode()).hexdigest()[:12]
    assert len({run_id(recipe), run_id(small(seed=8)), run_id(small(repeats=5))}) == 3


def test_planning_writes_nothing(tmp_path: Path) -> None:
    folder = RunFolder.plan(small(), tmp_path / "runs")
    assert folder.path == tmp_path / "runs" / f"small-{run_id(small())}"
    assert folder.read() is None
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_taken_up_again_by_parent_or_by_folder(tmp_path: Path) -> None:
    folder = RunFolder.plan(small(), tmp_path / "runs")
    folder.start(INPUTS)
    first = json.loads(folder.manifest.read_text())
    assert first["status"] == "running"
    assert first["simulated"] is True
    assert first["recipe_digest"] == small().digest
    assert first["environment"]["versions"]["numpy"]
    folder.finish("finished", digest="00ff", findings=["one"], seconds=1.5)
    for out in (tmp_path / "runs", folder.path):
        again = RunFolder.plan(small(), out)
        assert again.path == folder.path
        found = again.read()
        assert found is not None
        assert (found["status"], found["digest"], found["findings"]) == (
            "finished",
            "00ff",
            ["one"],
        )
        assert found["seconds"] == 1.5
    again.start(INPUTS)
    restarted = again.read()
    assert restarted is not None
    assert (restarted["status"], restarted["digest"]) == ("running", None)
    assert restarted["started"] == first["started"]


def test_the_manifest_gives_the_recipe_back(tmp_path: Path) -> None:
    folder = RunFolder.plan(small(repeats=9), tmp_path)
    folder.start(INPUTS)
    opened = RunFolder.open(folder.path)
    assert opened.recipe == small(repeats=9)
    assert (opened.id, opened.recipe.name) == (folder.id, "small")
    assert opened.recipe.path("x") == Path.cwd() / "x"


def test_the_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.plan(small(), tmp_path)
    folder.start(INPUTS)
    other = small(seed=8)
    with pytest.raises(RunFolderError) as error:
        RunFolder.plan(other, folder.path)
    assert line(error) == (
        f"{folder.path} is a run of small ({folder.id}), not of small ({run_id(other)})"
    )


def test_other_data_are_refused(tmp_path: Path) -> None:
    folder = RunFolder.plan(small(), tmp_path)
    folder.start(INPUTS)
    with pytest.raises(RunFolderError, match="began with other data or another codebook for first"):
        folder.start(INPUTS | {"first-300": {"data": "x", "codebook": "e"}})
    with pytest.raises(RunFolderError, match="for an entry"):
        folder.start({"cancer": INPUTS["cancer"]})


def test_a_folder_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = RunFolder.plan(small(), tmp_path / "file" / "runs")
    with pytest.raises(RunFolderError) as error:
        folder.start(INPUTS)
    assert line(error) == f"{folder.path}: the run's folder cannot be made: Not a directory"
    # The parent can be made, the folder itself has too long a name.
    folder = RunFolder(tmp_path / "new" / ("x" * 300), small(), "0")
    with pytest.raises(RunFolderError, match="cannot be made: File name too long"):
        folder.start(INPUTS)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    folder = RunFolder.plan(small(), tmp_path / "runs")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(RunFolderError) as error:
        folder.start(INPUTS)
    assert line(error) == f"{folder.manifest}: cannot be written: No space left on device"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"name": "x"}'])
def test_a_manifest_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    for look in (RunFolder.open, lambda path: RunFolder.plan(small(), path)):
        with pytest.raises(
            RunFolderError, match=r"manifest\.json: this is not a manifest of a run"
        ):
            look(tmp_path)
    with pytest.raises(
        RunFolderError, match=r"this is not a run's folder, it has no manifest\.json"
    ):
        RunFolder.open(tmp_path / "none")


DAMAGED = [
    ("environment.cpu_features", ["sse", ["avx"]], r"environment\.cpu_features\[1\]"),
    ("recipe_digest", None, "recipe_digest"),
    ("status", "done", "status"),
    ("result", {"bytes": "12", "sha256": "0"}, r"result\.bytes"),
    ("result", {"sha256": "0"}, r"result\.bytes"),
    ("findings", ["a", 2], r"findings\[1\]"),
    ("inputs.cancer", "d", r"inputs\.cancer"),
]


def edited(folder: RunFolder, dotted: str, value: object) -> None:
    """Put something into a manifest, under a checksum that fits."""
    content = json.loads(folder.manifest.read_text())
    *above, key = dotted.split(".")
    table = content
    for name in above:
        table = table[int(name) if isinstance(table, list) else name]
    table[key] = value
    folder.manifest.write_text(json.dumps(seal(content)))


@pytest.mark.parametrize(("dotted", "value", "at"), DAMAGED)
def test_an_edited_manifest_is_refused_where_it_is_wrong(
    tmp_path: Path, dotted: str, value: object, at: str
) -> None:
    folder = RunFolder.plan(small(), tmp_path)
    folder.start(INPUTS)
    edited(folder, dotted, value)
    with pytest.raises(RunFolderError, match=rf"json: this is not a manifest of a run: {at}$"):
        RunFolder.open(folder.path)


def test_another_recipe_in_the_manifest_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.plan(small(), tmp_path)
    folder.start(INPUTS)
    edited(folder, "recipe.about.title", "Another title")
    assert RunFolder.open(folder.path).recipe.about.title == "Another title"
    edited(folder, "recipe.sweep.seed", 8)
    with pytest.raises(RunFolderError, match=r"manifest\.json: damaged or edited: its recipe"):
        RunFolder.open(folder.path)


def test_a_finished_run_says_what_its_result_is(tmp_path: Path) -> None:
    folder = RunFolder.plan(small(), tmp_path)
    folder.start(INPUTS)
    folder.result.write_bytes(b"anything")
    folder.finish("finished", digest="00ff")
    with pytest.raises(RunFolderError, match=r"manifest\.json: result: says nothing"):
        read_run(folder.path)


def test_the_order_of_axes_is_part_of_the_run() -> None:
    one = changed("sweep.grid", {"q": [0.5], "w_y": [0.5]}) | {"design": {"family": "unrelated"}}
    other = changed("sweep.grid", {"w_y": [0.5], "q": [0.5]}) | {"design": {"family": "unrelated"}}
    assert run_id(Recipe.from_config(one)) != run_id(Recipe.from_config(other))
