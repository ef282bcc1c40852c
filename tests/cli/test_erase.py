"""`erase`: what it lists, asks, removes and keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es.events.items import Item
from tests.cli.kilns import ITEM, log_bytes
from tests.cli_runner import fails, on_terminal, run


@pytest.mark.slow
def test_erase_in_a_bank_of_an_experiment_names_the_folder_around_it(place: Path) -> None:
    """Suite, other banks, results and pages have the words too, and it reaches none of them."""
    folder = place / "trials" / "E1"
    for bank in ("banks/base", "banks/with/o0-r0", "cut/with/o0-r0-cut1", "elsewhere/with/o0-r0"):
        run("init", f"./{folder.relative_to(place)}/{bank}", cwd=place)
        run(
            "append", str(folder / bank), "-", cwd=place, stdin=json.dumps({"type": "note_logged", "note": "[1, 2, 3]"})
        )
    erased = ("--event", "3", "--yes")
    assert "the experiment in" not in run("erase", str(folder / "banks/base"), *erased, cwd=place).out
    (folder / "experiment.toml").write_text("")
    for bank in ("banks/with/o0-r0", "cut/with/o0-r0-cut1"):
        assert f"the experiment in {folder}" in " ".join(
            run("erase", str(folder / bank), *erased, cwd=place).out.split()
        )
    said = run("erase", str(folder / "elsewhere/with/o0-r0"), *erased, "--json", cwd=place).json
    assert said["experiment"] is None and "pages" in said["erasure"]["not_reached"]


@pytest.mark.slow
def test_erase_asks_on_a_terminal(place: Path) -> None:
    """On a terminal it lists, asks, and does nothing unless the answer is yes."""
    before = log_bytes(place)
    declined = on_terminal("erase", "notes", "--run", "r1", cwd=place, typed="n\n")
    assert declined.code == 2 and "for good?" in declined.out and "nothing was erased" in declined.out
    assert log_bytes(place) == before
    assert "recorded at position 10" in on_terminal("erase", "notes", "--run", "r1", cwd=place, typed="y\n").out


def test_erase_reports_what_it_searched_and_fails_if_words_are_left(place: Path) -> None:
    """Forms before, in a table and as JSON; afterwards a file that holds the words is named, with exit code 1."""
    words = 'a "quoted" secret'
    event = {"type": "note_logged", "note": f"they printed {words!r} and {json.dumps(words)}"}
    run("append", "notes", "-", cwd=place, stdin=json.dumps(event))
    run("append", "notes", "-", cwd=place, stdin=json.dumps({"type": "note_logged", "note": json.dumps([words])}))
    (place / "secret.txt").write_text(words)
    listed = run("erase", "notes", "--text", "secret.txt", "--dry-run", cwd=place).out
    assert "holds the same words (escaped)" in listed and ": 1 escaped, 1 plain" in listed and "not searched:" in listed
    left = place / "logs" / "notes" / "left.txt"
    left.write_text(words)
    done = run("erase", "notes", "--text", "secret.txt", "--yes", "--json", cwd=place, code=1)
    assert done.json["erasure"]["residue"]["found"] == {"logs/notes/left.txt": {"plain": 1}}
    assert done.json["erasure"]["searched"]["forms"] == {"escaped": 1, "plain": 1}


def test_erase_leaves_no_byte_and_the_heads_hold(place: Path) -> None:
    """After an erasure no file of the bank holds the words, the bank replays, and an earlier head verifies."""
    run("project", "notes", cwd=place)
    head = run("verify", "notes", "--json", cwd=place).json["head"]
    item = Item.make_id(ITEM["title"], ITEM["content"])
    done = run("erase", "notes", "--item", item, "--reason", "asked for", "--yes", "--json", cwd=place).json
    assert done["erasure"]["places"] and done["recorded"] and done["items"][0]["after"]["erased"]
    for path in (place / "logs" / "notes").rglob("*"):
        assert not path.is_file() or ITEM["content"].encode() not in path.read_bytes(), path
    assert run("verify", "notes", "--head", head, "--json", cwd=place).json["texts_erased"] == 1
    assert "[erased]" in run("show", "notes", item, cwd=place).out
    assert "no item 'nothing'" in fails("erase", "notes", "--item", "nothing", "--yes", cwd=place)
