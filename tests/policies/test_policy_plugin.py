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
TWO_VERSIONS = PLUGIN.replace(
    "def add():",
    '''class LongestTitle(ShortestTitle, frozen=True, kw_only=True):
    """The item with the longest title."""

    version = 4

    def rank(self, query, k, filters, index):
        return super().rank(query, 9, filters, index)[::-1][:k]


def add():
    POLICIES.add("retrieval:shortest-4", LongestTitle)''',
)
CHANGED = """
made = [command("init", "./bank"), command("import", "./bank", "items.json")]
# A version in force that the plugin has, too, would be taken.
command("policy", "./bank", "--set", "retrieval=bm25-2")
refused = [command("policy", "./bank", "--set", f"retrieval={name}")[1] for name in ("shortest", "shortest-5")]
found = []
for version in (3, 4):
    open("policies.toml", "w").write(f'[retrieval]\\nname = "shortest"\\nversion = {version}\\nk = 2\\n')
    made.append(command("policy", "./bank", "--set", "policies.toml"))
    with Bank.open("./bank") as bank:
        from rbank_es.events import Hit, MemoriesRetrieved
        hits = bank.search("the lamps")
        found.append([hit.title for hit in hits])
        again = tuple(Hit(id=hit.id, rank=hit.rank, score=hit.score) for hit in hits)
        bank.append(MemoriesRetrieved(k=2, policy=f"shortest-{version}", query="the lamps", hits=again))
verified = json.loads(command("verify", "./bank", "--retrievals", "--json")[1])
with Bank.open("./bank") as bank:
    found.append([hit.title for hit in bank.at("HEAD~2").search("the lamps")])
result = {"codes": [code for code, _ in made], "refused": refused, "found": found, "verified": verified}
"""


@pytest.mark.slow
def test_policies_of_another_package_stand_side_by_side_and_are_an_error_without_it(tmp_path: Path) -> None:
    """Each ranks and verifies its own retrievals; the name alone means neither, and the error names them."""
    install(tmp_path, "shortest_title", TWO_VERSIONS)
    (tmp_path / "items.json").write_text(ITEMS)
    result = run_with(tmp_path, CHANGED, tmp_path)
    assert result["codes"] == [0] * 4
    assert "has several versions; name one of them: shortest-3 or shortest-4" in result["refused"][0]
    assert "shortest has no version 5 in this release; there are: 3, 4" in result["refused"][1]
    shortest_first = ["Lamps", "Count the lamps of every lighthouse"]
    assert result["found"] == [shortest_first, shortest_first[::-1], shortest_first]
    assert result["verified"]["retrievals"]["checked"] == 2
    with Bank.open(tmp_path / "bank") as bank:
        with pytest.raises(BadPolicy, match="no retrieval policy 'shortest'"):
            bank.search("lamps")
        with pytest.raises(BadPolicy, match=r"was ranked by shortest-3, which this release doesn't know"):
            bank.check(retrievals=True)
