"""A misspelt word is read as the nearest one that an item has; what only looks misspelt is read as it stands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rbank_es import Bank


def _meant(items: Sequence[str], query: str) -> dict[str, str]:
    """Return the words of a query that are read as others, in a bank whose items have these contents."""
    with Bank.create("memory:") as bank:
        for number, content in enumerate(items):
            bank.remember(f"Note {number}", content)
        with bank.as_of() as view:
            found = view.retrieve(query, 10)
    words = (word for hit in (*found.items, *found.withheld) for word in hit.matched)
    return {word.word: word.meant for word in words if word.meant is not None}


@pytest.mark.parametrize(
    ("items", "query", "meant"),
    [
        pytest.param(["The bottle.", "A bottler."], "bottlr", "bottle", id="by-alphabet"),
        pytest.param(["The bottle.", "A bottler.", "Our bottler."], "bottlr", "bottler", id="by-frequency-first"),
        pytest.param(
            ["A lighthouse.", "Some lighthoser.", "The lighthoser."], "lighthuose", "lighthouse", id="by-edits-before"
        ),
        pytest.param(["The table."], "tabel", "table", id="swapped-neighbours-are-one-edit"),
        pytest.param(["The table."], "atble", "table", id="a-first-letter-that-was-swapped"),
        pytest.param(["The height."], "heigthts", "height", id="two-edits-from-eight-letters-on"),
        pytest.param(["Хранитель маяка."], "храинтель", "хранитель", id="cyrillic"),
    ],
)
def test_a_misspelt_word_is_read_as_the_nearest(items: Sequence[str], query: str, meant: str) -> None:
    assert _meant(items, query) == {query: meant}


@pytest.mark.parametrize(
    "query",
    [
        "lable wood",
        "tabe wood",
        "heigtth wood",
        "tabl3 wood",
        "their tables",
        "lt:tabel wood",
        "hasTabel",
        "tabel_height",
    ]
    + [f"the {quoted} wood" for quoted in ('"tabel"', "`tabel`", "“tabel”", "«tabel»")],
)
def test_another_first_letter_a_short_word_a_number_a_stop_word_code_and_quotes_are_read_as_they_stand(
    query: str,
) -> None:
    assert _meant(["A table of some height, and there is another."], query) == {}
