"""CPU and wall time of the papers' sweeps as commands, beside the bare time of their kernels.

    python benchmarks/sweeps.py                      # some minutes
    python benchmarks/sweeps.py --before ../old      # in turns with another checkout
    python benchmarks/sweeps.py --starts             # commands that compute nothing

Commands are whole: with imports, ledger, result, figures and page; CPU is that of all their
processes. The floor is what the compiled loops take in a process that has them loaded, one thread,
nothing stored. Digests have to be the same in every way.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from timing import Claim, options, report

HERE = Path(__file__).resolve()
SWEEPS = ("electronic-surveys", "multi-group")
WAYS = {"default": (), "one thread": ("--workers", "0"), "two workers": ("--workers", "2")}
MOST = {"default": 2.0, "one thread": 2.0, "two workers": 2.6}
"""CPU seconds a CPU second of the floor."""
STARTS = {
    "--help": ("--help",),
    "list": ("list",),
    "check": ("check", *SWEEPS),
    "run --dry-run": ("run", *SWEEPS, "--dry-run"),
    "estimate --help": ("estimate", "--help"),
}

Spent = tuple[float, float]


def bare() -> float:
    """CPU seconds of all repeats of both sweeps, without what is paid once."""
    from ppdm_dask.engine.cells import Performer
    from ppdm_dask.experiments.kinds import load_recipe, make_plan

    plans = [make_plan(load_recipe(name)) for name in SWEEPS]
    seconds = 0.0
    for plan in plans:
        with Performer(plan.work) as performer:
            for cell in plan.cells:
                performer.perform(cell, 0, 1)
                start = time.process_time()
                performer.perform(cell, 0, cell.repeats)
                seconds += time.process_time() - start
    return seconds


def spend(checkout: Path, *words: str) -> tuple[Spent, str]:
    """CPU and wall seconds of a command and all its processes, and what it printed."""
    variables = {**os.environ, "PYTHONPATH": str(checkout)}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return (cpu, wall), done.stdout


def sweep(checkout: Path, repeats: int | None, *words: str) -> tuple[Spent, list[str]]:
    """Run both sweeps into a new folder; what they spent, and their digests."""
    few = ("--repeats", str(repeats)) if repeats else ()
    with tempfile.TemporaryDirectory() as folder:
        command = ("-m", "ppdm_dask", "run", *SWEEPS, "--out", folder, *few, *words)
        spent, said = spend(checkout, *command)
    return spent, re.findall(r"^digest: (\w+)$", said, re.MULTILINE)


def in_turns(
    checkouts: dict[str, Path], ways: dict[str, tuple[str, ...]], rounds: int, *, starts: bool
) -> Iterator[dict[str, Spent]]:
    """What each contestant spent, round by round, after a first call of each that compiles."""
    for checkout in () if starts else checkouts.values():
        sweep(checkout, 2)
    for _ in range(rounds):
        found: dict[str, Spent] = {}
        digests = set()
        for way, words in ways.items():
            for label, checkout in checkouts.items():
                name = f"{label}: {way}"
                if starts:
                    found[name], _ = spend(checkout, "-m", "ppdm_dask", *words)
                else:
                    found[name], each = sweep(checkout, None, *words)
                    digests.add(tuple(each))
        if len(digests) > 1:
            sys.exit(f"digests differ: {digests}")
        if not starts:
            _, said = spend(checkouts["now"], str(HERE), "--bare")
            found["floor"] = (float(said), float(said))
        yield found


def main() -> None:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="another checkout, which takes turns")
    parser.add_argument("--starts", action="store_true", help="commands that compute nothing")
    parser.add_argument("--way", choices=WAYS, action="append", help="only this way to run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bare", action="store_true", help="only the floor, in CPU seconds")
    given = parser.parse_args()
    if given.bare:
        print(bare())
        return
    checkouts = {"before": given.before.resolve()} if given.before else {}
    checkouts["now"] = HERE.parent.parent
    ways = STARTS if given.starts else {way: WAYS[way] for way in given.way or WAYS}
    load = os.getloadavg()[0]
    rounds = list(in_turns(checkouts, ways, given.rounds, starts=given.starts))
    seconds = {name: [each[name][0] for each in rounds] for name in rounds[0]}
    if not given.json:
        print(f"load at the start {load:.1f}, at the end {os.getloadavg()[0]:.1f}; medians")
        for name, cpu in seconds.items():
            wall = statistics.median(each[name][1] for each in rounds)
            print(f"  {name:24s} CPU {statistics.median(cpu):6.2f} s   wall {wall:6.2f} s")
    claims = [
        Claim(
            f"CPU of both sweeps, {way}, to that of their kernels",
            statistics.median(each[f"now: {way}"][0] / each["floor"][0] for each in rounds),
            most=MOST[way],
        )
        for way in ([] if given.starts else ways)
    ]
    report("The papers' sweeps", seconds if given.json else {}, claims, given)


if __name__ == "__main__":
    main()
