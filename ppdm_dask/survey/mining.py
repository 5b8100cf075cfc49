"""Models from files of reports, with their honest accuracy, and what they predict for others."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.codebook import Reports
from ppdm_dask.designs.matching import covering
from ppdm_dask.errors import CodebookError, DataError, InputError
from ppdm_dask.faces.face import Face
from ppdm_dask.files.column import Column, Numbers, Texts
from ppdm_dask.files.columns import spreadsheet_safe
from ppdm_dask.files.datafile import Block
from ppdm_dask.files.reader import AS_FOUND, BLOCK, Reading, open_data
from ppdm_dask.files.regular import ending
from ppdm_dask.files.table import Table
from ppdm_dask.files.writing import replacing
from ppdm_dask.inference.owners import Owners
from ppdm_dask.inference.result import Estimate
from ppdm_dask.mine.rules import association_rules
from ppdm_dask.ranges import real, whole
from ppdm_dask.shown import listed, shown
from ppdm_dask.survey.counts import open_sources
from ppdm_dask.survey.disguise import in_file
from ppdm_dask.survey.reports import all_reports, require_attributes
from ppdm_dask.survey.stored import StoredReports

if TYPE_CHECKING:
    from ppdm_dask.cluster.spread import Client
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.regression import GLM
    from ppdm_dask.mine.classifier import Classifier
    from ppdm_dask.mine.rules import Rules
    from ppdm_dask.survey.owners import OwnerFiles
    from ppdm_dask.survey.parts import Sources

__all__ = [
    "Mined",
    "common_attributes",
    "load_reports",
    "mine_files",
    "predict_file",
    "regress_files",
    "reports_of",
    "rules_of_files",
]


def load_reports(
    paths: str | Path | Iterable[str | Path],
    codebook: Codebook,
    design: Design,
    names: Iterable[str] | None = None,
    *,
    keep: Iterable[str] = (),
) -> Reports:
    """Read files of reports into memory: one or two bytes per answer.

    Parameters
    ----------
    paths : path, or paths
        Files, folders of files or of parts, and patterns.
    codebook, design
        Codebook and design of all the files.
    names : iterable of str, optional
        Attributes, in this order; by default all of the codebook that every file has.
    keep : iterable of str
        Columns to keep beside them, such as survey weights.

    Raises
    ------
    DataError
        One line that names a file made with another design or codebook, or whose reports are also
        in another file.

    Examples
    --------
    >>> reports = pp.load_reports("reports.parquet", book, design)  # doctest: +SKIP
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    stated = {"codebook": Path("the codebook"), "design": Path("the design")}
    sources = open_sources([Path(path) for path in given], codebook, design, stated)
    return reports_of(sources, codebook, names, keep=keep)


def reports_of(
    sources: Sources,
    codebook: Codebook,
    names: Iterable[str] | None = None,
    *,
    keep: Iterable[str] = (),
) -> Reports:
    """Reports of sources that are open, in memory; see :func:`load_reports`."""
    names = common_attributes(sources, codebook) if names is None else list(names)
    found = all_reports(sources, names, list(keep))
    # Files do not say which attribute is the target.
    return replace(found, codebook=codebook.select(names))


def common_attributes(sources: Sources, codebook: Codebook) -> list[str]:
    """Attributes that every file has, in the order of the codebook."""
    there = set.intersection(*(set(about.codebook.names) for _, about in sources))
    return [name for name in codebook.names if name in there]


@dataclass(frozen=True, repr=False)
class Mined(Face):
    """A model of all reports, and what such models get right.

    Parameters
    ----------
    model : Classifier
    accuracy : Estimate or None
        Unbiased, on reports that a model did not see: the mean over folds, with its standard error.
    simulated : bool
        Whether some of the reports are of a simulation.
    sizes : tuple of int
        Records of each owner.
    """

    model: Classifier
    accuracy: Estimate | None
    simulated: bool
    sizes: tuple[int, ...]

    def _said(self) -> str:
        found = "not known" if self.accuracy is None else f"{self.accuracy.value:.4f}"
        return f"Mined {type(self.model).__name__} of {sum(self.sizes):,} records, accuracy {found}"


def mine_files(
    files: OwnerFiles,
    make: Callable[[], Classifier],
    codebook: Codebook,
    target: str,
    features: Sequence[str],
    *,
    weights: str | None = None,
    combine: str = "sum",
    folds: int = 5,
    seed: int = 0,
    prune: float | None = None,
) -> Mined:
    """Fit a learner to files of reports, and score it by cross-validation on disguised reports.

    Parameters
    ----------
    files : OwnerFiles
        As :func:`ppdm_dask.survey.open_owners` gives them.
    make : callable
        Gives the learner, unfitted.
    codebook : Codebook
    target : str
    features : sequence of str
    weights : str, optional
        Column of survey weights that was kept; not every learner takes them.
    combine : {"sum", "precision"}
        What records of several owners count for; see :class:`ppdm_dask.Owners`.
    folds : int
        Parts of the reports of each owner, each scored by a model of the others; 0 for no score.
    seed : int
        Of the division into parts.
    prune : float, optional
        Share of the reports that are held back to prune the tree: a branch must be better than a
        leaf by one standard error.  Trees of the parts are grown and pruned alike.

    Raises
    ------
    DataError, RecordsError, NotInvertible, InputError
    """
    if prune is not None:
        real("prune", prune, 0, 1, open_ends=True)
    if folds:
        whole("folds", folds, 2)
    for name in features:
        if name == target:
            raise InputError(f"features: got {shown(name)}, which is the target", name)
    names, others = (*features, target), () if weights is None else (weights,)
    reports = files.load(codebook, names, target, keep=others, weights=combine)
    if weights is not None and isinstance(reports, Reports):
        reports = reports.surveyed_by(weights=weights)
    sizes = _sizes(reports)
    if folds > min(sizes):
        raise InputError(f"folds: got {folds}; there are {min(sizes)} reports", folds)
    accuracy = None
    if folds:
        n, draw = sum(sizes), np.random.default_rng(seed)
        part = [draw.permutation(size) % folds for size in sizes]
        scores = [
            _fitted(
                make(), _of(reports, [each != fold for each in part]), prune, seed
            ).score_disguised(_of(reports, [each == fold for each in part]))
            for fold in range(folds)
        ]
        # Folds share no report, and each weighs what it holds.
        share = [each.n / n for each in scores]
        value = math.fsum(s * each.value for s, each in zip(share, scores, strict=True))
        errors = (s * each.standard_error for s, each in zip(share, scores, strict=True))
        accuracy = Estimate.single(value, math.hypot(*errors), n)
    return Mined(_fitted(make(), reports, prune, seed), accuracy, reports.simulated, sizes)


def _sizes(reports: Reports | Owners) -> tuple[int, ...]:
    """Records of each owner."""
    return tuple(map(len, reports if isinstance(reports, Owners) else [reports]))


def _of(reports: Reports | Owners, chosen: Sequence[npt.NDArray[Any]]) -> Any:
    """Some of the records of each owner, by position or mask."""
    if isinstance(reports, Owners):
        return reports.replaced(one[rows] for one, rows in zip(reports, chosen, strict=True))
    return reports[chosen[0]]


def _fitted(learner: Any, reports: Reports | Owners, prune: float | None, seed: int) -> Classifier:
    """A learner of reports; a tree that is pruned by some of them is grown on the others."""
    if prune is None:
        model: Classifier = learner.fit(reports)
        return model
    sizes = _sizes(reports)
    kept_back = [round(prune * size) for size in sizes]
    for kept, size in zip(kept_back, sizes, strict=True):
        if not 0 < kept < size:
            raise InputError(
                f"prune: got {prune:g}; {size} reports are too few for this share", prune
            )
    draw = np.random.default_rng([seed, 1])
    orders = [draw.permutation(size) for size in sizes]
    both = list(zip(orders, kept_back, strict=True))
    grown = learner.fit(_of(reports, [np.sort(order[kept:]) for order, kept in both]))
    pruned: Classifier = grown.prune(
        _of(reports, [np.sort(order[:kept]) for order, kept in both]), min_z=1.0
    )
    return pruned


def regress_files(
    sources: Sources, model: GLM, codebook: Codebook, design: Design, **survey: str | None
) -> GLM:
    """Fit a regression to files of reports.

    Parameters
    ----------
    sources : list of (Path, About)
        As :func:`ppdm_dask.survey.open_sources` gives them.
    model : GLM
        Its names are attributes, or columns that were kept.
    codebook, design
        Those of the files.
    **survey : str, optional
        Names of the columns of weights, strata, clusters and fpc.

    Returns
    -------
    GLM
        The model, fitted.

    Raises
    ------
    DataError, RecordsError, InputError
    """
    wanted = model.variables()
    names = covering(design, [name for name in wanted if name in codebook.names])
    beside = [name for name in wanted if name not in codebook.names]
    beside += [name for name in survey.values() if name is not None and name not in beside]
    if not names:
        raise InputError(f"formula: {listed(wanted)}: none is an attribute of the codebook", wanted)
    reports = all_reports(sources, names, beside)
    return model.fit(reports, **survey)


def rules_of_files(
    opened: OwnerFiles,
    codebook: Codebook,
    design: Design | None = None,
    names: Sequence[str] | None = None,
    *,
    client: Client | None = None,
    **options: Any,
) -> Rules:
    """Find association rules behind files of reports, which are counted where they are read.

    Files of several owners are read into memory.

    Parameters
    ----------
    opened : OwnerFiles
        As :func:`ppdm_dask.survey.open_owners` gives them.
    codebook : Codebook
        That of the files.
    design : Design, optional
        By default the design stored in the files.
    names : sequence of str, optional
        Attributes; by default all of the codebook that every file has.
    client : distributed.Client, optional
        Whose workers count; by default the active one, or else this process, block by block.
    **options
        Of :func:`ppdm_dask.association_rules`.

    Raises
    ------
    DataError, RecordsError, InputError
    """
    chosen = opened.common(codebook) if names is None else list(names)
    if len(opened.reports) != 1 or opened.clean:
        if client is not None:
            raise InputError(
                "--workers, --cluster: files of several owners are read in this process", client
            )
        records = opened.load(codebook, chosen)
        return association_rules(records, **options)
    (sources,) = opened.reports
    design = sources[0][1].design.bind(codebook) if design is None else design
    # Whole blocks: what is asked for may not be cut out of its block.
    read = covering(design, chosen)
    for path, about in sources:
        require_attributes(path, about, read)
    reports = StoredReports(sources, read, client=client)
    return association_rules(reports, design, attributes=chosen, **options)


def predict_file(
    model: Classifier,
    data: Path,
    out: Path,
    *,
    keep: Sequence[str] = (),
    probabilities: bool = False,
    safe: bool = False,
    how: Reading = AS_FOUND,
    size: int = BLOCK,
) -> int:
    """Predict the target for a file of true answers, block by block.

    Parameters
    ----------
    model : Classifier
        As :func:`ppdm_dask.mine.read_model` gives it.
    data : Path
        A data file with a column for each feature.
    out : Path
        ``.csv`` or ``.parquet``: the kept columns, and ``predicted`` with the label.
    keep : sequence of str
        Columns to pass on.
    probabilities : bool
        Whether to add a column ``P(label)`` for each class.
    safe : bool
        Put an apostrophe before texts of a CSV that a spreadsheet would run as formulas.
    how : Reading
        How to read the data file, if known.

    Returns
    -------
    int
        Records.

    Raises
    ------
    DataError
        If a column is absent, or holds what the codebook of the model does not declare, or one to
        pass on holds values of several types, which only a CSV can.
    """
    file = open_data(data, how=replace(how, known=model.codebook_.names))
    features = list(model.features_)
    if absent := [name for name in features if name not in file.columns]:
        raise DataError(
            f"{data}: lacks {listed(absent)}; the model predicts from {listed(features)}", absent
        )
    file.require(keep)
    book = model.codebook_.select(features)
    labels = [str(label) for label in model.classes_]
    heads = [*keep, "predicted", *(f"P({label})" for label in labels if probabilities)]
    if len(set(heads)) < len(heads):
        raise InputError(f"keep: {listed(keep)}: a column of that name is written", keep)
    wanted = list(dict.fromkeys([*features, *keep]))

    def predicted(block: Block) -> Table:
        try:
            records = book.encode(block.table, block.offset)
        except CodebookError as error:
            raise in_file(error, data, block) from None
        columns: list[Column] = [block.table[name] for name in keep]
        columns.append(Texts(model.predict_codes(records), labels, categories=False))
        if probabilities:
            columns += map(Numbers, model.predict_proba(records).T)
        return Table(heads, columns, len(records))

    n = 0
    with replacing(out, [data]) as aside, _writing(aside, data, heads, safe) as write:
        for block in file.blocks(wanted, size):
            write(predicted(block))
            n += block.table.n
        if not n:  # a file without records has columns too
            write(predicted(file.read(wanted)))
    return n


def _writing(
    path: Path, data: Path, heads: Sequence[str], safe: bool
) -> AbstractContextManager[Callable[[Table], None]]:
    """Context in which tables of the same columns are written to a file, one behind the other."""
    if ending(path) == ".csv":
        return _csv(path, heads, safe)
    return _parquet(path, data, heads)


@contextmanager
def _csv(path: Path, heads: Sequence[str], safe: bool) -> Iterator[Callable[[Table], None]]:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)

        def write(table: Table) -> None:
            rows = zip(*(column.cells() for column in table.values), strict=True)
            writer.writerows(spreadsheet_safe(row) if safe else row for row in rows)

        yield write


@contextmanager
def _parquet(path: Path, data: Path, heads: Sequence[str]) -> Iterator[Callable[[Table], None]]:
    """The first table says of what type each column is."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ExitStack() as opened:
        writer: Any = None

        def write(table: Table) -> None:
            nonlocal writer
            kinds = [None] * len(heads) if writer is None else writer.schema.types
            arrays = []
            for name, column, kind in zip(heads, table.values, kinds, strict=True):
                try:
                    arrays.append(column.arrow(_stored(column) if kind is None else kind))
                except (pa.ArrowException, OverflowError):
                    raise DataError(
                        f"{data}: column {shown(name)} holds values of several types, which no "
                        "column of Parquet does; write the predictions to a .csv file",
                        name,
                    ) from None
            made = pa.table(arrays, names=list(heads))
            if writer is None:
                writer = opened.enter_context(pq.ParquetWriter(path, made.schema))
            writer.write_table(made)

        yield write


def _stored(column: Column) -> Any:
    """Arrow type of a column, None for its own; texts read as categories stay such in Parquet."""
    import pyarrow as pa

    if not isinstance(column, Texts):
        return None
    # Later blocks may have more categories than the first.  What was predicted has the type that
    # pandas gives to texts.
    return pa.dictionary(pa.int32(), pa.string()) if column.categories else pa.large_string()
