"""Numbers of schools that a codebook cuts into bins: every step says so."""

from pathlib import Path

import pandas as pd
import pytest

from ppdm_dask.cli import main

CUT = '{name = "school", categories = ["<= 110", "> 110"], cuts = [110]}'
BOOK = 'attribute = [{{name = "used", categories = ["no", "yes"]}}, {}]\n'
WARNER = 'id = "warner"\nattribute = "used"\ntheta = 0.8\n'
FORCED = 'id = "forced"\nattribute = "used"\nforced_probability = {yes = "1/6", no = "1/12"}\n'
FILES = ["--codebook", "c.toml", "--design", "d.toml"]
KEPT = "school: undisguised, in 2 categories that the codebook cuts its numbers into; to keep the"


@pytest.fixture(autouse=True)
def _survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    schools = [101 + i % 40 for i in range(400)]
    used = ["yes" if i % 3 else "no" for i in range(400)]
    sizes = [i % 100 + 0.5 for i in range(400)]
    frame = pd.DataFrame({"used": used, "school": schools, "size": sizes})
    frame.to_csv("all.csv", index=False)
    frame[["used", "school"]].to_csv("a.csv", index=False)
    Path("c.toml").write_text(BOOK.format(CUT))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_proposal_asks_what_whole_numbers_are(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "codebook", "all.csv", "--out", "proposed.toml")
    remarks = [x for x in Path("proposed.toml").read_text().splitlines() if x.startswith("#   '")]
    asked = {line.split("'")[1]: "schools, regions or clusters?" in line for line in remarks}
    assert asked == {"school": True, "size": False}


@pytest.mark.parametrize(
    ("design", "command", "keep"),
    [(WARNER, "disguise", "--keep-undisguised"), (FORCED, "import", "--keep")],
)
def test_files_that_keep_bins_and_estimates_by_them_say_so(
    capsys: pytest.CaptureFixture[str], design: str, command: str, keep: str
) -> None:
    Path("d.toml").write_text(design)
    assert KEPT in said(capsys, command, "a.csv", *FILES, keep, "school", "--out", "r.parquet")
    survey = ["--over", "used", "--strata", "school"]
    found = said(capsys, "estimate", "r.parquet", *FILES, *survey)
    clusters = ["--over", "used", "--clusters", "school"]
    assert main(["estimate", "r.parquet", *FILES, *clusters]) == 2
    line = capsys.readouterr().err
    assert "r.parquet: column 'school' holds the categories that the codebook cuts its" in line
    assert "strata: 'school' holds the categories that the codebook cuts its numbers into" in found


def test_numbers_that_the_codebook_does_not_name_are_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("c.toml").write_text(BOOK.format("").replace(", ]", "]"))
    Path("d.toml").write_text(WARNER)
    out = said(
        capsys, "disguise", "a.csv", *FILES, "--keep-undisguised", "school", "--out", "r.csv"
    )
    assert "school: undisguised, as it is" in out
    assert pd.read_csv("r.csv")["school"].nunique() == 40
    found = said(capsys, "estimate", "r.csv", *FILES, "--over", "used", "--strata", "school")
    assert "strata from 'school'" in found
    assert "cuts its numbers" not in found
