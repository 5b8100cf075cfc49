"""``ppdm disguise``: answers in, reports out; the true answers go no further."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ppdm_dask.cli.names import named
from ppdm_dask.cli.output import print_json, print_lines, say
from ppdm_dask.cli.survey_files import plain, read_both, require_new
from ppdm_dask.files.regular import ending

__all__ = ["disguise_answers"]


def disguise_answers(
    data: Path,
    codebook: Path,
    design: Path,
    out: Path,
    *,
    keep: Sequence[str],
    drop: Sequence[str],
    accept: Sequence[str],
    simulate: int | None,
    block: int,
    force: bool,
    as_json: bool,
) -> None:
    """Write the reports of a file, and say what was done and how far it protects."""
    from ppdm_dask.audit.measures import epsilon_of
    from ppdm_dask.files.reader import open_data
    from ppdm_dask.randomness import Stream
    from ppdm_dask.survey.disguise import disguise_file
    from ppdm_dask.survey.reports import beside

    book, plan = read_both(codebook, design)
    require_new(out, force, (data, codebook, design))
    if ending(out) == ".csv":
        require_new(beside(out), force, (data, codebook, design))
    stream = Stream.from_entropy() if simulate is None else Stream.from_seed(simulate)
    columns = open_data(data).columns
    keep, drop = named(keep, columns), named(drop, columns)
    done = disguise_file(
        data, book, plan, stream, out, keep=keep, drop=drop, accept=accept, block=block
    )
    if as_json:
        blocks = [
            {"attributes": list(part.attributes), "id": part.id, "epsilon": plain(epsilon_of(part))}
            for part in plan.blocks
        ]
        print_json(
            {
                "data": str(data),
                "out": str(out),
                "records": done.records,
                "simulated": done.simulated,
                "disguised": list(done.disguised),
                "undisguised": list(done.undisguised),
                "dropped": list(done.dropped),
                "blocks": blocks,
                "certain": [asdict(each) for each in done.certain],
                "again": [asdict(each) for each in done.before.again],
                "problem": done.before.problem or None,
            }
        )
        return
    for part in plan.blocks:
        say(f"{', '.join(part.attributes)}: {part.id}, {_protection(epsilon_of(part))}")
    for each in done.certain:
        say(each.sentence)
    for name in done.undisguised:
        how = f"in {len(book[name])} categories" if name in book.names else "as it is"
        say(f"{name}: undisguised, {how}; the file of reports holds the truth")
    if done.dropped:
        say(f"left out: {', '.join(done.dropped)}")
    if done.simulated:
        say("simulated: whoever knows the seed can undo the disguise; it protects nobody")
    print_lines(each.sentence() for each in done.before.again)
    if done.before.problem:
        say(done.before.problem)
    say(f"{done.records:,} {'report' if done.records == 1 else 'reports'}: {out}")


def _protection(epsilon: float | None) -> str:
    if epsilon is None:
        return "epsilon not computed: the block is too large"
    if math.isinf(epsilon):
        return "epsilon infinite: some reports rule an answer out"
    times = f"{math.exp(epsilon):.4g}" if epsilon < 700 else f"e^{epsilon:.4g}"
    most = f"a report is at most {times} times likelier for one answer than another"
    return f"epsilon {epsilon:.4g}: {most}"
