"""A projection of another package, in Python and on the command line."""

import sqlite3
from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.events import NoteLogged
from rbank_es.projections import view_texts
from tests.plugins import install, run_with

PLUGIN = '''
"""Notes by author."""
from rbank_es.events import NoteLogged
from rbank_es.projections import PROJECTIONS, Projection
from rbank_es.projections.projection import Insert, Table

AUTHORS = Table(name="note_authors", columns="author TEXT NOT NULL", key=("from_seq",))


def noted(event):
    return (Insert("note_authors", (event.by or "nobody", event.seq)),)


NOTES = Projection(
    name="notes",
    version=1,
    title="Notes by author",
    handlers={NoteLogged: noted},
    tables=(AUTHORS,),
    views={"notes_by_author": "SELECT author, count(*) AS notes FROM note_authors GROUP BY author"},
)


def add():
    PROJECTIONS.add("notes", "note_projection:NOTES")
'''
PROGRAM = """
from rbank_es.events import NoteLogged
with Bank.open("./bank") as bank:
    bank.project()
    bank.append(NoteLogged(by="ada"))
    with bank.as_of() as view:
        rows = [view.rows("notes_by_author")]
    bank.append(NoteLogged(by="ada"))
    bank.project()
    with bank.as_of() as now, bank.as_of("HEAD~1") as then:
        rows += [now.rows("notes_by_author"), then.rows("notes_by_author")]
listed = json.loads(command("project", "./bank", "--list", "--json")[1])["projections"]
rebuilt = json.loads(command("project", "./bank", "--rebuild", "--only", "notes", "--json")[1])
with Bank.open("./bank") as bank, bank.as_of() as view:
    rows.append(view.rows("notes_by_author"))
result = {"rows": rows, "listed": [each["name"] for each in listed], "rebuilt": rebuilt["rebuilt"]}
"""


@pytest.mark.slow
def test_a_projection_of_another_package_is_built_rebuilt_and_read_at_any_position(tmp_path: Path) -> None:
    """One of a package that was uninstalled is in nobody's way: its views go, and the others move on."""
    install(tmp_path, "note_projection", PLUGIN)
    with Bank.create(tmp_path / "bank") as bank:
        bank.append(NoteLogged(by="bob"))
        bank.project()
    one, two = {"author": "ada", "notes": 1}, {"author": "ada", "notes": 2}
    bob = {"author": "bob", "notes": 1}
    result = run_with(tmp_path, PROGRAM, tmp_path)
    assert result["rows"] == [[one, bob], [two, bob], [one, bob], [two, bob]]
    assert result["listed"][-1] == "notes" and result["rebuilt"] == {"notes": "asked for"}
    with Bank.open(tmp_path / "bank") as bank:
        bank.append(NoteLogged(by="eve"))
        bank.project()
        (file,) = bank.log.derived_directory.rglob("*.sqlite")
        with sqlite3.connect(file) as connection, bank.as_of() as view:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
            assert names == set(view_texts()) and view.position == bank.position
