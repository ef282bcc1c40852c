"""An item as `show` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbank_es.bank.item_effect import SOUGHT_DIFFERENCE
from rbank_es.cli.shared.output import Cell, echo, echo_fields, echo_heading, echo_table, safe_block, styled
from rbank_es.cli.shared.shown_runs import print_events
from rbank_es.events.readable_text import count, safe_line
from rbank_es.system.proportion import percent, points

if TYPE_CHECKING:
    from rbank_es.answers.item import Compared, ItemAnswer, ItemGround
    from rbank_es.bank.near_items import NearItem


def print_item(found: ItemAnswer) -> None:
    """Print all about an item."""
    item = found.item
    echo(styled(safe_block(item.title or "[erased]"), "bold"))
    plain = {
        name: getattr(item, name) for name in ("id", "state", "polarity", "role", "scope", "support", "uses", "wins")
    }
    lists = {"domain": ", ".join(item.domains) or item.domain, "tags": ", ".join(item.tags)}
    echo_fields(plain | {"source": item.src} | lists | {"born at": item.born_seq, "ended at": item.ended_seq})
    if item.erased:
        echo("\nits text was erased")
    for title, text in (("description", item.desc), ("content", item.content)):
        if text:
            echo_heading(title)
            echo(safe_block(text))
    if found.hidden_chars:
        said = f"\n{count(found.hidden_chars, 'hidden character')} spelled out above; contexts leave them out"
        echo(styled(said, "yellow"))
    _print_grounds(found)
    for near in found.near:
        print_near(near)
    echo_heading("used in")
    _print_utility(found)
    uses: list[list[Cell]] = [[each.run, each.way, each.outcome, each.verdict, each.task] for each in found.used_in]
    echo_table(["run", "way", "outcome", "verdict", "task"], uses, flexible=["task", "run"], none="no run so far")
    if found.events is not None:
        print_events("history", found.events, with_run=True)


def print_near(near: NearItem) -> None:
    """Print how an item is near to another, and the words of that one."""
    label = "waits" if near.how == "near-rejected" else "linked"
    echo_fields({label: safe_line(near.sentence), "its words": safe_line(f"{near.title}: {near.content}")})


def _print_utility(found: ItemAnswer) -> None:
    """Print the win rate with its interval, and how runs like those ended without the item."""
    item = found.item
    if item.win_rate is None or item.win_rate_low is None or item.win_rate_high is None:
        return
    decided = count(item.wins + item.losses, "decided use")
    low, high = percent(item.win_rate_low), percent(item.win_rate_high)
    echo(f"won {item.wins:,} of {decided}: {percent(item.win_rate)}, from {low} to {high} at 95 %")
    echo(_beside(found.compared))
    echo()


def _beside(compared: Compared) -> str:
    sides = f"{count(compared.matched_runs, 'run')} on each side"
    if compared.rate_difference is None or compared.low is None or compared.high is None:
        return (
            f"too few runs to compare: {sides} with and without it, of the same domain and time; "
            f"{compared.needed_runs:,} would show a difference of {SOUGHT_DIFFERENCE * 100:.0f} points"
        )
    value, low, high = map(points, (compared.rate_difference, compared.low, compared.high))
    return (
        f"beside runs without it, of the same domain and time: {value} points, from {low} to {high}; {sides}. "
        "Runs were not given it at random, so this is no effect of it"
    )


def _print_grounds(found: ItemAnswer) -> None:
    echo_heading("rests on")
    rows: list[list[Cell]] = []
    for ground in found.grounds:
        for run in ground.runs or (None,):
            verdicts = (run.run, run.relied_verdict, run.verdict or "not judged") if run else (None, None, None)
            rows.append([ground.seq, ground.kind, *verdicts, _effect(ground), run.task if run else None])
    headers = ["seq", "kind", "from run", "relied on", "verdict now", "effect", "task"]
    echo_table(headers, rows, flexible=["task", "from run"])
    for act in found.acts:
        said = f": {safe_line(act.why)}" if act.why else ""
        echo(f"{act.act} by {act.by or 'somebody'} at position {act.seq:,}{said}")
    for how, ids in _linked(found).items():
        echo(f"{how} {', '.join(ids)}")
    if found.ends:
        echo(found.ends)
    if found.command:
        echo(f"to take it back: {safe_line(found.command)}; in Python {safe_line(found.call or '')}")


def _linked(found: ItemAnswer) -> dict[str, list[str]]:
    """Return the ids of linked items by the relation; near ones are printed with their words."""
    linked: dict[str, list[str]] = {}
    for each in found.links:
        if each.how != "near":
            linked.setdefault(each.how, []).append(each.item)
    return {how: list(dict.fromkeys(ids)) for how, ids in linked.items()}


def _effect(ground: ItemGround) -> str:
    """Return in a few words what a candidate does for its item."""
    if ground.undone:
        return "undone"
    if not ground.stands:
        runs = ", ".join(each.run for each in ground.runs if each.aside)
        return f"set aside because of {runs}" if runs else "no longer stands"
    if ground.carries:
        return "carries it"
    return f"supports {', '.join(ground.landed)}" if ground.landed else "discarded" if ground.action else "undecided"
