"""The core installation: what it does by itself, and the one line where an extra is missing."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pages import shell_lines
from scipy import special, stats
from shell_page import run_lines
from small_recipe import CONFIG, TREES, write_recipe

import ppdm_dask as pp
from ppdm_dask import distributions, kernels
from ppdm_dask.extras import EXTRAS, MissingExtra, missing

SLOW = "ppdm: numba is not installed, and plain NumPy takes its place, 20 to 100 times slower"


@pytest.fixture
def core(root: Path) -> dict[str, str]:
    """Environment whose Pythons find no package that an extra brings."""
    folders = (root / "tests" / "support" / "core_only", root)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def python(where: Path, core: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-W", "error", *arguments)
    return subprocess.run(
        command, cwd=where, env=core, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.slow
def test_the_page_on_surveys_runs(
    root: Path, tmp_path: Path, core: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/survey.md, every line of it; it says what is slow or left out, and nothing else."""
    monkeypatch.setenv("PYTHONPATH", str(root / "tests" / "support" / "core_only"))
    lines = shell_lines("docs/survey.md")
    # What these commands say aside is not a failure here; the first one may not say anything.
    out, folder = run_lines(f"exec 2>said\n{lines}", root, tmp_path)
    assert len(out) > 100
    said = (folder / "said").read_text().splitlines()
    best = 'how far a design is from the best one needs SciPy: pip install "ppdm-dask[search]"'
    assert said == [f"ppdm: {best}", *[f"{SLOW} (a million answers in 0.2 s); {FAST}"] * 2]
    for name in ("reports.parquet", "counts.parquet", "within.csv", "parts", "all.parquet"):
        assert (folder / name).exists()


FAST = 'pip install "ppdm-dask[fast]"'


def test_both_pages_are_built(root: Path, tmp_path: Path, core: dict[str, str]) -> None:
    """That of a questionnaire, of the lines of docs/web.md, and that of estimates."""
    page = (root / "docs" / "web.md").read_text()
    files = dict(re.findall(r"cat > (\S+) <<'END'\n(.*?)^END$", page, re.DOTALL | re.MULTILINE))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    both = ("--codebook", "codebook.toml", "--design", "design.toml")
    questions = ("--questionnaire", "questionnaire.toml", "--out", "page")
    made = python(tmp_path, core, "-m", "ppdm_dask", "survey", "build", *both, *questions)
    assert (made.returncode, made.stderr) == (0, "")
    assert (tmp_path / "page" / "index.html").stat().st_size > 20_000
    (tmp_path / "a.csv").write_text(
        "region,used,often\n" + "north,yes,never\nsouth,no,daily\n" * 99
    )
    for command in (
        ("disguise", "a.csv", *both, "--keep-undisguised", "region", "--out", "r.parquet"),
        ("estimate", "r.parquet", *both, "--over", "used", "--by", "region", "--page", "e.html"),
    ):
        done = python(tmp_path, core, "-m", "ppdm_dask", *command)
        assert done.returncode == 0, done.stderr
    shown = (tmp_path / "e.html").read_text()
    assert "north" in shown and "198" in shown


def test_reports_are_those_of_compiled_loops(tmp_path: Path, core: dict[str, str]) -> None:
    """The same simulation, record for record, for designs that keep, step, draw, and make sets."""
    code = """
import sys, numpy as np, ppdm_dask as pp
from ppdm_dask.designs import SubsetSelection, UnrelatedQuestion
LAW = [.1, .2, .3, .2, .2]
k, n = 5, 1_500
book = pp.Codebook((pp.Attribute("a", tuple("abcde")),))
codes = np.random.default_rng(1).integers(k, size=(n, 1))
P = np.full((k, k), .1) + .5 * np.eye(k)
designs = [
    pp.KaryResponse("a", n=k, epsilon=1.0), pp.RRMatrix("a", P / P.sum(axis=0)),
    UnrelatedQuestion("a", 0.6, [LAW]), SubsetSelection("a", k, epsilon=1.0),
]
for design in designs:
    reports = design.disguise(pp.Records(codes, book), pp.Stream.from_seed(7))
    print(np.asarray(reports.codes).tobytes().hex())
print("numba" in sys.modules)
"""
    here = {name: value for name, value in core.items() if name != "PYTHONPATH"}
    root = core["PYTHONPATH"].rpartition(os.pathsep)[2]
    compiled = python(tmp_path, {**here, "PYTHONPATH": root}, "-c", code)
    plain = python(tmp_path, core, "-c", code)
    assert compiled.returncode == 0 == plain.returncode, compiled.stderr + plain.stderr
    assert compiled.stderr == "" and plain.stderr.startswith(SLOW)
    *expected, there = compiled.stdout.split()
    *found, missed = plain.stdout.split()
    assert (there, missed) == ("True", "False")
    assert len(found) == 4 and found == expected


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("run electronic-surveys", 'ppdm run needs pandas: pip install "ppdm-dask[all]"'),
        ("cluster check local", 'ppdm cluster check needs Dask: pip install "ppdm-dask[dask]"'),
        (
            "optimize --prior p.toml --n 100 --delta 0.8 --out f",
            'ppdm optimize needs DEAP: pip install "ppdm-dask[search]"',
        ),
        (
            "mine id3 r.parquet --codebook b.toml --design d.toml --target a --out m",
            'ppdm mine id3 needs scikit-learn: pip install "ppdm-dask[mine]"',
        ),
        (
            "survey serve f --database d",
            'ppdm survey serve needs Starlette: pip install "ppdm-dask[survey]"',
        ),
        ("-v cluster check local", 'ppdm cluster check needs Dask: pip install "ppdm-dask[dask]"'),
    ],
)
def test_what_is_missing_is_one_line(
    tmp_path: Path, core: dict[str, str], command: str, line: str
) -> None:
    (tmp_path / "p.toml").write_text("[prior.a]\nx = 0.3\ny = 0.7\n")
    done = python(tmp_path, core, "-m", "ppdm_dask", *command.split())
    assert (done.returncode, done.stderr) == (2, f"ppdm: error: {line}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["p.toml"]


def test_names_of_python_say_their_extra(tmp_path: Path, core: dict[str, str]) -> None:
    done = python(tmp_path, core, "-c", "import ppdm_dask as pp\npp.ID3")
    *_, last = done.stderr.splitlines()
    assert last.endswith('ppdm_dask.ID3 needs scikit-learn: pip install "ppdm-dask[mine]"')
    # Anyone who tries whether it is there may ask as for any import.
    assert issubclass(MissingExtra, ImportError)
    assert missing(ModuleNotFoundError("No module named 'x'", name="x"), "it") is None


def optional_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports of packages of extras in a module, wherever they stand, but those for types."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module)]
        else:
            continue
        if all(name.partition(".")[0] in EXTRAS for name in names):
            yield node  # type: ignore[misc]


RUN_IMPORTS = """
import json, pathlib, ppdm_dask
for module, imports in json.loads(pathlib.Path("imports.json").read_text()).items():
    for text in imports:
        space = {"__name__": module}
        exec("def asked():\\n    " + text, space)
        for run in (space["asked"], lambda: exec(text, space)):
            try:
                run()
            except ModuleNotFoundError as error:
                print(module, error.name, error, sep="|")
"""


def test_every_import_of_an_extra_names_it(
    root: Path, tmp_path: Path, core: dict[str, str]
) -> None:
    """All that stand in the package are run: at the head of their module, and in a function."""
    found = {
        ".".join(path.relative_to(root).with_suffix("").parts): [
            ast.unparse(node) for node in optional_imports(ast.parse(path.read_text()))
        ]
        for path in sorted((root / "ppdm_dask").rglob("*.py"))
    }
    (tmp_path / "imports.json").write_text(json.dumps(found))
    done = python(tmp_path, core, "-c", RUN_IMPORTS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * sum(map(len, found.values())) > 300
    for i, line in enumerate(lines):
        module, package, said = line.split("|")
        name, extra = EXTRAS[package]
        room = module.split(".")[1]
        if room in ("experiments", "reproduce", "claims"):
            extra = "all"
        elif room == "search":
            extra = "search"
        asked = module if i % 2 else "asked"
        assert said == f'{asked} needs {name}: pip install "ppdm-dask[{extra}]"'


def test_other_packages_and_questions_see_a_missing_package_as_ever(
    tmp_path: Path, core: dict[str, str]
) -> None:
    code = """
import importlib.util, ppdm_dask
from ppdm_dask import distributions, kernels
print(importlib.util.find_spec("pandas"), kernels.has_numba(), distributions._scipy("x"))
try:
    import pandas
except ModuleNotFoundError as error:
    print(error)
space = {"__name__": "ppdm_dask.mine"}
try:
    exec("import numpy.nothing", space)
except ModuleNotFoundError as error:
    print(error)
"""
    done = python(tmp_path, core, "-c", code)
    assert done.stdout.splitlines() == [
        "None False None",
        "No module named 'pandas'",
        "No module named 'numpy.nothing'",
    ]


NO_FRAMES = """
import numpy as np, ppdm_dask as pp
book = pp.Codebook((pp.Attribute("a", ("no", "yes")), pp.Attribute("b", ("u", "v"))), target="a")
design = pp.Product([pp.Warner("a", 0.9), pp.Warner("b", 0.9)]).bind(book)
rng = np.random.default_rng(1)
answers = {name: rng.choice(book[name].categories, 400).tolist() for name in "ab"}
reports = design.disguise(answers, stream=pp.Stream.from_seed(1))
model = pp.NaiveBayes(design, "a").fit(reports)
told = pp.mine.evaluate(model, reports)
fit = pp.GLM(design, outcome="a", predictors=["b"])
margins = pp.inference.fitted.Margins([("x",)], ("of",), np.zeros(1), np.eye(1))
rules = pp.association_rules(reports, design, min_support=0.01, min_confidence=0.1)
regret = pp.regret(pp.Warner("a", 0.8), [[0.1, 0.9], [0.2, 0.8]])
for ask in (
    rules.to_frame, fit.to_frame, margins.to_frame, told.to_frame, regret.to_frame,
    lambda: told.roc("yes"), lambda: fit.fit(reports),
):
    try:
        ask()
    except ImportError as error:
        print(isinstance(error, pp.InputError), error)
"""


def test_frames_of_models_name_pandas(tmp_path: Path, core: dict[str, str]) -> None:
    """Where scikit-learn is installed and pandas is not."""
    env = {**core, "PPDM_LACKING": "pandas"}
    done = python(tmp_path, env, "-W", "ignore::UserWarning", "-c", NO_FRAMES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *['True to_frame needs pandas: pip install "ppdm-dask[pandas]"'] * 4,
        'True to_frame needs pandas: pip install "ppdm-dask[search]"',
        'True roc needs pandas: pip install "ppdm-dask[pandas]"',
        'False fit needs pandas: pip install "ppdm-dask[pandas]"',
    ]


def test_frames_are_asked_for_by_name(root: Path) -> None:
    """Who asks for a frame gets an InputError: no `to_frame` imports pandas by itself."""
    plain, known = [], 0
    for path in sorted((root / "ppdm_dask").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or node.name != "to_frame":
                continue
            known += 1
            blocks = [w for w in ast.walk(node) if isinstance(w, ast.With)]
            inside = {
                each
                for block in blocks
                if ast.unparse(block.items[0]) == "named('to_frame')"
                for each in ast.walk(block)
            }
            imports = (n for n in ast.walk(node) if isinstance(n, ast.Import))
            plain += [f"{path}:{n.lineno}" for n in imports if n not in inside]
    assert known > 12
    assert plain == []


def test_every_extra_that_is_named_is_declared(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert {extra for _, extra in EXTRAS.values()} | {"all"} <= set(extras)
    (every,) = extras["all"]
    others = set(extras) - {"all", "dev", "docs", "peers", "test"}
    assert set(re.findall(r"[a-z]+", every.partition("[")[2])) == others


@pytest.fixture
def no_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "_scipy", lambda _: None)


X = np.concatenate([np.linspace(-9, 9, 61), [0.0, np.inf, -np.inf]])


@pytest.mark.usefixtures("no_scipy")
def test_plain_laws_are_scipys() -> None:
    near = {"rtol": 1e-11, "atol": 1e-300}
    np.testing.assert_allclose(distributions.normal_cdf(X), special.ndtr(X), **near)
    np.testing.assert_allclose(distributions.normal_tail(X), stats.norm.sf(X), **near)
    p = [1e-9, 0.2, 0.5, 0.975, 1 - 1e-9]
    for freedom in (1, 1.5, 7, 48.3, 5_000):
        np.testing.assert_allclose(distributions.t_cdf(X, freedom), stats.t.cdf(X, freedom), **near)
        np.testing.assert_allclose(distributions.t_tail(X, freedom), stats.t.sf(X, freedom), **near)
        found = [distributions.t_point(each, freedom) for each in p[1:4]]
        np.testing.assert_allclose(found, stats.t.ppf(p[1:4], freedom), rtol=1e-10, atol=1e-12)
    found = [distributions.normal_point(each) for each in (0, *p, 1)]
    np.testing.assert_allclose(found, stats.norm.ppf([0, *p, 1]), **near)
    x = np.linspace(0, 60, 31)
    for freedom in (1, 2, 9, 40):
        found = distributions.chi2_tail(x, freedom)
        np.testing.assert_allclose(found, stats.chi2.sf(x, freedom), **near)
        found = distributions.f_tail(x, freedom, 12.5)
        np.testing.assert_allclose(found, stats.f.sf(x, freedom, 12.5), **near)


@pytest.mark.usefixtures("no_scipy")
def test_plain_binomial_laws_are_sums_of_terms() -> None:
    from fractions import Fraction
    from math import comb

    for n in (1, 7, 40):
        for p in (0.0, 0.03, 0.5, 0.9, 1.0):
            q = Fraction(p)
            terms = [comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]
            k = np.arange(-1, n + 2)
            law = [0.0, *map(float, terms), 0.0]
            below = [float(sum(terms[: i + 1])) for i in range(-1, n + 2)]
            above = [float(1 - sum(terms[: i + 1])) for i in range(-1, n + 2)]
            near = {"rtol": 1e-12, "atol": 1e-300}
            np.testing.assert_allclose(distributions.binomial_law(k, n, p), law, **near)
            np.testing.assert_allclose(distributions.binomial_cdf(k, n, p), below, **near)
            np.testing.assert_allclose(distributions.binomial_tail(k, n, p), above, **near)


@pytest.mark.usefixtures("no_scipy")
def test_plain_logarithms_know_zero() -> None:
    x, y = np.array([0.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.5])
    np.testing.assert_array_equal(distributions.x_log_y(x, y), special.xlogy(x, y))
    np.testing.assert_array_equal(distributions.x_log1p_y(x, -y), special.xlog1py(x, -y))
    np.testing.assert_allclose(distributions.logistic(X * 70), special.expit(X * 70), rtol=1e-15)


def test_a_sweep_without_compiled_engines_has_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts are equal; sums of fractions are, up to rounding."""
    for config in (CONFIG, TREES):
        recipe = write_recipe(tmp_path / "small.toml", config)
        fast = pp.run(recipe, repeats=1, out=tmp_path / "fast").dataset
        with monkeypatch.context() as patch:
            patch.setattr("ppdm_dask.experiments.sweep.plan.has_numba", lambda: False)
            plain = pp.run(recipe, repeats=1, out=tmp_path / "plain").dataset
        for name in ("correct", "correct_disguised", "floored"):
            np.testing.assert_array_equal(plain[name], fast[name])
        np.testing.assert_allclose(
            plain["accuracy_disguised"], fast["accuracy_disguised"], atol=1e-12
        )


def test_a_loop_without_a_twin_is_run_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    kernels._say_that_it_is_slow.cache_clear()

    def double(words: np.ndarray) -> None:
        for i in range(len(words)):
            words[i] *= np.uint64(2)

    words = np.array([1 << 63, 3], np.uint64)
    kernels._plain(double)(words)
    kernels._plain(double)(words)
    assert words.tolist() == [0, 12]
    assert capsys.readouterr().err.count(SLOW) == 1


WITHOUT_FRAMES = """
import re, numpy as np, pyarrow as pa, ppdm_dask as pp
book = pp.Codebook((
    pp.Attribute("a", ("x", "<b>"), missing="x", missing_codes=(-9,)),
    pp.Attribute("age", ("<= 30", "> 30"), cuts=(30,)), pp.Attribute("b", ("u", "v")),
))
design = pp.Product([pp.Warner("a", 0.8), pp.KaryResponse("b", n=2, epsilon=1.0)]).bind(book)
columns = {
    "a": ["x", "<b>", None, "x", "-9"] * 40, "age": np.arange(200) % 50, "b": ["u", "v"] * 100
}
tables = [columns, pa.table({**columns, "age": columns["age"].astype(float)})]
seed = pp.Stream.from_seed(1)
reports, other = (design.disguise(t, stream=seed, keep=["age"]) for t in tables)
assert np.array_equal(reports.codes, other.codes)
print(reports.kept["age"].tolist() == other.kept["age"].tolist(), reports.codes.tolist())
est, counts = pp.estimate(reports, ["a", "b"], by="age"), pp.count(reports, over=["a"])
both = pp.Stratified([pp.Warner("a", 0.8), pp.Warner("a", 0.7)])
owners = pp.Owners(reports, other)
plan = pp.plan({"no": 0.8, "yes": 0.2}, half_width=0.05, max_posterior=0.6)
shown = [book, book["a"], design, reports, est, counts, plan, both, est.compare("<= 30"), owners]
for each in shown:
    print(repr(each), re.sub("<img[^>]*>", "", each._repr_html_()))
print(est, pp.noncompliance([(380, 1000), (430, 1000)], p=[0.25, 0.75]))
print(pp.Codebook.propose({"a": ["x", "y", "x"], "n": [1, 2, 3]}).as_toml())
field = pp.Warner("used", theta=0.25).with_symbols({"same": "yes", "different": "no"})
used = pp.Codebook((pp.Attribute("used", ("no", "yes")),))
said = {"used": ["same"] * 35 + ["different"] * 65 + [None], "w": [1, 2.5] * 50 + [3]}
made = pp.Reports.from_field(said, field, used, nonresponse="drop", weights="w")
print(made.imported, pp.estimate(made, {"used": "yes"}).value, made.weights.sum())
"""


def both_ways(
    where: Path, core: dict[str, str], code: str
) -> list[subprocess.CompletedProcess[str]]:
    """A program's runs, with all extras and with all packages but pandas."""
    root = core["PYTHONPATH"].rpartition(os.pathsep)[2]
    runs = []
    for name, path in (("with", root), ("without", core["PYTHONPATH"])):
        (where / name).mkdir()
        for file in where.glob("*.*"):
            (where / name / file.name).write_bytes(file.read_bytes())
        done = python(
            where / name, {**core, "PYTHONPATH": path, "PPDM_LACKING": "pandas"}, "-c", code
        )
        assert done.returncode == 0, done.stderr
        runs.append(done)
    return runs


@pytest.mark.slow
def test_python_shows_the_same_without_pandas(tmp_path: Path, core: dict[str, str]) -> None:
    """Codes of every kind of table, texts, HTML: with pandas, and where there is none."""
    there, lacking = both_ways(tmp_path, core, WITHOUT_FRAMES)
    assert lacking.stdout == there.stdout
    assert lacking.stdout.count("<table") == 10


CODEBOOK = """
[[attribute]]
name = "region"
categories = ["north", "south"]

[[attribute]]
name = "used"
categories = ["no", "yes"]
"""

COMMANDS = """
import sys
from ppdm_dask.cli import main
both = ["--codebook", "codebook.toml", "--design", "design.toml"]
asked = ["estimate", "reports.parquet", *both, "--over", "used"]
for line in (
    ["codebook", "field.csv"],
    ["import", "field.csv", *both, "--keep", "region,w", "--nonresponse", "drop", "--out"]
    + ["reports.parquet"],
    ["import", "field.csv", *both, "--keep", "region", "--nonresponse", "drop", "--out", "r.csv"],
    ["plan", "--prior", "0.2", "--half-width", "0.05", "--max-posterior", "0.6", "--json"],
    asked,
    [*asked, "--by", "region", "--weights", "w", "--json"],
    *([*asked, "--by", "region", "--out", f"e.{form}"] for form in ("csv", "json", "parquet")),
    ["count", "r.csv", *both, "--over", "used", "--out", "counts.parquet"],
    ["estimate", "counts.parquet", *both, "--over", "used"],
):
    assert main(line) == 0, line
"""


@pytest.mark.slow
def test_commands_write_the_same_without_pandas(tmp_path: Path, core: dict[str, str]) -> None:
    """Of answers with decimal commas: codebook, import, count, estimate as each form, plan."""
    rows = ["north;yes;1,5", "south;no;0,5", "south;no;1", "north;;2", "south;yes;2,25"] * 40
    (tmp_path / "field.csv").write_text("\n".join(["region;used;w", *rows]) + "\n")
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    (tmp_path / "design.toml").write_text('id = "warner"\nattribute = "used"\ntheta = 0.8\n')
    there, lacking = both_ways(tmp_path, core, COMMANDS)
    assert lacking.stdout == there.stdout
    assert lacking.stdout.count("used") > 8
    for name in ("r.csv", "e.csv", "e.json", "e.parquet"):
        with_pandas, without = (tmp_path / way / name for way in ("with", "without"))
        assert without.read_bytes() == with_pandas.read_bytes(), name
    (one, other) = (pq.read_table(tmp_path / w / "reports.parquet") for w in ("with", "without"))
    assert one.equals(other) and one.num_rows == 160


PREDICTIONS = """
from ppdm_dask.cli import main
kept = ["--keep", "n,note", "--probabilities", "--out"]
for line in (
    ["disguise", "a.csv", "--codebook", "codebook.toml", "--design", "design.toml"]
    + ["--keep-undisguised", "region,n", "--drop", "note", "--simulate", "1", "--out", "r.parquet"],
    ["mine", "naive-bayes", "r.parquet", "--codebook", "codebook.toml", "--design"]
    + ["design.toml", "--target", "used", "--out", "m.json"],
    *(["predict", "m.json", "a.csv", *kept, f"p.{form}"] for form in ("csv", "parquet")),
):
    assert main(line) == 0, line
"""


@pytest.mark.slow
def test_predictions_are_the_same_without_pandas(tmp_path: Path, core: dict[str, str]) -> None:
    rows = ["north,yes,1,a", "south,no,2,=b", "south,no,,", "north,no,-4,a"] * 50
    (tmp_path / "a.csv").write_text("\n".join(["region,used,n,note", *rows]) + "\n")
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    (tmp_path / "design.toml").write_text('id = "warner"\nattribute = "used"\ntheta = 0.9\n')
    there, lacking = both_ways(tmp_path, core, PREDICTIONS)
    assert lacking.stdout == there.stdout
    assert lacking.stdout.count("200 predictions of used") == 2
    one, other = (tmp_path / way / "p.csv" for way in ("with", "without"))
    assert other.read_bytes() == one.read_bytes()
    read = [pq.read_table(tmp_path / way / "p.parquet") for way in ("with", "without")]
    assert read[0].equals(read[1], check_metadata=True)
    assert read[1].column_names == ["n", "note", "predicted", "P(no)", "P(yes)"]


def test_faces_do_without_pictures(tmp_path: Path, core: dict[str, str]) -> None:
    code = """
import ppdm_dask as pp
book = pp.Codebook((pp.Attribute("a", ("x", "<b>")),))
design = pp.Warner("a", 0.8).bind(book)
reports = design.disguise({"a": ["x", "<b>"] * 50}, stream=pp.Stream.from_seed(1))
est = pp.estimate(reports, "a")
for each in (book, design, reports, est):
    html = each._repr_html_()
    assert "<table" in html and "<b>" not in html and len(repr(each)) <= 160
for ask in (
    est.to_dataset, est.plot, est.to_frame, book.to_frame, pp.count(reports).to_frame,
    lambda: book.decode(reports), lambda: pp.datasets.load("votes"),
    lambda: pp.plan({"no": 0.8, "yes": 0.2}, half_width=0.05, max_posterior=0.6),
):
    try:
        ask()
    except pp.InputError as error:
        print(error)
"""
    done = python(tmp_path, core, "-W", "ignore::UserWarning", "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        'to_dataset needs xarray: pip install "ppdm-dask[report]"',
        'plot needs matplotlib: pip install "ppdm-dask[report]"',
        *['to_frame needs pandas: pip install "ppdm-dask[pandas]"'] * 3,
        'decode needs pandas: pip install "ppdm-dask[pandas]"',
        'datasets.load needs pandas: pip install "ppdm-dask[pandas]"',
        'plan needs SciPy: pip install "ppdm-dask[search]"',
    ]


def test_the_project_has_one_name_for_pip(root: Path) -> None:
    """``ppdm-dask`` is installed, with or without extras, and ``ppdm_dask`` imported."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no checkout of git")
    wrong = re.compile(r"ppdm_dask\[[a-z]|pip install[^\n`]*\bppdm_dask\b")
    found, right = [], 0
    for name in listed.stdout.splitlines():
        if name.endswith((".py", ".md", ".toml", ".yaml", ".yml", ".ipynb", ".sh", "Makefile")):
            text = (root / name).read_text(encoding="utf-8")
            found += [f"{name}: {each}" for each in wrong.findall(text)]
            right += text.count("ppdm-dask[")
    assert found == []
    assert right > 20
    assert tomllib.loads((root / "pyproject.toml").read_text())["project"]["name"] == "ppdm-dask"
