"""The events of runs as an exported page holds them: in blocks, each unpacked when one of its runs is opened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from rbank_es.bank import Bank
from rbank_es.dashboard import page_limits
from rbank_es.dashboard.answers.event_answer import shown_event
from rbank_es.dashboard.packed_data import LineTable, gzipped

_WHOLE_CHARS = 1 << 62
"""More than any text has: answers cut texts, the file holds them whole."""

_TEXT = frozenset({"text", "chars", "more"})
"""The keys of a text in an answer."""


def run_blocks(bank: Bank, position: int, runs: Sequence[str], *, prompts: bool) -> Iterator[dict[str, Any]]:
    """Yield blocks of the events of these runs up to a position."""
    found = _events_of(bank, position, frozenset(runs), prompts=prompts)
    for begin in range(0, len(runs), page_limits.PAGE_BLOCK_RUNS):
        part = runs[begin : begin + page_limits.PAGE_BLOCK_RUNS]
        lines = LineTable()
        events = {run: [_with_lines(event, lines) for event in found[run]] for run in part}
        yield {"runs": list(part), "packed": gzipped({"events": events, "lines": lines.lines})}


def _events_of(bank: Bank, position: int, runs: Collection[str], *, prompts: bool) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if runs:
        for event in bank.events(point=position, resolve=True):
            run = getattr(event, "run", None)
            if run is not None and run in runs:
                found[run].append(shown_event(event, prompts=prompts, chars=_WHOLE_CHARS))
    return found


def _with_lines(value: Any, lines: LineTable) -> Any:
    """Return an event with each whole text as {"t": words}, or as numbers of lines, which prompts share."""
    if isinstance(value, list):
        return [_with_lines(each, lines) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == _TEXT and isinstance(value["text"], str):
        text = value["text"]
        return {"t": lines.put(text) if len(text) > page_limits.PAGE_LINED_CHARS else text}
    return {name: _with_lines(each, lines) for name, each in value.items()}
