"""Nothing is an answer: what a query is given, what is withheld and why, and how far a domain is preferred."""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import Bank, Item, limits
from rbank_es.data import lights
from rbank_es.errors import CheckFailed
from rbank_es.events import Floor, Hit, MemoriesExtracted, MemoriesRetrieved, WithheldHit
from rbank_es.exchange import import_paths
from rbank_es.extraction.candidates import consolidate
from rbank_es.policies import Bm25V1, Bm25V2, Filters, RankedItem, WordShare
from rbank_es.policies.retrieval_protocol import RetrievalPolicy
from rbank_es.policies.retrieval_quality import read_cases
from tests.effort import examples, one_in


@pytest.fixture(scope="module")
def lessons() -> Iterator[Bank]:
    """The shipped lessons under bm25-2."""
    with Bank.create("memory:", policies=[Bm25V2().choice]) as bank:
        import_paths(bank, [Path(str(lights().lessons))])
        yield bank


def test_no_unrelated_case_of_the_shipped_set_is_given_anything(lessons: Bank) -> None:
    cases = [case for case in read_cases(lights().cases.read_bytes()) if not case.relevant]
    assert len(cases) > 30
    with lessons.live() as view:
        assert not [case.query for case in cases if view.search(case.query, 6, domain="lights")]


@pytest.mark.parametrize(
    "query",
    ["", "?", "the of and", "a", "x", "灯台はいくつありますか", "маяк", "🦉🦉", "SELECT * WHERE { ?s ?p ?o }",
     "<http://example.org/a#b>", "lights " * 10_000, " ".join(f"w{n}" for n in range(10_000)), "\0\0", "'; DROP --"],
)  # fmt: skip
def test_any_text_is_a_query_and_what_it_is_given_can_be_verified(lessons: Bank, query: str) -> None:
    with lessons.live() as view:
        result = view.retrieve(query, 6, domain="lights")
        assert view.repeat(result.event).event == result.event
    for item in (*result.items, *result.withheld):
        assert item.coverage is not None and 0 <= item.coverage <= 1
        assert sum(share.share for share in item.matched) == pytest.approx(item.coverage)


# ---------------------------------------------------------------- the choice, by a ranking that is given


class Given(RetrievalPolicy, frozen=True, kw_only=True):
    """A policy whose ranking is given: by nearness, ids with scores and shares."""

    name = "given"
    ranking: dict[str, tuple[RankedItem, ...]] = {}
    least: Floor | None = None

    def words(self, query: str) -> tuple[str, ...]:
        return (query,)

    def rank(self, query: str, k: int, filters: Filters, index: object) -> list[RankedItem]:
        ranked = [
            each
            for near in ([filters.nearness] if filters.nearness else self.ranking)
            for each in self.ranking.get(str(near), ())
        ]
        return sorted(ranked, key=lambda each: (-each.score, each.id))[:k]

    def floor_for(self, query: str, filters: Filters, index: object) -> Floor | None:
        return self.least


def item(id: str, score: float, *shares: float) -> RankedItem:
    return RankedItem(id, score, tuple(WordShare(f"w{n}", share) for n, share in enumerate(shares)))


def chosen(policy: Given, k: int = 2, ontology: str | None = None) -> tuple[list[str], list[tuple[str, str]]]:
    choice = policy.choose("q", k, Filters(ontology=ontology), None)  # type: ignore[arg-type]
    assert [hit.rank for hit in choice.hits] == [*range(1, len(choice.hits) + 1)]
    return [hit.id for hit in choice.hits], [(each.id, each.why) for each in choice.withheld]


def test_each_figure_of_the_floor_withholds_its_bound_passes_and_what_is_not_told_passes() -> None:
    ranked = (
        item("a", 9, 0.3, 0.19),
        item("b", 8, 0.3, 0.2),
        RankedItem("c", 7.0),
        item("d", 6, 0.7),
        item("e", 5, 0.7),
    )
    least = Floor(score=1.0, best=12.0, share_of_best=0.5, coverage=0.5)
    assert chosen(Given(ranking={"x": ranked}, least=least), 9) == (
        ["b", "c", "d"],
        [("a", "coverage"), ("e", "share_of_best")],
    )
    assert chosen(Given(ranking={"x": ranked}, least=replace(least, score=5.1)), 9)[1][-1] == ("e", "score")
    assert chosen(Given(ranking={"x": ranked}), 9) == (["a", "b", "c", "d", "e"], [])


@pytest.mark.parametrize(
    ("settings_", "order"),
    [
        ({}, ["own", "none", "other"]),
        ({"strength": 0.0}, ["other", "none", "own"]),
        ({"strength": 0.5}, ["none", "other", "own"]),
        ({"domains": "filter"}, ["own"]),
        ({"domains": "none"}, ["other", "none", "own"]),
    ],
)
def test_a_domain_is_preferred_as_far_as_the_policy_says(settings_: dict[str, object], order: list[str]) -> None:
    """At one half, an item of no domain keeps 1/2 of its score, and one of other domains 1/4."""
    ranking = {
        "own": (RankedItem("own", 1.0),),
        "none": (RankedItem("none", 4.0),),
        "other": (RankedItem("other", 5.0),),
    }
    policy = Given(ranking=ranking, **settings_)  # type: ignore[arg-type]
    assert chosen(policy, 3, "lights")[0] == order
    assert chosen(policy, 3)[0] == ["other", "none", "own"], "without a domain nothing is preferred"


OWLS = (
    Item.make("Don't count owls twice", "An owl with two rings has two rows.", "failure", id="rings"),
    Item.make("Find owls by their class", "Ask ?owl a ex:Owl, and ex:StrixOwl for the barn.", id="owls"),
    Item.make("Nests", "The place where each of them is stands with the nest.", id="nests"),
)


@pytest.fixture(scope="module")
def owls() -> Iterator[Bank]:
    with Bank.create("memory:", policies=[Bm25V2().choice]) as bank:
        consolidate(bank, OWLS)
        yield bank


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("which owls were there?", 0.0),
        ("which owls hoot?", 1.0),
        ("which owls did Athena?", 0.7),
        ("Athena or owls?", 1.0),  # a sentence begins with a capital
        ("Did it owls? Athena did.", 1.0),
        ("WHICH OWLS DID ATHENA?", 1.0),
        ("which owls until 1960?", 0.7),
        ("which owls did Athena, athena?", 1.0),
    ],
)
def test_of_words_that_no_item_has_names_count_less_and_stop_words_not_at_all(
    owls: Bank, query: str, unknown: float
) -> None:
    with owls.live() as view:
        found = view.retrieve(query, 6)
    [best] = [item for item in (*found.items, *found.withheld) if item.id == "owls"]
    # Two of three items have owls, and 20 strangers stand beside them.
    known, rarest = log(24 / 2.5), log(24 / 0.5)
    assert best.coverage == pytest.approx(known / (known + unknown * rarest))


SHARES = st.lists(st.floats(0, 0.5), max_size=4).map(tuple)
RANKINGS = st.lists(st.tuples(st.floats(0.01, 9), SHARES), max_size=30)


@settings(max_examples=examples(200))
@given(RANKINGS, st.integers(1, 5), st.floats(0, 1), st.floats(0, 9), st.floats(0, 1))
def test_what_was_decided_follows_from_what_is_recorded(
    ranking: list[tuple[float, tuple[float, ...]]], k: int, coverage: float, best: float, share: float
) -> None:
    ranked = tuple(item(f"i{n:02}", score, *shares) for n, (score, shares) in enumerate(ranking))
    least = Floor(coverage=coverage, best=best, share_of_best=share)
    choice = Given(ranking={"x": ranked}, least=least).choose("q", k, Filters(), None)  # type: ignore[arg-type]

    def passes(figures: Hit | WithheldHit) -> bool:
        assert figures.coverage is not None
        return figures.coverage >= coverage and figures.score >= best * share

    assert all(map(passes, choice.hits)) and not any(map(passes, choice.withheld))
    assert len(choice.hits) <= k and len(choice.withheld) <= limits.WITHHELD_HITS
    scores = [hit.score for hit in choice.hits]
    assert scores == sorted(scores, reverse=True)
    if len(choice.hits) < k and len(choice.withheld) < limits.WITHHELD_HITS:
        assert len(choice.hits) + len(choice.withheld) == len(ranked)


# ---------------------------------------------------------------- records


@pytest.mark.parametrize(
    "change",
    one_in(4, [
        lambda event: replace(event, withheld=event.withheld[1:]),
        lambda event: replace(event, withheld=event.withheld[::-1]),
        lambda event: replace(event, withheld=(replace(event.withheld[0], coverage=0.01), *event.withheld[1:])),
        lambda event: replace(event, floor=replace(event.floor, coverage=0.4)),
        lambda event: replace(event, floor=None),
        lambda event: replace(event, fallback="no-query-vector"),
        lambda event: replace(event, withheld=(), hits=tuple(
            Hit(id=each.id, rank=rank, score=each.score, coverage=each.coverage)
            for rank, each in enumerate(event.withheld, 1))),
    ]),
)  # fmt: skip
def test_what_was_withheld_is_verified_too(change: object) -> None:
    items = [Item.make(f"Count lamps {n}", f"Lamps are counted, way {n}.") for n in range(3)]
    with Bank.create("memory:", policies=[Bm25V2().choice]) as bank:
        consolidate(bank, items)
        with bank.live() as view:
            event = view.retrieve("which harbour buoys and lamps were repaired after storms?").event
        assert event.hits == () and len(event.withheld) == 3
        bank.append(event)
        check = bank.check(retrievals=True).retrievals
        assert check is not None and check.checked == 1
        wrong: MemoriesRetrieved = change(event)  # type: ignore[operator]
        bank.append(wrong)
        with pytest.raises(CheckFailed, match="1 of 2"):
            bank.check(retrievals=True)


def test_nothing_pending_rejected_or_of_judges_is_given_or_withheld() -> None:
    shown = Item.make("Count lamps", "Use COUNT over lamps.")
    hidden = {
        "pending": Item.make("Count lamps twice", "Use COUNT over lamps again."),
        "principle": Item.make("Count lamps fairly", "Lamps count.", "principle"),
        "episode": Item.make("Count lamps once", "Lamps counted.", "episode"),
        "rejected": Item.make("Count lamps badly", "Guess lamps."),
    }
    for policy in (Bm25V1(), Bm25V2(), Bm25V2(coverage=0, share_of_best=0)):
        with Bank.create("memory:", policies=[policy.choice]) as bank:
            consolidate(bank, [shown, *(each for name, each in hidden.items() if name != "pending")])
            held = hidden["pending"]
            consolidate(
                bank, [MemoriesExtracted(kind="manual", pending=True, heads=(held.head,), candidates=(held.text,))]
            )
            bank.retract(hidden["rejected"].id, because="wrong")
            with bank.live() as view:
                result = view.retrieve("count lamps", 9)
            assert {each.id for each in (*result.items, *result.withheld)} == {shown.id}
