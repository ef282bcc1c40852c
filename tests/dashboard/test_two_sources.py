"""The two sources of the page: an exported file answers as a served bank does, at every position."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.dashboard.answers import answer
from rbank_es.dashboard.exported_page import ExportOptions, page_data
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import Event, RunJudged, RunStarted, ToolCalled
from rbank_es.events.run_events import VerdictValue
from rbank_es.limits import page_limits
from tests.cli_runner import SAMPLE
from tests.dashboard.node import MODULES, node
from tests.effort import examples
from tests.strategies import histories

ASK = Path(__file__).parent / "ask_file_source.mjs"

Question = tuple[str, dict[str, str]]


def asked_of_the_file(bank: Bank, questions: Sequence[Question], folder: Path) -> list[Any]:
    """The answers of an exported page's source."""
    with bank.as_of() as view:
        data = page_data(bank, view, ExportOptions())
    (folder / "data.json").write_bytes(msgspec.json.encode(data))
    given = [(name, {key: int(value) if key == "at" else value for key, value in of.items()}) for name, of in questions]
    (folder / "questions.json").write_text(json.dumps(given))
    command = [node(), str(ASK), str(MODULES), str(folder / "data.json"), str(folder / "questions.json")]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return list(json.loads(done.stdout))


def served(bank: Bank, question: Question) -> Any:
    """The answer of a served bank; None where it is refused."""
    name, given = question
    try:
        return msgspec.json.decode(msgspec.json.encode(answer(bank, name, given)))
    except (NotInBank, BadInput):
        return None


def questions_at(bank: Bank, position: int, things: int) -> Iterator[Question]:
    """Each kind of question as of a position, and about the newest `things` runs and items."""
    at = {"at": str(position)}
    for name in ("bank", "overview", "runs", "items", "review", "doubts", "leakage", "health"):
        yield name, at
    yield "changes", at | {"from": str(position // 2)}
    yield from (("leakage", at | {"by": by}) for by in ("run", "flag"))
    with bank.as_of(position) as view:
        runs, items = [row["run"] for row in view.rows("runs")], [row["id"] for row in view.items()]
    yield from (("run", at | {"id": run}) for run in runs[-things:])
    yield from (("item", at | {"id": item}) for item in items[-things:])
    yield "compare", at | dict(zip("ab", runs[-2:], strict=False))


def differing(wanted: Any, found: Any, path: str = "") -> Iterator[str]:
    """Where two answers differ, as paths with both values."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in {**wanted, **found}:
            yield from differing(wanted.get(name, "(missing)"), found.get(name, "(missing)"), f"{path}.{name}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for i, pair in enumerate(zip(wanted, found, strict=True)):
            yield from differing(*pair, f"{path}[{i}]")
    elif wanted != found:
        yield f"{path}: served {str(wanted)[:200]}, exported {str(found)[:200]}"


def compare(bank: Bank, questions: Sequence[Question], folder: Path) -> None:
    for question, found in zip(questions, asked_of_the_file(bank, questions, folder), strict=True):
        wanted = served(bank, question)
        if question[0] == "doubts" and found["at"] < bank.position:
            # They need the whole state, which no file has at every position.
            assert (found["total"], found["command"]) == (None, f"rbank-es serve {bank.name}")
        elif wanted is None:
            assert "error" in found, question
        else:
            assert not list(differing(wanted, found)), question


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    place = tmp_path_factory.mktemp("sample") / "sample"
    shutil.copytree(SAMPLE, place)
    with Bank.open(place) as bank:
        bank.project()
        yield bank


def test_an_exported_page_answers_as_a_served_one(sample: Bank, tmp_path: Path) -> None:
    compare(sample, [each for at in (0, 202, sample.position) for each in questions_at(sample, at, 3)], tmp_path)


@pytest.mark.slow
def test_an_exported_page_answers_as_a_served_one_at_every_turn(sample: Bank, tmp_path: Path) -> None:
    positions = [*range(1, sample.position, 23), sample.position]
    compare(sample, [each for at in positions for each in questions_at(sample, at, 5)], tmp_path)


@pytest.mark.slow
def test_an_exported_page_answers_about_every_run_and_item(sample: Bank, tmp_path: Path) -> None:
    compare(sample, list(questions_at(sample, sample.position, 100)), tmp_path)


POINTS = (
    *("0", "200", "605", "9999", "-1", "seq:200", "seq:x", "HEAD", "HEAD~0", "HEAD~40", "HEAD~9999", "HEAD~x", "head"),
    *("2026-03-09", "2026-03-09T15:20", "2026-03-09 15:20:00", "2026-03-09T15:20:00Z", "2026-03-09T17:20:00+02:00"),
    *("2026-03-09T15:19:59", "1999-01-01", "2999-01-01", "2026-13-01", "2026-03-09T", "2026-03-09x", "monday", "x"),
    *("lights-08-6e9adf73-1", "lights-08", "lights-0", "run:lights-08", "run:0", "run:", "event:x", "guide-lights"),
)
"""Points as people type them, and what is none."""

LISTS: list[Question] = [
    *(("runs", {"sort": sort, "limit": "7"}) for sort in ("verdict", "-verdict", "-score", "tokens", "-flags")),
    *(("items", {"sort": sort, "limit": "9"}) for sort in ("title", "-uses", "wins", "-losses", "state", "src")),
    *(
        ("runs", {name: value})
        for name in ("verdict", "score")
        for value in ("success", "failure", "undecided", "none")
    ),
    *(("runs", {"q": words}) for words in ("TALLEST lighthouse", "no such words", "lights-0", " ")),
    *(("items", {"q": words}) for words in ("height TOWER", "select", "é")),
    *(("items", given) for given in ({"state": "active"}, {"polarity": "failure"}, {"domain": "x"})),
    *(("runs", given) for given in ({"model": "script:sample_script"}, {"model": "x"}, {"item": "bfd1fd5367a2"})),
    *(("runs", given) for given in ({"sort": "1; DROP"}, {"verdict": "won"}, {"after": "nobody"}, {"limit": "0"})),
    *(("runs", given) for given in ({"after": "lights-08-6e9adf73-1", "limit": "3"}, {"limit": "201"}, {"limit": "x"})),
    *(("items", given) for given in ({"state": "gone"}, {"polarity": "x"}, {"sort": "content"}, {"after": "x"})),
    *(("run", given) for given in ({"id": "nobody"}, {"id": "lights-08-6e9adf73-1", "after": "140"})),
    *(("text", {"seq": "140", "path": path}) for path in ("texts.0", "texts.9", "nothing", "__proto__", "layers")),
    ("item", {"id": "constructor"}),
    *(
        ("leakage", {"by": "run", "sort": sort, "limit": "5"})
        for sort in ("-context_size", "red_flags", "started", "run")
    ),
    *(("changes", {"from": point}) for point in POINTS),
    ("changes", {}),
    *(("compare", given) for given in ({"a": "nobody", "b": "nobody"}, {"a": "lights-08-6e9adf73-1"})),
]


@pytest.mark.parametrize("at", [None, pytest.param(300, marks=pytest.mark.slow)])
def test_lists_are_filtered_sorted_and_paged_alike(sample: Bank, tmp_path: Path, at: int | None) -> None:
    """And what can't be asked is refused by both."""
    position = str(at or sample.position)
    compare(sample, [(name, given | {"at": position}) for name, given in LISTS], tmp_path)


def test_runs_before_the_newest_are_counted_in_groups_that_their_links_open(tmp_path: Path) -> None:
    number = page_limits.OVERVIEW_RUNS + 2 * page_limits.OVERVIEW_GROUP_RUNS + 5
    verdicts: list[VerdictValue | None] = [("success", "failure", None)[n % 7 % 3] for n in range(number)]
    with Bank.create("memory:") as bank:
        said = {"purpose": "learning", "judge": "lm", "judge_version": "1", "kind": "lm"}
        begun = [RunStarted(run=f"r{n}", task="t") for n in range(number)]
        judged = [RunJudged(run=f"r{n}", verdict=each, **said) for n, each in enumerate(verdicts) if each]
        bank.append([*begun, *judged])
        overview = served(bank, ("overview", {}))
        assert [group["runs"] for group in overview["older"]] == [20, 20, 5]
        rest = verdicts[:]
        for group in overview["older"]:
            counted, rest = Counter(verdict or "none" for verdict in rest[: group["runs"]]), rest[group["runs"] :]
            opened = served(bank, ("runs", {"after": group["after"], "limit": str(group["runs"])}))["rows"]
            assert Counter(row["verdict"] or "none" for row in opened) == counted == group["verdicts"]
        assert len(overview["runs"]) == len(rest) == page_limits.OVERVIEW_RUNS
        compare(bank, [("overview", {"at": str(at)}) for at in (bank.position, bank.position * 9 // 10, 0)], tmp_path)


def test_flags_of_a_run_that_never_began_are_counted_by_both(tmp_path: Path) -> None:
    with Bank.create("memory:") as bank:
        bank.append(ToolCalled(run="r", tool="t", chars=limits.FLAG_RETURN_CHARS + 1))
        assert served(bank, ("overview", {}))["flags"] == 1
        compare(bank, list(questions_at(bank, bank.position, 1)), tmp_path)


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(events=histories(min_size=5, max_size=25))
def test_random_banks_are_answered_alike(events: list[Event]) -> None:
    with Bank.create("memory:") as bank, tempfile.TemporaryDirectory() as folder:
        bank.append(events)
        positions = sorted({0, bank.position // 3, bank.position // 2, bank.position})
        compare(bank, [each for at in positions for each in questions_at(bank, at, 9)], Path(folder))
