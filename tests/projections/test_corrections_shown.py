"""Read models of banks whose verdicts change: what leaves, what comes back, and what a restarted reader still knows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rbank_es.events import (
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    Reliance,
    RunJudged,
)
from rbank_es.events.items import Item
from rbank_es.law import fold
from rbank_es.policies import Bm25V1
from rbank_es.projections.provenance import provenance
from rbank_es.projections.read_models import ReadModels, rebuild
from tests.fakes import FakeLog, dump
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


def test_the_reason_for_an_end_is_in_no_read_model(tmp_path: Path) -> None:
    forgotten = MemoriesForgotten(ids=("owl",), policy="bounded-2", why="secret words")
    shown = Shown(tmp_path, *learned("e1", "r1", OWL), forgotten)
    assert shown.state("owl") == "forgotten" and b"secret words" not in shown.path.read_bytes()


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
