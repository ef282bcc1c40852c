"""Read models of banks whose verdicts change: what leaves, what comes back, and what a restarted reader still knows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rbank_es.events import (
    ContextBuilt,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    Reliance,
    RunJudged,
    RunStarted,
)
from rbank_es.events.items import Item
from rbank_es.law import fold
from rbank_es.policies import Bm25V1
from rbank_es.projections.provenance import provenance
from rbank_es.projections.read_models import ReadModels, rebuild
from tests.fakes import FakeLog, dump
from tests.pools import uuid_of
from tests.strategies import stamped

OWL = Item.make("Ask the owl", "The owl knows many taxa.", id="owl", domain="birds")
OWLS = Item.make("Ask the owls", "Owls know their labels.", id="owl", domain="labels")
FOX = Item.make("Ask the fox", "The fox knows one of the taxa.", id="fox", domain="beasts")


def judged(run: str, verdict: str, kind: str = "lm", **facts: Any) -> RunJudged:
    fields: dict[str, Any] = {"run": run, "verdict": verdict, "kind": kind, "purpose": "learning", **facts}
    return RunJudged(judge=f"the {kind}", judge_version="1", **fields)


def learned(id: str, run: str, item: Item, *, action: str = "add", on: Sequence[str] = (), **facts: Any) -> list[Event]:
    decision: dict[str, Any] = {"candidate": 0, "action": action, "item": item.id, "targets": tuple(on)}
    relied = (Reliance(run=run, verdict="success"),)
    return [
        MemoriesExtracted(
            id=id, kind="success", runs=(run,), relied=relied, heads=(item.head,), candidates=(item.text,), **facts
        ),
        MemoriesConsolidated(extraction=id, policy="append-2", decisions=(Decision(**decision),)),
    ]


class Shown:
    """Read models of a history, brought up to date by a new reader after each event."""

    def __init__(self, folder: Path, *events: Event) -> None:
        self.log = FakeLog(stamped(events))
        self.path = folder / "live.sqlite"
        for seq in range(1, len(events) + 1):
            ReadModels.open(self.path).catch_up(self.log, upto=seq)
        rebuild(folder / "rebuilt.sqlite", self.log)
        assert dump(self.path) == dump(folder / "rebuilt.sqlite")
        self.models = ReadModels.open(self.path)

    def item(self, id: str, seq: int | None = None) -> dict[str, Any] | None:
        with self.models.as_of(len(self.log.events) if seq is None else seq) as view:
            return view.item(id)

    def state(self, id: str, seq: int | None = None) -> str | None:
        row = self.item(id, seq)
        return None if row is None else str(row["state"])

    def found(self, query: str, seq: int | None = None, **filters: Any) -> list[tuple[str, str]]:
        with self.models.as_of(len(self.log.events) if seq is None else seq) as view:
            return [(hit.id, hit.title) for hit in view.search(query, 9, **filters)]


def test_a_verdict_takes_its_items_out_of_search_at_once_and_one_that_returns_brings_them_back(tmp_path: Path) -> None:
    """At every position, as of then; a judgment of lower authority changes nothing and opens no row."""
    shown = Shown(
        tmp_path,
        judged("r", "success"),
        *learned("e", "r", OWL),
        judged("r", "failure", "human"),  # 4
        judged("r", "success"),  # 5: weaker
        judged("r", "success", "human"),  # 6
    )
    found = [bool(shown.found("owl", seq)) for seq in range(7)]
    assert found == [False, False, False, True, False, False, True]
    assert [shown.state("owl", seq) for seq in (3, 4, 5, 6)] == ["active", "unsupported", "unsupported", "active"]
    ended = shown.item("owl", 5)
    assert ended and (ended["ended_seq"], ended["support"]) == (4, 0)
    verdicts = dump(shown.path)["verdicts"]
    assert [(row[2], row[5], row[-2], row[-1]) for row in sorted(verdicts, key=lambda row: row[-2])] == [  # type: ignore[arg-type,return-value]
        ("success", "lm", 1, 4), ("failure", "human", 4, 6), ("success", "human", 6, None),
    ]  # fmt: skip


def test_an_id_that_was_never_anything_but_unsupported_is_no_item(tmp_path: Path) -> None:
    """Until its verdict returns; it is born there."""
    shown = Shown(tmp_path, judged("r", "failure"), *learned("e", "r", OWL), judged("r", "success", "human"))
    assert shown.item("owl", 3) is None
    born = shown.item("owl")
    assert born and (born["state"], born["born_seq"]) == ("active", 4)


def test_the_words_of_an_item_and_what_search_finds_move_to_the_candidate_that_still_counts(tmp_path: Path) -> None:
    """The full-text index with them; as of before, the first words are found."""
    shown = Shown(
        tmp_path,
        *learned("e1", "r1", OWL),
        *learned("e2", "r2", OWLS, action="skip", on=("owl",)),
        judged("r1", "failure"),  # 5
    )
    assert shown.found("taxa", 4) == [("owl", "Ask the owl")] and shown.found("labels", 4) == []
    assert shown.found("labels") == [("owl", "Ask the owls")] and shown.found("taxa") == []
    then, now = shown.item("owl", 4), shown.item("owl")
    assert then and now
    assert (then["extraction"], then["support"], then["domains"]) == ("e1", 2, '["birds","labels"]')
    assert (now["extraction"], now["support"], now["domains"], now["born_seq"]) == ("e2", 1, '["labels"]', 2)


def test_an_item_is_near_every_domain_that_confirmed_it(tmp_path: Path) -> None:
    """As of the position: a domain counts while its candidate does."""
    shown = Shown(
        tmp_path,
        *learned("e1", "r1", OWL),
        *learned("e2", "r2", OWLS, action="skip", on=("owl",)),
        *learned("e3", "r3", FOX),
        judged("r2", "failure"),  # 7
    )
    strict = Bm25V1(domains="filter")
    assert [
        len(shown.found("taxa", 6, domain=domain, policy=strict)) for domain in ("birds", "labels", "beasts", "fish")
    ] == [1, 1, 1, 0]
    assert shown.found("taxa", domain="labels", policy=strict) == []
    assert len(shown.found("taxa", domain="birds", policy=strict)) == 1


def test_parts_of_a_correction_survive_a_restart_and_count_from_its_completion_or_never(tmp_path: Path) -> None:
    """What a correction has to look at does too, and is settled by its completion."""
    again = Decision(extraction="e2", candidate=0, action="supersede", item="fox", targets=("owl",))
    shown = Shown(
        tmp_path,
        *learned("e1", "r1", OWL),
        *learned("e2", "r2", FOX),
        judged("r3", "success"),
        MemoriesRetracted(ids=("hen",)),  # 6
        MemoriesConsolidated(again=True, correction="c", policy="dedup-2", decisions=(again,)),
        MemoriesForgotten(ids=("fox",), correction="never", policy="bounded-2", why="secret words"),
        CorrectionCompleted(correction="c", rule=1),  # 9
    )
    assert [shown.state("owl", seq) for seq in (6, 7, 8, 9)] == ["active", "active", "active", "superseded"]
    assert [shown.state("fox", seq) for seq in (8, 9)] == ["active", "active"]
    owl = shown.item("owl")
    assert owl and json.loads(owl["superseded_by"]) == ["fox"]
    with shown.models.as_of(8) as before, shown.models.as_of(9) as after:
        by_hand = {("candidate", "e1"), ("candidate", "e2"), ("cause", before_id(2)), ("cause", before_id(4))}
        named = {("item", "hen"), ("cause", before_id(6))}
        assert {(row["kind"], row["id"]) for row in before.rows("due")} == named | by_hand
        assert after.rows("due") == []
    assert b"secret words" not in shown.path.read_bytes()


def before_id(seq: int) -> str:
    return uuid_of(seq, kind=0xA)


def test_pending_items_are_shown_and_not_found_until_somebody_admits_them(tmp_path: Path) -> None:
    """An admission is an edge of its lineage."""
    shown = Shown(tmp_path, *learned("e", "r", OWL, pending=True), MemoriesAdmitted(ids=("owl",), by="me"))
    assert [(shown.state("owl", seq), len(shown.found("owl", seq))) for seq in (2, 3)] == [
        ("pending", 0),
        ("active", 1),
    ]
    pending = shown.item("owl", 2)
    assert pending and pending["ended_seq"] is None
    with shown.models.live() as view:
        edges = view.rows("lineage_edges", source_kind="admission")
    assert [(edge["source"], edge["relation"], edge["target"]) for edge in edges] == [(before_id(3), "admitted", "owl")]


def test_an_undecided_run_is_neither_a_win_nor_a_loss(tmp_path: Path) -> None:
    """The win rate is of decided runs; None where there are none."""
    uses = [ContextBuilt(run=run, chars=1, items=("owl",)) for run in ("a", "b", "c")]
    shown = Shown(tmp_path, *uses, judged("a", "success"), judged("b", "undecided"), judged("c", "failure"))
    rates = []
    for seq in (3, 4, 6):
        with shown.models.as_of(seq) as view:
            (row,) = view.rows("item_usage")
            rates.append((row["uses"], row["wins"], row["losses"], row["win_rate"]))
    assert rates == [(3, 0, 0, None), (3, 1, 0, 1.0), (3, 1, 1, 0.5)]


def test_what_is_sure_and_what_scores_is_shown_beside_the_verdict_of_a_run(tmp_path: Path) -> None:
    """Gold counts for scoring, and for learning only where the bank is supervised."""
    gold = judged("r", "success", "gold", purpose="scoring")
    shown = Shown(
        tmp_path, RunStarted(run="r"), judged("r", "failure", "check", sure=True), judged("r", "success", "gold"), gold
    )
    with shown.models.live() as view:
        row = view.run("r")
    assert row and [row[name] for name in ("verdict", "judge", "kind", "sure", "score")] == [
        "failure", "the check", "check", 1, "success",
    ]  # fmt: skip


def test_candidates_of_the_health_count_once_by_the_decision_in_force(tmp_path: Path) -> None:
    """Made again, a decision replaces the one before; undone, it is left out; as of before, it is as it was."""
    again = Decision(extraction="e2", candidate=0, action="skip", item="fox", targets=("owl",))
    shown = Shown(
        tmp_path,
        *learned("e1", "r1", OWL),
        *learned("e2", "r2", FOX),
        MemoriesConsolidated(again=True, policy="dedup-2", decisions=(again,)),  # 5
        DecisionUndone(extraction="e2", candidate=0),  # 6
        JudgmentOverruled(
            run="r1", purpose="learning", verdict="failure", judge="me", judge_version="1", kind="human", by="me"
        ),  # 7
    )
    with shown.models.live() as view:
        rows = {row["seq"]: row for row in view.rows("health_over_time")}
    assert {seq: (row["size"], row["candidates"], row["added"], row["skipped"]) for seq, row in rows.items()} == {
        2: (1, 1, 1, 0), 4: (2, 2, 2, 0), 5: (1, 2, 1, 1), 6: (1, 1, 1, 0), 7: (0, 1, 1, 0),
    }  # fmt: skip


def test_lineage_names_what_ended_and_what_restored_each_item(tmp_path: Path) -> None:
    """A verdict, a person, a correction; in PROV-O, only the end in force invalidates."""
    from rdflib import PROV, Graph, URIRef

    shown = Shown(
        tmp_path,
        *learned("e1", "r1", OWL),
        *learned("e2", "r2", FOX),
        judged("r1", "failure", "human", id="verdict-1"),  # 5
        judged("r1", "success", "human", id="verdict-2"),
        MemoriesRetracted(id="retraction-1", ids=("fox", "owl"), how="rejected"),  # 7
        MemoriesRestored(id="restoration-1", ids=("owl",)),
    )
    with shown.models.live() as view:
        edges = [edge for edge in view.rows("lineage_edges") if edge["relation"] in ("ended", "restored")]
        graph = Graph().parse(data="".join(provenance(view)), format="turtle")
    assert sorted((edge["seq"], edge["source"], edge["relation"], edge["target"]) for edge in edges) == [
        (5, "verdict-1", "ended", "owl"),
        (6, "verdict-2", "restored", "owl"),
        (7, "retraction-1", "ended", "fox"),
        (7, "retraction-1", "ended", "owl"),
        (8, "restoration-1", "restored", "owl"),
    ]
    fox, owl = (URIRef(f"urn:rbank-es:item:{name}") for name in ("fox", "owl"))
    assert set(graph.objects(fox, PROV.wasInvalidatedBy)) == {URIRef("urn:rbank-es:retraction:retraction-1")}
    assert not set(graph.objects(owl, PROV.wasInvalidatedBy))


@pytest.mark.slow
def test_an_item_with_a_thousand_landings_is_followed_like_any_other(tmp_path: Path) -> None:
    """A reader that restarts finds all of them again when one falls."""
    events: list[Event] = [*learned("e", "r", OWL)]
    for number in range(1_000):
        events += learned(f"e{number}", f"r{number}", FOX, action="skip", on=("owl",))
    log = FakeLog(stamped([*events, judged("r500", "failure"), judged("r", "failure")]))
    models = ReadModels.open(tmp_path / "p.sqlite")
    models.catch_up(log, upto=len(events))
    models.catch_up(log)
    state = fold(log.events)
    with models.live() as now, models.as_of(len(events) + 1) as one_fell:
        owl, before = now.item("owl"), one_fell.item("owl")
    assert owl and before
    assert (owl["state"], owl["support"]) == (state.items["owl"].state, state.items["owl"].support)
    assert (before["state"], before["support"]) == ("active", 1_000)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["merge", "supersede", "skip"])
def test_a_decision_by_hand_that_names_a_target_twice_counts_once(tmp_path: Path, action: str) -> None:
    """In a reader that goes on, in one that begins there, and in the fold: after another verdict, too."""
    shown = Shown(
        tmp_path,
        *learned("e1", "r1", OWL),
        *learned("e2", "r2", FOX, action=action, on=("owl", "owl", "nobody", "owl")),
        judged("r1", "failure"),
        judged("r1", "success"),
    )
    for seq in (4, 5, 6):
        owl, entry = shown.item("owl", seq), fold(shown.log.events[:seq]).items["owl"]
        assert owl and (owl["state"], owl["support"]) == (entry.state, entry.support)
        assert json.loads(owl["superseded_by"]) == list(entry.superseded_by) and len(entry.superseded_by) <= 1
    assert fold(shown.log.events).items["owl"].support == (2 if action == "skip" else 1)
