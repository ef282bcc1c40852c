"""The events of runs as an exported page holds them: in blocks, each unpacked when one of its runs is opened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.dashboard.packing import LineTable, gzipped
from rbank_es.events import Erased, Event, type_of
from rbank_es.events.codec import ENVELOPE, TYPES, texts_of

_LEFT_OUT = frozenset({
    *ENVELOPE, "run", "salt", "extra", "previews", "request_key", "config_digest", "suite", "call", "calls",
})  # fmt: skip
"""Fields that no page shows: the envelope, and keys and digests, which gzip can't shorten."""

PROMPTS = frozenset({("lm_called", "request"), ("lm_called", "response"), ("context_built", "texts")})
"""The texts, by type and field, that `--no-prompts` leaves out."""


def event_row(event: Event, *, prompts: bool = True) -> dict[str, Any]:
    """Return an event as the page shows it: its facts and its whole texts, without its envelope; erased texts and
    prompts that were left out are marked as such.
    """
    texts = texts_of(type(event))
    row: dict[str, Any] = {"seq": event.seq, "time": event.occurred_at or event.at, "type": type_of(event)}
    made = msgspec.to_builtins(event)
    for name, value in made.items():
        if name in _LEFT_OUT or name in row:
            continue
        if name in texts:
            value = _text(getattr(event, name), hidden=not prompts and (row["type"], name) in PROMPTS)
        if value not in (None, "", [], {}):
            row[name] = value
    return row


def _text(value: Any, *, hidden: bool) -> Any:
    if isinstance(value, (list, tuple)):
        return [_text(each, hidden=hidden) for each in value]
    if isinstance(value, Erased):
        return {"erased": True}
    if not isinstance(value, str):
        return _plain(msgspec.to_builtins(value))
    return {"withheld": True, "chars": len(value)} if hidden and value else value


def _plain(value: Any) -> Any:
    """Return the words of an item as one text, so that the page shows them as any other."""
    return "\n".join(str(part) for part in value.values() if part) if isinstance(value, dict) else value


def text_fields() -> dict[str, list[str]]:
    """Return the names of the text fields of each type of event that a run has."""
    return {name: list(texts_of(cls)) for name, cls in TYPES.items() if "run" in cls.__struct_fields__}


def run_blocks(bank: Bank, position: int, runs: Sequence[str], *, prompts: bool) -> Iterator[dict[str, Any]]:
    """Yield blocks of the events of these runs up to a position."""
    found = _events_of(bank, position, frozenset(runs), prompts=prompts)
    for begin in range(0, len(runs), limits.PAGE_BLOCK_RUNS):
        part = runs[begin : begin + limits.PAGE_BLOCK_RUNS]
        lines = LineTable()
        events = {run: [_with_lines(event, lines) for event in found[run]] for run in part}
        yield {"runs": list(part), "packed": gzipped({"events": events, "lines": lines.lines})}


def _events_of(bank: Bank, position: int, runs: Collection[str], *, prompts: bool) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if runs:
        for event in bank.events(point=position, resolve=True):
            run = getattr(event, "run", None)
            if run in runs:
                found[run].append(event_row(event, prompts=prompts))
    return found


def _with_lines(event: dict[str, Any], lines: LineTable) -> dict[str, Any]:
    def stored(value: Any) -> Any:
        return lines.put(value) if isinstance(value, str) and len(value) > limits.PAGE_LINED_CHARS else value

    return {name: [stored(each) for each in value] if isinstance(value, list) else stored(value) for name, value in event.items()}
