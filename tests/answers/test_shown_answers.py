"""Answers in a notebook and in a terminal: short, and no text of a bank is obeyed by either."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from rbank_es import Bank
from rbank_es.answers import BankAnswer
from tests.answers.asked import answers_of
from tests.attacks.hostile_text import TEXTS, steering
from tests.cli_runner import SAMPLE
from tests.effort import examples

HTML = (
    "<script>alert(1)</script>",
    "</table><img src=x onerror=alert(1)>",
    "<!--",
    "&lt;b&gt;",
    "'\"><svg onload=a()>",
)
TEXT = st.lists(
    st.one_of(st.sampled_from([*TEXTS.values(), *HTML, "x" * 100_000]), st.text(max_size=8)), min_size=1, max_size=6
).map("".join)
TAGS = {"table", "caption", "tr", "th", "td"}
LINE_CHARS = 4_000
ROWS_CHARS = 400_000


@pytest.fixture(scope="module")
def answers() -> list[BankAnswer]:
    with Bank.open(SAMPLE) as bank:
        return [answer for _, _, answer in answers_of(bank)]


def poisoned(value: Any, text: str) -> Any:
    """Return an answer with this text in the place of every text, names in objects too."""
    if isinstance(value, Struct):
        fields = {name: poisoned(getattr(value, name), text) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, dict):
        return {text + str(name): poisoned(inner, text) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(poisoned(inner, text) for inner in value)
    return text if isinstance(value, str) else value


class _Parsed(HTMLParser):
    """What a browser would make of an answer: its tags with their attributes, comments too."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[Any] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag if not attrs else (tag, attrs))

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", data))

    handle_decl = handle_pi = unknown_decl = handle_comment


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(text=TEXT)
def test_no_text_of_a_bank_is_a_tag_or_steers_a_reader_or_makes_an_answer_long(
    answers: list[BankAnswer], text: str
) -> None:
    for answer in (poisoned(each, text) for each in answers):
        html, line = answer._repr_html_(), repr(answer)
        assert set(_Parsed(html).found) <= TAGS and not steering(html)
        assert len(html) < ROWS_CHARS and len(line) < LINE_CHARS
        assert line.startswith(type(answer).__name__) and "\n" not in line and not steering(line)
        printed = str(answer).split("\n")
        assert not any(map(steering, printed)) and sum(map(len, printed)) < ROWS_CHARS
