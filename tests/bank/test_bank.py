"""The bank: making, appending, time, replaying, searching, following, erasing, closing."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rbank_es
from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import (
    BadBankName,
    BadEvent,
    BadInput,
    BadPoint,
    BankExists,
    BankNotFound,
    CheckFailed,
    DuplicateEvent,
    LimitExceeded,
    NotInBank,
    PositionConflict,
)
from rbank_es.events import (
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    NoteLogged,
    RunFinished,
    RunStarted,
)
from rbank_es.events.items import Item
from rbank_es.law import fold
from rbank_es.log import EMPTY, Head
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import SECRET, event_id, forms_of, note
from tests.faults.disk import Quick

CLASSES = Item.make("Ask for the classes first", "List the classes of the ontology before writing a query.")
LIMIT = Item.make("Always set a LIMIT", "A query without LIMIT may return everything.", src="failure", domain="prov")
LABELS = Item.make("Look up labels", f"Resolve each IRI to its label. {'Then compare. ' * 300}")


def learned(*items: Item, number: int) -> list[Event]:
    extraction = event_id(number)
    facts = {"heads": tuple(item.head for item in items), "candidates": tuple(item.text for item in items)}
    decisions = tuple(Decision(candidate=index, action="add", item=item.id) for index, item in enumerate(items))
    return [
        MemoriesExtracted(id=extraction, kind="manual", **facts),
        MemoriesConsolidated(extraction=extraction, policy="append-1", decisions=decisions),
    ]


NUMBERS = count()


@pytest.fixture(params=["file", "memory"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    """A bank of each engine: whatever is tested with it holds for both."""
    if request.param == "memory":
        with Bank.create(f"memory:bank-{next(NUMBERS)}") as made:
            yield made
    else:
        with Bank.create(tmp_path / "bank", calls=Quick()) as made:
            yield made


def locator_of(bank: Bank) -> str:
    return f"memory:{bank.name}" if bank.place.startswith("memory:") else bank.place


def files_of(bank: Bank) -> list[bytes]:
    """The bytes of all files that the bank has."""
    places = {bank.log.derived_directory} | ({Path(bank.place)} if not bank.place.startswith("memory:") else set())
    return [path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()]


@pytest.fixture
def lively(bank: Bank) -> Bank:
    """Two items at 4, a run that used one at 5 to 7, a third item at 9, one forgotten at 10."""
    bank.append(learned(CLASSES, LIMIT, number=1))
    bank.append(
        [
            RunStarted(run="r1", task="Which classes are there?"),
            MemoriesRead(run="r1", ids=(CLASSES.id,), how="get", chars=10),
            RunFinished(run="r1", outcome="submitted", iterations=2, answer="x" * 5_000),
        ]
    )
    bank.append(learned(LABELS, number=2))
    bank.append(MemoriesForgotten(ids=(LIMIT.id,), policy="bounded-1"))
    return bank


class TestMaking:
    """Where there is a bank, and where there isn't."""

    def test_exists(self, bank: Bank, tmp_path: Path) -> None:
        """A bank, a file, or a directory with other files is left as it is."""
        before = bank.head()
        with pytest.raises(BankExists):
            Bank.create(locator_of(bank))
        assert bank.head() == before
        (tmp_path / "file").write_text("mine")
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "notes").write_text("mine")
        for name in ("file", "full"):
            with pytest.raises(BankExists):
                Bank.create(tmp_path / name)
        assert (tmp_path / "file").read_text() == (tmp_path / "full" / "notes").read_text() == "mine"
        (tmp_path / "empty").mkdir()
        Bank.create(tmp_path / "empty" / "deep" / "deeper" / "bank").close()

    def test_maker_got_no_further(self, tmp_path: Path) -> None:
        """Where a maker died, or was refused, before the first event, the bank can still be made."""
        with pytest.raises(BadEvent):
            Bank.create(tmp_path / "refused", purpose="\ud800")
        FileLog.create(tmp_path / "died").close()
        (tmp_path / "early").mkdir()
        (tmp_path / "early" / f".00000000000000000001.jsonl.{'0' * 32}.tmp").write_text("{")
        for name in ("refused", "died", "early"):
            with Bank.create(tmp_path / name) as bank:
                assert bank.position == 2 and bank.check().events == 2

    def test_not_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is no bank is said with what to do; a name that can't be one as well; nothing is made."""
        for place in (tmp_path / "none", tmp_path, tmp_path / "none" / "deeper"):
            with pytest.raises(BankNotFound, match="rbank-es init"):
                Bank.open(place)
        monkeypatch.setenv("RBANK_HOME", str(tmp_path / "home"))
        with pytest.raises(BankNotFound):
            Bank.open("name")
        with pytest.raises(BadBankName):
            Bank.open("bad name")
        assert list(tmp_path.iterdir()) == []
        Bank.create("name").close()
        assert (tmp_path / "home" / "name").is_dir()


class TestAppending:
    """Events, or the JSON of them."""

    def test_refusals(self, bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever is refused leaves the bank as it was."""
        bank.append(note("known", 1))
        before = bank.head(), list(bank.log.lines())
        monkeypatch.setattr(limits, "GROUP_EVENTS", 3)
        refused: list[tuple[Any, Any, type[Exception]]] = [
            ([], {}, BadEvent),
            ({}, {}, BadEvent),
            ([note("x"), {"type": "nothing"}], {}, BadEvent),
            ([note("x")] * 4, {}, LimitExceeded),
            (note("other", 1), {}, DuplicateEvent),
            ([note("known", 1), note("new", 2)], {}, DuplicateEvent),
            (note("x"), {"expected": 2}, PositionConflict),
            (note("x"), {"expected": EMPTY}, PositionConflict),
            ({"type": "content_erased", "units": []}, {}, BadEvent),
        ]
        for events, options, error in refused:
            with pytest.raises(error):
                bank.append(events, **options)
            assert (bank.head(), list(bank.log.lines())) == before


class TestReading:
    """Events and texts."""

    def test_heads_and_times(self, lively: Bank) -> None:
        """A head at any point; the time of any position."""
        assert lively.head("HEAD~2") == lively.head(8) == lively.log.head(8)
        assert lively.head() == lively.head("HEAD") and lively.head(0) == Head(0, "0" * 64)
        assert lively.time_at(3) == next(lively.events(after=2)).at and lively.time_at(0) == ""
        assert lively.event_at(3) == next(lively.events(after=2))
        for nowhere in (lively.position + 1, 0, -1):
            with pytest.raises(BadPoint):
                lively.event_at(nowhere)
        for point in (11, "HEAD~11", "no such run"):
            with pytest.raises(BadPoint):
                lively.head(point)


class TestTime:
    """State, replay, views, differences."""

    def test_replay(self, lively: Bank, tmp_path: Path) -> None:
        """Position, time, state and digests; into a file, which is never overwritten unasked."""
        into, seen = tmp_path / "then.sqlite", list[tuple[int, int]]()
        replayed = lively.replay("r1", into=into, progress=lambda done, total: seen.append((done, total)))
        assert (replayed.position, replayed.at) == (4, lively.time_at(4)) and into.exists() and seen
        assert replayed.digests == lively.replay(4).digests != lively.replay().digests
        before = into.read_bytes()
        with pytest.raises(BadInput, match="--force"):
            lively.replay(into=into)
        assert into.read_bytes() == before
        opened = len(list(Path("/proc/self/fd").iterdir()))
        lively.replay(into=into, force=True)
        assert len(list(Path("/proc/self/fd").iterdir())) == opened
        with pytest.raises(BadInput, match="not a directory"):
            lively.replay(into=tmp_path / "none" / "file")


class TestItems:
    """Searching, getting, quoting."""

    def test_search(self, lively: Bank) -> None:
        """Best first, at any point, filtered; forgotten items are found only where they were active."""
        assert [hit.id for hit in lively.search("which classes has the ontology?", 5)] == [CLASSES.id]
        then = lively.at("HEAD~1")
        assert not lively.search("LIMIT", 5)
        assert [hit.id for hit in then.search("LIMIT", 5)] == [LIMIT.id]
        assert [hit.id for hit in lively.search("a query", 5)] == [CLASSES.id]
        assert [hit.id for hit in then.search("a query", 5)] == [LIMIT.id, CLASSES.id]
        assert not then.search("a query", 5, polarity="success", role="planner")
        assert [hit.id for hit in lively.at(4).search("query", 5, polarity="failure")] == [LIMIT.id]
        assert not lively.at(2).search("classes", 5)

    def test_get(self, lively: Bank) -> None:
        """Items in full, in the order asked for, whatever became of them, as they were extracted."""
        assert lively.get([LABELS.id, LIMIT.id]) == [LABELS, LIMIT]
        assert lively.get(LABELS.id) == [LABELS]
        with pytest.raises(LimitExceeded, match="max_n"):
            lively.get(["a", "b", "c", "d"])
        assert lively.get([CLASSES.id] * 4, max_n=4) == [CLASSES] * 4
        for ids, point in (([LABELS.id], 4), (["nothing"], None)):
            with pytest.raises(NotInBank):
                lively.get(ids, point=point)

    def test_quote(self, lively: Bank) -> None:
        """The beginning of the content, never more than asked for, marked where it was cut."""
        assert lively.quote(CLASSES.id) == CLASSES.content
        quoted = lively.quote(LABELS.id, 40)
        assert len(quoted) <= 40 and quoted.endswith("…") and LABELS.content.startswith(quoted[:-1])
        with pytest.raises(BadInput):
            lively.quote(CLASSES.id, 0)


class TestFollowing:
    """Events as they come."""

    def test_follow(self, bank: Bank) -> None:
        """What is appended from now on, by whichever handle, of the types asked for, until it is stopped."""
        stop, seen = threading.Event(), list[str]()

        def follow() -> None:
            for event in bank.follow(types=("note_logged",), stop=stop):
                assert isinstance(event, NoteLogged)
                seen.append(str(event.note))
                if len(seen) == 3:
                    stop.set()

        thread = threading.Thread(target=follow)
        thread.start()
        with Bank.open(locator_of(bank)) as other:
            for number in range(200):
                other.append([note(f"{number}"), RunStarted(run="r")])
                if stop.wait(0.05):
                    break
        thread.join(60)
        assert not thread.is_alive() and len(seen) == 3
        assert [int(text) for text in seen] == list(range(int(seen[0]), int(seen[0]) + 3))


class TestCheckingAndErasing:
    """Proving, and forgetting for good."""

    def test_verify(self, lively: Bank) -> None:
        """Noted heads hold, or don't."""
        noted = [lively.head(seq) for seq in (0, 5, 10)]
        seen = lively.check(noted=noted)
        assert (seen.events, seen.head, seen.retrievals) == (10, str(noted[-1]), None)
        with pytest.raises(CheckFailed):
            lively.check(noted=[Head(5, "ab" * 32)])

    @pytest.mark.slow
    @pytest.mark.parametrize("how", ["event", "item", "run", "text"])
    def test_erase(self, lively: Bank, how: str) -> None:
        """An event's, an item's, a run's texts, or a text: gone everywhere, read models included; heads hold."""
        secret = Item.make("The vault", f"{SECRET}, every time")
        lively.append(learned(secret, number=7))
        lively.append([RunStarted(run="r9", task=SECRET), note(f"they said: {SECRET}", run="r9")])
        lively.project()
        lively.search("vault")
        noted = [lively.head(seq) for seq in range(lively.position + 1)]
        named: dict[str, Any] = {"event": 13, "item": secret.id, "run": "r9", "text": SECRET}
        would = lively.erase(**{how: named[how]}, dry_run=True)
        did = lively.erase(**{how: named[how]}, reason="asked for")
        assert would.erasure.places == did.erasure.places and did.recorded and not would.recorded
        if how == "item":  # its words are a sentence; what else holds a part of it is not meant
            lively.erase(text=SECRET)
        else:
            stored = b"\n".join([*lively.log.lines(), *files_of(lively)])
            assert not [form for form in forms_of(SECRET) if form in stored]
        assert lively.check(noted=noted).texts_erased >= 1
        with lively.as_of() as view:
            assert view.position == lively.position
            assert SECRET not in repr([view.rows(name) for name in ("items", "runs")])
        assert SECRET not in repr(list(lively.events(resolve=True)))

    def test_bad_erasures(self, lively: Bank) -> None:
        """Exactly one thing that exists must be named; else nothing happens."""
        before = lively.head()
        wrong: list[tuple[dict[str, Any], type[Exception]]] = [
            ({}, BadInput),
            ({"event": 1, "run": "r1"}, BadInput),
            ({"event": 11}, NotInBank),
            ({"event": -1}, NotInBank),
            ({"item": "nothing"}, NotInBank),
            ({"run": "nothing"}, NotInBank),
            ({"text": "short"}, BadInput),
        ]
        for named, error in wrong:
            with pytest.raises(error):
                lively.erase(**named)
        assert lively.erase(text="words that stand nowhere").erasure.places == ()
        assert lively.head() == before


def test_closed_bank_opens_again_when_used(lively: Bank) -> None:
    """`close` lets go of files and read models; the bank may still be used."""
    lively.search("classes")
    lively.close()
    lively.close()
    assert lively.search("classes") and lively.append(note("again")).last == 11
    assert repr(lively) == f"Bank({lively.place!r})"


@pytest.mark.slow
def test_bank_that_nobody_closed_leaves_no_descriptor_open(lively: Bank) -> None:
    """A long process may open thousands of banks, and forget to close them."""
    lively.search("classes")

    def use() -> None:
        bank = Bank.open(locator_of(lively))
        bank.append(note("one more"))
        bank.search("classes")

    def count_open() -> int:
        use()
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    assert count_open() == count_open() == count_open()


def test_public_names() -> None:
    """The package gives its names on first use, and no others."""
    assert rbank_es.Bank is Bank and rbank_es.Item is Item and rbank_es.fold is fold
    assert set(rbank_es.__all__) <= set(dir(rbank_es))
    with pytest.raises(AttributeError):
        _ = rbank_es.nothing
    assert msgspec.json.encode(Head(1, "a")) == b'{"seq":1,"digest":"a"}'


@pytest.mark.parametrize("into", [None, "memory:into-", "file"])
def test_copies(lively: Bank, tmp_path: Path, into: str | None) -> None:
    """A copy is the bank as it was at a point, kept by any engine; it is written to without the bank."""
    place = {None: None, "file": tmp_path / "copy"}.get(into, f"{into}{lively.name}")
    with lively.copy("HEAD~2", place) as copy:
        assert copy.head() == lively.head("HEAD~2") and copy.replay().digests == lively.replay("HEAD~2").digests
        copy.append(note("only here"))
        in_memory, kept = copy.place.startswith("memory:"), Path(copy.place)
    assert lively.position == 10 and (in_memory or kept.exists() == (into is not None))
