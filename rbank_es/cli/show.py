"""`show`: one item, run or event with all its recorded facts at a point in time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.bank.failed_runs import UNKNOWN
from rbank_es.bank.outcome_difference import SOUGHT_DIFFERENCE, OutcomeDifference, outcome_difference
from rbank_es.bank.run_judgments import AUTHORITIES, RankedJudgment, judgments_of
from rbank_es.bank.run_lessons import LearnedItem, drawn_at, given_to, learned_from
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_at, view_at
from rbank_es.cli.shared.event_sentences import summary
from rbank_es.cli.shared.item_support import Ground, ItemSupport, support_of
from rbank_es.cli.shared.lineage_tree import node_line, tree_facts, tree_lines
from rbank_es.cli.shared.named_things import ShownMoment, find_thing, position_of
from rbank_es.cli.shared.near_items import near_of, print_near
from rbank_es.cli.shared.output import (
    Cell,
    count,
    echo,
    echo_fields,
    echo_heading,
    echo_json,
    echo_table,
    format_cell,
    format_time,
    safe_block,
    safe_line,
    styled,
)
from rbank_es.cli.shared.stored_bank import show_stored, stored_bank
from rbank_es.errors import BadInput
from rbank_es.events import Event, JudgmentOverruled, MemoriesExtracted, type_of
from rbank_es.events.codec import ENVELOPE
from rbank_es.events.event import text_of
from rbank_es.events.run_events import judge_label
from rbank_es.events.visible_text import without_hidden
from rbank_es.limits import answer_limits
from rbank_es.log.run_reader import RunEvents, read_run
from rbank_es.state.proportion import Share, percent, points

if TYPE_CHECKING:
    from rbank_es.projections.view import View


WORDS = {
    "desc": "description",
    "src": "source",
    "cost_usd": "cost in USD",
    "started_seq": "started at position",
    "finished_seq": "finished at position",
    "duration_s": "duration in s",
    "imported_at": "imported on",
}
"""Labels of columns whose names are not plain."""

_BANK_CHARS = 12
"""Characters of a bank's id that are shown: as many as an item's id has."""


@command(
    "show",
    "rbank-es show notes 120",
    "rbank-es show notes@HEAD~50 item:3f2a9c01b7de",
    "rbank-es show notes 3f2a9c01b7de --tree",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("thing")
@click.option("--tree", is_flag=True, help="Of an item or a run, what it comes from and what it led to, as trees.")
@click.option(
    "--depth", metavar="N", type=click.IntRange(1, answer_limits.LINEAGE_TREE_DEPTH_MOST),
    help=f"Levels of the trees; default: {answer_limits.LINEAGE_TREE_DEPTH}.",
)  # fmt: skip
def show(bank: str, thing: str, tree: bool, depth: int | None, as_json: bool) -> None:
    """Show everything about THING as it was then: an item id, a run id, an event id, or an event's position.

    An item is shown with its text, state, uses, wins, the verdicts that it rests on and what would end it, the runs
    that used it, and its history. A run is shown with its task, its verdicts and which of them stands, what was given
    to it and learned from it, its leakage and timeline. Any beginning of an id will do that no other id has. Where
    THING is ambiguous, write item:ID, run:ID or event:ID. In the place of BANK, a file that `replay --into` or
    `whatif --into` wrote: it has items and runs.

    With --tree, causes and effects are shown instead. Causes: decision, candidate, extraction, the call of the model,
    the verdict, runs and the items given to them. Effects: uses with their outcomes, and the items drawn from those
    runs.
    """
    if (stored := stored_bank(bank)) is not None:
        if tree:
            raise BadInput(f"{stored.path} has no log to draw a tree from: name a bank")
        show_stored(stored, thing, as_json=as_json)
        return
    if depth is not None and not tree:
        raise BadInput("--depth is of the trees: add --tree, or leave it out")
    opened, point = open_at(bank)
    with opened, view_at(opened, point) as view:
        then = ShownMoment(opened, view, view.position)
        kind, name = find_thing(then, thing)
        if tree:
            _show_trees(then, kind, name, depth or answer_limits.LINEAGE_TREE_DEPTH, as_json=as_json)
            return
        facts = {"item": item_facts, "run": run_facts, "event": _event_facts}[kind](then, name)
        if as_json:
            for part in facts.keys() & {"win_rate", "compared"}:
                facts |= {part: facts[part].as_dict()}
            if "judgments" in facts:
                facts |= {"judgments": [each.as_dict() for each in facts["judgments"]]}
            echo_json({"bank": opened.name, "position": then.position, "kind": kind} | facts)
        else:
            {"item": _print_item, "run": _print_run, "event": _print_event}[kind](facts)


def _show_trees(then: ShownMoment, kind: str, name: str, depth: int, *, as_json: bool) -> None:
    from rbank_es.bank.lineage_graph import LineageGraph, TreeBounds
    from rbank_es.projections.lineage import LineageNode

    if kind == "event":
        raise BadInput("--tree shows an item or a run; rbank-es impact shows what followed from an event")
    graph, start, bounds = LineageGraph.of(then.view), LineageNode(kind, name), TreeBounds(depth=depth)
    causes, effects = (tree_facts(then, walk.tree(bounds)) for walk in (graph.causes(start), graph.effects(start)))
    if as_json:
        trees = {"causes": causes, "effects": effects}
        echo_json({"bank": then.bank.name, "position": then.position, "kind": kind} | trees)
        return
    echo(styled(node_line(effects), "bold"))
    for title, tree in (("comes from", causes), ("led to", effects)):
        echo_heading(title)
        echo("\n".join(tree_lines(tree, relations=tree is effects)) or "nothing on record")


# ---------------------------------------------------------------- an item


def item_facts(then: ShownMoment, name: str) -> dict[str, Any]:
    """Return an item's row, its uses, what it stands on, and the events that concern it, oldest first."""
    row = then.view.item(name)
    assert row is not None
    tags = msgspec.json.decode(row["tags"]) if isinstance(row["tags"], str) and row["tags"] else []
    edges = then.view.rows("lineage_edges", source_kind="item", source=name, relation="used_in")
    support, history = support_of(then.bank, name, then.position)
    return {
        "item": row | {"tags": tags, "domains": support.domains},
        "win_rate": Share(row["wins"], row["wins"] + row["losses"]),
        "compared": outcome_difference(then.view, name),
        "used_in": [_use(then.view, edge["target"]) for edge in edges],
        "provenance": [_origin(then.view, event) for event in _extractions(history, name)],
        "support": support,
        "near": near_of(then.view, row, history),
        "history": history,
    }


def _use(view: View, run: str) -> dict[str, Any]:
    row = view.run(run) or {}
    return {"run": run, "task": row.get("task"), "outcome": row.get("outcome"), "verdict": row.get("verdict")}


def _extractions(history: Iterable[Event], name: str) -> list[MemoriesExtracted]:
    """Return the extractions of an item in its own words, in order."""
    drawn = (event for event in history if isinstance(event, MemoriesExtracted))
    return [event for event in drawn if any(head.id == name for head in event.heads)]


def _origin(view: View, event: MemoriesExtracted) -> dict[str, Any]:
    """Return one extraction of an item, with its source runs and their verdicts."""
    runs = [_use(view, run) for run in event.runs]
    facts = {"extraction": event.id, "seq": event.seq, "kind": event.kind, "extractor": event.extractor}
    return facts | {"judgments": [each.judgment for each in event.relied if each.judgment], "runs": runs}


def _print_item(facts: dict[str, Any]) -> None:
    row = facts["item"]
    echo(styled(safe_block(row["title"] or "[erased]"), "bold"))
    plain = ("id", "state", "src", "polarity", "role", "scope", "support", "uses", "wins")
    domains = {"domain": ", ".join(row["domains"]) or row["domain"]}
    named = {name: row[name] for name in plain} | domains | {"tags": ", ".join(row["tags"])}
    echo_fields(_readable(named | {"born at": row["born_seq"], "ended at": row["ended_seq"]}))
    if row["erased"]:
        echo("\nits text was erased")
    for name in ("desc", "content"):
        if row[name]:
            echo_heading(WORDS.get(name, name))
            echo(safe_block(row[name]))
    _print_hidden(row)
    _print_support(facts["support"], facts["provenance"])
    for near in facts["near"]:
        print_near(near)
    echo_heading("used in")
    _print_utility(facts["win_rate"], facts["compared"])
    uses = [[run["run"], run["outcome"], run["verdict"], run["task"]] for run in facts["used_in"]]
    echo_table(["run", "outcome", "verdict", "task"], uses, flexible=["task", "run"], none="no run so far")
    _print_timeline("history", facts["history"], with_run=True)


def _print_utility(won: Share, compared: OutcomeDifference) -> None:
    """Print the win rate with its interval, and how runs like those ended without the item."""
    if won.interval is None or won.rate is None:
        return
    low, high = map(percent, won.interval)
    echo(f"won {won.part:,} of {count(won.whole, 'decided use')}: {percent(won.rate)}, from {low} to {high} at 95 %")
    found, sides = compared.difference, f"{count(compared.matched, 'run')} on each side"
    if found is None:
        echo(
            f"too few runs to compare: {sides} with and without it, of the same ontology and time; "
            f"{compared.needed:,} would show a difference of {SOUGHT_DIFFERENCE * 100:.0f} points"
        )
    else:
        value, low, high = map(points, found)
        echo(
            f"beside runs without it, of the same ontology and time: {value} points, from {low} to {high}; {sides}. "
            "Runs were not given it at random, so this is no effect of it"
        )
    echo()


def _print_support(support: ItemSupport, provenance: list[dict[str, Any]]) -> None:
    echo_heading("rests on")
    tasks = {run["run"]: run["task"] for step in provenance for run in step["runs"]}
    rows: list[list[Cell]] = []
    for ground in support.grounds:
        for relied in ground.relied or (None,):
            verdict = (relied.run, relied.verdict, relied.now or "not judged") if relied else (None, None, None)
            task = tasks.get(relied.run) if relied else None
            rows.append([ground.seq, ground.kind, *verdict, _effect(ground), task])
    headers = ["seq", "kind", "from run", "relied on", "verdict now", "effect", "task"]
    echo_table(headers, rows, flexible=["task", "from run"])
    for act in support.acts:
        words = safe_line(text_of(act.why))
        echo(f"{act.act} by {act.by or 'somebody'} at position {act.seq:,}{f': {words}' if words else ''}")
    if support.superseded_by:
        echo(f"superseded by {', '.join(support.superseded_by)}")
    if support.contradicts:
        echo(f"contradicts {', '.join(support.contradicts)}")
    if support.ends:
        echo(support.ends)


def _effect(ground: Ground) -> str:
    """Return in a few words what a candidate does for its item."""
    if ground.undone:
        return "undone"
    if not ground.stands:
        runs = ", ".join(each.run for each in ground.aside if each.now == each.verdict)
        return f"set aside because of {runs}" if runs else "no longer stands"
    if ground.carries:
        return "carries it"
    return f"supports {ground.landed}" if ground.landed else "discarded"


def _print_hidden(row: dict[str, Any]) -> None:
    """Report characters that the item has here, and not in the context of an agent."""
    texts = [row[name] or "" for name in ("title", "desc", "content")]
    hidden = sum(len(text) - len(without_hidden(text)) for text in texts)
    if hidden:
        echo(styled(f"\n{count(hidden, 'hidden character')} spelled out above; contexts leave them out", "yellow"))


def _readable(values: dict[str, Any]) -> dict[str, Any]:
    return {WORDS.get(name, name).replace("_", " "): value for name, value in values.items()}


def _print_timeline(title: str, events: Sequence[Event], *, with_run: bool) -> None:
    echo_heading(title)
    rows: list[list[Cell]] = []
    banks = _banks_of(events)
    for event in events:
        run = [getattr(event, "run", None)] if with_run else []
        when = format_time(event.occurred_at or event.at)
        rows.append([event.seq, when, type_of(event), *run, *banks.get(event.seq, ()), summary(event)])
    headers = ["seq", "time (UTC)", "type", *(["run"] if with_run else []), *(["bank"] if banks else []), "summary"]
    echo_table(headers, rows, flexible=["summary", "run"] if with_run else ["summary"])


def _banks_of(events: Iterable[Event]) -> dict[int, list[Cell]]:
    """Return a cell for each event: the bank that recorded it first; nothing where all were recorded first here."""
    origins = {event.seq: event.origin for event in events}
    if not any(origins.values()):
        return {}
    return {seq: [origin[:_BANK_CHARS] if origin else "this one"] for seq, origin in origins.items()}


# ---------------------------------------------------------------- a run


def run_facts(then: ShownMoment, name: str) -> dict[str, Any]:
    """Return a run's row, what it was given and taught, its judgments, its leakage, its red flags, and its events."""
    run = read_run(then.bank.log, name, then.position, extractions=drawn_at(then.view, name))
    leakage = then.view.rows("leakage_by_run", run=name)
    return {
        "run": then.view.run(name),
        "judgments": judgments_of(then.bank, name, then.position),
        "given": given_to(then.view, run),
        "learned": learned_from(then.view, run),
        "leakage": leakage[0] if leakage else None,
        "leakage_by_tool": then.view.rows("leakage_by_run_and_tool", run=name),
        "red_flags": then.view.rows("red_flags", run=name),
        "timeline": run.own,
    }


def _print_run(facts: dict[str, Any]) -> None:
    row = facts["run"]
    echo(styled(safe_block(row["task"] or "[no task]"), "bold"))
    _print_ending(row, facts["timeline"])
    # Verdicts have a table of their own, with the authority of each in words.
    apart = ("task", "answer", "sparql", "error", "verdict", "score", "judge", "kind", "sure")
    times = {name: format_time(row[name]) for name in ("started_at", "finished_at", "imported_at")}
    plain = {name: value for name, value in (row | times).items() if name not in apart}
    echo_fields(_readable(plain | {"scripted": bool(row["scripted"]) or None}))
    for name in ("answer", "sparql"):
        if row[name]:
            echo_heading(name)
            echo(safe_block(row[name]))
    print_judgments(facts["judgments"])
    echo_heading("given to it")
    given: list[list[Cell]] = [[each.item, each.state or "unknown", each.how, each.title] for each in facts["given"]]
    echo_table(["item", "state now", "how", "title"], given, flexible=["title"], none="no item")
    echo_heading("learned from it")
    learned: list[list[Cell]] = [
        [each.seq, each.kind, each.item, _present(each), each.title or "[erased]"] for each in facts["learned"]
    ]
    echo_table(["seq", "kind", "item", "state now", "title"], learned, flexible=["title"], none="nothing")
    _print_leakage(facts)
    _print_timeline("timeline", facts["timeline"], with_run=False)


def _print_ending(row: dict[str, Any], timeline: Iterable[Event]) -> None:
    """Print what ended a run that did not end by itself, before all else that is known of it."""
    how = {"failed": "it ended in an error", "forced_at_limit": "it was stopped at a limit"}.get(row["outcome"])
    if how is not None:
        end = RunEvents(row["run"], tuple(timeline)).end
        why = row["error_code"] or (end.bound if end is not None else None) or ""
        echo(styled(": ".join(filter(None, (how, safe_line(why)))), "red"))
        if row["error"] or row["outcome"] == "failed":
            echo(safe_block(row["error"] or UNKNOWN))
        echo()


def _present(learned: LearnedItem) -> str:
    """Return the outcome of a candidate: the state of its item, or the item that it supports."""
    others = [id for id in learned.landed if id != learned.item]
    return f"supports {', '.join(others)}" if others else learned.state or "discarded"


def _print_leakage(facts: dict[str, Any]) -> None:
    echo_heading("leakage")
    shown = {name: value for name, value in (facts["leakage"] or {}).items() if name not in ("run", "started_seq")}
    echo_fields(_readable(shown))
    if by_tool := facts["leakage_by_tool"]:
        echo()
        names = [name for name in by_tool[0] if name != "run"]
        echo_table([name.replace("_", " ") for name in names], [[row[name] for name in names] for row in by_tool])
    for flag in facts["red_flags"]:
        where = f" by {flag['tool']}" if flag["tool"] else ""
        over = f"{format_cell(flag['value'])} is over {format_cell(flag['threshold'])}"
        echo(styled(f"red flag at {flag['seq']:,}: {flag['flag'].replace('_', ' ')}{where}, {over}", "red"))


# ---------------------------------------------------------------- an event


def _event_facts(then: ShownMoment, name: str) -> dict[str, Any]:
    seq = position_of(then, name)
    assert seq is not None
    event = then.bank.event_at(seq, resolve=True)
    (stored,) = then.bank.log.lines(after=seq - 1, upto=seq)
    return {"event": event, "stored": msgspec.Raw(stored)}


def _print_event(facts: dict[str, Any]) -> None:
    event: Event = facts["event"]
    echo(styled(f"{type_of(event)} at position {event.seq:,}", "bold"))
    echo_fields(
        {"recorded": f"{format_time(event.at)} UTC", "occurred": format_time(event.occurred_at), "id": event.id}
        | {"recorded first in bank": event.origin}
    )
    own = {name: getattr(event, name) for name in event.__struct_fields__ if name not in ENVELOPE and name != "salt"}
    echo_heading("fields")
    echo_fields({name: _value(value) for name, value in own.items() if value not in (None, (), {}, "")})


def _value(value: Any) -> Any:
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, tuple) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value)
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def print_judgments(judged: Sequence[RankedJudgment]) -> None:
    """Print all judgments of a run, in order, each with its authority and whether it stands."""
    echo_heading("verdicts")
    rows: list[list[Cell]] = []
    banks = _banks_of(event for event, _, _ in judged)
    for event, rank, stands in judged:
        by, why = judge_label(event.judge, event.judge_version), event.reason
        if isinstance(event, JudgmentOverruled):
            by, why = event.by, event.why or event.reason
        bank = banks.get(event.seq, ())
        rows.append([event.seq, event.purpose, event.verdict, by, AUTHORITIES[rank], stands, *bank, text_of(why)])
    headers = ["seq", "purpose", "verdict", "judge", "authority", "stands", *(["bank"] if banks else []), "reason"]
    echo_table(headers, rows, flexible=["reason", "judge"], none="not judged")
