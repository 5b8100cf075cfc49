"""What is asked of a few attributes needs no memory for all of them: processes with 2 GiB."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("resource")

LIMITED = """
import math, resource
import numpy as np
import ppdm_dask as pp

resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
"""


def run(text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED + text], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_an_estimate_of_two_attributes_of_ten_in_one_block():
    """The block has 3.7 thousand million joint categories; a block of the three gives the same."""
    run("""
sizes = [2 + 2 * i for i in range(10)]
def block(places):
    laws = [[1 / sizes[i]] * sizes[i] for i in places]
    return pp.UnrelatedQuestion([f"a{i}" for i in places], 0.8, laws, [sizes[i] for i in places])
attributes = [pp.Attribute(f"a{i}", tuple(map(str, range(k)))) for i, k in enumerate(sizes)]
book = pp.Codebook(tuple(attributes))
rng = np.random.default_rng(1)
codes = np.column_stack([rng.integers(0, k, 1000) for k in sizes])
reports = block(range(10)).disguise(pp.Records(codes, book), pp.Stream.from_seed(1))
found = pp.estimate(reports, ["a9", "a7"], where={"a8": "1"})
three = pp.Codebook(tuple(book[f"a{i}"] for i in (7, 8, 9)))
few = pp.Reports(reports.codes[:, 7:], three, design=block((7, 8, 9)), simulated=True)
known = pp.estimate(few, ["a9", "a7"], where={"a8": "1"})
np.testing.assert_allclose(found.values, known.values, rtol=1e-9)
""")


def test_epsilon_of_a_block_of_many_attributes():
    """Of 5^11 cells: q + (1 - q) prod 1/5 over (1 - q) prod 1/5."""
    run("""
names = [f"a{i}" for i in range(11)]
design = pp.UnrelatedQuestion(names, 0.8, [[0.2] * 5] * 11, [5] * 11)
personal = 0.2 * 0.2**11
assert math.isclose(design.epsilon(), math.log((0.8 + personal) / personal), rel_tol=1e-9)
twenty = pp.UnrelatedQuestion([f"b{i}" for i in range(20)], 0.8, [0.3] * 20)
assert math.isclose(
    twenty.epsilon(), math.log((0.8 + 0.2 * 0.3**20) / (0.2 * 0.3**20)), rel_tol=1e-9
)
""")
