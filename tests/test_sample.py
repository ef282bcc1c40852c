"""The sample bank: it is what its script makes, it says that it is scripted, and it shows what it is there to show."""

from __future__ import annotations

import importlib.util
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.digests import state_digests
from rbank_es.events import (
    BankCreated,
    ContextBuilt,
    Decision,
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesForgotten,
    MemoriesRetracted,
    RunFinished,
    RunJudged,
    RunStarted,
    ToolCalled,
    type_of,
)
from rbank_es.events.codec import TYPES
from rbank_es.exporters import export
from rbank_es.importers import import_paths
from rbank_es.state import State

LOGS = Path(__file__).resolve().parents[1] / "logs"
SAMPLE = LOGS / "sample"
LARGEST_BYTES = 400 * 1024


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    copy = tmp_path_factory.mktemp("sample") / "sample"
    shutil.copytree(SAMPLE, copy, ignore=shutil.ignore_patterns("derived", "lock"))
    with Bank.open(copy) as opened:
        yield opened


@pytest.fixture(scope="module")
def state(bank: Bank) -> State:
    return bank.state()


def of(bank: Bank, *classes: type[Any]) -> list[Any]:
    return list(bank.events(types={type_of(cls) for cls in classes}, resolve=True))


def decisions(bank: Bank, action: str) -> list[Decision]:
    events = of(bank, MemoriesConsolidated)
    return [decision for event in events for decision in event.decisions if decision.action == action]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_makes_the_same_bank_every_time_and_it_is_the_one_that_is_kept(tmp_path: Path, state: State) -> None:
    """Twice the same bytes; of the kept one, the same state and the same events at the same times."""
    script = load(LOGS / "make_sample.py")
    one, two = script.make(tmp_path / "one" / "sample"), script.make(tmp_path / "two" / "sample")
    files = sorted(path.name for path in one.iterdir())
    assert files == sorted(path.name for path in two.iterdir())
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in files)
    with Bank.open(one) as made, Bank.open(SAMPLE) as kept:
        assert state_digests(made.state()) == state_digests(state)
        pairs = zip(made.events(), kept.events(), strict=True)
        assert all((type(a), a.at) == (type(b), b.at) for a, b in pairs)


def test_it_verifies_with_every_retrieval(bank: Bank) -> None:
    """Each recorded search finds the same again, at its own position."""
    verified = bank.verify(retrievals=True)
    assert verified.log.torn is None
    assert verified.retrievals is not None
    assert verified.retrievals.checked >= 40
    assert (verified.retrievals.unverifiable, verified.retrievals.different) == (0, ())


def test_it_is_small_and_holds_its_log_only() -> None:
    """What the log derives isn't kept."""
    kept = [path for path in SAMPLE.iterdir() if path.name not in ("derived", "lock")]
    assert [path.suffix for path in kept] == [".jsonl"]
    assert sum(path.stat().st_size for path in kept) < LARGEST_BYTES


def test_it_says_that_it_is_scripted(bank: Bank) -> None:
    """The bank in its purpose, every run in its start, every call of a model in its parameters."""
    [created] = of(bank, BankCreated)
    assert "scripted" in created.purpose.lower()
    assert created.name == "sample"
    assert all(run.scripted and run.model == "scripted" for run in of(bank, RunStarted))
    assert all(call.parameters["scripted"] is True for call in bank.events(types={"lm_called"}))  # type: ignore[attr-defined]


def test_it_shows_every_way_in_which_a_run_ends(bank: Bank, state: State) -> None:
    """At least twenty runs; successes and failures; submitted, forced at the limit, and failed."""
    assert len(state.runs) >= 20
    assert set(Counter(run.outcome for run in state.runs.values())) == {"submitted", "forced_at_limit", "failed"}
    verdicts = Counter(verdict.success for (_, purpose), verdict in state.verdicts.items() if purpose == "learning")
    assert verdicts[True] >= 15 and verdicts[False] >= 5
    assert any(judged.purpose == "scoring" for judged in of(bank, RunJudged))
    assert all(run.error for run in of(bank, RunFinished) if run.outcome == "failed")


def test_an_overruled_judgment_has_consequences(bank: Bank, state: State) -> None:
    """The verdict changes, the item that was learnt from it is retracted, and a principle for the judge is kept."""
    [overruled] = of(bank, JudgmentOverruled)
    [retracted] = of(bank, MemoriesRetracted)
    assert retracted.because == overruled.id
    assert state.verdicts[overruled.run, "learning"].success is False
    assert state.items[retracted.ids[0]].state == "retracted"
    assert bank.state(overruled.seq - 1).verdicts[overruled.run, "learning"].success is True
    principles = [entry for entry in state.items.values() if entry.item.src == "principle"]
    assert principles and not {entry.item.id for entry in principles} & {hit for hit in hits(bank)}


def hits(bank: Bank) -> set[str]:
    events: list[Any] = list(bank.events(types={"memories_retrieved"}))
    return {hit.id for event in events for hit in event.hits}


def test_items_are_skipped_superseded_forgotten_and_retracted(bank: Bank, state: State) -> None:
    """A near duplicate supports the item that it repeats; the rest ended in the ways there are."""
    skipped = decisions(bank, "skip")
    assert skipped and all(decision.reason == "near-duplicate" for decision in skipped)
    assert all(state.items[decision.targets[0]].support > 1 for decision in skipped)
    states = Counter(entry.state for entry in state.items.values())
    assert min(states[name] for name in ("active", "superseded", "forgotten", "retracted")) >= 1
    assert len(of(bank, MemoriesForgotten)) >= 1


def test_it_raises_every_red_flag(bank: Bank) -> None:
    """A large return, more than three items injected, a context over 4,000 characters."""
    with bank.as_of() as view:
        flags = Counter(row["flag"] for row in view.rows("red_flags"))
    assert set(flags) == {"single_return", "items_injected", "context_size"}
    assert any(len(event.items) > 3 for event in of(bank, ContextBuilt))
    assert any((event.chars or 0) > 1000 for event in of(bank, ToolCalled))


def test_the_bank_gets_better_with_time(bank: Bank) -> None:
    """The win rate of the last twenty uses is above that of the twenty before."""
    with bank.as_of() as view:
        last = view.rows("health_over_time")[-1]
    assert last["uses"] >= 40
    assert last["win_rate_drift"] > 0


def test_time_passes_as_it_would(bank: Bank) -> None:
    """Over some weeks of 2026, and never backwards."""
    times = [event.at for event in bank.events()]
    assert times == sorted(times)
    assert times[0][:7] == "2026-03" and times[-1][:7] == "2026-04"


def test_it_uses_most_of_the_vocabulary(bank: Bank) -> None:
    """What it leaves out are rare things."""
    used = {type_of(event) for event in bank.events()}
    assert TYPES.keys() - used == {
        "bank_forked",
        "content_erased",
        "decision_undone",
        "experiment_finished",
        "experiment_started",
        "memories_restored",
    }


def test_it_goes_through_an_export_of_events(bank: Bank, state: State, tmp_path: Path) -> None:
    """The same state in another bank, and every retrieval still holds there."""
    (tmp_path / "events.jsonl").write_bytes(b"".join(export(bank, None, "events")))
    with Bank.create(tmp_path / "other", unsafe_no_sync=True) as other:
        import_paths(other, [tmp_path / "events.jsonl"])
        assert state_digests(other.state()) == state_digests(state)
        checked = other.verify(retrievals=True).retrievals
        assert checked is not None and not checked.different
