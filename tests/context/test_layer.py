"""The table of layers, and text fitted into budgets: whole entries, whole sentences, fair shares."""

from __future__ import annotations

import pytest

from rbank_es import limits
from rbank_es.context.layer import LAYER_TABLE, ContextRequest, Section, pack_sections, sentences, whole_words
from rbank_es.errors import BadInput
from rbank_es.policies.packed_text import fair_shares, plain, short_count


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\n# two\r\nthree", "one # two three"),
        ("a\u2028b\x85c\x1cd", "a b c d"),
        ("a\x00b\x1b[31mc", "ab[31mc"),
        ("left\u202eright\u200b", "leftright"),
        ("  spread \t out ", "spread out"),
        ("zero\u200dwidth\u200cjoiners", "zero\u200dwidth\u200cjoiners"),
    ],
)
def test_a_plain_text_is_one_line_that_hides_nothing(text: str, line: str) -> None:
    assert plain(text) == line


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Use a path, e.g. The one below. Then stop.", ["Use a path, e.g. The one below.", "Then stop."]),
        ("1. First of all. 2. Then.", ["1. First of all.", "2. Then."]),
        ("Version 2.0 is out. It works.", ["Version 2.0 is out.", "It works."]),
        ('She said "no." And left.', ['She said "no."', "And left."]),
        ("it ends. and goes on in lower case.", ["it ends. and goes on in lower case."]),
        ("", []),
    ],
)
def test_sentences_end_where_people_end_them(text: str, found: list[str]) -> None:
    assert sentences(text) == found


def test_a_text_is_cut_after_a_word() -> None:
    text = "Go by the watch."
    assert whole_words(text, len(text)) == text
    assert whole_words(text, 15) == "Go by the…"
    assert whole_words(text, 3) == "Go…"
    assert whole_words(text, 2) == ""
    assert whole_words("unbreakable", 5) == ""


@pytest.mark.parametrize(
    ("needs", "room", "weights", "shares"),
    [
        ([10, 20], 100, None, [10, 20]),
        ([10, 200], 100, None, [10, 90]),
        ([200, 200], 100, None, [50, 50]),
        ([200, 200], 90, [1, 2], [30, 60]),
        ([10, 500, 500], 110, [1, 1, 4], [10, 20, 80]),
        ([0, 5], 0, None, [0, 0]),
        ([], 10, None, []),
    ],
)
def test_what_one_does_not_need_is_shared_among_the_others(
    needs: list[int], room: int, weights: list[int] | None, shares: list[int]
) -> None:
    assert fair_shares(needs, room, weights) == shares


def test_everything_is_shown_where_it_fits() -> None:
    packed = pack_sections("L0", "# Title", [Section("A: ", ["x", "y"]), Section("B: ", [])], 100)
    assert (packed.text, packed.truncated, packed.cut) == ("# Title\nA: x, y", False, "")


def test_entries_are_left_out_whole_and_counted() -> None:
    entries = ["alpha", "beta", "gamma", "delta"]
    packed = pack_sections("L0", "# T", [Section("A: ", entries)], 30)
    assert packed.text == "# T\nA: alpha, beta, gamma … +1"
    assert (packed.truncated, packed.cut) == (True, "1 of 4 in A")


def test_sections_that_come_last_are_left_out_first_and_named() -> None:
    sections = [Section("First: ", ["one entry"]), Section("Last: ", ["another entry"])]
    packed = pack_sections("L0", "# T", sections, 24)
    assert (packed.text, packed.cut) == ("# T\nFirst: one entry", "without Last")


def test_a_section_gets_its_fewest_entries_before_later_ones_get_any() -> None:
    sections = [Section("", ["aaaa", "bbbb"], fewest=None), Section("Later: ", ["cccc"], name="the later one")]
    packed = pack_sections("L0", "# T", sections, 16)
    assert (packed.text, packed.cut) == ("# T\naaaa, bbbb", "without the later one")


def test_entries_with_the_same_note_stand_together() -> None:
    section = Section("", ["a", "b", "c", "d"], "; ", notes=["x→y", "", "x→y", "z"])
    assert pack_sections("L0", "#", [section], 50).text == "#\na, c (x→y); b; d (z)"


@pytest.mark.parametrize("budget", [0, 1, 4])
def test_a_budget_too_small_for_anything_gives_nothing_and_says_so(budget: int) -> None:
    packed = pack_sections("L0", "# T", [Section("A: ", ["entry"])], budget)
    assert (packed.text, packed.truncated, packed.cut) == ("", True, "without A")


def test_nothing_to_say_is_not_truncated() -> None:
    packed = pack_sections("L0", "# T", [], 0)
    assert (packed.text, packed.truncated) == ("", False)


def test_a_budget_below_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="-1"):
        pack_sections("L0", "# T", [], -1)


def test_what_is_said_of_left_out_sections_stays_short() -> None:
    sections = [Section(f"A rather long title of section {number}: ", ["entry"]) for number in range(50)]
    assert len(pack_sections("L0", "# T", sections, 10).cut) <= limits.CONTEXT_LEFT_OUT_CHARS


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (99_999, "99,999"), (441_535_859, "442M"), (1_450_000_000, "1.45B"), (123_456, "123k")],
)
def test_large_numbers_are_shortened(number: int, shown: str) -> None:
    assert short_count(number) == shown
    assert short_count(999_999_999_999) == "1,000B"


@pytest.mark.parametrize("name", LAYER_TABLE)
def test_a_layer_is_one_module_that_packs_it_within_its_budget(name: str) -> None:
    """And has nothing to say without an ontology, a bank and a guide, unless it is the base instructions."""
    request = ContextRequest(
        task="How many?", subject=None, bank=None, position=None, mode="auto", run=None, curated=None, guide=None,
        domain=None, observed=False, task_slice=False, memory_graph=False,
    )  # fmt: skip
    row = LAYER_TABLE[name]
    packed = row.pack(request, row.lean)
    assert (packed is not None and packed.packed.text != "") == (name == "base")
    if packed is not None:
        assert packed.packed.layer == name and len(packed.packed.text) <= packed.packed.budget_chars == row.lean
