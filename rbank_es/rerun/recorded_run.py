"""The events of one run, and whether they are enough to run it again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from rbank_es.errors import BadInput, CannotRerun, NotInBank
from rbank_es.events import ContextBuilt, Erased, Event, OntologyRegistered, RunFinished, RunStarted, type_of
from rbank_es.events.codec import texts_of
from rbank_es.loop.settings import LoopSettings
from rbank_es.rerun.recorded_stages import Stage, stages_of

if TYPE_CHECKING:
    from rbank_es.bank import Bank


SURROUNDINGS = frozenset(
    {"interrupted", "not_recorded", "sandbox_failed", "no_dspy", "wrong_dspy", "no_deno", "wrong_deno", "cold",
     "no_cache", "broken"}
)  # fmt: skip
"""Codes of failures that came from outside: who interrupted it, the disk, the sandbox's own parts."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One run as it was recorded, texts in place.

    `position` is that of the bank just before the run; `events` those of the run itself, to its end; `aftermath` how it
    was judged, scored and learnt from; `ontology_digest` what the bank knew then of its ontology.
    """

    position: int
    started: RunStarted
    ended: RunFinished
    events: tuple[Event, ...]
    aftermath: tuple[Stage, ...] = ()
    settings: LoopSettings
    ontology_digest: str | None = None
    erased_since: bool = False
    """Whether texts were erased from the bank after the run, which may be missing now from what it read."""

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.started.run

    @property
    def whole(self) -> tuple[Event, ...]:
        """The events of the run, and of what was made of it."""
        return self.events + tuple(event for stage in self.aftermath for event in stage.events)


def runs_of(bank: Bank, point: str | int | None = None) -> tuple[str, ...]:
    """Ids of the runs of a bank up to a point, in the order in which they began."""
    upto = bank.resolve(point)
    return tuple(dict.fromkeys(each.run for each in _starts(bank, upto)))


def recording_of(bank: Bank, run: str, point: str | int | None = None) -> Recording:
    """A run as it was recorded up to a point.

    Raises `NotInBank` where there is no such run then, `CannotRerun` where its events are not enough.
    """
    upto = bank.resolve(point)
    first = next((each for each in _starts(bank, upto) if each.run == run), None)
    if first is None:
        raise NotInBank(run, upto)
    events = tuple(_from_beginning_to_end(bank, first, upto))
    started, ended = _checked(run, events)
    settings = _settings(started)
    aftermath = tuple(stages_of(bank, started, settings, ended.seq, upto))
    for stage in aftermath:
        _refuse_erased(run, stage.events)
    return Recording(
        position=first.seq - 1,
        started=started,
        ended=ended,
        events=events,
        aftermath=aftermath,
        settings=settings,
        ontology_digest=_digest_of(bank, started),
        erased_since=any(True for _ in bank.log.read(after=first.seq, upto=upto, types={"content_erased"})),
    )


def _starts(bank: Bank, upto: int) -> Iterator[RunStarted]:
    for event in bank.log.read(upto=upto, types={"run_started"}):
        if isinstance(event, RunStarted):
            yield event


def _from_beginning_to_end(bank: Bank, first: RunStarted, upto: int) -> Iterator[Event]:
    for event in bank.events(point=upto, after=first.seq - 1, run=first.run, resolve=True):
        yield event
        if isinstance(event, RunFinished):
            return


def _checked(run: str, events: tuple[Event, ...]) -> tuple[RunStarted, RunFinished]:
    """Its first event and its last. Raises `CannotRerun` where something is missing that no rerun can make up for."""
    started, ended = events[0], events[-1]
    _refuse_erased(run, events)
    if not isinstance(started, RunStarted) or started.settings is None or not _has_context(events):
        reason = "its context, and the requests and responses of its model, are not in its events: it was imported, or "
        raise CannotRerun(run, reason + "made by something else than this loop")
    if not isinstance(ended, RunFinished):
        raise CannotRerun(run, "it never ended: it is still running, or was killed")
    if started.endpoint is not None:
        raise CannotRerun(run, f"it asked the endpoint {started.endpoint}, and a rerun uses no network")
    if ended.error_code in SURROUNDINGS:
        raise CannotRerun(run, f"it failed of what was around it ({ended.error_code}), which is not in its events")
    return started, ended


def _has_context(events: tuple[Event, ...]) -> bool:
    """Whether the text of a context is recorded, as the loop always does; what is imported has its size at most."""
    return any(isinstance(event, ContextBuilt) and event.texts for event in events)


def _refuse_erased(run: str, events: tuple[Event, ...]) -> None:
    for event in events:
        if holds_erased(event):
            reason = f"texts of it were erased ({type_of(event)} at position {event.seq:,})"
            raise CannotRerun(run, reason)


def holds_erased(event: Event) -> bool:
    """Whether a text of an event was erased."""
    return any(map(_is_erased, (getattr(event, name) for name in texts_of(type(event)))))


def _is_erased(value: object) -> bool:
    return isinstance(value, Erased) or (isinstance(value, tuple) and any(isinstance(part, Erased) for part in value))


def _settings(started: RunStarted) -> LoopSettings:
    try:
        return LoopSettings.from_recorded(str(started.settings))
    except BadInput as error:
        raise CannotRerun(started.run, str(error)) from error


def _digest_of(bank: Bank, started: RunStarted) -> str | None:
    """The digest under which the run's ontology was registered last, before the run."""
    found = None
    for event in bank.log.read(upto=started.seq, types={"ontology_registered"}):
        if isinstance(event, OntologyRegistered) and event.ontology == started.ontology:
            found = event.sha256
    return found
