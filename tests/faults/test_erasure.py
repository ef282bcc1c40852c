"""Erasure under way when others read, write, verify, or when it dies."""

from __future__ import annotations

import json
import random
import shutil
import threading
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import BadInput, LogFailed, LogUnavailable
from rbank_es.events import Erased, Event, LmCalled, NoteLogged, ToolCalled, type_of
from rbank_es.events.codec import TYPES
from rbank_es.events.items import Item
from rbank_es.log import Erasing, Head
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import SECRET, extraction, forms_of, note, raises, run
from tests.faults.disk import Disk, broken, calls_of, dying, no_space
from tests.places import derived

# Banks come back to their places here, and the sweep of another process may take the cache of one that is away.
pytestmark = pytest.mark.usefixtures("own_cache")
WHAT = Erasing(words=(SECRET,))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_400)
    monkeypatch.setattr(limits, "INLINE_TEXT_BYTES", 300)


@pytest.fixture(scope="module")
def secretive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of several segments that holds the secret in many forms; to be copied."""
    place = tmp_path_factory.mktemp("secretive") / "bank"
    inside = json.dumps({"said": SECRET, "deep": json.dumps({"again": SECRET})})
    item = Item.make("A title long enough", f"First, {SECRET}. Then go on. " * 20)
    groups: list[list[Event]] = [
        [run("r", f"Remember: {SECRET}"), note("harmless")],
        [note(inside), ToolCalled(run="r", tool="t", arguments=inside, result=f"{SECRET} or not " * 50)],
        [extraction(item, Item.make("Another title", "harmless content")), note("x" * 700)],
        [LmCalled(role="agent", model="m", request=json.dumps([{"content": SECRET * 30}])), note("y" * 700)],
        [run("r2", "Something else"), note(f"{'z' * 70} {SECRET} {'z' * 700}"), note("the end")],
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SEGMENT_BYTES", 1_400)
        patch.setattr(limits, "INLINE_TEXT_BYTES", 300)
        with FileLog.create(place) as log:
            for group in groups:
                log.append(group)
    return place


def opened(place: Path) -> FileLog:
    return FileLog.open(place, calls=Disk())  # it doesn't wait for a real disk


def copied(secretive: Path, place: Path) -> tuple[Path, list[Head]]:
    shutil.copytree(secretive, place)
    shutil.rmtree(derived(place))  # of an earlier copy there, which an erasure made longer
    with opened(place) as log:
        noted = [log.head(seq) for seq in range(log.position() + 1)]
    return place, noted


def remove(place: Path) -> None:
    """With what was derived of it, because an erasure looks through what all copies of a bank have derived."""
    shutil.rmtree(derived(place))
    shutil.rmtree(place)


def all_bytes(place: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in place.rglob("*") if path.is_file())


def check_erased(place: Path, noted: list[Head]) -> None:
    stored = all_bytes(place)
    assert not [form for form in forms_of(SECRET) if form in stored]
    with opened(place) as log:
        assert log.verify(noted).erased > 0
        assert [log.head(head.seq) for head in noted] == noted
        assert [event.seq for event in log.read(resolve=TYPES)] == list(range(1, log.position() + 1))
        recorded = [event for event in log.read() if type_of(event) == "content_erased"]
        assert len(recorded) == 1 and log.erasures() == recorded[0].seq
        again = log.erase(WHAT)
        assert (again.places, again.texts, again.appended) == ((), (), None)
    assert not (place / "ERASING").exists()
    assert not [path for path in place.glob(".*")]


class TestCrashed:
    """An eraser that dies leaves its work to the next writer."""

    def erase_on(self, disk: Disk, place: Path) -> None:
        FileLog.open(place, calls=disk).erase(WHAT, reason="asked for")

    @pytest.mark.slow
    def test_at_every_system_call(self, secretive: Path, tmp_path: Path) -> None:
        """Either nothing of it happened, or one append by anybody completes it."""
        copied(secretive, tmp_path / "whole")
        count = calls_of(lambda disk: self.erase_on(disk, tmp_path / "whole"))
        assert count > 30
        begun = 0
        for number in range(1, count + 1):
            place, noted = copied(secretive, tmp_path / f"crash-{number}")
            with dying():
                self.erase_on(Disk(die_at=number), place)
            begun += (place / "ERASING").exists()
            with opened(place) as log:
                log.append([note("the next writer")])
                assert log.verify(noted).head == log.head()
                recorded = any(type_of(event) == "content_erased" for event in log.read())
            if not recorded:
                with opened(place) as log:
                    log.erase(WHAT)
            check_erased(place, noted)
            remove(place)
        assert begun > 25

    @pytest.mark.slow
    def test_again_while_it_is_completed(self, secretive: Path, tmp_path: Path) -> None:
        """A writer that completes it may die as well, any number of times, anywhere."""
        chance = random.Random(7)
        for number in range(30):
            place, noted = copied(secretive, tmp_path / f"crash-{number}")
            with dying():
                self.erase_on(Disk(die_at=8 + number % 20), place)
            for _ in range(4):
                with dying():
                    FileLog.open(place, calls=Disk(die_at=chance.randint(1, 25))).append([note("x")])
            with opened(place) as log:
                log.append([note("the last writer")])
                if not any(type_of(event) == "content_erased" for event in log.read()):
                    log.erase(WHAT)
            check_erased(place, noted)
            remove(place)

    @pytest.mark.slow
    def test_readers_meanwhile(self, secretive: Path, tmp_path: Path) -> None:
        """Whatever an eraser left half done, readers and `verify` find a sound log, and change nothing."""
        for number in range(1, 40, 2):
            place, noted = copied(secretive, tmp_path / f"crash-{number}")
            with dying():
                self.erase_on(Disk(die_at=number), place)
            before = {path: path.read_bytes() for path in place.glob("*") if path.is_file()}
            reader = FileLog.open(place)
            assert reader.verify(noted).events == reader.position()
            assert len(list(reader.read(resolve=TYPES))) == reader.position()
            assert [reader.head(head.seq) for head in noted] == noted
            assert {path: path.read_bytes() for path in place.glob("*") if path.is_file()} == before
            remove(place)

    @pytest.mark.slow
    def test_refused_by_the_system(self, secretive: Path, tmp_path: Path) -> None:
        """A full or failing disk at any call: an error in words; later, when it works again, it is completed."""
        copied(secretive, tmp_path / "whole")
        count = calls_of(lambda disk: self.erase_on(disk, tmp_path / "whole"))
        for number in range(1, count + 1):
            place, noted = copied(secretive, tmp_path / f"refused-{number}")
            disk = Disk()
            error = broken if number % 2 else no_space
            disk.fail = lambda name, call, number=number, error=error: error() if call >= number else None  # type: ignore[misc]
            log = FileLog.open(place, calls=disk)
            with pytest.raises((LogUnavailable, LogFailed)):
                log.erase(WHAT)
            disk.fail = lambda name, call: None
            log.verify(noted)
            log.append([note("it works again")])
            if not any(type_of(event) == "content_erased" for event in log.read()):
                log.erase(WHAT)
            check_erased(place, noted)
            remove(place)


class TestMeanwhile:
    """Others that have the bank open while it is erased."""

    @pytest.mark.slow
    def test_reader_in_the_middle(self, secretive: Path, tmp_path: Path) -> None:
        """A reader that had begun goes on: every event once, in order, each text as it was or erased, never wrong."""
        place, _ = copied(secretive, tmp_path / "bank")
        with opened(place) as log:
            plain = [event.id for event in log.read()]
            texts = {event.seq: event for event in log.read(resolve=TYPES)}
        for stop in range(1, len(plain)):
            shutil.rmtree(place)
            copied(secretive, place)
            reader = FileLog.open(place)
            events = reader.read(resolve=TYPES)
            seen = [next(events) for _ in range(stop)]
            with opened(place) as log:
                log.erase(WHAT)
            seen += list(events)
            assert [event.id for event in seen][: len(plain)] == plain
            assert [event.seq for event in seen] == list(range(1, len(plain) + 2))
            for event in seen[:-1]:
                for name in event.__struct_fields__:
                    value, before = getattr(event, name), getattr(texts[event.seq], name)
                    if name not in ("salt", "crc", "candidates"):
                        assert value == before or isinstance(value, Erased)

    @pytest.mark.slow
    def test_handles_of_long_life(self, secretive: Path, tmp_path: Path) -> None:
        """A process that had read and written everything finds its way after several erasures."""
        place, noted = copied(secretive, tmp_path / "bank")
        old = FileLog.open(place)
        for event in old.read(resolve=TYPES):
            old.head(event.seq)
        old.append([note("mine", 1)])
        noted.append(old.head())
        for words in (SECRET, "harmless content", "Something else", "x" * 700):
            with opened(place) as other:
                assert other.erase(Erasing(words=(words,))).places
                noted.append(other.head())
            assert [event.seq for event in old.read(resolve=TYPES)] == list(range(1, old.position() + 1))
            assert [old.head(head.seq) for head in noted] == noted
            for after in range(0, old.position(), 3):
                assert next(old.read(after=after, resolve=TYPES)).seq == after + 1
            assert old.append([note("mine", 1)]).duplicate
            old.append([note("more")])
            assert old.verify(noted).events == old.position()
        assert SECRET.encode() not in all_bytes(place)

    @pytest.mark.slow
    def test_storm(self, secretive: Path, tmp_path: Path) -> None:
        """Erasers, writers, readers and verifiers at once: nothing is lost, nothing looks wrong, all is erased."""
        place, noted = copied(secretive, tmp_path / "bank")
        done, problems = threading.Event(), list[BaseException]()
        # So many in each round: on a busy machine a writer without pause leaves the eraser ever more to search.
        turns = threading.Semaphore(0)

        def guarded(work: object) -> None:
            try:
                while not done.is_set():
                    work()  # type: ignore[operator]
            except BaseException as error:
                problems.append(error)
                done.set()

        reader, checker, writer = (FileLog.open(place) for _ in range(3))

        def write() -> None:
            if turns.acquire(timeout=0.01):
                writer.append([note("written meanwhile " * 9), note("w")])

        def read() -> None:
            events = list(reader.read(resolve=TYPES))
            assert [event.seq for event in events] == list(range(1, len(events) + 1))

        threads = [
            threading.Thread(target=guarded, args=(work,)) for work in (read, lambda: checker.verify(noted), write)
        ]
        for thread in threads:
            thread.start()
        with opened(place) as log:
            for number in range(12):
                secret = f"secret of round {number}, {SECRET}"
                turns.release(10)
                log.append([note(secret), note(f"{secret} " * 20)])
                assert len(log.erase(Erasing(words=(secret,))).places) >= 2
            log.erase(WHAT)
        done.set()
        for thread in threads:
            thread.join()
        assert not problems, problems
        with opened(place) as log:
            assert log.verify(noted).events == log.position()
        stored = all_bytes(place)
        assert not [form for form in forms_of(SECRET) if form in stored]


class TestEverywhere:
    """Where texts hide."""

    def test_derived_files_are_cleared(self, secretive: Path, tmp_path: Path) -> None:
        """Whatever lay among the derived files goes: indexes, read models, folders."""
        place, noted = copied(secretive, tmp_path / "bank")
        for name in ("projections.sqlite", "projections.sqlite-wal", "cache/deep/file", "anything.tmp"):
            path = derived(place) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"a copy of it: {SECRET}")
        with opened(place) as log:
            log.erase(WHAT)
        check_erased(place, noted)

    @pytest.mark.slow
    def test_torn_tail_is_swept(self, secretive: Path, tmp_path: Path) -> None:
        """A text that only an interrupted append left behind is gone after an erasure, listed or not."""
        place, noted = copied(secretive, tmp_path / "bank")
        line = (
            b'{"type":"note_logged","seq":99,"note":"%b and more","more":0,"dur":0,"crc":"00000000"}' % SECRET.encode()
        )
        for tail in (line, line + b"\n", b"garbage " + SECRET.encode() + b"\n" + line[:60]):
            shutil.rmtree(place)
            copied(secretive, place)
            with max(place.glob("*.jsonl")).open("ab") as file:
                file.write(tail)
            with opened(place) as log:
                would = log.erase(WHAT, dry_run=True)
                assert would.places == log.erase(WHAT).places
            check_erased(place, noted)

    def test_left_over_scratch_files_are_swept(self, secretive: Path, tmp_path: Path) -> None:
        """Scratch files that dead processes left beside the segments are swept as well."""
        place, noted = copied(secretive, tmp_path / "bank")
        (place / f".00000000000000000001.jsonl.{'0' * 32}.tmp").write_text(f"a half rewritten segment: {SECRET}")
        (place / f".ERASING.{'1' * 32}.tmp").write_text(f"another: {SECRET}")
        with opened(place) as log:
            log.erase(WHAT)
        check_erased(place, noted)

    def test_many_places(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """More places than one event can list are recorded by several, and all are gone."""
        monkeypatch.setattr(limits, "ERASED_UNITS", 7)
        place = tmp_path / "bank"
        with FileLog.create(place) as log:
            log.append([note(f"{SECRET} {number}") for number in range(40)])
            noted = [log.head()]
            erasure = log.erase(WHAT)
            assert len(erasure.places) == 40 and erasure.appended is not None
            assert erasure.appended.last - erasure.appended.first == 5
            log.append([note("x" * 900)] * 3)
            assert log.verify(noted).erased == 40 and log.erasures() == erasure.appended.last
        assert SECRET.encode() not in all_bytes(place)

    def test_reason_may_not_say_it_in_another_form(self, tmp_path: Path) -> None:
        """Nor may who asked for it."""
        with FileLog.create(tmp_path / "bank") as log:
            log.append([note(SECRET)])
            for words in ({"reason": json.dumps(SECRET)}, {"by": SECRET}):
                with raises(BadInput):
                    log.erase(WHAT, **words)  # type: ignore[arg-type]
            assert log.position() == 1


def test_dead_bytes(secretive: Path, tmp_path: Path) -> None:
    """The means of these tests: before an erasure, the bytes are found."""
    place, _ = copied(secretive, tmp_path / "bank")
    assert any(form in all_bytes(place) for form in forms_of(SECRET))


def holding(log: FileLog, text: str) -> int:
    """How many segments of a log hold a text."""
    return sum(text.encode() in path.read_bytes() for path in log.directory.glob("*.jsonl"))


def test_a_text_that_runs_share_goes_from_the_segments_of_the_one_that_is_erased(tmp_path: Path) -> None:
    """A long text is stored once per segment: the copy that only the erased run names goes, the other's stays."""
    shared = "how to go about it, " * 30
    with FileLog.create(tmp_path / "bank") as log:
        log.append([run("a", "Which?"), note(shared, run="a")])
        for _ in range(3):
            log.append([note("x" * 700)])
        log.append([run("b", "Who?"), note(shared, run="b")])
        assert holding(log, shared) == 2
        erasure = log.erase(Erasing(events=frozenset({1, 2}), run="a"))
        assert (erasure.shared, len(erasure.texts)) == (1, 1)
        assert holding(log, shared) == 1
        told = [event.note for event in log.read(resolve=TYPES) if isinstance(event, NoteLogged) and event.run]
        assert isinstance(told[0], Erased) and told[1] == shared
        assert log.verify().head == log.head()
