"""Options of `ppdm optimize` that go together, and the help that names the prior's table."""

from __future__ import annotations

import pytest

from ppdm_dask.cli import main


@pytest.mark.parametrize("command", ["optimize", "plan", "audit"])
def test_help_names_the_table_of_a_prior(command, capsys):
    assert main([command, "--help"]) == 0
    assert "[prior" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "1", "--question", "How often?"], "--question: it belongs to --device"),
        (["--epsilon", "1", "--texts", "texts.toml"], "--texts: it belongs to --device"),
        (["--device", "die", "--method", "bound"], "--method: not available with --device"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prior.toml").write_text('attribute = "a"\n[prior]\nx = 0.6\ny = 0.4\n')
    assert main(["optimize", "--prior", "prior.toml", "--n", "10", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"ppdm: error: {message}") and error.count("\n") == 1
    assert not (tmp_path / "optimized").exists()
