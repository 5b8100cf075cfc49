"""The trial of joint designs on counts that are known."""

import numpy as np
import pytest
import xarray as xr

import ppdm_dask as pp
from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.codebook import Records
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.trials.joint import JointTrial
from ppdm_dask.randomness import SimulationStream

COUNTS = np.array([[30, 10], [15, 45], [20, 5]])
BOOK = pp.Codebook(
    (
        Attribute("colour", ("red", "green", "blue")),
        Attribute("answer", ("no", "yes")),
        Attribute("many", tuple(str(i) for i in range(10))),
    )
)


def records(counts):
    x, y = np.repeat(np.indices(counts.shape).reshape(2, -1), counts.ravel(), axis=1)
    return Records(np.column_stack([x, y, x]), BOOK)


def test_a_level_is_that_of_the_front_and_the_search_is_above_it():
    trial = JointTrial(first="colour", second="answer", level=0.5, generations=40)
    ready = trial.ready(records(COUNTS))
    found = trial.repeat(SimulationStream(3, (0,)), ready)
    law = xr.DataArray(
        COUNTS / COUNTS.sum(), {"colour": ["red", "green", "blue"], "answer": ["no", "yes"]}
    )
    front = pp.joint_front(law, 1, levels=1)
    assert found["error"]["alone"] == pytest.approx(float(front["mse_alone"][0]))
    assert found["error"]["joint"] == pytest.approx(float(front["mse"][0]))
    assert found["ratio"]["alone"] == pytest.approx(float(front["gain"][0]), rel=1e-6)
    assert 1 <= found["ratio"]["joint"] < 1 + 1e-6
    # Square matrices that a search finds are designs of the same privacy.
    assert 1 < found["ratio"]["SPEA2"] < 3


def test_attributes_that_cannot_serve_are_refused_or_left_out():
    for stated, message in (
        ({"first": "colour", "second": "other"}, "second: got .*no such attribute"),
        ({"first": "colour", "second": "colour"}, "second: got .*two are needed"),
        ({"first": "colour", "second": "many"}, "second: 30 joint categories; up to 18"),
    ):
        with pytest.raises(InputError, match=message):
            JointTrial(level=0.5, **stated).check_codebook(BOOK)
    empty = COUNTS.copy()
    empty[2, 1] = 0
    trial = JointTrial(first="colour", second="answer", level=0.5)
    assert trial.undefined(records(empty))
    assert not trial.undefined(records(COUNTS))
