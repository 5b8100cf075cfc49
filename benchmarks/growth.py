"""How the time of public calls grows: with records, attributes, categories and partitions.

Each call is timed at sizes that double.  The slope of log seconds in log size over the larger half
of them says how it grows: 1 is linear.  With records and partitions a call may take n log n; with
attributes and categories some power; nothing may be exponential.  A slope is only told where a
call takes long enough to be timed.

    python benchmarks/growth.py --seconds 2 --figure growth.png

``--seconds`` ends an axis at the first call that takes longer.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from timing import options

import ppdm_dask as pp
from ppdm_dask.designs import Flip, SubsetSelection, UnaryEncoding
from ppdm_dask.drawing.style import COLOURS, MARKERS, new_panels, styled
from ppdm_dask.files import open_data
from ppdm_dask.randomness import Stream

MOST = {"records": 1.5, "partitions": 1.2, "attributes": 3.5, "categories": 4.0, "search": math.inf}
"""Largest slope of an axis.

n log n is 1.1 between 10^4 and 10^6, where data leave the caches as well; joint tables of three
attributes have k^3 cells, and rules of three items m^3.  A search goes through all
subsets of the categories, and refuses more than it can."""

SHORT = 5e-3
"""Seconds below which a call is not timed but its beginning."""

Make = Callable[[int], Callable[[], Any]]


@dataclass(frozen=True)
class Growth:
    """How one call grows along one axis."""

    call: str
    axis: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def slope(self) -> float:
        """Of log seconds in log size over the larger half; NaN where calls are too short."""
        at = [i for i, s in enumerate(self.seconds) if s >= SHORT]
        at = at[len(at) // 2 :] if len(at) > 3 else at
        if len(at) < 2:
            return math.nan
        x, y = np.log([[self.sizes[i], self.seconds[i]] for i in at]).T
        return float(np.polyfit(x, y, 1)[0])

    @property
    def holds(self) -> bool:
        """Whether it grows no faster than it may."""
        return not self.slope > MOST[self.axis]


def book(sizes: list[int]) -> pp.Codebook:
    """Attributes of these numbers of categories; the first is the target."""
    attributes = (
        pp.Attribute(f"a{i}", tuple(f"c{v}" for v in range(k))) for i, k in enumerate(sizes)
    )
    return pp.Codebook(tuple(attributes), target="a0")


def records(n: int, sizes: list[int]) -> pp.Records:
    """Attributes that lean towards the first one."""
    rng = np.random.default_rng(n)
    first = rng.integers(0, sizes[0], n)
    columns = [first]
    for k in sizes[1:]:
        columns.append(np.where(rng.random(n) < 0.4, first % k, rng.integers(0, k, n)))
    return pp.Records(np.column_stack(columns), book(sizes))


@lru_cache(maxsize=1)
def made(n: int) -> pp.Records:
    """Records of one size, made once: to make them is not what is timed."""
    return records(n, FEW)


def texts(n: int) -> pd.DataFrame:
    """The same with labels, as a file or a user has them."""
    labels = [np.array([f"c{v}" for v in range(k)]) for k in FEW]
    codes = made(n).codes
    return pd.DataFrame({f"a{i}": labels[i][codes[:, i]] for i in range(len(FEW))})


def kary(sizes: list[int]) -> pp.Design:
    blocks = [pp.KaryResponse(f"a{i}", k, p=0.5 + 0.5 / k) for i, k in enumerate(sizes)]
    return pp.Product(blocks) if len(blocks) > 1 else blocks[0]


def matrices(sizes: list[int]) -> pp.Design:
    blocks = []
    for i, k in enumerate(sizes):
        P = np.full((k, k), 0.4 / k) + 0.6 * np.eye(k)
        blocks.append(pp.RRMatrix(f"a{i}", P))
    return pp.Product(blocks) if len(blocks) > 1 else blocks[0]


def unrelated(sizes: list[int]) -> pp.Design:
    names = [f"a{i}" for i in range(len(sizes))]
    return pp.UnrelatedQuestion(names, 0.8, [[1 / k] * k for k in sizes], sizes)


def reports(design: pp.Design, n: int, sizes: list[int]) -> pp.Reports:
    return design.disguise(records(n, sizes), Stream.from_seed(1))


FEW = [2, 3, 4, 2, 3]

FOLDER = tempfile.TemporaryDirectory()
"""Removed at the end."""


def on_records(call: Callable[[pp.Reports, pp.Design], Any], design: Any = kary) -> Make:
    """A call on n reports on five attributes."""

    def make(n: int) -> Callable[[], Any]:
        plan = design(FEW)
        found = reports(plan, n, FEW)
        return lambda: call(found, plan)

    return make


def on_attributes(call: Callable[[pp.Reports, pp.Design], Any], design: Any = kary) -> Make:
    """A call on 2,000 reports on m attributes of three categories."""

    def make(m: int) -> Callable[[], Any]:
        plan = design([3] * m)
        found = reports(plan, 2_000, [3] * m)
        return lambda: call(found, plan)

    return make


def on_categories(call: Callable[[pp.Reports, pp.Design], Any], design: Any = kary) -> Make:
    """A call on 2,000 reports on three attributes of k categories."""

    def make(k: int) -> Callable[[], Any]:
        plan = design([k] * 3)
        found = reports(plan, 2_000, [k] * 3)
        return lambda: call(found, plan)

    return make


def disguising(design: Callable[[int], pp.Design], sizes: Callable[[int], list[int]]) -> Make:
    """The disguise itself, of 20,000 records."""

    def make(size: int) -> Callable[[], Any]:
        plan, found = design(size), records(20_000, sizes(size))
        return lambda: plan.disguise(found, Stream.from_seed(2))

    return make


def by_cells(found: pp.Reports, design: pp.Design) -> Any:
    return pp.estimate(found, ["a1", "a2"], design=design, where={"a0": "c1"})


def by_table(found: pp.Reports, design: pp.Design) -> Any:
    return pp.estimate(pp.count(found, design, ["a0", "a1"]), ["a0"], design=design)


def by_bayes(found: pp.Reports, design: pp.Design) -> Any:
    model = pp.NaiveBayes(design, "a0").fit(found)
    return model.score_disguised(found, stream=Stream.from_seed(3))


def by_tree(found: pp.Reports, design: pp.Design) -> Any:
    return pp.ID3(design, "a0", max_depth=2).fit(found)


def by_rules(found: pp.Reports, design: pp.Design) -> Any:
    return pp.association_rules(found, design, min_support=0.05, min_confidence=0.5)


def by_regression(found: pp.Reports, design: pp.Design) -> Any:
    return pp.GLM(design, "a0 ~ a1", family="binomial").fit(found)


def csv(n: int) -> Callable[[], Any]:
    """Reading a CSV of n records."""
    file, codebook = Path(FOLDER.name) / "r.csv", book(FEW)
    texts(n).to_csv(file, index=False)
    return lambda: codebook.encode(open_data(file).read(codebook.names).frame)


def encode(n: int) -> Callable[[], Any]:
    """Encoding a frame of n records."""
    frame = texts(n)
    return lambda: book(FEW).encode(frame)


def propose(n: int) -> Callable[[], Any]:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], n), "b": rng.normal(size=n)})
    return lambda: pp.Codebook.propose(frame)


def lazy(parts: int) -> Callable[[], Any]:
    """A lazy estimate from partitions of 2,000 records."""
    import dask
    import dask.dataframe as dd

    n, design = 2_000 * parts, kary([2, 3])
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a0": rng.choice(["c0", "c1"], n), "a1": rng.choice(["c0", "c2"], n)})
    collection = dd.from_pandas(frame, npartitions=parts)
    found = design.bind(book([2, 3])).disguise(collection)

    def call() -> Any:
        with dask.config.set(scheduler="synchronous"):
            return pp.estimate(found, ["a0"])

    return call


def prior(k: int) -> np.ndarray:
    p = np.arange(1.0, k + 1)
    return p / p.sum()


def joint(k: int) -> xr.DataArray:
    table = np.outer([0.4, 0.6], prior(k)) + 0.2 * np.eye(2, k)
    table /= table.sum()
    return xr.DataArray(table, {"a": ["x", "y"], "b": [f"c{i}" for i in range(k)]})


def doubled(low: int, high: int) -> list[int]:
    return [low * 2**i for i in range(int(math.log2(high / low)) + 1)]


N, M, K = doubled(4_000, 1_024_000), [2, 4, 8, 16, 32, 64], [4, 8, 16, 32, 64, 128, 256]

CASES: list[tuple[str, str, list[int], Make]] = [
    (
        "disguise k-ary",
        "records",
        N,
        lambda n: lambda: kary(FEW).disguise(made(n), Stream.from_seed(1)),
    ),
    ("disguise k-ary", "categories", K, disguising(lambda k: kary([k] * 3), lambda k: [k] * 3)),
    ("disguise matrix", "categories", K, disguising(lambda k: matrices([k]), lambda k: [k])),
    (
        "disguise OUE",
        "categories",
        K,
        disguising(lambda k: UnaryEncoding("a0", k, epsilon=1.0), lambda k: [k]),
    ),
    (
        "disguise subsets",
        "categories",
        K,
        disguising(lambda k: SubsetSelection("a0", k, epsilon=1.0), lambda k: [k]),
    ),
    (
        "disguise unrelated",
        "attributes",
        M[:5],
        disguising(lambda m: unrelated([3] * m), lambda m: [3] * m),
    ),
    (
        "disguise groups",
        "attributes",
        M,
        disguising(lambda m: Flip([f"a{i}" for i in range(m)], 0.8), lambda m: [2] * m),
    ),
    ("count", "records", N, on_records(lambda r, d: pp.count(r, d, ["a0", "a1"]))),
    ("estimate", "records", N, on_records(by_cells)),
    ("estimate", "attributes", M[2:], on_attributes(by_cells)),
    ("estimate, unrelated", "attributes", M[2:5], on_attributes(by_cells, unrelated)),
    ("estimate", "categories", K[:4], on_categories(by_cells)),
    ("estimate from a table", "records", N, on_records(by_table)),
    ("epsilon, unrelated", "attributes", M[:5], lambda m: lambda: unrelated([3] * m).epsilon()),
    ("regression", "records", N[:6], on_records(by_regression)),
    ("naive Bayes", "records", N, on_records(by_bayes)),
    ("naive Bayes", "attributes", M, on_attributes(by_bayes)),
    ("naive Bayes", "categories", K[:5], on_categories(by_bayes)),
    ("TAN", "attributes", M[1:], on_attributes(lambda r, d: pp.TAN(d, "a0").fit(r))),
    ("ID3", "records", N, on_records(by_tree)),
    ("ID3, matrices", "records", N, on_records(by_tree, matrices)),
    ("ID3", "attributes", M, on_attributes(by_tree)),
    ("ID3", "categories", K[:4], on_categories(by_tree)),
    ("rules", "records", N[:6], on_records(by_rules)),
    ("rules, pairs", "attributes", M[:5], on_attributes(by_rules)),
    ("CSV", "records", N, csv),
    ("encode", "records", N, encode),
    ("propose a codebook", "records", N, propose),
    ("lazy estimate", "partitions", [2, 4, 8, 16, 32, 64, 128], lazy),
    (
        "best design of an epsilon",
        "search",
        [4, 6, 8, 10, 12],
        lambda k: lambda: pp.optimize(prior(k), 1000, epsilon=1.0),
    ),
    (
        "best joint design",
        "search",
        [2, 3, 4, 5, 6],
        lambda k: lambda: pp.joint_design(joint(k), epsilon=1.0),
    ),
]


def measure(make: Make, sizes: list[int], limit: float) -> Iterator[tuple[int, float]]:
    """CPU seconds of a call at each size, the least of three after one to warm up."""
    for size in sizes:
        call = make(size)
        call()
        times = []
        for _ in range(3):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        yield size, min(times)
        if min(times) > limit:
            break


def draw(found: list[Growth], path: Path) -> None:
    """One panel an axis, one line a call, each against the size."""
    drawn = [axis for axis in MOST if any(each.axis == axis for each in found)]
    with styled():
        figure, panels = new_panels(
            "CPU seconds of a call by the size of what it is given",
            "logarithmic scales; the grey line is linear growth",
            2, 3, height=4.4, gap=(0.6, 0.6), left=0.75, right=0.25, head=1.0,
        )  # fmt: skip
        figure.set_size_inches(15, 11)
        for axes, name in zip([*chain(*panels)], drawn, strict=False):
            lines = sorted((e for e in found if e.axis == name), key=lambda e: e.seconds[-1])
            below = 0.0
            for i, each in enumerate(lines):
                look = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
                axes.plot(each.sizes, each.seconds, ms=4, lw=1.2, **look)
                # Names stand at the ends of lines, apart by a fifth at least.
                below = max(each.seconds[-1], 1.35 * below)
                at = (max(e.sizes[-1] for e in lines) * 1.3, below)
                axes.annotate(each.call, at, fontsize=8, color=look["color"], va="center")
            low, high = min(e.sizes[0] for e in lines), max(e.sizes[-1] for e in lines)
            axes.plot([low, high], [1e-3, 1e-3 * high / low], color="0.7", lw=1, zorder=0)
            axes.set_xscale("log", base=10 if high > 1_000 else 2)
            axes.set_yscale("log")
            axes.set_xlim(low * 0.8, high * (high / low) ** 0.55)
            axes.set_xlabel(name)
            if high <= 1_000:
                axes.set_xticks(list(lines[0].sizes), [f"{s:,}" for s in lines[0].sizes])
        for axes in [*chain(*panels)][len(drawn) :]:
            axes.set_visible(False)
        figure.savefig(path, dpi=100)


def main() -> None:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="end an axis beyond these")
    parser.add_argument("--only", default="", help="calls whose name contains this")
    parser.add_argument("--figure", type=Path, help="draw the lines into this file")
    given = parser.parse_args()
    found = []
    for call, axis, sizes, make in CASES:
        if given.only not in call:
            continue
        points = list(measure(make, sizes, given.seconds))
        each = Growth(call, axis, *map(tuple, zip(*points, strict=True)))  # type: ignore[arg-type]
        found.append(each)
        if not given.json:
            mark = "ok  " if each.holds else "MISS"
            ends = ", ".join(f"{each.seconds[i]:.4f} s at {each.sizes[i]:,}" for i in (0, -1))
            print(f"{mark} {call:28s} {axis:11s} slope {each.slope:5.2f}  {ends}", flush=True)
    if given.json:
        print(
            json.dumps(
                [{**asdict(each), "slope": each.slope, "holds": each.holds} for each in found]
            )
        )
    if given.figure:
        draw(found, given.figure)
    sys.exit(0 if all(each.holds for each in found) else 1)


if __name__ == "__main__":
    main()
