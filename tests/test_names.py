"""The names of files and classes: nouns, and one name for one thing across the project; tests use public ones."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.test_floors import MODULES, ROOT

SAME_FILE_NAMES = {
    "health": "the command, and the read model that it prints",
    "items": "the command, and the vocabulary of what it lists",
    "runs": "the command, and the read model that it lists",
}
SAME_CLASS_NAMES: dict[str, str] = {}
LIBRARY_NAMES = {"_replace", "_asdict", "_exit", "_shutdown", "_run_exitfuncs"}
"""Names with an underscore that Python itself documents, or that only a process of tests needs at its end."""

MOST_ROOMS = 29
MOST_DOUBLES = 4
MOST_LINES = 500
FILES = {module: path for module, path in MODULES.items() if path.stem not in ("__init__", "__main__")}


def test_no_more_rooms_than_a_newcomer_can_learn() -> None:
    rooms = {".".join(module.split(".")[:2]) for module in MODULES} - {"rbank_es", "rbank_es.__main__"}
    assert len(rooms) <= MOST_ROOMS, sorted(rooms)


def test_a_module_is_a_chapter_and_no_book() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module: lines for module, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_module_is_named_by_a_gerund() -> None:
    """A module is a thing; `testing` is the conventional name of a suite that a package ships for others."""
    stems = {part for module in MODULES for part in module.split(".")[1:]}
    assert {stem for stem in stems if re.fullmatch(r"\w*[a-z]ing", stem)} <= {"testing", "judging"}


def test_a_base_name_means_one_thing() -> None:
    places = defaultdict(list)
    for module, path in FILES.items():
        # A question has the name of the command that prints it, and may have that of a read model.
        if path.parent.name != "answers":
            places[path.stem].append(module)
    doubles = {name: sorted(modules) for name, modules in places.items() if len(modules) > 1}
    assert doubles.keys() == SAME_FILE_NAMES.keys(), doubles
    assert len(doubles) <= MOST_DOUBLES


def test_the_name_of_a_public_class_means_one_thing() -> None:
    places = defaultdict(list)
    for module, path in MODULES.items():
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].append(module)
    doubles = {name: sorted(modules) for name, modules in places.items() if len(modules) > 1}
    assert doubles.keys() == SAME_CLASS_NAMES.keys(), doubles
    assert len(doubles) <= MOST_DOUBLES


def _private_names(tree: ast.Module) -> Iterator[str]:
    """Yield names with an underscore that a test takes from elsewhere, or replaces there."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rbank_es"):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and node.attr not in own | LIBRARY_NAMES:
            yield node.attr
        elif isinstance(node, ast.Call) and re.search(r"\b(patch|setattr|getattr)\b", ast.unparse(node.func)):
            yield from (given.arg for given in node.keywords if given.arg)
            texts = (given.value for given in node.args if isinstance(given, ast.Constant))
            yield from (text.rpartition(".")[2] for text in texts if isinstance(text, str))


def test_no_test_uses_a_private_name() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (
            names := {
                name for name in _private_names(ast.parse(path.read_text())) if re.match(r"_(?!repr_\w+_$)[^_]", name)
            }
        )
    }
    assert found == {}


def test_the_floors_in_the_tour_are_those_of_the_table() -> None:
    from tests.test_floors import FLOORS

    rows = re.findall(
        r"^\| (\d+) \| (`[^|]+) \|", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.M
    )
    shown = {
        (int(floor), room) for floor, cell in rows for room in re.findall(r"`([\w/.]+)`(?:,|$)", cell.split(" | ")[0])
    }
    folders = {f"rbank_es/{name}": name for name in ("lab", "projections", "tools")}
    wanted = set()
    for name, (floor, _) in FLOORS.items():
        if name.endswith("__main__"):
            continue
        path = name.replace(".", "/")
        room = folders.get(path, path)
        wanted.add((floor, room + ".py" if (ROOT / f"{path}.py").exists() else room + "/"))
    assert shown == wanted
