"""Laws of the postings: a search by them finds what the definition of word relevance says, live and as of any point."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank, limits
from rbank_es.bank import READ_MODELS
from rbank_es.events import Event, PolicySet
from rbank_es.events.items import Item
from rbank_es.law import State, active, fold
from rbank_es.policies import (
    Bm25V1,
    Bm25V2,
    Bm25V3,
    Filters,
    Formula,
    ItemIndex,
    QueryWord,
    RankedItem,
    RetrievalPolicy,
    WordRanking,
)
from rbank_es.policies.retrieval_protocol import ItemFacts
from rbank_es.policies.word_relevance import rank_documents
from rbank_es.projections import projection, search_tables
from rbank_es.projections.in_memory_items import ActiveItems
from rbank_es.projections.memory_index import MEMORY_INDEX
from rbank_es.projections.read_models import ReadModels, rebuild
from rbank_es.projections.tokenizer import Tokenizer
from rbank_es.projections.view import View
from tests.effort import examples
from tests.fakes import FakeLog
from tests.pools import DOMAINS, WORDS
from tests.projections.test_search import born
from tests.strategies import histories, stamped

memories = histories(
    min_size=8,
    max_size=30,
    chapters=(*("learned",) * 4, "consolidated", "ended", "ended", "judged", "judged", "again", "corrected"),
    erased=True,
).map(stamped)
law = settings(max_examples=examples(40), deadline=None)


@st.composite
def ranked(draw: st.DrawFn, lives: st.SearchStrategy[list[Event]]) -> list[Event]:
    """Histories in which a policy that reads words, or stems, is put in force at some point, or none is."""
    log = draw(lives)
    at = draw(st.sampled_from((None, 0, 0, len(log) // 2, len(log))))
    choices = (draw(st.sampled_from((Bm25V2, Bm25V3)))().choice,)
    return log if at is None else stamped([*log[:at], PolicySet(policies=choices), *log[at:]])


weights = st.sampled_from((0.0, 0.4, 1.0, 3.0))
formulas = st.builds(
    Formula,
    idf=st.sampled_from(("sqlite", "lucene")),
    k1=st.sampled_from((0.0, 0.8, 1.2)),
    b=st.sampled_from((0.0, 0.5, 1.0)),
    columns=st.tuples(weights, weights, weights, weights),
    parts=st.sampled_from((0.0, 1.0)),
)
query_words = st.lists(
    st.builds(
        QueryWord, st.sampled_from((*WORDS, "café", "sparql", "counts", "counted", "σίσυφος", "日本", "ǅ_x")), weights
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda word: word.word,
)
filters = st.builds(
    Filters,
    polarity=st.sampled_from((None, None, "success", "failure")),
    role=st.sampled_from((None, None, None, "planner")),
    judges_source=st.sampled_from((None, None, None, "principle")),
    ontology=st.sampled_from((None, *DOMAINS)),
    nearness=st.sampled_from((None, None, "own", "none", "other")),
)
questions = st.lists(st.tuples(query_words, formulas, st.integers(1, 6), filters), min_size=1, max_size=4)


class Asked(RetrievalPolicy, frozen=True, kw_only=True):
    """A policy that asks the index one question, and keeps the answer."""

    name = "asked"
    question: tuple[Sequence[QueryWord], Formula, int, Filters]
    answers: list[WordRanking] = []

    def words(self, query: str) -> tuple[str, ...]:
        """Return something to search for."""
        return ("any",)

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Ask."""
        self.answers.append(index.by_words(*self.question))
        return []


def asked(view: View, question: tuple[Sequence[QueryWord], Formula, int, Filters]) -> WordRanking:
    policy = Asked(question=question, answers=[])
    view.search("any", 1, policy=policy)
    return policy.answers[0]


def defined(state: State, question: tuple[Sequence[QueryWord], Formula, int, Filters]) -> WordRanking:
    """What the definition says of the items that a fold holds active."""
    words, formula, k, wanted = question
    items = active(state)
    facts = {id: ItemFacts(i.src, i.polarity, i.role, state.items[id].domains) for id, i in items.items()}
    with closing(Tokenizer()) as tokenizer:
        rows = [(item.title, item.desc, item.content, "\n".join(item.tags)) for item in items.values()]
        documents = dict(zip(items, tokenizer.documents(rows), strict=True))
        tokens = tokenizer.read([word for word, _ in words])
    passing = {id for id in items if wanted.admits(facts[id]) and id not in wanted.without}
    return rank_documents(words, tokens, formula, k, documents, passing)


@contextmanager
def small_blocks(batch: int = 3) -> Iterator[None]:
    """Blocks of few texts and changes, so that a short history completes several of each kind."""
    with (
        patch.multiple(search_tables, BLOCK_TEXTS=8, SMALL_BLOCK_TEXTS=4, LENGTHS_TEXTS=3, BATCH_TEXTS=2),
        patch.multiple(search_tables, SET_BYTES=1, SET_TEXTS=3),
        patch("rbank_es.projections.posting_search.COUNTED_BYTES", 1),
        patch.multiple(search_tables, CHUNK_CHANGES=3, SNAPSHOT_ROWS=2),
        patch.object(projection, "BATCH_EVENTS", batch),
    ):
        yield


@contextmanager
def by_numpy(always: bool) -> Iterator[None]:
    """Search by numpy, or by plain Python alone."""
    numbers = {"NUMPY_POSTINGS": 0, "PYTHON_POSTINGS": 0} if always else {"NUMPY_POSTINGS": 2**62}
    with patch.multiple(limits, **numbers), patch("rbank_es.projections.posting_search.FEW", 1):
        yield


def rows_for_searches(path: Path) -> dict[str, list[tuple[object, ...]]]:
    tables = [name for name, ddl in MEMORY_INDEX.virtual.items() if "VIRTUAL" not in ddl]
    with closing(sqlite3.connect(path)) as connection:
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in tables}


@pytest.mark.parametrize(
    "numpy", [pytest.param(False, id="python", marks=pytest.mark.slow), pytest.param(True, id="numpy")]
)
@law
@given(ranked(memories), st.lists(st.integers(0, 80), max_size=3), questions)
def test_hits_are_those_of_the_definition_live_and_as_of_bit_for_bit(
    numpy: bool, log: list[Event], chosen: list[int], asking: list[tuple[Sequence[QueryWord], Formula, int, Filters]]
) -> None:
    """Ids, order, scores, words that match and their idf: after every batch, and from a file that knows the future."""
    if numpy:
        pytest.importorskip("numpy")
    cuts = sorted({min(cut, len(log)) for cut in chosen} | {len(log)})
    with tempfile.TemporaryDirectory() as folder, small_blocks(), by_numpy(numpy):
        models = ReadModels.open(Path(folder, "p.sqlite"))
        for cut in cuts:
            models.catch_up(FakeLog(log), upto=cut)
            with models.live() as view:
                assert [asked(view, one) for one in asking] == [defined(fold(log[:cut]), one) for one in asking]
        for cut in cuts:
            state = fold(log[:cut])
            left_out = [(*one[:3], Filters(without=frozenset(list(state.items)[:2]))) for one in asking]
            with models.as_of(cut) as view:
                assert [asked(view, one) for one in [*asking, *left_out]] == [
                    defined(state, one) for one in [*asking, *left_out]
                ]


@law
@given(memories, st.lists(st.integers(0, 80), max_size=4), questions)
def test_items_held_in_memory_are_found_as_the_definition_says_whatever_came_and_went(
    log: list[Event], chosen: list[int], asking: list[tuple[Sequence[QueryWord], Formula, int, Filters]]
) -> None:
    """Bit for bit too, so a refold with other policies ranks as a bank with these items would."""
    with closing(ActiveItems(lambda _: (0, 0))) as index:
        for cut in [*chosen, len(log)]:
            state = fold(log[:cut])
            index.update((id, state.items.get(id)) for id in fold(log).items)
            for words, formula, k, wanted in asking:
                without = Filters(without=frozenset(list(state.items)[:2]))
                for some in (wanted, without):
                    assert index.by_words(words, formula, k, some) == defined(state, (words, formula, k, some))


@law
@given(ranked(memories), st.lists(st.integers(0, 80), max_size=4), st.integers(1, 7))
def test_postings_and_changes_are_those_of_a_rebuild(log: list[Event], chosen: list[int], batch: int) -> None:
    """Row for row, wherever batches end."""
    with tempfile.TemporaryDirectory() as folder, small_blocks(batch):
        path, other = Path(folder, "p.sqlite"), Path(folder, "other.sqlite")
        for cut in [*sorted(min(cut, len(log)) for cut in chosen), len(log)]:
            ReadModels.open(path).catch_up(FakeLog(log), upto=cut)
        rebuild(other, FakeLog(log))
        assert rows_for_searches(path) == rows_for_searches(other)


@given(
    st.lists(st.tuples(st.sampled_from(("", "units", "coast")), st.sampled_from(("", "x"))), max_size=3),
    filters,
    st.sampled_from(("success", "failure", "principle", "episode")),
    st.sampled_from((None, "planner")),
)
def test_filters_admit_in_python_what_they_admit_in_sql(
    domains: list[tuple[str, str]], wanted: Filters, src: str, role: str | None
) -> None:
    names = tuple(dict.fromkeys("".join(pair) for pair in domains))
    polarity = src if src in ("success", "failure") else "success"
    condition, values = wanted.sql()
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE c (item, src, polarity, role, domains)")
        listed = Item.make("t", "c", "success").id, src, polarity, role, "[" + ",".join(f'"{n}"' for n in names) + "]"
        connection.execute("INSERT INTO c VALUES (?, ?, ?, ?, ?)", listed)
        found = connection.execute(f"SELECT count(*) FROM c WHERE {condition}", values).fetchone() == (1,)
    assert wanted.admits(ItemFacts(src, polarity, role, names)) == found


def test_a_view_that_stays_open_finds_the_same_while_blocks_are_completed(tmp_path: Path) -> None:
    """The file is rewritten under it: what was a text of its own is in a block later."""
    items = [[Item.make(f"lamp {n} of {m}", "light " * (n % 3 + 1)) for n in range(3)] for m in range(9)]
    log = stamped([event for m, some in enumerate(items) for event in born(some, f"e{m}")])
    with small_blocks():
        models = ReadModels.open(tmp_path / "p.sqlite")
        models.catch_up(FakeLog(log), upto=4)
        with models.live() as view:
            first = [view.search(query, 6, policy=Bm25V1()) for query in ("lamp 1", "light 2")]
            for cut in range(6, len(log) + 1, 2):
                models.catch_up(FakeLog(log), upto=cut)
                assert [view.search(query, 6, policy=Bm25V1()) for query in ("lamp 1", "light 2")] == first


TABLES = ("word_terms", "word_recent_texts", "stem_terms", "stem_recent_texts", "spellings")


def test_an_erased_text_leaves_no_term_stem_or_spelling_of_its_own_in_the_postings(tmp_path: Path) -> None:
    """Neither as a text of its own nor in a block, and no byte of it in the file."""
    kept = [Item.make(f"lamp {n}", "light of a tower", id=f"kept{n}") for n in range(5)]
    gone = Item.make("Zanzibar", "zanzibars secretIslandName", id="gone")
    with small_blocks(), Bank.create(tmp_path / "bank") as bank:
        bank.append(PolicySet(policies=(Bm25V2().choice,)))
        bank.append(born([kept[0], gone, *kept[1:]], "8b229e85-6015-4279-9bb1-97ccfff23b49"))
        bank.project()
        path = bank.log.derived_directory / READ_MODELS
        terms = {term for table in TABLES for term in words_in(path, table)}
        assert {"zanzibar", "secretislandnam", "secret"} <= terms and "zanzibar" in words_in(path, "spellings")
        bank.erase(item="gone", reason="asked for")
        bank.project()
        path = bank.log.derived_directory / READ_MODELS
        left = {term for table in TABLES for term in words_in(path, table)}
        assert {"lamp", "tower"} <= left and not [term for term in left if "zanzi" in term or "secret" in term]
        assert b"zanzi" not in path.read_bytes().lower()
        with bank.as_of() as view:
            assert view.search("zanzibar secret") == view.search("zanzibra", policy=Bm25V3()) == []


def test_a_file_has_the_terms_that_a_policy_in_force_reads_and_a_search_by_another_finds_the_same(
    tmp_path: Path,
) -> None:
    """Whatever was indexed when: after a change of the policy all texts are, and a rebuild makes the same rows."""
    items = [Item.make(f"lamp {n}", f"light of a tower {n % 3}", id=f"i{n}") for n in range(9)]
    with small_blocks(), Bank.create(tmp_path / "bank") as bank:
        bank.append(born(items, "8b229e85-6015-4279-9bb1-97ccfff23b49"))
        found = {}
        for policy, read in ((Bm25V3(), {"stem"}), (Bm25V2(), {"stem", "word"})):
            bank.append(PolicySet(policies=(policy.choice,)))
            bank.project()
            path = bank.log.derived_directory / READ_MODELS
            assert {of for of in ("stem", "word") if words_in(path, f"{of}_terms")} == read
            with bank.as_of() as view:
                for each in (Bm25V1(), Bm25V2(), Bm25V3()):
                    hits = [(hit.id, hit.score) for hit in view.search("light of tower 2", policy=each)]
                    assert hits and found.setdefault(each.label, hits) == hits
        rebuild(tmp_path / "other.sqlite", bank.log)
        assert rows_for_searches(path) == rows_for_searches(tmp_path / "other.sqlite")


def words_in(path: Path, table: str) -> set[str]:
    """The terms in a table of postings, or the words in that of spellings."""
    column = "spelling" if table == "spellings" else "term" if table.endswith("_terms") else "terms"
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"SELECT {column} FROM {table}")
        return {term for (terms,) in rows for term in terms.split("\n")}
