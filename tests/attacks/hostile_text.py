"""Hostile texts, a bank that has them in every field, and the law that all output for people obeys."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from rbank_es.bank import Bank
from rbank_es.events import (
    Decision,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesRetrieved,
    NoteLogged,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.items import Item

TEXTS = {
    "colour": "\x1b[31mred\x1b[0m",
    "screen": "\x1b[2J\x1b[H all is well",
    "title": "\x1b]0;owned\x07 terminal",
    "link": "\x1b]8;;https://evil.example\x1b\\ a link",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07 copied",
    "carriage": "delete everything\rkeep all the rest",
    "backspace": "rm -rf /\b\b\b\b\b\b\b\becho hi",
    "c1": "a C1 \x9b31m sequence \x90q\x9c",
    "delete": "a delete \x7f character",
    "bidi-override": "user\u202e nimda \u202cend",
    "bidi-isolate": "a\u2066b\u2069\u2067c\u2069\u2068d\u2069",
    "bidi-mark": "a\u200e\u200f\u061cb",
    "zero-width": "pass\u200bword \u200c\u200d\u2060\ufeff",
    "tags": "nothing\U000e0049\U000e0047\U000e004e\U000e004f\U000e0052\U000e0045",
    "variation-selectors": "x\ufe01\ufe02\U000e0100\U000e01ef",
    "separators": "one\u2028two\u2029three\x85four\x1cfive",
    "fillers": "a\u3164\u115f\u1160\uffa0\u034fb",
    "marks": "Z" + "\u0301\u0302\u0303" * 40,
    "first-mark": "\u20dd\u0336struck",
    "interlinear": "a\ufff9b\ufffac\ufffb",
    "private": "\ue000\U000f0000",
    "musical": "a\U0001d173b\U0001d17a",
}
"""Texts by what they would do to a terminal, a bidirectional algorithm or a reader."""

MARKS_MOST = 4


def steering(shown: str) -> list[str]:
    """The characters of an output that a terminal would obey or a person could not see, newlines aside."""
    found, marks = [], MARKS_MOST
    for char in shown:
        kind = unicodedata.category(char)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        ignorable = char in "\u034f\u115f\u1160\u3164\uffa0" or "\U000e0000" <= char <= "\U000e0fff"
        if (kind[0] == "C" and char != "\n") or kind in ("Zl", "Zp") or ignorable or marks > MARKS_MOST:
            found.append(f"U+{ord(char):04X}")
    return found


def hostile_bank(place: Path, text: str, *, run: str = "run-1") -> Bank:
    """A bank that has the text in every field that a run, a tool, a model or an import can write."""
    item = Item.make(text[:100] or "x", text)
    bank = Bank.create(place)
    extracted = MemoriesExtracted(kind="success", runs=(run,), heads=(item.head,), candidates=(item.text,))
    bank.append(
        [
            RunStarted(run=run, task=text, ontology=text[:99] or None, executor="rlm", model=text[:99] or None),
            MemoriesRetrieved(run=run, mode="auto", query=text, k=1, policy="bm25-1", hits=()),
            ToolCalled(run=run, tool=text[:99] or "t", call="c1", arguments=text, result=text, error=text, chars=2000),
            StepTaken(run=run, index=1, reasoning=text, code=text, output=text, error_code=text[:99] or None),
            NoteLogged(run=run, by=text[:99] or None, note={"note": text}),
            RunFinished(run=run, outcome="failed", answer=text, sparql=text, error=text),
            RunJudged(
                run=run, purpose="learning", verdict="success", kind="lm", judge="lm", judge_version="1", reason=text
            ),
        ]
    )
    group = bank.append(extracted)
    decision = Decision(candidate=0, action="add", item=item.id)
    bank.append(MemoriesConsolidated(extraction=group.events[0].id, policy="append-1", decisions=(decision,)))
    return bank
