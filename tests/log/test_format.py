"""The format that `docs/format.md` specifies: a reader in another language computes the heads that the log does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.errors import BadEvent
from rbank_es.events import ContextBuilt, Event, MemoriesExtracted, NoteLogged, RunStarted
from rbank_es.events.codec import CLASSES, TYPES, facts_of, texts_of
from rbank_es.events.items import Item
from rbank_es.log import Erasing, lines
from rbank_es.log.file.file_log import FileLog
from tests.cli_runner import maker
from tests.effort import examples

ROOT = Path(__file__).resolve().parents[2]
READER = ROOT / "tests" / "reader.js"
DOCUMENT = ROOT / "docs" / "format.md"
SAMPLE = ROOT / "logs" / "sample"


def node(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the reader; without node the test is skipped, but on a build machine node must be there."""
    program = shutil.which("node")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("node is not installed, and the reader in JavaScript must be tested here")
        pytest.skip("node is not installed")
    command = [program, str(READER), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def heads_read(directory: Path, position: int) -> list[str]:
    """Heads at every position up to `position`, as the reader in JavaScript computes them."""
    done = node(directory, *range(position + 1))
    assert done.returncode == 0, done.stderr
    last, *heads = done.stdout.split()
    assert last == heads[-1]
    return heads


def heads_of(log: FileLog) -> list[str]:
    return [str(log.head(seq)) for seq in range(log.position() + 1)]


def agree(log: FileLog) -> list[str]:
    """The heads of a log, on which both readers agree."""
    heads = heads_of(log)
    assert heads_read(log.directory, log.position()) == heads
    return heads


@pytest.fixture
def log(tmp_path: Path) -> Iterable[FileLog]:
    with FileLog.create(tmp_path / "bank", unsafe_no_sync=True) as log:
        yield log


@pytest.mark.slow
def test_forks_are_read_as_any_log_is(log: FileLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both readers agree on a fork, on a fork of it, and after erasures in parent and fork."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 900)
    for number in range(6):
        log.append([NoteLogged(note=f'"a note of some length {number}"')])
    with log.fork(6, str(tmp_path / "fork")) as fork, fork.fork(4, str(tmp_path / "early")) as early:
        log.erase(Erasing(events=frozenset({2})))
        fork.append([NoteLogged(note='"own"')])
        fork.erase(Erasing(events=frozenset({3})))
        with log.fork(6, str(tmp_path / "late")) as late, fork.fork(8, str(tmp_path / "deep")) as deep:
            heads = agree(log)
            assert [agree(each)[:7] for each in (fork, late, deep)] == [heads[:7]] * 3
            assert agree(early)[:5] == heads[:5]


def extraction(*contents: str) -> MemoriesExtracted:
    items = [Item.make(f"title {number}", content) for number, content in enumerate(contents)]
    heads = tuple(item.head for item in items)
    return MemoriesExtracted(kind="manual", heads=heads, candidates=tuple(item.text for item in items))


def test_the_reader_has_at_most_forty_lines() -> None:
    """Small enough to be rewritten in any language in an afternoon."""
    assert len(READER.read_text().splitlines()) <= 40


@pytest.mark.slow
def test_every_event_type_before_and_after_erasure(tmp_path: Path) -> None:
    """Both readers agree on every type; after every erasure, on the same heads at the positions before."""
    golden = maker("make_golden", "logs")
    teller = golden.Teller(tmp_path / "bank")
    for tell in golden.STORY[:-1]:
        tell(teller)
    before = agree(teller.log)
    golden.STORY[-1](teller)
    after = agree(teller.log)
    assert after[: len(before)] == before
    assert len(list((tmp_path / "bank").glob("*.jsonl"))) > 3


def stored(log: FileLog) -> list[bytes]:
    """All lines of a log, numbered or not."""
    return [line for path in sorted(log.directory.glob("*.jsonl")) for line in path.read_bytes().splitlines()]


def test_erasing_a_text_that_was_stored_apart(log: FileLog) -> None:
    """Erased long texts, their handles, and one element of an array leave every earlier head as it was."""
    secret = "what nobody may read again " * 200
    log.append([NoteLogged(note=secret), extraction("kept", secret, "also kept")])
    log.append([ContextBuilt(run="r", chars=5, texts=("kept", secret[:60], "kept too"))])
    before = agree(log)
    log.erase(Erasing(words=(secret[:60],)))
    assert agree(log)[: len(before)] == before
    assert not any(secret[:20].encode() in line for line in stored(log))
    assert any(line.startswith(lines.TEXT_ERASED) for line in stored(log))


def test_the_sample_bank() -> None:
    """Both readers agree on the bank that comes with this project."""
    if not any(SAMPLE.glob("*.jsonl")):
        pytest.skip("logs/sample is not made")
    with FileLog.open(SAMPLE) as log:
        agree(log)


awkward = st.sampled_from(
    (
        '"',
        "\\",
        '\\"',
        "\n",
        "\r\t\b\f",
        "\x00",
        "\x1f",
        "\x7f",
        "\x80\x9f",
        "\u2028",
        "\u2029",
        "\ufeff",
        "😀",
        "é",
        "e\u0301",
    )
) | st.sampled_from((",", ":", "[", "]", "{", "}", ',"salt":', ',"more":0', '{"is":"erased",', '"crc":', "</script>"))
texts = st.lists(awkward | st.text(max_size=5), max_size=8).map("".join)


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(texts, min_size=1, max_size=12),
    st.lists(st.tuples(texts, texts), max_size=4),
    st.sets(st.integers(1, 12), min_size=1, max_size=4),
)
def test_any_text(notes: list[str], layers: list[tuple[str, str]], erased: set[int]) -> None:
    """Quotes, escapes, controls, brackets, JSON in strings: both readers agree, before and after an erasure."""
    with tempfile.TemporaryDirectory() as place, FileLog.create(Path(place) / "bank", unsafe_no_sync=True) as log:
        log.append([NoteLogged(note=note, by="x") for note in notes])
        log.append([ContextBuilt(run="r", chars=0, texts=pair) for pair in layers] + [extraction(*notes)])
        before = agree(log)
        log.erase(Erasing(events=frozenset(erased) & set(range(1, log.position() + 1))))
        assert agree(log)[: len(before)] == before
        log.verify()


@pytest.mark.slow
def test_the_reader_sees_damage_in_a_closed_segment(log: FileLog) -> None:
    """A flipped bit anywhere in a closed segment is an error for the reader, as it is for this package."""
    log.append([NoteLogged(note="something to erase"), extraction("a", "b")])
    log.erase(Erasing(events=frozenset({1})))
    path = min(log.directory.glob("*.jsonl"))
    data = path.read_bytes()
    for place in [*range(3, len(data), 157), len(data) - 60, len(data) - 1]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert node(log.directory).returncode != 0, place


# ---------------------------------------------------------------- what the document says of the vocabulary


def test_prefixes_tell_numbered_lines_from_others() -> None:
    """No event type begins like a line that isn't an event."""
    reserved = (lines.ANY_TEXT, lines.SEGMENT)
    assert not [name for name in TYPES if f'{{"type":"{name}'.encode().startswith(reserved)]


def test_names_need_no_escapes() -> None:
    """Types and fields are lower-case ASCII words, so a path needs no escaping and holds no dot of its own."""
    fields = {name for cls in CLASSES for name in cls.__struct_fields__}
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in (fields | set(TYPES)))


def test_salt_stands_between_facts_and_texts() -> None:
    """A type without texts has no salt; in the others no fact is called `salt`, `more`, `dur` or `crc`."""
    for cls in CLASSES:
        assert bool(texts_of(cls)) == ("salt" in cls.__struct_fields__)
        assert not {"salt", "more", "dur", "crc"} & {*facts_of(cls), *texts_of(cls)}


def test_the_first_salt_in_a_line_is_the_event_s(log: FileLog) -> None:
    """A setting called `salt` would hide it, so it is refused."""
    event: Event = RunStarted(run="r", budgets={"a": 1, "salt": 2}, task="t")
    with pytest.raises(BadEvent, match="salt"):
        log.append([event])


# ---------------------------------------------------------------- what the document shows


def test_the_worked_example_is_what_the_code_writes() -> None:
    """The bytes and digests in the document are generated; `python docs/make_example.py` puts them in anew."""
    example = maker("make_example")
    assert example.replaced(DOCUMENT.read_text(encoding="utf-8")) == DOCUMENT.read_text(encoding="utf-8")


def test_the_limits_in_the_document_are_those_of_the_code() -> None:
    """Each row of the table of limits names a constant and says its value."""
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([\d,]+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) >= 7
    assert {name: int(value.replace(",", "")) for name, value in rows} == {
        name: getattr(limits, name) for name, _ in rows
    }


def test_the_document_names_every_field_that_is_not_a_fact() -> None:
    """The envelope, the lines that open and close a segment, and text lines are specified to the last field."""
    text = DOCUMENT.read_text(encoding="utf-8")
    structs = (Event, lines.Opened, lines.Sealed, lines.TextLine)
    assert not [name for cls in structs for name in cls.__struct_fields__ if f"`{name}`" not in text]


def test_what_is_escaped_and_what_is_not(log: FileLog) -> None:
    """Quote, backslash and controls below U+0020 are escaped as the document says; nothing else is."""
    named = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    plain = "/\x7f\x80\u2028\ufeff\U0001f6a2"
    controls = "".join(map(chr, range(32)))
    log.append([NoteLogged(note=controls + '"\\' + plain)])
    escaped = "".join(named.get(character, f"\\u{ord(character):04x}") for character in controls)
    (line,) = log.lines()
    assert f'"note":"{escaped}\\"\\\\{plain}","more"'.encode() in line
