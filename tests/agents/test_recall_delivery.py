"""What was recalled is found in the agent's requests if it was sent, and only then."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.bank.recall_delivery import RecallDelivery
from tests.effort import examples

LESSON = 'Look at the "porch" too.\nIts lamp is on a timer: C:\\lamps'


def sent_of(*requests: Any, texts: dict[str, str] | None = None) -> tuple[bool | None, tuple[str, ...]]:
    delivery = RecallDelivery()
    delivery.recall({item: (text,) for item, text in (texts or {}).items()} if texts is not None else {"a": (LESSON,)})
    for request in requests:
        delivery.look(request)
    return delivery.sent, delivery.unsent


def message(text: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def test_what_is_not_known_is_null() -> None:
    """Nothing recalled; no call; recalled after the last call; an unreadable request that may have had it."""
    assert sent_of(message("x"), texts={}) == (None, ())
    assert sent_of(message("x"), texts={"a": "  "}) == (None, ())
    assert sent_of() == (None, ())
    delivery = RecallDelivery()
    delivery.look(message("x"))
    delivery.recall({"a": (LESSON,)})
    assert delivery.sent is None
    delivery.miss()
    delivery.look(message("x"))
    assert delivery.sent is None


# ---------------------------------------------------------------- the law

words = st.text(alphabet='ab"\\/nu\n\r\té0d8😀 ', max_size=8)
lessons = words.filter(lambda text: text.strip() != "")


@st.composite
def prompts(draw: st.DrawFn, lesson: str) -> Any:
    """The data of a request: the lesson or something like it among other words, as JSON within JSON, in lists."""
    like = st.sampled_from([lesson, lesson, lesson[:-1], lesson + lesson, lesson.replace("\n", "\r\n"), ""])
    text = draw(words) + draw(like) + draw(words)
    for _ in range(draw(st.integers(0, 3))):
        text = draw(words) + json.dumps(text, ensure_ascii=draw(st.booleans())) + draw(words)
    value: Any = text
    for _ in range(draw(st.integers(0, 3))):
        value = draw(st.sampled_from([[value], {"content": value}, [1, None, {"parts": [value, draw(words)]}]]))
    return value


def plain_strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for each in value for text in plain_strings(each)] if isinstance(value, list) else []


def plain_unescape(text: str) -> str:
    """Undo one level of escapes, a character at a time."""
    out, at, short = "", 0, {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
    while at < len(text):
        mark = text[at + 1 : at + 2] if text[at] == "\\" else ""
        digits = text[at + 2 : at + 6]
        if mark == "u" and len(digits) == 4 and set(digits) <= set("0123456789abcdefABCDEF"):
            out, at = out + chr(int(digits, 16)), at + 6
        elif mark and mark in '"\\/bfnrt':
            out, at = out + short.get(mark, mark), at + 2
        else:
            out, at = out + text[at], at + 1
    return out.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def plain_search(lesson: str, request: Any) -> bool:
    """Compare the lesson with every part of every reading of every string."""
    sought = lesson.replace("\r\n", "\n").replace("\r", "\n")
    for text in plain_strings(request):
        for _ in range(8):
            reading = text.replace("\r\n", "\n").replace("\r", "\n")
            if any(reading[at : at + len(sought)] == sought for at in range(len(reading) + 1)):
                return True
            text = plain_unescape(text)
    return False


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.lists(lessons, min_size=1, max_size=3, unique=True))
def test_the_flag_equals_a_search_of_everything(data: st.DataObject, texts: list[str]) -> None:
    """For any lessons and requests; through JSON, as a client sends it."""
    requests = data.draw(st.lists(st.sampled_from(texts).flatmap(prompts), min_size=1, max_size=3))
    requests = [json.loads(json.dumps(each)) for each in requests]
    unsent = tuple(text for text in texts if not any(plain_search(text, each) for each in requests))
    assert sent_of(*requests, texts={text: text for text in texts}) == (not unsent, unsent)
