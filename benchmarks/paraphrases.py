"""Paraphrases of lessons by templates: words in another order, synonyms, words put in and left out. No model."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from rbank_es.events.items import Item

SYNONYMS = {
    "ask": "query",
    "before": "ahead of",
    "count": "tally",
    "every": "each",
    "few": "a handful of",
    "first": "initially",
    "give": "return",
    "gives": "returns",
    "list": "enumerate",
    "lists": "enumerates",
    "look": "glance",
    "need": "require",
    "only": "just",
    "rows": "records",
    "run": "execute",
    "same": "identical",
    "show": "display",
    "shows": "displays",
    "start": "begin",
    "then": "afterwards",
    "things": "entities",
    "use": "employ",
    "with": "using",
    "write": "compose",
}
"""One other word or phrase for words that the shipped lessons have."""

FILLERS = ("in general", "as a rule", "remember", "please", "it helps to do so", "when in doubt", "always")

DELETED_PART = 5
"""One word in so many is left out."""


def paraphrases(items: list[Item], count: int, seed: int) -> Iterator[tuple[str, Item]]:
    """Yield `count` paraphrases of items in turn, each with the templates that made it: one, two or three of four."""
    dice = random.Random(seed)
    for number in range(count):
        item = items[number % len(items)]
        names = sorted(dice.sample(sorted(TEMPLATES), dice.randint(1, 3)))
        words = item.content.split()
        for name in names:
            words = TEMPLATES[name](words, dice)
        yield " + ".join(names), Item.make(item.title, " ".join(words), "success", polarity=item.polarity)


def _in_other_order(words: list[str], dice: random.Random) -> list[str]:
    return dice.sample(words, len(words))


def _with_synonyms(words: list[str], dice: random.Random) -> list[str]:
    return [SYNONYMS.get(word.lower(), word) for word in words]


def _with_fillers(words: list[str], dice: random.Random) -> list[str]:
    at = dice.randint(0, len(words))
    return [*words[:at], *dice.choice(FILLERS).split(), *words[at:]]


def _shortened(words: list[str], dice: random.Random) -> list[str]:
    left_out = set(dice.sample(range(len(words)), len(words) // DELETED_PART))
    return [word for number, word in enumerate(words) if number not in left_out]


TEMPLATES: dict[str, Callable[[list[str], random.Random], list[str]]] = {
    "order": _in_other_order,
    "synonyms": _with_synonyms,
    "insertion": _with_fillers,
    "deletion": _shortened,
}
