"""Association rules of 10^6 reports of 30 yes-no attributes, up to three items.

Each attribute is disguised by its own Warner design; supports, confidences, lifts, their errors
and p-values of all rules that can be frequent are found.  The peer is mlxtend's FP-growth and
Apriori on the undisguised records, with its rules: counts of what is frequent, without any error.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import pandas as pd
from mlxtend.frequent_patterns import apriori, fpgrowth
from mlxtend.frequent_patterns import association_rules as mlxtend_rules
from timing import Claim, interleave, options, ratio, report

from ppdm_dask import (
    Attribute,
    Codebook,
    Product,
    Records,
    Stream,
    Warner,
    association_rules,
)

NAMES = [f"a{i:02}" for i in range(30)]
SUPPORT, CONFIDENCE, ROUNDS = 0.2, 0.6, 2
SECONDS = 60
"""In which the rules have to be found, on one core."""


def records_of(n: int) -> Records:
    """Attributes that all depend on one hidden coin, between a seventh and seven tenths yes."""
    rng = np.random.default_rng(1)
    chance = np.where(rng.random((n, 1)) < 0.5, 0.15, 0.65) * np.linspace(0.5, 1.4, len(NAMES))
    codes = (rng.random((n, len(NAMES))) < chance).astype(np.uint8)
    return Records(codes, Codebook(tuple(Attribute(name, ("no", "yes")) for name in NAMES)))


def contestants(n: int) -> dict[str, Callable[[], int]]:
    records = records_of(n)
    design = Product([Warner(name, 0.9) for name in NAMES])
    reports = design.disguise(records, Stream.from_seed(2))
    columns = {f"{name}=yes": records.codes[:, i] == 1 for i, name in enumerate(NAMES)}
    columns |= {f"{name}=no": records.codes[:, i] == 0 for i, name in enumerate(NAMES)}
    frame = pd.DataFrame(columns)

    def ours(source: Records, length: int) -> Callable[[], int]:
        def run() -> int:
            association_rules(
                source, min_support=SUPPORT, min_confidence=CONFIDENCE, max_length=length
            )
            return 1

        return run

    def theirs(miner: Callable[..., pd.DataFrame]) -> Callable[[], int]:
        def run() -> int:
            found = miner(frame, SUPPORT, use_colnames=True, max_len=3)
            mlxtend_rules(found, metric="confidence", min_threshold=CONFIDENCE)
            return 1

        return run

    return {
        "pairs, reports": ours(reports, 2),
        "triples, reports": ours(reports, 3),
        "triples, undisguised": ours(records, 3),
        "mlxtend fpgrowth, undisguised": theirs(fpgrowth),
        "mlxtend apriori, undisguised": theirs(apriori),
    }


def main() -> None:
    parser = options("Association rules of 30 attributes: CPU seconds")
    parser.add_argument("--records", type=int, default=1_000_000, help="records (1000000)")
    given = parser.parse_args()
    seconds = interleave(contestants(given.records), ROUNDS)
    triples = statistics.median(seconds["triples, reports"])
    claims = [
        Claim(f"rules of triples: seconds over {SECONDS}", triples / SECONDS, most=1),
        *(
            Claim(f"triples, reports over {peer}", ratio(seconds, "triples, reports", peer), most=3)
            for peer in ("mlxtend fpgrowth, undisguised", "mlxtend apriori, undisguised")
        ),
    ]
    report(f"{given.records} records: {parser.description}", seconds, claims, given)


if __name__ == "__main__":
    main()
