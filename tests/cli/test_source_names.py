"""Names of ontologies and endpoints: every command and every call of Python takes each kind of name alike."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbank_es import Bank, build_context, build_tools, load_ontology, open_source
from rbank_es.context.companion_files import companions_of
from rbank_es.errors import BadInput, Notice
from rbank_es.loop import LmChoice, LoopSettings, Task, run_closed_loop
from rbank_es.loop.guide_run import write_guide
from rbank_es.loop.resources import LoopResources
from rbank_es.sparql.data_source import Source
from tests.cli_runner import SAMPLE, fails, run

TASK = "Which cats are there?"
URL = "http://127.0.0.1:9/sparql"
GOOD = "@prefix : <http://zoo.example/ns#> .\n:tom a :Cat .\n"
CURATED = '[[constraint]]\ntext = "Cats are never sold."\n'

Names = Any
GOOD_NAMES: dict[str, Names] = {
    "the shipped ontology": "lights",
    "a file": "zoo.ttl",
    "a path": Path("zoo.ttl"),
    "a folder": "data",
    "a list of one": ["zoo.ttl"],
    "several": ["zoo.ttl", Path("data")],
    "the shipped one and a file": ("lights", "zoo.ttl"),
}
BAD_NAMES: dict[str, Names] = {
    "nothing there": "none.ttl",
    "an empty text": "",
    "an empty folder": "empty",
    "a folder of bad files": "bad",
    "a folder with bad files": "mixed",
    "one of several missing": ["zoo.ttl", "none.ttl"],
    "a URL of a file": "https://zoo.example/zoo.ttl",
    "a URL among files": ["zoo.ttl", URL],
}


class Seen(NamedTuple):
    """A source as a face took it."""

    id: str
    triples: int | None
    url: str | None = None


def of(source: Source | None) -> Seen:
    assert source is not None
    return Seen(source.id, source.schema.triples if source.schema is not None else None, source.url)


# ---------------------------------------------------------------- Python


def by_load(names: Names) -> Seen:
    loaded = load_ontology(names)
    return Seen(loaded.id, loaded.schema.triples)


def by_open(names: Names) -> Seen:
    with closing(open_source(names)) as source:
        return of(source)


def by_tools(names: Names) -> Seen:
    with Bank.create("memory:") as bank, build_tools(bank, run="run-1", source=names) as box:
        return of(box.session.source)


def by_resources(names: Names) -> Seen:
    settings = LoopSettings(lm=LmChoice(model="script:none.toml"))
    with Bank.create("memory:") as bank, LoopResources(bank, settings, names) as resources:
        return of(resources.source)


def by_context(names: Names) -> Seen:
    build_context(TASK, source=names)
    return by_open(names)


CALLS: dict[str, Callable[[Names], Seen]] = {
    "open_source": by_open,
    "build_tools": by_tools,
    "LoopResources": by_resources,
    "build_context": by_context,
}
"""What takes any source."""


def by_loop(names: Names) -> None:
    with Bank.create("memory:") as bank:
        run_closed_loop([Task.asking(TASK)], bank, LoopSettings(lm=LmChoice(model="script:none.toml")), names)


def by_guide(names: Names) -> None:
    with Bank.create("memory:") as bank:
        write_guide(bank, LoopSettings(lm=LmChoice(model="script:none.toml")), names)


REFUSING: dict[str, Callable[[Names], object]] = {**CALLS, "run_closed_loop": by_loop, "write_guide": by_guide}


# ---------------------------------------------------------------- commands


def words(names: Names, option: str | None = "--ont") -> list[str]:
    listed = [names] if isinstance(names, str | Path) else names
    return [word for name in listed for word in ([option, str(name)] if option else [str(name)])]


def by_ontology_command(names: Names, place: Path) -> Seen:
    facts = run("ontology", *words(names, None), "--json", cwd=place).json
    return Seen(facts["id"], facts["triples"])


def by_tools_command(names: Names, place: Path) -> Seen:
    facts = run("tools", *words(names), "--json", cwd=place).json["source"]
    return Seen(facts["id"], facts["triples"], facts["url"])


FILES_ONLY: dict[str, Callable[[Names], Sequence[str]]] = {
    "ontology": lambda names: ["ontology", *words(names, None)],
    "drift": lambda names: ["drift", "./bank", *words(names)],
    "rerun": lambda names: ["rerun", "./sample", "--all", *words(names)],
    "drift --old": lambda names: ["drift", "./bank", "--ont", "zoo.ttl", *words(names, "--old")],
}
"""Commands that need the data of an ontology."""
SOURCES: dict[str, Callable[[Names], Sequence[str]]] = {
    "tools": lambda names: ["tools", *words(names)],
    "context": lambda names: ["context", "--task", TASK, *words(names)],
    "run": lambda names: ["run", "./new", "--task", TASK, "--lm", "script:none.toml", "--dry-run", *words(names)],
    "guide": lambda names: ["guide", "./new", "--lm", "script:none.toml", *words(names)],
    "judge": lambda names: ["judge", "run", "./bank", "--unjudged", "--judge", "checks", *words(names)],
    "experiment": lambda names: ["experiment", "run", "E1", "--into", "new", "--lm", "script:none.toml", *words(names)],
}
"""Commands that take any source."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    for name in ("data", "empty", "bad", "mixed"):
        (folder / name).mkdir()
    (folder / "zoo.ttl").write_text(GOOD)
    (folder / "zoo.constraints.toml").write_text(CURATED)
    (folder / "data" / "eve.ttl").write_text(GOOD.replace("tom", "eve"))
    (folder / "data" / "ann.ttl").write_text(GOOD.replace("tom", "ann"))
    for name in ("a.ttl", "b.ttl"):
        (folder / "bad" / name).touch()
    (folder / "mixed" / "a.ttl").write_text(GOOD)
    (folder / "mixed" / "b.ttl").write_text(GOOD[:-3])
    (folder / "mixed" / "c.ttl").touch()
    Bank.create(folder / "bank").close()
    shutil.copytree(SAMPLE, folder / "sample", ignore=shutil.ignore_patterns("*lock"))
    return folder


@pytest.fixture(autouse=True)
def there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def sentence(call: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as refused:
        call()
    return str(refused.value)


# ---------------------------------------------------------------- the table


@pytest.mark.slow
@pytest.mark.parametrize("kind", GOOD_NAMES)
def test_each_face_takes_each_kind_of_name_with_the_same_result(place: Path, kind: str) -> None:
    names = GOOD_NAMES[kind]
    expected = by_load(names)
    assert {face: take(names) for face, take in CALLS.items()} == dict.fromkeys(CALLS, expected)
    assert by_ontology_command(names, place) == by_tools_command(names, place) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", BAD_NAMES)
def test_each_face_says_the_same_sentence(place: Path, kind: str) -> None:
    names = BAD_NAMES[kind]
    expected = sentence(lambda: load_ontology(names))
    told = {face: sentence(lambda take=take: take(names)) for face, take in REFUSING.items()}  # type: ignore[misc]
    told |= {face: fails(*line(names), cwd=place) for face, line in (FILES_ONLY | SOURCES).items()}
    assert told == dict.fromkeys(told, expected)
    assert not (place / "new").exists()


def test_a_url_alone_is_an_endpoint_where_one_can_be_asked(place: Path) -> None:
    expected = Seen("127.0.0.1", None, URL)
    assert {face: take(URL) for face, take in CALLS.items()} == dict.fromkeys(CALLS, expected)
    assert by_tools_command([URL], place) == expected
    refused = sentence(lambda: load_ontology(URL))
    assert "is a URL" in refused
    assert {fails(*line([URL]), cwd=place) for line in FILES_ONLY.values()} == {refused}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*GOOD_NAMES, "a URL"])
def test_a_context_by_name_is_that_of_the_command(place: Path, kind: str) -> None:
    """With the guide and the constraints that come with the name, with a bank that knows it otherwise, and without."""
    names = GOOD_NAMES.get(kind, URL)
    command = ("--task", TASK, *words(names), "--json")
    alone = run("context", *command, cwd=place).json["text"]
    assert build_context(TASK, source=names).text == alone
    with Bank.open("./bank") as bank:
        known = run("context", "./bank", *command, cwd=place).json["text"]
        assert build_context(TASK, source=names, bank=bank).text == known
    found = companions_of(names)
    assert ("Cats are never sold" in alone) is (kind in ("a file", "a path", "a list of one", "several"))
    assert (found.guide is not None) is ("shipped" in kind)


def test_mixtures_are_refused_with_one_sentence(place: Path) -> None:
    with Bank.create("memory:") as bank:
        for options, line in (
            ({"source": "zoo.ttl", "endpoint": URL}, ["--ont", "zoo.ttl", "--endpoint", URL]),
            ({"source": "zoo.ttl", "void": "zoo.ttl"}, ["--ont", "zoo.ttl", "--void", "zoo.ttl"]),
            ({"void": "zoo.ttl"}, ["--void", "zoo.ttl"]),
            ({"endpoint": URL, "skip_unreadable": True}, ["--endpoint", URL, "--skip-unreadable"]),
        ):
            expected = sentence(lambda given=options: open_source(**given))  # type: ignore[misc]
            assert sentence(lambda given=options: build_tools(bank, run="r", **given)) == expected  # type: ignore[misc]
            if "source" in options or "endpoint" in options:
                assert fails("tools", *line, cwd=place) == expected
            assert fails("context", "--task", TASK, *line, cwd=place) == expected
    assert fails("run", "./new", "--task", TASK, "--lm", "script:x", cwd=place) == sentence(open_source)


# ---------------------------------------------------------------- files left out


@pytest.mark.slow
def test_each_face_goes_on_without_unreadable_files_and_names_them(place: Path) -> None:
    with pytest.warns(Notice) as told:
        loaded = load_ontology("mixed", skip_unreadable=True)
    notice = str(told[0].message)
    assert [Path(each.path).name for each in loaded.left_out] == ["b.ttl", "c.ttl"]
    with pytest.warns(Notice), closing(open_source("mixed", skip_unreadable=True)) as source:
        assert of(source) == Seen("mixed", 1)
    with pytest.warns(Notice), Bank.create("memory:") as bank:
        box = build_tools(bank, run="r", source="mixed", skip_unreadable=True)
        assert of(box.session.source) == Seen("mixed", 1)
        box.close()
    done = run("ontology", "mixed", "--skip-unreadable", "--json", cwd=place)
    assert [Path(each["path"]).name for each in done.json["left_out"]] == ["b.ttl", "c.ttl"]
    assert done.err.strip() == notice
    for face in ("tools", "context", "drift", "judge"):
        line = (FILES_ONLY | SOURCES)[face]("mixed")
        assert run(*line, "--skip-unreadable", cwd=place).err.startswith(notice), face


def test_a_program_gets_the_error_with_all_files(place: Path) -> None:
    told = json.loads(run("ontology", "mixed", "--json", cwd=place, code=2).out)
    assert told["error"]["type"] == "BadFiles" and "b.ttl" in told["error"]["message"]
