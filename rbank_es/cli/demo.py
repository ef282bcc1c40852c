"""`demo`: a live run of an agent that learns, or a tour of a copy of a recorded bank."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.bank import Bank
from rbank_es.bank.bank_difference import difference
from rbank_es.cli.dashboard import print_page, purpose_of, write_dashboard
from rbank_es.cli.replay import print_items
from rbank_es.cli.search import print_hits
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import lasting, writable
from rbank_es.cli.shared.difference_report import print_difference
from rbank_es.cli.shared.live_demo import DEMO_HITS
from rbank_es.cli.shared.output import (
    echo,
    echo_command,
    echo_heading,
    echo_json,
    echo_paragraph,
    flush,
    format_time,
    program_name,
    styled,
)
from rbank_es.errors import BadInput, SandboxUnavailable
from rbank_es.events import MemoriesRetrieved
from rbank_es.events.readable_text import count, safe_line
from rbank_es.state import usage
from rbank_es.system.files import temporary

if TYPE_CHECKING:
    from rbank_es.bank import Replayed
    from rbank_es.projections.search_result import FoundItem

# Recorded queries that are tried, to find one whose hits changed over time.
_QUERIES = 12


SAMPLE = "sample"
FIRST_SEGMENT = "00000000000000000001.jsonl"


@command("demo", "rbank-es demo", "rbank-es demo --into lesson", "rbank-es demo --bank notes -o tour.html")
@click.option("--recorded", is_flag=True, help="Show the sample bank that comes with rbank-es; run nothing.")
@click.option("--bank", metavar="BANK", help="Show any bank; run nothing.")
@click.option("--into", metavar="BANK", help="Keep the bank of the live tasks, or the sample, here; it must be new.")
@click.option("-o", "output", metavar="FILE.html", default="./rbank-demo.html", show_default=True, help="The page.")
def demo(bank: str | None, into: str | None, output: str, recorded: bool, as_json: bool) -> None:
    """Watch an agent learn: six tasks in the real sandbox, with a script in place of a model.

    One task fails, a guardrail is extracted from it, and later tasks that get it succeed. Then the bank is searched as
    it was before and as it is now, a run is re-executed from its own events, and a page is written. No model, key or
    network is used. Without --into, only the page is left behind.

    With --recorded or --bank, and where the sandbox can't run, it tours a recorded bank instead, on a copy of it: three
    points in time, a search at each, and the changes between them.
    """
    page = writable(Path(output))
    if bank is not None and (into is not None or recorded):
        raise BadInput("--bank shows a bank where it is: leave it out, or leave out --into and --recorded")
    if recorded or bank is not None:
        _tour(bank, into, page, as_json=as_json)
        return
    try:
        _live(into, page, as_json=as_json)
    except SandboxUnavailable as error:
        # Who named a place for the live bank wants that bank; everybody else gets the tour of a recorded one.
        if into is not None:
            raise
        if not as_json:
            _print_problem(error)
        _tour(None, None, page, as_json=as_json)


def _live(into: str | None, page: Path, *, as_json: bool) -> None:
    from rbank_es.cli.shared import live_demo

    problem = live_demo.sandbox_problem()
    if problem is not None:
        raise problem
    if not as_json:
        live_demo.print_introduction()
    with live_demo.demo_bank(into) as bank:
        result = live_demo.run_tasks(bank, aloud=not as_json)
        if as_json:
            facts = msgspec.to_builtins(result) | {"page": write_dashboard(bank, None, page).path}
            echo_json({"bank": bank.name, "live": True, "scripted": True} | facts)
        else:
            name = into or bank.name
            live_demo.print_result(bank, result, name)
            print_page(bank, name, page)
            live_demo.print_next_steps(into)


def _print_problem(error: SandboxUnavailable) -> None:
    echo(styled("\nThe tasks can't be run here: the sandbox for an agent's code does not work.", "yellow"))
    echo(f"why     {error.reason}")
    echo(f"to fix  {error.fix}")
    echo("Below is the tour of a recorded bank instead.")
    echo()
    flush()


def _tour(bank: str | None, into: str | None, page: Path, *, as_json: bool) -> None:
    with ExitStack() as stack:
        place, name = (bank, bank) if bank is not None else _sample(into, stack)
        # Work on a copy, because the tour projects, and must not change a bank that it only shows.
        opened = stack.enter_context(Bank.open(place))
        tour = _prepared(stack.enter_context(opened.copy()))
        if as_json:
            echo_json({"live": False} | _facts(tour, write_dashboard(tour.bank, None, page).path))
        else:
            _print_tour(tour, name, page)
            if name == SAMPLE and not Path("logs", SAMPLE).is_dir():
                echo_paragraph("To type these commands, keep the sample: rbank-es demo --recorded --into sample")


def _sample(into: str | None, stack: ExitStack) -> tuple[str | Path, str]:
    """Return the place of the sample bank, and its name in command lines: kept at `into`, else of this clone, else
    unpacked until the stack closes. Raises `BadInput` where something is at `into` already."""
    clone = Path(__file__).resolve().parents[2] / "logs" / SAMPLE
    here = clone if clone.is_dir() else _unpacked(stack)
    if into is not None:
        with Bank.open(here) as sample:
            sample.copy(into=lasting(into)).close()
        return into, into
    is_typed_shortly = not clone.is_dir() or clone == Path("logs", SAMPLE).resolve()
    return here, SAMPLE if is_typed_shortly else str(clone)


def _unpacked(stack: ExitStack) -> Path:
    """Return a temporary bank with the sample's log, of which an installed package has a compressed copy."""
    import lzma
    from importlib.resources import files

    place = stack.enter_context(temporary("demo")) / SAMPLE
    place.mkdir()
    packed = files("rbank_es.cli.shared").joinpath(f"{SAMPLE}.jsonl.xz").read_bytes()
    (place / FIRST_SEGMENT).write_bytes(lzma.decompress(packed))
    return place


class _Stop(msgspec.Struct, frozen=True):
    """A point in time of the tour: the bank there, and the hits of a search."""

    replayed: Replayed
    found: list[FoundItem]


class _Tour(msgspec.Struct, frozen=True):
    """The bank of the tour, its query and its points in time."""

    bank: Bank
    query: str
    stops: tuple[_Stop, ...]


def _prepared(bank: Bank) -> _Tour:
    bank.project()
    positions = _positions(bank)
    query, found = _changing_query(bank, positions)
    stops = (_Stop(bank.replay(position), hits) for position, hits in zip(positions, found, strict=True))
    return _Tour(bank, query, tuple(stops))


def _positions(bank: Bank) -> list[int]:
    """Return the positions after a third of the runs, after two thirds, and now."""
    ends = [event.seq for event in bank.events(types={"run_judged"})] or [bank.position]
    return [ends[len(ends) // 3], ends[len(ends) * 2 // 3], bank.position]


def _changing_query(bank: Bank, positions: list[int]) -> tuple[str, list[list[FoundItem]]]:
    """Return a recorded query, preferably one with other hits at each position, with its hits."""
    with ExitStack() as stack:
        views = [stack.enter_context(bank.as_of(position)) for position in positions]
        tried = [(query, [view.search(query, DEMO_HITS) for view in views]) for query in _queries(bank)]
    return max(tried, key=lambda entry: len({tuple(hit.id for hit in hits) for hits in entry[1] if hits}))


def _queries(bank: Bank) -> list[str]:
    """Return the latest recorded queries, newest first; a plain word where there are none."""
    asked = (
        event.query
        for event in bank.events(types={"memories_retrieved"}, resolve=True)
        if isinstance(event, MemoriesRetrieved)
    )
    distinct = list(dict.fromkeys(query for query in asked if isinstance(query, str) and query))
    return distinct[: -_QUERIES - 1 : -1] or ["query"]


def _facts(tour: _Tour, page: str | None) -> dict[str, Any]:
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


# ---------------------------------------------------------------- printing


def _print_tour(tour: _Tour, name: str, page: Path) -> None:
    echo(styled("A reasoning bank, at three points in time", "bold"))
    echo()
    _print_introduction(tour, name)
    for number, stop in enumerate(tour.stops, 1):
        _print_stop(tour, number, stop, name)
    _print_difference(tour.stops[-2].replayed, tour.stops[-1].replayed, name)
    print_page(tour.bank, name, page)
    _print_next_steps(tour, name)


def _print_introduction(tour: _Tour, name: str) -> None:
    runs = tour.stops[-1].replayed.state.runs.values()
    events, purpose = count(tour.bank.position, "event"), purpose_of(tour.bank)
    echo_paragraph(
        f"The bank {name!r} is an append-only log of {events}, from {count(len(runs), 'run')} of an agent: its tasks, "
        "its steps, the verdicts on them, and the items extracted from them, short pieces of advice for later "
        f"runs.{' No model ran in them, they are scripted.' if all(run.scripted for run in runs) else ''}"
    )
    if purpose:
        echo()
        echo_paragraph(f"Its purpose, in its own words: {purpose}")
    echo()
    echo_paragraph(
        "Everything else (items, counters, search index) is computed from the log, so the bank can be shown as it was "
        "at any position. This tour works on a copy. A line that begins with $ is the command that prints the same."
    )


def _print_stop(tour: _Tour, number: int, stop: _Stop, name: str) -> None:
    replayed = stop.replayed
    state, used = replayed.state, usage(replayed.state).values()
    uses, wins = sum(uses for uses, _ in used), sum(wins for _, wins in used)
    echo_heading(f"{number} of {len(tour.stops)}: position {replayed.position:,}, {format_time(replayed.at)} UTC")
    echo_command(f"replay {name}@{replayed.position}")
    runs = count(len(state.runs), "run")
    echo(f"{runs} so far. Items were given to runs {count(uses, 'time')}, {wins:,} of them to a run that succeeded.")
    echo()
    print_items(state)
    echo(f"\nstate digest {replayed.digests.all[:16]}…, the same at every replay")
    echo()
    echo_command(f'search {name}@{replayed.position} "{safe_line(tour.query)}" -k {DEMO_HITS}')
    print_hits(stop.found)


def _print_difference(before: Replayed, after: Replayed, name: str) -> None:
    echo_heading(f"What changed between positions {before.position:,} and {after.position:,}")
    echo_command(f"diff {name}@{before.position} {name}@{after.position}")
    echo_paragraph(
        "A use is a run that an item was given to; a win, a use in a run that was judged a success. Support counts how "
        "often an item was learned. A run's learning verdict feeds the bank; its scoring verdict only measures."
    )
    print_difference(difference(name, before.state, after.state))


def _print_next_steps(tour: _Tour, name: str) -> None:
    hit = next((hit.id for hit in tour.stops[-1].found), None)
    ideas = {
        f"log {name} --tail 20": "the last events",
        f"show {name} {hit or 1}": "an item: its words, its history, the runs it was given to" if hit else "an event",
        f"verify {name} --retrievals": "check every byte, and repeat every recorded search",
        f"rerun {name} --all": "re-execute every run from its own events, with no model",
        "--help": "all commands",
    }
    echo_heading("Go on")
    widest = max(map(len, ideas))
    for arguments, about in ideas.items():
        echo(f"{program_name()} {arguments.ljust(widest)}  {styled(about, 'dim')}")
