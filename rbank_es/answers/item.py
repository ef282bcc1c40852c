"""The question `item`: everything about an item: what it rests on, what would end it, the runs that were given it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from rbank_es.answers.events import EventRow, event_row
from rbank_es.answers.items import ItemRow
from rbank_es.answers.shared.bank_reader import BankReader, struct_of
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.id_lookup import whole_id
from rbank_es.bank.item_effect import OutcomeDifference, outcome_difference
from rbank_es.bank.item_events import ITEM_TYPES, RULING_TYPES, item_events
from rbank_es.bank.near_items import NearItem, near_of
from rbank_es.events import Event, ItemsLinked, MemoriesExtracted, type_of
from rbank_es.events.hidden_characters import without_hidden
from rbank_es.events.readable_text import format_names
from rbank_es.limits import NAMES_LISTED, answer_limits
from rbank_es.system.command_lines import whole_command
from rbank_es.system.proportion import Share

if TYPE_CHECKING:
    from rbank_es.projections.view import View

VERDICTS = ("success", "failure")


class StateSpan(Struct, frozen=True, kw_only=True):
    """A state of an item, from one position until another."""

    state: str
    since_seq: int
    until_seq: int | None


class GroundRun(Struct, frozen=True, kw_only=True):
    """A run that a candidate was drawn from: the verdict that it relied on, and the one that stands."""

    run: str
    task: str | None
    relied_verdict: str | None
    verdict: str | None
    holds: bool
    aside: bool


class ItemGround(Struct, frozen=True, kw_only=True):
    """A candidate in the words of an item, the runs that it was drawn from, and what it does for the item."""

    extraction: str
    place: int
    seq: int
    kind: str
    extractor: str | None
    copy_of: tuple[str, ...]
    runs: tuple[GroundRun, ...]
    action: str | None
    undone: bool | None
    stands: bool
    landed: tuple[str, ...]
    carries: bool


class ItemAct(Struct, frozen=True, kw_only=True):
    """An act of a person on an item: rejected, withdrawn, vouched or admitted."""

    act: str
    seq: int
    by: str | None
    why: str | None


class ItemUse(Struct, frozen=True, kw_only=True):
    """A way in which a run was given an item in full, at its first time."""

    run: str
    task: str | None
    way: str
    seq: int
    outcome: str | None
    verdict: str | None


class ItemLink(Struct, frozen=True, kw_only=True):
    """An item with which another is linked, or that took its place."""

    item: str
    title: str | None
    how: str
    seq: int | None
    from_here: bool


class ComparedRuns(Struct, frozen=True, kw_only=True):
    """Runs of a group, and those of them that were judged a success."""

    part: int
    whole: int
    rate: float | None


class Compared(Struct, frozen=True, kw_only=True):
    """Runs that used an item beside runs like them without it: no effect, because they were not given it at random."""

    used: ComparedRuns
    others: ComparedRuns
    strata: int
    matched_runs: int
    needed_runs: int
    rate_difference: float | None
    low: float | None
    high: float | None


class ItemAnswer(BankAnswer, frozen=True, kw_only=True):
    """An item."""

    item: ItemRow
    hidden_chars: int
    states: tuple[StateSpan, ...]
    grounds: tuple[ItemGround, ...]
    warning: str | None
    ends: str | None
    command: str | None
    call: str | None
    acts: tuple[ItemAct, ...]
    links: tuple[ItemLink, ...]
    near: tuple[NearItem, ...]
    searches: int
    used_in_total: int
    used_in: tuple[ItemUse, ...]
    compared: Compared
    events_total: int | None
    events: tuple[EventRow, ...] | None


class ItemQuestion(BankQuestion, frozen=True, kw_only=True):
    """Which item."""

    item: Annotated[str, Meta(min_length=1, description="The item's id, or a beginning of it that no other item has.")]
    limit: Annotated[int, Meta(ge=1, le=answer_limits.ANSWER_ROWS_MOST, description="Uses, and events, at most.")] = (
        answer_limits.ANSWER_ROWS
    )
    history: Annotated[bool, Meta(description="Whether to read the events about it, which takes the whole log.")] = True


def find_item(reader: BankReader, question: ItemQuestion) -> ItemAnswer:
    """Return all about an item. Raises `NotInBank`, `AmbiguousId`, and as `EventLog.read`."""
    from rbank_es.projections.paged_view import RowCondition

    view = reader.view
    id = whole_id(view, "item", question.item)
    (row,) = view.page("items", [RowCondition(("id",), "is", id)]).rows
    item, grounds = struct_of(ItemRow, row), grounds_of(reader, id)
    is_there = item.state in ("active", "pending")
    limit = reader.limit(question.limit)
    given = sorted(view.rows("item_exposures", item=id), key=lambda each: (-each["seq"], each["run"], each["way"]))
    return ItemAnswer(
        bank=reader.name,
        position=reader.position,
        item=item,
        hidden_chars=sum(len(text) - len(without_hidden(text)) for text in (item.title, item.desc, item.content)),
        states=tuple(
            StateSpan(state=each["state"], since_seq=each["from"], until_seq=each["to"])
            for each in view.item_history(id)
        ),
        grounds=grounds,
        warning=_warning(grounds),
        ends=_ends(_originals(reader, grounds), item.state, vouched=item.vouched),
        command=whole_command("reject", [reader.command, id], "--because WHY") if is_there else None,
        call=f"bank.reject({id!r}, because='WHY')" if is_there else None,
        searches=len(view.rows("lineage_edges", source_kind="item", source=id, relation="hit_in")),
        used_in_total=len(given),
        used_in=tuple(_use(view, each) for each in given[:limit]),
        compared=_compared(outcome_difference(view, id)),
        **_from_log(reader, row, limit, history=question.history),
    )


def _from_log(reader: BankReader, row: dict[str, Any], limit: int, *, history: bool) -> dict[str, Any]:
    """Return the fields of an answer that only the log has."""
    about = item_events(reader.bank, row["id"], reader.position, ITEM_TYPES if history else RULING_TYPES)
    return {
        "acts": tuple(_acts(reader, about, row["id"])),
        "links": tuple(_links(reader, about, row)),
        "near": near_of(reader.view, row, about),
        "events_total": len(about) if history else None,
        # The newest, in order.
        "events": tuple(map(event_row, about[-limit:])) if history else None,
    }


def _use(view: View, row: dict[str, Any]) -> ItemUse:
    run = view.run(row["run"]) or {}
    return ItemUse(
        run=row["run"],
        task=run.get("task"),
        way=row["way"],
        seq=row["seq"],
        outcome=run.get("outcome"),
        verdict=run.get("verdict"),
    )


def _compared(found: OutcomeDifference) -> Compared:
    value, low, high = (None, None, None) if found.difference is None else found.difference
    return Compared(
        used=_tally(found.used),
        others=_tally(found.others),
        strata=found.strata,
        matched_runs=found.matched,
        needed_runs=found.needed,
        rate_difference=_rounded(value),
        low=_rounded(low),
        high=_rounded(high),
    )


def _tally(share: Share) -> ComparedRuns:
    return ComparedRuns(part=int(share.part), whole=share.whole, rate=_rounded(share.rate))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


# ---------------------------------------------------------------- what it rests on


def grounds_of(reader: BankReader, id: str) -> tuple[ItemGround, ...]:
    """Return the candidates in the words of an item, in order, each with what it does for the item now."""
    drawn: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in sorted(reader.view.rows("drawn_candidates", item=id), key=lambda row: (row["seq"], row["place"])):
        drawn.setdefault((row["extraction"], row["place"]), []).append(row)
    landed = {
        (row["extraction"], row["place"]): tuple(msgspec.json.decode(row["landed"], type=list[str]))
        for row in reader.view.rows("candidate_decisions", item=id)
    }
    return tuple(_ground(reader, rows, id, landed[place]) for place, rows in drawn.items())


def _ground(reader: BankReader, rows: list[dict[str, Any]], id: str, landed: tuple[str, ...]) -> ItemGround:
    row = rows[0]
    copy_of = tuple(msgspec.json.decode(row["copy_of"], type=list[str]))
    # A copy counts where it landed: it stands and falls with what it is a copy of.
    counts = not copy_of or bool(landed) or bool(row["undone"]) or row["action"] in (None, "discard")
    event = reader.bank.event_at(row["seq"])
    return ItemGround(
        **{name: row[name] for name in ("extraction", "place", "seq", "kind", "action")},
        extractor=event.extractor if isinstance(event, MemoriesExtracted) else None,
        runs=tuple(_ground_runs(reader, rows)),
        undone=None if row["undone"] is None else bool(row["undone"]),
        copy_of=copy_of,
        stands=bool(row["stands"]) and counts,
        landed=landed,
        carries=id in landed,
    )


def _ground_runs(reader: BankReader, rows: list[dict[str, Any]]) -> Iterator[GroundRun]:
    relied, aside = (
        dict(msgspec.json.decode(rows[0][name], type=list[tuple[str, str]])) for name in ("relied", "aside")
    )
    # In the order in which it relied on them: an extraction from several tells them apart.
    for run in dict.fromkeys((*relied, *aside, *sorted(row["run"] for row in rows if row["run"] is not None))):
        known = reader.view.run(run) or {}
        verdict = known.get("verdict")
        yield GroundRun(
            run=run,
            task=known.get("task"),
            relied_verdict=relied.get(run),
            verdict=verdict,
            holds=verdict is None or verdict == relied.get(run, verdict),
            aside=run in aside and aside[run] == verdict,
        )


def _warning(grounds: Sequence[ItemGround]) -> str | None:
    """Return a sentence about the first verdict that let the item in and is another one now; None if all hold."""
    for run in (run for ground in grounds for run in ground.runs if not run.holds):  # the first one
        said = f"It was drawn from {run.run} as a {run.relied_verdict}, and that run's verdict is {run.verdict}"
        return f"{said}{_still(grounds)}."
    return None


def _still(grounds: Iterable[ItemGround]) -> str:
    """Return what supports an item though a verdict changed; empty where nothing does."""
    carrying = [each for each in grounds if each.carries and each.stands]
    runs = list(dict.fromkeys(run.run for each in carrying for run in each.runs if run.holds))
    if runs:
        return f"; {format_names(runs, NAMES_LISTED)} still {'supports' if len(runs) == 1 else 'support'} it"
    return "; it is supported without that run" if carrying else ""


def _ends(grounds: Iterable[ItemGround], state: str, *, vouched: bool) -> str | None:
    """Return in a sentence what would end an item; None if it has ended."""
    if state not in ("active", "pending"):
        return None
    if vouched:
        return "no verdict ends it, because a person vouched for it: only reject, retract, or a later decision does"
    carrying = [(each, _relied(each)) for each in grounds if each.carries]
    if any(not runs for _, runs in carrying):
        return "no verdict ends it, because it was not drawn from a judged run: only reject, retract or undo does"
    ends = list(dict.fromkeys(_end_of(ground.kind, runs) for ground, runs in carrying))
    if len(ends) == 1:
        return f"it ends if {ends[0]}"
    return f"it ends if all of these happen: {'; '.join(ends)}" if ends else None


def _originals(reader: BankReader, grounds: Iterable[ItemGround]) -> list[ItemGround]:
    """Return the grounds without copies of extractions that are all known, which end with these."""
    known = {id for each in grounds for id in each.copy_of if reader.view.rows("candidate_decisions", extraction=id)}
    return [each for each in grounds if not each.copy_of or not known.issuperset(each.copy_of)]


def _relied(ground: ItemGround) -> list[GroundRun]:
    return [each for each in ground.runs if each.relied_verdict is not None]


def _end_of(kind: str, relied: list[GroundRun]) -> str:
    """Return in words the change of verdicts by which an extraction ceases to stand."""
    holding = [each for each in relied if each.holds]
    if kind == "contrastive":
        return " or ".join(
            f"none of {', '.join(runs)} is a {verdict} any more"
            for verdict in VERDICTS
            if (runs := [each.run for each in holding if each.relied_verdict == verdict])
        )
    if kind == "pattern":
        return f"fewer than two of {', '.join(each.run for each in holding)} are successes"
    return " or ".join(f"{each.run} is no longer a {each.relied_verdict}" for each in holding)


# ---------------------------------------------------------------- what people and policies did

_ACTS = {"memories_admitted": "admitted", "memories_restored": "vouched"}


def _acts(reader: BankReader, about: Iterable[Any], id: str) -> Iterator[ItemAct]:
    """Yield the acts of people on an item; returns that follow from verdicts are none."""
    for event in about:
        tag, how = type_of(event), getattr(event, "how", "")
        if tag in (*_ACTS, "memories_retracted") and how not in ("supported", "tainted") and id in event.ids:
            why = reader.bank.text(event.why) or None
            yield ItemAct(act=_ACTS.get(tag, how), seq=event.seq, by=event.by, why=why)


def _links(reader: BankReader, about: Iterable[Event], row: dict[str, Any]) -> Iterator[ItemLink]:
    """Yield the items that an item is linked with, by hand or by a decision, or that took its place."""
    for event in about:
        if isinstance(event, ItemsLinked):
            from_here = event.source == row["id"]
            yield _link(reader, event.target if from_here else event.source, event.how, event.seq, from_here=from_here)
        for decision in getattr(event, "decisions", ()):
            named = dict.fromkeys((decision.item, *decision.targets))
            if decision.reason in ("near", "contradicts") and row["id"] in named:
                ends = decision.targets if decision.item == row["id"] else (decision.item,)
                for id in dict.fromkeys(ends):
                    yield _link(reader, id, decision.reason, event.seq, from_here=decision.item == row["id"])
    for id in msgspec.json.decode(row["superseded_by"]):
        yield _link(reader, id, "superseded by", row["ended_seq"], from_here=True)


def _link(reader: BankReader, id: str, how: str, seq: int | None, *, from_here: bool) -> ItemLink:
    title = (reader.view.item(id) or {}).get("title")
    return ItemLink(item=id, title=title, how=how, seq=seq, from_here=from_here)


QUESTION = QuestionKind(
    about="Everything about one item: what it rests on, what would end it, the runs that were given it, its history.",
    question=ItemQuestion,
    answer=ItemAnswer,
    find=find_item,
    whole=("item",),
)
