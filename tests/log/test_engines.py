"""A log engine from outside the package: one file, registered under the scheme of its URLs, proved by the contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from inspect import Parameter, isfunction, signature
from pathlib import Path
from typing import Any, cast

import pytest

from rbank_es import Bank
from rbank_es.cli import main
from rbank_es.errors import BadBankName, BankExists, BankNotFound
from rbank_es.events.event import Event
from rbank_es.events.items import Item
from rbank_es.log import ANY, EMPTY, LOG_ENGINES, Appended, Erasing, Erasure, EventLog, Expected, LogWrapper
from rbank_es.log import lines as line_format
from rbank_es.log.memory.memory_log import MemoryLog
from rbank_es.log.memory.memory_store import MemoryStore
from rbank_es.testing import Clock, EventLogContract, extraction, note

# ---------------------------------------------------------------- the engine: lines of JSON in a SQLite file


class ShelfLog(LogWrapper):
    """A log whose lines are rows of a SQLite file; one process at a time, which is enough to show the seam."""

    def __init__(self, path: Path, log: MemoryLog) -> None:
        super().__init__(log)
        self.path, self.memory = path, log

    @property
    def place(self) -> str:
        return f"shelf:{self.path}"

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        with self.memory.store.changed:  # one writer at a time, until its lines are in the file
            done = super().append(events, expected=expected)
            self.save()
            return done

    def erase(self, what: Erasing, **options: Any) -> Erasure:
        with self.memory.store.changed:
            done = super().erase(what, **options)
            self.save()
            return done

    def save(self) -> None:
        store = self.memory.store
        rows = [*store.texts.values(), *store.events]
        with closing(sqlite3.connect(self.path)) as file, file:
            file.execute("PRAGMA secure_delete = ON")
            file.execute("CREATE TABLE IF NOT EXISTS lines (bank, line)")
            file.execute("DELETE FROM lines")
            file.executemany("INSERT INTO lines VALUES (?, ?)", [(store.bank_id, row) for row in rows])


class ShelfEngine:
    """The engine of `shelf:PATH`."""

    outlives_process = True

    def __init__(self) -> None:
        self.stores: dict[str, MemoryStore] = {}

    def name_of(self, locator: str) -> str:
        if not locator.removeprefix("shelf:"):
            raise BadBankName(locator, "a path must come behind shelf:")
        return self.path_of(locator).stem

    def path_of(self, locator: str) -> Path:
        return Path(locator.removeprefix("shelf:"))

    def open(self, locator: str, **options: Any) -> ShelfLog:
        path = self.path_of(locator)
        if not path.exists():
            raise BankNotFound(locator)
        if (store := self.stores.get(str(path))) is None:
            with closing(sqlite3.connect(path)) as file:
                rows = list(file.execute("SELECT bank, line FROM lines"))
            store = self.stores[str(path)] = MemoryStore(rows[0][0])
            store.add(b"".join(line + b"\n" for _, line in rows), {})
        return ShelfLog(path, MemoryLog(store, **options))

    def create(
        self,
        locator: str,
        events: Sequence[Event] = (),
        *,
        fill: Callable[[EventLog], object] | None = None,
        **options: Any,
    ) -> ShelfLog:
        path = self.path_of(locator)
        if path.exists():
            raise BankExists(locator)
        made = MemoryLog(MemoryStore(path.stem.encode().hex().ljust(32, "0")), **options)
        if events:
            made.append(events, expected=EMPTY)
        if fill is not None:
            fill(made)
        self.stores[str(path)] = made.store
        log = ShelfLog(path, made)
        log.save()
        return log


ENGINE = ShelfEngine()
if "shelf" not in LOG_ENGINES.names():
    LOG_ENGINES.add("shelf", ENGINE)  # a plugin does this in the function that its entry point names


# ---------------------------------------------------------------- its proof, and its use


class TestShelfLog(EventLogContract):
    """The engine from outside keeps the contract."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> Iterator[None]:
        self.tmp_path, self.made = tmp_path, 0
        yield

    def make_log(self, clock: Clock | None = None) -> ShelfLog:
        self.made += 1
        return ENGINE.create(f"shelf:{self.tmp_path / str(self.made)}", **({"clock": clock} if clock else {}))

    def reopen(self, log: EventLog, clock: Clock | None = None) -> ShelfLog:
        return ENGINE.open(log.place, **({"clock": clock} if clock else {}))

    def stored_bytes(self, log: EventLog) -> bytes:
        return Path(log.place.removeprefix("shelf:")).read_bytes()

    def replace_last_line(self, log: EventLog, line: bytes) -> None:
        assert isinstance(log, ShelfLog)
        store = log.memory.store
        store.events[-1] = line_format.close_line(line[: -line_format.CRC_TAIL], store.seed)[:-1]


def test_a_bank_of_an_engine_from_outside(tmp_path: Path) -> None:
    """Everything above the log works with it: items, search, time, replay, differences, erasure, copies."""
    place = f"shelf:{tmp_path / 'notes'}"
    item = Item.make("Ask for the classes first", "List the classes of the ontology before writing a query.")
    with Bank.create(place) as bank:
        extracted = bank.append(extraction(item))
        assert bank.name == "notes" and bank.position == extracted.last == 3
        bank.append(note("something secret here"))
        ENGINE.stores.clear()
        with Bank.open(place) as again, again.copy("HEAD~1") as copy:
            assert again.head() == bank.head() and copy.head() == bank.head(3)
            assert again.project().position == 4 and again.replay(3).digests == copy.replay().digests
            assert again.erase(text="something secret here").places and again.verify().log.erased == 1
            assert again.diff(2, 4) is not None and again.search("classes") == []


def test_an_engine_from_outside_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """BANK may be a URL of its scheme, for every command; an unknown scheme is refused."""
    place = f"shelf:{tmp_path / 'notes'}"
    (tmp_path / "events.jsonl").write_text('{"type": "note_logged", "note": "hello"}\n')
    for line in (
        ("append", place, str(tmp_path / "events.jsonl"), "--create"),
        ("verify", place),
        ("log", f"{place}@HEAD"),
        ("project", place),
        ("replay", place),
    ):
        assert main(list(line)) == 0, line
    assert "made notes: 1 event at position 3" in capfd.readouterr().out
    assert (
        main(["verify", "cupboard:x"]) == 2
        and "no log engine for cupboard:; there are file:, memory:" in capfd.readouterr().err
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
    files = [path for top in ("rbank_es", "projections", "tools") for path in (root / top).rglob("*.py")]
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
