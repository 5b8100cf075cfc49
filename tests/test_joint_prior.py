"""``ppdm optimize`` with the joint law of several attributes in a file."""

import json

import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.errors import InputError

JOINT = """
attributes = ["smokes", "drinks"]
[prior]
no = {no = 0.35, yes = 0.15}
yes = {yes = 0.4, no = 0.1}
"""


@pytest.fixture
def prior(tmp_path):
    file = tmp_path / "joint.toml"
    file.write_text(JOINT)
    return file


def test_labels_count_not_their_order(prior):
    law = pp.survey.joint_prior(prior)
    assert law.dims == ("smokes", "drinks")
    assert float(law.sel(smokes="yes", drinks="no")) == 0.1
    assert float(law.sel(smokes="no", drinks="yes")) == 0.15


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        (["--epsilon", "1"], {"epsilon": 1.0}),
        (["--epsilon", "1", "--each"], {"epsilon": {"smokes": 1.0, "drinks": 1.0}}),
        (["--delta", "0.7", "--aim", "cells"], {"max_posterior": 0.7, "aim": "cells"}),
        (
            ["--choose", "privacy=0.2", "--each"],
            {"privacy": {"smokes": 0.2, "drinks": 0.2}},
        ),
    ],
)
def test_the_command_writes_what_the_function_finds(prior, tmp_path, capsys, options, stated):
    out = tmp_path / "out"
    command = ["optimize", "--prior", str(prior), "--n", "1000", "--out", str(out), "--json"]
    assert main([*command, *options]) == 0
    found = json.loads(capsys.readouterr().out)
    known = pp.joint_design(pp.survey.joint_prior(prior), **stated)
    assert found["variance"] == pytest.approx(known.noise / 1000)
    assert found["bound"] == pytest.approx(known.bound / 1000)
    assert found["ratio"] == (None if known.ratio is None else pytest.approx(known.ratio))
    design = pp.Design.read(out / "design.toml")
    assert design.digest == known.design.digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "0"], "--epsilon: got 0"),
        (["--epsilon", "1", "--delta", "0.9"], "--epsilon: give it, or --delta"),
        (["--epsilon", "50", "--each"], "--epsilon: smokes: got 50"),
        (["--delta", "0.3"], "--delta: got 0.3; a number above"),
        (["--choose", "privacy=0.6", "--each"], "--choose: privacy: smokes: got 0.6"),
        (["--epsilon", "1", "--method", "bound"], "--method: not available with a joint prior"),
        (["--choose", "mse=0.1"], "--choose: a joint prior takes only privacy=X"),
        (["--epsilon", "1", "--epsilon", "2"], "--epsilon: a joint prior takes a single value"),
    ],
)
def test_what_does_not_go_together_is_one_line(prior, tmp_path, capsys, options, message):
    out = tmp_path / "out"
    command = ["optimize", "--prior", str(prior), "--n", "1000", "--out", str(out)]
    assert main([*command, *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not out.exists()


def test_options_of_joint_priors_need_one(tmp_path, capsys):
    file = tmp_path / "one.toml"
    file.write_text('attribute = "a"\n[prior]\nx = 0.4\ny = 0.6\n')
    command = ["optimize", "--prior", str(file), "--n", "10", "--out", str(tmp_path / "out")]
    assert main([*command, "--epsilon", "1", "--each"]) == 2
    assert "--each: a joint prior, of several attributes, is needed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('attributes = ["a"]\n[prior]\nx = 1.0\n', "attributes: got"),
        (
            'attributes = ["a", "b"]\n[prior]\nx = 1.0\n',
            "prior.x: got 1.*a table of the categories",
        ),
        (
            'attributes = ["a", "b"]\n[prior]\nx = {u = 0.5}\ny = {v = 0.5}\n',
            "prior.y: has .*everywhere",
        ),
        (
            'attributes = ["a", "b"]\n[prior]\nx = {u = 0.5, v = "much"}\ny = {u = 0.5, v = 0}\n',
            "prior.x.v: got .*a proportion is needed",
        ),
        ('attributes = ["a", "b"]\nmore = 1\n[prior]\nx = {u = 1}\n', "more"),
    ],
)
def test_damaged_files_are_one_line(tmp_path, text, message):
    file = tmp_path / "joint.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        pp.survey.joint_prior(file)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
