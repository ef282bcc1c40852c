"""What can befall the file of read models: checkpoints that don't fit, damage, crashes, and company."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import msgspec
import pytest

from rbank_es.errors import LogCorruption, ProjectionError
from rbank_es.events import Erased, Event, MemoriesExtracted, MemoriesForgotten, RunStarted, ToolCalled
from rbank_es.events.items import Item
from rbank_es.projections import all_projections, builder
from rbank_es.projections.read_models import Applied, ReadModels, rebuild
from tests.effort import one_in
from tests.fakes import FakeLog, dump, shown
from tests.projections.test_search import born
from tests.strategies import stamped

ROOT = Path(__file__).parents[2]
SECRET = "xylophone"


def story(chapters: int) -> list[Event]:
    """A bank that learns two items a chapter and forgets every third of the older ones."""
    events: list[Event] = []
    for n in range(chapters):
        items = [Item.make(f"{SECRET} title {n} {m}", f"content {n} {m} of taxa", id=f"i{n}-{m}") for m in range(2)]
        events += [RunStarted(run=f"r{n}"), ToolCalled(run=f"r{n}", tool="t", chars=n), *born(items, f"e{n}")]
        if n % 3 == 2:
            events.append(MemoriesForgotten(ids=(f"i{n - 1}-0",), policy="bounded-1"))
    return stamped(events)


EVENTS = story(12)
LOG = FakeLog(EVENTS)
END = len(EVENTS)


@pytest.fixture
def models(tmp_path: Path) -> ReadModels:
    models = ReadModels.open(tmp_path / "bank" / "projections.sqlite")
    models.catch_up(LOG, upto=30)
    return models


def assert_sound(models: ReadModels, log: FakeLog = LOG) -> None:
    """The file holds exactly what a file built in one go holds, searches alike, and nothing is left beside it."""
    other = models.path.with_name("expected.sqlite")
    rebuild(other, log)
    with models.live() as view, ReadModels.open(other).live() as expected:
        assert shown(view) == shown(expected)
        assert view.search(f"{SECRET} title taxa", 50) == expected.search(f"{SECRET} title taxa", 50)
    assert dump(models.path) == dump(other)
    other.unlink()
    assert {path.name for path in models.path.parent.iterdir()} <= {models.path.name, "derived.lock"}


# ------------------------------------------------------------------------------------------------ checkpoints


def set_checkpoint(path: Path, assignment: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE checkpoints SET {assignment}")


def test_a_checkpoint_beyond_the_log_means_that_the_log_lost_events(models: ReadModels) -> None:
    """Rows are never on disk before their events: so this is damage, until an older log is accepted by a rebuild."""
    shorter = LOG.upto(20)
    for use in (models.catch_up, lambda log: models.as_of(log.position(), log)):
        with pytest.raises(LogCorruption, match="up to 30, which were on disk, but the log ends at 20"):
            use(shorter)
    assert set(models.rebuild(shorter).rebuilt) == {projection.name for projection in all_projections()}
    assert_sound(models, shorter)


def test_a_checkpoint_on_another_log_means_a_rebuild(models: ReadModels) -> None:
    """Another event stands at its position: the log was cut and went on otherwise, or this is a fork."""
    fork = FakeLog([*EVENTS[:25], *stamped([MemoriesForgotten(ids=("i0-0",), policy="p-1")] * 10, start=26)])
    applied = models.catch_up(fork)
    assert "not on this log" in applied.rebuilt["memory_index"]
    assert_sound(models, fork)


def test_an_erasure_means_a_rebuild_that_leaves_no_byte(models: ReadModels) -> None:
    """A lower erasure epoch rebuilds all, even where one projection was asked for; the erased words are gone."""
    models.catch_up(LOG)
    assert SECRET.encode() in models.path.read_bytes()
    erased = FakeLog([without_texts(event) for event in EVENTS])
    erased.epoch = 1
    applied = models.catch_up(erased, only=["usage"])
    assert applied.rebuilt == {"usage": "texts were erased since (erasure epoch 0, now 1)"}
    assert SECRET.encode() not in models.path.read_bytes()
    models.catch_up(erased)
    assert SECRET.encode() not in models.path.read_bytes()
    assert_sound(models, erased)


def without_texts(event: Event) -> Event:
    if not isinstance(event, MemoriesExtracted):
        return event
    gone = tuple(Erased(digest=f"{n}" * 64) for n in range(len(event.candidates)))
    return msgspec.structs.replace(event, candidates=gone)


def test_an_erasure_while_events_are_read_is_seen_the_next_time(tmp_path: Path) -> None:
    """The epoch is that of before the first event was read."""
    models, log = ReadModels.open(tmp_path / "p.sqlite"), FakeLog(EVENTS)

    def erase(event: Event) -> None:
        log.epoch = 1

    log.on_read = erase
    models.catch_up(log)
    assert "erased" in models.catch_up(log).rebuilt["runs"]
    assert models.catch_up(log).rebuilt == {}


def test_another_version_rebuilds_that_projection_alone(models: ReadModels) -> None:
    """Into a new file; tables that its earlier version had are gone."""
    inode = models.path.stat().st_ino
    set_checkpoint(models.path, "version = 0 WHERE projection = 'leakage'")
    with closing(sqlite3.connect(models.path)) as connection, connection:
        connection.execute("CREATE TABLE old_leakage (a)")
        tables = '["old_leakage","tool_calls","contexts","step_sizes"]'
        connection.execute("UPDATE checkpoints SET objects = ? WHERE projection = 'leakage'", (tables,))
    applied = models.catch_up(LOG)
    assert applied.rebuilt == {"leakage": "it was built by version 0, this is version 2"}
    assert models.path.stat().st_ino != inode
    assert_sound(models)
    with closing(sqlite3.connect(models.path)) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("SELECT * FROM old_leakage")


def test_another_schema_rebuilds(models: ReadModels) -> None:
    """A declaration that changed without its version, or tables that somebody changed."""
    set_checkpoint(models.path, "digest = 'another' WHERE projection = 'health'")
    assert list(models.catch_up(LOG).rebuilt) == ["health"]
    with closing(sqlite3.connect(models.path)) as connection, connection:
        connection.execute("ALTER TABLE edges ADD COLUMN mine TEXT")
        connection.execute("DROP INDEX item_states_text")
    assert set(models.catch_up(LOG).rebuilt) == {"lineage", "memory_index"}
    assert_sound(models)


def test_a_view_that_somebody_changed_is_put_right_without_a_rebuild(models: ReadModels) -> None:
    """Views hold no rows."""
    models.catch_up(LOG)
    with closing(sqlite3.connect(models.path)) as connection, connection:
        connection.execute("DROP VIEW items")
        connection.execute("CREATE VIEW items AS SELECT 1 AS id")
        connection.execute("DROP VIEW runs")
    assert models.catch_up(LOG).rebuilt == {}
    with closing(sqlite3.connect(models.path)) as connection:
        assert connection.execute("SELECT count(*) FROM items").fetchone() == (24,)
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (12,)


# ------------------------------------------------------------------------------------------------ damage


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["garbage", "empty", "header", "cut", "gone", "schema"])
def test_a_damaged_file_is_replaced(models: ReadModels, damage: str) -> None:
    """No database, none any more, or half of one."""
    content = models.path.read_bytes()
    ruined = {
        "garbage": b"no database at all" * 500,
        "empty": b"",
        "header": b"SQLite format 3\x00" + b"\xff" * 5_000,
        "cut": content[: len(content) // 2],
        # What SQLite says of this is no UTF-8, and no error of SQLite in Python.
        "schema": content.replace(b"CREATE TABLE checkpoints", b"CREATE TABL\xd4 checkpoints", 1),
    }
    if damage == "gone":
        models.path.unlink()
    else:
        models.path.write_bytes(ruined[damage])
    applied = models.catch_up(LOG)
    assert set(applied.rebuilt) == {projection.name for projection in all_projections()}
    assert_sound(models)


def test_pages_that_are_damaged_are_found_while_catching_up(models: ReadModels) -> None:
    """Or, where catching up doesn't touch them, by the view that does; the error says how to rebuild."""
    content = bytearray(models.path.read_bytes())
    content[8_192:] = b"\xa5" * (len(content) - 8_192)
    models.path.write_bytes(content)
    models.catch_up(LOG)
    assert_sound(models)


def test_a_view_of_damaged_pages_says_how_to_rebuild(models: ReadModels) -> None:
    with models.live() as view:
        content = bytearray(models.path.read_bytes())
        content[4_096:] = b"\xa5" * (len(content) - 4_096)
        models.path.write_bytes(content)
        with pytest.raises(ProjectionError, match="rbank-es project BANK --rebuild"):
            view.rows("items")


# ------------------------------------------------------------------------------------------------ events


def test_an_event_that_a_projection_cannot_take_is_named(models: ReadModels) -> None:
    """Projection, position and type are in the message, and nothing of the batch is kept."""
    before = dump(models.path), models.checkpoints()
    nonsense = msgspec.structs.replace(EVENTS[2], id="another", seq=END + 1, heads=3)
    with pytest.raises(ProjectionError, match=f"memory_index can't take memories_extracted at position {END + 1}: "):
        models.catch_up(FakeLog([*EVENTS, nonsense]))
    assert (dump(models.path), models.checkpoints()) == before
    models.catch_up(LOG)
    assert_sound(models)


@pytest.mark.parametrize("chars", [2**70, "\ud800"])
def test_a_value_that_sqlite_cannot_hold_is_an_error_of_the_projection(models: ReadModels, chars: object) -> None:
    """It names the table and the positions, and nothing of the batch is kept."""
    before = dump(models.path), models.checkpoints()
    nonsense = msgspec.structs.replace(EVENTS[1], seq=END + 1, chars=chars)
    with pytest.raises(ProjectionError, match=f"leakage can't hold in table tool_calls .* to {END + 1}:"):
        models.catch_up(FakeLog([*EVENTS, nonsense]))
    assert (dump(models.path), models.checkpoints()) == before


# ------------------------------------------------------------------------------------------------ crashes


class Stop(BaseException):
    """Not an `Exception`: what a killed process is to the code, as nearly as a test can have it."""


def interruptions(log: FakeLog) -> Iterator[tuple[str, Callable[[ReadModels], Applied]]]:
    """Every stage at which writing can be broken off, as a name and a call that breaks it off there."""

    def reading(at: int) -> Callable[[ReadModels], Applied]:
        def call(models: ReadModels) -> Applied:
            def maybe(event: Event) -> None:
                if event.seq == at:
                    raise Stop

            own = FakeLog(log.events)
            own.on_read = maybe
            return models.rebuild(own)

        return call

    def patched(target: str) -> Callable[[ReadModels], Applied]:
        def call(models: ReadModels) -> Applied:
            with patch(target, side_effect=Stop):
                return models.rebuild(log)

        return call

    yield from ((f"reading event {seq}", reading(seq)) for seq in (1, 2, END // 2, END))
    for target in (
        "rbank_es.projections.projection.ChangeBatch.write",
        "rbank_es.projections.builder.settle",
        "tests.fakes.FakeLog.sync",
        "rbank_es.projections.builder.check_in",
        "os.fsync",
        "pathlib.Path.replace",
    ):
        yield target, patched(target)


INTERRUPTIONS = dict(interruptions(LOG))


@pytest.mark.slow
@pytest.mark.parametrize("call", one_in(3, INTERRUPTIONS.values()), ids=INTERRUPTIONS)
def test_a_rebuild_that_is_broken_off_leaves_the_old_file(
    models: ReadModels, call: Callable[[ReadModels], Applied]
) -> None:
    """Byte for byte, with nothing beside it; the next one goes through."""
    before = models.path.read_bytes()
    with pytest.raises(Stop):
        call(models)
    assert models.path.read_bytes() == before
    assert {path.name for path in models.path.parent.iterdir()} == {models.path.name, "derived.lock"}
    models.catch_up(LOG)
    assert_sound(models)


def test_the_remains_of_a_build_that_was_killed_are_swept(models: ReadModels) -> None:
    """By the next writer, before anything else: they may hold what was erased since."""
    remains = models.path.with_name(f".projections.sqlite.{'0' * 32}.tmp")
    remains.write_bytes(SECRET.encode())
    models.catch_up(LOG)
    assert not remains.exists()


@pytest.mark.parametrize(("module", "name"), [(builder, "settle"), (builder, "check_in")])
def test_a_catch_up_that_is_broken_off_keeps_whole_batches(
    models: ReadModels, module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second batch fails: the first stays, with its checkpoint."""
    monkeypatch.setattr("rbank_es.projections.projection.BATCH_EVENTS", 5)
    real, calls = getattr(module, name), list[int]()

    def second_fails(*args: object, **kwargs: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Stop
        real(*args, **kwargs)

    with patch.object(module, name, second_fails), pytest.raises(Stop):
        models.catch_up(LOG)
    assert {point.position for point in models.checkpoints().values()} == {35}
    models.catch_up(LOG)
    assert_sound(models)


PROCESS = """
import os, signal, sys
from pathlib import Path
from rbank_es.projections import projection
from rbank_es.projections import builder as files
from rbank_es.projections.read_models import ReadModels
from tests.fakes import FakeLog
from tests.faults.test_projection_faults import EVENTS

path, deed = Path(sys.argv[1]), sys.argv[2]
log = FakeLog(EVENTS)
if deed == "die":
    # With hardly any cache, changed pages reach the file before the commit, so its journal is needed.
    real = files.keep_temporary_in_memory
    files.keep_temporary_in_memory = lambda c: (c.execute("PRAGMA cache_size = 1"), real(c))[1]
    log.sync = lambda: os.kill(os.getpid(), signal.SIGKILL)
else:
    projection.BATCH_EVENTS = 3
    Path(sys.argv[3]).touch()
    while not Path(sys.argv[4]).exists():
        pass
applied = (ReadModels.open(path).rebuild if deed == "rebuild" else ReadModels.open(path).catch_up)(log)
assert applied.position == len(EVENTS), applied
"""


def process(*arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROCESS, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, cwd=ROOT, text=True, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def remains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of read models whose writer was killed in the middle of a transaction."""
    models = ReadModels.open(tmp_path_factory.mktemp("killed") / "projections.sqlite")
    models.catch_up(LOG, upto=30)
    with process(models.path, "die") as writer:
        assert writer.wait(60) == -signal.SIGKILL
    assert models.path.with_name("projections.sqlite-journal").stat().st_size > 0
    return models.path.parent


@pytest.fixture
def killed(remains: Path, tmp_path: Path) -> ReadModels:
    """Read models whose writer was killed in the middle of a transaction, so that their journal is there."""
    return ReadModels.open(shutil.copytree(remains, tmp_path / "bank") / "projections.sqlite")


@pytest.mark.slow
def test_a_writer_that_was_killed_is_rolled_back(killed: ReadModels) -> None:
    """By the next one, which goes on from the last whole batch."""
    applied = killed.catch_up(LOG)
    assert (applied.rebuilt, applied.position) == ({}, END)
    assert_sound(killed)


@pytest.mark.slow
def test_a_rebuild_leaves_no_journal_to_be_played_into_the_new_file(killed: ReadModels) -> None:
    """SQLite finds a journal by its name; that of the old file would ruin the new one."""
    killed.rebuild(LOG)
    assert_sound(killed)


@pytest.mark.slow
def test_a_rebuild_that_is_broken_off_leaves_no_journal_without_its_file(killed: ReadModels) -> None:
    """Neither is left, or the journal would be played into the next file."""
    with patch("pathlib.Path.replace", side_effect=Stop), pytest.raises(Stop):
        killed.rebuild(LOG)
    assert {path.name for path in killed.path.parent.iterdir()} == {"derived.lock"}
    killed.catch_up(LOG)
    assert_sound(killed)


@pytest.mark.slow
def test_looking_past_the_remains_of_a_killed_writer(killed: ReadModels) -> None:
    """A view needs no writer: it answers from the log, and leaves file and journal alone."""
    before = {path.name: path.read_bytes() for path in killed.path.parent.iterdir()}
    with killed.as_of(END, LOG) as view:
        assert len(view.rows("items")) == 24
    assert {path.name: path.read_bytes() for path in killed.path.parent.iterdir()} == before


def test_a_damaged_file_with_a_journal_is_replaced(killed: ReadModels) -> None:
    """The journal goes too, though it could not be played back."""
    killed.path.write_bytes(b"no database" * 1_000)
    killed.catch_up(LOG)
    assert_sound(killed)


def test_a_journal_whose_file_was_deleted_is_not_played_into_the_new_one(killed: ReadModels) -> None:
    """As when somebody deletes the database, and not what stands beside it."""
    killed.path.unlink()
    killed.catch_up(LOG)
    assert_sound(killed)


# ------------------------------------------------------------------------------------------------ company


@pytest.mark.slow
@pytest.mark.parametrize("deeds", [("catch_up",) * 3, ("catch_up", "rebuild", "rebuild")])
@pytest.mark.parametrize("begun", [True, False])
def test_several_processes_may_write_at_once(models: ReadModels, deeds: tuple[str, ...], begun: bool) -> None:
    """All of them succeed, and the file is whole; those who read meanwhile are never disturbed."""
    if not begun:
        models.path.unlink()
    start = models.path.parent.parent / "start"
    ready = [start.with_name(f"ready-{n}") for n in range(len(deeds))]
    writers = [process(models.path, deed, at, start) for deed, at in zip(deeds, ready, strict=True)]
    deadline = time.monotonic() + 60
    while not all(path.exists() for path in ready) and time.monotonic() < deadline:
        time.sleep(0.01)
    start.touch()
    while any(writer.poll() is None for writer in writers):
        with models.as_of(LOG.position(), LOG) as view:
            assert len(view.rows("items")) == 24
            assert len(view.search(SECRET, 100)) == 20
    for writer in writers:
        assert writer.communicate(timeout=60)[1] == ""
        assert writer.returncode == 0
    assert_sound(models)


def test_a_writer_waits_for_the_lock(models: ReadModels) -> None:
    """Whoever holds `derived.lock`, such as an erasure that removes derived files, is not disturbed."""
    import fcntl
    import threading

    with (models.path.parent / "derived.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        writer = threading.Thread(target=models.catch_up, args=(LOG,))
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        models.path.unlink()
    writer.join(30)
    assert_sound(models)


# ------------------------------------------------------------------------------------------------ the place


def test_a_place_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    """A file where the folder should be, or a folder where the file should be."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "p.sqlite").mkdir(parents=True)
    for path in (tmp_path / "file" / "p.sqlite", tmp_path / "folder" / "p.sqlite"):
        with pytest.raises(ProjectionError, match="can't write the read models in .*The log is as it was"):
            ReadModels.open(path).catch_up(LOG)


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_file(models: ReadModels) -> None:
    """A file that can't grow stands for a disk without room: the error says so, and the old file still answers."""
    before = dump(models.path)
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({models.path.stat().st_size // 2},) * 2)\n"
    command = [sys.executable, "-c", limit + PROCESS.replace("log.sync", "log.nothing"), str(models.path), "die"]
    command[2] = command[2].replace('"PRAGMA cache_size = 1"', '"SELECT 1"')
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert "ProjectionUnavailable: can't write the read models" in done.stderr
    assert dump(models.path) == before
    models.catch_up(LOG)
    assert_sound(models)


def test_a_copy_of_the_file_is_sound(models: ReadModels, tmp_path: Path) -> None:
    """One file, no companion: copied while nobody writes, it can be opened anywhere."""
    models.catch_up(LOG)
    shutil.copy(models.path, tmp_path / "copy.sqlite")
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.execute("INSERT INTO items_fts (items_fts) VALUES ('integrity-check')")
