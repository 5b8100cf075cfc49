"""Who may import whom, and what an import may cost."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ppdm_dask

PACKAGE = Path(ppdm_dask.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
STUBS = sorted(PACKAGE.rglob("__init__.pyi"))

# Third-party packages, and the one subpackage that may import each.
HOMES = {"dask": "cluster", "distributed": "cluster", "deap": "search"}

HEAVY = ("dask", "deap", "distributed", "matplotlib", "numba", "pandas", "sklearn", "xarray")

CORE = (
    "data.codebook",
    "datasets",
    "designs",
    "inference",
    "kernels",
    "mine",
    "perturb",
    "privacy",
    "randomness",
    "inference.tables",
)

REPORT_LOADED = "import sys; print(*sorted(name.partition('.')[0] for name in set(sys.modules)))"

FreshPython = Callable[[str], str]


def imports(tree: ast.AST) -> Iterator[str]:
    """Top-level packages that a module imports, wherever in the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_import_of_the_package_is_light(fresh_python: FreshPython) -> None:
    loaded = fresh_python(f"import ppdm_dask; {REPORT_LOADED}").split()
    assert "ppdm_dask" in loaded
    assert not {"numpy", *HEAVY}.intersection(loaded)


def test_the_core_loads_no_scheduler_search_or_labelled_arrays(fresh_python: FreshPython) -> None:
    modules = ", ".join(f"ppdm_dask.{name}" for name in CORE)
    loaded = fresh_python(f"import {modules}; {REPORT_LOADED}").split()
    assert "numpy" in loaded
    assert not {"dask", "distributed", "deap", "xarray", "matplotlib"}.intersection(loaded)


@pytest.mark.parametrize(
    "start",
    [
        "import runpy; sys.argv = ['ppdm', '--help']; "
        "run = lambda: runpy.run_module('ppdm_dask', run_name='__main__')",
        "import ppdm_dask.cli; sys.argv = ['ppdm', '--help']; run = ppdm_dask.cli.main",
    ],
    ids=["python -m ppdm_dask", "ppdm"],
)
def test_help_imports_nothing_heavy(fresh_python: FreshPython, start: str) -> None:
    code = f"""
import sys
{start}
try:
    code = run()
except SystemExit as end:
    code = end.code
assert code in (None, 0), code
{REPORT_LOADED}
"""
    *text, loaded = fresh_python(code).splitlines()
    assert any("run" in line for line in text), "the help does not list the command run"
    assert not {"numpy", *HEAVY}.intersection(loaded.split())


def test_help_of_commands_imports_nothing_heavy(fresh_python: FreshPython) -> None:
    code = f"""
import sys
from ppdm_dask.cli import main
from ppdm_dask.cli.app import parser
inner = [["cluster", name] for name in parser.commands["cluster"].commands]
for command in [*([name] for name in parser.commands), *inner]:
    assert main([*command, "--help"]) == 0
{REPORT_LOADED}
"""
    *text, loaded = fresh_python(code).splitlines()
    assert sum("Usage: ppdm" in line for line in text) >= 17
    assert not {"jinja2", "numpy", "pyarrow", "scipy", *HEAVY}.intersection(loaded.split())


HEAVIEST = {"deap", "distributed", "matplotlib", "numba", "sklearn"}


@pytest.mark.parametrize(
    ("command", "also"),
    [
        ("list", {"dask", "pandas", "scipy", "xarray"}),
        ("check electronic-surveys multi-group", {"dask", "scipy", "xarray"}),
        ("run electronic-surveys multi-group --dry-run", {"dask", "scipy", "xarray"}),
        ("estimate r.csv --design d.toml --codebook b.toml --over used", {"dask", "xarray"}),
    ],
)
def test_commands_that_compute_nothing_start_light(
    fresh_python: FreshPython, tmp_path: Path, command: str, also: set[str]
) -> None:
    if command.startswith("estimate"):
        book = '[[attribute]]\nname = "used"\ncategories = ["no", "yes"]\n'
        (tmp_path / "b.toml").write_text(book)
        design = 'id = "warner"\nattribute = "used"\ntheta = 0.8\n'
        (tmp_path / "d.toml").write_text(design)
        (tmp_path / "a.csv").write_text("used\n" + "yes\n" * 30 + "no\n" * 70)
        files = ["a.csv", "--design", "d.toml", "--codebook", "b.toml", "--out", "r.csv"]
        fresh_python(f"from ppdm_dask.cli import main; assert main(['import', *{files!r}]) == 0")
    code = f"from ppdm_dask.cli import main; assert main({command.split()!r}) == 0; {REPORT_LOADED}"
    *text, loaded = fresh_python(code).splitlines()
    assert text
    assert not (HEAVIEST | also).intersection(loaded.split())


@pytest.mark.parametrize("name", ppdm_dask.__all__)
def test_public_name_resolves(name: str) -> None:
    value = getattr(ppdm_dask, name)
    assert name in dir(ppdm_dask)
    if name != "__version__" and not isinstance(value, ModuleType):
        assert value.__name__ == name
        assert value.__module__.partition(".")[0] == "ppdm_dask"


def test_public_names_are_unique() -> None:
    # Their order is the linter's: constants, classes, functions.
    assert len(set(ppdm_dask.__all__)) == len(ppdm_dask.__all__)


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.parent.name)
def test_type_checkers_see_the_public_names(stub: Path) -> None:
    package = import_module(".".join(stub.relative_to(PACKAGE.parent).parent.parts))
    tree = ast.parse(stub.read_text())
    seen = {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(seen) == set(package.__all__)
    for name, module in seen.items():
        if module is not None:
            there = import_module(f"{package.__name__}.{module}")
            assert getattr(there, name) is getattr(package, name)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No ppdm_dask attribute Warnr"):
        ppdm_dask.Warnr  # noqa: B018


@pytest.fixture(scope="module")
def house(root: Path) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "tools"))
        yield import_module("house")
    sys.modules.pop("house", None)


@pytest.fixture(scope="module")
def modules(house: ModuleType, root: Path) -> dict[str, Any]:
    """What each module of the package imports."""
    found: dict[str, Any] = house.read_modules(root)
    return found


def test_imports_go_down(house: ModuleType, modules: dict[str, Any]) -> None:
    rooms = {house.room(name) for name in modules} - {"", "__main__", "_moved"}
    assert rooms == set(house.ROOMS)
    assert house.upward(modules) == []


def test_no_modules_import_each_other(house: ModuleType, modules: dict[str, Any]) -> None:
    # Imports for types and inside functions count: they are circles for a reader.
    assert house.circles(house.edges_of(modules)) == []


def test_the_registry_alone_knows_the_kinds_of_experiments(
    house: ModuleType, modules: dict[str, Any]
) -> None:
    """So that a further one is a folder of its own, and a line there."""
    kinds = {path.parent.name for path in (PACKAGE / "experiments").glob("*/__init__.py")}
    assert kinds == {"fronts", "perturbation", "sweep", "trials"}
    found = {
        (name, other)
        for name, others in house.edges_of(modules).items()
        for other in others
        if _kind(other) in kinds and _kind(name) not in kinds
    }
    registry = "ppdm_dask.experiments"
    assert found == {(f"{registry}.kinds", f"{registry}.{kind}") for kind in kinds}


def _kind(name: str) -> str:
    """The folder below the experiments that a module lies in."""
    parts = name.split(".")
    return parts[2] if parts[1:2] == ["experiments"] and len(parts) > 2 else ""


# What a start can do without: Dask, numba, scikit-learn, matplotlib, solvers, whole rooms.
LATE = frozenset(
    {
        ("cli", "cli.app"),
        ("cluster.job", "cluster.client"),
        ("cluster.job", "cluster.nanny"),
        ("cluster.job", "cluster.security"),
        ("cluster.kinds.slurm", "cluster.jobqueue"),
        ("cluster.perturbing", "cluster.client"),
        ("cluster.population", "cluster.client"),
        ("cluster.population", "cluster.losses"),
        ("cluster.remote", "cluster.nanny"),
        ("cluster.remote", "cluster.security"),
        ("cluster.runner", "cluster.client"),
        ("cluster.runner", "cluster.session"),
        ("cluster.spread", "cluster.client"),
        ("cluster.spread", "cluster.kinds"),
        ("cluster.spread", "cluster.losses"),
        ("cluster.spread", "cluster.partitions"),
        ("cluster.spread", "cluster.worker"),
        ("designs.kary", "kernels.disguise"),
        ("designs.matrix", "kernels.disguise"),
        ("designs.mixture", "kernels.disguise"),
        ("designs.multigroup", "kernels.draws"),
        ("designs.sets", "kernels.draws"),
        ("designs.subset", "kernels.draws"),
        ("designs.unary", "kernels.disguise"),
        ("experiments.fronts", "experiments.fronts.plan"),
        ("experiments.perturbation", "experiments.perturbation.plan"),
        ("experiments.perturbation", "experiments.perturbation.recipe"),
        ("experiments.run", "cluster.kinds"),
        ("experiments.sweep", "experiments.sweep.plan"),
        ("experiments.samples", "kernels.draws"),
        ("experiments.sweep.plan", "experiments.sweep.engines"),
        ("mine.itemsets", "kernels.itemsets"),
        ("mine.rows", "kernels.tables"),
        ("perturb.aibr", "kernels.aibr"),
        ("randomness", "kernels.planes"),
        ("reproduce.reproduce", "ppdm_dask"),
        ("search.operators", "kernels.spea2"),
        ("search.problem", "kernels.channels"),
        ("survey.marker", "kernels.disguise"),
    }
)


def test_imports_in_functions_are_those_that_save_time(modules: dict[str, Any]) -> None:
    found = {
        (name.removeprefix("ppdm_dask."), other.removeprefix("ppdm_dask."))
        for name, module in modules.items()
        for _, other in module.late
    }
    assert found == LATE
    assert len(found) < 40


@pytest.mark.parametrize(
    ("name", "home"), [("Stratified", "stratified"), ("TwoSample", "two_sample")]
)
def test_what_left_a_package_is_found_there(name: str, home: str) -> None:
    said = rf"ppdm_dask\.designs\.{name} is ppdm_dask\.inference\.{home}\.{name} now"
    with pytest.warns(DeprecationWarning, match=said):
        found = getattr(import_module("ppdm_dask.designs"), name)
    assert found is getattr(import_module(f"ppdm_dask.inference.{home}"), name)
    with pytest.raises(AttributeError, match=r"'ppdm_dask\.designs' has no attribute 'Nothing'"):
        import_module("ppdm_dask.designs").Nothing  # noqa: B018


def test_old_names_say_the_new_ones(fresh_python: FreshPython) -> None:
    code = """
import importlib, warnings
from ppdm_dask._moved import MOVED
for old, new in MOVED.items():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        module = importlib.import_module(f"ppdm_dask.{old}")
    (last,) = [w for w in said if str(w.message).startswith(f"ppdm_dask.{old} is")]
    assert last.category is DeprecationWarning
    assert f"ppdm_dask.{new} now" in str(last.message), last.message
    there = importlib.import_module(f"ppdm_dask.{new}")
    for name in getattr(there, "__all__", ()):
        assert getattr(module, name) is getattr(there, name)
warnings.simplefilter("ignore", DeprecationWarning)
from ppdm_dask.parallel.runner import execute
try:
    import ppdm_dask.estimate.nothing
except ModuleNotFoundError as error:
    assert error.name == "ppdm_dask.estimate.nothing"
else:
    raise AssertionError
print(execute.__module__)
"""
    assert fresh_python(code).split() == ["ppdm_dask.cluster.runner"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_keeps_to_its_room(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    imported = set(imports(tree))
    room = path.relative_to(PACKAGE).parts[0]
    for package, home in HOMES.items():
        assert room == home or package not in imported, f"{package} is imported below {home}/ alone"
    assert "random" not in imported, "draws come from ppdm_dask.randomness"
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "hash" not in called, "hash() differs from process to process"


def test_rooms_are_guarded() -> None:
    # The check above must see what it forbids, at the top of a module and inside a function.
    tree = ast.parse("import dask.array as da\ndef f():\n    from distributed.utils import x\n")
    assert set(imports(tree)) == {"dask", "distributed"}
