"""What the papers say their techniques extend to, and do not try."""

from __future__ import annotations

import numpy as np

from ppdm_dask.claims.calculations import losses_of_trees


def test_trees_from_unrelated_questions() -> None:
    """At q = 1 nothing is disguised and nothing lost; the more is unrelated, the more is lost."""
    np.testing.assert_array_equal(losses_of_trees(1.0, 5), 0)
    some, much = losses_of_trees(0.7, 15), losses_of_trees(0.1, 15)
    assert 0 < some.mean() < 0.05 < much.mean()
