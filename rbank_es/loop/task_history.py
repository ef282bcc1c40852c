"""The history of tasks in a bank: the progress and settings of each run, and the extractions from it.

A task under given settings has a key. The ids of its runs begin with the key, because a later process must find them:

    lights-L1-1-3f2a9c1b-1        the task's id, the key, the number of the run
    lights-L1-1-3f2a9c1b-1.r0     the same of rollout 0
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from rbank_es.bank.run_judgments import ranked
from rbank_es.events import (
    Event,
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesExtracted,
    PolicySet,
    RunFinished,
    RunJudged,
    RunStarted,
    type_of,
)
from rbank_es.events.memory_events import LM_FAILED, reason_known
from rbank_es.events.run_totals import RunTotals
from rbank_es.judging.run_outcome import is_agents_own
from rbank_es.log.run_reader import RunEvents, read_run, runs_named
from rbank_es.loop.rollouts import Rollout, rollout_of
from rbank_es.loop.tasks import Task
from rbank_es.policies.admission import PROPOSED_BY

if TYPE_CHECKING:
    from rbank_es.bank import Bank

INTERRUPTED = "interrupted"
"""The error code of a run that was ended from outside."""

# Ids hold the task's id too, so 32 bits only tell the settings and wordings of one task apart.
KEY_CHARS = 8

_KEY = re.compile(rf"(?=(-[0-9a-f]{{{KEY_CHARS}}}-))")

_TYPES = frozenset(
    type_of(cls)
    for cls in (
        PolicySet, RunStarted, RunFinished, RunJudged, JudgmentOverruled, MemoriesExtracted, MemoriesConsolidated,
    )
)  # fmt: skip

_OF_ROLLOUT = frozenset({"run_started", "step_taken", "run_finished"})


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
    """The progress of one run: the events of its stages so far, and the judgments that stand.

    `policies` are the bank's so far, by which judgments stand. Which of them do is found out when it is asked: a long
    bank has thousands of runs, and a loop asks about few.
    """

    run: str
    policies: list[PolicySet]
    taken: list[Event] = []
    _standing: dict[str, RunJudged | JudgmentOverruled] = {}
    _settled: int = 0

    @property
    def judged(self) -> RunJudged | JudgmentOverruled | None:
        """Its judgment for learning that stands: not always the latest."""
        return self._judgments().get("learning")

    @property
    def scored(self) -> RunJudged | JudgmentOverruled | None:
        """Its judgment for scoring that stands."""
        return self._judgments().get("scoring")

    def _judgments(self) -> dict[str, RunJudged | JudgmentOverruled]:
        if self._settled < len(self.taken):
            self._settled = len(self.taken)
            known = ranked(merge(self.events.judgments, self.policies, key=attrgetter("seq")))
            self._standing = {each.event.purpose: each.event for each in known if each.stands}
        return self._standing

    @property
    def events(self) -> RunEvents:
        """The events of its stages; texts stay in the log."""
        return RunEvents(self.run, tuple(self.taken), _TYPES)

    @property
    def started(self) -> RunStarted:
        """Its start: a run that never began has no progress."""
        started = self.events.started
        assert started is not None
        return started

    @property
    def group(self) -> str | None:
        """The id of the group of rollouts that it is one of."""
        return self.started.rollout_group

    @property
    def index(self) -> int | None:
        """Its place among the rollouts of its task."""
        return self.started.rollout_index

    @property
    def finished(self) -> RunFinished | None:
        """Its end."""
        return self.events.end

    @property
    def extractions(self) -> list[str]:
        """The ids of the extractions from it, alone or with others, in order.

        Left out are those that no model answered, and those where nothing was drawn because of a verdict that another
        replaced since, so that a resumed loop learns from the run.
        """
        judged = self.judged.seq if self.judged is not None else 0
        return [each.id for each in self.events.extractions if not _is_void(each, judged)]

    @property
    def is_usable(self) -> bool:
        """Whether the run has ended and says something about the agent."""
        end = self.finished
        return end is not None and is_agents_own(end.outcome, end.error_code)

    @property
    def interrupted(self) -> bool:
        """Whether the run was ended from outside, so that it says nothing about the agent."""
        end = self.finished
        return end is not None and end.error_code == INTERRUPTED

    def rollout(self, bank: Bank) -> Rollout:
        """Return the run, which has ended, as a rollout, to compare it with others of its task."""
        verdict = self.judged.verdict if self.judged is not None else None
        scored = self.scored.verdict if self.scored is not None else None
        return rollout_of(bank, read_run(bank.log, self.run, types=_OF_ROLLOUT), verdict, scored)


def _is_void(drawn: MemoriesExtracted, judged: int) -> bool:
    """Return whether an extraction has nothing to say, under a verdict that stands since a position."""
    reason = reason_known(drawn)
    lifted = not drawn.heads and reason.startswith(("unsure:", "undecided:")) and drawn.seq < judged
    return lifted or reason.startswith(LM_FAILED)


class ExtractionProgress(msgspec.Struct, kw_only=True):
    """One extraction, and the decisions on its candidates."""

    event: MemoriesExtracted
    decided: MemoriesConsolidated | None = None


class History:
    """The runs of a bank up to a position. Texts stay in the log."""

    def __init__(self, bank: Bank) -> None:
        self.runs: dict[str, RunProgress] = {}
        """Those that began, in that order."""
        self._by_prefix: dict[str, list[RunProgress]] = {}
        self.extractions: dict[str, ExtractionProgress] = {}
        self.position = 0
        self._bank = bank
        self._named: dict[str, RunProgress] = {}
        self._policies = list[PolicySet]()

    def catch_up(self) -> History:
        """Read the events appended since the last call, and return this object."""
        upto = self._bank.log.settled()
        for event in self._bank.log.read(after=self.position, upto=upto, types=_TYPES):
            self._take(event)
        self.position = upto
        return self

    def spent(self, runs: Iterable[str]) -> RunTotals:
        """Return the totals of runs: of all calls that name them, whenever they were recorded."""
        wanted = {"lm_called", "run_finished"}
        return RunTotals.of(read_run(self._bank.log, run, types=wanted).totals for run in runs)

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
        for run in runs_named(event):
            ran = self._named.get(run)
            if ran is None:
                ran = self._named[run] = RunProgress(run=run, policies=self._policies)
            ran.taken.append(event)
            if isinstance(event, RunStarted) and run not in self.runs:
                self._begun(ran)
        if isinstance(event, PolicySet):
            self._policies.append(event)
        elif isinstance(event, MemoriesExtracted):
            self.extractions[event.id] = ExtractionProgress(event=event)
        elif isinstance(event, MemoriesConsolidated) and event.extraction in self.extractions:
            self.extractions[event.extraction].decided = event

    def _begun(self, ran: RunProgress) -> None:
        self.runs[ran.run] = ran
        # A task's own id may look like a key as well, so a run is found by each prefix that ends with one.
        for key in _KEY.finditer(ran.run):
            self._by_prefix.setdefault(ran.run[: key.end(1)], []).append(ran)


def is_of_proposals(extracted: ExtractionProgress) -> bool:
    """Return whether an extraction keeps proposals of tools, which needs no model."""
    return extracted.event.extractor in PROPOSED_BY
