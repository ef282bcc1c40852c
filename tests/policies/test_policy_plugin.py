"""A retrieval policy of another package, in Python and on the command line."""

from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.errors import BadPolicy
from tests.plugins import install, run_with

PLUGIN = '''
"""Ranks items by the length of their titles."""
from rbank_es.policies import POLICIES, RankedItem, RetrievalPolicy, query_words


class ShortestTitle(RetrievalPolicy, frozen=True, kw_only=True):
    """The item with the shortest title that has a word of the query."""

    name = "shortest"
    version = 3

    def words(self, query):
        return query_words(query, "none")

    def rank(self, query, k, filters, index):
        condition, values = filters.sql()
        rows = index.rows(
            f"SELECT c.item, length(c.title) FROM items_fts CROSS JOIN active_items c ON c.text = items_fts.rowid "
            f"WHERE items_fts MATCH ? AND {condition} ORDER BY 2, 1 LIMIT ?",
            (" OR ".join(f'"{word}"' for word in self.words(query)), *values, k),
        )
        return [RankedItem(*row) for row in rows]


def add():
    POLICIES.add("retrieval:shortest-3", ShortestTitle)
'''
ITEMS = """[{"title": "Count the lamps of every lighthouse", "content": "Count lamps."},
{"title": "Lamps", "content": "A lamp is a light."}, {"title": "Buoys", "content": "No light."}]"""
PROGRAM = """
open("policies.toml", "w").write('[retrieval]\\nname = "shortest"\\nk = 2\\n')
made = [command("init", "./bank", "--policy", "policies.toml"), command("import", "./bank", "items.json")]
found = json.loads(command("search", "./bank", "the lamps", "--json")[1])["hits"]
with Bank.open("./bank") as bank:
    from rbank_es.events import Hit, MemoriesRetrieved
    hits = bank.search("the lamps")
    again = tuple(Hit(id=hit.id, rank=hit.rank, score=hit.score) for hit in hits)
    bank.append(MemoriesRetrieved(k=2, policy="shortest-3", query="the lamps", hits=again))
verified = json.loads(command("verify", "./bank", "--retrievals", "--json")[1])
result = {"codes": [code for code, _ in made], "command": [hit["title"] for hit in found],
          "python": [hit.title for hit in hits], "verified": verified}
"""


def test_a_policy_of_another_package_ranks_and_is_verified_and_is_an_error_without_it(tmp_path: Path) -> None:
    install(tmp_path, "shortest_title", PLUGIN)
    (tmp_path / "items.json").write_text(ITEMS)
    result = run_with(tmp_path, PROGRAM, tmp_path)
    assert result["codes"] == [0, 0]
    assert result["command"] == result["python"] == ["Lamps", "Count the lamps of every lighthouse"]
    assert result["verified"]["retrievals"]["checked"] == 1
    with Bank.open(tmp_path / "bank") as bank:
        with pytest.raises(BadPolicy, match="no retrieval policy 'shortest'"):
            bank.search("lamps")
        with pytest.raises(BadPolicy, match="position 5 was ranked by shortest-3, which this release doesn't know"):
            bank.verify(retrievals=True)
