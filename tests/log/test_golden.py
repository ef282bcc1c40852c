"""Golden logs: this release still reads, to the letter, what every schema that was ever released has written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict

from rbank_es.bank import Bank
from rbank_es.events import Event, type_of
from rbank_es.events.codec import CLASSES, ENVELOPE, decode_event, version_of
from rbank_es.law.digests import state_digests
from rbank_es.log import Head
from tests.cli_runner import maker

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = sorted((ROOT / "logs" / "golden").glob("v*"))

READ_ONLY = """
import os, sys
from pathlib import Path

place = sys.argv[1]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}

def refuse(event, arguments):
    writes = event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING)
    if writes and place in map(str, arguments[:2]) or writes and str(arguments[0]).startswith(place + os.sep):
        raise OSError(30, "Read-only file system", str(arguments[0]))

sys.addaudithook(refuse)
try:
    Path(place, "probe").write_text("")
except OSError as error:
    assert error.errno == 30
else:
    raise SystemExit("the place can be written")

from rbank_es import Bank

with Bank.open(Path(place)) as bank:
    with bank.as_of() as view:
        rows = len(view.rows("items"))
    print(bank.head(), bank.replay().digests.all, rows, len(bank.at("HEAD~1").search("classes")))
"""


@pytest.fixture(params=GOLDEN, ids=lambda path: path.name)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a golden log as it is committed: without locks and derived files."""
    assert isinstance(request.param, Path)
    copy = tmp_path / request.param.name
    shutil.copytree(request.param, copy, ignore=shutil.ignore_patterns("*lock"))
    return copy


@pytest.fixture
def bank(golden: Path) -> Iterator[Bank]:
    with Bank.open(golden / "bank") as bank:
        yield bank


@pytest.fixture
def expected(golden: Path) -> dict[str, Any]:
    return dict(json.loads((golden / "expected.json").read_text(encoding="utf-8")))


def test_a_golden_log_verifies_with_its_heads(bank: Bank, expected: dict[str, Any]) -> None:
    """Every byte is sound, and the head at every position is the one noted when the log was made."""
    heads = [Head.parse(text) for text in expected["heads"]]
    seen = bank.check(noted=heads)
    assert bank.id == expected["bank"]
    assert [str(bank.head(seq)) for seq in range(bank.position + 1)] == expected["heads"]
    assert (seen.parts["segments"], seen.texts_apart, seen.texts_erased) == (
        expected["segments"],
        expected["texts"],
        expected["erased"],
    )


def test_events_are_read_to_the_letter(bank: Bank) -> None:
    """An event that is read holds exactly what a plain JSON reader sees in its line, if its schema is still today's."""
    for line, event in zip(bank.log.lines(), bank.events(), strict=True):
        plain = json.loads(line)
        if plain["v"] != version_of(type(event)):
            continue
        envelope = {name: getattr(event, name) for name in ("v", "more", "dur")}
        assert json.loads(msgspec.json.encode(event)) | envelope == plain


def _parts(event: Event) -> Iterator[Any]:
    for name in event.__struct_fields__:
        value = getattr(event, name)
        yield from value if isinstance(value, tuple) else (value,)


def test_a_golden_log_folds_to_the_states_that_it_had(bank: Bank, expected: dict[str, Any]) -> None:
    """The state digests at every position that was noted are what they were."""
    assert len(expected["states"]) > 5
    for position, digests in expected["states"].items():
        assert asdict(state_digests(bank.state(int(position)))) == digests, position


def test_a_golden_log_can_be_appended_to(golden: Path, expected: dict[str, Any]) -> None:
    """Today's events go behind those of any schema; heads noted before still hold."""
    with Bank.open(golden / "bank") as bank:
        before = bank.position
        bank.append({"type": "note_logged", "note": {"appended": "by a later release"}})
        assert bank.position == before + 1
        bank.check(noted=[Head.parse(text) for text in expected["heads"]])


@pytest.mark.slow
def test_a_golden_log_is_read_where_nothing_can_be_written(golden: Path, expected: dict[str, Any]) -> None:
    """A bank without locks and derived files, in a place that refuses every write, is opened, replayed and searched."""
    place = (golden / "bank").resolve()
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    command = [sys.executable, "-c", READ_ONLY, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    head, digest, rows, hits = done.stdout.split()
    with Bank.open(place) as bank:
        state = bank.replay()
    assert (head, digest) == (expected["heads"][-1], state.digests.all)
    assert int(rows) == len(state.state.items)
    assert int(hits) > 0
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_this_release_writes_the_newest_golden_log_byte_for_byte(tmp_path: Path) -> None:
    """The script, its clock and its random bytes fixed, makes the committed files again, and no others."""
    script = maker("make_golden", "logs")
    assert script.main([str(tmp_path)]) == 0
    made, committed = tmp_path / f"v{script.VERSION}", GOLDEN[script.VERSION - 1]
    names = sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
    kept = subprocess.run(["git", "ls-files", "."], cwd=committed, capture_output=True, text=True, check=False)
    if kept.returncode == 0 and kept.stdout:
        assert [str(name) for name in names] == sorted(kept.stdout.split())
    for name in names:
        assert (made / name).read_bytes() == (committed / name).read_bytes(), name


def test_the_newest_golden_log_sets_every_field_of_every_type() -> None:
    """Each type of the vocabulary is there; each of its fields, and of the records in them, is set in some event."""
    script = maker("make_golden", "logs")
    told: list[Event] = []

    class Listener:
        def tell(self, *events: Event) -> list[str]:
            told.extend(events)
            return ["01900000-0000-7000-8000-000000000002"] * len(events)

    for tell in script.STORY[:-1]:
        tell(Listener())
    seen = {(type(event).__name__, name) for event in told for name in _set_fields(event)}
    nested = {entry for event in told for entry in _nested(event)}
    classes = [cls for cls in CLASSES if type_of(cls) != "content_erased"]
    own = {(cls.__name__, name) for cls in classes for name in set(cls.__struct_fields__) - ENVELOPE - {"salt"}}
    assert own <= seen
    assert {name for name, _ in nested} >= {"PolicyChoice", "LayerUse", "Hit", "Decision", "ItemHead", "ItemText"}
    records = {type(part) for event in told for part in _parts(event) if isinstance(part, msgspec.Struct)}
    assert {(cls.__name__, name) for cls in records for name in cls.__struct_fields__} <= nested
    erased = next(decode_event(line) for line in _committed_lines() if line.startswith(b'{"type":"content_erased"'))
    assert set(_set_fields(erased)) >= {"units", "by", "reason"}


def _committed_lines() -> Iterator[bytes]:
    for segment in sorted((GOLDEN[-1] / "bank").glob("*.jsonl")):
        yield from segment.read_bytes().splitlines()


def _set_fields(event: msgspec.Struct) -> list[str]:
    return [name for name in msgspec.to_builtins(event) if name not in ("type", "is")]


def _nested(event: Event) -> Iterator[tuple[str, str]]:
    for part in _parts(event):
        if isinstance(part, msgspec.Struct):
            yield from ((type(part).__name__, name) for name in _set_fields(part))
