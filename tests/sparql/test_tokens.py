"""Tokens of SPARQL: where one ends and the next begins, and that the text comes back whole."""

from __future__ import annotations

import pytest

from rbank_es.errors import QueryRefused
from rbank_es.sparql.parser.tokens import tokenise


def test_keywords_are_ascii_words_in_any_case() -> None:
    assert [token.keyword for token in tokenise("select SeLeCt ?select ex:select <select> 'select'")] == [
        *("SELECT", "SELECT", "", "", "", "", "")
    ]
    with pytest.raises(QueryRefused, match="U\\+017F"):  # its capital is an S
        tokenise("\u017fELECT * {}")
