"""One battery for every registered perturbation method.

A new method needs one entry in ``EXAMPLES``; ``test_perturb.py`` puts each example through each
check in ``BATTERY``.
"""

from __future__ import annotations

import itertools
import json
import pickle
import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.perturb import (
    AIBR,
    BSVD,
    KCG,
    SSVD,
    Perturbation,
    perturbation_from_config,
)
from ppdm_dask.randomness import LOGICAL_BLOCK, Stream

EXAMPLES: dict[str, tuple[Perturbation, ...]] = {
    "aibr": (AIBR(1), AIBR(2), AIBR(7, integers=True), AIBR(40), AIBR(3, constant="keep")),
    "bsvd": (BSVD(1), BSVD(3)),
    "kcg": (KCG(2), KCG(7), KCG(60), KCG(3, constant="keep")),
    "ssvd": (SSVD(1, 0.3), SSVD(4, 0.05), SSVD(3, 0.9)),
}
NAMES = ("age", "income", "visits", "score")
RANDOM = ("aibr", "kcg")


def make_frame(n: int = 60, seed: int = 1) -> pd.DataFrame:
    """Correlated columns of several types, among them whole numbers with ties."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    columns = (age, 1e4 + 300 * age + rng.normal(0, 5e3, n), rng.poisson(3, n), rng.random(n))
    frame = pd.DataFrame(dict(zip(NAMES, columns, strict=True)))
    return frame.astype({"visits": "Int64", "score": "float32"})


def fitted(method: Perturbation, frame: pd.DataFrame | None = None, seed: int = 2) -> Perturbation:
    data = make_frame() if frame is None else frame
    return clone(method).fit(data, stream=Stream.from_seed(seed))


def refused(method: Perturbation, X: object, kind: type[Exception] = InputError) -> str:
    """The one line with which a fit is refused."""
    with pytest.raises(kind) as caught:
        clone(method).fit(X)
    message = str(caught.value)
    assert "\n" not in message
    return message


def check_config(method: Perturbation) -> None:
    """A configuration, through JSON, gives the same method; its seed is not part of it."""
    config = json.loads(json.dumps(method.config()))
    again = perturbation_from_config(config)
    assert type(again) is type(method)
    assert again.get_params() == method.get_params()
    assert "seed" not in config
    with pytest.raises(InputError, match=f"^knack: got 1; not a parameter of {method.id!r}"):
        perturbation_from_config({**config, "knack": 1})
    for name in method.required:
        short = {key: value for key, value in config.items() if key != name}
        with pytest.raises(InputError, match=f"^{name}: missing; {method.id!r} needs it$"):
            perturbation_from_config(short)


def check_parameters(method: Perturbation) -> None:
    """An impossible k is one line that names it, at the configuration and at the fit."""
    for k in (0, -1, 2.5, "two", True, None):
        with pytest.raises(InputError, match=rf"^k: got {re.escape(repr(k))}; a whole number"):
            perturbation_from_config({**method.config(), "k": k})
        assert refused(clone(method).set_params(k=k), make_frame()).startswith("k: got ")
    assert refused(clone(method).set_params(k=61), make_frame()).startswith("k: got 61; ")
    assert set(method.private_end) <= set(method.required)
    assert set(method.private_end.values()) <= {"small", "large"}


def check_transformer(method: Perturbation) -> None:
    """scikit-learn's conventions: clone, parameters, names, containers, pipelines."""
    frame = make_frame()
    own = clone(method).set_params(seed=3)
    assert own is not method
    assert clone(own).get_params() == own.get_params()
    with pytest.raises(NotFittedError):
        own.transform(frame)
    released = own.fit_transform(frame)
    assert isinstance(released, np.ndarray)
    assert released.shape == frame.shape
    assert own.n_features_in_ == 4
    assert own.feature_names_in_.tolist() == own.get_feature_names_out().tolist() == list(NAMES)
    np.testing.assert_array_equal(clone(own).fit_transform(frame), released)
    pandas = clone(own).set_output(transform="pandas").fit_transform(frame)
    assert list(pandas.columns) == list(NAMES)
    np.testing.assert_array_equal(pandas.to_numpy(), released)
    values = frame.to_numpy(dtype=float)
    by_array = clone(own).fit(values)
    assert not hasattr(by_array, "feature_names_in_")
    np.testing.assert_array_equal(by_array.transform(values), released)
    chain = make_pipeline(clone(own), LinearRegression()).fit(frame, values[:, 1])
    assert chain.predict(frame).shape == (60,)


def check_streams(method: Perturbation) -> None:
    """The same key gives the same release, another one another, and no key none again."""
    frame = make_frame()
    own = fitted(method)
    one, same, other = (own.perturb(frame, Stream.from_seed(seed)) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any() == (method.id in RANDOM)
    real, again = (own.perturb(frame, Stream.from_entropy()) for _ in range(2))
    assert (real != again).any() == (method.id in RANDOM)
    unlike = clone(method).fit_transform(frame) != clone(method).fit_transform(frame)
    assert unlike.any() == (method.id in RANDOM)


def check_partitions(method: Perturbation) -> None:
    """The release of a part is the part of the release, over a border of logical blocks."""
    frame = make_frame()
    own, others = fitted(method), frame.iloc[::-1].reset_index(drop=True)
    stream, start = Stream.from_seed(7), LOGICAL_BLOCK - 23
    whole = own.perturb(others, stream, start)
    for low, high in itertools.pairwise((0, 1, 22, 23, 24, 59, 60)):
        part = own.perturb(others.iloc[low:high], stream, start + low)
        np.testing.assert_allclose(part, whole[low:high], rtol=1e-12)
    assert own.perturb(others.iloc[:0], stream).shape == (0, 4)


def check_records_are_apart(method: Perturbation) -> None:
    """Once a method is fitted, a record's release depends on its own original and draws alone."""
    own, frame, stream = fitted(method), make_frame(), Stream.from_seed(8)
    others = frame.iloc[::-1].reset_index(drop=True)
    changed = others.copy()
    changed.iloc[-1] = others.iloc[3].to_numpy()
    one, two = own.perturb(others, stream), own.perturb(changed, stream)
    np.testing.assert_allclose(two[:-1], one[:-1], rtol=1e-12)


def check_original_is_left_alone(method: Perturbation) -> None:
    frame = make_frame()
    values = np.asfortranarray(frame.to_numpy(dtype=float))
    before = values.copy()
    clone(method).fit(values).transform(values)
    np.testing.assert_array_equal(values, before)


def check_release_is_no_copy(method: Perturbation) -> None:
    """No method returns its input."""
    frame = make_frame()
    released = fitted(method).perturb(frame, Stream.from_seed(9))
    assert (np.abs(released - frame.to_numpy(dtype=float)).max(axis=1) > 0).mean() > 0.5


def check_pickle(method: Perturbation) -> None:
    frame, own = make_frame(), fitted(method)
    again = pickle.loads(pickle.dumps(own))
    stream = Stream.from_seed(10)
    np.testing.assert_array_equal(again.perturb(frame, stream), own.perturb(frame, stream))


def check_bad_data(method: Perturbation) -> None:
    """Each bad column is one line that names it."""
    frame = make_frame()
    text = refused(method, frame.assign(city="Rome"), DataError)
    assert text.startswith("column 'city', row 0: 'Rome' is not a finite number")
    gone = refused(method, frame.assign(gone=np.nan), DataError)
    assert gone == "column 'gone': every value is missing; leave the column out"
    endless = refused(method, frame.assign(score=[0.5] * 59 + [np.inf]), DataError)
    assert endless.startswith("column 'score', row 59: 'inf' is not a finite number")
    for rows, words in ((1, "there is 1 record"), (0, "there are 0 records")):
        assert refused(method, frame.iloc[:rows], DataError).startswith(f"{words}; 2 or more")
    twice = pd.concat([frame, frame[["age"]]], axis=1)
    assert refused(method, twice, DataError) == "column 'age' occurs 2 times"
    assert refused(method, frame[[]], DataError).startswith("there are no columns")
    assert refused(method, np.arange(5.0), DataError).startswith("the data have shape (5,)")
    moments = frame.assign(born=pd.Timestamp("2000-01-01"))
    assert refused(method, moments, DataError).startswith("column 'born' holds datetime64")
    own = fitted(method)
    with pytest.raises(DataError, match=r"the columns are age, income; fitted were age, income, v"):
        own.perturb(frame[["age", "income"]], Stream.from_seed(1))
    wide = frame.assign(score=np.where(np.arange(60) == 0, -1.7e308, 1.7e308))
    assert "is too wide to compute with" in refused(method, wide, DataError)


def check_missing_and_constant(method: Perturbation) -> None:
    """Missing values and constant columns are perturbed right or refused in one line."""
    frame = make_frame()
    gap = frame.assign(visits=frame["visits"].where(frame["age"] > 30))
    missing = gap["visits"].isna().to_numpy()
    assert missing.any()
    if method.id == "aibr":
        released = fitted(method, gap).perturb(gap, Stream.from_seed(1))
        np.testing.assert_array_equal(np.isnan(released[:, 2]), missing)
        assert not np.isnan(released[:, [0, 1, 3]]).any()
    else:
        line = refused(method, gap, DataError)
        assert line.startswith(f"column 'visits': {missing.sum()} of 60 values are missing")
    same = frame.assign(score=4.5)
    if getattr(method, "constant", "keep") == "refuse":
        line = refused(method, same, DataError)
        assert line.startswith("column 'score': every value is 4.5, which would be released as it")
    elif method.id in RANDOM:
        released = fitted(method, same).perturb(same, Stream.from_seed(1))
        np.testing.assert_allclose(released[:, 3], 4.5, rtol=1e-9)


def check_caveat(method: Perturbation) -> None:
    """One plain sentence says what is not protected."""
    caveat = method.caveat
    assert caveat.endswith(".")
    assert ". " not in caveat
    assert caveat.split()[0].lower() == method.id
    assert 80 < len(caveat) < 400


BATTERY: tuple[Callable[[Perturbation], None], ...] = (
    check_config,
    check_parameters,
    check_transformer,
    check_streams,
    check_partitions,
    check_records_are_apart,
    check_original_is_left_alone,
    check_release_is_no_copy,
    check_pickle,
    check_bad_data,
    check_missing_and_constant,
    check_caveat,
)


def require_examples(
    registered: Iterable[str], examples: Mapping[str, tuple[Perturbation, ...]]
) -> None:
    """Fail unless each registered method, and nothing else, has examples of its own."""
    for name in registered:
        if not examples.get(name):
            pytest.fail(f"{name!r} has no example in tests/support/perturb_checks.py")
    for name, methods in examples.items():
        assert all(method.id == name for method in methods)
        assert name in registered
