"""Blocks of pages that stand for no page's own test: they run as they stand, beside stand-ins."""

from __future__ import annotations

import re
import shlex
import stat
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from pages import blocks, shell_lines

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs import base, kary, mixture, parameters


def test_a_design_by_the_sketch_for_contributors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sketch of the page is Warner's family, but for the algebra that its class inherits."""
    (sketch,) = (x for x in blocks("CONTRIBUTING.md", "python") if x.section == "Add a design")
    monkeypatch.setattr(base, "_FAMILIES", {})
    names: dict[str, Any] = {**vars(base), **vars(parameters), **vars(mixture), **vars(kary)}
    exec(compile(sketch.text, sketch.place, "exec"), names)
    # The next step of the page: q and r of P = q I + (1 - q) r 1^T.
    uniform = np.full(2, 0.5)
    algebra = {
        "mixing": property(lambda self: 2 * self.theta - 1),
        "factors": property(lambda self: (uniform,)),
    }
    whole = type("Warner", (names["Warner"],), algebra)
    made = whole.from_config({"attribute": "a", "theta": 0.8})
    assert (made.attributes, made.shape, made.theta) == (("a",), (2,), 0.8)
    assert made.config() == pp.Warner("a", 0.8).config()
    np.testing.assert_allclose(made.matrix(), [[0.8, 0.2], [0.2, 0.8]])


def test_otree_s_classes_have_the_names_of_the_page() -> None:
    (block,) = blocks("docs/embed.md", "python")
    models = Namespace(StringField=lambda: None)
    names: dict[str, Any] = {"models": models, "BasePlayer": object, "Page": object}
    exec(compile(block.text, block.place, "exec"), names)
    fields = [name for name in vars(names["Player"]) if not name.startswith("__")]
    (template,) = (x for x in blocks("docs/embed.md", "html") if x.section == "oTree")
    hidden = re.findall(r'<input type="hidden" name="(\w+)">', template.text)
    assert names["Ask"].form_fields == fields == hidden
    player = Namespace(
        participant=Namespace(code="p1"),
        field_maybe_none=dict.fromkeys(fields, "x").__getitem__,
    )
    assert names["Ask"].js_vars(player) == {"respondent": "p1"}
    assert list(names["custom_export"]([player])) == [fields, ["x"] * 4]


def test_certificates_of_a_gateway_are_files_for_one_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = blocks("cluster/scheduler.md", "python")
    asked: list[Any] = []
    cluster = Namespace(
        scale=asked.append, security=Namespace(tls_cert="certificate", tls_key="key")
    )
    gateway: Any = ModuleType("dask_gateway")
    gateway.Gateway = lambda address: Namespace(
        new_cluster=lambda: asked.append(address) or cluster
    )
    monkeypatch.setitem(sys.modules, "dask_gateway", gateway)
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, block.place, "exec"), {})
    assert asked == ["https://gateway.example.org", 4]
    folder = tmp_path / "gateway-certificates"
    assert {x.name: x.read_text() for x in folder.iterdir()} == {
        "ca.pem": "certificate", "client.pem": "certificate", "client-key.pem": "key"
    }  # fmt: skip
    assert {stat.S_IMODE(x.stat().st_mode) for x in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_shell_of_the_page_on_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shell_lines("docs/search.md").replace("\\\n", " ")
    monkeypatch.chdir(tmp_path)
    files = r"^cat > (\S+) <<'END'\n(.*?)^END\n"
    for name, text in re.findall(files, lines, re.DOTALL | re.MULTILINE):
        Path(name).write_text(text, encoding="utf-8")
    rest = re.sub(files, "", lines, flags=re.DOTALL | re.MULTILINE).splitlines()
    for line in rest:
        program, *words = shlex.split(line)
        assert program == "ppdm" and main(words) == 0, line
    assert capsys.readouterr().err == ""
    together = pp.Design.read("together/design.toml")
    assert together.attributes == ("smokes", "drinks")
    assert together.epsilon() == pytest.approx(1.0, abs=1e-6)
    by_dice = pp.Design.read("by-dice/design.toml")
    assert by_dice.max_posterior({"never": 0.6, "once": 0.3, "often": 0.1}) <= 0.8 + 1e-9
    # Two dice make multiples of 1/36.
    assert (by_dice.matrix() * 36).round(9) == pytest.approx((by_dice.matrix() * 36).round())
    assert "red die" in Path("by-dice/instructions.txt").read_text()
