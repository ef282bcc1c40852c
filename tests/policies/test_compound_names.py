"""Compound names: their parts, in ASCII and other scripts, and nothing of plain words."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rbank_es.policies.words import compound_parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("lt:towerHeight", ["tower", "Height"]),
        ("use up:recommendedName, then wdt:P31.", ["recommended", "Name"]),
        ("<http://www.w3.org/2000/01/rdf-schema#subClassOf>", ["sub", "Class", "Of"]),
        ("HTTPServer", ["HTTP", "Server"]),
        ("getHTTPResponseCode", ["get", "HTTP", "Response", "Code"]),
        ("sha256Sum", ["sha256", "Sum"]),
        ("tower_height", ["towerheight"]),
        ("tower_focalHeight", ["towerfocalHeight", "focal", "Height"]),
        ("__init__ _x x_", []),
        ("IRIs, URLs, PDFs", []),
        ("SPARQL Query EXISTS, OpenStreetMap's", ["Open", "Street", "Map"]),
        ("xCoordinate", ["Coordinate"]),
        ("höheÜberMeer", ["höhe", "Über", "Meer"]),
        ("ho\u0308heU\u0308berMeer", ["höhe", "Über", "Meer"]),
        ("ὕψοςΠύργου и высотаБашни", ["ὕψος", "Πύργου", "высота", "Башни"]),
        ("塔の高さ plain words, 45 m", []),
        ("", []),
    ],
)
def test_the_parts_are_found(text: str, parts: list[str]) -> None:
    assert compound_parts(text) == parts


@given(st.text())
def test_parts_are_made_of_letters_and_digits_of_the_text(text: str) -> None:
    parts = compound_parts(text)
    assert all(len(part) >= 2 and part.isalnum() for part in parts)
    assert compound_parts(text.lower().replace("_", " ")) == []


@given(st.lists(st.from_regex(r"[a-z]{2,8}", fullmatch=True), min_size=2, max_size=5))
def test_a_name_in_camel_case_has_the_parts_that_it_was_made_of(words: list[str]) -> None:
    name = words[0] + "".join(word.title() for word in words[1:])
    assert [part.lower() for part in compound_parts(f"see ex:{name}.")] == words
    assert compound_parts("_".join(words)) == ["".join(words)]


@given(st.text("aB9_ Z", max_size=8))
@example("9__9")
def test_an_ascii_text_has_the_parts_that_it_has_beside_another_script(text: str) -> None:
    """Only ASCII texts are passed over by a look at their characters."""
    assert compound_parts(text) == compound_parts(f"{text} é")
