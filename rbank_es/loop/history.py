"""The history of tasks in a bank: the progress and settings of each run, and the extractions from it.

A task under given settings has a key. The ids of its runs begin with the key, because a later process must find them:

    lights-L1-1-3f2a9c1b-1        the task's id, the key, the number of the run
    lights-L1-1-3f2a9c1b-1.r0     the same of rollout 0
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, get_args

import msgspec

from rbank_es.events import (
    Event,
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunFinished,
    RunJudged,
    RunStarted,
    type_of,
)
from rbank_es.events.run_events import Purpose
from rbank_es.events.run_totals import known_sum
from rbank_es.judging.run_outcome import is_agents_own
from rbank_es.loop.rollouts import Rollout
from rbank_es.loop.tasks import Task
from rbank_es.policies.admission import PROPOSED_BY

if TYPE_CHECKING:
    from rbank_es.bank import Bank

INTERRUPTED = "interrupted"
"""The error code of a run that was ended from outside."""

LM_FAILED = "lm_failed:"
"""Begins the reason of an extraction that no model answered."""

FLAWS = (LM_FAILED, "malformed:", "no_usable_item:")
"""Begin the reasons of extractions that are empty because of the model."""

# Ids hold the task's id too, so 32 bits only tell the settings and wordings of one task apart.
KEY_CHARS = 8

_KEY = re.compile(rf"(?=(-[0-9a-f]{{{KEY_CHARS}}}-))")

_TYPES = frozenset(
    type_of(cls)
    for cls in (
        RunStarted, RunFinished, RunJudged, JudgmentOverruled, MemoriesExtracted, MemoriesConsolidated,
    )
)  # fmt: skip


def task_key(task: Task, config_digest: str, source: str) -> str:
    """Return the key of a task under given settings: the first hex digits of a SHA-256.

    `source` is the digest of the ontology, or the URL of the endpoint, that is asked.
    """
    facts = [task.id, task.question, task.gold_sparql, task.answer, task.ordered, config_digest, source]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:KEY_CHARS]


def group_id(task: Task, key: str, number: int) -> str:
    """Return the id of a run of a task, or of a group of its rollouts; `number` counts them from 1."""
    return f"{task.slug}-{key}-{number}"


class RunProgress(msgspec.Struct, kw_only=True):
    """The progress of one run: the events of its stages, None for stages that are missing."""

    run: str
    started_seq: int
    config_digest: str | None = None
    group: str | None = None
    index: int | None = None
    finished: RunFinished | None = None
    judged: RunJudged | JudgmentOverruled | None = None
    scored: RunJudged | JudgmentOverruled | None = None
    """The judgments that stand, for learning and for scoring."""
    extractions: list[str] = []
    """Ids of the extractions from the run, alone or with others, in order."""

    @property
    def is_usable(self) -> bool:
        """Whether the run has ended and says something about the agent."""
        return self.finished is not None and is_agents_own(self.finished.outcome, self.finished.error_code)

    @property
    def interrupted(self) -> bool:
        """Whether the run was ended from outside, so that it says nothing about the agent."""
        return self.finished is not None and self.finished.error_code == INTERRUPTED


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """The calls, tokens and dollars of runs together, as the bank counts them; None is unknown, never 0."""

    lm_calls: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None


class ExtractionProgress(msgspec.Struct, kw_only=True):
    """One extraction, and the decisions on its candidates."""

    event: MemoriesExtracted
    decided: MemoriesConsolidated | None = None


class History:
    """The runs of a bank up to a position. Texts stay in the log."""

    def __init__(self, bank: Bank) -> None:
        self.runs: dict[str, RunProgress] = {}
        self._by_prefix: dict[str, list[RunProgress]] = {}
        self.extractions: dict[str, ExtractionProgress] = {}
        self.position = 0
        self._bank = bank
        self._judgments: dict[int, RunJudged | JudgmentOverruled] = {}

    def catch_up(self) -> History:
        """Read the events appended since the last call, and return this object."""
        upto, judged = self._bank.position, set[str]()
        for event in self._bank.log.read(after=self.position, upto=upto, types=_TYPES):
            self._take(event)
            judged |= {event.run} if isinstance(event, RunJudged | JudgmentOverruled) else set()
        self.position = upto
        if judged:
            self._settle(judged & self.runs.keys())
        return self

    def _settle(self, runs: Iterable[str]) -> None:
        """Take over which judgments of runs stand now, by the fold's rule: not always the latest."""
        with self._bank.latest.at(self.position) as basis:
            standing = {
                (run, purpose): basis.state.verdicts.get((run, purpose))
                for run in runs
                for purpose in get_args(Purpose)
            }
        for (run, purpose), verdict in standing.items():
            # Another thread may have advanced the state: its judgment is read by the next call.
            event = self._judgments.get(verdict.seq) if verdict is not None else None
            ran = self.runs[run]
            if event is not None and purpose == "scoring":
                ran.scored = event
            elif event is not None:
                ran.judged = event
                # Left out, so that a resumed loop learns from a run whose later verdict is good enough.
                ran.extractions = [id for id in ran.extractions if not self._is_lifted(id, event.seq)]

    def _is_lifted(self, extraction: str, judged: int) -> bool:
        """Return whether nothing was learned because of a verdict that one at the position `judged` replaced."""
        drawn = self.extractions[extraction].event
        barred = not drawn.heads and _reason(drawn).startswith(("unsure:", "undecided:"))
        return barred and drawn.seq < judged

    def spent(self, runs: Iterable[str]) -> Spent:
        """Return the totals of runs: the bank's own, of all calls that name them, whenever they were recorded."""
        with self._bank.latest.at(self._bank.position) as basis:
            states = [basis.state.runs[run] for run in runs]
        return Spent(**{name: known_sum(getattr(each, name) for each in states) for name in Spent.__struct_fields__})

    def runs_of(self, task: Task, key: str) -> list[RunProgress]:
        """Return the runs of a task under its key, in the order in which they began."""
        return list(self._by_prefix.get(f"{task.slug}-{key}-", ()))

    def with_proposals_kept(self, runs: Iterable[str]) -> frozenset[str]:
        """Return those of the runs whose proposals are candidates already."""
        known = (self.runs[run] for run in runs if run in self.runs)
        return frozenset(
            ran.run for ran in known if any(is_of_proposals(self.extractions[id]) for id in ran.extractions)
        )

    def _take(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._started(event)
        elif isinstance(event, RunJudged | JudgmentOverruled):
            self._judgments[event.seq] = event
        elif isinstance(event, MemoriesExtracted):
            self.extractions[event.id] = ExtractionProgress(event=event)
            for run in event.runs:
                # Left out, so that a resumed loop asks the model again.
                if run in self.runs and not _reason(event).startswith(LM_FAILED):
                    self.runs[run].extractions.append(event.id)
        elif isinstance(event, MemoriesConsolidated):
            if event.extraction in self.extractions:
                self.extractions[event.extraction].decided = event
        elif isinstance(event, RunFinished) and event.run in self.runs:
            self.runs[event.run].finished = event

    def _started(self, event: RunStarted) -> None:
        if event.run in self.runs:
            return
        self.runs[event.run] = ran = RunProgress(
            run=event.run,
            started_seq=event.seq,
            config_digest=event.config_digest,
            group=event.rollout_group,
            index=event.rollout_index,
        )
        # A task's own id may look like a key as well, so a run is found by each prefix that ends with one.
        for key in _KEY.finditer(event.run):
            self._by_prefix.setdefault(event.run[: key.end(1)], []).append(ran)


def rollout_of(bank: Bank, ran: RunProgress) -> Rollout:
    """Return a run that has ended as a rollout, to compare it with others of its task."""
    end = ran.finished
    assert end is not None, "the run has not ended"
    return Rollout(
        index=ran.index or 0,
        run=ran.run,
        outcome=end.outcome,
        verdict=ran.judged.verdict if ran.judged is not None else None,
        scored=ran.scored.verdict if ran.scored is not None else None,
        iterations=end.iterations or 0,
        answer=bank.text(end.answer) or "",
        sparql=bank.text(end.sparql) or "",
    )


def is_of_proposals(extracted: ExtractionProgress) -> bool:
    """Return whether an extraction keeps proposals of tools, which needs no model."""
    return extracted.event.extractor in PROPOSED_BY


def flaw_of(event: MemoriesExtracted) -> str:
    """Return the fault of the model's answer if it gave no candidate; empty if nothing was."""
    reason = _reason(event)
    return reason if not event.heads and reason.startswith(FLAWS) else ""


def _reason(event: MemoriesExtracted) -> str:
    # A long reason is stored apart; its preview holds the prefix that matters here.
    return event.reason if isinstance(event.reason, str) else getattr(event.reason, "prev", "")
