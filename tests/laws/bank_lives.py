"""Random lives of a bank: what judges, writers and people do in it, as strategies, and what then happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.errors import BadPolicy
from rbank_es.events import (
    ConsolidationProposed,
    ContextBuilt,
    Decision,
    DecisionUndone,
    Event,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    PolicyChoice,
    PolicySet,
    Reliance,
    RunJudged,
)
from rbank_es.events.items import Item
from rbank_es.law import Append, AppendV2, Bounded, Dedup, DedupV2, Exposure, LeastProven, Merge, MergeV2, Never
from rbank_es.law.decisions import append_decided, forgetting_policy
from rbank_es.log.erasure import paths_of_item
from rbank_es.log.protocol import Erasing
from rbank_es.policies import CheckJudging
from tests.laws.plain_bank import BIRTHS, Bar, Facts, barred, in_force, recorded, verdicts_of, visible
from tests.pools import one_of_each

RUNS = ("r1", "r2", "r3")
S, F, U = "success", "failure", "undecided"
ENDING = ("supersede", "merge")
Op = tuple[Any, ...]

# Small words: likeness is common, neither symmetric (difflib on titles) nor transitive (Jaccard at a half). None is
# silent.
TITLES = ("abcd efgh", "abcd efgh", "abcd efgh", "efgh abcd", "not abcd efgh")
CONTENTS = [" ".join(some) for size in (2, 3, 4, 4) for some in combinations("vwxyz", size)]
CONTENTS += ["x, w. V!", "z w; y. x", "x y feet", "x y metre"]


def _candidate(drawn: tuple[Any, ...]) -> Item:
    title, content, src, polarity, domain, id = drawn
    return Item.make(title, content, src, polarity=polarity, domain=domain, id=id)


candidates = one_of_each(
    TITLES, CONTENTS, ("seed", *("success",) * 5), (S, S, S, F), (None, None, None, "D"), (*(None,) * 4, "x1")
).map(_candidate)
"""Single candidates; most have an id of their own words."""


def judges(*kinds: str) -> st.SearchStrategy[Op]:
    """A judgment by one of some kinds."""
    return st.tuples(st.just("judge"), st.sampled_from(RUNS), st.sampled_from(kinds), st.sampled_from((S, S, F, F, U)))


learns = st.tuples(
    st.just("learn"),
    st.sampled_from((S, S, F, "contrastive", "pattern", "seed", "manual", "stale")),
    st.permutations(RUNS),
    st.lists(candidates, min_size=1, max_size=3),
    st.sampled_from((False, False, False, True)),
    st.lists(st.tuples(st.sampled_from(("supersede", "merge", "skip")), st.integers(0, 9)), max_size=2),
)
copies = st.tuples(st.just("copy"), st.lists(st.integers(0, 9), min_size=1, max_size=3), st.booleans())
by_hand = st.tuples(
    st.just("hand"),
    st.lists(candidates, min_size=1, max_size=2),
    st.sampled_from(("add", "skip", "supersede")),
    st.integers(0, 9),
)
rough = st.tuples(
    st.just("rough"),
    st.lists(candidates, min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(("add", *ENDING, "skip", "discard")), st.integers(0, 11)), max_size=3),
    st.sampled_from(("hand-1", "dedup-1", "append-1")),
    st.booleans(),
)
rough_ends = st.tuples(
    st.just("end"), st.integers(0, 9), st.sampled_from(("hand-1", "bounded-1", "never-1", "restore"))
)
acts = st.tuples(st.sampled_from(("reject", "withdraw", "restore", "admit")), st.integers(0, 9))
undos = st.tuples(st.just("undo"), st.integers(0, 9), st.booleans())
uses = st.tuples(st.just("use"), st.integers(0, 9), st.sampled_from(RUNS))
DEDUP = Dedup(title_min=0.7, content_min=(1, 2))
MERGE = Merge(title_min=0.7, content_min=(1, 2))
ways = st.sampled_from((Append(), DEDUP, DEDUP, MERGE, AppendV2(), DedupV2(), DedupV2(), MergeV2()))
bounds = st.sampled_from(
    (
        Never(),
        Bounded(max_items=2, grace=0),
        Bounded(max_items=3, floor_success=1, floor_failure=1, grace=1),
        LeastProven(max_items=2, grace=0),
    )
)
policies = st.tuples(st.just("policy"), ways, bounds, st.booleans())
attributions = st.tuples(st.just("attribute"), st.sampled_from(("either", "injected", "read")))
unbounded = st.tuples(st.just("policy"), ways, st.just(Never()), st.booleans())
odd_policies = st.tuples(st.just("policy"), st.just("who"), st.just("lru"), st.booleans())
erasures = st.tuples(st.just("erase"), st.integers(0, 9))
asides = st.tuples(st.just("aside"), st.integers(0, 9), st.sampled_from(RUNS), st.sampled_from((S, F)))
odd_forgets = st.tuples(st.just("forget"), st.integers(0, 9))
overrules = judges("human")
# What happened earlier and is recorded now, as what another bank brings is.
lates = st.tuples(st.just("late"), st.integers(0, 3), st.one_of(judges("human", "outcome"), acts, acts, undos))
laws = st.tuples(st.just("law"), st.sampled_from((1, 2, 2)))

JUDGED = st.one_of(
    learns, learns, learns, copies, judges("lm", "lm", "check", "gold", "outcome", "human"), overrules, overrules, uses
)
PURE = st.one_of(JUDGED, JUDGED, st.one_of(policies, policies, attributions))
PEOPLE = st.one_of(PURE, PURE, acts, acts, undos, asides, lates, laws)
UNBOUNDED = st.one_of(JUDGED, JUDGED, unbounded, acts, acts, undos, asides, lates, laws)
ALL = st.one_of(PEOPLE, PEOPLE, erasures, by_hand, rough, rough_ends, odd_policies, odd_forgets)


@st.composite
def lives(draw: st.DrawFn, ops: st.SearchStrategy[Op]) -> list[Op]:
    """Most begin with judged runs and something learnt, because then there is something to correct; half under any
    policy of consolidation."""
    begin: list[Op] = [("policy", draw(ways), Never(), False)] if draw(st.booleans()) else []
    if draw(st.integers(0, 5)):
        begin += [("judge", run, "lm", draw(st.sampled_from((S, S, F)))) for run in RUNS]
    begin += draw(st.lists(learns, min_size=1, max_size=6))
    return begin + draw(st.lists(ops, min_size=4, max_size=16))


class Life:
    """A bank in memory, and what happens in it."""

    def __init__(self) -> None:
        self.bank = Bank.create("memory:")
        self.version = 1
        self.when: str | None = None
        self.policy("policy", DEDUP, Never(), False)
        self.groups: list[int] = []
        self.ahead: list[str] = []

    @classmethod
    def of(cls, log: list[Event]) -> Life:
        """The life of a bank that has these events, from its first policies on."""
        made = cls()
        done = made.bank.position
        for group in _groups(log):
            if group[-1].seq > done:
                made.bank.append([replace(each, seq=0, at="", more=0, dur=0, crc="") for each in group])
        return made

    @property
    def log(self) -> list[Event]:
        """All events, with the words of candidates."""
        return list(self.bank.log.read(resolve=("memories_extracted",)))

    def do(self, op: Op) -> None:
        """Let something happen."""
        getattr(self, {"withdraw": "act", "reject": "act", "restore": "act", "admit": "act"}.get(op[0], op[0]))(*op)
        self.groups.append(self.bank.position)

    def correct(self) -> bool:
        """Reconcile the bank; return whether anything was due."""
        return self.bank.correct().recorded

    def one(self, n: int) -> str | None:
        """An item, by number."""
        ids = sorted(recorded(self.log))
        return ids[n % len(ids)] if ids else None

    def pair(self, n: int) -> tuple[str, int] | None:
        """A candidate that was decided on, by number."""
        pairs = list(self.bank.state().pairs)
        return pairs[n % len(pairs)] if pairs else None

    def judge(self, _: str, run: str, kind: Any, verdict: Any) -> None:
        """A judge, or a person, judges."""
        sure = kind == "check" and verdict == F
        facts: dict[str, Any] = {"judge": "j", "judge_version": "1", "purpose": "learning"}
        self.bank.append(RunJudged(run=run, kind=kind, verdict=verdict, sure=sure, occurred_at=self.when, **facts))

    def late(self, _: str, hour: int, op: Op) -> None:
        """Something is recorded that happened before the bank was made."""
        self.when = f"2026-01-31T0{hour}:00:00.000000Z"
        self.do(op)
        self.when = None

    def law(self, _: str, version: int) -> None:
        """Another rule of the law of correction is in force from here on."""
        self.version = version
        others = [choice for kind, choice in self.bank.state().policies.items() if kind != "correction"]
        self.bank.append(PolicySet(policies=(*others, *self._law())))

    def _law(self) -> list[PolicyChoice]:
        return [PolicyChoice(kind="correction", name="law", version=2)] if self.version == 2 else []

    def extraction(self, kind: str, runs: tuple[str, ...], items: list[Item], pending: bool) -> MemoriesExtracted:
        """What an extractor draws from runs under the verdicts that stand, or, if stale, under one that doesn't."""
        standing, _ = verdicts_of(self.log)
        won, lost = ([run for run in runs if standing.get(run) == verdict] for verdict in (S, F))
        relied: list[tuple[str, str]] = []
        if kind in (S, F):
            relied = [(run, kind) for run in (won if kind == S else lost)[:1]]
        elif kind == "contrastive" and won and lost:
            relied = [(run, S) for run in won] + [(run, F) for run in lost]
        elif kind == "pattern" and len(won) > 1:
            relied = [(run, S) for run in won]
        elif kind == "stale":
            relied = [(runs[0], S)]
        given: Any = ("manual" if kind == "manual" else "seed") if not relied else S if kind == "stale" else kind
        return MemoriesExtracted(
            id=self.ahead.pop() if self.ahead else self.bank.log.new_id(),
            kind=given,
            relied=tuple(Reliance(run=run, verdict=verdict) for run, verdict in relied),  # type: ignore[arg-type]
            pending=pending,
            heads=tuple(item.head for item in items),
            candidates=tuple(item.text for item in items),
        )

    def learn(
        self, _: str, kind: str, runs: tuple[str, ...], items: list[Item], pending: bool, proposed: list[Any]
    ) -> None:
        """A writer learns, by the policy in force."""
        made = self.extraction(kind, runs, items, pending)
        live = sorted(id for id, it in recorded(self.log).items() if it.state == "active")
        proposals = [
            ConsolidationProposed(extraction=made.id, candidate=index, action=action, targets=(live[n % len(live)],))
            for index, (action, n) in enumerate(proposed)
            if live and index < len(items)
        ]
        try:
            append_decided(self.bank.log, self.bank.latest, [*proposals, made])
        except BadPolicy:
            self.decided_by_hand(made, [Decision(candidate=n, action="add", item=it.id) for n, it in enumerate(items)])

    def copy(self, _: str, numbers: list[int], ahead: bool) -> None:
        """A list brings a copy of what was learnt; `ahead`: also of what is learnt next."""
        pairs = [pair for n in numbers if (pair := self.pair(n)) is not None]
        if not pairs or self.bank.state().candidates[pairs[0]].erased:
            return
        originals = dict.fromkeys(pair[0] for pair in pairs)
        if ahead:
            self.ahead.append(self.bank.log.new_id())
            originals[self.ahead[-1]] = None
        item = self.bank.state().candidates[pairs[0]].item
        made = MemoriesExtracted(
            kind="seed", heads=(item.head,), copy_of=(tuple(originals),), candidates=(item.text,), extractor="list"
        )
        try:
            append_decided(self.bank.log, self.bank.latest, [made])
        except BadPolicy:
            made = replace(made, id=self.bank.log.new_id())
            self.decided_by_hand(made, [Decision(candidate=0, action="add", item=item.id)])

    def decided_by_hand(self, made: MemoriesExtracted, decisions: list[Decision]) -> None:
        """Somebody records decisions that no policy made, but none against what is rejected, and keeps to the bound."""
        facts = Facts.of(visible(self.log))
        items = [Item.join(head, words) for head, words in zip(made.heads, made.candidates, strict=True)]  # type: ignore[arg-type]
        known, policy = recorded(self.log), in_force(self.bank.state().policies, "consolidation")
        written = made.kind in ("seed", "manual") and not made.runs
        bars = [barred(facts, known, policy, it, self.bank.position, facts.bars(), written) for it in items]
        kept = [self.unbarred(facts, yes, bar) for yes, bar in zip(decisions, bars, strict=True)]
        done = MemoriesConsolidated(extraction=made.id, policy="hand-1", decisions=tuple(kept))
        self.bank.append([made, done])
        with suppress(BadPolicy):
            state = self.bank.state()
            bound = forgetting_policy(state)
            if ids := bound.to_forget(state):
                self.bank.append(MemoriesForgotten(ids=ids, policy=bound.label))

    def unbarred(self, facts: Facts, made: Decision, bar: Bar | None) -> Decision:
        """A decision that isn't against what is rejected."""
        if made.item in facts.rejected or (bar is not None and bar[1]):
            return replace(made, action="discard", targets=(), reason="rejected")
        if bar is not None and made.action in BIRTHS:
            return replace(made, action="add", targets=(bar[0],), pending=True)
        return made

    def hand(self, _: str, items: list[Item], action: Any, n: int) -> None:
        """Somebody decides by hand, among items that there are."""
        known = sorted(id for id, it in recorded(self.log).items() if it.state != "unsupported")
        target = known[n % len(known)] if known else None
        decisions = []
        for index, item in enumerate(items):
            free = target is not None and target != item.id and action != "add"
            targets = (target,) if free and target is not None else ()
            decisions.append(
                Decision(candidate=index, action=action if free else "add", item=item.id, targets=targets, reason="x")
            )
        self.decided_by_hand(self.extraction("seed", RUNS, items, False), decisions)

    def rough(self, _: str, items: list[Item], chosen: list[tuple[Any, int]], policy: str, again: bool) -> None:
        """Somebody decides by hand and weighs nothing: rejected words, what isn't there, more than fits; by any name.

        `again`: also about an earlier candidate, about which a decision was made.
        """
        made = self.extraction("seed", RUNS, items, False)
        known = [*sorted(recorded(self.log)), "nobody"]
        decisions = []
        for index, item in enumerate(items):
            action, n = chosen[index] if index < len(chosen) else ("add", 0)
            targets = () if action in ("add", "discard") else (known[n % len(known)], known[n // 2 % len(known)])
            decisions.append(Decision(candidate=index, action=action, item=item.id, targets=targets))
        events: list[Event] = [
            made,
            MemoriesConsolidated(extraction=made.id, policy=policy, decisions=tuple(decisions)),
        ]
        if again and (pair := self.pair(len(chosen))) is not None:
            other = Decision(candidate=pair[1], action="add", item=self.bank.state().candidates[pair].item.id)
            events.append(MemoriesConsolidated(extraction=pair[0], policy=policy, decisions=(other,)))
        self.bank.append(events)

    def end(self, _: str, n: int, how: str) -> None:
        """Somebody forgets an item by hand, active or not, under any policy's name, or takes a forgetting back."""
        id = self.one(n)
        if id is not None and how == "restore":
            self.bank.append(MemoriesRestored(ids=(id,), how="supported"))
        elif id is not None:
            self.bank.append(MemoriesForgotten(ids=(id,), policy=how))

    def act(self, what: str, n: int) -> None:
        """A person acts on an item, by a plain append."""
        id = self.one(n)
        if id is not None:
            self.bank.append(
                {
                    "reject": MemoriesRetracted(ids=(id,), how="rejected", occurred_at=self.when),
                    "withdraw": MemoriesRetracted(ids=(id,), how="withdrawn", occurred_at=self.when),
                    "restore": MemoriesRestored(ids=(id,), occurred_at=self.when),
                    "admit": MemoriesAdmitted(ids=(id,), occurred_at=self.when),
                }[what]
            )

    def undo(self, _: str, n: int, lifted: bool) -> None:
        """A person takes a decision back, or that."""
        pair = self.pair(n)
        if pair is not None:
            self.bank.append(
                DecisionUndone(extraction=pair[0], candidate=pair[1], lifted=lifted, occurred_at=self.when)
            )

    def aside(self, _: str, n: int, run: str, verdict: Any) -> None:
        """An extraction is set aside because of a verdict."""
        pair = self.pair(n)
        if pair is not None:
            self.bank.append(MemoriesRetracted(how="tainted", extractions=(pair[0],), run=run, verdict=verdict))

    def use(self, _: str, n: int, run: str) -> None:
        """A run is given an item."""
        id = self.one(n)
        if id is not None:
            self.bank.append(ContextBuilt(run=run, items=(id,), chars=0))

    def policy(self, _: str, way: Any, bound: Any, supervised: bool) -> None:
        """Other policies are in force from here on, perhaps unknown ones."""
        choices: list[PolicyChoice] = [CheckJudging(supervised=supervised).choice, *self._law()]
        for kind, given in (("consolidation", way), ("forgetting", bound)):
            unknown = isinstance(given, str)
            choices.append(PolicyChoice(kind=kind, name=given, version=7) if unknown else given.choice)  # type: ignore[arg-type]
        self.bank.append(PolicySet(policies=tuple(choices)))

    def attribute(self, _: str, counted: Any) -> None:
        """Other uses count from here on; all other policies stay."""
        others = [choice for kind, choice in self.bank.state().policies.items() if kind != "attribution"]
        self.bank.append(PolicySet(policies=(*others, Exposure(counted=counted).choice)))

    def erase(self, _: str, n: int) -> None:
        """The words of an item are erased."""
        id = self.one(n)
        paths = () if id is None else tuple(paths_of_item(self.bank.log.read(types=("memories_extracted",)), id))
        if paths:
            self.bank.log.erase(Erasing(paths=paths), rebuild=lambda: None)

    def forget(self, _: str, n: int) -> None:
        """Somebody forgets an active item by hand."""
        id = self.one(n)
        if id is not None and recorded(self.log)[id].state == "active":
            self.bank.append(MemoriesForgotten(ids=(id,), policy="hand-1"))


def lived(ops: list[Op], tidy: bool = True) -> Life:
    """A life; tidy if everybody reconciles."""
    life = Life()
    for op in ops:
        life.do(op)
        if tidy and op[0] not in ("learn", "use", "policy"):
            life.correct()
    return life


def words_that_stand(log: list[Event]) -> tuple[set[str], set[str]]:
    """The items whose own words came from a candidate that counts and landed on them; and those that are rejected."""
    facts = Facts.of(visible(log))
    counting = facts.counting(verdicts_of(log)[0])
    standing = set[str]()
    for pair in counting:
        made, id = facts.current[pair], facts.item(pair).id
        if made.action in BIRTHS or (made.action == "skip" and id in made.targets):
            standing.add(id)
    return standing, set(facts.rejected)


def _groups(log: list[Event]) -> Iterator[list[Event]]:
    group: list[Event] = []
    for each in log:
        group.append(each)
        if not each.more:
            yield group
            group = []
