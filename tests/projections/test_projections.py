"""Read models: what each view says of a small story, and what catching up, `only` and rebuilding do."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from rbank_es.errors import BadInput, BadPoint, ProjectionError
from rbank_es.events import (
    ContextBuilt,
    Decision,
    Event,
    Hit,
    JudgmentOverruled,
    LayerUse,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRetrieved,
    NoteLogged,
    Ref,
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.items import Item
from rbank_es.log.file.file_log import FileLog
from rbank_es.projections import PROJECTIONS, all_projections, view_texts
from rbank_es.projections.projection import ChangeBatch, Close, Insert, Put, Table
from rbank_es.projections.provenance import VOCABULARY, provenance
from rbank_es.projections.read_models import ReadModels, rebuild
from rbank_es.projections.view import View
from tests.fakes import FakeLog, dump
from tests.pools import uuid_of
from tests.strategies import stamped

LIMIT = Item.make("Put LIMIT first", "Ask for a few rows, then for all.", "success", tags=("sparql",), domain="uniprot")
GUESS = Item.make("Don't guess prefixes", "Read them from the schema.", "failure", desc="Guessing fails.")
AGAIN = Item.make("Put LIMIT first!", "Ask for few rows first.", "success")


def judged(run: str, verdict: str, id: str, purpose: str = "learning") -> RunJudged:
    fields: Any = {"run": run, "verdict": verdict, "purpose": purpose, "id": id}
    return RunJudged(judge="checks", judge_version="1", kind="lm", **fields)


def extracted(id: str, *items: Item, **fields: Any) -> MemoriesExtracted:
    heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
    return MemoriesExtracted(id=id, kind="success", heads=heads, candidates=texts, **fields)


def relied(run: str, judgment: str) -> tuple[Reliance]:
    return (Reliance(run=run, verdict="success", judgment=judgment),)


def consolidated(extraction: str, *decisions: tuple[str, Item, tuple[Item, ...]]) -> MemoriesConsolidated:
    decided = tuple(
        Decision(candidate=index, action=action, item=item.id, targets=tuple(target.id for target in targets))  # type: ignore[arg-type]
        for index, (action, item, targets) in enumerate(decisions)
    )
    return MemoriesConsolidated(extraction=extraction, policy="dedup-1", decisions=decided)


STORY: list[Event] = stamped(
    [
        RunStarted(run="a", task="Which taxa?", ontology="uniprot", executor="rlm", iterations_max=9),  # 1
        ContextBuilt(run="a", chars=5_000, layers=(LayerUse(layer="L2", chars=0, budget=600),), items=()),
        ToolCalled(run="a", tool="sparql_query", chars=300, step=1),
        ToolCalled(run="a", tool="sparql_query", chars=1_500, step=1, truncated=True),
        ToolCalled(run="a", tool="mem_get", step=2, error_code="timeout"),  # 5
        StepTaken(run="a", index=1, stdout_chars=40, prompt_chars=900, variables_n=2, variables_chars=70),
        StepTaken(run="a", index=2, stdout_chars=2, prompt_chars=1_200, variables_n=3, variables_chars=60),
        LmCalled(run="a", role="agent", model="m", tokens_in=100, tokens_out=10, cost_usd=0.25),
        LmCalled(run="a", role="sub", model="m", tokens_in=50),
        RunFinished(run="a", outcome="submitted", answer="9606", tokens_in=7, duration_s=2.5),  # 10
        judged("a", "success", "j1"),
        extracted("e1", LIMIT, GUESS, runs=("a",), relied=relied("a", "j1")),
        consolidated("e1", ("add", LIMIT, ()), ("add", GUESS, ())),
        RunStarted(run="b", task="Which labels?"),
        MemoriesRetrieved(id="r1", run="b", k=2, policy="bm25-1", hits=(Hit(id=LIMIT.id, rank=1, score=-1.0),)),  # 15
        ContextBuilt(
            run="b",
            chars=100,
            layers=(LayerUse(layer="L0", chars=9, budget=900), LayerUse(layer="L2", chars=9, budget=601)),
            items=(LIMIT.id, GUESS.id, "x", "y"),
        ),
        MemoriesRead(run="b", ids=(LIMIT.id,), how="get", chars=90),
        MemoriesRead(run="a", ids=(GUESS.id,), how="quote", chars=9),
        RunFinished(run="b", outcome="failed", iterations=3, lm_calls=4, tokens_in=7, error="it broke"),
        judged("b", "success", "j2"),  # 20
        judged("b", "failure", "j3", "scoring"),
        extracted("e2", AGAIN, runs=("b",), relied=relied("b", "j2")),
        consolidated("e2", ("skip", AGAIN, (LIMIT,))),
        MemoriesForgotten(ids=(GUESS.id,), policy="bounded-1"),
        JudgmentOverruled(
            id="j4",
            run="b",
            purpose="learning",
            verdict="failure",
            judge="me",
            judge_version="1",
            kind="human",
            by="me",
        ),  # 25
    ]
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ReadModels:
    models = ReadModels.open(tmp_path_factory.mktemp("story") / "projections.sqlite")
    models.catch_up(FakeLog(STORY))
    return models


def rows(models: ReadModels, view: str, **equal: Any) -> list[dict[str, Any]]:
    with models.live() as live:
        return live.rows(view, **equal)


def part(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


# ------------------------------------------------------------------------------------------------ the views


def test_items_show_words_state_support_and_usage(models: ReadModels) -> None:
    """A skipped duplicate is no item, but supports its target while its run is a success; a forgotten item keeps its
    words."""
    with models.live() as view:
        assert [row["id"] for row in view.items()] == sorted((LIMIT.id, GUESS.id))
        limit, guess = view.item(LIMIT.id), view.item(GUESS.id)
        assert limit and guess
        assert part(limit, "title", "state", "support", "uses") == ("Put LIMIT first", "active", 1, 1)
        assert part(limit, "wins", "losses", "domains", "vouched", "superseded_by") == (0, 1, '["uniprot"]', 0, "[]")
        assert part(limit, "born_seq", "ended_seq", "extraction", "erased") == (13, None, "e1", 0)
        assert json.loads(limit["tags"]) == ["sparql"]
        assert part(guess, "state", "support", "uses", "ended_seq", "polarity") == ("forgotten", 1, 1, 24, "failure")
        assert [row["id"] for row in view.items("active")] == [LIMIT.id]
        assert view.item(AGAIN.id) is None
    with models.as_of(24) as before_it_was_overruled:
        limit = before_it_was_overruled.item(LIMIT.id)
        assert limit and part(limit, "support", "wins", "losses", "domains") == (2, 1, 0, '["","uniprot"]')


def test_runs_show_outcome_totals_and_both_verdicts(models: ReadModels) -> None:
    """Totals are those of the calls, where there are any; iterations those of the end, else the distinct steps."""
    with models.live() as view:
        a, b = view.run("a"), view.run("b")
        assert a and b
        assert view.run("c") is None
    totals = ("lm_calls", "tokens_in", "tokens_out", "cost_usd", "iterations")
    assert part(a, *totals) == (2, 150, 10, 0.25, 2)
    assert part(b, *totals) == (4, 7, None, None, 3)
    assert part(a, "verdict", "judge", "kind", "score", "tool_calls", "steps") == (
        "success",
        "checks",
        "lm",
        None,
        3,
        2,
    )
    assert part(b, "verdict", "judge", "kind", "sure", "score") == ("failure", "me", "human", 0, "failure")
    assert b["items_injected"] == 4
    assert part(a, "task", "outcome", "answer", "duration_s") == ("Which taxa?", "submitted", "9606", 2.5)
    assert part(b, "outcome", "error", "started_seq", "finished_seq") == ("failed", "it broke", 14, 19)


def test_leakage_is_measured_per_run_and_tool(models: ReadModels) -> None:
    """Sizes are in characters; what was not recorded is NULL."""
    a, b = rows(models, "leakage_by_run", run="a")[0], rows(models, "leakage_by_run", run="b")[0]
    sizes = ("total_chars_returned", "max_single_return", "large_returns", "tool_calls", "red_flags")
    assert part(a, *sizes) == (1_800, 1_500, 1, 3, 2)
    assert part(b, *sizes) == (0, 0, 0, 0, 2)
    steps = ("stdout_chars", "variables_n", "variables_chars", "prompt_chars_max", "iterations")
    assert part(a, *steps) == (42, 3, 70, 1_200, 2)
    assert part(b, *steps) == (None, None, None, None, 3)
    assert part(a, "subcalls", "items_injected", "context_size") == (1, 0, 5_000)
    assert part(b, "subcalls", "items_injected", "context_size") == (0, 4, 100)
    columns = ("tool", "calls", "errors", "total_chars_returned", "max_single_return", "large_returns", "truncated")
    by_tool = {row["tool"]: part(row, *columns[1:]) for row in rows(models, "leakage_by_tool")}
    assert by_tool == {"mem_get": (1, 1, None, None, 0, 0), "sparql_query": (2, 0, 1_800, 1_500, 1, 1)}
    both = {row["tool"]: part(row, *columns[1:]) for row in rows(models, "leakage_by_run_and_tool", run="a")}
    assert both == by_tool


def test_red_flags_name_value_threshold_and_place(models: ReadModels) -> None:
    """A flag goes up above a threshold, not at it."""
    flags = {row["flag"]: part(row, "run", "value", "threshold", "seq", "tool") for row in rows(models, "red_flags")}
    assert flags == {
        "single_return": ("a", 1_500, 1_000, 4, "sparql_query"),
        "context_size": ("a", 5_000, 4_000, 2, None),
        "items_injected": ("b", 4, 3, 16, None),
        "l2_budget": ("b", 601, 600, 16, None),
    }


def test_item_usage_counts_every_item_that_was_used(models: ReadModels) -> None:
    """Unknown items too, without a title; once per run, however often they were read."""
    used = {row["item"]: part(row, "title", "uses", "wins", "win_rate") for row in rows(models, "item_usage")}
    assert used.keys() == {LIMIT.id, GUESS.id, "x", "y"}
    assert used[LIMIT.id] == ("Put LIMIT first", 1, 0, 0.0)
    assert used["x"] == (None, 1, 0, 0.0)
    with models.as_of(24) as before_it_was_overruled:
        assert before_it_was_overruled.usage()[LIMIT.id] == (1, 1)


def test_an_item_that_is_read_in_full_is_used_and_one_that_is_quoted_is_not(tmp_path: Path) -> None:
    log = [
        RunStarted(run="reads"),
        MemoriesRead(run="reads", ids=("x",), how="get", chars=9),
        MemoriesRead(run="reads", ids=("y",), how="quote", chars=9),
    ]
    models = ReadModels.open(tmp_path / "p.sqlite")
    models.catch_up(FakeLog(stamped(log)))
    assert [part(row, "item", "uses", "first_used_seq") for row in rows(models, "item_usage")] == [("x", 1, 2)]


def test_judged_runs_name_the_quarter_of_all_runs_in_which_they_began(tmp_path: Path) -> None:
    """From 1 to 4, whether or not the runs in between were judged."""
    runs = [f"run-{number}" for number in range(8)]
    log: list[Event] = [RunStarted(run=run) for run in runs]
    log += [judged(run, "success", uuid_of(900 + number)) for number, run in enumerate(runs) if run != "run-3"]
    models = ReadModels.open(tmp_path / "p.sqlite")
    models.catch_up(FakeLog(stamped(log)))
    quarters = {row["run"]: row["quarter"] for row in rows(models, "judged_runs")}
    assert quarters == {run: number // 2 + 1 for number, run in enumerate(runs) if run != "run-3"}


def test_lineage_leads_from_run_to_run(models: ReadModels) -> None:
    """Over judgment, extraction, item and retrieval; overruling is a judgment, and what ended an item is an edge."""
    edges = {part(row, "source", "relation", "target") for row in rows(models, "lineage_edges")}
    with models.as_of(24) as before_it_was_overruled:
        supports = before_it_was_overruled.rows("lineage_edges", relation="supports")
    assert [part(row, "source", "target", "seq") for row in supports] == [("e2#0", LIMIT.id, 23)]
    assert edges == {
        ("a", "judged_by", "j1"),
        ("j1", "led_to", "e1"),
        ("a", "drawn_from", "e1"),
        *(("e1", "drew", f"e1#{place}") for place in (0, 1)),
        *((name, "decided_by", name) for name in ("e1#0", "e1#1", "e2#0")),
        *((uuid_of(13, kind=0xA), "made", f"e1#{place}") for place in (0, 1)),
        ("e1#0", "born_as", LIMIT.id),
        ("e1#1", "born_as", GUESS.id),
        (LIMIT.id, "hit_in", "r1"),
        ("r1", "served", "b"),
        *((item, "used_in", "b") for item in (LIMIT.id, GUESS.id, "x", "y")),
        *((item, "injected_in", uuid_of(16, kind=0xA)) for item in (LIMIT.id, GUESS.id, "x", "y")),
        (uuid_of(16, kind=0xA), "given_to", "b"),
        ("b", "judged_by", "j2"),
        ("b", "judged_by", "j3"),
        ("b", "judged_by", "j4"),
        ("j2", "led_to", "e2"),
        ("b", "drawn_from", "e2"),
        ("e2", "drew", "e2#0"),
        (uuid_of(23, kind=0xA), "made", "e2#0"),
        (uuid_of(24, kind=0xA), "ended", GUESS.id),
    }


def test_provenance_can_be_queried_as_prov_o(models: ReadModels) -> None:
    """Every item that a run used leads back, in W3C PROV-O, to the runs that it was learned from."""
    from rdflib import Graph

    with models.live() as view:
        text, edges = "".join(provenance(view)), view.rows("lineage_edges")
    assert "rbank:Run" in text and "prov:used" in text, "no readable prefixes"
    graph = Graph().parse(data=text, format="turtle")
    learned = graph.query("""
        PREFIX prov: <http://www.w3.org/ns/prov#>
        SELECT DISTINCT ?run WHERE {
            <urn:rbank-es:run:b> prov:used ?item . ?item a prov:Entity .
            ?item prov:wasGeneratedBy/prov:used/prov:wasGeneratedBy/prov:wasInformedBy+ ?run .
            ?run a <https://rbank-es.invalid/vocabulary#Run>
        }""")
    assert [str(row[0]) for row in learned] == ["urn:rbank-es:run:a"]  # type: ignore[index]
    own = {
        (str(cause), str(relation).removeprefix(VOCABULARY), str(effect))
        for cause, relation, effect in graph
        if str(relation).removeprefix(VOCABULARY) in {edge["relation"] for edge in edges}
    }

    def iri(edge: dict[str, Any], end: str) -> str:
        return f"urn:rbank-es:{edge[end + '_kind']}:{quote(edge[end], safe='')}"

    assert own == {(iri(edge, "source"), edge["relation"], iri(edge, "target")) for edge in edges}


def test_health_follows_size_novelty_and_duplicates(models: ReadModels) -> None:
    """One row per event that may have changed the memory, everything so far counted."""
    found = rows(models, "health_over_time")
    columns = ("seq", "size", "candidates", "added", "skipped", "duplicate_rate", "novelty_rate", "uses")
    assert [part(row, *columns) for row in found] == [
        (11, 0, 0, 0, 0, None, None, 0),
        (13, 2, 2, 2, 0, 0.0, 1.0, 0),
        (20, 2, 2, 2, 0, 0.0, 1.0, 4),
        (23, 2, 3, 2, 1, 0.3333, 0.6667, 4),
        (24, 1, 3, 2, 1, 0.3333, 0.6667, 4),
        (25, 1, 3, 2, 1, 0.3333, 0.6667, 4),
    ]
    assert {row["win_rate_drift"] for row in found} == {None}


def test_drift_is_the_win_rate_of_the_last_uses_less_that_before(tmp_path: Path) -> None:
    """20 uses that were won, then 20 that were lost: the rate fell by 1."""
    events: list[Event] = []
    for number in range(40):
        events += [
            ContextBuilt(run=f"r{number}", chars=1, items=("i",)),
            judged(f"r{number}", "success" if number < 20 else "failure", ""),
        ]
    log = FakeLog(stamped([*events, MemoriesForgotten(ids=("i",), policy="never-1")]))
    models = ReadModels.open(tmp_path / "p.sqlite")
    models.catch_up(log)
    last = rows(models, "health_over_time")[-1]
    assert part(last, "win_rate_last", "win_rate_before", "win_rate_drift", "uses") == (0.0, 1.0, -1.0, 40)


# ------------------------------------------------------------------------------------------------ reading


def test_a_view_or_column_that_does_not_exist_is_bad_input(models: ReadModels) -> None:
    """The message lists what there is; nothing from a caller becomes SQL."""
    with models.live() as view:
        with pytest.raises(BadInput, match="no view 'sqlite_master'"):
            view.rows("sqlite_master")
        with pytest.raises(BadInput, match="no column"):
            view.rows("items", **{'id" OR 1 --': 1})
        assert view.rows("items", role=None) == view.rows("items")
    with pytest.raises(BadInput, match="no projection 'nonsense'; there are: memory_index"):
        PROJECTIONS.get("nonsense")


def test_views_have_the_documented_columns(models: ReadModels) -> None:
    """Names that people's queries and the dashboard rely on."""
    with models.live() as view:
        columns = {name: view.columns(name) for name in view_texts()}
    assert columns["items"][-12:] == (
        "domains", "vouched", "superseded_by", "state", "support", "uses", "wins", "losses", "born_seq", "ended_seq",
        "extraction", "erased",
    )  # fmt: skip
    assert columns["lineage_edges"] == ("source_kind", "source", "relation", "target_kind", "target", "seq")
    assert columns["red_flags"] == ("run", "flag", "value", "threshold", "seq", "tool")
    assert columns["item_usage"] == (
        "item", "title", "uses", "wins", "losses", "win_rate", "first_used_seq", "last_used_seq",
    )  # fmt: skip


def test_importing_the_read_models_loads_nothing_heavy() -> None:
    """Neither a graph library nor sqlite-utils, not even when they are built and searched."""
    code = (
        "import sys, tempfile, rbank_es.projections.read_models as r\n"
        "from tests.fakes import FakeLog\n"
        "with tempfile.TemporaryDirectory() as d:\n"
        "    r.rebuild(d + '/p.sqlite', FakeLog())\n"
        "    r.ReadModels.open(d + '/p.sqlite').live().search('anything')\n"
        "print(*sys.modules.keys() & {'rdflib', 'sqlite_utils', 'numpy'})"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


# ------------------------------------------------------------------------------------------------ catching up


def test_catching_up_applies_only_what_is_new(tmp_path: Path) -> None:
    """It says where it is, what it read and what was built anew; the second time there is nothing to do."""
    models = ReadModels.open(tmp_path / "deep" / "p.sqlite")
    first = models.catch_up(FakeLog(STORY), upto=13)
    assert (first.position, first.rebuilt["runs"]) == (13, "not built before")
    second = models.catch_up(FakeLog(STORY))
    assert (second.position, second.events, second.rebuilt) == (25, 12, {})
    assert set(second.projections) == {projection.name for projection in all_projections()}
    before = (models.path.read_bytes(), models.path.stat().st_mtime_ns)
    third = models.catch_up(FakeLog(STORY))
    assert (third.position, third.events, third.projections, third.rebuilt) == (25, 0, (), {})
    assert (models.path.read_bytes(), models.path.stat().st_mtime_ns) == before


def test_checkpoints_reach_the_end_of_the_log_even_where_nothing_is_relevant(tmp_path: Path) -> None:
    """Position and mark are those of the last event, whatever its type."""
    models, log = ReadModels.open(tmp_path / "p.sqlite"), FakeLog(STORY)
    models.catch_up(log)
    points = models.checkpoints()
    assert points.keys() == {projection.name for projection in all_projections()}
    reached = {(name, point.position, point.mark, point.version) for name, point in points.items()}
    assert reached == {(each.name, 25, log.mark(25), each.version) for each in all_projections()}
    assert log.synced > 0


def test_events_that_no_projection_reads_are_passed_and_not_counted(tmp_path: Path) -> None:
    models, log = ReadModels.open(tmp_path / "p.sqlite"), FakeLog(stamped([NoteLogged(note="x") for _ in range(4)]))
    first = models.catch_up(log, upto=3, only=["leakage"])
    second = models.catch_up(log, only=["leakage"])
    assert [(each.position, each.events) for each in (first, second)] == [(3, 0), (4, 0)]


def test_only_moves_the_projections_that_are_named(tmp_path: Path) -> None:
    """The others stay as they are; a view shows the position that all of them have reached."""
    models, log = ReadModels.open(tmp_path / "p.sqlite"), FakeLog(STORY)
    assert models.catch_up(log, only=["leakage"]).projections == ("leakage",)
    reached = {name: point.position for name, point in models.checkpoints().items()}
    assert reached == {projection.name: 25 if projection.name == "leakage" else 0 for projection in all_projections()}
    with models.live() as view:
        assert (view.position, view.rows("leakage_by_tool")) == (0, [])
    models.catch_up(log, upto=20, only=["runs", "usage"])
    models.catch_up(log)
    rebuild(tmp_path / "other.sqlite", log)
    assert dump(models.path) == dump(tmp_path / "other.sqlite")
    for nonsense in ([], ["nonsense"]):
        with pytest.raises(BadInput):
            models.catch_up(log, only=nonsense)


def test_rebuilding_some_keeps_the_rows_of_the_others(tmp_path: Path) -> None:
    """Even those that are damaged by hand stay so, which shows that they were not built again."""
    models, log = ReadModels.open(tmp_path / "p.sqlite"), FakeLog(STORY)
    models.catch_up(log)
    with closing(sqlite3.connect(models.path)) as connection, connection:
        connection.execute("DELETE FROM moments")
        connection.execute("DELETE FROM exposures")
    applied = models.rebuild(log, only=["usage"])
    assert applied.rebuilt == {"usage": "asked for"}
    assert (len(rows(models, "item_usage")), rows(models, "health_over_time")) == (4, [])
    models.rebuild(log)
    assert len(rows(models, "health_over_time")) == 6


@pytest.mark.parametrize("size", [1, 100])
def test_a_decision_about_what_is_extracted_later_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Nor does one under another item's id; whether all of it is in one batch or not."""
    monkeypatch.setattr("rbank_es.projections.projection.BATCH_EVENTS", size)
    early, wrong = consolidated("e1", ("add", LIMIT, ())), consolidated("e1", ("add", GUESS, ()), ("merge", LIMIT, ()))
    log = FakeLog(
        stamped([early, extracted("e1", LIMIT, GUESS), wrong, MemoriesForgotten(ids=(LIMIT.id,), policy="p")])
    )
    models = ReadModels.open(tmp_path / "p.sqlite")
    models.catch_up(log)
    assert rows(models, "items") == []


def test_progress_is_told_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the position reached and the one wanted, in a rebuild and in a catch-up."""
    monkeypatch.setattr("rbank_es.projections.projection.BATCH_EVENTS", 10)
    told: list[tuple[int, int]] = []
    models = ReadModels.open(tmp_path / "p.sqlite")
    models.catch_up(FakeLog(STORY), upto=12, on_batch=lambda *at: told.append(at))
    models.catch_up(FakeLog(STORY), on_batch=lambda *at: told.append(at))
    assert told == [(10, 12), (12, 12), (22, 25), (25, 25)]


def test_a_batch_ends_early_when_it_holds_much_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a few events with long texts don't fill the memory."""
    monkeypatch.setattr("rbank_es.projections.projection.BATCH_CHARS", 10)
    told: list[int] = []
    ReadModels.open(tmp_path / "p.sqlite").catch_up(FakeLog(STORY), on_batch=lambda at, _: told.append(at))
    assert told[:3] == [1, 10, 12]


def test_a_point_beyond_the_log_is_refused(tmp_path: Path) -> None:
    """By catching up, rebuilding and viewing alike."""
    models, log = ReadModels.open(tmp_path / "p.sqlite"), FakeLog(STORY)
    for refused in (models.catch_up, models.rebuild):
        with pytest.raises(BadPoint, match="ends at position 25"):
            refused(log, upto=26)
    with pytest.raises(BadPoint):
        models.as_of(26, log)


def test_opened_for_reading_only_nothing_is_written(tmp_path: Path) -> None:
    """Catching up is refused, and no file appears."""
    models = ReadModels.open(tmp_path / "p.sqlite", read_only=True)
    with pytest.raises(ProjectionError, match="reading only"):
        models.catch_up(FakeLog(STORY))
    assert list(tmp_path.iterdir()) == []
    assert models.checkpoints() == {}


def test_a_file_of_ones_own_has_nothing_beside_it(tmp_path: Path) -> None:
    """`rebuild` leaves one file, and replaces whatever stood there."""
    path = tmp_path / "then.sqlite"
    path.write_text("something else")
    applied = rebuild(path, FakeLog(STORY), upto=13)
    assert applied.position == 13
    assert list(tmp_path.iterdir()) == [path]
    with ReadModels.open(path).live() as view:
        assert (view.position, len(view.items())) == (13, 2)


def test_read_models_of_a_file_log_hold_long_texts_whole(tmp_path: Path) -> None:
    """A long text is a handle in the log; the words of items, tasks and answers are resolved, and can be searched."""
    long = Item.make("A long one", "word " * 5_000 + "needle", "success")
    with FileLog.create(tmp_path / "bank") as log:
        log.append([RunStarted(run="a", task="t" * 5_000), RunFinished(run="a", outcome="failed", answer="a" * 5_000)])
        appended = log.append([extracted("", long)])
        log.append([consolidated(appended.events[0].id, ("add", long, ()))])
        assert isinstance(next(log.read(after=2)).candidates[0], Ref)  # type: ignore[attr-defined]
        with ReadModels.open(tmp_path / "p.sqlite").as_of(log.position(), log) as view:
            run, item = view.run("a"), view.item(long.id)
            assert run and item
            assert (run["task"], run["answer"], item["content"]) == ("t" * 5_000, "a" * 5_000, long.content)
            assert [hit.id for hit in view.search("needle")] == [long.id]


# ------------------------------------------------------------------------------------------------ the engine


def test_the_handlers_are_pure_and_read_what_they_declare() -> None:
    """The same events give the same changes, and stay as they were."""
    for projection in all_projections():
        both = [projection.handlers_for(None) for _ in range(2)]
        for event in STORY:
            before = msgspec.json.encode(event)
            changes = [list(handlers[type(event)](event)) for handlers in both if type(event) in handlers]
            assert changes[:1] == changes[1:]
            assert msgspec.json.encode(event) == before


def test_every_declaration_has_a_digest_of_its_own_that_its_version_changes() -> None:
    """A change of version or of anything that decides what rows look like is a change of digest."""
    assert len({projection.digest for projection in all_projections()}) == len(all_projections())
    usage = PROJECTIONS.get("usage")
    assert msgspec.structs.replace(usage, version=2).digest != usage.digest
    assert msgspec.structs.replace(usage, settle=("DELETE FROM exposures",)).digest != usage.digest


STANDING = Table(name="standing", columns="k TEXT, value INTEGER", key=("k", "from_seq"), current=1)


def standing(*batches: Sequence[tuple[Insert | Close | Put, int]]) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(STANDING.ddl)
        for changes in batches:
            batch = ChangeBatch([STANDING])
            for change, seq in changes:
                batch.add(change, seq)
            batch.write(connection)
        return connection.execute("SELECT k, value, from_seq, to_seq FROM standing ORDER BY from_seq").fetchall()


def test_closing_reaches_rows_that_wait_and_rows_that_are_written() -> None:
    """Wherever the batch ends, `Put` ends the open row with that key, and `Close` ends it for good."""
    changes: list[tuple[Insert | Close | Put, int]] = [
        (Put("standing", ("a", 1, 1)), 1),
        (Put("standing", ("b", 5, 2)), 2),
        (Put("standing", ("a", 2, 3)), 3),
        (Close("standing", ("a",)), 4),
        (Close("standing", ("a",)), 5),
        (Insert("standing", ("a", 3, 6)), 6),
    ]
    expected = [("a", 1, 1, 3), ("b", 5, 2, None), ("a", 2, 3, 4), ("a", 3, 6, None)]
    for cut in range(len(changes) + 1):
        assert standing(changes[:cut], changes[cut:]) == expected


def test_views_stay_usable_from_another_thread(models: ReadModels) -> None:
    """An agent's tools run in threads of their own."""
    from concurrent.futures import ThreadPoolExecutor

    def count(view: View) -> int:
        return len(view.search("rows schema LIMIT", 5)) + len(view.rows("items"))

    with models.live() as view, ThreadPoolExecutor(4) as pool:
        assert set(pool.map(count, [view] * 20)) == {3}
