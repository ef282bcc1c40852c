"""Write docs/words.md: every field of an answer and every column of a view, with its unit and meaning.

    python docs/make_words.py

A test compares the output, so no name is without a meaning, and no meaning without a name.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from rbank_es.answers import QUESTIONS
from rbank_es.answers.shared.answer_schema import answer_fields
from rbank_es.answers.shared.glossary_entries import GlossaryEntry, entry_of
from rbank_es.bank import Bank
from rbank_es.exchange.people_database import write_people_database
from rbank_es.projections import view_texts

DOCUMENT = Path(__file__).resolve().parent / "words.md"
INTRODUCTION = """\
# Words

One name for one thing: in Python, in JSON and CSV, in SQL and on the page a field has the same name, unit and meaning.
Made by `docs/make_words.py` from what the code knows; `rbank-es schema --answers QUESTION` prints the same for one
question as JSON Schema, with its version.

*Questions* are those of `rbank-es ask`, as methods `bank.runs()`. *SQL* are the views of the read models and the tables
of `rbank-es project --into`. A name with a point is of that view, question or type alone. Times are ISO 8601 in UTC and
end in `_at`, positions in the log end in `_seq`. `null` is an empty cell in CSV and NULL in SQL; where the meaning says
nothing of null, the field is never null, or null where the view has no such thing.
"""


class Place(NamedTuple):
    """Somewhere a field is met: its name, its unit and meaning (None: it has none), the question or the view."""

    name: str
    entry: GlossaryEntry | None
    question: str | None
    view: str | None


def places() -> Iterator[Place]:
    """Yield every place of every field."""
    for question in QUESTIONS.names():
        for field in answer_fields(question):
            yield Place(field.name, field.entry, question, None)
    with Bank.create("memory:") as bank, bank.live() as view:
        columns = [(name, column) for name in view_texts() for column in view.columns(name)]
        columns += _columns_for_people(bank)
    for name, column in dict.fromkeys(columns):
        yield Place(column, entry_of(column, name), None, name)


def _columns_for_people(bank: Bank) -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "bank.sqlite"
        write_people_database(bank, place)
        with closing(sqlite3.connect(place)) as connection:
            return connection.execute(
                "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c "
                "WHERE m.type IN ('table', 'view') AND m.name NOT LIKE '%fts%' AND m.name NOT LIKE 'sqlite%'"
            ).fetchall()


def document() -> str:
    """Return the whole document."""
    met: dict[GlossaryEntry, list[Place]] = {}
    for place in places():
        if place.entry is not None:
            met.setdefault(place.entry, []).append(place)
    lines = [INTRODUCTION, "| name | unit | meaning | questions | SQL |", "|---|---|---|---|---|"]
    for entry in sorted(met, key=lambda entry: (entry.key.rpartition(".")[2], entry.key)):
        questions = dict.fromkeys(place.question for place in met[entry] if place.question)
        views = dict.fromkeys(place.view for place in met[entry] if place.view)
        cells = (f"`{entry.key}`", entry.unit, entry.meaning, ", ".join(questions), ", ".join(views))
        lines.append("".join(f"| {cell.replace('|', chr(92) + '|')} " if cell else "| " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
