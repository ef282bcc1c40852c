"""A log engine from outside the package: one file, registered under the scheme of its URLs, proved by the contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from inspect import Parameter, isfunction, signature
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from rbank_es import Bank
from rbank_es.cli import main
from rbank_es.errors import BadInput, LogCorruption
from rbank_es.events.items import Item
from rbank_es.log import LOG_ENGINES, EventLog, LogWrapper, lines
from rbank_es.log.writer_errors import LogBehind
from rbank_es.testing import EventLogContract, extraction, note
from tests.log import sqlite_log
from tests.log.sqlite_log import ENGINE, SqliteLog, add

if "sqlite" not in LOG_ENGINES.names():
    add()  # a package does this by its entry point


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_log, "SYNCHRONOUS", "OFF")


def bytes_of_files(log: EventLog) -> bytes:
    """Return all bytes of a log that is a copy on this machine."""
    return b"".join(path.read_bytes() for path in Path(log.place).iterdir())


def path_of(log: EventLog) -> Path:
    assert isinstance(log, SqliteLog)
    return log.path


class TestSqliteLog(EventLogContract):
    """The engine from outside keeps the contract."""

    engine = ENGINE

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> Iterator[None]:
        self.places = (f"sqlite:{tmp_path / str(number)}.bank" for number in count())
        yield
        self.close_logs()

    def free_place(self) -> str:
        return next(self.places)

    def stored_bytes(self, log: EventLog) -> bytes:
        return path_of(log).read_bytes() if isinstance(log, SqliteLog) else bytes_of_files(log)

    def replace_last_line(self, log: EventLog, line: bytes) -> None:
        line = lines.close_line(line[: -lines.CRC_TAIL], lines.seed_of(log.bank_id))[:-1]
        with closing(sqlite3.connect(path_of(log))) as db, db:
            db.execute("UPDATE events SET line = ? WHERE seq = (SELECT max(seq) FROM events)", (line,))


def test_a_bank_of_an_engine_from_outside(tmp_path: Path) -> None:
    """Everything above the log works with it: items, search, time, replay, differences, erasure, copies, forks."""
    place = f"sqlite:{tmp_path / 'notes'}"
    item = Item.make("Ask for the classes first", "List the classes of the ontology before writing a query.")
    with Bank.create(place) as bank:
        extracted = bank.append(extraction(item))
        assert bank.name == "notes" and bank.position == extracted.last == 3
        bank.append(note("something secret here"))
        with Bank.open(place) as again, again.copy("HEAD~1") as copy, again.fork(f"{place}-trial") as fork:
            assert again.head() == bank.head() and copy.head() == bank.head(3)
            assert again.project().position == 4 and again.replay(3).digests == copy.replay().digests
            assert again.erase(text="something secret here").erasure.places and again.check().texts_erased == 1
            assert again.at(4).difference(2) is not None and not again.search("classes")
            shared = again.common_history(fork)
            assert shared is not None and shared.head == fork.head(4) and fork.absorb(again).erased_since == 1


@pytest.mark.slow
def test_a_bank_is_the_same_in_every_engine(tmp_path: Path) -> None:
    """The same acts at the same times give the same lines, so also the same heads, searches and states."""
    places = (tmp_path / "one-life", "memory:one-life", f"sqlite:{tmp_path / 'one-life.sqlite'}")
    found = [live(place) for place in places]
    assert found[0] == found[1] == found[2]


def live(place: str | Path) -> list[object]:
    """Make a bank at a place, with times and random bytes of its own, and return what can be seen of it."""
    ticks, drawn = count(1_790_000_000_000_000, 1_000_000), count()
    options = {"clock": lambda: next(ticks), "entropy": lambda size: next(drawn).to_bytes(size, "big")}
    with Bank.create(place, **options) as bank:
        first = bank.remember("Ask for the classes", "List them first.")
        bank.remember("Sort by height", "A long content. " * 500, tags=("height",))
        before = bank.search("classes height").hits
        bank.reject(first.item, because="too slow")
        stored = [line.partition(b',"dur":')[0] for line in bank.log.lines()]  # how far a sync went is the engine's
        return [stored, bank.head().digest, before, bank.search("classes height").hits, bank.replay(5).digests]


def test_a_fork_stays_with_the_engine_of_its_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine of files would take any path for one of its own, and `./trial` would then name no bank."""
    monkeypatch.chdir(tmp_path)
    with Bank.create("sqlite:notes") as bank, Bank.create("./kept") as kept:
        for place in ("./trial", "trial", Path("trial"), "memory:trial"):
            with pytest.raises(BadInput, match=r"a fork stays with the log engine of its bank, sqlite:\."):
                bank.fork(place)
        with pytest.raises(BadInput, match=r"of its bank, file:\."):
            kept.fork("sqlite:trial")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "notes"]


def test_a_log_that_was_put_back_is_refused(tmp_path: Path) -> None:
    """By its name: what was acknowledged to a writer is missing, or another event is there; nothing is appended."""
    path, place = tmp_path / "notes", f"sqlite:{tmp_path / 'notes'}"
    log = ENGINE.create(place, [note("one")])
    older = path.read_bytes()
    log.append([note("two")])

    def refused(writer: EventLog) -> None:
        before = list(writer.lines())
        with pytest.raises(LogBehind, match="lacks position 2 as it was acknowledged here"):
            writer.append([note("three")])
        assert list(writer.lines()) == before

    path.write_bytes(older)
    refused(log)
    refused(ENGINE.open(place))
    (log.derived_directory / "acknowledged").unlink()  # as the error advises where the older log is right
    ENGINE.open(place).append([note("another two")])
    refused(log)


def test_a_file_of_another_kind_is_reported_as_damaged(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no database, but long enough to be taken for one " * 20)
    with pytest.raises(LogCorruption, match="file is not a database"):
        Bank.open(f"sqlite:{tmp_path / 'notes'}")


def test_an_engine_from_outside_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """BANK may be a URL of its scheme, for every command; an unknown scheme is refused."""
    place = f"sqlite:{tmp_path / 'notes'}"
    (tmp_path / "events.jsonl").write_text('{"type": "note_logged", "note": "hello"}\n')
    (tmp_path / "items.json").write_text('[{"title": "Ask for the classes", "content": "First."}]')
    for line in (
        ("append", place, str(tmp_path / "events.jsonl"), "--create"),
        ("import", place, str(tmp_path / "items.json")),
        ("fork", f"{place}@HEAD~2", f"{place}-trial"),
        ("verify", f"{place}-trial", "--parent", place),
        ("diff", place, f"{place}-trial"),
        ("verify", place),
        ("log", f"{place}@HEAD"),
        ("project", place),
        ("search", place, "classes"),
        ("replay", place),
    ):
        assert main(list(line)) == 0, line
    assert "made notes: 1 event at position 3" in capfd.readouterr().out
    assert (
        main(["verify", "cupboard:x"]) == 2
        and "no log engine for cupboard:; there are file:, memory:, postgresql:" in capfd.readouterr().err
    )


@pytest.mark.parametrize("command", [("init",), ("append", "--create"), ("import", "--create")])
def test_banks_that_would_be_lost_are_refused(
    command: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A command that only makes a bank makes none in memory: it would end with the command."""
    (tmp_path / "events.jsonl").write_text('{"type": "note_logged", "note": "hello"}\n')
    name, *flags = command
    files = [str(tmp_path / "events.jsonl")] if name != "init" else []
    assert main([name, "memory:x", *files, *flags]) == 2
    assert "would be lost when this command ends" in capfd.readouterr().err


def test_a_wrapper_hands_every_call_on_with_all_that_it_was_given() -> None:
    """Called as their signatures say, so that a method that is added later is covered too."""
    calls: list[tuple[str, list[Any]]] = []

    class Recorder:
        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *given, **named: calls.append((name, [*given, *named.values()]))

    wrapper = LogWrapper(cast("EventLog", Recorder()))
    methods = {name: each for name, each in vars(LogWrapper).items() if isfunction(each) and name[0] != "_"}
    for name, method in methods.items():
        parameters = list(signature(method).parameters.values())[1:]
        first = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        named = {each.name: each.name for each in parameters if each.name not in first}
        getattr(wrapper, name)(*first, **named)
        assert calls.pop() == (name, [*first, *named]) and not calls
    assert {"append", "close", "sync"} <= methods.keys()


def test_nothing_above_the_log_knows_an_engine() -> None:
    """No module outside of `rbank_es/log` imports an engine, or the words of its format."""
    root = Path(__file__).resolve().parents[2]
    files = [path for top in ("rbank_es", "lab", "projections", "tools") for path in (root / top).rglob("*.py")]
    outside = [path for path in files if not path.is_relative_to(root / "rbank_es" / "log")]
    engines = (
        "rbank_es.log.file",
        "rbank_es.log.memory",
        "FileLog",
        "MemoryLog",
        "SegmentCorruption",
        '"derived.lock"',
    )
    assert len(outside) > 200
    assert [path for path in outside if any(name in path.read_text(encoding="utf-8") for name in engines)] == []
