"""Pages and notebooks of the site, as far as they can be judged without building it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import ppdm_dask

TUTORIALS = ("dask", "dice-survey", "model-selection", "optimal-designs", "own-file")


@pytest.mark.parametrize("name", TUTORIALS)
def test_notebooks_are_committed_without_outputs(root: Path, name: str) -> None:
    cells = json.loads((root / "docs/tutorials" / f"{name}.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_notebooks_are_all_on_the_first_page(root: Path) -> None:
    there = {path.stem for path in (root / "docs/tutorials").glob("*.ipynb")}
    page = (root / "docs/index.md").read_text()
    assert there == set(TUTORIALS) == set(re.findall(r"^tutorials/([a-z-]+)$", page, re.MULTILINE))


def listed(root: Path) -> dict[str, list[str]]:
    """Names by module of the reference; no name stands for all of a module."""
    found: dict[str, list[str]] = {}
    for path in (root / "docs/api").glob("*.rst"):
        for module, names in re.findall(
            r"^\.\. names:: (\S+)\n((?:\n|   \w+\n)*)", path.read_text() + "\n", re.MULTILINE
        ):
            found.setdefault(module, []).extend(names.split())
    return found


def test_every_public_name_is_in_the_reference(root: Path) -> None:
    found = listed(root)
    main = found.pop("ppdm_dask")
    names = [x for x in ppdm_dask.__all__ if not inspect.ismodule(getattr(ppdm_dask, x))]
    assert sorted(main) == sorted(names)
    rooms = {x for x in ppdm_dask.__all__ if inspect.ismodule(getattr(ppdm_dask, x))}
    stubs = {path.parent.name for path in (root / "ppdm_dask").glob("*/__init__.pyi")}
    assert {f"ppdm_dask.{room}" for room in rooms | stubs} <= found.keys()
    assert not any(found.values())


def test_every_public_name_is_described(root: Path) -> None:
    for module in listed(root):
        room = importlib.import_module(module)
        for name in room.__all__:
            each = getattr(room, name)
            if inspect.isclass(each) or inspect.isroutine(each):
                assert inspect.getdoc(each), f"{module}.{name}"


@pytest.fixture
def tool(root: Path) -> Any:
    return loaded(root / "tools/check_site.py")


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_dead_links_are_found(tool: Any, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">b</a><a href="#here">a</a><a href="//x.org">x</a></p>'
    )
    (tmp_path / "b.html").write_text('<a id="there" href="a.html">a</a>')
    assert tool.faults(tmp_path) == []
    (tmp_path / "b.html").write_text(
        '<a href="c.html">c</a><a href="a.html#gone">a</a><script src="https://x.org/x.js"></script>'
    )
    assert tool.faults(tmp_path) == [
        "a.html: b.html#there leads to no place on its page",
        "b.html: c.html leads to no file",
        "b.html: a.html#gone leads to no place on its page",
        "b.html: loads https://x.org/x.js",
    ]


@pytest.mark.parametrize(
    "shown", [r"$x^2$", r"$$x$$", r"\frac12", "p_{yx}", ":math:`x`", ".. math:: x", r"a \sum b"]
)
def test_tex_that_is_shown_is_found(tool: Any, tmp_path: Path, shown: str) -> None:
    page = tmp_path / "a.html"
    page.write_text(f"<p>{shown}</p>")
    assert all(fault.startswith("a.html: shows TeX") for fault in tool.faults(tmp_path))
    assert tool.faults(tmp_path)
    page.write_text(f"<pre>{shown}</pre><p>It costs $5, or 5 $.</p><code>$wave</code>")
    assert tool.faults(tmp_path) == []
    page.write_text(f'<span class="math">x</span><code>{shown}</code>')
    assert tool.faults(tmp_path) == ["a.html: 1 formulas without MathML"]
    page.write_text('<div class="math"><math><mi>x</mi></math></div>')
    assert tool.faults(tmp_path) == []


DIRECTIVE = re.compile(r"^( *)\.\. math::(.*(?:\n\1 +\S.*)*)", re.MULTILINE)
OUTSIDE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
DOLLARS = re.compile(r"\$\$(.+?)\$\$|\$(\S(?:[^$\n]*\S)?)\$", re.DOTALL)


def formulas(root: Path) -> dict[str, list[str]]:
    """TeX of each page and module."""
    found = {}
    for path in (root / "ppdm_dask").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tex = [block for _, block in DIRECTIVE.findall(text)] + re.findall(":math:`(.*?)`", text)
        found[path.relative_to(root).as_posix()] = tex
    for path in (root / "docs").glob("*.md"):
        text = OUTSIDE.sub("", path.read_text(encoding="utf-8"))
        found[path.relative_to(root).as_posix()] = ["".join(x) for x in DOLLARS.findall(text)]
    return found


def test_formulas_become_mathml_and_stay_short(root: Path) -> None:
    math = pytest.importorskip("docutils.utils.math.latex2mathml")
    found = formulas(root)
    assert sum(map(len, found.values())) > 120
    for where, each in found.items():
        for tex in each:
            assert "<math " in math.tex2mathml(tex.strip(), as_block=True), where
            # help() shows them as they stand.
            assert not where.endswith(".py") or len(tex) < 300, (where, tex)


@pytest.mark.parametrize(
    "name",
    [
        "estimate invert em mle Design Warner KaryResponse UnrelatedQuestion MultiGroup RRMatrix",
        "NaiveBayes TAN ID3 LatentClasses association_rules GLM Owners TwoStage estimate_waves",
        "noncompliance plan optimize joint_design robust_design regret event_weights",
        "perturb.AIBR perturb.BSVD perturb.SSVD perturb.KCG perturb.Distortion perturb.expected_rp",
        "privacy.map_privacy privacy.max_posterior privacy.pse privacy.pse_unrelated",
        "privacy.epsilon privacy.gamma privacy.posterior privacy.amplified",
        "designs.UnaryEncoding designs.SubsetSelection designs.Kuk designs.Permanent",
        "inference.TwoSample inference.linearised inference.variance_of_waves",
    ],
)
def test_what_rests_on_an_equation_shows_it(name: str) -> None:
    for each in name.split():
        room, _, last = each.rpartition(".")
        module = importlib.import_module(f"ppdm_dask.{room}".rstrip("."))
        assert ".. math::" in inspect.cleandoc(getattr(module, last).__doc__), each


def test_formulas_in_a_row_are_told_apart(root: Path) -> None:
    pytest.importorskip("docutils.utils.math.latex2mathml")
    rows = loaded(root / "docs/_site/mathml.py").rows
    assert rows(r"a = \text{b \qquad c}, \qquad \left( d \qquad e \right) \qquad f \qquadx") == [
        r"a = \text{b \qquad c},",
        r"\left( d \qquad e \right)",
        r"f \qquadx",
    ]
    cases = r"\begin{cases} a & \{ \qquad b \\ c & d \end{cases}"
    assert rows(rf"{cases} \qquad g") == [cases, "g"]
