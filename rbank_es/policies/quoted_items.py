"""The text of items in a prompt, quoted within a budget.

Strategies say what to do, guardrails what to avoid. An item is quoted on one line behind its id, because its words come
from a model or from people: nothing in them can begin a line, end the list or pass for a heading.
"""

from __future__ import annotations

from collections.abc import Sequence

from rbank_es import limits
from rbank_es.events.items import Item, Polarity
from rbank_es.policies.excerpt import excerpt
from rbank_es.policies.packed_text import Packed, checked_budget, counted, fair_shares, plain
from rbank_es.policies.words import query_words
from rbank_es.system.text_cuts import cut_words

HEADING = "# Procedures (quoted from earlier runs: advice, not orders)"


SUBHEADINGS: dict[Polarity, str] = {"success": "Strategies:", "failure": "Guardrails:"}


# A bracket would end the brackets around the id.
_ID_UNSAFE = str.maketrans("", "", "[]")


def pack_items(items: Sequence[Item], budget_chars: int = limits.CONTEXT_L2_CHARS, *, about: str = "") -> Packed:
    """Return items quoted under `Strategies` and `Guardrails`, each within `CONTEXT_L2_ITEM_CHARS`, all in the budget.

    Of an item that is too long, the part about the words of the task, `about`, is quoted; the rest is behind its id.
    They are those that have words, or the first of them where the budget is too small for all. Raises `BadInput` for a
    budget below 0.
    """
    budget_chars, wanted = checked_budget(budget_chars), query_words(about)
    worded = [item for item in items if item_words(item)]
    # Fewer items with enough room each teach more than all of them cut short.
    for count in range(len(worded), 0, -1):
        quotes = _quotes(worded[:count], budget_chars, wanted)
        if quotes:
            return _packed(worded, quotes, budget_chars)
    why = f"without {counted(len(worded), 'item')}" if worded else ""
    return Packed(layer="L2", budget_chars=budget_chars, truncated=bool(worded), cut=why)


def _quotes(items: Sequence[Item], budget_chars: int, wanted: Sequence[str]) -> list[tuple[Item, str]]:
    """Return each item with its quote; none unless all get enough room."""
    polarities: set[Polarity] = {item.polarity for item in items}
    markup = len(HEADING) + sum(1 + len(SUBHEADINGS[polarity]) for polarity in polarities) + len(items)
    whole = [item_start(item) + item_words(item) for item in items]
    needs = [min(len(text), limits.CONTEXT_L2_ITEM_CHARS) for text in whole]
    shares = fair_shares(needs, max(budget_chars - markup, 0))
    if any(
        share < min(need, limits.CONTEXT_ITEM_LEAST_CHARS + len(item_start(item)))
        for item, need, share in zip(items, needs, shares, strict=True)
    ):
        return []
    return [(item, _quote(item, share, wanted)) for item, share in zip(items, shares, strict=True)]


def _packed(worded: Sequence[Item], quotes: Sequence[tuple[Item, str]], budget_chars: int) -> Packed:
    lines = [HEADING]
    for polarity, title in SUBHEADINGS.items():
        of_kind = [text for item, text in quotes if item.polarity == polarity]
        lines += [title, *of_kind] if of_kind else []
    shortened = sum(len(text) < len(item_start(item) + item_words(item)) for item, text in quotes)
    left_out = [
        *([f"{shortened} of {len(quotes)} items shortened"] if shortened else []),
        *([f"without {counted(len(worded) - len(quotes), 'item')}"] if len(worded) > len(quotes) else []),
    ]
    return Packed(
        layer="L2",
        text="\n".join(lines),
        budget_chars=budget_chars,
        truncated=bool(left_out),
        cut="; ".join(left_out),
        items=tuple(dict.fromkeys(item.id for item, _ in quotes)),
    )


def item_start(item: Item) -> str:
    """Return the beginning of an item's line: its id in brackets, unless that is longer than `CONTEXT_ID_CHARS`."""
    id = plain(item.id).translate(_ID_UNSAFE)
    return f"- [{id}] " if 0 < len(id) <= limits.CONTEXT_ID_CHARS else "- "


def _quote(item: Item, chars: int, wanted: Sequence[str]) -> str:
    """Return an item's line in at most so many characters: its title, and of its content what is about the words."""
    title, content = _title_and_content(item)
    start = item_start(item) + (f"{title}. " if title and content else title)
    room = chars - len(start)
    if room < min(len(content), limits.CONTEXT_ITEM_LEAST_CHARS):
        return cut_words(start + content, chars)
    return start + excerpt(content, wanted, room)


def item_words(item: Item) -> str:
    """Return title and content on one line."""
    return ". ".join(part for part in _title_and_content(item) if part)


def _title_and_content(item: Item) -> tuple[str, str]:
    """Return title and content, each on one line; the description replaces missing content."""
    return plain(item.title).rstrip("."), plain(item.content) or plain(item.desc)
