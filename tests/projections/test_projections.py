"""Read models: what each view says of a small story, and what catching up, `only` and rebuilding do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

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
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.items import Item
from rbank_es.projections import PROJECTIONS, all_projections
from rbank_es.projections.read_models import ReadModels, rebuild
from tests.fakes import FakeLog, dump
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


def test_item_usage_counts_every_item_that_was_used(models: ReadModels) -> None:
    """Unknown items too, without a title; once per run, however often they were read."""
    used = {row["item"]: part(row, "title", "uses", "wins", "win_rate") for row in rows(models, "item_usage")}
    assert used.keys() == {LIMIT.id, GUESS.id, "x", "y"}
    assert used[LIMIT.id] == ("Put LIMIT first", 1, 0, 0.0)
    assert used["x"] == (None, 1, 0, 0.0)
    with models.as_of(24) as before_it_was_overruled:
        assert before_it_was_overruled.usage()[LIMIT.id] == (1, 1)


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
