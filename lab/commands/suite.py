"""`suite`: check, make, import and script suites of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rbank_es import limits
from rbank_es.cli.shared.arguments import NumberRange, writable
from rbank_es.cli.shared.command_registry import CommandGroup, command
from rbank_es.cli.shared.ontology_options import open_named, read_ontology, skip_option
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_heading, echo_json, echo_table, styled
from rbank_es.data import LIGHTS
from rbank_es.errors import BadInput
from rbank_es.events.json_input import read_at_most
from rbank_es.events.readable_text import count, safe_line
from rbank_es.system.files import write_replacing

if TYPE_CHECKING:
    from rbank_es.lab.generated_suite import GeneratedSuite, SecondVersion
    from rbank_es.lab.suite_check import EnginePair, SuiteCheck
    from rbank_es.lab.task_suite import Suite
    from rbank_es.loop.tasks import Task


@click.group("suite", cls=CommandGroup)
def suite() -> None:
    """Check, make, import and script suites: tasks with the right answers, for experiments.

    A suite is a file of tasks, each with a question, a gold query or answer, a level from 1 to 5 and a family. The
    word 'lights' is the suite that comes with rbank-es. All commands print JSON with --json.
    """


# ---------------------------------------------------------------- check


@command(
    "check",
    "rbank-es suite check lights",
    "rbank-es suite check tasks.json --ont model.ttl",
    "rbank-es suite check tasks.json --ont prov=prov-o.ttl --ont brick=brick.ttl --ont brick=building.ttl --json",
)
@click.argument("file")
@click.option(
    "--ont", "given", metavar="[ID=]PATH", multiple=True,
    help="A file or directory of the ontology of that id; without ID=, of all tasks. May be repeated.",
)  # fmt: skip
@skip_option
@click.option(
    "--files", "folder", metavar="DIR", help="Where the files are that the suite names; default: beside the suite."
)
@click.option("--online", is_flag=True, help="Run the queries of tasks about an endpoint there.")
@click.option(
    "--timeout", "timeout_s", metavar="SECONDS", default=limits.QUERY_TIME_S, show_default=True,
    type=NumberRange(0, limits.QUERY_TIME_MOST_S, min_open=True), help="How long one query may take in one engine.",
)  # fmt: skip
def check(file: str, given: tuple[str, ...], folder: str | None, online: bool, timeout_s: float, as_json: bool) -> None:
    """Check every task of a suite, and print what is wrong with it.

    Of each task: its gold query can be read and run, finds rows, leaves no tie at a LIMIT, finds the stored answer,
    finds the same with pyoxigraph and with rdflib, and differs from a plausible wrong query (the task's
    misleading_sparql, or one made from the gold query); the question holds neither the answer nor a property as the
    data write it; level and family are named. Exits with 1 if any task fails.
    """
    from rbank_es.lab.suite_check import check_suite
    from rbank_es.lab.task_suite import load_suite, suite_path

    loaded = load_suite(file)
    with ExitStack() as stack, Progress("checking tasks") as progress:
        paths = _ontology_files(loaded, given, Path(folder) if folder else suite_path(file).parent)
        engines = _Engines(paths, online, stack)
        found = check_suite(loaded, engines, timeout_s=timeout_s, progress=progress)
    if as_json:
        echo_json(found)
    else:
        _print(found)
    if found.failing:
        click.get_current_context().exit(1)


def _ontology_files(loaded: Suite, given: Sequence[str], folder: Path) -> Callable[[str | None], list[str]]:
    """Return the function from an ontology's id to its files. Raises `BadInput` for ids that the suite lacks."""
    named: dict[str | None, list[str]] = {}
    for text in given:
        id, equals, path = text.partition("=")
        # A path that is there wins, because it may hold a `=`.
        bare = not equals or Path(text).exists()
        named.setdefault(None if bare else id, []).append(text if bare else path)
    unknown = sorted(id for id in named if id is not None and id not in loaded.ontologies)
    if unknown:
        known = ", ".join(loaded.ontologies) or "none"
        raise BadInput(f"no task is about the ontology {unknown[0]!r}; the suite names: {known}")

    def files(id: str | None) -> list[str]:
        if found := named.get(id) or named.get(None):
            return found
        if id is not None and id in loaded.files:
            return [str(folder / path) for path in loaded.files[id]]
        if id == LIGHTS:
            return [id]
        wanted = f"of {id!r}: add --ont {id}=PATH" if id is not None else "of its tasks: add --ont PATH"
        raise BadInput(f"the suite {loaded.name} names no files of the ontology {wanted}")

    return files


class _Engines:
    """The engines that a suite's tasks are run on, each opened once."""

    def __init__(self, files: Callable[[str | None], list[str]], online: bool, stack: ExitStack) -> None:
        self._files, self._online, self._stack = files, online, stack
        self._opened: dict[tuple[str, ...], EnginePair] = {}

    def __call__(self, task: Task) -> EnginePair | None:
        """Return the engines of a task; None if they are not to be asked."""
        from rbank_es.lab.suite_check import EnginePair
        from rbank_es.sparql.engines.local import LocalEngine

        if task.endpoint is not None and not self._online:
            return None
        # The empty text keeps a single file apart from an endpoint of that name.
        key = (task.endpoint,) if task.endpoint is not None else ("", *self._files(task.ontology))
        if key not in self._opened:
            second = None
            if task.endpoint is not None:
                source = open_named((), self._stack, endpoint=task.endpoint)
            else:
                ontology = read_ontology(key[1:], None if task.ontology == LIGHTS else task.ontology)
                source, second = open_named(ontology, self._stack), LocalEngine(ontology.quads, "rdflib")
                self._stack.callback(second.close)
            self._opened[key] = EnginePair(source, second)
        return self._opened[key]


def _print(found: SuiteCheck) -> None:
    rows = [[task.task, flaw.code, flaw.message] for task in found.failing for flaw in task.flaws]
    if rows:
        echo_table(["task", "flaw", "what is wrong"], rows, flexible=["what is wrong"])
        echo()
    failing, unrun = len(found.failing), sum(bool(task.note) for task in found.tasks)
    families = len({task.family for task in found.tasks if task.family is not None})
    head = f"{safe_line(found.suite)}: {count(len(found.tasks), 'task')} in {count(families, 'family', 'families')}"
    outcome = styled(f"{failing} with flaws", "red") if failing else styled("no flaw found", "green")
    not_run = f", {unrun} not run (their endpoint is asked with --online)" if unrun else ""
    echo(f"{head}, {outcome}{not_run}")
    for note in found.notes:
        echo(f"note: {safe_line(note)}")
    echo(styled(f"digest {found.digest}", "dim"))


# ---------------------------------------------------------------- generate


@command(
    "generate",
    "rbank-es suite generate --seed 7 --tasks 60 --into made",
    "rbank-es suite generate --seed 7 --tasks 60 --into made --second --json",
)
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="The same seed makes the same bytes.")
@click.option("--tasks", metavar="N", type=int, default=60, show_default=True, help="The number of tasks.")
@click.option("--into", "place", metavar="DIR", required=True, help="A new or empty directory.")
@click.option("--second", is_flag=True, help="Make a second version of the ontology too, which breaks lessons.")
def generate(seed: int, tasks: int, place: str, second: bool, as_json: bool) -> None:
    """Make an ontology in made-up words, which no model has seen, with planted traps, and a suite of tasks over it.

    The traps, each a family of tasks of all levels: superclasses without instances of their own, one-way inverses,
    relations held on either side, pairs that are written once, properties that look alike, and nodes between things
    beside a shortcut with gaps. DIR gets ontology.ttl and suite.json. With --second, DIR/second gets the same tasks
    over a second version in which terms were renamed, turned around or removed, and broken.json, which lists each
    change, whose lesson it breaks, and the tasks that it concerns.
    """
    from rbank_es.lab.generated_suite import generate as make
    from rbank_es.lab.generated_suite import second_version

    folder = Path(place)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{place} is there, and no empty directory: name a new one")
    made, later = make(seed, tasks), second_version(seed, tasks) if second else None
    files = made.files | ({f"second/{name}": data for name, data in later.files.items()} if later else {})
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_replacing(folder / name, [data])
    if as_json:
        digests = {"digest": made.suite.digest, "second": later.generated.suite.digest if later else None}
        broken = later.broken if later else []
        echo_json({"suite": made.suite.name, "tasks": len(made.suite.tasks), **digests, "broken": broken})
    else:
        _print_generated(place, made, later)


def _print_generated(place: str, made: GeneratedSuite, later: SecondVersion | None) -> None:
    kinds = count(len(made.suite.families), "family", "families")
    echo(f"{place}: {made.suite.name}, {count(len(made.suite.tasks), 'task')} in {kinds}, digest {made.suite.digest}")
    if later is not None:
        second = later.generated.suite
        echo(f"{place}/second: {count(len(second.tasks), 'task')}, digest {second.digest}")
        rows: list[list[Cell]] = [
            [each.family, each.change, each.term, each.now, len(each.tasks)] for each in later.broken
        ]
        echo_heading("lessons that the second version breaks")
        echo_table(["family", "change", "term", "now", "tasks"], rows, flexible=["now", "term"])


# ---------------------------------------------------------------- import


@command(
    "import",
    "rbank-es suite import qald-10.json --endpoint https://query.wikidata.org/sparql --into qald-10-suite.json",
    "rbank-es suite import qald-9-train.json --endpoint https://dbpedia.org/sparql --language de --into qald-9.json",
    "rbank-es suite import tasks.json --ont model --into suite.json",
)
@click.argument("file")
@click.option("--into", "place", metavar="FILE", required=True, help="The file of the suite that is written.")
@click.option("--name", metavar="NAME", help="The suite's name; default: of the file.")
@click.option("--ont", "ontology", metavar="ID", help="The id of the ontology that its tasks are about.")
@click.option("--endpoint", metavar="URL|NAME", help="The endpoint that its tasks are about.")
@click.option("--language", metavar="CODE", default="en", show_default=True, help="The language of QALD's questions.")
def import_(
    file: str, place: str, name: str | None, ontology: str | None, endpoint: str | None, language: str, as_json: bool
) -> None:
    """Write a suite of the tasks in a file: QALD JSON, or tasks in any form that run --task takes.

    Where a task names no level, it follows from the shape of the gold query; where it names no family, tasks whose
    queries use the same properties are one. QALD names neither. Its questions without a text in the language, or
    without a readable query, are left out and counted.
    """
    from rbank_es.lab.task_suite import Suite, suite_json

    if ontology is not None and endpoint is not None:
        raise BadInput("give --ont or --endpoint, not both: a task has one source")
    target = writable(Path(place))
    loaded, left_out = _imported(file, ontology, endpoint, language)
    made = Suite.of(name or loaded.name, loaded.tasks, loaded.files)
    write_replacing(target, [suite_json(made)])
    if as_json:
        facts = {"suite": made.name, "digest": made.digest, "tasks": len(made.tasks)}
        echo_json({**facts, "file": str(target), "left_out": left_out})
        return
    echo(f"{place}: {count(len(made.tasks), 'task')}, digest {made.digest}")
    for reason, number in left_out.items():
        echo(f"left out: {count(number, 'question')} with {safe_line(reason)}")


def _imported(file: str, ontology: str | None, endpoint: str | None, language: str) -> tuple[Suite, Mapping[str, int]]:
    """Return the tasks of a file as a suite, and the number of questions left out by reason."""
    from msgspec.structs import replace

    from rbank_es.lab.qald import is_qald, parse_qald
    from rbank_es.lab.query_shape import with_shape
    from rbank_es.lab.task_suite import Suite, load_suite, suite_path

    path = suite_path(file)
    data = read_at_most(path, limits.TASKS_BYTES, "tasks")
    if is_qald(data):
        found = parse_qald(data, file, language=language, ontology=ontology, endpoint=endpoint)
        return Suite.of(path.stem, found.tasks), found.left_out
    loaded = load_suite(path)
    about: dict[str, str | None] = {"ontology": ontology} if ontology is not None else {}
    if endpoint is not None:
        about = {"endpoint": endpoint, "ontology": None}
    return replace(loaded, tasks=tuple(with_shape(replace(task, **about)) for task in loaded.tasks)), {}


# ---------------------------------------------------------------- script


@command("script", "rbank-es suite script lights --into gold.toml")
@click.argument("file")
@click.option("--into", "place", metavar="FILE", required=True, help="The file of the script that is written.")
def script(file: str, place: str, as_json: bool) -> None:
    """Write a script that answers every task of a suite by its gold query, for `experiment run --lm script:FILE`.

    SCRIPTED: no model runs. It shows that an experiment can be run to its report; what it finds says nothing about a
    model. Every executor can read its turns, every verdict is right, and each run teaches which properties it needed.
    """
    from rbank_es.lab.suite_script import script_of
    from rbank_es.lab.task_suite import load_suite

    target, loaded = writable(Path(place)), load_suite(file)
    write_replacing(target, [script_of(loaded).encode()])
    if as_json:
        echo_json({"file": str(target), "suite": loaded.name, "digest": loaded.digest, "tasks": len(loaded.tasks)})
        return
    echo(f"{place}: answers to {count(len(loaded.tasks), 'task')} of {safe_line(loaded.name)}")


suite.add_commands(check, generate, import_, script)
