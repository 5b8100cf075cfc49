# ruff: noqa: E501 -- rows of the tables are one line each
"""Draw docs/designs.md: formulas of every design, and privacy and cost at equal worst posterior.

Run it after a design has come or changed; a test compares the page with what this makes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from ppdm_dask import KaryResponse, UnrelatedQuestion, Warner
from ppdm_dask.designs import (
    Crosswise,
    Design,
    ForcedResponse,
    InvariantPRAM,
    Kuk,
    Mangat,
    SubsetSelection,
    Triangular,
    UnaryEncoding,
    families,
)
from ppdm_dask.search.cones import Epsilon
from ppdm_dask.search.optimum import optimum

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "fifty.png"
PAGE = Path(__file__).parent.parent / "docs" / "designs.md"

HEAD = """# Choosing a design

Every design is a matrix P, `reported = P @ true`. The script `tools/draw_designs.py` writes this page and computes
its numbers with the package.

1. **One sensitive yes or no, asked in person or on paper.** With a device (coin, dice, cards): Warner,
   forced response, unrelated question, Kuk. Without one: crosswise or triangular. Mangat's and the
   triangular design need the fewest reports at an equal posterior of the sensitive answer, but a report of
   no then proves that the truth is no: use them only if this is harmless.
2. **One attribute with a moderate number of categories.** k-ary response below about `3 e^epsilon + 2`
   categories; subset selection or unary encoding above.
3. **Thousands of categories.** k-ary response needs a large epsilon; subset selection is the most precise,
   and unary encoding is the simplest to draw.
4. **Several attributes.** One block with a common coin (flip, multigroup, unrelated question) estimates
   their combinations better than independent blocks do, but a single known answer can undo the disguise:
   see the last table.
5. **A file to publish.** Invariant PRAM keeps the expected counts unchanged.
6. **A limit on the posterior and a known prior.** The matrix that `ppdm optimize` finds.
"""

LABELS = """Designs use labels. If a design treats categories differently, its file names them, and every command
arranges the design in the order of the codebook by label. A label that is not in the codebook is refused.
The digest of a design depends on the labels, but not on their order.

| id | in the file |
| --- | --- |
| `mangat`, `triangular`, `kuk` | `trait = "yes"` |
| `matrix` | `categories = ["never", "once", "often"]`, in the order of P's columns; a list of lists for several attributes |
| `forced` | `forced = {yes = "1/6", no = "5/6"}`, or `forced_probability = {yes = "1/6", no = "1/6"}` |
| `unrelated` | `w_y = {yes = 0.1, no = 0.9}`; for a block `w_y = {smokes = {yes = 0.1, no = 0.9}, drinks = {...}}` |
| `pram` | `prior = {yes = 0.2, no = 0.8}` |
| `permanent` | in `first` and in `again`; permanent symbols that are not categories have no labels |
| all others | nothing: the probabilities are the same in any order |

- `forced`, together with `truth`, gives the distribution of the forced answer. `forced_probability` gives the probability that
  the device forces each answer, as in most papers; the truth has the remaining probability.
- Instead of a table of labels you can write a list of values in the order of `categories = [...]`.
- A uniform distribution needs no labels. Neither does a matrix that is the same in every order.
- In a square matrix, columns and rows are the same categories. In a tall matrix, rows are symbols without labels.
  In a block, a reported column with as many symbols as its attribute has categories holds those categories.
- If labels are needed but missing, commands refuse the design and print the line to add. In Python, a simulation
  (`Stream.from_seed`) then uses positions; a real disguise is refused.
- A probability can be written as a ratio in quotes, `"1/6"`. The nearest float is used; a value computed from several ratios
  is first computed exactly. A sum within 1e-6 of 1, as in single precision, is scaled to 1, and `ppdm check` reports it.
- Symbols are drawn with numbers of 62 binary digits, and epsilon is computed for the distribution that is really drawn: a
  symbol with a probability below 2^-63 never occurs, so its ratio is infinite. Coins are exact.
- `id = "mixed"` makes one matrix from the designs of several devices, if a column says which device a person used.
- `id = "itemcount"` makes the matrix of a list experiment, where people count the statements that apply to them.
- `symbols = {same = "yes", different = "no"}` gives words to the reports of any design, for `ppdm import`; the digest does not
  change ([field.md](field.md)).
- `TwoSample(..., yes="yes")` says which answer means yes, for both questions or for each.
"""

FORMULAS = {
    "identity": (r"$P = I$", "infinite", "nothing is disguised: the baseline"),
    "warner": (
        r"$\theta$ on the diagonal, $1 - \theta$ off it",
        r"$\lvert \log (\theta / (1 - \theta)) \rvert$",
        "binary",
    ),
    "kary": (
        r"$p$ on the diagonal, $(1 - p) / (k - 1)$ off it; "
        r"$p = q + (1 - q) / k$ or $p = \lambda / (\lambda + k - 1)$",
        r"$\lvert \log (p (k - 1) / (1 - p)) \rvert$",
        "k categories; O(1) weights",
    ),
    "forced": (
        r"$t I + (1 - t) f 1^T$",
        r"$\max_v \log (1 + t / ((1 - t) f_v))$",
        "dice; any k",
    ),
    "mangat": (r"$p I + (1 - p) (0, 1)^T 1^T$", "infinite", "people with the trait tell the truth"),
    "triangular": (
        r"$(1 - p) I + p (0, 1)^T 1^T$",
        "infinite",
        "no device; the statement's probability p is known",
    ),
    "crosswise": (
        r"as Warner with $\theta = p$",
        r"$\lvert \log (p / (1 - p)) \rvert$",
        "no device; p not 1/2",
    ),
    "kuk": (
        r"$\binom{r}{y} p_x^y (1 - p_x)^{r - y}$: y red of r cards, red share `p1` or `p2`",
        "`r` times that of one card",
        "weighted inverse, or `textbook` by name",
    ),
    "unrelated": (
        r"$q I + (1 - q) p_Y 1^T$",
        r"$\max \log (1 + q / ((1 - q) p_Y))$",
        "one coin per block",
    ),
    "pram": (
        r"$q I + (1 - q) p 1^T$, so that $P p = p$",
        "as unrelated",
        "`two_stage` for any matrix",
    ),
    "flip": (
        r"$\theta I + (1 - \theta) R$, R reverses all",
        "infinite for 2 or more attributes",
        "block",
    ),
    "multigroup": (r"$\bigotimes_b P_b$ of flips", "sum over groups", "[ZhanDu]_"),
    "matrix": (
        r"any P with columns that sum to 1",
        r"$\max_{y, x, x'} \log (P_{yx} / P_{yx'})$",
        "may be tall",
    ),
    "unary": (
        r"bit of the truth 1 with $p$, others with $q$; "
        r"OUE: $p = 1/2$, $q = 1 / (e^\epsilon + 1)$",
        r"$\lvert \log (p (1 - q) / ((1 - p) q)) \rvert$",
        "set; weighted inverse, or `textbook` by name",
    ),
    "subset": (
        r"s of k categories, the truth among them with "
        r"$p = s e^\epsilon / (s e^\epsilon + k - s)$",
        r"$\lvert \log (p (k - s) / ((1 - p) s)) \rvert$",
        "set; the weighted inverse is the textbook's",
    ),
    "permanent": (
        r"$P_{\text{again}} P_{\text{first}}$",
        "of one wave; of any number of waves at most that of `first`",
        "a device keeps the symbol of `first`, and disguises it again in each wave ([web.md](web.md))",
    ),
    "product": (r"$\bigotimes_b P_b$", "sum over blocks", "independent blocks"),
}

YES = np.array([0.8, 0.2])
POSTERIOR = 0.5

Make = Callable[[float], Design]

BINARY: dict[str, tuple[str, Make, float, float]] = {
    "Warner": ("theta", lambda x: Warner("a", x), 0.5001, 0.9999),
    "crosswise": ("1 - p", lambda x: Crosswise("a", 1 - x), 0.5001, 0.9999),
    "forced, fair": ("t", lambda x: ForcedResponse("a", x, [0.5, 0.5]), 1e-4, 0.9999),
    "unrelated, P(Y = 1) = .2": ("q", lambda x: UnrelatedQuestion("a", x, 0.2), 1e-4, 0.9999),
    "unrelated, P(Y = 1) = .8": ("q", lambda x: UnrelatedQuestion("a", x, 0.8), 1e-4, 0.9999),
    "Kuk, 1 card, p2 = 1 - p1": ("p1", lambda x: Kuk("a", x, 1 - x), 0.5001, 0.9999),
    "Kuk, 5 cards, p2 = 1 - p1": ("p1", lambda x: Kuk("a", x, 1 - x, 5), 0.5001, 0.9999),
    "Mangat": ("p", lambda x: Mangat("a", x), 1e-4, 0.9999),
    "triangular": ("1 - p", lambda x: Triangular("a", 1 - x), 1e-4, 0.9999),
    "invariant PRAM": ("q", lambda x: InvariantPRAM("a", YES, x), 1e-4, 0.9999),
}


def worst_of_yes(design: Design) -> float:
    """Largest P(yes | report) under the prior YES."""
    joint = design.matrix() * YES
    return float((joint[:, 1] / joint.sum(axis=1)).max())


def noise(design: Design, prior: np.ndarray) -> np.ndarray:
    """n times the variance of each estimated proportion."""
    B, law = design.left_inverse(), design.matrix() @ prior
    return (B**2) @ law - prior**2


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def number(value: float) -> str:
    return "inf" if np.isinf(value) else f"{value:.3g}"


def formulas() -> str:
    missing = set(families()) - set(FORMULAS)
    if missing:
        raise SystemExit(f"draw_designs: no formula for {', '.join(sorted(missing))}")
    rows = [[f"`{name}`", *FORMULAS[name]] for name in families()]
    return table(["id", "P", "epsilon", "remarks"], rows)


def binary() -> str:
    rows = []
    for name, (letter, make, low, high) in BINARY.items():
        x = brentq(lambda x, m=make: worst_of_yes(m(x)) - POSTERIOR, low, high, xtol=1e-12)
        design = make(x)
        variance = float(noise(design, YES)[1])
        cost = variance / (YES[1] * (1 - YES[1]))
        rows.append(
            [name, f"{letter} = {x:.4f}", number(design.epsilon()), number(design.max_posterior(YES)),
             number(design.privacy(YES)), number(variance), f"{cost:.1f}"]
        )  # fmt: skip
    head = ["design", "parameter", "epsilon", "worst posterior, yes or no", "MAP privacy",
            "n x variance", "reports for one undisguised"]  # fmt: skip
    return table(head, rows)


def many(k: int) -> str:
    prior = np.full(k, 1 / k)
    ratio = POSTERIOR * (k - 1) / (1 - POSTERIOR)
    rows = []
    designs: list[tuple[str, Make, float, float]] = [
        ("k-ary", lambda x: KaryResponse("a", k, epsilon=x), 1e-3, 20),
        ("unary encoding (OUE)", lambda x: UnaryEncoding("a", k, epsilon=x), 1e-3, 20),
        ("unary, symmetric", lambda x: symmetric_unary(k, x), 1e-3, 20),
    ]
    designs += [
        (f"subset, s = {s}", lambda x, s=s: SubsetSelection("a", k, s, epsilon=x), 1e-3, 30)
        for s in (1, 2)
    ]
    for name, make, low, high in designs:

        def excess(x: float, m: Make = make) -> float:
            return m(x).max_posterior(prior) - POSTERIOR

        if excess(high) < 0:
            rows.append([name, "", "below at any epsilon", "", "", ""])
            continue
        x = brentq(excess, low, high, xtol=1e-12)
        design = make(x)
        average = float(noise(design, prior).mean())
        baseline = float((prior * (1 - prior)).mean())
        rows.append(
            [
                name,
                number(x),
                number(design.max_posterior(prior)),
                number(design.privacy(prior)),
                number(average),
                f"{average / baseline:.1f}",
            ]
        )
    text = table(
        [
            "design",
            "epsilon",
            "worst posterior",
            "MAP privacy",
            "n x mean squared error",
            "reports for one undisguised",
        ],
        rows,
    )
    return text + f"\nA likelihood ratio of {ratio:.3g} gives a posterior of {POSTERIOR} here.\n"


def symmetric_unary(k: int, epsilon: float) -> UnaryEncoding:
    e = float(np.exp(epsilon / 2))
    return UnaryEncoding("a", k, e / (e + 1), 1 / (e + 1))


def at_equal_epsilon() -> str:
    rows = []
    for k in (2, 4, 16, 128, 2_925):
        row = [str(k)]
        for epsilon in (1.0, 3.0):
            e = float(np.exp(epsilon))
            s = max(round(k / (1 + e)), 1)
            subset = SubsetSelection("a", k, min(s, k - 1), epsilon=epsilon)
            p, r = subset.p, subset._other
            kary = KaryResponse("a", k, epsilon=epsilon)
            off = (1 - kary.p) / (k - 1)
            for hit, miss in ((kary.p, off), (0.5, 1 / (e + 1)), (p, r)):
                # Mean over uniform categories of the textbook weight's variance.
                law = (hit + (k - 1) * miss) / k
                row.append(number(law * (1 - law) / (hit - miss) ** 2))
        rows.append(row)
    head = ["k", "k-ary, epsilon 1", "OUE, 1", "subset, 1", "k-ary, 3", "OUE, 3", "subset, 3"]
    return table(head, rows)


FIFTY = {
    "even": np.full(50, 1 / 50),
    "skewed": np.r_[np.full(5, 0.1), np.full(45, 0.5 / 45)],
}
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0)


def noises(prior: np.ndarray, epsilon: float) -> dict[str, float]:
    """n times the sum of the variances of the estimated proportions, and the certified least."""
    k = prior.size
    subsets = (SubsetSelection("a", k, s, epsilon=epsilon) for s in range(1, k // 2))
    return {
        "k-ary": float(KaryResponse("a", k, epsilon=epsilon).variance(prior).sum()),
        "OUE": float(UnaryEncoding("a", k, epsilon=epsilon).variance(prior).sum()),
        "subset": min(float(design.variance(prior).sum()) for design in subsets),
        "least": optimum(prior, Epsilon(epsilon)).bound,
    }


@cache
def against_the_best() -> dict[str, dict[float, dict[str, float]]]:
    """Noises of fifty categories, by prior and epsilon."""
    return {
        name: {epsilon: noises(prior, epsilon) for epsilon in EPSILONS}
        for name, prior in FIFTY.items()
    }


def fifty() -> str:
    rows = []
    for name, by_epsilon in against_the_best().items():
        for epsilon, found in by_epsilon.items():
            times = [number(found[key] / found["least"]) for key in ("k-ary", "OUE", "subset")]
            rows.append([name, number(epsilon), *times, number(found["least"])])
    return table(
        ["prior", "epsilon", "k-ary", "OUE", "subset, best size", "least n x sum of variances"],
        rows,
    )


def draw(path: Path) -> None:
    """The same as a figure: reports needed over those of the best design."""
    from ppdm_dask.drawing.style import COLOURS, GREY, MARKERS, new_panels, styled

    with styled():
        figure, ((left, right),) = new_panels(
            "Reports needed over those of the best design",
            "Fifty categories; subset selection of the best size; the least is certified",
            1, 2, height=2.9, gap=(0.35, 0.0), left=0.75, right=0.25, head=1.0,
        )  # fmt: skip
        for axes, (name, found) in zip((left, right), against_the_best().items(), strict=True):
            for key, colour, marker in zip(
                ("k-ary", "OUE", "subset"), COLOURS, MARKERS, strict=False
            ):
                times = [found[epsilon][key] / found[epsilon]["least"] for epsilon in EPSILONS]
                axes.plot(EPSILONS, times, color=colour, marker=marker, label=key)
            axes.set_yscale("log")
            axes.set_ylim(0.95, 20)
            axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
            axes.minorticks_off()
            axes.set_title(f"{name} prior", fontsize=10, color=GREY, loc="left")
            axes.set_xlabel("epsilon")
        left.set_ylabel("times as many reports")
        right.tick_params(labelleft=False)
        left.legend(loc="upper right")
        figure.savefig(path, dpi=120)


def hints() -> str:
    from ppdm_dask.designs import Flip, MultiGroup
    from ppdm_dask.privacy import hint_attack

    names = ["a", "b", "c", "d"]
    prior = np.full((2,) * 4, 1 / 16)
    rows = []
    for name, design in (
        ("one coin for four attributes (flip)", Flip(names, 0.8)),
        ("two groups of two (multigroup)", MultiGroup([["a", "b"], ["c", "d"]], 0.8)),
        ("one coin per attribute (multigroup)", MultiGroup.by_attribute(names, 0.8)),
        ("unrelated question, q = .6", UnrelatedQuestion(names, 0.6)),
    ):
        for known in ([], ["b"], ["b", "c", "d"]):
            attack = hint_attack(design, prior, "a", known)
            rows.append(
                [
                    name,
                    ", ".join(known) or "nothing",
                    number(attack.worst_posterior),
                    number(attack.privacy),
                ]
            )
    return table(["design", "known", "worst posterior of a", "MAP privacy of a"], rows)


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            HEAD,
            "## Formulas\n",
            "Columns of P sum to 1; k is the number of categories. Designs with more symbols than",
            "categories use the left inverse of least variance at uniform categories;",
            "`inverse=\"textbook\"` selects the usual formula. The *unrelated question of unknown prevalence* is not a",
            "single matrix: `TwoSample` takes two samples, with the shares of yes $\\lambda_1$ and $\\lambda_2$:\n",
            r"$$\pi = \frac{\lambda_1 (1 - q_2) - \lambda_2 (1 - q_1)}{q_1 - q_2}$$" + "\n",
            formulas(),
            "## Labels\n",
            LABELS,
            "## One yes or no, at equal posterior of a yes\n",
            "A fifth of the true answers are yes. Each design is set so that no report makes the probability of a yes larger",
            f"than {POSTERIOR}. The last column is the number of reports that are as precise as one undisguised answer.\n",
            binary(),
            "## Ten categories, at equal worst posterior\n",
            f"Uniform categories; the worst posterior is {POSTERIOR}.\n",
            many(10),
            "## Many categories, at equal epsilon\n",
            "The table has n times the mean squared error of a proportion by the textbook estimator, for uniform categories.\n",
            at_equal_epsilon(),
            "## Fifty categories, against the best possible\n",
            "The table says how many times as many reports each design needs as the best design with the same epsilon, both",
            "estimated with their own inverse. *Skewed*: five categories share half of all answers equally, and 45 share the",
            "other half. The best design is found, and certified to 1e-8, as in [search.md](search.md); `ppdm audit` gives",
            "this ratio for any design.\n",
            fifty(),
            "![Reports needed over those of the best design, by epsilon](figures/fifty.png)\n",
            "## What a known answer gives away\n",
            "There are four independent binary attributes, each with a proportion of 1/2, and flips have theta = .8. The",
            "adversary sees the whole report and knows true values of other attributes of the same person.\n",
            hints(),
        ]
    )  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(page())
    draw(FIGURE)
    print(f"{PAGE.name}: {len(page().splitlines())} lines")
