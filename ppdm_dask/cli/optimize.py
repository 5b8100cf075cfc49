"""``ppdm optimize``: a front of randomization matrices, and the design chosen from it."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.joint import optimize_joint
from ppdm_dask.cli.logs import as_json, quiet
from ppdm_dask.cli.options import Json, in_options, refuse_given
from ppdm_dask.cli.output import print_json, print_rows, say
from ppdm_dask.errors import InputError
from ppdm_dask.files.lock import own
from ppdm_dask.files.writing import write_text
from ppdm_dask.shown import given

if TYPE_CHECKING:
    import xarray as xr


ROWS = 20
"""Points of the front that the table shows."""

COLUMNS = {
    "epsilon": ("epsilon", "{:g}"),
    "privacy": ("privacy", "{:.4f}"),
    "worst": ("worst posterior", "{:.4f}"),
    "mse": ("MSE", "{:.4g}"),
    "bound": ("certified limit", "{:.4g}"),
}
"""Variables of a front, their titles and forms."""

OPTIONS = {
    "n_records": "--n",
    "delta": "--delta",
    "max_posterior": "--delta",
    "epsilon": "--epsilon",
    "epsilon, max_posterior": "--epsilon, --delta",
    "device": "--device",
    "outcomes": "--device",
    "symbols": "--symbols",
    "generations": "--generations",
    "privacy": "--choose: privacy",
}
"""Parameters of :func:`ppdm_dask.optimize` as the command line calls them."""


def optimize(
    file: Annotated[
        Path,
        typer.Option(
            "--prior",
            metavar="FILE",
            help="TOML: attribute, and a table \\[prior] of categories and proportions; or "
            "attributes, and their joint proportions.",
            show_default=False,
        ),
    ],
    n_records: Annotated[
        int, typer.Option("--n", min=1, metavar="N", help="Number of reports.", show_default=False)
    ],
    delta: Annotated[
        float, typer.Option(metavar="D", help="Largest posterior allowed; 1 allows all.")
    ] = 1.0,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            metavar="E",
            help="Find the best design for this epsilon; can be given several times.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        Literal["spea2", "memetic", "bound"] | None,
        typer.Option(
            help="The paper's algorithm, the same with gradient polish, or the certified optimum.",
            show_default="memetic, with --epsilon bound",
        ),
    ] = None,
    symbols: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="K",
            help="Number of reported symbols.",
            show_default="one for each category, or all",
        ),
    ] = None,
    choose: Annotated[
        str | None,
        typer.Option(
            metavar="privacy=X|mse=X|epsilon=X",
            help="Write the design at this privacy or epsilon.",
            show_default=False,
        ),
    ] = None,
    generations: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="L", help="Number of generations.", show_default="the method's"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the search.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the search to this file, and resume from it.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Instead of a front, find the best design of this device: coin, two-dice, ...",
            show_default=False,
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="The question as people will hear it, for --device.",
            show_default=False,
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TOML of translated texts, for --device.", show_default=False
        ),
    ] = None,
    each: Annotated[
        bool,
        typer.Option(
            "--each",
            help="With a joint prior: limit the privacy of each attribute, not of the record.",
        ),
    ] = False,
    aim: Annotated[
        Literal["margins", "pairs", "cells"] | None,
        typer.Option(help="With a joint prior: what to estimate best.", show_default="margins"),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path(
        "optimized"
    ),
    as_json: Json = False,
) -> None:
    """Search for the randomization matrices with the best privacy and precision."""
    wanted = _parse_choice(choose)
    out_folder = _folder(out)
    if pp.survey.is_joint_prior(file):
        beside = {
            "--method": method,
            "--symbols": symbols,
            "--generations": generations,
            "--checkpoint": checkpoint,
            "--device": device,
            "--question": question,
            "--texts": texts,
        }
        refuse_given(beside, "not available with a joint prior")
        if epsilon is not None and len(epsilon) > 1:
            raise InputError("--epsilon: a joint prior takes a single value", epsilon)
        if {*wanted} - {"privacy"}:
            raise InputError("--choose: a joint prior takes only privacy=X", choose)
        own(out_folder)
        optimize_joint(
            file,
            n_records,
            out_folder,
            epsilon=None if epsilon is None else epsilon[0],
            delta=delta,
            privacy=wanted.get("privacy"),
            each=each,
            aim=aim or "margins",
            as_json=as_json,
        )
        return
    needless = {"--each": each or None, "--aim": aim}
    refuse_given(needless, "a joint prior, of several attributes, is needed")
    attribute, categories, prior = pp.survey.one_prior(file)
    own(out_folder)
    if device is not None:
        beside = {
            "--choose": choose,
            "--generations": generations,
            "--checkpoint": checkpoint,
            "--method": method,
        }
        refuse_given(beside, "not available with --device")
        if epsilon is not None and len(epsilon) > 1:
            raise InputError("--epsilon: --device takes a single value", epsilon)
        shares = dict(zip(categories, prior, strict=True))
        try:
            made = pp.device_design(
                shares,
                device,
                epsilon=None if epsilon is None else epsilon[0],
                max_posterior=None if epsilon is not None and delta == 1 else delta,
                symbols=symbols,
                attribute=attribute,
                question=question,
                wording=texts,
            )
        except InputError as error:
            raise in_options(error, OPTIONS, file) from None
        _print_device(_write_device(made, n_records, out_folder), as_json)
        return
    of_device = {"--question": question, "--texts": texts}
    refuse_given(of_device, "it belongs to --device, which is not given")
    if checkpoint is not None:
        pp.search.require_file(checkpoint)
        own(checkpoint)
    try:
        front = pp.optimize(
            prior,
            n_records,
            delta,
            epsilon=epsilon,
            method=method,
            symbols=symbols,
            seed=seed,
            generations=generations,
            privacy=wanted.get("privacy"),
            categories=categories,
            checkpoint=checkpoint,
            progress=_progress(method or ("memetic" if epsilon is None else "bound")),
        )
    except InputError as error:
        raise in_options(error, OPTIONS, file) from None
    found: dict[str, Any] = {"front": _rows(front), **_facts(front)}
    if epsilon is not None and len(epsilon) == 1 and not wanted:
        wanted = {"epsilon": epsilon[0]}  # there is nothing to choose
    if wanted:
        point = pp.search.choose(front, **wanted)
        design = pp.chosen_design(front, attribute, **wanted)
        chosen = found["front"][point]
        comment = (
            f"{attribute}: privacy {chosen['privacy']:.6g}, worst posterior "
            f"{chosen['worst']:.6g},\nMSE {chosen['mse']:.6g} from {n_records} reports."
        )
    # Not before the search: a refused question leaves no folder.
    out_folder.mkdir(parents=True, exist_ok=True)
    pp.experiments.write_netcdf(front, out_folder / "front.nc")
    found["file"] = str(out_folder / "front.nc")
    if wanted:
        pp.designs.write_design(design, out_folder / "design.toml", comment)
        found |= {"chosen": chosen, "design": str(out_folder / "design.toml")}
    if as_json:
        print_json(found)
        return
    _print(found)


def _write_device(made: pp.survey.DeviceDesign, n_records: int, folder: Path) -> dict[str, Any]:
    """Write the design and its instruction; what is known of them."""
    mse = made.lattice.noise / (made.lattice.counts.shape[1] * n_records)
    comment = (
        f"{made.design.attributes[0]}: by {made.device.replace('-', ' ')}, worst posterior "
        f"{made.max_posterior:.6g},\nMSE {mse:.6g} from {n_records} reports."
    )
    folder.mkdir(parents=True, exist_ok=True)
    design, text = folder / "design.toml", folder / "instructions.txt"
    pp.designs.write_design(made.design, design, comment)
    write_text(text, made.text + "\n")
    epsilon = made.epsilon
    return {
        "device": made.device,
        "outcomes": made.lattice.outcomes,
        "counts": made.lattice.counts.tolist(),
        "answers": made.answers,
        "symbols": made.symbols,
        "worst": made.max_posterior,
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "mse": mse,
        "ratio": made.ratio,
        "exact": made.lattice.exact,
        "text": made.text,
        "design": str(design),
        "instructions": str(text),
    }


def _print_device(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    m = found["outcomes"]
    rows = [
        [symbol, *(f"{count}/{m}" if count else "0" for count in counts)]
        for symbol, counts in zip(found["symbols"], found["counts"], strict=True)
    ]
    print_rows(["said", *found["answers"]], rows, right=range(1, len(found["answers"]) + 1))
    say()
    say(found["text"])
    say()
    epsilon = "infinite" if found["epsilon"] is None else f"{found['epsilon']:.4f}"
    say(f"worst posterior {found['worst']:.4f}, epsilon {epsilon}, MSE {found['mse']:.4g}")
    if found["ratio"] is not None:
        what = "no" if found["exact"] else "the search found no"
        say(
            f"{found['ratio']:.3f} times the reports of the best possible design at this privacy; "
            f"{what} better matrix of multiples of 1/{m}"
        )
    say(f"design: {found['design']}; for respondents: {found['instructions']}")


def _parse_choice(text: str | None) -> dict[str, float]:
    if text is None:
        return {}
    key, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = float("nan")  # which is not above 0 either
    if key not in ("privacy", "mse", "epsilon") or not number > 0:
        raise InputError(
            f"--choose: got {given(text)}; privacy=0.5, mse=1e-4 or epsilon=1 is needed", text
        )
    return {key: number}


def _folder(out: Path) -> Path:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: got {str(out)!r}; a folder is needed", out)
    return out


def _progress(method: str) -> Any:
    """Callback that writes the progress to standard error; None where that is not a terminal."""
    if not sys.stderr.isatty() or as_json() or quiet():
        return None
    begun, last = time.monotonic(), -math.inf

    def tell(done: int, whole: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now < last + 0.2 and done < whole:
            return
        last = now
        left = (now - begun) / done * (whole - done) if done else 0.0
        end = "\n" if done == whole else ""
        unit = "step" if method == "bound" else "generation"
        sys.stderr.write(f"\r{unit} {done:,} of {whole:,}, about {left:,.0f} s left  {end}")
        sys.stderr.flush()

    return tell


def _rows(front: xr.Dataset) -> list[dict[str, Any]]:
    names = [name for name in COLUMNS if name in front]
    columns = {name: front[name].to_numpy().tolist() for name in names}
    return [{name: columns[name][i] for name in names} for i in range(front.sizes["point"])]


def _facts(front: xr.Dataset) -> dict[str, Any]:
    kept = ("method", "seed", "generations", "hypervolume", "median", "attained")
    facts = {key: front.attrs[key] for key in kept if key in front.attrs}
    # netCDF has no truth values, so the front says it as text.
    return facts | {"attained": json.loads(facts["attained"])}


def _print(found: dict[str, Any]) -> None:
    rows = found["front"]
    step = max(1, len(rows) // ROWS)
    shown = rows[::step]
    columns = {name: COLUMNS[name] for name in COLUMNS if name in rows[0]}
    texts = [
        [form.format(row[name]) for name, (_, form) in columns.items()]
        + [f"{row['mse'] / row['bound']:.3f}"]
        for row in shown
    ]
    header = [title for title, _ in columns.values()] + ["MSE / limit"]
    print_rows(header, texts, right=range(len(header)))
    say()
    if len(shown) < len(rows):
        say(f"{len(shown)} of {len(rows)} points; {found['file']} has all, with the matrices")
    else:
        say(f"front: {found['file']}")
    if "hypervolume" in found:
        say(
            f"hypervolume {found['hypervolume']:.3f} of the certified limit's, "
            f"median MSE / limit {found['median']:.3f}"
        )
    if not found["attained"]:
        say("the limit is certain but may be lower than what is possible: over 18 categories")
    if "design" in found:
        chosen = found["chosen"]
        say(
            f"design: {found['design']} (privacy {chosen['privacy']:.4f}, "
            f"worst posterior {chosen['worst']:.4f}, MSE {chosen['mse']:.4g})"
        )
