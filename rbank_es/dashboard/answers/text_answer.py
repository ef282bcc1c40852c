"""The answer `text`: one text of an event, of any length, block by block."""

from __future__ import annotations

from typing import Any

from rbank_es.dashboard import page_limits
from rbank_es.dashboard.answers.event_answer import PROMPT_FIELDS, text_at
from rbank_es.dashboard.answers.page_question import PageQuestion
from rbank_es.errors import NotInBank


def text_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return a block of the text at `path` of the event at `seq`, from `offset` on, in characters; None if erased."""
    seq, path = asked.number("seq", 0, 1, 10**15), asked.needed("path")
    offset = asked.number("offset", 0, 0, 10**12)
    event = next(asked.bank.events(after=seq - 1, point=seq, resolve=True), None) if seq <= asked.position else None
    if event is None:
        raise NotInBank(f"{seq:,}", asked.position, kind="event at")
    left_out = not asked.prompts and (type(event), path.partition(".")[0]) in PROMPT_FIELDS
    try:
        text = "" if left_out else text_at(event, path)
    except KeyError:
        raise NotInBank(path[:80], asked.position, kind=f"text of the event at {seq:,}:") from None
    if left_out:
        raise NotInBank(path[:80], asked.position, kind="text", advice="prompts are left out here")
    following = None if text is None or offset + page_limits.TEXT_BLOCK_CHARS >= len(text) else offset
    return {
        **{"seq": seq, "path": path, "text": None if text is None else text[offset:][: page_limits.TEXT_BLOCK_CHARS]},
        "total": None if text is None else len(text),
        "next": None if following is None else following + page_limits.TEXT_BLOCK_CHARS,
    }
