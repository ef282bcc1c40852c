"""No text disables a bank: what the log admits is held by all read models, what it can't hold is refused by field."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.errors import BadBankName, BadEvent, BadInput, RBankError
from rbank_es.events import NoteLogged, RunStarted, StepTaken, ToolCalled
from rbank_es.events.items import Item
from rbank_es.exchange.file_import import import_paths
from rbank_es.loop.tasks import load_tasks
from rbank_es.models.scripted_model import Script
from rbank_es.system.input_file import read_given
from tests.attacks.hostile_text import hostile_bank
from tests.cli_runner import run
from tests.effort import examples, one_in

LONG_RUNS = {
    "of three bytes": "哈" * 11_000,
    "of four bytes": "😀𝔞" * 5_000,
    "that folding lengthens": "Ⱥ" * 17_000,
    "of ASCII": "a" * 1_000_000,
    "of syllables": "\u1100\u1161\u11a8" * 9_000,
    "of marks": "e" + "\u0301" * 5_000,
    "of overrides": "\u202e" * 5_000,
    "of lines": "\n" * 50_000,
    "of words": " ".join(f"w{number}" for number in range(20_000)),
    "of brackets": "[" * 5_000 + "]" * 5_000,
    "of digits": "9" * 5_000,
}
ODD = {
    "nothing": "",
    "blanks": "   ",
    "separators": "a\u2028b\u2029c\x85d",
    "nulls": "a\0b\0",
    "controls": "".join(map(chr, range(1, 32))),
    "no characters": "\ufffe\uffff\ufdd0\U0010ffff",
    "unassigned": "\u0378\U000e0fff\U0005ffff",
    "quotes": "'\"%_/\\;--",
    "syntax of searches": '" OR NEAR( * ^ : - + {title}',
    "an end of a script": "</script><!--<script>",
    "a mark": "\ufeffx",
    "no number of JSON": "NaN",
    "a number too large": "1e999",
    "JSON twice": '{"a":1,"a":"\\ud800"}',
}
COMMANDS = (
    ("search", "BANK", "boats a 哈"),
    ("items", "BANK"),
    ("items", "BANK", "--json"),
    ("items", "BANK", "--csv"),
    ("runs", "BANK", "--json"),
    ("show", "BANK", "run:run-1"),
    ("show", "BANK", "run:run-1", "--json"),
    ("log", "BANK"),
    ("log", "BANK", "--json"),
    ("health", "BANK"),
    ("context", "BANK", "--ont", "lights", "--task", "boats"),
    ("dashboard", "BANK", "-o", "page.html"),
    ("export", "BANK", "--format", "items"),
    ("export", "BANK", "--format", "reasoningbank"),
    ("query", "BANK", "--sparql", "SELECT ?x ?text { ?x prov:value ?text }"),
    ("verify", "BANK"),
    ("project", "BANK", "--rebuild"),
    ("replay", "BANK"),
)
TAGS = tuple(f"tag {number} 哈" for number in range(5_000))


def assert_usable(text: str, folder: Path) -> None:
    """A bank that has the text in every field, and another item, answers every command, and finds that item."""
    names = text[:200].replace("\0", "")
    with hostile_bank(folder / "bank", names or "x") as bank:
        bank.append([StepTaken(run="run-1", index=2, reasoning=text, code=text, output=text, extra=text)])
        bank.append([ToolCalled(run="run-1", tool="t", call="c2", arguments=text, result=text, error=text, chars=1)])
        bank.append([NoteLogged(run="run-1", note=text)])
        bank.remember(f"{text} T", f"{text} C", desc=text, tags=(text, *TAGS))
        bank.remember("Count distinct boats", "Write COUNT(DISTINCT ?boat).", runs=("run-1",))
    for line in COMMANDS:
        run(*(word.replace("BANK", "./bank") for word in line), cwd=folder)
    assert "Count distinct boats" in run("search", "./bank", "boats", cwd=folder).out


@pytest.mark.slow
@pytest.mark.parametrize("text", one_in(4, [*LONG_RUNS.values(), *ODD.values()]), ids=[*LONG_RUNS, *ODD])
def test_a_bank_with_any_text_in_every_field_stays_usable(text: str, tmp_path: Path) -> None:
    assert_usable(text, tmp_path)


pieces = st.one_of(
    st.sampled_from([*ODD.values()]),
    st.builds(lambda char, times: char * times, st.characters(codec="utf-8"), st.sampled_from([1, 9, 8_193, 16_400])),
    st.text(st.characters(codec="utf-8"), max_size=20),
)


@pytest.mark.slow
@given(st.lists(pieces, max_size=4).map("".join))
@example("a" * 32_767 + "é")
@settings(max_examples=examples(60))
def test_any_text_is_indexed_and_the_others_are_found(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    with Bank.create(tmp_path_factory.mktemp("any") / "bank", unsafe_no_sync=True) as bank:
        bank.remember(f"{text} T", f"{text} C", desc=text, tags=(text,))
        bank.remember("Count distinct boats", "Write COUNT(DISTINCT ?boat).")
        assert "Count distinct boats" in [found.title for found in bank.search("distinct boats")]
        with bank.live() as live:
            kept = live.items()
        bank.project(rebuild=True)
        with bank.live() as again:
            assert again.items() == kept


# ---------------------------------------------------------------- refused, by the field

HALF = "half \ud83d"
DEEP: dict[str, Any] = reduce(lambda inner, _: {"a": inner}, range(100_000), {})  # more than any Python encodes
REFUSED: dict[str, tuple[Any, str]] = {
    "half a character": ({"a": [1, HALF]}, "$.note.a[1]"),
    "half a key": ({"a": {HALF: 1}}, "$.note.a"),
    "a number of 5,000 digits": ({"a": 10**5_000}, "$.note"),
    "no value of JSON": ({"a": object()}, "$.note"),
    "no number of JSON": ({"a": [None, float("nan")]}, "$.note.a[1]"),
    "levels": (DEEP, "$.note"),
}


@pytest.fixture(scope="module")
def bank() -> Bank:
    made = Bank.create("memory:")
    made.append([RunStarted(run="r")])
    return made


@pytest.mark.parametrize(("value", "path"), REFUSED.values(), ids=REFUSED)
def test_a_value_that_no_log_can_hold_is_refused_by_its_field(bank: Bank, value: Any, path: str) -> None:
    before = bank.position
    for given_event in (NoteLogged(note=value), {"type": "note_logged", "note": value}):
        with pytest.raises(BadEvent, match="can't be stored|JSON can hold") as refused:
            bank.append([given_event])
        assert refused.value.path == path
    assert bank.position == before


HALVES: dict[str, tuple[Callable[[Bank], object], str]] = {
    "a text": (lambda bank: bank.append([StepTaken(run="r", index=1, output=HALF)]), "$.output"),
    "a fact": (lambda bank: bank.append([RunStarted(run=HALF)]), "$.run"),
    "an object": (
        lambda bank: bank.append([{"type": "step_taken", "run": "r", "index": 1, "output": HALF}]),
        "$.output",
    ),
    "a field": (lambda bank: bank.append([{"type": "note_logged", HALF: 1}]), "$"),
    "a title": (lambda bank: Item.make(HALF, "x"), "$.title"),
    "a content": (lambda bank: bank.remember("x", HALF), "$.content"),
    "a tag": (lambda bank: bank.remember("x", "y", tags=("a", HALF)), "$.candidates[0].tags[1]"),
    "a reason": (lambda bank: bank.overrule("r", "failure", reason=HALF), "$.reason"),
    "a person": (lambda bank: bank.overrule("r", "failure", reason="x", by=HALF), "$.by"),
    "a candidate": (
        lambda bank: bank.append(
            [{"type": "memories_extracted", "kind": "success", "runs": ["r"], "candidates": [{"title": HALF}]}]
        ),
        "$.title",
    ),
}


@pytest.mark.parametrize(("act", "path"), HALVES.values(), ids=HALVES)
def test_half_a_character_from_python_is_refused_by_its_field(
    bank: Bank, act: Callable[[Bank], object], path: str
) -> None:
    before = bank.position
    with pytest.raises(BadEvent, match=r"half a character \(U\+D83D") as refused:
        act(bank)
    assert refused.value.path == path and bank.position == before
    assert str(refused.value).isprintable()


def test_half_a_character_as_a_question_is_an_error_of_ours(bank: Bank, tmp_path: Path) -> None:
    with bank.live() as view:
        for ask in (view.item, view.run, lambda id: view.page("items", after=id)):
            with pytest.raises(BadInput):
                ask(HALF)
        view.search(HALF)
    for place in (tmp_path / HALF, f"./{HALF}", HALF):
        with pytest.raises(BadBankName):
            Bank.create(place)
    files: list[Callable[[str], object]] = [
        Script.load,
        load_tasks,
        lambda name: import_paths(bank, [name]),
        lambda name: bank.replay(into=name),
        lambda name: read_given(name, 9),
    ]
    for read in files:
        for name in (HALF, "nul\0"):
            with pytest.raises((RBankError, OSError), match="no file can have a name"):
                read(name)
    for odd in (bank.resolve, bank.head):
        with pytest.raises(RBankError):
            odd(HALF)


def test_a_directory_whose_name_is_not_utf8_can_hold_a_bank(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "caf\udce9") as made:
        made.remember("Count distinct boats", "Write COUNT(DISTINCT ?boat).")
        made.fork(tmp_path / "f\udce9").close()
        with Bank.create(tmp_path / "o\udce9") as other:
            other.absorb(made)
            assert [found.title for found in other.search("boats")] == ["Count distinct boats"]


@pytest.mark.parametrize("text", LONG_RUNS.values(), ids=LONG_RUNS)
def test_a_question_of_any_form_is_searched_in_bounded_time(text: str) -> None:
    """One long run of letters took cubic time: hours."""
    with Bank.create(f"memory:{uuid4().hex}") as bank:
        bank.remember("Look at every lamp", "Which lamps are lit: look at every lamp.")
        began = time.process_time()
        with bank.record(text) as run:
            run.recall()
            run.finish("done")
        assert time.process_time() - began < 5
