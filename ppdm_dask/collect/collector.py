"""The collector: accepts reports from pages and acknowledges them once they are stored.

It never learns an answer: the reports that arrive are already disguised.  It keeps no address, user
agent or time of day; addresses are held in memory, salted, as long as their rate is limited.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ppdm_dask.collect.survey import Refused, Submission, Survey
from ppdm_dask.errors import MachineError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from ppdm_dask.collect.store import Outcome, Store

__all__ = ["Counters", "Limits", "Own", "collector"]

LOG = logging.getLogger(__name__)

MOST_AT_ONCE = 512
"""Reports of one transaction."""

MOST_ADDRESSES = 100_000
"""Addresses whose rate is known; the one that was silent longest gives way."""

STATUS: Mapping[Outcome, int] = {"new": 201, "same": 200, "other": 409, "token": 403}
WHY: Mapping[Outcome, str] = {
    "other": "another report has this id",
    "token": "a token that was not used is needed",
}

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Limits:
    """Limits of what a collector accepts.

    Parameters
    ----------
    body : int
        Bytes of a submission.
    seconds : float
        Seconds within which a submission must arrive.
    rate : float
        Submissions per minute from one address; 0 for no limit.
    burst : int
        Submissions that an address may make at once.
    waiting : int
        Submissions that may wait to be stored; others must be sent again later.
    """

    body: int = 65_536
    seconds: float = 10.0
    rate: float = 60.0
    burst: int = 30
    waiting: int = 4_096


class Counters(Protocol):
    """Numbers of answers by what became of a submission, for metrics."""

    def add(self, status: int) -> None:
        """Count an answer."""
        ...  # pragma: no cover


class Own(Counters):
    """Counters of this process."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def add(self, status: int) -> None:
        """Count an answer."""
        self.counts[status] = self.counts.get(status, 0) + 1


class Rates:
    """How often each address may still send: a bucket that fills with time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._salt = os.urandom(16)
        self._left: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def allows(self, address: str) -> bool:
        """Whether an address may send now; counts it."""
        limits = self._limits
        if not limits.rate:
            return True
        key = hashlib.blake2b(address.encode(), key=self._salt, digest_size=16).digest()
        now = time.monotonic()
        left, then = self._left.pop(key, (float(limits.burst), now))
        left = min(limits.burst, left + (now - then) * limits.rate / 60)
        allowed = left >= 1
        self._left[key] = (left - 1 if allowed else left), now
        if len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)
        return allowed


class Keeper:
    """Keeps submissions in groups: whatever waits goes into one transaction."""

    def __init__(self, store: Store, tokens: bool, waiting: int) -> None:
        self._store, self._tokens = store, tokens
        self._queue: asyncio.Queue[tuple[Submission, asyncio.Future[Outcome]] | None]
        self._queue = asyncio.Queue(waiting)
        # One thread: the database has one writer, and connections of SQLite are not shared.
        self._thread = ThreadPoolExecutor(1, "keeper")

    async def keep(self, given: Submission) -> Outcome:
        """Keep a submission; returns when it is safe.

        Raises
        ------
        Refused
            If too many wait, or it cannot be kept.
        """
        kept: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((given, kept))
        except asyncio.QueueFull:
            raise Refused(503, "too many reports are waiting") from None
        return await kept

    async def run(self) -> None:
        """Keep what waits, until :meth:`stop`."""
        loop, ended = asyncio.get_running_loop(), False
        while not ended:
            batch = [await self._queue.get()]
            while len(batch) < MOST_AT_ONCE and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            ended = None in batch
            pairs = [pair for pair in batch if pair is not None]
            if not pairs:
                continue
            try:
                found = await loop.run_in_executor(
                    self._thread, self._store.add, [given for given, _ in pairs], self._tokens
                )
            except MachineError as error:
                LOG.error("%s", error)
                for _, kept in pairs:
                    if not kept.done():
                        kept.set_exception(Refused(503, "reports cannot be kept now"))
                continue
            for (_, kept), outcome in zip(pairs, found, strict=True):
                if not kept.done():  # a client may have gone meanwhile; its report is kept
                    kept.set_result(outcome)

    async def stop(self) -> None:
        """Keep what still waits, and end."""
        await self._queue.put(None)


def collector(
    survey: Survey,
    store: Store,
    *,
    tokens: bool = False,
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    counters: Counters | None = None,
) -> Starlette:
    """The application that serves a page and takes its reports.

    Parameters
    ----------
    survey : Survey
    store : Store
    tokens : bool
        Whether a report needs a single-use token.
    origins : sequence of str
        Other origins whose pages may send, such as ``https://survey.example.org``.
    limits : Limits, optional
    counters : Counters, optional

    Returns
    -------
    starlette.applications.Starlette
        ``GET /`` is the page, ``POST /reports`` takes a report: 201 if it is new, 200 if it was
        already stored, and otherwise a status that gives the reason.
    """
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route

    limits = Limits() if limits is None else limits
    counted = Own() if counters is None else counters
    keeper, rates = Keeper(store, tokens, limits.waiting), Rates(limits)
    # What a page cannot say of itself: nobody may frame it but those who were named.
    ancestors = " ".join(origins) or "'none'"
    page = {**HEADERS, "content-security-policy": f"frame-ancestors {ancestors}"}

    async def index(request: Request) -> Response:
        return HTMLResponse(survey.html, headers=page)

    async def reports(request: Request) -> Response:
        origin = request.headers.get("origin")
        allowed = origin is None or origin in origins or origin == _own_origin(request)
        cross = {} if origin is None or not allowed else {"access-control-allow-origin": origin}
        headers = {**HEADERS, **cross, "vary": "origin"}
        try:
            if not allowed:
                raise Refused(403, "pages of this origin may not send reports")
            if request.method == "OPTIONS":
                asked = {
                    "access-control-allow-methods": "POST",
                    "access-control-allow-headers": "content-type",
                    "access-control-max-age": "600",
                }
                return Response(status_code=204, headers={**headers, **asked})
            if not rates.allows(request.client.host if request.client else ""):
                headers["retry-after"] = "60"
                raise Refused(429, "too many reports from one address")
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Refused(415, "the body is not declared as JSON")
            given = survey.check(await _body(request, limits))
            outcome = await keeper.keep(given)
            if outcome in WHY:
                raise Refused(STATUS[outcome], WHY[outcome])
        except Refused as refused:
            counted.add(refused.status)
            LOG.warning("refused with %d: %s", refused.status, refused)
            return PlainTextResponse(f"{refused}\n", refused.status, headers)
        counted.add(STATUS[outcome])
        return Response(status_code=STATUS[outcome], headers=headers)

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok\n", headers=HEADERS)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(keeper.run())
        try:
            yield
        finally:
            await keeper.stop()
            await running

    return Starlette(
        routes=[
            Route("/", index, methods=["GET"]),
            Route("/reports", reports, methods=["POST", "OPTIONS"]),
            Route("/health", health, methods=["GET"]),
        ],
        lifespan=lifespan,
    )


def _own_origin(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', '')}"


async def _body(request: Request, limits: Limits) -> bytes:
    """The body, no larger and no slower than is allowed."""
    stated = request.headers.get("content-length", "0")
    if not stated.isdecimal() or int(stated) > limits.body:
        raise Refused(413, f"the body has more than {limits.body:,} bytes")
    found = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                found += part
                if len(found) > limits.body:
                    raise Refused(413, f"the body has more than {limits.body:,} bytes")
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {limits.seconds:g} s") from None
    return bytes(found)
