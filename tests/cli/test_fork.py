"""`fork`, and the commands that look at forks: `diff`, `verify --parent`, `erase`, `log`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es.answers.about import forked_from
from rbank_es.bank import Bank
from rbank_es.events import NoteLogged
from tests.cli_runner import fails, on_terminal, run

WORDS = "the kiln in the cellar is cold"


def grow(place: Path, bank: str, *notes: str) -> None:
    with Bank.open(place / "logs" / bank) as opened:
        for each in notes:
            opened.append(NoteLogged(note=json.dumps(each)))


def test_a_fork_is_a_bank_with_an_id_of_its_own(place: Path) -> None:
    """It says what it was forked from and what it shares, and verifies alone and against its parent."""
    parent = run("head", "notes", "--json", cwd=place).json
    made = run("fork", "notes", "trial", "--by", "mo", "--json", cwd=place).json
    assert made["parent"] == {"bank": "notes", "id": parent["id"], "head": parent["head"]}
    assert made["bank"] == "trial" and made["id"] != parent["id"]
    assert made["parts"] == 2 and made["shared_parts"] == 0
    assert run("verify", "trial", "--parent", "notes", "--json", cwd=place).json["shared"]["head"] == parent["head"]
    assert "the same as trial up to position 9" in run("verify", "notes", "--parent", "trial", cwd=place).out
    said = on_terminal("log", "trial", "--since", "9", cwd=place, columns=140).out
    assert f"trial, from {parent['id']} at position 9, mo" in said
    assert run("search", "trial", "kilns", cwd=place).out == run("search", "notes", "kilns", cwd=place).out


def test_a_fork_at_a_point(place: Path) -> None:
    """POINT is any; inside a group it is refused, with the nearest ends."""
    assert "fork at 0 or 2" in fails("fork", "notes@1", "trial", cwd=place, code=2)
    said = run("fork", "notes@2", "trial", cwd=place).out
    assert "forked notes at position 2 into" in said and "of its own" in said
    assert run("items", "trial", "--json", cwd=place).json["items"] == []
    run("fork", "notes@0", "empty", cwd=place)
    run("verify", "empty", "--parent", "notes", cwd=place)


def test_bad_places(place: Path) -> None:
    """An existing bank, a place inside the bank, another engine, no such bank, a point on the new bank."""
    run("fork", "notes", "trial", cwd=place)
    assert "there is a bank already" in fails("fork", "notes", "trial", cwd=place, code=2)
    assert "there is a bank already" in fails("fork", "notes", "notes", cwd=place, code=2)
    assert "own directory" in fails("fork", "notes", "./logs/notes/deep", cwd=place, code=2)
    assert "would be lost" in fails("fork", "notes", "memory:x", cwd=place, code=2)
    assert "leave out @3" in fails("fork", "notes", "other@3", cwd=place, code=2)
    fails("fork", "nothing", "other", cwd=place, code=2)


@pytest.mark.slow
def test_diff_of_forks_names_the_common_position(place: Path) -> None:
    """Before the differences of state: up to where both are the same, and how many events each has beyond."""
    run("fork", "notes", "trial", cwd=place)
    grow(place, "trial", "one", "two")
    grow(place, "notes", "three")
    facts = run("diff", "notes", "trial", "--json", cwd=place).json
    head = run("head", "notes@9", "--json", cwd=place).json["head"]
    assert facts["shared"]["head"] == head and facts["shared"]["beyond"] == [1, 3]
    said = run("diff", "notes", "trial", cwd=place).out
    assert "both are the same up to position 9" in said
    assert "beyond it, notes has 1 event, trial has 3 events" in said and "nothing differs" in said
    assert run("diff", "notes@4", "trial@6", "--json", cwd=place).json["shared"]["beyond"] == [0, 2]
    assert run("diff", "notes@4", "notes@6", "--json", cwd=place).json["since_bank"] is None
    run("init", "stranger", cwd=place)
    assert run("diff", "notes", "stranger", "--json", cwd=place).json["shared"] is None
    assert "they share no history" in run("diff", "notes", "stranger", cwd=place).out
    assert "they share no history" not in run("diff", "notes@4", "notes@6", cwd=place).out
    assert "share nothing" in fails("verify", "notes", "--parent", "stranger", cwd=place, code=1)


def test_copies_that_went_on_separately_are_compared_by_their_heads(place: Path) -> None:
    """They have the same id; where they part is found, and said."""
    grow(place, "notes", "one", "two", "three")
    with Bank.open(place / "logs" / "notes") as bank:
        bank.copy(10, into=place / "copy").close()
    with Bank.open(place / "copy") as copy:
        for number in range(3):
            copy.append(NoteLogged(note=json.dumps(number)))
    common = run("diff", "notes", "./copy", "--json", cwd=place).json["shared"]
    assert common["head"].startswith("10:") and common["claimed_seq"] == 12
    assert "must be the same up to position 12" in fails("verify", "notes", "--parent", "./copy", cwd=place, code=1)


@pytest.mark.slow
def test_erase_names_forks_and_parents(place: Path) -> None:
    """In both directions; the other bank still holds the words and verifies."""
    grow(place, "notes", WORDS)
    (place / "words.txt").write_text(WORDS)
    run("fork", "notes", "trial", cwd=place)
    said = run("erase", "notes", "--text", "words.txt", "--dry-run", cwd=place).out
    assert f"may still hold it: {place / 'logs' / 'trial'} (the same log up to position 10)" in said
    run("erase", "trial", "--text", "words.txt", "--yes", cwd=place)
    relatives = run("erase", "notes", "--text", "words.txt", "--dry-run", "--json", cwd=place).json["erasure"][
        "relatives"
    ]
    assert str(place / "logs" / "trial") in [each["place"] for each in relatives]
    run("verify", "trial", "--parent", "notes", cwd=place)
    assert WORDS in run("log", "notes", cwd=place).out and WORDS not in run("log", "trial", cwd=place).out
    run("erase", "notes", "--text", "words.txt", "--yes", cwd=place)
    assert WORDS not in run("log", "notes", cwd=place).out
    run("verify", "notes", "--parent", "trial", cwd=place)


@pytest.mark.slow
def test_the_page_names_what_a_bank_was_forked_from(place: Path) -> None:
    """At a point of the fork's own; not as of an earlier one, and not on the page of the parent."""
    with Bank.open(place / "logs" / "notes") as parent, parent.fork(place / "logs" / "trial") as fork:
        assert [forked_from(fork, 9), forked_from(parent, 9)] == [None, None]
        said = str(forked_from(fork, 10))
        assert said == f"{parent.id} at position 9"
    run("dashboard", "trial", "-o", "page.html", cwd=place)
    assert said in (place / "page.html").read_text()


def test_a_copy_is_the_same_bank_at_another_place(place: Path) -> None:
    """The same id, head and answers; up to a point too; where something is, nothing is copied."""
    parent = run("head", "notes", "--json", cwd=place).json
    made = run("copy", "notes", "same", "--json", cwd=place).json
    assert (made["id"], made["head"], made["events"]) == (parent["id"], parent["head"], 9)
    assert run("search", "same", "kilns", cwd=place).out == run("search", "notes", "kilns", cwd=place).out
    assert run("verify", "same", "--head", parent["head"], cwd=place).code == 0
    assert "copied 2 events of notes to logs/first" in run("copy", "notes@2", "first", cwd=place).out
    fails("copy", "notes", "first", cwd=place, code=2)
    assert "would be lost" in fails("copy", "notes", "memory:x", cwd=place, code=2)
