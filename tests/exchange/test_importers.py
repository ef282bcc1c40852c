"""Importing: what each form becomes, what is refused, and that a second time nothing is added."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadFiles, BadImport, BadInput, DuplicateEvent, LimitExceeded, Notice
from rbank_es.events import (
    ContextBuilt,
    Event,
    MemoriesExtracted,
    NoteLogged,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.exchange import import_paths, parse
from rbank_es.exchange.exporters import export
from rbank_es.exchange.memory_markdown import parse_memories
from rbank_es.law import active
from rbank_es.system.utc_times import utc_time

START = "2026-05-04T09:00:00.000250"


def line(kind: str, data: dict[str, Any], timestamp: str = START) -> dict[str, Any]:
    return {"timestamp": timestamp, "event_type": kind, "data": data}


def jsonl(*lines: Any) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in lines).encode()


def events(data: bytes, name: str = "runs/night watch.jsonl") -> list[Any]:
    return [event for unit in parse(name, data).units for event in unit.events]


def only(data: bytes, cls: type[Any]) -> Any:
    [found] = [event for event in events(data) if isinstance(event, cls)]
    return found


def extra(event: Any) -> Any:
    return json.loads(event.extra)


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


ITEMS: list[dict[str, Any]] = [
    {"id": "wind", "title": "Mind the wind", "desc": "d", "content": "Turn first.", "src": "seed", "tags": ["sea"]},
    {"id": "fog", "title": "Sound the horn", "desc": "d", "content": "Twice.", "src": "failure", "tags": []},
    {"id": "log", "title": "Write it down", "desc": "", "content": "At once.", "src": "principle", "tags": []},
]

RUN = (
    line(
        "run_start", {"task": "Count the buoys", "endpoint": "http://sea.example/", "context_size": 91, "max_iters": 8}
    ),
    line("tool_call", {"tool": "count", "args_type": "tuple", "kwargs_keys": []}, "2026-05-04T09:00:01"),
    line(
        "tool_result",
        {"tool": "count", "result_type": "dict", "result_size": 12, "result_preview": "{'n': 7}"},
        "2026-05-04T09:00:01.250000",
    ),
    line(
        "run_complete", {"converged": True, "answer_length": 1, "answer_preview": "7", "iterations": 1, "sparql": "S"}
    ),
    line("iteration", {"iteration": 1, "total": 1, "reasoning": "count them", "code": "count()", "output": None}),
)

MEMORY = {
    "task_id": 17,
    "query": "Where is the key?",
    "think_list": ["look", "ask"],
    "action_list": ["open drawer"],
    "status": "success",
    "memory_items": ["# Memory Item 1", "## Title Look in the drawer", "## Description d", "## Content First."],
    "template_id": 3,
}


# ---------------------------------------------------------------- telling forms apart


@pytest.mark.parametrize(
    ("data", "says", "at"),
    [
        (b"", "it is empty", None),
        (b"  \n ", "it is empty", None),
        (b"id,title\n", "neither [ nor {", None),
        (b'\n{"color": 1}', "has the keys color", 2),
        (b"{", "not JSON", 1),
        (b'[\n{"id": "a",\n "title"]', "not JSON", 3),
        (b'{"event_type": "\xff"}', "not JSON", 1),
        # By a limit of ours: from 3.13 on, Python itself reads some thousand levels.
        (b'{"a":' * 401 + b"1" + b"}" * 401, "nested too deeply", 1),
        (b'{"a":' * 400 + b"1" + b"}" * 400, "of no known form", 1),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested too deeply", 1),
        (b'{"type":"segment_opened","format":1}', "a segment of a bank's log", 1),
        (b'{"type":"text","id":"00"}', "a segment of a bank's log", 1),
        (b'{"type":"run_started","run":"r"}', "rbank-es append", 1),
        (b'[{"id":"a","title":"A","title":"B","content":"x"}]', "the key 'title' is there twice in one object", None),
        (b'\n{"task_id":"t","query":"?","memory_items":[{"a":1,"a":1}]}', "the key 'a' is there twice", 2),
        (b'{"type":"run_started","seq":1,"run":"r","seq":2}', "the key 'seq' is there twice", 1),
    ],
)
def test_a_file_of_no_known_form_is_refused_with_the_line(data: bytes, says: str, at: int | None) -> None:
    """The message says what is wrong, and where."""
    with pytest.raises(BadImport, match="nothing of it was imported") as caught:
        parse("x.json", data)
    assert says in caught.value.reason
    assert caught.value.line == at


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='[]{}":,\n\\ aetypd01', max_size=80).map(str.encode))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    """Nothing but `BadInput` comes out of a broken file."""
    try:
        parse("x", data)
    except BadInput:
        return


def test_a_file_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch, bank: Bank, tmp_path: Path) -> None:
    """It isn't even read to its end."""
    monkeypatch.setattr(limits, "IMPORT_FILE_BYTES", 100)
    with pytest.raises(LimitExceeded, match="split it at line ends"):
        parse("x", jsonl(*RUN))
    with pytest.raises(LimitExceeded, match="over the limit of 100"):
        import_paths(bank, [written(tmp_path, "x.jsonl", jsonl(*RUN))])


@pytest.mark.slow
def test_what_would_not_fit_into_the_log_is_refused_before_anything_is_appended(bank: Bank, tmp_path: Path) -> None:
    """A text line has its limit; an import meets it while it checks the file."""
    too_long = [ITEMS[0], ITEMS[1] | {"content": "x" * (limits.TEXT_LINE_BYTES + 1)}]
    path = written(tmp_path, "long.json", json.dumps(too_long).encode())
    before = bank.position
    with pytest.raises(BadImport, match="over the limit"):
        import_paths(bank, [path])
    assert bank.position == before


def test_too_many_events_for_one_append_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is one append, so it has the limit of one."""
    monkeypatch.setattr(limits, "GROUP_EVENTS", 3)
    with pytest.raises(BadImport, match="5 events belong together"):
        parse("x", jsonl(*RUN))


@pytest.mark.parametrize(
    ("recorded", "utc"),
    [
        ("2026-05-04T09:00:00", "2026-05-04T09:00:00.000000Z"),
        ("2026-05-04T09:00:00.123456", "2026-05-04T09:00:00.123456Z"),
        ("2026-05-04T09:00:00Z", "2026-05-04T09:00:00.000000Z"),
        ("2026-05-04T09:00:00.5+02:00", "2026-05-04T07:00:00.500000Z"),
        ("0001-01-01T00:00:00", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_times_become_utc_and_without_a_zone_are_taken_to_be_utc(recorded: str, utc: str) -> None:
    """Always 27 characters, so that text order is time order."""
    assert utc_time(recorded) == utc


def run_at(moment: datetime) -> bytes:
    """Return a trajectory whose call lasts two seconds, with times as `moment` has them: with a zone or without."""
    times = [(moment + timedelta(seconds=second)).isoformat() for second in range(4)]
    return jsonl(
        line("run_start", {"task": "How many?", "context_size": 5}, times[0]),
        line("tool_call", {"tool": "q", "args_type": ["str"]}, times[1]),
        line("tool_result", {"tool": "q", "result_size": 3}, times[3]),
        line("run_complete", {"converged": True, "answer_length": 3}, times[3]),
    )


def test_times_without_a_zone_that_would_be_in_the_future_are_left_unset_and_kept_as_written(
    bank: Bank, tmp_path: Path
) -> None:
    """What just ran east of Greenwich is imported; its times are not invented, and an export gives them back."""
    ahead = datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=2)
    file = written(tmp_path, "ahead.jsonl", run_at(ahead))
    [report] = import_paths(bank, [file]).files
    imported = [event for event in bank.log.read() if event.seq >= report.first]
    assert report.times_unset == report.appended == len(imported) == 4
    assert {event.occurred_at for event in imported} == {None}
    assert b"".join(export(bank, None, "trajectories")) == file.read_bytes()
    assert import_paths(bank, [file]).files[0].times_unset == 0


def test_a_time_with_a_zone_in_the_future_is_refused_before_any_file_is_imported(bank: Bank, tmp_path: Path) -> None:
    """It can't be a zone that was left out, so the message names the file and both times."""
    now = datetime.now(UTC)
    early = written(tmp_path, "early.jsonl", run_at(now - timedelta(hours=2)))
    late = written(tmp_path, "late.jsonl", run_at(now + timedelta(hours=2)))
    before = bank.head()
    with pytest.raises(BadFiles, match=r"late\.jsonl: the time .* is in the future: here it is"):
        import_paths(bank, [early, late])
    assert bank.head() == before


@pytest.mark.parametrize("recorded", ["yesterday", "", "0001-01-01T00:00:00+10:00", "2026-13-01T00:00:00"])
def test_what_is_no_time_is_refused(recorded: str) -> None:
    """So is a time that has no place in UTC."""
    with pytest.raises(ValueError, match="is not an ISO time"):
        utc_time(recorded)


# ---------------------------------------------------------------- items


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"id": "a", "title": "t", "colour": "red"}, "unknown field `colour`"),
        ({"id": "a"}, "missing required field `title`"),
        ({"id": "a", "title": 7}, "`title`"),
        ({"id": "a", "title": "t", "tags": [1]}, "`tags[0]`"),
        ({"id": "a", "title": "t", "src": "rumour"}, "`src`"),
        ({"id": "a", "title": "t", "polarity": "maybe"}, "`polarity`"),
        ({"id": "", "title": "t"}, "`id`"),
        ({"id": "a" * 300, "title": "t"}, "`id`"),
        ({"title": " ", "content": ""}, "both empty"),
        ({"id": "a", "title": "t", "state": "forgotten"}, "a is forgotten"),
        ("a", "got str"),
    ],
)
def test_a_bad_item_is_refused_with_its_number_and_the_field(entry: Any, says: str) -> None:
    """Entries are counted from 1."""
    with pytest.raises(BadImport) as caught:
        parse("i.json", json.dumps([ITEMS[0], entry]).encode())
    assert caught.value.reason.startswith("entry 2: ")
    assert says in caught.value.reason


# ---------------------------------------------------------------- trajectories


@pytest.mark.parametrize(
    ("preview", "code"),
    [("{'error': 'late', 'exception_type': 'TimeoutError'}", "TimeoutError"), ("late", "error"), (None, "error")],
)
def test_a_tools_error_has_a_code(preview: str | None, code: str) -> None:
    """The exception that the answer names; else just that it is an error."""
    answer = {"tool": "count", "error": "late"} | ({"result_preview": preview} if preview else {})
    called = only(jsonl(RUN[0], line("tool_call", {"tool": "count"}), line("tool_result", answer)), ToolCalled)
    assert (called.error, called.error_code) == ("late", code)


def test_a_result_before_its_call_by_the_clock_has_no_duration() -> None:
    """A clock that was set back doesn't make a negative time; the recorded one is kept."""
    pair = [line("tool_call", {"tool": "a"}, "2026-05-04T10:00:09"), line("tool_result", {"tool": "a"})]
    called = only(jsonl(RUN[0], *pair), ToolCalled)
    assert called.duration_s is None
    assert extra(called) == {"@call_timestamp": "2026-05-04T10:00:09"}


@pytest.mark.parametrize(
    ("lines", "says", "at"),
    [
        ([RUN[1]], "begins with run_start", 1),
        ([RUN[0], RUN[0]], "a second run_start", 2),
        ([RUN[0], RUN[1] | {"more": 1}], "unknown key 'more'", 2),
        ([RUN[0], {"event_type": "iteration", "data": {}}], "'timestamp' is missing", 2),
        ([RUN[0], line("pause", {})], "unknown event_type 'pause'", 2),
        ([RUN[0], RUN[1] | {"event_type": ["x"]}], "unknown event_type ['x']", 2),
        ([RUN[0], RUN[1] | {"data": []}], "data must be an object", 2),
        ([RUN[0], RUN[1] | {"timestamp": 5}], "timestamp a string", 2),
        ([RUN[0], RUN[1] | {"timestamp": "noon"}], "'noon' is not an ISO time", 2),
        ([RUN[0], line("iteration", {})], "'iteration' is missing", 2),
        ([RUN[0], line("iteration", {"iteration": "one"})], "'iteration'", 2),
        ([RUN[0], line("tool_call", {})], "'tool' is missing", 2),
        ([RUN[0], line("tool_result", {"tool": "a", "result_size": -1})], "'result_size'", 2),
        ([RUN[0], line("run_complete", {})], "'converged' must be true or false", 2),
        ([RUN[0], line("run_complete", {"converged": True, "lm_usage": {"total_cost": "x"}})], "'total_cost'", 2),
        ([RUN[0], line("iteration", {"iteration": 1, "@call": 2})], "may not have a key '@call'", 2),
        ([line("run_start", {"task": "t", "context_size": "big"})], "'context_size'", 1),
        ([line("run_start", {"task": 3})], "'task'", 1),
    ],
)
def test_a_broken_trajectory_is_refused_with_the_line(lines: Sequence[Any], says: str, at: int) -> None:
    """And with what is wrong there."""
    with pytest.raises(BadImport) as caught:
        parse("t.jsonl", jsonl(*lines))
    assert says in caught.value.reason
    assert caught.value.line == at


@pytest.mark.parametrize("tail", [b'{"timestamp": "2026', b"[1]\n", b"null\n"])
def test_a_line_that_is_no_object_is_refused(tail: bytes) -> None:
    """A file that was cut in the middle of a line, for instance."""
    with pytest.raises(BadImport) as caught:
        parse("t.jsonl", jsonl(*RUN) + tail)
    assert caught.value.line == len(RUN) + 1


# ---------------------------------------------------------------- ReasoningBank


def test_the_short_form_and_the_scaling_form() -> None:
    """A failure makes items of failure; without a status there is no verdict, and items count as contrastive."""
    short = {key: MEMORY[key] for key in ("task_id", "query", "memory_items")} | {"status": "fail"}
    scaling = {"task_id": 17, "query": "q", "memory_items": "\n\n".join(MEMORY["memory_items"])}  # type: ignore[arg-type]
    tuple_ = scaling | {"memory_items": [scaling["memory_items"]]}
    judged, extracted = events(jsonl(short))[-2:]
    assert (judged.verdict, extracted.kind, extracted.heads[0].polarity) == ("failure", "failure", "failure")
    for record in (scaling, tuple_):
        found = events(jsonl(record))
        assert not [event for event in found if isinstance(event, RunJudged | StepTaken)]
        assert (found[-1].kind, found[-1].relied, found[-1].heads[0].src) == ("contrastive", (), "contrastive")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": "maybe"}, "status is 'maybe'"),
        ({"status": ["fail"]}, "status is ['fail']"),
        ({"query": None}, "'query' is NoneType"),
        ({"think_list": "look"}, "think_list"),
        ({"action_list": [1]}, "action_list: Expected `str | null`"),
        ({"memory_items": [1]}, "memory_items"),
        ({"memory_items": {"a": 1}}, "memory_items"),
    ],
)
def test_a_broken_record_is_refused_with_its_line(change: dict[str, Any], says: str) -> None:
    """The runs of the lines before it are not imported either."""
    with pytest.raises(BadImport) as caught:
        parse("m.jsonl", jsonl(MEMORY, MEMORY | change))
    assert says in caught.value.reason
    assert caught.value.line == 2


def test_a_record_without_items_says_why() -> None:
    """Text that is no item is kept as stray text."""
    extracted = only(jsonl(MEMORY | {"memory_items": ["I could not think of any."]}), MemoriesExtracted)
    assert (extracted.heads, extra(extracted)) == ((), {"stray": "I could not think of any."})
    assert "no item" in extracted.reason


@pytest.mark.parametrize(
    ("text", "found", "stray"),
    [
        ("# Memory Item 1\n## Title A\n## Description B\n## Content C", [("A", "B", "C")], ""),
        ("# Memory Item 1\n\n## Title\n\nA\n\n## Description\nB\n\n## Content\nC\nD", [("A", "B", "C\nD")], ""),
        ("## Title: A\n## Content: C\n## Title: B\n## Content: D", [("A", "", "C"), ("B", "", "D")], ""),
        ("Sure!\n```markdown\n# Memory Item 1\n## Title A\n## Content C\n```", [("A", "", "C")], "Sure!"),
        ("```\n# Memory Item 1\n## Title A\n## Content C\n```\n\n```\n# Memory Item 2\n## Title B\n## Content D\n```",
         [("A", "", "C"), ("B", "", "D")], ""),
        ("# Memory Item 1\n## Title A\n## Content run\n```py\nx = 1\n```", [("A", "", "run\n```py\nx = 1\n```")], ""),
        ("```\n# Memory Item 1\n## Title A\n## Content run\n```py\nx = 1\n```\n```",
         [("A", "", "run\n```py\nx = 1\n```")], ""),
        ("# Memory Item 1: A\n## Content C", [("A", "", "C")], ""),
        ("# **Memory Item 1**\n## **Title** A\n## **Content**: C", [("A", "", "C")], ""),
        ("# Memory Item 1\n## Content C only", [], "C only"),
        ("## Contents of the sea\n", [], "## Contents of the sea"),
        ("", [], ""),
    ],
)  # fmt: skip
def test_items_are_found_in_what_models_write(text: str, found: list[tuple[str, str, str]], stray: str) -> None:
    """Values on the heading's line or below it, fences round all or one, headings left out or decorated."""
    memories, outside = parse_memories(text)
    assert [tuple(memory) for memory in memories] == found
    assert outside == ([stray] if stray else [])


# ---------------------------------------------------------------- exported events


@pytest.fixture
def exported(bank: Bank, tmp_path: Path) -> Path:
    files = {"items.json": json.dumps(ITEMS).encode(), "run.jsonl": jsonl(*RUN), "memory.jsonl": jsonl(MEMORY)}
    import_paths(bank, [written(tmp_path, name, data) for name, data in files.items()])
    bank.append([NoteLogged(note=json.dumps({"text": "n" * 5_000})), NoteLogged(note='"short"')])
    return written(tmp_path, "events.jsonl", b"".join(export(bank, None, "events")))


def content(event: Event) -> Event:
    changes: dict[str, Any] = {"seq": 0, "at": "", "id": "", "occurred_at": None, "more": 0, "dur": 0, "crc": ""}
    return replace(event, **changes | ({"salt": ""} if hasattr(event, "salt") else {}))


def test_a_known_event_with_other_content_is_a_conflict(bank: Bank, exported: Path, tmp_path: Path) -> None:
    """Nothing of the file is appended."""
    changed = exported.read_bytes().replace(b"Count the buoys", b"Count the gulls")
    before = bank.position
    with pytest.raises(DuplicateEvent, match="with other content"):
        import_paths(bank, [written(tmp_path, "changed.jsonl", changed)])
    assert bank.position == before


def test_erased_texts_come_in_empty_and_erasures_stay_behind(bank: Bank, exported: Path, tmp_path: Path) -> None:
    """The export keeps the marks; a mark can't be appended, and an erasure names positions of its own bank."""
    bank.erase(item="wind")
    bank.erase(text="Count the buoys")
    data = b"".join(export(bank, None, "events"))
    assert b"Mind the wind" not in data and b'{"is":"erased"' in data
    with Bank.create(tmp_path / "other", unsafe_no_sync=True) as other:
        report = import_paths(other, [written(tmp_path, "erased.jsonl", data)]).files[0]
        assert report.left_out == 2
        assert other.state().items["wind"].item.title == ""
        assert "" in [event.task for event in other.events() if isinstance(event, RunStarted)]
        assert not list(other.events(types={"content_erased"}))
    with Bank.open(bank.place) as again:
        assert import_paths(again, [tmp_path / "erased.jsonl"]).appended == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((b'"type":"run_started"', b'"type":"run_begun"'), "'run_begun'"),
        ((b'"v":1', b'"v":9'), "has version 9"),
        ((b'"run":"', b'"colour":"red","run":"'), "unknown field `colour`"),
        ((b'"id":"', b'"id":"0'), "$.id"),
        ((b'"at":"2', b'"at":"x'), "is not a UTC time"),
    ],
)
def test_an_export_that_was_tampered_with_is_refused_with_the_line(
    exported: Path, change: tuple[bytes, bytes], says: str
) -> None:
    """So is one that a newer release wrote."""
    lines = exported.read_bytes().splitlines(keepends=True)
    number = next(n for n, one in enumerate(lines) if b'"run_started"' in one)
    lines[number] = lines[number].replace(*change, 1)
    with pytest.raises(BadImport) as caught:
        parse("e.jsonl", b"".join(lines))
    assert says in caught.value.reason
    assert caught.value.line == number + 1


def test_an_export_with_a_handle_or_an_id_twice_is_refused(bank: Bank, exported: Path) -> None:
    """A handle's text is not in the file; an id means one event."""
    lines = exported.read_bytes().splitlines(keepends=True)
    with pytest.raises(BadImport, match="already"):
        parse("e.jsonl", b"".join([*lines, lines[0]]))
    with pytest.raises(BadImport, match="handle to a text"):
        parse("e.jsonl", b"\n".join(bank.log.lines()))


# ---------------------------------------------------------------- importing


FILES = {"items": json.dumps(ITEMS).encode(), "trajectory": jsonl(*RUN), "reasoningbank": jsonl(MEMORY, MEMORY)}


def test_all_broken_files_are_named_at_once_and_left_out_only_where_somebody_says_so(
    bank: Bank, tmp_path: Path
) -> None:
    """A named file that is missing, and a folder that has nothing to import, are among them."""
    folder = tmp_path / "in"
    (folder / "none").mkdir(parents=True)
    written(folder, "a.json", FILES["items"])
    written(folder, "b.jsonl", jsonl(RUN[0]) + b"{")
    written(folder, "c.json", b"[")
    places = [folder, tmp_path / "missing.json", folder / "none"]
    before = bank.head()
    with pytest.raises(BadFiles) as refused:
        import_paths(bank, places)
    names = ["b.jsonl", "c.json", "missing.json", "none"]
    assert sorted(Path(each.path).name for each in refused.value.failures if isinstance(each, BadImport)) == names
    assert str(refused.value).startswith("4 of 5 files can't be read:\n")
    assert bank.head() == before
    with pytest.warns(Notice, match="4 of 5 files") as told:
        report = import_paths(bank, places, skip_unreadable=True)
    assert all(name in str(told[0].message) for name in names)
    assert [Path(file.path).name for file in report.files] == ["a.json"] and report.appended
    with pytest.raises(BadFiles, match="3 of 3 files"):
        import_paths(bank, [folder / "b.jsonl", folder / "c.json", folder / "none"], skip_unreadable=True)


def test_a_folder_that_cannot_be_listed_is_not_passed_by(
    bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in" / "closed").mkdir(parents=True)
    written(tmp_path / "in", "a.json", FILES["items"])
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(BadFiles, match=r"closed: Permission denied"):
        import_paths(bank, [tmp_path / "in"])
    with pytest.warns(Notice, match="closed"):
        assert len(import_paths(bank, [tmp_path / "in"], skip_unreadable=True).files) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("chars", "appends"), [(7_500_000, 1), (8_500_000, 2)])
def test_one_append_takes_sixteen_mebibytes_of_an_import(
    bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chars: int, appends: int
) -> None:
    path = written(
        tmp_path, "m.jsonl", jsonl(*(MEMORY | {"task_id": number, "query": f"{number}" * chars} for number in (1, 2)))
    )
    append, count = bank.log.append, 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return append(*args, **options)

    monkeypatch.setattr(bank.log, "append", counted)
    assert import_paths(bank, [path]).files[0].groups == 2
    assert count == appends


def test_what_does_not_fit_into_one_append_is_split_between_groups(
    bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut short after the first, importing again adds the rest and nothing twice."""
    path = written(tmp_path, "m.jsonl", jsonl(*(MEMORY | {"task_id": number} for number in range(5))))
    monkeypatch.setattr(limits, "GROUP_EVENTS", 15)
    append, count = bank.log.append, 0

    def dying(*args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return append(*args, **options)

    monkeypatch.setattr(bank.log, "append", dying)
    with pytest.raises(KeyboardInterrupt):
        import_paths(bank, [path])
    assert bank.position == 2 + 14
    report = import_paths(bank, [path]).files[0]
    assert (report.groups, report.groups_known, bank.position) == (5, 2, 2 + 35)
    assert len(bank.state().runs) == 5
    assert len(active(bank.state())) == 1


# ---------------------------------------------------------------- laws

# Without U+0000, which a name can't have.
LETTERS = st.characters(exclude_characters="\0", codec="utf-8")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(LETTERS, max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(LETTERS, max_size=4), inner, max_size=2),
    max_leaves=4,
)
TIMES = st.datetimes(datetime(2000, 1, 1), datetime(2026, 1, 1)).map(
    lambda moment: moment.isoformat()
) | st.sampled_from(["2026-05-04T09:00:00Z", "2026-05-04T09:00:00.5+02:00", "2026-05-04 09:00"])
TOOLS = st.sampled_from(["a", "b"])
OWN = ["ship", "model", "truncated", "step", "variables_n", "answer", "result", "error_code", "duration_s", "lm_calls"]
EXTRAS = st.dictionaries(st.sampled_from(OWN), VALUES, max_size=3)


def data_of_kind(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    needed: dict[str, dict[str, Any]] = {
        "run_start": {},
        "tool_call": {"tool": TOOLS},
        "tool_result": {"tool": TOOLS},
        "iteration": {"iteration": st.integers(0, 9)},
        "run_complete": {"converged": st.booleans()},
        "run_error": {},
    }
    text, count = st.none() | st.text(LETTERS, max_size=12), st.none() | st.integers(0, 99)
    usage = {
        "total_calls": count,
        "total_cost": st.none() | st.integers(0, 3) | st.floats(0, 9),
        "total_tokens": VALUES,
    }
    optional: dict[str, dict[str, Any]] = {
        "run_start": {"task": text, "endpoint": text, "context_size": count, "max_iters": count},
        "tool_call": {"args_type": VALUES, "kwargs_keys": VALUES},
        "tool_result": {"result_type": VALUES, "result_size": count, "result_preview": text, "error": text},
        "iteration": {"total": VALUES, "reasoning": text, "code": text, "output": text},
        "run_complete": {
            "answer_length": count,
            "answer_preview": text,
            "has_sparql": VALUES,
            "sparql": text,
            "iterations": count,
            "lm_usage": st.none() | st.fixed_dictionaries({}, optional=usage),
        },
        "run_error": {"error": text, "type": text},
    }
    known = st.fixed_dictionaries(needed[kind], optional=optional[kind])
    return st.tuples(EXTRAS, known).map(lambda both: both[0] | both[1])


def lines_of(kinds: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return kinds.flatmap(lambda kind: st.builds(line, st.just(kind), data_of_kind(kind), TIMES))


TRAJECTORIES = st.tuples(
    lines_of(st.just("run_start")),
    st.lists(
        lines_of(st.sampled_from(["tool_call", "tool_result", "iteration", "run_complete", "run_error"])), max_size=8
    ),
).map(lambda both: [both[0], *both[1]])


def multiset(lines: Sequence[Any]) -> list[str]:
    return sorted(json.dumps(one, sort_keys=True) for one in lines)


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lines=TRAJECTORIES)
def test_a_trajectory_exported_again_has_the_same_lines_and_gives_the_same_events(
    lines: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Same keys, same values, same times as written; imported again, the very same events."""
    folder = tmp_path_factory.mktemp("law")
    with Bank.create(folder / "bank", unsafe_no_sync=True) as made:
        import_paths(made, [written(folder, "t.jsonl", jsonl(*lines))])
        back = b"".join(export(made, None, "trajectories"))
    assert multiset([json.loads(one) for one in back.splitlines()]) == multiset(lines)
    first = parse("t.jsonl", jsonl(*lines))
    run = first.units[0].events[0].run  # type: ignore[attr-defined]
    assert [content(event) for event in events(back, f"{run}.jsonl")] == [content(e) for e in first.units[0].events]


@settings(deadline=None)
@given(lines=TRAJECTORIES)
def test_every_line_of_a_trajectory_is_in_one_event(lines: list[dict[str, Any]]) -> None:
    """Pairs of call and result count as one, all else for itself."""
    found = events(jsonl(*lines))
    kinds = [one["event_type"] for one in lines]
    lone = sum(event.extra is not None and "@only" in extra(event) for event in found if isinstance(event, ToolCalled))
    calls = sum(isinstance(event, ToolCalled) for event in found)
    assert 2 * calls - lone == kinds.count("tool_call") + kinds.count("tool_result")
    assert sum(isinstance(event, StepTaken) for event in found) == kinds.count("iteration")
    assert sum(isinstance(event, RunFinished) for event in found) == sum("run_" in kind for kind in kinds) - 1
    assert sum(isinstance(event, ContextBuilt) for event in found) <= 1
    assert len({event.id for event in found}) == len(found)
