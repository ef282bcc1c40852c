"""The check of `verify --strict`: facts in the log without a subject, slips of writers, which the fold ignores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import BadPolicy
from rbank_es.events import (
    ArtifactMaterialised,
    ConsolidationProposed,
    ContextBuilt,
    CorrectionCompleted,
    DecisionUndone,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRestored,
    MemoriesRetracted,
    PolicySet,
    RunJudged,
    RunStarted,
    type_of,
)
from rbank_es.log import EventLog
from rbank_es.policies import policy_of
from rbank_es.system.progress import OnProgress

SlipKind = Literal[
    "unknown-run",
    "unknown-judgment",
    "unknown-item",
    "unknown-extraction",
    "unknown-artifact",
    "second-start",
    "unknown-policy",
    "unfinished-correction",
]

_READ = (
    ArtifactMaterialised,
    ConsolidationProposed,
    ContextBuilt,
    CorrectionCompleted,
    DecisionUndone,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRestored,
    MemoriesRetracted,
    PolicySet,
    RunJudged,
    RunStarted,
)


class Slip(Struct, frozen=True, kw_only=True):
    """One slip: its kind, the position of the event, and the name in it that means nothing.

    unknown-run            a judgment of a run that never began
    unknown-judgment       a judgment that overrules one that isn't there
    unknown-item           a run that was given an item, or an act on one, that was never extracted
    unknown-extraction     an undoing, a proposal or a setting aside of an extraction that isn't there
    unknown-artifact       a context that summarises a guide that isn't there
    second-start           another start of a run; the first one counts
    unknown-policy         a policy that this release doesn't know: what it decided is kept as it was
    unfinished-correction  a part of a correction that was never completed: it counts for nothing
    """

    kind: SlipKind
    seq: int
    name: str


class SlipCheck(Struct, frozen=True, kw_only=True):
    """All slips of a log: their numbers by kind, and the first `limits.SLIPS_LISTED`, in order of position."""

    counts: dict[SlipKind, int]
    slips: tuple[Slip, ...]


def check_slips(log: EventLog, progress: OnProgress | None = None) -> SlipCheck:
    """Look for slips in a whole log. `progress` is called with the position and that of the head."""
    head, seen = log.position(), _Seen()
    for event in log.read(upto=head, types={type_of(each) for each in _READ}):
        if progress is not None:
            progress(event.seq, head)
        seen.take(event)
    found = sorted(seen.slips(), key=lambda slip: (slip.seq, slip.kind, slip.name))
    return SlipCheck(counts=dict(Counter(slip.kind for slip in found)), slips=tuple(found[: limits.SLIPS_LISTED]))


class _Seen:
    """The names in a log, and the things that exist."""

    def __init__(self) -> None:
        self._runs: set[str] = set()
        self._items: set[str] = set()
        self._judgments: set[str] = set()
        self._judged: list[tuple[int, str]] = []
        self._overruled: list[tuple[int, str]] = []
        self._used: dict[str, int] = {}
        self._extractions: set[str] = set()
        self._meant: list[tuple[int, str]] = []
        self._artifacts: set[str] = set()
        self._given: list[tuple[int, str]] = []
        self._parts: dict[str, int] = {}
        self._found: list[Slip] = []

    def take(self, event: Event) -> None:
        match event:
            case RunStarted(run=run):
                if run in self._runs:
                    self._found.append(Slip(kind="second-start", seq=event.seq, name=run))
                self._runs.add(run)
            case RunJudged() | JudgmentOverruled():
                self._judgments.add(event.id)
                self._judged.append((event.seq, event.run))
                if isinstance(event, JudgmentOverruled) and event.judgment is not None:
                    self._overruled.append((event.seq, event.judgment))
            case MemoriesExtracted():
                self._items.update(head.id for head in event.heads)
                self._extractions.add(event.id)
            case MemoriesRetracted() | MemoriesAdmitted():
                self._use(event.ids, event.seq)
                if isinstance(event, MemoriesRetracted):
                    self._meant += ((event.seq, extraction) for extraction in event.extractions)
            case DecisionUndone() | ConsolidationProposed():
                self._meant.append((event.seq, event.extraction))
            case ContextBuilt():
                self._use(event.items, event.seq)
                self._given += ((event.seq, artifact) for artifact in event.artifacts)
            case ArtifactMaterialised():
                self._artifacts.add(event.id)
            case MemoriesRead():
                self._use(event.ids, event.seq)
            case PolicySet():
                self._found += (Slip(kind="unknown-policy", seq=event.seq, name=name) for name in _unknown(event))
            case CorrectionCompleted():
                self._parts.pop(event.correction, None)
            case MemoriesConsolidated() | MemoriesForgotten() | MemoriesRestored():
                if event.correction is not None:
                    self._parts.setdefault(event.correction, event.seq)
                if not isinstance(event, MemoriesConsolidated):
                    self._use(event.ids, event.seq)

    def _use(self, items: Iterable[str], seq: int) -> None:
        for item in items:
            self._used.setdefault(item, seq)

    def slips(self) -> Iterator[Slip]:
        # At the end, because an import may bring a run after its judgment.
        yield from self._found
        checked: tuple[tuple[SlipKind, Iterable[tuple[int, str]], set[str]], ...] = (
            ("unknown-run", self._judged, self._runs),
            ("unknown-judgment", self._overruled, self._judgments),
            ("unknown-item", ((seq, item) for item, seq in self._used.items()), self._items),
            ("unknown-artifact", self._given, self._artifacts),
            ("unknown-extraction", self._meant, self._extractions),
        )
        for kind, named, known in checked:
            yield from (Slip(kind=kind, seq=seq, name=name) for seq, name in named if name not in known)
        for correction, seq in self._parts.items():
            yield Slip(kind="unfinished-correction", seq=seq, name=correction)


def _unknown(event: PolicySet) -> Iterator[str]:
    for choice in event.policies:
        try:
            policy_of(choice)
        except BadPolicy:
            yield f"{choice.kind} {choice.name}-{choice.version}"
