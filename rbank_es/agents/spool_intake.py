"""Taking a spool in: the lines that hooks left for a bank become its runs, with the transcripts that tell of them.

Events are appended first, then the lines are removed. A process that ends between the two has the lines taken in again,
which adds nothing, because their ids follow from the runs. Lines of turns that go on stay.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from errno import EIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rbank_es.agents.prompt_tally import outcomes_in, tally
from rbank_es.agents.spool import SpoolLines, seconds_of, spool_of
from rbank_es.agents.spooled_turns import (
    FORM,
    SpooledTurn,
    matching_run,
    proof_of,
    run_of,
    turns_of,
    unsent_of,
    with_recalls,
)
from rbank_es.agents.transcripts.transcript_events import EventWriter
from rbank_es.agents.transcripts.transcript_importers import streamed_runs
from rbank_es.agents.transcripts.transcript_lines import LineTally
from rbank_es.errors import BadInput, CannotWrite
from rbank_es.events import Event, RunFinished
from rbank_es.events.derived_ids import derived_id
from rbank_es.events.redaction import secrets
from rbank_es.exchange.file_import import import_parsed
from rbank_es.exchange.importer import ImportUnit, Parsed, sized
from rbank_es.limits.hook_limits import SPOOL_WAIT_S
from rbank_es.system.utc_times import utc_text

if TYPE_CHECKING:
    from rbank_es.agents.transcripts.transcript_run import TranscriptRun
    from rbank_es.bank import Bank


_Runs = tuple[list["TranscriptRun"], list["TranscriptRun"]]
"""The runs of a transcript, and those that their user took back."""

_Told = tuple["TranscriptRun", list[SpooledTurn], bool]
"""A run, the turns that it is made of, and whether a transcript has it."""


class SpoolIntake(NamedTuple):
    """What was taken in: turns, those with a transcript, events appended, lines kept because their turns go on, lines
    that were unreadable, and recalls of another bank or log, which were dropped."""

    turns: int = 0
    with_transcript: int = 0
    appended: int = 0
    waiting: int = 0
    unreadable: int = 0
    dropped: int = 0


def take_spool_in(bank: Bank) -> SpoolIntake:
    """Take in what hooks spooled for a bank. Raises as `Bank.append`; then the spool is as it was."""
    spool = spool_of(bank.log.place)
    taken = spool.waiting()
    if not taken.files:
        return SpoolIntake()
    found = _Intake(bank, taken)
    units = found.units()
    appended = 0
    if units:
        parsed = Parsed(
            path=str(spool.folder), form=FORM, units=tuple(sized(str(spool.folder), unit) for unit in units)
        )
        appended = import_parsed(bank, parsed).appended
    spool.replace(taken, found.waiting, found.delivered_s)
    kept = {line["id"] for line in found.waiting}
    tally(spool.folder, outcomes_in(line for line in taken.lines if line["id"] not in kept))
    return SpoolIntake(found.turns, found.proved, appended, len(found.waiting), taken.unreadable, found.dropped)


def take_all_in(bank: Bank) -> None:
    """Take in all that hooks and agents spooled for a bank but the turns that go on, also what would wait for more.

    Raises as `Bank.append`, and `CannotWrite` where the spool of traces can't be read.
    """
    import sqlite3

    from rbank_es.agents.traces.trace_intake import take_traces_in

    take_spool_in(bank)
    try:
        take_traces_in(bank, "all")
    except sqlite3.Error as error:
        raise CannotWrite("the spool of traces", OSError(EIO, str(error))) from error


class _Intake:
    """One reading of a spool."""

    def __init__(self, bank: Bank, taken: SpoolLines) -> None:
        self._bank, self._taken = bank, taken
        self._writer = EventWriter(secrets(), utc_text(datetime.now(UTC)))
        self._read: dict[str | None, _Runs] = {}
        self.waiting: list[dict[str, object]] = []
        self.turns = self.proved = self.dropped = 0
        self.delivered_s = 0.0

    def units(self) -> list[ImportUnit]:
        """Return the units of all turns that have ended; the lines of the others wait."""
        told: dict[tuple[str, ...], _Told] = {}
        turns = turns_of(self._taken.lines, time.time())
        for path in {turn.transcript for turn in turns}:
            self._read[path] = _runs_in(path, [turn for turn in turns if turn.transcript == path])
        for turn in turns:
            runs, withdrawn = self._read[turn.transcript]
            left = [each for each in runs if not _is_taken(each, told)]
            run = matching_run(turn, [*left, *withdrawn]) or matching_run(turn, runs)
            if run in withdrawn:
                continue
            if turn.ending == "open" or (run is not None and run.ending == "open" and not _is_left(turn)):
                self.waiting += turn.all_lines
                continue
            known = run or run_of(turn)
            _, same, _ = told.setdefault((known.form, *known.key), (known, [], run is not None))
            same.append(self._checked(turn))
            self.turns += 1
        return [unit for run, turns, proved in told.values() for unit in self._told(run, turns, proved)]

    def _told(self, run: TranscriptRun, turns: list[SpooledTurn], has_transcript: bool) -> list[ImportUnit]:
        units = self._writer.units(run)
        if not units:
            return []
        proved = proof_of(turns, run) if has_transcript else None
        self.proved += has_transcript
        if proved:
            self.delivered_s = max(self.delivered_s, *(seconds_of(each) for turn in turns for each in turn.recalls))
        if proved is not False:
            return with_recalls(units, turns, proved=proved)
        told = with_recalls(units, turns, proved=False, unsent=unsent_of(turns, run))
        return [replace(unit, events=tuple(map(self._told_anew, unit.events))) for unit in told]

    def _told_anew(self, event: Event) -> Event:
        """Return an end that the bank has from the transcript alone as another: only the spool tells of a recall."""
        seq = self._bank.log.seq_of_id(event.id) if isinstance(event, RunFinished) else None
        known = self._bank.event_at(seq) if seq is not None else None
        if not isinstance(known, RunFinished) or known.recall_sent is not None:
            return event
        return replace(event, id=derived_id(event.id.encode(), "not sent"))

    def _checked(self, turn: SpooledTurn) -> SpooledTurn:
        """Return a turn with those of its recalls that searched this log."""
        kept = tuple(
            recall for recall in turn.recalls if self._is_of_this_log(recall.get("position"), recall.get("mark"))
        )
        self.dropped += len(turn.recalls) - len(kept)
        return turn._replace(recalls=kept)

    def _is_of_this_log(self, position: object, mark: object) -> bool:
        if not isinstance(position, int) or not 0 < position <= self._bank.position:
            return False
        return self._bank.log.mark(position) == mark


def _runs_in(transcript: str | None, turns: Sequence[SpooledTurn]) -> _Runs:
    """Return the runs of a transcript that may be those of some turns, and of these the ones that were taken back."""
    tally = LineTally()
    try:
        # Only these are kept, because a session may have gigabytes.
        runs = [run for run in streamed_runs(Path(transcript), tally) if _may_be(run, turns)] if transcript else []
    except (BadInput, OSError):
        # Gone, or of a form that no reader knows: the spool alone tells of its turns.
        return [], []
    return runs, [run for run in tally.withdrawn if _may_be(run, turns)]


def _may_be(run: TranscriptRun, turns: Sequence[SpooledTurn]) -> bool:
    return any(matching_run(turn, [run]) is run for turn in turns)


def _is_taken(run: TranscriptRun, told: Mapping[tuple[str, ...], _Told]) -> bool:
    """Return whether a run has a turn for each of its prompts: the same words may be given twice within a second."""
    found = told.get((run.form, *run.key))
    return found is not None and len(found[1]) >= len(run.prompts)


def _is_left(turn: SpooledTurn) -> bool:
    return time.time() - seconds_of(turn.prompt) > SPOOL_WAIT_S
