"""Resources for Kubernetes and the Dockerfile, as far as they can be judged without a cluster."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ppdm_dask.cluster.kinds import SchedulerProfile, load_profile
from ppdm_dask.cluster.security import make_certificates, write_certificates

FILES = ("cluster.yaml", "network.yaml", "run.yaml")
# The oldest that the page asks for, and the newest that there are schemas of.
VERSIONS = ("1.31", "1.37")
NEEDS = "needs kubernetes-validate and dask-kubernetes, see CONTRIBUTING.md"


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(__file__).resolve().parents[1] / "cluster" / "kubernetes"


def documents(folder: Path) -> Iterator[dict[str, Any]]:
    for name in FILES:
        yield from yaml.safe_load_all((folder / name).read_text())


def document(folder: Path, kind: str) -> dict[str, Any]:
    (found,) = (each for each in documents(folder) if each["kind"] == kind)
    return found


def pods(folder: Path) -> dict[str, dict[str, Any]]:
    """Specifications of pods by the role of what runs in them."""
    cluster = document(folder, "DaskCluster")["spec"]
    job = document(folder, "Job")["spec"]["template"]["spec"]
    parts = {"scheduler": cluster["scheduler"]["spec"], "worker": cluster["worker"]["spec"]}
    return {**parts, "client": job}


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


# -- schemas -----------------------------------------------------------------------------------


def operator_schema() -> tuple[str, dict[str, Any]]:
    """Group with version, and schema, of DaskCluster; the package is looked into, not imported."""
    found = importlib.util.find_spec("dask_kubernetes")
    if found is None or not found.submodule_search_locations:
        pytest.skip(NEEDS)
    package = Path(found.submodule_search_locations[0])
    (path,) = package.glob("operator/deployment/helm/*/crds/daskcluster.yaml")
    # The loader in C takes half a second, the one in Python five.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definition = yaml.load(path.read_text(), loader)["spec"]
    (version,) = definition["versions"]
    return f"{definition['group']}/{version['name']}", version["schema"]["openAPIV3Schema"]


def closed(schema: Any) -> Any:
    """The same schema with unknown keys refused: Kubernetes would drop them without a word."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and "additionalProperties" not in made:
        open_to_all = made.get("x-kubernetes-preserve-unknown-fields", False)
        made["additionalProperties"] = bool(open_to_all)
    if made.pop("x-kubernetes-int-or-string", False):
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_resources_fit_the_schemas_of_kubernetes(folder: Path, version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason=NEEDS)
    checked = 0
    for each in documents(folder):
        if not each["apiVersion"].startswith("kubernetes.dask.org/"):
            kubernetes_validate.validate(each, version, strict=True)
            checked += 1
    assert checked == 4
    # What the operator makes of its resource are pods.
    for pod in pods(folder).values():
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
        kubernetes_validate.validate(made, version, strict=True)
        made["spec"] = {**pod, "restartPolicies": "Never"}
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(made, version, strict=True)


def test_the_cluster_fits_the_schema_of_the_operator(folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason=NEEDS)
    cluster = document(folder, "DaskCluster")
    group, schema = operator_schema()
    assert cluster["apiVersion"] == group
    # Name and kind are Kubernetes's own and not in the schema of the resource.
    resource = {"spec": cluster["spec"]}
    validator = jsonschema.Draft7Validator(closed(schema))
    validator.validate(resource)
    worker = cluster["spec"]["worker"]
    worker["replica"] = 4
    with pytest.raises(jsonschema.ValidationError, match="'replica' was unexpected"):
        validator.validate(resource)
    del worker["replica"]
    worker["replicas"] = "4"
    with pytest.raises(jsonschema.ValidationError, match="'4' is not of type 'integer'"):
        validator.validate(resource)


# -- what the resources say --------------------------------------------------------------------


def test_pods_may_little(folder: Path) -> None:
    for pod in pods(folder).values():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        for each in containers(pod):
            given = each["securityContext"]
            assert given["allowPrivilegeEscalation"] is False
            assert given["readOnlyRootFilesystem"] is True
            assert given["capabilities"] == {"drop": ["ALL"]}
            assert each["resources"]["limits"]["memory"]
            assert not re.search(r":latest$|/[^:]*$", each["image"]), "no tag"


def test_a_driver_is_started_again_unless_that_is_of_no_use(folder: Path) -> None:
    job = document(folder, "Job")["spec"]
    assert job["backoffLimit"] > 0
    (rule,) = job["podFailurePolicy"]["rules"]
    # 1 is a run with trials given up, 2 a mistake of the user; 130 a driver that was stopped.
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"] == {"containerName": "driver", "operator": "In", "values": [1, 2]}


def test_one_image(folder: Path) -> None:
    images = {each["image"] for pod in pods(folder).values() for each in containers(pod)}
    assert len(images) == 1


def test_everything_between_pods_is_encrypted(folder: Path) -> None:
    for role, pod in pods(folder).items():
        secrets = [each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each]
        assert secrets == [f"ppdm-{role}"], "one key for each"
        if role == "client":
            continue
        (container,) = pod["containers"]
        given = container["args"]
        assert given[:2] == ["dask", role]
        assert "--protocol=tls" in given
        for option, file in (("ca-file", "ca"), ("cert", role), ("key", f"{role}-key")):
            assert f"--tls-{option}=/certificates/{file}.pem" in given
        assert [each for each in given if "dashboard-address=127.0.0.1:" in each]
    port = document(folder, "DaskCluster")["spec"]["scheduler"]["service"]["ports"]
    assert [each["port"] for each in port] == [8786], "the dashboard is not served"
    (policy,) = (each for each in documents(folder) if each["kind"] == "NetworkPolicy")
    labels = policy["spec"]["podSelector"]["matchLabels"]
    cluster = document(folder, "DaskCluster")["spec"]
    job = document(folder, "Job")["spec"]["template"]
    for part in (cluster["scheduler"], cluster["worker"], job):
        assert part["metadata"]["labels"] == labels
    # Anyone who got into a pod cannot carry data out of the cluster.
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    ours = [{"podSelector": {"matchLabels": labels}}]
    assert policy["spec"]["ingress"] == [{"from": ours}]
    inside, names = policy["spec"]["egress"]
    assert inside == {"to": ours}
    assert {each["port"] for each in names["ports"]} == {53}
    (where,) = names["to"]
    assert where["podSelector"] and where["namespaceSelector"]


def test_dask_understands_the_arguments(folder: Path) -> None:
    """The commands' own parsers take them; nothing is started."""
    from distributed.cli import dask_scheduler, dask_worker

    for role, command in (("scheduler", dask_scheduler.main), ("worker", dask_worker.main)):
        (container,) = pods(folder)[role]["containers"]
        # Files that are named need not be there to be parsed, but the option checks them.
        given = [each for each in container["args"][2:] if not each.startswith("--tls")]
        context = command.make_context(role, given)
        assert context.params["protocol"] == "tls"


def test_the_profile_is_one(folder: Path, tmp_path: Path) -> None:
    text = document(folder, "ConfigMap")["data"]["profile.toml"]
    path = tmp_path / "profile.toml"
    path.write_text(text)
    profile = load_profile(path)
    assert isinstance(profile, SchedulerProfile)
    assert profile.security == "/certificates"
    cluster = document(folder, "DaskCluster")
    assert profile.workers == cluster["spec"]["worker"]["replicas"]
    assert profile.address == f"tls://{cluster['metadata']['name']}-scheduler:8786"
    (worker,) = cluster["spec"]["worker"]["spec"]["containers"]
    assert profile.memory == 2 * 2**30
    assert "--memory-limit=2GiB" in worker["args"]
    assert worker["resources"]["limits"]["memory"] == "2304Mi"
    (driver,) = pods(folder)["client"]["containers"]
    mounts = {each["name"]: each["mountPath"] for each in driver["volumeMounts"]}
    assert f"--cluster={mounts['profile']}/profile.toml" in driver["args"]
    assert f"--out={mounts['runs']}" in driver["args"]


def test_keys_reach_the_driver_as_it_wants_them(folder: Path, tmp_path: Path) -> None:
    """The first container's command, on files as open as those of a secret are."""
    write_certificates(make_certificates(), tmp_path / "secret")
    for path in (tmp_path / "secret").iterdir():
        path.chmod(0o440)
    (tmp_path / "certificates").mkdir()
    (first,) = pods(folder)["client"]["initContainers"]
    shell, option, script = first["command"]
    for name in ("secret", "certificates"):
        script = script.replace(f"/{name}/", f"{tmp_path}/{name}/")
    subprocess.run([shell, option, script], check=True)
    text = f'kind = "scheduler"\naddress = "tls://h:1"\nsecurity = "{tmp_path}/certificates"\n'
    (tmp_path / "p.toml").write_text(f'{text}workers = 1\nmemory = "1 GiB"\n')
    assert load_profile(tmp_path / "p.toml").certificates("client") is not None


# -- the Dockerfile ----------------------------------------------------------------------------


def instructions(folder: Path) -> list[tuple[str, str]]:
    """Name and rest of each instruction of the Dockerfile, continued lines joined."""
    lines = (folder / "Dockerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", text)
    parts = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(name.upper(), rest) for name, rest in parts]


def test_dockerfile(folder: Path, root: Path) -> None:
    found = instructions(folder)
    names = [name for name, _ in found]
    assert names[0] == "FROM"
    assert names.count("FROM") == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", found[0][1])
    assert "ADD" not in names
    assert "ARG" not in names
    users = [rest for name, rest in found if name == "USER"]
    assert len(users) == 1
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[0])
    assert names.index("USER") > max(i for i, name in enumerate(names) if name in ("RUN", "COPY"))
    (pod,) = {pod["securityContext"]["runAsUser"] for pod in pods(folder).values()}
    assert users[0].startswith(f"{pod}:")
    text = (folder / "Dockerfile").read_text()
    assert not re.search(r"(?i)password|secret|token|BEGIN|\.pem|https?://|curl|wget", text)
    for name, rest in found:
        if name == "RUN" and "pip" in rest:
            assert "--constraint constraints.txt" in rest
            assert "--no-cache-dir" in rest


def test_what_is_copied_is_there_and_not_ignored(folder: Path, root: Path) -> None:
    sources = copied(folder)
    assert all((root / source).exists() for source in sources)
    rules = (folder / "Dockerfile.dockerignore").read_text().splitlines()
    lines = [line for line in rules if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(sources)
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"], "hatch_build.py"} <= set(sources)


def copied(folder: Path) -> list[str]:
    rest = [shlex.split(rest) for name, rest in instructions(folder) if name == "COPY"]
    assert all(words[-1] in ("./", words[0]) for words in rest)
    return [source for words in rest for source in words[:-1]]


@pytest.mark.cluster
def test_the_installation_works(folder: Path, root: Path, tmp_path: Path) -> None:
    """The image's ``pip`` lines, on the copied files alone, in a new environment."""
    source = tmp_path / "src"
    source.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.pem")
    for name in copied(folder):
        if (root / name).is_dir():
            shutil.copytree(root / name, source / name, ignore=ignored)
        else:
            (source / name).parent.mkdir(exist_ok=True)
            shutil.copy(root / name, source / name)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    path = f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin"
    lines = [rest for name, rest in instructions(folder) if name == "RUN" and "pip" in rest]
    assert lines
    for line in lines:
        quiet = line.replace("pip install", "pip install --quiet --disable-pip-version-check")
        # An image is to hold no cache; here what was downloaded before may serve.
        quiet = quiet.replace(" --no-cache-dir", " --no-compile")
        subprocess.run(["sh", "-c", quiet], cwd=source, env=environment(path), check=True)
    shutil.rmtree(source)
    done = subprocess.run(
        ["ppdm", "check", "electronic-surveys", "local"],
        cwd=tmp_path,
        env=environment(path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def environment(path: str) -> dict[str, str]:
    """Variables of the shell, without what leads Python back into the checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PATH": path}
