"""What an agent is shown at most of one thing of an ontology, in figures: twice or half of one is another tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbank_es.events.items import Item
from rbank_es.sparql.data_source import Source
from rbank_es.tools.shared.tool_answers import AnswerBudget
from tests.tools.library import TURTLE, LibraryTools, open_library
from tests.tools.memories import remember
from tests.tools.test_sparql_tools import endpoint_over
from tests.tools.tool_sessions import bank_at

WORDS = "word " * 120
FAR = f"http://far.example/{'y' * 600}"
NINE = range(9)
MANY = range(45)

WORDY = f"""
lib:Tome a owl:Class ; rdfs:label "{WORDS}" ; rdfs:comment "{WORDS}" .
t:tome a lib:Tome ; rdfs:label "a tome" ; {" ; ".join(f"lib:p{n:02} '{'v' * 200}{n}'" for n in MANY)} .
lib:Slip a owl:Class . t:slip a lib:Slip ; {" ; ".join(f"lib:s{n:02} {n}" for n in MANY)} .
lib:Deep a owl:Class ; rdfs:comment "Deep down." ; skos:scopeNote "{"note " * 99}" .
lib:Deep {" ; ".join(f"rdfs:subClassOf lib:C{n:02}" for n in NINE)} .
lib:bound a owl:ObjectProperty ; {" ; ".join(f"rdfs:domain lib:C{n:02} ; rdfs:range lib:C{n:02}" for n in NINE)} .
lib:shelf a owl:ObjectProperty . t:shelf lib:shelf {" , ".join(f"t:on{n}" for n in NINE)} .
{" ".join(f"lib:C{n:02} a owl:Class . t:c{n} a lib:C{n:02} ." for n in MANY)}
{" ".join(f"t:lamp{n} a lib:Lamp ; rdfs:label 'lamp' ." for n in range(150))}
t:eight a lib:Lamp ; rdfs:label "one two three four five six seven eight" .
t:six a lib:Lamp ; rdfs:label "one two three four five six" .
t:near a lib:Lamp ; rdfs:label "zebra {"x" * 150}" . t:far a lib:Lamp ; rdfs:label "zebra {"x" * 250}" .
{" ".join(f"t:v{n} lib:p00 '{n}{'w' * 200}' ." for n in NINE)}
{" ".join(f"k{n:02}:thing rdfs:label 'thing' ." for n in MANY)}
<{FAR}> rdfs:label "far" .
"""
PREFIXES = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n" + "".join(
    f"@prefix k{n:02}: <http://library.example/{n:02}#> .\n" for n in MANY
)


class Wordy(NamedTuple):
    """The tools of a run over an ontology of long texts, its source, and the same tools over an endpoint."""

    tools: LibraryTools
    source: Source
    asked: LibraryTools

    def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of a call."""
        answer = self.tools.box.call(name, arguments)
        assert answer["ok"], answer
        return answer

    def row(self, mode: str, uri: str) -> dict[str, Any]:
        """Return what a list of the schema says of one thing."""
        rows = (self("sparql_schema", output_mode=mode, offset=at, limit=1)[NAMES[mode]] for at in count())
        return next(row for (row,) in rows if row["uri"] == uri)


NAMES = {"classes": "classes", "properties": "properties", "detail": "classes"}


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wordy]:
    place: Path = tmp_path_factory.mktemp("wordy")
    source = open_library(place, PREFIXES + TURTLE + WORDY)
    with bank_at(place / "bank") as bank:
        remember(bank, Item.make("Deep " * 23, "Deeper.", desc="Deep and deeper. " * 14))
        yield Wordy(LibraryTools(bank, source), source, LibraryTools(bank, endpoint_over(source)))
    source.close()


def _longest(rows: list[dict[str, Any]], name: str) -> int:
    return max(len(str(row[name])) for row in rows)


def _said(wordy: Wordy) -> int:
    body: dict[str, Any] = {}
    AnswerBudget(wordy.tools.session).say(body, "hint", "x" * 900)
    return len(body["hint"])


def _prefixes(wordy: Wordy) -> int:
    return wordy.tools.fails("sparql_peek", resource="nope:x")["hint"].count(":,") + 1


def _looked_like(wordy: Wordy) -> int:
    query = "SELECT ?x WHERE { ?x lib:p00 'no such value' }"
    hint: str = wordy("sparql_query", query=query, store_pattern=False)["hint"]
    return len(hint.partition("look like ")[2].partition(";")[0])


def _finding(wordy: Wordy) -> int:
    query = f"SELECT * WHERE {{ ?{'a' * 70} lib:p00 ?{'b' * 70} . ?{'c' * 70} lib:p01 ?{'d' * 70} }}"
    body = wordy("sparql_query", query=query, limit=1, store_pattern=False)
    return _longest(body["warnings"], "message")


def _sampled(wordy: Wordy) -> int:
    body = wordy.asked("sparql_peek", resource="lib:Lamp", output_mode="schema")
    return max(row["of_100"] for row in body["properties"])


TOME, SLIP = {"resource": "lib:Tome"}, {"resource": "lib:Slip"}
SHOWN: dict[str, tuple[Callable[[Wordy], int], int]] = {
    "a label, characters": (lambda wordy: len(wordy("g_describe", **TOME)["label"]), 80),
    "a label in a list, characters": (lambda wordy: len(wordy.row("classes", "lib:Tome")["label"]), 80),
    "a label of a hit, characters": (lambda wordy: _longest(wordy("g_search", text="word")["hits"], "label"), 80),
    "a comment, characters": (lambda wordy: len(wordy("g_describe", **TOME)["comment"]), 200),
    "a comment in a list, characters": (lambda wordy: len(wordy.row("detail", "lib:Tome")["comment"]), 200),
    "a note, characters": (lambda wordy: len(wordy("g_describe", resource="lib:Deep")["notes"][0]), 240),
    "a value, characters": (
        lambda wordy: _longest(wordy("sparql_peek", resource="t:tome")["properties"], "value"), 80,
    ),
    "values in a hint, characters": (_looked_like, 3 * 40 + 2 * len(", ")),
    "a name, characters": (lambda wordy: len(wordy("sparql_peek", resource=f"<{FAR}>")["uri"]), 300),
    "a hint, characters": (_said, 400),
    "a warning, characters": (_finding, 160),
    "a related title, characters": (
        lambda wordy: _longest(wordy("sparql_peek", resource="lib:Deep")["related_procedures"], "title"), 80,
    ),
    "a related description, characters": (
        lambda wordy: _longest(wordy("sparql_peek", resource="lib:Deep")["related_procedures"], "desc"), 120,
    ),
    "classes of the overview": (lambda wordy: len(wordy("sparql_schema")["top_classes"]), 10),
    "properties in a list": (lambda wordy: len(wordy.row("classes", "lib:Slip")["common_properties"]), 5),
    "properties in detail": (lambda wordy: len(wordy.row("detail", "lib:Slip")["properties"]), 8),
    "properties of an instance": (lambda wordy: len(wordy("sparql_peek", **SLIP)["instances"][0]["properties"]), 8),
    "domains": (lambda wordy: len(wordy("g_describe", resource="lib:bound")["domains"]), 3),
    "domains in a list": (lambda wordy: len(wordy.row("properties", "lib:bound")["domains"]), 3),
    "parents": (lambda wordy: len(wordy("g_describe", resource="lib:Deep")["parents"]), 3),
    "examples of a property": (lambda wordy: len(wordy("g_describe", resource="lib:shelf")["examples"]), 3),
    "known prefixes": (_prefixes, 20),
    "instances that are sampled": (_sampled, 100),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_of_one_thing_so_much_is_shown(wordy: Wordy, name: str) -> None:
    measured, shown = SHOWN[name]
    assert measured(wordy) == shown


def test_a_search_looks_for_eight_words_in_short_texts(wordy: Wordy) -> None:
    for text, found in (("one two three four five six seven eight nine", "t:eight"), ("zebra", "t:near")):
        hits = wordy("g_search", text=text)["hits"]
        assert [hit["uri"] for hit in hits if hit["kind"] == "individual"] == [found]


def test_a_search_reads_ten_rows_for_a_hit(wordy: Wordy, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []
    query = Source.query

    def noted(self: Source, text: str, *, rows: int | None = None, **options: Any) -> Any:
        asked.append(rows)
        return query(self, text, rows=rows, **options)

    monkeypatch.setattr(Source, "query", noted)
    wordy("g_search", text="lamp", k=7)
    assert asked == [70]
