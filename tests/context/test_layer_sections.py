"""The table of layers, and text fitted into budgets: whole entries, whole sentences, fair shares."""

from __future__ import annotations

import pytest

from rbank_es import limits
from rbank_es.context.layer_sections import Section, pack_sections
from rbank_es.errors import BadInput
from rbank_es.policies.packed_text import plain, short_count


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


@pytest.mark.parametrize("budget", [0, 1, 4])
def test_a_budget_too_small_for_anything_gives_nothing_and_says_so(budget: int) -> None:
    packed = pack_sections("L0", "# T", [Section("A: ", ["entry"])], budget)
    assert (packed.text, packed.truncated, packed.cut) == ("", True, "without A")


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
