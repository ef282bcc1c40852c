"""`show`: one item, run or event with all its recorded facts at a point in time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.answers import BankReader
from rbank_es.answers.event import EventAnswer
from rbank_es.answers.events import event_row
from rbank_es.answers.run import RunAnswer
from rbank_es.bank.outcome_difference import SOUGHT_DIFFERENCE, OutcomeDifference, outcome_difference
from rbank_es.cli.shared.answers import opened_reader, print_answer
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.item_support import Ground, ItemSupport, support_of
from rbank_es.cli.shared.lineage_tree import node_line, tree_facts, tree_lines
from rbank_es.cli.shared.named_things import find_thing
from rbank_es.cli.shared.near_items import near_of, print_near
from rbank_es.cli.shared.output import (
    Cell,
    count,
    echo,
    echo_fields,
    echo_heading,
    echo_json,
    echo_table,
    safe_block,
    safe_line,
    styled,
)
from rbank_es.cli.shared.shown_runs import print_event, print_events, print_run
from rbank_es.cli.shared.stored_bank import print_stored
from rbank_es.errors import BadInput
from rbank_es.events import Event, MemoriesExtracted
from rbank_es.events.event import text_of
from rbank_es.events.visible_text import without_hidden
from rbank_es.limits import answer_limits
from rbank_es.state.proportion import Share, percent, points

if TYPE_CHECKING:
    from rbank_es.projections.view import View


WORDS = {"desc": "description", "src": "source"}
"""Labels of columns whose names are not plain."""


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
    if depth is not None and not tree:
        raise BadInput("--depth is of the trees: add --tree, or leave it out")
    with opened_reader(bank) as reader:
        if tree and not reader.has_log:
            raise BadInput(f"{reader.name} has no log to draw a tree from: name a bank")
        kind, name = find_thing(reader, thing)
        if tree:
            _show_trees(reader, kind, name, depth or answer_limits.LINEAGE_TREE_DEPTH, as_json=as_json)
        elif kind == "item":
            _show_item(reader, name, as_json=as_json)
        elif kind == "run":
            run: RunAnswer = reader.ask("run", run=name, limit=answer_limits.ANSWER_ROWS_MOST)
            print_answer(run, "run", lambda: print_run(run), as_json)
        else:
            event: EventAnswer = reader.ask("event", event=name)
            print_answer(event, "event", lambda: print_event(event), as_json)


def _show_trees(reader: BankReader, kind: str, name: str, depth: int, *, as_json: bool) -> None:
    from rbank_es.bank.lineage_graph import LineageGraph, TreeBounds
    from rbank_es.projections.lineage import LineageNode

    if kind == "event":
        raise BadInput("--tree shows an item or a run; rbank-es impact shows what followed from an event")
    graph, start, bounds = LineageGraph.of(reader.view), LineageNode(kind, name), TreeBounds(depth=depth)
    causes, effects = (tree_facts(reader, walk.tree(bounds)) for walk in (graph.causes(start), graph.effects(start)))
    if as_json:
        trees = {"causes": causes, "effects": effects}
        echo_json({"bank": reader.bank.name, "position": reader.position, "kind": kind} | trees)
        return
    echo(styled(node_line(effects), "bold"))
    for title, tree in (("comes from", causes), ("led to", effects)):
        echo_heading(title)
        echo("\n".join(tree_lines(tree, relations=tree is effects)) or "nothing on record")


# ---------------------------------------------------------------- an item


def _show_item(reader: BankReader, name: str, *, as_json: bool) -> None:
    facts: dict[str, Any] = item_facts(reader, name) if reader.has_log else {"item": reader.view.item(name)}
    if as_json:
        for part in facts.keys() & {"win_rate", "compared"}:
            facts |= {part: facts[part].as_dict()}
        echo_json({"bank": reader.name, "position": reader.position, "kind": "item"} | facts)
    elif reader.has_log:
        _print_item(facts)
    else:
        print_stored(facts["item"])


def item_facts(reader: BankReader, name: str) -> dict[str, Any]:
    """Return an item's row, its uses, what it stands on, and the events that concern it, oldest first."""
    row = reader.view.item(name)
    assert row is not None
    tags = msgspec.json.decode(row["tags"]) if isinstance(row["tags"], str) and row["tags"] else []
    edges = reader.view.rows("lineage_edges", source_kind="item", source=name, relation="used_in")
    support, history = support_of(reader.bank, name, reader.position)
    return {
        "item": row | {"tags": tags, "domains": support.domains},
        "win_rate": Share(row["wins"], row["wins"] + row["losses"]),
        "compared": outcome_difference(reader.view, name),
        "used_in": [_use(reader.view, edge["target"]) for edge in edges],
        "provenance": [_origin(reader.view, event) for event in _extractions(history, name)],
        "support": support,
        "near": near_of(reader.view, row, history),
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
    print_events("history", [*map(event_row, facts["history"])], with_run=True)


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
