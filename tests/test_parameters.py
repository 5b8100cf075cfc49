"""Parameters of designs are stated once: configuration, ``repr`` and constructor say the same."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from dataclasses import FrozenInstanceError, dataclass
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import laws, matrices

from ppdm_dask import Product, RRMatrix, Warner, design_from_config
from ppdm_dask.designs import Design, families, scheme_from_config
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.errors import DesignError
from ppdm_dask.frozen import Frozen

CLASSES = {family.__name__: family for family in families().values()}

CHANCES = st.one_of(st.floats(0, 1), st.sampled_from(["1/3", "3/4", 0, 1]))
NAMES = st.text("abcdefgh'\" \n", min_size=1, max_size=4)


def _labels(k):
    """Texts, distinct, one for each category."""
    return st.lists(st.text(min_size=1, max_size=3), min_size=k, max_size=k, unique=True)


def _some(draw, **strategies):
    """Optional arguments: each is given or not."""
    return {name: draw(of) for name, of in strategies.items() if draw(st.booleans())}


def _names(draw, most=3):
    return draw(st.lists(NAMES, min_size=1, max_size=most, unique=True))


def _with_trait(draw, **arguments):
    if draw(st.booleans()):
        labels = draw(_labels(2))
        arguments["trait"] = draw(st.sampled_from(labels))
        arguments |= _some(draw, categories=st.just(labels))
    return arguments


def _with_labels(draw, k, **arguments):
    return arguments | _some(draw, categories=_labels(k))


def identity(draw):
    names = _names(draw)
    return {"attributes": names, "shape": [draw(st.integers(1, 5)) for _ in names]}


def flip(draw):
    names = _names(draw)
    return {"attributes": names, "theta": draw(CHANCES)} | _some(
        draw, shape=st.just([2] * len(names))
    )


def kary(draw):
    said = {"p": CHANCES, "q": CHANCES, "lambda_": st.floats(0, 9), "epsilon": st.floats(0, 9)}
    how = draw(st.sampled_from(sorted(said)))
    return {"attribute": draw(NAMES), "n": draw(st.integers(2, 9)), how: draw(said[how])}


def chances(draw, family):
    """Of a family on one attribute, whose other parameters are probabilities."""
    known = {"attribute": NAMES, "n": st.integers(2, 9)}
    parameters = inspect.signature(family).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty]
    return {name: draw(known.get(name, CHANCES)) for name in needed}


def one_sided(draw):
    return _with_trait(draw, attribute=draw(NAMES), p=draw(CHANCES))


def kuk(draw):
    more = _some(draw, repeats=st.integers(1, 5), inverse=st.sampled_from(["weighted", "textbook"]))
    packs = {"p1": draw(CHANCES), "p2": draw(CHANCES)}
    return _with_trait(draw, attribute=draw(NAMES), **packs, **more)


def forced(draw):
    k = draw(st.integers(1, 4))
    law = draw(laws(k))
    if draw(st.booleans()):
        said = {"truth": draw(CHANCES), "forced": law}
    else:
        said = {"forced_probability": (law * draw(st.floats(0, 0.9))).tolist()}
    return _with_labels(draw, k, attribute=draw(NAMES), **said)


def pram(draw):
    k = draw(st.integers(1, 4))
    return _with_labels(draw, k, attribute=draw(NAMES), prior=draw(laws(k)), q=draw(CHANCES))


def unrelated(draw):
    names = _names(draw)
    sizes = [draw(st.integers(2, 4)) for _ in names]
    labels = st.tuples(*map(_labels, sizes)).map(list)
    return {
        "attributes": names,
        "q": draw(CHANCES),
        "w_y": [draw(laws(k)) for k in sizes],
    } | _some(draw, shape=st.just(sizes), categories=labels)


def matrix(draw):
    names = _names(draw, 2)
    sizes = [draw(st.integers(1, 3)) for _ in names]
    n = int(np.prod(sizes))
    P = draw(matrices(n))
    if draw(st.booleans()):
        P = np.vstack([P, P]) / 2
        found = {"P": P} | _some(draw, p0=st.just(np.full(n, 1 / n)))
    else:
        found = {"P": P} | _some(draw, reported_shape=st.just(sizes))
    labels = st.tuples(*map(_labels, sizes)).map(list)
    return {"attributes": names, "shape": sizes, **found} | _some(draw, categories=labels)


def multigroup(draw):
    groups = [[f"{name}{j}" for name in _names(draw)] for j in range(draw(st.integers(1, 3)))]
    thetas = st.lists(CHANCES, min_size=len(groups), max_size=len(groups))
    names = [name for group in groups for name in group]
    return {"groups": groups, "theta": draw(st.one_of(CHANCES, thetas))} | _some(
        draw, attributes=st.just(names)
    )


def unary(draw):
    either = [{"p": draw(CHANCES), "q": draw(CHANCES)}, {"epsilon": draw(st.floats(0, 9))}]
    said = draw(st.sampled_from(either))
    more = _some(draw, inverse=st.sampled_from(["weighted", "textbook"]))
    return {"attribute": draw(NAMES), "n": draw(st.integers(2, 9))} | said | more


def subset(draw):
    n = draw(st.integers(2, 9))
    size = st.integers(1, n - 1)
    if draw(st.booleans()):
        said = {"size": draw(size), "p": draw(CHANCES)}
    else:
        said = {"epsilon": draw(st.floats(0, 9))} | _some(draw, size=size)
    return {"attribute": draw(NAMES), "n": n} | said


def product(draw):
    known = [flip, identity, kuk, matrix, multigroup, subset, unrelated]
    parts = []
    for j in range(draw(st.integers(1, 3))):
        make = draw(st.sampled_from(known))
        config = families()[make.__name__](**make(draw)).config()
        parts.append(design_from_config(_renamed(config, j)))
    return {"designs": parts}


def permanent(draw):
    names = _names(draw, 2)
    sizes = [draw(st.integers(1, 3)) for _ in names]
    n = int(np.prod(sizes))
    stages = [RRMatrix(names, draw(matrices(n)), sizes) for _ in range(2)]
    return dict(zip(("first", "again"), stages, strict=True))


def _renamed(config, j):
    """The configuration, its attributes numbered, so that no two blocks share one."""
    if "groups" in config:
        return {**config, "groups": [[f"{name}{j}" for name in g] for g in config["groups"]]}
    if "attributes" in config:
        return {**config, "attributes": [f"{name}{j}" for name in config["attributes"]]}
    return {**config, "attribute": f"{config['attribute']}{j}"}


ARGUMENTS = {
    make.__name__: make
    for make in (
        *(flip, forced, identity, kary, kuk, matrix, multigroup, permanent, pram, product),
        *(subset, unary, unrelated),
    )
} | {"mangat": one_sided, "triangular": one_sided}
"""Random arguments of families by their id; of one that is not here, see :func:`chances`."""


@pytest.mark.parametrize("name", families())
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_design_comes_back_from_what_it_says_of_itself(name, data):
    family = families()[name]
    make = ARGUMENTS.get(name)
    arguments = chances(data.draw, family) if make is None else make(data.draw)
    design = family(**arguments)
    config = design.config()
    assert json.loads(json.dumps(config)) == config

    again = (
        design_from_config(config),
        eval(design.expression(), dict(CLASSES)),
        *(copy.copy(design), copy.deepcopy(design), pickle.loads(pickle.dumps(design))),
    )
    for other in again:
        assert type(other) is family
        assert other == design
        assert (hash(other), other.digest) == (hash(design), design.digest)
        np.testing.assert_array_equal(list(other.shape), design.shape)
        assert other.config() == config
        assert repr(other) == repr(design)

    # Keys are the constructor's parameters, in its order: whatever it needs is there.
    parameters = inspect.signature(family).parameters
    keys = [family.keys.get(parameter, parameter) for parameter in parameters]
    assert next(iter(config)) == "id"
    assert [key for key in keys if key in config] == list(config)[1:]
    for parameter, key in zip(parameters.values(), keys, strict=True):
        if parameter.default is parameter.empty:
            assert key in config
            rest = {k: v for k, v in config.items() if k != key}
            with pytest.raises(DesignError, match=f"^{key}: missing; '{name}' needs it$"):
                design_from_config(rest)

    before = dict(vars(design))
    for attribute in [*before, *parameters, "digest", "id", "unheard_of"]:
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{attribute}'"):
            setattr(design, attribute, 1)
        with pytest.raises(AttributeError, match=f"cannot delete field '{attribute}'"):
            delattr(design, attribute)
    assert vars(design) == before


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (
            "KaryResponse(attribute='a', n=3, p=0.5)",
            {"id": "kary", "attribute": "a", "n": 3, "p": 0.5},
        ),
        (
            "Kuk(attribute='a', p1=0.7, p2=0.2, repeats=1, inverse='textbook', trait='y')",
            {"id": "kuk", "attribute": "a", "p1": 0.7, "p2": 0.2, "repeats": 1}
            | {"inverse": "textbook", "trait": "y"},
        ),
        (
            "RRMatrix(attributes=['a'], P=[[0.5, 0.25], [0.5, 0.75]], shape=[2], "
            "categories=['n', 'y'])",
            {"id": "matrix", "attributes": ["a"], "P": [[0.5, 0.25], [0.5, 0.75]], "shape": [2]}
            | {"categories": ["n", "y"]},
        ),
        (
            "UnrelatedQuestion(attributes=['a', 'b'], q=0.5, w_y=[0.25, [0.5, 0.25, 0.25]])",
            {"id": "unrelated", "attributes": ["a", "b"], "q": 0.5}
            | {"w_y": [0.25, [0.5, 0.25, 0.25]]},
        ),
        (
            "MultiGroup(groups=[['a', 'b'], ['c']], theta=0.75)",
            {"id": "multigroup", "groups": [["a", "b"], ["c"]], "theta": 0.75},
        ),
        (
            "Product(designs=[Warner(attribute='a', theta=0.8), "
            "Identity(attributes=['b'], shape=[3])])",
            {
                "id": "product",
                "blocks": [
                    {"id": "warner", "attribute": "a", "theta": 0.8},
                    {"id": "identity", "attributes": ["b"], "shape": [3]},
                ],
            },
        ),
    ],
    ids=lambda value: value.partition("(")[0] if isinstance(value, str) else "",
)
def test_texts_and_configurations(text, config):
    design = eval(text, dict(CLASSES))
    assert repr(design) == text
    assert design.config() == config
    assert list(design.config()) == list(config)


def test_a_long_list_is_cut_in_the_text():
    text = repr(families()["pram"]("a", np.full(64, 1 / 64), 0.5))
    assert text == "InvariantPRAM(attribute='a', prior=[0.015625, 0.015625, 0.015625, ...], q=0.5)"


def test_a_constructor_that_fails_leaves_no_design_open():
    class Odd(Warner):
        def __init__(self, attribute, theta):
            super().__init__(attribute, theta)
            self.extra = [theta]
            if theta == 0.5:
                kept.append(self)
                raise ValueError("half")

    kept: list[Design] = []
    assert Odd("a", 0.25).extra == [0.25]
    with pytest.raises(ValueError, match="half"):
        Odd("a", 0.5)
    for design in (Odd("a", 0.25), *kept):
        with pytest.raises(FrozenInstanceError):
            design.extra = []
    assert str(inspect.signature(Odd)) == "(attribute, theta)"


def test_a_family_may_be_a_frozen_dataclass():
    @dataclass(frozen=True, eq=False, repr=False)
    class Half(Mixture):
        attribute: str
        mixing: float = 0.5
        id = "half"
        shape = (2,)
        factors = (np.array([0.5, 0.5]),)

        @property
        def attributes(self):
            return (self.attribute,)

    design = Half.from_config({"attribute": "a"})
    assert design.config() == {"id": "half", "attribute": "a", "mixing": 0.5}
    assert repr(design) == f"{Half.__name__}(attribute='a', mixing=0.5)"
    np.testing.assert_array_equal(design.matrix(), [[0.75, 0.25], [0.25, 0.75]])
    with pytest.raises(FrozenInstanceError):
        design.mixing = 0.4
    with pytest.raises(DesignError, match=r"^attribute: missing; 'half' needs it$"):
        Half.from_config({})


def test_a_frozen_object_caches():
    class Counted(Frozen):
        def __init__(self, n: int) -> None:
            self.n = n

        @cached_property
        def square(self) -> list[int]:
            return [self.n**2]

    one = Counted(3)
    assert one.square is one.square
    assert one.square == [9]
    with pytest.raises(FrozenInstanceError):
        one.square = [1]
    with pytest.raises(FrozenInstanceError):
        del one.square


def test_parameters_of_random_groups_are_checked_like_those_of_their_designs():
    config = {"id": "multigroup", "groups": 2, "theta": 0.8, "attributes": ["a", "b"]}
    assert scheme_from_config(config).groups == 2
    with pytest.raises(DesignError, match=r"^theta: missing; 'multigroup' needs it$"):
        scheme_from_config({k: v for k, v in config.items() if k != "theta"})
    with pytest.raises(DesignError, match=r"splits: not a parameter of 'multigroup'; it has: attr"):
        scheme_from_config({**config, "splits": "fixed"})


def test_blocks_of_a_product_are_designs():
    for blocks in ("warner", [], 3):
        with pytest.raises(DesignError, match=r"^blocks: got .*; a list of designs is needed$"):
            design_from_config({"id": "product", "blocks": blocks})
    with pytest.raises(DesignError, match=r"designs: not a parameter of 'product'; it has: blocks"):
        design_from_config({"id": "product", "designs": [Warner("a", 0.8)]})
    assert Product([Warner("a", 0.8)]).designs == (Warner("a", 0.8),)
