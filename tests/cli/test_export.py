"""`export`: what has no place in a form is said, and how much it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli_runner import run

SAID = "left out 2 items that came from no run; --format items has all\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a bank `notes` of two items that somebody gave it."""
    folder = tmp_path_factory.mktemp("given")
    titles = ("Wind the clock", "Trim the wick every evening")
    items = [{"title": title, "content": f"So: {title}.", "src": "seed"} for title in titles]
    (folder / "items.json").write_text(json.dumps(items))
    run("import", "notes", "items.json", "--create", cwd=folder)
    return folder


def test_items_that_a_form_leaves_out_are_said_on_standard_error(place: Path) -> None:
    """Also where the export goes to a file; what is exported stays as it was."""
    shown = run("export", "notes", "--format", "reasoningbank", cwd=place)
    assert (shown.out, shown.err) == ("", SAID)
    report = run("export", "notes", "--format", "reasoningbank", "-o", "out.jsonl", "--json", cwd=place)
    assert (report.json["items_left_out"], report.err) == (2, SAID)


def test_where_none_is_left_out_nothing_is_said(place: Path) -> None:
    """At a point before the items came, and in a form that has all of them."""
    assert run("export", "notes@2", "--format", "reasoningbank", cwd=place).err == ""
    report = run("export", "notes", "--format", "items", "-o", "out.json", "--json", cwd=place)
    assert (report.json["items_left_out"], report.err) == (0, "")
