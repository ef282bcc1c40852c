"""Ranking by utility: BM25's best, moved by what their uses have proven; the same as of any position."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank, Item
from rbank_es.events import ContextBuilt, Event, Hit, MemoriesRead, MemoriesRetrieved, PolicySet, RunStarted
from rbank_es.extraction.candidates import consolidate
from rbank_es.law import Dedup, Exposure, fold, outcomes
from rbank_es.policies import Bm25V1
from rbank_es.system.proportion import proven_share
from rbank_es.tools.memory.item_search import search_items
from tests.cli.misled import judged
from tests.context.procedures_of_bank import procedures
from tests.effort import examples
from tests.policies.proven_rank import PROVEN, ProvenRanking
from tests.tools.tool_sessions import session_for

LAMPS = tuple(
    Item.make(f"Lamps, way {number}", " ".join(["lamps"] * (number + 1)) + f" and thing{number} apart", id=f"i{number}")
    for number in range(6)
)
RUNS = ("r1", "r2", "r3")
ALL = 10


def utility_bank(*policies: Any) -> Bank:
    """A bank in memory with six items about lamps, under policies."""
    bank = Bank.create("memory:", policies=[policy.choice for policy in policies])
    consolidate(bank, LAMPS)
    return bank


def ranked(bank: Bank, policy: Any = None, point: int | None = None) -> list[tuple[str, float]]:
    with bank.as_of(point) as view:
        return [(hit.id, hit.score) for hit in view.search("lamps", ALL, policy=policy)]


happenings = st.lists(
    st.one_of(
        st.builds(
            ContextBuilt,
            run=st.sampled_from(RUNS),
            chars=st.just(1),
            items=st.sampled_from(LAMPS).map(lambda item: (item.id,)),
        ),
        st.builds(
            MemoriesRead,
            run=st.sampled_from(RUNS),
            chars=st.just(1),
            how=st.just("get"),
            ids=st.sampled_from(LAMPS).map(lambda item: (item.id,)),
        ),
        st.builds(judged, st.sampled_from(RUNS), st.sampled_from(("success", "failure", "undecided"))),
        st.sampled_from(("either", "injected", "read")).map(
            lambda counted: PolicySet(policies=(ProvenRanking().choice, Exposure(counted=counted).choice))
        ),
    ),
    min_size=2,
    max_size=14,
)


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(happenings, st.integers(0, 14))
def test_the_ranking_is_that_of_its_definition_at_every_point(events: Sequence[Event], cut: int) -> None:
    """BM25's score times 1 + weight * the lower end of Wilson's interval of wins; read off the fold of that point."""
    with utility_bank(Dedup()) as bank:
        begun = bank.position
        bank.append(events)
        for point in {begun + min(cut, len(events)), bank.position}:
            known = outcomes(fold(bank.events(point=point, resolve=True)))
            shares = {id: proven_share(wins, wins + losses) for id, (wins, losses) in known.items()}
            plain = ranked(bank, Bm25V1(), point)
            moved = sorted((score * (1 + 2.0 * shares.get(id, 0.0)), id) for id, score in plain)
            assert ranked(bank, ProvenRanking(weight=2.0), point) == [(id, score) for score, id in moved]


@pytest.mark.slow
def test_retrievals_by_utility_are_verified_at_their_own_position() -> None:
    """Verdicts, uses and a change of attribution that come later change nothing in the check of earlier ones."""
    with utility_bank(ProvenRanking(), Dedup()) as bank:
        for number, verdict in enumerate(("success", "failure", "success", "success")):
            run = f"r{number}"
            layer = procedures(bank, "lamps", run=run)
            bank.append([RunStarted(run=run, task="lamps"), *layer.retrievals])
            bank.append([ContextBuilt(run=run, chars=1, items=layer.packed.items), judged(run, verdict)])  # type: ignore[arg-type]
        bank.set_policies({"attribution": {"counted": "read"}})
        bank.overrule("r0", "failure", reason="wrong")
        assert bank.check(retrievals=True).retrievals.checked == 8  # type: ignore[union-attr]
        bank.append(
            MemoriesRetrieved(
                mode="auto", k=1, policy="proven-1", query="lamps", hits=(Hit(id="i0", rank=1, score=-9),)
            )
        )
        with pytest.raises(Exception, match="now find other"):
            bank.check(retrievals=True)


def test_a_tool_searches_again_after_the_uses_of_a_judged_run_changed(tmp_path: Path) -> None:
    """An agent's next search sees a use that was recorded since its last one, because the ranking hangs on it."""
    with Bank.create(tmp_path / "bank") as bank:
        bank.set_policies({"retrieval": PROVEN})
        consolidate(bank, LAMPS)
        bank.append([RunStarted(run="r"), judged("r", "success")])
        session = session_for(bank)
        before = search_items(session, "lamps").hits
        bank.append([ContextBuilt(run="r", chars=1, items=(before[-1].id,))])
        found = search_items(session, "lamps")
        assert found.position == bank.position
        assert {hit.id: hit.score for hit in found.hits}[before[-1].id] < before[-1].score
