"""scikit-learn's own checks of estimators, one test for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sklearn.utils import estimator_checks, get_tags

__all__ = ["each_check"]

NEGATIVE = "check_positive_only_tag_during_fit"
# Version 1.6 takes a fraction from whole numbers in place, which NumPy refuses.
BROKEN = "X.mean().astype" not in inspect.getsource(getattr(estimator_checks, NEGATIVE))


def each_check(
    estimators: Sequence[Any], expected_failed_checks: Callable[[Any], dict[str, str]]
) -> pytest.MarkDecorator:
    """As of scikit-learn's `parametrize_with_checks`, for all of its versions and pytest's.

    Older ones give pytest a generator, which newer versions of that warn of.
    """

    def expected(estimator: Any) -> dict[str, str]:
        found = dict(expected_failed_checks(estimator))
        if BROKEN and get_tags(estimator).input_tags.categorical:
            found[NEGATIVE] = "it makes fractions of whole numbers"
        return found

    made = estimator_checks.parametrize_with_checks(estimators, expected_failed_checks=expected)
    names, pairs = made.args
    return pytest.mark.parametrize(names, list(pairs), **made.kwargs)
