"""Interleaved timing: contestants take turns, and ratios are taken round by round."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Claim:
    """One ratio with its floor, or its ceiling where less is better.

    Parameters
    ----------
    what : str
        The work, and who is compared with whom.
    ratio : float
        Median over rounds.
    least, most : float or None
        What the ratio should reach, or stay below.
    """

    what: str
    ratio: float
    least: float | None = None
    most: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the ratio is where it should be."""
        low = self.least is None or self.ratio >= self.least
        return low and (self.most is None or self.ratio <= self.most)

    def __str__(self) -> str:
        bound = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        mark = "ok  " if self.holds else "MISS"
        return f"{mark} {self.what}: {self.ratio:.4g}x ({bound}x)"


def interleave(contestants: dict[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds a unit of work, by contestant and round.

    Each contestant does some units of work and returns how many; a first call to warm up is not
    counted.
    """
    for contestant in contestants.values():
        contestant()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            start = time.process_time()
            units = contestant()
            seconds[name].append((time.process_time() - start) / units)
    return seconds


def ratio(seconds: dict[str, list[float]], slow: str, fast: str) -> float:
    """Median over rounds of how many times as long ``slow`` takes as ``fast``."""
    pairs = zip(seconds[slow], seconds[fast], strict=True)
    return statistics.median(one / other for one, other in pairs)


def options(title: str) -> argparse.ArgumentParser:
    """Options that every benchmark has; a program may add its own."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def report(
    title: str,
    seconds: dict[str, list[float]],
    claims: list[Claim],
    given: argparse.Namespace | None = None,
) -> None:
    """Print medians and claims, as JSON with ``--json``; the exit code is 1 if a claim fails."""
    as_json = (options(title).parse_args() if given is None else given).json
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    if as_json:
        facts = [{**asdict(claim), "holds": claim.holds} for claim in claims]
        machine = f"{platform.machine()} {platform.system()}, Python {platform.python_version()}"
        print(json.dumps({"title": title, "machine": machine, "seconds": medians, "claims": facts}))
    else:
        print(title)
        for name, median in medians.items():
            print(f"  {name:42s} {median * 1e6:14,.1f} us")
        for claim in claims:
            print(f"  {claim}")
    sys.exit(0 if all(claim.holds for claim in claims) else 1)
