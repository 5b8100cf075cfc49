"""Disguise and estimate one attribute: against multi-freq-ldpy, and a million records by ourselves.

Peers: k-ary response, optimised unary encoding and subset selection at the same epsilon on the same
data, from true categories to estimated proportions, and both estimators on the same reports, which
must give the same numbers.  Theirs clips and normalises; so does the comparison, where it has to.
Disguises by the first two are compared with NumPy on whole arrays, too.

A million records run in processes of their own, whose peak memory is measured.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from timing import Claim, interleave, ratio, report

import ppdm_dask as pp
from ppdm_dask.designs import Design, SubsetSelection, UnaryEncoding
from ppdm_dask.designs.sets import unpack
from ppdm_dask.inference import estimate, event_interval, sum_weights

EPSILON = 1.0
ROUNDS = 5
MILLION = 1_000_000
LARGE = {"kary": 100_000, "unrelated": 100_000, "oue": 2_925, "subset": 2_925}


def records_of(truth: np.ndarray, k: int, offset: int = 0) -> pp.Records:
    book = pp.Codebook((pp.Attribute("a", tuple(map(str, range(k)))),))
    return pp.Records(truth[:, None], book, offset)


def ours(design: Design, records: pp.Records) -> Callable[[], int]:
    stream = pp.Stream.from_seed(1)

    def run() -> int:
        estimate(design.disguise(records, stream), ["a"], design=design)
        return len(records)

    return run


def theirs(client: Callable, aggregator: Callable, truth: np.ndarray) -> Callable[[], int]:
    def run() -> int:
        aggregator([client(x) for x in truth])
        return len(truth)

    return run


def require_equal(name: str, values: np.ndarray, peer: np.ndarray) -> float:
    """Largest difference of the estimates; ours are clipped and normalised as theirs are."""
    repaired = np.maximum(values, 0)
    difference = float(np.abs(repaired / repaired.sum() - peer).max())
    if difference > 1e-12:
        raise SystemExit(f"{name}: estimates differ by {difference:.2g}")
    return difference


def peers() -> tuple[dict[str, list[float]], list[Claim]]:
    try:
        import multi_freq_ldpy  # noqa: F401
    except ImportError:
        print("multi-freq-ldpy is not installed (extra peers): measured without it")
        return {}, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
        from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
        from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client
    k, n = 100, 50_000
    truth = np.random.default_rng(1).integers(k, size=n)
    records = records_of(truth, k)
    stream = pp.Stream.from_seed(2)

    kary = pp.KaryResponse("a", k, epsilon=EPSILON)
    made = kary.disguise(records, stream)
    made = estimate(made, ["a"], design=kary).values
    require_equal("k-ary", made, GRR_Aggregator_MI(made.column("a").tolist(), k, EPSILON))

    oue = UnaryEncoding("a", k, epsilon=EPSILON, inverse="textbook")
    made = oue.disguise(records, stream)
    bits = unpack(made.sets["a"], k)
    made = estimate(made, ["a"], design=oue).values
    require_equal("OUE", made, UE_Aggregator_MI(bits.astype(float), EPSILON))

    subset = SubsetSelection("a", k, epsilon=EPSILON)
    made = subset.disguise(records, stream)
    chosen = np.nonzero(unpack(made.sets["a"], k))[1].reshape(n, subset.size)
    made = estimate(made, ["a"], design=subset).values
    require_equal("subset", made, SS_Aggregator_MI(chosen, k, EPSILON))
    # Nothing is clipped where categories are common: the raw estimates themselves are equal.
    few = np.random.default_rng(3).integers(4, size=40_000)
    plain = pp.KaryResponse("a", 4, epsilon=EPSILON)
    made = plain.disguise(records_of(few, 4), stream)
    raw = estimate(made, ["a"], design=plain).values
    peer = GRR_Aggregator_MI(made.column("a").tolist(), 4, EPSILON)
    if raw.min() <= 0 or np.abs(raw - peer).max() > 1e-12:
        raise SystemExit("k-ary: unclipped estimates differ")

    seconds = interleave(
        {
            "k-ary, multi-freq-ldpy": theirs(
                lambda x: GRR_Client(x, k, EPSILON),
                lambda r: GRR_Aggregator_MI(r, k, EPSILON),
                truth,
            ),
            "k-ary, ours": ours(kary, records),
            "OUE, multi-freq-ldpy": theirs(
                lambda x: UE_Client(x, k, EPSILON), lambda r: UE_Aggregator_MI(r, EPSILON), truth
            ),
            "OUE, ours": ours(oue, records),
            "subset, multi-freq-ldpy": theirs(
                lambda x: SS_Client(x, k, EPSILON), lambda r: SS_Aggregator_MI(r, k, EPSILON), truth
            ),
            "subset, ours": ours(subset, records),
        },
        ROUNDS,
    )
    claims = [
        Claim(
            f"{name}: a record, k = {k}, against multi-freq-ldpy",
            ratio(seconds, f"{name}, multi-freq-ldpy", f"{name}, ours"),
            least=least,
        )
        for name, least in (("k-ary", 5), ("OUE", 3), ("subset", 8))
    ]
    return seconds, claims


def kary_numpy(truth: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """k-ary response, vectorised."""
    p = np.exp(EPSILON) / (np.exp(EPSILON) + k - 1)
    keep = rng.random(len(truth), dtype=np.float32) < np.float32(p)
    other = truth + rng.integers(1, k, len(truth), np.uint8)
    other -= np.where(other >= k, np.uint8(k), np.uint8(0))
    return np.where(keep, truth, other)


def oue_numpy(truth: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Optimised unary encoding as packed bits, vectorised, in blocks that stay in caches."""
    q, step = 1 / (np.exp(EPSILON) + 1), 8_192
    reports = np.empty((len(truth), -(-k // 8)), np.uint8)
    for low in range(0, len(truth), step):
        part = truth[low : low + step]
        # 16 bits for each coin: q is met to 2**-16, where ours meets it to 2**-256.
        bits = rng.integers(0, 1 << 16, (len(part), k), np.uint16) < np.uint16(q * 65_536)
        bits[np.arange(len(part)), part] = rng.random(len(part), dtype=np.float32) < 0.5
        reports[low : low + step] = np.packbits(bits, axis=1, bitorder="little")
    return reports


def kary_shares(reports: np.ndarray, k: int) -> np.ndarray:
    q = 1 / (np.exp(EPSILON) + k - 1)
    return (np.bincount(reports, minlength=k) / len(reports) - q) / (np.exp(EPSILON) * q - q)


def oue_shares(reports: np.ndarray, k: int) -> np.ndarray:
    q = 1 / (np.exp(EPSILON) + 1)
    return (unpack(reports, k).mean(axis=0) - q) / (0.5 - q)


def vectorised() -> tuple[dict[str, list[float]], list[Claim]]:
    """From true categories to reports, beside NumPy on whole arrays.

    NumPy draws by SFC64, as our simulations do; a real disguise draws by ChaCha20 and is compared
    with the same, which protects nobody.
    """
    n, seconds, claims = 1 << 18, {}, []
    rng = np.random.default_rng(5)
    for k in (16, 100):
        truth = rng.integers(k, size=n).astype(np.uint8)
        records = records_of(truth, k)
        designs: dict[str, tuple[Design, Callable, Callable]] = {
            "k-ary": (pp.KaryResponse("a", k, epsilon=EPSILON), kary_numpy, kary_shares),
            "OUE": (UnaryEncoding("a", k, epsilon=EPSILON), oue_numpy, oue_shares),
        }
        for name, (design, by_numpy, shares) in designs.items():
            label = f"disguise by {name}, k = {k}"

            def peer(by_numpy: Callable = by_numpy, truth: np.ndarray = truth, k: int = k) -> int:
                by_numpy(truth, k, np.random.Generator(np.random.SFC64(1)))
                return n

            def disguise(make: Callable, design: Design = design, records=records) -> int:
                design.disguise(records, make())
                return n

            generator = np.random.default_rng(6)
            drawn = [shares(by_numpy(truth, k, generator), k) for _ in range(10)]
            if np.abs(np.mean(drawn, axis=0) - np.bincount(truth) / n).max() > 0.02:
                raise SystemExit(f"{label}: NumPy's estimates are off")
            found = interleave(
                {
                    f"{label}: NumPy": peer,
                    f"{label}: real": partial(disguise, pp.Stream.from_entropy),
                    f"{label}: simulated": partial(disguise, partial(pp.Stream.from_seed, 1)),
                },
                9,
            )
            seconds |= found
            claims += [
                Claim(
                    f"{label}, NumPy over ours, {kind}",
                    ratio(found, f"{label}: NumPy", f"{label}: {kind}"),
                    least=1,
                )
                for kind in ("real", "simulated")
            ]
    return seconds, claims


def million(kind: str) -> None:
    """Disguise, estimate and interval of a million records; prints CPU seconds and peak bytes."""
    k = LARGE[kind]
    designs: dict[str, Callable[[], Design]] = {
        "kary": lambda: pp.KaryResponse("a", k, epsilon=8.0),
        "unrelated": lambda: pp.UnrelatedQuestion("a", 0.5, [np.full(k, 1 / k)]),
        "oue": lambda: UnaryEncoding("a", k, epsilon=EPSILON),
        "subset": lambda: SubsetSelection("a", k, epsilon=EPSILON),
    }
    design, stream = designs[kind](), pp.Stream.from_seed(1)
    start = time.process_time()
    step = MILLION if k > 10_000 else 1 << 16
    rng, total = np.random.default_rng(2), None
    for low in range(0, MILLION, step):
        truth = np.minimum(rng.geometric(0.01, min(step, MILLION - low)) - 1, k - 1)
        reports = design.disguise(records_of(truth, k, low), stream)
        if step == MILLION:
            made = estimate(reports, ["a"], design=design)
            event_interval(pp.count(reports, design), design, {"a": "5"})
        else:
            sums = sum_weights(reports, design, ["a"])
            total = sums if total is None else total + sums
            made = total.estimate()
    bounds = made.interval(0.95)
    covered = float(np.isfinite(bounds.values).mean())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps([time.process_time() - start, peak, covered]))


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--million":
        return million(sys.argv[2])
    seconds, claims = vectorised()
    more, others = peers()
    seconds, claims = seconds | more, claims + others
    for kind, k in LARGE.items():
        out = subprocess.run(
            [sys.executable, __file__, "--million", kind],
            check=True,
            capture_output=True,
            text=True,
        )
        spent, peak, finite = json.loads(out.stdout)
        if finite != 1:
            raise SystemExit(f"{kind}: an interval is not finite")
        seconds[f"{kind}, 10^6 records, k = {k}: all of them"] = [spent]
        claims.append(Claim(f"{kind}, 10^6 records, k = {k}: of 2 GiB", peak / 2**31, most=1))
    report("Disguise and estimate one attribute", seconds, claims)
    return None


if __name__ == "__main__":
    main()
