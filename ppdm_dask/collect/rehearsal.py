"""A rehearsal: answers of a file are disguised and sent as respondents' pages would."""

from __future__ import annotations

import http.client
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from ppdm_dask.collect.series import Devices, disguise_wave
from ppdm_dask.collect.survey import Survey
from ppdm_dask.designs.permanent import permanent_blocks
from ppdm_dask.designs.sets import unpack
from ppdm_dask.errors import InputError, MachineError
from ppdm_dask.files.reader import open_data
from ppdm_dask.randomness import Stream
from ppdm_dask.shown import cut, printable

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Records, Reports

__all__ = ["rehearse"]

SECONDS = 30.0
"""For an answer of the collector, and for it to begin."""


def rehearse(
    survey: Survey,
    data: Path,
    address: str,
    told: Callable[[int], None] | None = None,
    devices: Path | None = None,
) -> int:
    """Send a report for each record of a file, to try out a survey before it begins.

    Parameters
    ----------
    survey : Survey
    data : Path
        With a column for each attribute that is asked.  The result of a model is not read from the
        file: it is determined here, as the page does.
    address : str
        Of the page, such as ``http://127.0.0.1:8000/``.
    told : callable, optional
        Called with 1 after each report.
    devices : Path, optional
        File in which the respondents' devices keep their permanent symbols from wave to wave, in
        the order of the records; made if it is absent.  Without it each of them draws new ones.

    Returns
    -------
    int
        Reports that the collector acknowledged.

    Raises
    ------
    InputError
        If the data do not fit, or the collector refuses a report; the status is named.
    MachineError
        If there is no connection.
    """
    try:
        place = urlsplit(address)
        host, port = place.hostname, place.port
    except ValueError:  # of the port, or of brackets
        host = None
    if not host or place.scheme not in ("http", "https"):
        raise InputError(f"{address}: an address such as http://127.0.0.1:8000/ is needed", address)
    if devices is not None and not permanent_blocks(survey.design):
        raise InputError(
            f"{devices}: the design has no permanent first stage, so devices keep nothing; leave "
            "--devices out",
            devices,
        )
    records = _records(survey, data)
    kept = Devices() if devices is None else Devices.read(devices)
    reports = disguise_wave(survey.design, records, Stream.from_entropy(), kept)
    if devices is not None:
        kept.write(devices)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=SECONDS)
    sent = 0
    try:
        _connect(connection)
        for row in range(len(reports)):
            body = {
                "survey": survey.id,
                "design": survey.design.digest,
                "id": secrets.token_hex(16),
                "report": report_of(reports, row),
            }
            headers = {"content-type": "application/json"}
            connection.request("POST", "/reports", json.dumps(body), headers)
            answer = connection.getresponse()
            why = answer.read().decode("utf-8", "replace")
            if answer.status != 201:
                said = cut(printable(" ".join(why.split())))
                raise InputError(f"{address}: report {row + 1}: {answer.status}: {said}", row)
            sent += 1
            if told is not None:
                told(1)
    except http.client.HTTPException:
        raise InputError(
            f"{address}: the server at this address is not a collector", address
        ) from None
    except OSError as error:
        raise MachineError(f"{address}: no connection: {error}") from None
    finally:
        connection.close()
    return sent


def _records(survey: Survey, data: Path) -> Records:
    """What pages disguise: answers of a file, and what a model finds out of them."""
    if survey.test is None:
        return survey.codebook.encode(open_data(data).read(survey.codebook.names).table)
    answers = survey.test.encode(open_data(data).read(survey.test.asked).table)
    return answers.select(survey.codebook.names)


def _connect(connection: http.client.HTTPConnection) -> None:
    """Connect, perhaps to a collector that has only just been started."""
    ends = time.monotonic() + SECONDS
    while True:
        try:
            return connection.connect()
        except ConnectionRefusedError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)


def report_of(reports: Reports, row: int) -> list[int | list[int]]:
    """A report as a page sends it."""
    found: list[int | list[int]] = [int(code) for code in reports.codes[row]]
    for name, bits in reports.sets.items():
        within = unpack(bits[row : row + 1], len(reports.codebook[name].categories))[0]
        found[reports.codebook.index(name)] = [int(v) for v in np.flatnonzero(within)]
    return found
