"""Codebooks, records, random designs and events for the tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from ppdm_dask import (
    Attribute,
    Codebook,
    Identity,
    KaryResponse,
    MultiGroup,
    Product,
    Records,
    Reports,
    RRMatrix,
    UnrelatedQuestion,
    Warner,
    design_from_config,
)
from ppdm_dask.designs import Design, Permanent


def make_codebook(names: Sequence[str], shape: Sequence[int], target: str | None = None):
    """Nominal attributes whose labels are their codes."""
    attributes = [
        Attribute(n, tuple(map(str, range(k)))) for n, k in zip(names, shape, strict=True)
    ]
    return Codebook(tuple(attributes), target)


def codebook_of(design: Design) -> Codebook:
    return make_codebook(design.attributes, design.shape)


def with_labels(design: Design, codebook: Codebook | None = None) -> Design:
    """The design with the codebook's labels stated, in the order of its own axes."""
    book = codebook_of(design) if codebook is None else codebook
    parts = []
    for block in design.blocks:
        labels = [list(book[name].categories) for name in block.attributes]
        stated = {"categories": labels[0] if len(labels) == 1 else labels}
        if block.id in ("mangat", "triangular", "kuk"):
            stated["trait"] = labels[0][1]
        elif isinstance(block, Permanent):
            # Permanent symbols are labelled only where they are the categories.
            again = block.again
            if block.first.reported_shape == block.shape:
                again = with_labels(again, book)
            parts.append(Permanent(with_labels(block.first, book), again))
            continue
        elif block.id not in ("matrix", "forced", "pram", "unrelated"):
            parts.append(block)
            continue
        parts.append(design_from_config({**block.config(), **stated}))
    if not isinstance(design, Product):
        return parts[0]
    return design if isinstance(design, MultiGroup) else Product(parts)


def codes_of(joint, shape: Sequence[int]):
    """Codes, shape (n, attributes), of row-major joint categories."""
    return np.stack(np.unravel_index(np.asarray(joint), tuple(shape)), axis=1)


def joint_of(codes, shape: Sequence[int]):
    """Row-major joint categories of codes."""
    return np.ravel_multi_index(tuple(np.asarray(codes).T.astype(np.int64)), tuple(shape))


def random_records(codebook: Codebook, n: int, seed: int, offset: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(k, size=n) for k in codebook.shape], axis=1)
    return Records(codes, codebook, offset)


def reports_of(codes, codebook: Codebook, design: Design) -> Reports:
    """Reports that say the design made them, whatever they are."""
    return Reports(np.asarray(codes), codebook, 0, design.digest, True)


def kron(matrices):
    """Kronecker product, element by element."""
    whole = np.ones((1, 1))
    for matrix in matrices:
        shape = whole.shape[0] * matrix.shape[0], whole.shape[1] * matrix.shape[1]
        whole = np.einsum("ab,cd->acbd", whole, matrix).reshape(shape)
    return whole


def random_prior(k: int, rng: np.random.Generator):
    p = rng.dirichlet(np.ones(k))
    return p / p.sum()


# -- hypothesis ------------------------------------------------------------------------------------

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def laws(draw, k: int):
    """Probability vectors of length k with small rational entries, zeros among them."""
    weights = draw(st.lists(st.integers(0, 6), min_size=k, max_size=k).filter(any))
    return np.array(weights) / sum(weights)


@st.composite
def matrices(draw, n: int):
    """Asymmetric invertible column-stochastic matrices with entries of B below 6, zeros in some."""
    keep = draw(st.sampled_from([0.6, 0.75, 0.9]))
    others = np.stack([draw(laws(n)) for _ in range(n)], axis=1)
    order = draw(st.permutations(range(n)))
    return (keep * np.eye(n) + (1 - keep) * others)[list(order)]


@st.composite
def lumpable_matrices(draw, shape: Sequence[int]):
    """Joint matrices that marginalise to any of their attributes: products and mixtures."""
    if draw(st.booleans()):
        return kron([draw(matrices(k)) for k in shape])
    q, law = draw(st.sampled_from([0.3, 0.6])), draw(laws(math.prod(shape)))
    return q * np.eye(len(law)) + (1 - q) * law[:, None]


@st.composite
def blocks(draw, names: Sequence[str]):
    """A design of any family over the names."""
    d = len(names)
    shape = [draw(st.integers(2, 3)) for _ in range(d)]
    family = draw(st.sampled_from(["single" if d == 1 else "joint", "matrix", "mixture"]))
    if family == "single":
        if shape[0] == 2:
            return Warner(names[0], draw(st.sampled_from([0.1, 0.3, 0.75, 1.0])))
        return KaryResponse(names[0], shape[0], draw(st.sampled_from([0.1, 0.6, 0.9])))
    if family == "joint":
        return RRMatrix(names, draw(lumpable_matrices(shape)), shape)
    if family == "matrix":
        return RRMatrix(names, draw(matrices(math.prod(shape))), shape)
    q = draw(st.sampled_from([0.2, 0.5, 1.0]))
    return UnrelatedQuestion(names, q, [draw(laws(k)) for k in shape])


@st.composite
def designs(draw, max_blocks: int = 3):
    """Products of random blocks over attributes a, b, c, ..."""
    sizes = draw(st.lists(st.integers(1, 2), min_size=1, max_size=max_blocks))
    names = iter("abcdef")
    parts = [draw(blocks([next(names) for _ in range(size)])) for size in sizes]
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else Product(parts)


@st.composite
def covered_codebooks(draw, design: Design):
    """The design's attributes and up to two more, in any order."""
    attributes = list(codebook_of(design).attributes)
    for name in draw(st.sampled_from([(), ("u",), ("u", "v")])):
        attributes.append(Attribute(name, ("0", "1", "2")))
    return Codebook(tuple(draw(st.permutations(attributes))))


@st.composite
def events(draw, codebook: Codebook):
    """Conjunctions over some of the attributes; one, several or all labels of each."""
    names = draw(st.lists(st.sampled_from(codebook.names), unique=True, min_size=1))
    return {
        name: draw(st.lists(st.sampled_from(codebook[name].categories), unique=True, min_size=1))
        for name in names
    }


def identity_of(codebook: Codebook) -> Identity:
    return Identity(codebook.names, codebook.shape)
