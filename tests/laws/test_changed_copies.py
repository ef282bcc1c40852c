"""Erasure finds every copy that this package's own writers changed: composed, laid out otherwise, cleaned or cut."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events import NoteLogged, RunFinished, RunJudged, RunStarted
from rbank_es.events.hidden_characters import visible, without_hidden
from rbank_es.events.items import one_line, without_controls
from rbank_es.extraction import candidates
from rbank_es.extraction.candidates import read_answer, usable
from rbank_es.extraction.judged_run import clip
from rbank_es.log.escaped_words import CUT, NORMALISED, SoughtWords
from rbank_es.log.normalised_text import folded
from rbank_es.policies.packed_text import plain
from rbank_es.system.text_cuts import cut_words

WRITERS: dict[str, Callable[[str], str]] = {
    "a title of an extraction": candidates.one_line,
    "a content of an extraction": candidates.many_lines,
    "one line of an item": lambda text: one_line(text, 10_000),
    "an item without controls": without_controls,
    "a context": without_hidden,
    "a line of a context": plain,
    "a terminal": lambda text: visible(text, "\n\t"),
    "a file of Windows": lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n"),
    "a prompt": lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
    "a normal form": lambda text: unicodedata.normalize("NFC", text),
    "another normal form": lambda text: unicodedata.normalize("NFD", text),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "a value of Python": lambda text: repr(text)[1:-1],
    "bytes of Python": lambda text: repr(text.encode())[2:-1],
}
"""Every writer that may change a text when it copies it, and readers of files that do."""
PIECES = (
    "e\u0301",
    "é",
    "u\u0308",
    "A\u030a",
    "ﬁ",
    "한",
    "\u1112\u1161\u11ab",
    "marigold",
    "12",
    ",",
    "\u200b",
    "\u202e",
)
PIECES += ("\r\n", "\n", "\t", "  ", " ", "\xa0", "\x1b", "\x85", "\u2028", "\xad", "'", '"', "\\", "\U0001f989")

texts = st.lists(st.sampled_from(PIECES), min_size=4, max_size=14).map("".join)
writers = st.lists(st.sampled_from(sorted(WRITERS)), min_size=1, max_size=2)


@given(texts, writers)
@example("Rene\u0301e Mu\u0308ller, Harbour Lane 12", ["a title of an extraction"])
@example("a\x85b marigold 12 12", ["an item without controls"])
def test_a_copy_is_found_whoever_of_ours_wrote_it(words: str, through: list[str]) -> None:
    assume(len(folded(words.encode(), drops=True).strip("\\")) >= limits.NEEDLE_CHARS + 2)
    # A terminal spells control characters out, and leaves a backslash before them as it is.
    assume("a terminal" not in through or "\\" not in words)
    # A last backslash belongs to what goes on behind it.
    words = words.strip().rstrip("\\")
    copy = f"Ask {words} for the key."
    for name in through:
        copy = WRITERS[name](copy)
    sought = SoughtWords([words])
    assert sought.may_be_in(copy.encode()) and sought.form_in(copy.encode()) is not None
    line = json.dumps({"content": copy}, ensure_ascii=False).encode()
    assert sought.may_be_in(line) and sought.form_in(line, levels=1) is not None


@given(texts, writers)
def test_the_changed_copy_leads_to_the_text_as_it_was(words: str, through: list[str]) -> None:
    """Whoever names the words as they were shown finds what was written."""
    copy = words
    for name in through:
        copy = WRITERS[name](copy)
    copy = copy.strip().rstrip("\\")
    assume(len(folded(copy.encode(), drops=True)) >= limits.NEEDLE_CHARS + 2 and not copy.startswith("\\"))
    if not {"a terminal", "JSON", "a value of Python", "bytes of Python"} & {*through}:
        assert SoughtWords([copy]).form_in(words.encode()) is not None


LONG = "Renée Müller of Harbour Lane 12 keeps the key of the lamp room, and is called at night. " * 6
CUTS: dict[str, Callable[[str], str]] = {
    "an item": lambda text: cut_words(text, 300),
    "a line of an item": lambda text: one_line(text, 300),
    "an extraction": lambda text: candidates.shortened(text.replace(".", ";"), 120).replace(";", "."),
    "a judged run": lambda text: clip(text, 300),
    "an extraction, decomposed": lambda text: unicodedata.normalize("NFD", cut_words(text, 300)),
    "a prompt in JSON": lambda text: json.dumps(cut_words(text, 300)),
    "three dots": lambda text: f"{text[:90]} ...",
    "an end": lambda text: f"…{text[-90:]}",
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_copy_that_an_ellipsis_cuts_off_is_found(cut: Callable[[str], str]) -> None:
    copy = f"He said: {cut(LONG)}"
    assert LONG not in copy
    sought = SoughtWords([LONG])
    assert sought.may_be_in(copy.encode()) and sought.form_in(copy.encode()) == CUT


def test_a_cut_has_to_have_enough_of_the_words() -> None:
    least = limits.CUT_WORDS_CHARS
    sought = SoughtWords([LONG])
    assert sought.form_in(f"{LONG[:least]}…".encode()) == CUT
    assert sought.form_in(f"{LONG[: least - 1]}…".encode()) is None
    assert sought.form_in(f"…{LONG.strip()[-least:]}".encode()) == CUT
    assert sought.form_in(f"…{LONG.strip()[1 - least :]}".encode()) is None
    # Another text that begins alike, and one that goes on to an ellipsis of its own.
    assert sought.form_in(LONG[:60].encode()) is None
    assert sought.form_in(f"{LONG[:60]} and so on…".encode()) is None


def test_what_an_extraction_composed_is_erased_with_the_answer_and_earlier_heads_verify(tmp_path: Path) -> None:
    words = "Rene\u0301e Mu\u0308ller, Harbour Lane 12"
    answer = json.dumps([{"title": "Whom to ask", "content": f"Ask {words} for the key."}])
    item = usable(read_answer(answer, "m", "r").entries, "success").items[0]
    assert words not in item.content
    with Bank.create(tmp_path / "bank") as bank:
        bank.append(
            [
                RunStarted(run="r1", task="Who has the key?"),
                RunFinished(run="r1", outcome="submitted", answer=f"Ask {words} for the key."),
                RunJudged(run="r1", purpose="learning", verdict="success", judge="me", judge_version="1", kind="lm"),
                NoteLogged(note="Harbour Lane 13"),
            ]
        )
        bank.remember(item.title, item.content, src="success", runs=["r1"])
        bank.project()
        noted = [bank.head(position) for position in range(1, bank.position + 1)]
        erasure = bank.erase(text=words).erasure
        assert NORMALISED in erasure.searched.forms and erasure.residue is not None and not erasure.residue.found
        assert bank.check(noted=noted).texts_erased == len(erasure.places) == 2
    held = b"".join(path.read_bytes() for path in (tmp_path / "bank").rglob("*.jsonl"))
    assert b"Harbour Lane 12" not in held and b"Harbour Lane 13" in held
