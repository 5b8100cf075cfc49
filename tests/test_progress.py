"""Progress is a bar in a terminal, and a few plain lines anywhere else."""

from __future__ import annotations

import io
import os
import pty
import re
from contextlib import suppress

import pytest

from ppdm_dask.cli.output import ProgressReporter
from ppdm_dask.engine.cells import Progress


def state(done: int, elapsed: float, resumed: int = 0, mode: str = "2 workers") -> Progress:
    return Progress(done, 1000, resumed, elapsed, mode, "q=0.5")


def test_lines_in_a_log() -> None:
    stream = io.StringIO()
    with ProgressReporter("surveys", stream) as report:
        report(state(200, 0.0, resumed=200, mode="synchronous"))
        for second in range(1, 41):
            report(state(200 + 20 * second, float(second), resumed=200))
    assert stream.getvalue().splitlines() == [
        "surveys: 200 of 1,000 repeats (200 from an earlier run), synchronous",
        "surveys: 400 of 1,000 repeats, about 30 s left, 2 workers",
        "surveys: 600 of 1,000 repeats, about 20 s left, 2 workers",
        "surveys: 800 of 1,000 repeats, about 10 s left, 2 workers",
        "surveys: 1,000 of 1,000 repeats in 40 s, 2 workers",
    ]


def test_short_run_takes_two_lines() -> None:
    stream = io.StringIO()
    with ProgressReporter("surveys", stream) as report:
        for done in range(0, 1001, 10):
            report(state(done, done / 1000))
    assert len(stream.getvalue().splitlines()) == 2


def test_no_guess_from_the_first_repeats() -> None:
    stream = io.StringIO()
    with ProgressReporter("surveys", stream) as report:
        report(state(200, 0.0, resumed=200))
        report(state(215, 30.0, resumed=200))
        report(state(220, 50.0, resumed=200))
    assert stream.getvalue().splitlines()[1:] == [
        "surveys: 215 of 1,000 repeats, 2 workers",
        "surveys: 220 of 1,000 repeats, about 32 min 30 s left, 2 workers",
    ]


def test_nothing_to_tell() -> None:
    stream = io.StringIO()
    with ProgressReporter("surveys", stream):
        pass
    assert stream.getvalue() == ""


def test_last_line_of_a_run_that_stopped() -> None:
    stream = io.StringIO()
    try:
        with ProgressReporter("surveys", stream) as report:
            report(state(0, 0.0))
            report(state(30, 3600.0))
            report(state(31, 3601.0))
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert stream.getvalue().splitlines()[1:] == [
        "surveys: 30 of 1,000 repeats, about 32 h 20 min left, 2 workers",
        "surveys: 31 of 1,000 repeats in 1 h 0 min, 2 workers",
    ]


def test_forced_colours_bring_no_control_codes_into_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    with ProgressReporter("surveys", stream) as report:
        report(state(0, 0.0))
        report(state(1000, 20.0))
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 2


def test_closed_stream_ends_the_reports_alone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        with ProgressReporter("surveys", stream, interval=0.0) as report:
            report(state(0, 0.0))
            report(state(10, 1.0))
        # What the closed pipe did not take must not be written again when the stream closes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


def in_terminal(kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a run writes to a pseudo-terminal."""
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setenv("COLUMNS", "100")
    ours, theirs = pty.openpty()
    with open(theirs, "w") as stream, ProgressReporter("surveys", stream) as report:
        report(state(200, 0.0, resumed=200, mode="starting 2 workers"))
        report(state(700, 5.0, resumed=200))
        report(state(1000, 8.0, resumed=200))
    chunks = []
    # A terminal hands out what it has, and fails once all is read and nobody writes.
    with suppress(OSError):
        while chunk := os.read(ours, 1 << 16):
            chunks.append(chunk)
    os.close(ours)
    return b"".join(chunks).decode()


def test_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = in_terminal("xterm-256color", monkeypatch)
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    last = plain.replace("\r", "\n").strip().splitlines()[-1]
    assert last.startswith("surveys")
    assert "1000/1000" in last
    assert last.endswith("2 workers")
    assert text.endswith("\x1b[?25h"), "the cursor is not shown again"


def test_lines_in_a_terminal_that_cannot_move_its_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    text = in_terminal("dumb", monkeypatch)
    assert "\x1b" not in text
    assert len(text.splitlines()) == 2
