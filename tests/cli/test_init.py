"""`init` and `append`: what a new bank holds, what is printed, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es.policies import default_policies
from tests.cli.kilns import EXTRACTION, NOTE, RUN, log_bytes
from tests.cli_runner import fails, run
from tests.effort import one_in


@pytest.mark.slow
def test_init_records_birth_and_policies(tmp_path: Path) -> None:
    """A new bank begins with `bank_created` and `policy_set`; JSON tells where it is and its head."""
    made = run("init", "./banks/notes", "--json", cwd=tmp_path).json
    assert made["path"] == "banks/notes" and made["head"].startswith("2:")
    assert made["policies"] == {choice.kind: f"{choice.name}-{choice.version}" for choice in default_policies()}
    events = run("log", "./banks/notes", cwd=tmp_path).lines
    assert [event["type"] for event in events] == ["bank_created", "policy_set"]
    assert "already" in fails("init", "./banks/notes", cwd=tmp_path)


def test_init_takes_policies_from_a_file(tmp_path: Path) -> None:
    """`--policy` sets them; a file that holds none that exist is refused and no bank is made."""
    (tmp_path / "policies.toml").write_text('[forgetting]\nname = "bounded"\nmax_items = 9\n')
    (tmp_path / "bad.toml").write_text('[forgetting]\nname = "bonded"\n')
    (tmp_path / "latin.toml").write_bytes(b"\xe9")
    assert "bounded-1" in run("init", "notes", "--policy", "policies.toml", cwd=tmp_path).out
    assert "did you mean 'bounded'" in fails("init", "other", "--policy", "bad.toml", cwd=tmp_path)
    assert "not UTF-8" in fails("init", "other", "--policy", "latin.toml", cwd=tmp_path)
    assert "No such file" in fails("init", "other", "--policy", "none.toml", cwd=tmp_path)
    assert not (tmp_path / "logs" / "other").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a b", ".hidden", "a.", "", "ä", "x" * 101, "postgresql://host/db", "a@1", "a@"])
def test_a_bad_bank_name_is_refused_before_anything_is_made(name: str, tmp_path: Path) -> None:
    """What can't name a bank is a usage error that says what can."""
    assert fails("init", name, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_bare_names_live_under_rbank_home(tmp_path: Path) -> None:
    """RBANK_HOME moves the banks that are named by a bare name."""
    made = run("init", "notes", "--json", cwd=tmp_path, env={"RBANK_HOME": str(tmp_path / "home")}).json
    assert made["path"] == str(tmp_path / "home" / "notes")


def test_append_takes_one_object_on_many_lines(place: Path) -> None:
    """A pretty-printed JSON object is one event."""
    done = run("append", "notes", "-", "--json", cwd=place, stdin=json.dumps(RUN | {"run": "r2"}, indent=2)).json
    assert done["appended"] == 1


def test_append_again_adds_nothing(place: Path) -> None:
    """Events with ids can be appended again after any failure; the answer says where they stand."""
    event = json.dumps({"type": "note_logged", "id": "00000000-0000-7000-8000-00000000000a", "note": "{}"})
    first = run("append", "notes", "--json", cwd=place, stdin=event).json
    again = run("append", "notes", "--json", "--expect", "3", cwd=place, stdin=event).json
    assert (again["first"], again["appended"], again["known"], again["duplicate"]) == (first["first"], 0, 1, True)
    assert again["head"] == first["head"]
    assert "were there already" in run("append", "notes", cwd=place, stdin=event).out
    assert "other content" in fails("append", "notes", cwd=place, stdin=event.replace("{}", "[]"), code=4)


@pytest.mark.slow
def test_append_checks_what_the_writer_expects(place: Path) -> None:
    """A wrong expectation is a conflict; of two writers with the same expectation one wins."""
    assert run("append", "notes", "--expect", "9", cwd=place, stdin=NOTE).code == 0
    message = fails("append", "notes", "--expect", "9", cwd=place, stdin=NOTE, code=4)
    assert "at position 9, it is at 10" in message
    assert fails("append", "notes", "--expect", "empty", cwd=place, stdin=NOTE, code=4)
    assert "'soon' is not a position" in fails("append", "notes", "--expect", "soon", cwd=place, stdin=NOTE)


def test_append_in_batches(place: Path) -> None:
    """`--batch` splits the input into groups; what went in before a failure is said."""
    done = run("append", "notes", "--batch", "2", "--expect", "9", "--json", cwd=place, stdin=f"{NOTE}\n" * 5).json
    assert (done["groups"], done["first"], done["last"], done["appended"]) == (3, 10, 14, 5)
    known = json.dumps({"type": "note_logged", "id": EXTRACTION})
    message = fails("append", "notes", "--batch", "2", cwd=place, stdin=f"{NOTE}\n{NOTE}\n{known}\n", code=4)
    assert "The first 2 events are in the log, up to position 16." in message


@pytest.mark.parametrize(
    ("given", "said"),
    one_in(
        4,
        [
            (f'{NOTE}\n{{"type":"note_logged"', "line 2: not JSON"),
            ('{"type":"note_loged"}', "did you mean 'note_logged'? (at $.type)"),
            ('{"note":"{}"}', "'type' is missing"),
            ('{"type":"run_started"}', "missing required field `run`"),
            ('{"type":"run_started","run":"r","bogus":1}', "unknown field `bogus`"),
            ('{"type":"run_started","run":"r","layers":["L0",7]}', "(at $.layers[1])"),
            ('{"type":"note_logged","seq":3}', "'seq' is set by the log's writer"),
            ('{"type":"note_logged","id":"mine"}', "not a UUID"),
            ('{"type":"note_logged","occurred_at":"yesterday00000000000000000"}', "occurred_at"),
            ("[1]", "expected a JSON object, got list"),
            ("", "no events in standard input"),
            (b"\xff\xff", "not JSON"),
            ("[" * 100_000, "nested too deeply"),
            (json.dumps({"type": "run_started", "run": "r" * 300}), "Expected `str` of length <= 256"),
            (json.dumps({"type": "note_logged", "note": "x" * (17 << 20)}), "over the limit"),
            (f"{NOTE}\n" * 10_001, "over the limit"),
        ],
    ),
)
def test_bad_events_are_refused_with_line_and_path_and_nothing_is_lost(
    given: str | bytes, said: str, place: Path
) -> None:
    """Bad input is one clear message and exit code 2; the log stays as it was, byte for byte."""
    before = log_bytes(place)
    message = fails("append", "notes", cwd=place, stdin=given)
    assert said in message and len(message) < 600
    assert log_bytes(place) == before


def test_append_of_a_file_that_is_not_there(place: Path) -> None:
    """A missing file, and a directory, are named in the message."""
    assert fails("append", "notes", "none.jsonl", cwd=place) == "none.jsonl: No such file or directory"
    assert fails("append", "notes", ".", cwd=place) == ".: it is a directory, where a regular file must be"
    assert "leave out @3" in fails("append", "notes@3", cwd=place, stdin=NOTE)
