"""What the team sees of a running survey: reports by day, estimates as they arrive, metrics.

It is served apart from the collector, to those who hold the team's token.  It shows estimates and
counts, never a report.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.audit.certainty import undisguised_attributes
from ppdm_dask.collect.survey import Survey
from ppdm_dask.collect.templates import template
from ppdm_dask.errors import InputError
from ppdm_dask.inference import estimate

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from ppdm_dask.collect.store import Store

__all__ = ["Row", "estimates", "team"]

TELLS_NOTHING = 0.95
"""Share of all proportions that an interval may hold before it says nothing."""


@dataclass(frozen=True)
class Row:
    """A proportion as the page shows it; numbers are texts where they are known."""

    label: str
    value: str
    interval: str


def estimates(survey: Survey, counts: Mapping[str, int]) -> list[tuple[str, list[Row]]]:
    """Estimated proportions of each attribute, with 95 % intervals.

    Parameters
    ----------
    survey : Survey
    counts : mapping of str to int
        How often each report was made.

    Returns
    -------
    list of (attribute, rows)
        Rows without numbers say that nothing can be known yet.
    """
    # Each text is read once, however many people sent it.
    reports = survey.reports(list(counts))
    times = np.fromiter(counts.values(), np.int64)
    reports = reports.take(np.repeat(np.arange(len(counts)), times))
    found = []
    for name in survey.codebook.names:
        labels = survey.codebook[name].categories
        rows = [Row(label, "", "cannot be known yet") for label in labels]
        if len(reports):
            with suppress(InputError):
                made = estimate(reports, (name,), design=survey.design)
                lower, upper = made.ends(0.95)
                rows = [_row(*each) for each in zip(labels, made.values, lower, upper, strict=True)]
        found.append((name, rows))
    return found


def _row(label: str, value: float, lower: float, upper: float) -> Row:
    width = min(upper, 1.0) - max(lower, 0.0)
    if not math.isfinite(width) or width >= TELLS_NOTHING:
        return Row(label, "", "cannot be known yet")
    return Row(label, f"{100 * value:.1f} %", f"{100 * lower:.1f} to {100 * upper:.1f} %")


def team(
    survey: Survey, store: Store, token: str, answers: Callable[[], Mapping[int, int]]
) -> Starlette:
    """The application for the team.

    Parameters
    ----------
    survey : Survey
    store : Store
        With a connection of its own.
    token : str
        That opens it: as ``?token=`` once, or as a bearer token.
    answers : callable
        Numbers of the collector's answers by status.

    Returns
    -------
    starlette.applications.Starlette
        ``GET /`` is a page that renews itself, ``/metrics`` are Prometheus metrics.
    """
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
    from starlette.routing import Route

    def known(request: Request) -> bool:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = given or request.cookies.get("team", "")
        return hmac.compare_digest(given.encode(), token.encode())

    headers = {"cache-control": "no-store", "referrer-policy": "no-referrer"}

    async def index(request: Request) -> Response:
        if hmac.compare_digest(request.query_params.get("token", "").encode(), token.encode()):
            # Out of the address, which browsers keep and show.
            answer = RedirectResponse("/", 303, headers)
            answer.set_cookie("team", token, httponly=True, samesite="strict")
            return answer
        if not known(request):
            return PlainTextResponse("the team's token is needed\n", 401, headers)
        return HTMLResponse(await run_in_threadpool(view), headers=headers | POLICY)

    def view() -> str:
        days = store.days()
        all_tokens, used = store.tokens()
        return str(
            template("team.html.j2").render(
                survey=survey.id,
                digest=survey.design.digest,
                total=sum(days.values()),
                most=max(days.values(), default=1),
                days=days,
                tokens=all_tokens,
                used=used,
                bare=undisguised_attributes(survey.design, survey.codebook.names),
                found=estimates(survey, store.counts()),
            )
        )

    async def metrics(request: Request) -> Response:
        if not known(request):
            return PlainTextResponse("the team's token is needed\n", 401, headers)
        total = sum((await run_in_threadpool(store.days)).values())
        lines = [
            "# HELP ppdm_reports Reports that are kept.",
            "# TYPE ppdm_reports gauge",
            f"ppdm_reports {total}",
            "# HELP ppdm_answers_total Answers to submissions, by status.",
            "# TYPE ppdm_answers_total counter",
            *(f'ppdm_answers_total{{status="{s}"}} {n}' for s, n in sorted(answers().items())),
        ]
        kind = "text/plain; version=0.0.4"
        return PlainTextResponse("\n".join(lines) + "\n", headers=headers, media_type=kind)

    return Starlette(
        routes=[
            Route("/", index, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
        ]
    )


POLICY = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
}
