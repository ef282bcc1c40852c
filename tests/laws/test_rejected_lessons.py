"""Rejected lessons in other words: those that differ in case, punctuation or order of words never come back by
themselves."""

from __future__ import annotations

import json
import random

import pytest

from rbank_es import Bank, Item
from rbank_es.data import lights
from rbank_es.events import MemoriesExtracted
from rbank_es.events.items import Source
from rbank_es.law import Append, AppendV2, Dedup, DedupV2, active
from rbank_es.law.decisions import append_decided
from rbank_es.policies import Policy
from rbank_es.policies.words import words_of

LESSONS = json.loads(lights().seed.read_text(encoding="utf-8"))
SOURCES: tuple[Source, ...] = ("seed", "success", "failure", "contrastive", "pattern")
ROUNDS, EACH = 5, 80


def variant(lesson: dict[str, str], dice: random.Random) -> Item:
    """The same words, in another order, in any case, with any punctuation; from any source."""

    def reworded(text: str) -> str:
        words = words_of(text)
        cased = [dice.choice((str.upper, str.title, str.lower))(word) for word in dice.sample(words, len(words))]
        return "".join(word + dice.choice((" ", ", ", ". ", "; ", " — ", "!\n", " (", "_")) for word in cased).strip()

    title = reworded(lesson["title"])
    content = reworded(lesson["content"])
    return Item.make(title, content, dice.choice(SOURCES), polarity=lesson["polarity"])  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Append(), Dedup(), AppendV2(), DedupV2()], ids=lambda policy: policy.label)
def test_a_rejected_lesson_in_another_case_punctuation_or_order_never_comes_back(policy: Policy) -> None:
    dice = random.Random(7)
    with Bank.create("memory:", policies=[policy.choice]) as bank:
        for lesson in LESSONS:
            learned = bank.remember(lesson["title"], lesson["content"], polarity=lesson["polarity"])
            bank.reject(learned.item, because="wrong")
        for _ in range(ROUNDS):
            items = [variant(dice.choice(LESSONS), dice) for _ in range(EACH)]
            heads, words = tuple(item.head for item in items), tuple(item.text for item in items)
            made = append_decided(
                bank.log, bank.latest, [MemoriesExtracted(kind="manual", heads=heads, candidates=words)]
            )
            [*_, decided] = made.events
            # In another order within a sentence, they state something else to the second versions.
            reasons = {"rejected"} if policy.version == 1 else {"rejected", "near-rejected", "same-id"}
            assert {each.reason for each in decided.decisions} <= reasons  # type: ignore[attr-defined]
        assert not active(bank.state())
