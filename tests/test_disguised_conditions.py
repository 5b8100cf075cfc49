"""Conditions on disguised answers, for events that are not disguised."""

from __future__ import annotations

import numpy as np
import pytest

import ppdm_dask as pp

BOOK = pp.Codebook((pp.Attribute("used", ("no", "yes")), pp.Attribute("region", ("N", "S"))))
DESIGN = pp.Product([pp.Warner("used", 0.8), pp.Identity("region", (2,))])
# All who say yes live in S.
TRUTH = pp.Records(np.repeat([[0, 0], [1, 1]], [200, 100], axis=0), BOOK)


@pytest.mark.parametrize("seed", range(12))
def test_an_estimate_beyond_0_and_1_contradicts_nothing_by_itself(seed: int) -> None:
    reports = DESIGN.disguise(TRUTH, pp.Stream.from_seed(seed))
    for region, truth in (("N", 0.0), ("S", 1.0)):
        found = pp.estimate(reports, {"region": region}, design=DESIGN, where={"used": "yes"})
        assert not found.fit.contradicts
        if not 0 <= found.value <= 1:
            lower, upper = found.interval(0.999)
            assert lower <= truth <= upper
