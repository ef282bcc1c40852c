"""The floors: a module imports only from floors below its own, nothing imports in circles, and start-up stays light."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {name: f"rbank_es.{name}" for name in ("lab", "projections", "tools")} | {"rbank_es": "rbank_es"}

# module or package: (floor, noun). The longest name that fits a module places it. Modules of one noun may import
# each other; all else comes from below. So `rbank_es.log` and `rbank_es.policies`, of two nouns, may not meet.
FLOORS = {
    "rbank_es.errors": (0, "vocabulary"),
    "rbank_es.data": (0, "vocabulary"),
    "rbank_es.events": (0, "vocabulary"),
    "rbank_es.limits": (0, "vocabulary"),
    "rbank_es.system": (0, "vocabulary"),
    "rbank_es.text": (0, "vocabulary"),
    "rbank_es.log": (1, "log"),
    "rbank_es.policies": (1, "policies"),
    "rbank_es.ontology": (1, "ontology"),
    "rbank_es.law": (2, "law"),
    "rbank_es.sparql": (2, "sparql"),
    "rbank_es.projections": (3, "projections"),
    "rbank_es.answers": (4, "bank"),
    "rbank_es.bank": (4, "bank"),
    "rbank_es.exchange": (5, "exchange"),
    "rbank_es.testing": (5, "testing"),
    "rbank_es.tools": (5, "tools"),
    "rbank_es.models": (6, "models"),
    "rbank_es.sandbox": (6, "sandbox"),
    "rbank_es.context": (7, "context"),
    "rbank_es.executors": (7, "executors"),
    "rbank_es.extraction": (7, "extraction"),
    "rbank_es.judging": (7, "judging"),
    "rbank_es.loop": (8, "loop"),
    "rbank_es.agents": (9, "agents"),
    "rbank_es.rerun": (9, "rerun"),
    "rbank_es.page": (10, "page"),
    "rbank_es.cli": (11, "cli"),
    "rbank_es.__main__": (11, "cli"),
    "rbank_es.lab": (12, "lab"),
}
FACADE = "rbank_es"  # its lazy export table may name every floor; nothing inside may lean on it
HEAVY = ("dspy", "google", "httpx", "numpy", "opentelemetry", "pyoxigraph", "rdflib", "sqlite_utils")


def module_name(folder: str, path: Path) -> str:
    """The name under which a file is installed."""
    parts = path.relative_to(ROOT / folder).with_suffix("").parts
    return ".".join((FOLDERS[folder], *(part for part in parts if part != "__init__")))


def source_modules() -> dict[str, Path]:
    """Every module by its installed name, each file once (the symlinks inside rbank_es are passed by)."""
    files = ((folder, path) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return {module_name(folder, path): path for folder, path in files if path == path.resolve()}


MODULES = source_modules()


def entry(module: str) -> str:
    """The longest name in the table that fits a module; an empty text if none does."""
    fits = (name for name in FLOORS if module == name or module.startswith(name + "."))
    return max(fits, key=len, default="")


def place(module: str) -> tuple[int, str] | None:
    """Floor and noun of a module."""
    return FLOORS.get(entry(module))


def target(module: str, name: str) -> str:
    """What `from module import name` reaches: the submodule where there is one."""
    return f"{module}.{name}" if f"{module}.{name}" in MODULES else module


def base_of(node: ast.ImportFrom, module: str) -> str:
    """The absolute name of the module that a `from` import names."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    depth = node.level - (MODULES[module].name == "__init__.py")
    return ".".join(parts[: len(parts) - depth] + ([node.module] if node.module else []))


def imported(node: ast.AST, module: str) -> Iterator[str]:
    """The modules of rbank_es that one statement imports."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = base_of(node, module)
        # `from rbank_es import __version__` takes a string, not a floor.
        names = [target(base, alias.name) for alias in node.names if (base, alias.name) != (FACADE, "__version__")]
    return (name for name in names if name.split(".")[0] == FACADE)


def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def all_imports(module: str) -> set[str]:
    """Imports anywhere in a module: inside functions and for type checkers too, for they are knowledge as well."""
    return {name for node in ast.walk(tree_of(module)) for name in imported(node, module)} - {module}


def test_every_module_has_a_floor() -> None:
    """Or its package has: one line in FLOORS."""
    assert [module for module in MODULES if module != FACADE and place(module) is None] == []


@pytest.mark.parametrize("name", FLOORS)
def test_a_module_imports_only_from_floors_below(name: str) -> None:
    here, own = FLOORS[name], [module for module in MODULES if module != FACADE and entry(module) == name]
    for module, other in [(each, other) for each in own for other in sorted(all_imports(each))]:
        there = place(other)
        assert there, f"{module} imports {other}, which has no floor (the package itself is for users only)"
        allowed = there[1] == here[1] or there[0] < here[0]
        assert allowed, f"{module} (floor {here[0]}, {here[1]}) imports {other} (floor {there[0]}, {there[1]})"


def test_nothing_outside_the_laboratory_imports_it() -> None:
    """The top floor, which reaches the command line by registries alone: who never measures never meets it."""
    outside = [module for module in MODULES if entry(module) != "rbank_es.lab"]
    assert [module for module in outside if any(name.startswith("rbank_es.lab") for name in all_imports(module))] == []
    assert max(FLOORS.values()) == FLOORS["rbank_es.lab"]


def test_no_module_imports_itself_in_a_circle() -> None:
    """Not in functions either, and not for types: who reads one of a circle must read them all."""
    try:
        TopologicalSorter({module: all_imports(module) & MODULES.keys() for module in MODULES}).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " <- ".join(error.args[1]))


def test_every_exported_name_is_defined_in_the_module_that_the_table_names() -> None:
    import rbank_es

    assert set(rbank_es.__all__) <= set(dir(rbank_es))
    assert [name for name in rbank_es.__all__ if getattr(rbank_es, name, None) is None] == []
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = rbank_es.no_such_name


LAZY = ("rbank_es.extraction", "rbank_es.judging", "rbank_es.loop")


@pytest.mark.parametrize("package", LAZY)
def test_every_name_of_a_package_is_found_when_it_is_asked_for(package: str) -> None:
    """The list, the names that `dir` gives and those that type checkers are told of agree; there are no others."""
    module = import_module(package)
    tree = tree_of(package)
    told = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(module.__all__) == told - {"TYPE_CHECKING", "exports"} and set(module.__all__) <= set(dir(module))
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name


def test_importing_packages_with_public_names_loads_nothing_heavy(tmp_path: Path) -> None:
    assert heavy_after(f"import {', '.join(LAZY)}", tmp_path) == set()


def test_the_names_of_the_source_are_found_where_it_has_them() -> None:
    names = {
        "rbank_es.judging": ("judge", "TrajectoryJudge"),
        "rbank_es.extraction": (
            "SuccessExtractor", "FailureExtractor", "ContrastiveExtractor", "PatternExtractor", "extract",
            "contrastive_extract", "extract_common_patterns", "consolidate", "find_similar", "title_similarity",
            "content_jaccard", "format_trajectory",
        ),
        "rbank_es.loop": ("run_closed_loop", "run_matts_parallel"),
    }  # fmt: skip
    for package, found in names.items():
        assert set(found) <= set(import_module(package).__all__), package


def heavy_after(code: str, cwd: Path) -> set[str]:
    """Run code in a fresh interpreter; which of the heavy packages did it load?"""
    report = "\nimport sys; print('loaded:', *sys.modules.keys() & set(sys.argv[1:]), file=sys.stderr)"
    command = [sys.executable, "-c", code + report, *HEAVY]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.rsplit("loaded:", 1)[1].split())


def commands(*lines: str) -> str:
    """Code that runs command lines one after the other in one process; each must succeed."""
    return f"""
import sys
from rbank_es.cli import main
names, sys.argv = sys.argv, ["rbank-es"]
for line in {lines!r}:
    sys.argv[1:] = line.split()
    try:
        code = main()
    except SystemExit as stop:
        code = stop.code
    assert not code, (line, code)
sys.argv = names
"""


def test_importing_the_package_the_bank_and_the_command_line_loads_nothing_heavy(tmp_path: Path) -> None:
    assert heavy_after("import rbank_es, rbank_es.bank, rbank_es.cli", tmp_path) == set()


def test_commands_that_only_touch_the_log_load_nothing_heavy(tmp_path: Path) -> None:
    lines = ("--help", "schema", "init ./bank", "log ./bank", "log ./bank --json")
    assert heavy_after(commands(*lines), tmp_path) == set()


def test_the_help_of_commands_for_agents_loads_nothing_heavy(tmp_path: Path) -> None:
    lines = ("ontology --help", "context --help", "tools --help", "run --help", "guide --help")
    assert heavy_after(commands(*lines), tmp_path) == set()


@pytest.mark.slow
def test_a_graph_that_is_in_the_cache_is_shown_without_a_graph_library(tmp_path: Path) -> None:
    code = f"import os; os.environ['RBANK_CACHE'] = {str(tmp_path / 'cache')!r}\n"
    lines = ("ontology lights", "context --ont lights --task lights", "tools", "tools --call g_stats")
    heavy_after(code + commands(lines[0]), tmp_path)
    assert heavy_after(code + commands(*lines), tmp_path) == set()


def test_ruff_bans_the_folders_as_top_level_imports() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "TID251" in lint["select"]
    banned = lint["flake8-tidy-imports"]["banned-api"]
    assert {name: banned[name]["msg"] for name in ("lab", "projections", "tools")} == {
        "lab": "import rbank_es.lab",
        "projections": "import rbank_es.projections",
        "tools": "import rbank_es.tools",
    }
