"""Likeness on pairs by templates: what states the same, what doesn't, and that no text takes long to compare."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.paraphrases import paraphrases
from rbank_es import Bank, Item
from rbank_es.events import MemoriesExtracted
from rbank_es.law import AppendV2, DedupV2, active
from rbank_es.law.decisions import append_decided
from rbank_es.law.fact_postings import FactPostings
from rbank_es.law.likeness import are_near, differences, facts_of, is_same, is_same_text, token_set
from rbank_es.law.statement_reader import stem
from tests.effort import examples
from tests.likeness_pairs import (
    CHANGED,
    EXCHANGED,
    FOREIGN,
    FOREIGN_EXCHANGED,
    FOREIGN_SAME,
    SAME,
    Change,
    items,
    pairs,
)

SECONDS = 20
"""Time for a text of 100,000 characters, many times what it takes: a busy machine takes longer."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "count", "of"),
    [(EXCHANGED, 1_000, items()), (CHANGED, 600, items()), (FOREIGN_EXCHANGED, 300, items(FOREIGN))],
    ids=["one exchanged", "added, lost or moved", "in other languages"],
)
def test_a_fact_more_less_or_another_makes_another_statement(
    changes: dict[str, Change], count: int, of: list[Item]
) -> None:
    made = Counter[str]()
    for name, item, other in pairs(changes, count, 7, of):
        assert not is_same(other, item) and not is_same(item, other), (name, item, other)
        made[name] += 1
    assert min(made.values()) >= count // 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "count", "of"),
    [(SAME, 1_000, items()), (FOREIGN_SAME, 300, items(FOREIGN))],
    ids=["in English", "in other languages"],
)
def test_another_way_of_writing_makes_the_same_statement(
    changes: dict[str, Change], count: int, of: list[Item]
) -> None:
    made = list(pairs(changes, count, 7, of))
    missed = [(name, item, other) for name, item, other in made if not is_same(other, item)]
    assert len(missed) <= count // 100, missed[:3]
    # What is found by equal tokens alone must have them.
    assert all(token_set(one.content) == token_set(two.content) for name, one, two in made if is_same(two, one))


CORRECTED = [
    ("in feet", "in metres"), ("October 15th", "October 16th"), ("before the sum", "after the sum"),
    ("min of all", "max of all"), ("in 5 ms", "in 5 µs"), ("5 Mb of them", "5 MB of them"), ("10² rows", "102 rows"),
    ("it is allowed", "it is not allowed"), ("the rows", "the rows without fail"), (".5 of all", "5 of all"),
    ("A before B", "B before A"), ("ex:isLit", "ex:islit"), ("> 5 rows", "< 5 rows"), ("A and B", "A or B"),
    ("tower_height", "tower_heights"), ("port: 5. Use it", "port: 6. Use it"), ("15. Oktober", "16. Oktober"),
    ("> 5 rows", "5 rows"), ("hasPart*", "hasPart+"), ("the 5 %", "the 5"), ("can", "can't"), ("даёт", "дают"),
    ("10⁻³ of it", "10³ of it"), ("if ¬open", "if open"), ("costs ₹5", "costs 5"), ("is 5′ wide", "is 5″ wide"),
    ("every दिन is", "every दीन is"), ("بَر", "بِر"), ("follow ex:p? to it", "follow ex:p to it"), ("is -x", "is x"),
    ("sort by -height", "sort by height"), ("run -v", "run -V"), ("run -v", "run --v"), ("the WHO rule", "the rule"),
    ("IT terms", "its terms"), ("at 5 am", "at 5"), ("see http://a.org/x", "see https://a.org/x"),
    ("see http://a.org/X/is", "see http://a.org/x/is"), ("see http://a.org/in/x", "see http://a.org/x"),
    ("Open it. Then close the door.", "Close the door. Then open it."), ("A. Therefore B.", "B. Therefore A."),
    ("1. Open it.\n2. Close the door.", "1. Close the door.\n2. Open it."),
    ("Do:\n- stop\nNever:\n- run", "Do:\n- run\nNever:\n- stop"),
    ("a // b", "a / b"), ("a / b", "a b"), ("a ** b", "a * b"), ("a -= 1", "a = 1"), ("open ../a", "open ./a"),
    ("up ../../a", "up ../a"), ("HEAD^", "HEAD"), (r"match \d", r"match \D"), ("x[1:]", "x[:1]"),
    ("(a|b)/c", "a|(b/c)"), ("a*(b+c)", "a*b+c"),
    ("# Do\nstop\n# Avoid\nrun", "# Do\nrun\n# Avoid\nstop"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), CORRECTED)
def test_small_differences_that_make_another_statement(one: str, other: str) -> None:
    assert not is_same_text(one, other) and not is_same_text(other, one)


REWRITTEN = [
    ("Can't the towers' heights be stored?", "cannot the towers heights be storing"),
    ("1. Open it. 2. Close it.", "Open it. Close it."), ("**Open the valve.** Then close it.", "Open valve. Close it!"),
    ("1,000 rows", "1000 rows"), ("10kg", "10 kg"), ("Straße", "STRASSE"), ("a very large table", "the large table"),
    ("İstanbul", "istanbul"), ("it's 5 degrees", "It is 5 degree"), ("ΟΔΟΣ", "οδος"), ("- [x] done", "x done"),
    ("- Open it\n- Close it", "Close it. Open it."), ("queries", "query"), ("applied", "apply"), (".5", "0.5"),
    ("x ≤ 5", "x <= 5"), ("WHO IT MAY BE", "who it may be"), ("I'm sure", "I am sure"), ("10¹² m", "10^12 m"),
    ("See <http://A.org/x>. Stop.", "Stop. See http://a.org/x"), ("rows—then columns", "rows, then columns"),
    ("Open it. Then close it.", "1. Open it\n2. Close it"), ("पंक्तियाँ हटाएँ।", "पंक्तियाँ हटाएँ"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), REWRITTEN)
def test_ways_of_writing_one_statement(one: str, other: str) -> None:
    assert is_same_text(one, other) and is_same_text(other, one)


def test_titles_add_only_what_the_content_has_and_negate_nothing() -> None:
    content = "Open the outer valve slowly, not the inner one."
    item = Item.make("Open the valve", content, "success")
    for title, same in (
        ("Open the outer valve slowly", True),
        ("Valve", True),
        ("Open the inner valve of the tank", False),
        ("Do not open the valve", False),
        ("Never open the valve", False),
    ):
        assert is_same(Item.make(title, content, "success"), item) is same, title


def test_forms_of_words_have_one_stem_and_other_words_another() -> None:
    groups = ("store stores stored storing", "query queries queried querying", "run runs running", "class classes")
    groups += ("use uses used using", "stop stops stopped stopping", "add adds added adding", "size sizes sized")
    stems = [{stem(word) for word in group.split()} for group in groups]
    assert all(len(found) == 1 for found in stems) and len(set.union(*stems)) == len(groups)
    for one, other in (("universe", "university"), ("even", "event"), ("string", "strange"), ("need", "knee")):
        assert stem(one) != stem(other)


# ---------------------------------------------------------------- near


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(*[st.lists(st.sampled_from([*"bcdef山木水"]), max_size=6)] * 2), max_size=12))
def test_items_near_to_one_are_found_by_their_facts_as_by_comparing_all(words: list[tuple[list[str], ...]]) -> None:
    made = [Item.make(" ".join(title) or "x", " ".join(content), "seed") for title, content in words]
    postings = FactPostings()
    for start in range(0, len(made), 5):
        postings.add(made[start : start + 5])
    for item in made:
        assert list(postings.near(item)) == [n for n, other in enumerate(made) if are_near(item, other)]


def rewordings() -> Iterator[tuple[str, Item]]:
    """Rejected lessons in other words: plurals, gaps, remarks, synonyms, other letters, other titles."""
    lessons = items()
    for how, other in paraphrases(lessons, 1_000, 11):
        yield how, other
    for changes, count in ((SAME, 500), (CHANGED, 500)):
        for how, _, other in pairs(changes, count, 13, lessons):
            yield how, other


@pytest.mark.slow
@pytest.mark.parametrize("policy", [AppendV2(), DedupV2()], ids=lambda policy: policy.name)
def test_of_2_000_rewordings_of_rejected_lessons_none_is_active(policy: AppendV2) -> None:
    """Learned from runs, by comparing, by a person's file, or by hand: in turn."""
    with Bank.create("memory:", policies=[policy.choice]) as bank:
        for lesson in items():
            bank.reject(bank.remember(lesson.title, lesson.content, src="success").item, because="wrong")
        made = list(rewordings())
        for start in range(0, len(made), 100):
            some = [item for _, item in made[start : start + 100]]
            kind, runs = (("success", ("r",)), ("contrastive", ("r", "s")), ("success", ()), ("manual", ("r",)))[
                start // 100 % 4
            ]
            heads, words = tuple(item.head for item in some), tuple(item.text for item in some)
            event = MemoriesExtracted(kind=kind, runs=runs, heads=heads, candidates=words)  # type: ignore[arg-type]
            append_decided(bank.log, bank.latest, [event])
        state = bank.state()
        assert not active(state)
        assert {entry.state for entry in state.items.values()} == {"rejected", "pending"}


# ---------------------------------------------------------------- hostile texts

HOSTILE: dict[str, Callable[[int], str]] = {
    "one letter": lambda n: "a" * n,
    "spaces": lambda n: "1." + " " * n + "x",
    "lines": lambda n: "\n" * n,
    "sentences": lambda n: "a. b. c! " * (n // 9),
    "entries": lambda n: "1. A " * (n // 5),
    "stars": lambda n: "*" * n,
    "bold": lambda n: "**a** " * (n // 6),
    "nested lists": lambda n: "".join(" " * (k % 90) + "- x\n" for k in range(n // 50)),
    "quotes": lambda n: ">" * n + "\n> " * (n // 10),
    "apostrophes": lambda n: "'" * n,
    "contractions": lambda n: "can't" * (n // 5),
    "marks": lambda n: "a" + "\u0300\u0316" * (n // 2),
    "endings": lambda n: "a" * n + "ed",
    "dots": lambda n: "a.b" * (n // 3),
    "numbers": lambda n: "1,0" * (n // 3),
    "unspaced": lambda n: "哈" * n,
    "underscores": lambda n: "a_" * (n // 2),
    "brackets": lambda n: "1. " + "(" * n,
    "long compositions": lambda n: "\ufdfa" * (n // 18),
    "invisible": lambda n: "a\u200b" * (n // 2),
    "emoji": lambda n: "🙂" * n,
    "letters of India": lambda n: "\u0915" * n,
    "vowel signs": lambda n: "\u0915" + "\u0940" * n,
    "syllables": lambda n: "\u0915\u0940" * (n // 2),
    "addresses": lambda n: "ab://" * (n // 5),
    "address of signs": lambda n: "ab://" + "*" * n,
    "options": lambda n: "-a" * (n // 2),
    "steps up": lambda n: "../" * (n // 3),
    "raised": lambda n: "⁻¹" * (n // 2),
    "emphases": lambda n: "**aa" * (n // 4),
    "primes": lambda n: "1" + "′" * n,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("chars", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_hostile_text_is_compared_in_bounded_time(name: str, chars: int) -> None:
    """With itself but for one word, and with itself turned round, which has equal tokens in another order."""
    text = HOSTILE[name](chars)
    one, *others = (Item.make("a title", each, "seed") for each in (text, f"{text} zinc", text[::-1]))
    began = time.process_time()
    for other in others:
        is_same(one, other)
        are_near(one, other)
        differences(one, other)
    assert time.process_time() - began < SECONDS


@settings(max_examples=examples(300), deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_read_and_likeness_is_symmetric(one: str, other: str) -> None:
    assert is_same_text(one, one) and is_same_text(one, other) == is_same_text(other, one)
    first, second = (Item.make("x", each, "seed") for each in (one, other))
    assert are_near(first, second) == are_near(second, first)
    assert not is_same(first, second) or facts_of(first) == facts_of(second) or "\n" in one + other or not one.isascii()


# ---------------------------------------------------------------- real lessons


@pytest.mark.slow
@pytest.mark.skipif("RBANK_REAL_DATA" not in os.environ, reason="RBANK_REAL_DATA is not set")
def test_no_two_different_real_lessons_state_the_same() -> None:
    told: list[dict[str, str]] = []
    for file in sorted((Path(os.environ["RBANK_REAL_DATA"]) / "memory").glob("*.json")):
        told += json.loads(file.read_text(encoding="utf-8"))
    lessons = [
        Item.make(each["title"], each["content"], "success") for each in {one["content"]: one for one in told}.values()
    ]
    assert len(lessons) > 20
    pairs_of_lessons = list(combinations(lessons, 2))
    assert not [(one, two) for one, two in pairs_of_lessons if is_same(one, two)]
    assert sum(are_near(one, two) for one, two in pairs_of_lessons) <= len(pairs_of_lessons) // 50
    for name, item, other in pairs(EXCHANGED, 1_000, 7, lessons):
        assert not is_same(other, item), (name, item, other)
