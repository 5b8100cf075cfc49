"""The contract of a randomization design.

A design is a column-stochastic matrix P, ``reported = P @ true``, over the joint categories of a
block of attributes.  Everything that is estimated follows from a left inverse B, ``B P = I``: for
a true event E, a reported symbol y carries the unbiased weight ``w(E, y) = <1_E, B e_y>``.

A family states its parameters, which are those of its constructor, and its P.  The dense
methods below work for any family; a family with structure replaces them by its own, which the
battery of tests holds to the dense ones.

Also here: joint categories of several attributes as one number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ppdm_dask import privacy as formulas
from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Codebook, Records, Reports, code_dtype, table_of
from ppdm_dask.data.partitioned import native, notice, plugin_for
from ppdm_dask.designs.binding import Binding, check_fit, check_words, require_labels
from ppdm_dask.designs.draws import Steps, Thresholds, all_thresholds, draw_signed
from ppdm_dask.designs.facing import Facing
from ppdm_dask.designs.inverses import left_inverse
from ppdm_dask.designs.labels import Orders
from ppdm_dask.designs.parameters import same_config
from ppdm_dask.errors import DesignError, InputError, NotInvertible, RecordsError
from ppdm_dask.files.declared import document_of_kinds
from ppdm_dask.files.documents import read_toml
from ppdm_dask.privacy import PosteriorSummary, Prior
from ppdm_dask.randomness import LOGICAL_BLOCK, Stream
from ppdm_dask.shown import amount, given, listed

if TYPE_CHECKING:
    from ppdm_dask.data.partitioned import PartitionedReports

__all__ = [
    "Codes",
    "Design",
    "design_from_config",
    "design_schema",
    "families",
    "inside_of",
    "made_by",
    "register",
    "row_major",
]


def row_major(codes: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """Row-major index of each row of codes, shape (n,)."""
    index = np.zeros(len(codes), dtype=np.int64)
    for axis, size in enumerate(shape):
        index *= size
        index += codes[:, axis]
    return index


def inside_of(design: Design, masks: Mapping[str, npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    """Which joint categories are in an event, of the shape of the design.

    Parameters
    ----------
    design : Design
    masks : mapping of attribute to bool array
        The event: attribute a lies in the categories where its mask is true.
    """
    inside = np.ones(design.shape, bool)
    for axis, (name, size) in enumerate(zip(design.attributes, design.shape, strict=True)):
        if name in masks:
            along = [1] * len(design.shape)
            along[axis] = size
            inside &= masks[name].reshape(along)
    return inside


Codes = npt.NDArray[Any]

MAX_DENSE = 4_096
"""Categories above which no dense P or B is made; structured families do without."""

MAX_CONDITION_SIZE = 512
"""Categories above which no condition number is computed for a message."""


def _product(matrix: Floats, array: Floats) -> Floats:
    result: Floats = np.tensordot(matrix, array, axes=1)
    return result


class Design(Binding, Facing, ABC):
    r"""A randomization of one block of attributes, or a product of blocks.

    Reports have the law of the truth times a matrix with columns of sum 1, and a left inverse
    undoes it; blocks b are independent.  Eqs. (1) and (2) of [HuangDu]_:

    .. math:: P^* = P p, \qquad B P = I, \qquad P = \bigotimes_b P_b

    A report y has a weight for an event E, whose mean is 1 where the truth x is in E, else 0:

    .. math:: w(E, y) = \prod_b \langle 1_{E_b}, B_b e_{y_b} \rangle, \qquad
        E[w(E, y) \mid x] = 1_E(x)

    Attributes
    ----------
    attributes : tuple of str
        The attributes of the block.
    shape : tuple of int
        True categories of each attribute; the block's joint category is their row-major index.
    inverse : str
        Name of the left inverse: ``weighted``, or another that the family offers.
    p0 : array or None
        Law of the truth at which a tall P's inverse has least variance; None for uniform.
    codebook : Codebook or None
        The one that the design was bound to by :meth:`bind`; tables of answers are read by it.
    """

    kind: ClassVar[Literal["symbol", "set"]] = "symbol"

    inverse: str = "weighted"
    p0: Floats | None = None
    codebook: Codebook | None = None

    # -- what a family states ------------------------------------------------------------------

    @abstractmethod
    def matrix(self) -> Floats:
        """P, shape (reported symbols, true categories); columns sum to 1."""

    @abstractmethod
    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        """Disguise records of one logical block.

        Parameters
        ----------
        codes : array, shape (n, attributes of the block)
            True codes of the records ``start .. start + n - 1`` of the logical block.
        stream : Stream
            Keyed by the block; sources below it serve one list of draws each.
        start : int
            Position of the first record in the logical block.
        """

    def steps(self) -> Steps:
        """How one report is drawn, as plain values for clients in other languages.

        A client that follows them and is given the words of :meth:`sample` makes the same report.
        ``op`` names the step; a coin is ``at``, the key of its source, and ``digits``, the binary
        digits of its probability, ``"one"`` for certainty; cuts of a law are whole numbers in
        units of 2**-62, as text.  A family that does not state its own is drawn for by its matrix.

        Raises
        ------
        DesignError
            If the matrix would be too large.
        """
        self._require_dense()
        return self._drawn_by(all_thresholds(self.matrix()))

    def _drawn_by(self, laws: Thresholds) -> Steps:
        cuts, last = laws
        return {
            "op": "draw",
            "at": [0],
            "shape": list(self.shape),
            "reported": list(self.reported_shape),
            "cuts": [[str(cut) for cut in column] for column in cuts],
            "last": [int(symbol) for symbol in last],
        }

    @property
    @abstractmethod
    def undefined(self) -> str:
        """Why P has no left inverse, in a few words; empty where it has one."""

    # -- structure -----------------------------------------------------------------------------

    @property
    def blocks(self) -> tuple[Design, ...]:
        """The independent blocks; a design that is not a product is its own single block."""
        return (self,)

    @property
    def n_true(self) -> int:
        """Joint true categories of the block."""
        return math.prod(self.shape)

    @property
    def n_reported(self) -> int:
        """Joint reported symbols of the block."""
        return math.prod(self.reported_shape)

    @property
    def reported_shape(self) -> tuple[int, ...]:
        """Symbols in the reported column of each attribute; their row-major index is the symbol."""
        return self.shape

    def marginal(self, attributes: Sequence[str]) -> Design | None:
        """The design seen by some attributes of the block, or None where it is not lumpable."""
        return self if tuple(attributes) == self.attributes else None

    def summed_over(self, attributes: Sequence[str], vector: Floats) -> Floats:
        """Sum a joint vector of the block over the attributes that are not named."""
        axes = tuple(i for i, name in enumerate(self.attributes) if name not in attributes)
        summed: Floats = np.asarray(vector).reshape(self.shape).sum(axis=axes).ravel()
        return summed

    # -- algebra (dense statements) ------------------------------------------------------------

    def _require_dense(self) -> None:
        if max(self.n_true, self.n_reported) > MAX_DENSE:
            raise DesignError(
                f"{self.id}: {amount(self.n_reported)} x {amount(self.n_true)} is too large for a "
                f"dense matrix (at most {MAX_DENSE} categories)",
                self,
            )

    def require_inverse(self) -> None:
        """Raise NotInvertible, with P and its condition number, where there is no inverse."""
        if self.undefined:
            subject: object = self
            condition = math.inf
            if self.n_true <= MAX_CONDITION_SIZE and self.n_reported <= MAX_DENSE:
                subject = self.matrix()
                condition = float(np.linalg.cond(subject))
            raise NotInvertible(
                f"{self.id} on {listed(self.attributes)} is not invertible: {self.undefined} "
                f"(condition number {condition:.3g})",
                subject,
            )

    @cached_property
    def _left_inverse(self) -> Floats:
        self.require_inverse()
        inverse = left_inverse(self.matrix(), self.p0)
        inverse.flags.writeable = False
        return inverse

    def left_inverse(self) -> Floats:
        r"""B, shape (true categories, reported symbols): B P = I and columns sum to 1.

        The weighted one of a tall P has the least variance where the truth follows p0:

        .. math:: B = (P^T D^{-1} P)^{-1} P^T D^{-1}, \qquad D = \operatorname{diag}(P p_0)
        """
        self._require_dense()
        return self._left_inverse

    def apply(self, true: Floats) -> Floats:
        """P @ true, along axis 0; shape (true categories, ...) to (reported symbols, ...)."""
        return _product(self.matrix(), true)

    def apply_transposed(self, reported: Floats) -> Floats:
        """P.T @ reported, along axis 0: what a function of the report is expected to be."""
        return _product(self.matrix().T, reported)

    def invert(self, reported: Floats) -> Floats:
        """B @ reported, along axis 0."""
        return _product(self.left_inverse(), reported)

    def invert_squared(self, reported: Floats) -> Floats:
        """(B * B) @ reported, along axis 0: second moments of the event weights."""
        return _product(self.left_inverse() ** 2, reported)

    def invert_transposed(self, true: Floats) -> Floats:
        """B.T @ true, along axis 0: from a function of the truth to its weight per report."""
        return _product(self.left_inverse().T, true)

    def variance(self, prior: Prior) -> Floats:
        r"""Variance of one report's estimate of each category, of people drawn from a prior.

        Divided by n it is the variance of the proportion estimated from n reports:

        .. math:: V_x = \sum_y B_{xy}^2 (P p)_y - p_x^2

        Parameters
        ----------
        prior : array_like, shape of the block, or mapping of label to proportion
            Joint law of the truth.

        Returns
        -------
        array, shape (true categories,)

        Raises
        ------
        NotInvertible
            If nothing can be estimated from the reports.

        Examples
        --------
        >>> from ppdm_dask import Warner
        >>> Warner("a", 0.8).variance([0.9, 0.1]).round(6).tolist()
        [0.534444, 0.534444]
        """
        self.require_inverse()
        p = formulas.check_prior(self, prior)
        # Rounding can leave -1e-17 where every report tells the truth of everybody.
        found: Floats = np.maximum(self._second_moments(p) - p**2, 0.0)
        return found

    def _second_moments(self, p: Floats) -> Floats:
        """Second moment of the weight of each category where the truth follows p."""
        return self.invert_squared(self.apply(p))

    def weights(self, masks: Mapping[str, npt.NDArray[np.bool_]], codes: Codes) -> Floats:
        """Unbiased weights w(E, y) of an event for reported records.

        Parameters
        ----------
        masks : mapping of attribute to bool array
            The event: attribute a lies in the categories where its mask is true.
        codes : array, shape (n, attributes of the block)
            Reported codes.
        """
        event = inside_of(self, masks).ravel().astype(float)
        return self.invert_transposed(event)[self.joint(codes)]

    def sample_inverse(self, codes: Codes, stream: Stream) -> tuple[Codes, Floats]:
        """Draw truths in proportion to ``|B e_y|``, with signs: E[factor f(x)] = <f, B e_y>.

        Parameters
        ----------
        codes : array, shape (n, attributes of the block)
            Reported codes y.

        Returns
        -------
        codes, factors : arrays, shapes (n, attributes of the block) and (n,)
        """
        words = stream.source(0).words(len(codes))
        truth, factors = draw_signed(self.left_inverse(), self.joint(codes), words)
        return np.stack(np.unravel_index(truth, self.shape), axis=1).astype(codes.dtype), factors

    def joint(self, codes: Codes) -> npt.NDArray[np.int64]:
        """Row-major joint symbol of each record's reported codes, shape (n,)."""
        return row_major(codes, self.reported_shape)

    def posterior_summary(self, prior: Floats) -> PosteriorSummary:
        """Totals, largest entries and sums of squares of P[y, x] p[x] per symbol y."""
        joint = self.matrix() * np.asarray(prior, dtype=float).reshape(-1)
        return PosteriorSummary(joint.sum(1), joint.max(1), (joint**2).sum(1))

    def likelihood_range(self) -> tuple[Floats, Floats]:
        """Smallest and largest P[y, x] over x, per symbol y."""
        P = self.matrix()
        return P.min(1), P.max(1)

    # -- what a user calls ---------------------------------------------------------------------

    @overload
    def disguise(self, answers: Records, stream: Stream | None = None) -> Reports: ...

    @overload
    def disguise(
        self,
        answers: Any,
        stream: Stream | None = None,
        *,
        codebook: Codebook | None = None,
        keep: Sequence[str] = (),
    ) -> Any: ...

    def disguise(
        self,
        answers: Any,
        stream: Stream | None = None,
        *,
        codebook: Codebook | None = None,
        keep: Sequence[str] = (),
    ) -> Reports | PartitionedReports:
        """Disguise answers, as each respondent would before answering.

        The design is bound to the codebook of the answers, by label.  Attributes of the codebook
        that the design does not cover pass through undisguised.

        Parameters
        ----------
        answers : Records, table, collection of Dask, or files
            Records are coded already.  A table is a frame of pandas, polars or narwhals, an Arrow
            table, whatever gives an Arrow stream, or a mapping of columns.  A DataFrame of Dask, a
            list of its delayed frames, and files (a path, a list of paths, a folder or a glob) give
            lazy reports, the same ones however often they are computed: see
            :class:`ppdm_dask.cluster.reports.LazyReports`.
        stream : Stream, optional
            ``Stream.from_seed(seed)`` simulates.  By default draws are cryptographic, as with
            ``Stream.from_entropy()``: a real disguise.
        codebook : Codebook, optional
            Of the answers; by default the one that the design is bound to.
        keep : sequence of str
            Columns of a table beside the codebook's that stay as they are, such as survey weights.

        Warns
        -----
        DisguisedAgain
            If this process has disguised the same table, collection or files for real before.

        Raises
        ------
        RecordsError
            If the records lack an attribute of the design, it has another number of categories, or
            they are reports already.
        CodebookError
            If a table lacks a column, or holds a value that the codebook does not declare.
        DesignError
            If the codebook has other labels, or the order of categories matters and the design
            states no labels.  A simulation then goes by the order of the codebook.
        InputError
            For answers other than records if there is no codebook.
        """
        stream = Stream.from_entropy() if stream is None else stream
        if isinstance(answers, Records):
            return _disguise(self, answers, stream)
        book = self.codebook if codebook is None else codebook
        if book is None:
            raise InputError(
                "disguise: a codebook is needed to read a table; bind the design to one "
                "(design.bind(book)), or give codebook=",
                self,
            )
        answers = native(answers)
        elsewhere = plugin_for(answers)
        if elsewhere is not None:
            lazy: PartitionedReports = elsewhere(self, answers, stream, book, keep)
            return lazy
        reports = _disguise(self, book.encode(table_of(answers), keep=keep), stream)
        if not stream.simulated:
            notice(answers, self.attributes)
        return reports

    @staticmethod
    def read(path: str | Path, codebook: Codebook | None = None) -> Design:
        """Read a design from a TOML file with its ``id`` and parameters.

        Parameters
        ----------
        path : path
        codebook : Codebook, optional
            Bind the design to it: see :meth:`bind`.

        Raises
        ------
        InputError
            One line: the file, the parameter, and what would be right.
        """
        path = Path(path)
        content = read_toml(path, DesignError)
        try:
            design = design_from_config(content)
            return design if codebook is None else design.bind(codebook)
        except InputError as error:
            raise DesignError(f"{path}: {error}", error.subject) from None

    # -- labels ---------------------------------------------------------------------------------

    def in_order(self, orders: Orders) -> Design:
        """The design with the categories of some attributes in another order, by label.

        Attributes whose labels are not stated stay as they are.

        Parameters
        ----------
        orders : mapping of attribute to labels

        Raises
        ------
        DesignError
            If the labels of an attribute are others than the design states.
        """
        return self

    def by_position(self) -> Design | None:
        """The same law without labels; None where only labels can state it."""
        return self

    def bind(self, codebook: Codebook, *, positions: bool = False) -> Design:
        """The design in the order of a codebook's categories: the law is permuted by label.

        Parameters
        ----------
        codebook : Codebook
            Has all the attributes of the design.
        positions : bool
            Take the order of an attribute's categories as it is where the design states no labels.
            For simulations, which nobody's answer depends on.

        Returns
        -------
        Design
            An equal design where it is in that order, or no order matters.  It keeps the codebook,
            unless it was bound by positions.

        Raises
        ------
        RecordsError
            If the codebook lacks an attribute, or declares another number of categories.
        DesignError
            If the codebook has other labels, or the order matters and the design states none: the
            message has the line to add.
        """
        bound = _in_order_of(self, codebook, positions)
        return bound if positions or bound.codebook is codebook else bound._keeping(codebook)

    def _keeping(self, codebook: Codebook | None) -> Self:
        """The same design, with what it has computed so far, bound to a codebook."""
        kept = object.__new__(type(self))
        vars(kept).update(vars(self), codebook=codebook)
        return kept

    # -- privacy: what a report tells about the truth ------------------------------------------
    #
    # A prior is an array in the order of the categories; for one attribute also a mapping of label
    # and proportion.

    def privacy(self, prior: Prior) -> float:
        """MAP privacy, in [0, 1 - max p]: see :func:`ppdm_dask.privacy.map_privacy`."""
        return formulas.map_privacy(self, prior)

    def max_posterior(self, prior: Prior) -> float:
        """Worst posterior: max over x, y of P(x | y), in [max p, 1]. Eq. (9) of [HuangDu]_."""
        return formulas.max_posterior(self, prior)

    def pse(self, prior: Prior) -> float:
        """Expected Gini impurity of the posterior, which is the PSE of [ZhanMatwin]_, Eq. (2)."""
        return formulas.pse(self, prior)

    def epsilon(self) -> float:
        """Log of the largest likelihood ratio (local differential privacy); may be infinite."""
        return formulas.epsilon(self)

    def gamma(self) -> float:
        """Amplification, the largest likelihood ratio: see :func:`ppdm_dask.privacy.gamma`."""
        return formulas.gamma(self)

    def log_ratio(self) -> float:
        """Log of the largest P[y, x] / P[y, x'] over y, x and x'; infinite where y rules x' out."""
        blocks = self.blocks
        if len(blocks) > 1:
            return sum(block.log_ratio() for block in blocks)
        low, high = self.likelihood_range()
        possible = high > 0
        if (low[possible] <= 0).any():
            return math.inf
        return float(np.log(high[possible] / low[possible]).max())

    def worst_posterior(self, prior: npt.NDArray[np.float64]) -> float:
        """Largest P(x | y) over x and possible y, for a checked prior."""
        summary = self.posterior_summary(prior)
        possible = summary.total > 0
        return float((summary.largest[possible] / summary.total[possible]).max())

    def attribute_channel(self, attribute: str, prior: Floats) -> tuple[Design, Floats]:
        """What an adversary sees who looks at one reported attribute, and that attribute's prior.

        For a checked prior; see :func:`ppdm_dask.privacy.attribute_channel`.
        """
        own = self.summed_over([attribute], prior)
        lumped = self.marginal([attribute])
        if lumped is not None:
            return lumped, own
        axis = self.attributes.index(attribute)
        d = len(self.shape)
        joint = (self.matrix() * prior).reshape(self.reported_shape + self.shape)
        others = tuple(i for i in range(2 * d) if i not in (axis, d + axis))
        both = joint.sum(axis=others)
        # A category without prior mass has no conditional law; any column does.
        P = np.divide(both, own, out=np.full_like(both, 1 / len(both)), where=own > 0)
        law: dict[str, Any] = {"id": "matrix", "attributes": attribute, "P": P / P.sum(axis=0)}
        labels = self.categories[axis]
        return design_from_config(law | ({} if labels is None else {"categories": labels})), own

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Design) and same_config(self._config(), other._config())

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __reduce__(self) -> tuple[Callable[..., Design], tuple[Any, ...]]:
        # Arrays lose their read-only flag when they are pickled; a design is built again instead.
        if self.codebook is None:
            return design_from_config, (self.config(),)
        return _bound_from_config, (self.config(), self.codebook)


def _bound_from_config(config: Mapping[str, Any], codebook: Codebook) -> Design:
    return design_from_config(config)._keeping(codebook)


def _in_order_of(design: Design, codebook: Codebook, positions: bool) -> Design:
    """The design in the order of a codebook; see :meth:`Design.bind`.

    Where that is its order already it is the very object, which keeps what it has computed.
    """
    orders = {n: codebook[n].categories for n in design.attributes if n in codebook.names}
    bound = design.in_order(orders)
    check_fit(design, codebook)
    if not positions:
        require_labels(design, orders)
        check_words(design, orders)
    return bound


def _disguise(design: Design, records: Records, stream: Stream) -> Reports:
    """Disguise by logical blocks: the result depends on positions, not on partitions."""
    if isinstance(records, Reports):
        raise RecordsError(
            "these answers are already disguised; a second disguise reveals more and cannot be "
            "corrected for",
            records,
        )
    design = _in_order_of(design, records.codebook, stream.simulated)
    sizes = list(records.codebook.shape)
    sets: dict[str, npt.NDArray[np.uint8]] = {}
    for block in design.blocks:
        for name, size in zip(block.attributes, block.reported_shape, strict=True):
            sizes[records.codebook.index(name)] = 1 if block.kind == "set" else size
    codes = np.array(records.codes, code_dtype(max(sizes)), order="F")
    first, last = records.offset, records.offset + len(records)
    for block, key in _keyed(design):
        columns = [records.codebook.index(name) for name in block.attributes]
        parts = []
        for logical in range(first // LOGICAL_BLOCK, -(-last // LOGICAL_BLOCK)):
            low = max(first, logical * LOGICAL_BLOCK)
            high = min(last, (logical + 1) * LOGICAL_BLOCK)
            rows = slice(low - first, high - first)
            # Where nobody can repeat the draws, those of the records before need not be made.
            start = 0 if stream.fresh else low - logical * LOGICAL_BLOCK
            reports = block.sample(
                records.codes[rows][:, columns], stream.child(logical, *key), start
            )
            if block.kind == "set":
                parts.append(reports)
            else:
                codes[rows, columns] = reports
        if block.kind == "set":
            n_bytes = -(-block.n_true // 8)
            sets[block.attributes[0]] = np.concatenate([np.zeros((0, n_bytes), np.uint8), *parts])
            codes[:, columns] = 0
    return Reports(
        codes,
        records.codebook,
        first,
        design.digest,
        stream.simulated,
        tuple(sizes),
        sets,
        **records.survey,
        kept=records.kept,
        design=design,
    )


def _keyed(design: Design) -> list[tuple[Design, tuple[int, ...]]]:
    """Designs to sample from, each with its key below a logical block's.

    A product without sets samples as one, which keeps its blocks' draws together.
    """
    if design.kind == "symbol" and all(block.kind == "symbol" for block in design.blocks):
        return [(design, ())]
    if len(design.blocks) == 1 and design.blocks[0] is design:
        return [(design, ())]
    return [(block, (j,)) for j, block in enumerate(design.blocks)]


_FAMILIES: dict[str, type[Design]] = {}

Family = TypeVar("Family", bound="type[Design]")


def register(family: Family) -> Family:
    """Class decorator: make a family known by its ``id`` to configurations and to the battery."""
    if family.id in _FAMILIES:
        raise DesignError(f"two design families are called {family.id!r}", family)
    _FAMILIES[family.id] = family
    return family


def families() -> dict[str, type[Design]]:
    """Registered families by id, in alphabetical order."""
    return dict(sorted(_FAMILIES.items()))


def design_schema() -> dict[str, Any]:
    """JSON Schema of a design file of any family."""
    kinds = {name: family.schema() for name, family in families().items()}
    kinds |= {name: schema for name, (_, schema) in _MAKERS.items()}
    return document_of_kinds("A design file of ppdm_dask", "id", kinds)


def design_from_config(config: Mapping[str, Any]) -> Design:
    """Build the design that a configuration describes.

    Parameters
    ----------
    config : mapping
        ``id`` names the family, the other keys are its parameters, as :meth:`Design.config` gives
        them.

    Raises
    ------
    DesignError
        For an unknown family, an unknown or missing parameter, or an impossible value.
    """
    if not isinstance(config, Mapping):
        raise DesignError(f"design: got {given(config)}; a table with an id is needed", config)
    parameters = dict(config)
    name = parameters.pop("id", None)
    if not isinstance(name, str) or name not in {*_FAMILIES, *_MAKERS}:
        known = ", ".join(sorted([*_FAMILIES, *_MAKERS]))
        raise DesignError(f"id: got {given(name)}; a design family is needed: {known}", name)
    family = _FAMILIES.get(name)
    return _made(name, parameters) if family is None else family.from_config(parameters)


Maker = TypeVar("Maker", bound="Callable[..., Design]")

_MAKERS: dict[str, tuple[Callable[..., Design], dict[str, Any]]] = {}


def made_by(
    name: str, title: str, properties: dict[str, Any], optional: Sequence[str] = ()
) -> Callable[[Maker], Maker]:
    """Function decorator: a configuration of that ``id`` makes a design of another family.

    Parameters
    ----------
    name, title : str
    properties : JSON Schema by key
    optional : sequence of str
        Keys that are not needed.
    """

    def remember(make: Maker) -> Maker:
        schema = {
            "title": title,
            "type": "object",
            "properties": {"id": {"const": name}, **properties},
            "required": ["id", *(key for key in properties if key not in optional)],
            "additionalProperties": False,
        }
        _MAKERS[name] = make, schema
        return make

    return remember


def _made(name: str, parameters: Mapping[str, Any]) -> Design:
    make, schema = _MAKERS[name]
    keys = [key for key in schema["properties"] if key != "id"]
    for key in dict.fromkeys([*parameters, *keys]):
        if key not in keys:
            raise DesignError(
                f"{listed([key])}: not a parameter of {name!r}; it has: {', '.join(keys)}", key
            )
        if key not in parameters and key in schema["required"]:
            raise DesignError(f"{key}: missing; {name!r} needs it", key)
    return make(**parameters)
