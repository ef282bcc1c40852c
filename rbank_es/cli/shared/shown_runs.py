"""Runs and events as `show` prints them: the answers `run` and `event`, and lists of events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rbank_es.bank.failed_runs import UNKNOWN
from rbank_es.cli.shared.output import (
    Cell,
    echo,
    echo_fields,
    echo_heading,
    echo_table,
    format_cell,
    format_time,
    safe_block,
    styled,
)
from rbank_es.events.event_envelope import ERASED
from rbank_es.events.readable_text import safe_line
from rbank_es.events.run_events import judge_label

if TYPE_CHECKING:
    from rbank_es.answers.event import EventAnswer
    from rbank_es.answers.events import EventRow
    from rbank_es.answers.leakage import RedFlag
    from rbank_es.answers.run import JudgmentRow, LearnedRow, RunAnswer
    from rbank_es.answers.shared.event_texts import EventText


_WORDS = {
    "cost_usd": "cost in USD",
    "started_seq": "started at position",
    "finished_seq": "finished at position",
    "duration_s": "duration in s",
    "imported_at": "imported on",
}
"""Labels of fields whose names are not plain."""

# Verdicts have a table of their own, with the authority of each in words.
_APART = frozenset(
    {"task", "error", "verdict", "judge", "kind", "authority", "sure", "overruled", "judged_seq", "reason", "score",
     "scored_seq", "score_reason"}
)  # fmt: skip
_WAYS = {"injected": "in its context", "read": "read by a tool"}
_BANK_CHARS = 12
"""Characters of a bank's id that are shown: as many as an item's id has."""


class _Originated(Protocol):
    @property
    def seq(self) -> int: ...
    @property
    def origin(self) -> str | None: ...


def print_run(found: RunAnswer) -> None:
    """Print everything about a run."""
    run = found.run
    echo(styled(safe_block(run.task or "[no task]"), "bold"))
    _print_ending(found)
    if found.recall_unsent:
        echo(styled(f"recalled, not sent: {safe_line(', '.join(found.recall_unsent))}\n", "red"))
    facts = {name: value for name, value in msgspec.structs.asdict(run).items() if name not in _APART}
    times = {name: format_time(facts[name]) for name in ("started_at", "finished_at", "imported_at")}
    echo_fields(_readable(facts | times | {name: facts[name] or None for name in ("scripted", "simulated")}))
    for name, text in (("answer", found.answer), ("sparql", found.sparql)):
        if text:
            echo_heading(name)
            echo(safe_block(text))
    if found.judgments is not None:
        _print_judgments(found.judgments)
    echo_heading("given to it")
    given: list[list[Cell]] = [
        [each.item, each.state or "unknown", _WAYS[each.way], each.title or ERASED] for each in found.given
    ]
    echo_table(["item", "state now", "how", "title"], given, flexible=["title"], none="no item")
    echo_heading("learned from it")
    learned: list[list[Cell]] = [
        [each.seq, each.kind, each.item, _present(each), each.title or ERASED] for each in found.learned
    ]
    echo_table(["seq", "kind", "item", "state now", "title"], learned, flexible=["title"], none="nothing")
    _print_leakage(found)
    if found.events is not None:
        print_events("timeline", found.events, with_run=False)
        if found.events_next_seq is not None:
            echo(f"\n{len(found.events):,} of {found.events_total:,} events; rbank-es log --run shows all")


def _print_ending(found: RunAnswer) -> None:
    """Print what ended a run that did not end by itself, or since when it is open, before all else."""
    run = found.run
    if run.outcome is None and run.started_at is not None:
        # Whether its process still lives, nobody can tell by the log: the next recorder on its machine records it.
        echo(styled(f"open since {format_time(run.started_at)}: no end is recorded\n", "yellow"))
    how = {"failed": "it ended in an error", "forced_at_limit": "it was stopped at a limit"}.get(run.outcome or "")
    if how is not None:
        why = safe_line(run.error_code or found.bound or "")
        echo(styled(": ".join(filter(None, (how, why))), "red"))
        if run.error or run.outcome == "failed":
            echo(safe_block(run.error or UNKNOWN))
        echo()


def _print_judgments(judged: Sequence[JudgmentRow]) -> None:
    """Print all judgments of a run, in order, each with its authority and whether it stands."""
    echo_heading("verdicts")
    rows: list[list[Cell]] = []
    banks = _banks_of(judged)
    for each in judged:
        by = each.by or judge_label(each.judge, each.judge_version)
        facts = [each.seq, each.purpose, each.verdict, by, each.authority, each.stands]
        rows.append([*facts, *banks.get(each.seq, ()), each.why or each.reason])
    headers = ["seq", "purpose", "verdict", "judge", "authority", "stands", *(["bank"] if banks else []), "reason"]
    echo_table(headers, rows, flexible=["reason", "judge"], none="not judged")


def _present(learned: LearnedRow) -> str:
    """Return the outcome of a candidate: the state of its item, or the item that it supports."""
    others = [id for id in learned.landed if id != learned.item]
    return f"supports {', '.join(others)}" if others else learned.state or "discarded"


def _print_leakage(found: RunAnswer) -> None:
    echo_heading("leakage")
    sizes = msgspec.structs.asdict(found.leakage).items()
    echo_fields(_readable({name: value for name, value in sizes if name not in ("run", "task", "started_seq")}))
    if by_tool := [msgspec.structs.asdict(each) for each in found.leakage_by_tool]:
        echo()
        echo_table([name.replace("_", " ") for name in by_tool[0]], [list(row.values()) for row in by_tool])
    for flag in found.red_flags:
        echo(styled(_flagged(flag), "red"))


def _flagged(flag: RedFlag) -> str:
    where = f" by {flag.tool}" if flag.tool else ""
    over = f"{format_cell(flag.value)} is over {format_cell(flag.threshold)}"
    return f"red flag at {flag.seq:,}: {flag.flag.replace('_', ' ')}{where}, {over}"


def _readable(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_WORDS.get(name, name).replace("_", " "): value for name, value in values.items()}


# ---------------------------------------------------------------- events


def print_events(title: str, events: Sequence[EventRow], *, with_run: bool) -> None:
    """Print events as a table under a heading."""
    echo_heading(title)
    rows: list[list[Cell]] = []
    banks = _banks_of(events)
    for event in events:
        run = [event.run] if with_run else []
        when = format_time(event.occurred_at)
        rows.append([event.seq, when, event.type, *run, *banks.get(event.seq, ()), event.summary])
    headers = ["seq", "time (UTC)", "type", *(["run"] if with_run else []), *(["bank"] if banks else []), "summary"]
    echo_table(headers, rows, flexible=["summary", "run"] if with_run else ["summary"])


def _banks_of(rows: Iterable[_Originated]) -> dict[int, list[Cell]]:
    """Return a cell for each row: the bank that recorded it first; nothing where all were recorded first here."""
    origins = {row.seq: row.origin for row in rows}
    if not any(origins.values()):
        return {}
    return {seq: [origin[:_BANK_CHARS] if origin else "this one"] for seq, origin in origins.items()}


def print_event(found: EventAnswer) -> None:
    """Print an event with its facts and texts."""
    event = found.event
    echo(styled(f"{event.type} at position {event.seq:,}", "bold"))
    occurred = format_time(event.occurred_at) if event.occurred_at != event.recorded_at else ""
    echo_fields(
        {"recorded": f"{format_time(event.recorded_at)} UTC", "occurred": occurred, "id": found.id}
        | {"recorded first in bank": event.origin}
    )
    echo_heading("fields")
    run = {"run": event.run} if event.run is not None else {}
    echo_fields(run | {name: _value(value) for name, value in event.facts.items()})
    for text in event.texts:
        echo_heading(_named(text))
        echo(safe_block(ERASED if text.text is None else text.text))


def _named(text: EventText) -> str:
    return f"{text.path} ({text.author})" if text.author else text.path


def _value(value: Any) -> Any:
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value)
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
