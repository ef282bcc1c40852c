"""What only a server can do to a log: break off, be put back, stand still, be locked, be shared by strangers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rbank_es import Bank, errors
from rbank_es.bank.locator import locate
from rbank_es.cli import main
from rbank_es.law.bank_state import active
from rbank_es.limits import postgres_limits
from rbank_es.log import EMPTY, EventLog
from rbank_es.log.postgres import postgres_schema
from rbank_es.log.postgres.postgres_engine import ENGINE, address_of
from rbank_es.log.postgres.postgres_log import PostgresLog
from rbank_es.log.postgres.postgres_server import ConnectionLost, Server
from rbank_es.log.protocol import Erasing
from rbank_es.log.writer_errors import LeaseLost, LogBehind
from rbank_es.testing import SECRET, at_once, event_id, note
from tests.cli_runner import ROOT
from tests.postgres_relay import Relay
from tests.postgres_server import PostgresServer
from tests.postgres_writers import wait_until

pytestmark = pytest.mark.xdist_group("postgres")


def free(server: PostgresServer, **where: str) -> str:
    return server.url(f"b{os.urandom(6).hex()}", **where)


def backends(server: PostgresServer) -> str:
    """End every session of the server but one's own: what a restart looks like to those who write."""
    ended = server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    return f"{len(ended)} ended"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://me:secret@host/bank", "PGPASSWORD"),
        ("postgresql://host/bank?password=secret", "PGPASSWORD"),
        ("postgresql://host/", "DATABASE"),
        ("postgresql://host/db/.hidden", "DATABASE"),
        ("postgresql://host:port/bank", "port"),
    ],
)
def test_a_url_that_names_no_bank_is_refused_without_its_secret(url: str, reason: str) -> None:
    """Before any connection is made; a password may not be given where it would be kept."""
    with pytest.raises(errors.BadBankName, match=reason) as refused:
        locate(url)
    assert "secret" not in str(refused.value)


def test_a_url_is_read_as_libpq_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options are passed on; the place says which database, however it was found."""
    monkeypatch.setenv("PGHOST", "from-environment")
    found = address_of("postgresql://me@example.org:6000/db/notes?sslmode=verify-full&sslrootcert=/ca.pem")
    assert (found.place, found.bank) == ("postgresql://example.org:6000/db", "notes")
    given = dict(found.parameters)
    assert (given["user"], given["sslmode"], given["sslrootcert"]) == ("me", "verify-full", "/ca.pem")
    assert address_of("postgresql:///notes?user=me").place == "postgresql://from-environment:5432/me"


def test_what_is_derived_has_one_place_wherever_one_works(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read models, and the head that was acknowledged: a URL is no path below the working directory."""
    log = ENGINE.create(free(server), [note("one")])
    found = log.derived_directory
    monkeypatch.chdir(tmp_path)
    assert ENGINE.open(log.place + f"?host={server.home}&user=postgres").derived_directory == found


def test_a_bank_is_the_same_there_and_back(server: PostgresServer) -> None:
    """Copied to a server and home: one id, head and lines; commands and searches work on both."""
    with Bank.create("memory:") as bank:
        bank.remember("Sort by height", "A long content. " * 500, tags=("height",))
        with bank.copy(into=free(server)) as there, there.copy(into="memory:back-from-a-server") as back:
            for each in (there, back):
                assert (each.id, each.head(), list(each.log.lines())) == (bank.id, bank.head(), list(bank.log.lines()))
                assert each.search("height").hits == bank.search("height").hits and each.check().events == bank.position
            there.remember("Ask for the classes", "First.")
            assert there.replay().digests == there.copy().replay().digests


def test_a_connection_that_breaks_behind_the_commit_is_answered(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine finds its own ids: the events are there once, and the append returns them."""
    log = ENGINE.create(free(server), [note("first")])
    log.append([note("second")])
    for expected, broken in ((3, "once"), (5, "again")):
        real: Any = log.server.once
        lost = iter([True])

        def once(statement: str, values: Any, real: Any = real, lost: Any = lost) -> Any:
            made = real(statement, values)
            if "append" in statement and next(lost, False):
                backends(server)
                log.server.execute("SELECT 1")
                raise _lost(log)
            return made

        monkeypatch.setattr(log.server, "once", once)
        assert log.append([note(f"{broken} a"), note(f"{broken} b")]).first == expected
        monkeypatch.setattr(log.server, "once", real)
    assert [getattr(event, "note", "") for event in log.read()] == [
        *("first", "second", "once a", "once b", "again a", "again b")
    ]


def test_ids_of_other_words_are_no_answer_to_a_broken_connection(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log has under the ids of an append that may have come in is compared with it."""
    place = free(server)
    log = ENGINE.create(place, [note("one")])
    log.append([note("two")])
    ENGINE.open(place).append([note("of another", 7)])
    once, broken = log.server.once, iter([True])

    def breaking(statement: str, values: Any) -> Any:
        if next(broken, False):
            raise _lost(log)
        return once(statement, values)

    monkeypatch.setattr(log.server, "once", breaking)
    with pytest.raises(errors.DuplicateEvent, match="other content"):
        log.append([note("mine", 7)])


def _lost(log: PostgresLog) -> Exception:
    return ConnectionLost(log.place, psycopg.OperationalError("the server closed the connection"))


def test_dead_connections_of_a_pool_are_made_anew(server: PostgresServer) -> None:
    """For readers, writers, those who look at a whole log, and those who want to be alone."""
    log = ENGINE.create(free(server), [note("one")])
    acts: tuple[Callable[[], object], ...] = (
        log.position,
        lambda: log.append([note("more")]),
        lambda: list(log.read()),
        log.verify,
        lambda: list(log.stored()),
        lambda: log.exclusive("a").__enter__(),
    )
    for act in acts:
        backends(server)
        act()


@pytest.mark.slow
def test_a_server_restarts_in_the_middle_of_appends(server: PostgresServer) -> None:
    """Writers wait for it; what it acknowledged is there, and each event once."""
    place = free(server)
    log = ENGINE.create(place)
    done, stop = list[str](), threading.Event()

    def write() -> None:
        writer = ENGINE.open(place)
        while not stop.is_set():
            writer.append([note(text := f"n{len(done)}")])
            done.append(text)

    thread = threading.Thread(target=write)
    thread.start()
    wait_until(lambda: len(done) > 5)
    before = len(done)
    server.crash_and_start()
    wait_until(lambda: len(done) > before + 5)
    stop.set()
    thread.join()
    notes = [getattr(event, "note", "") for event in log.read()]
    assert notes == done and log.verify().events == len(notes)


def test_a_writer_that_stands_still_is_put_out(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the head row for seconds at most; others come in then, and its own append comes again."""
    monkeypatch.setattr(postgres_limits, "STANDSTILL_S", 0.3)
    place = free(server)
    log, other = ENGINE.create(place, [note("one")]), ENGINE.open(place)
    with pytest.raises(errors.LogUnavailable), log.rows("write") as rows:
        rows.end()
        time.sleep(0.8)
        assert other.append([note("other")]).last == 2
        rows.position()
    monkeypatch.setattr(postgres_limits, "HEAD_WAIT_S", 0.2)
    monkeypatch.setattr(postgres_limits, "STANDSTILL_S", 5)
    with log.rows("write") as rows:
        rows.end()
        with pytest.raises(errors.LogBusy):
            other.append([note("late")])
    assert log.position() == 2


def test_a_lease_that_was_lost_stops_its_holder(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another takes over when it has run out; nothing more of the first comes in, and it is told why."""
    monkeypatch.setattr(postgres_limits, "LEASE_S", 0.2)
    place = free(server)
    log, other = ENGINE.create(place, [note("one")]), ENGINE.open(place)
    execute = Server.execute

    def stopped(self: Server, statement: str, values: Any = ()) -> Any:
        return [(False,)] if "renew" in statement else execute(self, statement, values)  # as one that stands still

    monkeypatch.setattr(Server, "execute", stopped)
    with log.exclusive("loop") as lease:
        time.sleep(0.3)
        assert log.append([note("nobody took over")]).last == 2
        with other.exclusive("loop") as later:
            assert later.number > lease.number
            with pytest.raises(LeaseLost, match="took over loop of .*nothing of this append was recorded"):
                log.append([note("late")])
            assert other.append([note("mine")]).last == 3
    assert log.append([note("free again")]).last == 4


def test_a_lease_is_taken_and_given_back_over_torn_connections(server: PostgresServer, tmp_path: Path) -> None:
    """Whose answer was lost has it, and nobody waits until it runs out."""
    place = free(server)
    other = ENGINE.create(place)
    with Relay(server.home, tmp_path) as relay:
        log = ENGINE.open(place.replace(str(server.home), str(relay.folder)))
        relay.break_behind(b"take_lease")
        with log.exclusive("loop"):
            assert relay.is_broken and log.append([note("one")]).last == 1
            with pytest.raises(errors.LogBusy), other.exclusive("loop"):
                pass
            backends(server)
    with other.exclusive("loop"):
        assert other.append([note("two")]).last == 2


def test_a_server_that_was_put_back_is_refused(server: PostgresServer) -> None:
    """Whether positions are missing or hold other events; in one round trip as in two."""
    place = free(server)
    log = ENGINE.create(place, [note("one"), note("two")])
    log.append([note("three")])
    fresh = ENGINE.open(place)
    head = log.head(2)
    server.execute(f"DELETE FROM rbank.event WHERE bank = {log.number} AND seq = 3")
    back = f"UPDATE rbank.bank SET seq = 2, digest = '\\x{head.digest}' WHERE no = {log.number}"
    server.execute(back)
    for writer in (log, fresh):
        with pytest.raises(LogBehind):
            writer.append([note("four")])
    (log.derived_directory / "acknowledged").unlink()
    ENGINE.open(place).append([note("another three")])
    for writer in (log, fresh):
        with pytest.raises(LogBehind):
            writer.append([note("four")])
    assert log.position() == 3


def test_each_role_may_do_what_it_is_for(server: PostgresServer) -> None:
    """One reads; one appends, and changes nothing; only the owner erases, and others are told so before."""
    place = free(server)
    owner = ENGINE.create(place, [note(SECRET), note("two")])
    name = place.partition("?")[0].rpartition("/")[2]
    for role in ("reader", "writer"):
        if not server.execute(f"SELECT FROM pg_roles WHERE rolname = 'rbank_{role}'"):
            server.execute(f"CREATE ROLE rbank_{role} LOGIN")
        server.execute(f"GRANT USAGE ON SCHEMA rbank TO rbank_{role}")
        server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA rbank TO rbank_{role}")
    server.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA rbank TO rbank_writer")
    reader, writer = (ENGINE.open(server.url(name, user=f"rbank_{role}")) for role in ("reader", "writer"))
    assert list(reader.read()) == list(owner.read()) and reader.verify().events == 2
    with reader.copy(2) as scratch:
        assert scratch.append([note("on a machine of mine")]).last == 3
    for act in (lambda: reader.append([note("x")]), lambda: reader.exclusive("x").__enter__()):
        with pytest.raises(errors.LogUnavailable, match="permission denied"):
            act()
    assert writer.append([note("three")]).last == 3
    for statement in (
        "UPDATE rbank.event SET line = ''",
        "DELETE FROM rbank.bank",
        "INSERT INTO rbank.lease VALUES (1)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            server.execute(statement, user="rbank_writer")
    assert ENGINE.create(server.url(f"{name}-own", user="rbank_writer"), [note("mine")]).position() == 1
    with pytest.raises(errors.BadInput, match="only postgres may do; rbank_writer may not"):
        writer.erase(Erasing(words=(SECRET,)))
    assert writer.erase(Erasing(words=(SECRET,)), dry_run=True).places


def test_erased_words_are_in_no_file_of_the_tables(server: PostgresServer) -> None:
    """A plain VACUUM would leave them in pages; the report says what the server still holds elsewhere."""
    words = f"the heron sleeps in shed {os.urandom(8).hex()}"
    log = ENGINE.create(free(server), [note(f"{words} {number}") for number in range(20)])
    log.append([note(f"{words} " * 300)])
    server.execute("CHECKPOINT")
    made = log.erase(Erasing(words=(words,)))
    server.execute("CHECKPOINT")
    assert made.residue is not None and not made.residue.found and "write-ahead log" in made.not_reached
    tables = [path for path in (server.data / "base").rglob("*") if path.is_file()]
    assert len(tables) > 100 and not any(words.encode() in path.read_bytes() for path in tables)
    assert log.verify([log.head(20)]).erased > 20


def test_commits_wait_for_the_disk_whatever_the_server_says(server: PostgresServer) -> None:
    """`synchronous_commit = off` of a database is overruled inside the append; without `fsync` it is refused."""
    server.execute("DROP DATABASE IF EXISTS careless")
    server.execute("CREATE DATABASE careless")
    server.execute("ALTER DATABASE careless SET synchronous_commit = off")
    log = ENGINE.create(free(server, database="careless"))
    with ENGINE.create(free(server, database="careless"), [note("one")]).rows() as rows:
        page = rows.page(0, 1)
    with log.rows("write") as rows:
        assert log.server.execute("SELECT current_setting('synchronous_commit')") == [("off",)]
        rows.add(page, (), ())
        assert log.server.execute("SELECT current_setting('synchronous_commit')") == [("on",)]
    server.execute("DROP DATABASE IF EXISTS narrow")
    server.execute("CREATE DATABASE narrow ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(errors.BadInput, match="has the encoding SQL_ASCII"):
        ENGINE.create(free(server, database="narrow"))


def test_tables_are_migrated_by_their_owner(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From each version to the next when a bank is made; a release that is older than the tables says so."""
    server.execute("DROP DATABASE IF EXISTS grown")
    server.execute("CREATE DATABASE grown")
    place = free(server, database="grown")
    ENGINE.create(place, [note("one")])
    later = (*postgres_schema.MIGRATIONS, "ALTER TABLE rbank.bank ADD COLUMN later integer")
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", later)
    with pytest.raises(errors.BadInput, match="have version 1: let their owner"):
        ENGINE.open(place)
    ENGINE.create(free(server, database="grown"))
    assert ENGINE.open(place).append([note("two")]).last == 2
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", later[:1])
    with pytest.raises(errors.BadInput, match="have version 2, and this release knows 1: upgrade"):
        ENGINE.open(place)


def test_what_a_later_release_wrote_is_not_written_behind(server: PostgresServer) -> None:
    """By the kinds in the head row, though the last event is one that this release knows."""
    place = free(server)
    log = ENGINE.create(place, [note("one")])
    for kind in ("flying_learnt/1/9", "note_logged/99/9", "note_logged/1/99"):
        server.execute(f"UPDATE rbank.bank SET kinds = kinds || '{kind}'::text WHERE no = {log.number}")
        with pytest.raises(errors.UnknownEvent):
            ENGINE.open(place).append([note("two")])
        server.execute(f"UPDATE rbank.bank SET kinds = array_remove(kinds, '{kind}') WHERE no = {log.number}")
    assert log.append([note("two")], expected=1).last == 2


def test_expectations_hold_in_one_trip_and_in_two(server: PostgresServer) -> None:
    """The handle that wrote last, and one that wrote never."""
    place = free(server)
    log = ENGINE.create(place, [note("one")])
    other = ENGINE.open(place)
    assert log.append([note("two")], expected=1).last == 2
    for writer, expected in ((log, 1), (log, EMPTY), (other, 1), (other, 3)):
        with pytest.raises(errors.PositionConflict):
            writer.append([note("x")], expected=expected)
    assert other.append([note("three")], expected=2).last == 3
    assert log.append([note("four", 4)], expected=3).last == 4 == log.append([note("four", 4)]).last
    assert [event.id for event in log.read(after=3)] == [event_id(4)]


def test_a_reader_that_follows_sees_each_position_once_and_in_order(server: PostgresServer) -> None:
    """While many write: numbers that Postgres gives out are seen in the order of commits instead."""
    place = free(server)
    ENGINE.create(place)
    seen_by_reader, stop = list[int](), threading.Event()

    def follow() -> None:
        log: EventLog = ENGINE.open(place)
        while not stop.is_set() or log.position() > len(seen_by_reader):
            seen_by_reader.extend(event.seq for event in log.read(after=len(seen_by_reader)))

    reader = threading.Thread(target=follow)
    reader.start()
    writers = [ENGINE.open(place) for _ in range(4)]
    at_once(*[lambda log=log: [log.append([note("x")]) for _ in range(15)] for log in writers])
    stop.set()
    reader.join()
    assert seen_by_reader == list(range(1, 61))
    writers[0].close()


def test_the_set_up_that_the_document_shows_works(server: PostgresServer) -> None:
    """Its statements by whom they are for, its command, and a writer of the role that it makes."""
    text = (ROOT / "docs" / "machines.md").read_text(encoding="utf-8")
    first, grants = (block.partition("```")[0] for block in text.split("```sql\n")[1:])
    (command,) = [block.partition("```")[0].strip() for block in text.split("```text\n")[1:]]
    for statement in filter(str.strip, first.split(";")):
        server.execute(statement)
    url = server.url("notes", user="rbank_owner", database="banks")
    assert main(command.replace("postgresql://rbank_owner@db.example.org/banks/notes", url).split()[1:]) == 0
    for statement in filter(str.strip, grants.split(";")):
        server.execute(statement, database="banks")
    ann = server.url("notes", user="ann", database="banks")
    with Bank.open(ann) as bank, bank.copy() as scratch:
        assert bank.remember("Ask first", "Then answer.").item and scratch.position == 2
        assert main(["absorb", ann, url, "--dry-run"]) == 2  # itself: refused as anywhere
    assert main(["copy", ann, server.url("again", user="ann", database="banks")]) == 0


@pytest.mark.slow
def test_workers_of_several_machines_share_a_bank(server: PostgresServer, tmp_path: Path) -> None:
    """Eight remember lessons at once, some of them the same: each is decided on once, and the bank is canonical."""
    place = free(server)
    Bank.create(place).close()

    def work(number: int) -> None:
        with Bank.open(place) as bank:
            for turn in range(3):
                dish = (number + turn) % 10
                bank.remember(f"Lesson {dish} of the kitchen", f"Salt dish {dish} last.")

    assert at_once(*[lambda number=number: work(number) for number in range(8)]) == [None] * 8
    with Bank.open(place) as bank:
        assert len(active(bank.state())) == 10 and bank.check(decisions=True).events == bank.position
        with bank.copy(into=tmp_path / "home") as home:
            assert home.replay().digests == bank.replay().digests
