"""The rules of what stands: verdicts by authority, extractions by the verdicts they relied on, items by what landed on
them. Pure, and without any memory: `evolution` keeps the facts.

An item's state is derived from facts at every position, so a verdict acts at once, however it arrived:

    rejected     somebody condemned its words
    withdrawn    somebody ended this id
    unsupported  no candidate in its own words counts, and nobody vouched for it
    forgotten    a forgetting policy ended it
    superseded   a later decision put another in its place (`merged`: took it in)
    pending      every extraction of its words that counts is pending, or a decision about them is, because they are
                 near to rejected ones; and nobody admitted it
    active       none of these

The first that fits is the state. A candidate counts while somebody stands behind it: a witness.

    a run         Each run that its extraction was drawn from, or relied on, while that stands and the decision about
                  the candidate isn't undone; but none whose verdict is no longer the one that was relied on.
    itself        An extraction that was drawn from no run, while it stands: somebody's word.
    the original  A copy, that came by a list, has no witness of its own: it has those of the candidates of which it is
                  a copy. Those that aren't known in this bank count as one witness together, under the first one's
                  name, until they come.

Support counts distinct witnesses: however often a run was drawn from, and by whatever way a copy comes back, one
witness is one witness, and falls as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Protocol

from msgspec import Struct

from rbank_es.events import Event, PolicyChoice
from rbank_es.events.run_events import JudgeKind, VerdictValue
from rbank_es.law.bank_state import (
    BIRTHS,
    CandidateState,
    ExtractionState,
    ItemRecord,
    ItemStatus,
    Order,
    Pair,
    PairState,
    Said,
)

LATEST: Order = (1 << 62, 0)
"""Beyond any position."""

_VOUCHED_INDEX = 1 << 40
"""Beyond any index of a candidate: somebody's word at a position comes after the decisions recorded there."""


def authority(kind: JudgeKind, verdict: VerdictValue, *, sure: bool, supervised: bool) -> int | None:
    """Return the rank of a judgment, higher over lower, or None if it doesn't count.

    5 a person, whatever the verdict. 4 the outcome, and the right answer, which counts for learning only where
    `supervised` is in force, or chosen by the caller of a loop. 3 a check's failure that is sure. 2 a model. 1 another
    verdict of a check. 0 undecided.
    """
    if kind == "human":
        return 5
    if kind == "gold" and not supervised:
        return None
    if verdict == "undecided":
        return 0
    if kind == "check":
        return 3 if sure and verdict == "failure" else 1
    return 2 if kind == "lm" else 4


AUTHORITIES: Mapping[int | None, str] = {
    5: "a person",
    4: "the right answer",
    3: "a check, sure",
    2: "a model",
    1: "a check",
    0: "undecided",
    None: "doesn't count",
}
"""The ranks of `authority` in words; see `authority_name`."""


def authority_name(rank: int | None, kind: str) -> str:
    """Return the authority of a judgment in words: the right answer and the outcome share a rank."""
    return "the outcome" if kind == "outcome" and rank == 4 else AUTHORITIES[rank]


NOT_YET = "~"
"""In the place of the time of an event that isn't recorded yet: later than any time."""


def said_by(event: Event) -> Said:
    """Return when a judgment was given, or a person acted: `occurred_at`, else `at`; and the event's id."""
    return event.occurred_at or event.at or NOT_YET, event.id


def is_later(said: Said, before: Said, policies: Mapping[str, PolicyChoice]) -> bool:
    """Return whether a judgment, or an act of a person, counts in the place of one that was recorded before it.

    For judgments of equal authority on one run, and for acts on one item that lift one another. By rule 1 of the law of
    correction what was recorded later counts, by rule 2 what happened later, wherever it was recorded.
    """
    return law_of(policies) == 1 or said > before


def law_of(policies: Mapping[str, PolicyChoice]) -> int:
    """Return the rule of the law of correction in force: 2 where the policies name it, else 1."""
    chosen = policies.get("correction")
    return 2 if chosen is not None and (chosen.name, chosen.version) == ("law", 2) else 1


def stands(extraction: ExtractionState, verdict_of: Callable[[str], VerdictValue | None]) -> bool:
    """Return whether an extraction stands, given the standing verdict of each run for learning.

    It stands while every verdict that it relied on has the same value, or the run was never judged; a contrastive one
    while at least one success and one failure do, a pattern while two successes do. One that was set aside because of
    a verdict doesn't stand while that verdict does.
    """
    if any(verdict_of(run) == verdict for run, verdict in extraction.aside):
        return False
    held = [verdict for run, verdict in extraction.relied if verdict_of(run) in (None, verdict)]
    # One that names no verdict relied on none, whatever it calls itself: an import without judgments.
    if not extraction.relied:
        return True
    if extraction.kind == "contrastive":
        return "success" in held and "failure" in held
    if extraction.kind == "pattern":
        return held.count("success") >= 2
    return len(held) == len(extraction.relied)


def witnesses_behind(
    id: str, extraction: ExtractionState, verdict_of: Callable[[str], VerdictValue | None]
) -> tuple[str, ...]:
    """Return the runs that stand behind an extraction with an id, or that id; none if it doesn't stand."""
    if not stands(extraction, verdict_of):
        return ()
    held = {run for run, verdict in extraction.relied if verdict_of(run) in (None, verdict)}
    fallen = {run for run, _ in extraction.relied} - held
    runs = dict.fromkeys((*extraction.runs, *(run for run, _ in extraction.relied)))
    return tuple(run for run in runs if run not in fallen) or (id,)


class WitnessFacts(Protocol):
    """The facts by which a candidate counts: a state has them, and a memory."""

    @property
    def extractions(self) -> Mapping[str, ExtractionState]:
        """The extractions, by id."""
        ...

    @property
    def candidates(self) -> Mapping[Pair, CandidateState]:
        """The candidates."""
        ...

    @property
    def pairs(self) -> Mapping[Pair, PairState]:
        """The decisions about them."""
        ...


def witnesses_of(pair: Pair, facts: WitnessFacts) -> tuple[str, ...]:
    """Return the witnesses of a candidate, decided on or not, in order; it counts if there is one."""
    known, own = facts.pairs.get(pair), facts.extractions[pair[0]].witnesses
    if known is not None and known.undone:
        return ()
    originals = facts.candidates[pair].originals if known is None else known.originals
    if not originals or not own:
        return own
    item = facts.candidates[pair].item.id if known is None else known.item
    unknown = [id for id in originals if id not in facts.extractions]
    found = [facts.extractions[id].witnesses for id in originals if _teaches(facts, id, item)]
    return tuple(dict.fromkeys(chain(*found, unknown[:1])))


def _teaches(facts: WitnessFacts, id: str, item: str) -> bool:
    """Return whether an extraction is known, and not every candidate of it with an item's id is undone."""
    known = facts.extractions.get(id)
    if known is None:
        return False
    decided = [put for n in range(known.size) if (put := facts.pairs.get((id, n))) and put.item == item]
    return not decided or not all(put.undone for put in decided)


class Standing(Struct, frozen=True):
    """An item's standing. `birth` is the candidate with its words, `rank` the order of the first decision about it.
    `landed` are the candidates that support it, `by` those that took its place, both in order; `witnesses` stand behind
    the former."""

    state: ItemStatus
    birth: Pair
    rank: Order
    landed: tuple[Pair, ...]
    witnesses: tuple[str, ...]
    domains: tuple[str, ...]
    vouched: bool
    by: tuple[Pair, ...] = ()


class Acts(Struct, frozen=True):
    """Acts of people on an item up to a position: the last of those that lift one another, and whether admitted."""

    last: str
    seq: int
    admitted: bool

    @classmethod
    def of(cls, record: ItemRecord, upto: int) -> Acts:
        """Return the acts that hold at a position."""
        admitted = 0 < record.admitted_seq <= upto
        # The latest counts, and somebody may have gone back and forth thousands of times.
        for seq, act in record.acts():
            if seq <= upto and act != "admitted":
                return cls(act, seq, admitted)
        return cls("", 0, admitted)


def standing_of(id: str, record: ItemRecord, facts: WitnessFacts, before: Order = LATEST) -> Standing | None:
    """Return the standing of an item by the candidates decided on `before` an order; None if there was none.

    Rejections count from the start, other acts from their positions.
    """
    if len(record.pairs) == 1 and record.landed == record.pairs and not (record.recent or record.enders):
        return _alone(record, facts, before)
    pairs = facts.pairs

    def place(pair: Pair) -> tuple[Order, Pair]:
        # The pair too: one event may decide about two extractions, and what follows must not hang on who lists it.
        return pairs[pair].order, pair

    # One look at each candidate, because an item may have thousands.
    found = sorted(
        (put.order, pair, put.item == id, put.domain, witnesses)
        for pair in record.landed
        if (put := pairs[pair]).order < before and (witnesses := witnesses_of(pair, facts))
    )
    landed = [each[1] for each in found]
    mine = [pair for _, pair, own, _, _ in found if own]
    known = mine or [pair for pair in record.pairs if pairs[pair].order < before]
    if not known:
        return None
    birth = mine[0] if mine else min(known, key=place)
    acts = Acts.of(record, before[0])
    state, by = _state(record, acts, mine, facts, before)
    return Standing(
        state=state,
        birth=birth,
        rank=pairs[birth].order,
        landed=tuple(landed),
        witnesses=tuple(dict.fromkeys(chain.from_iterable(each[4] for each in found))),
        domains=tuple(sorted({each[3] for each in found} or {pairs[birth].domain})),
        vouched=acts.last == "vouched",
        by=tuple(by),
    )


def _alone(record: ItemRecord, facts: WitnessFacts, before: Order) -> Standing | None:
    """Return the standing of an item with one candidate that landed on it, and nothing else: most items are such."""
    [pair] = record.pairs
    known = facts.pairs[pair]
    if known.order >= before:
        return None
    witnesses = witnesses_of(pair, facts)
    waits = facts.extractions[pair[0]].pending or known.pending
    state: ItemStatus = "forgotten" if record.forgotten else "pending" if waits else "active"
    return Standing(
        state=state if witnesses else "unsupported",
        birth=pair,
        rank=known.order,
        landed=record.landed if witnesses else (),
        witnesses=witnesses,
        domains=(known.domain,),
        vouched=False,
    )


def _state(
    record: ItemRecord, acts: Acts, mine: list[Pair], facts: WitnessFacts, before: Order
) -> tuple[ItemStatus, list[Pair]]:
    pairs, extractions = facts.pairs, facts.extractions
    vouched = acts.last == "vouched"
    if record.recent and Acts.of(record, LATEST[0]).last == "rejected":
        return "rejected", []
    if acts.last == "withdrawn":
        return "withdrawn", []
    if not mine and not vouched:
        return "unsupported", []
    if record.forgotten:
        return "forgotten", []
    if record.enders:
        born = [pairs[pair].order for pair in mine if pairs[pair].action in BIRTHS]
        revived = max([*born, (acts.seq, _VOUCHED_INDEX)] if vouched else born, default=(0, 0))
        over = sorted(
            (pair for pair in record.enders if revived < pairs[pair].order < before and witnesses_of(pair, facts)),
            key=lambda pair: (pairs[pair].order, pair),
        )
        if over:
            return "merged" if pairs[over[-1]].action == "merge" else "superseded", over
    if vouched or acts.admitted:
        return "active", []
    # Of decisions one is enough: what is near to rejected words is never admitted by another extraction.
    held = any(pairs[pair].pending for pair in mine) or all(extractions[pair[0]].pending for pair in mine)
    return "pending" if held else "active", []
