"""`demo`: an agent that learns, live; or a tour of a recorded bank, on a copy of it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.bank import Bank
from rbank_es.cli.dashboard import purpose_of, write_dashboard
from rbank_es.cli.diff import print_diff
from rbank_es.cli.replay import print_items
from rbank_es.cli.search import print_hits
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.banks import writable
from rbank_es.cli.shared.output import flush, heading, paragraph, program, say, say_json, styled
from rbank_es.cli.shared.terminal_text import count, line, moment, size_text
from rbank_es.errors import BadInput, SandboxUnavailable
from rbank_es.events import MemoriesRetrieved
from rbank_es.state import usage
from rbank_es.state.diff import diff_states

if TYPE_CHECKING:
    from rbank_es.bank import Replayed
    from rbank_es.projections.search import Found

HITS = 3
QUERIES = 12
"""How many of the recorded queries are tried, to show one whose answer changed with time."""


@command("demo", "rbank-es demo", "rbank-es demo --into lesson", "rbank-es demo --bank notes -o tour.html")
@click.option("--recorded", is_flag=True, help="Show the sample bank that comes with the source; run nothing.")
@click.option("--bank", metavar="BANK", help="Show any bank; run nothing.")
@click.option("--into", metavar="BANK", help="Keep the bank of the tasks that are run; it must be new.")
@click.option("-o", "output", metavar="FILE.html", default="./rbank-demo.html", show_default=True, help="The page.")
def demo(bank: str | None, into: str | None, output: str, recorded: bool, as_json: bool) -> None:
    """Watch an agent learn: six tasks in the real sandbox, with a script in place of a model, and what they taught.

    One task fails, a guardrail is drawn from it, and later tasks get that and succeed. Then the bank is searched as it
    was before and as it is now, a run is run again from its own events, and a page is written. No model is called, no
    key and no network are used. Without --into nothing but the page is left behind.

    With --recorded or --bank, and where the sandbox can't run, it tours a recorded bank instead, on a copy of it: three
    points in time, a search at each, and what changed.
    """
    page = writable(Path(output))
    if recorded or bank is not None:
        if into is not None:
            raise BadInput("--into keeps what is run, and with --recorded or --bank nothing is")
        _tour(bank, page, as_json=as_json)
        return
    try:
        _lesson(into, page, as_json=as_json)
    except SandboxUnavailable as error:
        if into is not None:
            raise
        if not as_json:
            _say_unavailable(error)
        _tour(None, page, as_json=as_json)


def _lesson(into: str | None, page: Path, *, as_json: bool) -> None:
    from rbank_es.cli.shared import live_demo

    problem = live_demo.unavailable()
    if problem is not None:
        raise problem
    if not as_json:
        live_demo.introduce()
    with live_demo.place_for(into) as bank:
        learnt = live_demo.learn(bank, aloud=not as_json)
        if as_json:
            facts = msgspec.to_builtins(learnt) | {"page": write_dashboard(bank, None, page).path}
            say_json({"bank": bank.name, "live": True, "scripted": True} | facts)
        else:
            name = into or bank.name
            live_demo.tell(bank, learnt, name)
            live_demo.tell_page(bank, name, page)
            live_demo.tell_more(into)


def _say_unavailable(error: SandboxUnavailable) -> None:
    say(styled("\nThe tasks can't be run here: the sandbox for an agent's code does not work.", "yellow"))
    say(f"why     {error.reason}")
    say(f"to fix  {error.fix}")
    say("Below is the tour of a recorded bank instead.")
    say()
    flush()


def _tour(bank: str | None, page: Path, *, as_json: bool) -> None:
    place = bank if bank is not None else _sample()
    with Bank.open(place) as opened, opened.copy() as copy:
        tour = _prepared(copy)
        if as_json:
            say_json({"live": False} | _facts(tour, write_dashboard(copy, None, page).path))
        else:
            _tell(tour, bank or _shortest(Path(place)), page)


def _sample() -> Path:
    places = [Path("logs") / "sample", Path(__file__).resolve().parents[2] / "logs" / "sample"]
    for place in places:
        if place.is_dir():
            return place
    raise BadInput(
        f"the sample bank is not there: looked at {' and '.join(map(str, places))}. It comes with the source, "
        "not with the installed package: run this in a clone, or name any bank with --bank"
    )


def _shortest(source: Path) -> str:
    """How the sample is named on a command line."""
    return source.name if not source.is_absolute() else str(source)


class _Stop(msgspec.Struct, frozen=True):
    """One point in time of the tour: the bank there, and what a search found."""

    replayed: Replayed
    found: list[Found]


class _Tour(msgspec.Struct, frozen=True):
    """What the tour shows."""

    bank: Bank
    query: str
    stops: tuple[_Stop, ...]


def _prepared(bank: Bank) -> _Tour:
    bank.project()
    positions = _positions(bank)
    query, found = _telling_query(bank, positions)
    stops = (_Stop(bank.replay(position), hits) for position, hits in zip(positions, found, strict=True))
    return _Tour(bank, query, tuple(stops))


def _positions(bank: Bank) -> list[int]:
    """After a third of the runs, after two thirds, and now."""
    ends = [event.seq for event in bank.events(types={"run_judged"})] or [bank.position]
    return [ends[len(ends) // 3], ends[len(ends) * 2 // 3], bank.position]


def _telling_query(bank: Bank, positions: list[int]) -> tuple[str, list[list[Found]]]:
    """A query that was really asked, preferably one that finds something else at each of the positions."""
    with ExitStack() as stack:
        views = [stack.enter_context(bank.as_of(position)) for position in positions]
        tried = [(query, [view.search(query, HITS) for view in views]) for query in _queries(bank)]
    return max(tried, key=lambda entry: len({tuple(hit.id for hit in hits) for hits in entry[1] if hits}))


def _queries(bank: Bank) -> list[str]:
    """The queries recorded last, newest first; a plain word where there are none."""
    asked = (
        event.query
        for event in bank.events(types={"memories_retrieved"}, resolve=True)
        if isinstance(event, MemoriesRetrieved)
    )
    distinct = list(dict.fromkeys(query for query in asked if isinstance(query, str) and query))
    return distinct[: -QUERIES - 1 : -1] or ["query"]


def _facts(tour: _Tour, page: str) -> dict[str, Any]:
    stops = [
        {
            "position": stop.replayed.position,
            "at": stop.replayed.at,
            "items": len(stop.replayed.state.items),
            "runs": len(stop.replayed.state.runs),
            "digests": stop.replayed.digests,
            "hits": stop.found,
        }
        for stop in tour.stops
    ]
    return {"bank": tour.bank.name, "query": tour.query, "points": stops, "page": page}


# ---------------------------------------------------------------- the telling


def _tell(tour: _Tour, name: str, page: Path) -> None:
    say(styled("A reasoning bank, at three points in time", "bold"))
    say()
    _introduce(tour, name)
    for number, stop in enumerate(tour.stops, 1):
        _tell_stop(tour, number, stop, name)
    _tell_difference(tour.stops[-2].replayed, tour.stops[-1].replayed, name)
    heading("A page about the whole bank")
    _command(f"dashboard {name} -o {page}")
    written = write_dashboard(tour.bank, None, page)
    say(f"wrote {written.path} ({size_text(written.size_bytes)})")
    say("Open it in a browser: what leaked into prompts, by run and by tool, with red flags. It needs no network.")
    _tell_more(tour, name)


def _introduce(tour: _Tour, name: str) -> None:
    runs = tour.stops[-1].replayed.state.runs.values()
    events, purpose = count(tour.bank.position, "event"), purpose_of(tour.bank)
    paragraph(
        f"The bank {name!r} is an append-only log of {events}, from {count(len(runs), 'run')} of an agent: what it was "
        "asked, what it did, how that was judged, and what was learnt from it, as items: short pieces of advice for "
        f"later runs.{' No model ran in them, they are scripted.' if all(run.scripted for run in runs) else ''}"
    )
    if purpose:
        say()
        paragraph(f"What it is for, in its own words: {purpose}")
    say()
    paragraph(
        "Everything but the log (items, counters, search index) is computed from it, so it can be had as it was at any "
        "position. This tour works on a copy. A line that begins with $ is the command that shows the same."
    )


def _tell_stop(tour: _Tour, number: int, stop: _Stop, name: str) -> None:
    replayed = stop.replayed
    state, used = replayed.state, usage(replayed.state).values()
    uses, wins = sum(uses for uses, _ in used), sum(wins for _, wins in used)
    heading(f"{number} of {len(tour.stops)}: position {replayed.position:,}, {moment(replayed.at)} UTC")
    _command(f"replay {name}@{replayed.position}")
    runs = count(len(state.runs), "run")
    say(f"{runs} so far. Items were given to runs {count(uses, 'time')}, {wins:,} of them to a run that succeeded.")
    say()
    print_items(state)
    say(f"\nstate digest {replayed.digests.all[:16]}…, the same at every replay")
    say()
    _command(f'search {name}@{replayed.position} "{line(tour.query)}" -k {HITS}')
    print_hits(stop.found)


def _tell_difference(before: Replayed, after: Replayed, name: str) -> None:
    heading(f"What changed between positions {before.position:,} and {after.position:,}")
    _command(f"diff {name}@{before.position} {name}@{after.position}")
    paragraph(
        "A use is a run that an item was given to; a win, a use in a run that was judged a success. Support counts how "
        "often an item was learnt. A run's learning verdict feeds the bank; its scoring verdict only measures."
    )
    print_diff(diff_states(before.state, after.state))


def _tell_more(tour: _Tour, name: str) -> None:
    hit = next((hit.id for hit in tour.stops[-1].found), None)
    ideas = {
        f"log {name} --tail 20": "the last events",
        f"show {name} {hit or 1}": "an item: its words, its history, the runs it was given to" if hit else "an event",
        f"verify {name} --retrievals": "check every byte, and make every recorded search again",
        f"rerun {name} --all": "run every run again from its own events, with no model",
        "--help": "all commands",
    }
    heading("Go on")
    widest = max(map(len, ideas))
    for arguments, about in ideas.items():
        say(f"{program()} {arguments.ljust(widest)}  {styled(about, 'dim')}")


def _command(arguments: str) -> None:
    say(styled(f"$ {program()} {arguments}", "cyan"))
