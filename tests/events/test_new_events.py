"""New events as people write them: what is made of them, and what is said of those that can't be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadEvent, LimitExceeded
from rbank_es.events import (
    MemoryProposed,
    NoteLogged,
    RunStarted,
)
from rbank_es.events.items import Item, ItemText
from rbank_es.events.json_input import new_event, parse_event, parse_events


def lines(*objects: Any) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in objects)


class TestForms:
    """One object, or JSON Lines."""

    def test_one_object_over_several_lines(self) -> None:
        """A single pretty-printed object is one event."""
        text = json.dumps({"type": "run_started", "run": "r", "task": "t"}, indent=2).encode()
        assert parse_events(text + b"\n") == [RunStarted(run="r", task="t")]

    def test_byte_order_mark(self) -> None:
        """A byte order mark, as some editors write it, is no part of the first event."""
        assert parse_events(b'\xef\xbb\xbf{"type":"note_logged","note":"a"}') == [NoteLogged(note="a")]

    def test_id_and_time_may_be_given(self) -> None:
        """An id makes the append repeatable, a time says when it happened; nothing else of the envelope is taken."""
        given = {"id": "01900000-0000-7000-8000-000000000001", "occurred_at": "2026-01-31T12:00:00.000000Z"}
        event = new_event({"type": "note_logged", "note": "a", **given})
        assert (event.id, event.occurred_at) == (given["id"], given["occurred_at"])

    def test_given_fields_are_not_changed(self) -> None:
        """The caller's own object stays as it was."""
        given: dict[str, Any] = {"type": "memories_extracted", "kind": "manual", "candidates": [{"title": "t"}]}
        before = json.dumps(given)
        new_event(given)
        assert json.dumps(given) == before


class TestRepeatedKeys:
    """An object that says two things under one key is refused: a reader would drop one of them without a word."""

    @pytest.mark.parametrize(
        ("text", "line", "key"),
        [
            (b'{"type":"run_started","run":"r","run":"s"}', 1, "run"),
            (b'{"type":"note_logged"}\n{"type":"note_logged","note":{"a":[{"b":1,"b":1}]}}', 2, "b"),
            (b'{"type":"run_started",\n"run":"r",\n"run":"s"}', 1, "run"),
            (b'{"type":"note_logged","note":{"":1,"":2}}', 1, ""),
            (b'{"type":"note_logged","note":{"\\u0061":1,"a":2}}', 1, "a"),
            (b'{"type":"note_logged","note":{"a" : 1, "a" : {}}}', 1, "a"),
        ],
    )
    def test_are_named_with_their_line(self, text: bytes, line: int, key: str) -> None:
        """However deep they are, however they are written, and whether or not the values are equal."""
        with pytest.raises(BadEvent, match=f"the key '{key}' is there twice") as caught:
            parse_events(text)
        assert caught.value.line == line

    def test_elsewhere_are_none(self) -> None:
        """The same key in two objects, a key as a value, keys that differ: all of it is kept as it is."""
        note = {"a": {"a": ["a", {"a": '"a":1,"a":2'}]}, "A": 1e300, "b": 10**400, "c": [{"x": 1}, {"x": 2}]}
        text = b'{"type":"note_logged","note":' + json.dumps(note).encode() + b"}"
        [event] = parse_events(text)
        assert isinstance(event, NoteLogged) and json.loads(str(event.note)).keys() == note.keys()


class TestConveniences:
    """What may be written shorter."""

    @pytest.mark.parametrize("value", [{"a": [1, None, "ü"]}, [], 0, True, "text"])
    def test_free_json(self, value: Any) -> None:
        """Free JSON may be given as JSON, or as a string of it."""
        event = new_event({"type": "note_logged", "note": value, "extra": value})
        assert isinstance(event, NoteLogged)
        for stored in (event.note, event.extra):
            assert stored == value if isinstance(value, str) else json.loads(str(stored)) == value

    def test_proposed_item(self) -> None:
        """The same for a proposal."""
        event = new_event({"type": "memory_proposed", "by": "mem_add", "candidate": {"title": "T", "role": "planner"}})
        assert isinstance(event, MemoryProposed)
        assert (event.head.id, event.head.role, event.candidate) == (
            Item.make_id("T", ""),
            "planner",
            ItemText(title="T"),
        )


NOTE = {"type": "note_logged", "note": "fine"}
BAD: list[tuple[Any, str, str]] = [
    ({}, "'type' is missing", "$.type"),
    ({"type": None}, "'type' is missing", "$.type"),
    ({"type": 5}, "unknown event type '5'", "$.type"),
    ({"type": "run_startd"}, "did you mean 'run_started'", "$.type"),
    ({"type": "x" * 500}, "unknown event type 'x", "$.type"),
    ({"type": "run_started"}, "missing required field `run`", "$"),
    ({"type": "run_started", "run": "r", "colour": 1}, "unknown field `colour`", "$"),
    ({"type": "run_started", "run": 5}, "Expected `str`, got `int`", "$.run"),
    ({"type": "run_started", "run": ""}, "length >= 1", "$.run"),
    ({"type": "run_started", "run": "n" * 257}, "length <= 256", "$.run"),
    ({"type": "run_started", "run": "r", "iterations_max": -1}, "`int` >= 0", "$.iterations_max"),
    ({"type": "run_started", "run": "r", "iterations_max": 2**53}, "<= 9007199254740991", "$.iterations_max"),
    ({"type": "run_started", "run": "r", "iterations_max": 1.5}, "Expected `int", "$.iterations_max"),
    ({"type": "run_started", "run": "r", "mode": "loud"}, "Invalid enum value 'loud'", "$.mode"),
    ({"type": "run_started", "run": "r", "budgets": {"L0": "x"}}, "Expected `int`, got `str`", "$.budgets[...]"),
    ({"type": "run_started", "run": "r", "layers": ["L0", 1]}, "Expected `str`, got `int`", "$.layers[1]"),
    ({"type": "run_started", "run": "r", "v": 2}, "Invalid enum value 2", "$.v"),
    ({"type": "run_judged", "run": "r", "success": True}, "unknown field `success`", "$"),
    ({"type": "run_judged", "run": "r", "verdict": True}, "Expected `str`, got `bool`", "$.verdict"),
    ({"type": "run_judged", "run": "r", "verdict": "yes"}, "Invalid enum value 'yes'", "$.verdict"),
    ({"type": "note_logged", "note": "x", "id": "7"}, "not a UUID", "$.id"),
    ({"type": "note_logged", "note": "x", "id": "01900000-0000-7000-8000-00000000000A"}, "not a UUID", "$.id"),
    *[
        ({"type": "note_logged", "note": "x", "occurred_at": value}, says, "$.occurred_at")
        for value, says in (
            ("yesterday", "'yesterday' is not an ISO time"),
            ("2026-01-31T12:00:00.000000+", "is not an ISO time"),
            ("2026-02-31T12:00:00.000000Z", "is not an ISO time"),
            ("0001-01-01T00:00:00+10:00", "is not an ISO time"),
            (5, "Expected `str | null`"),
        )
    ],
    ({"type": "memories_extracted", "kind": "manual", "candidates": [{"content": "c"}]}, "`title`", "$.candidates[0]"),
    ({"type": "memories_extracted", "kind": "manual", "candidates": ["x"]}, "Expected `object`", "$.candidates[0]"),
    (
        {"type": "memories_extracted", "kind": "manual", "candidates": [{"title": "t", "src": "moon"}]},
        "'moon'",
        "$.heads",
    ),
    ({"type": "memories_extracted", "kind": "manual", "candidates": [{"title": "t", "x": 1}]}, "`x`", "$.heads[0]"),
    ({"type": "memory_proposed", "by": "x", "candidate": {"title": 5}}, "Expected `str`", "$.candidate"),
    *[
        ({"type": "note_logged", "note": "x", name: value}, f"'{name}' is set by the log's writer", f"$.{name}")
        for name, value in (("seq", 1), ("at", "x"), ("more", 0), ("dur", 0), ("crc", ""), ("salt", "x"))
    ],
]


class TestBadInput:
    """Each with the number of the line, the path to the field, and no event of the lot."""

    @pytest.mark.parametrize(("fields", "said", "path"), BAD, ids=lambda value: str(value)[:40])
    def test_field(self, fields: dict[str, Any], said: str, path: str) -> None:
        """The message says what is wrong, in which line, and where in it."""
        with pytest.raises(BadEvent) as caught:
            parse_events(lines(NOTE, NOTE, fields))
        assert said in caught.value.reason, caught.value.reason
        assert caught.value.line == 3 and (caught.value.path or "").startswith(path)
        assert str(caught.value).startswith("line 3: ") and f"(at {caught.value.path})" in str(caught.value)

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (b'{"type": "note_logged", ', "not JSON"),
            (b"{'type': 'note_logged'}", "not JSON"),
            (b"note_logged", "not JSON"),
            (b'{"type":"note_logged","note":NaN}', "not JSON"),
            (b'{"type":"note_logged","note":"\xff\xfe"}', "not JSON"),
            (b'\xff{"type":"note_logged","note":"x"}', "not JSON"),
            (b'{"type":"note_logged","note":"\\ud800"}', "not JSON"),
            (b'{"type":"note_logged","note":"x"}}', "not JSON"),
            (b'{"type":"note_logged","note":"x"}{"type":"note_logged","note":"y"}', "not JSON"),
            (b'["note_logged"]', "expected a JSON object, got list"),
            (b"5", "expected a JSON object, got int"),
            (b"null", "expected a JSON object, got NoneType"),
            (b'{"type":"note_logged","note":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "nested too deeply"),
            (b'{"type":"run_finished","run":"r","outcome":"failed","cost_usd":1e999}', ""),
            (b'{"type":"run_finished","run":"r","outcome":"failed","tokens_in":123456789012345678901234567890}', ""),
        ],
        ids=lambda value: str(value)[:30],
    )
    def test_malformed(self, line: bytes, said: str) -> None:
        """What is no JSON, or no object, is said with the number of its line, counting blank ones."""
        with pytest.raises(BadEvent) as caught:
            parse_events(lines(NOTE) + b"\n\n" + line + b"\n" + lines(NOTE))
        assert said in caught.value.reason and caught.value.line == 3

    def test_type_from_another_release(self) -> None:
        """An unknown type says where the known ones are listed."""
        with pytest.raises(BadEvent, match="rbank-es schema"):
            parse_event(b'{"type":"something else entirely"}')

    def test_long_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A line over the limit is refused before it is parsed."""
        monkeypatch.setattr(limits, "TEXT_LINE_BYTES", 1_000)
        with pytest.raises(LimitExceeded, match="line 2") as caught:
            parse_events(lines(NOTE, {"type": "note_logged", "note": "x" * 1_000}))
        assert caught.value.allowed == 1_000 < caught.value.actual

    @pytest.mark.parametrize("given", [{"type": "nothing"}, NoteLogged(note="\ud800"), {"type": "run_started"}])
    def test_nothing_is_lost(self, tmp_path: Path, given: Any) -> None:
        """A bank that is given a bad event among good ones is as it was, and goes on."""
        with Bank.create(tmp_path / "bank") as bank:
            before = bank.head()
            with pytest.raises(BadEvent):
                bank.append([NOTE, given])
            assert bank.head() == before
            assert bank.append(NOTE).first == before.seq + 1
