"""The base of the suite: events for tests, assertions, and the methods that an engine's author provides."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rbank_es.errors import RBankError
from rbank_es.events import Event, MemoriesExtracted, NoteLogged, RunStarted, ToolCalled
from rbank_es.events.items import Item
from rbank_es.log.groups import Clock
from rbank_es.log.lines import Head
from rbank_es.log.protocol import EventLog, LogEngine

SECRET = "the vault opens with marigold-7"
"""A text to erase. Nothing else in the suite holds it."""

ODD_TEXTS = (
    "",
    'a "quote" and a \\ backslash',
    "two\nlines\r\nand\ttabs",
    "nul \x00 and bell \x07",
    "naïve café, 🦉, line\u2028separator",
    '{"is":"erased","digest":"' + "0" * 64 + '"}',
    '","salt":"AAAAAAAAAAAAAAAAAAAAAAAA","task":"x","more":0,"dur":0,"crc":"00000000"}',
)
"""Texts that look like parts of a line, or that careless escaping would break."""


def event_id(number: int) -> str:
    """Return a well-formed event id for a number."""
    return f"01900000-0000-7000-8000-{number:012x}"


def note(text: str, number: int | None = None, run: str | None = None) -> NoteLogged:
    """Return a note with that text, and with the event id for a number if one is given."""
    return NoteLogged(note=text, run=run, id="" if number is None else event_id(number))


def run(name: str, task: str, number: int | None = None, **facts: Any) -> RunStarted:
    """Return the start of a run, with its task."""
    return RunStarted(run=name, task=task, id="" if number is None else event_id(number), **facts)


def called(run: str, result: str) -> ToolCalled:
    """Return a call of a tool in a run, with its result."""
    return ToolCalled(run=run, tool="t", result=result)


def extraction(*items: Item) -> MemoriesExtracted:
    """Return an extraction of these items."""
    return MemoriesExtracted(
        kind="manual", heads=tuple(item.head for item in items), candidates=tuple(item.text for item in items)
    )


@contextmanager
def raises(error: type[RBankError]) -> Iterator[list[Any]]:
    """Fail unless the body raises this error; the list holds it afterwards."""
    caught: list[Any] = []
    try:
        yield caught
    except error as found:
        caught.append(found)
    if not caught:
        raise AssertionError(f"{error.__name__} was not raised")


def at_once(*work: Callable[[], Any]) -> list[Any]:
    """Run functions in threads that start together; return their results, or the RBankErrors that they raised."""
    results: list[Any] = [None] * len(work)
    barrier = threading.Barrier(len(work))

    def call(index: int) -> None:
        barrier.wait()
        try:
            results[index] = work[index]()
        except RBankError as error:
            results[index] = error

    threads = [threading.Thread(target=call, args=(index,)) for index in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def forms_of(text: str) -> set[bytes]:
    """Return the forms of a text in a file: plain, as JSON, and as JSON inside a JSON string."""
    forms = {text}
    for _ in range(2):
        forms |= {
            encoded[1:-1] for form in forms for encoded in (json.dumps(form), json.dumps(form, ensure_ascii=False))
        }
    return {form.encode() for form in forms}


def _options(clock: Clock | None) -> dict[str, Any]:
    return {"clock": clock} if clock else {}


class ContractBase:
    """The engine and the three methods that its author provides, and what all tests share."""

    engine: LogEngine

    def free_place(self) -> str:
        """Return a locator at which a log can be made, another one each time."""
        raise NotImplementedError

    def stored_bytes(self, log: EventLog) -> bytes:
        """Return all bytes that the engine keeps of this log."""
        raise NotImplementedError

    def replace_last_line(self, log: EventLog, line: bytes) -> None:
        """Store `line` in place of the last event's line, with a right checksum."""
        raise NotImplementedError

    def made(self, place: str, events: Sequence[Event] = (), **options: Any) -> EventLog:
        """Return a new log at a place."""
        return self._kept(self.engine.create(place, events, **options), place)

    def opened(self, place: str, **options: Any) -> EventLog:
        """Return a handle to the log at a place."""
        return self._kept(self.engine.open(place, **options), place)

    def make_log(self, clock: Clock | None = None) -> EventLog:
        """Return a new, empty log; `clock` returns its time in UTC microseconds, if given."""
        return self.made(self.free_place(), **_options(clock))

    def reopen(self, log: EventLog, clock: Clock | None = None) -> EventLog:
        """Return another handle to a log, which shares nothing with the first but what is stored."""
        return self.opened(next(place for each, place in self._logs if each is log), **_options(clock))

    def _kept(self, log: EventLog, place: str) -> EventLog:
        self._logs = [*getattr(self, "_logs", []), (log, place)]
        return log

    def close_logs(self) -> None:
        """Close every log that was made or opened here; called after each test, if the author's fixture does."""
        for log, _ in getattr(self, "_logs", []):
            log.close()

    def all_of(self, log: EventLog) -> tuple[int, Head, list[bytes]]:
        """Return position, head and lines of a log, to be compared before and after."""
        return log.position(), log.head(), list(log.lines())

    @contextmanager
    def refused(self, log: EventLog, error: type[RBankError]) -> Iterator[list[Any]]:
        """Fail unless the body raises this error and leaves the log as it was, for other handles as well."""
        before = self.all_of(log)
        with raises(error) as caught:
            yield caught
        assert self.all_of(log) == before, "a refused append changed the log"
        assert self.all_of(self.reopen(log)) == before, "a refused append changed the log for others"

    def filled(self, count: int = 5) -> EventLog:
        """Return a log of `count` notes."""
        log = self.make_log()
        log.append([note(f"note {number}", number) for number in range(1, count + 1)])
        return log
