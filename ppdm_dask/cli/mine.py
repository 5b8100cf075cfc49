"""``ppdm mine`` and ``ppdm predict``: models from files of reports, and what they predict."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

import ppdm_dask as pp
from ppdm_dask.cli.options import (
    Cluster,
    CodebookFile,
    Data,
    Decimal,
    Delimiter,
    Encoding,
    Force,
    Json,
    PartWorkers,
    Sheet,
    Sources,
    Split,
    SplitAt,
    SpreadsheetSafe,
    named,
    plain,
    read_both,
    require_new,
)
from ppdm_dask.cli.output import note, print_json, print_lines, print_rows, say
from ppdm_dask.errors import InputError
from ppdm_dask.files.regular import ending
from ppdm_dask.files.writing import replacing

__all__ = ["app", "predict"]

app = typer.Typer(help="Learn a model from reports, with its accuracy on the truth.")

OwnDesign = Annotated[
    Path | None,
    typer.Option(
        "--design",
        metavar="D",
        help="Design of all reports.",
        show_default="that which each file carries; files of several designs are several owners",
    ),
]
Clean = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DATA",
        help="A data file of true answers, of an owner who disguises nothing.",
        show_default="none",
    ),
]
Combine = Annotated[
    Literal["sum", "precision"],
    typer.Option(
        help="Weight of an owner's records: equal for all, or by the precision of its design."
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="A", help="The attribute to predict.", show_default="the target of the codebook"
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B", help="Attributes to predict from.", show_default="all others"),
]
Out = Annotated[
    Path, typer.Option(metavar="MODEL", help="The model: a .json file.", show_default=False)
]
Picture = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw the model: .svg, .png or .pdf.", show_default=False),
]
Folds = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="Number of folds of the cross-validated accuracy; 0: no accuracy."
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random folds.")]


def _bayes(kind: Callable[[], Callable[..., Any]]) -> Callable[..., None]:
    """The command of a Bayes classifier; its class is loaded when the command runs."""

    def command(
        files: Sources,
        codebook: CodebookFile,
        out: Out,
        design: OwnDesign = None,
        clean: Clean = None,
        combine: Combine = "sum",
        target: Target = None,
        features: Features = None,
        weights: Annotated[
            str | None,
            typer.Option(
                metavar="COLUMN",
                help="Undisguised column of survey weights.",
                show_default="none",
            ),
        ] = None,
        folds: Folds = 5,
        seed: Seed = 0,
        picture: Picture = None,
        force: Force = False,
        as_json: Json = False,
    ) -> None:
        options = {"folds": folds, "seed": seed, "weights": weights, "combine": combine}
        given = _Given(files, codebook, design, clean or [])
        _mine(kind(), given, out, target, features, picture, options, force, as_json)

    return command


app.command("naive-bayes", help="Fit naive Bayes to reports.")(_bayes(lambda: pp.NaiveBayes))
app.command("tan", help="Fit tree-augmented naive Bayes to reports.")(_bayes(lambda: pp.TAN))


@app.command("id3")
def id3(
    files: Sources,
    codebook: CodebookFile,
    out: Out,
    design: OwnDesign = None,
    clean: Clean = None,
    combine: Combine = "sum",
    target: Target = None,
    features: Features = None,
    max_depth: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Largest number of conditions on a path.", show_default="any"
        ),
    ] = None,
    min_weight: Annotated[
        float,
        typer.Option(
            min=0, metavar="N", help="Smallest estimated number of records in a node that is split."
        ),
    ] = 0.0,
    min_z: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="Z",
            help="Standard errors by which the data must support a split.",
            show_default="none",
        ),
    ] = None,
    criterion: Annotated[
        Literal["information-gain", "gain-ratio"],
        typer.Option(help="Criterion that chooses the attribute of a split."),
    ] = "information-gain",
    ccp_alpha: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="A",
            help="Prune leaves that add less than this to the accuracy.",
            show_default="none",
        ),
    ] = None,
    prune: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Share of the reports kept back to prune branches that are not better than a "
            "leaf by a standard error.",
            show_default="none",
        ),
    ] = None,
    folds: Folds = 5,
    seed: Seed = 0,
    picture: Picture = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit a decision tree, ID3, to reports."""
    kind: Callable[..., Any] = partial(
        pp.ID3,
        max_depth=max_depth,
        min_weight=min_weight,
        min_z=min_z,
        criterion=criterion.replace("-", "_"),
        ccp_alpha=ccp_alpha,
    )
    options = {"folds": folds, "seed": seed, "combine": combine, "prune": prune}
    given = _Given(files, codebook, design, clean or [])
    _mine(kind, given, out, target, features, picture, options, force, as_json)


class _Given(NamedTuple):
    """Files that a model is learned from."""

    files: list[Path]
    codebook: Path
    design: Path | None
    clean: list[Path]

    def open(self) -> tuple[pp.Codebook, pp.Design | None, Any]:
        """The codebook, the design if one is given, and the files by owner."""
        stated = {"codebook": self.codebook}
        if self.design is None:
            book, plan = pp.Codebook.from_toml(self.codebook), None
        else:
            book, plan = read_both(self.codebook, self.design)
            stated["design"] = self.design
        return book, plan, pp.survey.open_owners(self.files, book, plan, stated, self.clean)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """All of them, none of which may be written over."""
        design = () if self.design is None else (self.design,)
        return (*self.files, *self.clean, self.codebook, *design)


def _mine(
    kind: Callable[..., Any],
    given: _Given,
    out: Path,
    target: str | None,
    features: list[str] | None,
    picture: Path | None,
    options: dict[str, Any],
    force: bool,
    as_json: bool,
) -> None:
    require_new(out, force, given.inputs, (".json",))
    require_new(picture, force, given.inputs, (".svg", ".png", ".pdf"), "--picture")
    book, _, opened = given.open()
    wanted = book.target if target is None else target
    if wanted is None:
        raise InputError(f"--target: {given.codebook} names none; give one", given.codebook)
    book.index(wanted)
    there = opened.common(book)
    chosen = named(features, book.names) or [name for name in there if name != wanted]
    # The reports carry their design: that of the chosen attributes, and owners have several.
    make = partial(kind, None, wanted)
    with _as_options("folds", "prune", "features"):
        found = pp.survey.mine_files(opened, make, book, wanted, chosen, **options)
    pp.write_model(out, found.model, found.accuracy)
    if picture is not None:
        with replacing(picture) as aside:
            found.model.draw(aside)
    reports, tree = found.model.n_reports_, getattr(found.model, "tree_", None)
    edges = getattr(found.model, "edges_", None)
    if as_json:
        score = found.accuracy
        told: dict[str, Any] = {"model": str(out), "target": wanted, "features": chosen}
        told |= {"reports": reports, "simulated": found.simulated, "accuracy": None}
        if len(found.sizes) > 1:
            told["owners"] = list(found.sizes)
        if score is not None:
            error = float(score.standard_error)
            told["accuracy"] = {"value": score.value, "standard_error": plain(error)}
        if tree is not None:
            told["nodes"] = len(tree)
        if edges is not None:
            told["edges"] = [[*pair] for pair in edges]
        print_json(told)
        return
    if tree is not None:
        print_lines(tree.export_text(4).splitlines())
    if edges is not None:
        print_lines([f"{a} - {b}" for a, b in edges])
    if found.simulated:
        say("simulated: some of the reports protect nobody")
    if found.accuracy is not None:
        score = found.accuracy
        say(
            f"accuracy on the truth, {options['folds']} folds: {score.value:.4f} "
            f"(standard error {float(score.standard_error):.4f})"
        )
    said = f"{reports:,} reports"
    if len(found.sizes) > 1:
        said = f"{reports:,} records of {len(found.sizes)} owners"
    say(f"{said}, {wanted} from {', '.join(chosen)}: {out}")


@app.command("rules")
def rules(
    files: Sources,
    codebook: CodebookFile,
    design: OwnDesign = None,
    clean: Clean = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="All rules: a .csv or .json file.", show_default=False),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Attributes whose rules to find.", show_default="all"),
    ] = None,
    min_support: Annotated[
        float,
        typer.Option(metavar="P", help="Smallest support: proportion of people with all items."),
    ] = 0.05,
    min_confidence: Annotated[
        float,
        typer.Option(
            metavar="P",
            help="Smallest confidence: proportion with the second part of the rule, among those "
            "with the first.",
        ),
    ] = 0.6,
    max_length: Annotated[
        int, typer.Option(metavar="N", help="Largest number of items in a rule.")
    ] = 3,
    test: Annotated[
        Literal["confidence", "lift"],
        typer.Option(
            help="Null hypothesis of p: confidence below the limit, or independence (lift 1)."
        ),
    ] = "confidence",
    fdr: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Largest expected share of false rules.", show_default="all rules"
        ),
    ] = None,
    workers: PartWorkers = 0,
    cluster: Cluster = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find association rules between true answers, from reports."""
    given = _Given(files, codebook, design, clean or [])
    require_new(out, force, given.inputs, (".csv", ".json"))
    book, plan, opened = given.open()
    place = pp.cluster.Place(workers, cluster)
    of_rules = _as_options("min_support", "min_confidence", "max_length", "fdr")
    with of_rules, place.client() as client:
        found = pp.survey.rules_of_files(
            opened,
            book,
            plan,
            named(over, book.names) or None,
            client=client,
            min_support=min_support,
            min_confidence=min_confidence,
            max_length=max_length,
            test=test,
            fdr=fdr,
        )
    document = _document(found, opened.simulated)
    if out is not None and ending(out) == ".json":
        pp.files.write_text(out, json.dumps(document, indent=1) + "\n")
    elif out is not None:
        frame = found.to_frame()
        for name in ("antecedent", "consequent"):
            frame[name] = (
                pp.files.spreadsheet_safe(frame[name]) if spreadsheet_safe else frame[name]
            )
        pp.files.write_text(out, frame.to_csv(index=False))
    if as_json:
        print_json(document)
        return
    rows = [
        [
            str(rule),
            *(
                f"{x:.4f}"
                for x in (rule.support, rule.confidence, rule.confidence_error, rule.lift)
            ),
            *("undefined" if math.isnan(rule.p) else f"{x:.2g}" for x in (rule.p, rule.q)),
        ]
        for rule in found[:ROWS]
    ]
    if rows:
        header = ["rule", "support", "confidence", "error", "lift", "p", "q"]
        print_rows(header, rows, right=range(1, 7))
    if len(found) > ROWS:
        say(f"{ROWS} of {len(found):,} rules; --out and --json have all")
    if document["simulated"]:
        say("simulated: some of the reports protect nobody")
    what = "rule" if len(found) == 1 else "rules"
    if few := sum(rule.by != "normal" for rule in found):
        say(f"{few:,} of them rest on few reports; their p holds for any number, and is larger")
    say(f"{len(found):,} {what} of {found.tested:,} tested, from {found.n:,} reports")


ROWS = 100
"""Rules that the table shows."""


@contextmanager
def _as_options(*names: str) -> Iterator[None]:
    """Name options in messages as the command line does."""
    try:
        yield
    except InputError as error:
        head, colon, rest = str(error).partition(":")
        if head not in names:
            raise
        raise InputError(f"--{head.replace('_', '-')}{colon}{rest}", error.subject) from None


def _document(found: Any, simulated: bool) -> dict[str, Any]:
    """Rules as JSON values."""
    rows = []
    for rule in found:
        numbers = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in vars(rule).items()
            if name not in ("antecedent", "consequent")
        }
        parts = {"antecedent": dict(rule.antecedent), "consequent": dict(rule.consequent)}
        rows.append(parts | numbers)
    return {"reports": found.n, "tested": found.tested, "simulated": simulated, "rules": rows}


def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A model that `ppdm mine` wrote.", show_default=False),
    ],
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="P", help="The predictions: a .csv or .parquet file.", show_default=False
        ),
    ],
    codebook: Annotated[
        Path | None,
        typer.Option(
            "--codebook",
            metavar="C",
            help="Codebook: refuse a model with a different one.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Columns to copy to the output.", show_default="none"),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of each class.")
    ] = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    split: Split = None,
    split_at: SplitAt = ";",
    spreadsheet_safe: SpreadsheetSafe = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict the target of a model for a file of true answers."""
    require_new(out, force, (model, data), (".csv", ".parquet"))
    found = pp.read_model(model)
    if codebook is not None:
        _require_codebook(model, found, codebook)
    how = pp.files.Reading(delimiter, encoding, decimal, sheet, tuple(split or ()), split_at)
    file = pp.files.open_data(data, how=replace(how, known=found.codebook_.names))
    n = pp.survey.predict_file(
        found,
        data,
        out,
        keep=named(keep, file.columns),
        probabilities=probabilities,
        safe=spreadsheet_safe,
        how=how,
    )
    if file.note:
        note(f"{data}: {file.note}")
    if as_json:
        print_json({"model": str(model), "data": str(data), "out": str(out), "records": n})
        return
    say(f"{n:,} {'prediction' if n == 1 else 'predictions'} of {found.target_}: {out}")


def _require_codebook(model: Path, found: Any, codebook: Path) -> None:
    """Raise InputError where a codebook declares an attribute of the model otherwise."""
    book = pp.Codebook.from_toml(codebook)
    for attribute in found.codebook_.attributes:
        name = attribute.name
        if name not in book.names or book[name] != attribute:
            how = "declares it otherwise" if name in book.names else "does not declare it"
            raise InputError(
                f"{model}: is of another codebook than {codebook}: attribute {name!r}: {codebook} "
                f"{how}",
                codebook,
            )
