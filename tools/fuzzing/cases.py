"""Run cases in children of a warmed-up process, and judge what they answered."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzzing.chance import Chance
from fuzzing.scenes import Scene, place
from fuzzing.seals import seal_again

__all__ = ["Case", "Failure", "call", "damaged", "run_cases"]

MAX_SECONDS = 10.0
"""CPU time of a case; a loaded machine must not make a hang of a slow case."""

MAX_WAIT = 30.0
"""Time on the clock, for what waits without computing."""

MAX_GROWTH = 1 << 30
"""Bytes by which a case may make its process grow."""

CODES = (0, 1, 2, 3, 130)
SEALED = 0.7
"""Share of damaged files whose checksum, if they have one, is made to fit."""

PROGRESS = re.compile(r"^[\w-]+: [\d,]+ of [\d,]+ ")
"""Lines of a run on standard error before the one that says what is wrong."""

BATCH = 25


@dataclass(frozen=True)
class Case:
    """One damaged file and the command that reads it."""

    target: str
    seed: int
    index: int
    scene: Scene
    content: bytes | str | None = None


@dataclass(frozen=True)
class Failure:
    """A case that a command answered in a way it must not."""

    case: Case
    what: str
    detail: str

    @property
    def signature(self) -> tuple[str, str, str, str]:
        """Equal for failures that look alike."""
        detail = self.detail
        if self.what == "traceback":  # where, and which exception
            detail = ":".join(detail.split(":")[:3])
        if self.what == "a long line":
            detail = detail.split("error: ")[-1].split(":")[0]
        alike = re.sub(r"\d+(\.\d+)?|'[^']*'|\"[^\"]*\"|/[^ ]*", "#", detail)[:120]
        return self.case.target, self.case.scene.command[0], self.what, alike


def damaged(case: Case, seeds: Path) -> bytes | str:
    """The damaged file of a case."""
    if case.content is not None:
        return case.content
    chance = Chance(case.seed, case.target, case.index, "damage")
    return case.scene.damage((seeds / case.scene.file).read_bytes(), chance)


def call(arguments: Sequence[str]) -> tuple[int, str]:
    """Run ``ppdm`` in this process and folder; the exit code, and what it complained of."""
    from ppdm_dask.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
        err.flush()
    return code, err.buffer.getvalue().decode()  # type: ignore[attr-defined]


def run_cases(cases: Iterator[Case], seeds: Path) -> Iterator[tuple[Case, Failure | None]]:
    """Run cases, some in one child, which a case that ends badly takes with it."""
    batch: list[Case] = []
    exhausted = False
    while batch or not exhausted:
        while len(batch) < BATCH and not exhausted:
            following = next(cases, None)
            exhausted = following is None
            if following is not None:
                batch.append(following)
        for failure in _run_batch(batch, seeds):
            yield batch.pop(0), failure


def _run_batch(batch: Sequence[Case], seeds: Path) -> list[Failure | None]:
    """What came of the first cases of a batch, up to one that took its process with it."""
    if not batch:
        return []
    reading, writing = os.pipe()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        code = 70
        try:
            _child(batch, seeds, folder, writing)
            code = 0
        except BaseException:
            (folder / "broken").write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            os._exit(code)
    os.close(writing)
    found: list[Failure | None] = []
    try:
        with open(reading, "rb") as pipe:
            while len(found) < len(batch):
                case = batch[len(found)]
                line, why = _next_line(pipe, child)
                if line:
                    answer = json.loads(line)
                    found.append(_judge(case, answer))
                    if answer["last"]:
                        break
                    continue
                if why is None:
                    _, status = os.waitpid(child, 0)
                    child = 0
                    if (folder / "broken").exists():
                        raise RuntimeError((folder / "broken").read_text(encoding="utf-8"))
                    why = f"died of signal {status & 127}" if status & 127 else "left the process"
                found.append(Failure(case, why, why))
                break
    finally:
        with contextlib.suppress(ProcessLookupError):
            if child:
                os.killpg(child, signal.SIGKILL)
        if child:
            os.waitpid(child, 0)
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _next_line(pipe: Any, child: int) -> tuple[bytes, str | None]:
    """The next answer of a child; b"" and a reason, or None where the child is gone."""
    began, cpu = time.monotonic(), _cpu(child)
    while not select.select([pipe], [], [], 0.5)[0]:
        if _cpu(child) - cpu > MAX_SECONDS:
            return b"", "computed for more than 10 s"
        if time.monotonic() - began > MAX_WAIT:
            return b"", "waited for more than 30 s"
    return pipe.readline(), None


def _cpu(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    user, system = text.rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _child(batch: Sequence[Case], seeds: Path, folder: Path, writing: int) -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = mapped + 2 * MAX_GROWTH
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    complaints = folder / "stderr"
    target = os.open(complaints, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(target, 2)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - ends with the process
    sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)  # noqa: SIM115
    for number, case in enumerate(batch):
        os.ftruncate(target, 0)
        answer = _answer(case, seeds, folder / str(number))
        text = complaints.read_text(encoding="utf-8", errors="replace")
        answer |= {"stderr": text[:4_000], "last": answer["grown"] > MAX_GROWTH}
        os.write(writing, json.dumps(answer).encode() + b"\n")
        if answer["last"]:
            return


def _answer(case: Case, seeds: Path, folder: Path) -> dict[str, Any]:
    from ppdm_dask.cli import main

    scene = case.scene
    for need in scene.needs:
        _copy(seeds / need, folder / need)
    content = damaged(case, seeds)
    place(folder / scene.file, content)
    if isinstance(content, bytes) and _sealed(case):
        seal_again(folder / scene.file)
    os.chdir(folder)
    before = _files(folder)
    held = _rss()
    raised = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            code: Any = main(scene.command)
    except SystemExit as error:
        code = error.code
    except BaseException as error:
        code, raised = None, _origin(error)
    sys.stderr.flush()
    os.chdir(folder.parent)
    left = [] if scene.writes else sorted(_files(folder) - before)
    shutil.rmtree(folder, ignore_errors=True)
    return {"code": code, "raised": raised, "left": left, "grown": _rss() - held}


def _sealed(case: Case) -> bool:
    """Whether the checksum is made to fit; that of a case with a content of its own always is."""
    chance = Chance(case.seed, case.target, case.index, "seal")
    return case.content is not None or chance.coin(SEALED)


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, to, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, to)


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _rss() -> int:
    """Largest memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _origin(error: BaseException) -> str:
    """Type and message of an exception, and where in the package it was raised."""
    where = "outside the package"
    for frame in traceback.extract_tb(error.__traceback__):
        if "/ppdm_dask/" in frame.filename:
            where = f"{frame.filename.split('/ppdm_dask/')[-1]}:{frame.lineno} {frame.name}"
    return f"{where}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _judge(case: Case, answer: dict[str, Any]) -> Failure | None:
    """What is wrong with an answer, if anything."""
    code, text = answer["code"], answer["stderr"]
    lines = [line for line in text.splitlines() if not PROGRESS.match(line)]
    if answer["raised"]:
        return Failure(case, "traceback", answer["raised"])
    if answer["grown"] > MAX_GROWTH:
        grown = answer["grown"] / MAX_GROWTH
        return Failure(case, "memory", f"grew by {grown:.1f} GiB, and answered {code}")
    if code not in CODES:
        return Failure(case, "exit code", f"{code}: {text[:200]}")
    if "Traceback (most recent call last)" in text:
        return Failure(case, "traceback", lines[-1])
    if warned := re.search(r"^.*?/?([\w/]+\.py):\d+: (\w*Warning: .*)$", text, re.MULTILINE):
        return Failure(case, "warning", f"{warned[1]}: {warned[2]}, and exit code {code}")
    if code == 2 and len(lines) != 1:
        return Failure(case, "not one line", text[:300])
    if code == 2 and not _names(case.scene, lines[0]):
        return Failure(case, "no file named", lines[0][:300])
    if code == 2 and len(lines[0]) > 700:
        return Failure(case, "a long line", f"{len(lines[0])} characters: {lines[0][:200]}")
    if code == 2 and answer["left"]:
        return Failure(case, "left behind", ", ".join(answer["left"])[:200])
    return None


def _names(scene: Scene, line: str) -> bool:
    """Whether a message says which file it is about, or which option is at odds with it."""
    if f"--{line.removeprefix('ppdm: error: ').split(':')[0]}" in scene.command:
        return True
    files = [scene.file, *scene.needs, *(word for word in scene.command if "." in word)]
    return "error: --" in line or any(Path(file).name in line for file in files)
