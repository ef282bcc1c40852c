"""Laws of searches by stems: as of any position they find what the definition says, and what a refold finds."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.events import Event, MemoriesExtracted
from rbank_es.events.items import Item, ItemText
from rbank_es.law import ItemState, State, active, fold
from rbank_es.policies import Bm25V3, Filters, Formula, WordRanking
from rbank_es.policies.retrieval_protocol import ItemFacts, RankedItem
from rbank_es.policies.stem_relevance import (
    AskedQuestion,
    Pair,
    QuestionOrder,
    QuestionWeights,
    read_question,
    read_text,
    searched,
    word_order,
)
from rbank_es.policies.word_relevance import Document, rank_documents
from rbank_es.projections.in_memory_items import ActiveItems
from rbank_es.projections.read_models import ReadModels
from rbank_es.text.stems import LANGUAGES, stems_of
from tests.effort import examples
from tests.fakes import FakeLog
from tests.laws.test_word_index_laws import by_numpy, filters, memories, ranked, small_blocks
from tests.pools import ITEMS, WORDS
from tests.projections.test_search import born
from tests.strategies import stamped

law = settings(max_examples=examples(40), deadline=None)

SENTENCES = (
    *("the heights of towers", "Which towerHeight is it?", "towers of the harbour", "height", "tall tower"),
    *("Die Türme der Häfen", "Wie hoch sind die Türme?", "las torres de los puertos", "灯台の高さ", "灯塔的高度"),
    *("высота башен и маяков", "harbour towering heigths", "ｔｏｗｅｒ ﬁnder", "la hauteur des tours"),
)
QUERIES = (
    *("heigts of towesr", "tuwers", "Türmme", "puertso torrse", "hauteru", "высоат башен", "harbuor", "tall towre"),
    *("heigth of towers", "Wie hoch sind Türme?", "Tuerme Hafen", "towerHight", "harbor tower", "灯台の高さは", "高度"),
    *("torre puerto", "“heigth”", "башня", "the of", "towrring", "hafen haefen", "tower finder", "quelle hauteur"),
)
queries = st.lists(st.sampled_from(QUERIES), min_size=1, max_size=4)
policies = st.builds(
    Bm25V3,
    coverage=st.sampled_from(("balanced", "cautious", 0.0)),
    parts=st.sampled_from((0.0, 0.5)),
    typo=st.sampled_from((0.0, 0.9)),
    pool=st.sampled_from((1, 2, 50)),
    domains=st.sampled_from(("none", "prefer")),
)


def spoken(log: Sequence[Event]) -> list[Event]:
    """The history with sentences of several languages in the place of its few words."""

    def told(text: object) -> str:
        words = str(text).split()
        return " ".join(SENTENCES[WORDS.index(word)] if word in WORDS else word for word in words)

    def of(event: Event) -> Event:
        if not isinstance(event, MemoriesExtracted):
            return event
        texts = tuple(
            replace(each, title=told(each.title), content=told(each.content)) if isinstance(each, ItemText) else each
            for each in event.candidates
        )
        return replace(event, candidates=texts)

    return [of(event) for event in log]


items_born = st.lists(st.lists(st.sampled_from(SENTENCES), min_size=2, max_size=4), min_size=2, max_size=6)


@st.composite
def lives(draw: st.DrawFn) -> list[Event]:
    """Histories whose items are born first, so that what happens later ends, restores and rewords them."""
    texts = draw(items_born)
    first = [Item.make(title, " ".join(rest), id=id) for id, (title, *rest) in zip(ITEMS, texts, strict=False)]
    return draw(ranked(st.just(stamped([*born(first, "first"), *spoken(draw(memories))]))))


class Plain:
    """The definition: items in a plain dictionary, each read again for each question."""

    def __init__(self, state: State) -> None:
        items = active(state)
        self.columns = {id: (i.title, i.desc, i.content, "\n".join(i.tags)) for id, i in items.items()}
        self.texts = {id: read_text(columns) for id, columns in self.columns.items()}
        self.facts = {id: ItemFacts(i.src, i.polarity, i.role, state.items[id].domains) for id, i in items.items()}

    @property
    def languages(self) -> Sequence[str]:
        counts = Counter(text.language for text in self.texts.values())
        return sorted(counts, key=lambda name: (-counts[name], LANGUAGES.index(name))) or ["english"]

    def documents(self) -> dict[str, Document]:
        found = {}
        for id, text in self.texts.items():
            counted = [
                Counter(map(stems_of(text.language).__getitem__, words)) for words in (*text.columns, text.parts)
            ]
            found[id] = Document((counted[0], counted[1], counted[2], counted[3]), counted[4])
        return found

    def having(self, stem: str, formula: Formula) -> int:
        return sum(document.has(stem, formula) for document in self.documents().values())

    def near(self, word: str, most: int) -> set[tuple[str, str]]:
        return {pair for text in self.texts.values() for pair in text.spellings()}

    def has_spelling(self, spelling: str, stem: str) -> bool:
        return (spelling, stem) in self.near(spelling, 0)

    # ---------------------------------------------------------------- as an index of items

    def question(self, query: str, reading: QuestionWeights) -> AskedQuestion:
        return read_question(query, reading, self)

    def by_stems(self, question: AskedQuestion, formula: Formula, k: int, wanted: Filters) -> WordRanking:
        words, stems = searched(question)
        passing = {id for id, facts in self.facts.items() if wanted.admits(facts) and id not in wanted.without}
        return rank_documents(words, stems, formula, k, self.documents(), passing)

    def kept(self, question: AskedQuestion) -> dict[object, list[RankedItem]]:
        return {}

    def word_orders(self, question: AskedQuestion, pairs: Mapping[str, Sequence[Pair]]) -> dict[str, QuestionOrder]:
        return {id: word_order(question, some, self.columns[id]) for id, some in pairs.items()}


def chosen(index: Any, asking: Sequence[str], policy: Bm25V3, wanted: Filters) -> list[Any]:
    return [policy.choose(query, 3, wanted, index) for query in asking]


def events_of(view: Any, asking: Sequence[str], policy: Bm25V3, wanted: Filters) -> list[Any]:
    about = {"polarity": wanted.polarity, "role": wanted.role, "domain": wanted.ontology}
    found = [view.retrieve(query, 3, **about, policy=policy).event for query in asking]
    return [(each.hits, each.withheld, each.floor) for each in found]


@pytest.mark.parametrize(
    "numpy", [pytest.param(False, id="python"), pytest.param(True, id="numpy", marks=pytest.mark.slow)]
)
@law
@given(lives(), st.lists(st.integers(0, 80), max_size=3), queries, policies, filters)
def test_a_search_by_stems_finds_what_the_definition_says_live_as_of_and_refolded(
    numpy: bool, log: list[Event], cuts: list[int], asking: list[str], policy: Bm25V3, wanted: Filters
) -> None:
    """Ids, order, scores and what is withheld, bit for bit, with corrections and erased words between the positions."""
    if numpy:
        pytest.importorskip("numpy")
    wanted = replace(wanted, judges_source=None, nearness=None, role=None)
    at = sorted({min(cut, len(log)) for cut in cuts} | {len(log)})
    said = {}
    for cut in at:
        state = fold(log[:cut])
        choices = chosen(Plain(state), asking, policy, wanted)
        said[cut] = [(each.hits, each.withheld, each.floor) for each in choices]
    with tempfile.TemporaryDirectory() as folder, small_blocks(), by_numpy(numpy):
        models = ReadModels.open(Path(folder, "p.sqlite"))
        for cut in at:
            models.catch_up(FakeLog(log), upto=cut)
            with models.live() as view:
                assert events_of(view, asking, policy, wanted) == said[cut]
        for cut in at:
            with models.as_of(cut) as view:
                assert events_of(view, asking, policy, wanted) == said[cut]
    with closing(ActiveItems(lambda _: (0, 0))) as index:
        for cut in [*cuts, len(log)]:
            state = fold(log[:cut])
            index.update((id, state.items.get(id)) for id in fold(log).items)
            choices = chosen(index, asking, policy, wanted)
            assert [(each.hits, each.withheld, each.floor) for each in choices] == said[min(cut, len(log))]


def test_a_spelling_is_meant_only_while_an_item_that_has_it_is_there(tmp_path: Path) -> None:
    """As of each position; its stem alone doesn't keep it, because `lantern` is three edits away."""
    items = [Item.make("The lanterning of ships", "x", id="a"), Item.make("The lantern of ships", "y", id="b")]
    with Bank.create(tmp_path / "bank") as bank:
        bank.append(born(items, "8b229e85-6015-4279-9bb1-97ccfff23b49"))
        head = bank.log.position()
        bank.forget("a")
        query, policy = "lanternign", Bm25V3(coverage=0, share_of_best=0)
        with bank.as_of(head) as view:
            assert [hit.id for hit in view.search(query, policy=policy)] == ["a", "b"]
        with bank.as_of() as view:
            assert view.search(query, policy=policy) == []
            assert [hit.id for hit in view.search("lantren", policy=policy)] == ["b"]


@pytest.mark.parametrize("pairs", [0.25, 4.0])
def test_the_best_hits_are_the_same_however_many_are_asked_for(pairs: float) -> None:
    random, words = Random(3), [f"{a}{b}er" for a in "bdfgklmnprst" for b in ("a", "e", "o")]
    texts = (" ".join(random.choices(words, k=9)) for _ in range(80))
    entries = [(f"i{n:02}", Item.make(text, text[::-1], id=f"i{n:02}")) for n, text in enumerate(texts)]
    with closing(ActiveItems(lambda _: (0, 0))) as index:
        index.update((id, ItemState(item=i, born_seq=1, extraction="e", rank=(1, 0), domains=())) for id, i in entries)
        for _ in range(30):
            query, policy = " ".join(random.choices(words, k=8)), Bm25V3(pairs=pairs)
            everything = policy.rank(query, 80, Filters(), index)
            assert policy.rank(query, 11, Filters(), index) == everything[:11]
