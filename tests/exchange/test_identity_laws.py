"""One witness is one witness: however a file grows, moves, is saved again or comes back, its records count once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.events import RunFinished, RunJudged, RunStarted, StepTaken, ToolCalled, type_of
from rbank_es.exchange import ImportReport, import_paths
from rbank_es.exchange.exporters import export_files
from rbank_es.exchange.trajectories import KINDS

IMPORTED = ("items", "trajectories", "reasoningbank", "events")
WORDS = ("Sort by price", "Read the legend", "Scan all pages", "Ask for the unit", "Open the archive")
_folders = count()


class Shelf:
    """A bank with a folder of files beside it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder / f"shelf-{next(_folders)}", stack
        self.folder.mkdir()
        self.bank = self._bank("bank")

    def _bank(self, name: str) -> Bank:
        return self._stack.enter_context(Bank.create(self.folder / name, unsafe_no_sync=True))

    def take(self, data: bytes, name: str = "file.jsonl") -> ImportReport:
        return into(self.bank, self.folder / name, data)

    def other(self) -> Bank:
        """Return a bank of somebody else."""
        return self._bank(f"other-{next(_folders)}")

    def fork(self) -> Bank:
        return self._stack.enter_context(self.bank.fork(str(self.folder / f"fork-{next(_folders)}")))


def into(bank: Bank, path: Path, data: bytes) -> ImportReport:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return import_paths(bank, [path])


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with ExitStack() as stack:
        yield Shelf(tmp_path, stack)


def known(bank: Bank) -> Any:
    """Return what the law is about: runs with their steps and verdicts, and items with their state and support.

    A call whose result came with a later version of its file is two events, each with a line of its own.
    """
    state = bank.state()
    lines: dict[str, list[str]] = {}
    for event in bank.events(types={"step_taken", "tool_called", "run_finished"}, resolve=True):
        pair = isinstance(event, ToolCalled) and "@only" not in str(event.extra)
        lines.setdefault(event.run, []).extend([type_of(event)] * (1 + pair))  # type: ignore[attr-defined]
    runs = {run: (sorted(lines.get(run, [])), state.verdicts.get((run, "learning"))) for run in state.runs}
    return (
        sorted((len(seen), verdict.verdict if verdict else "") for seen, verdict in runs.values()),
        {id: (entry.state, entry.support, entry.item.title) for id, entry in state.items.items()},
    )


# ---------------------------------------------------------------- saving again


def jsonl(records: Sequence[Any]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in records).encode()


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(each) for each in value] if isinstance(value, list) else value


SAVED: dict[str, Callable[[Sequence[Any]], bytes]] = {
    "as it was": jsonl,
    "spacing": lambda records: "\n".join(json.dumps(one, separators=(" , ", " :  ")) for one in records).encode(),
    "key order": lambda records: jsonl([_turned(one) for one in records]),
    "line ends": lambda records: jsonl(records).replace(b"\n", b"\r\n"),
    "byte order mark": lambda records: b"\xef\xbb\xbf" + jsonl(records),
    "no last line end": lambda records: jsonl(records).rstrip(b"\n"),
    "blank lines": lambda records: b"\n" + jsonl(records).replace(b"\n", b"\n\n"),
    "one array": lambda records: json.dumps(records).encode(),
    "one array, indented": lambda records: json.dumps(records, indent=2).encode(),
    "objects over lines": lambda records: "\n".join(json.dumps(one, indent=1) for one in records).encode(),
    "plain letters": lambda records: "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records).encode(),
    "whole numbers": lambda records: jsonl(records).replace(b": 3.0", b": 3"),
}


# ---------------------------------------------------------------- records of each form

TITLES = st.sampled_from(WORDS)


def _markdown(titles: Sequence[str]) -> list[str]:
    return [f"# Memory Item {n}\n## Title {t}\n## Description d\n## Content {t} é" for n, t in enumerate(titles, 1)]


MEMORIES = st.builds(
    lambda task, steps, status, titles: {
        "task_id": task,
        "query": f"Question {task}?",
        **({"think_list": steps, "action_list": [f"do {step}" for step in steps]} if steps else {}),
        **({"status": status} if status else {}),
        "memory_items": _markdown(titles),
        "score": 3.0,
    },
    st.integers(1, 3),
    st.lists(st.sampled_from(["look", "ask", "sort"]), max_size=3),
    st.sampled_from(["success", "fail", None]),
    st.lists(TITLES, max_size=2, unique=True),
)
ITEMS = st.builds(
    lambda title, content, tags: {"title": title, "content": content, "src": "seed", "tags": tags, "desc": "é"},
    TITLES,
    st.sampled_from(["Do it first.", "Do it last."]),
    st.lists(st.sampled_from(["a", "b"]), max_size=1),
)


def _line(second: int, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": f"2026-05-04T09:00:{second:02}", "event_type": kind, "data": data}


@st.composite
def trajectories(draw: st.DrawFn) -> list[dict[str, Any]]:
    lines = [_line(0, "run_start", {"task": draw(TITLES), "weight": 3.0})]
    for second in range(1, draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(KINDS[1:]))
        data: dict[str, Any] = {"note": draw(st.integers(0, 3)), "s": second}
        data |= {"tool_call": {"tool": "t"}, "tool_result": {"tool": "t"}, "iteration": {"iteration": second}}.get(
            kind, {"converged": True} if kind == "run_complete" else {}
        )
        lines.append(_line(second, kind, data))
    return lines


RECORDS: dict[str, st.SearchStrategy[list[Any]]] = {
    "reasoningbank": st.lists(MEMORIES, min_size=1, max_size=6),
    "items": st.lists(ITEMS, min_size=1, max_size=6, unique_by=lambda item: (item["title"], item["content"])),
    "trajectories": trajectories(),
}
WAYS = st.sampled_from(["here", "moved", "not judged yet", *IMPORTED])
STEPS = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(sorted(SAVED)), WAYS), max_size=5)


def _unjudged(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "status"}


def _back(shelf: Shelf, form: str, through: Bank) -> None:
    """Export the bank, import that into another one, and what that exports into the first."""
    for bank, to in ((shelf.bank, through), (through, shelf.bank)):
        for number, (name, pieces) in enumerate(list(export_files(bank, None, form))):
            if data := b"".join(pieces):
                into(to, shelf.folder / f"{form}-{number}" / name, data)


@pytest.mark.slow
@pytest.mark.parametrize("form", RECORDS)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_whatever_a_file_goes_through_its_records_count_once(
    form: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Grown, judged, saved again, moved, back through another bank: as if its last form were imported once."""
    records = data.draw(RECORDS[form])
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("law")
        shelf, plain = Shelf(folder, stack), Shelf(folder, stack)
        for size, layout, way in [*data.draw(STEPS), (len(records), "as it was", "here")]:
            earlier = [_unjudged(one) if way == "not judged yet" else one for one in records[:size]]
            shelf.take(SAVED[layout](earlier), f"{way}/file.jsonl" if way == "moved" else "file.jsonl")
            if way in IMPORTED:
                before = shelf.bank.head()
                _back(shelf, way, shelf.other())
                assert shelf.bank.head() == before
        plain.take(jsonl(records))
        assert known(shelf.bank) == known(plain.bank)


# ---------------------------------------------------------------- what a bank exports


def _teach(bank: Bank) -> str:
    """Record a run that taught an item, as an agent of this project records it; return the item's id."""
    bank.append(
        [
            RunStarted(run="r-a", task="Which lamps are lit?", model="m", ontology="lamps"),
            StepTaken(run="r-a", index=1, reasoning="look", code="print(1)", output="1"),
            RunFinished(run="r-a", outcome="submitted", answer="All of them."),
            RunJudged(run="r-a", purpose="learning", verdict="success", judge="me", judge_version="1", kind="lm"),
        ]
    )
    return bank.remember("Ask for isLit true", "# Title\nLit lamps have it.", src="success", runs=["r-a"]).item


@pytest.mark.slow
@pytest.mark.parametrize("through", ["itself", "another bank", "a fork", "an absorption"])
@pytest.mark.parametrize("form", IMPORTED)
def test_what_a_bank_exports_teaches_it_nothing(shelf: Shelf, form: str, through: str) -> None:
    """No event more, by whatever way it comes back; and an overrule still ends what the run taught."""
    item = _teach(shelf.bank)
    other = {"itself": lambda: shelf.bank, "a fork": shelf.fork}.get(through, shelf.other)()
    if through == "an absorption":
        other.absorb(shelf.bank)
    before = shelf.bank.head()
    _back(shelf, form, other)
    assert shelf.bank.head() == before
    shelf.bank.overrule("r-a", "failure", reason="half of them are dark", by="ann")
    before = shelf.bank.head()
    _back(shelf, form, other)
    assert shelf.bank.head() == before
    assert shelf.bank.state().items[item].state == "unsupported"


@pytest.mark.parametrize("second", IMPORTED)
@pytest.mark.parametrize("first", IMPORTED)
def test_another_bank_takes_a_run_once_in_whatever_forms_it_comes(shelf: Shelf, first: str, second: str) -> None:
    """One form knows what another brought, and the bank that recorded it knows it from any of them."""
    _teach(shelf.bank)
    other, before = shelf.other(), shelf.bank.head()
    for form in (first, second, first):
        _back(shelf, form, other)
    assert len(other.state().runs) <= 1
    assert shelf.bank.head() == before


def test_a_run_keeps_its_name_unless_another_one_has_it(shelf: Shelf) -> None:
    _teach(shelf.bank)
    free, taken = shelf.other(), shelf.other()
    taken.append(RunStarted(run="r-a", task="Another question"))
    for bank in (free, taken):
        for name, pieces in export_files(shelf.bank, None, "reasoningbank"):
            into(bank, shelf.folder / name, b"".join(pieces))
    assert list(free.state().runs) == ["r-a"]
    assert len(taken.state().runs) == 2


# ---------------------------------------------------------------- what changed within a record

RECORD = {
    "task_id": 21,
    "query": "Who mentions small ear cups?",
    "think_list": ["look"],
    "action_list": ["open"],
    "status": "success",
    "memory_items": _markdown(["Sort by price"]),
}


@pytest.mark.parametrize(
    ("change", "runs", "added", "differing"),
    [
        ({"status": "fail"}, 1, {"run_judged": 1, "memories_extracted": 1}, ()),
        ({"memory_items": _markdown(["Read the legend"])}, 1, {}, ("memories_extracted",)),
        ({"template_id": 5}, 1, {}, ("run_started",)),
        ({"think_list": ["ask"]}, 2, None, None),
        ({"query": "Who mentions large ear cups?"}, 2, None, None),
    ],
)
def test_what_changed_within_a_run_is_reported_and_is_no_second_run(
    shelf: Shelf, change: dict[str, Any], runs: int, added: Any, differing: Any
) -> None:
    """A verdict is a judgment of the same run; other items under a known verdict stay out; other steps, another run."""
    shelf.take(jsonl([RECORD]))
    report = shelf.take(jsonl([RECORD | change])).files[0]
    assert len(shelf.bank.state().runs) == runs
    assert [(each.added, each.differing) for each in report.changes] == ([] if added is None else [(added, differing)])
    assert shelf.take(jsonl([RECORD])).appended == 0  # an older copy undoes nothing


@pytest.mark.parametrize(
    "change",
    [
        {"task_id": "21"},
        {"task_id": 21.0},
        {"query": "Who mentions\r\nsmall ear cups?"},
        {"think_list": ["look\r\ntwice"]},
        {"run_id": "7"},
        {"run_id": "7", "task_id": "21", "think_list": ["look\r\ntwice"]},
    ],
)
def test_numbers_as_texts_and_line_ends_in_texts_make_no_second_run(shelf: Shelf, change: dict[str, Any]) -> None:
    lines = {"query": "Who mentions\nsmall ear cups?", "think_list": ["look\ntwice"]}
    first = RECORD | lines | ({"run_id": 7} if "run_id" in change else {})
    shelf.take(jsonl([first]))
    shelf.take(jsonl([first | change]))
    state = shelf.bank.state()
    assert (len(state.runs), [entry.support for entry in state.items.values()]) == (1, [1])


def test_a_verdict_that_comes_later_takes_the_place_of_none(shelf: Shelf) -> None:
    """What was drawn without one counts no more, in whatever order the copies come; an overrule reaches the rest."""
    bare = {key: value for key, value in RECORD.items() if key != "status"}
    for record in (bare, RECORD, bare, RECORD):
        shelf.take(jsonl([record]))
        assert [entry.support for entry in shelf.bank.state().items.values()] == [1]
    [run] = shelf.bank.state().runs
    shelf.bank.overrule(run, "failure", reason="half of them are dark", by="ann")
    assert [entry.state for entry in shelf.bank.state().items.values()] == ["unsupported"]
    shelf.take(jsonl([bare]))
    assert [entry.state for entry in shelf.bank.state().items.values()] == ["unsupported"]


NAMED = RECORD | {"run_id": "t-1"}


def test_a_run_that_its_source_names_is_known_whatever_it_did(shelf: Shelf) -> None:
    """Longer steps are added; other ones stay out; the same name for another task is another run."""
    shelf.take(jsonl([NAMED]))
    longer = NAMED | {"think_list": ["look", "ask"], "action_list": ["open", "call"]}
    [change] = shelf.take(jsonl([longer, longer])).files[0].changes
    assert (change.added, change.differing) == ({"step_taken": 1}, ())
    [change] = shelf.take(jsonl([NAMED | {"think_list": ["sort"]}])).files[0].changes
    assert (change.added, change.differing) == ({}, ("step_taken",))
    assert len(shelf.bank.state().runs) == 1
    shelf.take(jsonl([NAMED | {"task_id": 22}]))
    assert len(shelf.bank.state().runs) == 2


def test_what_can_not_be_known_is_said_before_anything_is_written(shelf: Shelf) -> None:
    """Equal records without a name are runs of their own; records without steps are known by their words."""
    bare = {key: value for key, value in RECORD.items() if not key.endswith("_list")}
    path, told = shelf.folder / "file.jsonl", list[tuple[int, tuple[str, ...]]]()
    path.write_bytes(jsonl([RECORD, RECORD, bare]))
    for dry_run in (True, False):
        before = shelf.bank.position
        import_paths(
            shelf.bank,
            [path],
            dry_run=dry_run,
            on_notes=lambda _, notes: told.append((shelf.bank.position, tuple(notes))),
        )
        assert shelf.bank.position == before if dry_run else len(shelf.bank.state().runs) == 3
    assert [position for position, _ in told] == [2, 2]
    assert told[0][1] == told[1][1]
    assert [note.partition(":")[0] for note in told[0][1]] == ["line 2", "line 3"]


RUN = [_line(0, "run_start", {"task": "t"}), _line(1, "tool_call", {"tool": "a"})]


def test_a_run_that_begins_like_another_and_goes_on_differently_is_another_run(shelf: Shelf) -> None:
    """Each of them grows by itself, also where it had a beginning in common with the other at first."""
    one, two = [*RUN, _line(2, "iteration", {"iteration": 1})], [*RUN, _line(3, "iteration", {"iteration": 2})]
    shelf.take(jsonl(RUN), "one.jsonl")
    shelf.take(jsonl(one), "one.jsonl")
    report = shelf.take(jsonl(two), "two.jsonl").files[0]
    assert "goes on differently" in report.notes[0]
    for name, lines in (("one.jsonl", one), ("two.jsonl", two)):
        assert shelf.take(jsonl(lines), name).appended == 0
        assert shelf.take(jsonl([*lines, _line(9, "run_complete", {"converged": True})]), name).appended == 1
    assert known(shelf.bank)[0] == [(3, ""), (3, "")]


def test_a_list_brings_items_and_no_witnesses(shelf: Shelf) -> None:
    """An item that a run taught has no more support by a list that names it, and none that ended comes back by one."""
    item = _teach(shelf.bank)
    [(_, pieces)] = export_files(shelf.bank, None, "items")
    listed = b"".join(pieces)
    assert shelf.take(listed, "list.json").appended == 0
    shelf.bank.overrule("r-a", "failure", reason="half of them are dark", by="ann")
    report = shelf.take(listed, "list.json").files[0]
    assert report.appended == 0 and "1 unsupported" in report.notes[0]
    assert shelf.bank.state().items[item].support == 0


def test_another_banks_own_affairs_stay_there(shelf: Shelf) -> None:
    """Its policies don't take the place of this bank's, when its log brings back what it had from here."""
    _teach(shelf.bank)
    other = shelf.other()
    other.set_policies({"consolidation": {"name": "append"}})
    before = shelf.bank.policies().policies
    other_item = other.remember("Theirs", "They learnt it.", src="seed").item
    _back(shelf, "events", other)
    assert shelf.bank.policies().policies == before
    assert shelf.bank.state().items[other_item].state == "active"
