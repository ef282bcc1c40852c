"""The calls of a run's models as `show --prompts` prints them: what is new in each request, and each reply."""

from __future__ import annotations

from os.path import commonprefix
from typing import TYPE_CHECKING

from rbank_es.cli.shared.output import echo, echo_command, echo_heading, safe_block, styled
from rbank_es.events.event_envelope import ERASED
from rbank_es.events.readable_text import count, format_cost, safe_line
from rbank_es.limits import answer_limits

if TYPE_CHECKING:
    from rbank_es.answers.prompts import PromptRow, Prompts
    from rbank_es.answers.shared.event_texts import EventText

_SAME_CHARS = 80
"""Characters that a message has in common with one before, from which on they are not printed again: a line."""


def print_prompts(found: Prompts, bank: str) -> None:
    """Print calls, each text in at most `PROMPT_CHARS`; `bank` is how commands name the bank."""
    echo(styled(f"{count(found.total, 'call')} of models in the run {safe_line(found.run)}", "bold"))
    before: dict[tuple[str, str], tuple[str, int]] = {}
    for row in found.rows:
        echo_heading(_title(row))
        for text in row.texts:
            _print_text(row, text, before, bank)
        if row.error_code is not None:
            echo(styled(f"failed: {safe_line(row.error_code)}", "red"))
        if row.unread is not None:
            echo(styled(f"of no use: {safe_line(row.unread)}", "yellow"))
    if found.next_seq is not None:
        echo(f"\n{len(found.rows):,} of {found.total:,} calls; the others:")
        echo_command(f"ask {bank} prompts run={found.run} after={found.next_seq}")


def _title(row: PromptRow) -> str:
    step = f", step {row.step}" if row.step is not None else ""
    tokens = f"{row.tokens_in or 0:,} + {row.tokens_out or 0:,} tokens" if row.tokens_in or row.tokens_out else None
    took = f"{row.duration_s:,.1f} s" if row.duration_s is not None else None
    attempt = f"try {row.attempt}" if (row.attempt or 1) > 1 else None
    facts = [safe_line(row.model), attempt, tokens, format_cost(row.cost_usd), took]
    return f"{row.role}{step}, position {row.seq:,}: {', '.join(filter(None, facts))}"


def _print_text(row: PromptRow, text: EventText, before: dict[tuple[str, str], tuple[str, int]], bank: str) -> None:
    """Print a text without the beginning that the same message of the role's last call has."""
    whole, place = text.text or "", (row.role, text.path)
    last, at = before.get(place, ("", 0))
    same = len(commonprefix([whole, last])) if text.path.startswith("request") else 0
    if same < len(whole):
        same = whole.rfind("\n", 0, same) + 1  # whole lines
    same = same if same >= _SAME_CHARS else 0
    if whole:
        before[place] = whole, row.seq
    echo(styled(f"{text.path}{f' ({text.author})' if text.author else ''}", "dim"))
    if text.text is None:
        echo(ERASED if text.erased else "left out here")
        return
    if same:
        echo(styled(f"[{same:,} characters as at position {at:,}]", "dim"))
    shown = whole[same : same + answer_limits.PROMPT_CHARS]
    if shown:
        echo(safe_block(shown))
    if left := len(whole) - same - len(shown):
        echo(styled(f"[{left:,} characters more: rbank-es show {bank} {row.seq}]", "dim"))
