"""Mistakes that beginners and models make in SPARQL: each is named in a sentence, not by a list of the grammar."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import pytest

from rbank_es.errors import QueryRefused
from rbank_es.sparql.guard import Surroundings, check

LOCAL = Surroundings(prefixes={"ex": "http://ex/"})

MISTAKES: dict[str, list[str]] = json.loads((Path(__file__).parent / "mistakes.json").read_text())
"""What a message must say, and queries with that mistake; V and W stand for any variables, P and C for any names."""

CASES = [(said, query) for said, queries in MISTAKES.items() for query in queries]
WRITINGS = (
    ("?x", "?y", "ex:p", "ex:C"),
    ("$light", "?b2", "<http://ex/p>", "<http://ex/C>"),
    ("?a", "?z9", "ex:p", "ex:C"),
)


def written(query: str, names: tuple[str, str, str, str], *, lines: bool) -> str:
    parts = re.split(r"(?<![\w?$:/<'])([VWPC])(?![\w:/>'])", query)
    text = "".join(dict(zip("VWPC", names, strict=True)).get(part, part) for part in parts)
    return text.replace(" ", "\n  ") + "\n# the end" if lines else text


@pytest.mark.parametrize(("said", "query"), CASES)
def test_a_mistake_is_named_in_a_sentence_with_what_to_write(said: str, query: str) -> None:
    for names, lines in product(WRITINGS, (False, True)):
        text = written(query, names, lines=lines)
        with pytest.raises(QueryRefused) as refused:
            check(text, LOCAL, 10)
        error = refused.value
        assert said in error.message, (text, str(error))
        assert "expected" not in error.message and error.hint and error.line is not None
