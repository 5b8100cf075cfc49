"""The schedules of ``cluster/schedules``: each is parsed, by its own program where there is one."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from ppdm_dask.cli.app import app

SCHEDULES = Path(__file__).resolve().parent.parent / "cluster" / "schedules"
PAGE = (SCHEDULES / "README.md").read_text(encoding="utf-8")

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze, of systemd"
)

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Of cron's five fields."""


def options(command: list[str]) -> list[str]:
    """The options of a ``ppdm reproduce`` in a command, each known to the command line."""
    start = command.index("reproduce")
    assert Path(command[start - 1]).name == "ppdm"
    found = [word.partition("=")[0] for word in command[start + 1 :] if word.startswith("--")]
    help_ = CliRunner().invoke(app, ["reproduce", "--help"], env={"COLUMNS": "200"}).output
    for option in found:
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_), option
    return found


def test_the_page_has_every_file():
    for path in SCHEDULES.iterdir():
        if path.name != "README.md":
            assert f"`{path.name}`" in PAGE or path.name in PAGE, path.name


def systemd(*arguments: str | Path) -> str:
    done = subprocess.run(
        ["systemd-analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((SCHEDULES / name).read_text(encoding="utf-8"))
    return parser


def test_the_service_reproduces_its_instances_grade():
    service = unit("ppdm-reproduce@.service")["Service"]
    command = shlex.split(service["ExecStart"])
    assert options(command) == ["--grade", "--fresh", "--out", "--hook"]
    assert command[command.index("--grade") + 1] == "%i"
    hook = command[command.index("--hook") + 1].split()
    assert Path(hook[0]).relative_to("/opt/ppdm_dask") == Path("cluster/schedules/hook.sh")


@pytest.mark.parametrize("grade", ["small", "full"])
def test_the_timers_start_a_grade_and_make_up_for_a_night(grade):
    timer = unit(f"ppdm-reproduce-{grade}.timer")
    assert timer["Timer"]["Unit"] == f"ppdm-reproduce@{grade}.service"
    assert timer["Timer"]["Persistent"] == "true"
    assert timer["Install"]["WantedBy"] == "timers.target"


@needs_systemd
def test_systemd_takes_the_units(tmp_path):
    program = tmp_path / "ppdm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in SCHEDULES.glob("ppdm-reproduce*.[st]*"):
        text = path.read_text().replace("/opt/ppdm_dask/.venv/bin/ppdm", str(program))
        (tmp_path / path.name).write_text(text)
    units = sorted(tmp_path.glob("ppdm-reproduce*"))
    assert len(units) == 3
    service, *timers = [path for path in units if "@" in path.name] + [
        path for path in units if path.suffix == ".timer"
    ]
    for grade in ("small", "full"):
        instance = tmp_path / f"ppdm-reproduce@{grade}.service"
        instance.write_text(service.read_text())
    for path in [*timers, *tmp_path.glob("ppdm-reproduce@?*.service")]:
        # Whatever systemd does not know it says, and goes on.
        assert systemd("verify", "--man=no", path).strip() == ""


@needs_systemd
def test_the_service_is_hardened():
    service = SCHEDULES / "ppdm-reproduce@.service"
    # Of 10 points for a service without any protection at most 2, which systemd-analyze calls OK.
    systemd("security", "--offline=yes", "--threshold=20", service)


@needs_systemd
def test_systemd_reads_the_calendars():
    for grade, days in (("small", ""), ("full", "Sun ")):
        calendar = unit(f"ppdm-reproduce-{grade}.timer")["Timer"]["OnCalendar"]
        assert calendar.startswith(days)
        assert "Next elapse:" in systemd("calendar", calendar)


def times(field: str, low: int, high: int) -> set[int]:
    """The times that a field of a crontab stands for; ValueError for none."""
    found: set[int] = set()
    for part in field.split(","):
        match = re.fullmatch(r"(\*|(\d+)(?:-(\d+))?)(?:/(\d+))?", part)
        if match is None:
            raise ValueError(f"{field}: {part} is not a time")
        first = int(match[2]) if match[2] else low
        last = int(match[3]) if match[3] else first if match[2] else high
        step = int(match[4]) if match[4] else 1
        if not low <= first <= last <= high or step < 1:
            raise ValueError(f"{field}: {part} is not within {low} to {high}")
        found.update(range(first, last + 1, step))
    return found


def read_crontab(text: str) -> tuple[dict[str, str], list[tuple[list[set[int]], str, str]]]:
    """Variables and lines (times, user, command) of a file for ``/etc/cron.d``."""
    if not text.endswith("\n"):
        raise ValueError("cron ignores a last line without an end")
    variables, lines = {}, []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if match := re.fullmatch(r"([A-Z_]+)=(.*)", line):
            variables[match[1]] = match[2]
            continue
        *fields, user, command = line.split(None, 6)
        if "%" in command:
            raise ValueError("an unescaped % ends a command of cron")
        pairs = zip(fields, RANGES, strict=True)
        lines.append(([times(field, *limits) for field, limits in pairs], user, command))
    return variables, lines


@pytest.mark.parametrize(
    "wrong",
    [
        "60 3 * * * root true\n",
        "0 24 * * * root true\n",
        "0 3 0 * * root true\n",
        "0 3 * * 8 root true\n",
        "0 3 * * root true\n",
        "0 3 * * */0 root true\n",
        "0 3 * * * root date +%F\n",
        "0 3 * * * root true",
    ],
)
def test_the_reader_of_crontabs_is_strict(wrong):
    with pytest.raises(ValueError, match=r"\w"):
        read_crontab(wrong)


def test_the_crontab_has_one_grade_a_night():
    text = (SCHEDULES / "ppdm-reproduce.cron").read_text(encoding="utf-8")
    variables, lines = read_crontab(text)
    assert set(variables) == {"SHELL", "PATH", "MAILTO"}
    nights = []
    for (minute, hour, days, months, weekdays), user, command in lines:
        assert len(minute) == len(hour) == 1
        assert (days, months) == (set(range(1, 32)), set(range(1, 13)))
        nights.append(weekdays)
        assert user == "ppdm"
        done = subprocess.run(["sh", "-n", "-c", command], check=False)
        assert done.returncode == 0
        run, _, otherwise = command.partition(" || ")
        words = shlex.split(run.partition(" >")[0])
        assert options(words) == ["--grade", "--fresh"]
        log = f"runs/reproduce-{words[words.index('--grade') + 1]}.log"
        assert (f" >{log} 2>&1" in run, otherwise) == (True, f"cat {log}")
    assert nights == [{1, 2, 3, 4, 5, 6}, {0}]


def manifests() -> list[dict[str, Any]]:
    text = (SCHEDULES / "cronjob.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("version", ["1.31", "1.34"])
def test_kubernetes_takes_the_cronjob(version):
    kubernetes_validate = pytest.importorskip(
        "kubernetes_validate", reason="needs kubernetes-validate, see CONTRIBUTING.md"
    )

    claim, job, policy = manifests()
    for manifest in (claim, job, policy):
        kubernetes_validate.validate(manifest, version, strict=True)
    broken = {**job, "spec": {**job["spec"], "concurrency": "Forbid"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


def test_the_cronjob_runs_one_reproduction_without_rights():
    claim, job, policy = manifests()
    (minute, hour, *rest), _, _ = read_crontab(f"{job['spec']['schedule']} user command\n")[1][0]
    assert (minute, hour) == ({30}, {3})
    assert all(len(times_) > 1 for times_ in rest)
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert options(container["command"]) == ["--grade", "--fresh", "--against", "--out"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    # All that is written goes to volumes; a policy on exit codes asks for restartPolicy Never.
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert {"/runs", "/tmp"} == set(mounts)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounts.values()) == set(volumes)
    assert volumes["runs"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (rule,) = job["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["values"] == [1, 2]
    assert rule["onExitCodes"]["containerName"] == container["name"]
    assert pod["restartPolicy"] == "Never"
    assert container["image"] in PAGE
    # It computes what it needs, and talks to nobody.
    labels = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"] == {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress", "Egress"],
    }


def test_the_workflow_runs_a_make_target_that_exists():
    text = (SCHEDULES / "workflow.yaml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    # YAML 1.1 reads the key `on` as a truth value.
    triggers = workflow[True]
    assert set(triggers) == {"schedule", "workflow_dispatch"}
    for entry in triggers["schedule"]:
        read_crontab(f"{entry['cron']} user command\n")
    assert triggers["workflow_dispatch"]["inputs"]["grade"]["options"] == ["small", "full"]
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert {"runs-on", "steps", "timeout-minutes", "env"} == set(job)
    makefile = (SCHEDULES.parent.parent / "Makefile").read_text(encoding="utf-8")
    for step in job["steps"]:
        assert len({"uses", "run"} & set(step)) == 1
        if "uses" in step:
            # A tag may be moved to other code, a commit may not.
            assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"])
            assert re.search(re.escape(step["uses"]) + r" # v\d+\.\d+\.\d+\n", text)
            continue
        words = shlex.split(step["run"])
        assert words[0] == "make"
        assert re.search(rf"^{words[1]}: ", makefile, re.MULTILINE)
    kept = next(step for step in job["steps"] if step.get("if") == "always()")
    assert "drift.json" in kept["with"]["path"]


def test_the_hook_sends_one_mail_an_event(tmp_path):
    mail = tmp_path / "mail"
    mail.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >>"{tmp_path}/sent"\ncat >>"{tmp_path}/sent"\n')
    mail.chmod(0o755)
    document = tmp_path / "drift.json"
    document.write_text("the drifts\n")

    def call(*arguments: str) -> int:
        command = ["sh", str(SCHEDULES / "hook.sh"), *arguments]
        path = f"{tmp_path}:/usr/bin:/bin"
        done = subprocess.run(command, env={"PATH": path}, check=False, capture_output=True)
        return done.returncode

    assert call("me@example.org", "drift", str(document)) == 0
    assert call("me@example.org", "closed", str(document)) == 0
    assert (tmp_path / "sent").read_text().splitlines() == [
        "-s|ppdm reproduce: a number moved|me@example.org|the drifts",
        "-s|ppdm reproduce: all numbers are as they were|me@example.org|the drifts",
    ]
    assert call("me@example.org", "other", str(document)) == 2
    assert call("me@example.org", "drift") == 2
    assert call("me@example.org", "drift", str(tmp_path / "none")) != 0


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_reproduce_passes_the_grade():
    done = subprocess.run(
        ["make", "-n", "reproduce", "GRADE=full", "WORKERS=2", "OUT=here"],
        cwd=SCHEDULES.parent.parent,
        # Run by make itself, it would not be its own master.
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=False,
    )
    line = done.stdout.splitlines()[-1]
    words = shlex.split(line)[1:]
    assert words == [
        "reproduce",
        "--grade",
        "full",
        "--out",
        "here/reproduce-full",
        "--workers",
        "2",
    ]
