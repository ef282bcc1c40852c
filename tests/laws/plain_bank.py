"""The law of correction as a plain definition over events: slow on purpose, without an index and without a kept state.

    settled    what a bank is, given which candidates count, what was decided about them, and what people did
    recorded   the fold: settled over the decisions in the log
    canonical  the refold: settled over the decisions that the policies in force make of the candidates that count

Likeness is computed as `rbank_es.law.consolidation` and `consolidation_2` document it, pair by pair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from rbank_es.errors import BadPolicy
from rbank_es.events import (
    ConsolidationProposed,
    ContextBuilt,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    Erased,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    PolicyChoice,
    PolicySet,
    RunJudged,
)
from rbank_es.events.items import Item, ItemText
from rbank_es.law import AppendV2, Bounded, Dedup, DedupV2, LeastProven, Merge, MergeV2, State
from rbank_es.law.consolidation import NEGATIONS
from rbank_es.law.contradiction import corrects
from rbank_es.law.likeness import are_near, clears, content_of, facts_of, is_same, token_set
from rbank_es.policies import Policy, governing
from rbank_es.policies.words import words_of
from rbank_es.system.proportion import wilson

BIRTHS = ("add", "merge", "supersede")
Pair = tuple[str, int]
Key = tuple[int, int]
Row = tuple[Any, ...]


def visible(log: Sequence[Event]) -> list[Event]:
    """The events as they count: parts of a correction where it is completed, those of an unfinished one never; acts of
    people without the items for which, by rule 2, a later act was recorded before."""
    out: list[Event] = []
    parts: dict[str, list[Event]] = {}
    for event in log:
        correction = getattr(event, "correction", None)
        if isinstance(event, CorrectionCompleted):
            out += [replace(part, seq=event.seq) for part in parts.pop(event.correction, [])]
        elif correction is not None:
            parts.setdefault(correction, []).append(event)
        else:
            out.append(event)
    return list(_heard(out))


def _heard(log: Iterable[Event]) -> Iterator[Event]:
    law, last = 1, dict[object, tuple[str, str]]()

    def is_heard(thing: object, event: Event) -> bool:
        heard = law == 1 or said(event) > last.get(thing, ("", ""))
        if heard:
            last[thing] = said(event)
        return heard

    for event in log:
        if isinstance(event, PolicySet):
            law = law_of(event)
        if isinstance(event, DecisionUndone):
            if is_heard((event.extraction, event.candidate), event):
                yield event
        elif (isinstance(event, MemoriesRetracted) and event.how != "tainted") or (
            isinstance(event, MemoriesRestored) and event.how == "vouched"
        ):
            yield replace(event, ids=tuple(id for id in dict.fromkeys(event.ids) if is_heard(id, event)))
        else:
            yield event


# ---------------------------------------------------------------- verdicts


def law_of(event: PolicySet) -> int:
    """The rule of the law of correction that is in force from an event on."""
    return max([policy.version for policy in event.policies if policy.kind == "correction"], default=1)


def said(event: Event) -> tuple[str, str]:
    """When something was said."""
    return event.occurred_at or event.at, event.id


def verdicts_of(log: Iterable[Event]) -> tuple[dict[str, str], dict[str, int]]:
    """The standing verdict of each run for learning, and the position of its first judgment that counts."""
    best: dict[str, tuple[int, str, tuple[str, str]]] = {}
    first: dict[str, int] = {}
    supervised, law = False, 1
    for event in log:
        if isinstance(event, PolicySet):
            law = law_of(event)
            supervised = any(policy.settings.get("supervised") is True for policy in event.policies)
        elif isinstance(event, RunJudged | JudgmentOverruled) and event.purpose == "learning":
            rank = authority(event, supervised or (isinstance(event, RunJudged) and event.supervised))
            if rank < 0:
                continue
            first.setdefault(event.run, event.seq)
            old, _, before = best.get(event.run, (-1, "", ("", "")))
            if rank > old or (rank == old and (law == 1 or said(event) > before)):
                best[event.run] = rank, event.verdict, said(event)
    return {run: verdict for run, (_, verdict, _) in best.items()}, first


def authority(event: RunJudged | JudgmentOverruled, supervised: bool) -> int:
    """The rank of a judgment; -1 for one that doesn't count."""
    if event.kind == "human":
        return 5
    if event.kind == "gold" and not supervised:
        return -1
    if event.verdict == "undecided":
        return 0
    if event.kind == "check":
        return 3 if event.verdict == "failure" and event.sure else 1
    return {"gold": 4, "outcome": 4, "lm": 2}[event.kind]


def stands(event: MemoriesExtracted, verdicts: Mapping[str, str], aside: Collection[tuple[str, str]]) -> bool:
    """By values of verdicts, not by judgments; a run that nobody judged speaks against nothing."""
    if any(verdicts.get(run) == verdict for run, verdict in aside):
        return False
    held = [each.verdict for each in event.relied if verdicts.get(each.run, each.verdict) == each.verdict]
    if event.relied and event.kind == "contrastive":
        return "success" in held and "failure" in held
    if event.relied and event.kind == "pattern":
        return held.count("success") >= 2
    return len(held) == len(event.relied)


# ---------------------------------------------------------------- likeness


def words(item: Item) -> set[str]:
    """The distinct words of a content."""
    return set(words_of(item.content))


def jaccard(new: Item, old: Item) -> Fraction:
    """How alike two contents are."""
    both = words(new) | words(old)
    return Fraction(len(words(new) & words(old)), len(both)) if both else Fraction(1)


def contradict(new: Item, old: Item) -> bool:
    """Whether one of them negates the other."""

    def differs(one: set[str], other: set[str]) -> bool:
        return bool((one - other) & NEGATIONS) != bool((other - one) & NEGATIONS)

    return differs(set(words_of(new.title)), set(words_of(old.title))) or differs(words(new), words(old))


def repeats(new: Item, bad: Item) -> bool:
    """Whether a candidate nearly repeats rejected words."""
    near = jaccard(new, bad) >= Fraction(3, 4) and new.polarity == bad.polarity and not contradict(new, bad)
    return near and of_domain(new, bad)


def of_domain(new: Item, old: Item) -> bool:
    """Whether what is said of one domain may be said of the other."""
    return new.domain == old.domain or not new.domain or not old.domain


def share(new: Item, old: Item) -> Fraction:
    """How many of the tokens of two statements are in both."""
    one, two = token_set(content_of(new)), token_set(content_of(old))
    return Fraction(len(one & two), len(one | two)) if one | two else Fraction(1)


def alike(policy: Dedup, new: Item, old: Item) -> bool:
    """Whether `dedup` finds two items alike."""
    ratio = SequenceMatcher(None, new.title.lower(), old.title.lower()).ratio()
    return ratio >= policy.title_min and jaccard(new, old) >= Fraction(*policy.content_min)


# ---------------------------------------------------------------- what a bank is


@dataclass(frozen=True)
class PlainItem:
    """An item and its state."""

    id: str
    state: str
    item: Item
    rank: Key
    support: int
    domains: tuple[str, ...]
    erased: bool
    vouched: bool
    written: bool
    by: tuple[str, ...] = ()

    @property
    def row(self) -> Row:
        """What is compared."""
        domains = () if self.domains == ("",) else self.domains
        head = (self.id, self.state, self.item, self.rank, self.support, domains)
        return (*head, self.erased, self.vouched, self.by)


@dataclass
class Facts:
    """What a log says, before anything is settled."""

    log: list[Event]
    extractions: dict[str, MemoriesExtracted] = field(default_factory=dict)
    keys: dict[Pair, Key] = field(default_factory=dict)
    first: dict[Pair, tuple[Decision, str]] = field(default_factory=dict)
    current: dict[Pair, Decision] = field(default_factory=dict)
    proposals: dict[Pair, ConsolidationProposed] = field(default_factory=dict)
    undone: set[Pair] = field(default_factory=set)
    rejected: dict[str, int] = field(default_factory=dict)
    aside: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, log: list[Event]) -> Facts:
        """Read a log, whose parts of corrections stand where they count."""
        self = cls(log)
        for event in log:
            match event:
                case MemoriesExtracted():
                    self.extractions.setdefault(event.id, event)
                case ConsolidationProposed() if (event.extraction, event.candidate) not in self.keys:
                    self.proposals[event.extraction, event.candidate] = event
                case MemoriesConsolidated():
                    self._decisions(event)
                case MemoriesForgotten():
                    self.forgotten |= set(event.ids)
                case MemoriesRestored():
                    self.forgotten -= set(event.ids)
                    if event.how == "vouched":
                        self._lift(event.ids)
                case MemoriesRetracted(how="rejected"):
                    self.rejected |= dict.fromkeys(event.ids, event.seq)
                case MemoriesRetracted(how="withdrawn"):
                    self._lift(event.ids)
                case MemoriesRetracted(how="tainted", run=str(run), verdict=str(verdict)):
                    for extraction in event.extractions:
                        self.aside.setdefault(extraction, set()).add((run, verdict))
                case DecisionUndone():
                    pair = event.extraction, event.candidate
                    (self.undone.discard if event.lifted else self.undone.add)(pair)
                case _:
                    pass
        return self

    def _lift(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.rejected.pop(id, None)

    def _decisions(self, event: MemoriesConsolidated) -> None:
        for decision in event.decisions:
            pair = decision.extraction or event.extraction or "", decision.candidate
            if not event.again:
                if pair not in self.first:
                    self.first[pair] = decision, event.policy
                    self.keys[pair] = event.seq, decision.candidate
                if decision.action in BIRTHS:
                    self.forgotten.discard(decision.item)
            self.current[pair] = decision

    def item(self, pair: Pair) -> Item:
        """The candidate, without words if they were erased."""
        event, text = self.extractions[pair[0]], self.extractions[pair[0]].candidates[pair[1]]
        return Item.join(event.heads[pair[1]], text if isinstance(text, ItemText) else None)

    def erased(self, pair: Pair) -> bool:
        """Whether the candidate's words were erased, here or before it came."""
        words = self.extractions[pair[0]].candidates[pair[1]]
        return isinstance(words, Erased) or words == ItemText(title="")

    def counting(self, verdicts: Mapping[str, str]) -> dict[Pair, set[str]]:
        """The candidates that count, each with those who stand behind it."""
        behind = {pair: self._behind(pair, verdicts) for pair in self.keys if pair not in self.undone}
        return {pair: some for pair, some in behind.items() if some}

    def _behind(self, pair: Pair, verdicts: Mapping[str, str]) -> set[str]:
        """A copy stands on the candidates of which it is one; all that aren't known are one witness."""
        drawn, own = self.extractions[pair[0]], self._runs(pair[0], verdicts)
        originals = drawn.copy_of[pair[1]] if pair[1] < len(drawn.copy_of) else ()
        if not originals or not own:
            return own
        found = {id for id in originals if id not in self.extractions and id == self._unknown(originals)}
        for id in originals:
            same = [each for each in self.keys if each[0] == id and self.item(each).id == self.item(pair).id]
            if id in self.extractions and not (same and self.undone.issuperset(same)):
                found |= self._runs(id, verdicts)
        return found

    def _unknown(self, originals: Sequence[str]) -> str:
        return next(id for id in originals if id not in self.extractions)

    def _runs(self, id: str, verdicts: Mapping[str, str]) -> set[str]:
        """The runs behind an extraction that stands, without those whose verdict it no longer has; else itself."""
        drawn = self.extractions[id]
        if not stands(drawn, verdicts, self.aside.get(id, ())):
            return set()
        relied = {each.run for each in drawn.relied}
        held = {each.run for each in drawn.relied if verdicts.get(each.run, each.verdict) == each.verdict}
        return held | (set(drawn.runs) - relied) or {id}

    def ordered(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Candidates by rank."""
        return sorted(pairs, key=lambda pair: self.keys[pair])

    def written(self, pair: Pair) -> bool:
        """Whether a person wrote the candidate."""
        return self.extractions[pair[0]].kind in ("seed", "manual") and not self.extractions[pair[0]].runs

    def bars(self) -> list[Item]:
        """The words that stood under a rejected id when it was rejected, as far as they weren't erased."""
        pairs = [pair for pair in self.ordered(self.keys) if not self.erased(pair)]
        named = [(pair, self.item(pair)) for pair in pairs]
        return [item for pair, item in named if self.keys[pair][0] < self.rejected.get(item.id, 0)]


def acts_until(log: Iterable[Event], seq: int) -> tuple[dict[str, int], set[str], set[str]]:
    """Until a position: when each item was last vouched for; which are withdrawn; which were admitted."""
    vouched: dict[str, int] = {}
    withdrawn: set[str] = set()
    admitted: set[str] = set()
    for event in log:
        if event.seq > seq:
            break
        if isinstance(event, MemoriesRestored) and event.how == "vouched":
            vouched |= dict.fromkeys(event.ids, event.seq)
            withdrawn -= set(event.ids)
        elif isinstance(event, MemoriesRetracted) and event.how != "tainted":
            for id in event.ids:
                vouched.pop(id, None)
                (withdrawn.add if event.how == "withdrawn" else withdrawn.discard)(id)
        elif isinstance(event, MemoriesAdmitted):
            admitted |= set(event.ids)
    return vouched, withdrawn, admitted


def settled(
    facts: Facts,
    seq: int,
    counting: Mapping[Pair, set[str]],
    decided: Mapping[Pair, Decision],
    forgotten: Collection[str],
) -> dict[str, PlainItem]:
    """Every item of which a candidate was decided on, with what became of it."""
    vouched, withdrawn, admitted = acts_until(facts.log, seq)
    own: dict[str, list[Pair]] = {}
    landed: dict[str, list[Pair]] = {}
    enders: dict[str, list[tuple[Key, str, str]]] = {}
    for pair in facts.ordered(pair for pair in counting if pair in decided):
        made, id = decided[pair], facts.item(pair).id
        targets = tuple(dict.fromkeys(made.targets))  # once each, however often a person named it
        lands = (made.item,) if made.action in BIRTHS else targets if made.action == "skip" else ()
        for target in lands:
            landed.setdefault(target, []).append(pair)
            if target == id:
                own.setdefault(target, []).append(pair)
        for target in targets if made.action in ("merge", "supersede") else ():
            enders.setdefault(target, []).append((facts.keys[pair], made.item, made.action))
    births: dict[str, Pair] = {}
    for pair in facts.ordered(pair for pair, key in facts.keys.items() if key[0] <= seq):
        births.setdefault(facts.item(pair).id, pair)
    items: dict[str, PlainItem] = {}
    for id, earliest in births.items():
        mine, said = own.get(id, []), id in vouched
        birth = mine[0] if mine else earliest
        revived = max([facts.keys[p] for p in mine if decided[p].action in BIRTHS] + [(vouched.get(id, 0), 10**6)])
        over = [each for each in enders.get(id, []) if each[0] > revived]
        state = "active"
        if id in facts.rejected:
            state = "rejected"
        elif id in withdrawn:
            state = "withdrawn"
        elif not mine and not said:
            state = "unsupported"
        elif id in forgotten:
            state = "forgotten"
        elif over:
            state = "merged" if over[-1][2] == "merge" else "superseded"
        elif not said and id not in admitted:
            held = any(decided[p].pending for p in mine) or all(facts.extractions[p[0]].pending for p in mine)
            state = "pending" if held else "active"
        domains = {facts.item(pair).domain or "" for pair in landed.get(id, [birth])}
        items[id] = PlainItem(
            id=id,
            state=state,
            item=facts.item(birth),
            rank=facts.keys[birth],
            support=len(set[str]().union(*(counting[pair] for pair in landed.get(id, [])))),
            domains=tuple(sorted(domains)),
            erased=facts.erased(birth),
            vouched=said,
            written=facts.written(birth),
            by=tuple(each[1] for each in over) if state in ("superseded", "merged") else (),
        )
    return items


def recorded(log: Sequence[Event]) -> dict[str, PlainItem]:
    """The bank as it is recorded."""
    facts = Facts.of(visible(log))
    counting = facts.counting(verdicts_of(log)[0])
    return settled(facts, last(log), counting, facts.current, facts.forgotten)


def last(log: Sequence[Event]) -> int:
    """The position of the last event."""
    return log[-1].seq if log else 0


def rows(items: Mapping[str, PlainItem]) -> list[Row]:
    """What is compared of a bank: items that are unsupported count as never born."""
    return sorted((it.row for it in items.values() if it.state != "unsupported"), key=lambda row: str(row[0]))


def rows_of(state: State) -> list[Row]:
    """The same of a state."""
    made = []
    for id, it in state.items.items():
        if it.state != "unsupported":
            head = (id, it.state, it.item, it.rank, it.support, it.domains)
            made.append((*head, it.erased, it.vouched, it.superseded_by))
    return sorted(made, key=lambda row: str(row[0]))


# ---------------------------------------------------------------- deciding


Bar = tuple[str, bool]


def barred(
    facts: Facts,
    items: Mapping[str, PlainItem],
    policy: Policy | None,
    item: Item,
    seq: int,
    bars: list[Item],
    written: bool,
) -> Bar | None:
    """The rejected item because of which a policy bars words, and whether outright; None if nothing bars them."""
    if not isinstance(policy, AppendV2):
        return next(((bad.id, True) for bad in bars if repeats(item, bad)), None)
    old = [bad for bad in bars if bad.polarity == item.polarity and of_domain(item, bad)]
    same = [bad.id for bad in old if is_same(item, bad)]
    if same:
        return same[0], True
    vouched, _, admitted = acts_until(facts.log, seq)
    right = [
        it.item
        for it in items.values()
        if it.state == "active"
        and not it.erased
        and (it.written or it.id in vouched or it.id in admitted)
        and it.item.polarity == item.polarity
        and of_domain(item, it.item)
    ]
    for bad in old:
        words, mine = facts_of(bad), facts_of(item)
        cleared = any(are_near(it, bad) and clears(facts_of(it), mine, words) for it in right)
        if are_near(item, bad) and not cleared and not (written and corrects(item, bad)):
            return bad.id, False
    return None


def decide(facts: Facts, items: Mapping[str, PlainItem], policy: Policy, pair: Pair, bars: list[Item]) -> Decision:
    """What a policy makes of a candidate among items."""
    item = facts.item(pair)

    def made(action: Any, targets: tuple[str, ...] = (), pending: bool = False) -> Decision:
        return Decision(candidate=pair[1], action=action, item=item.id, targets=targets, pending=pending)

    bar = barred(facts, items, policy, item, facts.keys[pair][0], bars, facts.written(pair))
    if item.id in facts.rejected or (bar is not None and bar[1]):
        return made("discard")
    old = items.get(item.id)
    state = "" if old is None else old.state
    if state in ("active", "pending"):
        return made("skip", (item.id,), bar is not None and state == "pending")
    if state == "withdrawn":
        return made("discard")
    heirs = [id for id in ("" if old is None else old.by) if id in items and items[id].state == "active"]
    if heirs:
        return made("skip", (heirs[0],))
    if not isinstance(policy, Dedup | DedupV2):
        return made("add") if bar is None else made("add", (bar[0],), True)
    peers = [
        it
        for it in sorted(items.values(), key=lambda it: (it.rank, it.id))
        if it.state == "active"
        and not it.erased
        and (it.item.src, it.item.polarity) == (item.src, item.polarity)
        and (item.domain or "") in it.domains
    ]
    twins = [it for it in peers if isinstance(policy, DedupV2) and is_same(item, it.item)]
    if bar is not None:
        return made("skip", (twins[0].id,)) if twins else made("add", (bar[0],), True)
    proposal = facts.proposals.get(pair)
    if isinstance(policy, Merge | MergeV2) and proposal is not None:
        live = {it.id for it in peers}
        targets = tuple(dict.fromkeys(id for id in proposal.targets if id in live))
        if 0 < len(targets) <= policy.targets_max and proposal.action in ("merge", "supersede", "skip"):
            return made(proposal.action, targets[:1] if proposal.action == "skip" else targets)
    if isinstance(policy, DedupV2):
        near = [it for it in peers if share(item, it.item) >= Fraction(3, 5)]
        near.sort(key=lambda it: -share(item, it.item))
    else:
        near = [it for it in peers if alike(policy, item, it.item)]
        twins = [it for it in near if not contradict(item, it.item)]
    if twins:
        return made("skip", (twins[0].id,))
    return made("add", (near[0].id,) if near else ())


def kept(facts: Facts, items: Mapping[str, PlainItem], policy: Policy | None, pair: Pair, bars: list[Item]) -> Decision:
    """A decision that can't be made again: as first recorded, as far as its targets exist; near to rejected words, its
    item is pending."""
    item = facts.item(pair)
    seq, written = facts.keys[pair][0], facts.written(pair)
    bar = None if facts.erased(pair) else barred(facts, items, policy, item, seq, bars, written)
    if item.id in facts.rejected or (bar is not None and bar[1]):
        return Decision(candidate=pair[1], action="discard", item=item.id)
    made = as_recorded(facts, items, pair)
    if bar is not None and made.action in BIRTHS:
        return replace(made, action="add", targets=(bar[0],), pending=True)
    return made


def as_recorded(facts: Facts, items: Mapping[str, PlainItem], pair: Pair) -> Decision:
    """A decision as first recorded, as far as its targets exist."""
    item, gone = facts.item(pair), facts.erased(pair)
    discard = Decision(candidate=pair[1], action="discard", item=item.id)
    first = facts.first[pair][0]
    if first.action == "discard" and first.reason not in ("unsupported", "rejected"):
        return first
    live = tuple(id for id in first.targets if id in items and items[id].state != "unsupported")
    if first.action == "add" or (live and first.action != "discard"):
        return replace(first, targets=live)
    return discard if gone else Decision(candidate=pair[1], action="add", item=item.id)


def in_force(policies: Mapping[str, PolicyChoice], kind: Any) -> Policy | None:
    """The policy of a kind; None if it is unknown."""
    try:
        return governing(kind, policies.get(kind))
    except BadPolicy:
        return None


def policies_at(log: Iterable[Event], seq: int) -> dict[str, PolicyChoice]:
    """The policies in force at a position."""
    found: dict[str, PolicyChoice] = {}
    for event in log:
        if isinstance(event, PolicySet) and event.seq <= seq:
            found = {choice.kind: choice for choice in event.policies}
    return found


def to_forget(
    items: Mapping[str, PlainItem], policy: Bounded, uses: Mapping[str, set[str]], won: set[str], lost: set[str]
) -> set[str]:
    """What a bound gives up."""
    live = [it for it in items.values() if it.state == "active"]
    births = sorted({it.rank[0] for it in live})
    newborn = set(births[-policy.grace :] if policy.grace else ())
    spare = {
        "success": sum(it.item.polarity == "success" for it in live) - policy.floor_success,
        "failure": sum(it.item.polarity == "failure" for it in live) - policy.floor_failure,
    }

    def worth(it: PlainItem) -> Row:
        used = uses.get(it.id, set())
        wins, decided = len(used & won), len(used & (won | lost))
        proven = (wilson(wins, decided) or (0.0,))[0] if isinstance(policy, LeastProven) else wins
        return it.rank[0] in newborn, proven, len(used), it.support, it.rank, it.id

    out: set[str] = set()
    for it in sorted(live, key=worth):
        if len(out) < len(live) - policy.max_items and spare[it.item.polarity] > 0:
            spare[it.item.polarity] -= 1
            out.add(it.id)
    return out


def canonical(log: Sequence[Event]) -> dict[str, PlainItem]:
    """The bank as it would be had today's verdicts been known from the start, decision after decision."""
    log = visible(log)
    facts = Facts.of(log)
    verdicts, judged = verdicts_of(log)
    counting, bars = facts.counting(verdicts), facts.bars()
    decided: dict[Pair, Decision] = {}
    forgotten: set[str] = set()
    uses: dict[str, set[str]] = {}
    policies: dict[str, PolicyChoice] = {}
    seen: set[str] = set()
    for event in log:
        match event:
            case PolicySet():
                policies = {choice.kind: choice for choice in event.policies}
            case ContextBuilt():
                for id in event.items:
                    uses.setdefault(id, set()).add(event.run)
            case MemoriesRestored(how="vouched"):
                forgotten -= set(event.ids)
            case MemoriesForgotten(correction=None):
                policy = in_force(policies, "forgetting")
                if policy is None or policy.label != event.policy:
                    items = settled(facts, event.seq, counting, decided, forgotten)
                    forgotten |= {id for id in event.ids if id in items and items[id].state == "active"}
            case MemoriesConsolidated(again=False, extraction=str(extraction)) if extraction not in seen:
                seen.add(extraction)
                policy = in_force(policies, "consolidation")
                for decision in event.decisions:
                    pair = extraction, decision.candidate
                    if pair not in counting:
                        continue
                    items = settled(facts, event.seq, counting, decided, forgotten)
                    wordless = facts.erased(pair) or any(
                        facts.item(other).id in facts.first[pair][0].targets and facts.erased(other)
                        for other in facts.keys
                    )
                    free = policy is not None and policy.label == event.policy and not wordless
                    made = (
                        decide(facts, items, policy, pair, bars)
                        if free and policy is not None
                        else kept(facts, items, policy, pair, bars)
                    )
                    decided[pair] = made
                    if made.action in BIRTHS:
                        forgotten.discard(made.item)
                bound = in_force(policies, "forgetting")
                if isinstance(bound, Bounded):
                    items = settled(facts, event.seq, counting, decided, forgotten)
                    known = {run: verdict for run, verdict in verdicts.items() if judged[run] <= event.seq}
                    won, lost = ({run for run in known if known[run] == value} for value in ("success", "failure"))
                    # Lives put items into contexts only, which are no uses where reading counts.
                    read = (found := policies.get("attribution")) and found.settings["counted"] == "read"
                    forgotten |= to_forget(items, bound, {} if read else uses, won, lost)
            case _:
                pass
    return settled(facts, last(log), counting, decided, forgotten)
